"""What is read is every row of the input, and one with a fault where a row cannot be read."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from runtime.jobs.reading import jsonl
from runtime.jobs.reading.open import open_source
from runtime.jobs.row import Row
from sgdsl.errors import UsageError

pa = pytest.importorskip("pyarrow")

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
values: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
free = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read(path: Path) -> list[Row]:
    return list(open_source(path).rows())


def zstd(data: bytes) -> bytes:
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, "zstd") as stream:
        stream.write(data)
    return bytes(out.getvalue())


PACKERS: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".zst": zstd}


@free
@given(records=st.lists(st.dictionaries(names, values), max_size=5), blank=st.booleans())
@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_lines_of_json_are_what_json_reads(
    tmp_path: Path, suffix: str, records: list[dict[str, Any]], blank: bool
) -> None:
    text = ("\n\n" if blank else "\n").join(json.dumps(each) for each in records)
    path = tmp_path / f"rows.jsonl{suffix}"
    path.write_bytes(PACKERS[suffix](text.encode()))
    assert read(path) == [Row(number, each) for number, each in enumerate(records)]


@free
@given(
    header=st.lists(names.filter(str.strip), min_size=1, max_size=4, unique=True),
    table=st.lists(st.lists(st.text(max_size=5).filter(lambda t: "\0" not in t), max_size=5)),
)
def test_a_table_is_what_csv_wrote(
    tmp_path: Path, header: list[str], table: list[list[str]]
) -> None:
    path = tmp_path / "rows.csv"
    with path.open("w", encoding="utf-8", errors="surrogatepass", newline="") as file:
        csv.writer(file).writerows([header, *(row for row in table if row)])
    source = open_source(path)
    for row, record in zip(source.rows(), (row for row in table if row), strict=True):
        if row.fault is None:
            assert row.columns == dict(zip(header, record, strict=True))
        else:
            surrogate = any("\ud800" <= char <= "\udfff" for cell in record for char in cell)
            assert surrogate or len(record) != len(header)


def test_parquet_and_saved_data_sets_keep_their_types(tmp_path: Path) -> None:
    from pyarrow import parquet

    records = [{"n": i, "t": f"text {i}", "l": [1.5, None], "d": {"a": i}} for i in range(700)]
    table = pa.Table.from_pylist(records)
    parquet.write_table(table, tmp_path / "rows.parquet")
    folder = tmp_path / "saved"
    folder.mkdir()
    for index, part in enumerate((table.slice(0, 400), table.slice(400))):
        with (
            pa.OSFile(str(folder / f"data-{index}.arrow"), "wb") as file,
            pa.ipc.new_stream(file, part.schema) as writer,
        ):
            writer.write_table(part)
    files = [{"filename": f"data-{index}.arrow"} for index in range(2)]
    (folder / "state.json").write_text(json.dumps({"_data_files": files}))
    for path in (tmp_path / "rows.parquet", folder):
        source = open_source(path)
        assert (source.num_rows, source.columns) == (700, ("n", "t", "l", "d"))
        assert list(source.rows()) == [Row(number, each) for number, each in enumerate(records)]


def test_a_folder_is_its_files_in_order(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x.txt").write_text("sub")
    (tmp_path / "a.md").write_bytes(b"\xef\xbb\xbfbegins with a mark")
    (tmp_path / "c.txt").write_bytes(b"\xff")
    (tmp_path / ".hidden").write_text("no")
    rows = read(tmp_path)
    assert [row.columns.get("path") for row in rows] == ["a.md", "b/x.txt", None]
    assert rows[0].columns["text"] == "begins with a mark"
    assert rows[2].fault == "c.txt is not UTF-8 (byte 0)"


BAD_LINES: list[tuple[bytes, str]] = [
    (b"[1]", "no JSON object but a list"),
    (b"{", "not JSON"),
    (b'{"a": "\xff"}', "not UTF-8"),
    (b"[" * 100_000, "nested too deeply"),
    (b'{"a": 1' + b"0" * 5_000 + b"}", "not JSON"),
]


@pytest.mark.parametrize(("line", "why"), BAD_LINES)
def test_a_bad_line_is_a_row_with_a_fault_and_the_next_is_read(
    tmp_path: Path, line: bytes, why: str
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\n' + line + b'\n{"a": 2}')
    first, bad, last = read(path)
    assert (first.columns, last.columns) == ({"a": 1}, {"a": 2})
    assert bad.number == 1
    assert bad.fault is not None
    assert "line 2" in bad.fault
    assert why in bad.fault


def test_a_line_that_is_too_long_is_read_past(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "MAX_LINE_BYTES", 16)
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"a": 1}\n' + b"x" * 100 + b'\n{"a": 2}\n')
    assert [row.fault is None for row in read(path)] == [True, False, True]


def refusals(folder: Path) -> list[tuple[Path, bytes, str]]:
    jpeg, parquet = b"\xff\xd8\xff\xe0 rest", b"PAR1 rest"
    return [
        (folder / "x.jsonl", jpeg, "line 1 is not UTF-8"),
        (folder / "x.jsonl", parquet, "begins like a Parquet file"),
        (folder / "x.jsonl", b"[{}]", "no JSON object but a list"),
        (folder / "x.jsonl.gz", b"{}", "does not begin like one"),
        (folder / "x.jsonl.zst", b"{}", "does not begin like one"),
        (folder / "x.csv", b"", "there is no header"),
        (folder / "x.csv", b"a,a\n", "more than once"),
        (folder / "x.parquet", b"{}", "cannot be read as a Parquet file"),
        (folder / "x.docx", b"PK\x03\x04", "no kind of file that can be read"),
    ]


@pytest.mark.parametrize("index", range(9))
def test_what_is_not_what_its_name_says_is_refused(tmp_path: Path, index: int) -> None:
    path, data, why = refusals(tmp_path)[index]
    path.write_bytes(data)
    with pytest.raises(UsageError, match=why) as caught:
        open_source(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_compressed_file_that_was_cut_off_says_so(tmp_path: Path, suffix: str) -> None:
    text = "".join(
        json.dumps({"a": number, "b": str(hash(number))}) + "\n" for number in range(9999)
    )
    pack = gzip.compress if suffix == ".gz" else zstd
    path = tmp_path / f"rows.jsonl{suffix}"
    path.write_bytes(pack(text.encode())[:-2000])
    with pytest.raises(UsageError, match="cannot be read as what its name says"):
        read(path)


def test_what_a_program_gives_is_dicts_or_texts() -> None:
    given: Any = [{"a": 1}, "words", {3: 4}, None]
    source = open_source(given)
    rows = list(source.rows())
    assert [row.columns for row in rows[:2]] == [{"a": 1}, {"text": "words"}]
    assert [row.fault for row in rows[2:]] == [
        "row 2 has a column that is no text: 3",
        "row 3 is neither a dict nor a text but NoneType",
    ]
    assert source.rereadable
    assert not open_source(iter([])).rereadable
    for wrong in ({"a": 1}, 7):
        with pytest.raises(UsageError, match="the data set is"):
            open_source(wrong)  # type: ignore[arg-type]


def test_a_text_stream_is_not_needed_to_end_with_a_line_end(tmp_path: Path) -> None:
    path = tmp_path / "rows.tsv"
    path.write_bytes(io.BytesIO(b"a\tb\n1\t2\n\n3\t4").getvalue())
    assert [row.columns for row in read(path)] == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]
