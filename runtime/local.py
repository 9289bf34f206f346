"""The in-process runtime: a model folder or name in, a backend out.

Owns the assembly: model, tokenizer, KV pool, prefix cache, scheduler, programs, engine, thread; and
the sizes that are chosen on the way, which `summary` states.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

from runtime.assembly import assemble, logger
from runtime.cache.file import Prefixes
from runtime.cache.handover import Handover
from runtime.cache.kv import bytes_per_token
from runtime.config import Sizes, config_from, default_kv_bytes, num_pages, unallocatable
from runtime.device.choice import (
    check_num_devices,
    choose_device,
    gpu_kv_bytes,
    kv_dtype,
    refuse_on_others,
    weights_dtype,
)
from runtime.executor.base import Executor
from runtime.executor.build import ExecutorSizes, build_executor
from runtime.executor.parallel import Followers, LeadingExecutor, make_part
from runtime.executor.runner import ModelRunner
from runtime.grammar_store import GrammarStore
from runtime.model.base import Model
from runtime.model.identity import digest_of, identity_of
from runtime.model.load import check_splittable, load_model, load_tokenizer
from runtime.models import resolve_model
from runtime.service import Service
from runtime.sizes import StepShape
from sgdsl.errors import BackendError, UsageError


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
        if device.type != "cpu" or config.tensor_parallel > 1:
            refuse_on_others(
                batch_invariant=config.batch_invariant,
                host=config.host_kv_bytes,
                prefix_file=config.prefix_file,
            )
        self._followers: Followers | None = None
        network = self._load(dtype)
        self.shape = shape = network.shape
        self.tokenizer = tokenizer = load_tokenizer(folder, vocab_size=shape.vocab_size)
        token_bytes = bytes_per_token(
            num_layers=shape.num_layers,
            num_kv_heads=shape.num_kv_heads,
            head_dim=shape.head_dim,
            dtype=self._kv_dtype,
        )
        wanted = config.kv_bytes or self._default_kv_bytes()
        self.num_pages = num_pages(wanted, bytes_per_token=token_bytes, page_size=config.page_size)
        self._context_len = _context_len(config.context_len, shape.context_len)
        self.num_host_pages = 0
        if config.host_kv_bytes is not None:
            self.num_host_pages = num_pages(
                config.host_kv_bytes,
                bytes_per_token=token_bytes,
                page_size=config.page_size,
                name="host_kv_bytes",
            )
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
            num_host_pages=self.num_host_pages,
            context_len=self._context_len,
            sizes=self.sizes,
        )
        self._handover: Handover | None = None
        if config.prefix_file is not None:
            assert isinstance(executor, ModelRunner), "others have been refused"
            key = self._key(network, dtype, Path(config.prefix_file))
            self._handover = Handover(
                Path(config.prefix_file), key, pages=executor.pages, tell=logger.warning
            )
            self._handover.load(engine.scheduler.cache)
        super().__init__(
            engine,
            grammars,
            chat_template=config.template or tokenizer.chat_template,
            max_in_flight=self.sizes.max_in_flight,
        )

    def _default_kv_bytes(self) -> int:
        """By the device's rule, beside the largest step that any pool would have."""
        if self.device.type == "cpu":
            return default_kv_bytes()
        largest = self.config.sizes(sys.maxsize, on_gpu=True)
        step = StepShape(
            token_budget=largest.token_budget,
            max_running=largest.max_running,
            widest=self.shape.widest,
            vocab_size=self.shape.vocab_size,
        )
        return gpu_kv_bytes(self.device, step)

    def _sizes(self) -> Sizes:
        pool_tokens = self.num_pages * self.config.page_size
        return self.config.sizes(pool_tokens, on_gpu=self.device.type != "cpu")

    def _make_executor(self, network: Model, wanted: int) -> Executor:
        """With a pool of `num_pages`. Of one that nobody asked for half as many are enough, again
        and again, if there is no memory for it.
        """
        config = self.config
        while True:
            sizes = self._sizes()
            asked = ExecutorSizes(
                num_pages=self.num_pages,
                page_size=self.config.page_size,
                kv_dtype=self._kv_dtype,
                max_running=sizes.max_running,
                token_budget=sizes.token_budget,
                context_len=self._context_len,
                num_host_pages=self.num_host_pages,
                host_kv_bytes=config.host_kv_bytes or 0,
                batch_invariant=config.batch_invariant,
            )
            if self._followers is not None:
                self._followers.tell(asked)
            try:
                executor = build_executor(network, asked, self.device)
            # What torch raises depends on how far it is too much.
            except (RuntimeError, TypeError, MemoryError) as error:
                if self.config.kv_bytes is not None or self.num_pages == 1:
                    raise unallocatable(wanted) from error
                self.num_pages //= 2
                continue
            if self._followers is None:
                return executor
            return LeadingExecutor(executor, self._followers)

    def _load(self, dtype: str) -> Model:
        """The model, or this process' part of it."""
        config, device, num_ranks = self.config, self.device, self.config.tensor_parallel
        load = partial(load_model, self.folder, dtype=dtype, decoder=config.decoder, device=device)
        if num_ranks == 1:
            return load()
        check_splittable(self.folder, num_ranks)
        check_num_devices(device, num_ranks)
        part = make_part(
            self.folder, dtype=dtype, decoder=config.decoder, device=device, num=num_ranks
        )
        self._followers = Followers(part)
        try:
            return load(ranks=part.meet())
        except BaseException:
            self._followers.stop()
            raise

    def _key(self, network: Model, dtype: str, path: Path) -> dict[str, str]:
        """What the KV of tokens depends on."""
        identity = identity_of(
            self.folder,
            network,
            dtype=dtype,
            batch_invariant=self.config.batch_invariant,
            but=path,
        )
        return {
            **identity,
            "kv_dtype": str(self._kv_dtype),
            "page_size": str(self.config.page_size),
        }

    def model_identity(self) -> str:
        """The same for the same files and type of weights, wherever they are."""
        dtype = weights_dtype(self.config.dtype, self.device)
        file = self.config.prefix_file
        return f"{digest_of(self.folder, but=None if file is None else Path(file))} {dtype}"

    def save_prefixes(self) -> int:
        """Write the prefix file, and return the tokens in it. The engine stands still while their
        pages are copied. Raises UsageError where the file cannot be written: the old one is kept.
        """
        handover = self._handover
        if handover is None:
            raise UsageError(
                "save_prefixes() writes prefix_file, and this runtime has none; give it one"
            )
        prefixes = self._between_steps(self._take_prefixes)
        if (fault := handover.write(prefixes)) is not None:
            raise UsageError(fault)
        return len(prefixes) * self.config.page_size

    def _take_prefixes(self) -> Prefixes:
        if not self.is_alive:
            raise BackendError("the runtime was closed before its prefixes could be saved")
        assert self._handover is not None, "whoever asks has one"
        scheduler = self._engine.scheduler
        self._handover.settle(scheduler.take_copies())
        return self._handover.take(scheduler.cache, scheduler.pins)

    def _save_at_end(self) -> None:
        if self._handover is None or not self.is_alive:
            return
        try:
            self.save_prefixes()
        except UsageError as error:
            logger.warning("%s", error)
        except MemoryError:
            logger.warning("%s is not written: there is no memory for it", self._handover)
        except BackendError:
            pass  # another thread has closed it, it has died, or this is its own thread

    def close(self) -> None:
        """Stop the engine, and the processes that follow it. The prefix file is written first."""
        try:
            self._save_at_end()
        finally:
            super().close()
        if self._followers is not None:
            self._followers.stop()

    @property
    def summary(self) -> str:
        """What was sized, and to what."""
        config, tokens = self.config, self.num_pages * self.config.page_size
        missed = self._missed_bytes
        where = "" if self.device.type == "cpu" else f" on {self.device}"
        missing = "" if missed is None else f" ({missed / 2**20:,.0f} MiB could not be had)"
        host = f", {self.num_host_pages:,} more on the host" if self.num_host_pages else ""
        return (
            f"{self.folder.name}{where}: KV pool {self.kv_bytes / 2**20:,.0f} MiB{missing} = "
            f"{tokens:,} tokens in {self.num_pages:,} pages of {config.page_size}{host}; up to "
            f"{self.sizes.max_running} rows and {self.sizes.token_budget} tokens a step, "
            f"{config.policy}; prefix cache {'on' if config.prefix_cache else 'off'}"
        )


def _context_len(asked: int | None, made_for: int) -> int:
    if asked is not None and asked > made_for:
        raise UsageError(
            f"context_len={asked!r}: this model was made for {made_for} tokens; ask for no more"
        )
    return asked or made_for
