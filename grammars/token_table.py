"""A small regular constraint as a complete table: state x class of tokens -> next state.

Owns the table, and the exact number of tokens to finish from each of its states. Filling a bitmask
and accepting a token are look-ups of arrays, without a lock or a derivative, so a device can do
them. It must not know of matchers; a table stands for the language before its first token.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from grammars.errors import CompileBudgetError
from grammars.expr import Expr
from grammars.grammar import Grammar
from grammars.language import Language
from grammars.spelling import UNREACHABLE
from grammars.trie import Int32
from grammars.vocabulary import Vocabulary

DEAD = 0
"""The state from which nothing can be completed."""

START = 1
"""The state before the first token."""


class TokenTable:
    """What a grammar allows, token by token.

    `next_state[s, c]`: the state after a token of class c. # int32 [states, classes]
    `token_class[t]`: the class of token t: tokens that no state tells apart. # int32 [vocabulary]
    `min_tokens[s]`: the fewest tokens that complete the text, UNREACHABLE in DEAD. # int32 [states]

    A text is complete where `min_tokens` is 0: there, and only there, stop tokens are allowed.
    """

    def __init__(
        self,
        next_state: Int32,
        token_class: Int32,
        is_complete: NDArray[np.bool_],
        vocabulary: Vocabulary,
    ) -> None:
        self.vocabulary = vocabulary
        self.token_class = token_class
        self._class_index = token_class.astype(np.intp)  # numpy gathers by its own kind of index
        self.min_tokens = _min_tokens(next_state, is_complete)
        dead = self.min_tokens[next_state] >= UNREACHABLE  # bytes could go on, tokens cannot
        self.next_state: Int32 = np.where(dead, DEAD, next_state).astype(np.int32)
        costs = self.min_tokens[self.next_state]
        self._dearest = costs.max(axis=1, where=costs < UNREACHABLE, initial=-1).tolist()

    @classmethod
    def of(cls, grammar: Grammar, *, max_states: int = 256) -> TokenTable | None:
        """The table of a grammar; None when it has more than `max_states` states, or finding them
        costs more than a step may.
        """
        language, start, _ = grammar.begin(b"")
        try:
            return _build(language, start, grammar.vocabulary, max_states)
        except CompileBudgetError:
            return None

    def fill_bitmask(self, row: Int32, state: int, *, remaining: int) -> None:
        """Sets bit i of `row` for exactly the tokens i that may come next, when `remaining` more
        may be taken; as a matcher does, but by the exact minimum. # int32 [num_words]
        """
        if remaining > self._dearest[state]:
            row[:] = self.rows[state]
        else:
            row[:] = self._row(state, remaining)

    @cached_property
    def rows(self) -> Int32:
        """The bitmask of each state where the budget forbids nothing. # [states, num_words]"""
        return np.stack([self._row(state, UNREACHABLE) for state in range(len(self.min_tokens))])

    def _row(self, state: int, remaining: int) -> Int32:
        affordable = self.min_tokens[self.next_state[state]] < remaining  # [classes]
        row = self.vocabulary.pack_flags(affordable[self._class_index])
        return row | self.vocabulary.stop_row if self.is_complete(state) else row

    def advance(self, state: int, token_id: int) -> int:
        """The state after a token; DEAD where it is not allowed."""
        return int(self.next_state[state, self.token_class[token_id]])

    def is_complete(self, state: int) -> bool:
        """Whether the text so far satisfies the constraint, so that a stop token is allowed."""
        return bool(self.min_tokens[state] == 0)


def _build(
    language: Language, start: Expr, vocabulary: Vocabulary, max_states: int
) -> TokenTable | None:
    """All states, breadth first."""
    classes = _TokenClasses(vocabulary.size)
    ids = {start: START}
    nodes = [start]
    for node in nodes:  # it grows on the way
        if node.notes:
            return None  # a state for every text
        following, which = language.successors(node)
        for rest in following:
            if rest not in ids:
                ids[rest] = START + len(nodes)
                nodes.append(rest)
        if len(nodes) > max_states:
            return None
        successors = np.zeros(vocabulary.size, dtype=np.int32)
        reached = np.array([DEAD, *(ids[rest] for rest in following)])
        successors[vocabulary.trie.token_ids] = reached[which]
        classes.tell_apart(successors)
    is_complete = np.array([False, *(node.nullable for node in nodes)])
    return TokenTable(classes.next_state(), classes.class_of, is_complete, vocabulary)


class _TokenClasses:
    """The tokens, in as few classes as lead to the same states from all states seen by now."""

    def __init__(self, num_tokens: int) -> None:
        self.class_of: Int32 = np.zeros(num_tokens, dtype=np.int32)
        self._first = np.zeros(1, dtype=np.int64)  # a token of each class
        self._rows = [np.full(1, DEAD, dtype=np.int32)]  # by state; what each class leads to

    def tell_apart(self, successors: Int32) -> None:
        """Adds a state from which token t leads to `successors[t]`."""
        if (successors[self._first][self.class_of] != successors).any():
            pairs = self.class_of.astype(np.int64) << 32 | successors
            _, self._first, finer = np.unique(pairs, return_index=True, return_inverse=True)
            parents = self.class_of[self._first]
            self._rows = [row[parents] for row in self._rows]
            self.class_of = finer.astype(np.int32)
        self._rows.append(successors[self._first])

    def next_state(self) -> Int32:
        """For each state, DEAD first, where each class leads. # int32 [states, classes]"""
        return np.stack(self._rows)


def _min_tokens(next_state: Int32, is_complete: NDArray[np.bool_]) -> Int32:
    """The fewest tokens from each state to a complete one: every round looks one token further."""
    found: Int32 = np.where(is_complete, 0, UNREACHABLE).astype(np.int32)
    while True:
        nearer: Int32 = np.minimum(found, found[next_state].min(axis=1) + 1)
        nearer[DEAD] = UNREACHABLE
        if (nearer == found).all():
            return nearer
        found = nearer
