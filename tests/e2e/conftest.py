"""Backends of the end-to-end tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.assembly import assemble
from runtime.config import RuntimeConfig
from runtime.grammar_store import GrammarStore
from runtime.model.load import load_tokenizer
from runtime.service import Service
from runtime.tokenizer import Tokenizer
from tests.fakes import Fickle, HashExecutor, Hope, OverlappingExecutor
from tests.tiny_llama import CONTEXT_LENGTH, VOCAB_SIZE


@pytest.fixture(scope="session")
def tokenizer(tiny_llama_path: Path) -> Tokenizer:
    return load_tokenizer(tiny_llama_path, vocab_size=VOCAB_SIZE)


class HashService(Service):
    """The real service and engine around a fake executor; it guesses wherever there is a guess.
    `hopes`: sequences are let in without regard to what they will need, so that many are preempted.
    `fickle`: every other time pages of the host are computed again. `overlaps`: nobody sees what a
    step draws before the next one has been asked for, and nothing is guessed.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        num_pages: int,
        num_host_pages: int = 0,
        hopes: bool = False,
        fickle: bool = False,
        overlaps: bool = False,
        model: type[HashExecutor] = HashExecutor,
        **options: Any,
    ) -> None:
        config = RuntimeConfig(**{"speculation": "auto" if overlaps else "on", **options})
        model = OverlappingExecutor if overlaps else model
        self.tokenizer = tokenizer
        self.executor = model(
            vocab_size=VOCAB_SIZE,
            num_slots=(num_pages + num_host_pages) * config.page_size,
            page_size=config.page_size,
        )
        self.grammars = grammars = GrammarStore(tokenizer.vocabulary)
        self.engine = assemble(
            config,
            tokenizer=tokenizer,
            grammars=grammars,
            executor=self.executor,
            num_pages=num_pages,
            num_host_pages=num_host_pages,
            context_len=CONTEXT_LENGTH,
        )
        if hopes:
            self.engine.scheduler.usage = Hope()
        if fickle:
            self.engine.scheduler.rates = Fickle()
        super().__init__(
            self.engine,
            grammars,
            chat_template=tokenizer.chat_template,
            max_in_flight=config.sizes(num_pages * config.page_size).max_in_flight,
        )

    def check_idle(self) -> None:
        """Nothing is left behind: no page, lock, sequence or run."""
        cache = self.engine.scheduler.cache
        cache.check_integrity()
        assert cache.num_free + cache.num_cached == cache.num_pages
        assert cache.num_available == cache.num_pages
        assert self.engine.scheduler.num_running == self.engine.scheduler.num_waiting == 0
        assert self.engine.programs.num_runs == 0


MakeService = Callable[..., HashService]


@pytest.fixture
def make_service(tokenizer: Tokenizer) -> Iterator[MakeService]:
    made: list[HashService] = []

    def make(*, num_pages: int = 200, **options: Any) -> HashService:
        made.append(HashService(tokenizer, num_pages=num_pages, **options))
        return made[-1]

    yield make
    for service in made:
        service.close()
