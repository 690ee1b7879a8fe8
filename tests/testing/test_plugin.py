"""The pytest plugin, as a project meets it: one line of configuration, no conftest."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from windlass.testing import coroutines, eager, in_process

pytest_plugins = ["pytester"]

HERE_ALREADY = (coroutines, eager, in_process)
"""So that a run of pytest inside this one neither imports them anew nor forgets them."""
CONFIGURATION = """
[pytest]
windlass_app = shop.tasks:app
pythonpath = .
"""
TASKS = """
from windlass import App, Retry

app = App("sqlite:////nowhere/at/all.db")
sent = []

@app.task(retry=Retry(2, base="1h"))
def send_email(order: int, to: str) -> str:
    sent.append(order)
    if order < 0:
        raise ConnectionError("no mail server")
    return f"order {order} to {to}"

@app.task
async def crawl(url: str) -> int:
    return len(url)

def place_order(order: int) -> None:
    send_email.delay(order, to="a@b.c")
    send_email.using(delay="2h", queue="slow").delay(order, to="survey@b.c")
"""
FIXTURES = ("windlass_app", "windlass_worker", "windlass_clock", "windlass_sent", "assert_sent")
PASSING = """
import pytest
from shop.tasks import app, crawl, place_order, send_email, sent
from windlass.core.errors import JobDead

@pytest.fixture(autouse=True)
def forget():
    sent.clear()

def test_eager(windlass_app):
    assert windlass_app is app
    assert crawl.delay("http").get() == 4
    with pytest.raises(JobDead, match="no mail server"):
        send_email.delay(-1, to="x").get()
    assert sent == [-1, -1, -1]

def test_sent(assert_sent, windlass_sent):
    place_order(7)
    assert_sent(send_email, 7, to="a@b.c")
    assert_sent(send_email.using(delay="2h"), 7, "survey@b.c")
    assert_sent("shop.tasks.send_email")
    assert len(windlass_sent(send_email)) == 2
    assert windlass_sent(crawl) == []

def test_time(windlass_app, windlass_clock):
    place_order(7)
    assert sent == [7]
    windlass_clock.travel("2h")
    assert sent == [7, 7]

def test_worker(windlass_worker, windlass_clock, windlass_app, assert_sent):
    assert windlass_app is windlass_worker.app is app
    place_order(8)
    windlass_worker.wait()
    assert sent == [8]
    windlass_clock.travel("2h")
    windlass_worker.wait()
    assert sent == [8, 8]
    assert assert_sent(send_email, 8, "a@b.c").handle.get() == "order 8 to a@b.c"

@pytest.mark.parametrize("number", range(3))
def test_each_test_has_a_store_of_its_own(windlass_app, windlass_sent, number):
    @windlass_app.task
    def local(): return number

    assert local.using(id="0192f000-0000-7000-8000-000000000000").delay().get() == number
    assert len(windlass_sent()) == 1

def test_plain():
    assert send_email(1, "x") == "order 1 to x"
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeini(CONFIGURATION)
    package = pytester.mkpydir("shop")
    (package / "tasks.py").write_text(TASKS)
    return pytester


def test_a_project_needs_one_line(project: pytest.Pytester) -> None:
    project.makepyfile(test_shop=PASSING)
    project.runpytest_inprocess("-W", "error", "--strict-config").assert_outcomes(passed=8)


FAKED = """
import pytest
from shop.tasks import app
from windlass import injected

class Bank:
    pass

class Fake:
    taken = 0

@app.resource
def bank() -> Bank:
    raise ConnectionError("a test reaches the bank")

@app.task
def charge(cents: int, bank: Bank = injected) -> None:
    bank.taken += cents

@pytest.fixture
def fake():
    with app.override(Bank, Fake()) as fake:
        yield fake

def test_eager(windlass_app, fake):
    charge.delay(5)
    assert fake.taken == 5

def test_worker(fake, windlass_worker):
    charge.delay(7)
    windlass_worker.wait()
    assert fake.taken == 7
"""


