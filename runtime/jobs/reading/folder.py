"""A folder of text files: one row a file.

Owns which files count: those below it that are not hidden, by their paths. Columns: `path`, from
the folder on, and `text`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from runtime.jobs.row import Row
from sgdsl.errors import UsageError

MAX_FILE_BYTES = 1 << 28


class TextFolder:
    """A `Source`."""

    columns = ("path", "text")
    rereadable = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.name = str(folder)
        self._paths = sorted(
            (path.relative_to(folder) for path in folder.rglob("*") if path.is_file()),
            key=lambda path: path.parts,
        )
        self._paths = [
            path for path in self._paths if not any(part.startswith(".") for part in path.parts)
        ]
        self.num_rows = len(self._paths)
        if not self._paths:
            raise UsageError(f"{folder} has no files in it; give a folder of text files")

    def rows(self) -> Iterator[Row]:
        for number, path in enumerate(self._paths):
            yield self._row(number, path)

    def _row(self, number: int, path: Path) -> Row:
        whole = self._folder / path
        try:
            if whole.stat().st_size > MAX_FILE_BYTES:
                return Row(number, {}, f"{path} is larger than {MAX_FILE_BYTES:,} bytes")
            text = whole.read_bytes().decode("utf-8-sig")
        except OSError as error:
            return Row(number, {}, f"{path} cannot be read: {error.strerror}")
        except UnicodeDecodeError as error:
            return Row(number, {}, f"{path} is not UTF-8 (byte {error.start})")
        return Row(number, {"path": path.as_posix(), "text": text})
