"""Wrong uses. Each line that ends in the word `wrong` must be an error to pyright and to mypy, and no other line.

`wrong: pyright` or `wrong: mypy` marks what only one of them can see. Never run, and left out of `make check`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.typing.right import Page, Pool, app, charge, crawl, plain, with_options
from windlass import App, Handle, Middleware, Request, Retry, Secret, Task, Worker, gather


def arguments() -> None:
    """Arguments that do not fit the function."""
    plain.delay()  # wrong
    plain.delay("one")  # wrong
    plain.delay(1, 2)  # wrong
    plain.delay(1, "a", "b")  # wrong
    plain.delay(1, too="a")  # wrong
    with_options.delay(1, "a")  # wrong
    with_options.delay(1)  # wrong
    crawl.delay(1)  # wrong
    charge.delay(1, "pool")  # wrong
    plain.using(delay=60).delay("one")  # wrong
    plain("one")  # wrong
    plain.delay_many([1, 2])  # wrong
    plain.delay_many(3)  # wrong


async def from_asyncio() -> None:
    """The same from asyncio."""
    await plain.adelay("one")  # wrong
    await crawl.adelay(1)  # wrong
    await crawl(1)  # wrong
    await plain(1)  # wrong
    async for _ in crawl.delay("u"):  # wrong
        pass


def results() -> None:
    """Results are not of another type."""
    number: int = plain.delay(1).get()  # wrong
    page: Page = crawl("u")  # wrong
    handle: Handle[int] = plain.delay(1)  # wrong
    numbers: list[int] = gather([plain.delay(1)])  # wrong
    plain.delay(1).get(timeout=["5s"])  # wrong
    plain.delay(1).result()  # wrong
    task: Task[[str], str] = plain  # wrong
    print(number, page, handle, numbers, task)


def options() -> None:
    """Options of a wrong type."""
    plain.using(priority="high")  # wrong
    plain.using(at="tomorrow")  # wrong
    plain.using(tags=5)  # wrong
    plain.using(memory=1.5)  # wrong
    plain.using(needs=["browser"])  # wrong
    plain.using(id=5)  # wrong
    Retry("often")  # wrong
    Retry(3, backoff=2)  # wrong
    Retry.fixed(3, bse=2)  # wrong
    App(5)  # wrong
    App("memory://", routes=["mail"])  # wrong
    App("memory://", middleware=[Tenant])  # wrong
    App("memory://", middleware=Tenant())  # wrong
    Worker(app, pool="treads")  # wrong
    Worker("app")  # wrong
    Worker(plain)  # wrong


@app.task(retry="often")  # wrong
def retries() -> None:
    """An option of a wrong type."""


@app.task(priority="high")  # wrong
def ranks() -> None:
    """Another."""


class Tenant(Middleware):
    """A hook that does not fit its base."""

    def before_send(self, request: Request) -> None:  # wrong
        """Forgets to return the request."""


def pools() -> Iterator[Pool]:
    """Not a resource until it is declared."""
    yield Pool()


app.resource(5)  # wrong
app.on_start(5)  # wrong
app.task(5)  # wrong


@app.task
def log_in(password: Secret[str]) -> None:
    """Plain text is no secret."""
    password.upper()  # wrong


log_in.delay("hunter2")  # wrong
