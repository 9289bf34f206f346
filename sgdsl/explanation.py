"""A run as a tree of its nodes, with what each of them came to.

Owns what is told of a node: its text, tokens, time, log-probability, and how it ended. What stands
in a branch's record belongs to the machine; it is read here, never copied before somebody asks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Protocol

from sgdsl.draw import cut, left_out, strokes
from sgdsl.errors import ProgramError
from sgdsl.html import plain, span, tree_html, word_html
from sgdsl.labels import label
from sgdsl.nodes import Collect, Gen, Node, Select, asked, shorten
from sgdsl.outcome import Outcome
from sgdsl.outline import Item, lines, outline, title
from sgdsl.pieces import Piece

NodeStatus = Literal["ok", "truncated", "failed", "cancelled", "running", "waiting"]

MAX_SHOWN = 1000
"""Nodes that are printed; `nodes` has all."""


class _Branch(Protocol):
    """What is read of a branch."""

    @property
    def id(self) -> int: ...
    @property
    def trail(self) -> list[tuple[Node, int, dict[str, Any] | None]]: ...
    @property
    def pieces(self) -> list[Piece]: ...
    @property
    def partial(self) -> str: ...
    @property
    def active(self) -> Node | None: ...
    @property
    def error(self) -> ProgramError | None: ...


@dataclass(frozen=True, slots=True)
class BranchRecord:
    """A branch at one moment."""

    id: int
    steps: tuple[tuple[Node, int, dict[str, Any] | None], ...]
    pieces: tuple[Piece, ...]
    partial: str
    active: Node | None
    error: ProgramError | None

    @classmethod
    def of(cls, branch: _Branch) -> BranchRecord:
        return cls(
            branch.id,
            tuple(branch.trail),
            tuple(branch.pieces),
            branch.partial,
            branch.active,
            branch.error,
        )


@dataclass(frozen=True, slots=True)
class ExplainedNode:
    """One node of a run. Counts are tokens; None is what is not known, or what there is none of.

    `text`: what it has added to its branch; of one that was cancelled or has failed, what it had
    written by then, where the backend tells: in a streamed run, and always in a `Runtime` of this
    process. `cached_tokens`: those of its prompt that did not have
    to be computed. `forced_tokens`: those of its output that its constraint left no choice about.
    `logprob`: the sum over its output, with `return_logprob`; for a select, of the choice taken, as
    its method counts it. `probability`: of that choice. `seconds`: from its begin to its end.
    `meta` is all that the backend tells.
    """

    node: Node
    status: NodeStatus
    text: str
    branch: int
    meta: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None

    @property
    def id(self) -> int:
        return self.node.id

    @property
    def kind(self) -> str:
        return self.node.kind

    @property
    def name(self) -> str | None:
        """The variable that it defines, if it defines one."""
        return getattr(_gen_of(self.node), "name", None)

    @property
    def source(self) -> str | None:
        return None if self.node.source is None else str(self.node.source)

    @property
    def constraint(self) -> str | None:
        node = _gen_of(self.node)
        constraint = node.constraint if isinstance(node, Gen) else None
        return None if constraint is None else repr(constraint)

    @property
    def prompt_tokens(self) -> int | None:
        return self.meta.get("prompt_tokens")

    @property
    def cached_tokens(self) -> int | None:
        return self.meta.get("cached_tokens")

    @property
    def completion_tokens(self) -> int | None:
        return self.meta.get("completion_tokens")

    @property
    def forced_tokens(self) -> int | None:
        return self.meta.get("forced_tokens")

    @property
    def seconds(self) -> float | None:
        return self.meta.get("e2e_latency")

    @property
    def finish_reason(self) -> Mapping[str, Any] | None:
        return self.meta.get("finish_reason")

    @property
    def logprob(self) -> float | None:
        tokens = self.meta.get("output_token_logprobs")
        if isinstance(self.node, Gen) and tokens is not None:
            return math.fsum(entry[0] for entry in tokens)
        return self._of_choice("normalized_prompt_logprobs")

    @property
    def probability(self) -> float | None:
        return self._of_choice("probabilities")

    def _of_choice(self, key: str) -> float | None:
        if isinstance(self.node, Select) and key in self.meta:
            value: float = self.meta[key][self.node.choices.index(self.text)]
            return value
        return None

    @property
    def facts(self) -> list[str]:
        """All that is known, in words."""
        if isinstance(self.node, Collect):
            return [f"{len(self.node.children)} outputs"]
        told = []
        if self.completion_tokens is not None and isinstance(self.node, Gen):
            plural = "" if self.completion_tokens == 1 else "s"
            told.append(f"{self.completion_tokens} token{plural}")
        if self.forced_tokens:
            told.append(f"{self.forced_tokens} forced")
        if self.prompt_tokens is not None:
            told.append(f"prompt {self.prompt_tokens}, cached {self.cached_tokens or 0}")
        if self.logprob is not None:
            told.append(f"logprob {self.logprob:.3f}")
        if self.probability is not None:
            told.append(f"p {self.probability:.3f}")
        if self.seconds is not None:
            told.append(f"{self.seconds:.3f} s")
        if isinstance(self.node, Gen) and self.node.constraint is not None:
            told.append(asked(self.node.constraint))
        return told


class Explanation:
    """What a run came to: `nodes`, in the order in which they stand on their branches, and its
    `outcome` (None while it goes on). `str` prints the tree; a notebook shows it.
    """

    def __init__(
        self,
        branches: Sequence[BranchRecord],
        waiting: Sequence[Node],
        outcome: Outcome | None,
    ) -> None:
        self._branches = branches
        self._waiting = waiting
        self.outcome = outcome

    @cached_property
    def nodes(self) -> tuple[ExplainedNode, ...]:
        done = [node for branch in self._standing() for node in _nodes(branch, self.outcome)]
        status: NodeStatus = "waiting" if self.outcome is None else "cancelled"
        later = [
            ExplainedNode(node, status, "", node.branch)
            for node in self._waiting
            if not isinstance(node, Collect)  # it has begun with the first of its outputs
        ]
        return (*done, *later)

    def _standing(self) -> list[BranchRecord]:
        """Without those of a gen's several outputs that have been written again since."""
        nodes = [node for branch in self._branches for node, _, _ in branch.steps]
        stands = {child for node in nodes if isinstance(node, Collect) for child in node.children}
        return [branch for branch in self._branches if branch.id >= 0 or branch.id in stands]

    @property
    def failed(self) -> ExplainedNode | None:
        """The node at which the run failed, if it failed at one."""
        error = None if self.outcome is None else self.outcome.error
        return next((node for node in self.nodes if _is_at(error, node.node)), None)

    def __repr__(self) -> str:
        return f"<explanation of {self._head()}>"

    def __str__(self) -> str:
        drawn = [self._head()]
        for line in lines(self._tree(), max_nodes=MAX_SHOWN):
            item = line.item
            if item is None:
                text = left_out(line.num_left_out)
            else:
                text = title(item) if item.entry is None else _row(item.entry)
            drawn.append(strokes(line.lasts) + cut(text))
        return "\n".join(drawn)

    def _repr_html_(self) -> str:
        note = ""
        if self.outcome is not None and self.outcome.error is not None:
            note = f"<div>{span('error', str(self.outcome.error))}</div>"
        head = span("bold", self._head(error=False))
        return tree_html(head, self._tree(), _html_row, max_nodes=MAX_SHOWN, note=note)

    def _head(self, *, error: bool = True) -> str:
        # What collects several outputs tells what the first of them does.
        answered = (node for node in self.nodes if not isinstance(node.node, Collect))
        gens = [node for node in answered if node.prompt_tokens is not None]
        status: str = "running" if self.outcome is None else self.outcome.status
        parts = [status, f"{len(self.nodes):,} nodes"]
        if gens:
            prompt = sum(node.prompt_tokens or 0 for node in gens)
            cached = sum(node.cached_tokens or 0 for node in gens)
            written = sum(node.completion_tokens or 0 for node in gens)
            parts.append(f"prompts {prompt:,}, cached {cached:,}, written {written:,} tokens")
        head = "; ".join(parts)
        if error and self.outcome is not None and self.outcome.error is not None:
            head += f"; {cut(str(self.outcome.error))}"
        return head

    def _tree(self) -> Item[ExplainedNode]:
        by_branch: dict[int, list[ExplainedNode]] = {}
        for node in self.nodes:
            by_branch.setdefault(node.branch, []).append(node)
        return outline(by_branch, lambda entry: entry.node)


