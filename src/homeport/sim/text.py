"""The simulated model's language: how a prompt reads, what a token is, what is said next.

- A token is four bytes. Messages are padded to whole tokens, so a prompt that extends another one
  shares its tokens, and an answer sent back as an assistant message is the same tokens again.
- The next word follows from all the bytes before it and nothing else. So the same prompt gets the
same
  answer from every engine, and an answer cut anywhere continues as it would have gone on.
- A block is named by a chain of hashes over its bytes and the name of the block before.
"""

import struct

import xxhash

TOKEN_BYTES = 4
NATURAL_TOKENS_MIN = 20
NATURAL_TOKENS_MAX = 200
"""An answer without a limit is somewhere between."""

CONSONANTS = "bdfgklmnprstvz"
VOWELS = "aeiou"
WORDS = tuple(
    f" {first}{vowel}{last}".encode()
    for first in CONSONANTS
    for vowel in VOWELS
    for last in CONSONANTS
)
"""One token each."""


def padded(text: bytes) -> bytes:
    """Filled up to whole tokens."""
    return text + b" " * (-len(text) % TOKEN_BYTES)


def token_count(text: bytes) -> int:
    return -(-len(text) // TOKEN_BYTES)


def token_ids(text: bytes) -> tuple[int, ...]:
    whole = padded(text)
    return struct.unpack(f"<{len(whole) // TOKEN_BYTES}I", whole)


def from_token_ids(ids: list[int]) -> bytes:
    return struct.pack(f"<{len(ids)}I", *(token % 2**32 for token in ids))


def opened(role: str) -> bytes:
    """The start of a message: whole tokens."""
    return padded(f"<|im_start|>{role}\n".encode())


def closed(body: bytes) -> bytes:
    """The rest of a message whose start is `opened`."""
    return padded(body + b"<|im_end|>\n")


def tool_call_text(name: str, arguments: str) -> tuple[bytes, int]:
    """How a call reads in the prompt, and where its arguments start."""
    head = padded(f"<tool_call>{name}\n".encode())
    return padded(head + arguments.encode() + b"</tool_call>"), len(head)


def block_names(text: bytes, block_tokens: int, salt: str) -> tuple[int, ...]:
    """The chain value of each full block. A salt makes all of them differ."""
    size = block_tokens * TOKEN_BYTES
    digest = xxhash.xxh3_64_intdigest
    name = digest(salt.encode()) if salt else 0
    names: list[int] = []
    for start in range(0, len(text) - size + 1, size):
        name = digest(text[start : start + size], name)
        names.append(name)
    return tuple(names)


def continued(text: bytes, count: int, choice: int) -> bytes:
    """The next `count` words. Choices of one prompt differ from the first word on."""
    state = xxhash.xxh3_64(text, seed=choice)
    words: list[bytes] = []
    for _ in range(count):
        word = WORDS[state.intdigest() % len(WORDS)]
        state.update(word)
        words.append(word)
    return b"".join(words)


def natural_tokens(turn: bytes, choice: int) -> int:
    """How long the answer to a prompt is when nobody limits it."""
    span = NATURAL_TOKENS_MAX - NATURAL_TOKENS_MIN + 1
    return NATURAL_TOKENS_MIN + xxhash.xxh3_64_intdigest(turn, choice) % span


def logprob(word: bytes, rank: int) -> float:
    """A plausible, repeatable figure for the word as the `rank`th best."""
    return -(xxhash.xxh3_64_intdigest(word, 1) % 1_000) / 2_000 - rank


def alternatives(word: bytes, count: int) -> list[bytes]:
    """The word itself and the next ones in the vocabulary."""
    start = xxhash.xxh3_64_intdigest(word, 2) % len(WORDS)
    others = (WORDS[(start + step) % len(WORDS)] for step in range(count + 1))
    return [word, *(other for other in others if other != word)][:count]
