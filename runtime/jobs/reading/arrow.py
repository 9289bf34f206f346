"""Parquet files, and data sets that Hugging Face's `datasets` has saved to disk: Arrow tables.

Owns how a record becomes a row. pyarrow reads both; it is an optional dependency.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runtime.jobs.reading.source import not_that
from runtime.jobs.reading.streams import import_arrow
from runtime.jobs.row import Row
from sgdsl.errors import UsageError

BATCH_ROWS = 256
"""Rows that are in memory at a time."""


class Parquet:
    """A `Source`."""

    rereadable = True

    def __init__(self, path: Path) -> None:
        arrow = import_arrow(f"{path} is a Parquet file")
        from pyarrow import parquet

        self._path = path
        self.name = str(path)
        try:
            with parquet.ParquetFile(path) as file:
                self.columns = tuple(file.schema_arrow.names)
                self.num_rows: int = file.metadata.num_rows
        except OSError as error:
            raise not_that(path, "a Parquet file", error) from None
        except arrow.ArrowInvalid as error:
            raise not_that(path, "a Parquet file", error) from None

    def rows(self) -> Iterator[Row]:
        from pyarrow import parquet

        number = 0
        with parquet.ParquetFile(self._path) as file:
            for batch in file.iter_batches(batch_size=BATCH_ROWS):
                for record in batch.to_pylist():
                    yield Row(number, record)
                    number += 1


def is_dataset(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("state.json", "dataset_dict.json"))


class Dataset:
    """A `Source`: a folder that `Dataset.save_to_disk` has written, which is a `state.json` and the
    files of record batches that it names (Arrow's IPC streaming format).
    """

    rereadable = True

    def __init__(self, folder: Path) -> None:
        self._arrow = import_arrow(f"{folder} is a saved data set")
        self.name = str(folder)
        if (folder / "dataset_dict.json").is_file():
            splits = sorted(path.name for path in folder.iterdir() if is_dataset(path))
            raise UsageError(f"{folder} has several splits; give one of the folders {splits} in it")
        try:
            state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
            self._files = [folder / str(each["filename"]) for each in state["_data_files"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise not_that(folder, "a saved data set", f"state.json: {error!r}") from None
        self.columns: tuple[str, ...] | None = None
        self.num_rows = 0
        for path in self._files:
            with self._open(path) as reader:
                names = tuple(reader.schema.names)
                self.num_rows += sum(batch.num_rows for batch in reader)
            if self.columns not in (None, names):
                raise not_that(folder, "a saved data set", "its files have different columns")
            self.columns = names

    def rows(self) -> Iterator[Row]:
        number = 0
        for path in self._files:
            with self._open(path) as reader:
                for batch in reader:
                    for start in range(0, batch.num_rows, BATCH_ROWS):
                        for record in batch.slice(start, BATCH_ROWS).to_pylist():
                            yield Row(number, record)
                            number += 1

    def _open(self, path: Path) -> Any:
        try:
            return self._arrow.ipc.open_stream(self._arrow.memory_map(str(path)))
        except OSError as error:
            raise not_that(path, "a file of a saved data set", error) from None
        except self._arrow.ArrowInvalid as error:
            raise not_that(path, "a file of a saved data set", error) from None
