"""litequeue: a queue of texts without workers, tasks or results; WAL, not synced at commits.

`python litequeue_sqlite.py` is the loop that its README shows: pop, work, done.
"""

import json
import os
import time

import marks
from litequeue import LiteQueue

POLL_S = 0.005
queue = LiteQueue(os.environ["RACE_STORE"])


def send(number: int, hold_s: float = 0.0) -> None:
    """One message. There is no way to put many at once."""
    queue.put(json.dumps([number, marks.TEXT, hold_s]))


def main() -> None:
    """The loop of a worker."""
    while True:
        message = queue.pop()
        if message is None:
            time.sleep(POLL_S)
            continue
        marks.work(*json.loads(message.data))
        queue.done(message.message_id)


if __name__ == "__main__":
    main()
