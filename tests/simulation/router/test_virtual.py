"""Whole fleets in virtual time: nothing unsafe while things break, everything ends afterwards."""

import os
import subprocess
import sys

import pytest
import xxhash
from virtual import Plan, World, ran, swarm

SEEDS = range(16)
QUIET = range(3)
VIRTUAL = sys.modules["virtual"].__file__


def hit_share(policy: str) -> float:
    """Of what one endless cache would have held, over a few quiet worlds."""
    worlds = [ran(seed, Plan(policy=policy)) for seed in QUIET]
    return sum(w.hit_tokens for w in worlds) / sum(w.ideal_tokens for w in worlds)


def fingerprint(world: World) -> str:
    return f"{xxhash.xxh3_64_hexdigest(b''.join(world.journal))} {world.router.digest()}\n"


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_breaks_every_request_ends_once_and_every_agent_finishes(seed: int) -> None:
    ran(seed, swarm(seed))


def test_the_same_seed_is_the_same_world() -> None:
    worlds = [ran(0, swarm(0)) for _ in range(2)]
    assert worlds[0].journal == worlds[1].journal


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_another_process_under_another_hash_seed_writes_the_same_journal(hash_seed: str) -> None:
    assert VIRTUAL is not None
    told = subprocess.run(
        [sys.executable, VIRTUAL, "0"],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == fingerprint(ran(0, swarm(0)))


def test_contexts_are_found_again_where_one_endless_cache_would_have_them() -> None:
    share = hit_share("homeport")
    assert 0.9 <= share <= 1.0
    assert share > hit_share("round_robin") + 0.1


def test_in_a_quiet_world_everybody_is_answered() -> None:
    assert set(ran(0, Plan()).outcomes) == {"answered"}
