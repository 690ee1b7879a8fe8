"""What may enter a store: each refusal is one sentence that names the culprit."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec
import pytest

from windlass.core.errors import BadName, BadValue, InputError, TooLarge
from windlass.core.intake import FAR_FUTURE_US, MOST_PARENTS, check_jobs, check_request
from windlass.core.job import Edge, Job, Request, Unique
from windlass.core.limits import Limits

ID = bytes(range(16))
LIMITS = Limits(payload_bytes=10, tags=2)
PLAIN = Request(id=ID, task="task")
FULL = Request(
    id=ID,
    task="a.task:of-mine_1",
    queue="default",
    payload=b"x" * 10,
    priority=9,
    delay_us=FAR_FUTURE_US - 1,
    at_us=FAR_FUTURE_US - 1,
    expires_us=0,
    lane="lane",
    lane_limit=1_000_000,
    unique=Unique("key", "time", 1),
    gate="gate",
    needs=(("cpu", (1 << 62) - 1),),
    parents=tuple(Edge(n.to_bytes(16, "big")) for n in range(MOST_PARENTS)),
    tags=("a", "b"),
)

BAD: list[tuple[dict[str, Any], type[InputError], str]] = [
    ({"id": b"short"}, BadValue, "16 bytes"),
    ({"id": b"x" * 17}, BadValue, "16 bytes"),
    ({"task": ""}, BadName, "task"),
    ({"task": "no spaces"}, BadName, "task"),
    ({"queue": "ümlaut"}, BadName, "queue"),
    ({"queue": "x" * 129}, BadName, "queue"),
    ({"payload": b"x" * 11}, TooLarge, "payload_bytes"),
    ({"priority": -1}, BadValue, "Priority -1"),
    ({"priority": 10}, BadValue, "Priority 10"),
    ({"delay_us": -1}, BadValue, "delay"),
    ({"delay_us": FAR_FUTURE_US}, BadValue, "delay"),
    ({"at_us": -1}, BadValue, "at_us"),
    ({"at_us": FAR_FUTURE_US}, BadValue, "at_us"),
    ({"expires_us": FAR_FUTURE_US}, BadValue, "expires_us"),
    ({"lane": "a/b"}, BadName, "lane"),
    ({"lane": "l", "lane_limit": 0}, BadValue, "0 jobs at once"),
    ({"lane": "l", "lane_limit": 1_000_001}, BadValue, "at once"),
    ({"gate": "-g"}, BadName, "gate"),
    ({"unique": Unique("no key")}, BadName, "unique key"),
    ({"unique": Unique("k", "time", 0)}, BadValue, "period"),
    ({"unique": Unique("k", "time", FAR_FUTURE_US)}, BadValue, "period"),
    ({"tags": ("a", "b", "c")}, TooLarge, "tags"),
    ({"tags": ("a b",)}, BadName, "tag"),
    ({"needs": (("c p u", 1),)}, BadName, "resource"),
    ({"needs": (("cpu", 0),)}, BadValue, "0 cpu"),
    ({"needs": (("cpu", 1 << 62),)}, BadValue, "cpu"),
    ({"parents": (Edge(ID),)}, BadValue, "wait for itself"),
    ({"parents": tuple(Edge(bytes(16)) for _ in range(MOST_PARENTS + 1))}, TooLarge, "parents"),
]


def test_a_plain_request_and_one_at_every_bound_may_enter() -> None:
    check_request(PLAIN, LIMITS)
    check_request(FULL, LIMITS)


@pytest.mark.parametrize(("fields", "error", "words"), BAD, ids=lambda value: str(value)[:40])
def test_what_may_not_enter_is_refused_by_name_and_told_what_to_do(
    fields: dict[str, Any], error: type[InputError], words: str
) -> None:
    for request in (PLAIN, FULL):
        with pytest.raises(error, match=words) as caught:
            check_request(msgspec.structs.replace(request, **fields), LIMITS)
        assert caught.value.todo
        assert caught.value.message.endswith(".")


def test_a_period_counts_only_where_time_ends_the_key() -> None:
    check_request(msgspec.structs.replace(PLAIN, unique=Unique("k", "end", 0)), LIMITS)
    check_request(msgspec.structs.replace(PLAIN, unique=Unique("k", "start", 0)), LIMITS)


def test_one_bad_job_keeps_the_whole_batch_out() -> None:
    jobs = [Job(request=PLAIN), Job(request=msgspec.structs.replace(PLAIN, task="bad name"))]
    with pytest.raises(BadName):
        check_jobs(jobs, LIMITS)
    check_jobs(jobs[:1], LIMITS)
    check_jobs([], LIMITS)


class Name(StrEnum):
    TASK = "task"


WRONG: list[tuple[dict[str, Any], type[InputError], str]] = [
    ({"id": "0" * 16}, BadValue, "job id cannot be a str"),
    ({"id": bytearray(16)}, BadValue, "job id cannot be a bytearray"),
    ({"task": 5}, BadName, "task"),
    ({"task": Name.TASK}, BadName, "task"),
    ({"task": ["task"]}, BadName, "task"),
    ({"queue": None}, BadName, "queue"),
    ({"payload": "text"}, BadValue, "payload of a job cannot be a str"),
    ({"payload": None}, BadValue, "payload"),
    ({"options": {}}, BadValue, "options of a job cannot be a dict"),
    ({"priority": True}, BadValue, "priority of a job cannot be a bool"),
    ({"priority": 1.5}, BadValue, "priority"),
    ({"delay_us": "1"}, BadValue, "delay_us"),
    ({"at_us": 1.5}, BadValue, "at_us"),
    ({"expires_us": "tomorrow"}, BadValue, "expires_us"),
    ({"lane": b"l"}, BadName, "lane"),
    ({"lane_limit": "3"}, BadValue, "lane_limit"),
    ({"lane_limit": 1 << 70}, BadValue, "at once"),
    ({"gate": 0}, BadName, "gate"),
    ({"unique": "key"}, BadValue, "unique rule of a job cannot be a str"),
    ({"unique": Unique(b"key")}, BadName, "unique key"),  # pyright: ignore[reportArgumentType]
    ({"unique": Unique("key", "never")}, BadValue, "cannot end at 'never'"),  # pyright: ignore[reportArgumentType]
    ({"unique": Unique("key", "time", 1.5)}, BadValue, "period"),  # pyright: ignore[reportArgumentType]
    ({"unique": Unique("key", "end", 1 << 70)}, BadValue, "period"),
    ({"needs": {"cpu": 1}}, BadValue, "needs of a job cannot be a dict"),
    ({"needs": ("cpu",)}, BadValue, "resource and a whole number"),
    ({"needs": (("cpu", 0.5),)}, BadValue, "resource and a whole number"),
    ({"needs": ((1, 1),)}, BadName, "resource"),
    ({"parents": [Edge(bytes(16))]}, BadValue, "parents of a job cannot be a list"),
    ({"parents": (bytes(16),)}, BadValue, "A parent cannot be a bytes"),
    ({"parents": (Edge("p"),)}, BadValue, "A parent cannot be a str"),  # pyright: ignore[reportArgumentType]
    ({"parents": (Edge(b"p"),)}, BadValue, "16 bytes"),
    ({"parents": (Edge(bytes(16), "maybe"),)}, BadValue, "until 'maybe'"),  # pyright: ignore[reportArgumentType]
    ({"flow": "flow"}, BadValue, "flow of a job cannot be a str"),
    ({"flow": b"flow"}, BadValue, "16 bytes"),
    ({"retry_of": 7}, BadValue, "retry_of"),
    ({"tags": ["a"]}, BadValue, "tags of a job cannot be a list"),
    ({"tags": "a"}, BadValue, "tags of a job cannot be a str"),
    ({"tags": (1,)}, BadName, "tag"),
]


@pytest.mark.parametrize(("fields", "error", "words"), WRONG, ids=lambda value: str(value)[:40])
def test_what_is_of_another_type_is_refused_by_name_and_told_what_to_do(
    fields: dict[str, Any], error: type[InputError], words: str
) -> None:
    for request in (PLAIN, FULL):
        check_request(request, LIMITS)
        with pytest.raises(error, match=words) as caught:
            check_request(msgspec.structs.replace(request, **fields), LIMITS)
        assert caught.value.todo
        assert caught.value.message.endswith(".")


@pytest.mark.parametrize("job", [PLAIN, None, Job(request={"task": "t"})], ids=["request", "none", "dict"])  # pyright: ignore[reportArgumentType]
def test_what_is_no_job_is_refused(job: Any) -> None:
    with pytest.raises(BadValue, match="A job to insert cannot be a"):
        check_jobs([job], LIMITS)
