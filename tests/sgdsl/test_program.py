"""Programs: their arguments, their runs, and programs inside of programs."""

from __future__ import annotations

import inspect
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import sgdsl as sgl
from sgdsl import STALL, MockBackend, ProgramState, gen
from sgdsl.backends.script import Request
from sgdsl.graph import DEFAULT_SAMPLING, Sampling
from tests.sgdsl.backends import BrokenBackend


@sgl.function
def ask(s: ProgramState, question: str, n: int = 1) -> str:
    """Asks."""
    s += f"{question}*{n}" + gen("answer")
    return question.upper()


def recording(seen: list[Request], reply: str = "mock") -> MockBackend:
    def answer(request: Request) -> str:
        seen.append(request)
        return reply

    return MockBackend(answer)


def test_the_body_runs_once_with_its_real_arguments() -> None:
    table = {"a": "A"}
    calls: list[str] = []

    @sgl.function
    def body(s: ProgramState, key: str) -> None:
        calls.append(key)
        s += table[key] + gen("x")

    assert body.run("a", backend=MockBackend()).text() == "Amock"
    body.run_batch([("a",), {"key": "a"}], backend=MockBackend())
    assert calls == ["a"] * 3


def test_decorated_bare_with_arguments_or_called() -> None:
    @sgl.function()
    def with_parentheses(s: ProgramState) -> None:
        s += "a"

    assert with_parentheses(backend=MockBackend()).text() == "a"
    assert ask.__name__ == "ask"
    assert ask.__doc__ == "Asks."
    assert repr(ask) == "<program ask(question, n)>"
    assert ask.run("q", backend=MockBackend()).ret_value == "Q"


def test_what_is_no_body_is_refused_by_the_decorator() -> None:
    async def stream(s: ProgramState) -> AsyncIterator[int]:
        yield 1

    def generator(s: ProgramState) -> Iterator[int]:
        yield 1

    def stateless() -> None: ...

    def keywords(*, s: ProgramState) -> None: ...

    refused: list[tuple[Any, str]] = [
        (stream, "a body with yield"),
        (generator, "a body with yield"),
        (stateless, "the first parameter of a program is its state"),
        (keywords, "the first parameter of a program is its state"),
        (ask, "a plain Python function"),
    ]
    for body, message in refused:
        with pytest.raises(sgl.UsageError, match=message):
            sgl.function(body)
    with pytest.raises(sgl.UsageError, match="num_api_spec_tokens=0 is not allowed"):
        sgl.function(num_api_spec_tokens=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (ask.run, "missing a required argument: 'question'.*arguments are .question, n"),
        (lambda: ask.run("a", 1, 2), "too many positional arguments"),
        (lambda: ask.run("a", answer=1), "unexpected keyword argument 'answer'"),
        (lambda: ask.run("a", question="b"), "multiple values for argument 'question'"),
        (lambda: ask.run("a", n=0), "n=0 is not allowed"),
        (lambda: ask.run("a", temperature=-1), "run: temperature=-1 is not allowed"),
        (lambda: ask.run("a", max_new_tokens=-1), "max_new_tokens=-1 is not allowed"),
        (lambda: ask.run("a", stop_regex="b("), "stop_regex='b.' is refused"),
        (lambda: ask.run("a", seed="b"), "seed='b' is not allowed"),  # type: ignore[arg-type]
        (lambda: ask.run("a", backend="b"), "backend='b' is not allowed"),  # type: ignore[arg-type]
        (lambda: ask.bind(answer=1), r"ask.bind: no arguments \['answer'\]"),
        (lambda: ask.bind(question="a").run(question="b"), "were bound with bind"),
        (lambda: ask.trace(answer=1), r"ask.trace: no arguments \['answer'\]"),
        (lambda: ask.trace("a", 1, 2), r"trace: too many positional.*arguments are .question, n"),
        (lambda: ask.trace("a", question="b"), "trace: multiple values for argument 'question'"),
        (lambda: ask.trace("a", 1, n=2), r"multiple values for argument 'n'; .*question, n\)$"),
        (lambda: ask.run(args=["a"]), r"run: args=\['a'\] is not allowed; args is a dict"),  # type: ignore[arg-type]
    ],
)
def test_wrong_arguments_are_refused_at_the_call(call: Callable[[], object], message: str) -> None:
    with pytest.raises(sgl.UsageError, match=message):
        call()


def test_arguments_named_like_those_of_run_go_by_position_or_in_args() -> None:
    @sgl.function
    def body(s: ProgramState, stop: str, n: int) -> None:
        s += f"{stop} {n}"

    backend = MockBackend()
    assert body.run("a", 2, backend=backend).text() == "a 2"
    assert body.run(args={"stop": "a", "n": 2}, backend=backend).text() == "a 2"
    assert body.run_batch([{"stop": "a", "n": 2}], backend=backend)[0].text() == "a 2"
    with pytest.raises(sgl.UsageError, match=r"args=\{'n': ...\}"):
        body.run("a", backend=backend)
    with pytest.raises(sgl.UsageError, match=r"\['question'\] were given twice"):
        ask.run(question="a", args={"question": "b"}, backend=backend)


def test_bound_arguments_stay() -> None:
    bound = ask.bind(n=7)
    assert bound.run("q", backend=MockBackend()).text() == "q*7mock"
    assert bound.bind(question="z")(backend=MockBackend()).text() == "z*7mock"
    assert ask.run("q", backend=MockBackend()).text() == "q*1mock"


