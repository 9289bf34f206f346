"""The wire form: whatever travels arrives as it was, and nothing else arrives."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import fields
from typing import Any, Literal

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import BaseModel

import grammars as g
import sgdsl as sgl
from grammars import accepts
from sgdsl import ProgramState, gen, protocol, select
from sgdsl.chat import CHATML
from sgdsl.graph import DEFAULT_SAMPLING, Assign, Gen, Sampling


class Person(BaseModel):
    name: str
    tags: list[Literal["a", "b"]]


@sgl.function
def program(s: ProgramState, x: str) -> None:
    s += sgl.system("é\u2028" + x) + sgl.user(x)
    with s.assistant(), s.var_scope("said"):
        s += gen("a", 8, stop=["\n", "END"], temperature=0.3, top_k=4, seed=-5)
        s += select("b", ["x", "y"], choices_method=sgl.greedy_token_selection, temperature=0.5)
    s["v"] = {1, 2}
    forks = s.fork(3)
    forks += gen("c", type=Person) + gen(regex="[0-9]+")
    forks.join("concate_and_append")
    s += s.ref("a") + gen("d", grammar='start: "x" start | "y"')


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(value, allow_nan=False))


def test_the_nodes_of_a_program_arrive_as_they_were() -> None:
    nodes = program.trace("q").nodes
    for node in nodes:
        arrived = protocol.decode_node(through_json(protocol.encode_node(node)))
        assert type(arrived) is type(node)
        for field in fields(node):
            there, here = getattr(arrived, field.name), getattr(node, field.name)
            if field.name == "source":
                assert there is None
            elif isinstance(node, Assign) and field.name == "value":
                assert there == node.text
            elif isinstance(node, Gen) and field.name == "typed":
                assert there is False
            elif isinstance(here, g.TypeOf):
                assert there == here.portable()
            else:
                assert there == here


def test_every_kind_of_node_can_be_read() -> None:
    """A field of a new type would meet no decoder: found here, not at a customer's."""
    for name, kind in protocol._NODES.items():
        for field in fields(kind):
            if name in protocol._MADE_BY_MACHINE or field.name in ("source", "typed", "value"):
                continue
            assert field.name == "method" or str(field.type) in protocol._DECODERS, (name, field)


CONSTRAINTS = [
    g.Regex("a|b"),
    g.Choices(["x", "é"]),
    g.JsonSchema({"type": "object"}, whitespace="flexible", resources={"http://x/y": True}),
    g.Cfg('s: "x"', start="s"),
    g.Substring("some text", min_length=2, unit="word"),
    g.Concatenation("```", g.Regex("a+"), g.Alternation("x", g.Regex("y"))),
    g.Repetition(g.Regex("a"), 1, 3, ","),
    g.StructuralTags([g.Tag("<f>", g.Regex("[0-9]"), "</f>")], max_calls=2),
    g.TypeOf(Person, whitespace="single").portable(),
]


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda each: type(each).__name__)
def test_constraints_arrive_as_they_were(constraint: g.Constraint) -> None:
    arrived = protocol.decode_constraint(through_json(protocol.encode_constraint(constraint)))
    assert arrived == constraint
    assert hash(arrived) == hash(constraint)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (Person, '{"name":"x","tags":["a"]}', '{"name":"x","tags":["c"]}'),
        (Literal["a", "b"], "a", '"a"'),
        (int, "5", "5.5"),
    ],
)
def test_a_type_travels_as_its_texts(kind: Any, good: str, bad: str) -> None:
    arrived = protocol.decode_constraint(protocol.encode_constraint(g.TypeOf(kind)))
    assert accepts(arrived, good) and accepts(g.TypeOf(kind), good)
    assert not accepts(arrived, bad) and not accepts(g.TypeOf(kind), bad)


def test_a_constraint_of_the_users_own_stays_here() -> None:
    class Own(g.Regex):
        pass

    with pytest.raises(sgl.UsageError, match="cannot be sent to another machine"):
        protocol.encode_constraint(Own("a"))


samplings = st.builds(
    Sampling,
    max_tokens=st.none() | st.integers(1, 9),
    stop=st.none() | st.just(()) | st.just(("a", "b")),
    stop_token_ids=st.none() | st.just(()) | st.just((1, 2)),
    temperature=st.none() | st.floats(0, 5),
    ignore_eos=st.none() | st.booleans(),
    seed=st.none() | st.integers(-(2**62), 2**62),
)


@given(samplings)
def test_sampling_arrives_as_it_was(sampling: Sampling) -> None:
    sent = through_json(protocol.encode_sampling(sampling))
    assert protocol.decode_sampling(sent) == sampling
    assert protocol.decode_defaults(sent) == sampling.over(DEFAULT_SAMPLING)


def test_errors_arrive_as_their_kind_and_strangers_without_their_words() -> None:
    busy = sgl.ProviderError("h", status=429, retryable=True, retry_after_s=1.5)
    for error in (
        *(sgl.UsageError("a"), sgl.BackendError("b"), g.UnsupportedError("c")),
        *(sgl.OverloadedError("d"), sgl.ContextLengthError("e"), sgl.DeadlineError("f")),
        *(sgl.ProviderError("g", status=500), busy),
    ):
        arrived = protocol.decode_error(through_json(protocol.encode_error(error)))
        assert (type(arrived), str(arrived)) == (type(error), str(error))
        assert vars(arrived) == vars(error)
    newer = {"type": "SomethingLater", "message": "i", "status": 3}
    assert type(protocol.decode_error(newer)) is sgl.BackendError
    stranger = protocol.encode_error(PermissionError("/etc/shadow"))
    assert "shadow" not in str(stranger)
    assert "PermissionError" in str(stranger)


@pytest.mark.parametrize(
    "wrong", [{"status": "x"}, {"retryable": "yes"}, {"retry_after_s": -1}, {"retry_after_s": "1"}]
)
def test_what_is_no_error_of_a_provider_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(sgl.UsageError, match="is no error of a provider"):
        protocol.decode_error({"type": "ProviderError", "message": "m", **wrong})


def test_templates_arrive_as_they_were() -> None:
    assert protocol.decode_template(through_json(protocol.encode_template(CHATML))) == CHATML


data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=30)
@given(data)
def test_numbers_that_json_lacks_arrive(value: Any) -> None:
    assert protocol.decode_numbers(through_json(protocol.encode_numbers(value))) == value


def test_not_a_number_arrives_too() -> None:
    assert math.isnan(protocol.decode_numbers(protocol.encode_numbers(math.nan)))


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["kind", "id", "branch", "text", "name", "sampling", "constraint", "parts"]
            ),
            inner
            | st.sampled_from(["Text", "Gen", "Regex", "Concatenation", "Fork", "JsonSchema"]),
            max_size=6,
        )
    ),
    max_leaves=12,
)


@given(junk)
def test_junk_is_refused_and_never_breaks_the_reader(value: Any) -> None:
    for read in (protocol.decode_node, protocol.decode_constraint, protocol.decode_sampling):
        with suppress(sgl.UsageError, g.GrammarError):
            read(value)
