"""Fixtures that every part of the tests may use; the heavy ones are made once per session."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from runtime.models import resolve_model
from tests.tiny_llama import write_tiny_llama

# A shared machine may stand still at any moment: no example is judged by its time.
settings.register_profile("sgdsl", deadline=None)
settings.load_profile("sgdsl")

# Workers of pytest-xdist share the cores: threads of theirs would spend twice the time, waiting for
# each other. Read when torch is first imported, and by the processes that tests start.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# POSIX, shell, 2.11: what a script runs in the background starts with Ctrl-C ignored, and Python
# leaves that as it is. The tests of Ctrl-C are run there too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def default_model_path() -> Path:
    """The default model's folder in the user's own cache: one download per machine.

    Tests that use it are marked `model`.
    """
    return resolve_model()


@pytest.fixture(scope="session")
def tiny_llama_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random Llama in Hugging Face format; see tests/tiny_llama.py."""
    return write_tiny_llama(tmp_path_factory.mktemp("models") / "tiny-llama")


@pytest.fixture(scope="module")
def two_threads() -> Iterator[None]:
    """torch computes on two threads, as on users' machines, whatever this process has otherwise."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that may download a model says so, or `-m 'not model'` would not avoid it."""
    for item in items:
        fixtures: list[str] = getattr(item, "fixturenames", [])
        if "default_model_path" in fixtures and item.get_closest_marker("model") is None:
            raise pytest.UsageError(f"{item.nodeid} uses default_model_path: mark it `model`.")
