"""Who waits, for how long, and what frees them."""

from world import World, decided, placed, prompt, refused

from homeport.core.command import Dispatch, WakeAt
from homeport.core.event import ConfigChanged, Failure, Settings
from homeport.core.refusal import Reason


def full_world(
    queued_max: int = 100, queued_bytes_max: int = 1 << 20, wait_max: int = 60_000_000
) -> World:
    world = World(queued_max=queued_max, queued_bytes_max=queued_bytes_max, wait_max=wait_max)
    world.join("a", running_max=1)
    return world


def test_capacity_that_frees_is_used_in_the_same_call() -> None:
    world = full_world()
    running, queued = world.request(prompt("x")), world.request(prompt("y"))
    placed(world.arrive(running))
    assert not any(isinstance(c, Dispatch) for c in world.arrive(queued))
    commands = world.end(running)
    assert [c.request_id for c in commands if isinstance(c, Dispatch)] == [queued.id]


def test_first_come_first_served() -> None:
    world = full_world()
    requests = [world.request(prompt(f"p{i}")) for i in range(4)]
    for request in requests:
        world.arrive(request)
    order = [requests[0].id]
    for request in requests[:3]:
        order += [c.request_id for c in world.end(request) if isinstance(c, Dispatch)]
    assert order == [request.id for request in requests]


def test_a_full_model_blocks_no_other() -> None:
    world = full_world()
    world.join("b", model="n")
    world.arrive(world.request(prompt("x")))
    world.arrive(world.request(prompt("y")))
    assert placed(world.arrive(world.request(prompt("z"), model="n"))) == "b"


def test_the_queue_is_bounded_by_count() -> None:
    world = full_world(queued_max=2)
    for i in range(3):
        world.arrive(world.request(prompt(f"p{i}")))
    refusal = refused(world.arrive(world.request(prompt("one too many")))).refusal
    assert refusal.reason is Reason.QUEUE_FULL
    assert refusal.retry_after_s is not None


def test_the_queue_is_bounded_by_bytes() -> None:
    world = full_world(queued_bytes_max=1_500)
    world.arrive(world.request(prompt("x")))
    world.arrive(world.request(prompt("y"), body_bytes=1_000))
    reject = refused(world.arrive(world.request(prompt("z"), body_bytes=1_000)))
    assert reject.refusal.reason is Reason.QUEUE_FULL


def test_a_wait_ends_with_a_refusal() -> None:
    world = full_world(wait_max=5_000_000)
    world.arrive(world.request(prompt("x")))
    queued = world.request(prompt("y"))
    commands = world.arrive(queued)
    wakes = [c.at for c in commands if isinstance(c, WakeAt)]
    assert wakes == [5_000_000]
    world.wait(5)
    reject = refused(world.fire())
    assert reject.request_id == queued.id
    assert reject.refusal.reason is Reason.WAIT_EXPIRED


def test_a_timer_that_fires_early_refuses_nobody() -> None:
    world = full_world(wait_max=5_000_000)
    world.arrive(world.request(prompt("x")))
    world.arrive(world.request(prompt("y")))
    world.wait(1)
    assert [type(c) for c in world.fire()] == [WakeAt]


def test_a_client_that_leaves_the_queue_frees_its_place() -> None:
    world = full_world(queued_max=1)
    running, queued = world.request(prompt("x")), world.request(prompt("y"))
    world.arrive(running)
    world.arrive(queued)
    world.cancel(queued)
    assert world.router.flow.queued == 0
    assert not any(isinstance(c, Dispatch) for c in world.end(running))


def test_a_client_that_leaves_while_served_frees_the_slot() -> None:
    world = full_world()
    running, queued = world.request(prompt("x")), world.request(prompt("y"))
    world.arrive(running)
    world.arrive(queued)
    assert placed(world.cancel(running)) == "a"


def test_one_that_lost_its_endpoint_blocks_nobody() -> None:
    world = full_world()
    world.join("b", running_max=1)
    first, second = world.request(prompt("x")), world.request(prompt("y"))
    placed(world.arrive(first))
    placed(world.arrive(second))
    waiting = world.request(prompt("z"))
    world.arrive(waiting)
    commands = world.fail(first, Failure.RESET)
    dispatched = [c.request_id for c in commands if isinstance(c, Dispatch)]
    assert dispatched == [waiting.id], "what failed one may serve another"
    ended = world.end(second)
    assert [c.request_id for c in ended if isinstance(c, Dispatch)] == [first.id]


