"""What a run asked of its model, as other engines can be asked the same.

Owns the way from a run that has ended to its requests: their prompts' texts, in the order in which
one depends on the other. Knows no tokens and no engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from grammars import Choices, Constraint, JsonSchema, Regex, TypeOf
from sgdsl.explanation import ExplainedNode, Explanation
from sgdsl.graph import ROOT
from sgdsl.nodes import Fork, Gen, Join, Select


@dataclass(frozen=True)
class Request:
    """One gen or select, by its `name`. `depth`: how many others it has waited for, one after
    another. `text`, `num_tokens`: what it was answered. `is_exact`: it was to have so many tokens
    and no fewer. `kind`: "free", "schema", "regex" or "choices", which `spec` is then.
    """

    depth: int
    name: str
    prompt: str
    text: str
    num_tokens: int
    max_tokens: int
    is_exact: bool
    kind: str
    spec: Any = None
    num_prompt_tokens: int = 0
    num_cached_tokens: int = 0

    @property
    def has_its_length(self) -> bool:
        return not self.is_exact or self.num_tokens == self.max_tokens


def requests_of(explanation: Explanation) -> list[Request]:
    """Those of a run, each behind those that it waited for."""
    by_branch: dict[int, list[ExplainedNode]] = {}
    for node in explanation.nodes:
        by_branch.setdefault(node.branch, []).append(node)
    found: list[Request] = []
    _walk(by_branch, ROOT, text="", depth=0, found=found)
    return sorted(found, key=lambda each: each.depth)


def _walk(
    by_branch: dict[int, list[ExplainedNode]], branch: int, *, text: str, depth: int,
    found: list[Request],
) -> int:  # fmt: skip
    """Follow a branch from `text` on; returns how deep it has come."""
    ends: dict[int, int] = {}
    for each in by_branch.get(branch, ()):
        match each.node:
            case Fork(children=children):
                for child in children:
                    ends[child] = _walk(by_branch, child, text=text, depth=depth, found=found)
            case Join(children=children):
                depth = max([depth, *(ends[child] for child in children)])
            case Gen() | Select():
                found.append(_request(each, text, depth))
                depth += 1
        text += each.text
    return depth


def _request(each: ExplainedNode, prompt: str, depth: int) -> Request:
    node, kind = each.node, "free"
    spec: Any = None
    max_tokens, is_exact = 0, False
    if isinstance(node, Select):
        kind, spec = "choices", list(node.choices)
    elif isinstance(node, Gen):
        max_tokens = node.sampling.max_tokens or 0
        is_exact = bool(node.sampling.ignore_eos)
        if node.constraint is not None:
            kind, spec = told(node.constraint)
    return Request(
        depth=depth,
        name=each.name or "",
        prompt=prompt,
        text=each.text,
        num_tokens=each.completion_tokens or 0,
        max_tokens=max_tokens,
        is_exact=is_exact,
        kind=kind,
        spec=spec,
        num_prompt_tokens=each.prompt_tokens or 0,
        num_cached_tokens=each.cached_tokens or 0,
    )


def told(constraint: Constraint) -> tuple[str, Any]:
    """The constraint's kind and content, as other engines take it."""
    match constraint:
        case Regex(pattern=pattern):
            return "regex", pattern
        case Choices(texts=texts):
            return "choices", list(texts)
        case JsonSchema(text=text) | TypeOf(text=text):
            return "schema", json.loads(text)
    raise ValueError(f"no other engine can be asked for {constraint!r:.80}")


def rounds_of(runs: Iterable[list[Request]]) -> list[list[tuple[int, Request]]]:
    """The requests of many runs by depth, each with the index of its run: those of a round wait for
    none of the same round.
    """
    rounds: list[list[tuple[int, Request]]] = []
    for index, requests in enumerate(runs):
        for request in requests:
            rounds += [[] for _ in range(request.depth + 1 - len(rounds))]
            rounds[request.depth].append((index, request))
    return rounds
