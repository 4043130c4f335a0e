"""`homeport bench relay`: what the byte path costs, beside peers, against a mock engine in C.

The subject runs on one core, the mock engine and the load client on another. The figure to trust is
the CPU time of the subject's process tree: it holds when the machine is busy. Compare only what one
call has measured.
"""

import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, NoReturn

import msgspec
import typer
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from homeport.cli.bench.subject import (
    PEERS,
    PROGRAMS,
    SOURCES,
    Command,
    Ports,
    homeport,
    homeport_journal,
    is_installed,
)

USAGE = 2
FAILED = 1
ENGINES = 4
CHUNK_INTERVAL_US, CHUNK_BYTES = 12_000, 220
FIRST_PORT, LAST_PORT = 9_100, 20_000
SUBJECT_CORE, LOAD_CORE = 0, 1
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
READY_S, STOP_S = 60.0, 10.0

PHASES = {
    "small": "-c 64 -n 8000 -N 1 -s 0",
    "large": "-c 16 -n 400 -N 1 -s 0 -m l -p 8",
    "fast": "-c 100 -n 100 -N 1000 -s 1 -m l -p 8 -r 1000",
    "many": "-c 1000 -n 1000 -N 100 -s 1 -r 1000",
}
"""Arguments of the load client: connections, requests, chunks, streams, large bodies, ramp."""
REQUEST_PART = {"fast": "large", "many": "small"}
"""Whose cost per request is taken off before the rest is shared out over the chunks."""

Process = subprocess.Popen[bytes]


class Result(Struct, frozen=True):
    """What the load client saw."""

    done: int
    errors: int
    c200: int
    chunks: int
    chunks_missing: int
    ttft_p50_ms: float
    ttft_p99_ms: float
    late100ms: int


class Figures(Struct, frozen=True, omit_defaults=True):
    """What one phase cost one subject."""

    cpu_ms_per_request: float
    ttft_p50_ms: float
    ttft_p99_ms: float
    late_chunks: float
    rss_mib: float
    failed: int
    missing_chunks: int
    done: float
    cpu_us_per_chunk: float | None = None


Row = dict[str, Figures]
"""By phase."""


class Programs(Struct, frozen=True):
    """The compiled load client and mock engine."""

    load: Path
    engine: Path


def relay(
    json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
    phases: Annotated[str, typer.Option(help="Which, by comma.")] = ",".join(PHASES),
    runs: Annotated[int, typer.Option(help="Rounds; medians are told.", min=1)] = 1,
    vs: Annotated[
        str, typer.Option(help=f"Peers to measure in turn, by comma: {', '.join(PEERS)}.")
    ] = "",
    journal: Annotated[bool, typer.Option("--journal", help="Measure with a journal.")] = False,
) -> None:
    """What it costs to relay requests and streams."""
    wanted = chosen("--phases", phases, list(PHASES))
    peers = chosen("--vs", vs, list(PEERS))
    if not wanted:
        stop(f"--phases: expected some of {', '.join(PHASES)}, found none")
    for peer in peers:
        if not is_installed(peer):
            stop(f"--vs {peer} needs the program `{PROGRAMS[peer]}` on the PATH; install it first")
    if shutil.which("gcc") is None:
        stop("gcc is needed to build the mock engine and the load client; install it first")
    programs = Programs(build("load"), build("mock_engine"))
    subjects = {"homeport": homeport_journal if journal else homeport}
    subjects |= {peer: PEERS[peer] for peer in peers}
    rounds = [
        {name: measured(command, wanted, programs) for name, command in subjects.items()}
        for _ in range(runs)
    ]
    rows = {name: medians([one[name] for one in rounds], wanted) for name in subjects}
    if json:
        told = [{"name": name, "runs": runs, **row} for name, row in rows.items()]
        print(msgspec.json.encode(told).decode())
    else:
        tell(rows)
    has_failed = any(f.failed or f.missing_chunks for f in rows["homeport"].values())
    raise typer.Exit(FAILED if has_failed else 0)


def chosen(option: str, text: str, known: list[str]) -> list[str]:
    """The words of a list by comma, in the order in which they are known."""
    words = [word for word in text.split(",") if word]
    unknown = [word for word in words if word not in known]
    if unknown:
        stop(f"{option}: expected some of {', '.join(known)}, found {', '.join(unknown)}")
    return [word for word in known if word in words]


def stop(message: str) -> NoReturn:
    print(f"homeport bench relay: {message}", file=sys.stderr)
    raise typer.Exit(USAGE)


def build(name: str) -> Path:
    """Compile a source that is newer than its binary in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "homeport" / "bench"
    cache.mkdir(parents=True, exist_ok=True)
    binary, source = cache / name, SOURCES / f"{name}.c"
    if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
        command = ["gcc", "-O2", "-w", "-o", str(binary), str(source)]
        run = subprocess.run(command, capture_output=True, check=False)
        if run.returncode:
            stop(f"gcc could not build {source.name}:\n{run.stderr.decode(errors='replace')}")
    return binary


def measured(command: Command, phases: list[str], programs: Programs) -> Row:
    """One round of one subject, with engines of its own."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ports = free_ports()
        shape = (ports.engines[0], ENGINES, CHUNK_INTERVAL_US, CHUNK_BYTES)
        start(stack, pinned(LOAD_CORE, [str(programs.engine), *map(str, shape)]), folder / "engine")
        log = folder / "subject"
        subject = start(stack, pinned(SUBJECT_CORE, command(ports, folder)), log)
        wait_ready(ports.subject, subject, log)
        run_load(programs.load, ports.subject, "-c 8 -n 200 -N 1 -s 0")
        row: Row = {}
        for phase in phases:
            before_s, _ = usage_of(subject.pid)
            result = run_load(programs.load, ports.subject, PHASES[phase])
            after_s, rss_mib = usage_of(subject.pid)
            row[phase] = figures(result, after_s - before_s, rss_mib, request_ms(phase, row))
        return row


