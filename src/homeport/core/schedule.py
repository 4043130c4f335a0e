"""Placement: filters take endpoints out, the policy prices the rest, the cheapest wins.

`place` changes nothing. It returns what the router needs to charge the winner, or why there is
none.
"""

from enum import Enum

from msgspec import Struct

from homeport.core.decision import CONSIDERED_MAX, Considered, Decision
from homeport.core.dice import Dice
from homeport.core.endpoint import Slot, slots_of
from homeport.core.fleet import Fleet
from homeport.core.health import Health
from homeport.core.ids import BlockHash, Instant, Tokens
from homeport.core.ledger import Ledger, Prior
from homeport.core.policy import Policy, Priced
from homeport.core.prefix import BLOCK_ENDS, PrefixIndex
from homeport.core.rates import Rates
from homeport.core.request import Request
from homeport.core.session import Session, Sessions

TRUST_ENOUGH = 0.9
"""Shadows that come true so far are taken at their word; the rest is rounding."""


class Unplaced(Enum):
    """Why nobody can take a request now."""

    FULL = "full"  # all who could are at their limit
    NONE = "none"  # nobody is left who could


class Placement(Struct, frozen=True, gc=False):
    """Where, at what charge, and the decision as it will be told."""

    slot: Slot
    prompt_tokens: int
    hit_tokens: int
    prior: Prior | None
    decision: Decision


class Books(Struct, frozen=True, gc=False):
    """The columns of all machines together: what a policy may read (`policy.Load`)."""

    running: list[int]
    committed_tokens: list[int]
    live_sessions: list[int]
    kv_tokens: list[int]
    prefill_rate: list[float]
    step_s: list[float]


class View(Struct, frozen=True, gc=False):
    """One request's situation (`policy.Situation`)."""

    slots: tuple[Slot, ...]
    hits: list[int]
    waits: list[float]
    prompt_tokens: int
    home: Slot | None
    own_tokens: int
    typical_tokens: float
    fleet_rate: float
    turn: int
    load: Books


