"""One step of the router: what happened, when, and what followed. The journal is made of these."""

from msgspec import Struct

from homeport.core.command import Command
from homeport.core.event import Event
from homeport.core.ids import Instant


class Record(Struct, frozen=True, gc=False, array_like=True):
    sequence: int
    at: Instant
    event: Event
    commands: list[Command]
