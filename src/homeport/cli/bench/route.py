"""`homeport bench route`: how long one decision takes, the garbage collector on."""

import time
from typing import Annotated

import msgspec
import typer
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from homeport.cli.bench.fleet import BenchFleet, all_different, one_four_rest

PROMPT_TOKENS = 100_000
WARM_UP = 200
"""Decisions before the first that counts, where more than that are measured."""


class Row(Struct, frozen=True):
    endpoints: int
    prompt_tokens: int
    depths: str
    p50_us: float
    p99_us: float


def route(
    json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
    iterations: Annotated[int, typer.Option(help="Decisions measured.", min=1)] = 2_000,
) -> None:
    """How long a decision takes: `handle` of one arrival with a prompt of 100,000 tokens."""
    cases = [
        *((count, "one all, four half, rest a tenth") for count in (10, 64, 100, 1_000)),
        (64, "all different"),
    ]
    rows = [measured(count, depths, iterations) for count, depths in cases]
    if json:
        print(msgspec.json.encode(rows).decode())
        return
    table = Table(*Row.__struct_fields__)
    for row in rows:
        table.add_row(*(str(value) for value in msgspec.structs.astuple(row)))
    Console().print(table)


def measured(endpoints: int, depths: str, iterations: int) -> Row:
    shape = all_different if depths == "all different" else one_four_rest
    fleet = BenchFleet(shape, endpoints, PROMPT_TOKENS)
    warm_up = min(WARM_UP, iterations)
    taken = [decision_us(fleet) for _ in range(warm_up + iterations)][warm_up:]
    taken.sort()
    return Row(
        endpoints=endpoints,
        prompt_tokens=PROMPT_TOKENS,
        depths=depths,
        p50_us=round(taken[len(taken) // 2], 1),
        p99_us=round(taken[len(taken) * 99 // 100], 1),
    )


def decision_us(fleet: BenchFleet) -> float:
    event, handle, now = fleet.arrival(), fleet.router.handle, fleet.now
    began = time.perf_counter_ns()
    commands = handle(event, now)
    took = time.perf_counter_ns() - began
    fleet.end(event, commands)
    return took / 1_000
