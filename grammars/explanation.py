"""What a constraint comes to, told without a model: for people, and for checks of schemas.

Owns the facts: what is refused and where, what it costs to compile, how short and how long its
texts are, how many there are, and some of them. It must not know how they are shown.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from typing import Any

from grammars.algebra import Algebra
from grammars.automaton import Automaton, explore
from grammars.budget import Budget, too_deep_is_over_budget
from grammars.completion import Completions
from grammars.constraint import Constraint, JsonSchema
from grammars.diagram import to_dot, to_mermaid
from grammars.errors import CompileBudgetError, EmptyLanguageError, GrammarError
from grammars.expr import Expr
from grammars.extent import extent
from grammars.samples import ByteCompletions, byte_vocabulary, sample
from grammars.schema_check import Annotation, Fault, check_schema, fault_of
from grammars.spelling import UNREACHABLE
from grammars.types import TypeOf
from grammars.vocabulary import Vocabulary

MAX_TEXTS = 10**18
"""Texts are counted up to this number: from there on nobody cares, and numbers grow."""

LOOK_STEPS, LOOK_SECONDS = 200_000, 3.0
"""What each look at a compiled language may cost: its extent, its states, its samples."""


@dataclass(frozen=True)
class Explanation:
    """What `explain` found.

    * `faults`: why it is refused, each with its place; () when it is supported. `has_more_faults`:
      others may be left that were not looked for.
    * `annotations`: of its schemas, what says nothing about validity.
    * `min_tokens`: of the cheapest text that is known, in the vocabulary that was given; else None.
      `min_bytes`: of the shortest that is known.
    * `max_bytes`: of the longest text, or a bound of that unless `is_max_exact`; None where there
      is none, or it is not known.
    * `is_finite`: None where it is not known. `num_texts`: None where there are infinitely many, or
      they were not counted; MAX_TEXTS stands for that many or more.
    * `num_expressions` and `seconds` (of the thread) of the compile.
    * `num_states`: those that were visited; all of them where `is_whole`.
    * `samples`: different texts, the shortest first.
    """

    faults: tuple[Fault, ...] = ()
    has_more_faults: bool = False
    annotations: tuple[Annotation, ...] = ()
    min_tokens: int | None = None
    min_bytes: int | None = None
    max_bytes: int | None = None
    is_max_exact: bool = False
    is_finite: bool | None = None
    num_texts: int | None = None
    num_expressions: int = 0
    seconds: float = 0.0
    num_states: int = 0
    is_whole: bool = False
    samples: tuple[str, ...] = ()
    automaton: Automaton | None = None

    @property
    def is_supported(self) -> bool:
        """Whether it can be enforced, and some text satisfies it."""
        return not self.faults

    def dot(self, *, max_states: int = 64) -> str:
        """Its automaton for Graphviz; raises GrammarError when it has more states than that."""
        return to_dot(self._drawable(), max_states=max_states)

    def mermaid(self, *, max_states: int = 64) -> str:
        """Its automaton as a Mermaid flowchart; raises GrammarError as `dot` does."""
        return to_mermaid(self._drawable(), max_states=max_states)

    def _drawable(self) -> Automaton:
        if self.automaton is None:
            raise GrammarError("the constraint is refused, so it has no automaton; see faults")
        return self.automaton

    def to_dict(self) -> dict[str, Any]:
        """All but the automaton, as JSON has it."""
        found: dict[str, Any] = {"is_supported": self.is_supported}
        for each in fields(self):
            if each.name != "automaton":
                found[each.name] = _plain(getattr(self, each.name))
        return found


def explain(
    constraint: Constraint,
    vocabulary: Vocabulary | None = None,
    *,
    num_samples: int = 5,
    seed: int = 0,
    max_states: int = 5_000,
    max_steps: int = 500_000,
    max_seconds: float = 10.0,
) -> Explanation:
    """What `constraint` comes to. It raises nothing for a constraint that is refused: that is one
    of the things it tells.

    `max_states`: how many states are visited, to count texts and to draw them. `max_steps` and
    `max_seconds` bound the compile as those of `Compiler` do.
    """
    checks = [
        check_schema(each.source(), each.style(), budget=Budget(max_steps, max_seconds))
        for each in _schemas(constraint)
    ]
    told = partial(
        Explanation,
        has_more_faults=any(check.has_more for check in checks),
        annotations=tuple(note for check in checks for note in check.annotations),
    )
    budget = Budget(max_steps, max_seconds)
    begun = time.thread_time()
    try:
        algebra, start, min_tokens = _compile(constraint, vocabulary or byte_vocabulary(), budget)
    except GrammarError as error:
        seconds = time.thread_time() - begun
        faults = [fault for check in checks for fault in check.faults]
        found = fault_of(error)
        is_known = any(
            fault.message == found.message or fault.kind == found.kind == "too costly"
            for fault in faults
        )
        if not is_known:
            faults.append(found)
        return told(faults=tuple(faults), seconds=seconds)
    compiled = partial(
        told,
        seconds=time.thread_time() - begun,
        num_expressions=len(algebra),
        min_tokens=min_tokens if vocabulary else None,
    )
    look = _Look(algebra, start, max_states)
    if look.is_empty:
        return compiled(faults=(fault_of(EmptyLanguageError("no text satisfies the constraint")),))
    return compiled(
        samples=look.samples(vocabulary or byte_vocabulary(), num_samples, seed), **look.facts()
    )


def refusal(error: GrammarError) -> Explanation:
    """The explanation of what cannot even be made a constraint: a malformed pattern, say."""
    return Explanation(faults=(fault_of(error),))


def _compile(
    constraint: Constraint, vocabulary: Vocabulary, budget: Budget
) -> tuple[Algebra, Expr, int]:
    """What `Compiler` does, with the parts at hand: algebra, language and its fewest tokens."""
    algebra = Algebra(vocabulary.alphabet, budget=budget)
    with too_deep_is_over_budget(budget):
        start = constraint.lower(algebra)
        completions = Completions(algebra, vocabulary)
        if not completions.is_alive(start):
            raise EmptyLanguageError("no text satisfies the constraint")
        min_tokens = completions.cost(start)
    if min_tokens >= UNREACHABLE:
        raise EmptyLanguageError("no text that this vocabulary can write satisfies the constraint")
    return algebra, start, min_tokens


class _Look:
    """Looks at a compiled language, each at its own allowance: one that is too costly leaves the
    others.
    """

    def __init__(self, algebra: Algebra, start: Expr, max_states: int) -> None:
        self._algebra = algebra
        self._start = start
        self._completions = ByteCompletions(algebra)
        self._allow()
        self._automaton = explore(self._completions, start, max_states=max_states)

    def _allow(self) -> None:
        self._algebra.budget.allow(LOOK_STEPS, LOOK_SECONDS)

    @property
    def is_empty(self) -> bool:
        """Whether it was seen that there is no text: of what must not be repeated, too little."""
        return self._automaton.is_whole and not any(self._automaton.accepting)

    def samples(self, vocabulary: Vocabulary, count: int, seed: int) -> tuple[str, ...]:
        """Some texts."""
        self._allow()
        found = sample(self._algebra, self._start, count, vocabulary=vocabulary, seed=seed)
        return tuple(found)

    def facts(self) -> dict[str, Any]:
        """How long and how many its texts are; its states."""
        seen = self._automaton
        found: dict[str, Any] = {
            "automaton": seen,
            "num_states": len(seen),
            "is_whole": seen.is_whole,
            "min_bytes": self._min_bytes(),
        }
        order = seen.order()
        if order is None or seen.is_endless:
            return {**found, "is_finite": False}
        if seen.is_whole:
            found["num_texts"] = seen.num_texts(order, MAX_TEXTS)
            return {**found, "is_finite": True, **_bounded(seen.longest(order), is_exact=True)}
        return {**found, **self._by_structure()}

    def _min_bytes(self) -> int | None:
        exact = self._automaton.shortest()
        if exact is not None:
            return exact
        self._allow()
        try:
            ending = self._completions.ending(self._start)
        except (CompileBudgetError, RecursionError):
            return None
        return None if ending is None else len(ending)

    def _by_structure(self) -> dict[str, Any]:
        """For languages with too many states."""
        self._allow()
        try:
            longest, is_exact = extent(self._algebra, self._start)
        except (CompileBudgetError, RecursionError):
            return {}
        if longest < math.inf:
            return {"is_finite": True, **_bounded(int(longest), is_exact=is_exact)}
        return {"is_finite": False} if is_exact else {}


def _bounded(longest: int, *, is_exact: bool) -> dict[str, Any]:
    return {"max_bytes": longest, "is_max_exact": is_exact}


def _schemas(constraint: object) -> Iterator[JsonSchema | TypeOf]:
    """The schemas inside of a constraint, whatever puts them together."""
    if isinstance(constraint, JsonSchema | TypeOf):
        yield constraint
    elif isinstance(constraint, tuple | list):
        for part in constraint:
            yield from _schemas(part)
    elif isinstance(constraint, Mapping):
        yield from _schemas(list(constraint.values()))
    elif isinstance(constraint, Constraint):
        for name in getattr(constraint, "__dataclass_fields__", ()):
            yield from _schemas(getattr(constraint, name))


def _plain(value: Any) -> Any:
    """Dataclasses as dicts, tuples as lists."""
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value
