"""Drawings: small, readable, and of the very language."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings

from grammars import Choices, GrammarError, JsonSchema, Regex, explain
from grammars.characters import Label
from grammars.diagram import Edges, simplify
from tests.grammars.strategies import patterns, texts


def edges_of(pattern: str) -> list[str]:
    """The edges of the drawing as `0 label 1`, accepting states with a star."""
    drawn = explain(Regex(pattern)).dot()
    ends = set(re.findall(r"s(\d+) \[shape=doublecircle", drawn))
    found = re.findall(r'^  s(\d+) -> s(\d+) \[label="(.*)"\];$', drawn, re.MULTILINE)
    return [f"{a} {label} {b}{'*' if b in ends else ''}" for a, b, label in found]


@pytest.mark.parametrize(
    ("pattern", "edges"),
    [
        ("abc", ["0 abc 1*"]),
        ("[a-c][xz]", ["0 [a-c][xz] 1*"]),
        ("(ab)*", ["0 ab 0*"]),
        ("a|bc|de", ["0 a | bc | de 1*"]),
        ("x[0-9]+", ["0 x[0-9] 1*", "1 [0-9] 1*"]),
        ("é", ["0 é 1*"]),
        ("[à-ÿ0]", ["0 [0à-ÿ] 1*"]),
        ("[\U0001f600-\U0001f64f]", [r"0 [\\u{1F600}-\\u{1F64F}] 1*"]),
        (r"(?s:.)", [r"0 [\\u{0}-\\u{10FFFF}] 1*"]),
        ("a b\\n", ["0 a␣b\\\\n 1*"]),
        (r'"\[', [r"0 \"\\[ 1*"]),
        ("[ace]", ["0 [ace] 1*"]),
        ("[a-z]{0,1}é", ["0 [a-z]é | é 1*"]),
    ],
)
def test_what_is_drawn(pattern: str, edges: list[str]) -> None:
    assert edges_of(pattern) == edges


@given(patterns, texts)
@settings(max_examples=150)
def test_a_drawing_has_the_texts_of_its_language(pattern: str, text: str) -> None:
    automaton = explain(Regex(pattern), num_samples=0).automaton
    assert automaton is not None
    assert automaton.is_whole
    edges, accepting = simplify(automaton)
    assert runs(edges, accepting, text) == (re.fullmatch(pattern, text) is not None)


def runs(edges: Edges, accepting: list[bool], text: str) -> bool:
    """Whether the labels along some way spell `text`."""

    def begins(label: Label, rest: str) -> bool:
        return len(label) <= len(rest) and all(
            any(low <= ord(char) <= high for low, high in ranges)
            for ranges, char in zip(label, rest, strict=False)
        )

    pending = [(0, text)]
    while pending:
        state, rest = pending.pop()
        if not rest and accepting[state]:
            return True
        for target, labels in edges[state].items():
            pending += [(target, rest[len(label) :]) for label in labels if begins(label, rest)]
    return False


def test_what_is_too_large_is_refused() -> None:
    with pytest.raises(GrammarError, match="would have 101 states, and max_states is 64"):
        explain(Regex("[a-z]{0,100}")).dot()
    with pytest.raises(GrammarError, match="has more than 50 states"):
        explain(Regex("[a-z]{0,100}"), max_states=50).mermaid()
    with pytest.raises(GrammarError, match="has more than 1000 states"):
        explain(Regex("[a-z]{0,2000}")).mermaid()
    with pytest.raises(GrammarError, match="is refused"):
        explain(JsonSchema({"nullable": True})).dot()


def test_mermaid_escapes_all_that_it_would_read() -> None:
    drawn = explain(Choices(['"#;|`', "end"])).mermaid()
    assert drawn == (
        "flowchart LR\n"
        "  start(( )) --> s0\n"
        "  s0((0))\n"
        "  s1(((1)))\n"
        '  s0 -->|"#34;#35;#59;#92;#124;#96; #124; end"| s1\n'
    )


def test_a_long_label_is_cut() -> None:
    (edge,) = edges_of("a" * 100)
    assert edge == f"0 {'a' * 59}… 1*"
