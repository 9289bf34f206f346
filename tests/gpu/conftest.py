"""Every test here needs a GPU and FlashInfer, and is skipped, saying so, where one is missing."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent


def missing() -> str | None:
    """Why the tests here cannot run."""
    if not torch.cuda.is_available():
        return "there is no NVIDIA GPU that torch could use"
    if find_spec("flashinfer") is None:
        return "flashinfer-python is not installed: pip install 'sgdsl[gpu]'"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = missing()
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.gpu)
            if reason is not None:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def device() -> torch.device:
    return torch.device("cuda:0")
