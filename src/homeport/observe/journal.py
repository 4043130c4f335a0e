"""The journal: one frame for each record, length first, msgpack after. It is the router's memory.

The loop only encodes and hands over; a thread writes. A journal that cannot be written loses
records, counted and told once, and never stops a request. Mode 0600: block hashes say who shares
what with whom.
"""

import logging
import queue
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import xxhash

from homeport.core.record import Record
from homeport.core.router import Router

log = logging.getLogger(__name__)

MAGIC = b"homeport journal 1\n"
LENGTH = struct.Struct(">I")
FRAME_BYTES_MAX = 64 << 20
BATCH_BYTES = 64 << 10
BATCHES_MAX = 256
"""Batches that may wait for the disk; what comes then is lost."""

ENCODER = msgspec.msgpack.Encoder()
DECODER = msgspec.msgpack.Decoder(Record)


class JournalError(Exception):
    """The file is not a journal that can be read; the message says where and what to do."""


class Journal:
    """Writes records (`cluster.driver.Observer`). `start` before use, `stop` at the end."""

    def __init__(self, path: Path, bytes_max: int) -> None:
        self.path = path
        self.bytes_max = bytes_max
        self.batch = bytearray()
        self.batches: queue.Queue[bytes | None] = queue.Queue(BATCHES_MAX)
        self.lost_records = 0
        self.records_in_batch = 0
        self.written_bytes = 0
        self.is_broken = False
        self.thread = threading.Thread(target=self.write_all, name="journal", daemon=True)

    def start(self) -> None:
        """Begin a new file; the one before is kept beside it. Raises OSError."""
        if self.path.exists():
            self.path.replace(self.path.with_name(self.path.name + ".old"))
        self.path.touch(mode=0o600)
        self.path.write_bytes(MAGIC)
        self.written_bytes = len(MAGIC)
        self.thread.start()

    def observe(self, record: Record) -> None:
        frame = ENCODER.encode(record)
        self.batch += LENGTH.pack(len(frame))
        self.batch += frame
        self.records_in_batch += 1
        if len(self.batch) >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hand what is there to the thread."""
        if not self.batch:
            return
        batch, self.batch = bytes(self.batch), bytearray()
        count, self.records_in_batch = self.records_in_batch, 0
        is_full = self.written_bytes + len(batch) > self.bytes_max
        if is_full and not self.is_broken:
            self.is_broken = True
            log.error("the journal %s is at its limit of %d bytes", self.path, self.bytes_max)
        if self.is_broken:
            self.lost_records += count
            return
        try:
            self.batches.put_nowait(batch)
            self.written_bytes += len(batch)
        except queue.Full:
            # A gap would make all that follows worthless.
            self.is_broken = True
            self.lost_records += count
            log.error("the disk is too slow for the journal %s; it ends here", self.path)

    def write_all(self) -> None:
        try:
            with self.path.open("ab", buffering=0) as file:
                while (batch := self.batches.get()) is not None:
                    file.write(batch)
        except OSError as error:
            self.is_broken = True
            log.error("cannot write the journal %s: %s", self.path, error)

    def stop(self) -> None:
        self.flush()
        if self.thread.is_alive():
            self.batches.put(None)
            self.thread.join()


def read(path: Path) -> Iterator[Record]:
    """The records of a file. A last frame cut by a crash ends it; all else raises JournalError."""
    data = memoryview(path.read_bytes())
    if bytes(data[: len(MAGIC)]) != MAGIC:
        raise JournalError(f"{path}: expected a journal of Homeport, found something else.")
    at = len(MAGIC)
    while at + LENGTH.size <= len(data):
        (size,) = LENGTH.unpack(data[at : at + LENGTH.size])
        if size > FRAME_BYTES_MAX:
            raise JournalError(f"{path}: at byte {at} a frame of {size} bytes cannot be right.")
        begin, end = at + LENGTH.size, at + LENGTH.size + size
        if end > len(data):
            return
        try:
            yield DECODER.decode(data[begin:end])
        except msgspec.MsgspecError as error:
            raise JournalError(f"{path}: at byte {at} is no record: {error}.") from error
        at = end


class Verification(msgspec.Struct, frozen=True):
    """What came out when a journal's events were fed to a new router."""

    records: int
    commands_digest: str
    state_digest: str
    difference: str | None
    """The first record whose commands came out differently; None when none did."""

    @property
    def is_ok(self) -> bool:
        return self.difference is None


def verify(path: Path, router: Router) -> Verification:
    """Feed a journal's events to a new router, and compare the commands with those recorded."""
    digest = xxhash.xxh3_64()
    difference: str | None = None
    count = 0
    for record in read(path):
        count += 1
        if record.sequence != count:
            raise JournalError(f"{path}: expected record {count}, found {record.sequence}.")
        made = ENCODER.encode(router.handle(record.event, record.at))
        digest.update(made)
        if difference is None and made != ENCODER.encode(record.commands):
            kind = type(record.event).__name__
            difference = f"record {record.sequence} ({kind}) gave other commands than recorded"
    return Verification(count, digest.hexdigest(), router.digest(), difference)
