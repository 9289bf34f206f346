"""Automata as drawings: DOT for Graphviz, and Mermaid. Owns what is left out to make them readable.

States that mean the same are made one. The bytes of one character are one edge, and a state with
one way on, where no text ends, goes into the label of the edges to it: a literal is one edge.
It must not know what the constraint was written in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from grammars.automaton import Automaton, Edge
from grammars.characters import CONTINUATION, Class, Label, decode, join, leads, show
from grammars.errors import GrammarError

MAX_MERGED = 1_000
"""States before equal ones are merged: that may take as many rounds as there are states."""

Edges = dict[int, dict[int, list[Label]]]
"""For each state its targets, and the labels that lead there."""

MAX_LABEL = 60
"""Characters of a label; what is longer ends with an ellipsis."""

Bytes = dict[int, tuple[tuple[int, int], ...]]
"""For each state (target, set of bytes)."""

Ways = dict[int, dict[int, Class]]
"""For each state its targets, and the characters that lead there."""


@dataclass(frozen=True)
class _Drawing:
    """States numbered from 0, the start, on; edges as (from, to, text)."""

    accepting: list[bool]
    edges: list[tuple[int, int, str]]


def to_dot(automaton: Automaton, *, max_states: int) -> str:
    """For Graphviz: `dot -Tsvg`. Raises GrammarError when more states are left than `max_states`,
    or not all are known.
    """
    drawing = _draw(automaton, max_states)
    lines = ["digraph grammar {", "  rankdir=LR;", '  start [shape=point, label=""];']
    lines += [
        f"  s{state} [shape={'doublecircle' if ends else 'circle'}, label={state}];"
        for state, ends in enumerate(drawing.accepting)
    ]
    lines.append("  start -> s0;")
    for source, target, text in drawing.edges:
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'  s{source} -> s{target} [label="{quoted}"];')
    return "\n".join([*lines, "}"]) + "\n"


def to_mermaid(automaton: Automaton, *, max_states: int) -> str:
    """A flowchart for Mermaid. Raises GrammarError as `to_dot` does."""
    drawing = _draw(automaton, max_states)
    lines = ["flowchart LR", "  start(( )) --> s0"]
    lines += [
        f"  s{state}{'(((' if ends else '(('}{state}{')))' if ends else '))'}"
        for state, ends in enumerate(drawing.accepting)
    ]
    for source, target, text in drawing.edges:
        quoted = "".join(c if c.isalnum() or c in " -" else f"#{ord(c)};" for c in text)
        lines.append(f'  s{source} -->|"{quoted}"| s{target}')
    return "\n".join(lines) + "\n"


def _draw(automaton: Automaton, max_states: int) -> _Drawing:
    if not automaton.is_whole or len(automaton) > MAX_MERGED:
        raise GrammarError(
            f"the automaton has more than {min(len(automaton), MAX_MERGED)} states; "
            "only small ones are drawn"
        )
    edges, accepting = simplify(automaton)
    order = _reached(edges)
    if len(order) > max_states:
        raise GrammarError(
            f"the drawing would have {len(order)} states, and max_states is {max_states}; "
            "only small ones are drawn"
        )
    number = {state: index for index, state in enumerate(order)}
    drawn = [
        (number[state], number[target], _cut(show(labels)))
        for state in order
        for target, labels in edges[state].items()
    ]
    return _Drawing([accepting[state] for state in order], drawn)


def simplify(automaton: Automaton) -> tuple[Edges, list[bool]]:
    """What is drawn of a whole automaton, some of it out of reach, and where texts end."""
    merged, accepting = _merge_equal(automaton)
    ways = _by_characters(merged)
    return {state: _whole_labels(state, ways, accepting) for state in ways}, accepting


def _merge_equal(automaton: Automaton) -> tuple[Bytes, list[bool]]:
    """States from which the same texts are left made one (Moore's refinement); the start is 0."""
    group = [int(ends) for ends in automaton.accepting]
    while True:
        seen: dict[tuple[object, ...], int] = {}
        refined = [
            seen.setdefault((group[state], _by_group(edges, group)), len(seen))
            for state, edges in enumerate(automaton.edges)
        ]
        if len(seen) == len(set(group)):
            break
        group = refined
    merged: Bytes = {}
    accepting = [False] * len(seen)
    for state, edges in enumerate(automaton.edges):
        accepting[refined[state]] = automaton.accepting[state]
        merged.setdefault(refined[state], _by_group(edges, refined))
    return merged, accepting


def _by_group(edges: tuple[Edge, ...], group: list[int]) -> tuple[tuple[int, int], ...]:
    """The groups that are reached, each with its bytes."""
    masks: dict[int, int] = {}
    for mask, target in edges:
        masks[group[target]] = masks.get(group[target], 0) | mask
    return tuple(sorted(masks.items()))


def _by_characters(edges: Bytes) -> Ways:
    """The states between characters: a text is UTF-8, so none ends inside of one."""
    ways: Ways = {}
    pending = [0]
    while pending:
        state = pending.pop()
        if state in ways:
            continue
        found: dict[int, list[tuple[int, int]]] = {}
        for target, mask in edges[state]:
            for length, first in leads(mask):
                for after, masks in _go_on(edges, target, [first], length):
                    found.setdefault(after, []).extend(decode(masks))
        ways[state] = {after: join(ranges) for after, ranges in found.items()}
        pending += found
    return ways


def _go_on(
    edges: Bytes, state: int, masks: list[int], length: int
) -> Iterator[tuple[int, list[int]]]:
    """Where the bytes of a character of `length` bytes lead, by which sets of bytes."""
    if len(masks) == length:
        yield state, masks
        return
    for target, mask in edges[state]:
        if mask & CONTINUATION:
            yield from _go_on(edges, target, [*masks, mask & CONTINUATION], length)


def _whole_labels(state: int, ways: Ways, accepting: list[bool]) -> dict[int, list[Label]]:
    """Where the ways from a state lead, through all states that have one way on."""
    found: dict[int, list[Label]] = {}
    for target, first in ways[state].items():
        label, here = [first], target
        while here != 0 and not accepting[here] and len(ways[here]) == 1:
            ((here, following),) = ways[here].items()
            label.append(following)
        found.setdefault(here, []).append(tuple(label))
    return found


def _reached(edges: Edges) -> list[int]:
    """The states that are left, breadth first from the start."""
    order = [0]
    for state in order:
        order += [target for target in edges[state] if target not in order]
    return order


def _cut(text: str) -> str:
    return text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 1] + "…"
