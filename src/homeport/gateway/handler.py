"""What is done with a whole request: who calls, what is asked, and off to the router."""

import os
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from homeport.cluster.driver import Driver
from homeport.core.event import RequestRefused
from homeport.core.exchange import Exchange, Patience
from homeport.core.ids import Bytes, EndpointId, ModelName, RequestId, SessionId, TenantName
from homeport.core.refusal import Reason, Refusal
from homeport.core.request import Request
from homeport.gateway.auth import UNAUTHENTICATED, Tenants, TrustedPeers
from homeport.gateway.http import Incoming, status_line
from homeport.gateway.relay import Call, Relay, Target
from homeport.gateway.server import ServerConnection
from homeport.wire.body import BodyError
from homeport.wire.headers import forwardable, sane_request_id, session_hint
from homeport.wire.openai import Facts, Kind, facts_of
from homeport.wire.status import error_body, refusal_head

CALLS: Mapping[str, Kind] = {"/v1/chat/completions": "chat", "/v1/completions": "completions"}
MODELS = "/v1/models"


class Counters:
    """What the gateway counts itself, since the router never hears of it."""

    def __init__(self) -> None:
        self.stripped_fields: dict[str, int] = {}
        self.stripped_headers = 0


class Identity(Struct, frozen=True, gc=False):
    """The names of one request: ours, and the client's own."""

    id: RequestId
    answer_lines: bytes


