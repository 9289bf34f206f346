"""Traces: the graph of a program without a model."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import sgdsl as sgl
from sgdsl import ProgramState, gen

TABLE = {"a": 1}


def test_the_printed_graph() -> None:
    @sgl.function
    def tips(s: ProgramState, topic: str, audience: str, n: int = 2) -> None:
        s += sgl.system("Be brief.")
        with s.user():
            s += "Tips about " + topic + f" for {audience}, {n}."
        s += sgl.assistant(gen("tips", max_tokens=64, stop="\n"))
        forks = s.fork(n)
        for i, fork in enumerate(forks):
            with fork.var_scope("detail"):
                fork.append(f"Tip {i}: " + gen("text", regex="[a-z ]+"))
        forks.join()
        s += "In short: " + s["tips"] + s.ref("detail")
        s += sgl.select("ok", ["yes", "no"]) + gen()
        s["done"] = True

    assert str(tips.trace(audience="children")) == (
        "graph tips(topic, audience, n)\n"
        "  %0 role system {\n"
        "  %1 text 'Be brief.'\n"
        "  %2 role } system\n"
        "  %3 role user {\n"
        "  %4 text 'Tips about {topic} for children, 2.'\n"
        "  %5 role } user\n"
        "  %6 role assistant {\n"
        "  %7 gen tips max_tokens=64 stop=('\\n',)\n"
        "  %8 role } assistant\n"
        "  %9 fork -> b1, b2\n"
        "    b1:\n"
        "      %10 scope detail {\n"
        "      %11 text 'Tip 0: '\n"
        "      %12 gen text regex='[a-z ]+'\n"
        "      %13 scope } detail\n"
        "    b2:\n"
        "      %14 scope detail {\n"
        "      %15 text 'Tip 1: '\n"
        "      %16 gen text regex='[a-z ]+'\n"
        "      %17 scope } detail\n"
        "  %18 join gather_variable <- b1, b2\n"
        "  %19 text 'In short: {tips}'\n"
        "  %20 ref detail\n"
        "  %21 select ok ['yes', 'no']\n"
        "  %22 gen _\n"
        "  %23 assign done = True"
    )


def test_every_kind_of_argument_can_be_left_to_the_trace() -> None:
    @sgl.function
    def body(s: ProgramState, a: str, b: str, /, c: str = "C", *d: str, e: str, **f: str) -> None:
        s += "".join([f"{a} {b} {c} {e}", *d, *f])

    assert [str(node) for node in body.trace("A").nodes] == ["%0 text 'A {b} C {e}'"]
    traced = body.trace("A", "B", "see", "D", e="E", g="G")
    assert [str(node) for node in traced.nodes] == ["%0 text 'A B see EDg'"]


def test_nodes_carry_the_users_line() -> None:
    @sgl.function
    def body(s: ProgramState, q: str) -> None:
        s += q
        with s.user():
            s += gen("x")

    first = body.__wrapped__.__code__.co_firstlineno  # type: ignore[attr-defined]
    lines = [node.source.line - first for node in body.trace().nodes if node.source]
    assert lines == [2, 3, 4, 3]
    assert all(node.source and node.source.file == __file__ for node in body.trace().nodes)


def test_arguments_may_be_formatted_joined_and_offered_as_choices() -> None:
    @sgl.function
    def body(s: ProgramState, a: str, b: str) -> None:
        s += f"{a}|{b:>4}|%s" % a
        s += a + b + "." + gen("x") + a
        s += sgl.select("y", [a, f"not {a}"])
        s += f"{s['x']}{s.text()}{s.messages()}{s.get_meta_info('x')}"
        s["z"] = s["y"]
        s.sync()
        assert s.error() is None
        assert s.outcome is None

    lines = str(body.trace()).splitlines()
    assert lines[1:] == [
        "  %0 text '{a}|{b:>4}|{a}'",
        "  %1 text '{a}{b}.'",
        "  %2 gen x",
        "  %3 text '{a}'",
        "  %4 select y ['{a}', 'not {a}']",
        "  %5 text '{x}{text()}{messages()}{meta info of x}'",
        "  %6 assign z = {y}",
    ]


def test_nested_programs_are_part_of_the_graph() -> None:
    @sgl.function
    def inner(s: ProgramState, topic: str) -> str:
        s += "about " + topic + gen("x")
        return topic

    @sgl.function
    def outer(s: ProgramState, topic: str) -> None:
        s += inner(s, topic) + "!"

    assert str(outer.trace()).splitlines()[1:] == [
        "  %0 text 'about {topic}'",
        "  %1 gen x",
        "  %2 text '{topic}!'",
    ]


CONCRETE: list[Callable[[ProgramState, Any], object]] = [
    lambda s, q: q == "x",
    lambda s, q: q != "x",
    lambda s, q: q < 5,
    lambda s, q: bool(q),
    lambda s, q: len(q),
    lambda s, q: [*q],
    lambda s, q: "a" in q,
    lambda s, q: q[0],
    lambda s, q: int(q),
    lambda s, q: float(q),
    lambda s, q: range(q),
    lambda s, q: q * 2,
    lambda s, q: q - 1,
    lambda s, q: q.upper(),
    lambda s, q: q(),
    lambda s, q: TABLE[q],
    lambda s, q: gen("y", max_tokens=q),
    lambda s, q: gen("y", regex=q),
    lambda s, q: sgl.select("y", q),
    lambda s, q: s.text_iter() if q is None else list(s.text_iter()),
]


@pytest.mark.parametrize("use", CONCRETE)
def test_what_needs_a_value_says_so_with_name_and_line(
    use: Callable[[ProgramState, Any], object],
) -> None:
    @sgl.function
    def argument(s: ProgramState, question: str) -> None:
        use(s, question)

    @sgl.function
    def variable(s: ProgramState) -> None:
        s += gen("x")
        use(s, s["x"])

    with pytest.raises(sgl.TraceError, match=r"(argument 'question'|text_iter).*test_tracer.py:"):
        argument.trace()
    with pytest.raises(sgl.TraceError, match=r"(variable 'x'|text_iter).*test_tracer.py:"):
        variable.trace()


def test_other_errors_of_a_traced_body_name_the_program() -> None:
    @sgl.function
    def body(s: ProgramState, q: str) -> None:
        json.loads(q)

    with pytest.raises(sgl.TraceError, match="tracing body failed with TypeError"):
        body.trace()


def test_errors_of_ours_come_through() -> None:
    @sgl.function
    def body(s: ProgramState) -> None:
        s["nothing"]

    with pytest.raises(sgl.UsageError, match=r"'nothing' was read at .*test_tracer.py:"):
        body.trace()


def test_running_another_program_needs_a_backend_that_a_trace_has_not() -> None:
    @sgl.function
    def body(s: ProgramState) -> None:
        body.run()

    with pytest.raises(sgl.TraceError, match=r"call it with the state, as in f\(s, ...\)"):
        body.trace()
