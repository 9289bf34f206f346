"""Which source a name stands for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from runtime.jobs.reading.arrow import Dataset, Parquet, is_dataset
from runtime.jobs.reading.folder import TextFolder
from runtime.jobs.reading.given import Given
from runtime.jobs.reading.jsonl import JsonLines
from runtime.jobs.reading.source import Source
from runtime.jobs.reading.streams import plain_suffix
from runtime.jobs.reading.tables import Table
from sgdsl.errors import UsageError

KINDS = (
    "lines of JSON (.jsonl, .ndjson), a table (.csv, .tsv), each also as .gz or .zst, a Parquet "
    "file (.parquet), a folder of text files or a saved data set"
)


def open_source(given: str | Path | Iterable[Mapping[str, Any] | str]) -> Source:
    """Raises UsageError for what cannot be read, or is not what its name says."""
    if not isinstance(given, str | Path):
        return Given(given)
    path = Path(given)
    if path.is_dir():
        return Dataset(path) if is_dataset(path) else TextFolder(path)
    if not path.exists():
        raise UsageError(f"{path} does not exist; give {KINDS}")
    match plain_suffix(path):
        case ".jsonl" | ".ndjson":
            return JsonLines(path)
        case ".csv":
            return Table(path, delimiter=",")
        case ".tsv":
            return Table(path, delimiter="\t")
        case ".parquet":
            return Parquet(path)
    raise UsageError(f"{path} is named like no kind of file that can be read; give {KINDS}")
