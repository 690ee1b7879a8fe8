"""Where jobs live: a Redis or Valkey server. Scripts in Lua change them; each happens whole or not at all.

In reading order: `address` (what a URL says), `wire` (one connection), `route` (which node has our keys), `link` (calls
that come back with an answer or one clear error), `ear` (sleeping until something is published), `refusals` (what a
server's errors mean), `examine` (whether a server can be trusted with jobs), `script`.

Never here: a key without the namespace's hash tag, a command that blocks the server, a password in a message.
"""
