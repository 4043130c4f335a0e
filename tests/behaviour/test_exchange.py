"""The life of one request: what is tried again, what is told, what breaks."""

import pytest
from world import World, prompt

from homeport.core.event import (
    Event,
    Failure,
    FirstByteSent,
    LegEnded,
    Outcome,
    RequestArrived,
    RequestEnded,
)
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
    Patience,
    Placed,
    Refused,
    Tell,
    UpstreamEnded,
    UpstreamFailed,
    Watched,
)
from homeport.core.ids import EndpointId, Instant, Micros
from homeport.core.refusal import Reason, Refusal

A, B = EndpointId("a"), EndpointId("b")
NO = Refusal(Reason.NO_ENDPOINT, "nobody")


class Life:
    """An exchange and its clock."""

    def __init__(self, patience: Patience | None = None) -> None:
        self.exchange = Exchange(World().request(prompt("x")), patience or Patience())
        self.now = Instant(0)

    def on(self, *events: ExchangeEvent) -> list[Action]:
        """The actions of the last event."""
        actions: list[Action] = []
        for event in events:
            actions = self.exchange.handle(event, self.now)
        return actions

    def watch(
        self, seconds: float, *, is_connected: bool = True, stalled: bool = False
    ) -> list[Action]:
        since = self.now
        self.now = Instant(self.now + int(seconds * 1_000_000))
        return self.on(Watched(is_connected, since, since if stalled else None))


def kinds(actions: list[Action]) -> list[type[object]]:
    return [type(a.event) if isinstance(a, Tell) else type(a) for a in actions]


def told(actions: list[Action]) -> Event:
    events = [a.event for a in actions if isinstance(a, Tell)]
    assert len(events) == 1, actions
    return events[0]


def test_an_answered_request() -> None:
    life = Life()
    assert kinds(life.on(Arrived())) == [RequestArrived]
    assert life.on(Placed(A)) == [Open(A, is_fresh=False)]
    assert kinds(life.on(FirstByte())) == [FirstByteSent, Forward]
    end = told(life.on(UpstreamEnded(Outcome.ANSWERED, None)))
    assert isinstance(end, RequestEnded)
    assert end.outcome is Outcome.ANSWERED


@pytest.mark.parametrize("failure", [Failure.CONNECT, Failure.RESET, Failure.GARBAGE])
def test_a_failure_before_the_first_byte_is_tried_elsewhere(failure: Failure) -> None:
    life = Life()
    actions = life.on(Arrived(), Placed(A), UpstreamFailed(failure))
    assert kinds(actions) == [Abort, LegEnded]
    assert life.on(Placed(B)) == [Open(B, is_fresh=False)]


def test_attempts_are_bounded() -> None:
    life = Life(Patience(attempts_max=2))
    life.on(Arrived(), Placed(A), UpstreamFailed(Failure.RESET), Placed(B))
    actions = life.on(UpstreamFailed(Failure.RESET))
    assert kinds(actions) == [Abort, Fail, RequestEnded]


def test_a_kept_connection_that_was_closed_is_nobodys_fault_once() -> None:
    life = Life()
    assert life.on(Arrived(), Placed(A), UpstreamFailed(Failure.STALE)) == [Open(A, is_fresh=True)]
    assert kinds(life.on(UpstreamFailed(Failure.STALE))) == [Abort, LegEnded]


def test_the_engines_own_error_is_delivered_when_nobody_else_can_answer() -> None:
    life = Life()
    actions = life.on(Arrived(), Placed(A), UpstreamFailed(Failure.STATUS, is_held=True))
    assert kinds(actions) == [Abort, LegEnded]
    assert life.on(Refused(NO)) == [Deliver()]


def test_without_an_answer_of_its_own_the_refusal_is_told() -> None:
    life = Life()
    life.on(Arrived(), Placed(A), UpstreamFailed(Failure.CONNECT))
    assert life.on(Refused(NO)) == [Fail(NO)]


def test_a_stream_that_breaks_is_told_and_never_tried_again() -> None:
    life = Life()
    actions = life.on(Arrived(), Placed(A), FirstByte(), UpstreamFailed(Failure.RESET))
    assert kinds(actions) == [Abort, Break, RequestEnded]
    end = told(actions)
    assert isinstance(end, RequestEnded)
    assert end.outcome is Outcome.BROKEN
    assert end.failure is Failure.RESET


@pytest.mark.parametrize(
    "before", [[Arrived()], [Arrived(), Placed(A)], [Arrived(), Placed(A), FirstByte()]]
)
def test_a_client_may_leave_at_any_point(before: list[ExchangeEvent]) -> None:
    life = Life()
    actions = life.on(*before, ClientLeft())
    assert kinds(actions) == [Abort, RequestEnded]


def test_what_comes_late_changes_nothing() -> None:
    life = Life()
    life.on(Arrived(), Placed(A), ClientLeft())
    for event in (Placed(B), FirstByte(), UpstreamFailed(Failure.RESET), ClientLeft(), Refused(NO)):
        assert life.on(event) == []


def test_a_connect_that_takes_too_long_is_tried_elsewhere() -> None:
    life = Life(Patience(connect=Micros(2_000_000)))
    life.on(Arrived(), Placed(A))
    assert life.watch(1, is_connected=False) == []
    assert kinds(life.watch(2, is_connected=False)) == [Abort, LegEnded]


