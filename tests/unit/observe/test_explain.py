"""The story of a request, told afterwards: placed, queued, retried, refused."""

import pytest
from world import World, prompt, records

from homeport.core.event import Failure, RequestRefused
from homeport.core.ids import RequestId
from homeport.core.refusal import Reason, Refusal
from homeport.observe.explain import Explainer, explain_from


def test_a_placed_request_tells_who_was_considered() -> None:
    world = World("a", "b")
    request = world.request(prompt("x"))
    where = world.serve(request, cached=0)
    story = explain_from(records(world), request.id)
    assert story is not None
    assert story.outcome == "answered"
    assert story.queued_s == 0.0
    assert story.reported_cached_tokens == 0
    assert story.decision is not None
    assert story.decision.winner == where
    assert {row.endpoint for row in story.decision.considered} == {"a", "b"}
    for row in story.decision.considered:
        assert sum(row.scores.values()) == pytest.approx(row.cost_s)  # pyright: ignore


def test_a_queued_request_tells_how_long_and_for_what() -> None:
    world = World()
    world.join("a", running_max=1)
    running, queued = world.request(prompt("x")), world.request(prompt("y"))
    world.arrive(running)
    world.arrive(queued)
    world.wait(2)
    world.end(running)
    world.end(queued)
    story = explain_from(records(world), queued.id)
    assert story is not None
    assert story.queued_s == 2.0
    assert story.waited_for is not None
    assert "m" in story.waited_for


def test_a_retried_request_tells_each_attempt() -> None:
    world = World("a", "b")
    request = world.request(prompt("x"))
    world.arrive(request)
    world.fail(request, Failure.RESET)
    world.end(request)
    story = explain_from(records(world), request.id)
    assert story is not None
    assert [told.winner for told in story.attempts] in (["a", "b"], ["b", "a"])
    assert story.attempts[1].dropped == {"tried": 1}
    assert any("reset" in moment.event for moment in story.timeline)


def test_a_refused_request_tells_why() -> None:
    world = World("a")
    request = world.request(prompt("x"), model="nobody")
    world.arrive(request)
    story = explain_from(records(world), request.id)
    assert story is not None
    assert story.outcome == "refused"
    assert story.refusal is not None
    assert story.refusal.reason is Reason.UNKNOWN_MODEL


def test_a_request_refused_by_the_gateway_is_known_too() -> None:
    world = World("a")
    refusal = Refusal(Reason.MALFORMED, "no JSON")
    world.feed(RequestRefused(RequestId("g1"), None, None, refusal))
    story = explain_from(records(world), "g1")
    assert story is not None
    assert story.refusal == refusal


def test_only_the_last_requests_are_remembered() -> None:
    world = World("a")
    requests = [world.request(prompt(f"p{i}")) for i in range(4)]
    for request in requests:
        world.serve(request)
    explainer = Explainer(requests_max=2)
    for record in records(world):
        explainer.observe(record)
    assert explainer.explain(requests[0].id) is None
    assert explainer.explain(requests[3].id) is not None
