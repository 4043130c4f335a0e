"""The config as typed values: what it can say, and what it means when it does not say it.

Every default and every description lives here alone; the JSON Schema and the reference are made
from these classes. Durations are whole microseconds, sizes bytes, and `None` is an absent value.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from homeport.config.kind import GIB, KIB, MIB, Address
from homeport.core.ids import (
    MICROS_PER_SECOND,
    Bytes,
    EndpointId,
    Micros,
    ModelName,
    TenantName,
    Tokens,
)


def _is(kind: str, description: str, *words: str, least: int | None = None) -> Meta:
    """How the value is written in the file, and what it is for."""
    extra: dict[str, object] = {"x-kind": kind}
    if words:
        extra["x-words"] = list(words)
    if least is not None:
        extra["x-least"] = least
    return Meta(description=description, extra_json_schema=extra)


def _s(duration_s: int) -> Micros:
    return Micros(duration_s * MICROS_PER_SECOND)


class Limits(Struct, frozen=True, forbid_unknown_fields=True):
    """What the gateway holds at most."""

    body_bytes: Annotated[
        Bytes, _is("size", "Largest request body, counted decompressed.", least=1)
    ] = Bytes(64 * MIB)
    header_bytes: Annotated[Bytes, _is("size", "Largest header section.", least=1)] = Bytes(
        64 * KIB
    )
    connections: Annotated[int, _is("count", "Client connections at one time.", least=1)] = 20_000


class Timeouts(Struct, frozen=True, forbid_unknown_fields=True):
    """How long the gateway waits for each thing."""

    connect: Annotated[
        Micros, _is("duration", "For an engine to accept the connection.", least=1)
    ] = _s(2)
    first_byte: Annotated[
        Micros, _is("duration", "From the request sent to the answer's first byte.", least=1)
    ] = _s(600)
    between_bytes: Annotated[
        Micros, _is("duration", "Silence of an engine amid an answer.", least=1)
    ] = _s(120)
    total: Annotated[
        Micros | None, _is("duration", "The whole request, queue included.", "none", least=1)
    ] = None
    client_stall: Annotated[
        Micros, _is("duration", "For a client that does not read its answer.", least=1)
    ] = _s(60)
    upload: Annotated[
        Micros, _is("duration", "For the whole request to have arrived.", least=1)
    ] = _s(120)
    idle: Annotated[
        Micros, _is("duration", "For a client connection with no request on it.", least=1)
    ] = _s(75)


class Gateway(Struct, frozen=True, forbid_unknown_fields=True):
    """Where clients come in."""

    listen: Annotated[Address, _is("address", "Where clients connect.")] = Address(
        "127.0.0.1", 8080
    )
    limits: Limits = Limits()
    timeouts: Timeouts = Timeouts()
    trusted_peers: tuple[
        Annotated[str, _is("peer", "Who may set routing headers and see who answered.")],
        ...,
    ] = ()


class Admin(Struct, frozen=True, forbid_unknown_fields=True):
    """Where operators look in: health, metrics, explain."""

    listen: Annotated[Address, _is("address", "Where operators connect.")] = Address(
        "127.0.0.1", 9090
    )
    token_env: Annotated[
        str,
        _is(
            "variable",
            "Variable with the token that all but health and metrics then ask for. "
            "It must be set when not on loopback.",
        ),
    ] = "HOMEPORT_ADMIN_TOKEN"


class Engine(Struct, frozen=True, forbid_unknown_fields=True):
    """An engine that runs elsewhere."""

    url: Annotated[EndpointId, _is("engine_url", "Where it listens, without a path.")]
    model: Annotated[ModelName, _is("text", "What clients ask for.")]
    served_as: Annotated[
        str | None, _is("text", "What the engine calls the model, when different.")
    ] = None
    dialect: Annotated[
        Literal["vllm", "openai"], Meta(description="What the engine speaks beside the API.")
    ] = "vllm"
    accelerator: Annotated[str | None, _is("text", "What it runs on.")] = None
    kv_tokens: Annotated[
        Tokens | Literal["auto"],
        _is("count", "Size of its cache in tokens, for engines that do not tell.", "auto", least=1),
    ] = "auto"
    max_running: Annotated[
        int | Literal["auto"],
        _is("count", "Requests that it runs at one time.", "auto", least=1),
    ] = "auto"
    api_key_env: Annotated[
        str | None, _is("variable", "Variable with the key that the engine asks for.")
    ] = None


class Health(Struct, frozen=True, forbid_unknown_fields=True):
    """When an engine counts as gone, and as back."""

    path: Annotated[str, _is("url_path", "What is asked; `auto` suits the dialect.", "auto")] = (
        "auto"
    )
    interval: Annotated[Micros, _is("duration", "Between two questions.", least=1)] = _s(5)
    failures: Annotated[int, _is("count", "Failures in a row until it is gone.", least=1)] = 3
    recover: Annotated[int, _is("count", "Answers in a row until it is back.", least=1)] = 2


class TenantKey(Struct, frozen=True, forbid_unknown_fields=True):
    """A key by its hash: the key itself stays with the tenant."""

    sha256: Annotated[str, _is("sha256", "Hash of the key, as `homeport key new` prints it.")]


class Tenant(Struct, frozen=True, forbid_unknown_fields=True):
    """Somebody who sends requests and shares the fleet with the others."""

    name: Annotated[TenantName, _is("text", "Its name in metrics and explanations.")]
    keys: tuple[TenantKey, ...] = ()
    anonymous: Annotated[bool, Meta(description="Takes the calls that bring no key.")] = False


class Flow(Struct, frozen=True, forbid_unknown_fields=True):
    """What waits when every engine is full."""

    queued: Annotated[int, _is("count", "Requests that wait at most.", least=0)] = 5000
    queued_bytes: Annotated[Bytes, _is("size", "Bytes of bodies that wait at most.", least=0)] = (
        Bytes(GIB)
    )
    wait: Annotated[Micros, _is("duration", "How long one waits before refusal.", least=1)] = _s(60)
    running_per_endpoint: Annotated[
        int | Literal["auto"],
        _is("count", "Requests given to one engine at a time.", "auto", least=1),
    ] = "auto"


class Routing(Struct, frozen=True, forbid_unknown_fields=True):
    """Which engine gets a request."""

    policy: Annotated[
        Literal["homeport", "round_robin", "least_requests"],
        Meta(description="How the endpoint is chosen."),
    ] = "homeport"
    seed: Annotated[int, _is("count", "Seed of the dice that break ties.", least=0)] = 0


class Sessions(Struct, frozen=True, forbid_unknown_fields=True):
    """How long a conversation keeps its place."""

    hold: Annotated[
        Micros | Literal["auto"],
        _is("duration", "After its last turn; `auto` is five minutes.", "auto", least=1),
    ] = "auto"


class Journal(Struct, frozen=True, forbid_unknown_fields=True):
    """Every event and command, on disk."""

    path: Annotated[str, _is("text", "The file; the one of the run before becomes `.old`.")]
    keep: Annotated[
        Micros, _is("duration", "Age at which files that are no longer written go.", least=1)
    ] = _s(86_400)
    bytes: Annotated[
        Bytes, _is("size", "Size of both its files: the one written and the one before.", least=1)
    ] = Bytes(2 * GIB)
    secret_env: Annotated[
        str | None, _is("variable", "Variable with the secret that seeds the hashes of prompts.")
    ] = None


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """A fleet and how it is served."""

    engines: Annotated[tuple[Engine, ...], Meta(min_length=1)]
    api_version: Annotated[
        Literal["homeport/v1"], Meta(description="The version of this format.")
    ] = field(name="apiVersion", default="homeport/v1")
    kind: Annotated[Literal["Fleet"], Meta(description="What the file describes.")] = "Fleet"
    gateway: Gateway = Gateway()
    admin: Admin = Admin()
    health: Health = Health()
    tenants: tuple[Tenant, ...] = ()
    flow: Flow = Flow()
    routing: Routing = Routing()
    sessions: Sessions = Sessions()
    journal: Journal | None = None


NOT_YET = frozenset(
    (
        *(
            "admission",
            "pass_through",
            "backoff",
            "band",
            "bands",
            "cors",
            "discovery",
            "fleet",
            "group",
        ),
        *("isolate_cache", "kv_events", "limits", "models", "prices", "prompts", "responses"),
        *("revision", "role", "router", "session_hash", "sglang", "standby", "tls", "weight"),
        *("weighted", "workers"),
    )
)
"""Words of the format that this version does not know: nobody should be told that they misspelt."""
