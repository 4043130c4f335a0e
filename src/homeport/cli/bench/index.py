"""`homeport bench index`: from the body of a next turn to an index that has learnt it."""

import time
from statistics import median
from typing import Annotated

import msgspec
import typer
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from homeport.core.ids import BlockHash
from homeport.core.prefix import PrefixIndex
from homeport.wire.body import chat_body
from homeport.wire.openai import chat_prompt
from homeport.wire.prompt import seed_of

ENDPOINTS = 64
EVERYONE = (1 << ENDPOINTS) - 1
MESSAGE_BYTES = 4_000
SEED = seed_of(b"bench", "bench")
WORDS = "the agent reads a file and returns the value of its second line\n"


class Row(Struct, frozen=True):
    """Medians. Scan finds the members of the body, hash makes a chain of its text."""

    prompt_bytes: int
    scan_us: float
    hash_us: float
    match_us: float
    learn_us: float
    match_learn_next_turn_p50_us: float
    """Of all four steps of one turn together."""


Steps = tuple[float, ...]
"""Scan, hash, match, learn."""


def index(
    json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
    iterations: Annotated[int, typer.Option(help="Turns measured.", min=1)] = 200,
) -> None:
    """How long it takes to name, match and learn the next turn of a conversation."""
    rows = [measured(size, iterations) for size in (4_000, 40_000, 400_000, 1_000_000)]
    if json:
        print(msgspec.json.encode(rows).decode())
        return
    table = Table(*Row.__struct_fields__)
    for row in rows:
        table.add_row(*(str(value) for value in msgspec.structs.astuple(row)))
    Console().print(table)


def measured(size: int, iterations: int) -> Row:
    """Endpoint 0 holds the turn before, the others ever less of it."""
    body = body_of(size)
    before = chat_prompt(*chat_body(body_of(size * 9 // 10)), SEED).blocks
    known = PrefixIndex()
    for slot in range(ENDPOINTS):
        known.join(slot)
        known.learn(slot, before[: len(before) * (ENDPOINTS - slot) // ENDPOINTS])
    turns = [next_turn(known, before, body) for _ in range(iterations)]
    columns = zip(*turns, strict=True)
    scan, hashing, match, learn = (round(median(column), 1) for column in columns)
    return Row(size, scan, hashing, match, learn, round(median(map(sum, turns)), 1))


def next_turn(known: PrefixIndex, before: tuple[BlockHash, ...], body: bytes) -> Steps:
    """Microseconds of each step, from an index in which the endpoint holds the turn before."""
    known.clear(0)
    known.learn(0, before)
    clock = time.perf_counter_ns
    began = clock()
    found, messages = chat_body(body)
    scanned = clock()
    blocks = chat_prompt(found, messages, SEED).blocks
    hashed = clock()
    known.depths(blocks, EVERYONE)
    matched = clock()
    known.learn(0, blocks)
    learnt = clock()
    took = (scanned - began, hashed - scanned, matched - hashed, learnt - matched)
    return tuple(nanos / 1_000 for nanos in took)


def body_of(size: int) -> bytes:
    """A conversation whose longer forms begin with its shorter ones."""
    text = WORDS * (MESSAGE_BYTES // len(WORDS) + 1)
    length = min(MESSAGE_BYTES, size // 2)
    messages = [
        {"role": "assistant" if i % 2 else "user", "content": f"{i} {text}"[:length]}
        for i in range(size // length)
    ]
    return msgspec.json.encode({"model": "bench", "messages": messages})
