"""The best that a cache of prompts could do.

Owns the tree of all token sequences of a workload: an infinite cache of whole prefixes. Knows no
pages, and no engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Children = dict[int, "Children"]


@dataclass(frozen=True)
class Asked:
    """One request in tokens: its prompt, and what it was answered."""

    prompt: Sequence[int]
    output: Sequence[int] = ()


@dataclass(frozen=True)
class Reuse:
    """Of all prompts: how many tokens they have, and how many of them need not be computed."""

    num_prompt: int
    num_known: int

    @property
    def rate(self) -> float:
        return self.num_known / self.num_prompt if self.num_prompt else 0.0


def best_reuse(requests: Iterable[Asked]) -> Reuse:
    """If everything that was computed before is still known, in the order of the requests. The last
    token of a prompt is always computed, since the output begins behind it; of an output, all but
    the last one.
    """
    root: Children = {}
    num_prompt = num_known = 0
    for request in requests:
        num_prompt += len(request.prompt)
        num_known += min(_insert(root, request.prompt), max(0, len(request.prompt) - 1))
        if request.output:
            _insert(root, [*request.prompt, *request.output[:-1]])
    return Reuse(num_prompt, num_known)


def _insert(root: Children, tokens: Sequence[int]) -> int:
    """Adds the sequence; returns how many tokens of it, from its beginning, were there."""
    node, num_there = root, 0
    for position, token in enumerate(tokens):
        child = node.get(token)
        if child is None:
            child = node[token] = {}
        elif num_there == position:
            num_there += 1
        node = child
    return num_there
