"""The admin server: health, metrics, explanations. It has a thread and a loop of its own.

Nothing that happens here may delay a stream. What belongs to the gateway's loop is asked for there,
by a short call that returns frozen values, and waited for here.
"""

import asyncio
import concurrent.futures
import hmac
import socket
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from homeport.observe.explain import Explanation
from homeport.observe.snapshot import Snapshot

T = TypeVar("T")

ANSWER_S_MAX = 5.0
OPEN_PATHS = ("/healthz", "/readyz", "/metrics")
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
PAGE = """<!doctype html><html lang="en"><title>Homeport</title>
<h1>Homeport</h1><p>The admin side of this gateway.</p><ul>
<li><a href="/v1/snapshot">/v1/snapshot</a>: the fleet as it is</li>
<li><a href="/metrics">/metrics</a>: for Prometheus</li>
<li>/v1/explain/ID: why a request went where it went (ID: <code>x-homeport-request-id</code>)</li>
<li><a href="/healthz">/healthz</a>, <a href="/readyz">/readyz</a></li></ul></html>"""


class Source(Protocol):
    """What the gateway's loop answers."""

    def snapshot(self) -> Snapshot: ...

    def explain(self, request_id: str) -> Explanation | None: ...

    def metrics_page(self) -> bytes: ...


class Admin:
    """Runs in its own thread from `start` to `stop`."""

    def __init__(
        self,
        source: Source,
        loop: asyncio.AbstractEventLoop,
        host: str,
        port: int,
        token: str | None,
    ) -> None:
        self.source = source
        self.loop = loop
        self.host = host
        self.port = port
        self.token = token
        self.listener: socket.socket | None = None
        self.server: uvicorn.Server | None = None
        self.thread: threading.Thread | None = None

    def start(self) -> None:
        """Raises OSError when it cannot listen."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        self.listener = socket.create_server((self.host, self.port), family=family)
        self.port = int(self.listener.getsockname()[1])
        config = uvicorn.Config(
            self.app(), log_config=None, access_log=False, lifespan="off", loop="asyncio"
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.run, name="admin", daemon=True)
        self.thread.start()

    def run(self) -> None:
        assert self.server is not None and self.listener is not None, "started"
        self.server.run(sockets=[self.listener])

    def stop(self) -> None:
        if self.server is not None:
            self.server.should_exit = True
        if self.thread is not None:
            self.thread.join(ANSWER_S_MAX)

    def app(self) -> Starlette:
        routes = [
            Route("/", self.home),
            Route("/healthz", self.healthz),
            Route("/readyz", self.readyz),
            Route("/metrics", self.metrics),
            Route("/v1/snapshot", self.show_snapshot),
            Route("/v1/explain/{request_id}", self.show_explain),
        ]
        return Starlette(
            routes=routes,
            middleware=[Middleware(BaseHTTPMiddleware, dispatch=self.guard)],
            exception_handlers={HTTPException: not_here, TimeoutError: too_busy, Exception: bug},
        )

    async def guard(self, request: Request, answer: RequestResponseEndpoint) -> Response:
        """Whatever is asked for: a foreign page must not reach this server by a name of its own."""
        host = request.headers.get("host", "")
        if host not in self.hosts():
            return refusal(421, f"This server is not {host!r}.")
        if request.url.path not in OPEN_PATHS and not self.has_token(request):
            return refusal(401, "A token is needed: send it as `Authorization: Bearer TOKEN`.")
        return await answer(request)

    def hosts(self) -> set[str]:
        own = f"[{self.host}]" if ":" in self.host else self.host
        return {f"{name}:{self.port}" for name in (*LOCAL_NAMES, own)}

    def has_token(self, request: Request) -> bool:
        if self.token is None:
            return True
        given = request.headers.get("authorization", "")
        return hmac.compare_digest(given.encode(), f"Bearer {self.token}".encode())

    async def ask(self, call: Callable[[], T]) -> T:
        """Let the gateway's loop answer. Raises TimeoutError."""
        answer: concurrent.futures.Future[T] = concurrent.futures.Future()

        def answer_there() -> None:
            if not answer.set_running_or_notify_cancel():
                return  # nobody waits any more
            try:
                answer.set_result(call())
            except Exception as error:
                answer.set_exception(error)

        self.loop.call_soon_threadsafe(answer_there)
        async with asyncio.timeout(ANSWER_S_MAX):
            return await asyncio.wrap_future(answer)

    async def home(self, request: Request) -> Response:
        return HTMLResponse(PAGE)

    async def healthz(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(self, request: Request) -> Response:
        snapshot = await self.ask(self.source.snapshot)
        if any(row.is_up for row in snapshot.endpoints):
            return PlainTextResponse("ready\n")
        return PlainTextResponse("not ready: no endpoint is up\n", status_code=503)

    async def metrics(self, request: Request) -> Response:
        page = await self.ask(self.source.metrics_page)
        return Response(page, media_type="text/plain; version=0.0.4")

    async def show_snapshot(self, request: Request) -> Response:
        return json_of(await self.ask(self.source.snapshot))

    async def show_explain(self, request: Request) -> Response:
        request_id: str = request.path_params["request_id"]
        found = await self.ask(lambda: self.source.explain(request_id))
        if found is None:
            return refusal(404, f"No request {request_id!r} among the last ones.")
        return json_of(found)


def not_here(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "as registered"
    return refusal(error.status_code, f"{request.method} {request.url.path}: {error.detail}.")


def too_busy(request: Request, error: Exception) -> Response:
    return refusal(503, f"The gateway did not answer within {ANSWER_S_MAX:.0f} s; ask again.")


def bug(request: Request, error: Exception) -> Response:
    return refusal(500, "Homeport met a bug of its own; its log says more.")


def json_of(value: object) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")


def refusal(status: int, message: str) -> Response:
    return JSONResponse({"error": {"message": message, "code": status}}, status_code=status)
