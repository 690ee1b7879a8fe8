"""One frozen value, checked once, that says where each of its parts came from.

    arguments  >  WINDLASS_* environment  >  windlass.toml or [tool.windlass] in pyproject.toml  >  defaults

The nearest folder with such a file, from the start folder upwards, is the only one read. Names drop the unit
that the fields inside carry, because values bring their own: `lease = "15s"` sets `lease_s`.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from windlass.core.durations import SECOND_US, show, to_us
from windlass.core.errors import BadSetting, InputError
from windlass.core.limits import MIB, Limits, setting_name, show_bytes, to_bytes
from windlass.core.names import near_miss
from windlass.core.redact import SECRET_NAMES, redact_url

PREFIX: Final = "WINDLASS_"
URL_FILE: Final = "WINDLASS_URL_FILE"
#: Variables that are no settings: a file that holds one, what the command line reads, and what a script is told.
OTHERS: Final = frozenset(
    f"{PREFIX}{name}"
    for name in (
        "URL_FILE",
        "APP",
        "QUEUES",
        "CONCURRENCY",
        "POOL",
        "PROCESSES",
        "MEMORY",
        "DRAIN",
        "LOG_LEVEL",
        "LOG_FORMAT",
        "JOB",
        "SCRIPT",
    )
)
#: A secret file holds one URL; reading more would only load what somebody pointed at by mistake.
_URL_FILE_BYTES: Final = 64 * 1024
#: What a program needs to find its tools, its language and its time zone, and nothing that may be a secret.
SCRIPT_ENV: Final = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
)
# Kubernetes gives every pod these variables for each service of its namespace. With a service called
# "windlass", refusing them as unknown settings would stop every pod at start.
_SERVICE_LINK: Final = re.compile(r"\w*_(?:SERVICE_(?:HOST|PORT\w*)|PORT(?:_[0-9]+_(?:TCP|UDP|SCTP)\w*)?)")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be set; values that contradict each other raise `BadSetting`."""

    url: str = "sqlite:///windlass.db"
    lease_s: float = 15.0
    beat_s: float = 5.0
    sweep_s: float = 1.0
    disk_floor_bytes: int = 32 * MIB
    disk_reserve_bytes: int = 4 * MIB
    secret_names: tuple[str, ...] = SECRET_NAMES
    scripts: tuple[str, ...] = ()
    """Folders whose files a worker may run as scripts."""
    script_memory_bytes: int = 128 * MIB
    """What a script may use whose send does not say."""
    script_cpu_s: float = 3600.0
    """Of each of its processes."""
    script_files: int = 256
    """How many it may have open, each of its processes."""
    script_file_bytes: int = 1024 * MIB
    """How long a file may be that it writes."""
    script_processes: int = 64
    script_env: tuple[str, ...] = SCRIPT_ENV
    """Which of the worker's variables it sees."""
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        # With fewer than two beats in a lease, one lost packet would cost a worker all its jobs.
        if not 0 < 2 * self.beat_s <= self.lease_s:
            raise BadSetting(
                f"A beat of {self.beat_s:g} s does not fit a lease of {self.lease_s:g} s.",
                "Set `beat` to at most half of `lease`; a third is usual.",
            )
        if self.sweep_s <= 0:
            raise BadSetting("The setting `sweep` must be above 0.", 'Give a duration such as "2s".')
        for field in ("script_memory_bytes", "script_cpu_s", "script_files", "script_file_bytes", "script_processes"):
            if getattr(self, field) < 1:
                raise BadSetting(f"The setting `{setting_name(field)}` must be 1 at least.", "No script could run.")

    def __repr__(self) -> str:
        parts = (f"{name}={shown}" for name, shown in shown_values(self).items())
        return f"Settings({', '.join(parts)})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        # Pretty printers read the fields past __repr__, and would show the password.
        return list(shown_values(self).items())


class Loaded(msgspec.Struct, frozen=True):
    """The settings, and for each name its value (passwords masked) and where it was set."""

    settings: Settings
    origins: Mapping[str, tuple[object, str]]

    def table(self) -> str:
        """Every setting with its value and its origin, one per line, fit to be shown to anybody."""
        shown = shown_values(self.settings)
        rows = [(name, shown[name], origin) for name, (_, origin) in self.origins.items()]
        name_width = max(len(name) for name, _, _ in rows)
        value_width = max(len(value) for _, value, _ in rows)
        return "\n".join(f"{name:<{name_width}}  {value:<{value_width}}  {origin}" for name, value, origin in rows)

    def __repr__(self) -> str:
        return f"Loaded({self.settings!r})"


