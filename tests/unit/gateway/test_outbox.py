"""What is written in one turn goes out at its end, whole and in order."""

import asyncio

from homeport.gateway.outbox import WAITING_MAX, Outbox


class Connection:
    """One that writes as the real ones do: bytes first, then a word to the outbox."""

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self.outgoing: list[bytes] = []
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.outgoing.append(data)
        if len(self.outgoing) == 1:
            self.outbox.add(self)

    def flush(self) -> None:
        self.written += self.outgoing
        self.outgoing.clear()


def test_nothing_is_written_before_the_turn_ends_and_all_of_it_after() -> None:
    async def turns() -> None:
        outbox = Outbox(asyncio.get_running_loop())
        first, second = Connection(outbox), Connection(outbox)
        first.write(b"a")
        second.write(b"x")
        first.write(b"b")
        assert first.written == second.written == []
        await asyncio.sleep(0)
        assert (first.written, second.written) == ([b"a", b"b"], [b"x"])
        first.write(b"c")
        await asyncio.sleep(0)
        assert first.written == [b"a", b"b", b"c"]

    asyncio.run(turns())


def test_with_many_connections_in_one_turn_the_first_ones_do_not_wait_for_its_end() -> None:
    async def turns() -> None:
        outbox = Outbox(asyncio.get_running_loop())
        connections = [Connection(outbox) for _ in range(WAITING_MAX * 2 + 3)]
        for connection in connections:
            connection.write(b"a")
        assert sum(bool(connection.written) for connection in connections) == WAITING_MAX * 2
        await asyncio.sleep(0)
        assert all(connection.written == [b"a"] for connection in connections)

    asyncio.run(turns())