def free_ports() -> Ports:
    """Ports that nobody has now: a run of neighbours, since the mock engine counts upwards."""
    count = ENGINES + 2
    for first in range(FIRST_PORT, LAST_PORT, count):
        run = range(first, first + count)
        if all(map(is_free, run)):
            return Ports(tuple(run[:ENGINES]), run[ENGINES], run[ENGINES + 1])
    stop(f"no {count} free ports in a row between {FIRST_PORT} and {LAST_PORT}")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def pinned(core: int, command: list[str]) -> list[str]:
    can_pin = shutil.which("taskset") is not None and (os.cpu_count() or 1) > 1
    return ["taskset", "-c", str(core), *command] if can_pin else command


def start(stack: ExitStack, command: list[str], log: Path) -> Process:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    stack.callback(end, process)
    return process


def end(process: Process) -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_ready(port: int, process: Process, log: Path) -> None:
    body = b'{"model":"mock","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}'
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions", body, {"content-type": "application/json"}
    )
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(request, timeout=5).close()
            return
        except OSError:
            time.sleep(0.2)
    said = log.read_text(errors="replace")[-2_000:]
    stop(f"nothing answered on port {port}; `{process.args}` said:\n{said}")


def run_load(load: Path, port: int, arguments: str) -> Result:
    command = [str(load), str(port), "-M", "mock", "-t", "60", *arguments.split()]
    run = subprocess.run(pinned(LOAD_CORE, command), capture_output=True, check=True)
    return msgspec.json.decode(run.stdout, type=Result)


def usage_of(pid: int) -> tuple[float, int]:
    """CPU seconds and resident MiB of a process and its children."""
    cpu_s, resident = 0.0, 0
    for one in tree_of(pid):
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
            resident += int(Path(f"/proc/{one}/statm").read_text().split()[1]) * PAGE_BYTES
        except (FileNotFoundError, ProcessLookupError):
            continue
        cpu_s += (int(fields[11]) + int(fields[12])) / TICKS_PER_S
    return cpu_s, resident >> 20


def tree_of(pid: int) -> list[int]:
    found = [pid]
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in path.read_text().split():
            found += tree_of(int(child))
    return found


def request_ms(phase: str, row: Row) -> float | None:
    """What a request of this phase costs beside its chunks; None where chunks are not counted."""
    if phase not in REQUEST_PART:
        return None
    part = row.get(REQUEST_PART[phase])
    return 0.0 if part is None else part.cpu_ms_per_request


def figures(result: Result, cpu_s: float, rss_mib: int, part_ms: float | None) -> Figures:
    per_chunk = None
    if part_ms is not None:
        chunks_us = 1e6 * cpu_s - 1e3 * part_ms * result.done
        per_chunk = round(chunks_us / max(1, result.chunks), 2)
    return Figures(
        cpu_ms_per_request=round(1e3 * cpu_s / max(1, result.done), 4),
        ttft_p50_ms=result.ttft_p50_ms,
        ttft_p99_ms=result.ttft_p99_ms,
        late_chunks=result.late100ms,
        rss_mib=rss_mib,
        failed=result.done - result.c200 + result.errors,
        missing_chunks=result.chunks_missing,
        done=result.done,
        cpu_us_per_chunk=per_chunk,
    )


def medians(rounds: list[Row], phases: list[str]) -> Row:
    return {phase: median_of([one[phase] for one in rounds]) for phase in phases}


def median_of(runs: list[Figures]) -> Figures:
    """Medians of the figures; sums of what must be zero."""

    def middle(figure: Callable[[Figures], float]) -> float:
        return statistics.median(map(figure, runs))

    per_chunk = [run.cpu_us_per_chunk for run in runs if run.cpu_us_per_chunk is not None]
    return Figures(
        cpu_ms_per_request=middle(lambda run: run.cpu_ms_per_request),
        ttft_p50_ms=middle(lambda run: run.ttft_p50_ms),
        ttft_p99_ms=middle(lambda run: run.ttft_p99_ms),
        late_chunks=middle(lambda run: run.late_chunks),
        rss_mib=middle(lambda run: run.rss_mib),
        failed=sum(run.failed for run in runs),
        missing_chunks=sum(run.missing_chunks for run in runs),
        done=middle(lambda run: run.done),
        cpu_us_per_chunk=statistics.median(per_chunk) if per_chunk else None,
    )


def tell(rows: dict[str, Row]) -> None:
    table = Table("subject", "phase", "CPU", "of ours", "TTFT p50/p99 ms", "late", "failed", "MiB")
    for name, row in rows.items():
        for phase, found in row.items():
            cost, unit = cost_of(found)
            ours, _ = cost_of(rows["homeport"][phase])
            table.add_row(
                name,
                phase,
                f"{cost:.3f} {unit}",
                f"{cost / ours:.2f}" if ours else "",
                f"{found.ttft_p50_ms:.1f} / {found.ttft_p99_ms:.1f}",
                f"{found.late_chunks:.0f}",
                str(found.failed + found.missing_chunks),
                f"{found.rss_mib:.0f}",
            )
    Console().print(table)


def cost_of(found: Figures) -> tuple[float, str]:
    if found.cpu_us_per_chunk is None:
        return found.cpu_ms_per_request, "ms/request"
    return found.cpu_us_per_chunk, "us/chunk"
