"""bench.anatomy: where do a job's microseconds go? `python -m bench.anatomy` (`make anatomy`) measures and writes it.

In reading order: `rights.py` (may we look at all), `steps.py` (which code belongs to which step of a job), `spy.py`
(py-spy: what the processes of a worker do), `verbs.py` (what the server says of its scripts), `drain.py` (one drain of
one contestant, cut into windows), `result.py` (what came of it: µs by step), `sheet.py` (the table). Contestants, their
jobs and the server are those of the race (`bench/race`, `redis.toml`): our three pools, and the two floors beside them.

A drain of a full server has three windows, each for so many of its jobs:

    |  start  |      clocks: nobody looks on      |      spied on by py-spy      |  slow log  |  the last ones  |
              CPU of each process, jobs            shares of steps in the        shares of scripts
                                                   user time of each process     in the server's CPU

CPU times come from the first window alone, because whoever is sampled or logged is slowed down. The others only say
how to divide them. So a column adds up to what the kernel counted, whatever the samples say.

**Which samples.** Those of the thread that holds the GIL (`py-spy record --gil`). Without that, py-spy takes every
thread that the kernel calls ready, which is not CPU time: a thread that has been woken and waits for a core is ready,
and so is every sleeper for a moment after py-spy has stopped and continued it. On two cores, half of the samples were
of threads in a wait. Who holds the GIL runs Python. What that leaves out are system calls, during which Python gives
the GIL up; these the kernel counts by itself, as system time. So a process has a row "in the kernel", and its user time
is divided by the samples. `--native` would name functions in C, below the Python line that called them; steps are told
apart by that line.

**What a script took** is told by the server, by the wall clock, and on busy cores that is more than its CPU time: it is
pushed from its core in the middle of scripts. So while it is asked, it goes before everybody else (`SCHED_FIFO`), and
what its scripts took is set beside its CPU time of the same window.

No figure is taken from an earlier run, and nothing of a contestant runs in the process that measures.
"""
