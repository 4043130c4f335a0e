"""A whole fleet in virtual time: a router, an exchange for each request, model engines, agents.

One seed makes everything: what agents say, how long they think, what breaks and when. While faults
are on nothing may be unsafe; after they stop everything must end. Run this file with a seed to see
what became of it.
"""

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import accumulate, count
from typing import assert_never

import msgspec
import xxhash

from homeport.core.command import Dispatch, Reject, WakeAt
from homeport.core.endpoint import EndpointSpec, Sample
from homeport.core.event import (
    ConfigChanged,
    EndpointJoined,
    EndpointLeft,
    EndpointProbed,
    EndpointSampled,
    Event,
    Failure,
    Outcome,
    RequestArrived,
    RequestEnded,
    Settings,
    TimerFired,
)
from homeport.core.exchange import (
    Abort,
    Action,
    Arrived,
    Break,
    ClientLeft,
    Deliver,
    Drop,
    Exchange,
    ExchangeEvent,
    Fail,
    FirstByte,
    Forward,
    Open,
    Patience,
    Placed,
    Refused,
    State,
    Tell,
    UpstreamEnded,
    UpstreamFailed,
    Watched,
)
from homeport.core.ids import (
    Bytes,
    EndpointId,
    Instant,
    Micros,
    ModelName,
    RequestId,
    SessionId,
    TenantName,
    Tokens,
)
from homeport.core.record import Record
from homeport.core.request import Request, Usage
from homeport.core.router import Router
from homeport.plugins.registry import POLICIES
from homeport.sim.engine import Engine
from homeport.sim.job import Job, JobId, Output
from homeport.sim.profile import Profile
from homeport.wire.prompt import identity

SECOND = 1_000_000
BYTES_PER_TOKEN = 5
BLOCK_TOKENS = 16
BLOCK_BYTES = BLOCK_TOKENS * BYTES_PER_TOKEN
MODEL = ModelName("m")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What kind of world it is. The defaults are a quiet one."""

    policy: str = "homeport"
    endpoints: int = 4
    agents: int = 24
    arrive_s: float = 20.0
    faults_s: float = 0.0
    """How long things break."""
    faults: tuple[str, ...] = ()
    kv_tokens: int = 120_000
    running_max: int = 32
    queued_max: int = 1_000
    wait_s: int = 20
    hold_s: int = 300


def swarm(seed: int) -> Plan:
    """A world in which some things break: each seed chooses which, and how tight it is."""
    dice = random.Random(seed)
    faults = ("die", "forget", "leave", "stale", "impatient", "hang", "blind")
    return Plan(
        policy=dice.choice(["homeport", "homeport", "least_requests", "round_robin"]),
        endpoints=dice.randint(1, 4),
        agents=dice.randint(8, 20),
        arrive_s=dice.uniform(1, 15),
        faults_s=20.0,
        faults=tuple(fault for fault in faults if dice.random() < 0.6),
        kv_tokens=dice.choice([16_000, 40_000, 120_000]),
        running_max=dice.choice([1, 2, 8]),
        queued_max=dice.choice([2, 1_000]),
        wait_s=dice.choice([1, 20]),
        hold_s=dice.choice([0, 1, 300]),
    )


@dataclass
class Agent:
    """A closed loop: it sends its context, waits, and sends it again with the answer and more."""

    name: str
    session: SessionId | None
    turns: int
    pieces: list[bytes]
    blocks: list[int] = field(default_factory=list[int])
    """Names of the whole engine blocks of its context."""
    hashed: int = 0
    answers: int = 0

    def say(self, text: bytes) -> None:
        self.pieces.append(text)

    def names(self, text: bytes) -> list[int]:
        """The blocks of the context, of which `text` is the whole and only ever grows."""
        chain = self.blocks[-1] if self.blocks else 0
        while self.hashed + BLOCK_BYTES <= len(text):
            piece = text[self.hashed : self.hashed + BLOCK_BYTES]
            chain = xxhash.xxh3_64_intdigest(piece, chain)
            self.blocks.append(chain)
            self.hashed += BLOCK_BYTES
        return self.blocks


@dataclass(eq=False)
class Call:
    """One request of an agent, on its way."""

    agent: Agent
    request: Request
    exchange: Exchange
    answer: bytes
    job: Job
    ideal_tokens: int
    last_byte_at: Instant
    legs: int = 0
    leg: JobId | None = None


@dataclass
class Machine:
    """An engine's place: what runs there now, if anything."""

    name: EndpointId
    engine: Engine
    tells_cached: bool
    is_up: bool = True
    hangs: bool = False
    calls: dict[JobId, Call] = field(default_factory=dict[JobId, Call])


