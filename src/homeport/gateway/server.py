"""The server side: bytes of client connections to whole requests, one at a time, under limits.

A connection is idle, receiving, or answering. While an answer is on its way further requests wait
in order (pipelining); reading goes on within a bound, so that a client that leaves is noticed.
"""

import asyncio
from collections import deque
from enum import Enum
from typing import Protocol

import httptools
from msgspec import Struct

from homeport.core.refusal import Reason, Refusal
from homeport.gateway.http import CONTINUE, Incoming, bad, fault_of
from homeport.gateway.outbox import Outbox
from homeport.wire.headers import Pair
from homeport.wire.status import error_body, refusal_head

PIPELINED_BYTES_MAX = 64 << 10
LINGER_S = 2.0
ALIVE_S = 0.05


class ServerLimits(Struct, frozen=True):
    """Bytes, counts, and seconds."""

    body_bytes: int = 64 << 20
    header_bytes: int = 64 << 10
    connections: int = 20_000
    upload_s: float | None = 120.0
    idle_s: float | None = 75.0


class Answering(Protocol):
    """Who answers the request that a connection has handed over."""

    def client_left(self) -> None: ...

    def client_paused(self) -> None: ...

    def client_resumed(self) -> None: ...


class Handler(Protocol):
    def handle(self, incoming: Incoming, connection: "ServerConnection") -> None:
        """Answer, now or later, and call `connection.finish` at the end."""
        ...

    def refused(self, refusal: Refusal) -> None:
        """The connection refused a request that never became one."""
        ...


class Phase(Enum):
    IDLE = "idle"
    RECEIVING = "receiving"
    ANSWERING = "answering"
    LINGERING = "lingering"  # the last answer is out; what still comes is thrown away


