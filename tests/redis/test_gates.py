"""lua/modules/gates.lua against core/rates.py: whole numbers there, doubles here."""

from __future__ import annotations

from importlib import resources
from typing import Any

import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.servers.namespace import Namespace
from windlass.core import rates
from windlass.core.rates import Rate

NOW_US = 1_800_000_000_000_000
YEAR_US = 366 * 86_400_000_000
GATES = resources.files("windlass.engines.redis").joinpath("lua", "modules", "gates.lua").read_text("utf-8")
ASKED = """
local rule, tat, n = cmsgpack.unpack(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local function show(value) return string.format('%.0f', value) end
local after = gates.advance(rule, math.max(tat, now), n)
return { show(allowance(rule, tat, now)), show(next_token(rule, tat)), show(after) }
"""
SOURCE = f"local call, P, now = redis.call, KEYS[1], tonumber(ARGV[1])\nlocal gates = {{}}\n{GATES}\n{ASKED}"


def ask(client: Any, rate: Rate, tat_us: int, n: int) -> list[int]:
    rule = msgspec.msgpack.encode((0, 0, -1, -1, rate.count, rate.per_us, rate.burst, 0))
    return [int(value) for value in client.eval(SOURCE, 1, "{gates}", NOW_US, rule, tat_us, n)]


@st.composite
def buckets(draw: st.DrawFn, longest_us: int) -> tuple[Rate, int, int]:
    """A rate, how full its bucket is, and how many tokens are taken."""
    per_us = draw(st.integers(1, longest_us) | st.sampled_from([1, 1_000_000, 60_000_000, longest_us]))
    count = draw(st.integers(1, min(per_us, 1_000_000_000)))
    most = 1_000_000_000 if longest_us > YEAR_US else max(1, YEAR_US * count // per_us)
    burst = draw(st.integers(1, min(1_000_000_000, most)))
    rate = Rate(count, per_us, burst)
    spent_us = rates.advance(rate, NOW_US, burst) - NOW_US
    return rate, NOW_US + draw(st.integers(-1_000, spent_us + 3)), draw(st.integers(1, min(100, burst)))


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(buckets(YEAR_US))
def test_gates_count_as_everywhere_else(valkey: Namespace, bucket: tuple[Rate, int, int]) -> None:
    rate, tat_us, n = bucket
    with valkey.client() as client:
        found = ask(client, rate, tat_us, n)
    assert found == [
        rates.allowance(rate, tat_us, NOW_US),
        rates.next_us(rate, tat_us, NOW_US),
        rates.advance(rate, max(tat_us, NOW_US), n),
    ]


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(buckets(1 << 61))
@example((Rate(1, 10**16), NOW_US + 10**16, 1))
def test_a_rate_of_thousands_of_years_ends_its_sums(valkey: Namespace, bucket: tuple[Rate, int, int]) -> None:
    rate, tat_us, n = bucket
    with valkey.client() as client:
        _, again_us, _ = ask(client, rate, tat_us, n)
    assert again_us >= NOW_US