def test_silence_before_the_first_byte_is_not_tried_again() -> None:
    life = Life(Patience(first_byte=Micros(10_000_000)))
    life.on(Arrived(), Placed(A))
    assert life.watch(9) == []
    assert kinds(life.watch(2)) == [Abort, Fail, RequestEnded]


def test_an_engine_that_stops_in_the_middle_breaks_the_stream() -> None:
    life = Life(Patience(between_bytes=Micros(5_000_000)))
    life.on(Arrived(), Placed(A), FirstByte())
    assert life.watch(4) == []
    assert kinds(life.watch(6)) == [Abort, Break, RequestEnded]


def test_a_client_that_does_not_read_is_dropped() -> None:
    life = Life(Patience(client_stall=Micros(5_000_000), between_bytes=Micros(1_000_000)))
    life.on(Arrived(), Placed(A), FirstByte())
    assert life.watch(4, stalled=True) == [], "silence is the client's doing, not the engine's"
    assert kinds(life.watch(6, stalled=True)) == [Abort, Drop, RequestEnded]


def test_the_whole_answer_has_a_limit() -> None:
    life = Life(Patience(total=Micros(30_000_000)))
    life.on(Arrived(), Placed(A), FirstByte())
    assert kinds(life.watch(31)) == [Abort, Break, RequestEnded]


def test_a_stale_connection_is_forgiven_at_each_endpoint() -> None:
    life = Life()
    life.on(Arrived(), Placed(A), UpstreamFailed(Failure.STALE), UpstreamFailed(Failure.CONNECT))
    life.on(Placed(B))
    assert life.on(UpstreamFailed(Failure.STALE)) == [Open(B, is_fresh=True)]


def test_a_stale_connection_is_no_attempt() -> None:
    life = Life(Patience(attempts_max=1))
    assert life.on(Arrived(), Placed(A), UpstreamFailed(Failure.STALE)) == [Open(A, is_fresh=True)]
    assert kinds(life.on(FirstByte())) == [FirstByteSent, Forward]


def test_the_last_attempts_own_error_is_delivered_and_the_router_told() -> None:
    life = Life(Patience(attempts_max=1))
    actions = life.on(Arrived(), Placed(A), UpstreamFailed(Failure.STATUS, is_held=True))
    assert kinds(actions) == [Deliver, RequestEnded]
    end = told(actions)
    assert isinstance(end, RequestEnded)
    assert (end.outcome, end.failure) == (Outcome.ENGINE_ERROR, Failure.STATUS)


def test_an_error_answer_is_forgotten_when_another_endpoint_fails_without_one() -> None:
    life = Life()
    life.on(Arrived(), Placed(A), UpstreamFailed(Failure.STATUS, is_held=True))
    life.on(Placed(B), UpstreamFailed(Failure.CONNECT))
    assert life.on(Refused(NO)) == [Fail(NO)]


def test_a_document_that_is_whole_at_once_is_sent_and_ended() -> None:
    life = Life()
    actions = life.on(Arrived(), Placed(A), UpstreamEnded(Outcome.CLIENT_ERROR, None))
    assert kinds(actions) == [Forward, RequestEnded]


def test_a_request_that_waits_has_the_same_limit_in_all() -> None:
    life = Life(Patience(total=Micros(30_000_000)))
    life.on(Arrived())
    assert life.watch(29) == []
    actions = life.watch(2)
    assert kinds(actions) == [Abort, Fail, RequestEnded]
    end = told(actions)
    assert isinstance(end, RequestEnded)
    assert end.failure is None, "no endpoint is to blame"


def test_waiting_for_a_place_is_not_waiting_for_a_byte() -> None:
    life = Life(Patience(first_byte=Micros(10_000_000), connect=Micros(1_000_000)))
    life.on(Arrived())
    assert life.watch(60, is_connected=False) == []
    life.on(Placed(A))
    assert life.watch(9) == [], "the endpoint's time begins when it is asked"


def test_a_slow_stream_that_goes_on_is_not_silent() -> None:
    life = Life(Patience(between_bytes=Micros(5_000_000)))
    life.on(Arrived(), Placed(A), FirstByte())
    for _ in range(10):
        assert life.watch(4) == []


ENDS: list[list[ExchangeEvent]] = [
    [Refused(NO)],
    [Placed(A), ClientLeft()],
    [Placed(A), FirstByte(), UpstreamEnded(Outcome.ANSWERED, None)],
    [Placed(A), FirstByte(), UpstreamFailed(Failure.CLOSED)],
]


@pytest.mark.parametrize("ended", ENDS)
def test_an_end_is_the_only_one(ended: list[ExchangeEvent]) -> None:
    life = Life()
    life.on(Arrived(), *ended)
    late: list[ExchangeEvent] = [
        Placed(B),
        FirstByte(),
        UpstreamFailed(Failure.RESET),
        UpstreamEnded(Outcome.ANSWERED, None),
        ClientLeft(),
        Refused(NO),
        Watched(False, Instant(0), Instant(0)),
    ]
    life.now = Instant(1 << 50)
    assert [life.on(event) for event in late] == [[]] * len(late)
