"""The composition root: a config in, a running Homeport out. Nothing else reads the config."""

import asyncio
import gc
import logging
import secrets
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import urlsplit

from homeport.cluster.driver import Driver, Observer
from homeport.config.schema import Config, Engine
from homeport.core.endpoint import EndpointSpec
from homeport.core.event import ConfigChanged, EndpointJoined, Settings
from homeport.core.exchange import Patience
from homeport.core.ids import EndpointId, TenantName, seconds
from homeport.core.router import Router
from homeport.engines import dialect
from homeport.gateway.admin import Admin
from homeport.gateway.auth import Tenants, TrustedPeers
from homeport.gateway.handler import Handler
from homeport.gateway.outbox import Outbox
from homeport.gateway.probe import Probe
from homeport.gateway.relay import Target
from homeport.gateway.server import Server, ServerLimits
from homeport.gateway.upstream import Pool
from homeport.observe.explain import Explainer, Explanation
from homeport.observe.journal import Journal
from homeport.observe.metrics import Gauges, Metrics
from homeport.observe.snapshot import Snapshot, snapshot_of
from homeport.plugins.registry import POLICIES

log = logging.getLogger(__name__)

SWEEP_S = 0.5
DRAIN_S = 30.0
GC_THRESHOLDS = (20_000, 20, 50)
"""Requests in flight are no garbage; they need not be looked at every few requests."""
OPEN = TenantName("everyone")
"""Who calls where no tenants are configured."""


class StartError(Exception):
    """Homeport cannot run with this config on this machine now; the message says what to do."""


class Homeport:
    """Gateway and router of one process."""

    def __init__(
        self, config: Config, environ: Mapping[str, str], loop: asyncio.AbstractEventLoop
    ) -> None:
        self.config = config
        self.loop = loop
        self.journal = journal_of(config)
        self.metrics = Metrics(
            frozenset(engine.model for engine in config.engines),
            frozenset([OPEN, *(tenant.name for tenant in config.tenants)]),
        )
        self.explainer = Explainer()
        observers: list[Observer] = [self.metrics, self.explainer]
        if self.journal is not None:
            observers.append(self.journal)
        self.router = Router(POLICIES)
        self.driver = Driver(self.router, loop, observers)
        outbox = Outbox(loop)
        self.targets = {engine.url: target_of(engine, environ, outbox) for engine in config.engines}
        self.handler = Handler(
            driver=self.driver,
            targets=self.targets,
            tenants=tenants_of(config),
            trusted=TrustedPeers([ip_network(peer) for peer in config.gateway.trusted_peers]),
            patience=patience_of(config),
            secret=secret_of(config, environ),
        )
        self.server = Server(self.handler, server_limits_of(config), outbox)
        self.probes = [
            Probe(
                target,
                self.driver,
                None if config.health.path == "auto" else config.health.path,
                seconds(config.health.interval),
            )
            for target in self.targets.values()
        ]
        self.admin = Admin(
            self,
            loop,
            config.admin.listen.host,
            config.admin.listen.port,
            environ.get(config.admin.token_env) or None,
        )
        self.tasks: list[asyncio.Task[None]] = []
        self.port = 0

    async def start(self) -> None:
        """Look at the engines, then accept. Raises StartError."""
        if self.journal is not None:
            try:
                self.journal.start()
            except OSError as error:
                raise StartError(f"cannot write the journal: {error}.") from None
        self.driver.feed(ConfigChanged(settings_of(self.config)))
        for engine in self.config.engines:
            self.driver.feed(EndpointJoined(spec_of(engine)))
        looks = await asyncio.gather(*(probe.look() for probe in self.probes))
        if not any(looks):
            urls = ", ".join(self.targets)
            raise StartError(f"no engine is reachable: {urls}. Start one, or mend `engines`.")
        await asyncio.gather(*(probe.sample() for probe in self.probes))
        listen = self.config.gateway.listen
        try:
            self.port = await self.server.listen(listen.host, listen.port)
        except OSError as error:
            raise StartError(f"cannot listen on {listen}: {error.strerror or error}.") from None
        try:
            self.admin.start()
        except OSError as error:
            where = self.config.admin.listen
            raise StartError(f"cannot listen on {where}: {error.strerror or error}.") from None
        self.tasks = [self.loop.create_task(probe.run()) for probe in self.probes]
        self.tasks.append(self.loop.create_task(self.sweep()))
        # What exists now lives as long as the process: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)

    async def sweep(self) -> None:
        """Looks at the clock for all that waits."""
        while True:
            await asyncio.sleep(SWEEP_S)
            for relay in tuple(self.handler.relays):
                relay.look_at_clock()
            self.server.look_at_clock()
            if self.journal is not None:
                self.journal.flush()
            for target in self.targets.values():
                target.pool.close_old()

    async def stop(self) -> None:
        """Accept nobody new, let running answers finish within a bound, and end."""
        self.server.drain()
        deadline = self.loop.time() + DRAIN_S
        while self.handler.relays and self.loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        if self.handler.relays:
            log.warning("%d answers were cut after %.0f s", len(self.handler.relays), DRAIN_S)
        self.server.abort()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for target in self.targets.values():
            target.pool.close()
        self.admin.stop()
        if self.journal is not None:
            self.journal.stop()

    # What the admin server asks for (`gateway.admin.Source`).

    def snapshot(self) -> Snapshot:
        return snapshot_of(self.router, self.driver.now())

    def explain(self, request_id: str) -> Explanation | None:
        return self.explainer.explain(request_id)

    def metrics_page(self) -> bytes:
        lost = 0 if self.journal is None else self.journal.lost_records
        gauges = Gauges(
            snapshot=self.snapshot(),
            stripped_fields=self.handler.counters.stripped_fields,
            journal_lost_records=lost,
            client_connections=len(self.server.connections),
        )
        return self.metrics.page(gauges)


