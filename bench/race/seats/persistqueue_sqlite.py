"""persist-queue with SQLiteAckQueue: a queue of objects without workers, tasks or results; WAL, synced.

`python persistqueue_sqlite.py` is the loop of its README: get, work, ack. At its start it takes back what was not
acknowledged, so there may be one worker only; senders must not do that.
"""

import os
import time

import marks
from persistqueue import Empty, SQLiteAckQueue

POLL_S = 0.005


def _open(*, resume: bool) -> SQLiteAckQueue:
    path, name = os.path.split(os.environ["RACE_STORE"])
    return SQLiteAckQueue(path, db_file_name=name, multithreading=True, auto_resume=resume)


def send(number: int, hold_s: float = 0.0) -> None:
    """One item. There is no way to put many at once."""
    queue.put((number, marks.TEXT, hold_s))


def main() -> None:
    """The loop of a worker."""
    while True:
        try:
            item = queue.get(block=False)
        except Empty:
            time.sleep(POLL_S)
            continue
        marks.work(*item)
        queue.ack(item)


queue = _open(resume=__name__ == "__main__")
if __name__ == "__main__":
    main()
