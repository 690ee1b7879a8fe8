"""One connection to one server. What may go wrong is one of three things, and a caller must know which:

    Unconnected   no connection came about: the request has not left this process
    Cut           the connection ended, or was silent for too long, after the request may have arrived
    Answered      the server answered with an error

All use of the drivers is in this file; the rest of the engine sees bytes, integers and lists. redis-py opens a
connection: addresses, TLS, logins. What is said over it goes by hiredis, straight from and to the socket: redis-py's
own way there takes a third of a round trip.
"""

from __future__ import annotations

import os
import selectors
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final, cast

import hiredis
import redis.connection as driver
from redis import exceptions
from redis.exceptions import InvalidResponse, RedisError, ResponseError

from windlass.engines.redis.address import Address, Login, Node

Argument = bytes | str | int | float

_pack: Callable[[tuple[Argument, ...]], bytes] = cast("Any", hiredis).pack_command  # its own types are wrong
_UNFINISHED: Final = object()
_CHUNK: Final = 65_536
"""The most that is read at once. It is more than a record of TLS holds: nothing is left behind in that layer."""
_SELECTOR: Final[type[selectors.BaseSelector]] = getattr(selectors, "PollSelector", selectors.SelectSelector)
"""None that takes a descriptor for itself, as the default does."""
_KEEPALIVE: Final = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}


class Unconnected(Exception):
    """No connection came about; nothing was sent. `foreign`: something answered that is no Redis."""

    def __init__(self, who: str, reason: str, *, foreign: bool = False) -> None:
        super().__init__(who, reason)
        self.who = who
        self.reason = reason
        self.foreign = foreign


class Cut(Exception):
    """The connection is lost, and what became of the request is unknown. `silent`: it was waited for in vain."""

    def __init__(self, who: str, *, silent: bool) -> None:
        super().__init__(who)
        self.who = who
        self.silent = silent


class Answered(Exception):
    """The server's error, as it said it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def _verbatim(_parser: type, text: str) -> ResponseError:
    return ResponseError(text)


# Errors stay as they are said: which of them redis-py cuts the code off differs between its versions.
_PARSER: Final = type("_Parser", (cast("type", driver.DefaultParser),), {"parse_error": classmethod(_verbatim)})


class Wire:
    """An open connection that one thread uses at a time."""

    def __init__(self, node: Node, address: Address, *, login: Login, db: int) -> None:
        """Connects, says who we are, and chooses the database."""
        self.node = node
        self.run_id = b""
        """Which life of the server this is; empty where it does not tell."""
        self._connection: Any = _connection(node, address, login, db)
        try:
            self._connection.connect()
        except ResponseError as error:
            raise Answered(str(error)) from None
        except (RedisError, OSError, UnicodeError) as error:
            raise _unconnected(node, error, tls=address.tls is not None) from None
        self._socket = cast("socket.socket", self._connection._sock)
        self._reader = hiredis.Reader(replyError=ResponseError, notEnoughData=_UNFINISHED)
        self._selector = _SELECTOR()
        self._selector.register(self._socket, selectors.EVENT_READ)

    def call(self, *command: Argument) -> Any:
        """The answer to a command."""
        self.send(*command)
        return self.read()

    def send(self, *command: Argument) -> None:
        try:
            self._socket.sendall(_pack(command))
        except (OSError, ValueError) as error:  # ValueError: of TLS, closed under our hands
            raise self._cut(error) from None

    def read(self) -> Any:
        """The next answer, or what was published."""
        reader = self._reader
        try:
            while (answer := reader.gets()) is _UNFINISHED:
                received = self._socket.recv(_CHUNK)
                if not received:
                    raise ConnectionResetError
                reader.feed(received)
        except (hiredis.ProtocolError, OSError, ValueError) as error:
            raise self._cut(error) from None
        if isinstance(answer, ResponseError):
            raise Answered(str(answer))
        return answer

    def has_news(self, timeout_s: float = 0) -> bool:
        """Whether something is there to be read, if only the end of the connection."""
        return self._reader.has_data() or bool(self._selector.select(timeout_s))

    def is_usable(self) -> bool:
        """Whether it is open and nothing is on the way: the server may have closed it while it lay idle."""
        return not self.has_news()

    def shut(self) -> None:
        """Ends it from another thread: whoever reads is woken and finds it cut."""
        if os.getpid() != self._connection.pid:
            return  # a forked child would end its parent's
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it has ended already

    def close(self) -> None:
        self._connection.disconnect()

    def _cut(self, error: Exception) -> Cut:
        self.close()
        return Cut(str(self.node), silent=isinstance(error, TimeoutError))


def _connection(node: Node, address: Address, login: Login, db: int) -> Any:
    options: dict[str, Any] = {
        "db": db,
        "username": login.user or None,
        "password": login.password or None,
        "socket_timeout": address.timeout_s,
        "socket_connect_timeout": address.connect_timeout_s,
        "protocol": 2,
        "parser_class": _PARSER,
    }
    if not node.port:
        return driver.UnixDomainSocketConnection(path=node.host, **options)
    options |= {
        "host": node.host,
        "port": node.port,
        "socket_keepalive": True,
        "socket_keepalive_options": {
            getattr(socket, name): value for name, value in _KEEPALIVE.items() if hasattr(socket, name)
        },
    }
    if address.tls is None:
        return driver.Connection(**options)
    return driver.SSLConnection(
        ssl_ca_certs=address.tls.ca,
        ssl_certfile=address.tls.cert,
        ssl_keyfile=address.tls.key,
        ssl_cert_reqs="required" if address.tls.verify else "none",
        ssl_check_hostname=address.tls.verify,
        **options,
    )


def _unconnected(node: Node, error: BaseException, *, tls: bool) -> Unconnected:
    """Why no connection came about, in words; redis-py hides the reason in the error's context."""
    if isinstance(error, InvalidResponse):
        return Unconnected(str(node), "what answers there does not speak the protocol of Redis", foreign=True)
    wants = "a certificate of ours" if tls else "TLS"
    closed = f"it closed the connection at once, as one does that takes no more clients, or wants {wants}"
    cause = error
    while not isinstance(cause, (OSError, UnicodeError)) and cause.__context__ is not None:
        cause = cause.__context__
    match cause:
        case _ if isinstance(error, exceptions.TimeoutError):
            reason = "it does not answer" + (", or speaks no TLS" if tls else "")
        case ssl.SSLCertVerificationError():
            reason = f"its certificate is not accepted ({cause.verify_message})"
        case ssl.SSLError():
            reason = f"TLS fails ({(cause.reason or str(cause)).replace('_', ' ').lower()})"
        case socket.gaierror() | UnicodeError():
            reason = "its name is not known"
        case ConnectionRefusedError():
            reason = "the connection was refused"
        case FileNotFoundError():
            reason = "a file of the certificates is not there" if tls else "there is no such socket"
        case ConnectionResetError() | BrokenPipeError():
            reason = closed
        case OSError() if cause.strerror:
            reason = cause.strerror[0].lower() + cause.strerror[1:]
        case OSError() if cause.args:
            reason = str(cause)
        case _:
            reason = closed
    return Unconnected(str(node), reason)
