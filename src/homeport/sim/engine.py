"""A model of an inference engine: continuous batching over paged memory, in time given by the
caller.

Theory of operation. The engine works in steps. When a step begins, `plan` decides what it
computes: first the running sequences in order of arrival (one token for those that decode, the
next chunk for those still in their prompt), then waiting ones as long as the token budget, the
number of sequences and the blocks (for the whole prompt, though they are taken chunk by chunk)
allow. When the blocks run out, the latest arrival among the running is preempted: it gives all
back and will be computed anew, which is cheap as long as its blocks are not evicted. When the
step ends, `settle` gives one token to each sequence whose known tokens are all computed.

Blocks get their names when they are planned, not when they are done: a sequence admitted later in
the same step may share them, as in the real thing, where each layer writes before it reads.

`stride_max` lets one step stand for several: while nothing but decoding goes on, nothing can change
before the next sequence ends, so a replay in virtual time need not stop at each token. A submission
or cancellation cuts the stride at the next token. First tokens and ends come at the same instants
whatever the stride.
"""

from collections import deque
from dataclasses import dataclass, field

import msgspec
from msgspec import Struct

from homeport.core.ids import Instant
from homeport.sim.cache import Cache, Name
from homeport.sim.job import Finish, Job, JobId, Output, Stats
from homeport.sim.profile import (
    PICOS_PER_MICRO,
    PICOS_PER_MILLI,
    Profile,
    context_picos,
    decode_picos,
    prefill_picos,
)


@dataclass(slots=True, eq=False)
class Sequence:
    """A job inside the engine."""

    job: Job
    number: int
    """Order of arrival."""
    computed: int = 0
    """Tokens whose keys and values are in memory, the running step's included."""
    emitted: int = 0
    cached_tokens: int | None = None
    """None until it was first admitted."""
    held: list[Name | None] = field(default_factory=list[Name | None])

    @property
    def known(self) -> int:
        return self.job.prompt_tokens + self.emitted


