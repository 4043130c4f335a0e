from collections.abc import Callable

import httpx2
import msgspec
import openai
import pytest

from homeport.core.refusal import Reason, Refusal
from homeport.wire.status import CONNECTION_CLOSE, TABLE, error_body, refusal_head, status_of

FULL = Refusal(Reason.QUEUE_FULL, "the queue is full", retry_after_s=3)
SDK_ERRORS: dict[int, type[openai.APIStatusError]] = {
    400: openai.BadRequestError,
    401: openai.AuthenticationError,
    404: openai.NotFoundError,
    429: openai.RateLimitError,
    500: openai.InternalServerError,
    502: openai.InternalServerError,
    503: openai.InternalServerError,
    504: openai.InternalServerError,
}


@pytest.fixture(scope="module")
def error_of() -> Callable[[Refusal], openai.APIStatusError]:
    """What the official client raises for a refusal."""
    refusals: list[Refusal] = []

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(status_of(refusals[-1].reason), content=error_body(refusals[-1]))

    transport = httpx2.MockTransport(answer)
    client = openai.OpenAI(
        api_key="k", max_retries=0, http_client=httpx2.Client(transport=transport)
    )

    def ask(refusal: Refusal) -> openai.APIStatusError:
        refusals.append(refusal)
        with pytest.raises(openai.APIStatusError) as raised:
            client.models.list()
        return raised.value

    return ask


def test_every_reason_has_a_row() -> None:
    assert list(TABLE) == list(Reason)


@pytest.mark.parametrize("reason", Reason)
def test_the_official_client_raises_its_own_exception(
    reason: Reason, error_of: Callable[[Refusal], openai.APIStatusError]
) -> None:
    error = error_of(Refusal(reason, "a sentence", param="model"))
    assert type(error) is SDK_ERRORS.get(status_of(reason), openai.APIStatusError)
    assert error.code == TABLE[reason].code
    assert error.type == TABLE[reason].type
    assert error.param == "model"
    assert "a sentence" in error.message


@pytest.mark.parametrize("reason", Reason)
def test_a_clients_mistake_is_4xx_and_ours_is_5xx(reason: Reason) -> None:
    row = TABLE[reason]
    assert (row.type == "server_error") == (row.status >= 500)
    assert (row.type == "rate_limit_error") == (row.status == 429)


def test_the_body_is_one_line_of_json() -> None:
    body = error_body(Refusal(Reason.UNKNOWN_MODEL, 'no "x"\n', param="model"))
    assert b"\n" not in body
    assert msgspec.json.decode(body) == {
        "error": {
            "message": 'no "x"\n',
            "type": "invalid_request_error",
            "param": "model",
            "code": "model_not_found",
        }
    }


def test_the_head_says_why_and_when_to_come_back() -> None:
    assert refusal_head(FULL, 7, [(b"x-request-id", b"r1")]) == (
        b"HTTP/1.1 429 Too Many Requests\r\n"
        b"content-type: application/json\r\n"
        b"content-length: 7\r\n"
        b"x-homeport-reason: queue_full\r\n"
        b"retry-after: 3\r\n"
        b"x-request-id: r1\r\n\r\n"
    )


def test_waiting_is_advised_only_where_it_helps() -> None:
    assert b"retry-after" not in refusal_head(Refusal(Reason.QUEUE_FULL, ""), 0)
    assert b"retry-after" not in refusal_head(Refusal(Reason.UNKNOWN_PATH, "", retry_after_s=3), 0)


def test_the_connection_closes_where_it_cannot_be_used_further() -> None:
    bad = Refusal(Reason.BAD_HTTP, "")
    assert b"\r\nconnection: close\r\n" in refusal_head(bad, 0)
    assert refusal_head(bad, 0, [CONNECTION_CLOSE]).count(b"connection") == 1
    assert b"connection" not in refusal_head(FULL, 0)
    assert b"\r\nconnection: close\r\n" in refusal_head(FULL, 0, [CONNECTION_CLOSE])


def test_statuses_that_call_for_a_header_have_it() -> None:
    assert b"www-authenticate: Bearer\r\n" in refusal_head(Refusal(Reason.UNAUTHENTICATED, ""), 0)
    assert b"upgrade: HTTP/1.1\r\n" in refusal_head(Refusal(Reason.UPGRADE, ""), 0)
