"""Which headers go on, and which stop here. Names are lower-case bytes throughout.

Three kinds stop here: those that belong to one connection, those that are the caller's secrets, and
those that mean something to Homeport or to an engine's insides and are not the caller's to set.
"""

import re
from collections.abc import Sequence

Pair = tuple[bytes, bytes]

HOP_BY_HOP = frozenset(
    b"connection keep-alive te trailer transfer-encoding upgrade http2-settings".split()
)
REQUEST_ONLY = frozenset(
    b"host content-length expect authorization x-api-key api-key cookie x-request-id".split()
)
ANSWER_ONLY = frozenset(b"content-length server set-cookie x-request-id alt-svc".split())
STOPPED_BEFORE_ENGINE = HOP_BY_HOP | REQUEST_ONLY
STOPPED_BEFORE_CLIENT = HOP_BY_HOP | ANSWER_ONLY

OURS = b"x-homeport-"
PROXY = b"proxy-"
RESERVED = (
    b"x-data-parallel-",
    b"x-prefiller-",
    b"x-encoder-",
    b"x-kv-cache-",
    b"x-gateway-",
    b"x-llm-d-",
    OURS,
)
ANYONES = frozenset(b"x-homeport-deadline-ms x-llm-d-slo-ttft-ms x-llm-d-slo-tpot-ms".split())
"""Reserved by their prefix, but everybody may say how long an answer is still of use."""

REQUEST_PREFIXES = (PROXY, *RESERVED)
ANSWER_PREFIXES = (PROXY, OURS, b"access-control-")
"""The gateway decides for itself who may read its answers from another origin."""

SESSION_HINTS = {
    name: rank
    for rank, name in enumerate(
        (
            b"session-id",
            b"session_id",
            b"x-session-id",
            b"x-session-affinity",
            b"x-claude-code-session-id",
            b"x-correlation-id",
        )
    )
}
"""Headers by which agents name their session, the most deliberate first."""
SESSION = re.compile(rb"[\x21-\x7e]{1,256}")
REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
NAMES_NOTHING = frozenset((b"", b",keep-alive", b",close"))


def forwardable(headers: Sequence[Pair], trusted: bool) -> tuple[list[Pair], list[bytes]]:
    """What goes on to the engine, and the names of reserved headers that a client may not set.

    `x-homeport-` headers end here in any case: they speak to us.
    """
    kept: list[Pair] = []
    stripped: list[bytes] = []
    connection = b""
    for pair in headers:
        name = pair[0]
        if name in STOPPED_BEFORE_ENGINE:
            if name == b"connection":
                connection += b"," + pair[1]
        elif not name.startswith(REQUEST_PREFIXES):
            kept.append(pair)
        elif not name.startswith(PROXY):
            if not trusted and name not in ANYONES:
                stripped.append(name)
            elif not name.startswith(OURS):
                kept.append(pair)
    return _without_named(kept, connection), stripped


def response_headers(headers: Sequence[Pair]) -> list[Pair]:
    """What goes on to the client. Framing and `x-request-id` are set by the gateway itself."""
    kept: list[Pair] = []
    connection = b""
    for pair in headers:
        name = pair[0]
        if name in STOPPED_BEFORE_CLIENT:
            if name == b"connection":
                connection += b"," + pair[1]
        elif not name.startswith(ANSWER_PREFIXES):
            kept.append(pair)
    return _without_named(kept, connection)


def session_hint(headers: Sequence[Pair]) -> bytes | None:
    """The session's name by the first of the known headers that has a sane value."""
    hint, rank = None, len(SESSION_HINTS)
    for name, value in headers:
        this = SESSION_HINTS.get(name, rank)
        if this < rank and SESSION.fullmatch(value):
            hint, rank = value, this
    return hint


def sane_request_id(value: bytes) -> bool:
    """Whether a client's id may appear in logs and answers as it is."""
    return REQUEST_ID.fullmatch(value) is not None


def _without_named(kept: list[Pair], connection: bytes) -> list[Pair]:
    """Without the headers that `Connection` names as its own."""
    connection = connection.lower()
    if connection in NAMES_NOTHING:
        return kept
    named = {name.strip() for name in connection.split(b",")}
    return [pair for pair in kept if pair[0] not in named]
