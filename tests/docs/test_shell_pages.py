"""Pages about commands, typed on a terminal as they are written; what the page shows is what is seen.

Ids of the page stand for ids of the run: the first time one is shown, it is learned. Times are any times, `…` is
anything.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from scripts.check_docs import blocks, file_name, is_run
from tests.cli.conftest import Shell

ROOT = Path(__file__).resolve().parent.parent.parent
ID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
SPAN = r"\d+(?:d|h|ms|us|m|s)(?: \d+(?:h|ms|us|m|s))?"
LOOSE = {
    ID: None,
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC",
    rf"\b(?:{SPAN} ago|now|in {SPAN})\b": rf"(?:{SPAN} ago|now|in {SPAN})",
    rf"after {SPAN}": rf"after {SPAN}",
    "[▁▂▃▄▅▆▇█]+": "[▁▂▃▄▅▆▇█]+",
    "…": "(?s:.*)",
}
STYLE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Reader:
    """Types what the page says, and compares."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.ids: dict[str, str] = {}

    def types(self, command: str, shown: str) -> None:
        for ours, theirs in self.ids.items():
            command = command.replace(ours, theirs)
        seen = self.shell.on_terminal(*shlex.split(command)[1:], width=120)
        text = squeezed(STYLE.sub("", seen.replace("\r\n", "\n")))
        pattern, unknown = self.pattern(squeezed(shown))
        found = re.fullmatch(pattern, text)
        assert found, (command, pattern, text)
        self.ids.update(zip(unknown, found.groups(), strict=True))

    def pattern(self, shown: str) -> tuple[str, list[str]]:
        """What the page shows as a pattern, and the ids that it shows for the first time, a group each."""
        made, unknown, end = "", list[str](), 0
        for found in re.finditer("|".join(f"({part})" for part in LOOSE), shown):
            made += re.escape(shown[end : found.start()])
            end, word = found.end(), found.group()
            loose = list(LOOSE.values())[(found.lastindex or 1) - 1]
            if loose is not None:
                made += loose
            elif word in self.ids:
                made += self.ids[word]
            elif word in unknown:
                made += rf"\{unknown.index(word) + 1}"
            else:
                made += f"({ID})"
                unknown.append(word)
        return made + re.escape(shown[end:]), unknown


def squeezed(text: str) -> str:
    """Without what depends on how long a time is written: runs of blanks, and blanks at ends."""
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())


@pytest.mark.parametrize("page", ["dead-letters", "look-inside"])
def test_what_a_page_types_shows_what_it_shows(page: str, tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    reader = Reader(shell)
    for block in blocks((ROOT / "docs" / "how-to" / f"{page}.md").read_text(encoding="utf-8")):
        name = file_name(block) if is_run(block) else None
        if name is not None:
            (shell.folder / name).write_text("\n".join(block.body) + "\n", encoding="utf-8")
        elif block.info == "console":
            for part in "\n".join(block.body).removeprefix("$ ").split("\n$ "):
                command, _, shown = part.partition("\n")
                reader.types(command, shown)
    assert len(reader.ids) >= 3
