"""Counts and distributions of what happened, as Prometheus reads them.

On the hot path only plain numbers are added up; families are made when a scraper asks. Label values
come from the config, never from a request: a model or tenant that nobody configured is `other`.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator

from msgspec import Struct
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from homeport.core.command import Dispatch, Reject
from homeport.core.event import (
    FirstByteSent,
    LegEnded,
    RequestArrived,
    RequestEnded,
    RequestRefused,
)
from homeport.core.ids import MICROS_PER_SECOND, Instant, RequestId
from homeport.core.record import Record
from homeport.core.request import Request
from homeport.observe.snapshot import Snapshot

BAND = "default"
OTHER = "other"
BUCKETS_S = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0),
)


class Histogram:
    """Counts of durations by bucket."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.sum_s = 0.0

    def add(self, duration_s: float) -> None:
        self.counts[bisect_left(BUCKETS_S, duration_s)] += 1
        self.sum_s += duration_s

    def family(self, name: str, about: str) -> HistogramMetricFamily:
        total, rows = 0, list[tuple[str, float]]()
        for bound, count in zip((*map(str, BUCKETS_S), "+Inf"), self.counts, strict=True):
            total += count
            rows.append((bound, total))
        family = HistogramMetricFamily(f"homeport_{name}", about)
        family.add_metric([], rows, self.sum_s)
        return family

    def quantile(self, share: float) -> float:
        """The upper bound of the bucket in which the quantile falls; 0 when nothing was counted."""
        total = sum(self.counts)
        seen = 0
        for bound, count in zip((*BUCKETS_S, BUCKETS_S[-1]), self.counts, strict=True):
            seen += count
            if total and seen >= share * total:
                return bound
        return 0.0


class Live(Struct, gc=False):
    """A request that has not ended: what its end will be measured against."""

    request: Request
    arrived_at: Instant
    ready_at: Instant
    predicted_tokens: int = 0
    has_first_byte: bool = False


class Gauges(Struct, frozen=True):
    """What is read at scrape time."""

    snapshot: Snapshot
    stripped_fields: dict[str, int]
    journal_lost_records: int
    client_connections: int


