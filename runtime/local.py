"""The in-process runtime: a model folder or name in, a backend out.

Owns the assembly: model, tokenizer, KV pool, prefix cache, scheduler, programs, engine, thread; and
the sizes that are chosen on the way, which `summary` states.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runtime.assembly import assemble
from runtime.attention.invariant import InvariantAttention
from runtime.attention.torch import TorchAttention
from runtime.cache.kv import KVPool, bytes_per_token
from runtime.cache.store import PageStore
from runtime.config import config_from, default_kv_bytes, num_pages, unallocatable
from runtime.executor.runner import ModelRunner
from runtime.grammar_store import GrammarStore
from runtime.model.base import Model
from runtime.model.invariant import InvariantModel
from runtime.model.load import load_model, load_tokenizer
from runtime.models import resolve_model
from runtime.service import Service
from sgdsl.errors import UsageError


class Runtime(Service):
    """Loads a model and runs it on a thread of this process.

    `model`: a folder in Hugging Face format, a name, or None for the default model (fetched on
    first use); `model_path` is the same. `options`: the fields of `RuntimeConfig`.
    """

    def __init__(self, model: str | Path | None = None, **options: Any) -> None:
        model_path = options.pop("model_path", None)
        if model is not None and model_path is not None:
            raise UsageError(
                f"model={str(model)!r} and model_path={str(model_path)!r} are the same argument; "
                "give one of them"
            )
        self.config = config = config_from(options)
        self.folder = folder = resolve_model(model or model_path)
        network = load_model(folder, dtype=config.dtype, decoder=config.decoder)
        attention: type[TorchAttention | InvariantAttention] = TorchAttention
        if config.batch_invariant:
            network, attention = InvariantModel(network), InvariantAttention
        self.shape = shape = network.shape
        self.tokenizer = tokenizer = load_tokenizer(folder, vocab_size=shape.vocab_size)
        token_bytes = bytes_per_token(
            num_layers=shape.num_layers,
            num_kv_heads=shape.num_kv_heads,
            head_dim=shape.head_dim,
        )
        wanted = config.kv_bytes or default_kv_bytes()
        self.num_pages = num_pages(wanted, bytes_per_token=token_bytes, page_size=config.page_size)
        pool = self._allocate(network, wanted)
        self.num_host_pages = 0
        if config.host_kv_bytes is not None:
            self.num_host_pages = num_pages(
                config.host_kv_bytes,
                bytes_per_token=token_bytes,
                page_size=config.page_size,
                name="host_kv_bytes",
            )
        pages = self._page_store(pool)
        self.kv_bytes = self.num_pages * config.page_size * token_bytes
        self._missed_bytes = wanted if self.kv_bytes <= wanted // 2 else None
        self.sizes = config.sizes(self.num_pages * config.page_size)
        grammars = GrammarStore(tokenizer.vocabulary)
        engine = assemble(
            config,
            tokenizer=tokenizer,
            grammars=grammars,
            executor=ModelRunner(
                network,
                attention(pool, num_heads=shape.num_heads),
                pages,
            ),
            num_pages=self.num_pages,
            num_host_pages=self.num_host_pages,
            context_len=_context_len(config.context_len, shape.context_len),
        )
        super().__init__(
            engine,
            grammars,
            chat_template=config.template or tokenizer.chat_template,
            max_in_flight=self.sizes.max_in_flight,
        )

    def _allocate(self, network: Model, wanted: int) -> KVPool:
        """The pool of `num_pages`. Of one that nobody asked for half as many are enough, again and
        again, if there is no memory for it.
        """
        shape = network.shape
        while True:
            try:
                return KVPool(
                    num_layers=shape.num_layers,
                    num_kv_heads=shape.num_kv_heads,
                    head_dim=shape.head_dim,
                    num_slots=self.num_pages * self.config.page_size,
                )
            # What torch raises depends on how far it is too much.
            except (RuntimeError, TypeError, MemoryError) as error:
                if self.config.kv_bytes is not None or self.num_pages == 1:
                    raise unallocatable(wanted) from error
                self.num_pages //= 2

    def _page_store(self, pool: KVPool) -> PageStore:
        try:
            return PageStore(
                pool, page_size=self.config.page_size, num_host_pages=self.num_host_pages
            )
        except (RuntimeError, TypeError, MemoryError) as error:
            wanted = self.config.host_kv_bytes
            assert wanted is not None, "a page store takes memory for what was asked for"
            raise unallocatable(wanted, name="host_kv_bytes") from error

    @property
    def summary(self) -> str:
        """What was sized, and to what."""
        config, tokens = self.config, self.num_pages * self.config.page_size
        missed = self._missed_bytes
        missing = "" if missed is None else f" ({missed / 2**20:,.0f} MiB could not be had)"
        host = f", {self.num_host_pages:,} more on the host" if self.num_host_pages else ""
        return (
            f"{self.folder.name}: KV pool {self.kv_bytes / 2**20:,.0f} MiB{missing} = {tokens:,} "
            f"tokens in {self.num_pages:,} pages of {config.page_size}{host}; up to "
            f"{self.sizes.max_running} rows and {self.sizes.token_budget} tokens a step, "
            f"{config.policy}; prefix cache {'on' if config.prefix_cache else 'off'}"
        )


def _context_len(asked: int | None, made_for: int) -> int:
    if asked is not None and asked > made_for:
        raise UsageError(
            f"context_len={asked!r}: this model was made for {made_for} tokens; ask for no more"
        )
    return asked or made_for
