"""`homeport up`: a whole fleet on this machine, simulated where no config says otherwise.

Engines and agents run in processes of their own, so that the gateway shares its loop with nobody. A
child ends with the pipe to its standard input: none is left behind, however this process ends.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import msgspec
import typer
import uvloop
from rich.console import Console
from rich.table import Table

from homeport.app import Homeport, StartError
from homeport.config.kind import Address
from homeport.config.load import load
from homeport.config.schema import Admin, Config, Engine, Gateway
from homeport.core.ids import EndpointId, ModelName
from homeport.observe.snapshot import Snapshot
from homeport.sim.agents import Call, run_agents
from homeport.sim.profile import PROFILES
from homeport.sim.server import SimFleet

CANNOT_START = 2
FAILED = 1
MODEL = "sim"
KINDS = ("demo-fast", "demo-slow")
ENGINES_PER_KIND = 2
AGENTS = 8
LINE_S = 1.0
LINE_S_QUIET = 5.0
STOP_S = 5.0

CHILD_ENGINES = "engines"
CHILD_AGENTS = "agents"


def up(
    config: Annotated[Path | None, typer.Option("--config", "-c", help="The config file.")] = None,
    agents: Annotated[int | None, typer.Option(help="Demo agents.", min=0)] = None,
    for_s: Annotated[float | None, typer.Option("--for", help="End after so many seconds.")] = None,
    seed: Annotated[int, typer.Option(help="Of the agents' work.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="The summary, for machines.")] = False,
) -> None:
    """Run a whole fleet on this machine; without a file, a simulated one."""
    loaded = None if config is None else load(config, os.environ)
    count = agents if agents is not None else (AGENTS if loaded is None else 0)
    raise typer.Exit(uvloop.run(run(loaded, count, for_s, seed, json)))


class Summary(msgspec.Struct, frozen=True):
    """What the agents saw. Rates are of prompt tokens, times in seconds."""

    requests: int
    failed: int
    hit_rate: float
    ideal_hit_rate: float
    ttft: dict[str, float]
    endpoints: list[dict[str, object]]


async def run(
    config: Config | None, agents: int, for_s: float | None, seed: int, is_json: bool
) -> int:
    """Until the time is over or somebody stops it; the exit status."""
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    console = Console(stderr=is_json)
    async with AsyncExitStack() as stack:
        if config is None:
            config = await demo_config(stack)
        homeport = Homeport(config, os.environ, loop)
        try:
            await homeport.start()
        except StartError as error:
            print(f"homeport: {error}", file=sys.stderr)
            return CANNOT_START
        stack.push_async_callback(homeport.stop)
        calls: list[Call] = []
        base_url = f"http://{config.gateway.listen.host}:{homeport.port}"
        greet(console, base_url, homeport, config)
        if agents:
            await start_agents(stack, base_url, config.engines[0].model, agents, seed, calls)
        await show(console, homeport, calls, stopping, for_s)
        snapshot = homeport.snapshot()
    summary = summary_of(calls, snapshot)
    if is_json:
        print(msgspec.json.encode(summary).decode())
    else:
        tell(console, summary)
    return FAILED if summary.failed else 0


# The demo fleet.


async def demo_config(stack: AsyncExitStack) -> Config:
    """Four simulated engines of two hardware kinds, in a process of their own."""
    lines = await start_child(stack, [CHILD_ENGINES])
    engines: list[Engine] = []
    for _ in range(len(KINDS) * ENGINES_PER_KIND):
        kind, url = (await anext(lines)).split()
        accelerator = PROFILES[kind].accelerator
        engines.append(Engine(EndpointId(url), ModelName(MODEL), accelerator=accelerator))
    gateway = Gateway(listen=free_address(8080), trusted_peers=("127.0.0.1",))
    admin = Admin(listen=free_address(9090))
    return Config(engines=tuple(engines), gateway=gateway, admin=admin)


def free_address(port: int) -> Address:
    """The port, or the next one that nobody has."""
    for candidate in range(port, port + 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", candidate))
            except OSError:
                continue
            return Address("127.0.0.1", candidate)
    return Address("127.0.0.1", 0)


async def start_agents(
    stack: AsyncExitStack, base_url: str, model: str, count: int, seed: int, calls: list[Call]
) -> None:
    words = [CHILD_AGENTS, base_url, model, str(count), str(seed)]
    lines = await start_child(stack, words)

    async def collect() -> None:
        async for line in lines:
            calls.append(msgspec.json.decode(line, type=Call))  # noqa: PERF401

    task = asyncio.create_task(collect())
    stack.callback(task.cancel)


class Lines:
    """The lines that a child prints."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self.reader = reader

    def __aiter__(self) -> "Lines":
        return self

    async def __anext__(self) -> str:
        line = await self.reader.readline()
        if not line:
            raise StopAsyncIteration
        return line.decode()


async def start_child(stack: AsyncExitStack, words: list[str]) -> Lines:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "homeport.cli.up", *words),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert child.stdin is not None and child.stdout is not None, "pipes were asked for"
    stdin = child.stdin

    async def end() -> None:
        stdin.close()
        try:
            async with asyncio.timeout(STOP_S):
                await child.wait()
        except TimeoutError:
            child.kill()
            await child.wait()

    stack.push_async_callback(end)
    return Lines(child.stdout)