class Scheduler:
    """Reads the machines of the router; owns none of them."""

    def __init__(
        self,
        fleet: Fleet,
        health: Health,
        index: PrefixIndex,
        sessions: Sessions,
        ledger: Ledger,
        rates: Rates,
    ) -> None:
        self.fleet = fleet
        self.health = health
        self.index = index
        self.sessions = sessions
        self.ledger = ledger
        self.rates = rates
        self.books = Books(
            running=ledger.running,
            committed_tokens=sessions.committed_tokens,
            live_sessions=sessions.live_sessions,
            kv_tokens=fleet.kv_tokens,
            prefill_rate=rates.prefill_rate,
            step_s=rates.step_s,
        )

    def place(
        self,
        request: Request,
        session: Session,
        tried: int,
        policy: Policy,
        dice: Dice,
        turn: int,
        now: Instant,
    ) -> Placement | Unplaced:
        candidates, dropped = self.filter(request, tried)
        if not candidates:
            return Unplaced.FULL if "full" in dropped else Unplaced.NONE
        view, prior = self.view(request, session, candidates, turn, now)
        priced = policy.price(view)
        best = cheapest(priced.costs, dice)
        slot, ids = view.slots[best], self.fleet.ids
        decision = Decision(
            policy=policy.name,
            terms=policy.terms,
            winner=ids[slot],
            prompt_tokens=Tokens(view.prompt_tokens),
            predicted_cached_tokens=Tokens(view.hits[best]),
            predicted_wait_s=view.waits[best],
            considered=self.considered(view, priced, best),
            dropped=dropped,
            is_last_resort=not candidates & self.health.up,
            session=session.id,
            home=None if session.home is None else ids[session.home],
            moved=self.why_moved(session, slot, candidates, tried),
        )
        return Placement(
            slot,
            view.prompt_tokens,
            view.hits[best],
            prior if slot == session.home else None,
            decision,
        )

    def filter(self, request: Request, tried: int) -> tuple[int, dict[str, int]]:
        """The mask of those who could take it, and how many each filter took out."""
        serving = self.fleet.serving.get(request.model, 0)
        dropped: dict[str, int] = {}
        others = len(self.fleet.slots) - serving.bit_count()
        if others:
            dropped["model"] = others
        left = serving & ~tried
        if left != serving:
            dropped["tried"] = (serving ^ left).bit_count()
        up = left & self.health.up
        # When nobody seems to work the belief is likelier wrong than the fleet dead: use all.
        if up and up != left:
            dropped["unhealthy"] = (left ^ up).bit_count()
            left = up
        free = left & ~self.fleet.full
        if free != left:
            dropped["full"] = (left ^ free).bit_count()
        return free, dropped

    def view(
        self, request: Request, session: Session, candidates: int, turn: int, now: Instant
    ) -> tuple[View, Prior | None]:
        """What the policy sees, and the turn before when its context is surely at home."""
        model = self.rates.models[request.model]
        prompt = request.prompt
        is_next = session.home is not None and session.is_extended_by(prompt)
        per_token = model.bytes_per_token
        known_bytes = session.text_bytes if is_next else 0
        known_tokens = session.prompt_tokens if is_next else 0
        total = max(1, known_tokens + int((prompt.text_bytes - known_bytes) / per_token))
        slots = slots_of(candidates)
        hits = self.hits(request, candidates, slots, total, per_token)
        prior = None
        if is_next and session.home in slots and self.is_warm(session, prompt.blocks):
            prior = Prior(known_tokens, session.output_tokens)
            kept = known_tokens + int(session.output_tokens * model.kept_share)
            hits[slots.index(session.home)] = self.rounded(session.home, kept, total)
        return View(
            slots=slots,
            hits=hits,
            waits=self.ledger.waits_s(slots, now),
            prompt_tokens=total,
            home=session.home,
            own_tokens=session.context_tokens if session.home is not None else 0,
            typical_tokens=model.typical_tokens,
            fleet_rate=model.prefill_rate,
            turn=turn,
            load=self.books,
        ), prior

    def hits(
        self,
        request: Request,
        candidates: int,
        slots: tuple[Slot, ...],
        total: int,
        per_token: float,
    ) -> list[int]:
        """Tokens that each candidate is believed to hold, in the order of `slots`."""
        depths = self.index.depths(request.prompt.blocks, candidates)
        if not depths:
            return [0] * len(slots)
        found = [0] * len(self.fleet.specs)
        blocks, trust = self.fleet.block_tokens, self.rates.trust
        for depth, mask in depths:
            held = min(int(BLOCK_ENDS[depth - 1] / per_token), total - 1)
            size = whole = 0
            for slot in slots_of(mask):
                if blocks[slot] != size:
                    size = blocks[slot]
                    whole = held // size * size
                share = trust[slot]
                found[slot] = whole if share > TRUST_ENOUGH else int(whole * share)
        return [found[slot] for slot in slots]

    def rounded(self, slot: Slot, held: int, total: int) -> int:
        """Whole blocks of the engine, never the whole prompt, at the trust its shadow earned."""
        block = self.fleet.block_tokens[slot]
        trust = self.rates.trust[slot]
        whole = min(held, total - 1) // block * block
        return whole if trust > TRUST_ENOUGH else int(whole * trust)

    def is_warm(self, session: Session, blocks: tuple[BlockHash, ...]) -> bool:
        """The home answered the last turn and its shadow still holds all of that prompt."""
        if not session.is_answered or session.home is None:
            return False
        if not session.blocks:
            return True
        last = blocks[session.blocks - 1]
        return bool(self.index.holders.get(last, 0) >> session.home & 1)

    def considered(self, view: View, priced: Priced, best: int) -> tuple[Considered, ...]:
        """The winner, and the next best after it."""
        costs, terms_of = priced
        ranked = sorted(range(len(costs)), key=costs.__getitem__)[:CONSIDERED_MAX]
        if ranked[0] != best:
            ranked = [best, *[i for i in ranked if i != best]][:CONSIDERED_MAX]
        ids, slots, hits = self.fleet.ids, view.slots, view.hits
        return tuple(
            [
                Considered(ids[slots[place]], costs[place], Tokens(hits[place]), terms_of(place))
                for place in ranked
            ]
        )

    def why_moved(self, session: Session, slot: Slot, candidates: int, tried: int) -> str | None:
        home = session.home
        if home is None or home == slot:
            return None
        bit = 1 << home
        if tried & bit:
            return "failed"
        if not self.health.up & bit:
            return "unhealthy"
        if self.fleet.full & bit:
            return "full"
        return "cheaper" if candidates & bit else "gone"


def cheapest(costs: list[float], dice: Dice) -> int:
    """The place of the lowest cost; equal ones are settled by the dice, never by order."""
    lowest = min(costs)
    ties = costs.count(lowest)
    if ties == 1:
        return costs.index(lowest)
    equal = [i for i, cost in enumerate(costs) if cost == lowest]
    return equal[dice.below(ties)]
