"""What KV depends on: nothing that could change it goes unseen."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from runtime.model.identity import digest_of, identity_of
from runtime.model.load import load_model
from tests.tiny_llama import write_tiny_llama


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_tiny_llama(tmp_path / "model")


def test_one_changed_byte_of_any_file_is_seen(folder: Path, tmp_path: Path) -> None:
    (folder / "more").mkdir()
    (folder / "more" / "weights.bin").write_bytes(b"weights")
    before = digest_of(folder, but=tmp_path)
    for path in (each for each in folder.rglob("*") if each.is_file()):
        whole = path.read_bytes()
        for position in (0, len(whole) // 2, len(whole) - 1):
            path.write_bytes(
                whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :]
            )
            assert digest_of(folder, but=tmp_path) != before, path
        path.write_bytes(whole)
        assert digest_of(folder, but=tmp_path) == before


def test_a_name_that_differs_is_seen(folder: Path, tmp_path: Path) -> None:
    before = digest_of(folder, but=tmp_path)
    (folder / "config.json").rename(folder / "config2.json")
    assert digest_of(folder, but=tmp_path) != before


def test_what_is_no_part_of_the_model_is_not_seen(folder: Path, tmp_path: Path) -> None:
    before = digest_of(folder, but=folder / "prefixes")
    (folder / "prefixes").write_bytes(b"kv")
    (folder / ".cache").mkdir()
    (folder / ".cache" / "lock").write_bytes(b"")
    (tmp_path / "link").symlink_to(folder)
    assert digest_of(folder, but=folder / "prefixes") == before
    assert digest_of(folder, but=tmp_path / "link" / "prefixes") == before
    assert digest_of(folder, but=tmp_path) != before


def test_threads_matter_where_every_bit_does(folder: Path, tmp_path: Path) -> None:
    model, num_threads = load_model(folder), torch.get_num_threads()

    def threads(*, exact: bool) -> str:
        identity = identity_of(folder, model, dtype="float32", batch_invariant=exact, but=tmp_path)
        return identity["threads"]

    assert threads(exact=False) == "any"
    assert threads(exact=True) == str(num_threads)
