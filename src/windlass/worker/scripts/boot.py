"""What runs before a Python script, in its process: the script is read from a descriptor, and finds itself at its path.

Given to the interpreter as text, so that it imports nothing of ours; a traceback leaves its own line out.
"""

from __future__ import annotations

from typing import Final

BOOT: Final = """
import sys
descriptor, path, *words = sys.argv[1:]
with open(int(descriptor), "rb") as file:
    source = file.read()
main = sys.modules["__main__"].__dict__
def show(kind, error, trace, *, shown=sys.__excepthook__):
    rest = trace and trace.tb_next
    shown(kind, error.with_traceback(rest), rest)
sys.excepthook = show
sys.argv[:] = [path, *words]
sys.path.insert(0, path.rpartition("/")[0] or "/")
main.update(__file__=path, __cached__=None)
code = compile(source, path, "exec", dont_inherit=True)
del descriptor, path, words, file, source, main, show, sys
exec(globals().pop("code"))
"""
