"""What `state.explain()` tells of a run on a model."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

from grammars import Compiler, Matcher, Regex
from runtime import Runtime
from sgdsl import ProgramState, function, gen, select
from tests.patience import await_that


@function
def filled(s: ProgramState) -> None:
    s += "Dear reader, this is a long beginning that fills more than a page of tokens for sure.\n"
    forks = s.fork(2)
    forks += gen("code", 12, regex="(10|20)-zz[0-9]", healing=False, return_logprob=True)
    forks.join()
    s += select("good", ["yes", "no"])


def test_tokens_time_and_log_probabilities_come_from_the_engine(tiny_llama_path: Path) -> None:
    with Runtime(tiny_llama_path) as runtime:
        state = filled.run(backend=runtime, temperature=1.0, seed=3)
        nodes = state.explain().nodes
        compiler = Compiler(runtime.tokenizer.vocabulary)
    codes = [node for node in nodes if node.name == "code"]
    assert [node.text for node in codes] == state["code"]
    for branch, node in zip((1, 2), codes, strict=True):
        entries = node.meta["output_token_logprobs"]
        assert node.branch == branch
        assert node.logprob is not None
        assert abs(node.logprob - sum(entry[0] for entry in entries)) < 1e-9
        assert node.completion_tokens is not None and node.completion_tokens >= len(entries)
        assert node.seconds is not None and node.seconds > 0
        assert node.prompt_tokens is not None and node.prompt_tokens > 16
        matcher = Matcher(compiler.compile(Regex("(10|20)-zz[0-9]")), max_tokens=12)
        forced = 0
        for _, token, _ in entries:
            forced += matcher.num_allowed == 1
            matcher.accept_token(token)
        assert node.forced_tokens == forced
    good = next(node for node in nodes if node.name == "good")
    assert good.probability is not None and good.probability >= 0.5
    assert good.cached_tokens is not None
    assert "forced" in str(state.explain()) or all(node.forced_tokens == 0 for node in codes)


def test_what_was_written_by_a_cancel_is_told_without_a_stream(tiny_llama_path: Path) -> None:
    states: list[ProgramState] = []

    @function
    def long(s: ProgramState) -> None:
        states.append(s)
        s += "Dear reader," + gen("a", 400, ignore_eos=True)

    with Runtime(tiny_llama_path) as runtime:
        thread = threading.Thread(target=partial(long.run, backend=runtime, temperature=0.0))
        thread.start()
        await_that(lambda: runtime.step_stats.num_steps > 20)
        states[0].cancel()
        thread.join()
        await_that(lambda: states[0].explain().nodes[-1].text != "")
        node = states[0].explain().nodes[-1]
        assert node.status == "cancelled"
        assert long.run(backend=runtime, temperature=0.0)["a"].startswith(node.text)
