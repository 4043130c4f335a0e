"""`homeport explain`: why a request was queued, refused, and placed where it was."""

import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from homeport.observe.explain import Explanation, Told, explain_from
from homeport.observe.journal import JournalError, parts_of, read

FAILED = 1
WAIT_S = 10.0


class NotTold(Exception):
    """There is no explanation to be had; the message says why."""


def explain(
    request_id: Annotated[str, typer.Argument(help="From `x-homeport-request-id`.")],
    admin: Annotated[str, typer.Option(help="The admin server.")] = "http://127.0.0.1:9090",
    token_env: Annotated[str, typer.Option(help="Variable with its token.")] = (
        "HOMEPORT_ADMIN_TOKEN"
    ),
    journal: Annotated[Path | None, typer.Option(help="Read a journal instead.")] = None,
    json: Annotated[bool, typer.Option("--json", help="For machines.")] = False,
) -> None:
    """Why a request was queued, refused, and placed where it was."""
    try:
        if journal is None:
            found = from_admin(request_id, admin, os.environ.get(token_env))
        else:
            found = from_journal(request_id, journal)
    except NotTold as error:
        print(f"homeport explain: {error}", file=sys.stderr)
        raise typer.Exit(FAILED) from None
    if json:
        print(msgspec.json.encode(found).decode())
    else:
        tell(found, Console(markup=False, highlight=False))


def from_admin(request_id: str, admin: str, token: str | None) -> Explanation:
    url = f"{admin.rstrip('/')}/v1/explain/{request_id}"
    request = urllib.request.Request(url)
    if token:
        request.add_header("authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
            return msgspec.json.decode(answer.read(), type=Explanation)
    except urllib.error.HTTPError as error:
        raise NotTold(message_of(error)) from None
    except (OSError, ValueError) as error:
        raise NotTold(f"cannot ask {admin}: {error}. Is it running there?") from None


def message_of(error: urllib.error.HTTPError) -> str:
    try:
        body = msgspec.json.decode(error.read(), type=dict[str, dict[str, object]])
        return str(body["error"]["message"])
    except (msgspec.MsgspecError, KeyError):
        return f"the admin server answered {error.code}"


def from_journal(request_id: str, path: Path) -> Explanation:
    try:
        found = explain_from(read(parts_of(path)), request_id)
    except (JournalError, OSError) as error:
        raise NotTold(str(error)) from None
    if found is None:
        raise NotTold(f"no request {request_id!r} in {path}.")
    return found


def tell(found: Explanation, console: Console) -> None:
    """The story, for a person."""
    who = f"tenant {found.tenant or '?'}, model {found.model or '?'}"
    console.print(f"{found.request_id}: {found.outcome} ({who})")
    if found.refusal is not None:
        console.print(f"refused: {found.refusal.reason}: {found.refusal.message}")
    if found.waited_for is not None:
        console.print(f"queued {found.queued_s:.3f} s: {found.waited_for}")
    for moment in found.timeline:
        console.print(f"  {moment.at_s:9.3f} s  {moment.event}")
    for told in found.attempts:
        tell_decision(told, console)
    if found.reported_cached_tokens is not None and found.decision is not None:
        predicted = found.decision.predicted_cached_tokens
        console.print(
            f"cached tokens: predicted {predicted}, reported {found.reported_cached_tokens}"
        )


def tell_decision(told: Told, console: Console) -> None:
    home = f", home {told.home}" if told.home else ", no home yet"
    moved = f", left it: {told.moved}" if told.moved else ""
    console.print(f"\npolicy {told.policy}: {told.winner}{home}{moved}")
    for name, count in told.dropped.items():
        console.print(f"  {count} endpoint(s) dropped by: {name}")
    terms = list(told.considered[0].scores) if told.considered else []
    table = Table("endpoint", "cost s", "cached", *terms)
    for row in told.considered:
        scores = [f"{value:.4g}" for value in row.scores.values()]
        table.add_row(row.endpoint, f"{row.cost_s:.4g}", str(row.cached_tokens), *scores)
    console.print(table)
