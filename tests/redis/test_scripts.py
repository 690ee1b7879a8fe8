"""scripts.py: what each script carries, and what it defines before it is needed."""

from __future__ import annotations

import re

import pytest

from windlass.engines.redis.scripts import VERBS, script


def test_every_verb_of_the_engine_is_a_file() -> None:
    assert {"insert", "claim", "settle", "renew", "sweep", "search"} <= set(VERBS)
    assert not {"rows", "lanes"} & set(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_a_script_carries_the_modules_it_uses_and_no_others(verb: str) -> None:
    source = script(verb).source.decode()
    declared = set(re.findall(r"^local (\w+) = (?:\{\}|setmetatable\(\{\}, ASLEEP\))$", source, re.MULTILINE))
    defined = {module for module, _ in re.findall(r"^function (\w+)\.(\w+)\(", source, re.MULTILINE)}
    assert defined <= declared
    for module, name in re.findall(r"(?<![\w.])([a-z]+)\.([a-z_]+)\(", source):
        if module in defined:
            assert f"function {module}.{name}(" in source


@pytest.mark.parametrize("verb", ["insert", "claim", "settle"])
def test_what_plain_jobs_do_not_need_is_defined_when_it_is_used(verb: str) -> None:
    at_once, _, rarely = script(verb).source.decode().partition("define = function()")
    for module in ("lanes", "flows", "family", "keys", "chores"):
        assert f"function {module}." not in at_once
        assert f"function {module}." in rarely


@pytest.mark.parametrize("verb", VERBS)
def test_constants_are_numbers_and_comments_are_gone(verb: str) -> None:
    source = script(verb).source.decode()
    assert not re.search(r"\b(STATE|QUEUE|RUNNING|BATCH|D_LOST|S_FENCE)\b", source)
    assert "--" not in source
