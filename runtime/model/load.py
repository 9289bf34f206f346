"""A model folder's tokenizer, as the engine needs it.

Owns the reading of tokenizer and generation settings through transformers.
"""

from __future__ import annotations

from pathlib import Path

from transformers import AutoTokenizer, GenerationConfig

from runtime.model.chat_template import chat_template_of
from runtime.tokenizer import Tokenizer


def load_tokenizer(folder: Path, *, vocab_size: int) -> Tokenizer:
    """The folder's tokenizer, with every id that ends a text: its own and the model's."""
    backend = AutoTokenizer.from_pretrained(folder)
    stops = {backend.eos_token_id}
    if (folder / "generation_config.json").exists():
        configured = GenerationConfig.from_pretrained(folder).eos_token_id
        stops |= set(configured) if isinstance(configured, list) else {configured}
    return Tokenizer(
        backend,
        vocab_size=vocab_size,
        eos_token_ids=stops - {None},
        chat_template=chat_template_of(backend),
    )
