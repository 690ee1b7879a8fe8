-- Part: a server that is out of memory refuses here, before anything is written.

call('HSETNX', KEYS[1], 'schema', ARGV[2])
