"""The prefix file: pages of KV on the disk, for the next process.

Owns the format, and that a file is there whole or not at all. It must not know which prefixes are
worth keeping, nor where their pages go: that is the business of `handover`.

A file is a safetensors one: the pages' tokens, their parents and their KV. Its metadata are the
format's version, the key (what the KV depends on, by name) and a checksum of all the rest. What is
read has exactly the key and the checksum, or is refused. The checksum is against damage, not
against somebody who may write the file.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

VERSION = "1"
"""Raise it when the meaning of what is written changes."""

MAX_BYTES = 512 << 20
"""Of the pages in a file with what belongs to them: read and written in about a second."""

_MARK = "sgdsl_prefixes"
_HEADER_BYTES = 1 << 16
_LEFT_OVER_S = 3600.0
"""Nobody writes for so long."""


class UnusableFileError(Exception):
    """The file is not what was asked for. The message goes on from its name."""


@dataclass(frozen=True, slots=True)
class Prefixes:
    """Pages in an order in which parents come first. tokens: int64 [num_pages, page_size]; parents:
    int64 [num_pages], -1 for those that begin a prefix; pages: float32 [num_pages, ...], their KV.
    """

    tokens: NDArray[np.int64]
    parents: NDArray[np.int64]
    pages: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.parents)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"pages": self.pages, "parents": self.parents, "tokens": self.tokens}


Key = Mapping[str, str]
"""What the KV depends on: a name and a value each."""


def max_pages(page_bytes: int, page_size: int) -> int:
    """That fit into a file."""
    return MAX_BYTES // (page_bytes + 8 * (page_size + 1))


def read(path: Path, key: Key, *, page_size: int, page_shape: tuple[int, ...]) -> Prefixes | None:
    """None where there is no file. Raises UnusableFileError for one that is damaged, of another
    version or of another key, and OSError for one that cannot be read.
    """
    try:
        data = _bytes_of(path)
    except FileNotFoundError:
        return None
    metadata = _metadata_of(data)
    if (version := metadata.get(_MARK)) != VERSION:
        raise UnusableFileError(
            f"is of the format {version!r}, and this sgdsl reads {VERSION!r}"
            if version is not None
            else "is not a file of prefixes, or is damaged"
        )
    try:
        arrays = load(data)
    except MemoryError:
        raise
    except Exception as error:  # of any kind: types that numpy has not, for one
        raise UnusableFileError(f"is damaged ({error})") from error
    written = metadata.get("key", "")
    if metadata.get("checksum") != _checksum(arrays, written):
        raise UnusableFileError("is damaged (it has not the checksum that it states)")
    _check_key(written, key)
    return _prefixes(arrays, page_size=page_size, page_shape=page_shape)


def write(path: Path, prefixes: Prefixes, key: Key) -> None:
    """Put the file in place as a whole: until then, and where that fails, the old one stays.

    Raises OSError where it cannot be written, UnusableFileError where there is something else.
    """
    _check_replaceable(path)
    _remove_leftovers(path)
    written = json.dumps(dict(key), sort_keys=True)
    arrays = prefixes.arrays
    metadata = {_MARK: VERSION, "key": written, "checksum": _checksum(arrays, written)}
    data = save(arrays, metadata)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=_work_prefix(path))
    try:
        with os.fdopen(descriptor, "wb") as file:  # of this user alone: prompts are in it
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise
    _sync_folder(path.parent)


def _bytes_of(path: Path) -> bytes:
    # Without waiting for who might write to a pipe.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnusableFileError("is not a regular file")
        most = MAX_BYTES + _HEADER_BYTES
        if status.st_size > most:
            raise UnusableFileError(
                f"has {status.st_size:,} bytes; a file of prefixes has at most {most:,}"
            )
        return file.read(most)


def _metadata_of(data: bytes) -> dict[str, Any]:
    """Nothing where it cannot be told."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > _HEADER_BYTES:
        return {}
    try:
        header = json.loads(data[8 : 8 + length])
    except (ValueError, RecursionError):
        return {}
    found = header.get("__metadata__") if isinstance(header, dict) else None
    return found if isinstance(found, dict) else {}


def _checksum(arrays: Mapping[str, NDArray[Any]], key: str) -> str:
    """Of the key, and of each array's name, type, shape and bytes."""
    kinds = [(name, each.dtype.str, each.shape) for name, each in sorted(arrays.items())]
    digest = blake2b(repr((VERSION, key, kinds)).encode())
    for _, each in sorted(arrays.items()):
        digest.update(np.ascontiguousarray(each).data.cast("B") if each.size else b"")
    return digest.hexdigest()


def _check_key(written: str, key: Key) -> None:
    """`written` is what the checksum says it is, whoever has made that."""
    try:
        found = json.loads(written)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UnusableFileError("has no key")
    if found != dict(key):
        others = sorted(set(key) | set(found))
        differing = [name for name in others if found.get(name) != key.get(name)]
        raise UnusableFileError(f"was written with another {', '.join(differing)}")


def _prefixes(
    arrays: dict[str, NDArray[Any]], *, page_size: int, page_shape: tuple[int, ...]
) -> Prefixes:
    """A checksum says nothing about who has written it."""
    num_pages = len(arrays["parents"]) if "parents" in arrays and arrays["parents"].ndim else -1
    wanted: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {
        "pages": (np.dtype(np.float32), (num_pages, *page_shape)),
        "parents": (np.dtype(np.int64), (num_pages,)),
        "tokens": (np.dtype(np.int64), (num_pages, page_size)),
    }
    if {name: (each.dtype, each.shape) for name, each in arrays.items()} != wanted:
        raise UnusableFileError("has other tensors than a file of prefixes")
    parents = arrays["parents"]
    if not ((parents >= -1) & (parents < np.arange(num_pages))).all():
        raise UnusableFileError("has pages before those that lead to them")
    return Prefixes(tokens=arrays["tokens"], parents=parents, pages=arrays["pages"])


def _check_replaceable(path: Path) -> None:
    """Whoever gives the name of another file does not lose that."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return
    if not stat.S_ISREG(status.st_mode):
        raise UnusableFileError("is not a regular file, and is not replaced")
    with path.open("rb") as file:
        beginning = file.read(_HEADER_BYTES)
    if beginning and _MARK.encode() not in beginning:
        raise UnusableFileError("is not a file of prefixes, and is not replaced; delete it first")


def _remove_leftovers(path: Path) -> None:
    """Those of processes that died while they wrote."""
    before = time.time() - _LEFT_OVER_S
    for leftover in path.parent.iterdir():
        if leftover.name.startswith(_work_prefix(path)):
            with suppress(OSError):
                if leftover.stat().st_mtime < before:
                    leftover.unlink()


def _work_prefix(path: Path) -> str:
    return f".{path.name}.partial-"


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
