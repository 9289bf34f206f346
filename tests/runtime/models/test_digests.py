"""Digests of files are remembered; a file that has changed is read again, however it changed."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.models import digests
from runtime.models.digests import SMALLEST, digests_of

LARGE = bytes(range(256)) * (SMALLEST // 256)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SGDSL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(digests, "SETTLED_NS", -1)
    return tmp_path / "home"


@pytest.fixture
def folder(tmp_path: Path, home: Path) -> Path:
    made = tmp_path / "model"
    made.mkdir()
    (made / "weights").write_bytes(LARGE)
    (made / "config").write_bytes(b"{}")
    return made


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are read."""
    names: list[str] = []

    def read(path: Path) -> str:
        names.append(path.name)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    monkeypatch.setattr(digests, "sha256_of", read)
    return names


def check(folder: Path) -> None:
    files = sorted(each for each in folder.iterdir() if each.is_file())
    expected = {each: hashlib.sha256(each.read_bytes()).hexdigest() for each in files}
    assert digests_of(folder, files) == expected


def remembered(home: Path) -> list[Path]:
    return sorted((home / "digests").iterdir())


def test_what_has_not_changed_is_read_once(folder: Path, read: list[str]) -> None:
    check(folder)
    check(folder)
    check(folder)
    assert read.count("weights") == 1


def overwrite(path: Path) -> None:
    """In place: another byte, the same size, inode and mtime."""
    stat = path.stat()
    with path.open("r+b") as file:
        file.seek(SMALLEST // 2)
        file.write(b"?")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def replace(path: Path) -> None:
    """By another file of the same size and mtime."""
    stat = path.stat()
    other = path.with_name("other")
    other.write_bytes(LARGE[::-1])
    os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    other.replace(path)


def lengthen(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"?")


@pytest.mark.parametrize("change", [overwrite, replace, lengthen])
def test_what_has_changed_is_read_again(
    folder: Path, read: list[str], change: Callable[[Path], None]
) -> None:
    check(folder)
    change(folder / "weights")
    check(folder)
    check(folder)
    assert read.count("weights") == 2


def test_what_is_written_while_it_is_read_is_not_remembered(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def disturbed(path: Path) -> str:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if path.name == "weights":
            lengthen(path)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(digests, "sha256_of", disturbed)
        digests_of(folder, [folder / "weights"])
    check(folder)


def test_what_was_changed_a_moment_ago_is_not_remembered(
    folder: Path, home: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "SETTLED_NS", 3600 * 10**9)
    check(folder)
    check(folder)
    assert read.count("weights") == 2
    assert not (home / "digests").exists()


@pytest.mark.parametrize(
    "damage",
    ["", "{", "[]", "null", '{"weights": 1}', '{"weights": []}', '{"weights": [[1, 2], "x"]}'],
)
def test_what_is_damaged_is_computed_again(
    folder: Path, home: Path, read: list[str], damage: str
) -> None:
    check(folder)
    [place] = remembered(home)
    place.write_text(damage)
    check(folder)
    assert read.count("weights") == 2
    assert json.loads(place.read_text()).keys() == {"weights"}


def test_files_that_are_gone_are_forgotten_and_folders_do_not_mix(
    folder: Path, home: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "weights").write_bytes(LARGE[::-1])
    check(folder)
    check(other)
    check(folder)
    (folder / "weights").rename(folder / "renamed")
    check(folder)
    kept = [json.loads(place.read_text()).keys() for place in remembered(home)]
    assert sorted(map(list, kept)) == [["renamed"], ["weights"]]


def test_a_home_that_cannot_be_written_is_gone_without(
    folder: Path, home: Path, read: list[str]
) -> None:
    home.write_bytes(b"no folder")
    check(folder)
    check(folder)
    assert read.count("weights") == 2


def test_processes_that_write_at_once_leave_one_whole_file(folder: Path, home: Path) -> None:
    threads = [threading.Thread(target=check, args=(folder,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [place] = remembered(home)
    assert json.loads(place.read_text()).keys() == {"weights"}
    check(folder)
