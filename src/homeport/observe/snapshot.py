"""The fleet at one moment, frozen: what admin pages and scrapers may hold without holding the
router."""

from msgspec import Struct

from homeport.core.endpoint import slots_of
from homeport.core.ids import Instant, seconds
from homeport.core.router import Router


class EndpointRow(Struct, frozen=True):
    id: str
    model: str
    accelerator: str
    is_up: bool
    running: int
    wait_s: float
    """Predicted prefill of those without a first byte."""
    kv_tokens: int
    committed_tokens: int
    live_sessions: int
    index_blocks: int
    prefill_tokens_per_s: float
    parity: float
    """Reported over predicted cached tokens; 1 where nothing was predicted."""


class Snapshot(Struct, frozen=True):
    at_s: float
    policy: str
    endpoints: list[EndpointRow]
    queued: int
    queued_by_model: dict[str, int]
    running: int
    sessions: int


def snapshot_of(router: Router, now: Instant) -> Snapshot:
    """Copies what it shows, so that the router may go on."""
    slots = sorted(router.fleet.slots.values())
    rows = [endpoint_row(router, slot, now) for slot in slots]
    return Snapshot(
        at_s=seconds(now),
        policy=router.policy.name,
        endpoints=rows,
        queued=router.flow.queued,
        queued_by_model={model: len(queue) for model, queue in router.flow.queues.items() if queue},
        running=len(router.ledger.charges),
        sessions=len(router.sessions.live),
    )


def endpoint_row(router: Router, slot: int, now: Instant) -> EndpointRow:
    spec, rates = router.fleet.spec(slot), router.rates
    predicted = rates.predicted_tokens[slot]
    return EndpointRow(
        id=spec.id,
        model=spec.model,
        accelerator=spec.accelerator,
        is_up=router.health.is_up(slot),
        running=router.ledger.own[slot],
        wait_s=router.ledger.waits_s(slots_of(1 << slot), now)[0],
        kv_tokens=router.fleet.kv_tokens[slot],
        committed_tokens=router.sessions.committed_tokens[slot],
        live_sessions=router.sessions.live_sessions[slot],
        index_blocks=router.index.blocks(slot),
        prefill_tokens_per_s=rates.prefill_rate[slot],
        parity=rates.reported_tokens[slot] / predicted if predicted else 1.0,
    )