def _nodes(branch: BranchRecord, outcome: Outcome | None) -> list[ExplainedNode]:
    ends = [*(start for _, start, _ in branch.steps[1:]), len(branch.pieces)]
    found = []
    for (node, start, meta), end in zip(branch.steps, ends, strict=False):
        text = "".join([piece.text for piece in branch.pieces[start:end]])
        error = _error_at(node, branch, outcome)
        status = _status(node, meta, branch, outcome) if error is None else "failed"
        if error is not None:
            text += error.partial
        elif status in {"running", "cancelled"}:
            text += branch.partial
        said = None if error is None else _said_of(error)
        found.append(ExplainedNode(node, status, text, branch.id, meta or {}, said))
    return found


def _error_at(node: Node, branch: BranchRecord, outcome: Outcome | None) -> ProgramError | None:
    """What has failed there. What a join has collected ended its branch, not the run."""
    for error in (branch.error, None if outcome is None else outcome.error):
        if isinstance(error, ProgramError) and _is_at(error, node):
            return error
    return None


def _said_of(error: ProgramError) -> str:
    cause = error.__cause__
    return str(error) if cause is None else f"{type(cause).__name__}: {cause}"


def _status(
    node: Node, meta: Mapping[str, Any] | None, branch: BranchRecord, outcome: Outcome | None
) -> NodeStatus:
    """Of a node that has not failed."""
    answered = isinstance(node, Gen | Select | Collect)
    unanswered = meta is None if answered else node is branch.active
    if unanswered:
        return "running" if outcome is None else "cancelled"
    reason = (meta or {}).get("finish_reason") or {}
    cut_off = reason.get("type") == "length" and reason.get("length") != 0
    if isinstance(node, Gen) and node.constraint is None and cut_off:
        return "truncated"
    return "ok"


