"""Feeds the router with events and carries out its commands.

It owns the router, and all calls happen in one event loop, so a call to `handle` is atomic and
nothing needs a lock. An event that a command gives rise to waits until the commands before it are
carried out.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from homeport.core.command import Dispatch, Reject, WakeAt
from homeport.core.event import Event, RequestArrived, TimerFired
from homeport.core.ids import MICROS_PER_SECOND, Instant, RequestId
from homeport.core.record import Record
from homeport.core.refusal import Reason, Refusal
from homeport.core.router import Router

log = logging.getLogger(__name__)

BUG = Refusal(Reason.INTERNAL, "Homeport met a bug of its own; its log says more.")


class Asker(Protocol):
    """Who waits for the router's word on one request."""

    def placed(self, command: Dispatch) -> None: ...

    def refused(self, command: Reject) -> None: ...


class Observer(Protocol):
    """Sees every record, after it happened. It must be quick and must not raise."""

    def observe(self, record: Record) -> None: ...


class Driver:
    def __init__(
        self, router: Router, loop: asyncio.AbstractEventLoop, observers: Sequence[Observer] = ()
    ) -> None:
        self.router = router
        self.loop = loop
        self.observers = observers
        self.askers: dict[RequestId, Asker] = {}
        self.sequence = 0
        self.bugs = 0
        self.pending: deque[Event] = deque()
        self.is_feeding = False
        self.timer: asyncio.TimerHandle | None = None

    def now(self) -> Instant:
        return Instant(int(self.loop.time() * MICROS_PER_SECOND))

    def feed(self, event: Event) -> None:
        """The event enters the router, now or after those that are being carried out."""
        if self.is_feeding:
            self.pending.append(event)
            return
        self.is_feeding = True
        try:
            self.step(event)
            while self.pending:
                self.step(self.pending.popleft())
        finally:
            self.is_feeding = False

    def step(self, event: Event) -> None:
        now = self.now()
        try:
            commands = self.router.handle(event, now)
        except Exception:
            self.bug(event)
            return
        self.sequence += 1
        record = Record(self.sequence, now, event, commands)
        for observer in self.observers:
            observer.observe(record)
        for command in commands:
            if isinstance(command, Dispatch):
                self.askers[command.request_id].placed(command)
            else:
                self.carry_out(command)

    def carry_out(self, command: Reject | WakeAt) -> None:
        match command:
            case Reject(request_id):
                self.askers.pop(request_id).refused(command)
            case WakeAt(at):
                if self.timer is not None:
                    self.timer.cancel()
                self.timer = self.loop.call_at(at / MICROS_PER_SECOND, self.feed, TimerFired())

    def bug(self, event: Event) -> None:
        """The request dies; the router goes on with what it has."""
        self.bugs += 1
        log.critical("a bug in the router, at %r", type(event).__name__, exc_info=True)
        if isinstance(event, RequestArrived):
            asker = self.askers.pop(event.request.id, None)
            if asker is not None:
                asker.refused(Reject(event.request.id, BUG))

    def ask(self, request_id: RequestId, asker: Asker) -> None:
        """From now on the router's word on this request goes to `asker`."""
        self.askers[request_id] = asker

    def forget(self, request_id: RequestId) -> None:
        self.askers.pop(request_id, None)
