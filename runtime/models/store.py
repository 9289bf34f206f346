"""The cache folder of converted models: complete or absent, whatever interrupts the work.

Owns `SGDSL_HOME`, the layout below it, the lock between processes and the manifest that marks a
folder as complete. A model is built in a sibling folder and renamed into place as a whole; a folder
without a matching manifest is never used. Must not know how the content is fetched or converted.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from runtime.models.errors import ModelUnavailableError
from runtime.models.fetch import sha256_of

_MANIFEST = "manifest.json"
_UNWRITABLE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST}


def sgdsl_home() -> Path:
    """The folder for everything that sgdsl keeps: `SGDSL_HOME`, or else `~/.cache/sgdsl`."""
    named = os.environ.get("SGDSL_HOME")
    try:
        return Path(named or "~/.cache/sgdsl").expanduser().absolute()
    except (RuntimeError, OSError) as error:  # no such user's home; no current folder
        reason = str(error).rstrip(".")
        raise ModelUnavailableError(
            f"The model folder {named or '~/.cache/sgdsl'!r} cannot be found ({reason}): set"
            " SGDSL_HOME to the full path of a folder that can be written."
        ) from error


class ModelStore:
    """The converted models below one folder, each under its name."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def folder(self, name: str) -> Path:
        return self._root / name

    def is_complete(self, name: str, *, identity: dict[str, Any], verify: bool = False) -> bool:
        """Whether the folder was finished for this `identity` and all its files have their sizes.

        `verify` reads the files and compares their hashes too (about a second per GB).
        """
        folder = self.folder(name)
        try:
            manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
            if manifest["identity"] != identity:
                return False
            return all(_is_intact(folder / f, v, verify) for f, v in manifest["files"].items())
        except (OSError, ValueError, KeyError, TypeError):
            return False  # absent or damaged: it will be built again

    def build(
        self,
        name: str,
        *,
        identity: dict[str, Any],
        fill: Callable[[Path, Path], None],
    ) -> None:
        """Put a new folder in place of whatever is there; the caller holds the lock.

        `fill(scratch, folder)` writes the files to `folder`; `scratch` is removed afterwards.
        """
        self._remove_leftovers(name)
        work = Path(tempfile.mkdtemp(prefix=_work_prefix(name), dir=self._root))
        try:
            scratch, folder = work / "scratch", work / "folder"
            scratch.mkdir()
            folder.mkdir()
            fill(scratch, folder)
            _seal(folder, identity)
            if self.folder(name).exists():
                self.folder(name).rename(work / "replaced")
            folder.rename(self.folder(name))
            _sync(self._root)
        finally:
            # Ours too; and a pip that outlived its process may have come back to a leftover.
            self._remove_leftovers(name)

    @contextmanager
    def locked(self, name: str, *, on_wait: Callable[[], None]) -> Iterator[None]:
        """One process at a time works on `name`; the system drops the lock of one that dies."""
        with _explained(self._root, whatever=True):
            self._root.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self._root / f".{name}.lock")
            try:
                lock.acquire(timeout=0)
            except Timeout:
                on_wait()
                lock.acquire()
        try:
            with _explained(self._root):
                yield
        finally:
            lock.release()

    def _remove_leftovers(self, name: str) -> None:
        # Under the lock nobody else builds `name`: what is there was left by a dead process.
        for leftover in self._root.glob(f"{_work_prefix(name)}*"):
            shutil.rmtree(leftover, ignore_errors=True)


def check_free_space(root: Path, needed_bytes: int) -> None:
    """Raises ModelUnavailableError when the disk below `root` cannot take `needed_bytes` more."""
    free_bytes = shutil.disk_usage(root).free
    if free_bytes < needed_bytes:
        raise ModelUnavailableError(
            f"The disk of {str(root)!r} has {free_bytes / 1e6:.0f} MB free and"
            f" {needed_bytes / 1e6:.0f} MB are needed: free some, or set SGDSL_HOME to a folder on"
            " another disk."
        )


def _work_prefix(name: str) -> str:
    return f".{name}.partial-"


def _is_intact(path: Path, recorded: dict[str, Any], verify: bool) -> bool:
    if path.stat().st_size != recorded["bytes"]:
        return False
    return not verify or sha256_of(path) == recorded["sha256"]


def _seal(folder: Path, identity: dict[str, Any]) -> None:
    """Write the manifest, and have everything on the disk before the folder gets its name."""
    files = {
        path.name: {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
        for path in sorted(folder.iterdir())
    }
    manifest = {"identity": identity, "files": files}
    (folder / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    for path in [*folder.iterdir(), folder]:
        _sync(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _explained(root: Path, *, whatever: bool = False) -> Iterator[None]:
    """Says what to do about a folder that cannot be written, or a disk that is full.

    `whatever`: every fault is the folder's, because nothing else is touched in the meantime.
    """
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            advice = "free some space, or set SGDSL_HOME to a folder on another disk"
        elif whatever or error.errno in _UNWRITABLE:
            advice = "set SGDSL_HOME to a folder that can be written"
        else:
            raise
        raise ModelUnavailableError(
            f"The model folder {str(root)!r} cannot be written ({error.strerror}): {advice}."
        ) from error
