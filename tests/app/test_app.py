"""The app: tasks by name, routes, one store for any number of threads and forked children."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sized
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.app.conftest import Store
from windlass import App, Settings, Task, Worker
from windlass.core.errors import (
    BadName,
    BadSetting,
    BadUrl,
    BadValue,
    DuplicateTask,
    StoreClosed,
    StoreUnavailable,
    UnknownOption,
    UnknownScheme,
)
from windlass.core.events import Sent
from windlass.core.settings import shown_values
from windlass.engines.protocol import Query

TASKS = """
import os, sys, threading
from windlass import App, current_job

app = App(os.environ["WINDLASS_URL"])

@app.task
def double(number: int) -> int:
    return 2 * number
"""


def count(app: App) -> int:
    return app.engine.search(Query(count=True)).count


def run(code: str, folder: Path, *, python: tuple[str, ...] = (), stdin: str = "") -> str:
    """What a program printed that has the tasks above; whatever it writes to stderr is a failure."""
    (folder / "program.py").write_text(TASKS + code)
    done = subprocess.run(
        [sys.executable, "-W", "error", *(python or ("program.py",))],
        env={**os.environ, "WINDLASS_URL": "sqlite:///jobs.db"},
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


# ── tasks ───────────────────────────────────────────────────────────────────────────────────────────────


def first() -> None: ...


def test_a_task_is_named_by_its_module_and_function_or_as_it_says() -> None:
    app = App("memory://")

    def inner() -> None: ...

    names = [app.task(function).name for function in (first, inner)]
    function = "test_a_task_is_named_by_its_module_and_function_or_as_it_says"
    assert names == [f"{__name__}.first", f"{__name__}.{function}.inner"]
    assert app.task(name="mine")(first).name == "mine"
    assert set(app.tasks) == {*names, "mine"}
    assert repr(app).startswith("<App 3 tasks, Settings(url=memory://")


def test_two_tasks_of_one_name_are_refused_naming_both_places() -> None:
    app = App("memory://")
    kept = app.task(name="t")(first)
    with pytest.raises(
        DuplicateTask, match=r"two tasks t: .*test_app\.py:\d+ and .*test_app\.py:\d+\. Give one"
    ) as caught:
        app.task(name="t")(count)
    assert str(first.__code__.co_firstlineno) in str(caught.value)
    assert app.tasks == {"t": kept}


@pytest.mark.parametrize("name", ["two words", "-t", "x" * 129])
def test_a_bad_name_is_refused(name: str) -> None:
    app = App("memory://")
    with pytest.raises(BadName):
        app.task(name=name)(first)
    assert app.tasks == {}


@pytest.mark.parametrize("thing", [5, "first", [first]])
def test_what_is_no_function_is_refused(thing: Any) -> None:
    with pytest.raises(BadValue, match="A task cannot be made of"):
        App("memory://").task(thing)


def test_what_a_program_defines_is_named_as_another_process_would_import_it(tmp_path: Path) -> None:
    assert run("print(double.name)", tmp_path) == "program.double\n"
    assert run("print(double.name)", tmp_path, python=("-m", "program")) == "program.double\n"
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__main__.py").write_text(TASKS + "print(double.name)")
    assert run("", tmp_path, python=("-m", "shop")) == "shop.double\n"


@pytest.mark.parametrize("how", ["-", "-c"])
def test_in_a_shell_or_a_notebook_a_task_may_be_defined_again(tmp_path: Path, how: str) -> None:
    cell = "@app.task\ndef double(number):\n    return {} * number\n\n"
    code = f"{TASKS}\n{cell.format(3)}\n{cell.format(4)}\nprint(double.name, double(2), len(app.tasks))\n"
    python = ("-",) if how == "-" else ("-c", code)
    assert run("", tmp_path, python=python, stdin=code) == "main.double 8 1\n"


def test_a_task_defined_twice_in_a_file_is_refused_there_too(tmp_path: Path) -> None:
    code = """
try:
    app.task(lambda: 1), app.task(lambda: 2)
except Exception as error:
    print(type(error).__name__)
