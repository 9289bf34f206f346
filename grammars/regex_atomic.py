"""Atomic groups and possessive quantifiers as look-ahead. Owns the order in which `re` tries.

`(?>X)` takes the first match of X in the order of backtracking, and never another one. That order
is known, so "the first" can be said by conditions: of `A|B` it is A, or B where A does not match;
of `A*` it is A again and again until A does not match any more. What stands behind X inside of the
same group takes part: of `(?>A*B)` it is A again as long as A*B matches after it.

A tree is *single* when from a given place it matches in one way at most, or always takes the same
width: then the first match is any match.
It must not know of the text of a pattern, nor of expressions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import takewhile

from grammars.errors import GrammarError
from grammars.regex_looks import look
from grammars.regex_parts import Parts
from grammars.regex_tree import NOTHING, Alt, Loop, Seq, Tree, any_of, sequence

_ROUNDS_ARE_ATOMIC = re.fullmatch(r"(?:a|ab){2}+", "aba") is None
"""A possessive quantifier gives nothing back of its rounds, nor within one: more than `(?>...)`."""

MAX_UNROLLED = 16
"""Rounds of a bounded repetition that are told apart one by one."""

MAX_STEPS = 200
"""Parts that are told apart in one group; conditions of conditions multiply."""


class Atomizer:
    """Says the atomic groups of one pattern by conditions. `refuse(what, column)` makes the error
    for those that it cannot say.
    """

    def __init__(self, refuse: Callable[[str, int], GrammarError]) -> None:
        self._refuse = refuse
        self._single: set[Tree] = set()
        self._parts = Parts()
        self._column = 0
        self._steps = 0

    def atomic(self, tree: Tree, column: int) -> Tree:
        """The first match of `tree`, and no other."""
        self._column, self._steps = column, 0
        found = self._first((tree,))
        self._single.add(found)
        return found

    def possessive(self, tree: Loop, column: int) -> Tree:
        """A repetition that gives nothing back."""
        if not _ROUNDS_ARE_ATOMIC:
            return self.atomic(tree, column)
        once = self.atomic(tree.body, column)
        if once.facts.low:
            return self.atomic(Loop(once, tree.low, tree.high, tree.column), column)
        some, none = self._parts.something(once), self._parts.nothing(once)
        if some is None:
            return Loop(once, min(tree.low, 1), 1, tree.column)
        self._single.add(some)  # the first match, where that takes something
        found = [self.atomic(Loop(some, tree.low, tree.high, tree.column), column)]
        if tree.low and none is not None:  # a round of nothing is the last, and counts for all
            found.append(sequence([Loop(some, 0, tree.low - 1, tree.column), none]))
        made = any_of(found)
        self._single.add(made)
        return made

    def _first(self, items: tuple[Tree, ...]) -> Tree:
        """The first match of `items`, one after another."""
        single = list(takewhile(self._is_single, items))
        if len(single) == len(items):
            return sequence(items)
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise self._refuse("an atomic group with too many ways to match", self._column)
        head, *others = items[len(single) :]
        rest = tuple(others)
        if isinstance(head, Seq):
            found = self._first(head.items + rest)
        elif isinstance(head, Alt):
            found = self._first_option(head, rest)
        else:
            assert isinstance(head, Loop), "characters and conditions are single"
            found = self._first_count(head, rest)
        return sequence([*single, found])

    def _is_single(self, tree: Tree) -> bool:
        return tree.facts.low == tree.facts.high or tree in self._single

    def _first_option(self, tree: Alt, rest: tuple[Tree, ...]) -> Tree:
        """Each option where none before it matches, up to the end of `rest`."""
        options = [self._first((tree.options[0], *rest))]
        for index, option in enumerate(tree.options[1:], 1):
            none_before = self._fails(any_of(tree.options[:index]), *rest)
            options.append(sequence([none_before, self._first((option, *rest))]))
        return any_of(options)

    def _first_count(self, tree: Loop, rest: tuple[Tree, ...]) -> Tree:
        body, low, high = tree.body, tree.low, tree.high
        if body.facts.low == 0:  # rounds of nothing come last, so they may be left out
            some = self._parts.something(body) if _ends_with_nothing(body) else None
            if some is None:
                what = "an atomic group that repeats what may be empty"
                raise self._refuse(what, self._column)
            if low and not tree.greedy:  # as many as must be, before as few as can be
                more = None if high is None else high - low
                must = Loop(some, 0, low, tree.column)
                return self._first((must, Loop(some, 0, more, tree.column, greedy=False), *rest))
            body, low = some, 0
            tree = Loop(body, low, high, tree.column, tree.greedy)
        if low:
            most = None if high is None else high - low
            again = Loop(body, 0, most, tree.column, tree.greedy)
            if self._is_single(body):
                fixed = Loop(body, low, low, tree.column)
                self._single.add(fixed)
                return self._first((fixed, again, *rest))
            self._check_unrolled(low)
            return self._first((*(low * [body]), again, *rest))
        if not rest:
            return self._longest(tree) if tree.greedy else NOTHING
        if high is None:
            return self._first_unbounded(tree, rest)
        self._check_unrolled(high)
        return self._first_bounded(tree, rest)

    def _check_unrolled(self, rounds: int) -> None:
        if rounds > MAX_UNROLLED:
            what = f"an atomic group that may give back some of {rounds} rounds"
            raise self._refuse(what, self._column)

    def _longest(self, tree: Loop) -> Tree:
        """Rounds of the first match of the body, until it does not match or they are used up."""
        once = self._first((tree.body,))
        stop = self._fails(tree.body)
        if tree.high is None:
            return Seq((Loop(once, 0, None, tree.column), stop))
        some = Seq((Loop(once, 0, tree.high - 1, tree.column), stop))
        return any_of([Loop(once, tree.high, tree.high, tree.column), some])

    def _first_unbounded(self, tree: Loop, rest: tuple[Tree, ...]) -> Tree:
        """Rounds after each of which the group can still be matched to its end."""
        matches_on = look(Seq((tree, *rest)), self._column, is_ahead=True, negated=False)
        once = self._first((tree.body, matches_on))
        if tree.greedy:
            stop = self._fails(tree.body, tree, *rest)
            return sequence([Loop(once, 0, None, tree.column), stop, self._first(rest)])
        goes_on = self._fails(*rest)
        return sequence([Loop(sequence([goes_on, once]), 0, None, tree.column), self._first(rest)])

    def _first_bounded(self, tree: Loop, rest: tuple[Tree, ...]) -> Tree:
        """One round more or none, whichever is tried first and can be matched to the end."""
        assert tree.high is not None, "the repetition has a bound"
        if tree.high == 0:
            return self._first(rest)
        fewer = Loop(tree.body, 0, tree.high - 1, tree.column, tree.greedy)
        more, done = (tree.body, fewer, *rest), rest
        first, second = (more, done) if tree.greedy else (done, more)
        return any_of([self._first(first), sequence([self._fails(*first), self._first(second)])])

    def _fails(self, *items: Tree) -> Tree:
        """The condition that `items` do not match from here."""
        return look(sequence([*items]), self._column, is_ahead=True, negated=True)


def _ends_with_nothing(tree: Tree) -> bool:
    """Whether the empty text is the last that `re` tries of a tree."""
    if isinstance(tree, Loop):
        return tree.greedy and not tree.facts.looks and tree.body.facts.low > 0
    if isinstance(tree, Seq):
        return all(_ends_with_nothing(item) for item in tree.items)
    if isinstance(tree, Alt):
        *before, last = tree.options
        return all(option.facts.low for option in before) and _ends_with_nothing(last)
    return False
