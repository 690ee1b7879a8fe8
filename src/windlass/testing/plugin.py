"""The pytest plugin. One line says which app is tested, in the configuration of pytest:

    [tool.pytest.ini_options]
    windlass_app = "shop.tasks:app"

    def test_an_order_sends_a_mail(windlass_app, assert_sent):
        place_order(7)
        assert_sent(send_email, 7, to="a@b.c")

pytest imports this module in every project in which Windlass is installed, so it imports nothing of Windlass before a
test asks for one of its fixtures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from windlass.app.app import App
    from windlass.testing.in_process import TestWorker
    from windlass.testing.sent import SentJob, SentJobs
    from windlass.testing.stage import Stage, StageClock

OPTION = "windlass_app"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Makes the one line of configuration known."""
    parser.addini(OPTION, "The windlass.App that is tested, as module:name.", default="")


@pytest.fixture
def _windlass_stage(request: pytest.FixtureRequest) -> Iterator[Stage | TestWorker]:
    """Where the test plays: with a worker if it asks for one, else eagerly."""
    app = _app(request.config)
    if "windlass_worker" in request.fixturenames:
        from windlass.testing.in_process import run_in_process

        with run_in_process(app) as worker:
            yield worker
    else:
        from windlass.testing.eager import run_eagerly

        with run_eagerly(app) as stage:
            yield stage


@pytest.fixture
def windlass_app(_windlass_stage: Stage | TestWorker) -> App:
    """Your app, on a fresh store in memory. A job runs at once, where it is sent."""
    return _windlass_stage.app


@pytest.fixture
def windlass_worker(_windlass_stage: Stage | TestWorker) -> TestWorker:
    """A real worker beside the test, for your app on a fresh store in memory. `wait()` until all is done."""
    from windlass.testing.in_process import TestWorker

    if not isinstance(_windlass_stage, TestWorker):
        _refuse("The test runs its jobs eagerly already. Name windlass_worker among the parameters of the test.")
    return _windlass_stage


@pytest.fixture
def windlass_clock(_windlass_stage: Stage | TestWorker) -> StageClock:
    """The time of the store. `travel("2h")` lets it pass: what is delayed comes due."""
    return _windlass_stage.clock


@pytest.fixture
def windlass_sent(_windlass_stage: Stage | TestWorker) -> SentJobs:
    """What was sent in this test: `windlass_sent()`, or of one task, `windlass_sent(send_email)`."""
    return _windlass_stage.sent


@pytest.fixture
def assert_sent(windlass_sent: SentJobs) -> Callable[..., SentJob]:
    """`assert_sent(send_email, 7, to="a@b.c")`: gives that job, or fails with what was sent instead."""
    return windlass_sent.assert_sent


def _app(config: pytest.Config) -> App:
    from windlass.app.locate import locate
    from windlass.core.errors import BadValue

    name: str = config.getini(OPTION)
    if not name:
        _refuse(
            "Windlass does not know which app is tested. "
            f'Say it in pyproject.toml, under [tool.pytest.ini_options]: {OPTION} = "module:app".'
        )
    try:
        return locate(name)
    except BadValue as error:
        sentence = f"{OPTION} in the configuration of pytest: {error}"
    _refuse(sentence)


def _refuse(sentence: str) -> NoReturn:
    pytest.fail(sentence, pytrace=False)
