"""A script as a job: what is stored of it, and what cannot be one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from windlass.core.codec import encode_arguments
from windlass.core.errors import BadValue, WrongType
from windlass.core.scripts import LONGEST_NAME, Script, as_script, new_script, read_script, whoever_sends


def test_it_is_read_as_it_was_sent() -> None:
    payload = encode_arguments((), {"path": "jobs/a.py", "args": ["x"], "name": "A", "by": "me", "sent_us": 7})
    assert read_script(payload) == Script(path="jobs/a.py", args=("x",), name="A", by="me", sent_us=7)
    assert read_script(encode_arguments(("jobs/a.py",), {})) == Script(path="jobs/a.py")


def test_a_path_may_be_one() -> None:
    assert new_script(Path("jobs") / "a.py").path == "jobs/a.py"


@pytest.mark.parametrize(
    ("path", "args", "name", "sentence"),
    [
        ("", (), "", "A script cannot be ''."),
        ("  ", (), "", "A script cannot be '  '."),
        (7, (), "", "A script cannot be 7."),
        ("x" * 5_000, (), "", "A script cannot be "),
        ("a\0b", (), "", "A script's path and arguments cannot hold a NUL."),
        ("a", ["x\0"], "", "A script's path and arguments cannot hold a NUL."),
        ("a", "text", "", "The arguments of a script are a list of text."),
        ("a", [1], "", "The arguments of a script are a list of text."),
        ("a", [], "n" * (LONGEST_NAME + 1), "A script's name cannot be "),
        ("a", [], 3, "A script's name cannot be 3."),
    ],
)
def test_what_no_process_can_be_started_with_is_refused(path: Any, args: Any, name: Any, sentence: str) -> None:
    with pytest.raises(BadValue) as caught:
        new_script(path, args, name)
    assert caught.value.message.startswith(sentence)


def test_arguments_of_another_shape_are_refused_by_whoever_runs_it() -> None:
    with pytest.raises(WrongType):
        read_script(encode_arguments((), {"path": ["no"]}))
    with pytest.raises(BadValue):
        read_script(encode_arguments((), {"path": "a\0"}))
    for forged in ({"sent_us": -5}, {"sent_us": 1 << 64}, {"by": "x" * 1_000}):
        with pytest.raises(BadValue, match="Nobody can have sent a script so"):
            read_script(encode_arguments((), {"path": "a", **forged}))


def test_for_people_what_says_no_script_is_none() -> None:
    assert as_script(["jobs/a.py", ["x"]], {"name": "A"}) == Script(path="jobs/a.py", args=("x",), name="A")
    assert as_script([], {}) is None


def test_whoever_sends_is_told_by_user_host_and_process() -> None:
    assert whoever_sends().endswith(f"(process {os.getpid()})")
