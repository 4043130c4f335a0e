"""The router: one pure state machine, `handle(event, now) -> list[Command]`.

It is all machines of `core/` as one. It has no clock, no randomness but its own seeded dice, and
does no IO, so that a journal of its events is its memory: feed them again and the same commands
come out.
"""

from collections.abc import Mapping
from typing import assert_never

import msgspec
import xxhash
from msgspec import Struct

from homeport.core.command import Command, Dispatch, Reject, WakeAt
from homeport.core.dice import Dice
from homeport.core.endpoint import EndpointSpec, Sample, Slot
from homeport.core.event import (
    ConfigChanged,
    EndpointJoined,
    EndpointLeft,
    EndpointProbed,
    EndpointSampled,
    Event,
    Failure,
    FirstByteSent,
    LegEnded,
    Outcome,
    RequestArrived,
    RequestEnded,
    RequestRefused,
    Settings,
    TimerFired,
)
from homeport.core.fleet import Fleet
from homeport.core.flow import Flow, Waiting
from homeport.core.health import Health
from homeport.core.ids import BlockHash, Instant, ModelName, RequestId
from homeport.core.ledger import Charge, Ledger, prefill_micros
from homeport.core.policy import Policy
from homeport.core.prefix import PrefixIndex
from homeport.core.rates import Rates
from homeport.core.refusal import Reason, Refusal
from homeport.core.request import Request, Usage
from homeport.core.schedule import Placement, Scheduler, Unplaced
from homeport.core.session import Session, Sessions

LOST_TOKENS_MIN = 512
"""A context of fewer tokens may be missing for smaller reasons than a lost cache."""

GENERATED = 0xA5A5_5A5A_C3C3_3C3C
"""Turns a prompt's last hash into the name of what was generated after it."""


class Live(Struct, gc=False):
    """A request that is neither answered nor refused yet."""

    request: Request
    session: Session
    tried: int = 0
    """Mask of the endpoints that failed it."""
    failure: Failure | None = None
    slot: Slot | None = None
    """Where it runs; None while it waits."""


