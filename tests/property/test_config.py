"""Any text is a config or a list of problems, never anything else."""

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from homeport.config.load import parse
from homeport.config.problem import ConfigError

WORDS = st.sampled_from(
    ["engines", "url", "model", "gateway", "listen", ":", "-", "{", "}", "[", "]", "\n", "  ", "1"]
)


@settings(max_examples=150, derandomize=True, deadline=None)
@given(st.one_of(st.text(max_size=80), st.lists(WORDS, max_size=30).map(" ".join)))
def test_any_text(text: str) -> None:
    with suppress(ConfigError):
        parse(text, {})
