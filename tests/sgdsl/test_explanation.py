"""`state.explain()`: a run as a tree, finished, failed or under way."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings, strategies as st

import sgdsl as sgl
from sgdsl import STALL, Completion, MockBackend, ProgramState, function, gen, select
from sgdsl.backends.script import Request
from tests.sgdsl.backends import ShuffledBackend
from tests.sgdsl.naive import TEMPLATE, Step, perform, programs, reply
from tests.sgdsl.providers.fake import Chunks, Provider, chat_events, sse
from tests.sgdsl.test_views import HTML_TAGS, Page


@function
def judged(s: ProgramState, question: str) -> None:
    s += sgl.user(question)
    with s.assistant():
        s += gen("answer", regex="[a-z ]+")
    forks = s.fork(2)
    forks += "\nGood? " + gen("why") + select("good", ["yes", "no"])
    forks.join()


def logprobs(text: str, *values: float) -> Completion:
    tokens = [(value, index, None) for index, value in enumerate(values)]
    return Completion(
        text,
        meta={
            "output_token_logprobs": tokens,
            "prompt_tokens": 9,
            "cached_tokens": 4,
            "completion_tokens": len(values),
            "forced_tokens": 1,
            "e2e_latency": 0.25,
        },
    )


REPLIES: dict[str, Any] = {
    "answer": logprobs("it is", -0.5, -0.25),
    "why": [logprobs("so", -1.0), Completion("and", meta={"e2e_latency": 2.0}, truncated=True)],
}


def test_a_finished_run_is_explained_node_by_node() -> None:
    state = judged.run("Hm?", backend=MockBackend(REPLIES))
    explanation = state.explain()
    assert explanation.outcome is state.outcome
    assert explanation.failed is None
    answer = next(node for node in explanation.nodes if node.name == "answer")
    assert (answer.kind, answer.text, answer.status, answer.branch) == ("gen", "it is", "ok", 0)
    assert (answer.prompt_tokens, answer.cached_tokens, answer.completion_tokens) == (9, 4, 2)
    assert (answer.forced_tokens, answer.logprob, answer.seconds) == (1, -0.75, 0.25)
    assert answer.constraint == "Regex(pattern='[a-z ]+')"
    assert answer.finish_reason == {"type": "stop", "matched": None}
    assert answer.source is not None and "test_explanation.py:" in answer.source
    good = [node for node in explanation.nodes if node.name == "good"]
    assert [(node.branch, node.text, node.logprob) for node in good] == [
        (1, "yes", -1.0),
        (2, "yes", -1.0),
    ]
    assert [node.probability for node in good] == [pytest.approx(0.731, abs=1e-3)] * 2
    why = [node for node in explanation.nodes if node.name == "why"]
    assert [node.status for node in why] == ["ok", "truncated"]
    assert (why[0].forced_tokens, why[1].forced_tokens, why[1].logprob) == (1, None, None)


def test_its_printed_form_is_a_tree() -> None:
    state = judged.run("Hm?", backend=MockBackend(REPLIES))
    assert (
        str(state.explain())
        == """\