class Step(Struct, frozen=True):
    """Work in progress: `count` equal steps, each longer than the last by `growth_ps`."""

    began_ps: int
    first_ps: int
    growth_ps: int
    emitters: list[Sequence]
    count: int = 1

    def end_ps(self, count: int) -> int:
        return self.began_ps + count * self.first_ps + self.growth_ps * (count * (count - 1) // 2)

    def ended(self, now_ps: int) -> int:
        """How many are over; the last one never is, for `advance` ends it."""
        low, high = 0, self.count - 1
        while low < high:
            middle = (low + high + 1) // 2
            if self.end_ps(middle) <= now_ps:
                low = middle
            else:
                high = middle - 1
        return low

    def rest(self, done: int) -> "Step":
        """The one step in progress after `done` of them."""
        first_ps = self.first_ps + done * self.growth_ps
        return Step(self.end_ps(done), first_ps, self.growth_ps, self.emitters)


class Engine:
    """The machine. Call `advance` at `next_at` or later; ask for `next_at` after every call."""

    def __init__(self, profile: Profile, stride_max: int = 1) -> None:
        self.profile = profile
        self.stride_max = stride_max
        self.cache = Cache(profile.blocks)
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.live: dict[JobId, Sequence] = {}
        self.step: Step | None = None
        self.arrivals = 0
        self.blocked_at = -1
        """`cache.releases` when the head of the queue last did not fit."""
        self.prefix_queries = 0
        self.prefix_hits = 0
        self.preemptions = 0
        self.prompt_tokens = 0
        self.output_tokens = 0
        self.busy_ps = 0
        self.early: list[Output] = []
        """Outputs of a stride that was cut, until the caller asks."""
        self.finished = dict.fromkeys(Finish, 0)

    def submit(self, job: Job, now: Instant) -> None:
        """Queue a job; an idle engine begins at once."""
        assert job.id not in self.live, f"{job.id} is here already"
        assert job.prompt_tokens > 0 and job.output_tokens > 0, f"{job.id} is empty"
        total = job.prompt_tokens + job.output_tokens
        assert total <= self.profile.context_tokens_max, f"{job.id} can never fit"
        self.catch_up(now)
        sequence = Sequence(job, self.arrivals)
        self.arrivals += 1
        self.live[job.id] = sequence
        self.waiting.append(sequence)
        if self.step is None:
            self.begin(now * PICOS_PER_MICRO)

    def cancel(self, job_id: JobId, now: Instant) -> None:
        """Slot and blocks are free at once. A job that is not here may have ended: no error."""
        sequence = self.live.get(job_id)
        if sequence is None:
            return
        self.catch_up(now)
        del self.live[job_id]
        if sequence in self.running:
            self.running.remove(sequence)
        else:
            self.waiting.remove(sequence)
            self.blocked_at = -1
        self.cache.release(sequence.held)
        self.finished[Finish.ABORT] += 1

    def next_at(self) -> Instant | None:
        """When the running step ends; None when there is nothing to do."""
        if self.step is None:
            return None
        return Instant(-(-self.step.end_ps(self.step.count) // PICOS_PER_MICRO))

    def advance(self, now: Instant) -> list[Output]:
        """End the steps that are over by now, and begin the next."""
        outputs, self.early = self.early, []
        now_ps = now * PICOS_PER_MICRO
        while self.step is not None and (end_ps := self.step.end_ps(self.step.count)) <= now_ps:
            self.settle(self.step, outputs)
            self.begin(end_ps)
        return outputs

    def clear_cache(self, now: Instant) -> None:
        """Forget all blocks that no running sequence holds."""
        self.catch_up(now)
        self.cache.clear()

    def stats(self) -> Stats:
        cache = self.cache
        return Stats(
            running=len(self.running),
            waiting=len(self.waiting),
            kv_usage=(cache.private + len(cache.pinned)) / cache.blocks,
            cached_blocks=len(cache.pinned) + len(cache.idle),
            prefix_queries=self.prefix_queries,
            prefix_hits=self.prefix_hits,
            preemptions=self.preemptions,
            prompt_tokens=self.prompt_tokens,
            output_tokens=self.output_tokens,
            stopped=self.finished[Finish.STOP],
            cut=self.finished[Finish.LENGTH],
            aborted=self.finished[Finish.ABORT],
            busy_us=self.busy_ps // PICOS_PER_MICRO,
        )

    def check(self) -> None:
        """The invariants, for tests and simulation."""
        self.cache.check([sequence.held for sequence in self.running])
        assert len(self.running) <= self.profile.max_running, "more run than may"
        queue = self.running + list(self.waiting)
        assert sorted(queue, key=lambda s: s.number) == queue, "somebody was overtaken"
        assert [s.job.id for s in queue] == sorted(
            self.live, key=lambda job_id: self.live[job_id].number
        ), "a job is in two places or in none"
        assert not queue or self.step is not None, "work and no step"
        for sequence in self.running:
            held = -(-sequence.computed // self.profile.block_tokens)
            assert len(sequence.held) == held, f"{sequence.job.id} holds what it does not use"
            assert sequence.emitted < sequence.job.output_tokens, f"{sequence.job.id} has ended"
        for sequence in self.waiting:
            assert not sequence.held, f"{sequence.job.id} holds blocks while it waits"

    def catch_up(self, now: Instant) -> None:
        """Something will change: end the stride's tokens that are over, keep the current one."""
        step = self.step
        if step is None or step.count == 1:
            return
        done = step.ended(now * PICOS_PER_MICRO)
        if done:
            self.settle(msgspec.structs.replace(step, count=done), self.early)
            for sequence in step.emitters:
                self.compute(sequence, 1)
        self.step = step.rest(done)

    def begin(self, at_ps: int) -> None:
        """Start the next step, if there is anything to compute."""
        parts = self.plan()
        if not parts:
            assert not self.waiting, "an idle engine has room for the head of its queue"
            self.step = None
            return
        self.step = self.timed(parts, at_ps)

    def plan(self) -> list[tuple[Sequence, int]]:
        """Which sequences compute how many tokens in the next step."""
        parts: list[tuple[Sequence, int]] = []
        budget = self.profile.chunk_tokens
        preemptions = self.preemptions
        index = 0
        while index < len(self.running) and budget:
            sequence = self.running[index]
            count = min(sequence.known - sequence.computed, budget)
            if not self.make_room(sequence, count):
                return parts
            self.compute(sequence, count)
            parts.append((sequence, count))
            budget -= count
            index += 1
        if self.preemptions > preemptions:
            return parts
        while budget and (count := self.admit(budget)):
            parts.append((self.running[-1], count))
            budget -= count
        return parts

    def make_room(self, sequence: Sequence, count: int) -> bool:
        """Preempt from the end until `count` tokens fit. False: it had to go itself."""
        while self.missing(sequence, count) > self.cache.available:
            victim = self.running.pop()
            self.preempt(victim)
            if victim is sequence:
                return False
        return True

    def preempt(self, victim: Sequence) -> None:
        self.preemptions += 1
        self.cache.release(victim.held)
        victim.computed = 0
        self.waiting.appendleft(victim)

    def admit(self, budget: int) -> int:
        """Take the head of the queue in; how many of its tokens the step computes, 0 for none."""
        if not self.waiting or len(self.running) >= self.profile.max_running:
            return 0
        if self.blocked_at == self.cache.releases:
            return 0
        sequence = self.waiting[0]
        size = self.profile.block_tokens
        hits = self.cache.match(sequence.job.blocks, (sequence.known - 1) // size)
        names = sequence.job.blocks[:hits]
        count = min(sequence.known - hits * size, budget)
        needed = -(-sequence.known // size) - hits
        if needed > self.cache.available - self.cache.idle_among(names):
            self.blocked_at = self.cache.releases
            return 0
        self.waiting.popleft()
        self.running.append(sequence)
        self.reuse(sequence, names)
        self.compute(sequence, count)
        return count

    def reuse(self, sequence: Sequence, names: tuple[Name, ...]) -> None:
        """Start from what the cache holds."""
        self.cache.pin(names)
        sequence.held.extend(names)
        sequence.computed = len(names) * self.profile.block_tokens
        if sequence.cached_tokens is None:
            sequence.cached_tokens = sequence.computed
            self.prefix_queries += sequence.job.prompt_tokens
            self.prefix_hits += sequence.computed

    def compute(self, sequence: Sequence, count: int) -> None:
        """Hold blocks for the next tokens, and name those that become full."""
        missing = self.missing(sequence, count)
        if missing:
            self.cache.allocate(missing)
            sequence.held.extend([None] * missing)
        size = self.profile.block_tokens
        first = sequence.computed // size
        sequence.computed += count
        names = sequence.job.blocks[first : sequence.computed // size]
        for index, name in enumerate(names, first):
            if self.cache.publish(name):
                sequence.held[index] = name

    def missing(self, sequence: Sequence, count: int) -> int:
        blocks = -(-(sequence.computed + count) // self.profile.block_tokens)
        return blocks - len(sequence.held)

    def timed(self, parts: list[tuple[Sequence, int]], at_ps: int) -> Step:
        """How long the planned work takes, and for how many tokens nothing will change."""
        profile = self.profile
        prefill_ps = 0
        decoding = 0
        context = 0
        for sequence, count in parts:
            if sequence.emitted and count == 1:
                decoding += 1
                context += sequence.computed
            else:
                prefill_ps += prefill_picos(profile, sequence.computed - count, count)
        decode_ps = decode_picos(profile, decoding, context) if decoding else 0
        base_ps = round(profile.step_base_ms * PICOS_PER_MILLI)
        emitters = [s for s, _ in parts if s.computed == s.known]
        return Step(
            began_ps=at_ps,
            first_ps=max(base_ps, prefill_ps + decode_ps),
            growth_ps=context_picos(profile) * decoding,
            emitters=emitters,
            count=self.stride(emitters) if decoding == len(parts) else 1,
        )

    def stride(self, emitters: list[Sequence]) -> int:
        """Tokens until one of them ends, the queue moves, or the blocks may run out."""
        is_blocked = self.blocked_at == self.cache.releases
        is_full = len(self.running) >= self.profile.max_running
        if self.stride_max == 1 or (self.waiting and not is_blocked and not is_full):
            return 1
        size = self.profile.block_tokens
        left = min(s.job.output_tokens - s.emitted for s in emitters)
        cache = self.cache
        spare = (cache.free // len(emitters)) * size
        count = max(1, min(left, self.stride_max, spare))
        # Who fills a block first gives it its name: where it has a twin, each token matters.
        names = [
            name
            for s in emitters
            for name in s.job.blocks[s.computed // size : (s.computed + count) // size]
        ]
        has_twins = len(set(names)) < len(names)
        if has_twins or any(name in cache.pinned or name in cache.idle for name in names):
            return 1
        return count

    def settle(self, step: Step, outputs: list[Output]) -> None:
        """The step is over: every sequence with all its tokens computed gets its next."""
        self.busy_ps += step.end_ps(step.count) - step.began_ps
        emitters = [s for s in step.emitters if self.live.get(s.job.id) is s]
        if step.count > 1:
            for sequence in emitters:
                self.compute(sequence, step.count - 1)
        outputs.extend(self.emit(sequence, step.count) for sequence in emitters)

    def emit(self, sequence: Sequence, tokens: int) -> Output:
        job = sequence.job
        is_first = sequence.emitted == 0
        self.prompt_tokens += job.prompt_tokens if is_first else 0
        self.output_tokens += tokens
        sequence.emitted += tokens
        finish = job.finish if sequence.emitted == job.output_tokens else None
        if finish is not None:
            self.end(sequence, finish)
        cached = sequence.cached_tokens or 0
        return Output(job.id, tokens, is_first, cached, finish)

    def end(self, sequence: Sequence, finish: Finish) -> None:
        del self.live[sequence.job.id]
        self.running.remove(sequence)
        self.cache.release(sequence.held)
        self.finished[finish] += 1