class Metrics:
    """Folds records (`cluster.driver.Observer`)."""

    def __init__(self, models: frozenset[str], tenants: frozenset[str]) -> None:
        self.models = models
        self.tenants = tenants
        self.live: dict[RequestId, Live] = {}
        self.requests: Counter[tuple[str, str, str]] = Counter()
        self.refusals: Counter[str] = Counter()
        self.retries: Counter[str] = Counter()
        self.moves: Counter[str] = Counter()
        self.fallbacks: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.request_s, self.first_token_s, self.queue_s = Histogram(), Histogram(), Histogram()

    def observe(self, record: Record) -> None:
        event, at = record.event, record.at
        if isinstance(event, RequestArrived):
            self.live[event.request.id] = Live(event.request, at, at)
        elif isinstance(event, RequestEnded):
            self.ended(event, at)
        elif isinstance(event, FirstByteSent):
            self.first_byte(event.request_id, at)
        elif isinstance(event, LegEnded):
            self.retries[event.failure.value] += 1
            self.live[event.request_id].ready_at = at
        elif isinstance(event, RequestRefused):
            self.refusals[event.refusal.reason.value] += 1
            self.count(event.model, event.tenant, "refused")
        for command in record.commands:
            if isinstance(command, Dispatch):
                self.dispatched(command, at)
            elif isinstance(command, Reject):
                self.rejected(command)

    def dispatched(self, command: Dispatch, at: Instant) -> None:
        live, decision = self.live[command.request_id], command.decision
        self.queue_s.add((at - live.ready_at) / MICROS_PER_SECOND)
        live.predicted_tokens = decision.predicted_cached_tokens
        if decision.moved is not None:
            self.moves[decision.moved] += 1
        if decision.is_last_resort:
            self.fallbacks["all_unhealthy"] += 1

    def first_byte(self, request_id: RequestId, at: Instant) -> None:
        live = self.live[request_id]
        if not live.has_first_byte:
            live.has_first_byte = True
            self.first_token_s.add((at - live.arrived_at) / MICROS_PER_SECOND)

    def ended(self, event: RequestEnded, at: Instant) -> None:
        live = self.live.pop(event.request_id)
        self.request_s.add((at - live.arrived_at) / MICROS_PER_SECOND)
        self.count(live.request.model, live.request.tenant, event.outcome.value)
        if event.refusal is not None:
            self.refusals[event.refusal.reason.value] += 1
        if event.usage is not None:
            self.tokens["prompt"] += event.usage.prompt_tokens
            self.tokens["output"] += event.usage.output_tokens
            self.tokens["cached"] += event.usage.cached_tokens or 0
            self.tokens["predicted_cached"] += live.predicted_tokens

    def rejected(self, command: Reject) -> None:
        live = self.live.pop(command.request_id, None)
        self.refusals[command.refusal.reason.value] += 1
        if live is not None:
            self.count(live.request.model, live.request.tenant, "refused")

    def count(self, model: str | None, tenant: str | None, outcome: str) -> None:
        known_model = model if model in self.models else OTHER
        known_tenant = tenant if tenant in self.tenants else OTHER
        self.requests[known_model or OTHER, known_tenant or OTHER, outcome] += 1

    def page(self, gauges: Gauges) -> bytes:
        """The text that a scraper gets."""
        registry = CollectorRegistry()
        registry.register(Page(lambda: self.families(gauges)))
        return generate_latest(registry)

    def families(self, gauges: Gauges) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "homeport_requests",
            "Requests that ended.",
            labels=("model", "tenant", "band", "outcome"),
        )
        for (model, tenant, outcome), number in self.requests.items():
            requests.add_metric((model, tenant, BAND, outcome), number)
        yield requests
        yield counted("refusals", "Requests refused.", "reason", self.refusals)
        yield counted("retries", "Legs placed again.", "reason", self.retries)
        yield counted("session_moves", "Turns that left home.", "reason", self.moves)
        yield counted("fallbacks", "Fallbacks taken.", "kind", self.fallbacks)
        yield counted(
            "stripped_fields", "Reserved fields removed.", "field", Counter(gauges.stripped_fields)
        )
        for name in ("prompt", "cached", "output", "predicted_cached"):
            about = f"Tokens of answered requests: {name}."
            yield CounterMetricFamily(f"homeport_{name}_tokens", about, value=self.tokens[name])
        yield self.request_s.family("request_seconds", "Arrival to end.")
        yield self.first_token_s.family("time_to_first_token_seconds", "Arrival to first byte.")
        yield self.queue_s.family("queue_seconds", "Ready to dispatched.")
        yield from fleet_families(gauges)


class Page(Collector):
    def __init__(self, families: Callable[[], Iterator[Metric]]) -> None:
        self.families = families

    def collect(self) -> Iterator[Metric]:
        return self.families()


def counted(name: str, about: str, label: str, counts: Counter[str]) -> CounterMetricFamily:
    family = CounterMetricFamily(f"homeport_{name}", about, labels=(label,))
    for value, number in counts.items():
        family.add_metric((value,), number)
    return family


def fleet_families(gauges: Gauges) -> Iterator[Metric]:
    snapshot = gauges.snapshot
    by_endpoint = {
        "running_requests": "Requests dispatched and not ended.",
        "cache_parity_ratio": "Reported over predicted cached tokens.",
        "endpoint_up": "1 when it is believed to work.",
    }
    for name, about in by_endpoint.items():
        family = GaugeMetricFamily(f"homeport_{name}", about, labels=("endpoint",))
        for row in snapshot.endpoints:
            value = {
                "running_requests": float(row.running),
                "cache_parity_ratio": row.parity,
                "endpoint_up": float(row.is_up),
            }[name]
            family.add_metric((row.id,), value)
        yield family
    blocks = GaugeMetricFamily(
        "homeport_index_blocks", "Blocks in the shadow.", labels=("endpoint", "tier")
    )
    for row in snapshot.endpoints:
        blocks.add_metric((row.id, "gpu"), row.index_blocks)
    yield blocks
    role = GaugeMetricFamily("homeport_router_role", "1 for the role it has.", labels=("role",))
    role.add_metric(("active",), 1)
    yield role
    single = {
        "queued_requests": (snapshot.queued, "Requests that wait."),
        "live_sessions": (snapshot.sessions, "Sessions remembered."),
        "journal_lag_records": (0, "Records that a standby has not got."),
        "journal_lost_records": (gauges.journal_lost_records, "Records never written."),
        "client_connections": (gauges.client_connections, "Open client connections."),
    }
    for name, (value, about) in single.items():
        yield GaugeMetricFamily(f"homeport_{name}", about, value=value)
