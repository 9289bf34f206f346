"""Fixtures of the models' tests."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import PreTrainedConfig

from tests.runtime.model.tiny_models import random_model

WriteModel = Callable[[PreTrainedConfig], Path]


@pytest.fixture
def write_model(tiny_llama_path: Path, tmp_path: Path) -> WriteModel:
    """A folder with this config, random weights and the tiny tokenizer."""

    def write(config: PreTrainedConfig) -> Path:
        folder = shutil.copytree(tiny_llama_path, tmp_path / "model")
        random_model(config).save_pretrained(folder)
        return folder

    return write
