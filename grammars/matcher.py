"""One sequence's cursor in a grammar. Owns the budget guarantee.

The matcher never lets a token through from which the text can no longer be completed within
`max_tokens`. It always holds a *plan*: the tokens of one completion that fits what remains. A token
is allowed when finishing after it is known to fit too, or when it is the plan's next; so there
always is a way on, whatever is drawn among the allowed tokens.

It must not know of logits, devices or texts; tokens in, masks out. Not thread-safe itself (one
sequence, one owner); the grammar that it shares is.
"""

from __future__ import annotations

from copy import copy
from typing import NamedTuple

import numpy as np

from grammars.completion import UNREACHABLE, Spelling
from grammars.errors import GrammarError
from grammars.expr import Expr
from grammars.grammar import Grammar
from grammars.trie import Int32


class _Place(NamedTuple):
    """Where a sequence stands, linked to where it came from: a fork is one reference."""

    node: Expr
    plan: Spelling
    stopped: bool
    remaining: int
    before: _Place | None


class Matcher:
    """Follows one sequence of tokens through `grammar`, for at most `max_tokens` of them.

    `prefix`: bytes that are written already and that the first tokens must reproduce (token
    healing): the language becomes prefix . L, and these tokens count. The stop token does not
    count. Raises GrammarError when the cheapest completion needs more than `max_tokens`.
    """

    def __init__(self, grammar: Grammar, *, max_tokens: int, prefix: bytes = b"") -> None:
        self.grammar = grammar
        self._language, node, plan = grammar.begin(prefix)
        if plan.cost >= UNREACHABLE:
            raise GrammarError(
                f"prefix={prefix!r} cannot be written with this vocabulary's tokens; "
                "give bytes that come from its tokens"
            )
        if max_tokens < plan.cost:
            raise GrammarError(
                f"max_tokens={max_tokens!r} is below the {plan.cost} tokens of the shortest output "
                f"that satisfies the constraint; give at least {plan.cost}"
            )
        self._place = _Place(node, plan, stopped=False, remaining=max_tokens, before=None)

    @property
    def state(self) -> Expr:
        """The language of what may still be written."""
        return self._place.node

    @property
    def remaining(self) -> int:
        """How many more tokens the sequence may take (the stop token does not count)."""
        return self._place.remaining

    @property
    def min_tokens_to_finish(self) -> int:
        """The tokens of the cheapest completion known; never more than `remaining`."""
        return 0 if self._place.node.nullable else self._place.plan.cost

    @property
    def is_complete(self) -> bool:
        """Whether the text so far satisfies the constraint."""
        return self._place.node.nullable

    @property
    def is_terminated(self) -> bool:
        """Whether a stop token was accepted, or the text is complete and nothing can follow."""
        place = self._place
        if place.stopped:
            return True
        return place.node.nullable and (place.remaining == 0 or self._language.is_final(place.node))

    def fill_bitmask(self, row: Int32) -> None:
        """Sets bit i of `row` for exactly the tokens i that are allowed next. # int32
        [num_words]
        """
        place = self._place
        vocabulary = self.grammar.vocabulary
        if place.stopped:
            row[:] = vocabulary.stop_row
            return
        mask = self._language.mask(place.node)
        if mask.dearest < place.remaining:
            row[:] = mask.row
            return
        row[:] = mask.affordable_row(place.remaining - 1)
        if place.node.nullable:
            row |= vocabulary.stop_row
        elif place.remaining:
            row |= vocabulary.pack([place.plan.token])

    def allows(self, token_id: int) -> bool:
        """Whether `fill_bitmask` would set this token's bit."""
        row = np.zeros(self.grammar.vocabulary.num_words, dtype=np.int32)
        self.fill_bitmask(row)
        return bool(row.view(np.uint32)[token_id // 32] >> (token_id % 32) & 1)

    def accept_token(self, token_id: int) -> None:
        """Moves on by a token that the last mask allowed."""
        place = self._place
        assert not place.stopped, "nothing follows a stop token"
        if token_id in self.grammar.vocabulary.eos_token_ids:
            assert place.node.nullable, f"stop token {token_id} before the text is complete"
            self._place = place._replace(stopped=True, before=place)
            return
        assert place.remaining > 0, f"token {token_id} is beyond the budget of max_tokens"
        data = self.grammar.vocabulary.token_bytes(token_id)
        assert data is not None, f"token {token_id} is never allowed inside a constraint"
        node, own = self._language.advance(place.node, data)
        plan, remaining = place.plan, place.remaining - 1
        if token_id == plan.token and plan.after is not None and plan.after.cost < own.cost:
            own = plan.after
        if own.cost > remaining:
            own = self._language.completion_after(place.node, data)
        assert own.cost <= remaining, f"token {token_id} was not allowed by the mask"
        self._place = _Place(node, own, stopped=False, remaining=remaining, before=place)

    def rollback(self, num_tokens: int) -> None:
        """Takes the last `num_tokens` accepted tokens back (a stop token is one)."""
        for _ in range(num_tokens):
            before = self._place.before
            assert before is not None, "no more tokens are taken back than were accepted"
            self._place = before

    def fork(self) -> Matcher:
        """Another cursor at the same place; costs one small object."""
        return copy(self)
