"""What `bench relay` measures: our own gateway, and peers in front of the same mock engines."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

SOURCES = Path(__file__).parent


class Ports(Struct, frozen=True):
    """The mock engines' ports are consecutive; `spare` is for a subject's second listener."""

    engines: tuple[int, ...]
    subject: int
    spare: int


Command = Callable[[Ports, Path], list[str]]
"""The command line of a subject; it may write its config into the folder."""


def homeport(ports: Ports, folder: Path) -> list[str]:
    config = {
        "gateway": {"listen": f"127.0.0.1:{ports.subject}"},
        "admin": {"listen": f"127.0.0.1:{ports.spare}"},
        "engines": [{"url": url, "model": "mock"} for url in urls(ports)],
    }
    path = folder / "fleet.json"
    path.write_bytes(msgspec.json.encode(config))
    return [sys.executable, "-m", "homeport", "serve", "-c", str(path)]


def homeport_journal(ports: Ports, folder: Path) -> list[str]:
    """The same, and every event and command goes to disk."""
    command = homeport(ports, folder)
    path = Path(command[-1])
    config = msgspec.json.decode(path.read_bytes(), type=dict[str, object])
    config["journal"] = {"path": str(folder / "homeport.journal")}
    path.write_bytes(msgspec.json.encode(config))
    return command


def envoy(ports: Ports, folder: Path) -> list[str]:
    """Plain round robin: what a relay costs that reads nothing of what it relays."""
    text = (SOURCES / "envoy.yaml").read_text()
    placeholders = ("9003", "9100", "9101", "9102", "9103")
    for placeholder, port in zip(placeholders, (ports.subject, *ports.engines), strict=True):
        text = text.replace(f"port_value: {placeholder}", f"port_value: {port}")
    path = folder / "envoy.yaml"
    path.write_text(text)
    options = ["--use-dynamic-base-id", "--concurrency", "1", "-l", "warn"]
    return ["envoy", "-c", str(path), *options]


def sglang(ports: Ports, folder: Path) -> list[str]:
    """A router that is aware of caches, in Rust."""
    return [
        *("sglang-router", "launch", "--host", "127.0.0.1", "--port", str(ports.subject)),
        *("--worker-urls", *urls(ports), "--policy", "cache_aware", "--log-level", "warn"),
        *("--prometheus-port", str(ports.spare), "--worker-startup-check-interval", "1"),
    ]


PEERS: dict[str, Command] = {"envoy": envoy, "sglang": sglang}
PROGRAMS = {"envoy": "envoy", "sglang": "sglang-router"}
"""What must be on the PATH to measure a peer."""


def is_installed(peer: str) -> bool:
    return shutil.which(PROGRAMS[peer]) is not None


def urls(ports: Ports) -> list[str]:
    return [f"http://127.0.0.1:{port}" for port in ports.engines]
