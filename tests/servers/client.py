"""What a test itself asks of a server."""

from __future__ import annotations

from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

_redis: Any = redis  # half of its types are unknown to a strict checker


def plain_client(url: str, **options: Any) -> Any:
    """A `redis.Redis` that asks once: what goes wrong is seen by the test, and soon."""
    settings: dict[str, Any] = {"retry": Retry(NoBackoff(), 0), "socket_timeout": 10, "protocol": 2}
    return _redis.Redis.from_url(url, **settings | options)
