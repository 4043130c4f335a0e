"""The engine side: connections to one endpoint, kept while they are surely still open there.

A connection carries one request at a time. It parses the framing of the answer and hands each
read on: the payload pieces, and the bytes as they came where those are whole chunks that may be
sent on unchanged.
"""

import asyncio
from collections import deque
from typing import Protocol

import httptools

from homeport.core.event import Failure
from homeport.gateway.outbox import Outbox
from homeport.wire.headers import Pair

IDLE_S_MAX = 4.0
"""Engines close idle connections after 5 s (uvicorn's default); we close before they do."""
IDLE_MAX = 512
"""Idle connections kept for one endpoint."""
HEAD_BYTES_MAX = 256 << 10
JOINED_BYTES_MAX = 16 << 10


class Leg(Protocol):
    """Who reads the answer."""

    def head(self, status: int, headers: list[Pair]) -> None: ...

    def received(self, raw: bytes | None, pieces: list[bytes], is_whole: bool) -> None:
        """One read: its payload, and `raw` when that is whole chunks. `is_whole`: the end."""
        ...

    def failed(self, failure: Failure) -> None:
        """There will be nothing more."""
        ...


class UpstreamConnection(asyncio.Protocol):
    """One connection to an endpoint."""

    __slots__ = (
        "chunks_open",
        "has_head",
        "head_bytes",
        "headers",
        "idle_since",
        "is_chunked",
        "is_excess",
        "is_used",
        "is_whole",
        "keeps_alive",
        "leg",
        "outgoing",
        "parser",
        "pieces",
        "pool",
        "transport",
    )
    transport: asyncio.Transport

    def __init__(self, pool: "Pool") -> None:
        self.pool = pool
        self.parser = httptools.HttpResponseParser(self)
        self.leg: Leg | None = None
        self.outgoing: tuple[bytes, ...] = ()
        self.pieces: list[bytes] = []
        self.is_used = False
        self.idle_since = 0.0
        self.begin()

    def begin(self) -> None:
        self.headers: list[Pair] = []
        self.head_bytes = 0
        self.has_head = self.is_whole = self.is_chunked = self.is_excess = False
        self.keeps_alive = False
        self.chunks_open = 0

    def send(self, leg: Leg, head: bytes, body: bytes) -> None:
        """Send, at the end of this turn of the loop, a request whose answer `leg` reads."""
        self.leg = leg
        self.begin()
        # One piece costs less to send than two, two less than a copy of a long body.
        self.outgoing = (head, body) if len(body) > JOINED_BYTES_MAX else (head + body,)
        self.pool.outbox.add(self)

    def flush(self) -> None:
        """(`outbox.Outgoing`) Nothing when the leg gave the connection up in the meantime."""
        pieces, self.outgoing = self.outgoing, ()
        if pieces and self.leg is not None:
            if len(pieces) == 1:
                self.transport.write(pieces[0])
            else:
                self.transport.writelines(pieces)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # pyright: ignore[reportAttributeAccessIssue]

    def data_received(self, data: bytes) -> None:
        leg = self.leg
        if leg is None:
            self.transport.abort()  # an engine that speaks unasked
            return
        was_in_body, was_between = self.has_head, not self.chunks_open
        pieces: list[bytes] = []
        self.pieces = pieces
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            if not self.is_whole:
                return self.fail(Failure.GARBAGE)
            self.is_excess = True
        if self.leg is not leg:
            return  # the leg gave the connection up while it read the head
        if not self.has_head:
            self.head_bytes += len(data)
            if self.head_bytes > HEAD_BYTES_MAX:
                self.fail(Failure.GARBAGE)
            return
        is_raw = was_in_body and was_between and self.is_chunked and not self.chunks_open
        is_whole = self.is_whole
        if is_whole:
            self.release()
        leg.received(data if is_raw and not self.is_excess else None, pieces, is_whole)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.pool.idle_lost(self)
        leg = self.leg
        if leg is None:
            return
        if self.is_until_close() and exc is None:
            self.leg = None
            leg.received(None, [], True)
        else:
            was_silent = not self.has_head and not self.head_bytes
            stale = Failure.STALE if self.is_used and was_silent else Failure.CLOSED
            self.fail(stale if exc is None or stale is Failure.STALE else Failure.RESET)

    def is_until_close(self) -> bool:
        """The answer has neither a length nor chunks: its end is the connection's."""
        names = [name for name, _ in self.headers]
        return self.has_head and not self.is_chunked and b"content-length" not in names

    # httptools

    def on_message_begin(self) -> None:
        if self.is_whole:
            self.is_excess = True

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        status = self.parser.get_status_code()
        if status < 200:
            self.headers = []  # an interim answer; the real one follows
            return
        self.has_head = True
        for name, value in self.headers:
            if name == b"transfer-encoding" and value.lower().endswith(b"chunked"):
                self.is_chunked = True
        if self.leg is not None and not self.is_excess:
            self.leg.head(status, self.headers)

    def on_chunk_header(self) -> None:
        self.chunks_open += 1

    def on_chunk_complete(self) -> None:
        self.chunks_open -= 1

    def on_body(self, body: bytes) -> None:
        self.pieces.append(body)

    def on_message_complete(self) -> None:
        if self.has_head:
            self.is_whole = True
            self.keeps_alive = self.parser.should_keep_alive()
            self.chunks_open = 0

    # Ends.

    def fail(self, failure: Failure) -> None:
        leg, self.leg = self.leg, None
        self.transport.abort()
        if leg is not None:
            leg.failed(failure)

    def release(self) -> None:
        """The answer is whole: back to the pool, if the engine goes on with this connection."""
        self.leg = None
        self.is_used = True
        if self.is_excess or not self.keeps_alive:
            self.transport.abort()
        else:
            self.pool.put(self)

    def abort(self) -> None:
        """Nobody waits for this answer any more: the engine must notice at once."""
        self.leg = None
        self.transport.abort()

    def pause(self) -> None:
        self.transport.pause_reading()

    def resume(self) -> None:
        self.transport.resume_reading()


class Pool:
    """Connections to one endpoint."""

    def __init__(self, host: str, port: int, outbox: Outbox) -> None:
        self.host = host
        self.port = port
        self.outbox = outbox
        self.loop = outbox.loop
        self.idle: deque[UpstreamConnection] = deque()

    def take(self) -> UpstreamConnection | None:
        """The connection used last, if it is surely still open there."""
        while self.idle:
            connection = self.idle.pop()
            is_young = self.loop.time() - connection.idle_since < IDLE_S_MAX
            if is_young and not connection.transport.is_closing():
                return connection
            connection.transport.abort()
        return None

    async def connect(self) -> UpstreamConnection:
        """A new connection. Raises OSError."""
        _, connection = await self.loop.create_connection(
            lambda: UpstreamConnection(self), self.host, self.port
        )
        return connection

    def put(self, connection: UpstreamConnection) -> None:
        connection.idle_since = self.loop.time()
        self.idle.append(connection)
        if len(self.idle) > IDLE_MAX:
            self.idle.popleft().transport.abort()

    def idle_lost(self, connection: UpstreamConnection) -> None:
        if connection.leg is None and connection in self.idle:
            self.idle.remove(connection)

    def close_old(self) -> None:
        """Close what has been idle for too long; oldest first."""
        now = self.loop.time()
        while self.idle and now - self.idle[0].idle_since >= IDLE_S_MAX:
            self.idle.popleft().transport.abort()

    def close(self) -> None:
        while self.idle:
            self.idle.pop().transport.abort()
