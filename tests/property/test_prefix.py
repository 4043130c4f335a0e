"""The prefix index against the simplest thing that could be right."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from homeport.core.ids import BlockHash
from homeport.core.prefix import PrefixIndex

SLOTS = 4
SEEDS = st.lists(st.integers(0, 2), min_size=1, max_size=12)


def chain(seeds: list[int]) -> tuple[BlockHash, ...]:
    """Blocks that stand for all before them, as the hashes of prompts do."""
    blocks: list[BlockHash] = []
    name = 1
    for seed in seeds:
        name = name * 3 + seed + 1
        blocks.append(BlockHash(name))
    return tuple(blocks)


class IndexMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.index = PrefixIndex()
        self.held: list[set[BlockHash]] = [set() for _ in range(SLOTS)]
        for slot in range(SLOTS):
            self.index.join(slot)

    @rule(slot=st.integers(0, SLOTS - 1), seeds=SEEDS)
    def learn(self, slot: int, seeds: list[int]) -> None:
        self.index.learn(slot, chain(seeds))
        self.held[slot].update(chain(seeds))

    @rule(slot=st.integers(0, SLOTS - 1))
    def clear(self, slot: int) -> None:
        self.index.clear(slot)
        self.held[slot].clear()

    @rule(slot=st.integers(0, SLOTS - 1), blocks=st.integers(0, 20))
    def trim(self, slot: int, blocks: int) -> None:
        self.index.trim(slot, blocks * 256)
        assert self.index.held_bytes[slot] <= blocks * 256
        self.held[slot] = set(self.index.shadows[slot])

    @rule(slot=st.integers(0, SLOTS - 1))
    def leave_and_join(self, slot: int) -> None:
        self.index.leave(slot)
        self.index.join(slot)
        self.held[slot].clear()

    @rule(seeds=SEEDS, candidates=st.integers(0, 2**SLOTS - 1))
    def match(self, seeds: list[int], candidates: int) -> None:
        blocks = chain(seeds)
        found = self.index.depths(blocks, candidates)
        depths = {s: d for d, mask in found for s in range(SLOTS) if mask >> s & 1}
        for slot in range(SLOTS):
            held = 0
            while held < len(blocks) and blocks[held] in self.held[slot]:
                held += 1
            expected = held if candidates >> slot & 1 else 0
            assert depths.get(slot, 0) == expected

    @invariant()
    def books_agree(self) -> None:
        self.index.check()
        for slot in range(SLOTS):
            assert set(self.index.shadows[slot]) == self.held[slot]


IndexMachine.TestCase.settings = settings(max_examples=60, derandomize=True, deadline=None)
TestIndex = IndexMachine.TestCase
