"""The digests of a folder's files, remembered between starts: a model of many GB is read once.

Owns the folder of remembered digests below `SGDSL_HOME`: a file of JSON for each folder. What
cannot be read there is computed again, and what cannot be written is at the next start.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from runtime.models.errors import ModelUnavailableError
from runtime.models.fetch import sha256_of
from runtime.models.store import sgdsl_home

SMALLEST = 4 << 20
"""Bytes of a file that is remembered; others are read in no time."""

SETTLED_NS = 2_000_000_000
"""A file that was changed so lately may be changed again within one tick of its clock."""

Remembered = dict[str, tuple[list[int], str]]
"""By the file's name in its folder: its stamp, and its digest."""


def digests_of(folder: Path, files: Sequence[Path]) -> dict[Path, str]:
    """The SHA-256 of each of the folder's `files`. One is read again if its size, its inode or one
    of its times has changed since: it cannot be written without a change of those, but by who
    writes to the disk below the file system.
    """
    place = _place(folder)
    before = {} if place is None else _read(place)
    found, after = dict[Path, str](), Remembered()
    for path in files:
        name, stamp = path.relative_to(folder).as_posix(), _stamp(path)
        known = before.get(name)
        if known is not None and known[0] == stamp:
            found[path], after[name] = known[1], known
            continue
        found[path] = sha256_of(path)
        if stamp[0] >= SMALLEST and _is_settled(stamp) and stamp == _stamp(path):
            after[name] = (stamp, found[path])
    if place is not None and after != before:
        _write(place, after)
    return found


def _place(folder: Path) -> Path | None:
    """Where the folder's digests are remembered; None where there is no such place."""
    try:
        home = sgdsl_home()
    except ModelUnavailableError:
        return None
    name = sha256(os.fsencode(folder.resolve())).hexdigest()[:32]
    return home / "digests" / f"{name}.json"


def _stamp(path: Path) -> list[int]:
    """What changes with the file. Its ctime does also where its mtime was set back."""
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, stat.st_dev]


def _is_settled(stamp: Sequence[int]) -> bool:
    return time.time_ns() - max(stamp[1:3]) > SETTLED_NS


def _read(place: Path) -> Remembered:
    try:
        known = json.loads(place.read_text(encoding="utf-8"))
        return {
            str(name): (list(map(int, stamp)), _digest(digest))
            for name, (stamp, digest) in known.items()
        }
    except (OSError, ValueError, TypeError, AttributeError, LookupError):
        return {}


def _digest(value: str) -> str:
    if len(bytes.fromhex(value)) != sha256().digest_size:
        raise ValueError(value)
    return value


def _write(place: Path, remembered: Remembered) -> None:
    """Whole or not at all: of two processes that write at once, the last one wins."""
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        descriptor, work = tempfile.mkstemp(dir=place.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(remembered, file)
            Path(work).replace(place)
        except BaseException:
            Path(work).unlink()
            raise
