"""The default model itself, against transformers' own reading of the same GGUF file."""

from __future__ import annotations

import functools
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import regex
import torch
from hypothesis import given, settings, strategies as st
from tokenizers import Tokenizer, pre_tokenizers
from tokenizers.models import BPE
from transformers import AutoModelForCausalLM, AutoTokenizer

from runtime import cli
from runtime.models import resolve_model
from runtime.models.catalog import DEFAULT_MODEL
from runtime.models.fetch import fetch_gguf
from runtime.models.progress import ProgressReport

pytestmark = pytest.mark.model

TEXTS = [
    "The capital of France is Paris, and that of Italy is Rome.",
    "def fibonacci(n: int) -> int:\n    return 1 if n < 2 else fibonacci(n - 1) * n\n",
    '{"name": "numpy", "version": "2.4.6", "topics": ["Scientific/Engineering"]}',
    "naïve café, 日本語, Ελληνικά, 🤖👩‍🚀\r\n\ttabs and\u00a0odd spaces  \n\n\n",
    "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWe're who'll they've.<|im_end|>\n",
]
# llama.cpp, src/llama-vocab.cpp, LLAMA_VOCAB_PRE_TYPE_SMOLLM: each is applied to the pieces that
# the one before it left.
LLAMA_CPP_SMOLLM = (
    r"\p{N}",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
)


@pytest.fixture(scope="module")
def gguf_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gguf")
    return fetch_gguf(DEFAULT_MODEL, folder, progress=ProgressReport(visible=False))


@pytest.fixture(scope="module")
def tokenizer(default_model_path: Path) -> Tokenizer:
    return Tokenizer.from_file(str(default_model_path / "tokenizer.json"))


@pytest.mark.slow
def test_logits_equal_those_of_transformers_own_gguf_loader(
    default_model_path: Path, gguf_path: Path, tokenizer: Tokenizer
) -> None:
    ours = AutoModelForCausalLM.from_pretrained(default_model_path)
    theirs = AutoModelForCausalLM.from_pretrained(gguf_path.parent, gguf_file=gguf_path.name)
    for text in TEXTS:
        ids = torch.tensor([tokenizer.encode(text).ids])
        with torch.no_grad():
            torch.testing.assert_close(
                ours(ids).logits, theirs(ids).logits, rtol=0, atol=1e-4, check_dtype=True
            )


def test_tokens_equal_those_of_transformers_own_gguf_loader_without_digits(
    gguf_path: Path, tokenizer: Tokenizer
) -> None:
    theirs = AutoTokenizer.from_pretrained(gguf_path.parent, gguf_file=gguf_path.name)
    for text in TEXTS:
        undigited = regex.sub(r"\p{N}", "", text)
        assert tokenizer.encode(undigited).ids == theirs(undigited).input_ids
    # Where white space meets a digit they differ, and the next test says who is right.
    assert tokenizer.encode("a  1").ids != theirs("a  1").input_ids


def test_text_is_cut_at_digits_as_llama_cpp_cuts_it(tokenizer: Tokenizer) -> None:
    pieces = _pre_tokenize("We're  12 of 345\n\n 6!")
    assert pieces == ["We", "'re", "ĠĠ", "1", "2", "Ġof", "Ġ", "3", "4", "5", "ĊĊĠ", "6", "!"]


@settings(max_examples=300, deadline=None)
@given(text=st.text(st.sampled_from("aB 1²٣\n\t'!sé語"), max_size=30) | st.text(max_size=30))
def test_tokens_equal_llama_cpps_rules_on_any_text(text: str) -> None:
    folder = resolve_model()
    expected = [
        token_id
        for piece in _pre_tokenize(text)
        for token_id in _bare_bpe(folder).encode(piece).ids
    ]
    assert _loaded(folder).encode(text).ids == expected


def test_a_chat_gets_an_answer(default_model_path: Path, tokenizer: Tokenizer) -> None:
    auto: Any = AutoTokenizer.from_pretrained(default_model_path)
    prompt = auto.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}],
        add_generation_prompt=True,
        return_tensors="pt",
    )
    assert auto.decode(prompt["input_ids"][0]).startswith("<|im_start|>system\nYou are a helpful")
    model: Any = AutoModelForCausalLM.from_pretrained(default_model_path)
    answer = model.generate(**prompt, max_new_tokens=20, do_sample=False)[0]
    assert auto.decode(answer).endswith("The capital of France is Paris.<|im_end|>")


def test_pull_prints_the_default_models_folder(
    default_model_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["pull"]) == 0
    assert capsys.readouterr().out == f"{default_model_path}\n"


def _pre_tokenize(text: str) -> list[str]:
    """The pieces of `text` by llama.cpp's two expressions, in the byte alphabet."""
    pieces = [text]
    for expression in LLAMA_CPP_SMOLLM:
        pieces = [part for piece in pieces for part in _split(expression, piece)]
    spell = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return ["".join(part for part, _ in spell.pre_tokenize_str(piece)) for piece in pieces]


def _split(expression: str, text: str) -> list[str]:
    """Matches and what is between them, as pieces."""
    cuts = [0]
    for match in regex.finditer(expression, text):
        cuts += [match.start(), match.end()]
    cuts.append(len(text))
    return [text[a:b] for a, b in itertools.pairwise(cuts) if a < b]


@functools.cache
def _loaded(folder: Path) -> Tokenizer:
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


@functools.cache
def _bare_bpe(folder: Path) -> Tokenizer:
    """The merges alone: no pre-tokenizer, no special tokens."""
    model = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    merges = [(a, b) for a, b in model["merges"]]
    return Tokenizer(BPE(vocab=model["vocab"], merges=merges))
