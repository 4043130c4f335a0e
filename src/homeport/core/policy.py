"""What a placement policy is given and what it gives back."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from homeport.core.endpoint import Slot


class Load(Protocol):
    """The fleet's books, read-only, in columns by slot."""

    @property
    def running(self) -> Sequence[int]:
        """Requests dispatched and not ended, and those that others sent there."""
        ...

    @property
    def committed_tokens(self) -> Sequence[int]:
        """Context of live sessions at home there."""
        ...

    @property
    def live_sessions(self) -> Sequence[int]: ...

    @property
    def kv_tokens(self) -> Sequence[int]: ...

    @property
    def prefill_rate(self) -> Sequence[float]:
        """Believed tokens per second at short context."""
        ...

    @property
    def step_s(self) -> Sequence[float]:
        """Believed seconds per output token."""
        ...


class Situation(Protocol):
    """One request and the endpoints that could take it. `slots`, `hits` and `waits` are aligned."""

    @property
    def slots(self) -> Sequence[Slot]: ...

    @property
    def hits(self) -> Sequence[int]:
        """Prompt tokens that the endpoint is believed to hold."""
        ...

    @property
    def waits(self) -> Sequence[float]:
        """Seconds of prefill that stand before this request there."""
        ...

    @property
    def prompt_tokens(self) -> int: ...

    @property
    def home(self) -> Slot | None:
        """Where this session's context is; None for a first turn."""
        ...

    @property
    def own_tokens(self) -> int:
        """What this session already has committed at its home."""
        ...

    @property
    def typical_tokens(self) -> float:
        """A slowly moving mean of prompt lengths."""
        ...

    @property
    def fleet_rate(self) -> float:
        """Prefill tokens per second of a typical endpoint."""
        ...

    @property
    def turn(self) -> int:
        """How many requests for this model were placed before."""
        ...

    @property
    def load(self) -> Load: ...


class Priced(NamedTuple):
    """What the endpoints of a situation cost."""

    costs: list[float]
    """For each of `situation.slots`, in seconds."""
    terms_of: Callable[[int], tuple[float, ...]]
    """What the cost at this place of `situation.slots` is made of: terms that add up to it."""


def priced_by_one_term(costs: list[float]) -> Priced:
    def terms_of(place: int) -> tuple[float, ...]:
        return (costs[place],)

    return Priced(costs, terms_of)


class Policy(Protocol):
    """A pure function of the situation. Lower cost wins; equal costs are settled by seeded dice."""

    @property
    def name(self) -> str: ...

    @property
    def terms(self) -> tuple[str, ...]:
        """What a cost is made of, by name."""
        ...

    def price(self, situation: Situation) -> Priced: ...
