"""Scripts as jobs: files of allowed folders, run as processes of their own by a runner that runs no user's code.

files.py    which file is meant, opened so that nobody can put another in its place
boot.py     what runs before a Python script, in its process
child.py    one running script: started within its bounds, its output read, its end known
descent.py  what a script has started, wherever that has gone
ends.py     what an end means for its job
runner.py   the process that owns the scripts of a worker
"""
