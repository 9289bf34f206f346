"""What a row gives is bit for bit the same, whatever else is in the batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st
from torch import Tensor

from runtime import Runtime
from runtime.attention.invariant import BLOCK, InvariantAttention
from runtime.batch import Grant, build_batch
from runtime.cache.kv import KVPool
from runtime.errors import UnsupportedModelError
from runtime.model.base import Model
from runtime.model.general import GeneralModel
from runtime.model.invariant import InvariantModel
from runtime.model.load import load_model
from runtime.model.probe import AlonePlan
from runtime.sequence import Sequence
from runtime.token_tree import TokenTree
from tests.fakes import Hope
from tests.runtime.model.conftest import WriteModel
from tests.runtime.model.test_families import PROMPTS, run
from tests.runtime.model.tiny_models import FAMILIES
from tests.tiny_llama import VOCAB_SIZE

pytestmark = pytest.mark.usefixtures("two_threads")

PAGE, NUM_PAGES = 16, 128
KINDS = {
    "llama": "float32",
    "llama, biases": "int8",
    "mistral, a window": "float32",
    "gemma 2": "float32",
    "gemma 3": "bfloat16",
    "gpt 2": "float32",
    "phi 3, a window": "float32",
    "cohere 2": "float32",
    "mixtral": "float32",
    "qwen 3, experts": "bfloat16",
    "gpt oss": "float32",
}


class Steps:
    """Steps of any composition over one pool, and the logits that they give."""

    def __init__(self, model: Model) -> None:
        shape = model.shape
        pool = KVPool(
            num_layers=shape.num_layers,
            num_kv_heads=shape.num_kv_heads,
            head_dim=shape.head_dim,
            num_slots=PAGE * NUM_PAGES,
        )
        self._model = model
        self._attention = InvariantAttention(pool, num_heads=shape.num_heads)
        self._pages: Iterator[int] = iter(torch.randperm(NUM_PAGES).tolist())

    def sequence(self, tokens: list[int], tree: TokenTree | None = None) -> Sequence:
        sequence = Sequence(tokens, tree=tree)
        sequence.pages = [next(self._pages) for _ in range(-(-sequence.max_slots // PAGE))]
        return sequence

    @torch.inference_mode()
    def step(self, sizes: list[tuple[Sequence, int]]) -> list[Tensor]:
        """So many tokens of each sequence; their logits."""
        grants = [Grant(sequence, sequence.computed, size) for sequence, size in sizes]
        batch = build_batch(grants, PAGE)
        ids, positions = torch.from_numpy(batch.token_ids), torch.from_numpy(batch.positions)
        plan = self._attention.plan(batch)
        logits = self._model.logits(self._model.hidden(ids.long(), positions.long(), plan))
        for sequence, size in sizes:
            sequence.computed += size
        return list(torch.split(logits, [size for _, size in sizes]))


@pytest.mark.parametrize("family", KINDS)
def test_logits_are_bitwise_the_same_over_random_batches(
    family: str, write_model: WriteModel
) -> None:
    """One by one, then in random chunks among random neighbours."""
    model = InvariantModel(load_model(write_model(FAMILIES[family]), dtype=KINDS[family]))

    @settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow])
    @given(st.integers(0, 2**31), st.lists(st.integers(1, BLOCK + 40), min_size=2, max_size=7))
    def holds(seed: int, lengths: list[int]) -> None:
        torch.manual_seed(seed)
        texts = [torch.randint(3, VOCAB_SIZE, (length,)).tolist() for length in lengths]
        steps = Steps(model)
        alone = [steps.step([(steps.sequence(text), len(text))])[0] for text in texts]
        steps = Steps(model)
        sequences = [steps.sequence(text) for text in texts]
        found: list[list[Tensor]] = [[] for _ in texts]
        while any(sequence.gap for sequence in sequences):
            sizes = [
                (place, 1 if torch.rand(()) < 0.5 else int(torch.randint(1, sequence.gap + 1, ())))
                for place, sequence in enumerate(sequences)
                if sequence.gap and torch.rand(()) < 0.7
            ]
            if sizes:
                logits = steps.step([(sequences[place], size) for place, size in sizes])
                for (place, _), part in zip(sizes, logits, strict=True):
                    found[place].append(part)
        for parts, expected in zip(found, alone, strict=True):
            assert torch.equal(torch.cat(parts), expected)

    holds()


def test_the_options_of_a_tree_give_the_bits_of_plain_texts(write_model: WriteModel) -> None:
    model = InvariantModel(load_model(write_model(FAMILIES["gemma 2"])))
    prompt, options = list(range(100, 230)), [[5, 6, 7], [5, 6, 8, 9], [10], [5]]
    steps = Steps(model)
    tree = TokenTree(options)
    sequence = steps.sequence(prompt, tree)
    steps.step([(sequence, len(prompt) - 2)])
    in_tree = steps.step([(sequence, sequence.goal - sequence.computed)])[0]
    for option in options:
        expected = Steps(model)
        text = prompt + option
        logits = expected.step([(expected.sequence(text), len(text))])[0]
        for length in range(1, len(option)):
            node = next(
                node
                for node in range(len(tree))
                if [tree.tokens[each] for each in tree.path_to(node)] == option[:length]
            )
            assert torch.equal(in_tree[2 + node], logits[len(prompt) + length - 1])


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_log_probabilities_are_the_same_numbers_with_any_cache_budget_and_pool(
    dtype: str, write_model: WriteModel
) -> None:
    folder = write_model(FAMILIES["llama"])
    options: dict[str, Any] = {"page_size": 4, "share_outputs": False, "batch_invariant": True}
    options["dtype"] = dtype
    found = []
    with Runtime(folder, kv_bytes=1 << 22, **options) as runtime:
        found += [run(runtime), run(runtime)]
        token_bytes = runtime.kv_bytes // (runtime.num_pages * 4)
    one_by_one = {"max_running": 1, "token_budget": 7, "prefix_cache": False}
    with Runtime(folder, kv_bytes=1 << 22, **one_by_one, **options) as runtime:
        found.append(run(runtime))
    with Runtime(
        folder, kv_bytes=token_bytes * 112, max_running=6, token_budget=24, **options
    ) as runtime:
        runtime._engine.scheduler.usage = Hope()  # so that pages run out
        found.append(run(runtime))
        assert runtime.scheduler_counts.preemptions > 0
    assert len(found[0]) == len(PROMPTS)
    assert found[1:] == found[:1] * 3


@pytest.mark.parametrize("family", ["mixtral", "qwen 3, experts", "gpt oss", "deepseek 3"])
def test_experts_that_are_filled_up_are_transformers_own(
    family: str, write_model: WriteModel
) -> None:
    model = load_model(write_model(FAMILIES[family]))
    tokens = torch.arange(3, 40)
    with torch.inference_mode():
        expected = model.hidden(tokens, tokens - 3, AlonePlan())
        found = InvariantModel(model).hidden(tokens, tokens - 3, AlonePlan())
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_experts_that_are_given_any_number_of_rows_are_refused(
    write_model: WriteModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of a family that has its own way to compute them."""
    monkeypatch.setattr(GeneralModel, "fill_experts", lambda *_: None)
    with pytest.raises(UnsupportedModelError, match="batch_invariant=True cannot be had for this"):
        Runtime(write_model(FAMILIES["mixtral"]), kv_bytes=1 << 20, batch_invariant=True)
