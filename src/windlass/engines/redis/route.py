"""Which node has our keys: the one of the URL, the master that sentinels name, or the owner of our slot in a Cluster.

The answer is kept until somebody says that it is wrong: after a lost connection, a redirection, a replica's refusal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from redis.crc import key_slot

from windlass.engines.redis.address import Address, Login, Node
from windlass.engines.redis.wire import Answered, Argument, Cut, Unconnected, Wire

MASTER: Final = b"master"


class Route:
    """The one node of a URL that names one; it never changes."""

    may_change = False

    def __init__(self, address: Address) -> None:
        self._address = address

    def open(self) -> Wire:
        """A connection to the node that has our keys."""
        return Wire(self._address.nodes[0], self._address, login=self._address.login, db=self._address.db)

    def forget(self) -> None:
        """The next connection asks anew where it should go."""

    def moved(self, text: str, node: Node) -> None:
        """A node has said where our keys are."""


class SentinelRoute(Route):
    """The master of a service, as the first sentinel that answers names it."""

    may_change = True

    def open(self) -> Wire:
        wire = Wire(self._find(), self._address, login=self._address.login, db=self._address.db)
        try:
            if _role(wire) not in {MASTER, None}:
                # The sentinel's word was old: a failover is under way.
                raise Unconnected(str(wire.node), "it is a replica, and its sentinels name no other master yet")
        except BaseException:
            wire.close()
            raise
        return wire

    def _find(self) -> Node:
        address = self._address
        command = (b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", address.service)
        reason = "none of the sentinels answers"
        for _, found in _ask(address.nodes, address, address.sentinel_login, *command):
            if found is not None:
                host, port = found
                return Node(host.decode(), int(port))
            reason = "the sentinels know no such service"
        raise Unconnected(str(address), reason)


class ClusterRoute(Route):
    """The master of the slot in which all keys of the namespace are."""

    may_change = True

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._slot = int(key_slot(address.meta_key))
        self._owner: Node | None = None
        self._others: tuple[Node, ...] = ()

    def open(self) -> Wire:
        self._owner = owner = self._owner or self._find()
        return Wire(owner, self._address, login=self._address.login, db=0)

    def forget(self) -> None:
        self._owner = None

    def moved(self, text: str, node: Node) -> None:
        """`MOVED 3999 127.0.0.1:6381`; without a host it is the one that said so."""
        host, _, port = text.split()[2].rpartition(":")
        self._owner = Node(host.strip("[]") or node.host, int(port))

    def _find(self) -> Node:
        # The nodes of the URL first: those we have heard of may have left.
        nodes = dict.fromkeys([*self._address.nodes, *self._others])
        reason = "none of its nodes answers"
        for asked, slots in _ask(nodes, self._address, self._address.login, b"CLUSTER", b"SLOTS"):
            owner = self._read(slots, asked)
            if owner is not None:
                return owner
            reason = "none of its nodes is given our keys"
        raise Unconnected(str(self._address), reason)

    def _read(self, slots: list[Any], asked: Node) -> Node | None:
        """The owner of our slot among lines of first slot, last slot, master, replicas; all nodes are remembered."""
        self._others = tuple({_node(entry, asked) for _, _, *entries in slots for entry in entries})
        return next((_node(master, asked) for first, last, master, *_ in slots if first <= self._slot <= last), None)


def _node(entry: list[Any], asked: Node) -> Node:
    return Node((entry[0] or b"").decode() or asked.host, int(entry[1]))


def _ask(nodes: Iterable[Node], address: Address, login: Login, *command: Argument) -> Iterator[tuple[Node, Any]]:
    """What one node after the other answers, passing over those that cannot be asked."""
    for node in nodes:
        try:
            wire = Wire(node, address, login=login, db=0)
            try:
                answer = wire.call(*command)
            finally:
                wire.close()
        except (Unconnected, Cut):
            continue
        yield node, answer


def _role(wire: Wire) -> bytes | None:
    """`master` or `slave`; None where we may not ask."""
    try:
        return wire.call(b"ROLE")[0]
    except Answered:
        return None
    except Cut as error:
        raise Unconnected(error.who, "it closed the connection") from None


def route_of(address: Address) -> Route:
    """The way to the server of an address."""
    return {"sentinel": SentinelRoute, "cluster": ClusterRoute}.get(address.kind, Route)(address)
