"""The prefix file: what is read is what was written, to the bit, or is refused."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from safetensors.numpy import load, save, save_file

from runtime.cache import file
from runtime.cache.file import Prefixes, UnusableFileError, read, write

PAGE, SHAPE = 2, (2, 1, 1, 2, 2)
KEY = {"model": "0123", "dtype": "float32"}


def prefixes(num_pages: int = 3, *, seed: int = 0) -> Prefixes:
    random = np.random.default_rng(seed)
    return Prefixes(
        tokens=random.integers(0, 100, (num_pages, PAGE)),
        parents=np.arange(num_pages, dtype=np.int64) - 1,
        pages=random.standard_normal((num_pages, *SHAPE)).astype(np.float32),
    )


def found(path: Path, key: dict[str, str] = KEY) -> Prefixes | None:
    return read(path, key, page_size=PAGE, page_shape=SHAPE)


def same(one: Prefixes | None, other: Prefixes) -> bool:
    return one is not None and all(
        one.arrays[name].dtype == each.dtype and one.arrays[name].tobytes() == each.tobytes()
        for name, each in other.arrays.items()
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "prefixes.safetensors"


@pytest.mark.parametrize("num_pages", [1, 3, 50])
def test_what_was_written_is_read(path: Path, num_pages: int) -> None:
    assert found(path) is None
    write(path, prefixes(num_pages), KEY)
    assert same(found(path), prefixes(num_pages))
    write(path, prefixes(num_pages, seed=1), KEY)
    assert same(found(path), prefixes(num_pages, seed=1))
    assert path.stat().st_mode & 0o077 == 0, "prompts are nobody else's"
    assert list(path.parent.iterdir()) == [path]


def test_every_changed_byte_is_refused_or_changes_nothing(path: Path) -> None:
    write(path, prefixes(), KEY)
    whole = path.read_bytes()
    refused = 0
    for position, flip in itertools.product(range(len(whole)), (1, 0x20, 0xFF)):
        damaged = bytearray(whole)
        damaged[position] ^= flip
        path.write_bytes(damaged)
        try:
            assert same(found(path), prefixes()), position
        except UnusableFileError:
            refused += 1
    assert refused > 2.7 * len(whole), "all but white space"


def test_a_file_that_was_cut_off_is_refused(path: Path) -> None:
    write(path, prefixes(), KEY)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(UnusableFileError):
            found(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(UnusableFileError):
        found(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200), st.binary(max_size=100))
def test_what_is_no_file_of_prefixes_is_refused(path: Path, header: bytes, rest: bytes) -> None:
    for data in (header + rest, len(header).to_bytes(8, "little") + header + rest):
        path.write_bytes(data)
        with pytest.raises(UnusableFileError, match="not a file of prefixes"):
            found(path)


@pytest.mark.parametrize("header", [b"[" * 60_000, b'{"__metadata__":' * 3000, b"null"])
def test_a_header_that_is_hostile_is_refused(path: Path, header: bytes) -> None:
    path.write_bytes(len(header).to_bytes(8, "little") + header)
    with pytest.raises(UnusableFileError, match="not a file of prefixes"):
        found(path)


def test_another_key_is_refused_by_what_differs(path: Path) -> None:
    write(path, prefixes(), KEY)
    for key, named in [
        ({**KEY, "dtype": "int8"}, "dtype"),
        ({**KEY, "model": "0124", "dtype": "int8"}, "dtype, model"),
        ({**KEY, "more": "1"}, "more"),
        ({"model": "0123"}, "dtype"),
    ]:
        with pytest.raises(UnusableFileError, match=f"was written with another {named}$"):
            found(path, key)


def test_another_version_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later:
        later.setattr(file, "VERSION", "2")
        write(path, prefixes(), KEY)
    with pytest.raises(UnusableFileError, match="is of the format '2', and this sgdsl reads '1'"):
        found(path)


@pytest.mark.parametrize(
    "fault", ["order", "self", "below", "rows", "shape", "type", "more", "less"]
)
def test_a_checksum_does_not_vouch_for_what_is_in_it(path: Path, fault: str) -> None:
    """One can be made for anything."""
    arrays = dict(prefixes().arrays)
    if fault in ("order", "self", "below"):
        arrays["parents"] = np.array([-1, {"order": 2, "self": 1, "below": -2}[fault], 0])
    elif fault == "rows":
        arrays["tokens"] = arrays["tokens"][:2]
    elif fault == "shape":
        arrays["pages"] = arrays["pages"].reshape(3, -1)
    elif fault == "type":
        arrays["pages"] = arrays["pages"].astype(np.float64)
    elif fault == "more":
        arrays["others"] = arrays["tokens"]
    else:
        del arrays["parents"]
    write(path, prefixes(), KEY)
    metadata = file._metadata_of(path.read_bytes())
    metadata["checksum"] = file._checksum(arrays, metadata["key"])
    path.write_bytes(save(arrays, metadata))
    with pytest.raises(UnusableFileError, match=r"has (other tensors|pages before those)"):
        found(path)


@pytest.mark.parametrize("key", ["", "[]", "null", "{", "[" * 20_000])
def test_a_checksum_does_not_vouch_for_the_key(path: Path, key: str) -> None:
    arrays = prefixes().arrays
    metadata = {file._MARK: "1", "key": key, "checksum": file._checksum(arrays, key)}
    path.write_bytes(save(arrays, metadata))
    with pytest.raises(UnusableFileError, match="has no key"):
        found(path)


def test_a_file_that_is_too_large_is_not_read(path: Path) -> None:
    with path.open("wb") as sparse:
        sparse.truncate(1 << 40)
    with pytest.raises(UnusableFileError, match="a file of prefixes has at most"):
        found(path)


def test_a_pipe_is_neither_waited_for_nor_replaced(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(UnusableFileError, match="is not a regular file"):
        found(path)
    with pytest.raises(UnusableFileError, match="is not a regular file, and is not replaced"):
        write(path, prefixes(), KEY)
    assert path.is_fifo()


def test_another_file_is_not_replaced(path: Path) -> None:
    save_file({"weights": np.zeros(10)}, path)
    with pytest.raises(UnusableFileError, match="is not a file of prefixes, and is not replaced"):
        write(path, prefixes(), KEY)
    assert list(load(path.read_bytes())) == ["weights"]


@pytest.mark.parametrize("damage", ["empty", "cut off", "flipped", "of another version"])
def test_a_file_of_prefixes_is_replaced_whatever_is_wrong_with_it(
    path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as later:
        later.setattr(file, "VERSION", "2" if damage == "of another version" else "1")
        write(path, prefixes(), KEY)
    whole = path.read_bytes()
    if damage == "empty":
        path.write_bytes(b"")
    elif damage == "cut off":
        path.write_bytes(whole[:-5])
    elif damage == "flipped":
        path.write_bytes(whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:])
    with pytest.raises(UnusableFileError):
        found(path)
    write(path, prefixes(seed=1), KEY)
    assert same(found(path), prefixes(seed=1))


KILLED = """
import os, signal, sys
from pathlib import Path
from runtime.cache import file
from tests.runtime.cache.test_file import KEY, prefixes

