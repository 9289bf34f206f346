"""The executor of GPUs on the CPU: FlashInfer in plain torch, CUDA graphs on a tape, steps that
overlap, unless tokens are guessed.

Random programs through the real engine, loader, batches, index arrays, recorded decodes and draws
of the device, against transformers' own forward over the whole text, one program at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st

from runtime.assembly import assemble
from runtime.config import RuntimeConfig
from runtime.executor.gpu import gpu_executor
from runtime.grammar_store import GrammarStore
from runtime.model.load import load_model
from runtime.service import Service
from runtime.tokenizer import Tokenizer
from sgdsl.machine import Piece
from sgdsl.seeds import derive_seed
from tests import reference
from tests.e2e.test_logprobs import ASKED, PROMPT, Table, check, model as table, score
from tests.e2e.test_tiny_model import Logits, draw, model
from tests.fake_flashinfer import fake_flashinfer
from tests.runtime.attention.test_flashinfer import eager_sharing, nothing_shared
from tests.tape import TapeRecorder

__all__ = ["model", "table"]

CONTEXT_LEN = 256

CASES: dict[str, dict[str, Any]] = {
    "eager": {"num_pages": 400, "graphs": False, "sharing": nothing_shared},
    "graphs": {"num_pages": 400, "graphs": True, "sharing": nothing_shared},
    "shared": {"num_pages": 400, "graphs": False, "sharing": eager_sharing},
    "guesses": {
        "num_pages": 400,
        "graphs": True,
        "sharing": nothing_shared,
        "options": {"speculation": "on"},
    },
    "small": {
        "num_pages": 125,
        "graphs": True,
        "sharing": eager_sharing,
        "options": {"page_size": 4, "token_budget": 8, "max_running": 3},
    },
}


class DeviceService(Service):
    """The real service and engine around the executor of GPUs."""

    def __init__(self, folder: Path, tokenizer: Tokenizer, case: dict[str, Any]) -> None:
        config = RuntimeConfig(**case.get("options", {}))
        num_pages = case["num_pages"]
        self.recorder = TapeRecorder() if case["graphs"] else None
        sizes = config.sizes(num_pages * config.page_size)
        grammars = GrammarStore(tokenizer.vocabulary)
        engine = assemble(
            config,
            tokenizer=tokenizer,
            grammars=grammars,
            executor=gpu_executor(
                load_model(folder),
                num_pages=num_pages,
                page_size=config.page_size,
                kv_dtype=torch.float32,
                device=torch.device("cpu"),
                max_running=min(8, sizes.max_running),
                token_budget=sizes.token_budget,
                context_len=CONTEXT_LEN,
                library=fake_flashinfer,
                recorder=self.recorder,
                find_sharing=case["sharing"],
                workspace_bytes=16,
            ),
            num_pages=num_pages,
            context_len=CONTEXT_LEN,
        )
        super().__init__(engine, grammars, chat_template=tokenizer.chat_template, max_in_flight=64)


@pytest.fixture(scope="module", params=list(CASES.values()), ids=list(CASES))
def service(
    request: pytest.FixtureRequest, tiny_llama_path: Path, tokenizer: Tokenizer
) -> Iterator[DeviceService]:
    with DeviceService(tiny_llama_path, tokenizer, request.param) as backend:
        yield backend
        if backend.recorder is not None:
            assert backend.recorder.num_replays > 0, "decodes were replayed"


@settings(
    max_examples=6,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(batch=st.lists(reference.programs, min_size=1, max_size=5), seed=st.integers(0, 1000))
def test_a_batch_is_what_the_programs_are_one_by_one(
    service: DeviceService,
    tokenizer: Tokenizer,
    model: Logits,
    batch: list[reference.Program],
    seed: int,
) -> None:
    states = reference.perform.run_batch(
        [{"program": program} for program in batch], backend=service, seed=seed
    )
    for index, (state, program) in enumerate(zip(states, batch, strict=True)):
        naive = reference.Naive(tokenizer, model, draw, derive_seed(seed, index))
        expected = naive.run(program)
        assert state.outcome is not None
        assert state.outcome.status in ("ok", "truncated"), state.outcome
        assert state.text() == expected.text
        assert {name: state[name] for name in expected.variables} == expected.variables


def test_log_probabilities_are_the_models(
    service: DeviceService, tokenizer: Tokenizer, table: Table
) -> None:
    """Of rows that ask for different ones, and are computed together."""
    prompt = tokenizer.continue_with([], [Piece(PROMPT)])[1]
    states = score.run_batch(
        [{"prompt": PROMPT, "asked": asked} for asked in ASKED], backend=service
    )
    for state, asked in zip(states, ASKED, strict=True):
        check(state.get_meta_info("x"), prompt, table, asked)
