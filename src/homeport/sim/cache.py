"""Paged KV memory with prefix caching: counts of blocks and the names of those worth keeping.

Each block is in exactly one of four states:

- free: nothing in it;
- private: held by one sequence, not full or not nameable, so that nobody else can use it;
- pinned: full, named, held by one or more sequences;
- idle: full, named, held by nobody. Idle blocks are kept in the order in which they were let go and
  the oldest is evicted first. A sequence lets go of its last block first, so tails go before heads
  and what is left of a prefix can still be matched from its start.

Blocks are not numbered: nothing here depends on which piece of memory a block is.
"""

from collections.abc import Sequence

Name = int
"""Chain value: it stands for the block's tokens and all before them."""


class Cache:
    """The blocks of one engine."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self.free = blocks
        self.private = 0
        self.pinned: dict[Name, int] = {}
        """How many sequences hold each."""
        self.idle: dict[Name, None] = {}
        self.releases = 0
        """Grows whenever something was let go: before that, what did not fit will not fit."""

    @property
    def available(self) -> int:
        return self.free + len(self.idle)

    def match(self, names: Sequence[Name], count_max: int) -> int:
        """How many blocks from the start are here."""
        pinned, idle = self.pinned, self.idle
        count = 0
        for name in names[:count_max]:
            if name not in pinned and name not in idle:
                break
            count += 1
        return count

    def idle_among(self, names: Sequence[Name]) -> int:
        """How many of these would stop being available when pinned."""
        idle = self.idle
        return sum(1 for name in names if name in idle)

    def pin(self, names: Sequence[Name]) -> None:
        """Hold blocks that are here."""
        pinned, idle = self.pinned, self.idle
        for name in names:
            if name in pinned:
                pinned[name] += 1
            else:
                del idle[name]
                pinned[name] = 1

    def allocate(self, count: int) -> None:
        """Hold new private blocks, evicting idle ones where none is free."""
        assert count <= self.available, f"{count} blocks asked of {self.available}"
        self.evict(count - self.free)
        self.free -= count
        self.private += count

    def evict(self, count: int) -> None:
        for _ in range(count):
            del self.idle[next(iter(self.idle))]
            self.free += 1

    def publish(self, name: Name) -> bool:
        """Give a private block, now full, its name. False: a twin is held, so it stays private."""
        if name in self.pinned:
            return False
        if name in self.idle:
            del self.idle[name]
            self.free += 1
        self.private -= 1
        self.pinned[name] = 1
        return True

    def release(self, held: list[Name | None]) -> None:
        """Let go of all a sequence holds, last block first. None stands for a private one."""
        self.releases += 1
        pinned = self.pinned
        for name in reversed(held):
            if name is None:
                self.private -= 1
                self.free += 1
            elif pinned[name] > 1:
                pinned[name] -= 1
            else:
                del pinned[name]
                self.idle[name] = None
        held.clear()

    def clear(self) -> None:
        """Forget all that is idle. What running sequences hold stays."""
        self.free += len(self.idle)
        self.idle.clear()

    def check(self, holders: Sequence[list[Name | None]]) -> None:
        """Every block is in one state, and held as often as the holders say."""
        used = self.private + len(self.pinned) + len(self.idle)
        assert self.free + used == self.blocks, "a block is lost or counted twice"
        assert self.free >= 0, "more blocks than there are"
        counts: dict[Name, int] = {}
        private = 0
        for held in holders:
            for name in held:
                if name is None:
                    private += 1
                else:
                    counts[name] = counts.get(name, 0) + 1
        assert private == self.private, "a private block without holder"
        assert counts == self.pinned, "pins differ from holders"
        assert not self.idle.keys() & self.pinned.keys(), "a block is idle and pinned"
