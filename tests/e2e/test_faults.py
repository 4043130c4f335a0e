"""Engines that fail, clients that leave, and bytes that are not HTTP."""

import json
import socket
import threading
import urllib.request
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI
from processes import MODEL, Engine, Gateway, until

HELLO: Any = [{"role": "user", "content": "hello there"}]
STREAMS = 200
POST = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n"


def snapshot(gateway: Gateway) -> dict[str, Any]:
    with urllib.request.urlopen(f"{gateway.admin}/v1/snapshot") as answer:
        return json.load(answer)


def running_at(engine: Engine) -> float:
    with urllib.request.urlopen(f"{engine.url}/metrics") as answer:
        page = answer.read().decode()
    row = next(r for r in page.splitlines() if r.startswith("vllm:num_requests_running{"))
    return float(row.split()[-1])


@pytest.mark.parametrize(
    "fault", ["status=500", "status=503", "reset", "close", "garbage", "close;cut=40"]
)
def test_a_failure_before_the_first_byte_is_answered_elsewhere(
    client: OpenAI, engines: list[Engine], fault: str
) -> None:
    for engine in engines:
        answer = client.chat.completions.create(
            model=MODEL,
            messages=HELLO,
            max_tokens=3,
            extra_headers={"x-sim-fail": fault, "x-sim-only": str(engine.port)},
        )
        assert answer.choices[0].message.content


def test_an_error_of_all_engines_is_the_engines_own(client: OpenAI) -> None:
    with pytest.raises(openai.InternalServerError) as told:
        client.chat.completions.create(
            model=MODEL, messages=HELLO, extra_headers={"x-sim-fail": "status=500"}
        )
    assert "asked for" in told.value.message


@pytest.mark.parametrize("fault", ["reset;at=3", "close;at=3", "close;at=3;cut=50"])
def test_a_stream_that_breaks_says_so(gateway: Gateway, fault: str) -> None:
    body = json.dumps({"model": MODEL, "messages": HELLO, "stream": True, "max_tokens": 20})
    request = urllib.request.Request(
        f"{gateway.url}/v1/chat/completions", body.encode(), {"x-sim-fail": fault}
    )
    with urllib.request.urlopen(request) as answer:
        events = [e for e in answer.read().decode().split("\n\n") if e]
    datas = [json.loads(event.removeprefix("data: ")) for event in events]
    assert "error" in datas[-1]
    assert sum(1 for data in datas if "choices" in data) >= 3


def test_the_sdk_raises_when_a_stream_breaks(client: OpenAI) -> None:
    chunks = client.chat.completions.create(
        model=MODEL,
        messages=HELLO,
        stream=True,
        max_tokens=20,
        extra_headers={"x-sim-fail": "reset;at=3"},
    )
    with pytest.raises(openai.APIError):
        list(chunks)


def test_a_client_that_leaves_a_silent_engine_frees_it(
    gateway: Gateway, engines: list[Engine]
) -> None:
    body = json.dumps({"model": MODEL, "messages": HELLO}).encode()
    head = f"{POST}x-sim-fail: silent\r\ncontent-length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", gateway.port)) as client:
        client.sendall(head.encode() + body)
        until(lambda: sum(running_at(e) for e in engines) == 1)
    until(lambda: sum(running_at(e) for e in engines) == 0)
    until(lambda: snapshot(gateway)["running"] == 0)


def test_a_client_that_only_closes_its_side_is_answered(gateway: Gateway) -> None:
    body = json.dumps({"model": MODEL, "messages": HELLO, "max_tokens": 3}).encode()
    head = f"{POST}x-sim-delay-ms: 100\r\ncontent-length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", gateway.port)) as client:
        client.sendall(head.encode() + body)
        client.shutdown(socket.SHUT_WR)
        answer = read_all(client)
    assert b"HTTP/1.1 200 OK" in answer
    assert b"completion_tokens" in answer


