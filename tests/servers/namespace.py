"""A part of a shared server that belongs to one test."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import urlencode

from tests.servers.client import plain_client


class Namespace(NamedTuple):
    """A name that no other test has, on a server that runs already."""

    server_url: str
    name: str
    node_url: str = ""
    """The node of a Cluster that has it: all keys of a namespace lie in one slot."""

    @property
    def url(self) -> str:
        """What Windlass connects to."""
        joint = "&" if "?" in self.server_url else "?"
        return self.server_url + joint + urlencode({"namespace": self.name})

    def client(self) -> Any:
        """A `redis.Redis`, for what the test itself asks of the server."""
        return plain_client((self.node_url or self.server_url).replace("valkey://", "redis://"))

    def keys(self) -> set[bytes]:
        """Every key of the namespace: all have its name as their hash tag."""
        with self.client() as client:
            return set(client.scan_iter(match=f"{{{self.name}}}*", count=1000))

    def names(self) -> list[str]:
        """Every key without what all have in common."""
        return sorted(key.decode("latin-1").removeprefix(f"{{{self.name}}}:") for key in self.keys())

    def clear(self) -> None:
        """Removes them, so that what a test leaves behind costs the next one nothing."""
        keys = self.keys()
        if keys:
            with self.client() as client:
                client.unlink(*keys)
