"""The default model, batched, cached, chunked and preempted, against transformers' `generate`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import BaseModel, Field
from transformers import AutoModelForCausalLM, AutoTokenizer

import sgdsl as sgl
from runtime import Runtime
from tests.fakes import Hope

pytestmark = [pytest.mark.model, pytest.mark.usefixtures("two_threads")]

NUM_NEW = 24
TOKEN_BYTES = 30 * 2 * 3 * 64 * 4  # layers, keys and values, KV heads, head size, float32

HISTORY = (
    "The abacus is the oldest known tool for reckoning. Mechanical calculators followed in the "
    "seventeenth century, and punched cards controlled looms in the nineteenth. "
)
PROMPTS = [
    "A",
    "Once upon a time",
    "The capital of France is",
    "def fibonacci(n):\n",
    "1, 2, 3, 4,",
    "Q: What is the boiling point of water?\nA:",
    "Roses are red,\nviolets are blue,\n",
    "日本の首都は",
    '{"name": "Ada", "age": ',
    "<p>Hello, <b>world</b></p>\n<p>",
    "Translate to French: cat ->",
    "The following is a list of fruits:\n- apple\n- banana\n-",
    "import numpy as np\n\nx = np.",
    "    indented\n        more\n",
    *(
        HISTORY * repeats + ending
        for repeats, ending in [
            (1, "In"),
            (1, "Then came"),
            (3, "In"),
            (4, "The next"),
            (6, "In"),
            (8, "After that"),
            (12, "Computers"),
        ]
    ),
]


@sgl.function
def complete(s: sgl.ProgramState, prompt: str) -> None:
    s += prompt
    s += sgl.gen("out", NUM_NEW, temperature=0.0, healing=False, return_logprob=True)


@pytest.fixture(scope="module")
def expected(default_model_path: Path) -> list[tuple[list[int], list[float]]]:
    """transformers' greedy tokens and their log-probabilities, one prompt at a time."""
    library = AutoTokenizer.from_pretrained(default_model_path)
    model: Any = AutoModelForCausalLM.from_pretrained(default_model_path, dtype=torch.float32)
    found = []
    for prompt in PROMPTS:
        inputs = library(prompt, return_tensors="pt")
        out = model.generate(
            **inputs,
            max_new_tokens=NUM_NEW,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )
        tokens = out.sequences[0, inputs["input_ids"].shape[1] :].tolist()
        logprobs = [
            float(logits[0].float().log_softmax(-1)[token])
            for token, logits in zip(tokens, out.logits, strict=True)
        ]
        kept = len(tokens) - (tokens[-1] in (0, 2))
        found.append((tokens[:kept], logprobs[:kept]))
    return found


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "options",
    [
        {},
        # Chunks of 48 tokens, and a pool that holds two of the longest at most.
        {"token_budget": 48, "max_running": 8, "kv_bytes": 480 * TOKEN_BYTES},
        {"prefix_cache": False, "max_running": 5, "page_size": 8},
    ],
    ids=["default", "chunked and preempted", "uncached"],
)
def test_greedy_output_is_transformers_token_for_token(
    default_model_path: Path,
    expected: list[tuple[list[int], list[float]]],
    options: dict[str, Any],
) -> None:
    with Runtime(default_model_path, **options) as runtime:
        if "kv_bytes" in options:
            runtime._engine.scheduler.usage = Hope()  # so that pages run out
        states = complete.run_batch([{"prompt": prompt} for prompt in PROMPTS], backend=runtime)
        if "kv_bytes" in options:
            assert runtime.scheduler_counts.preemptions > 0
    for prompt, state, (tokens, logprobs) in zip(PROMPTS, states, expected, strict=True):
        found = state.get_meta_info("out")["output_token_logprobs"]
        assert [token for _, token, _ in found] == tokens, prompt
        assert [logprob for logprob, _, _ in found] == pytest.approx(logprobs, abs=1e-4)


@pytest.fixture(scope="module")
def runtime(default_model_path: Path) -> Iterator[Runtime]:
    with Runtime(default_model_path) as backend:
        yield backend


class Person(BaseModel):
    name: str = Field(max_length=20)
    age: int = Field(ge=0, le=150)
    email: str | None


@sgl.function
def describe(s: sgl.ProgramState, text: str) -> Person:
    s += f"Text: {text}\nAs JSON: " + sgl.gen("person", 60, temperature=0.0, type=Person)
    person = s["person"]
    assert isinstance(person, Person)
    return person


def test_a_typed_record_comes_back_from_a_real_model(runtime: Runtime) -> None:
    state = describe.run("Ada Lovelace is 36 years old.", backend=runtime)
    assert isinstance(state.ret_value, Person)
    assert "Ada" in state.ret_value.name


@sgl.function
def fill_in(s: sgl.ProgramState, prompt: str, kind: dict[str, Any]) -> None:
    s += prompt + sgl.gen("out", 32, temperature=0.0, **kind)


def test_an_open_ended_output_ends_where_the_model_ends_it(runtime: Runtime) -> None:
    rows: list[dict[str, Any]] = [
        {"prompt": "Q: How many days are in a week?\nA: There are ", "kind": {"dtype": int}},
        {"prompt": "The Second World War ended in ", "kind": {"dtype": int}},
        {"prompt": "The capital of France is the city of ", "kind": {"regex": "[A-Z][a-z]+"}},
        {"prompt": "The opposite of hot is ", "kind": {"regex": "[a-z]+"}},
    ]
    states = fill_in.run_batch(rows, backend=runtime)
    assert [state["out"] for state in states] == [7, 1945, "Paris", "cold"]
    for state in states:
        assert state.get_meta_info("out")["finish_reason"] == {"type": "stop", "matched": None}


@sgl.function
def chat(s: sgl.ProgramState, question: str) -> None:
    s += sgl.user(question)
    s += sgl.assistant(sgl.gen("answer", 16, temperature=0.0))


def test_roles_are_the_model_s_own_template(runtime: Runtime) -> None:
    state = chat.run("What is the capital of France?", backend=runtime)
    assert "Paris" in state["answer"]
    assert state.text().startswith(
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM"
    )
    assert [message["role"] for message in state.messages()] == ["system", "user", "assistant"]


@sgl.function
def capital(s: sgl.ProgramState, country: str) -> None:
    s += f"The capital of {country} is "
    s += sgl.select("city", ["Rome", "Paris", "Madrid", "Berlin"])


def test_a_select_prefers_what_is_true(runtime: Runtime) -> None:
    states = capital.run_batch(
        [{"country": country} for country in ("Italy", "France", "Spain", "Germany")],
        backend=runtime,
    )
    assert [state["city"] for state in states] == ["Rome", "Paris", "Madrid", "Berlin"]
    probabilities = states[0].get_meta_info("city")["probabilities"]
    assert sum(probabilities) == pytest.approx(1.0)
