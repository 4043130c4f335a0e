"""The benchmarks measure what they say: the situations hold, the rows have their names."""

import socket
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import typer

from homeport.cli.bench import index, relay, route, subject
from homeport.cli.bench.fleet import BenchFleet, all_different, one_four_rest
from homeport.cli.bench.relay import Figures
from homeport.config.load import load
from homeport.core.prefix import BLOCK_ENDS

PORTS = subject.Ports((9200, 9201, 9202, 9203), 9204, 9205)


@pytest.mark.parametrize("shape", [one_four_rest, all_different])
def test_every_arrival_meets_the_same_depths(shape: Callable[[int, int], list[int]]) -> None:
    fleet = BenchFleet(shape, 16, 100_000)
    everyone = (1 << 16) - 1
    before = fleet.router.index.depths(fleet.prompt_blocks(), everyone)
    for _ in range(100):
        route.decision_us(fleet)
    assert fleet.router.index.depths(fleet.prompt_blocks(), everyone) == before
    assert len(fleet.router.sessions.live) == 1
    fleet.router.check()


def test_half_and_tenth_are_shares_of_the_text() -> None:
    held = one_four_rest(6, sum(end <= 400_000 for end in BLOCK_ENDS))
    text_bytes = [BLOCK_ENDS[blocks - 1] for blocks in held]
    assert text_bytes[0] > 380_000
    assert all(188_000 < size <= 200_000 for size in text_bytes[1:5])
    assert 36_000 < text_bytes[5] <= 40_000


def test_all_different_depths_are_different() -> None:
    held = all_different(64, 208)
    assert len(set(held)) == 64
    assert held[-1] == 208


def test_route_prints_rows(capsys: pytest.CaptureFixture[str]) -> None:
    route.route(json=True, iterations=1)
    rows = msgspec.json.decode(capsys.readouterr().out, type=list[route.Row])
    assert [row.endpoints for row in rows] == [10, 64, 100, 1_000, 64]


def test_index_prints_rows(capsys: pytest.CaptureFixture[str]) -> None:
    index.index(json=True, iterations=1)
    rows = msgspec.json.decode(capsys.readouterr().out, type=list[index.Row])
    assert [row.prompt_bytes for row in rows] == [4_000, 40_000, 400_000, 1_000_000]


def test_a_longer_body_extends_a_shorter_one() -> None:
    shorter, longer = index.body_of(36_000), index.body_of(40_000)
    assert longer.startswith(shorter.removesuffix(b"]}"))


@pytest.mark.parametrize("command", [subject.homeport, subject.homeport_journal])
def test_the_config_of_the_gateway_is_valid(command: subject.Command, tmp_path: Path) -> None:
    config = load(Path(command(PORTS, tmp_path)[-1]), {})
    assert len(config.engines) == 4
    assert (config.journal is not None) == (command is subject.homeport_journal)


def test_envoy_is_told_the_ports(tmp_path: Path) -> None:
    subject.envoy(PORTS, tmp_path)
    text = (tmp_path / "envoy.yaml").read_text()
    assert text.count("port_value") == 5
    assert all(f"port_value: {port}" in text for port in (*PORTS.engines, PORTS.subject))


def test_a_taken_port_is_not_free() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert not relay.is_free(taken.getsockname()[1])


@pytest.mark.parametrize(
    ("phases", "vs", "said"),
    [
        ("small,huge", "", "found huge"),
        ("", "", "found none"),
        ("small", "nobody", "found nobody"),
        ("small", "envoy", "`envoy` on the PATH"),
        ("small", "", "gcc is needed"),
    ],
)
def test_what_is_missing_ends_with_status_2(
    phases: str,
    vs: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(typer.Exit) as ended:
        relay.relay(phases=phases, vs=vs)
    assert ended.value.exit_code == 2
    assert said in capsys.readouterr().err


def test_rounds_become_medians_and_sums_of_what_must_be_zero() -> None:
    runs = [Figures(cpu, 1.0, 2.0, 0, 80, 1, 0, 10, cpu * 10) for cpu in (3.0, 1.0, 2.0)]
    row = relay.medians([{"fast": run} for run in runs], ["fast"])
    assert row["fast"] == Figures(2.0, 1.0, 2.0, 0, 80, 3, 0, 10, 20.0)


def test_the_request_part_is_taken_off_the_chunks() -> None:
    result = relay.Result(10, 0, 10, 1_000, 0, 1.0, 2.0, 0)
    assert relay.figures(result, 0.1, 80, 5.0).cpu_us_per_chunk == 50.0
    assert relay.figures(result, 0.1, 80, None).cpu_us_per_chunk is None
