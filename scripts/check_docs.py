"""Run every Python block of README.md and docs/**/*.md, so that what is shown works.

    python scripts/check_docs.py [file.md ...]

The `python` blocks of one file are one program: they run in order, in one fresh process, in an empty
temporary folder. A traceback shows the line number in the Markdown file. A block whose info string is
`python output` shows code that is not meant to run and is skipped; blocks of other languages (text,
console, sql, mermaid, ...) are not run. A block must name its language, and Python is spelled `python`:
a misspelt tag would silently take a block out of the check.

A `python` block whose first line is a file's name (`# tasks.py`) is that file: it is put into the folder before the
program starts, so that other blocks can import it. A second block of that name goes on with it. What such pages tell
the reader to type is run by tests/docs/test_walks.py, in processes of their own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^`]*?)[ \t]*$")
FILE = re.compile(r"# (?P<name>\w+\.py)")
SPELLED_OTHERWISE = {"py", "py3", "python3", "pycon", "ipython", "Python"}
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


def is_run(block: Block) -> bool:
    """Tell whether a block is to be run; refuse an info string that leaves it open."""
    words = block.info.split()
    if not words:
        raise BadMarkdown(f"line {block.line - 1}: say what this block is, for example ```text")
    if words[0] in SPELLED_OTHERWISE:
        raise BadMarkdown(f"line {block.line - 1}: write ```python instead of ```{words[0]}")
    if words[0] == "python" and words[1:] not in ([], ["output"]):
        raise BadMarkdown(f"line {block.line - 1}: only ```python and ```python output are known")
    return words == ["python"]


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
            (Path(work) / file).write_text(text, encoding="utf-8")
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


def main(paths: list[Path]) -> int:
    """Print every failure and, last, how many blocks there are, were run and were skipped."""
    total = ran = failures = 0
    for path in paths:
        name = os.path.relpath(path, ROOT)
        try:
            text = path.read_text(encoding="utf-8")
            found = blocks(text)
            chosen = [block for block in found if is_run(block)]
            beside = files(chosen)
        except (OSError, BadMarkdown) as error:
            print(f"{name}: {error}")
            failures += 1
            continue
        total += len(found)
        ran += len(chosen)
        problem = run(program(text, chosen), name, beside) if chosen else ""
        if problem:
            print(f"{name}: {problem}")
            failures += 1
    counts = f"{total} blocks, {ran} run, {total - ran} skipped"
    print(f"docs: {len(paths)} files, {counts}, {failures} files failed")
    return 1 if failures else 0


if __name__ == "__main__":
    given = [Path(argument).resolve() for argument in sys.argv[1:]]
    shown = [path for path in [ROOT / "README.md"] if path.exists()] + sorted((ROOT / "docs").rglob("*.md"))
    sys.exit(main(given or shown))