def _read_url(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError("It must be a URL.", 'Give text such as "sqlite:///windlass.db".')
    return value.strip()


def _read_seconds(value: Any) -> float:
    return to_us(value) / SECOND_US


def _read_count(value: Any) -> int:
    text = value.replace("_", "") if isinstance(value, str) else value
    if isinstance(text, str) and re.fullmatch(r"\s*[0-9]{1,15}\s*", text):
        return int(text)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError("It must be a whole number.", "Give digits only.")
    return value


def _read_names(value: Any) -> tuple[str, ...]:
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in cast("list[Any]", names)):
        raise InputError("It must be a list of names.", 'Give text such as "password, token", or a list.')
    return tuple(name.strip() for name in cast("list[str]", names) if name.strip())


def _read_variables(value: Any) -> tuple[str, ...]:
    """Names; with a + before each, besides the usual ones."""
    names = _read_names(value)
    more = [name.removeprefix("+") for name in names if name.startswith("+")]
    if more and len(more) < len(names):
        raise InputError(
            "It holds names with + and without.", 'Give "+DB_URL" to add to the usual ones, or all of them.'
        )
    return (*SCRIPT_ENV, *more) if more else names


def _read_folders(value: Any) -> tuple[str, ...]:
    folders: Any = value.split(",") if isinstance(value, str) else [value] if isinstance(value, Path) else value
    if not isinstance(folders, (list, tuple)) or not all(_is_path(folder) for folder in cast("list[Any]", folders)):
        raise InputError("It must be a list of folders.", 'Give text such as "jobs/, reports/", or a list.')
    named = [str(folder).strip() for folder in cast("list[Any]", folders)]
    return tuple(folder for folder in named if folder)


def _is_path(value: object) -> bool:
    return isinstance(value, (str, Path)) and "\0" not in str(value)


def _kind(field: str) -> tuple[Callable[[Any], Any], Callable[[Any], str]]:
    """How a field's value is read from people's spelling, and shown in it."""
    if field == "url":
        return _read_url, redact_url
    if field == "secret_names":
        return _read_names, ", ".join
    if field == "script_env":
        return _read_variables, ", ".join
    if field == "scripts":
        return _read_folders, ", ".join
    if field.endswith("_us"):
        return to_us, show
    if field.endswith("_s"):
        return _read_seconds, lambda value: show(round(value * SECOND_US))
    if field.endswith("_bytes"):
        return to_bytes, show_bytes
    return _read_count, lambda value: f"{value:_}"


_OWN: Final = tuple(field for field in Settings.__struct_fields__ if field != "limits")
_FIELDS: Final = {setting_name(field): field for field in (*_OWN, *Limits.__struct_fields__)}
_KINDS: Final = {name: _kind(field) for name, field in _FIELDS.items()}


def shown_values(settings: Settings) -> dict[str, str]:
    """Every setting's value as people write it, the URL without its password."""
    return {name: _KINDS[name][1](_value(settings, field)) for name, field in _FIELDS.items()}


def _value(settings: Settings, field: str) -> Any:
    return getattr(settings if field in _OWN else settings.limits, field)


_Found = dict[str, tuple[Any, str]]


def load(
    arguments: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    start: Path | None = None,
) -> Loaded:
    """The settings in force, all checked; an unknown name or a bad value is a `BadSetting` naming its source.

    An argument that is None counts as not given, so that a command line can hand over all its options.
    """
    found = _from_file(start or Path.cwd())
    found |= _from_environment(os.environ if environ is None else environ)
    found |= {name: (value, "argument") for name, value in (arguments or {}).items() if value is not None}
    values = {name: _read(name, value, origin) for name, (value, origin) in found.items()}
    own = {_FIELDS[name]: value for name, value in values.items() if _FIELDS[name] in _OWN}
    limits = {_FIELDS[name]: value for name, value in values.items() if _FIELDS[name] not in _OWN}
    try:
        settings = Settings(**own, limits=Limits(**limits))
    except (InputError, BadSetting) as error:
        sources = [f"`{name}` is from {found[name][1]}" for name in found if name in error.message]
        raise BadSetting(" ".join([error.message, *(f"{source}." for source in sources)]), error.todo) from None
    origins: dict[str, tuple[object, str]] = {}
    for name, field in _FIELDS.items():
        value = _value(settings, field)
        shown = redact_url(value) if name == "url" else value
        origins[name] = (shown, found[name][1] if name in found else "default")
    return Loaded(settings, origins)


