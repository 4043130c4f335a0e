"""The journal: one frame for each record, length first, msgpack after. It is the router's memory.

The loop only encodes and hands over; a thread writes. A journal that cannot be written loses
records, counted and told once, and never stops a request. Mode 0600: block hashes say who shares
what with whom.

A file begins with a header that says which record comes first. At half of its limit it becomes
`NAME.1`, in place of the one before it, and a new file continues. A replay needs the files from
record 1 on: once the first is gone the rest can be read, but no longer verified.
"""

import logging
import queue
import threading
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from io import BufferedReader, FileIO
from pathlib import Path
from typing import NamedTuple

import msgspec
import xxhash

from homeport.core.command import Command, Dispatch, Reject
from homeport.core.record import Record
from homeport.core.router import Router
from homeport.observe.frame import DECODER, ENCODER, LENGTH, append_frame

log = logging.getLogger(__name__)

FORMAT = "homeport journal 2"
FRAME_BYTES_MAX = 64 << 20
BATCH_BYTES = 64 << 10
BATCHES_MAX = 256
"""Batches that may wait for the disk; what comes then is lost."""
STOP_S_MAX = 5.0
"""How long the end waits for a disk that hangs."""


class Header(msgspec.Struct, frozen=True):
    """The first frame of a file. `continues` is the sequence of the record that follows."""

    format: str
    homeport: str
    continues: int


HEADER_DECODER = msgspec.msgpack.Decoder(Header)


class JournalError(Exception):
    """The file is not a journal that can be read; the message says where and what to do."""


class Batch(NamedTuple):
    """Whole frames on their way to the disk."""

    frames: bytearray
    records: int
    first: int