"""
    assert run(code, tmp_path) == "DuplicateTask\n"


# ── routes ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_first_route_that_fits_gives_the_queue_and_a_tasks_own_wins() -> None:
    with App("memory://", routes={"mail.urgent.*": "fast", "mail.*": "mail", "*.Report": "slow"}) as app:
        names = ["mail.urgent.send", "mail.send", "year.Report", "year.report", "mailing"]
        queues = [app.task(name=name)(lambda: None).delay().job().request.queue for name in names]
        assert queues == ["fast", "mail", "slow", "default", "default"]
        own = app.task(name="mail.own", queue="own")(lambda: None)
        assert own.delay().job().request.queue == "own"
        assert own.using(queue="sent").delay().job().request.queue == "sent"
        assert app.send("mail.elsewhere").job().request.queue == "mail"


def test_an_app_does_not_grow_by_the_names_that_are_sent() -> None:
    with App("memory://", routes={"mail.*": "mail"}) as app:
        app.send("mail.first")  # opens the store
        before = {name: len(value) for name, value in vars(app).items() if isinstance(value, Sized)}
        queues = {app.send(f"mail.to-{number}").job().request.queue for number in range(100)}
        assert queues == {"mail"}
        assert {name: len(value) for name, value in vars(app).items() if isinstance(value, Sized)} == before


def test_a_route_to_a_bad_queue_is_refused_when_the_app_is_made() -> None:
    with pytest.raises(BadName, match="queue"):
        App("memory://", routes={"*": "no queue"})


# ── settings ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("option", "meant"), [("route", "routes"), ("middlewares", "middleware"), ("setting", "settings")]
)
def test_an_unknown_option_of_an_app_names_the_near_miss(option: str, meant: str) -> None:
    with pytest.raises(UnknownOption, match=f"An app has no option `{option}`. Did you mean `{meant}`"):
        App("memory://", **dict[str, Any]({option: {}}))


def test_an_unknown_setting_names_the_near_miss() -> None:
    with pytest.raises(BadSetting, match=r"There is no setting 'leese' .*Did you mean `lease`"):
        App("memory://", leese="15s")


def test_every_setting_may_be_given_to_an_app() -> None:
    shown = shown_values(Settings(url="memory://"))
    for name, value in shown.items():
        if name != "url":
            assert shown_values(App("memory://", **dict[str, Any]({name: value})).settings)[name] == value
    assert App("memory://", lease="30s").settings.lease_s == 30


def test_settings_are_given_whole_or_one_by_one() -> None:
    whole = Settings(url="memory://", beat_s=1)
    assert App(settings=whole).settings is whole
    for more in ({"url": "memory://"}, {"lease": "15s"}):
        with pytest.raises(BadValue, match="either `settings` or single ones"):
            App(settings=whole, **dict[str, Any](more))


def test_a_bad_url_is_told_at_the_first_send_and_every_later_one() -> None:
    for url, error in (("nothing", BadUrl), ("sqlight:///x.db", UnknownScheme)):
        app = App(url)
        task = app.task(name="t")(first)
        for _ in range(2):
            with pytest.raises(error):
                task.delay()


def test_the_url_is_the_environments_where_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_URL", "memory://from-outside")
    assert App().settings.url == "memory://from-outside"
    assert App("memory://own").settings.url == "memory://own"


# ── the store ───────────────────────────────────────────────────────────────────────────────────────────


def test_defining_tasks_opens_nothing_and_the_first_send_opens_once(store: Store) -> None:
    assert store.engine.calls["open"] == 0
    start = threading.Barrier(8)

    def send(number: int) -> str:
        start.wait(10)
        return store.double.delay(number).id

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(send, range(8)))) == 8
    assert store.engine.calls["open"] == 1
    assert count(store.app) == 8


def test_a_store_that_cannot_be_opened_is_tried_again_at_the_next_send(store: Store) -> None:
    store.engine.refuse("open")
    with pytest.raises(StoreUnavailable):
        store.double.delay(1)
    assert store.double.delay(1).state == "ready"


def test_a_closed_app_opens_again_at_the_next_send(url: str) -> None:
    if url.startswith("memory"):
        pytest.skip("the memory engine's jobs go with its last user")
    app = App(url)
    handle = app.task(name="t")(first).delay()
    engine = app.engine
    app.close()
    app.close()
    with pytest.raises(StoreClosed):
        engine.search(Query())
    assert handle.state == "ready"
    app.close()


def test_closing_an_app_that_was_never_used_opens_nothing(store: Store) -> None:
    store.app.close()
    assert store.engine.calls["open"] == 0


def test_every_send_is_told_on_the_bus_with_what_it_duplicates(app: App) -> None:
    told: list[Sent] = []
    task = app.task(name="t", queue="q")(first)
    before = task.delay()
    app.bus.subscribe(Sent, told.append)
    again = task.using(id=before.id).delay()
    assert [(event.job, event.task, event.queue, event.duplicate_of) for event in told] == [
        (again.job_id, "t", "q", before.job_id)
    ]


# ── threads ─────────────────────────────────────────────────────────────────────────────────────────────


def test_threads_send_and_wait_at_once(app: App) -> None:
    task: Task[[int], int] = app.task(name="double")(double)
    start = threading.Barrier(8)

    def work(number: int) -> list[int]:
        start.wait(10)
        sent = [task.delay(number * 100 + index) for index in range(10)]
        return [handle.get(timeout=30) for handle in sent]

    with Worker(app, slots=2), ThreadPoolExecutor(8) as threads:
        results = list(threads.map(work, range(8)))
    assert results == [[2 * (number * 100 + index) for index in range(10)] for number in range(8)]


def double(number: int) -> int:
    return 2 * number


# ── forks ───────────────────────────────────────────────────────────────────────────────────────────────

FORK = """
def fork(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\\n".encode())
            os._exit(1)
        os._exit(0)
    return pid

def reap(*pids):
    for pid in pids:
        assert os.waitpid(pid, 0)[1] == 0, "a child failed"

def states(ids):
    return sorted(app.result(job_id).state.value for job_id in ids)

read, write = os.pipe()

def tell(handle):
    os.write(write, f"{handle.id}\\n".encode())

def told(count):
    lines = []
    with os.fdopen(read) as file:
        os.close(write)
        lines = file.read().split()
    assert len(lines) == count, lines
    return lines
"""


def test_children_send_while_the_parent_has_the_app_open(tmp_path: Path) -> None:
    code = """
before = double.delay(0).id
children = [fork(lambda: tell(double.delay(1))) for _ in range(3)]
after = double.delay(2).id
reap(*children)
print(len({before, after, *told(3)}), states([before, after]))
"""
    assert run(FORK + code, tmp_path) == "5 ['ready', 'ready']\n"
    with App(f"sqlite:///{tmp_path}/jobs.db") as app:
        assert count(app) == 5


def test_a_child_waits_and_sends_while_the_parents_waiter_runs(tmp_path: Path) -> None:
    """The waiter's thread does not come along; its locks might have been held."""
    code = """
from windlass import Worker
from windlass.core.errors import NotFinished

waiting = double.delay(1)
answer = []
thread = threading.Thread(target=lambda: answer.append(waiting.get(timeout=30)))
thread.start()
while not app.waiter._asleep:
    pass

def child():
    try:
        waiting.get(timeout=0.01)
        raise AssertionError("it has not run")
    except NotFinished:
        pass
    own = double.delay(2)
    tell(own)
    with Worker(app, slots=1):
        assert (waiting.get(timeout=30), own.get(timeout=30)) == (2, 4)

with app.waiter._lock:
    pid = fork(child)
reap(pid)
thread.join(30)
print(answer, app.result(told(1)[0]).get(timeout=30))
"""
    assert run(FORK + code, tmp_path) == "[2] 4\n"


def test_a_child_that_is_forked_inside_the_apps_locks_is_not_stuck(tmp_path: Path) -> None:
    code = """
from windlass.core import ids

double.delay(0)
with app._own, ids._lock:
    pid = fork(lambda: (tell(double.delay(1)), app.close()))
reap(pid)
print(states(told(1)))
"""
    # Another thread holds them in life; to the child it is the same, for it cannot tell whose they were.
    held = code.replace("with app._own, ids._lock:\n    pid", HOLD + "pid").replace(
        "reap(pid)", "release.set()\nreap(pid)"
    )
    assert run(FORK + held, tmp_path) == "['ready']\n"


HOLD = """
held, release = threading.Event(), threading.Event()

def hold():
    with app._own, ids._lock:
        held.set()
        release.wait(30)

threading.Thread(target=hold).start()
held.wait(30)
"""


def test_an_app_that_was_opened_before_the_fork_works_in_prefork_servers(tmp_path: Path) -> None:
    """As gunicorn does: the master has imported, sent and waited; its children serve with threads and loops."""
    code = """
import asyncio

asyncio.run(double.adelay(0))

def serve():
    threads = [threading.Thread(target=lambda: tell(double.delay(1))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    async def main():
        for handle in await asyncio.gather(*(double.adelay(number) for number in range(4))):
            tell(handle)

    asyncio.run(main())
    app.close()

reap(*[fork(serve) for _ in range(2)])
print(len(set(told(16))), states([double.delay(9).id]))
"""
    assert run(FORK + code, tmp_path) == "16 ['ready']\n"


def test_a_child_closes_what_is_its_own_and_the_parent_goes_on(tmp_path: Path) -> None:
    code = """
from collections.abc import Iterator
from windlass import injected

class Pool:
    def __init__(self):
        self.pid = os.getpid()

@app.resource
def pool() -> Iterator[Pool]:
    made = Pool()
    try:
        yield made
    finally:
        os.write(1, f"{'parent' if os.getpid() == parent else 'child'} closes {made.pid == os.getpid()}\\n".encode())

@app.task
def uses(pool: Pool = injected) -> bool:
    return pool.pid == os.getpid()

parent = os.getpid()
assert uses()
double.delay(0)

def child():
    assert uses(), "its own, for a connection cannot be shared"
    app.close()

reap(fork(child))
assert uses()
print(states([double.delay(1).id]), flush=True)
app.close()
"""
    assert run(FORK + code, tmp_path).splitlines() == ["child closes True", "['ready']", "parent closes True"]


# ── the end of a process ────────────────────────────────────────────────────────────────────────────────

ENDS: dict[str, str] = {
    "it falls off its end": "",
    "it exits": "sys.exit(0)",
    "a thread waits still": "threading.Thread(target=double.delay(2).wait, daemon=True).start()\n"
    "while not app.waiter._asleep:\n    pass",
    "a thread waits still, and nobody asks": "from windlass.app import asker\nasker.IDLE_S = 0\n"
    "threading.Thread(target=double.delay(2).wait, daemon=True).start()\n"
    "while not app.waiter._asleep or app.waiter._asker._thread:\n    pass",
    "it sent from a loop": "import asyncio\nasyncio.run(double.adelay(2))",
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_script_may_end_right_after_sending_and_tells_the_store(tmp_path: Path, end: str) -> None:
    run(f"double.delay(1)\n{end}", tmp_path)
    with App(f"sqlite:///{tmp_path}/jobs.db") as app:
        assert count(app) >= 1
    wake = tmp_path / "jobs.db.d" / "wake"
    assert not wake.exists() or list(wake.iterdir()) == [], "nobody listens any more"


def test_at_the_end_of_a_process_its_resources_are_closed_and_the_store_is_told(tmp_path: Path) -> None:
    code = """
from collections.abc import Iterator
from windlass import injected

class Pool: ...

@app.resource
def pool() -> Iterator[Pool]:
    yield Pool()
    print("closed")

@app.task
def uses(pool: Pool = injected) -> None: ...

uses()
double.delay(1)
close, app.engine.close = app.engine.close, lambda: print("told") or close()
"""
    assert run(code, tmp_path) == "closed\ntold\n"


def test_an_app_that_fails_to_close_keeps_no_other_from_closing(tmp_path: Path) -> None:
    code = """
import logging
logging.basicConfig(stream=sys.stdout, format="%(message)s")
others = [App("memory://") for _ in range(3)]
for other in (app, *others):
    other.send("t")
for other in others:
    other._held.resources = type("Broken", (), {"close": lambda self: 1 / 0})()
"""
    assert run(code, tmp_path).count("was not closed cleanly") == 3


def test_the_hooks_of_a_worker_are_kept_in_their_order() -> None:
    app = App("memory://")
    hooks: list[Callable[[], None]] = [lambda: None, lambda: None]
    assert [app.on_start(hook) for hook in hooks] == hooks == app.starters
    assert [app.on_stop(hook) for hook in hooks] == hooks == app.stoppers