class Router:
    """Not safe to call from two threads; each call runs to completion."""

    def __init__(self, policies: Mapping[str, Policy]) -> None:
        self.policies = policies
        self.settings = Settings()
        self.fleet = Fleet()
        self.health = Health()
        self.index = PrefixIndex()
        self.sessions = Sessions()
        self.ledger = Ledger()
        self.rates = Rates()
        self.flow = Flow(self.settings.queued_max, self.settings.queued_bytes_max)
        self.scheduler = Scheduler(
            self.fleet, self.health, self.index, self.sessions, self.ledger, self.rates
        )
        self.dice = Dice(0)
        self.policy = policies[self.settings.policy]
        self.live: dict[RequestId, Live] = {}
        self.turns: dict[ModelName, int] = {}
        self.wake_at: Instant | None = None

    def handle(self, event: Event, now: Instant) -> list[Command]:
        """What follows from `event` at `now`. Instants never go back."""
        commands: list[Command] = []
        match event:
            case RequestArrived(request):
                self.arrived(request, now, commands)
            case FirstByteSent(request_id):
                self.first_byte(request_id, now)
            case RequestEnded():
                self.ended(event, now, commands)
            case LegEnded(request_id, failure):
                self.leg_ended(request_id, failure, now, commands)
            case EndpointSampled(endpoint, sample):
                slot = self.fleet.slots.get(endpoint)
                if slot is not None:
                    self.sampled(slot, sample, now, commands)
            case EndpointProbed(endpoint, healthy):
                slot = self.fleet.slots.get(endpoint)
                if slot is not None:
                    self.probed(slot, healthy, now, commands)
            case EndpointJoined(spec):
                self.joined(spec, now, commands)
            case EndpointLeft(endpoint):
                self.left(self.fleet.slots[endpoint], now, commands)
            case TimerFired():
                self.expire(now, commands)
            case ConfigChanged(settings):
                self.configure(settings, now, commands)
            case RequestRefused():
                pass
            case _:
                assert_never(event)
        if self.flow.queued or self.wake_at is not None:
            self.wake(commands)
        return commands

    # A request's life, in order.

    def arrived(self, request: Request, now: Instant, commands: list[Command]) -> None:
        assert request.id not in self.live, f"{request.id} arrived twice"
        if request.model not in self.fleet.serving:
            commands.append(Reject(request.id, self.unknown_model(request.model)))
            return
        live = Live(request, self.sessions.begin_turn(request, now))
        # Whoever waits could not be placed a moment ago: what this one finds has failed those.
        self.place_or_wait(live, self.place(live, now), now, commands)

    def place_or_wait(
        self, live: Live, placed: Placement | Unplaced, now: Instant, commands: list[Command]
    ) -> None:
        request = live.request
        match placed:
            case Placement():
                self.live[request.id] = live
                commands.append(self.dispatch(live, placed, now))
            case Unplaced.FULL if self.flow.has_room(request.body_bytes):
                self.live[request.id] = live
                self.wait(live, now)
            case Unplaced.FULL:
                self.reject(live, self.queue_full(request.model), now, commands)
            case Unplaced.NONE:
                self.reject(live, self.nobody(live), now, commands)

    def place(self, live: Live, now: Instant) -> Placement | Unplaced:
        turn = self.turns.get(live.request.model, 0)
        return self.scheduler.place(
            live.request, live.session, live.tried, self.policy, self.dice, turn, now
        )

    def dispatch(self, live: Live, placed: Placement, now: Instant) -> Dispatch:
        """Charge the endpoint at once; what was sent there counts as present there."""
        request, slot, session = live.request, placed.slot, live.session
        live.slot = slot
        self.turns[request.model] = self.turns.get(request.model, 0) + 1
        rate = self.rates.prefill_rate[slot]
        new = placed.prompt_tokens - placed.hit_tokens
        self.ledger.charge(
            request.id,
            Charge(
                slot=slot,
                prompt_tokens=placed.prompt_tokens,
                hit_tokens=placed.hit_tokens,
                prefill_us=prefill_micros(new, placed.prompt_tokens, rate),
                dispatched_at=now,
                prior=placed.prior,
            ),
        )
        self.fleet.set_running(slot, self.ledger.running[slot])
        if session.home is not None and session.generated is not None:
            self.index.drop(session.home, session.generated)
            session.generated = None
        self.index.learn(slot, request.prompt.blocks)
        self.trim(slot, request.model)
        self.sessions.settle_at(session, slot, request, placed.prompt_tokens)
        return Dispatch(request.id, self.fleet.ids[slot], placed.decision)

    def wait(self, live: Live, now: Instant) -> None:
        request = live.request
        head = self.flow.head(request.model)
        is_returned = live.tried != 0
        expires_at = now + self.settings.wait_max
        if is_returned and head is not None:
            expires_at = min(expires_at, head.expires_at)
        self.flow.enqueue(
            Waiting(request.id, request.model, request.body_bytes, Instant(expires_at)),
            is_first=is_returned,
        )

    def first_byte(self, request_id: RequestId, now: Instant) -> None:
        live = self.live[request_id]
        charge = self.ledger.first_byte(request_id, now)
        self.health.served(charge.slot)
        if not live.request.stream:
            return  # a document comes when it is whole: that tells nothing of its prefill
        began = charge.prefill_began_at
        self.rates.learn_prefill(
            charge.slot,
            live.request.model,
            charge.prompt_tokens - charge.hit_tokens,
            charge.prompt_tokens,
            now - (charge.dispatched_at if began is None else began),
        )

    def leg_ended(
        self, request_id: RequestId, failure: Failure, now: Instant, commands: list[Command]
    ) -> None:
        """Another endpoint is tried, unless the failure says that this one may be asked again."""
        live = self.live.pop(request_id)
        slot = self.settle(live, now)
        live.failure = failure
        live.tried |= 1 << slot
        self.blame(slot, failure)
        self.place_or_wait(live, self.place(live, now), now, commands)
        self.drain(live.request.model, now, commands)

    def ended(self, event: RequestEnded, now: Instant, commands: list[Command]) -> None:
        live = self.live.pop(event.request_id)
        request = live.request
        if live.slot is None:
            self.flow.remove(request.model, request.id)
            self.sessions.end_turn(live.session, now)
            return
        charge = self.ledger.charges[request.id]
        slot = self.settle(live, now)
        if event.failure is not None:
            self.blame(slot, event.failure)
        elif event.outcome in (Outcome.ANSWERED, Outcome.CLIENT_ERROR):
            self.health.served(slot)
        if event.usage is not None:
            self.learn(live, charge, event.usage, now)
        self.sessions.end_turn(live.session, now)
        self.drain(request.model, now, commands)

    def settle(self, live: Live, now: Instant) -> Slot:
        charge = self.ledger.settle(live.request.id, now)
        self.fleet.set_running(charge.slot, self.ledger.running[charge.slot])
        live.slot = None
        return charge.slot

    def learn(self, live: Live, charge: Charge, usage: Usage, now: Instant) -> None:
        """Correct what was believed by what the engine says it did."""
        request, session, slot = live.request, live.session, charge.slot
        if self.fleet.specs[slot] is None:
            return
        model = self.rates.models[request.model]
        model.learn_text(request.prompt.text_bytes, usage.prompt_tokens)
        if charge.first_byte_at is not None and request.stream:
            self.rates.learn_step(slot, usage.output_tokens, now - charge.first_byte_at)
        reported = usage.cached_tokens
        if reported is not None:
            self.learn_cached(live, charge, reported)
        if session.home == slot and session.newest == request.id:
            self.sessions.answered(session, usage.prompt_tokens, usage.output_tokens)
            output_bytes = int(usage.output_tokens * model.bytes_per_token)
            self.learn_generated(session, slot, request, output_bytes)

    def learn_cached(self, live: Live, charge: Charge, reported: int) -> None:
        """Was the prediction right? Only a turn that was answered there is sure enough to judge."""
        slot, prior, blocks = charge.slot, charge.prior, live.request.prompt.blocks
        self.rates.learn_cached(slot, charge.hit_tokens, reported, prior is not None)
        if prior is None:
            return
        if reported == 0 and prior.prompt_tokens >= LOST_TOKENS_MIN:
            # It answered the turn before and holds nothing of it: it has lost its cache.
            self.index.clear(slot)
            self.index.learn(slot, blocks)
        elif prior.output_tokens > 0:
            # Engines tell whole blocks: on the average half a block more is there.
            kept = reported + self.fleet.block_tokens[slot] / 2 - prior.prompt_tokens
            self.rates.models[live.request.model].learn_kept(kept / prior.output_tokens)

    def learn_generated(
        self, session: Session, slot: Slot, request: Request, output_bytes: int
    ) -> None:
        """The answer is in that cache too, behind the prompt, until text takes its place."""
        prompt = request.prompt
        if not prompt.turns:
            return
        if session.generated is not None:
            self.index.drop(slot, session.generated)
        session.generated = BlockHash(prompt.turns[0] ^ GENERATED)
        self.index.learn_generated(slot, session.generated, output_bytes)
        self.index.learn(slot, prompt.blocks)
        self.trim(slot, request.model)

    def trim(self, slot: Slot, model: ModelName) -> None:
        per_token = self.rates.models[model].bytes_per_token
        self.index.trim(slot, int(self.fleet.kv_tokens[slot] * per_token))

    def blame(self, slot: Slot, failure: Failure) -> None:
        if failure is not Failure.BUSY and self.fleet.specs[slot] is not None:
            self.health.failed(slot)

    # Capacity that frees is used in the same call.

    def drain(self, model: ModelName, now: Instant, commands: list[Command]) -> None:
        for waiting in self.flow.waiting(model):
            live = self.live[waiting.request_id]
            match self.place(live, now):
                case Placement() as placed:
                    self.flow.remove(model, waiting.request_id)
                    commands.append(self.dispatch(live, placed, now))
                case Unplaced.FULL if live.tried:
                    pass  # what is free has failed it; the next one may go there
                case Unplaced.FULL:
                    return
                case Unplaced.NONE:
                    self.flow.remove(model, waiting.request_id)
                    self.reject(live, self.nobody(live), now, commands)

    def expire(self, now: Instant, commands: list[Command]) -> None:
        self.wake_at = None
        for waiting in self.flow.expired(now):
            self.flow.remove(waiting.model, waiting.request_id)
            live = self.live[waiting.request_id]
            self.reject(live, self.wait_expired(waiting.model), now, commands)

    def wake(self, commands: list[Command]) -> None:
        at = self.flow.next_expiry()
        if at is not None and at != self.wake_at:
            commands.append(WakeAt(at))
        self.wake_at = at

    def reject(self, live: Live, refusal: Refusal, now: Instant, commands: list[Command]) -> None:
        self.live.pop(live.request.id, None)
        self.sessions.end_turn(live.session, now)
        commands.append(Reject(live.request.id, refusal))

    # The fleet changes.

    def joined(self, spec: EndpointSpec, now: Instant, commands: list[Command]) -> None:
        slot, is_new = self.fleet.join(spec, self.ledger.own)
        if is_new:
            for machine in (self.sessions, self.ledger, self.rates):
                machine.grow()
        self.ledger.join(slot)
        self.rates.join(slot, spec.model)
        self.health.join(slot)
        self.index.join(slot)
        self.load_changed(slot, now, commands)

    def left(self, slot: Slot, now: Instant, commands: list[Command]) -> None:
        """Those who run there settle later; those who wait for nobody else are told."""
        model = self.fleet.spec(slot).model
        self.sessions.evict(slot)
        self.index.leave(slot)
        self.health.leave(slot)
        self.fleet.leave(slot)
        for live in self.live.values():
            live.tried &= ~(1 << slot)  # whoever gets the slot has failed nobody
        self.drain(model, now, commands)

    def probed(self, slot: Slot, healthy: bool, now: Instant, commands: list[Command]) -> None:
        if not healthy:
            if self.health.failed(slot):
                # It may have been the last that was up: then all are used.
                self.drain(self.fleet.spec(slot).model, now, commands)
        elif self.health.probed(slot):
            # It was away: an engine that comes back starts with an empty cache.
            self.index.clear(slot)
            self.sessions.evict(slot)
            self.load_changed(slot, now, commands)

    def sampled(self, slot: Slot, sample: Sample, now: Instant, commands: list[Command]) -> None:
        self.fleet.sampled(slot, sample)
        if sample.running is None:
            self.ledger.forget_foreign(slot)
        else:
            self.ledger.sampled(slot, sample.running + (sample.waiting or 0))
        self.load_changed(slot, now, commands)

    def load_changed(self, slot: Slot, now: Instant, commands: list[Command]) -> None:
        self.fleet.set_running(slot, self.ledger.running[slot])
        self.drain(self.fleet.spec(slot).model, now, commands)

    def configure(self, settings: Settings, now: Instant, commands: list[Command]) -> None:
        self.settings = settings
        self.policy = self.policies[settings.policy]
        self.dice = Dice(settings.seed)
        self.flow.queued_max = settings.queued_max
        self.flow.queued_bytes_max = settings.queued_bytes_max
        self.sessions.hold = settings.session_hold
        self.fleet.set_running_max_default(settings.running_max)
        self.health.failures_max = settings.failures_max
        self.health.recoveries_min = settings.recoveries_min
        for slot in self.fleet.slots.values():
            self.load_changed(slot, now, commands)

    # Refusals, as sentences.

    def unknown_model(self, model: ModelName) -> Refusal:
        known = ", ".join(self.fleet.serving) or "none"
        message = f"The model `{model}` does not exist here. Models served: {known}."
        return Refusal(Reason.UNKNOWN_MODEL, message, param="model")

    def queue_full(self, model: ModelName) -> Refusal:
        message = f"All endpoints of `{model}` are busy and the queue is full. Try again later."
        return Refusal(Reason.QUEUE_FULL, message, retry_after_s=1)

    def wait_expired(self, model: ModelName) -> Refusal:
        waited = self.settings.wait_max // 1_000_000
        message = f"No endpoint of `{model}` had room within {waited} s. Try again later."
        return Refusal(Reason.WAIT_EXPIRED, message, retry_after_s=1)

    def nobody(self, live: Live) -> Refusal:
        """Nobody is left: because those who were tried failed, or because there is no one."""
        match live.failure:
            case None:
                message = f"No endpoint serves `{live.request.model}` at the moment."
                return Refusal(Reason.NO_ENDPOINT, message, retry_after_s=5)
            case Failure.CONNECT | Failure.CONNECT_TIMEOUT | Failure.STALE:
                reason = Reason.ENGINE_UNREACHABLE
            case Failure.FIRST_BYTE_TIMEOUT:
                reason = Reason.ENGINE_TIMEOUT
            case _:
                reason = Reason.ENGINE_FAILED
        message = f"No endpoint of `{live.request.model}` could answer; last: {live.failure}."
        return Refusal(reason, message, retry_after_s=1)

    # For tests, standby and simulation.

    def check(self) -> None:
        """All invariants of all machines."""
        self.index.check()
        self.ledger.check()
        self.sessions.check()
        self.flow.check()
        running = {i for i, live in self.live.items() if live.slot is not None}
        assert running == set(self.ledger.charges), "what runs and what is charged differ"
        turns = sum(session.open_turns for session in self.sessions.live.values())
        assert turns == len(self.live), "each live request is one open turn"

    def digest(self) -> str:
        """A short name for the whole state: equal in two routers that saw the same events."""
        state = [
            self.fleet.state(),
            self.health.state(),
            list(self.index.state()),
            self.sessions.state(),
            self.ledger.state(),
            self.rates.state(),
            self.flow.state(),
            self.dice.state,
            self.turns,
            list(self.live),
        ]
        return xxhash.xxh3_64_hexdigest(msgspec.msgpack.encode(state))
