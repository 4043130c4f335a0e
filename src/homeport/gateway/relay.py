"""One request on its way: executes the actions of its exchange with sockets, and decides nothing.

It stands between two sockets and one exchange. What the router says, what the engine sends and what
the client does become events of the exchange; its actions become writes, connects and closes.
"""

import asyncio
from enum import Enum
from typing import assert_never

from msgspec import Struct

from homeport.cluster.driver import Driver
from homeport.core.command import Dispatch, Reject
from homeport.core.event import Failure, Outcome, RequestArrived, RequestEnded
from homeport.core.exchange import (
    Abort,
    Action,
    Arrived,
    Break,
    ClientLeft,
    Deliver,
    Drop,
    Exchange,
    ExchangeEvent,
    Fail,
    FirstByte,
    Forward,
    Open,
    Placed,
    Refused,
    State,
    Tell,
    UpstreamEnded,
    UpstreamFailed,
    Watched,
)
from homeport.core.ids import MICROS_PER_SECOND, EndpointId, Instant
from homeport.core.refusal import Refusal
from homeport.engines import Dialect, Verdict
from homeport.gateway.answer import EventStream, Tail
from homeport.gateway.http import Incoming, status_line
from homeport.gateway.server import ServerConnection
from homeport.gateway.upstream import Pool, UpstreamConnection
from homeport.wire.headers import Pair, response_headers
from homeport.wire.openai import Facts, body_for
from homeport.wire.sse import error_event
from homeport.wire.status import error_body, refusal_head
from homeport.wire.usage import find_usage

BUFFERED_BYTES_MAX = 256 << 10
"""An answer that is no stream is kept until it is whole, up to this: so it can still be retried."""
ERROR_BYTES_MAX = 1 << 20
"""How much of an engine's error answer is kept while another endpoint is tried."""


class Target(Struct, frozen=True):
    """What the gateway needs to reach one endpoint."""

    id: EndpointId
    pool: Pool
    dialect: Dialect
    served_as: str
    head_lines: bytes
    """`Host`, and the engine's own key where it wants one."""


class Call(Struct, frozen=True, gc=False):
    """A client's request as it will be sent on, but for what depends on the endpoint."""

    incoming: Incoming
    facts: Facts
    head_lines: bytes
    """The header lines that any engine gets."""
    answer_lines: bytes
    """The header lines that are ours in any answer."""
    is_trusted: bool


class Kind(Enum):
    """What is being read from the engine."""

    NOTHING = "nothing"
    STREAM = "stream"
    DOCUMENT = "document"
    ERROR = "error"


