"""Other engines are asked what ours was asked, and their answers are judged alike."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

import sgdsl as sgl
from benchmarks import peer_runs
from benchmarks.hits import Asked as Tokens
from benchmarks.peer_runs import PeerMissingError, ask_peer, job_of, python_of
from benchmarks.peers.protocol import Answer, Asked, Job, Served, job_from, served_from
from benchmarks.report import peer_figures, peer_verdicts
from benchmarks.requests import Request
from benchmarks.workloads.workload import Row, Texts, Verdict, Workload
from runtime import Runtime


def request(depth: int, name: str, **others: Any) -> Request:
    given = {"text": "", "num_tokens": 3, "max_tokens": 9, "is_exact": False, "kind": "free"}
    return Request(depth=depth, name=name, prompt=name, **{**given, **others})


RUNS = [
    [request(0, "a", kind="regex", spec="x+"), request(1, "b", is_exact=True)],
    [request(0, "c", kind="choices", spec=["p", "q"], max_tokens=0)],
]
TOKENS = [[Tokens([1]), Tokens([2])], [Tokens([3])]]
OPTIONS = {"p": [7], "q": [8, 9]}


def job(*, constrains: bool) -> Job:
    model = Path("model")
    return job_of(RUNS, TOKENS, model, threads=2, constrains=constrains, options=OPTIONS)


def test_a_job_has_the_prompts_and_limits_of_our_runs_in_rounds() -> None:
    choice = Asked([3], 0, kind="choices", spec=["p", "q"], options=[[7], [8, 9]])
    assert job(constrains=True).rounds == [
        [Asked([1], 9, kind="regex", spec="x+"), choice],
        [Asked([2], 9, is_exact=True)],
    ]


def test_without_constraints_outputs_are_as_long_as_ours() -> None:
    assert job(constrains=False).rounds[0][0] == Asked([1], 3, is_exact=True)
    assert job(constrains=False).rounds[1][0] == Asked([2], 9, is_exact=True)


def test_jobs_and_answers_survive_their_files() -> None:
    written = job(constrains=True)
    assert job_from(json.loads(json.dumps(asdict(written)))) == written
    served = Served("1", 2.0, 3.0, 4, [[Answer("x", 1)], []])
    assert served_from(json.loads(json.dumps(asdict(served)))) == served


def test_answers_are_judged_row_by_row() -> None:
    def judge(texts: Texts, row: Row) -> Verdict:
        return Verdict(texts == row.truth)

    rows = [Row({}, {"a": ["1"], "b": ["3"]}), Row({}, {"c": ["2"]})]
    served = Served("1", 2.0, 3.0, 4, [[Answer("1", 1), Answer("2", 1)], [Answer("3", 5)]])
    workload = Workload("x", sgl.function(lambda s: None), lambda _c, _s: [], judge)
    assert peer_verdicts(served, RUNS, workload, rows) == [Verdict(True), Verdict(True)]
    figures = peer_figures(served, rows)
    assert (figures["rows_per_s"], figures["output_tokens"]) == (1.0, 7)


def test_only_transformers_runs_where_none_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_runs, "FOLDER", tmp_path)
    assert python_of("transformers") == Path(sys.executable)
    for name in sorted(peer_runs.PEERS.keys() - {"transformers"}):
        with pytest.raises(PeerMissingError, match=f"{name} is not installed"):
            python_of(name)


def test_a_peer_that_fails_is_missing_with_what_it_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_runs, "FOLDER", tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")  # or the hub would be asked, again and again
    with pytest.raises(PeerMissingError, match="transformers failed: "):
        ask_peer("transformers", job(constrains=False))  # there is no such model


def test_static_batches_write_what_the_engine_writes(
    tiny_llama_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Greedy, without a constraint, each with its own length; and the likeliest options."""
    monkeypatch.setattr(peer_runs, "FOLDER", tmp_path)

    @sgl.function
    def write(s: sgl.ProgramState[Any], prompt: str, length: int) -> None:
        s += prompt + sgl.gen("x", length, temperature=0.0, ignore_eos=True, healing=False)

    @sgl.function
    def choose(s: sgl.ProgramState[Any], prompt: str) -> None:
        s += prompt + sgl.select("x", [" the", " a license", " work"])

    prompts = ["the license of the work", "user: What", '{"name": "package-7", "tags"', "the"]
    with Runtime(tiny_llama_path, kv_bytes=2**23) as runtime:
        rows = [{"prompt": prompt, "length": 5 + i} for i, prompt in enumerate(prompts)]
        wrote = write.run_batch(rows, backend=runtime)
        chose = choose.run_batch([{"prompt": prompt} for prompt in prompts], backend=runtime)
        encode = runtime.tokenizer.encode
        heads = [[*runtime.tokenizer.bos_token_ids, *encode(prompt)] for prompt in prompts]
        choices = [" the", " a license", " work"]
        options = [encode(text) for text in choices]
    written = [Asked(head, 5 + i, is_exact=True) for i, head in enumerate(heads)]
    chosen = [Asked(head, 0, kind="choices", spec=choices, options=options) for head in heads]
    made = Job(str(tiny_llama_path), str(tmp_path), 1, [written, chosen], 2, constrains=False)
    served = ask_peer("transformers", made)
    assert [each.text for each in served.answers[0]] == [state["x"] for state in wrote]
    assert [each.num_tokens for each in served.answers[0]] == [5, 6, 7, 8]
    assert [each.text for each in served.answers[1]] == [state["x"] for state in chose]
    assert served.cpu_s > 0 and served.wall_s > 0
