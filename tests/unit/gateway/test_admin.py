"""The admin server: who may ask, and that each answer is one of its own."""

import asyncio
import threading
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from homeport.core.router import Router
from homeport.gateway import admin
from homeport.gateway.admin import Admin
from homeport.observe.explain import Explanation
from homeport.observe.snapshot import Snapshot, snapshot_of
from homeport.plugins.registry import POLICIES

TOKEN = {"authorization": "Bearer secret"}


class Gateway:
    """What the admin server asks. It may have a bug, and it may not answer at all."""

    has_bug = False

    def snapshot(self) -> Snapshot:
        assert not self.has_bug
        return snapshot_of(Router(POLICIES), 0)  # pyright: ignore[reportArgumentType]

    def explain(self, request_id: str) -> Explanation | None:
        return None

    def metrics_page(self) -> bytes:
        return b"homeport_x 1\n"


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def client(loop: asyncio.AbstractEventLoop, gateway: Gateway | None = None) -> TestClient:
    server = Admin(gateway or Gateway(), loop, "127.0.0.1", 9090, "secret")
    return TestClient(server.app(), base_url="http://127.0.0.1:9090", raise_server_exceptions=False)


def test_a_token_opens_all_but_what_probes_need(loop: asyncio.AbstractEventLoop) -> None:
    asks = client(loop)
    assert asks.get("/metrics").text == "homeport_x 1\n"
    assert asks.get("/healthz").status_code == 200
    assert asks.get("/readyz").status_code == 503  # there is no endpoint
    assert asks.get("/v1/snapshot").status_code == 401
    assert asks.get("/v1/snapshot", headers=TOKEN).json()["endpoints"] == []


@pytest.mark.parametrize("path", ["/metrics", "/v1/snapshot", "/nothing"])
def test_a_foreign_host_is_refused_everywhere(loop: asyncio.AbstractEventLoop, path: str) -> None:
    answer = client(loop).get(path, headers={"host": "evil.example"} | TOKEN)
    assert answer.status_code == 421
    assert "evil.example" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nothing", 404), ("POST", "/v1/snapshot", 405), ("GET", "/v1/explain/hp-1", 404)],
)
def test_what_is_not_there_is_told_in_json(
    loop: asyncio.AbstractEventLoop, method: str, path: str, status: int
) -> None:
    answer = client(loop).request(method, path, headers=TOKEN)
    assert answer.status_code == answer.json()["error"]["code"] == status


def test_a_bug_is_told_in_json_and_the_server_goes_on(loop: asyncio.AbstractEventLoop) -> None:
    gateway = Gateway()
    asks = client(loop, gateway)
    gateway.has_bug = True
    answer = asks.get("/v1/snapshot", headers=TOKEN)
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, 500)
    gateway.has_bug = False
    assert asks.get("/v1/snapshot", headers=TOKEN).status_code == 200


def test_a_gateway_too_busy_to_answer_is_not_harmed_by_who_gave_up(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "ANSWER_S_MAX", 0.01)
    errors: list[object] = []
    loop.set_exception_handler(lambda _, context: errors.append(context))
    goes_on, is_busy = threading.Event(), threading.Event()

    def hold() -> None:
        is_busy.set()
        goes_on.wait()

    loop.call_soon_threadsafe(hold)
    is_busy.wait()
    answer = client(loop).get("/metrics")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, 503)
    goes_on.set()
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()
    assert errors == []