# What a child does.


async def child_engines() -> None:
    fleets = [SimFleet(PROFILES[kind], MODEL, ENGINES_PER_KIND) for kind in KINDS]
    for kind, fleet in zip(KINDS, fleets, strict=True):
        for port in await fleet.listen("127.0.0.1", 0):
            print(kind, f"http://127.0.0.1:{port}", flush=True)
    await stdin_closed()
    for fleet in fleets:
        fleet.close()


async def child_agents(base_url: str, model: str, count: str, seed: str) -> None:
    def say(call: Call) -> None:
        print(msgspec.json.encode(call).decode(), flush=True)

    work = asyncio.create_task(run_agents(base_url, model, int(count), int(seed), say))
    await stdin_closed()
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)


async def stdin_closed() -> None:
    """The parent has ended, or wants us to."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()


CHILDREN: dict[str, Callable[..., Awaitable[None]]] = {
    CHILD_ENGINES: child_engines,
    CHILD_AGENTS: child_agents,
}


# What a person sees.


def greet(console: Console, base_url: str, homeport: Homeport, config: Config) -> None:
    admin = f"http://{config.admin.listen.host}:{homeport.admin.port}"
    model = config.engines[0].model
    body = f'{{"model":"{model}","messages":[{{"role":"user","content":"hello"}}]}}'
    console.print(f"gateway  {base_url}/v1", highlight=False)
    console.print(f"admin    {admin} (metrics, snapshot, explain)", highlight=False)
    console.print("try      ", end="")
    console.print(
        f"curl -i {base_url}/v1/chat/completions -d '{body}'",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    console.print(f"then     homeport explain ID --admin {admin}", highlight=False)


async def show(
    console: Console,
    homeport: Homeport,
    calls: list[Call],
    stopping: asyncio.Event,
    for_s: float | None,
) -> None:
    """A line of figures now and then, until the end."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    every_s = LINE_S if console.is_terminal else LINE_S_QUIET
    while not stopping.is_set():
        left = every_s if for_s is None else min(every_s, began + for_s - loop.time())
        if left <= 0:
            return
        try:
            async with asyncio.timeout(left):
                await stopping.wait()
        except TimeoutError:
            line = line_of(summary_of(calls, homeport.snapshot()), homeport, loop.time() - began)
            console.print(
                line, end="\r" if console.is_terminal else "\n", highlight=False, soft_wrap=True
            )
    if console.is_terminal:
        console.print()


def line_of(summary: Summary, homeport: Homeport, elapsed_s: float) -> str:
    snapshot = homeport.snapshot()
    return (
        f"{elapsed_s:5.0f} s  {summary.requests} requests, {summary.failed} failed, "
        f"{snapshot.running} running, {snapshot.queued} queued, "
        f"hit rate {summary.hit_rate:.3f} of {summary.ideal_hit_rate:.3f}, "
        f"ttft p50 {summary.ttft['p50']:.3f} p99 {summary.ttft['p99']:.3f} s "
    )


def summary_of(calls: list[Call], snapshot: Snapshot) -> Summary:
    good = [call for call in calls if call.is_ok]
    prompt = sum(call.prompt_tokens for call in good)
    firsts = sorted(call.ttft_s for call in good)
    return Summary(
        requests=len(calls),
        failed=len(calls) - len(good),
        hit_rate=share(sum(call.cached_tokens for call in good), prompt),
        ideal_hit_rate=share(sum(call.ideal_cached_tokens for call in good), prompt),
        ttft={name: quantile(firsts, q) for name, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))},
        endpoints=[
            {
                "endpoint": row.id,
                "accelerator": row.accelerator,
                "requests": len(here := [call for call in good if call.endpoint == row.id]),
                "hit_rate": share(
                    sum(call.cached_tokens for call in here),
                    sum(call.prompt_tokens for call in here),
                ),
                "ttft_p50": quantile(sorted(call.ttft_s for call in here), 0.5),
                "live_sessions": row.live_sessions,
            }
            for row in snapshot.endpoints
        ],
    )


def share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def quantile(ordered: list[float], q: float) -> float:
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else 0.0


def tell(console: Console, summary: Summary) -> None:
    console.print(
        f"{summary.requests} requests, {summary.failed} failed; "
        f"hit rate {summary.hit_rate:.3f} reported, {summary.ideal_hit_rate:.3f} ideal; "
        f"time to first token p50 {summary.ttft['p50']:.3f} s, p99 {summary.ttft['p99']:.3f} s",
        highlight=False,
        soft_wrap=True,
    )
    if summary.endpoints:
        names = list(summary.endpoints[0])
        table = Table(*names)
        for row in summary.endpoints:
            table.add_row(*(f"{v:.3f}" if isinstance(v, float) else str(v) for v in row.values()))
        console.print(table)


if __name__ == "__main__":
    uvloop.run(CHILDREN[sys.argv[1]](*sys.argv[2:]))  # pyright: ignore[reportArgumentType]
