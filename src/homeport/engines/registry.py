"""The dialects that there are, by the name that config gives them."""

from difflib import get_close_matches
from typing import Final

from homeport.engines.adapter import Dialect
from homeport.engines.openai import OpenAI
from homeport.engines.vllm import Vllm

DIALECTS: Final[tuple[Dialect, ...]] = (Vllm(), OpenAI())


class UnknownDialect(ValueError):
    """Config names a dialect that there is not."""


def dialect(name: str) -> Dialect:
    """The dialect called `name`."""
    for known in DIALECTS:
        if known.name == name:
            return known
    names = [known.name for known in DIALECTS]
    nearest = get_close_matches(name.lower(), names, n=1)
    hint = f"; did you mean {nearest[0]!r}?" if nearest else ""
    raise UnknownDialect(f"expected a dialect ({', '.join(names)}), found {name!r}{hint}")
