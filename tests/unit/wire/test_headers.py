import pytest

from homeport.wire.headers import (
    Pair,
    forwardable,
    response_headers,
    sane_request_id,
    session_hint,
)

PLAIN: list[Pair] = [
    (b"content-type", b"application/json"),
    (b"accept", b"*/*"),
    (b"x-session-id", b"s"),
    (b"traceparent", b"00-1"),
    (b"x-unknown", b"1"),
    (b"x-unknown", b"2"),
]


def test_ordinary_headers_go_on_in_their_order() -> None:
    assert forwardable(PLAIN, trusted=False) == (PLAIN, [])
    assert response_headers(PLAIN) == PLAIN


@pytest.mark.parametrize(
    "name",
    b"connection keep-alive proxy-authorization proxy-connection te trailer transfer-encoding "
    b"upgrade expect host content-length authorization x-api-key cookie x-request-id".split(),
)
def test_what_belongs_to_the_connection_or_the_caller_stops_here(name: bytes) -> None:
    for trusted in (False, True):
        assert forwardable([*PLAIN, (name, b"close")], trusted) == (PLAIN, [])


@pytest.mark.parametrize(
    "name",
    b"x-data-parallel-rank x-prefiller-host-port x-encoder-host x-kv-cache-hint x-gateway-mode "
    b"x-llm-d-inference-objective x-llm-d-inference-fairness-id".split(),
)
def test_reserved_headers_pass_only_from_trusted_peers(name: bytes) -> None:
    pair = (name, b"1")
    assert forwardable([pair, *PLAIN], trusted=False) == (PLAIN, [name])
    assert forwardable([pair, *PLAIN], trusted=True) == ([pair, *PLAIN], [])


def test_what_is_said_to_us_ends_here() -> None:
    tenant = (b"x-homeport-tenant", b"acme")
    assert forwardable([tenant, *PLAIN], trusted=False) == (PLAIN, [b"x-homeport-tenant"])
    assert forwardable([tenant, *PLAIN], trusted=True) == (PLAIN, [])


def test_everybody_may_say_how_long_an_answer_is_of_use() -> None:
    deadline = (b"x-homeport-deadline-ms", b"500")
    slo = (b"x-llm-d-slo-ttft-ms", b"500")
    assert forwardable([deadline, slo], trusted=False) == ([slo], [])


def test_connection_names_further_headers() -> None:
    headers = [(b"x-hop", b"1"), (b"connection", b"Close, X-Hop"), *PLAIN]
    assert forwardable(headers, trusted=False) == (PLAIN, [])
    assert response_headers(headers) == PLAIN


@pytest.mark.parametrize(
    "name",
    b"connection keep-alive proxy-authenticate trailer transfer-encoding upgrade content-length "
    b"server set-cookie x-request-id x-homeport-reason access-control-allow-origin alt-svc".split(),
)
def test_what_an_engine_may_not_say_to_a_client(name: bytes) -> None:
    assert response_headers([(name, b"x"), *PLAIN]) == PLAIN


def test_the_session_is_named_by_the_most_deliberate_header() -> None:
    weak, strong = (b"x-correlation-id", b"c"), (b"session-id", b"s")
    assert session_hint([weak]) == b"c"
    assert session_hint([weak, strong]) == b"s"
    assert session_hint([strong, weak]) == b"s"
    assert session_hint([(b"x-claude-code-session-id", b"k"), weak]) == b"k"
    assert session_hint([(b"accept", b"*/*")]) is None


@pytest.mark.parametrize("value", [b"", b"a b", b"\x00", b"\xff", b"x" * 257, b"a\n"])
def test_a_session_name_that_is_not_sane_is_passed_over(value: bytes) -> None:
    assert session_hint([(b"session-id", value)]) is None
    assert session_hint([(b"session-id", value), (b"x-session-id", b"s")]) == b"s"


def test_a_session_name_has_at_most_256_bytes() -> None:
    assert session_hint([(b"session-id", b"x" * 256)]) == b"x" * 256


def test_request_ids_are_short_and_plain() -> None:
    assert sane_request_id(b"my.Req_1:a-b")
    assert sane_request_id(b"x" * 128)
    for value in (b"", b"x" * 129, b"a b", b"a\n", b"\xc3\xa9", b"a/b"):
        assert not sane_request_id(value)
