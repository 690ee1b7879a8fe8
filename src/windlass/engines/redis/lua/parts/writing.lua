-- Part: a server that is out of memory refuses here, before anything is written: later writes of a script that has begun
-- are let through or refused one by one, and Lua does not roll back.

call('HSETNX', KEYS[1], 'schema', ARGV[2])
