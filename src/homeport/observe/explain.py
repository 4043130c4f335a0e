"""Why a request went where it went: a fold over records, told request by request.

When a record passes it is only encoded, and kept for the last requests; the story is put together
when somebody asks.
"""

from collections import OrderedDict
from collections.abc import Iterable

from msgspec import Struct

from homeport.core.command import Dispatch, Reject, WakeAt
from homeport.core.decision import Decision
from homeport.core.event import (
    FirstByteSent,
    LegEnded,
    RequestArrived,
    RequestEnded,
    RequestRefused,
)
from homeport.core.ids import Instant, RequestId, seconds
from homeport.core.record import Record
from homeport.core.refusal import Refusal
from homeport.observe.frame import framed, records_in

REQUESTS_MAX = 10_000

Step = RequestArrived | RequestRefused | FirstByteSent | LegEnded | RequestEnded | Dispatch | Reject


class Considered(Struct, frozen=True, gc=False):
    endpoint: str
    dropped_by: str | None
    scores: dict[str, float]
    cost_s: float
    cached_tokens: int


class Told(Struct, frozen=True, gc=False):
    """A decision, with the terms of its costs by name."""

    policy: str
    winner: str
    prompt_tokens: int
    predicted_cached_tokens: int
    predicted_wait_s: float
    home: str | None
    moved: str | None
    dropped: dict[str, int]
    considered: list[Considered]


class Moment(Struct, frozen=True, gc=False):
    at_s: float
    event: str


class Explanation(Struct, frozen=True, gc=False):
    """All that is known of one request. Times are seconds since it arrived."""

    request_id: str
    tenant: str | None
    band: str | None
    model: str | None
    session: str | None
    outcome: str
    refusal: Refusal | None
    queued_s: float
    waited_for: str | None
    decision: Told | None
    attempts: list[Told]
    reported_cached_tokens: int | None
    output_tokens: int | None
    timeline: list[Moment]


class Explainer:
    """Remembers the last requests (`cluster.driver.Observer`)."""

    def __init__(self, requests_max: int = REQUESTS_MAX) -> None:
        self.requests_max = requests_max
        self.frames: OrderedDict[RequestId, bytes] = OrderedDict()
        """Of each request the records that concern it, as in a journal."""

    def observe(self, record: Record) -> None:
        event = record.event
        if isinstance(event, RequestArrived):
            about = event.request.id
        else:
            about = getattr(event, "request_id", None)
        if about is not None:
            self.keep(about, framed(record))
        for command in record.commands:
            if not isinstance(command, WakeAt) and command.request_id != about:
                self.keep(command.request_id, framed(record))

    def keep(self, request_id: RequestId, frame: bytes) -> None:
        frames = self.frames
        known = frames.get(request_id)
        if known is not None:
            frames[request_id] = known + frame
            return
        frames[request_id] = frame
        if len(frames) > self.requests_max:
            frames.popitem(last=False)

    def explain(self, request_id: str) -> Explanation | None:
        """The story of a request; None when it is not among the last ones."""
        frames = self.frames.get(RequestId(request_id))
        if frames is None:
            return None
        return story(request_id, steps_of(RequestId(request_id), records_in(frames)))


def explain_from(records: Iterable[Record], request_id: str) -> Explanation | None:
    """The story of one request of a journal."""
    steps = steps_of(RequestId(request_id), records)
    return story(request_id, steps) if steps else None


def steps_of(request_id: RequestId, records: Iterable[Record]) -> list[tuple[Instant, Step]]:
    """What of these records concerns one request."""
    steps: list[tuple[Instant, Step]] = []
    for record in records:
        match record.event:
            case RequestArrived() as event if event.request.id == request_id:
                steps.append((record.at, event))
            case RequestRefused() | FirstByteSent() | LegEnded() | RequestEnded() as event:
                if event.request_id == request_id:
                    steps.append((record.at, event))
            case _:
                pass
        steps += [
            (record.at, command)
            for command in record.commands
            if not isinstance(command, WakeAt) and command.request_id == request_id
        ]
    return steps


def story(request_id: str, steps: list[tuple[Instant, Step]]) -> Explanation:
    begin = steps[0][0]
    request = next((s.request for _, s in steps if isinstance(s, RequestArrived)), None)
    refused = next((s for _, s in steps if isinstance(s, RequestRefused)), None)
    reject = next((s for _, s in steps if isinstance(s, Reject)), None)
    ended = next((s for _, s in steps if isinstance(s, RequestEnded)), None)
    decisions = [(at, s.decision) for at, s in steps if isinstance(s, Dispatch)]
    attempts = [told(decision) for _, decision in decisions]
    usage = None if ended is None else ended.usage
    refusal = next((s.refusal for s in (refused, reject, ended) if s and s.refusal), None)
    queued_s = queued_for(steps)
    tenant = request.tenant if request is not None else refused.tenant if refused else None
    return Explanation(
        request_id=request_id,
        tenant=tenant,
        band=None,
        model=request.model if request is not None else refused.model if refused else None,
        session=decisions[-1][1].session if decisions else None,
        outcome=outcome_of(ended, refusal, bool(decisions)),
        refusal=refusal,
        queued_s=queued_s,
        waited_for=waited_for(queued_s, request.model if request is not None else None),
        decision=attempts[-1] if attempts else None,
        attempts=attempts,
        reported_cached_tokens=None if usage is None else usage.cached_tokens,
        output_tokens=None if usage is None else usage.output_tokens,
        timeline=[Moment(seconds(at - begin), sentence(step)) for at, step in steps],
    )


def outcome_of(ended: RequestEnded | None, refusal: Refusal | None, is_placed: bool) -> str:
    if ended is not None:
        return ended.outcome.value
    if refusal is not None:
        return "refused"
    return "running" if is_placed else "queued"


def queued_for(steps: list[tuple[Instant, Step]]) -> float:
    """Seconds between being ready for a place and getting one, or giving up; all waits added."""
    total, since = 0, None
    for at, step in steps:
        if isinstance(step, RequestArrived | LegEnded):
            since = at
        elif since is not None:
            total, since = total + (at - since), None
    return seconds(total)


def waited_for(queued_s: float, model: str | None) -> str | None:
    if queued_s <= 0.0:
        return None
    return f"every endpoint of {model} that could take it held as many requests as it may"


def told(decision: Decision) -> Told:
    return Told(
        policy=decision.policy,
        winner=decision.winner,
        prompt_tokens=decision.prompt_tokens,
        predicted_cached_tokens=decision.predicted_cached_tokens,
        predicted_wait_s=decision.predicted_wait_s,
        home=decision.home,
        moved=decision.moved,
        dropped=decision.dropped,
        considered=[
            Considered(
                endpoint=c.endpoint,
                dropped_by=None,
                scores=dict(zip(decision.terms, c.scores, strict=True)),
                cost_s=c.cost_s,
                cached_tokens=c.cached_tokens,
            )
            for c in decision.considered
        ],
    )


def sentence(step: Step) -> str:
    match step:
        case RequestArrived(request):
            return f"arrived, {request.prompt.text_bytes} bytes of prompt"
        case RequestRefused(refusal=refusal) | Reject(refusal=refusal):
            return f"refused: {refusal.reason} ({refusal.message})"
        case Dispatch(endpoint=endpoint):
            return f"dispatched to {endpoint}"
        case FirstByteSent():
            return "first byte"
        case LegEnded(failure=failure):
            return f"failed before the first byte: {failure}; placed again"
        case RequestEnded(outcome=outcome, failure=failure):
            return f"ended: {outcome}" + (f" ({failure})" if failure is not None else "")
