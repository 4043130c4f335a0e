"""Looks at the engines: are they well, and what do their metrics say.

Health is asked at a steady interval, sooner while an endpoint is down. Metrics are read each second
while requests run there and seldom otherwise: they only correct drift, no decision waits for them.
"""

import asyncio

from msgspec import Struct

from homeport.cluster.driver import Driver
from homeport.core.event import EndpointProbed, EndpointSampled, Failure
from homeport.core.ids import EndpointId
from homeport.engines import EngineReading
from homeport.gateway.relay import Target
from homeport.wire.headers import Pair

TIMEOUT_S = 5.0
BUSY_S = 1.0
IDLE_S = 30.0
DOWN_S = 2.0
BODY_BYTES_MAX = 4 << 20


class Fetched(Struct, frozen=True):
    status: int
    body: bytes


class Fetch:
    """One GET over a pooled connection (`upstream.Leg`)."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.done: asyncio.Future[Fetched | Failure] = loop.create_future()
        self.status = 0
        self.pieces: list[bytes] = []
        self.size = 0

    def head(self, status: int, headers: list[Pair]) -> None:
        self.status = status

    def received(self, raw: bytes | None, pieces: list[bytes], is_whole: bool) -> None:
        self.pieces += pieces
        self.size += sum(map(len, pieces))
        if is_whole:
            self.end(Fetched(self.status, b"".join(self.pieces)))
        elif self.size > BODY_BYTES_MAX:
            self.end(Failure.GARBAGE)

    def failed(self, failure: Failure) -> None:
        self.end(failure)

    def end(self, result: Fetched | Failure) -> None:
        if not self.done.done():
            self.done.set_result(result)


async def fetch(target: Target, path: str, loop: asyncio.AbstractEventLoop) -> Fetched | Failure:
    """GET a path of an engine, or how that failed."""
    for is_last in (False, True):
        result = await fetch_once(target, path, loop, is_fresh=is_last)
        if result is not Failure.STALE:
            return result
    return Failure.STALE


async def fetch_once(
    target: Target, path: str, loop: asyncio.AbstractEventLoop, *, is_fresh: bool
) -> Fetched | Failure:
    connection = None if is_fresh else target.pool.take()
    request = Fetch(loop)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            if connection is None:
                connection = await target.pool.connect()
            head = b"GET %b HTTP/1.1\r\n%baccept: */*\r\n\r\n" % (path.encode(), target.head_lines)
            connection.send(request, head, b"")
            return await request.done
    except TimeoutError:
        if connection is not None:
            connection.abort()
        return Failure.FIRST_BYTE_TIMEOUT
    except OSError:
        return Failure.CONNECT


class Probe:
    """Of one endpoint."""

    def __init__(
        self, target: Target, driver: Driver, health_path: str | None, interval_s: float
    ) -> None:
        self.target = target
        self.driver = driver
        self.health_path = health_path or target.dialect.health_path
        self.interval_s = interval_s
        self.sampled_at = float("-inf")
        self.reading = EngineReading()

    @property
    def endpoint(self) -> EndpointId:
        return self.target.id

    async def run(self) -> None:
        """Until cancelled."""
        await asyncio.gather(self.watch_health(), self.watch_metrics())

    async def watch_health(self) -> None:
        while True:
            healthy = await self.look()
            await asyncio.sleep(self.interval_s if healthy else min(DOWN_S, self.interval_s))

    async def look(self) -> bool:
        """Ask for the engine's health, and tell the router."""
        result = await fetch(self.target, self.health_path, self.driver.loop)
        healthy = isinstance(result, Fetched) and 200 <= result.status < 300
        self.driver.feed(EndpointProbed(self.endpoint, healthy))
        return healthy

    async def watch_metrics(self) -> None:
        if self.target.dialect.metrics_path is None:
            return
        while True:
            is_due = self.driver.loop.time() - self.sampled_at >= IDLE_S
            if is_due or self.is_busy():
                await self.sample()
            await asyncio.sleep(BUSY_S)

    def is_busy(self) -> bool:
        router = self.driver.router
        slot = router.fleet.slots.get(self.endpoint)
        return slot is not None and router.ledger.running[slot] > 0

    async def sample(self) -> None:
        """Read the engine's metrics, and tell the router what decisions use of them."""
        path = self.target.dialect.metrics_path
        if path is None:
            return
        self.sampled_at = self.driver.loop.time()
        result = await fetch(self.target, path, self.driver.loop)
        before = self.reading
        self.reading = EngineReading()
        if isinstance(result, Fetched) and result.status == 200:
            self.reading = self.target.dialect.read_metrics(result.body)
        # A page that tells nothing is told once: what it told before holds no more.
        if self.reading != EngineReading() or before != EngineReading():
            self.driver.feed(EndpointSampled(self.endpoint, self.reading.sample()))