BAD = {
    "two hosts": (b"GET /v1/models HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", 400),
    "no host": (b"GET /v1/models HTTP/1.1\r\n\r\n", 400),
    "both lengths": (
        b"POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n"
        b"transfer-encoding: chunked\r\n\r\n{}",
        400,
    ),
    "unknown coding": (
        b"POST /v1/completions HTTP/1.1\r\nhost: a\r\ntransfer-encoding: identity, chunked\r\n\r\n",
        400,
    ),
    "not HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    "absolute form": (b"GET http://a/v1/models HTTP/1.1\r\nhost: a\r\n\r\n", 400),
    "upgrade": (
        b"GET /v1/models HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
        426,
    ),
    "headers without end": (b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"y" * 200_000, 431),
    "many headers": (b"GET / HTTP/1.1\r\nhost: a\r\n" + b"x: yyyyyyyyyyyyyy\r\n" * 9_000, 431),
    "told too large": (
        b"POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-length: 9999999\r\n\r\n",
        413,
    ),
    "unknown path": (b"GET /nowhere HTTP/1.1\r\nhost: a\r\n\r\n", 404),
    "wrong method": (b"GET /v1/completions HTTP/1.1\r\nhost: a\r\n\r\n", 405),
    "slow upload": (
        b"POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n{",
        408,
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_one_clear_answer(gateway: Gateway, name: str) -> None:
    sent, status = BAD[name]
    with socket.create_connection(("127.0.0.1", gateway.port)) as client:
        client.sendall(sent)
        answer = read_answer(client)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), head
    error = json.loads(body)["error"]
    assert error["message"]
    assert set(error) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"null",
        b'{"model": 1}',
        b'{"model": "sim"}',
        b'{"model": "sim", "messages": {}}',
        b'{"model": "sim", "model": "sim", "messages": []}',
        b'{"model": "sim", "messages": [], "stream": "yes"}',
        b"\xff\xfe",
    ],
)
def test_a_body_that_cannot_be_used_is_named(gateway: Gateway, body: bytes) -> None:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n"
    with socket.create_connection(("127.0.0.1", gateway.port)) as client:
        client.sendall(head % len(body) + body)
        answer = read_answer(client)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"] == "malformed"


def test_null_content_and_parts_reach_the_engine(client: OpenAI) -> None:
    messages: Any = [
        {"role": "user", "content": [{"type": "text", "text": "look"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": "done"},
    ]
    answer = client.chat.completions.create(model=MODEL, messages=messages, max_tokens=2)
    assert answer.choices[0].message.content


def read_all(client: socket.socket) -> bytes:
    pieces: list[bytes] = []
    client.settimeout(10)
    while piece := client.recv(65536):
        pieces.append(piece)
        if b"\r\n\r\n" in b"".join(pieces) and b"completion_tokens" in piece:
            break
    return b"".join(pieces)


def read_answer(client: socket.socket) -> bytes:
    """One answer with a length."""
    client.settimeout(10)
    data = b""
    while b"\r\n\r\n" not in data:
        data += client.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    told = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length"))
    while len(body) < int(told.split(b":")[1]):
        body += client.recv(65536)
    return head + b"\r\n\r\n" + body


class Stream(threading.Thread):
    """One client of a stream, and what it saw."""

    def __init__(self, gateway: Gateway, number: int) -> None:
        super().__init__(daemon=True)
        self.gateway = gateway
        self.number = number
        self.payload = b""
        self.problem: Exception | None = None

    def run(self) -> None:
        said = [{"role": "user", "content": f"{self.number} " * 30}]
        body = json.dumps({"model": MODEL, "messages": said, "stream": True, "max_tokens": 150})
        url = f"{self.gateway.url}/v1/chat/completions"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body.encode())) as answer:
                while piece := answer.read1(65536):
                    self.payload += piece
        except OSError as error:
            self.problem = error


def test_one_of_three_engines_is_killed_under_load(tmp_path: Path) -> None:
    engines = [Engine(0, "--decode-step-ms", "20") for _ in range(3)]
    gateway = Gateway(tmp_path, [engine.url for engine in engines], "health: {interval: 1s}")
    try:
        streams = [Stream(gateway, number) for number in range(STREAMS)]
        for stream in streams:
            stream.start()
        until(lambda: sum(bool(stream.payload) for stream in streams) > STREAMS / 3)
        engines[0].kill()
        for stream in streams:
            stream.join(60)
        whole = [s for s in streams if s.payload.endswith(b"data: [DONE]\n\n")]
        broken = [s for s in streams if s not in whole]
        assert broken, "some streams must have been cut"
        for stream in broken:
            assert stream.problem is None
            last = stream.payload.rstrip().rpartition(b"\n\n")[2]
            assert b'"error"' in last
            assert b"[DONE]" not in stream.payload
        until(lambda: snapshot(gateway)["running"] == 0)
        assert all(row["running"] == 0 for row in snapshot(gateway)["endpoints"])
        engines[0] = Engine(engines[0].port)
        took = until(lambda: served_by(gateway, engines[0].url), 15)
        assert took < 15
    finally:
        assert gateway.stop() == 0
        for engine in engines:
            engine.stop()


def served_by(gateway: Gateway, url: str) -> bool:
    body = json.dumps({"model": MODEL, "messages": HELLO, "max_tokens": 1}).encode()
    request = urllib.request.Request(f"{gateway.url}/v1/chat/completions", body)
    with urllib.request.urlopen(request) as answer:
        answer.read()
        return answer.headers["x-homeport-endpoint"] == url
