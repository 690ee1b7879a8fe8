"""Run every Python block and type every command of README.md and docs/**/*.md, so that what is shown works.

    python scripts/check_docs.py [file.md ...]

The `python` blocks of one file are one program: they run in order, in one fresh process, in an empty
temporary folder. A traceback shows the line number in the Markdown file. `console` blocks are typed
(scripts/walk_docs.py). What is not meant to run is tagged as such: `python title="not run"`, `console
title="not run"`, or a language that nothing runs (text, mermaid, toml, json, sql). Any other tag is refused: a
misspelt one would silently take a block out of the check.

A `python` block whose first line is a file's name (`# tasks.py`, `# jobs/report.py`) is that file: it is put into the
folder before the program starts, so that other blocks can import it. A second block of that name goes on with it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

if __package__ is None:  # called by its path
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.walk_docs import NotAsShown, Walk

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^`]*?)[ \t]*$")
FILE = re.compile(r"# (?P<name>(\w+/)*\w+\.py)")
RUN = {"python", "console"}
ON_A_TERMINAL = {"docs/how-to/look-inside.md", "docs/how-to/dead-letters.md"}
"""Pages that show what a terminal shows: tests/docs/test_shell_pages.py types them on one."""
OUTPUT = {'python title="not run"', 'console title="not run"', "text", "mermaid", "toml", "json", "sql"}
TIMEOUT_S = 120


@dataclass(frozen=True)
class Block:
    """One fenced block: its info string, the number of its first line, its lines without indentation."""

    info: str
    line: int
    body: list[str]


class BadMarkdown(Exception):
    """A block that cannot be told to run or not to run."""


def blocks(text: str) -> list[Block]:
    """Cut out all fenced blocks in order, indented ones (in lists) included."""
    found: list[Block] = []
    lines = text.splitlines()
    number = 0
    while number < len(lines):
        opening = FENCE.match(lines[number])
        number += 1
        if opening is None:
            continue
        start, indent, fence = number, opening["indent"], opening["fence"]
        while number < len(lines):
            closing = FENCE.match(lines[number])
            if closing and not closing["info"] and closing["fence"].startswith(fence):
                break
            number += 1
        else:
            raise BadMarkdown(f"line {start}: this block is never closed")
        body = [line.removeprefix(indent) for line in lines[start:number]]
        found.append(Block(opening["info"], start + 1, body))
        number += 1
    return found


def is_run(block: Block, kind: str = "python") -> bool:
    """Tell whether a block is to be run as that; refuse an info string that leaves it open."""
    if block.info not in RUN | OUTPUT:
        raise BadMarkdown(f"line {block.line - 1}: ```{block.info} is none of: {', '.join(sorted(RUN | OUTPUT))}")
    return block.info == kind


def file_name(block: Block) -> str | None:
    """The name of the file that a block is; None for a part of the page's program."""
    named = FILE.fullmatch(block.body[0]) if block.body else None
    return None if named is None else named["name"]


def files(chosen: list[Block]) -> dict[str, str]:
    """The files of a page by name; refuse one that is no Python."""
    found: dict[str, str] = {}
    for block in chosen:
        if (name := file_name(block)) is not None:
            found[name] = found.get(name, "") + "\n".join(block.body) + "\n"
    for name, source in found.items():
        try:
            compile(source, name, "exec")
        except SyntaxError as error:
            raise BadMarkdown(f"{name}: {error}") from None
    return found


def program(text: str, chosen: list[Block]) -> str:
    """Write the chosen blocks as one module in which each line has the number it has in the Markdown."""
    lines = [""] * len(text.splitlines())
    for block in (block for block in chosen if file_name(block) is None):
        lines[block.line - 1 : block.line - 1 + len(block.body)] = block.body
    return "\n".join(lines) + "\n"


def run(source: str, name: str, beside: dict[str, str]) -> str:
    """Run a program beside its files alone; return what it printed if it failed, else an empty string."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("WINDLASS_")}
    with tempfile.TemporaryDirectory(prefix="windlass-docs-") as code, tempfile.TemporaryDirectory() as work:
        script = Path(code) / (re.sub(r"\W", "_", name) + ".py")
        script.write_text(source, encoding="utf-8")
        for file, text in beside.items():
            place = Path(work) / file
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
        try:
            done = subprocess.run(
                [sys.executable, str(script)],
                cwd=work,
                env={**environment, "PYTHONPATH": work},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                text=True,
                errors="replace",
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"did not end within {TIMEOUT_S} s"
    return "" if done.returncode == 0 else (done.stdout.strip() or f"exit status {done.returncode}")


def walk(found: list[Block]) -> str:
    """Type what a page tells to type; return what went otherwise than it shows, else an empty string."""
    with tempfile.TemporaryDirectory(prefix="windlass-docs-") as folder:
        reader = Walk(Path(folder))
        try:
            try:
                for block in found:
                    name = file_name(block) if is_run(block) else None
                    if name is not None:
                        reader.put(name, block)
                    elif is_run(block, "console"):
                        reader.type_all(block)
                    elif block.info == "text":
                        reader.look(block)
            finally:
                reader.stop()
        except (NotAsShown, subprocess.TimeoutExpired) as error:
            return str(error)
    return ""


@dataclass(frozen=True)
class Page:
    """What became of one file."""

    blocks: int = 0
    programs: int = 0
    consoles: int = 0
    problems: tuple[str, ...] = ()


def check(path: Path) -> Page:
    """Run what a page shows."""
    name = os.path.relpath(path, ROOT)
    try:
        text = path.read_text(encoding="utf-8")
        found = blocks(text)
        chosen = [block for block in found if is_run(block)]
        beside = files(chosen)
    except (OSError, BadMarkdown) as error:
        return Page(problems=(f"{name}: {error}",))
    consoles = sum(is_run(block, "console") for block in found)
    problems = [
        run(program(text, chosen), name, beside) if chosen else "",
        walk(found) if consoles and name not in ON_A_TERMINAL else "",
    ]
    return Page(len(found), len(chosen), consoles, tuple(f"{name}: {problem}" for problem in problems if problem))


def main(paths: list[Path]) -> int:
    """Print every failure and, last, how many blocks there are, were run and were skipped."""
    with ThreadPoolExecutor(os.cpu_count() or 2) as threads:
        pages = list(threads.map(check, paths))
    for problem in (problem for page in pages for problem in page.problems):
        print(problem)
    total, programs, consoles = (
        sum(numbers) for numbers in zip(*((page.blocks, page.programs, page.consoles) for page in pages), strict=True)
    )
    failures = sum(bool(page.problems) for page in pages)
    output = total - programs - consoles
    ran = f"{programs + consoles} run ({programs} of Python, {consoles} typed), {output} tagged as output, 0 skipped"
    print(f"docs: {len(paths)} files, {total} blocks, {ran}, {failures} files failed")
    return 1 if failures else 0


if __name__ == "__main__":
    given = [Path(argument).resolve() for argument in sys.argv[1:]]
    shown = [path for path in [ROOT / "README.md"] if path.exists()] + sorted((ROOT / "docs").rglob("*.md"))
    sys.exit(main(given or shown))
