"""Which real servers do tests run against, and how are they hurt? Nothing here imitates a server.

Read in this order: `binaries.py` (where the programs are), `process.py` (a server's process, which never outlives the
tests), `redis_server.py` (one Redis or Valkey), `namespace.py` (a part of one for a single test) and `fixtures.py`,
which every test folder can use. `cluster.py` and `sentinel.py` put several servers together. `leaks.py` sees whether a
test left a key that the engine's key map does not know.

`proxy.py` stands between a client and a server and spoils what passes: `faults.py` says how, `wire.py` does it to one
connection. `tls.py` makes it speak TLS, which the binaries that we have do not know.

Whoever hurts a server starts one of his own (`new_server`, `own_cluster`, `own_watched`): the shared ones are never
stopped, frozen or reconfigured. No server listens anywhere but on 127.0.0.1 and a socket in its own folder.
"""
