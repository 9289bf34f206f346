"""What the user may call a model, and what is said when there is none of that name."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from typing import Any

import pytest

from runtime.models import ModelNotFoundError, ModelUnavailableError, resolve_model
from sgdsl.errors import UsageError


@pytest.fixture
def model_copy(tiny_llama_path: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny_llama_path, tmp_path / "copy")


@pytest.mark.parametrize("kind", [str, Path])
def test_a_folder_in_hugging_face_format_is_itself(
    tiny_llama_path: Path, kind: type[str | Path]
) -> None:
    assert resolve_model(kind(tiny_llama_path)) == tiny_llama_path


def test_a_tilde_is_the_users_home(model_copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(model_copy.parent))
    assert resolve_model("~/copy") == model_copy


def test_a_path_object_is_never_a_catalog_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelNotFoundError, match="There is no model 'default'"):
        resolve_model(Path("default"))


@pytest.mark.parametrize("name", ["/no/such/folder", "./nothing", "a/b/c", "what is this?"])
def test_an_unknown_path_is_one_sentence(name: str) -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        resolve_model(name)
    assert str(caught.value) == (
        f"There is no model {name!r}: give 'default', the path of a folder in Hugging Face format,"
        " or the id of a model on the Hugging Face hub such as 'org/name'."
    )
    assert isinstance(caught.value, UsageError | ValueError)


@pytest.mark.parametrize("missing", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_folder_that_lacks_something_says_what(model_copy: Path, missing: str) -> None:
    (model_copy / missing).unlink()
    with pytest.raises(ModelNotFoundError, match=rf"it lacks {missing}: copy what is missing"):
        resolve_model(model_copy)


@pytest.mark.parametrize("name", ["", "  ", "~no-such-user/x", "a" * 300, "a\0b", "no/way/" * 999])
def test_what_is_no_path_is_an_unknown_model(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelNotFoundError) as caught:
        resolve_model(name)
    assert str(caught.value).startswith(f"There is no model {name!r}")


def test_a_folder_that_may_not_be_looked_at_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, **options: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(ModelNotFoundError, match=r"cannot be looked at \(Permission denied\): ask"):
        resolve_model(tmp_path)


def test_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.touch()
    with pytest.raises(ModelNotFoundError, match=r"model.gguf' is a file: give 'default'"):
        resolve_model(file)


def test_a_local_folder_cannot_be_refreshed(tiny_llama_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="is a local folder, which cannot be fetched"):
        resolve_model(tiny_llama_path, refresh=True)


class TestHub:
    """The Hugging Face hub, replaced at its client's one function that we call."""

    @pytest.fixture
    def calls(self, monkeypatch: pytest.MonkeyPatch, tiny_llama_path: Path) -> list[bool]:
        """Each call's `local_files_only`; the hub has 'org/tiny', the local cache has nothing."""
        from huggingface_hub import errors

        calls: list[bool] = []

        def snapshot_download(repo_id: str, *, local_files_only: bool, **options: object) -> str:
            calls.append(local_files_only)
            if local_files_only or repo_id == "org/offline":
                raise errors.LocalEntryNotFoundError("not cached")
            if repo_id == "org/gated":
                raise errors.GatedRepoError("gated", response=_response(403))
            if repo_id != "org/tiny":
                raise errors.RepositoryNotFoundError("absent", response=_response(404))
            return str(tiny_llama_path)

        monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
        return calls

    def test_an_id_is_looked_up_locally_and_then_on_the_hub(
        self, calls: list[bool], tiny_llama_path: Path
    ) -> None:
        assert resolve_model("org/tiny") == tiny_llama_path
        assert calls == [True, False]

    def test_refresh_goes_to_the_hub(self, calls: list[bool], tiny_llama_path: Path) -> None:
        assert resolve_model("org/tiny", refresh=True) == tiny_llama_path
        assert calls == [False]

    def test_an_unknown_id_says_so(self, calls: list[bool]) -> None:
        with pytest.raises(ModelNotFoundError, match="neither here nor on the Hugging Face hub"):
            resolve_model("org/other")

    def test_an_unreachable_hub_says_so(self, calls: list[bool]) -> None:
        with pytest.raises(ModelNotFoundError, match="the Hugging Face hub cannot be reached"):
            resolve_model("org/offline")

    def test_a_gated_model_says_what_to_do(self, calls: list[bool]) -> None:
        with pytest.raises(ModelUnavailableError, match="needs its licence accepted"):
            resolve_model("org/gated")


def test_the_real_client_without_a_network_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ModelNotFoundError, match="the Hugging Face hub cannot be reached"):
        resolve_model("org/surely-not-cached")


def _response(status: int) -> Any:
    import httpx2

    return httpx2.Response(status, request=httpx2.Request("GET", "https://localhost"))
