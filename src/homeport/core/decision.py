"""A decision, told so that a person can follow it afterwards."""

from msgspec import Struct

from homeport.core.ids import EndpointId, Tokens

CONSIDERED_MAX = 3
"""How many endpoints a decision remembers, best first."""


class Considered(Struct, frozen=True, gc=False, array_like=True):
    """One endpoint that could have been chosen: what it would cost and why, in seconds."""

    endpoint: EndpointId
    cost_s: float
    cached_tokens: Tokens
    scores: tuple[float, ...]
    """In the order of the decision's `terms`; they add up to the cost."""


class Decision(Struct, frozen=True, gc=False, array_like=True):
    """Where a request goes. `dropped` counts the endpoints that each filter took out."""

    policy: str
    terms: tuple[str, ...]
    winner: EndpointId
    prompt_tokens: Tokens
    predicted_cached_tokens: Tokens
    predicted_wait_s: float
    considered: tuple[Considered, ...]
    dropped: dict[str, int]
    session: str | None = None
    home: EndpointId | None = None
    is_last_resort: bool = False
    """Nobody who could take it seemed to work, so all were used."""
    moved: str | None = None
    """Why the session left its home; None when it stayed or had none."""
