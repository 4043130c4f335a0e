"""The prefix index: for each endpoint a shadow of the cache that its engine keeps.

Theory of operation. A prompt is a chain of block hashes, and a hash stands for its block and all
before it. An engine that holds a block holds the blocks before it, so for one endpoint "holds
block i" is true up to some depth and false from there on. One map from block to a bitmask of
endpoints therefore gives the depth of all endpoints in one pass: wherever the mask loses bits,
those endpoints end. A pass over the few hundred blocks of a megabyte costs less than a cleverer
search.

Each endpoint's shadow is one ordered map, least recently used first. A prompt is touched from its
last block to its first, so a block is never older than one that follows it, and dropping the
oldest always drops the end of a chain: shadows stay closed under "the blocks before it".
`check()` says so.

A shadow is bounded by the bytes of text that the engine's cache can hold. What was generated takes
room too: it is entered under a name that no prompt has, until the next turn brings it as text.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence

from homeport.core.endpoint import Slot
from homeport.core.ids import BlockHash

FIRST_BLOCK_BYTES = 256
BLOCKS_PER_DOUBLING = 32
BLOCKS_MAX = 512


def block_ends() -> tuple[int, ...]:
    """Where each block ends, in bytes of prompt text.

    Blocks are 256 bytes at first and double whenever 32 more of their size have passed twice the
    offset: between 1/64 and 1/32 of the offset each, so that a megabyte is 256 blocks.
    """
    ends: list[int] = []
    end, size = 0, FIRST_BLOCK_BYTES
    while len(ends) < BLOCKS_MAX:
        for _ in range(BLOCKS_PER_DOUBLING if ends else 2 * BLOCKS_PER_DOUBLING):
            end += size
            ends.append(end)
        size *= 2
    return tuple(ends)


BLOCK_ENDS = block_ends()
BLOCK_BYTES = tuple(end - begin for begin, end in zip((0, *BLOCK_ENDS), BLOCK_ENDS, strict=False))


class PrefixIndex:
    """Which endpoint holds which blocks, as far as can be known from what was sent there."""

    def __init__(self) -> None:
        self.holders: dict[BlockHash, int] = {}
        self.shadows: dict[Slot, OrderedDict[BlockHash, int]] = {}
        self.held_bytes: dict[Slot, int] = {}

    def join(self, slot: Slot) -> None:
        assert slot not in self.shadows, f"slot {slot} joined twice"
        self.shadows[slot] = OrderedDict()
        self.held_bytes[slot] = 0

    def leave(self, slot: Slot) -> None:
        self.clear(slot)
        del self.shadows[slot], self.held_bytes[slot]

    def clear(self, slot: Slot) -> None:
        """The engine has lost its cache: restarted, or told to."""
        for block in self.shadows[slot]:
            self.release(block, slot)
        self.shadows[slot] = OrderedDict()
        self.held_bytes[slot] = 0

    def depths(self, blocks: Sequence[BlockHash], candidates: int) -> list[tuple[int, int]]:
        """How deep the chain is held: pairs (blocks held, mask of the endpoints that hold so many).

        Candidates that hold nothing of it are in no pair.
        """
        found: list[tuple[int, int]] = []
        held = candidates
        last: int | None = -1
        for depth, mask in enumerate(map(self.holders.get, blocks)):
            if mask == last:
                continue
            last = mask
            still = held & mask if mask is not None else 0
            if still != held:
                if depth:
                    found.append((depth, held ^ still))
                if not still:
                    return found
                held = still
        if blocks:
            found.append((len(blocks), held))
        return found

    def learn(self, slot: Slot, blocks: Sequence[BlockHash]) -> None:
        """This prompt was sent there: its blocks are there now, and the newest."""
        shadow, holders, bit = self.shadows[slot], self.holders, 1 << slot
        known = self.known(shadow, blocks)
        new_bytes = 0
        for index in range(len(blocks) - 1, known - 1, -1):
            block, size = blocks[index], BLOCK_BYTES[index]
            shadow[block] = size
            new_bytes += size
            holders[block] = holders.get(block, 0) | bit
        self.held_bytes[slot] += new_bytes
        # A loop in C: this is done for each block of each request.
        deque(map(shadow.move_to_end, reversed(blocks[:known])), maxlen=0)

    def known(self, shadow: OrderedDict[BlockHash, int], blocks: Sequence[BlockHash]) -> int:
        """How many of the blocks are in the shadow: all up to some depth, none from there on."""
        if blocks and blocks[-1] in shadow:
            return len(blocks)
        low, high = 0, len(blocks)
        while low < high:
            middle = (low + high) // 2
            if blocks[middle] in shadow:
                low = middle + 1
            else:
                high = middle
        return low

    def learn_generated(self, slot: Slot, name: BlockHash, size: int) -> None:
        """So many bytes of answer are there; `name` is the caller's, to take them out again."""
        if size > 0 and name not in self.shadows[slot]:
            self.shadows[slot][name] = size
            self.held_bytes[slot] += size
            self.holders[name] = self.holders.get(name, 0) | 1 << slot

    def drop(self, slot: Slot, name: BlockHash) -> None:
        """Take out an entry of `learn_generated`; nothing when it is gone already."""
        size = self.shadows[slot].pop(name, None)
        if size is not None:
            self.held_bytes[slot] -= size
            self.release(name, slot)

    def trim(self, slot: Slot, bytes_max: int) -> None:
        """Forget as the engine forgets: the ends of the chains unused for longest."""
        shadow = self.shadows[slot]
        while self.held_bytes[slot] > bytes_max and shadow:
            block, size = shadow.popitem(last=False)
            self.held_bytes[slot] -= size
            self.release(block, slot)

    def release(self, block: BlockHash, slot: Slot) -> None:
        left = self.holders[block] & ~(1 << slot)
        if left:
            self.holders[block] = left
        else:
            del self.holders[block]

    def blocks(self, slot: Slot) -> int:
        """How many blocks the shadow holds."""
        return len(self.shadows[slot])

    def check(self) -> None:
        """The invariants, for tests and simulation."""
        holders: dict[BlockHash, int] = {}
        for slot, shadow in self.shadows.items():
            assert self.held_bytes[slot] == sum(shadow.values()), f"bytes of slot {slot}"
            for block in shadow:
                holders[block] = holders.get(block, 0) | 1 << slot
        assert holders == self.holders, "holders and shadows disagree"

    def state(self) -> Iterator[object]:
        """What must be equal in two routers that saw the same events."""
        for slot, shadow in self.shadows.items():
            yield slot, list(shadow.items())