truncated; 14 nodes; prompts 22, cached 8, written 4 tokens
├─ role    user
│  └─ text    'Hm?'
├─ role    assistant
│  └─ gen     answer 'it is'  [2 tokens; 1 forced; prompt 9, cached 4; logprob -0.750; \
0.250 s; regex='[a-z ]+']
├─ fork    into 2
│  ├─ b1
│  │  ├─ text    '\\nGood? '
│  │  ├─ gen     why 'so'  [1 token; 1 forced; prompt 9, cached 4; logprob -1.000; 0.250 s]
│  │  └─ select  good 'yes'  [logprob -1.000; p 0.731]
│  └─ b2
│     ├─ text    '\\nGood? '
│     ├─ gen     truncated: why 'and'  [1 token; prompt 4, cached 0; 2.000 s]
│     └─ select  good 'yes'  [logprob -1.000; p 0.731]
└─ join    gather_variable"""
    )
    assert repr(state.explain()).startswith("<explanation of truncated; 14 nodes; ")


def test_a_failure_stands_at_its_node_and_the_others_were_cancelled() -> None:
    replies: dict[str, Any] = {"answer": "a", "why": [STALL, ValueError("no <b>\x1b[3m")]}
    state = judged.run("Hm?", backend=MockBackend(replies))
    explanation = state.explain()
    failed = explanation.failed
    assert failed is not None
    assert (failed.name, failed.branch, failed.error) == ("why", 2, "ValueError: no <b>\x1b[3m")
    assert [node.status for node in explanation.nodes if node.name == "why"] == [
        "cancelled",
        "failed",
    ]
    lines = str(explanation).splitlines()
    assert lines[0].startswith("failed; 11 nodes; ")
    assert lines[-1] == "      └─ gen     failed: why ''  ValueError: no <b>\\x1b[3m"
    assert all(line.isprintable() for line in lines)
    page = Page(explanation._repr_html_())
    assert page.tags <= HTML_TAGS
    assert "failed why ''" in page.text
    assert "ValueError: no <b>\\x1b[3m" in page.text


def test_a_body_that_raises_is_told_in_the_head() -> None:
    @function
    def body(s: ProgramState) -> None:
        s += "a" + gen("x")
        s.sync()
        raise KeyError("x")

    states = body.run_batch([()], backend=MockBackend())
    explanation = states[0].explain()
    assert explanation.failed is None
    assert [node.status for node in explanation.nodes] == ["ok", "ok"]
    assert "KeyError: 'x'" in str(explanation).splitlines()[0]


def test_a_run_under_way_shows_what_is_there_and_what_waits() -> None:
    @function
    def body(s: ProgramState) -> list[str]:
        s += "a" + gen("x") + "b"
        before = s.explain()
        return [f"{node.kind} {node.status}" for node in before.nodes]

    backend = MockBackend({"x": "one two"}, stepwise=True)
    backend.pause()
    state = body.run(backend=backend, stream=True)
    explanation = state.explain()
    assert explanation.outcome is None
    assert str(explanation).startswith("running; ")
    assert explanation._repr_html_()
    backend.resume()
    statuses = state.ret_value
    assert statuses[0] in ("text waiting", "text ok")
    assert statuses[-1] in ("text waiting", "text ok")
    assert {node.status for node in state.explain().nodes} == {"ok"}
    backend.close()


def test_a_node_that_writes_shows_what_it_has_written() -> None:
    @function
    def body(s: ProgramState) -> None:
        s += "a" + gen("x") + "b"

    backend = MockBackend({"x": "one two three"}, stepwise=True)
    state = body.run(backend=backend, stream=True)
    chunks = state.text_iter()
    seen = []
    for _ in chunks:
        backend.pause()
        seen += [(n.status, n.text) for n in state.explain().nodes if n.name == "x"]
        backend.resume()
    assert all("one two three".startswith(text) for _, text in seen)
    assert state.explain().nodes[1].text == "one two three"
    backend.close()


def test_a_trace_explains_nothing() -> None:
    @function
    def body(s: ProgramState) -> None:
        s.explain()

    with pytest.raises(sgl.TraceError, match="a trace has run nothing; draw its graph"):
        body.trace()


@given(programs(), st.integers())
@settings(max_examples=60, deadline=None)
def test_the_nodes_texts_make_the_text(steps: tuple[Step, ...], order: int) -> None:
    @function
    def body(s: ProgramState) -> None:
        perform(s, steps, [])

    state = body.run(backend=ShuffledBackend(order))
    explanation = state.explain()
    texts = [node.text for node in explanation.nodes if node.branch == 0]
    assert "".join(texts) == state.text()
    assert {node.status for node in explanation.nodes} <= {"ok"}
    places = {(node.branch, node.id) for node in explanation.nodes}
    assert len(places) == len(explanation.nodes)
    assert len(str(explanation).splitlines()) > 0
    Page(explanation._repr_html_())


@given(programs(), st.integers(0, 5), st.sampled_from(["raise", "stall", "garbage"]))
@settings(max_examples=60, deadline=None)
def test_a_run_that_fails_anywhere_can_be_explained(
    steps: tuple[Step, ...], at: int, how: str
) -> None:
    count = iter(range(10_000))

    def flaky(request: Request) -> Any:
        if next(count) != at:
            return reply(request)
        return {"raise": OSError("gone"), "stall": STALL, "garbage": 3}[how]

    @function
    def body(s: ProgramState) -> None:
        perform(s, steps, [])

    backend = MockBackend(flaky, chat_template=TEMPLATE, stepwise=True)
    if how == "stall":
        state = body.run(backend=backend, stream=True)
        for _ in range(3):
            str(state.explain())
        backend.die("it died")
        state.sync()
    else:
        (state,) = body.run_batch([()], backend=backend)
    explanation = state.explain()
    if how != "stall" and state.error() is not None:
        assert explanation.failed is not None
        assert explanation.failed.kind == "gen"
    assert state.outcome is not None
    assert str(explanation).startswith(state.outcome.status)
    Page(explanation._repr_html_())
    backend.close()


def test_a_pending_row_stays_small() -> None:
    @function
    def one(s: ProgramState, question: str) -> None:
        s += "Q: " + question + "\nA:" + gen("answer", 16, stop="\n") + gen("more")

    backend = MockBackend({"answer": STALL}, max_in_flight=2000)
    one.run("warm", backend=MockBackend())
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    states = [one.run(f"{i}", backend=backend, stream=True) for i in range(200)]
    for state in states:
        while not state.explain().nodes:
            pass
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (after - before) / len(states) < 20_000
    backend.close()
    assert random.choice(states).error() is not None


def test_several_outputs_stand_below_what_collects_them() -> None:
    @function
    def body(s: ProgramState) -> None:
        s += "a" + sgl.separate_reasoning(gen("x", n=2), "qwen3")
        s.check(lambda values: values[0] == "3")

    replies = ["1", "2", "<think>Hm.</think>3", "4"]
    state = body.run(backend=MockBackend({"x": replies}))
    assert (state["x"], state["x_reasoning_content"]) == (["3", "4"], ["Hm.", ""])
    assert state.text() == "a<think>Hm.</think>3"
    explanation = state.explain()
    assert [(node.kind, node.text) for node in explanation.nodes if node.name == "x"] == [
        ("collect", "<think>Hm.</think>3"),
        ("gen", "<think>Hm.</think>3"),
        ("gen", "4"),
    ]
    lines = [line.split("  [")[0] for line in str(explanation).splitlines()]
    assert lines[1:] == [
        "├─ text    'a'",
        "└─ collect x '<think>Hm.</think>3'",
        "   ├─ output 1",
        "   │  └─ gen     x '<think>Hm.</think>3'",
        "   └─ output 2",
        "      └─ gen     x '4'",
    ]
    assert "written 2 tokens" in lines[0]


def test_what_was_written_again_is_told_once() -> None:
    @function
    def body(s: ProgramState) -> None:
        s += "a" + gen("x") + "b"
        s.check(lambda value: value == "3")
        s += "c"

    state = body.run(backend=MockBackend({"x": ["1", "2", "3"]}))
    texts = [node.text for node in state.explain().nodes if node.kind in ("text", "gen")]
    assert texts == ["a", "3", "b", "c"]


def test_a_fork_s_failure_that_was_collected_is_told_at_its_node() -> None:
    @function
    def forked(s: ProgramState) -> None:
        forks = s.fork(2)
        forks += gen("a")
        forks += gen("b")
        forks.join(on_error="collect")

    state = forked.run(backend=MockBackend({"a": [OSError("down"), "fine"]}))
    explanation = state.explain()
    assert state.outcome == sgl.Outcome("ok")
    assert explanation.failed is None  # the run has not failed
    told = [(node.name, node.status, node.error) for node in explanation.nodes if node.name]
    assert ("a", "failed", "OSError: down") in told
    assert "failed: a ''  OSError: down" in str(explanation)


def test_what_a_cancelled_gen_had_written_is_told() -> None:
    backend = MockBackend({"a": "one two three " * 1000}, stepwise=True)

    @function
    def long(s: ProgramState) -> None:
        s += gen("a")

    state = long.run(backend=backend, stream=True)
    seen = next(state.text_iter())
    state.cancel()
    (node,) = state.explain().nodes
    backend.close()
    assert node.status == "cancelled"
    assert node.text.startswith(seen)


def test_what_a_failed_gen_had_written_is_told() -> None:
    events = b"".join(sse(*chat_events("It was ", "red")[:3], done=False))
    broken = httpx2.Response(200, stream=Chunks([events, httpx2.ReadError("reset")]))

    @function
    def describe(s: ProgramState) -> None:
        s += sgl.user("Which?") + sgl.assistant(gen("a"))

    with sgl.OpenAI("m", "http://p.test", transport=Provider([broken])) as backend:
        state = describe.run(backend=backend, stream=True)
        error = state.error()
    assert isinstance(error, sgl.ProgramError)
    assert error.partial == "It was red"
    node = state.explain().failed
    assert node is not None and node.text == "It was red"
    assert "failed: a 'It was red'" in str(state.explain())


def test_what_a_fork_had_written_that_a_join_collects_is_told() -> None:
    events = b"".join(sse(*chat_events("It was ", "red")[:3], done=False))

    def reply(path: str, body: Any) -> Any:
        bad = body["messages"][-1]["content"] == "1?"
        fault: list[bytes | BaseException] = [events, httpx2.ReadError("reset")]
        return httpx2.Response(200, stream=Chunks(fault)) if bad else sse(*chat_events("fine"))

    @function
    def both(s: ProgramState) -> None:
        forks = s.fork(2)
        forks += lambda i: sgl.user(f"{i}?") + sgl.assistant(gen("a"))
        forks.join(on_error="collect")

    with sgl.OpenAI("m", "http://p.test", transport=Provider(reply=reply)) as backend:
        state = both.run(backend=backend, stream=True)
        state.sync()
    told = {node.status: node.text for node in state.explain().nodes if node.name == "a"}
    assert told == {"ok": "fine", "failed": "It was red"}
