"""Tensor parallelism with real processes on the CPU: together they compute what one does."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from transformers import LlamaConfig, Olmo2Config

import sgdsl as sgl
from runtime import Runtime
from runtime.model.shard import check_shardable
from sgdsl.errors import ProgramError, UsageError
from tests.tiny_llama import NUM_KV_HEADS

NUM_RANKS = NUM_KV_HEADS
PROMPTS = [f"The {thing} is" for thing in ("license", "work of", "first of all that", "copy")]


@sgl.function
def write(s: sgl.ProgramState, prompt: str) -> None:
    s += prompt + sgl.gen("text", 20, temperature=0.0, ignore_eos=True)
    s += " so " + sgl.select("choice", ["one", "another", "none of them"])
    s += sgl.gen("number", 8, regex="[0-9]{3}", temperature=0.7)


def written(runtime: Runtime) -> list[list[str]]:
    states = write.run_batch([{"prompt": each} for each in PROMPTS], backend=runtime, seed=1)
    return [[state[name] for name in ("text", "choice", "number")] for state in states]


@pytest.mark.parametrize("decoder", ["auto", "general"])
def test_two_processes_write_what_one_does(tiny_llama_path: Path, decoder: str) -> None:
    options: dict[str, Any] = {"decoder": decoder, "device": "cpu", "kv_bytes": 2**22}
    with Runtime(tiny_llama_path, **options) as runtime:
        alone = written(runtime)
    with Runtime(tiny_llama_path, tensor_parallel=NUM_RANKS, **options) as runtime:
        assert written(runtime) == alone
        assert runtime.shape.num_kv_heads == NUM_KV_HEADS // NUM_RANKS
        assert runtime._followers is not None
        processes = runtime._followers._processes
    assert [process.poll() for process in processes] == [0] * (NUM_RANKS - 1), "all have ended"


def test_a_follower_that_dies_is_the_end_of_the_runs(tiny_llama_path: Path) -> None:
    with Runtime(
        tiny_llama_path, tensor_parallel=NUM_RANKS, device="cpu", kv_bytes=2**22
    ) as runtime:
        written(runtime)
        assert runtime._followers is not None
        (process,) = runtime._followers._processes
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        with pytest.raises(ProgramError, match="the engine died"):
            _ = write.run(prompt="The end is", backend=runtime)["text"]
        assert not runtime.is_alive


@pytest.mark.parametrize(
    ("config", "num_ranks", "message"),
    [
        (LlamaConfig(num_attention_heads=4, num_key_value_heads=2), 4, "num_key_value_heads is 2"),
        (
            LlamaConfig(hidden_size=96, num_attention_heads=6, num_key_value_heads=6),
            4,
            "num_attention_heads is 6",
        ),
        (LlamaConfig(intermediate_size=30), 4, "intermediate_size is 30"),
        (Olmo2Config(), 2, "'olmo2' cannot be split over processes"),
    ],
)
def test_what_cannot_be_split_is_refused_by_name(config: Any, num_ranks: int, message: str) -> None:
    with pytest.raises(UsageError, match=f"tensor_parallel={num_ranks}: .*{message}"):
        check_shardable(config, num_ranks)


def test_a_runtime_refuses_it_before_any_process_is_started(tiny_llama_path: Path) -> None:
    with pytest.raises(UsageError, match="num_key_value_heads is 2"):
        Runtime(tiny_llama_path, tensor_parallel=4, device="cpu")
    with pytest.raises(UsageError, match="tensor_parallel=0"):
        Runtime(tiny_llama_path, tensor_parallel=0)
