"""Fixtures of the runtime's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.model.load import load_tokenizer
from runtime.tokenizer import Tokenizer
from tests.tiny_llama import VOCAB_SIZE


@pytest.fixture(scope="session")
def tokenizer(tiny_llama_path: Path) -> Tokenizer:
    """The tiny model's: byte-level BPE with every byte and some 500 merges."""
    return load_tokenizer(tiny_llama_path, vocab_size=VOCAB_SIZE)