def test_sampling_arguments_of_a_run_are_its_gens_defaults() -> None:
    seen: list[Request] = []
    ask.run("q", backend=recording(seen))
    assert seen[0].sampling == DEFAULT_SAMPLING
    assert DEFAULT_SAMPLING == Sampling(
        max_tokens=128,
        min_tokens=0,
        n=1,
        stop=(),
        stop_token_ids=(),
        stop_regex=(),
        temperature=1.0,
        top_p=1.0,
        top_k=-1,
        min_p=0.0,
        frequency_penalty=0.0,
        presence_penalty=0.0,
        ignore_eos=False,
        return_logprob=False,
        top_logprobs_num=0,
        return_text_in_logprobs=False,
        healing=True,
    )
    ask.run("q", max_new_tokens=5, temperature=0, stop="\n", backend=recording(seen))
    asked = Sampling(max_tokens=5, temperature=0.0, stop=("\n",))
    assert seen[1].sampling == asked.over(DEFAULT_SAMPLING)


def test_without_a_backend_the_error_says_what_to_do() -> None:
    assert sgl.get_default_backend() is None
    with pytest.raises(sgl.UsageError, match=r"pass backend=..., or set one.*set_default_backend"):
        ask.run("q")


def test_the_default_backend_serves_runs_that_name_none() -> None:
    first, second = MockBackend(default="1"), MockBackend(default="2")
    sgl.set_default_backend(first)
    try:
        assert ask.run("q")["answer"] == "1"
        assert ask.run("q", backend=second)["answer"] == "2"
        assert sgl.flush_cache() is None
    finally:
        sgl.set_default_backend(None)
    with pytest.raises(sgl.UsageError, match="a backend has a method `submit`"):
        sgl.set_default_backend("gpt")  # type: ignore[arg-type]


def test_a_program_called_with_a_state_becomes_part_of_its_run() -> None:
    @sgl.function
    def outer(s: ProgramState) -> str:
        s += "outer "
        value: str = ask(s, "inner", n=3)
        s += " " + s["answer"]
        return value

    state = outer.run(backend=MockBackend())
    assert state.text() == "outer inner*3mock mock"
    assert state.ret_value == "INNER"


def test_nested_runs_inherit_backend_and_sampling_and_a_seed() -> None:
    seen: list[Request] = []
    backend = recording(seen)

    @sgl.function
    def outer(s: ProgramState) -> list[str]:
        s += gen("x")
        inner = ask.run("q", stop="!")
        rows = ask.run_batch([("r",), ("t",)])
        return [state["answer"] for state in [inner, *rows]]

    for _ in range(2):
        state = outer.run(backend=backend, temperature=0.0, seed=3)
        assert state.ret_value == ["mock"] * 3
    first, second = seen[:4], seen[4:]
    assert all(request.sampling.temperature == 0.0 for request in seen)
    assert {request.sampling.stop for request in first} == {(), ("!",)}
    assert len({request.seed for request in first}) == 4
    by_prompt = {request.prompt: request.seed for request in first}
    assert by_prompt == {request.prompt: request.seed for request in second}


def test_the_same_seed_is_the_same_seed_and_none_is_a_new_one() -> None:
    seen: list[Request] = []
    for seed in (5, 5, None, None):
        ask.run("q", seed=seed, backend=recording(seen))
    assert seen[0].seed == seen[1].seed == 5
    assert len({request.seed for request in seen}) == 3


def test_run_raises_what_the_body_raises_after_ending_its_run() -> None:
    states: list[ProgramState] = []

    @sgl.function
    def bad(s: ProgramState) -> None:
        states.append(s)
        s += gen("a")
        assert s["a"] == "mock"
        s += gen("stalls")
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost"):
        bad.run(backend=MockBackend({"stalls": STALL}))
    error = states[0].error()
    assert isinstance(error, sgl.ProgramError)
    assert isinstance(error.__cause__, KeyError)
    code = inspect.unwrap(bad).__code__
    assert error.source == f"{code.co_filename}:{code.co_firstlineno + 6}"
    assert str(error) == f"at {error.source}: KeyError: 'lost'"


def test_a_run_that_fails_in_the_backend_returns_its_state() -> None:
    state = ask.run("q", backend=MockBackend({"answer": OSError("down")}))
    assert state.outcome is not None
    assert state.outcome.status == "failed"
    assert state.ret_value == "Q"


def test_a_run_that_was_cut_off_says_so() -> None:
    cut = sgl.Completion("part", truncated=True)
    state = ask.run("q", backend=MockBackend({"answer": cut}))
    assert state.outcome == sgl.Outcome("truncated")
    assert state["answer"] == "part"
    assert state.get_meta_info("answer")["finish_reason"]["type"] == "length"


def test_a_backend_whose_methods_raise_fails_the_run() -> None:
    state = ask.run("q", backend=BrokenBackend())
    error = state.error()
    assert isinstance(error, sgl.ProgramError)
    assert "no route to the model" in str(error)


@pytest.mark.parametrize("reads", [False, True])
def test_ctrl_c_cancels_a_run_that_stands_still(reads: bool) -> None:
    @sgl.function
    def body(s: ProgramState) -> None:
        s += gen("x")
        signal_soon()
        if reads:
            s["x"]

    def signal_soon() -> None:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()

    with pytest.raises(KeyboardInterrupt):
        body.run(backend=MockBackend({"x": STALL}))


def test_an_empty_body_is_a_run_too() -> None:
    @sgl.function
    def empty(s: ProgramState) -> None:
        assert s.text() == ""

    assert empty.run(backend=MockBackend()).outcome == sgl.Outcome("ok")
