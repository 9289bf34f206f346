"""The in-process runtime: a model folder or name in, a backend out.

Owns the assembly: model, tokenizer, KV pool, prefix cache, scheduler, programs, engine, thread; and
the sizes that are chosen on the way, which `summary` states.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runtime.assembly import assemble
from runtime.cache.kv import KVPool, bytes_per_token
from runtime.config import config_from, default_kv_bytes, num_pages, unallocatable
from runtime.executor.runner import ModelRunner
from runtime.grammar_store import GrammarStore
from runtime.model.load import load_model, load_tokenizer
from runtime.models import resolve_model
from runtime.service import Service
from sgdsl.errors import UsageError


class Runtime(Service):
    """Loads a model and runs it on a thread of this process.

    `model`: a folder in Hugging Face format, a name, or None for the default model (fetched on
    first use). `options`: the fields of `RuntimeConfig`.
    """

    def __init__(self, model: str | Path | None = None, **options: Any) -> None:
        self.config = config = config_from(options)
        self.folder = folder = resolve_model(model)
        network = load_model(folder)
        self.shape = shape = network.shape
        self.tokenizer = tokenizer = load_tokenizer(folder, vocab_size=shape.vocab_size)
        token_bytes = bytes_per_token(
            num_layers=shape.num_layers,
            num_kv_heads=shape.num_kv_heads,
            head_dim=shape.head_dim,
            dtype=network.dtype,
        )
        self.num_pages = num_pages(
            config.kv_bytes or default_kv_bytes(),
            bytes_per_token=token_bytes,
            page_size=config.page_size,
        )
        self.kv_bytes = self.num_pages * config.page_size * token_bytes
        try:
            pool = KVPool(
                num_layers=shape.num_layers,
                num_kv_heads=shape.num_kv_heads,
                head_dim=shape.head_dim,
                num_slots=self.num_pages * config.page_size,
                dtype=network.dtype,
            )
        # What torch raises depends on how far it is too much.
        except (RuntimeError, TypeError, MemoryError) as error:
            raise unallocatable(config.kv_bytes or self.kv_bytes) from error
        grammars = GrammarStore(tokenizer.vocabulary)
        engine = assemble(
            config,
            tokenizer=tokenizer,
            grammars=grammars,
            executor=ModelRunner(network, pool),
            num_pages=self.num_pages,
            context_len=_context_len(config.context_len, shape.context_len),
        )
        super().__init__(
            engine,
            grammars,
            chat_template=config.template or tokenizer.chat_template,
            max_in_flight=config.in_flight,
        )

    @property
    def summary(self) -> str:
        """What was sized, and to what."""
        config, tokens = self.config, self.num_pages * self.config.page_size
        return (
            f"{self.folder.name}: KV pool {self.kv_bytes / 2**20:,.0f} MiB = {tokens:,} tokens in "
            f"{self.num_pages:,} pages of {config.page_size}; up to {config.max_running} rows and "
            f"{config.token_budget} tokens a step; prefix cache "
            f"{'on' if config.prefix_cache else 'off'}"
        )


def _context_len(asked: int | None, made_for: int) -> int:
    if asked is not None and asked > made_for:
        raise UsageError(
            f"context_len={asked!r}: this model was made for {made_for} tokens; ask for no more"
        )
    return asked or made_for
