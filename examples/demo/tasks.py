"""The tasks of a small shop. Nothing is mailed or drawn: the tasks take the time it would take, and fail as it would.

windlass worker examples/demo/tasks.py                    run them
windlass call tasks.thumbnail cat.jpg --wait              send one
"""

from __future__ import annotations

import asyncio
import random
import smtplib
import time

from windlass import App, Retry, current_job

app = App()  # WINDLASS_URL, else windlass.db in the folder you start from


@app.task(queue="mail", retry=Retry(5, base="2s", on=(smtplib.SMTPException,)), timeout="10s")
def send_mail(to: str, subject: str) -> str:
    """Goes through a mail server that refuses strangers at first, as many do, and drops a connection now and then."""
    attempt = current_job().attempt
    time.sleep(random.uniform(0.1, 0.3))
    if to.endswith("@old.test") and attempt == 1:
        raise smtplib.SMTPSenderRefused(451, b"4.7.1 Greylisted, try again later", "shop@bay.test")
    if random.random() < 0.1:
        raise smtplib.SMTPServerDisconnected("Connection unexpectedly closed")
    current_job().log(f"{subject!r} was accepted for {to} at attempt {attempt}")
    return f"250 2.0.0 queued as {random.randrange(16**8):08X}"


@app.task(queue="images")
def thumbnail(photo: str, sizes: int = 20) -> int:
    """Draws a photo in several sizes, and says how far it has come."""
    for done in range(sizes):
        current_job().progress(done, sizes)
        time.sleep(random.uniform(0.05, 0.15))
    current_job().progress(sizes, sizes)
    return sizes


@app.task(queue="imports")
async def import_prices(file: str, rows: int) -> float:
    """Adds up a supplier's list. One of them writes prices as words: no other try would help, so the job is dead."""
    prices = ["12.50"] * rows
    if "handwritten" in file:
        prices[rows // 2] = "twelve"
    total = 0.0
    for row, price in enumerate(prices):
        current_job().progress(row, rows)
        await asyncio.sleep(0.05)
        total += float(price)
    return total


@app.task(queue="reports")
def yearly_report(year: int, customer: str) -> str:
    """Takes its time; most customers close the page before it is done, and the job is cancelled."""
    for month in range(120):
        current_job().progress(month, 120, f"{customer} {year}")
        time.sleep(0.1)
    return f"{customer}-{year}.pdf"


@app.task(queue="visits", keep_result=False)
async def count_visit(page: str) -> None:
    """One of very many, each next to nothing."""
    await asyncio.sleep(0.01)
