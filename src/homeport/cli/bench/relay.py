"""`homeport bench relay`: what the byte path costs, beside peers, against a mock engine in C.

The gateway runs on one core, the mock engine and the load client on another. The figure to trust is
the CPU time of the gateway's process tree: it holds when the machine is busy. Compare only what one
call has measured.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

USAGE = 2
FAILED = 1
SOURCES = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "homeport" / "bench"
ENGINE_PORT, ENGINES, GATEWAY_PORT, ADMIN_PORT, ENVOY_PORT = 9100, 4, 8400, 8401, 9003
CHUNK_INTERVAL_US, CHUNK_BYTES = 12_000, 220
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
READY_S = 60.0

PHASES = {
    "small": "-c 64 -n 8000 -N 1 -s 0",
    "large": "-c 16 -n 400 -N 1 -s 0 -m l -p 8",
    "fast": "-c 100 -n 100 -N 1000 -s 1 -m l -p 8 -r 1000",
    "many": "-c 1000 -n 1000 -N 100 -s 1 -r 1000",
}
"""Arguments of the load client: connections, requests, chunks, streams, large bodies, ramp."""
REQUEST_PART = {"fast": "large", "many": "small"}
"""Whose cost per request is taken off before the rest is shared out over the chunks."""


def relay(
    json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
    phases: Annotated[str, typer.Option(help="Which, by comma.")] = ",".join(PHASES),
    runs: Annotated[int, typer.Option(help="Rounds; medians are told.", min=1)] = 1,
    envoy: Annotated[
        Path | None, typer.Option(help="An envoy binary to measure in the same run.")
    ] = None,
) -> None:
    """What it costs to relay requests and streams."""
    wanted = phases.split(",")
    unknown = [phase for phase in wanted if phase not in PHASES]
    if unknown:
        stop(f"--phases: expected some of {', '.join(PHASES)}, found {', '.join(unknown)}")
    if shutil.which("gcc") is None:
        stop("gcc is needed to build the mock engine and the load client; install it first")
    load, engine = build("load"), build("mock_engine")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        subjects = [("homeport", GATEWAY_PORT, homeport_command(folder))]
        if envoy is not None:
            subjects.append(("envoy", ENVOY_PORT, envoy_command(envoy)))
        rounds = [
            [
                measured(name, port, command, wanted, load, engine)
                for name, port, command in subjects
            ]
            for _ in range(runs)
        ]
    rows = [medians([one[i] for one in rounds], wanted) for i in range(len(subjects))]
    if json:
        print(msgspec.json.encode(rows).decode())
    else:
        tell(rows, wanted)
    is_fine = all(not rows[0][p]["failed"] and not rows[0][p]["missing_chunks"] for p in wanted)
    raise typer.Exit(0 if is_fine else FAILED)


def stop(message: str) -> None:
    print(f"homeport bench relay: {message}", file=sys.stderr)
    raise typer.Exit(USAGE)


def build(name: str) -> Path:
    CACHE.mkdir(parents=True, exist_ok=True)
    binary, source = CACHE / name, SOURCES / f"{name}.c"
    if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["gcc", "-O2", "-w", "-o", str(binary), str(source)], check=True)
    return binary


def homeport_command(folder: Path) -> list[str]:
    ports = range(ENGINE_PORT, ENGINE_PORT + ENGINES)
    engines = [{"url": f"http://127.0.0.1:{port}", "model": "mock"} for port in ports]
    config = {
        "gateway": {"listen": f"127.0.0.1:{GATEWAY_PORT}"},
        "admin": {"listen": f"127.0.0.1:{ADMIN_PORT}"},
        "engines": engines,
    }
    path = folder / "fleet.json"
    path.write_bytes(msgspec.json.encode(config))
    return [sys.executable, "-m", "homeport", "serve", "-c", str(path)]


def envoy_command(binary: Path) -> list[str]:
    config = SOURCES / "envoy.yaml"
    return [str(binary), "-c", str(config), "--concurrency", "1", "-l", "warn"]


def pinned(core: int, command: list[str]) -> list[str]:
    can_pin = shutil.which("taskset") is not None and (os.cpu_count() or 1) > 1
    return ["taskset", "-c", str(core), *command] if can_pin else command


def measured(
    name: str, port: int, command: list[str], phases: list[str], load: Path, engine: Path
) -> dict[str, Any]:
    """One round of one subject: a row of figures for each phase."""
    shape = map(str, (ENGINE_PORT, ENGINES, CHUNK_INTERVAL_US, CHUNK_BYTES))
    row: dict[str, Any] = {"name": name}
    with ExitStack() as stack:
        start(stack, pinned(1, [str(engine), *shape]))
        subject = start(stack, pinned(0, command))
        wait_ready(port, subject)
        run_load(load, port, "-c 8 -n 200 -N 1 -s 0")
        for phase in phases:
            before, _ = usage_of(subject.pid)
            result = run_load(load, port, PHASES[phase])
            after, rss_mib = usage_of(subject.pid)
            row[phase] = figures(result, after - before, rss_mib)
            if phase in REQUEST_PART:
                part = row.get(REQUEST_PART[phase], {}).get("cpu_ms_per_request", 0.0)
                chunks_cpu_s = after - before - part / 1e3 * result["done"]
                per_chunk = 1e6 * chunks_cpu_s / max(1, result["chunks"])
                row[phase]["cpu_us_per_chunk"] = round(per_chunk, 2)
    return row


def start(stack: ExitStack, command: list[str]) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    return process


def wait_ready(port: int, process: "subprocess.Popen[bytes]") -> None:
    body = b'{"model":"mock","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}'
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    end = time.monotonic() + READY_S
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(urllib.request.Request(url, body), timeout=5).close()
            return
        except OSError:
            time.sleep(0.2)
    stop(f"nothing answered on port {port}; is another program using the ports of this bench?")


def run_load(load: Path, port: int, arguments: str) -> dict[str, Any]:
    command = [str(load), str(port), "-M", "mock", "-t", "60", *arguments.split()]
    run = subprocess.run(pinned(1, command), capture_output=True, check=True)
    return msgspec.json.decode(run.stdout)


def usage_of(pid: int) -> tuple[float, int]:
    """CPU seconds and resident MiB of a process and its children."""
    cpu_s, resident = 0.0, 0
    for one in tree_of(pid):
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
            resident += int(Path(f"/proc/{one}/statm").read_text().split()[1]) * PAGE_BYTES
        except FileNotFoundError:
            continue
        cpu_s += (int(fields[11]) + int(fields[12])) / TICKS_PER_S
    return cpu_s, resident >> 20


def tree_of(pid: int) -> list[int]:
    found = [pid]
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in path.read_text().split():
            found += tree_of(int(child))
    return found


def figures(result: dict[str, Any], cpu_s: float, rss_mib: int) -> dict[str, Any]:
    return {
        "cpu_ms_per_request": round(1e3 * cpu_s / max(1, result["done"]), 4),
        "ttft_p50_ms": result["ttft_p50_ms"],
        "ttft_p99_ms": result["ttft_p99_ms"],
        "late_chunks": result["late100ms"],
        "rss_mib": rss_mib,
        "failed": result["done"] - result["c200"] + result["errors"],
        "missing_chunks": result["chunks_missing"],
        "done": result["done"],
    }


def medians(rounds: list[dict[str, Any]], phases: list[str]) -> dict[str, Any]:
    """Medians of the figures; sums of what must be zero."""
    row: dict[str, Any] = {"name": rounds[0]["name"], "runs": len(rounds)}
    for phase in phases:
        row[phase] = {
            key: sum(values) if key in ("failed", "missing_chunks") else statistics.median(values)
            for key in rounds[0][phase]
            if (values := [one[phase][key] for one in rounds])
        }
    return row


def tell(rows: list[dict[str, Any]], phases: list[str]) -> None:
    table = Table("subject", "phase", "CPU", "TTFT p50/p99 ms", "late", "failed", "MiB")
    for row in rows:
        for phase in phases:
            found = row[phase]
            per_chunk = found.get("cpu_us_per_chunk")
            cost = f"{found['cpu_ms_per_request']:.3f} ms/request"
            table.add_row(
                row["name"],
                phase,
                cost if per_chunk is None else f"{per_chunk:.1f} us/chunk",
                f"{found['ttft_p50_ms']:.1f} / {found['ttft_p99_ms']:.1f}",
                str(found["late_chunks"]),
                str(found["failed"] + found["missing_chunks"]),
                str(found["rss_mib"]),
            )
    Console().print(table)