class Journal:
    """Writes records (`cluster.driver.Observer`). `start` before use, `stop` at the end."""

    def __init__(self, path: Path, bytes_max: int, keep_s: float | None = None) -> None:
        self.path = path
        self.file_bytes_max = bytes_max // 2
        self.keep_s = keep_s
        self.frames = bytearray()
        self.records = 0
        self.first = 1
        self.batches: queue.Queue[Batch | None] = queue.Queue(BATCHES_MAX)
        self.is_over = False
        self.lost_by_loop = 0
        self.lost_by_disk = 0
        self.written_bytes = 0
        self.continues = 1
        self.file: FileIO | None = None
        self.thread = threading.Thread(target=self.write_all, name="journal", daemon=True)

    @property
    def lost_records(self) -> int:
        return self.lost_by_loop + self.lost_by_disk

    # In the loop.

    def start(self) -> None:
        """Begin a new file; those of the run before are kept as `NAME.old`. Raises OSError."""
        for part in (earlier(self.path), self.path):
            kept = old(self.path) if part == self.path else earlier(old(self.path))
            kept.unlink(missing_ok=True)
            if part.exists():
                part.replace(kept)
        self.open(continues=1)
        self.forget()
        self.thread.start()

    def observe(self, record: Record) -> None:
        if self.is_over:
            self.lost_by_loop += 1
            return
        try:
            append_frame(self.frames, record)
        except (msgspec.MsgspecError, TypeError, ValueError, OverflowError) as error:
            self.lost_by_loop += 1
            self.end(f"record {record.sequence} cannot be encoded: {error}")
            return
        if not self.records:
            self.first = record.sequence
        self.records += 1
        if len(self.frames) >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hand what is there to the thread."""
        if not self.records:
            return
        batch = Batch(self.frames, self.records, self.first)
        self.frames, self.records = bytearray(), 0
        try:
            self.batches.put_nowait(batch)
        except queue.Full:
            # A gap would make all that follows worthless.
            self.lost_by_loop += batch.records
            self.end("the disk is too slow")

    def end(self, why: str) -> None:
        """Nothing is written any more; told once."""
        if not self.is_over:
            self.is_over = True
            log.error("the journal %s ends here, requests go on: %s", self.path, why)

    def stop(self) -> None:
        """Write what is there. Blocks, but for a disk that hangs only so long."""
        if not self.thread.is_alive():
            return
        self.flush()
        try:
            self.batches.put(None, timeout=STOP_S_MAX)
        except queue.Full:
            return
        self.thread.join(STOP_S_MAX)

    # In the thread.

    def write_all(self) -> None:
        is_writing = True
        while (batch := self.batches.get()) is not None:
            try:
                if is_writing:
                    self.write(batch)
            except OSError as error:
                is_writing = False
                self.end(str(error))
            if not is_writing:
                self.lost_by_disk += batch.records
        if self.file is not None:
            self.file.close()

    def write(self, batch: Batch) -> None:
        is_full = self.written_bytes + len(batch.frames) > self.file_bytes_max
        if is_full and batch.first != self.continues:
            self.rotate(batch.first)
        self.append(batch.frames)
        self.forget()

    def rotate(self, continues: int) -> None:
        if self.file is not None:
            self.file.close()
        self.path.replace(earlier(self.path))
        self.open(continues)

    def open(self, continues: int) -> None:
        self.path.touch(mode=0o600, exist_ok=False)
        self.file = self.path.open("ab", buffering=0)
        self.written_bytes, self.continues = 0, continues
        header = ENCODER.encode(Header(FORMAT, version("homeport"), continues))
        self.append(LENGTH.pack(len(header)) + header)

    def append(self, frames: bytes | bytearray) -> None:
        assert self.file is not None, "started"
        left = memoryview(frames)
        while left:
            left = left[self.file.write(left) :]
        self.written_bytes += len(frames)

    def forget(self) -> None:
        """Remove what is older than it is to be kept, by the clock of the file system."""
        if self.keep_s is None:
            return
        oldest = self.path.stat().st_mtime - self.keep_s
        for part in (earlier(self.path), old(self.path), earlier(old(self.path))):
            if part.exists() and part.stat().st_mtime < oldest:
                part.unlink()


def earlier(path: Path) -> Path:
    """Where the file goes that another continues."""
    return path.with_name(path.name + ".1")


def old(path: Path) -> Path:
    """Where the file of the run before goes."""
    return path.with_name(path.name + ".old")


def parts_of(path: Path) -> list[Path]:
    """The file, after the one that it continues where that is still there."""
    with path.open("rb") as file:
        continues = read_header(path, file).continues
    return [earlier(path), path] if continues > 1 and earlier(path).exists() else [path]


def read(paths: Sequence[Path]) -> Iterator[Record]:
    """The records of files that continue each other, in order. Raises JournalError, OSError.

    A last frame that a crash has cut is left out, with a warning; all else that is wrong raises.
    """
    latest: int | None = None
    for path in paths:
        with path.open("rb") as file:
            expected = read_header(path, file).continues
            if latest is not None and expected != latest + 1:
                raise JournalError(
                    f"{path}: begins with record {expected}, expected {latest + 1} after the file "
                    "before it. Give the files of one run, oldest first."
                )
            for at, frame in frames_of(path, file):
                record = decoded(path, at, frame)
                if record.sequence != expected:
                    raise JournalError(
                        f"{path}: at byte {at} is record {record.sequence}, expected {expected}."
                    )
                latest, expected = expected, expected + 1
                yield record


def read_header(path: Path, file: BufferedReader) -> Header:
    stranger = f"{path}: expected a journal of Homeport ({FORMAT!r}), found something else."
    try:
        header = HEADER_DECODER.decode(next(frames_of(path, file))[1])
    except (JournalError, msgspec.MsgspecError, StopIteration):
        raise JournalError(stranger) from None
    if header.format != FORMAT:
        raise JournalError(f"{path}: expected {FORMAT!r}, found {header.format!r}.")
    return header


def frames_of(path: Path, file: BufferedReader) -> Iterator[tuple[int, bytes]]:
    """Each whole frame from here on, and where it begins."""
    while True:
        at = file.tell()
        prefix = file.read(LENGTH.size)
        if not prefix:
            return
        size = LENGTH.unpack(prefix)[0] if len(prefix) == LENGTH.size else 0
        if size > FRAME_BYTES_MAX:
            raise JournalError(f"{path}: at byte {at} a frame of {size} bytes cannot be right.")
        frame = file.read(size)
        if len(prefix) < LENGTH.size or len(frame) < size:
            cut = len(prefix) + len(frame)
            log.warning("%s: the last frame, at byte %d, is cut after %d bytes", path, at, cut)
            return
        yield at, frame


def decoded(path: Path, at: int, frame: bytes) -> Record:
    try:
        return DECODER.decode(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise JournalError(f"{path}: at byte {at} is no record: {error}.") from error


class Verification(msgspec.Struct, frozen=True):
    """What came out when a journal's events were fed to a new router."""

    records: int
    mismatches: int
    difference: str | None
    """The first record whose commands came out differently; None when none did."""
    commands_digest: str
    state_digest: str

    @property
    def is_ok(self) -> bool:
        return self.difference is None


def verify(records: Iterator[Record], router: Router) -> Verification:
    """Feed a journal's events to a new router, and compare the commands with those recorded."""
    digest = xxhash.xxh3_64()
    difference: str | None = None
    count = mismatches = 0
    for record in records:
        count += 1
        if record.sequence != count:
            raise JournalError(
                f"the beginning is missing: the first record is {record.sequence}, and a new "
                "router can be fed only from record 1 on. Give the file before this one too."
            )
        try:
            commands = router.handle(record.event, record.at)
        except Exception as error:
            # What is verified is the router itself: that it fails is a finding.
            mismatches += 1
            difference = difference or f"{named(record)} made the router fail: {error!r}"
            break
        made = ENCODER.encode(commands)
        digest.update(made)
        if made != ENCODER.encode(record.commands):
            mismatches += 1
            difference = difference or (
                f"{named(record)} gave {listed(commands)}, recorded was {listed(record.commands)}"
            )
    return Verification(count, mismatches, difference, digest.hexdigest(), router.digest())


def named(record: Record) -> str:
    return f"record {record.sequence} ({type(record.event).__name__})"


def listed(commands: list[Command]) -> str:
    return ", ".join(map(described, commands)) or "no command"


def described(command: Command) -> str:
    match command:
        case Dispatch(request_id, endpoint, decision):
            cached = decision.predicted_cached_tokens
            return f"Dispatch of {request_id} to {endpoint} with {cached} tokens cached"
        case Reject(request_id, refusal):
            return f"Reject of {request_id}: {refusal.reason}"
        case _:
            return f"WakeAt {command.at}"
