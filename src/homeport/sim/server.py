"""HTTP around simulated engines: many of them in one process, one small protocol, no task a
request.

An engine has one timer, for the end of its running step. All that a step gives is written in the
same call, so an idle engine costs nothing and a busy one a wake-up a step.
"""

import asyncio
import socket
import struct
from collections import deque

import httptools

from homeport.core.ids import MICROS_PER_SECOND, Instant
from homeport.sim.engine import Engine
from homeport.sim.failure import Failure, Kind, wanted_delay_s, wanted_failure
from homeport.sim.job import Job, JobId, Output
from homeport.sim.profile import Profile
from homeport.sim.text import padded, token_ids
from homeport.sim.vllm.ask import Ask, chat_ask, completion_ask
from homeport.sim.vllm.body import ChatBody, CompletionBody, TokenizeBody, chat_prompt, decoded
from homeport.sim.vllm.error import DialectError, error_body, reason
from homeport.sim.vllm.metrics import metrics_page
from homeport.sim.vllm.reply import Reply

KEEP_ALIVE_S = 5.0
BODY_BYTES_MAX = 64 << 20
EPOCH_S = 1_796_000_000
"""What `created` counts from: answers of one run differ only by what was asked."""
GENERATION = ("/v1/chat/completions", "/v1/completions")