class World:
    """Run it once."""

    def __init__(self, seed: int, plan: Plan) -> None:
        self.plan, self.dice = plan, random.Random(seed)
        self.now = Instant(0)
        self.numbers = count()
        self.heap: list[tuple[int, int, Callable[[], None]]] = []
        self.journal: list[bytes] = []
        self.router = Router(POLICIES)
        self.calls: dict[RequestId, Call] = {}
        self.open: set[RequestId] = set()
        self.agents_left = plan.agents
        self.outcomes: dict[str, int] = {}
        self.everything: set[int] = set()
        """Names of all blocks ever sent: one endless cache, shared by all."""
        self.hit_tokens = self.ideal_tokens = self.prompt_tokens = 0
        self.profile = Profile(
            name="tests",
            accelerator="none",
            kv_tokens=plan.kv_tokens,
            prefill_tokens_per_s=20_000,
            step_base_ms=10,
            step_per_sequence_ms=0.1,
            step_per_million_context_ms=10,
            chunk_tokens=2_048,
        )
        self.machines = {
            name: Machine(name, self.new_engine(), self.dice.random() < 0.8)
            for name in (EndpointId(f"http://{i}") for i in range(plan.endpoints))
        }
        self.systems = [self.text(1_500) for _ in range(3)]

    def new_engine(self) -> Engine:
        return Engine(self.profile, stride_max=64)

    def text(self, tokens: int) -> bytes:
        return self.dice.randbytes(tokens * BYTES_PER_TOKEN)

    # Time.

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        self.at(self.now + int(seconds * SECOND), do)

    def at(self, instant: int, do: Callable[[], None]) -> None:
        heappush(self.heap, (max(instant, self.now), next(self.numbers), do))

    def run(self) -> None:
        """Until every agent is done. Whoever waits for ever makes this fail."""
        plan = self.plan
        settings = Settings(
            policy=plan.policy,
            queued_max=plan.queued_max,
            wait_max=Micros(plan.wait_s * SECOND),
            session_hold=Micros(plan.hold_s * SECOND),
        )
        self.feed(ConfigChanged(settings))
        for machine in self.machines.values():
            self.join(machine)
        for number in range(self.plan.agents):
            self.after(self.dice.uniform(0, self.plan.arrive_s), self.starter(number))
        self.after(0.5, self.look)
        if self.plan.faults:
            self.after(1, self.break_something)
        steps = 0
        while self.agents_left:
            instant, _, do = heappop(self.heap)
            self.now = Instant(instant)
            assert self.now < 3_600 * SECOND, f"{self.agents_left} agents are stuck"
            do()
            steps += 1
            if steps % 50 == 0:
                self.check()
        self.check()
        assert not self.open, "a request never ended"
        assert not self.router.live and not self.router.ledger.charges, "something is charged"
        assert self.router.flow.queued == 0 and self.router.flow.queued_bytes == 0

    def check(self) -> None:
        self.router.check()
        for machine in self.machines.values():
            machine.engine.check()

    # The router.

    def feed(self, event: Event) -> None:
        match event:
            case RequestArrived(request):
                self.open.add(request.id)
            case RequestEnded(request_id, outcome):
                self.open.remove(request_id)
                self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
            case _:
                pass
        commands = self.router.handle(event, self.now)
        record = Record(len(self.journal), self.now, event, commands)
        self.journal.append(msgspec.json.encode(record))
        for command in commands:
            match command:
                case Dispatch(request_id, endpoint):
                    assert request_id in self.open, "only who has not ended is placed"
                    self.on(self.calls[request_id], Placed(endpoint))
                case Reject(request_id, refusal):
                    self.open.remove(request_id)
                    self.outcomes["refused"] = self.outcomes.get("refused", 0) + 1
                    self.on(self.calls[request_id], Refused(refusal))
                case WakeAt(instant):
                    self.at(instant, lambda: self.feed(TimerFired()))
                case _:
                    assert_never(command)

    def join(self, machine: Machine) -> None:
        spec = EndpointSpec(machine.name, MODEL, running_max=self.plan.running_max)
        self.feed(EndpointJoined(spec))

    def look(self) -> None:
        """Probes, samples, and each exchange's look at the clock."""
        is_blind = "blind" in self.plan.faults and self.dice.random() < 0.5
        for machine in self.machines.values():
            if machine.name not in self.router.fleet.slots:
                continue
            self.feed(EndpointProbed(machine.name, machine.is_up))
            if machine.is_up and not is_blind:
                stats = machine.engine.stats()
                kv_tokens, block_tokens = Tokens(self.plan.kv_tokens), Tokens(BLOCK_TOKENS)
                sample = Sample(
                    stats.running, stats.waiting, stats.kv_usage, kv_tokens, block_tokens
                )
                self.feed(EndpointSampled(machine.name, sample))
        for call in list(self.calls.values()):
            self.on(call, Watched(True, call.last_byte_at, None))
        self.after(0.5, self.look)

    # Exchanges.

    def on(self, call: Call, event: ExchangeEvent) -> None:
        for action in call.exchange.handle(event, self.now):
            self.act(call, action)
        if call.exchange.state is State.ENDED:
            self.calls.pop(call.request.id, None)

    def act(self, call: Call, action: Action) -> None:
        match action:
            case Tell(event):
                self.feed(event)
                if isinstance(event, RequestEnded) and event.outcome is Outcome.ANSWERED:
                    self.answered(call)
                elif isinstance(event, RequestEnded) and event.outcome is Outcome.CANCELLED:
                    self.done()
            case Open(endpoint, is_fresh):
                self.send(call, self.machines[endpoint], is_fresh)
            case Abort():
                self.abort(call)
            case Fail() | Break() | Deliver():
                self.after(self.dice.uniform(0.5, 2), lambda: self.ask_again(call))
            case Forward() | Drop():
                pass
            case _:
                assert_never(action)

    def send(self, call: Call, machine: Machine, is_fresh: bool) -> None:
        call.legs += 1
        call.leg = JobId(f"{call.request.id}.{call.legs}")
        call.last_byte_at = self.now
        machine.calls[call.leg] = call
        if "stale" in self.faults() and not is_fresh and self.dice.random() < 0.2:
            self.fail_soon(call, machine, Failure.STALE)
        elif not machine.is_up:
            self.fail_soon(call, machine, Failure.CONNECT)
        elif not machine.hangs:
            machine.engine.submit(msgspec.structs.replace(call.job, id=call.leg), self.now)
            self.schedule(machine)

    def fail_soon(self, call: Call, machine: Machine, failure: Failure) -> None:
        leg = call.leg

        def fail() -> None:
            if call.leg == leg and leg is not None and machine.calls.pop(leg, None) is not None:
                call.leg = None
                self.on(call, UpstreamFailed(failure))

        self.after(0.001, fail)

    def abort(self, call: Call) -> None:
        for machine in self.machines.values():
            if call.leg is not None and machine.calls.pop(call.leg, None) is not None:
                machine.engine.cancel(call.leg, self.now)
                self.schedule(machine)
        call.leg = None

    # Engines.

    def schedule(self, machine: Machine) -> None:
        engine, instant = machine.engine, machine.engine.next_at()
        if instant is not None:
            self.at(instant, lambda: self.advance(machine, engine))

    def advance(self, machine: Machine, engine: Engine) -> None:
        due = engine.next_at()
        if machine.engine is not engine or due is None or due > self.now:
            return
        outputs = engine.advance(self.now)
        for output in outputs:
            self.got(machine, output)
        self.schedule(machine)

    def got(self, machine: Machine, output: Output) -> None:
        call = machine.calls.get(output.job_id)
        if call is None:
            return
        call.last_byte_at = self.now
        if output.is_first and call.request.stream:
            self.on(call, FirstByte())
        if output.finish is not None:
            del machine.calls[output.job_id]
            call.leg = None
            job = call.job
            self.prompt_tokens += job.prompt_tokens
            self.hit_tokens += output.cached_tokens
            self.ideal_tokens += call.ideal_tokens
            usage = Usage(
                Tokens(job.prompt_tokens),
                Tokens(job.output_tokens),
                Tokens(output.cached_tokens) if machine.tells_cached else None,
            )
            self.on(call, UpstreamEnded(Outcome.ANSWERED, usage))

    # Agents.

    def starter(self, number: int) -> Callable[[], None]:
        system = self.systems[number % len(self.systems)]
        task = self.text(self.dice.randint(50, 800))
        session = SessionId(f"s{number}") if self.dice.random() < 0.5 else None
        agent = Agent(f"a{number}", session, self.dice.randint(3, 10), [system, task])
        return lambda: self.ask(agent)

    def ask(self, agent: Agent) -> None:
        said = b"".join(agent.pieces)
        answer = self.text(self.dice.randint(1, 120))
        prompt_tokens = len(said) // BYTES_PER_TOKEN
        blocks = agent.names(said + answer)
        whole = (prompt_tokens - 1) // BLOCK_TOKENS
        ideal = next((i for i in range(whole) if blocks[i] not in self.everything), whole)
        self.everything.update(blocks)
        request_id = RequestId(f"r{next(self.numbers)}")
        request = Request(
            id=request_id,
            tenant=TenantName("t"),
            model=MODEL,
            prompt=identity(b"".join(agent.pieces), [*accumulate(map(len, agent.pieces))], 1),
            session=agent.session,
            body_bytes=Bytes(len(said)),
            stream=self.dice.random() < 0.8,
        )
        job = Job(JobId(request_id), prompt_tokens, len(answer) // BYTES_PER_TOKEN, tuple(blocks))
        patience = Patience(first_byte=Micros(30 * SECOND), between_bytes=Micros(30 * SECOND))
        exchange, ideal_tokens = Exchange(request, patience), ideal * BLOCK_TOKENS
        call = Call(agent, request, exchange, answer, job, ideal_tokens, self.now)
        self.calls[request_id] = call
        if "impatient" in self.faults() and self.dice.random() < 0.1:
            self.after(self.dice.uniform(0, 2), lambda: self.on(call, ClientLeft()))
        self.on(call, Arrived())

    def ask_again(self, call: Call) -> None:
        """The same turn, as clients do; its answer will be another one."""
        agent = call.agent
        whole = sum(map(len, agent.pieces)) // BLOCK_BYTES
        del agent.blocks[whole:]
        agent.hashed = whole * BLOCK_BYTES
        self.ask(agent)

    def answered(self, call: Call) -> None:
        agent = call.agent
        agent.say(call.answer)
        agent.answers += 1
        if agent.answers == agent.turns:
            self.done()
            return
        agent.say(self.text(self.dice.randint(20, 800)))
        self.after(self.dice.expovariate(1.0), lambda: self.ask(agent))

    def done(self) -> None:
        self.agents_left -= 1

    # What breaks.

    def faults(self) -> tuple[str, ...]:
        return self.plan.faults if self.now < self.plan.faults_s * SECOND else ()

    def break_something(self) -> None:
        if not self.faults():
            return
        machine = self.dice.choice(list(self.machines.values()))
        back_s = self.dice.uniform(0.2, 6)
        match self.dice.choice(self.plan.faults):
            case "die" if machine.is_up:
                self.die(machine)
                self.after(back_s, lambda: self.revive(machine))
            case "forget" if machine.is_up:
                machine.engine.clear_cache(self.now)
                self.schedule(machine)
            case "leave" if machine.name in self.router.fleet.slots:
                self.feed(EndpointLeft(machine.name))
                self.after(back_s, lambda: self.join(machine))
            case "hang":
                machine.hangs = True
                self.after(back_s, lambda: self.unhang(machine))
            case _:
                pass
        self.after(self.dice.uniform(0.2, 2), self.break_something)

    def die(self, machine: Machine) -> None:
        machine.is_up = False
        machine.engine = self.new_engine()
        lost, machine.calls = machine.calls, {}
        for leg, call in lost.items():
            if call.leg == leg:
                call.leg = None
                self.on(call, UpstreamFailed(Failure.RESET))

    def revive(self, machine: Machine) -> None:
        machine.is_up = True

    def unhang(self, machine: Machine) -> None:
        machine.hangs = False


def ran(seed: int, plan: Plan) -> World:
    """The world at its end. What goes wrong says which seed it was."""
    world = World(seed, plan)
    try:
        world.run()
    except BaseException as error:
        error.add_note(f"seed {seed}, {plan}: python {__file__} {seed}")
        raise
    return world


if __name__ == "__main__":
    end = ran(int(sys.argv[1]), swarm(int(sys.argv[1])))
    sys.stdout.write(f"{xxhash.xxh3_64_hexdigest(b''.join(end.journal))} {end.router.digest()}\n")