class ServerConnection(asyncio.Protocol):
    """One client connection."""

    __slots__ = (
        "answering",
        "backlog",
        "body_bytes",
        "handler",
        "has_ended",
        "has_written",
        "head_bytes",
        "headers",
        "is_complete",
        "is_http11",
        "is_in_head",
        "limits",
        "loop",
        "outgoing",
        "parser",
        "peer",
        "phase",
        "pieces",
        "ready",
        "refusal",
        "server",
        "since",
        "target",
        "transport",
    )
    transport: asyncio.Transport

    def __init__(self, server: "Server") -> None:
        self.server = server
        self.handler = server.handler
        self.limits = server.limits
        self.loop = server.loop
        self.parser = httptools.HttpRequestParser(self)
        self.answering: Answering | None = None
        self.ready: deque[Incoming] = deque()
        self.backlog: list[bytes] = []
        self.outgoing: list[bytes] = []
        self.phase = Phase.IDLE
        self.since = 0.0
        self.refusal: Refusal | None = None
        self.peer = ""
        self.has_ended = False
        self.has_written = False
        self.begin_message()
        self.is_in_head = False

    def begin_message(self) -> None:
        self.target = b""
        self.headers: list[Pair] = []
        self.pieces: list[bytes] = []
        self.head_bytes = self.body_bytes = 0
        self.is_http11 = True
        self.is_complete = False
        self.is_in_head = True

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self.transport = transport  # pyright: ignore[reportAttributeAccessIssue]
        peer: tuple[object, ...] | None = transport.get_extra_info("peername")
        self.peer = str(peer[0]) if peer else ""
        self.since = self.loop.time()
        self.server.connections.add(self)
        if len(self.server.connections) > self.limits.connections:
            self.refuse(Refusal(Reason.OVERLOADED, "Too many connections.", retry_after_s=1))

    def data_received(self, data: bytes) -> None:
        if self.phase is Phase.ANSWERING:
            self.backlog.append(data)
            if sum(map(len, self.backlog)) > PIPELINED_BYTES_MAX:
                self.transport.pause_reading()
        elif self.phase is not Phase.LINGERING:
            self.parse(data)

    def eof_received(self) -> bool:
        """The client sends no more. Whether it still listens only an answer can show: one that is
        gone resets the connection when something is sent, one that listens skips a `100`."""
        self.has_ended = True
        if self.phase is not Phase.ANSWERING:
            return False
        self.ask_if_alive()
        self.loop.call_later(ALIVE_S, self.ask_if_alive)
        return True

    def ask_if_alive(self) -> None:
        """To one that is gone the first write brings a reset, the second one meets it."""
        is_waiting = self.phase is Phase.ANSWERING and not self.has_written
        if is_waiting and self.is_http11 and not self.transport.is_closing():
            self.transport.write(CONTINUE)

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.connections.discard(self)
        self.outgoing.clear()
        answering, self.answering = self.answering, None
        if answering is not None:
            answering.client_left()

    def pause_writing(self) -> None:
        if self.answering is not None:
            self.answering.client_paused()

    def resume_writing(self) -> None:
        if self.answering is not None:
            self.answering.client_resumed()

    # httptools

    def on_message_begin(self) -> None:
        self.begin_message()
        if self.phase is Phase.IDLE:
            self.phase = Phase.RECEIVING
            self.since = self.loop.time()

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def count_head(self, size: int) -> None:
        """httptools keeps an unfinished header to itself; its size is only known from outside."""
        self.head_bytes += size
        limit = self.limits.header_bytes
        if self.head_bytes <= limit or self.refusal is not None:
            return
        told = len(self.target) + sum([len(n) + len(v) + 4 for n, v in self.headers])
        if self.is_in_head or told > limit:
            message = f"The headers are larger than {limit} bytes."
            self.refusal = Refusal(Reason.HEADERS_TOO_LARGE, message)

    def on_headers_complete(self) -> None:
        self.is_in_head = False
        self.is_http11 = self.parser.get_http_version() == "1.1"
        if self.refusal is None:
            self.refusal = fault_of(self.target, self.headers, self.is_http11)
        for name, value in self.headers:
            if name == b"content-length" and int(value) > self.limits.body_bytes:
                self.too_large()
            elif name == b"upgrade":
                self.refusal = self.refusal or Refusal(
                    Reason.UPGRADE, "Only HTTP/1.1 is spoken here; do not ask for an upgrade."
                )
            elif name == b"expect" and self.is_http11 and self.refusal is None:
                self.flush()
                self.transport.write(CONTINUE)

    def on_body(self, body: bytes) -> None:
        self.body_bytes += len(body)
        if self.body_bytes > self.limits.body_bytes:
            self.too_large()
        else:
            self.pieces.append(body)

    def too_large(self) -> None:
        self.pieces.clear()
        if self.refusal is None:
            message = f"The body is larger than {self.limits.body_bytes} bytes."
            self.refusal = Refusal(Reason.BODY_TOO_LARGE, message)

    def on_message_complete(self) -> None:
        if self.refusal is not None:
            return
        self.is_complete = True
        self.ready.append(
            Incoming(
                method=self.parser.get_method().decode("latin-1"),
                target=self.target,
                path=self.target.partition(b"?")[0].decode("latin-1"),
                headers=self.headers,
                body=self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces),
                is_http11=self.is_http11,
                keeps_alive=self.parser.should_keep_alive(),
            )
        )
        self.pieces = []

    # A request's way through.

    def parse(self, data: bytes) -> None:
        was_in_head = self.phase is Phase.IDLE or self.is_in_head
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.refusal = self.refusal or Refusal(
                Reason.UPGRADE, "Only HTTP/1.1 is spoken here; do not ask for an upgrade."
            )
        except httptools.HttpParserError as error:
            self.refusal = self.refusal or bad(f"This is not HTTP/1.1 as understood here: {error}.")
        if was_in_head or self.is_in_head:
            self.count_head(len(data))
        if self.ready:
            self.start_next()
        elif self.refusal is not None:
            self.refuse(self.refusal)

    def start_next(self) -> None:
        """Hand over the oldest whole request, or go on reading."""
        if self.ready and self.server.is_draining:
            message = "This gateway is shutting down; another one may answer."
            self.refuse(Refusal(Reason.SHUTTING_DOWN, message, retry_after_s=1))
        elif self.ready:
            self.phase = Phase.ANSWERING
            self.has_written = False
            self.handler.handle(self.ready.popleft(), self)
        elif self.refusal is not None:
            self.refuse(self.refusal)
        elif self.has_ended:
            self.close()
        else:
            self.phase = Phase.IDLE if self.is_complete else Phase.RECEIVING
            self.since = self.loop.time()
            self.read_backlog()

    def read_backlog(self) -> None:
        if self.backlog:
            data = b"".join(self.backlog)
            self.backlog.clear()
            self.transport.resume_reading()
            self.parse(data)

    def write(self, data: bytes) -> None:
        """Write soon: at the end of this turn of the loop."""
        self.has_written = True
        self.outgoing.append(data)
        if len(self.outgoing) == 1:
            self.server.outbox.add(self)

    def flush(self) -> None:
        """Write now what was to be written soon (`outbox.Outgoing`)."""
        pieces = self.outgoing
        if pieces:
            self.outgoing = []
            self.transport.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def close(self) -> None:
        """Close when all is written."""
        self.flush()
        self.transport.close()

    def finish(self, keeps_alive: bool) -> None:
        """The answer is out."""
        self.answering = None
        if not keeps_alive or self.server.is_draining:
            self.linger()
        elif not self.transport.is_closing():
            self.start_next()

    def refuse(self, refusal: Refusal) -> None:
        """Answer what never became a request, and close: what follows cannot be understood."""
        self.handler.refused(refusal)
        body = error_body(refusal)
        self.write(refusal_head(refusal, len(body), ((b"connection", b"close"),)) + body)
        self.linger()

    def linger(self) -> None:
        """Close, but let the client read first: closing with unread bytes would reset it."""
        self.phase = Phase.LINGERING
        self.since = self.loop.time()
        self.backlog.clear()
        self.pieces.clear()
        if self.has_ended or self.is_complete:
            self.close()
        elif self.transport.can_write_eof():
            self.flush()
            self.transport.write_eof()

    def drop(self) -> None:
        """Close at once, in the middle of whatever it is."""
        self.answering = None
        self.outgoing.clear()
        self.transport.abort()

    def look_at_clock(self, now: float) -> None:
        waited = now - self.since
        limits = self.limits
        if self.has_ended:
            self.ask_if_alive()
        if self.phase is Phase.LINGERING and waited > LINGER_S:
            self.transport.abort()
        elif self.phase is Phase.IDLE and limits.idle_s is not None and waited > limits.idle_s:
            self.close()
        elif self.phase is Phase.RECEIVING and limits.upload_s and waited > limits.upload_s:
            message = f"The request did not arrive within {limits.upload_s:.0f} s."
            self.refuse(Refusal(Reason.UPLOAD_TIMEOUT, message))


class Server:
    """All client connections of one listener."""

    def __init__(
        self,
        handler: Handler,
        limits: ServerLimits,
        outbox: Outbox,
    ) -> None:
        self.handler = handler
        self.limits = limits
        self.outbox = outbox
        self.loop = outbox.loop
        self.connections: set[ServerConnection] = set()
        self.is_draining = False
        self.listener: asyncio.Server | None = None

    async def listen(self, host: str, port: int) -> int:
        """Begin to accept; the port, which matters when 0 was asked for."""
        self.listener = await self.loop.create_server(
            lambda: ServerConnection(self), host, port, backlog=4096
        )
        return int(self.listener.sockets[0].getsockname()[1])

    def look_at_clock(self) -> None:
        now = self.loop.time()
        for connection in tuple(self.connections):
            connection.look_at_clock(now)

    def drain(self) -> None:
        """Accept nobody new; close connections as they fall idle."""
        self.is_draining = True
        if self.listener is not None:
            self.listener.close()
        for connection in tuple(self.connections):
            if connection.phase is Phase.IDLE:
                connection.close()

    def abort(self) -> None:
        for connection in tuple(self.connections):
            connection.transport.abort()
