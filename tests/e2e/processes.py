"""Real processes: simulated engines, a gateway in front of them, and waiting for what must come."""

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from openai import OpenAI

MODEL = "sim"
WAIT_S = 15.0


class Process:
    """A `homeport` process and the lines that it has printed."""

    def __init__(self, *words: str) -> None:
        command = [sys.executable, "-m", "homeport", *words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.stdout: IO[str] = self.process.stdout

    def line(self) -> str:
        return self.stdout.readline()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.stdout.close()

    def stop(self) -> int:
        self.process.terminate()
        status = self.process.wait(WAIT_S)
        self.stdout.close()
        return status


class Engine(Process):
    """One simulated engine in its own process."""

    def __init__(self, port: int = 0, *options: str) -> None:
        super().__init__("sim", "--port", str(port), "--model", MODEL, *options)
        self.url = self.line().split()[0]
        self.port = int(self.url.rpartition(":")[2])


class Gateway(Process):
    """`homeport serve` in front of engines."""

    def __init__(
        self, folder: Path, engines: list[str], extra: str = "", model: str = MODEL
    ) -> None:
        config = folder / "fleet.yaml"
        rows = "\n".join(f"  - {{url: '{url}', model: {model}}}" for url in engines)
        config.write_text(
            "gateway:\n  listen: 127.0.0.1:0\n  trusted_peers: [127.0.0.1]\n"
            "  limits: {body_bytes: 1MiB}\n  timeouts: {upload: 2s}\n"
            f"admin: {{listen: '127.0.0.1:0'}}\n{extra}\nengines:\n{rows}\n"
        )
        super().__init__("serve", "-c", str(config))
        self.url = self.find(r"listening on (\S+)")
        self.admin = self.find(r"admin on (\S+)")
        self.port = int(self.url.rpartition(":")[2])

    def find(self, pattern: str) -> str:
        found = re.search(pattern, self.line())
        assert found is not None, "the gateway did not start"
        return found[1]

    def client(self, key: str = "none") -> OpenAI:
        return OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0)


def until(condition: Callable[[], bool], seconds: float = WAIT_S) -> float:
    """Wait for a condition; how long it took. Fails when it does not come true."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, "it did not come true in time"
        time.sleep(0.01)
    return time.monotonic() - began
