"""A tiny model that the benchmarks' prompts fit into."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

CONTEXT_LENGTH = 8192


@pytest.fixture(scope="session")
def roomy_model(tiny_llama_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny Llama with a longer context: its tokens are short, so that prompts are long."""
    folder = tmp_path_factory.mktemp("roomy") / "tiny-llama"
    shutil.copytree(tiny_llama_path, folder)
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["max_position_embeddings"] = CONTEXT_LENGTH
    path.write_text(json.dumps(config), encoding="utf-8")
    return folder
