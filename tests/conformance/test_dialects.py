"""What every dialect promises, whatever its engine."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homeport.engines import DIALECTS, Dialect, EngineReading, Verdict, dialect

every_dialect = pytest.mark.parametrize("engine", DIALECTS, ids=lambda engine: engine.name)


@every_dialect
def test_it_is_found_by_its_own_name(engine: Dialect) -> None:
    assert dialect(engine.name) is engine
    assert engine.name == engine.name.strip().lower()


@every_dialect
def test_its_paths_are_paths(engine: Dialect) -> None:
    for path in (engine.health_path, engine.metrics_path or "/"):
        assert path.startswith("/")
        assert path.isascii() and path.isprintable() and " " not in path


@every_dialect
def test_a_page_that_says_nothing_reads_as_nothing(engine: Dialect) -> None:
    for page in (b"", b"\n", b"<html>not found</html>", b"# HELP up\nup 1\n"):
        assert engine.read_metrics(page) == EngineReading()


@every_dialect
@given(st.binary(max_size=200))
def test_any_page_can_be_read(engine: Dialect, page: bytes) -> None:
    engine.read_metrics(page)
    prefix = f"\n{engine.name}:".encode()
    engine.read_metrics(prefix + b"num_requests_running{" + page)
    engine.read_metrics(prefix + b'cache_config_info{block_size="' + page + b'"} 1\n')


@every_dialect
def test_no_4xx_is_a_mark_against_an_engine(engine: Dialect) -> None:
    assert {engine.verdict(status) for status in range(100, 500)} == {Verdict.PASS}


@every_dialect
@pytest.mark.parametrize("status", [0, 99, 500, 501, 502, 504, 599, 600, 999])
def test_its_own_failures_count(engine: Dialect, status: int) -> None:
    assert engine.verdict(status) is Verdict.FAILED


@every_dialect
def test_an_engine_that_is_full_is_not_ill(engine: Dialect) -> None:
    assert engine.verdict(503) is Verdict.BUSY


@every_dialect
def test_only_streams_of_openais_first_two_apis_need_asking(engine: Dialect) -> None:
    for path in ("/v1/responses", "/v1/messages", "/v1/embeddings"):
        assert not engine.must_ask_usage(path)
