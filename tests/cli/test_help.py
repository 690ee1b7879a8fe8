"""Every command explains itself with an example, and every example can be typed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from scripts.write_reference import commands
from tests.cli.conftest import Shell, Typed

ALL = [pytest.param(path, command, id=" ".join(("windlass", *path))) for path, command in commands()]


def examples(command: click.Command) -> list[str]:
    """The lines of its help that can be typed, without the remark behind them."""
    lines = (command.epilog or "").partition("Examples:")[2].splitlines()
    return [
        re.split(r" {4,}|(?<=\S)  (?=[a-z ]+$)", line.strip())[0] for line in lines if line.startswith("  windlass")
    ]


@pytest.mark.parametrize(("path", "command"), ALL)
def test_every_command_has_help_and_an_example_of_itself(path: tuple[str, ...], command: click.Command) -> None:
    shown = command.get_help(click.Context(command, info_name=" ".join(("windlass", *path))))
    assert (command.help or "").strip().endswith("."), "a sentence"
    assert examples(command)
    assert all(example in shown for example in examples(command))
    prefix = " ".join(("windlass", *path))
    assert all(example.startswith(prefix) for example in examples(command))


@pytest.mark.parametrize(("path", "command"), ALL)
def test_every_example_can_be_typed(
    path: tuple[str, ...], command: click.Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert path is not None
    monkeypatch.chdir(tmp_path)
    known = dict(commands())
    for example in examples(command):
        words = shlex.split(re.split(r"[|<>]", example)[0])[1:]
        for place, word in enumerate(words):
            if place and words[place - 1] == "--from":
                Path(word).touch()
        depth = max(depth for depth in range(len(words) + 1) if tuple(words[:depth]) in known)
        leaf = known[tuple(words[:depth])]
        assert not isinstance(leaf, click.Group), example
        with leaf.make_context(example, words[depth:]):
            pass  # what it has opened is closed


@pytest.mark.parametrize(("path", "command"), ALL)
def test_every_option_has_words(path: tuple[str, ...], command: click.Command) -> None:
    assert path is not None
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


def test_the_list_of_commands_is_that_of_each_group(typed: Typed) -> None:
    for path, command in commands():
        if isinstance(command, click.Group):
            shown = typed(*path, "--help").out
            for name in command.list_commands(click.Context(command)):
                assert re.search(rf"^  {name}  +\S", shown, re.MULTILINE), (path, name)


def test_help_waits_for_nothing_that_it_does_not_need(shell: Shell) -> None:
    code = "import sys\nfrom windlass.cli.main import main\ntry: main()\nfinally: print('HAS', *sys.modules)"
    python = Path(shell.command()[0]).parent / "python"
    has = shell.script(f"{python} -c {shlex.quote(code)} --help").rpartition("HAS ")[2].split()
    assert "click" in has
    assert {"rich", "apsw", "msgspec", "asyncio", "windlass.ops.view"}.isdisjoint(has)
