"""Programs that look at log-probabilities, as people bring them from SGLang's frontend: only the
import is changed. The model is the tiny Llama, in the runtime.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, log
from pathlib import Path
from typing import Any

import pytest

import sgdsl as sgl


@pytest.fixture(scope="module")
def runtime(tiny_llama_path: Path) -> Iterator[sgl.Runtime]:
    backend = sgl.Runtime(model_path=str(tiny_llama_path), kv_bytes=1 << 23)
    sgl.set_default_backend(backend)
    yield backend
    sgl.set_default_backend(None)
    backend.shutdown()


@sgl.function
def cot_decoding(s: Any, question: str, get_top_k: int, is_chat_model: bool) -> list[Any]:
    if is_chat_model:
        s += sgl.user("Question: " + question + "\nAnswer:")
        s += sgl.assistant_begin()
    else:
        s += "Question: " + question + "\nAnswer:"
    step_0 = s.fork(1)[0]
    forks = s.fork(get_top_k)
    answer_forks = s.fork(get_top_k)

    step_0 += sgl.gen(
        "get_top_k",
        max_tokens=0,
        return_logprob=True,
        top_logprobs_num=get_top_k,
        return_text_in_logprobs=True,
    )
    first_tokens = step_0.get_meta_info("get_top_k")["output_top_logprobs"][0]
    paths = []
    for index, (fork, token) in enumerate(zip(forks, first_tokens, strict=True)):
        logprob, _, text = token
        fork += text  # noqa: PLW2901 - as people write it
        fork += sgl.gen(  # noqa: PLW2901
            "answer",
            temperature=0,
            max_tokens=6,
            return_logprob=True,
            top_logprobs_num=2,
            return_text_in_logprobs=True,
        )
        tops = fork.get_meta_info("answer")["output_top_logprobs"]
        first = [exp(top[0][0]) for top in tops]
        second = [exp(top[1][0]) for top in tops]
        confidence = (sum(first) - sum(second)) / len(first)

        answer_forks[index] += text + fork["answer"] + "\nSo the answer is"
        answer_forks[index] += sgl.gen("answer_span", temperature=0, max_tokens=3)
        span = answer_forks[index]["answer_span"].replace("\n", " ").strip(":")
        paths.append((confidence, logprob, text, fork["answer"], span, tops))
    return sorted(paths, key=lambda path: path[0], reverse=True)


@pytest.mark.parametrize("is_chat_model", [False, True])
def test_chain_of_thought_decoding(runtime: sgl.Runtime, is_chat_model: bool) -> None:
    question, top_k = "Is a license a contract?", 5
    state = cot_decoding.run(question, top_k, is_chat_model)
    paths = state.ret_value
    assert len(paths) == top_k
    assert 0 <= paths[-1][0] <= paths[0][0] <= 1
    assert sum(exp(logprob) for _, logprob, *_ in paths) <= 1
    for _, _, _, answer, span, tops in paths:
        assert all(top[0][0] >= top[1][0] for top in tops)
        assert len(tops) <= 6
        if "\ufffd" not in answer:  # each of its tokens is the likeliest: it is greedy
            assert "".join(top[0][2] for top in tops).endswith(answer)
        assert isinstance(span, str)
    assert state.text().count("Answer:") == 1  # what the forks wrote is theirs
    again = cot_decoding.run(question, top_k, is_chat_model, backend=runtime)
    assert [path[3:5] for path in again.ret_value] == [path[3:5] for path in paths]


def test_the_likeliest_first_token_begins_the_greedy_answer(runtime: sgl.Runtime) -> None:
    @sgl.function
    def peek(s: Any, prompt: str) -> None:
        s += sgl.user(prompt)
        s += sgl.assistant_begin()
        with s.copy() as c:
            c += sgl.gen("first", max_tokens=0, top_logprobs_num=1)  # noqa: PLW2901
            c["likeliest"] = c.get_meta_info("first")["output_top_logprobs"][0][0][1]
        s += sgl.gen("x", 1, temperature=0, return_logprob=True)

    for word in ("contributor.", "work:", "copyright\n"):
        state = peek.run("the license of every " + word, backend=runtime)
        ((_, token, text),) = state.get_meta_info("x")["output_token_logprobs"]
        assert state["likeliest"] == [token]
        assert text is None  # was not asked for


def test_choices_with_log_probabilities(runtime: sgl.Runtime) -> None:
    @sgl.function
    def true_or_false(s: Any, statement: str) -> None:
        s += "Determine whether the statement below is True, False, or Unknown.\n"
        s += "Statement: The capital of France is Paris.\nAnswer: True\n\n"
        s += "Statement: " + statement + "\nAnswer:"
        s += sgl.select("answer", ["True", "False", "Unknown"])

    statements = ["License is a word.", "Nobody may copy.", "Yes."]
    states = true_or_false.run_batch([{"statement": each} for each in statements])
    for state in states:
        meta = state.get_meta_info("answer")
        means = meta["normalized_prompt_logprobs"]
        tokens = meta["input_token_logprobs"]
        assert len(means) == len(tokens) == len(meta["output_token_logprobs"]) == 3
        assert state["answer"] == ["True", "False", "Unknown"][means.index(max(means))]
        for mean, scored in zip(means, tokens, strict=True):
            assert mean == pytest.approx(sum(token[0] for token in scored) / len(scored))
        spelled = ["".join(text for _, _, text in scored) for scored in tokens]
        assert [text.lstrip(": ") for text in spelled] == ["True", "False", "Unknown"]
        assert sum(meta["probabilities"]) == pytest.approx(1)
    assert runtime.stats().cached_tokens > 0


def test_the_perplexity_of_a_prompt_and_the_log_probability_of_an_answer(
    runtime: sgl.Runtime,
) -> None:
    @sgl.function
    def score(s: Any, text: str) -> None:
        s += text
        s += sgl.gen("next", max_tokens=0, return_logprob=True, logprob_start_len=0)

    @sgl.function
    def answer(s: Any, text: str) -> None:
        s += text
        s += sgl.gen("next", max_tokens=8)

    meta = score.run("the license of this work", backend=runtime).get_meta_info("next")
    first, *others = meta["input_token_logprobs"]
    assert first[0] is None
    assert all(logprob < 0 for logprob, _, _ in others)
    assert len(meta["input_token_logprobs"]) == meta["prompt_tokens"]

    state = answer.run("the license", temperature=0, return_logprob=True, top_logprobs_num=3)
    meta = state.get_meta_info("next")
    for (logprob, token, _), tops in zip(
        meta["output_token_logprobs"], meta["output_top_logprobs"], strict=True
    ):
        assert (logprob, token) == pytest.approx(tops[0][:2])
        assert logprob >= log(1 / 768)
