"""note: fenced, bounded appends to a running job: its log, progress, steps, and the start of a suspect."""

from __future__ import annotations

import pytest

from windlass.core.errors import TooLarge
from windlass.core.ids import new_id
from windlass.core.job import Outcome, State, Stream
from windlass.core.limits import Limits
from windlass.engines.protocol import ALL_PARTS, LINE_COST, STEPS_KEPT, Note, Verdict
from windlass.testing.conformance.harness import Harness


class Noting:
    """What a run leaves behind while it runs."""

    # ── logs ────────────────────────────────────────────────────────────────────────────────────────────

    def test_log_lines_are_kept_in_order_and_numbered(self, harness: Harness) -> None:
        claim = harness.running()
        for n in range(3):
            assert harness.note(claim, "log", b"line %d" % n) is Verdict.ACCEPTED
        log = harness.job(claim.id).log
        assert [line.text for line in log] == [b"line 0", b"line 1", b"line 2"]
        assert [line.number for line in log] == [1, 2, 3]
        assert {line.at_us for line in log} == {harness.now_us}

    def test_the_lines_of_one_batch_keep_their_order(self, harness: Harness) -> None:
        claim = harness.running()
        notes = [Note(id=claim.id, fence=claim.fence, kind="log", data=b"%d" % n) for n in range(50)]
        assert harness.engine.note(notes) == [Verdict.ACCEPTED] * 50
        assert [line.text for line in harness.job(claim.id).log] == [b"%d" % n for n in range(50)]

    def test_numbers_go_on_over_attempts_and_lines_say_which(self, harness: Harness) -> None:
        claim = harness.running()
        harness.note(claim, "log", b"a")
        harness.finish(claim, Outcome.FAILED, delay_s=0)
        (claim,) = harness.claim(harness.hand(), queues=(claim.queue,))
        harness.note(claim, "log", b"b")
        log = harness.job(claim.id).log
        assert [(line.number, line.attempt, line.text) for line in log] == [(1, 1, b"a"), (2, 2, b"b")]

    def test_a_log_is_read_on_from_a_number(self, harness: Harness) -> None:
        claim = harness.running()
        for n in range(5):
            harness.note(claim, "log", b"%d" % n)
        (job,) = harness.engine.fetch([claim.id], ALL_PARTS, log_after=3)
        assert job is not None
        assert [line.number for line in job.log] == [4, 5]

    def test_a_log_past_its_bound_keeps_head_and_tail_and_shows_the_gap(self, harness: Harness) -> None:
        small = harness.another(Limits(log_bytes=400))
        claim = harness.running()
        for n in range(100):
            small.note([Note(id=claim.id, fence=claim.fence, kind="log", data=b"%09d\n" % n)])
        (job,) = small.fetch([claim.id])
        assert job is not None
        assert sum(len(line.text) + LINE_COST for line in job.log) <= 400
        numbers = [line.number for line in job.log]
        assert numbers == sorted(set(numbers))
        head = [number for index, number in enumerate(numbers) if number == index + 1]
        assert len(head) >= 3
        assert numbers[-3:] == [98, 99, 100]
        assert all(line.text == b"%09d\n" % (line.number - 1) for line in job.log)

    def test_a_short_line_never_slips_in_before_the_longer_one_that_came_first(self, harness: Harness) -> None:
        small = harness.another(Limits(log_bytes=100 + 4 * LINE_COST))
        claim = harness.running()
        for size in (40, 41, 3):
            small.note([Note(id=claim.id, fence=claim.fence, kind="log", data=bytes(size))])
        assert [(line.number, len(line.text)) for line in harness.job(claim.id).log] == [(1, 40), (2, 41), (3, 3)]

    def test_a_line_keeps_where_and_when_it_was_said(self, harness: Harness) -> None:
        claim = harness.running()
        now_us = harness.now_us
        said: list[tuple[Stream, int]] = [("stdout", now_us - 5_000_000), ("stderr", now_us - 1), ("log", 0), ("", 0)]
        notes = [
            Note(id=claim.id, fence=claim.fence, kind="log", data=b"line", stream=stream, at_us=at_us)
            for stream, at_us in said
        ]
        assert harness.engine.note(notes) == [Verdict.ACCEPTED] * 4
        log = harness.job(claim.id).log
        assert [(line.stream, line.at_us) for line in log] == [(stream, at_us or now_us) for stream, at_us in said]

    def test_empty_lines_are_bounded_too(self, harness: Harness) -> None:
        small = harness.another(Limits(log_bytes=10 * LINE_COST))
        claim = harness.running()
        small.note([Note(id=claim.id, fence=claim.fence, kind="log")] * 50)
        assert [line.number for line in harness.job(claim.id).log] == [1, 2, 3, 4, 5, 46, 47, 48, 49, 50]

    # ── progress and steps ──────────────────────────────────────────────────────────────────────────────

    def test_the_last_progress_is_kept(self, harness: Harness) -> None:
        claim = harness.running()
        assert harness.job(claim.id).progress is None
        for data in (b"10%", b"20%"):
            harness.note(claim, "progress", data)
        progress = harness.job(claim.id).progress
        assert progress is not None
        assert (progress.data, progress.at_us) == (b"20%", harness.now_us)

    def test_a_step_is_kept_under_its_key(self, harness: Harness) -> None:
        claim = harness.running()
        for key, data in (("b", b"1"), ("a", b"2"), ("b", b"3")):
            harness.note(claim, "step", data, key)
        assert harness.job(claim.id).steps == (("a", b"2"), ("b", b"3"))

    def test_one_step_more_than_a_job_may_keep_is_refused_and_the_others_stay(self, harness: Harness) -> None:
        claim = harness.running()
        notes = [Note(id=claim.id, fence=claim.fence, kind="step", key=f"s{n}") for n in range(STEPS_KEPT)]
        harness.engine.note(notes)
        with pytest.raises(TooLarge):
            harness.note(claim, "step", b"", "one-more")
        harness.note(claim, "step", b"again", "s0")
        steps = harness.job(claim.id).steps
        assert (len(steps), steps[0]) == (STEPS_KEPT, ("s0", b"again"))

    def test_steps_are_there_for_the_next_attempt(self, harness: Harness) -> None:
        claim = harness.running()
        harness.note(claim, "step", b"1", "a")
        harness.finish(claim, Outcome.FAILED, delay_s=0)
        harness.claim(harness.hand(), queues=(claim.queue,))
        assert harness.job(claim.id).steps == (("a", b"1"),)

    def test_a_start_is_written_once_the_job_runs(self, harness: Harness) -> None:
        claim = harness.running()
        assert harness.record(claim.id).started_us is None
        harness.note(claim, "start")
        assert harness.record(claim.id).started_us == harness.now_us

    def test_a_start_belongs_to_its_claim(self, harness: Harness) -> None:
        claim = harness.running()
        harness.note(claim, "start")
        harness.give_back(claim)
        harness.claim(harness.hand(), queues=(claim.queue,))
        assert harness.record(claim.id).started_us is None

    # ── fences and sizes ────────────────────────────────────────────────────────────────────────────────

    @pytest.mark.parametrize("kind", ["start", "log", "progress", "step"])
    def test_a_note_with_an_old_fence_changes_nothing(self, harness: Harness, kind: str) -> None:
        old = harness.running()
        harness.finish(old, Outcome.FAILED, delay_s=0)
        (middle,) = harness.claim(harness.hand(), queues=(old.queue,))
        harness.finish(middle, Outcome.FAILED, delay_s=0)
        (new,) = harness.claim(harness.hand(), queues=(old.queue,))
        before = harness.job(old.id)
        assert harness.note(old, kind, b"x", "k") is Verdict.STALE
        assert harness.note(middle, kind, b"x", "k") is Verdict.ALREADY
        assert harness.job(old.id) == before
        assert harness.note(new, kind, b"x", "k") is Verdict.ACCEPTED
        assert harness.job(old.id) != before

    def test_a_note_after_the_end_changes_nothing(self, harness: Harness) -> None:
        claim = harness.running()
        harness.finish(claim)
        before = harness.job(claim.id)
        assert harness.note(claim, "log", b"late") is Verdict.ALREADY
        assert harness.job(claim.id) == before

    def test_a_note_to_a_job_that_is_not_there_is_stale(self, harness: Harness) -> None:
        assert harness.engine.note([Note(id=new_id(), fence=1, kind="log")]) == [Verdict.STALE]

    def test_a_note_of_a_lost_claim_is_stale(self, harness: Harness) -> None:
        harness.worker()
        harness.send()
        doomed = harness.worker()
        (claim,) = harness.claim(doomed)
        harness.vanish(doomed)
        harness.sweep_all()
        assert harness.note(claim, "log", b"from the grave") is Verdict.STALE
        assert harness.job(claim.id).log == ()

    def test_a_note_that_is_too_large_refuses_its_whole_batch(self, harness: Harness) -> None:
        claim = harness.running()
        sizes = (1, harness.limits.note_bytes + 1)
        with pytest.raises(TooLarge, match="note_bytes"):
            harness.engine.note([Note(id=claim.id, fence=claim.fence, kind="log", data=bytes(size)) for size in sizes])
        assert harness.job(claim.id).log == ()
        assert harness.state(claim.id) is State.RUNNING
