"""`homeport bench index`: from the body of a next turn to an index that has learnt it."""

import time
from collections.abc import Callable
from typing import Annotated

import msgspec
import typer
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from homeport.core.prefix import PrefixIndex
from homeport.wire.openai import facts_of

ENDPOINTS = 64
SECRET = b"bench"
WORDS = "the agent reads a file and returns the value of its second line\n"


class Row(Struct, frozen=True):
    prompt_bytes: int
    scan_and_hash_us: float
    match_us: float
    learn_us: float
    match_learn_next_turn_p50_us: float


def index(
    json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
    iterations: Annotated[int, typer.Option(help="Turns measured.", min=10)] = 100,
) -> None:
    """How long the prefix index takes to match and learn the next turn of a conversation."""
    rows = [measured(size, iterations) for size in (4_000, 40_000, 400_000, 1_000_000)]
    if json:
        print(msgspec.json.encode(rows).decode())
        return
    table = Table(*Row.__struct_fields__)
    for row in rows:
        table.add_row(*(str(value) for value in msgspec.structs.astuple(row)))
    Console().print(table)


def body_of(size: int) -> bytes:
    count = max(2, size // 4_000)
    text = (WORDS * (size // count // len(WORDS) + 1))[: size // count]
    messages = [
        {"role": "assistant" if i % 2 else "user", "content": f"{i} {text}"} for i in range(count)
    ]
    return msgspec.json.encode({"model": "bench", "messages": messages})


def measured(size: int, iterations: int) -> Row:
    known = PrefixIndex()
    for slot in range(ENDPOINTS):
        known.join(slot)
    before = facts_of("chat", body_of(size * 9 // 10), SECRET).prompt
    body = body_of(size)
    prompt = facts_of("chat", body, SECRET).prompt
    everyone = (1 << ENDPOINTS) - 1

    def learn_anew() -> float:
        known.clear(0)
        known.learn(0, before.blocks)
        return timed(lambda: known.learn(0, prompt.blocks))

    scan = median([timed(lambda: facts_of("chat", body, SECRET)) for _ in range(iterations)])
    learn = median([learn_anew() for _ in range(iterations)])
    for slot in range(1, ENDPOINTS):
        known.learn(slot, before.blocks[: len(before.blocks) * slot // ENDPOINTS])
    blocks = prompt.blocks
    match = median([timed(lambda: known.depths(blocks, everyone)) for _ in range(iterations)])
    return Row(size, scan, match, learn, round(match + learn, 1))


def timed(call: Callable[[], object]) -> float:
    began = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - began) / 1_000


def median(values: list[float]) -> float:
    return round(sorted(values)[len(values) // 2], 1)
