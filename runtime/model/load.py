"""From a model's folder to what the engine runs: network and tokenizer, through transformers.

Owns the reading of weights, tokenizer files and generation settings. Where the folder comes from is
the business of `runtime.models`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.utils import logging

from runtime.model.chat_template import chat_template_of
from runtime.model.general import ATTENTION, GeneralModel
from runtime.tokenizer import Tokenizer


def load_model(folder: Path, *, dtype: torch.dtype = torch.float32) -> GeneralModel:
    """The folder's causal language model, over our attention."""
    with _without_progress_bars():
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, attn_implementation=ATTENTION
        )
    return GeneralModel(model.requires_grad_(False))


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


@contextmanager
def _without_progress_bars() -> Iterator[None]:
    """Weights on a local disk load in about a second; a bar for that is noise in users' output."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
