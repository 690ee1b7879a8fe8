"""The key map: it names every key that there is, and what remains in the end is what it calls permanent."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.redis.story import Watch, live_through_everything
from tests.servers.leaks import strays
from tests.servers.namespace import Namespace
from windlass.core.limits import Limits
from windlass.engines.redis import RedisEngine, read_address
from windlass.engines.redis.keymap import FIXED, KEYS
from windlass.testing.conformance import Harness


@pytest.fixture
def harness(valkey: Namespace) -> Iterator[Harness]:
    limits = Limits(log_bytes=200)
    yield from Harness.run(lambda limits_: RedisEngine(read_address(valkey.url), limits_), limits=limits)


def test_when_all_jobs_and_workers_are_gone_only_what_is_permanent_remains(harness: Harness, valkey: Namespace) -> None:
    seen = live_through_everything(harness, valkey)
    assert {key.name for key in KEYS} - seen == set(), "the story writes a key of every kind"
    assert Watch(valkey).names() == sorted(key.name for key in KEYS if key.is_permanent)


def test_the_leak_check_finds_what_is_not_ours(harness: Harness, valkey: Namespace) -> None:
    harness.send()
    assert list(strays(valkey)) == []
    tag = f"{{{valkey.name}}}:"
    with valkey.client() as client:
        for name in ("foreign", "j:short", "due"):
            client.set(tag + name, "1")
        client.expire(tag + "counts", 3_600)
        found = list(strays(valkey))
        client.delete(*(tag + name for name in ("foreign", "j:short", "due")))
        client.persist(tag + "counts")
    assert [sentence.partition("}:")[2] for sentence in found] == [
        "counts' would go by itself.",
        "due' is a string, and in the key map a zset.",
        "foreign', a string, is not in the key map.",
        "j:short', a string, is not in the key map.",
    ]


def test_no_two_entries_of_the_map_have_one_name() -> None:
    names = [key.name for key in KEYS]
    assert len(set(names)) == len(names)
    assert {name for name in names if "<" not in name} == set(FIXED)