def target_of(engine: Engine, environ: Mapping[str, str], outbox: Outbox) -> Target:
    parts = urlsplit(engine.url)
    assert parts.hostname is not None, "the config was checked"
    lines = b"host: %b\r\n" % parts.netloc.encode()
    if engine.api_key_env is not None:
        lines += b"authorization: Bearer %b\r\n" % environ[engine.api_key_env].encode()
    return Target(
        id=engine.url,
        pool=Pool(parts.hostname, parts.port or 80, outbox),
        dialect=dialect(engine.dialect),
        served_as=engine.served_as or engine.model,
        head_lines=lines,
    )


def spec_of(engine: Engine) -> EndpointSpec:
    return EndpointSpec(
        id=EndpointId(engine.url),
        model=engine.model,
        accelerator=engine.accelerator or "unknown",
        kv_tokens=None if engine.kv_tokens == "auto" else engine.kv_tokens,
        running_max=None if engine.max_running == "auto" else engine.max_running,
    )


def settings_of(config: Config) -> Settings:
    running, hold = config.flow.running_per_endpoint, config.sessions.hold
    defaults = Settings()
    return Settings(
        policy=config.routing.policy,
        seed=config.routing.seed,
        queued_max=config.flow.queued,
        queued_bytes_max=config.flow.queued_bytes,
        wait_max=config.flow.wait,
        running_max=defaults.running_max if running == "auto" else running,
        session_hold=defaults.session_hold if hold == "auto" else hold,
        failures_max=config.health.failures,
        recoveries_min=config.health.recover,
    )


def patience_of(config: Config) -> Patience:
    timeouts = config.gateway.timeouts
    return Patience(
        connect=timeouts.connect,
        first_byte=timeouts.first_byte,
        between_bytes=timeouts.between_bytes,
        client_stall=timeouts.client_stall,
        total=timeouts.total,
    )


def server_limits_of(config: Config) -> ServerLimits:
    gateway = config.gateway
    return ServerLimits(
        body_bytes=gateway.limits.body_bytes,
        header_bytes=gateway.limits.header_bytes,
        connections=gateway.limits.connections,
        upload_s=seconds(gateway.timeouts.upload),
        idle_s=seconds(gateway.timeouts.idle),
    )


def tenants_of(config: Config) -> Tenants:
    by_key_hash = {key.sha256.lower(): t.name for t in config.tenants for key in t.keys}
    anonymous = next((t.name for t in config.tenants if t.anonymous), None)
    return Tenants(by_key_hash, anonymous if config.tenants else OPEN)


def journal_of(config: Config) -> Journal | None:
    journal = config.journal
    if journal is None:
        return None
    return Journal(Path(journal.path), journal.bytes, seconds(journal.keep))


def secret_of(config: Config, environ: Mapping[str, str]) -> bytes:
    """What seeds prompt hashes: the fleet's secret, or one of this process."""
    journal = config.journal
    if journal is not None and journal.secret_env is not None:
        return environ[journal.secret_env].encode()
    return secrets.token_bytes(16)
