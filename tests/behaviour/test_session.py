"""How long a session is remembered, and whose word counts for it."""

from itertools import pairwise

from world import World, decided, placed, prompt

FIRST = prompt("system", "task", part_bytes=8_000)
SECOND = prompt("system", "task", "answer", "result", part_bytes=8_000)


def test_a_session_whose_turn_waits_is_not_forgotten() -> None:
    world = World(session_hold=1_000_000)
    world.join("a", running_max=1)
    world.serve(world.request(FIRST, session="s"))
    blocker, turn = world.request(prompt("x")), world.request(SECOND, session="s")
    world.arrive(blocker)
    world.arrive(turn)
    world.wait(10)
    world.arrive(world.request(prompt("y")))
    decision = decided(world.end(blocker))
    assert decision.session == "t/s"
    assert decision.home == "a"
    world.end(turn)


def test_idleness_begins_when_the_turn_ends() -> None:
    world = World("a", "b", session_hold=5_000_000)
    turn = world.request(FIRST, session="s")
    home = placed(world.arrive(turn))
    world.wait(20)
    world.end(turn)
    world.wait(4)
    assert decided(world.arrive(world.request(SECOND, session="s"))).home == home


def test_a_session_idle_for_longer_than_the_hold_is_forgotten() -> None:
    world = World("a", "b", session_hold=5_000_000)
    world.serve(world.request(FIRST, session="s"))
    world.wait(6)
    assert decided(world.arrive(world.request(SECOND, session="s"))).home is None


def test_a_turn_that_runs_long_keeps_no_other_session_alive() -> None:
    world = World("a", "b", session_hold=5_000_000)
    long = world.request(prompt("long"), session="long")
    world.arrive(long)
    world.serve(world.request(FIRST, session="s"))
    world.wait(6)
    world.arrive(world.request(prompt("x")))
    assert list(world.router.sessions.live)[:1] == [("t", "long")]
    assert ("t", "s") not in world.router.sessions.live


def test_what_was_refused_leaves_no_session() -> None:
    world = World(queued_max=0)
    world.join("a", running_max=1)
    world.arrive(world.request(prompt("x"), session="x"))
    for i in range(5):
        world.arrive(world.request(prompt(f"p{i}")))
    assert list(world.router.sessions.live) == [("t", "x")]


def test_an_older_turn_that_ends_late_says_nothing_of_the_newest() -> None:
    """Two calls of one key at once: an agent's turn, and a small one beside it."""
    world = World("a")
    turn, aside = world.request(FIRST, session="s"), world.request(prompt("aside"), session="s")
    world.arrive(turn)
    world.arrive(aside)
    world.end(turn)
    extended = world.request(prompt("aside", "more"), session="s")
    decision = decided(world.arrive(extended))
    assert decision.prompt_tokens < 3_000, "as long as it is, not as the other turn was"
    assert world.router.ledger.charges[extended.id].prior is None


def test_a_fork_beside_a_waiting_turn_is_a_session_of_its_own() -> None:
    world = World()
    world.join("a", running_max=1)
    world.serve(world.request(FIRST))
    blocker = world.request(prompt("x"))
    world.arrive(blocker)
    turns = [world.request(SECOND), world.request(prompt("system", "task", "b", part_bytes=8_000))]
    for turn in turns:
        world.arrive(turn)
    first = decided(world.end(blocker))
    second = decided(world.end(turns[0]))
    assert first.session != second.session


def test_a_conversation_goes_on_by_content_for_many_turns() -> None:
    world = World("a", "b", "c")
    names = [f"m{i}" for i in range(9)]
    where = [world.serve(world.request(prompt(*names[:size]))) for size in (1, 3, 5, 7, 9)]
    assert all(before == after for before, after in pairwise(where))
    assert len(world.router.sessions.live) == 1


def test_a_key_may_contain_a_separator() -> None:
    world = World("a", "b")
    world.serve(world.request(FIRST, session="b/c", tenant="a"))
    decision = decided(world.arrive(world.request(SECOND, session="c", tenant="a/b")))
    assert decision.home is None