def test_an_endpoint_that_joins_takes_the_queue() -> None:
    world = full_world()
    world.arrive(world.request(prompt("x")))
    world.arrive(world.request(prompt("y")))
    assert placed(world.join("b")) == "b"


def test_when_the_last_endpoint_leaves_those_who_wait_are_told() -> None:
    world = full_world()
    running, queued = world.request(prompt("x")), world.request(prompt("y"))
    world.arrive(running)
    world.arrive(queued)
    reject = refused(world.leave("a"))
    assert reject.request_id == queued.id
    assert reject.refusal.reason is Reason.NO_ENDPOINT
    world.join("b")
    assert world.router.fleet.slots["b"] != 0, "a slot is not given away before it settled"  # pyright: ignore
    world.end(running)


def test_work_of_others_counts_against_the_limit() -> None:
    world = World()
    world.join("a", running_max=2)
    world.sample("a", running=2, waiting=0)
    assert not any(isinstance(c, Dispatch) for c in world.arrive(world.request(prompt("x"))))
    assert placed(world.sample("a", running=0, waiting=0)) == "a"


def test_whoever_gets_the_slot_of_one_that_failed_has_failed_nobody() -> None:
    world = full_world()
    world.join("b", running_max=1)
    unlucky, other = world.request(prompt("x")), world.request(prompt("y"))
    failed = placed(world.arrive(unlucky))
    placed(world.arrive(other))
    world.fail(unlucky)
    world.leave(failed)
    assert placed(world.join("c")) == "c"
    world.end(unlucky)
    world.end(other)


def test_when_the_last_that_was_up_goes_down_those_who_wait_use_all() -> None:
    world = full_world()
    world.join("b", running_max=1)
    running = world.request(prompt("x"))
    up = placed(world.arrive(running))
    down = "b" if up == "a" else "a"
    for _ in range(3):
        world.probe(down, healthy=False)
    world.arrive(world.request(prompt("y")))
    for _ in range(2):
        world.probe(up, healthy=False)
    assert placed(world.probe(up, healthy=False)) == down


def test_an_endpoint_that_comes_back_is_empty_and_may_be_full_no_more() -> None:
    world = full_world()
    running, queued = world.request(prompt("x")), world.request(prompt("y"))
    world.arrive(running)
    world.arrive(queued)
    world.leave("a")
    world.join("a", running_max=1)
    assert decided(world.arrive(world.request(prompt("x")))).predicted_cached_tokens == 0
    world.end(running)
    assert world.router.ledger.own == [0, 1]


def test_a_full_queue_of_those_who_failed_there_does_not_keep_others_from_a_free_endpoint() -> None:
    world = World(queued_max=1)
    world.join("a", running_max=1)
    world.join("b", running_max=1)
    unlucky, busy = world.request(prompt("x")), world.request(prompt("y"))
    failed_at = placed(world.arrive(unlucky))
    world.arrive(busy)
    world.fail(unlucky)
    assert world.router.flow.queued == 1, "it may not go back where it failed, the other is full"
    assert placed(world.arrive(world.request(prompt("z")))) == failed_at


def test_another_limit_holds_at_once_for_endpoints_that_are_there() -> None:
    world = World("a", running_max=2)
    world.arrive(world.request(prompt("x")))
    world.feed(ConfigChanged(Settings(running_max=1)))
    waits = world.request(prompt("y"))
    assert not any(isinstance(command, Dispatch) for command in world.arrive(waits))
    assert placed(world.feed(ConfigChanged(Settings(running_max=2)))) == "a"


def test_an_engine_that_tells_no_more_is_not_kept_full_by_what_it_told_last() -> None:
    world = World()
    world.join("a", running_max=4)
    world.sample("a", running=4)
    waits = world.request(prompt("x"))
    assert not any(isinstance(command, Dispatch) for command in world.arrive(waits))
    assert placed(world.sample("a")) == "a"
