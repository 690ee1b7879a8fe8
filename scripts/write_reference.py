"""Write the parts of the docs that the code defines: lifecycle, errors, settings, protocol, commands, keys.

    python scripts/write_reference.py            write them
    python scripts/write_reference.py --check    say which differ from the code; write nothing

Only the lines between the two marker comments of a page are replaced; the text around them is written by hand.
The words that the code does not hold (what to do about an error, what a setting means) are here, and a class, a
setting or a field without words is an error: none can be forgotten.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path

import click

from windlass.cli.main import cli
from windlass.core import errors
from windlass.core.errors import WindlassError
from windlass.core.job import State
from windlass.core.lifecycle import TABLE
from windlass.core.settings import PREFIX, Settings, shown_values
from windlass.engines import protocol
from windlass.engines.redis import keymap

DOCS = Path(__file__).resolve().parent.parent / "docs"
BEGIN = "<!-- begin: written by scripts/write_reference.py -->"
END = "<!-- end: written by scripts/write_reference.py -->"

WHAT_TO_DO = {
    "WL000": "Catch it to catch everything Windlass raises.",
    "WL100": "Correct the configuration; trying again does not help.",
    "WL101": "Correct the setting; the message names it, where it came from, and a near miss.",
    "WL102": "Write the URL like `sqlite:///jobs.db`, `sqlite:////var/lib/jobs.db`, `redis://host:6379/0` or `memory://`.",
    "WL103": "Use a scheme of this version; the message names the nearest one.",
    "WL104": "Run the pip command in the message.",
    "WL105": "Use Linux (or macOS, best effort), or `memory://`.",
    "WL106": "Give one of the two another name: `@app.task(name=…)`.",
    "WL107": "Correct the spelling; the message names the near miss.",
    "WL108": 'Use `pool="auto"`, which runs both kinds.',
    "WL109": "Give one of the two a type of its own, such as a subclass.",
    "WL200": "Correct the value; nothing was stored.",
    "WL201": "Use 1 to 128 of the characters `A-Z a-z 0-9 _ . : -` and begin with a letter or a digit.",
    "WL202": "Give a value in the range that the message states.",
    "WL203": "Send plain data, or an id, and load the object inside the task; the message names the argument.",
    "WL204": "Send less, or raise the setting that the message names.",
    "WL205": "Send or return what the annotation says, or change the annotation; the message says which of the two.",
    "WL206": "Insert parents first, put both into one batch, or put both into one flow.",
    "WL300": "Look at the message: it is about the store, not about the job.",
    "WL301": "Send the same call again. Every verb may be repeated.",
    "WL302": "Call `open()` first.",
    "WL303": "Change the rights, make the folder, or give another path.",
    "WL304": "Give the path of a new file or of a Windlass store.",
    "WL305": "Upgrade this process. Newer workers take its jobs over.",
    "WL306": "Stop all workers, keep the damaged file for study, restore a backup.",
    "WL307": "Free some space, then send again what was not stored.",
    "WL308": "Remove the link or the foreign file, or run as its owner.",
    "WL309": "Put the file back, or restart every process that uses it.",
    "WL310": "Correct the login in the URL, or give the user the right that the message names.",
    "WL311": "Change what the message names on the server, or take another server.",
    "WL400": "See those below.",
    "WL401": "Announce the worker with a first beat; after a sweep it needs a new id.",
    "WL402": "Count tickets up by one for every new claim.",
    "WL403": "Renew, then claim again.",
    "WL404": "Correct the app; the traceback that is printed before the message says where it fails.",
    "WL405": "See what the app does when it is imported, and what the message says of how the last runner ended.",
    "WL406": "Restart the worker itself: its supervisor still runs the version that was there before.",
    "WL500": "Upgrade where the message says that the record is from a newer Windlass.",
    "WL501": "Check the id; the record may have passed its retention.",
    "WL502": "Check the disk and the store, then send the job again.",
    "WL503": "Look at its failure; correct the cause, then retry the job.",
    "WL504": "Nothing, if the cancel was meant; else send the job again.",
    "WL505": "Send it again, or with a later `expires`.",
    "WL506": 'Keep results longer: `@app.task(keep_result="7d")`.',
    "WL507": "Wait longer, or ask `handle.why()`, which the message repeats; if it says that the store was away, ask "
    "again when that is back. The job goes on.",
    "WL508": "Give the worker more slots, `await` the handle, or let the other task send what follows.",
    "WL509": "Call `current_job()` inside a task only.",
    "WL510": 'Let the task use less, or give it more: `@app.task(memory="2GB")`.',
    "WL511": "Look for its last words in the worker's log; after three crashes the job is dead.",
    "WL512": "Put the file into a folder that the worker was given, or correct its path; then retry the job.",
    "WL513": "See what the script wrote: `windlass jobs logs ID`. Then retry the job.",
}

MEANINGS = {
    "url": "the engine and where its store lies",
    "lease": "how long a worker may claim after its last renewal",
    "beat": "how often a worker renews; at most half of `lease`",
    "sweep": "how often a worker sweeps; on a server of several workers one, so up to twice as long may pass",
    "disk_floor_bytes": "below this much free disk new jobs are refused",
    "disk_reserve_bytes": "bytes set aside, given up when the disk is full so that running jobs can settle",
    "secret_names": "an argument or field whose name holds one of these words is shown as `***`",
    "scripts": "folders whose files a worker may run as scripts, apart by commas",
    "script_memory_bytes": "what a script may use in memory whose send does not say",
    "script_cpu": "CPU time of each process of a script",
    "script_files": "files that each process of a script may have open",
    "script_file_bytes": "length of a file that a script writes",
    "script_processes": "processes of one script, itself and all that it has started",
    "script_env": "which of the worker's environment variables a script sees",
    "payload_bytes": "sealed arguments of one job",
    "result_bytes": "sealed result of one job",
    "log_bytes": "log of one job over all attempts, each line its text and 32 bytes; head and tail are kept",
    "error_bytes": "text of one error; head and tail are kept",
    "note_bytes": "one note: a log line, a progress or a step",
    "fact_bytes": "one shared fact",
    "tags": "tags of one job",
    "json_depth": "levels of nesting in arguments and results",
    "number_digits": "digits of one number in arguments and results",
    "keep_succeeded_count": "succeeded jobs kept; the oldest go first",
    "keep_result": "how long a result can be read after the end",
    "keep_succeeded": "how long a succeeded job is kept",
    "keep_dead": "how long a dead job is kept",
    "keep_cancelled": "how long a cancelled job is kept",
    "keep_expired": "how long an expired job is kept",
    "aging_step": "how much earlier one level of priority ranks a job",
}


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """A Markdown table."""
    first = list(heads)
    lines = [first, ["---"] * len(first), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def lifecycle_table() -> list[str]:
    """Every row of core.lifecycle.TABLE; states in the order of their life."""
    order = list(State)
    rows = (
        [f"`{state}`" if state else "(new)", f"`{event}`", ", ".join(f"`{to}`" for to in order if to in nexts)]
        for (state, event), nexts in TABLE.items()
    )
    return table(["state", "event or outcome", "next states"], rows)


def error_tree(kind: type[WindlassError] = WindlassError, depth: int = 0) -> Iterator[tuple[int, type[WindlassError]]]:
    """Every error class of core.errors with its depth in the tree, by code."""
    yield depth, kind
    own = [child for child in kind.__subclasses__() if child.__module__ == errors.__name__]
    for child in sorted(own, key=lambda child: child.code):
        yield from error_tree(child, depth + 1)


def errors_table() -> list[str]:
    """Every error class: its code, its name, what it means, what to do."""
    rows: list[list[str]] = []
    for depth, kind in error_tree():
        name = f"`{kind.__name__}`" if depth > 1 else f"**`{kind.__name__}`**"
        rows.append([kind.code, name, _first_line(kind), WHAT_TO_DO[kind.code]])
    return table(["code", "error", "meaning", "what to do"], rows)


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").strip().splitlines()[0]


def settings_table() -> list[str]:
    """Every setting: its default as people write it, its environment variable, its meaning."""
    defaults = shown_values(Settings())
    rows = (
        # People may write 100_000, not 100,000.
        [
            f"`{name}`",
            f"`{re.sub(r'(?<=[0-9]),(?=[0-9])', '_', shown)}`" if shown else "none",
            f"`{PREFIX}{name.upper()}`",
            MEANINGS[name],
        ]
        for name, shown in defaults.items()
    )
    return table(["setting", "default", "environment", "meaning"], rows)


def values_tables() -> list[str]:
    """Every value of the protocol: what it is, and its fields with type, default and meaning."""
    source = inspect.getsource(protocol)
    lines: list[str] = []
    for node in ast.parse(source).body:
        if not isinstance(node, ast.ClassDef) or node.name == protocol.Engine.__name__:
            continue
        said = (ast.get_docstring(node) or "").replace("\n", " ").replace("  ", " ")
        kind = getattr(protocol, node.name)
        lines += [*([""] if lines else []), f"### {node.name}", "", said, ""]
        if issubclass(kind, StrEnum):
            lines.append(f"One of {', '.join(f'`{member}`' for member in kind)}.")
        else:
            lines += table(["field", "type", "default", "meaning"], fields_of(node, source.splitlines()))
    return lines


def fields_of(node: ast.ClassDef, source: Sequence[str]) -> Iterator[list[str]]:
    """A row for each field of a value."""
    for field, after in zip(node.body, [*node.body[1:], None], strict=True):
        if not isinstance(field, ast.AnnAssign):
            continue
        name, kind = ast.unparse(field.target), ast.unparse(field.annotation).replace("|", "\\|")
        default = "" if field.value is None else f"`{ast.unparse(field.value)}`"
        yield [f"`{name}`", f"`{kind}`", default, _meaning(field, after, source) or _wordless(node.name, name)]


def _meaning(field: ast.AnnAssign, after: ast.stmt | None, source: Sequence[str]) -> str:
    """The comment behind a field, or the text under it."""
    if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
        return str(after.value.value).replace("\n", " ")
    assert field.end_lineno is not None
    rest = source[field.end_lineno - 1].encode()[field.end_col_offset :].decode()
    return rest.strip().removeprefix("#").strip()


def _wordless(value: str, field: str) -> str:
    raise ValueError(f"{value}.{field} has no meaning: write one behind it in engines/protocol.py.")


def commands(
    command: click.Command = cli, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command and sub-command, with what is typed for it."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(inner, (*path, name))


def commands_sections() -> list[str]:
    """A section for each command: how it is typed, what it does, its options, its examples."""
    lines: list[str] = []
    for path, command in commands():
        if path:
            lines += ["", f"{'#' * (len(path) + 1)} windlass {' '.join(path)}", "", *_command(path, command)]
    return lines[1:]


def _command(path: tuple[str, ...], command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=" ".join(("windlass", *path)))
    yield f"`{' '.join(command.get_usage(context).removeprefix('Usage: ').split())}`"
    yield ""
    yield " ".join((command.help or "").split())
    yield ""
    if not isinstance(command, click.Group):
        options = (option for option in command.params if isinstance(option, click.Option) and not option.hidden)
        rows = [_option(option, context) for option in options]
        yield from table(["option", "meaning"], rows)
        yield ""
    yield "```text"
    yield from (command.epilog or "").replace("\b\n", "\n").strip().splitlines()
    yield "```"


def _option(option: click.Option, context: click.Context) -> list[str]:
    record = option.get_help_record(context)
    assert record is not None, option.name
    # A bar would end the cell.
    return [f"`{record[0]}`".replace("|", "\\|"), " ".join(record[1].split()).replace("|", "\\|")]


def keys_table() -> list[str]:
    """Every key of the redis engine."""
    # A bar would end the cell.
    rows = ([f"`{key.name}`".replace("|", "\\|"), key.type, key.holds, key.lives] for key in keymap.KEYS)
    return table(["key", "type", "holds", "lives"], rows)


PAGES: dict[str, Callable[[], list[str]]] = {
    "reference/lifecycle.md": lifecycle_table,
    "reference/errors.md": errors_table,
    "reference/settings.md": settings_table,
    "reference/protocol.md": values_tables,
    "reference/cli.md": commands_sections,
    "engines/redis.md": keys_table,
}


def renewed(page: str, lines: list[str]) -> str:
    """The page with these lines between its markers."""
    pattern = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}", re.DOTALL)
    if len(pattern.findall(page)) != 1:
        raise ValueError(f"The page needs the lines {BEGIN!r} and {END!r}, once each.")
    block = "\n".join([BEGIN, "", *lines, "", END])
    return pattern.sub(lambda _: block, page)


def main(arguments: list[str]) -> int:
    """Write or check every page; 1 if a page was not as it should be."""
    check = arguments == ["--check"]
    if arguments and not check:
        print("usage: python scripts/write_reference.py [--check]", file=sys.stderr)
        return 2
    differ = 0
    for name, make in PAGES.items():
        path = DOCS / name
        page = path.read_text(encoding="utf-8")
        new = renewed(page, make())
        if new == page:
            continue
        if check:
            print(f"docs/{name} differs from the code: run python scripts/write_reference.py")
            differ = 1
        else:
            path.write_text(new, encoding="utf-8")
            print(f"docs/{name} written")
    return differ


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
