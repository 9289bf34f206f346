"""Files that may be compressed, as streams of bytes.

Owns which compression a file's name stands for, and the check that it is that.
"""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import Any, BinaryIO, cast

from runtime.jobs.reading.source import not_that
from sgdsl.errors import UsageError

MAGIC = {".gz": b"\x1f\x8b", ".zst": b"\x28\xb5\x2f\xfd"}
FOREIGN = {**MAGIC, "Parquet": b"PAR1", "zip": b"PK\x03\x04", "PDF": b"%PDF"}
"""How files begin that are no text."""


def plain_suffix(path: Path) -> str:
    """Of what is in the file: `.jsonl` of `docs.jsonl.gz`."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in MAGIC:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def open_bytes(path: Path) -> BinaryIO:
    """The file's contents, without its compression. Raises UsageError if it cannot be read, or is
    not what its name says.
    """
    try:
        with path.open("rb") as file:
            begin = file.read(8)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    suffix = path.suffix.lower()
    if suffix in MAGIC:
        if not begin.startswith(MAGIC[suffix]):
            raise not_that(path, f"a {suffix} file", "it does not begin like one")
        return _gunzipped(path) if suffix == ".gz" else _unzstd(path)
    for kind, magic in FOREIGN.items():
        if begin.startswith(magic):
            raise not_that(path, "text", f"it begins like a {kind} file; name it so")
    return path.open("rb")


def _gunzipped(path: Path) -> BinaryIO:
    return cast("BinaryIO", io.BufferedReader(gzip.open(path)))


def _unzstd(path: Path) -> BinaryIO:
    arrow = import_arrow(f"{path} is compressed with zstd")
    return cast("BinaryIO", io.BufferedReader(arrow.input_stream(str(path), compression="zstd")))


def import_arrow(why: str) -> Any:
    """pyarrow, an optional dependency."""
    try:
        import pyarrow as pa
    except ImportError:
        raise UsageError(f"{why}, which takes pyarrow: pip install 'sgdsl[jobs]'") from None
    return pa
