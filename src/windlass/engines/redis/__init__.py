"""Where jobs live: a Redis or Valkey server. Scripts in Lua change them; each happens whole or not at all.

In reading order: `engine` (the verbs), lua/ (a script for each, and the parts and modules they share, put together by
`scripts`), `values` (what goes to scripts and comes back), `requests` and `rows` (what is stored), `keymap` (under
which keys), `search`, `listen`. Below them the way to the server: `address` (what a URL says), `link` (calls that come
back with an answer or one clear error), `ear` (sleeping until something is published), `wire` (one connection),
`route` (which node has our keys), `refusals` and `told` (what errors mean), `examine` (whether a server can be trusted
with jobs), `commands` (what our user must be allowed to run), `identity` (whether a store is still the one that was
opened).

Never here: a key without the namespace's hash tag, a command that blocks the server, a password in a message.
"""

from windlass.engines.redis.address import read_address
from windlass.engines.redis.engine import RedisEngine

__all__ = ["RedisEngine", "read_address"]