class SimEngine:
    """One engine behind one port."""

    def __init__(self, profile: Profile, model: str, loop: asyncio.AbstractEventLoop) -> None:
        self.profile = profile
        self.model = model
        self.loop = loop
        self.engine = Engine(profile)
        self.exchanges: dict[JobId, tuple[Generation, int]] = {}
        self.held = 0
        """Requests that a fault keeps, of which the model does not know."""
        self.port = 0
        self.count = 0
        self.timer: asyncio.TimerHandle | None = None
        self.listener: asyncio.Server | None = None
        self.connections: set[Connection] = set()

    def now(self) -> Instant:
        return Instant(int(self.loop.time() * MICROS_PER_SECOND))

    async def listen(self, host: str, port: int) -> int:
        """Begin to accept; the port, which matters when 0 was asked for. Raises OSError."""
        self.listener = await self.loop.create_server(
            lambda: Connection(self), host, port, backlog=1024
        )
        self.port = int(self.listener.sockets[0].getsockname()[1])
        return self.port

    def close(self) -> None:
        """As a killed process would: nothing more is sent."""
        if self.listener is not None:
            self.listener.close()
        if self.timer is not None:
            self.timer.cancel()
        for connection in tuple(self.connections):
            connection.transport.abort()

    def submit(self, generation: "Generation", ask: Ask) -> None:
        now = self.now()
        for index, answer in enumerate(ask.answers):
            self.count += 1
            job_id = JobId(f"{generation.reply.id}-{self.count}")
            self.exchanges[job_id] = (generation, index)
            generation.jobs.append(job_id)
            job = Job(job_id, answer.prompt_tokens, answer.count, answer.blocks, answer.finish)
            self.engine.submit(job, now)
        self.arm()

    def cancel(self, generation: "Generation") -> None:
        now = self.now()
        for job_id in generation.jobs:
            if self.exchanges.pop(job_id, None) is not None:
                self.engine.cancel(job_id, now)
        self.arm()

    def arm(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        at = self.engine.next_at()
        if at is not None:
            self.timer = self.loop.call_at(at / MICROS_PER_SECOND, self.step)

    def step(self) -> None:
        self.timer = None
        for output in self.engine.advance(self.now()):
            self.give(output)
        self.arm()

    def give(self, output: Output) -> None:
        found = self.exchanges.get(output.job_id)
        if found is None:
            return
        generation, index = found
        if output.finish is not None:
            del self.exchanges[output.job_id]
        generation.heard(index, output)


class Generation:
    """One answer on its way to one connection, and what shall go wrong with it."""

    def __init__(self, connection: "Connection", ask: Ask, reply: Reply, fault: Failure | None):
        self.connection = connection
        self.ask = ask
        self.reply = reply
        self.fault = fault
        self.jobs: list[JobId] = []
        self.has_head = False
        self.is_over = False

    def heard(self, index: int, output: Output) -> None:
        if self.is_over:
            return
        events = self.reply.heard(index, output)
        fault = self.fault
        if fault is not None and fault.is_after_tokens and self.reply.output_tokens > fault.at:
            self.fail_amid(fault, b"".join(events))
            return
        if self.ask.is_stream:
            self.send(events)
        elif self.reply.is_done:
            self.connection.document(200, self.reply.body(), self)
        if self.reply.is_done:
            self.is_over = True
            self.connection.answered()

    def send(self, events: list[bytes]) -> None:
        chunks = [b"%x\r\n%b\r\n" % (len(event), event) for event in events]
        if not self.has_head:
            self.has_head = True
            chunks.insert(0, self.connection.stream_head())
        if self.reply.is_done:
            chunks.append(b"0\r\n\r\n")
        self.connection.write(b"".join(chunks), self.fault)

    def fail_amid(self, fault: Failure, rest: bytes) -> None:
        """The stream goes wrong here, perhaps in the middle of an event."""
        self.is_over = True
        engine = self.connection.engine
        if fault.kind is Kind.STALL:
            return
        if fault.cut:
            part = rest[: fault.cut]
            self.connection.transport.write(b"%x\r\n%b" % (len(rest), part))
        engine.cancel(self)
        if fault.kind is Kind.RESET:
            self.connection.reset()
        else:
            self.connection.transport.close()


class Connection(asyncio.Protocol):
    """One client of one engine."""

    transport: asyncio.Transport

    def __init__(self, engine: SimEngine) -> None:
        self.engine = engine
        self.parser = httptools.HttpRequestParser(self)
        self.generation: Generation | None = None
        self.queue: deque[tuple[str, str, dict[str, str], bytes]] = deque()
        self.is_busy = False
        self.is_holding = False
        self.keeps_alive = True
        self.idle: asyncio.TimerHandle | None = None
        self.delay: asyncio.TimerHandle | None = None
        self.trickling: deque[bytes] = deque()
        self.begin()

    def begin(self) -> None:
        self.url = b""
        self.headers: dict[str, str] = {}
        self.pieces: list[bytes] = []
        self.size = 0

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # pyright: ignore[reportAttributeAccessIssue]
        self.engine.connections.add(self)
        self.wait_idle()

    def data_received(self, data: bytes) -> None:
        if self.idle is not None:
            self.idle.cancel()
            self.idle = None
        try:
            self.parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.keeps_alive = False
            self.document(400, error_body(400, "This is not HTTP/1.1."), None)
            self.transport.close()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The client left: slot and blocks are free at once."""
        self.engine.connections.discard(self)
        for timer in (self.idle, self.delay):
            if timer is not None:
                timer.cancel()
        self.release()
        generation, self.generation = self.generation, None
        if generation is not None:
            generation.is_over = True
            self.engine.cancel(generation)

    # httptools

    def on_message_begin(self) -> None:
        self.begin()

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self.headers.get("expect", "").lower() == "100-continue":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self.size += len(body)
        if self.size <= BODY_BYTES_MAX:
            self.pieces.append(body)

    def on_message_complete(self) -> None:
        self.keeps_alive = self.parser.should_keep_alive()
        method = self.parser.get_method().decode("latin-1")
        path = self.url.partition(b"?")[0].decode("latin-1")
        self.queue.append((method, path, self.headers, b"".join(self.pieces)))
        self.next()

    # Requests, one at a time.

    def next(self) -> None:
        if self.is_busy or not self.queue:
            return
        self.is_busy = True
        method, path, self.headers, body = self.queue.popleft()
        try:
            if self.size > BODY_BYTES_MAX:
                raise DialectError("The body is larger than 64 MiB.", 413)
            self.route(method, path, body)
        except DialectError as error:
            self.document(error.status, error_body(error.status, str(error), error.param), None)
            self.answered()

    def route(self, method: str, path: str, body: bytes) -> None:
        engine = self.engine
        if path in GENERATION and method == "POST":
            self.generate(path, body)
            return
        match (method, path):
            case ("GET", "/health" | "/ping"):
                self.document(200, b"", None)
            case ("GET", "/metrics"):
                page = metrics_page(
                    engine.model, engine.profile, engine.engine.stats(), engine.held
                )
                self.document(200, page, None, b"text/plain; version=0.0.4; charset=utf-8")
            case ("GET", "/v1/models"):
                self.document(200, models_body(engine.model, engine.profile), None)
            case ("GET", "/version"):
                self.document(200, b'{"version":"0.32.0"}', None)
            case ("POST", "/tokenize"):
                self.document(200, tokenized(decoded(TokenizeBody, body), engine.profile), None)
            case ("POST", "/reset_prefix_cache"):
                engine.engine.clear_cache(engine.now())
                self.document(200, b"", None)
            case _:
                raise DialectError("Not Found", 404)
        self.answered()

    def generate(self, path: str, body: bytes) -> None:
        fault = wanted_failure(self.headers, self.engine.port)
        delay_s = wanted_delay_s(self.headers)
        ask = self.understood(path, body)
        if delay_s > 0:
            self.hold()
            self.delay = self.engine.loop.call_later(delay_s, self.start, ask, fault)
        else:
            self.start(ask, fault)

    def understood(self, path: str, raw: bytes) -> Ask:
        engine = self.engine
        if path == "/v1/chat/completions":
            body = decoded(ChatBody, raw)
            self.check_model(body.model)
            return chat_ask(body, engine.model, engine.profile)
        text = decoded(CompletionBody, raw)
        self.check_model(text.model)
        return completion_ask(text, engine.model, engine.profile)

    def check_model(self, model: str | None) -> None:
        if model is not None and model != self.engine.model:
            raise DialectError(f"The model `{model}` does not exist.", 404, "model")

    def start(self, ask: Ask, fault: Failure | None) -> None:
        self.delay = None
        self.release()
        if fault is not None and not fault.is_after_tokens and self.fail(fault):
            return
        engine = self.engine
        engine.count += 1
        name = self.headers.get("x-request-id", f"{engine.port}-{engine.count}")
        reply = Reply(ask, name, EPOCH_S + int(engine.loop.time()), engine.profile.block_tokens)
        self.generation = Generation(self, ask, reply, fault)
        engine.submit(self.generation, ask)

    def fail(self, fault: Failure) -> bool:
        """A fault before the status line; False when the answer goes its way first."""
        match fault.kind:
            case Kind.STATUS:
                message = "This fault was asked for."
                self.document(fault.status, error_body(fault.status, message), None)
                self.answered()
            case Kind.RESET:
                self.reset()
            case Kind.CLOSE:
                self.transport.close()
            case Kind.GARBAGE:
                self.transport.write(b"\x00\x01this is not HTTP\r\n\r\n")
                self.transport.close()
            case Kind.GARBAGE_BODY:
                self.document(200, b"\xff\xfeneither events nor JSON", None)
                self.answered()
            case Kind.SILENT | Kind.STALL:
                self.hold()
            case Kind.TRICKLE:
                return False
        return True

    def hold(self) -> None:
        if not self.is_holding:
            self.is_holding = True
            self.engine.held += 1

    def release(self) -> None:
        if self.is_holding:
            self.is_holding = False
            self.engine.held -= 1

    # Bytes out.

    def stream_head(self) -> bytes:
        return self.head(
            200, b"text/event-stream; charset=utf-8", b"transfer-encoding: chunked\r\n"
        )

    def document(
        self,
        status: int,
        body: bytes,
        generation: Generation | None,
        kind: bytes = b"application/json",
    ) -> None:
        head = self.head(status, kind, b"content-length: %d\r\n" % len(body))
        self.write(head + body, None if generation is None else generation.fault)

    def head(self, status: int, kind: bytes, framing: bytes) -> bytes:
        closing = b"" if self.keeps_alive else b"connection: close\r\n"
        form = b"HTTP/1.1 %d %b\r\nserver: uvicorn\r\ncontent-type: %b\r\n%b%b\r\n"
        return form % (status, reason(status).encode(), kind, framing, closing)

    def write(self, data: bytes, fault: Failure | None) -> None:
        if fault is None or fault.kind is not Kind.TRICKLE:
            self.transport.write(data)
            return
        self.trickling.extend(data[at : at + 1] for at in range(len(data)))
        if self.delay is None:
            self.trickle(fault.delay_ms / 1_000)

    def trickle(self, delay_s: float) -> None:
        self.delay = None
        if self.trickling:
            self.transport.write(self.trickling.popleft())
            self.delay = self.engine.loop.call_later(delay_s, self.trickle, delay_s)
        elif not self.is_busy:
            self.answered()

    def answered(self) -> None:
        self.generation = None
        self.is_busy = False
        if self.trickling:
            return
        if not self.keeps_alive:
            self.transport.close()
        elif self.queue:
            self.next()
        else:
            self.wait_idle()

    def wait_idle(self) -> None:
        if self.idle is not None:
            self.idle.cancel()
        self.idle = self.engine.loop.call_later(KEEP_ALIVE_S, self.close_idle)

    def close_idle(self) -> None:
        if not self.is_busy:
            self.transport.close()

    def reset(self) -> None:
        """Close so that the other side sees a reset, not an end."""
        raw: socket.socket | None = self.transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()


class SimFleet:
    """Engines on consecutive ports, or on any free ones."""

    def __init__(self, profile: Profile, model: str, count: int) -> None:
        loop = asyncio.get_running_loop()
        self.engines = [SimEngine(profile, model, loop) for _ in range(count)]

    async def listen(self, host: str, port: int) -> list[int]:
        """The ports, in order. Raises OSError when one is taken; then none is kept."""
        try:
            for offset, engine in enumerate(self.engines):
                await engine.listen(host, port + offset if port else 0)
        except OSError:
            self.close()
            raise
        return [engine.port for engine in self.engines]

    def close(self) -> None:
        for engine in self.engines:
            engine.close()


def models_body(model: str, profile: Profile) -> bytes:
    form = (
        b'{"object":"list","data":[{"id":"%b","object":"model","created":%d,"owned_by":"vllm",'
        b'"root":"%b","parent":null,"max_model_len":%d,"permission":[]}]}'
    )
    return form % (model.encode(), EPOCH_S, model.encode(), profile.context_tokens_max)


def tokenized(body: TokenizeBody, profile: Profile) -> bytes:
    if body.messages is not None:
        prompt = chat_prompt(body.messages, body.tools)
    elif body.prompt is not None:
        prompt = padded(body.prompt.encode())
    else:
        raise DialectError("expected prompt or messages", param="prompt")
    ids = token_ids(prompt)
    form = b'{"count":%d,"max_model_len":%d,"tokens":[%b],"token_strs":null}'
    tokens = b",".join(b"%d" % token for token in ids)
    return form % (len(ids), profile.context_tokens_max, tokens)
