"""A config file becomes typed values, or every problem in it at once."""

from pathlib import Path

import pytest

from homeport.config.load import load, parse
from homeport.config.problem import ConfigError

MINIMAL = "engines:\n  - {url: http://127.0.0.1:8001, model: tiny}\n"


def problems(text: str, environ: dict[str, str] | None = None) -> list[tuple[int | None, str]]:
    with pytest.raises(ConfigError) as told:
        parse(text, environ or {})
    return [(problem.line, problem.key) for problem in told.value.errors]


def test_the_least_that_is_needed() -> None:
    config = parse(MINIMAL, {})
    assert config.engines[0].model == "tiny"
    assert config.gateway.listen.port == 8080
    assert config.routing.policy == "homeport"


def test_quantities_are_read() -> None:
    text = MINIMAL + (
        "gateway:\n  limits: {body_bytes: 8MiB}\n  timeouts: {connect: 250ms, total: none}\n"
        "flow: {queued: 2k, wait: 10m, running_per_endpoint: auto}\n"
    )
    config = parse(text, {})
    assert config.gateway.limits.body_bytes == 8 << 20
    assert config.gateway.timeouts.connect == 250_000
    assert config.gateway.timeouts.total is None
    assert config.flow.queued == 2_000
    assert config.flow.wait == 600_000_000


def test_an_unknown_key_names_the_nearest() -> None:
    with pytest.raises(ConfigError) as told:
        parse("engines:\n  - url: http://127.0.0.1:1\n    modle: tiny\n", {})
    unknown = next(p for p in told.value.errors if "modle" in p.key + p.message)
    assert unknown.line == 3
    assert "model" in (unknown.hint or "")


def test_a_key_of_a_later_version_is_not_a_misspelling() -> None:
    with pytest.raises(ConfigError) as told:
        parse(MINIMAL + "bands: []\n", {})
    assert "not in this version" in told.value.errors[0].message


def test_all_problems_come_at_once_with_their_lines() -> None:
    text = (
        "gateway:\n  listen: nowhere\n  timeouts: {connect: soon}\n"
        "flow: {queued: -1}\nengines:\n  - {url: ftp://x, model: 1}\n"
    )
    lines = {line for line, _ in problems(text)}
    assert {2, 3, 4, 6} <= lines


@pytest.mark.parametrize(
    "text",
    ["", "[]", "just text", "a: [", "engines: []", "a: 1\na: 2\n", "engines: &a [*a]", "\x00"],
)
def test_what_is_no_config_is_told_so(text: str) -> None:
    assert problems(text)


def test_yaml_words_are_not_booleans() -> None:
    assert problems(MINIMAL + "tenants: [{name: a, anonymous: yes}]\n")


def test_variables_are_put_in() -> None:
    text = "engines:\n  - {url: '${URL}', model: tiny}\n"
    assert parse(text, {"URL": "http://127.0.0.1:9"}).engines[0].url == "http://127.0.0.1:9"
    assert problems(text)


@pytest.mark.parametrize(
    "extra",
    [
        "  - {url: http://127.0.0.1:8001, model: tiny}\n",
        "tenants: [{name: a}, {name: a}]\n",
        "tenants: [{name: a, keys: [{sha256: short}]}]\n",
        "tenants: [{name: a, anonymous: true}, {name: b, anonymous: true}]\n",
        "admin: {listen: '0.0.0.0:9090'}\n",
        "admin: {listen: '127.0.0.1:8080'}\n",
    ],
)
def test_what_no_single_value_can_show(extra: str) -> None:
    assert problems(MINIMAL + extra)


def test_an_engines_key_must_be_there() -> None:
    text = "engines:\n  - {url: http://127.0.0.1:1, model: m, api_key_env: KEY}\n"
    assert problems(text)
    assert parse(text, {"KEY": "x"}).engines[0].api_key_env == "KEY"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        load(tmp_path / "nothing.yaml", {})
