"""The in-process runtime: a model folder or name in, a backend out.

Owns the assembly: model, tokenizer, KV pool, prefix cache, scheduler, programs, engine, thread; and
the sizes that are chosen on the way, which `summary` states.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runtime.assembly import assemble
from runtime.attention.torch import TorchAttention
from runtime.cache.kv import KVPool, bytes_per_token
from runtime.config import Sizes, config_from, default_kv_bytes, num_pages, unallocatable
from runtime.device.choice import choose_device, gpu_kv_bytes, kv_dtype, weights_dtype
from runtime.executor.base import Executor
from runtime.executor.cuda_graph import CudaRecorder
from runtime.executor.gpu import gpu_executor
from runtime.executor.runner import ModelRunner
from runtime.flashinfer_library import flashinfer
from runtime.grammar_store import GrammarStore
from runtime.model.base import Model
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
        self.device = device = choose_device(config.device)
        dtype = weights_dtype(config.dtype, device)
        self._kv_dtype = kv_dtype(config.kv_dtype, device)
        network = load_model(folder, dtype=dtype, decoder=config.decoder, device=device)
        self.shape = shape = network.shape
        self.tokenizer = tokenizer = load_tokenizer(folder, vocab_size=shape.vocab_size)
        token_bytes = bytes_per_token(
            num_layers=shape.num_layers,
            num_kv_heads=shape.num_kv_heads,
            head_dim=shape.head_dim,
            dtype=self._kv_dtype,
        )
        on_gpu = device.type != "cpu"
        wanted = config.kv_bytes or (gpu_kv_bytes(device) if on_gpu else default_kv_bytes())
        self.num_pages = num_pages(wanted, bytes_per_token=token_bytes, page_size=config.page_size)
        self._context_len = _context_len(config.context_len, shape.context_len)
        executor = self._make_executor(network, wanted)
        self.kv_bytes = self.num_pages * config.page_size * token_bytes
        self._missed_bytes = wanted if self.kv_bytes <= wanted // 2 else None
        self.sizes = self._sizes()
        grammars = GrammarStore(tokenizer.vocabulary)
        engine = assemble(
            config,
            tokenizer=tokenizer,
            grammars=grammars,
            executor=executor,
            num_pages=self.num_pages,
            context_len=self._context_len,
            sizes=self.sizes,
        )
        super().__init__(
            engine,
            grammars,
            chat_template=config.template or tokenizer.chat_template,
            max_in_flight=self.sizes.max_in_flight,
        )

    def _sizes(self) -> Sizes:
        pool_tokens = self.num_pages * self.config.page_size
        return self.config.sizes(pool_tokens, on_gpu=self.device.type != "cpu")

    def _make_executor(self, network: Model, wanted: int) -> Executor:
        """With a pool of `num_pages`. Of one that nobody asked for half as many are enough, again
        and again, if there is no memory for it.
        """
        make = self._cpu_executor if self.device.type == "cpu" else self._gpu_executor
        while True:
            try:
                return make(network)
            # What torch raises depends on how far it is too much.
            except (RuntimeError, TypeError, MemoryError) as error:
                if self.config.kv_bytes is not None or self.num_pages == 1:
                    raise unallocatable(wanted) from error
                self.num_pages //= 2

    def _cpu_executor(self, network: Model) -> Executor:
        shape = network.shape
        pool = KVPool(
            num_layers=shape.num_layers,
            num_kv_heads=shape.num_kv_heads,
            head_dim=shape.head_dim,
            num_slots=self.num_pages * self.config.page_size,
        )
        return ModelRunner(network, TorchAttention(pool, num_heads=shape.num_heads))

    def _gpu_executor(self, network: Model) -> Executor:
        sizes = self._sizes()
        return gpu_executor(
            network,
            num_pages=self.num_pages,
            page_size=self.config.page_size,
            kv_dtype=self._kv_dtype,
            device=self.device,
            max_running=sizes.max_running,
            token_budget=sizes.token_budget,
            context_len=self._context_len,
            library=flashinfer(),
            recorder=CudaRecorder(),
        )

    @property
    def summary(self) -> str:
        """What was sized, and to what."""
        config, tokens = self.config, self.num_pages * self.config.page_size
        missed = self._missed_bytes
        where = "" if self.device.type == "cpu" else f" on {self.device}"
        missing = "" if missed is None else f" ({missed / 2**20:,.0f} MiB could not be had)"
        return (
            f"{self.folder.name}{where}: KV pool {self.kv_bytes / 2**20:,.0f} MiB{missing} = "
            f"{tokens:,} tokens in {self.num_pages:,} pages of {config.page_size}; up to "
            f"{self.sizes.max_running} rows and {self.sizes.token_budget} tokens a step, "
            f"{config.policy}; prefix cache {'on' if config.prefix_cache else 'off'}"
        )


def _context_len(asked: int | None, made_for: int) -> int:
    if asked is not None and asked > made_for:
        raise UsageError(
            f"context_len={asked!r}: this model was made for {made_for} tokens; ask for no more"
        )
    return asked or made_for
