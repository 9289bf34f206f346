"""The journal keeps what was written, whatever happens to the process or to the file's end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from runtime.jobs.entry import STATUSES, Entry
from runtime.jobs.journal import Journal, JournalError
from runtime.jobs.ledger import Ledger
from runtime.jobs.row import key_of
from sgdsl.errors import UsageError

PRINT = {"prompt": "a", "model": "b"}

entries = st.builds(
    Entry,
    row=st.integers(0, 40),
    key=st.sampled_from([key_of({"n": n}) for n in range(9)]),
    status=st.sampled_from(STATUSES),
    code=st.none() | st.text(max_size=5),
    attempts=st.integers(1, 3),
    output=st.none() | st.integers() | st.text() | st.dictionaries(st.text(), st.text()),
)
free = settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(entry=entries)
def test_an_entry_is_what_its_line_says(entry: Entry) -> None:
    line = entry.line()
    assert line.count(b"\n") == 1
    assert Entry.from_line(line) == entry


@free
@given(written=st.lists(entries, max_size=30), cut=st.integers(0, 200), data=st.data())
def test_what_is_left_of_a_journal_is_its_whole_lines(
    tmp_path_factory: pytest.TempPathFactory, written: list[Entry], cut: int, data: st.DataObject
) -> None:
    """The last entry of each row counts; of a file cut anywhere, the lines before the cut do."""
    path = tmp_path_factory.mktemp("journal") / "j"
    journal = Journal.open(path, PRINT)
    begin = path.stat().st_size
    for entry in written:
        journal.write(entry)
    journal.close()
    size = path.stat().st_size
    os.truncate(path, max(begin, size - cut))
    kept = path.read_bytes()[begin:].count(b"\n")
    expected = {entry.row: entry for entry in written[:kept]}
    again = Journal.open(path, PRINT)
    try:
        assert {row: again.entry(row) for row in again.ledger.done()} == expected
        assert len(again.ledger) == len(expected)
        for status in STATUSES:
            num = sum(entry.status == status for entry in expected.values())
            assert again.ledger.counts[status] == num
        more = data.draw(entries)
        again.write(more)
        assert again.entry(more.row) == more
    finally:
        again.close()
    assert path.read_bytes().endswith(more.line())


@given(
    notes=st.lists(st.tuples(st.integers(0, 300), st.integers(0, 500), st.sampled_from(STATUSES)))
)
def test_the_ledger_is_a_dict(notes: list[tuple[int, int, Any]]) -> None:
    ledger, reference = Ledger(), dict[int, tuple[str, Any, int]]()
    for place, (row, number, status) in enumerate(notes):
        key = key_of({"number": number})
        ledger.note(row, key, status, place=place)
        reference[row] = key, status, place
    assert list(ledger.done()) == sorted(reference)
    for row, (_, status, place) in reference.items():
        assert (ledger.status(row), ledger.place(row)) == (status, place)
    keys = {key for key, _, _ in reference.values()}
    for number in range(500):
        key = key_of({"number": number})
        found = ledger.first(key)
        assert (found is not None) == (key in keys)
        assert found is None or reference[found][0] == key


def test_an_equal_row_has_the_entry_of_the_first(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "j", PRINT)
    key = key_of({"a": 1})
    journal.write(Entry(row=3, key=key, output="x"))
    journal.write(Entry(row=5, key=key, same_as=3))
    assert journal.entry(5) == Entry(row=3, key=key, output="x")
    assert journal.ledger.num_same == 1
    journal.write(Entry(row=3, key=key, output="y", attempts=2))
    assert journal.entry(5) == Entry(row=3, key=key, output="y", attempts=2)
    journal.close()


def test_another_job_is_refused_by_what_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "j"
    Journal.open(path, PRINT).close()
    with pytest.raises(UsageError, match=r"another model, another seed: .* say force"):
        Journal.open(path, {"prompt": "a", "model": "c", "seed": "1"})
    Journal.open(path, {"prompt": "z"}, force=True).close()


@pytest.mark.parametrize("text", ["{}", "no JSON", '{"sgdsl_journal":1}', "[1]", '"x"'])
def test_a_file_that_is_no_journal_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "j"
    path.write_text(f"{text}\nmore\n")
    with pytest.raises(UsageError, match="no journal of a job"):
        Journal.open(path, PRINT)
    assert path.read_text() == f"{text}\nmore\n"


def test_a_journal_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_text(json.dumps({"sgdsl_journal": 99, "fingerprint": {}}) + "\n")
    with pytest.raises(UsageError, match="another format"):
        Journal.open(path, PRINT)


def test_a_damaged_line_in_the_middle_is_named(tmp_path: Path) -> None:
    path = tmp_path / "j"
    journal = Journal.open(path, PRINT)
    for row in range(3):
        journal.write(Entry(row=row, key=key_of({"row": row})))
    journal.close()
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = b"\0" * 10 + b"\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(UsageError, match=r"line 3 of .* is damaged"):
        Journal.open(path, PRINT)


def test_a_second_writer_is_refused_and_a_dead_one_is_none(tmp_path: Path) -> None:
    path = tmp_path / "j"
    code = (
        "import sys, pathlib\nfrom runtime.jobs.journal import Journal\n"
        f"journal = Journal.open(pathlib.Path(sys.argv[1]), {PRINT!r})\n"
        "print('open', flush=True)\nsys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(UsageError, match="being written by another process"):
            Journal.open(path, PRINT)
        other.kill()
    Journal.open(path, PRINT).close()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_is_one_sentence_and_stays_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could not be written once is never written behind."""
    journal = Journal.open(tmp_path / "j", PRINT)
    journal.write(Entry(row=0, key=key_of({})))
    journal.sync()
    full = Path("/dev/full").open("r+b", buffering=0)  # noqa: SIM115
    monkeypatch.setattr(journal, "_file", full)
    for _ in range(2):
        with pytest.raises(JournalError, match=r"No space left on device.* run the same job again"):
            journal.write(Entry(row=1, key=key_of({})))
    assert journal.ledger.status(1) is None
    full.close()
    monkeypatch.undo()
    with pytest.raises(JournalError):
        journal.close()
    Journal.open(tmp_path / "j", PRINT).close()


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        Journal.open(tmp_path / "file" / "j", PRINT)
