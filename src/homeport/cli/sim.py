"""`homeport sim`: simulated engines on consecutive ports."""

import asyncio
import signal
import sys
from typing import Annotated

import msgspec
import typer
import uvloop

from homeport.sim.profile import PROFILES, Profile
from homeport.sim.server import SimFleet

USAGE = 2


def sim(
    engines: Annotated[int, typer.Option(help="How many engines.", min=1)] = 1,
    model: Annotated[str, typer.Option(help="The model that they serve.")] = "sim",
    port: Annotated[int, typer.Option(help="The first port; 0 takes any free ones.")] = 8001,
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    profile: Annotated[str, typer.Option(help=f"One of {', '.join(PROFILES)}.")] = "demo-fast",
    dialect: Annotated[str, typer.Option(help="What they speak: vllm.")] = "vllm",
    kv_tokens: Annotated[int | None, typer.Option(help="Size of the cache.", min=16)] = None,
    prefill_tokens_per_s: Annotated[float | None, typer.Option(help="At short context.")] = None,
    decode_step_ms: Annotated[float | None, typer.Option(help="Time of a decode step.")] = None,
    max_running: Annotated[int | None, typer.Option(help="Sequences at one time.", min=1)] = None,
) -> None:
    """Simulated engines on consecutive ports."""
    if profile not in PROFILES:
        fail(f"--profile: expected one of {', '.join(PROFILES)}, found {profile!r}")
    if dialect != "vllm":
        fail(f"--dialect: expected vllm, found {dialect!r}; this version simulates no other")
    changes = {
        "kv_tokens": kv_tokens,
        "prefill_tokens_per_s": prefill_tokens_per_s,
        "step_base_ms": decode_step_ms,
        "max_running": max_running,
    }
    kept = {name: value for name, value in changes.items() if value is not None}
    wanted = msgspec.structs.replace(PROFILES[profile], **kept)
    raise typer.Exit(uvloop.run(run(wanted, model, engines, host, port)))


def fail(message: str) -> None:
    print(f"homeport sim: {message}", file=sys.stderr)
    raise typer.Exit(USAGE)


async def run(profile: Profile, model: str, count: int, host: str, port: int) -> int:
    """Until SIGINT or SIGTERM; the exit status."""
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    fleet = SimFleet(profile, model, count)
    try:
        ports = await fleet.listen(host, port)
    except OSError as error:
        print(f"homeport sim: cannot listen: {error.strerror or error}", file=sys.stderr)
        return USAGE
    for taken in ports:
        print(f"http://{host}:{taken} serves {model} as {profile.name}", flush=True)
    await stopping.wait()
    fleet.close()
    return 0
