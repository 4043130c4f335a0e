"""Two real vLLM engines, started once for all tests of a run and stopped at its end."""

import gzip
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import Gateway

PROJECT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("HOMEPORT_SHARED", PROJECT.parent / "shared"))
ENGINES = PROJECT / ".engines"
MODEL = "tiny"
START_S_MAX = 300.0
"""Two engines on two busy cores take a minute or two to load."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Addresses of two engines that serve the same tiny model."""
    script = SHARED / "engines" / "serve_vllm.sh"
    logs = tmp_path_factory.mktemp("engines")
    started: list[subprocess.Popen[bytes]] = []
    urls: list[str] = []
    try:
        for _ in range(2):
            port = free_port()
            with (logs / f"{port}.log").open("wb") as log:
                command = ["bash", str(script), str(ENGINES), str(port), "0"]
                started.append(
                    subprocess.Popen(
                        command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
                    )
                )
            urls.append(f"http://127.0.0.1:{port}")
        deadline = time.monotonic() + START_S_MAX
        while not all(map(answers, urls)):
            gone = [process.args for process in started if process.poll() is not None]
            assert not gone, f"an engine ended: {gone}; see {logs}"
            assert time.monotonic() < deadline, f"the engines did not start in time; see {logs}"
            time.sleep(1.0)
        yield urls
    finally:
        for process in started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in started:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def gateway(engines: list[str], tmp_path: Path) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path, engines, model=MODEL)
    yield gateway
    gateway.stop()


@pytest.fixture(scope="session")
def agent_text() -> str:
    """What agents really send: the longest prompts of the traces, one after the other."""
    longest: list[str] = []
    for file in sorted((SHARED / "traces").glob("agent_text_miniswe_*.jsonl.gz")):
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            longest.append(max((json.loads(line)["input"] for line in lines), key=len))
    text = "".join(longest)
    assert text, f"expected agent texts in {SHARED / 'traces'}"
    return text
