"""Whether a server can be trusted with jobs: its version, role, memory, persistence, and the rights of our user.

`look` asks the server, `examine` judges what it said: a small function per question, none of which changes anything.
`admit` makes a start of it: the first problem is an error, warnings are sentences for people. It is done at every open,
and again when the server is another one than before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from windlass.core.errors import AccessDenied, StoreError, UnfitServer
from windlass.core.limits import show_memory
from windlass.engines.findings import Finding, Level, ok, problem, warning
from windlass.engines.redis.address import Address
from windlass.engines.redis.link import Link
from windlass.engines.redis.script import Script

Version = tuple[int, ...]

OLDEST: Final[Version] = (6, 2)
ASKED: Final = ("appendfsync", "save")
"""What only CONFIG tells; the rest is in INFO, which managed servers do not hide."""
NEARLY_FULL: Final = 0.8

LUA_FIXED: Final[dict[str, tuple[Version, ...]]] = {
    "Redis": ((6, 2, 20), (7, 2, 11), (7, 4, 6), (8, 0, 4), (8, 2, 2)),
    "Valkey": ((7, 2, 11), (8, 0, 6), (8, 1, 4)),
}
"""CVE-2025-49844: the first version of each branch without it; branches after the last never had it."""
UNBLOCKING: Final[tuple[Version, Version]] = ((7, 2, 0), (8, 6, 3))
"""CVE-2026-23479: the first Redis that has it, and the first that has not."""

# Since Redis 7 a script can ask what its user may do; an older server says it when something is first done. Every
# question is a whole command, whose keys and channels are ours: asked about EVAL without arguments, for a user with few
# keys, Valkey 9.1 crashes. A command that the server does not have is one that nobody may run.
_PROBE: Final = Script(
    "probe",
    b"""local key, missing = KEYS[1], {}