def die(descriptor):
    os.kill(os.getpid(), signal.SIGKILL)

os.fsync = die
file.write(Path(sys.argv[1]), prefixes(seed=1), KEY)
"""


def test_who_is_killed_while_writing_leaves_the_old_file(path: Path) -> None:
    write(path, prefixes(), KEY)
    killed = subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert same(found(path), prefixes())
    [leftover] = set(path.parent.iterdir()) - {path}
    write(path, prefixes(seed=2), KEY)
    assert leftover.exists(), "it could be that of somebody who is still writing"
    os.utime(leftover, (time.time() - 7200,) * 2)
    write(path, prefixes(seed=3), KEY)
    assert list(path.parent.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(path, prefixes(), KEY)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write(path, prefixes(seed=1), KEY)
    assert same(found(path), prefixes())
    assert list(path.parent.iterdir()) == [path]


def test_of_those_who_write_at_once_one_wins_whole(path: Path) -> None:
    write(path, prefixes(30), KEY)
    done = threading.Event()
    faults: list[Exception] = []

    def keep_writing(seed: int) -> None:
        try:
            while not done.is_set():
                write(path, prefixes(30, seed=seed), KEY)
        except Exception as error:  # noqa: BLE001 - any is one too many
            faults.append(error)

    writers = [threading.Thread(target=keep_writing, args=(seed,)) for seed in (1, 2, 3)]
    for writer in writers:
        writer.start()
    for _ in range(100):
        now = found(path)
        assert any(same(now, prefixes(30, seed=seed)) for seed in range(4))
    done.set()
    for writer in writers:
        writer.join()
    assert not faults
    assert list(path.parent.iterdir()) == [path]


def test_as_many_pages_fit_as_the_bound_says(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "MAX_BYTES", 1000)
    most = file.max_pages(prefixes(1).pages.nbytes, PAGE)
    write(path, prefixes(most), KEY)
    assert same(found(path), prefixes(most))
    assert sum(each.nbytes for each in prefixes(most).arrays.values()) <= 1000
    assert sum(each.nbytes for each in prefixes(most + 1).arrays.values()) > 1000
