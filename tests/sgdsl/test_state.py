"""What a body may do with its state, and what it reads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sgdsl as sgl
from sgdsl import MockBackend, ProgramState, gen
from sgdsl.forks import StateForks
from tests.sgdsl.naive import TEMPLATE

Body = Callable[[ProgramState], Any]


def run(body: Body, backend: MockBackend | None = None, **options: Any) -> ProgramState:
    return sgl.function(body).run(backend=backend or MockBackend(), **options)


def test_reading_a_variable_gives_its_text_or_its_type() -> None:
    backend = MockBackend({"a": "Paris", "n": "42"})

    def body(s: ProgramState) -> None:
        s += "Q: " + gen("a") + " " + gen("n", type=int)
        assert s["a"] == s.get_var("a") == "Paris"
        assert s["n"] == 42
        s.set_var("m", s["n"] + 1)
        s["k"] = [1]

    state = run(body, backend)
    assert state.text() == "Q: Paris 42"
    assert (state["m"], state["k"]) == (43, [1])


def test_in_tells_what_will_be_defined_without_waiting() -> None:
    def body(s: ProgramState) -> None:
        assert "a" not in s
        s += gen("a")
        s["b"] = 1
        assert "a" in s
        assert "b" in s
        assert "c" not in s

    state = run(body)
    assert "a" in state
    assert "c" not in state


def test_unnamed_gens_are_read_by_position() -> None:
    def body(s: ProgramState) -> None:
        s += gen() + gen("named") + gen()
        assert s[1] == "two"

    state = run(body, MockBackend({"": ["one", "two"]}))
    assert (state[0], state[1], state["named"]) == ("one", "two", "mock")
    with pytest.raises(sgl.UsageError, match="variable 2 was read"):
        state[2]


def test_a_variable_that_does_not_exist_is_refused_at_once() -> None:
    def body(s: ProgramState) -> None:
        s += gen("a")
        with pytest.raises(sgl.UsageError, match=r"'b' was read, but this branch defines only"):
            s["b"]
        with pytest.raises(sgl.UsageError, match=r"ref b at .*no variable 'b' on this branch"):
            s.__iadd__(s.ref("b"))

    with pytest.raises(sgl.UsageError, match=r"'b' was read, but .*\['a'\]"):
        run(body)["b"]


def test_ref_puts_text_in_without_a_break() -> None:
    def body(s: ProgramState) -> None:
        s += gen("n", type=int) + "; again: " + s.ref("n")

    assert run(body, MockBackend({"n": "7"})).text() == "7; again: 7"


def test_roles_as_blocks_and_as_expressions_make_the_same_messages() -> None:
    def blocks(s: ProgramState) -> None:
        with s.user():
            s += "hi"
        with s.assistant():
            s += gen("a")

    def expressions(s: ProgramState) -> None:
        s += sgl.user("hi")
        s += sgl.assistant(gen("a"))

    def markers(s: ProgramState) -> None:
        s += sgl.user_begin() + "hi" + sgl.user_end()
        s += sgl.assistant_begin() + gen("a") + sgl.assistant_end()

    def methods(s: ProgramState) -> None:
        s += s.user("hi")
        s.assistant(gen("a"))

    for body in (blocks, expressions, markers, methods):
        state = run(body, MockBackend(chat_template=TEMPLATE))
        assert state.text() == "<system>Be good.</><user>hi</><assistant>mock</>"
        assert state.messages() == [
            {"role": "system", "content": "Be good."},
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": "mock"},
        ]


def test_a_system_message_of_the_program_replaces_the_templates() -> None:
    def body(s: ProgramState) -> None:
        s += s.system("Be brief.")
        s += sgl.user()

    state = run(body, MockBackend(chat_template=TEMPLATE))
    assert state.text() == "<system>Be brief.</><user></>"


def test_an_appended_message_cannot_be_appended_again_or_joined() -> None:
    def body(s: ProgramState) -> None:
        message = s.user("hi")
        with pytest.raises(sgl.UsageError, match=r"s.user\(...\) has been appended"):
            message + "more"
        with pytest.raises(sgl.UsageError, match="has been appended"):
            "before" + message
        s += message
        with pytest.raises(sgl.UsageError, match="has been appended"):
            s += message
        with pytest.raises(sgl.UsageError, match=r"s.user\(\) opens a block; write `with s.user"):
            s += s.user()

    assert len(run(body).messages()) == 1


def test_open_and_closed_roles_and_scopes_are_checked_where_they_are_written() -> None:
    def body(s: ProgramState) -> None:
        with (
            s.user(),
            pytest.raises(sgl.UsageError, match=r"test_state.py:\d+: role 'user' is still open"),
        ):
            s += sgl.assistant("nested")
        with pytest.raises(sgl.UsageError, match="closes role 'user', but nothing is open"):
            s += sgl.user_end()

    run(body)


def test_var_scope_binds_all_text_inside() -> None:
    def body(s: ProgramState) -> None:
        with s.var_scope("all"):
            s += "a" + gen("x")
            with pytest.raises(sgl.UsageError, match="'all' was read"):
                s["all"]
        assert s["all"] == "amock"

    run(body)


def test_forks_copy_and_gather() -> None:
    def body(s: ProgramState) -> None:
        s += "start " + gen("before")
        forks = s.fork(3)
        assert len(forks) == 3
        forks += lambda i: f" {i}"
        forks += ["a", gen("x"), "c"]
        forks[2] += gen("x")
        for fork in forks:
            fork["mine"] = fork["before"]
        assert forks[1].text() == "start mock 1mock"
        forks.join()
        assert s["x"] == [None, "mock", "mock"]

    state = run(body)
    assert state["mine"] == ["mock"] * 3
    assert state.text() == "start mock"
    with pytest.raises(sgl.UsageError, match="'x' has no meta info"):
        state.get_meta_info("x")


def test_join_can_append_the_new_text_in_order() -> None:
    def body(s: ProgramState) -> None:
        s += "start"
        forks = s.fork(2)
        forks += lambda i: f" {i}" + gen("x")
        forks.join("concate_and_append")
        s += "."

    state = run(body)
    assert state.text() == "start 0mock 1mock."
    assert "x" not in state


def test_join_can_append_the_new_messages_in_order() -> None:
    def body(s: ProgramState) -> None:
        s += sgl.user("hi")
        forks = s.fork(2)
        forks += lambda i: sgl.assistant(f"{i}" + gen("x"))
        with forks[0].copy() as inner:  # its messages are not gathered
            inner.append(sgl.user("unheard"))
        deeper = forks[1].fork(1)
        deeper += sgl.user("deeper")
        deeper.join("concate_and_append")
        forks.join("concate_and_append")
        s += sgl.user("bye")

    state = run(body, MockBackend(chat_template=TEMPLATE))
    messages = state.messages()
    assert [(message["role"], message["content"]) for message in messages] == [
        ("system", "Be good."),
        ("user", "hi"),
        ("assistant", "0mock"),
        ("assistant", "1mock"),
        ("user", "deeper"),
        ("user", "bye"),
    ]
    said = [f"<{message['role']}>{message['content']}</>" for message in messages]
    assert state.text() == "".join(said)


def test_forks_inside_of_a_message_add_to_it() -> None:
    def body(s: ProgramState) -> None:
        with s.assistant():
            forks = s.fork(2)
            forks += lambda i: f"{i}"
            forks.join("concate_and_append")

    assert run(body).messages() == [{"role": "assistant", "content": "01"}]


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (
            lambda s, fork: (s.append(sgl.user_begin()), fork().append(sgl.user_end())),
            "fork b1 has closed the role 'user', which was open at the fork",
        ),
        (
            lambda s, fork: (
                s.append(sgl.user_begin()),
                fork().append(sgl.user_end() + sgl.user_begin()),
            ),
            "fork b1 has closed the role 'user'",
        ),
        (
            lambda s, fork: fork().append(sgl.assistant_begin()),
            "role 'assistant' of fork b1 is still open",
        ),
        (
            lambda s, fork: (fork().append(sgl.user("hi")), s.append(sgl.assistant_begin())),
            "fork b1 has messages of its own, but role 'assistant' is open here",
        ),
    ],
)
def test_a_join_that_would_put_template_text_into_a_message_is_refused(
    write: Callable[[ProgramState, Callable[[], ProgramState]], object], message: str
) -> None:
    def body(s: ProgramState) -> None:
        made: list[StateForks[ProgramState]] = []

        def fork() -> ProgramState:
            made.append(s.fork(1))
            return made[0][0]

        write(s, fork)
        with pytest.raises(sgl.UsageError, match=rf"test_state.py:\d+: {message}"):
            made[0].join("concate_and_append")
        made[0].join()

    run(body)


def test_what_cannot_stand_there_leaves_nothing_behind() -> None:
    def body(s: ProgramState) -> None:
        with pytest.raises(sgl.UsageError, match="no variable 'nope'"):
            s += "PARTIAL" + gen("x") + gen() + sgl.user_begin() + s.ref("nope")
        assert "x" not in s
        with pytest.raises(sgl.UsageError, match="variable 0 was read"):
            s[0]
        fork = s.fork(1)
        with pytest.raises(sgl.UsageError, match="role 'user' is still open"):
            fork[0] += sgl.user("a" + sgl.assistant("b"))
        fork.join("concate_and_append")
        s += sgl.assistant("whole")

    assert run(body).text() == "ASSISTANT:whole\n"


LONE = "caf\udce9"


@pytest.mark.parametrize(
    "use",
    [
        lambda s: s.append(LONE),
        lambda s: s.append("a" + gen("x") + LONE),
        lambda s: s.append(sgl.user(LONE)),
        lambda s: sgl.select("x", ["a", LONE]),
        lambda s: gen("x", choices=[LONE]),
        lambda s: gen("x", stop=LONE),
        lambda s: gen("x", stop=["a", LONE]),
    ],
)
def test_a_lone_surrogate_is_refused_where_it_is_written(use: Body) -> None:
    def body(s: ProgramState) -> None:
        with pytest.raises(sgl.UsageError, match="a lone surrogate is no text") as caught:
            use(s)
        assert str(caught.value).isascii()

    assert run(body).text() == ""
    with pytest.raises(sgl.UsageError, match="a lone surrogate is no text"):
        run(body, stop=LONE)


def test_a_value_may_have_a_lone_surrogate_unless_it_becomes_text() -> None:
    def body(s: ProgramState) -> None:
        s["path"] = LONE
        s["again"] = s["path"]

    assert run(body)["again"] == LONE

    def refers(s: ProgramState) -> None:
        s["path"] = LONE
        s += s.ref("path")

    error = run(refers).error()
    assert isinstance(error, sgl.ProgramError)
    assert "ref('path'): 'caf\\udce9' has a lone surrogate" in str(error)
    assert error.node == "%1 ref path"


def test_a_copy_is_a_fork_of_its_own() -> None:
    def body(s: ProgramState) -> None:
        s += "a"
        with s.copy() as c:
            c.append("b" + gen("x"))
        assert s.text() == "a"

    assert run(body)["x"] == ["mock"]


def test_forks_that_are_never_joined_stay_readable() -> None:
    def body(s: ProgramState) -> list[ProgramState]:
        s += "a"
        forks = s.fork(2)
        forks += lambda i: f"{i}" + gen("x")
        deeper = forks[0].fork(1)
        deeper += "!" + gen("y")
        return [*forks, *deeper]

    state = run(body)
    assert [fork.text() for fork in state.ret_value] == ["a0mock", "a1mock", "a0mock!mock"]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda s: s.fork(0), r"fork\(0\): the number of forks"),
        (lambda s: s.fork(True), r"fork\(True\)"),
        (lambda s: s.fork(2).join("zip"), "mode 'zip' is not allowed"),
        (lambda s: s.fork(2).__iadd__(["a"]), "a list of 1 for 2 forks"),
        (lambda s: s.fork(2).__iadd__(5), "forks \\+= 5 is not allowed"),
        (lambda s: s.fork(2).__setitem__(0, s), r"forks\[0\] cannot be replaced"),
        (lambda s: s.__iadd__(5), "5 is no text"),
        (lambda s: s.var_scope(""), "name='' is not allowed"),
        (lambda s: s.__setitem__(5, 1), "name=5 is not allowed"),
        (lambda s: [*s], "a state cannot be iterated over"),
    ],
)
def test_misuse_is_refused_at_once(use: Body, message: str) -> None:
    with pytest.raises(sgl.UsageError, match=message):
        run(use)


def test_a_fork_cannot_be_used_after_its_join() -> None:
    def body(s: ProgramState) -> None:
        forks = s.fork(2)
        forks.join()
        with pytest.raises(sgl.UsageError, match=r"this fork has been joined"):
            forks[0] += "late"
        with pytest.raises(sgl.UsageError, match=r"fork b1 has been joined already"):
            forks.join()

    run(body)


def test_a_fork_with_an_open_scope_cannot_be_joined() -> None:
    def body(s: ProgramState) -> None:
        forks = s.fork(1)
        message = "scope 'x' of fork b1 is still open"
        with forks[0].var_scope("x"), pytest.raises(sgl.UsageError, match=message):
            forks.join()

    run(body)


def test_nothing_can_be_appended_after_the_body_returned() -> None:
    state = run(lambda s: s.append("a"))
    with pytest.raises(sgl.UsageError, match="the program has returned"):
        state += "late"
    with pytest.raises(sgl.UsageError, match="the program has returned"):
        state["x"] = 1
    with pytest.raises(sgl.UsageError, match="the program has returned"):
        state.fork(2)


def test_a_read_after_a_failure_says_what_where_and_why() -> None:
    cause = OSError("out of tokens")

    def body(s: ProgramState) -> None:
        s += "a" + gen("ok")
        s += gen("bad", max_tokens=5)
        s += "more" + gen("later")

    state = run(body, MockBackend({"bad": cause}))
    assert state.outcome is not None
    assert state.outcome.status == "failed"
    assert state["ok"] == "mock", "what was finished can be read"
    for read in (lambda: state["later"], state.text, state.messages):
        with pytest.raises(sgl.ProgramError) as caught:
            read()
        error = caught.value
        assert error.__cause__ is cause
        assert error.node == "%2 gen bad max_tokens=5"
        assert error.source is not None
        assert Path(error.source.split(":")[0]).name == "test_state.py"
        assert "out of tokens" in str(error)
        assert error.source in str(error)
    assert state.error() is error
    state.sync()


def test_the_body_hears_of_a_failure_at_the_next_read_or_append() -> None:
    seen: list[str] = []

    def body(s: ProgramState) -> None:
        s += gen("bad")
        with pytest.raises(sgl.ProgramError, match="no"):
            s["bad"]
        seen.append("read")
        with pytest.raises(sgl.ProgramError, match="no"):
            s += "more"
        seen.append("append")
        with pytest.raises(sgl.ProgramError, match="no"), s.user():
            pass

    state = run(body, MockBackend({"bad": OSError("no")}))
    assert seen == ["read", "append"]
    assert isinstance(state.error(), sgl.ProgramError), "the run has failed all the same"


def test_a_typed_value_that_does_not_parse_fails_its_node() -> None:
    state = run(lambda s: s.append(gen("n", type=int)), MockBackend({"n": "many"}))
    with pytest.raises(sgl.ProgramError, match="gen n") as caught:
        state["n"]
    assert caught.value.node is not None


def test_meta_info_has_the_keys_of_the_contract() -> None:
    def body(s: ProgramState) -> None:
        s += "one two" + gen("x") + sgl.select("y", ["a", "b"])
        assert s.get_meta_info("x")["completion_tokens"] == 1

    state = run(body)
    assert state.get_meta_info("x").keys() >= {
        "id",
        "prompt_tokens",
        "completion_tokens",
        "cached_tokens",
        "finish_reason",
        "e2e_latency",
    }
    assert state.get_meta_info("x")["finish_reason"] == {"type": "stop", "matched": None}
    meta = state.get_meta_info("y")
    assert sum(meta["probabilities"]) == pytest.approx(1)
    assert meta.keys() >= {"normalized_prompt_logprobs", "input_token_logprobs"}


def test_the_body_may_fill_its_forks_from_threads_of_its_own() -> None:
    def body(s: ProgramState) -> None:
        s += "a"
        forks = s.fork(8)

        def fill(fork: ProgramState) -> None:
            for _ in range(20):
                fork += "x" + gen("y")
                assert fork["y"] == "mock"

        threads = [threading.Thread(target=fill, args=(fork,)) for fork in forks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        forks.join()

    assert run(body)["y"] == ["mock"] * 8


def test_the_return_value_is_there_after_the_body() -> None:
    def body(s: ProgramState) -> int:
        with pytest.raises(sgl.UsageError, match="before the body returned"):
            _ = s.ret_value
        return 5

    assert run(body).ret_value == 5
