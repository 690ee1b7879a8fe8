"""What a job shows whose process died under it."""

from __future__ import annotations

import signal

import pytest

from windlass import Crashed, Cut, MemoryLimit, Retry
from windlass.worker.deaths import crashed, over_memory


@pytest.mark.parametrize(
    ("used", "memory", "said"),
    [
        (612_000_000, 512_000_000, "The task used 612MB, more than its memory of 512MB."),
        (4 << 30, 1 << 30, "The task used 4GiB, more than its memory of 1GiB."),
        (512_000_512, 512_000_000, "The task used 512,000,512 bytes, more than its memory of 512,000,000 bytes."),
    ],
)
def test_a_job_over_its_memory_says_how_much_it_used(used: int, memory: int, said: str) -> None:
    error = over_memory(used, memory)
    assert (type(error), error.message) == (MemoryLimit, said)


def test_a_retry_policy_can_name_it() -> None:
    policy = Retry(3, on=MemoryLimit)
    assert policy.wants(over_memory(2, 1), 1)
    assert not policy.wants(crashed(-signal.SIGSEGV), 1)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (-signal.SIGSEGV, "The process that ran it was killed by SIGSEGV."),
        (-60, "The process that ran it was killed by signal 60."),
        (0, "The process that ran it ended with exit code 0."),
        (3, "The process that ran it ended with exit code 3."),
    ],
)
def test_a_job_whose_process_died_says_how(status: int, said: str) -> None:
    error = crashed(status)
    assert (type(error), error.message) == (Crashed, said)


def test_a_task_that_is_cut_off_reads_why() -> None:
    assert str(Cut()) == "The worker lost touch with the store; another one may run the job now."
