"""Programs that let a provider write ahead of them: as many values, fewer calls."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

import sgdsl as sgl
from sgdsl import ProgramState, gen
from sgdsl.backends.ahead import Ahead
from tests.sgdsl.providers.fake import Provider, chat, completion


@sgl.function(num_api_spec_tokens=64)
def card(s: ProgramState) -> None:
    s += "Name:" + gen("name", stop="\n")
    s += "\nBirthday:" + gen("birthday", stop="\n")
    s += "\nJob:" + gen("job", stop="\n") + "\n"


@sgl.function(num_api_spec_tokens=64)
def talk(s: ProgramState) -> None:
    s += sgl.user("Who?")
    s += sgl.assistant("Name: " + gen("name", stop="\n") + "\nAge: " + gen("age", type=int))


def run(program: Any, *replies: Any, **options: Any) -> tuple[ProgramState, Provider]:
    provider = Provider(replies)
    with sgl.OpenAI("m", "http://provider.test", transport=provider, max_retries=0) as backend:
        return program.run(backend=backend, **options), provider


def test_one_completion_holds_all_gens() -> None:
    state, provider = run(card, completion(" Ada\nBirthday: 10 Dec\nJob: countess\nName: Bob"))
    assert state.text() == "Name: Ada\nBirthday: 10 Dec\nJob: countess\n"
    assert len(provider.asked) == 1
    body = provider.bodies[0]
    assert body["max_tokens"] == 64
    assert "stop" not in body
    assert state.get_meta_info("job")["speculated"] is True
    assert state.get_meta_info("job")["completion_tokens"] == 0


def test_what_does_not_fit_is_asked_for_from_the_right_place() -> None:
    state, provider = run(
        card, completion(" Ada\nBorn: 10 Dec\nJob: x\n"), completion(" 10 Dec\nJob: countess\n")
    )
    assert state.text() == "Name: Ada\nBirthday: 10 Dec\nJob: countess\n"
    assert [body["prompt"] for body in provider.bodies] == ["Name:", "Name: Ada\nBirthday:"]


def test_what_was_cut_by_the_limit_is_asked_for_again() -> None:
    state, provider = run(
        card, completion(" Ada\nBirthday: 10 D", finish="length"), completion(" 10 Dec\nJob: x\n")
    )
    assert state["birthday"] == " 10 Dec"
    assert len(provider.asked) == 2


def test_an_end_ends_the_gen() -> None:
    state, _ = run(card, completion(" Ada\nBirthday: 10 Dec\nJob: countess"))
    assert state["job"] == " countess"


def test_a_message_that_the_program_begins_is_written_from_its_beginning() -> None:
    state, provider = run(talk, chat("Name: Ada\nAge: 36"))
    assert (state["name"], state["age"]) == ("Ada", 36)
    assert provider.bodies[0]["messages"] == [{"role": "user", "content": "Who?"}]


def test_a_message_that_begins_otherwise_is_tried_some_times_and_then_refused() -> None:
    state, provider = run(talk, *[chat("She is Ada.")] * 3)
    assert len(provider.asked) == 3
    assert len({body["seed"] for body in provider.bodies}) == 3
    assert "has begun with 'Name: ' before the gen" in str(state.error())


def test_a_value_that_violates_its_constraint_is_not_taken() -> None:
    state, _ = run(talk, chat("Name: Ada\nAge: unknown"))
    assert "has begun with 'Name: Ada\\nAge: ' before the gen" in str(state.error())


def test_a_body_that_reads_goes_on_in_what_was_written_ahead() -> None:
    @sgl.function(num_api_spec_tokens=64)
    def reading(s: ProgramState) -> None:
        s += "Name:" + gen("name", stop="\n")
        s += "\n" + s["name"].strip() + " likes" + gen("likes", stop=".")

    state, provider = run(reading, completion(" Ada\nAda likes tea. Bob"))
    assert state["likes"] == " tea"
    assert len(provider.asked) == 1


def test_a_bound_program_keeps_it() -> None:
    @sgl.function(num_api_spec_tokens=64)
    def bound(s: ProgramState, word: str) -> None:
        s += word + gen("a", stop="\n") + "\nb:" + gen("b", stop="\n")

    _, provider = run(bound.bind(word="a:"), completion(" 1\nb: 2\n"))
    assert len(provider.asked) == 1


words = st.text("ab\n ", max_size=6)


@given(st.lists(st.tuples(words, words.map(lambda text: text + "|")), max_size=5), words)
def test_what_is_cut_and_followed_is_the_text(parts: list[tuple[str, str]], rest: str) -> None:
    """Values without the literals' last character, literals that end with it: all is found."""
    ahead = Ahead("".join(value + literal for value, literal in parts) + rest, ended=True)
    for value, literal in parts:
        found = ahead.cut((), literal)
        assert found is not None
        assert value.startswith(found), "a literal may stand earlier than it was written"
        if found != value:
            return
        assert ahead.follow(literal)
    assert ahead.cut((), "") == rest
