"""The engine's parts, put together around any executor.

Owns which part is given what. Torch-free: the fake executor of the tests is assembled as the real
one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter

from runtime.cache.diagnosis import Setup
from runtime.cache.prefix import PrefixCache
from runtime.config import RuntimeConfig, Sizes
from runtime.engine import Engine
from runtime.executor.base import Executor
from runtime.grammar_store import GrammarStore
from runtime.policies import POLICIES
from runtime.programs import Programs
from runtime.scheduler import Scheduler
from runtime.speculation import Speculation
from runtime.telemetry.cache_watch import CacheWatch
from runtime.tokenizer import Tokenizer

logger = logging.getLogger("sgdsl.runtime")
"""For what an operator should hear of, and no caller has asked for."""


def assemble(
    config: RuntimeConfig,
    *,
    tokenizer: Tokenizer,
    grammars: GrammarStore,
    executor: Executor,
    num_pages: int,
    num_host_pages: int = 0,
    context_len: int,
    sizes: Sizes | None = None,
    clock: Callable[[], float] = perf_counter,
) -> Engine:
    """`context_len` in tokens; `num_pages` and `num_host_pages` are what the executor has; sizes:
    None for the CPU's; `clock` gives seconds.
    """
    cache = PrefixCache(
        num_pages=num_pages,
        page_size=config.page_size,
        reuse=config.prefix_cache,
        eviction=config.eviction,
        num_host_pages=num_host_pages,
    )
    sizes = sizes or config.sizes(num_pages * config.page_size)
    scheduler = Scheduler(
        cache,
        token_budget=sizes.token_budget,
        max_running=sizes.max_running,
        policy=POLICIES[config.policy],
    )
    setup = Setup(
        page_size=config.page_size,
        num_pages=num_pages,
        reuse=config.prefix_cache,
        decode=lambda tokens: tokenizer.decode(tokens).decode("utf-8", "replace"),
    )
    scheduler.watch = CacheWatch(setup, tell=logger.warning)
    # A guess goes on from tokens that are known: who wants guesses waits for each step's.
    overlaps = executor.overlaps and config.speculation != "on"
    programs = Programs(
        scheduler,
        tokenizer,
        grammars,
        max_tokens=min(context_len, num_pages * config.page_size),
        clock=clock,
        speculation=Speculation(tokenizer, mode="off" if overlaps else config.speculation),
        share_outputs=config.share_outputs,
        max_waiting=config.max_waiting,
        max_waiting_tokens=config.max_waiting_tokens,
    )
    return Engine(scheduler, programs, executor, overlaps=overlaps)
