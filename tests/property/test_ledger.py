"""The books under any order of charges, first bytes, settlements and samples."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from homeport.core.ids import Instant, RequestId
from homeport.core.ledger import PREFILL_DONE_SHARE_MAX, Charge, Ledger

SLOTS = 3
PICK = st.integers(0, 1_000)


class LedgerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.now = Instant(0)
        self.opened: list[RequestId] = []
        self.charged = self.settled = 0
        for slot in range(SLOTS):
            self.ledger.grow()
            self.ledger.join(slot)

    @rule(slot=st.integers(0, SLOTS - 1), prefill_us=st.integers(0, 5_000_000))
    def charge(self, slot: int, prefill_us: int) -> None:
        self.charged += 1
        request_id = RequestId(f"r{self.charged}")
        self.ledger.charge(request_id, Charge(slot, 100, 0, prefill_us, self.now))
        self.opened.append(request_id)

    @precondition(lambda self: self.opened)
    @rule(pick=PICK)
    def first_byte(self, pick: int) -> None:
        request_id = self.opened[pick % len(self.opened)]
        charge = self.ledger.first_byte(request_id, self.now)
        assert charge.first_byte_at is not None
        assert charge.dispatched_at <= charge.first_byte_at <= self.now

    @precondition(lambda self: self.opened)
    @rule(pick=PICK)
    def settle(self, pick: int) -> None:
        self.ledger.settle(self.opened.pop(pick % len(self.opened)), self.now)
        self.settled += 1

    @rule(slot=st.integers(0, SLOTS - 1), running=st.integers(0, 9))
    def sample(self, slot: int, running: int) -> None:
        self.ledger.sampled(slot, running)
        assert self.ledger.running[slot] == max(running, self.ledger.own[slot])

    @rule(passed=st.integers(0, 3_000_000))
    def time_passes(self, passed: int) -> None:
        self.now = Instant(self.now + passed)

    @invariant()
    def books_balance(self) -> None:
        self.ledger.check()
        assert self.charged - self.settled == len(self.ledger.charges) == sum(self.ledger.own)

    @invariant()
    def a_wait_is_between_nothing_and_all_prefill_that_is_open(self) -> None:
        waits = self.ledger.waits_s(tuple(range(SLOTS)), self.now)
        for slot, wait in enumerate(waits):
            whole = self.ledger.prefill_us[slot] / 1e6
            assert whole * (1 - PREFILL_DONE_SHARE_MAX) * 0.99 <= wait <= whole

    def teardown(self) -> None:
        for request_id in self.opened:
            self.ledger.settle(request_id, self.now)
        self.ledger.check()
        assert self.ledger.own == self.ledger.prefill_us == [0] * SLOTS


LedgerMachine.TestCase.settings = settings(max_examples=40, derandomize=True, deadline=None)
TestLedger = LedgerMachine.TestCase