class Handler:
    """Requests of all connections. It answers what needs no engine and relays the rest."""

    def __init__(
        self,
        driver: Driver,
        targets: dict[EndpointId, Target],
        tenants: Tenants,
        trusted: TrustedPeers,
        patience: Patience,
        secret: bytes,
    ) -> None:
        self.driver = driver
        self.targets = targets
        self.tenants = tenants
        self.trusted = trusted
        self.patience = patience
        self.secret = secret
        self.relays: set[Relay] = set()
        self.counters = Counters()
        self.id_prefix = os.urandom(6).hex()
        self.count = 0

    def handle(self, incoming: Incoming, connection: ServerConnection) -> None:
        identity = self.identify(incoming)
        path = incoming.path
        if path in CALLS:
            if incoming.method != "POST":
                self.refuse(incoming, connection, identity, wrong_method(incoming, "POST"))
            else:
                self.call(incoming, connection, identity)
        elif path == MODELS or path.startswith(MODELS + "/"):
            self.models(incoming, connection, identity)
        else:
            message = f"There is nothing at {path}. Calls are answered at {', '.join(CALLS)}."
            refusal = Refusal(Reason.UNKNOWN_PATH, message)
            self.refuse(incoming, connection, identity, refusal)

    def identify(self, incoming: Incoming) -> Identity:
        self.count += 1
        ours = f"hp-{self.id_prefix}-{self.count:x}"
        theirs = incoming.header(b"x-request-id")
        if theirs is None or not sane_request_id(theirs):
            theirs = ours.encode()
        lines = b"x-homeport-request-id: %b\r\nx-request-id: %b\r\n" % (ours.encode(), theirs)
        return Identity(RequestId(ours), lines)

    # Calls that an engine answers.

    def call(self, incoming: Incoming, connection: ServerConnection, identity: Identity) -> None:
        tenant = self.tenants.of(incoming.headers)
        if tenant is None:
            self.refuse(incoming, connection, identity, UNAUTHENTICATED)
            return
        try:
            facts = facts_of(CALLS[incoming.path], incoming.body, self.secret)
        except BodyError as error:
            refusal = Refusal(Reason.MALFORMED, error.message, error.param)
            self.refuse(incoming, connection, identity, refusal, tenant)
            return
        is_trusted = self.trusted.has(connection.peer)
        exchange = Exchange(self.request_of(incoming, facts, identity, tenant), self.patience)
        call = Call(
            incoming=incoming,
            facts=facts,
            head_lines=self.head_lines(incoming, facts, identity, is_trusted),
            answer_lines=identity.answer_lines,
            is_trusted=is_trusted,
        )
        Relay(call, exchange, connection, self.driver, self.targets, self.relays).start()

    def request_of(
        self, incoming: Incoming, facts: Facts, identity: Identity, tenant: TenantName
    ) -> Request:
        hint = session_hint(incoming.headers)
        session = facts.session if hint is None else hint.decode("ascii")
        return Request(
            id=identity.id,
            tenant=tenant,
            model=ModelName(facts.model),
            prompt=facts.prompt,
            session=None if session is None else SessionId(session),
            body_bytes=Bytes(len(incoming.body)),
            stream=facts.is_stream,
        )

    def head_lines(
        self, incoming: Incoming, facts: Facts, identity: Identity, is_trusted: bool
    ) -> bytes:
        """What any engine gets: the client's headers without secrets, and an id of ours."""
        kept, stripped = forwardable(incoming.headers, is_trusted)
        self.counters.stripped_headers += len(stripped)
        for field in facts.reserved:
            fields = self.counters.stripped_fields
            fields[field] = fields.get(field, 0) + 1
        lines = [b"%b: %b\r\n" % pair for pair in kept]
        lines.append(b"x-request-id: %b\r\n" % identity.id.encode())
        return b"".join(lines)

    # What needs no engine.

    def models(self, incoming: Incoming, connection: ServerConnection, identity: Identity) -> None:
        if incoming.method != "GET":
            self.refuse(incoming, connection, identity, wrong_method(incoming, "GET"))
        elif self.tenants.of(incoming.headers) is None:
            self.refuse(incoming, connection, identity, UNAUTHENTICATED)
        else:
            self.list_models(incoming, connection, identity)

    def list_models(
        self, incoming: Incoming, connection: ServerConnection, identity: Identity
    ) -> None:
        served = [m for m, mask in self.driver.router.fleet.serving.items() if mask]
        asked = incoming.path[len(MODELS) + 1 :]
        if asked and asked not in served:
            refusal = self.driver.router.unknown_model(ModelName(asked))
            self.refuse(incoming, connection, identity, refusal)
            return
        rows = [model_row(model) for model in served]
        whole = model_row(asked) if asked else {"object": "list", "data": rows}
        body = msgspec.json.encode(whole)
        head = b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body)
        closing = b"" if incoming.keeps_alive else b"connection: close\r\n"
        lines = status_line(200) + head + closing + identity.answer_lines
        connection.write(lines + b"\r\n" + body)
        connection.finish(incoming.keeps_alive)

    # Refusals.

    def refuse(
        self,
        incoming: Incoming,
        connection: ServerConnection,
        identity: Identity,
        refusal: Refusal,
        tenant: TenantName | None = None,
    ) -> None:
        """Refuse a request that the router never saw; it is told, so that `explain` knows."""
        self.driver.feed(RequestRefused(identity.id, tenant, None, refusal))
        body = error_body(refusal)
        lines = [] if incoming.keeps_alive else [(b"connection", b"close")]
        head = refusal_head(refusal, len(body), lines)
        connection.write(head[:-2] + identity.answer_lines + b"\r\n" + body)
        connection.finish(incoming.keeps_alive)

    def refused(self, refusal: Refusal) -> None:
        """Refuse what never became a request."""
        self.count += 1
        request_id = RequestId(f"hp-{self.id_prefix}-{self.count:x}")
        self.driver.feed(RequestRefused(request_id, None, None, refusal))


def model_row(model: str) -> dict[str, object]:
    return {"id": model, "object": "model", "created": 0, "owned_by": "homeport"}


def wrong_method(incoming: Incoming, expected: str) -> Refusal:
    message = f"{incoming.path} expects {expected}, found {incoming.method}."
    return Refusal(Reason.UNKNOWN_METHOD, message)
