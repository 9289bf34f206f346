"""Each test gets a cache folder of its own, and a package index on the disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime.models import catalog
from runtime.models.catalog import PackagedModel
from tests.packaged_model import write_index


@pytest.fixture(scope="session")
def index_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("index")


@pytest.fixture(scope="session")
def packaged(index_folder: Path) -> PackagedModel:
    """A packaged model named 'tiny' that pip finds in `index_folder`."""
    return write_index(index_folder)


@pytest.fixture
def home(
    tmp_path: Path,
    packaged: PackagedModel,
    index_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """An empty SGDSL_HOME, the model 'tiny' in the catalog, and pip with `index_folder` alone."""
    folder = tmp_path / "home"
    monkeypatch.setenv("SGDSL_HOME", str(folder))
    monkeypatch.setitem(catalog._BY_NAME, packaged.name, packaged)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index_folder))
    return folder


@pytest.fixture
def no_network(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip asks an index that nobody serves; the hub is off."""
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
