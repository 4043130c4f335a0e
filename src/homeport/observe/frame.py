"""Records as bytes: length first, msgpack after. So they stand in the journal, and in memory.

A record kept as bytes is one object, which the collector need not look at; as it was it is sixty.
"""

import struct
from collections.abc import Iterator

import msgspec

from homeport.core.record import Record

LENGTH = struct.Struct(">I")
ENCODER = msgspec.msgpack.Encoder()
DECODER = msgspec.msgpack.Decoder(Record)


def append_frame(frames: bytearray, record: Record) -> None:
    """Raises msgspec.MsgspecError, TypeError, ValueError, OverflowError; then nothing is added."""
    begin = len(frames)
    frames += b"\0\0\0\0"
    try:
        ENCODER.encode_into(record, frames, begin + LENGTH.size)
    except Exception:
        del frames[begin:]
        raise
    LENGTH.pack_into(frames, begin, len(frames) - begin - LENGTH.size)


def framed(record: Record) -> bytes:
    encoded = ENCODER.encode(record)
    return LENGTH.pack(len(encoded)) + encoded


def records_in(frames: bytes) -> Iterator[Record]:
    """The records of whole frames."""
    view, at = memoryview(frames), 0
    while at < len(frames):
        begin = at + LENGTH.size
        at = begin + LENGTH.unpack_from(view, at)[0]
        yield DECODER.decode(view[begin:at])
