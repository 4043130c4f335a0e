"""The journal on disk: what it gives back, what it loses, and how it tells."""

import logging
import os
from io import FileIO
from pathlib import Path

import pytest
from world import World, prompt, records

from homeport.core.record import Record
from homeport.core.router import Router
from homeport.observe.journal import Journal, JournalError, parts_of, read, verify
from homeport.plugins.registry import POLICIES


def busy_records(requests: int = 20) -> list[Record]:
    world = World("a", "b", "c")
    for i in range(requests):
        world.serve(world.request(prompt("system", f"p{i % 5}"), session=f"s{i % 5}"))
    return records(world)


def written(records: list[Record], path: Path, bytes_max: int = 1 << 20) -> Journal:
    """A journal of these, each flushed by itself, so that any size can be a limit."""
    journal = Journal(path, bytes_max)
    journal.start()
    for record in records:
        journal.observe(record)
        journal.flush()
    journal.stop()
    return journal


def test_a_journal_gives_the_same_commands_again(tmp_path: Path) -> None:
    path, records = tmp_path / "a.journal", busy_records()
    assert written(records, path).lost_records == 0
    assert path.stat().st_mode & 0o777 == 0o600
    found = verify(read([path]), Router(POLICIES))
    assert found.is_ok
    assert found.records == len(records)


def test_a_last_record_cut_by_a_crash_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, records = tmp_path / "a.journal", busy_records()
    written(records, path)
    path.write_bytes(path.read_bytes()[:-3])
    assert list(read([path])) == records[:-1]
    assert "is cut" in caplog.text


@pytest.mark.parametrize("content", [b"", b"something else", b"\0\0\0\5hello"])
def test_what_is_no_journal_is_told_so(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.journal"
    path.write_bytes(content)
    with pytest.raises(JournalError, match="expected a journal"):
        list(read(parts_of(path)))


def test_a_full_file_is_continued_by_another_and_both_read_as_one(tmp_path: Path) -> None:
    path, records = tmp_path / "a.journal", busy_records()
    written(records, path)
    half = path.stat().st_size * 6 // 10
    written(records, path, bytes_max=half * 2)
    assert len(parts_of(path)) == 2
    assert list(read(parts_of(path))) == records
    assert verify(read(parts_of(path)), Router(POLICIES)).is_ok


def test_both_files_together_stay_within_the_limit(tmp_path: Path) -> None:
    path, records = tmp_path / "a.journal", busy_records(60)
    limit = 40_000
    written(records, path, bytes_max=limit)
    parts = parts_of(path)
    assert sum(part.stat().st_size for part in parts) <= limit
    kept = list(read(parts))
    assert kept == records[-len(kept) :]
    with pytest.raises(JournalError, match="the beginning is missing"):
        verify(read(parts), Router(POLICIES))


def test_files_in_the_wrong_order_are_told_apart(tmp_path: Path) -> None:
    path, records = tmp_path / "a.journal", busy_records()
    written(records, path)
    written(records, path, bytes_max=path.stat().st_size * 12 // 10)
    with pytest.raises(JournalError, match="oldest first"):
        list(read(parts_of(path)[::-1]))


def test_the_journal_of_the_run_before_is_kept_once(tmp_path: Path) -> None:
    path, records = tmp_path / "a.journal", busy_records()
    for count in (3, 2, 1):
        written(records[:count], path)
    kept = tmp_path / "a.journal.old"
    assert [len(list(read([file]))) for file in (path, kept)] == [1, 2]


def test_a_file_older_than_is_kept_goes(tmp_path: Path) -> None:
    path, records = tmp_path / "a.journal", busy_records()
    written(records, path)
    os.utime(path, (0, 0))
    journal = Journal(path, 1 << 20, keep_s=60)
    journal.start()
    journal.stop()
    assert not (tmp_path / "a.journal.old").exists()


def test_what_a_broken_disk_loses_is_counted_and_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal, records = Journal(tmp_path / "a.journal", 1 << 20), busy_records()
    journal.start()
    assert journal.file is not None
    journal.file.close()
    journal.file = FileIO("/dev/full", "a")
    with caplog.at_level(logging.ERROR):
        for record in records:
            journal.observe(record)
            journal.flush()
        journal.stop()
    assert journal.lost_records == len(records)
    assert caplog.text.count("ends here") == 1


def test_a_disk_that_is_too_slow_loses_what_comes_after(tmp_path: Path) -> None:
    journal, records = Journal(tmp_path / "a.journal", 1 << 20), busy_records()
    room = journal.batches.maxsize
    # Its thread does not run: nothing is taken out.
    for i in range(room + 5):
        journal.observe(records[i % len(records)])
        journal.flush()
    assert journal.lost_records == 5