def _read(name: str, value: Any, origin: str) -> Any:
    if name not in _FIELDS:
        meant = near_miss(name, _FIELDS)
        hint = f"Did you mean `{meant}`?" if meant else f"There are: {', '.join(_FIELDS)}."
        raise BadSetting(f"There is no setting {name[:60]!a} (from {origin}).", hint)
    try:
        return _KINDS[name][0](value)
    except InputError as error:
        raise BadSetting(f"The setting `{name}` from {origin} cannot be used: {error.message}", error.todo) from None


def unknown_variables(environ: Mapping[str, str]) -> dict[str, str | None]:
    """The WINDLASS_* variables that set nothing, each with the one that may be meant."""
    # Without the prefix: with it, any two would look alike.
    known = [*(name.removeprefix(PREFIX) for name in OTHERS), *(name.upper() for name in _FIELDS)]
    names = [variable.removeprefix(PREFIX) for variable in environ if _is_setting(variable)]
    meant = {name: near_miss(name, known) for name in names if name.lower() not in _FIELDS}
    return {f"{PREFIX}{name}": f"{PREFIX}{near}" if near else None for name, near in meant.items()}


def _is_setting(variable: str) -> bool:
    return variable.startswith(PREFIX) and variable not in OTHERS and not _SERVICE_LINK.fullmatch(variable)


def _from_environment(environ: Mapping[str, str]) -> _Found:
    found: _Found = {}
    for variable, meant in unknown_variables(environ).items():
        hint = f"Did you mean {meant}?" if meant else "Unset it."
        raise BadSetting(f"The environment variable {variable} sets nothing.", hint)
    for variable, value in environ.items():
        if not _is_setting(variable):
            continue
        name = variable.removeprefix(PREFIX).lower()
        # An empty variable is how compose files and CI say "not set".
        if value.strip():
            found[name] = (value, f"environment {variable}")
    if environ.get(URL_FILE, "").strip():
        if "url" in found:
            raise BadSetting(f"Both WINDLASS_URL and {URL_FILE} are set.", "Unset one of them.")
        found["url"] = (_url_from(Path(environ[URL_FILE].strip())), f"file {environ[URL_FILE]} ({URL_FILE})")
    return found


def _url_from(path: Path) -> str:
    try:
        with path.open("rb") as file:
            text = file.read(_URL_FILE_BYTES).decode().strip()
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise BadSetting(f"{URL_FILE} names {path}, which cannot be read: {reason}.", "Check the path.") from None
    if not text or "\n" in text:
        raise BadSetting(f"The file {path} ({URL_FILE}) must hold one line, the URL.", "Write the URL into it.")
    return text


def _from_file(start: Path) -> _Found:
    folder = start.absolute()
    for place in (folder, *folder.parents):
        own, shared = place / "windlass.toml", place / "pyproject.toml"
        if own.is_file():
            return _settings_in(_toml(own), str(own))
        if shared.is_file():
            tool: Any = _toml(shared).get("tool", {})
            table: Any = cast("dict[str, Any]", tool).get("windlass") if isinstance(tool, dict) else None
            if table is not None:
                return _settings_in(table, f"{shared} [tool.windlass]")
    return {}


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeError) as error:
        raise BadSetting(f"{path} is not valid TOML: {error}.", "Correct it; settings are read from it.") from None
    except OSError as error:
        raise BadSetting(f"{path} cannot be read: {error.strerror}.", "Check its permissions.") from None


def _settings_in(table: Any, origin: str) -> _Found:
    if not isinstance(table, dict):
        raise BadSetting(f"{origin} is not a table.", 'Write lines such as: lease = "15s".')
    return {name: (value, origin) for name, value in cast("dict[str, Any]", table).items()}
