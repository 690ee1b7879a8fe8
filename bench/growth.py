"""Growth: the CPU time of claim + settle must not depend on what else lies in the store.

Each measurement compares 10,000 jobs drained from a large store with 10,000 drained from a small one, by the CPU time
of the process: waiting for the disk is left out, work in SQLite and in our code is not.
"""

from __future__ import annotations

from bench.claims import drain, drain_lanes
from bench.rounds import Contestant, Course, Round, alternate, cpu
from bench.stores import Stock

JOBS = 10_000
MILLION = 1_000_000
LANES = 100_000
FEW_LANES = 1_000
ROUNDS = 5


def backlog_growth(course: Course) -> list[Round]:
    """10,000 of a million waiting jobs beside all of 10,000."""
    return _grow(course, Stock(plain=course.size(MILLION)), Stock(plain=course.size(JOBS)))


def finished_growth(course: Course) -> list[Round]:
    """With a million finished jobs kept beside none."""
    jobs = course.size(JOBS)
    return _grow(course, Stock(plain=jobs, finished=course.size(MILLION)), Stock(plain=jobs))


def held_growth(course: Course) -> list[Round]:
    """Plain jobs, with a million held jobs in 100,000 lanes beside none."""
    return _grow(course, _many_lanes(course), Stock(plain=course.size(JOBS)))


def lane_growth(course: Course) -> list[Round]:
    """Lane jobs, from 100,000 lanes beside 1,000 lanes."""
    jobs = course.size(JOBS)
    few = Stock(plain=jobs, lanes=course.size(FEW_LANES), behind=10)
    large = Contestant("large", _many_lanes(course), drain_lanes, jobs)
    rounds = alternate(course, large, Contestant("small", few, drain_lanes, jobs), cpu, ROUNDS)
    course.workshop.drop(MILLION)
    return rounds


def _many_lanes(course: Course) -> Stock:
    return Stock(plain=course.size(JOBS), lanes=course.size(LANES), behind=10)


def _grow(course: Course, large: Stock, small: Stock) -> list[Round]:
    jobs = course.size(JOBS)
    one, two = Contestant("large", large, drain, jobs), Contestant("small", small, drain, jobs)
    rounds = alternate(course, one, two, cpu, ROUNDS)
    # The store with the lanes serves two measurements; the others go at once.
    if not large.lanes:
        course.workshop.drop(MILLION)
    return rounds