local may = redis.acl_check_cmd
if not may then return missing end
local function ask(right, ...)
  local known, allowed = pcall(may, ...)
  if not (known and allowed) then missing[#missing + 1] = '+' .. right end
end
for place = 2, #ARGV do
  local right = ARGV[place]
  local command, of_it = string.match(right, '^([^|]+)|?(.*)$')
  if command == 'eval' or command == 'evalsha' then
    ask(right, command, ARGV[1], '1', key)
  elseif of_it ~= '' then
    ask(right, command, of_it, key)
  else
    ask(right, command, key, key, key, key, key, key)
  end
end
return missing
""",
)


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a server said of itself."""

    info: dict[str, str]
    config: dict[str, str]
    missing: tuple[str, ...] = ()
    """Rights that our user lacks, as ACL SETUSER writes them."""

    @property
    def product(self) -> str:
        return "Valkey" if "valkey_version" in self.info else "Redis"

    @property
    def version(self) -> Version:
        text = self.info.get("valkey_version") or self.info.get("redis_version", "")
        return tuple(int(part) for part in re.findall(r"\d+", text)[:3])

    def __str__(self) -> str:
        return f"{self.product} {'.'.join(map(str, self.version))}"


def look(link: Link, commands: Iterable[str]) -> Seen:
    """Asks the server about itself, and whether our user may run these commands."""
    missing: list[bytes] = link.run(_PROBE, [_PROBE.sha, *sorted(commands)], repeat=True)
    return Seen(info=_info(link), config=_config(link), missing=tuple(right.decode() for right in missing))


def _info(link: Link) -> dict[str, str]:
    try:
        text: bytes = link.ask(b"INFO")
    except AccessDenied:
        return {}
    lines = (line.partition(":") for line in text.decode("utf-8", "replace").splitlines())
    return {name: value for name, colon, value in lines if colon}


def _config(link: Link) -> dict[str, str]:
    """Settings by name; none where the server hides them."""
    known: dict[str, str] = {}
    for name in ASKED:
        try:
            found: Sequence[bytes] = link.ask(b"CONFIG", b"GET", name)
        except AccessDenied:
            break
        except StoreError as error:
            if "unknown command" not in error.message:
                raise
            break  # managed servers rename it, or leave it out
        if found:
            known[name] = found[1].decode()
    return known


def examine(seen: Seen, address: Address) -> Iterator[Finding]:
    """Everything there is to ask of a server."""
    yield _rights(seen, address)
    if not seen.info:
        said = "The server does not tell about itself: version, role, eviction and persistence are unknown."
        yield warning("server", said, f"On the server: ACL SETUSER {address.login.user or 'default'} +info")
        return
    yield _version(seen)
    yield from _flaws(seen)
    yield _role(seen, address)
    yield _eviction(seen)
    yield from _memory(seen)
    yield _durability(seen)
    yield from _failover(seen, address)


def admit(findings: Iterable[Finding]) -> tuple[str, ...]:
    """What people should see; the first problem is raised instead."""
    notices: list[str] = []
    for finding in findings:
        if finding.level is Level.PROBLEM:
            kind = AccessDenied if finding.name == "rights" else UnfitServer
            raise kind(finding.said, finding.todo)
        if finding.level is Level.WARNING:
            notices.append(f"{finding.said} {finding.todo}")
    return tuple(notices)


def _rights(seen: Seen, address: Address) -> Finding:
    if not seen.missing:
        return ok("rights", "The user may run what Windlass runs, as far as the server tells.")
    user = address.login.user or "default"
    commands = ", ".join(right[1:].upper() for right in seen.missing)
    grants = " ".join(seen.missing)
    if {"+publish", "+subscribe"} & set(seen.missing):  # the server does not say whether command or channel is missing
        grants += f" '&{address.prefix.decode()}*'"
    return problem("rights", f"The user {user!a} may not run {commands}.", f"Run: ACL SETUSER {user} {grants}")


def _version(seen: Seen) -> Finding:
    if seen.version < OLDEST:
        return problem("version", f"{seen} is too old.", "Use Redis 6.2 or newer, or Valkey.")
    return ok("version", f"{seen}.")


def _flaws(seen: Seen) -> Iterator[Finding]:
    if _has_lua_flaw(seen.product, seen.version):
        said = f"{seen} has CVE-2025-49844: whoever may run scripts there can run anything on its host."
        yield warning("flaws", said, "Update it.")
    first, fixed = UNBLOCKING
    if seen.product == "Redis" and first <= seen.version < fixed:
        said = f"{seen} has CVE-2026-23479: blocking pops can crash it, or worse; Windlass uses none, others there may."
        yield warning("flaws", said, "Update it to 8.6.3.")


def _has_lua_flaw(product: str, version: Version) -> bool:
    fixes = LUA_FIXED[product]
    of_branch = [fixed for fixed in fixes if fixed[:2] == version[:2]]
    return version < of_branch[0] if of_branch else version[:2] < fixes[-1][:2]


def _role(seen: Seen, address: Address) -> Finding:
    if seen.info.get("role") == "slave":
        master = seen.info.get("master_host", "unknown")
        said = f"The server is a replica of {master}:{seen.info.get('master_port', '?')}."
        return problem("role", said, "Give the URL of its master, or of its sentinels.")
    if seen.info.get("cluster_enabled") == "1" and address.kind != "cluster":
        todo = "Begin the URL with redis+cluster://, and name some of its nodes."
        return problem("role", "The server is a node of a Cluster.", todo)
    return ok("role", "It is a master.")


def _eviction(seen: Seen) -> Finding:
    policy = seen.info.get("maxmemory_policy")
    if policy is None:
        said = "The server does not tell its maxmemory-policy: any but noeviction loses jobs when memory is short."
        return warning("eviction", said, "Look that it is noeviction.")
    if policy != "noeviction":
        said = f"The server's maxmemory-policy is {policy}: it would remove jobs when memory is short."
        return problem("eviction", said, "Run there: CONFIG SET maxmemory-policy noeviction, and CONFIG REWRITE")
    return ok("eviction", "It removes no job when memory is short (noeviction).")


def _memory(seen: Seen) -> Iterator[Finding]:
    """How much of its memory is used, and what happens when it is full."""
    if "used_memory" not in seen.info or "maxmemory" not in seen.info:
        return
    # The server leaves what it keeps for replicas and for its log out of account, too.
    used = int(seen.info["used_memory"]) - int(seen.info.get("mem_not_counted_for_evict", 0))
    limit = int(seen.info["maxmemory"])
    if not limit:
        said = f"{show_memory(used)} are used, and no limit is set (maxmemory 0): it may use all that its machine has."
        yield ok("memory", f"{said} With a limit it would refuse new jobs when it is full.")
        return
    said = f"{show_memory(used)} of {show_memory(limit)} are used, {100 * used // limit} % (maxmemory)."
    if used < NEARLY_FULL * limit:
        yield ok("memory", f"{said} At 100 % new jobs are refused, and those that are there go on.")
        return
    refused = "New jobs are refused" if used >= limit else "At 100 % new jobs are refused"
    todo = "Raise maxmemory there, or keep less: results, logs, jobs that ended."
    yield warning("memory", f"{said} {refused}; those that are there go on.", todo)


def _durability(seen: Seen) -> Finding:
    """What it means now that a job was acknowledged."""
    # Not by its configuration and a restart: that begins with an empty log, and all jobs are gone.
    todo = "On the running server: CONFIG SET appendonly yes, and when it has rewritten its log, CONFIG REWRITE."
    if seen.info.get("aof_enabled") == "1":
        match seen.config.get("appendfsync"):
            case "always":
                return ok("durability", "What is acknowledged is on the server's disk (appendfsync always).")
            case "everysec":
                said = "A crash of the server's host may lose the last second of what was acknowledged"
                return ok("durability", f"{said} (appendfsync everysec).")
            case "no":
                said = "A crash of the server's host may lose half a minute of what was acknowledged (appendfsync no)."
                return warning("durability", said, "Set appendfsync everysec or always.")
            case _:
                said = "The server keeps a log on its disk, and does not tell how often it is synced"
                return ok("durability", f"{said}: a crash may lose the last of what was acknowledged.")
    save = seen.config.get("save")
    if save == "":
        return warning("durability", "The server keeps nothing on its disk: a restart loses all jobs.", todo)
    said = "The server keeps snapshots at most: a crash loses minutes of what was acknowledged"
    return warning("durability", f"{said} ({f'save {save}' if save else 'its settings are hidden'}).", todo)


def _failover(seen: Seen, address: Address) -> Iterator[Finding]:
    if address.kind in {"sentinel", "cluster"} or seen.info.get("connected_slaves", "0") != "0":
        said = "A failover to a replica may lose the last of what was acknowledged, whatever is set"
        yield ok("failover", f"{said}: replicas follow a moment later.")
