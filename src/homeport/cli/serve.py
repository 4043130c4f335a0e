"""`homeport serve`: gateway and router in front of engines that run elsewhere."""

import asyncio
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from homeport.app import Homeport, StartError
from homeport.cli.memory import keep_memory
from homeport.config.load import load
from homeport.config.schema import Config

CANNOT_START = 2


def serve(
    config: Annotated[Path, typer.Option("--config", "-c", help="The config file.")],
) -> None:
    """Gateway and router in front of engines that run elsewhere."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    keep_memory()
    raise typer.Exit(uvloop.run(run(load(config, os.environ))))


async def run(config: Config) -> int:
    """Until SIGINT or SIGTERM; the exit status."""
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    homeport = Homeport(config, os.environ, loop)
    try:
        await homeport.start()
    except StartError as error:
        print(f"homeport: {error}", file=sys.stderr)
        return CANNOT_START
    print(f"homeport: listening on http://{config.gateway.listen.host}:{homeport.port}")
    print(f"homeport: admin on http://{config.admin.listen.host}:{homeport.admin.port}", flush=True)
    await stopping.wait()
    await homeport.stop()
    return 0