def test_a_fixture_gives_a_fake_resource_to_eager_jobs_and_to_a_worker(project: pytest.Pytester) -> None:
    project.makepyfile(test_shop=FAKED)
    project.runpytest_inprocess("-W", "error", "--strict-config").assert_outcomes(passed=2)


def test_pyproject_is_as_good_a_place(project: pytest.Pytester) -> None:
    (project.path / "tox.ini").unlink()
    project.makepyprojecttoml(
        '[tool.pytest.ini_options]\nwindlass_app = "shop.tasks:app"\npythonpath = ["."]\n',
    )
    project.makepyfile(test_shop=PASSING)
    project.runpytest_inprocess("-W", "error", "--strict-config").assert_outcomes(passed=8)


def test_a_failing_assertion_shows_the_line_of_the_test_and_what_was_sent(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_shop="""
        from shop.tasks import place_order, send_email

        def test_order(assert_sent):
            place_order(7)
            assert_sent(send_email, 8, to="a@b.c")
        """
    )
    result = project.runpytest_inprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            ">*assert_sent(send_email, 8, to=*",
            "E   *AssertionError: shop.tasks.send_email(8, to='a@b.c') was not sent. What was sent in this test:",
            "E   *  shop.tasks.send_email(7, to='a@b.c')",
            "E   *  shop.tasks.send_email(7, to='survey@b.c'), queue=slow, delay=2h",
        ],
        consecutive=True,
    )
    result.stdout.no_fnmatch_line("*sent.py*")


NOTHING_SAID = (
    "Windlass does not know which app is tested. Say it in pyproject.toml, under [tool.pytest.ini_options]: "
    'windlass_app = "module:app".'
)
NO_SUCH_MODULE = (
    "windlass_app in the configuration of pytest: There is no module 'shop.jobs', in which 'shop.jobs:app' is looked "
    "for. Check its spelling, and that your project is installed or on the Python path."
)
NOT_AN_APP = (
    "windlass_app in the configuration of pytest: shop.tasks:send_email is a Task, not an App. Write shop.tasks:app."
)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("", NOTHING_SAID),
        ("windlass_app = shop.jobs:app", NO_SUCH_MODULE),
        ("windlass_app = shop.tasks:send_email", NOT_AN_APP),
    ],
    ids=["nothing said", "no such module", "not an app"],
)
def test_a_configuration_that_names_no_app_is_told_in_one_sentence(
    project: pytest.Pytester, line: str, sentence: str
) -> None:
    project.makeini(f"[pytest]\npythonpath = .\n{line}\n")
    project.makepyfile("\n".join(f"def test_{name}({name}): pass" for name in FIXTURES))
    result = project.runpytest_inprocess("-p", "no:randomly")
    result.assert_outcomes(errors=len(FIXTURES))
    said = [text for text in result.stdout.lines if not text.startswith(("_", "=", "ERROR ", "test_"))]
    assert [text for text in said if text][-len(FIXTURES) :] == [sentence] * len(FIXTURES)


def test_an_app_that_is_not_used_is_not_even_imported(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nwindlass_app = no.such:app\n")
    project.makepyfile("def test_it(): pass")
    project.runpytest_inprocess().assert_outcomes(passed=1)


def test_a_worker_that_comes_too_late_is_told(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        def test_it(windlass_app, request):
            request.getfixturevalue("windlass_worker")
        """
    )
    result = project.runpytest_inprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Name windlass_worker among the parameters of the test.*"])


def test_every_fixture_is_told_by_pytest(project: pytest.Pytester) -> None:
    shown = project.runpytest_inprocess("--fixtures").stdout.str()
    for name in FIXTURES:
        assert f"{name} -- " in shown


def test_it_is_found_by_pytest_where_windlass_is_installed() -> None:
    (entry,) = entry_points(group="pytest11", name="windlass")
    assert entry.value == "windlass.testing.plugin"


def test_a_project_that_does_not_use_it_pays_next_to_nothing() -> None:
    code = """
import sys
import pytest
before = set(sys.modules)
import windlass.testing.plugin
print(*sorted(set(sys.modules) - before))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"windlass", "windlass.testing", "windlass.testing.plugin"}