class Relay:
    """One request. It is the driver's asker, the engine's leg and the client's answering."""

    def __init__(
        self,
        call: Call,
        exchange: Exchange,
        connection: ServerConnection,
        driver: Driver,
        targets: dict[EndpointId, Target],
        relays: "set[Relay]",
    ) -> None:
        self.call: Call | None = call
        self.incoming = call.incoming
        self.answer_lines = call.answer_lines
        self.exchange = exchange
        self.connection = connection
        self.driver = driver
        self.targets = targets
        self.relays = relays
        self.loop = driver.loop
        self.upstream: UpstreamConnection | None = None
        self.connecting: asyncio.Task[None] | None = None
        self.last_byte_at = self.loop.time()
        self.stalled_since: float | None = None
        self.is_forwarding = False
        self.hides_usage = False
        self.kind = Kind.NOTHING
        self.status = 0
        self.headers: list[Pair] = []
        self.pieces: list[bytes] = []
        self.size = 0
        self.stream: EventStream | None = None
        self.tail: Tail | None = None
        self.is_whole = False

    def start(self) -> None:
        self.connection.answering = self
        self.relays.add(self)
        self.on(Arrived())

    # Events.

    def on(self, event: ExchangeEvent) -> None:
        for action in self.exchange.handle(event, self.driver.now()):
            self.act(action)

    def placed(self, command: Dispatch) -> None:
        self.on(Placed(command.endpoint))

    def refused(self, command: Reject) -> None:
        self.on(Refused(command.refusal))

    def client_left(self) -> None:
        self.on(ClientLeft())

    def client_paused(self) -> None:
        self.stalled_since = self.loop.time()
        if self.upstream is not None:
            self.upstream.pause()

    def client_resumed(self) -> None:
        self.stalled_since = None
        self.last_byte_at = self.loop.time()
        if self.upstream is not None:
            self.upstream.resume()

    def failed(self, failure: Failure) -> None:
        self.upstream = None
        self.on(UpstreamFailed(failure))

    def look_at_clock(self) -> None:
        stalled = self.stalled_since
        stalled_since = None if stalled is None else instant(stalled)
        self.on(Watched(self.connecting is None, instant(self.last_byte_at), stalled_since))

    # What the engine sends.

    def head(self, status: int, headers: list[Pair]) -> None:
        self.status, self.headers = status, headers
        self.pieces, self.size, self.stream = [], 0, None
        self.last_byte_at = self.loop.time()
        endpoint = self.exchange.endpoint
        assert endpoint is not None, "an answer comes from an endpoint"
        if self.targets[endpoint].dialect.verdict(status) is not Verdict.PASS:
            self.kind = Kind.ERROR
        elif status == 200 and is_event_stream(headers):
            self.kind = Kind.STREAM
            self.stream = EventStream(self.hides_usage, self.incoming.is_http11)
        else:
            self.kind = Kind.DOCUMENT

    def received(self, raw: bytes | None, pieces: list[bytes], is_whole: bool) -> None:
        self.last_byte_at = self.loop.time()
        if is_whole:
            self.upstream = None
            self.is_whole = True
        if self.is_forwarding:
            self.pass_on(raw, pieces, is_whole)
        elif self.kind is Kind.ERROR:
            self.keep_error(pieces, is_whole)
        else:
            self.keep(pieces, is_whole)
        if is_whole and self.is_forwarding and self.exchange.state is State.STREAMING:
            tail = self.stream.tail if self.stream is not None else self.tail
            assert tail is not None, "what was sent on has a tail"
            self.whole(tail.bytes())

    def keep(self, pieces: list[bytes], is_whole: bool) -> None:
        """Nothing has gone out yet: is this the first byte of an answer, or all of it?"""
        self.pieces += pieces
        self.size += sum(map(len, pieces))
        if self.kind is Kind.STREAM:
            # A comment is no answer: engines send them to keep connections alive.
            is_first = is_whole or (bool(pieces) and not pieces[0].startswith(b":"))
        elif is_whole:
            self.whole(b"".join(self.pieces))
            return
        else:
            is_first = self.size > BUFFERED_BYTES_MAX
        if is_first:
            self.on(FirstByte())

    def keep_error(self, pieces: list[bytes], is_whole: bool) -> None:
        """The engine's own error answer, for the client if nobody else can answer."""
        self.pieces += pieces
        self.size += sum(map(len, pieces))
        failure = Failure.BUSY if self.status == 503 else Failure.STATUS
        if is_whole:
            self.on(UpstreamFailed(failure, is_held=True))
        elif self.size > ERROR_BYTES_MAX:
            self.on(UpstreamFailed(failure))

    def pass_on(self, raw: bytes | None, pieces: list[bytes], is_whole: bool) -> None:
        if self.stream is not None:
            data = self.stream.pass_on(raw, pieces, is_whole)
        else:
            data = self.document_bytes(pieces, is_whole)
        if data:
            self.connection.write(data)

    def document_bytes(self, pieces: list[bytes], is_whole: bool) -> bytes:
        if self.tail is None:
            self.tail = Tail()
        self.tail.add(pieces)
        payload = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if self.has_length() or not self.incoming.is_http11:
            return payload
        return EventStream(False, True).frame(payload, is_whole)

    def whole(self, tail: bytes) -> None:
        """All of the answer is here."""
        is_fine = self.status < 400
        outcome = Outcome.ANSWERED if is_fine else Outcome.CLIENT_ERROR
        self.on(UpstreamEnded(outcome, find_usage(tail) if is_fine else None))
        self.finish()

    # Actions.

    def act(self, action: Action) -> None:
        match action:
            case Tell(event):
                if isinstance(event, RequestArrived):
                    self.driver.ask(event.request.id, self)
                elif isinstance(event, RequestEnded):
                    self.driver.forget(event.request_id)
                    self.relays.discard(self)
                self.driver.feed(event)
            case Open(endpoint, is_fresh):
                self.open(self.targets[endpoint], is_fresh)
            case Forward():
                self.forward()
            case Abort():
                self.abort()
            case Fail(refusal):
                self.fail(refusal)
            case Break(refusal):
                self.break_off(refusal)
            case Deliver():
                self.deliver()
            case Drop():
                self.connection.drop()
            case _:
                assert_never(action)

    def open(self, target: Target, is_fresh: bool) -> None:
        call = self.call
        assert call is not None, "the body is kept until the first byte"
        asks_usage = target.dialect.must_ask_usage(call.incoming.path)
        self.hides_usage = asks_usage and call.facts.is_stream and not call.facts.wants_usage
        body = body_for(call.facts, target.served_as, asks_usage)
        head = b"%b %b HTTP/1.1\r\n%b%bcontent-length: %d\r\n\r\n" % (
            call.incoming.method.encode(),
            call.incoming.target,
            target.head_lines,
            call.head_lines,
            len(body),
        )
        upstream = None if is_fresh else target.pool.take()
        if upstream is None:
            self.connecting = self.loop.create_task(self.connect(target.pool, head, body))
        else:
            self.send(upstream, head, body)

    async def connect(self, pool: Pool, head: bytes, body: bytes) -> None:
        try:
            upstream = await pool.connect()
        except OSError:
            self.connecting = None
            self.failed(Failure.CONNECT)
            return
        self.connecting = None
        self.send(upstream, head, body)

    def send(self, upstream: UpstreamConnection, head: bytes, body: bytes) -> None:
        self.upstream = upstream
        upstream.send(self, head, body)

    def abort(self) -> None:
        upstream, self.upstream = self.upstream, None
        if upstream is not None:
            upstream.abort()
        if self.connecting is not None:
            self.connecting.cancel()
            self.connecting = None

    def forward(self) -> None:
        """Head and what is there already, in one write; the body is not needed any more."""
        self.is_forwarding = True
        pieces, self.pieces = self.pieces, []
        if self.stream is not None:
            data = self.stream.pass_on(None, pieces, self.is_whole)
        else:
            data = self.document_bytes(pieces, self.is_whole)
        self.connection.write(self.head_bytes(len(data) if self.is_whole else None) + data)
        self.call = None

    def deliver(self) -> None:
        body = b"".join(self.pieces)
        self.is_whole = True
        self.connection.write(self.head_bytes(len(body)) + body)
        self.finish()

    def head_bytes(self, length: int | None) -> bytes:
        """Status line and headers; `length` where the whole answer is known already."""
        lines = [status_line(self.status)]
        lines += [b"%b: %b\r\n" % pair for pair in response_headers(self.headers)]
        lines.append(self.answer_lines)
        call = self.call
        if call is not None and call.is_trusted and self.exchange.endpoint is not None:
            lines.append(b"x-homeport-endpoint: %b\r\n" % self.exchange.endpoint.encode())
        if self.stream is None and length is not None:
            lines.append(b"content-length: %d\r\n" % length)
        elif self.stream is None and (told := self.told_length()) is not None:
            lines.append(b"content-length: %b\r\n" % told)
        elif self.incoming.is_http11:
            lines.append(b"transfer-encoding: chunked\r\n")
        if not self.keeps_alive():
            lines.append(b"connection: close\r\n")
        lines.append(b"\r\n")
        return b"".join(lines)

    def told_length(self) -> bytes | None:
        """The length that the engine gave its document."""
        for name, value in self.headers:
            if name == b"content-length":
                return value
        return None

    def has_length(self) -> bool:
        return self.is_whole_at_once() or self.told_length() is not None

    def is_whole_at_once(self) -> bool:
        return self.is_whole and self.call is not None

    def keeps_alive(self) -> bool:
        """A client of HTTP/1.0 learns by the close where a stream ends."""
        return self.incoming.keeps_alive and self.incoming.is_http11

    def fail(self, refusal: Refusal) -> None:
        body = error_body(refusal)
        keeps = self.keeps_alive()
        lines: list[Pair] = [] if keeps else [(b"connection", b"close")]
        head = refusal_head(refusal, len(body), lines)
        self.connection.write(head[:-2] + self.answer_lines + b"\r\n" + body)
        self.finish()

    def break_off(self, refusal: Refusal) -> None:
        """An event that says so ends a stream; a document can only be cut."""
        if self.stream is None:
            self.connection.drop()
            return
        self.connection.write(self.stream.frame(error_event(error_body(refusal)), True))
        self.connection.finish(keeps_alive=False)

    def finish(self) -> None:
        self.relays.discard(self)
        self.connection.finish(self.keeps_alive())


def instant(loop_time: float) -> Instant:
    return Instant(int(loop_time * MICROS_PER_SECOND))


def is_event_stream(headers: list[Pair]) -> bool:
    is_stream = False
    for name, value in headers:
        if name == b"content-type":
            is_stream = value.lower().startswith(b"text/event-stream")
        elif name == b"content-encoding" and value.lower() != b"identity":
            return False
    return is_stream
