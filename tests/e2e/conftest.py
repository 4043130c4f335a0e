"""Engines and a gateway that all tests of this folder share."""

from collections.abc import Iterator

import pytest
from openai import OpenAI
from processes import Engine, Gateway


@pytest.fixture(scope="session")
def engines() -> Iterator[list[Engine]]:
    started = [Engine(), Engine(), Engine()]
    yield started
    for engine in started:
        assert engine.stop() == 0


@pytest.fixture(scope="session")
def gateway(engines: list[Engine], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("gateway")
    started = Gateway(folder, [engine.url for engine in engines])
    yield started
    assert started.stop() == 0


@pytest.fixture
def client(gateway: Gateway) -> Iterator[OpenAI]:
    with gateway.client() as made:
        yield made