def _is_at(error: BaseException | None, node: Node) -> bool:
    """Whether that is where it happened."""
    source = None if node.source is None else str(node.source)
    return isinstance(error, ProgramError) and (error.node, error.source) == (str(node), source)


def _gen_of(node: Node) -> Node:
    """The gen that a node stands for, if it collects several outputs of one."""
    return node.gen if isinstance(node, Collect) else node


def _row(node: ExplainedNode) -> str:
    word, rest = _said(node)
    facts = f"  [{'; '.join(node.facts)}]" if node.facts else ""
    error = f"  {node.error}" if node.error else ""
    mark = "" if node.status == "ok" else f"{node.status}: "
    return f"{word:<7} {mark}{rest}{facts}{error}".rstrip()


def _html_row(node: ExplainedNode) -> str:
    word, rest = _said(node)
    parts = [word_html(word)]
    if node.status != "ok":
        parts.append(span("error", node.status))
    parts.append(plain(rest))
    if node.facts:
        parts.append(span("fact", "; ".join(node.facts)))
    if node.error:
        parts.append(span("error", node.error))
    return " ".join(parts)


def _said(node: ExplainedNode) -> tuple[str, str]:
    """The word for a node, and its variable and text."""
    if isinstance(node.node, Gen | Select | Collect):
        return node.kind, f"{node.name or '_'} {shorten(node.text, 50)!r}"
    return label(node.node)
