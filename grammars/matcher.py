"""One sequence's cursor in a grammar. Owns the budget guarantee.

The matcher never lets a token through from which the text can no longer be completed within
`max_tokens`. It always has a *plan*: the tokens of one completion that fits what remains. A token
is allowed when finishing after it is known to fit too, or when it is the plan's next; so there
always is a way on, whatever is drawn among the allowed tokens. While the budget is ample, it is
enough to know that there is a plan.

It must not know of logits, devices or texts; tokens in, masks out. Not thread-safe itself (one
sequence, one owner); the grammar that it shares is.
"""

from __future__ import annotations

from copy import copy
from typing import Literal, NamedTuple, get_args

import numpy as np

from grammars.errors import GrammarError
from grammars.expr import Expr
from grammars.grammar import Grammar
from grammars.jump_forward import MAX_CONTEXT_BYTES, Tokenize, sure_tokens
from grammars.masks import Mask
from grammars.spelling import UNREACHABLE, Spelling
from grammars.trie import Int32

Stop = Literal["longest", "first"]
"""When a text that satisfies the constraint ends: when a stop token is drawn or nothing can follow,
or as soon as it is complete."""


class _Place(NamedTuple):
    """Where a sequence stands, linked to where it came from: a fork is one reference. `plan`: None
    where it was not needed yet, since any cheapest completion fits.
    """

    node: Expr
    plan: Spelling | None
    stopped: bool
    remaining: int
    before: _Place | None
    written: bytes = b""  # since `before`


class Matcher:
    """Follows one sequence of tokens through `grammar`, for at most `max_tokens` of them.

    `prefix`: bytes that are written already and that the first tokens must reproduce (token
    healing): the language becomes prefix . L, and these tokens count. The stop token does not
    count. With `stop="first"` nothing but a stop token follows a complete text (a token may still
    write beyond the place where the text first was complete). Raises GrammarError when the cheapest
    completion needs more than `max_tokens`.
    """

    def __init__(
        self, grammar: Grammar, *, max_tokens: int, prefix: bytes = b"", stop: Stop = "longest"
    ) -> None:
        if stop not in get_args(Stop):
            raise GrammarError(f"stop={stop!r} is not known; give 'longest' or 'first'")
        self.grammar = grammar
        self._stops_first = stop == "first"
        self._language, node, plan = grammar.begin(prefix)
        if plan.cost >= UNREACHABLE:
            raise GrammarError(
                f"prefix={prefix!r} cannot be written with this vocabulary's tokens; "
                "give bytes that come from its tokens"
            )
        if max_tokens < plan.cost:
            raise GrammarError(
                f"max_tokens={max_tokens!r} is below the {plan.cost} tokens of the shortest known "
                f"output that satisfies the constraint; give at least {plan.cost}"
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
        return 0 if self._place.node.nullable else self._plan().cost

    @property
    def is_complete(self) -> bool:
        """Whether the text so far satisfies the constraint."""
        return self._place.node.nullable

    @property
    def is_terminated(self) -> bool:
        """Whether a stop token was accepted, or the text is complete and nothing can follow, be it
        for the budget.
        """
        place = self._place
        return (place.node.nullable and place.remaining == 0) or self.is_final

    @property
    def is_final(self) -> bool:
        """Whether a stop token was accepted, or the text is complete and nothing can follow at any
        budget.
        """
        node = self._place.node
        return self._is_over or (node.nullable and self._language.is_final(node))

    @property
    def _is_over(self) -> bool:
        """Whether nothing but a stop token may come, whatever the language has."""
        place = self._place
        return place.stopped or (self._stops_first and place.node.nullable)

    @property
    def has_mask(self) -> bool:
        """Whether the mask of the state is at hand, so that it need not be derived."""
        return self._language.has_mask(self._place.node)

    def whole_mask(self) -> Mask | None:
        """The mask of all tokens that are allowed next; None when the budget forbids some of those
        that the language allows, or all that is left is to stop.
        """
        place = self._place
        if self._is_over:
            return None
        return self._language.whole_mask(place.node, place.remaining - 1)

    def fill_bitmask(self, row: Int32) -> None:
        """Sets bit i of `row` for exactly the tokens i that are allowed next. # int32
        [num_words]
        """
        whole = self.whole_mask()
        if whole is not None:
            row[:] = whole.row
            return
        place, stop_row = self._place, self.grammar.vocabulary.stop_row
        if self._is_over:
            row[:] = stop_row
            return
        row[:] = self._affordable_row(place)
        if place.node.nullable:
            row |= stop_row
        elif place.remaining:
            row |= self.grammar.vocabulary.pack([self._sure_plan().token])

    def _affordable_row(self, place: _Place) -> Int32:
        """The tokens after which finishing fits. Those that begin another part are looked at one by
        one: the mask does not know what that part may not be.
        """
        language, vocabulary = self._language, self.grammar.vocabulary
        mask = language.mask(place.node)
        row = mask.affordable_row(place.remaining - 1 - language.excess(place.node))
        if mask.crossing:
            row &= ~vocabulary.pack(mask.crossing)
            row |= vocabulary.pack(language.within(place.node, mask.crossing, place.remaining - 1))
        return row

    def _plan(self) -> Spelling:
        """The plan, which is looked for when it is first needed."""
        place = self._place
        if place.plan is not None:
            return place.plan
        plan = self._language.spelling(place.node)
        self._place = place._replace(plan=plan)
        return plan

    def _sure_plan(self) -> Spelling:
        """The plan, and one that need not become another where that can be found."""
        plan = self._plan()
        if not plan.is_sure:
            found = self._language.settled(self._place.node)
            if found.is_sure and found.cost <= self._place.remaining:
                self._place = self._place._replace(plan=found)
                return found
        return plan

    @property
    def num_allowed(self) -> int:
        """How many tokens are allowed next, stop tokens included."""
        whole = self.whole_mask()
        return len(self.allowed_token_ids()) if whole is None else whole.num_allowed

    def allowed_token_ids(self) -> Int32:
        """The ids of the tokens that are allowed next, ascending. # int32 [num_allowed]"""
        whole = self.whole_mask()
        if whole is not None:
            return whole.token_ids
        row = np.zeros(self.grammar.vocabulary.num_words, dtype=np.int32)
        self.fill_bitmask(row)
        return self.grammar.vocabulary.unpack(row)

    def allows(self, token_id: int) -> bool:
        """Whether `fill_bitmask` would set this token's bit."""
        whole = self.whole_mask()
        if whole is not None:
            row = whole.row
        else:
            row = np.zeros(self.grammar.vocabulary.num_words, dtype=np.int32)
            self.fill_bitmask(row)
        return bool(row.view(np.uint32)[token_id // 32] >> (token_id % 32) & 1)

    def complete_part(self, token_id: int) -> tuple[bytes, bool]:
        """Of a token that is not allowed: the most of its first bytes after which the text is
        complete, and whether it is only the budget that refuses the whole of it.
        """
        data = self.grammar.vocabulary.token_bytes(token_id)
        if not data or self._is_over:
            return b"", False
        size, goes_on = self._language.last_complete(self._place.node, data)
        return data[:size], goes_on

    def accept_token(self, token_id: int) -> None:
        """Moves on by a token that the last mask allowed."""
        place = self._place
        assert not place.stopped, "nothing follows a stop token"
        if token_id in self.grammar.vocabulary.eos_token_ids:
            assert place.node.nullable, f"stop token {token_id} before the text is complete"
            self._place = place._replace(stopped=True, before=place, written=b"")
            return
        assert place.remaining > 0, f"token {token_id} is beyond the budget of max_tokens"
        assert not self._is_over, "only a stop token follows the first complete text"
        data = self.grammar.vocabulary.token_bytes(token_id)
        assert data is not None, f"token {token_id} is never allowed inside a constraint"
        remaining = place.remaining - 1
        node, plan = self._language.advance(place.node, data, remaining)
        if plan is not None:
            plan = self._fitting(node, plan, token_id, data)
            assert plan.cost <= remaining, f"token {token_id} was not allowed by the mask"
        self._place = _Place(node, plan, False, remaining, self._place, data)

    def _fitting(self, node: Expr, plan: Spelling, token_id: int, data: bytes) -> Spelling:
        """The cheapest completion at hand after a token that leads to `node`; one that fits where
        `plan` does not.
        """
        before, remaining = self._plan(), self._place.remaining - 1
        planned = before.after if token_id == before.token else None
        if planned is not None and planned.is_sure and planned.cost < plan.cost:
            plan = planned
        if plan.cost > remaining and not plan.is_sure:
            plan = self._language.settled(node)
        if plan.cost > remaining:
            plan = self._language.completion_after(self._place.node, data)
        return plan

    def accept_bytes(self, data: bytes) -> None:
        """Moves on by text that the caller knows. It counts as the fewest tokens that write it, and
        `rollback` takes it back as one.

        Raises GrammarError, and stays where it is, when the constraint does not allow the text, or
        the budget does not allow what must follow it.
        """
        place = self._place
        if not data:
            return
        found = None if self._is_over else self._language.after(place.node, data)
        if found is None:
            raise GrammarError(
                f"data={data!r:.80} is not allowed here by the constraint; give what it allows"
            )
        node, plan = found
        planned = _behind(self._plan(), data)
        if planned is not None and planned.is_sure and planned.cost < plan.cost:
            plan = planned
        cost = self._language.spell(data).cost
        if cost + plan.cost > place.remaining and not plan.is_sure:
            plan = self._language.settled(node)
        if cost + plan.cost > place.remaining:
            raise GrammarError(
                f"data={data!r:.80} takes {_tokens(cost)}, and the shortest known completion after "
                f"it {_tokens(plan.cost)}, but only {place.remaining} remain of max_tokens; give a "
                "larger max_tokens"
            )
        self._place = _Place(node, plan, False, place.remaining - cost, self._place, data)

    def forced_bytes(self) -> bytes:
        """The bytes with which every text that may follow begins (up to 4,096 of them)."""
        return b"" if self._is_over else self._language.forced(self._place.node)

    def jump_forward(self, tokenize: Tokenize, *, before: bytes = b"") -> list[int]:
        """The tokens that may be appended without a draw, since the constraint forces their text.

        They are the tokens that `tokenize` makes of the finished text, whatever follows them, and
        they fit the budget; the caller accepts them one by one. `before` is what stands before the
        matcher's own text, its prefix included: the more of it, the surer the first border.
        Nothing is returned when `tokenize` changes text, or the draws so far leave no border here.
        """
        forced = self.forced_bytes()
        if not forced:
            return []
        node = self._place.node
        after = self._language.after(node, forced)
        assert after is not None, "what is forced can be completed"
        found = sure_tokens(
            self._known(before),
            forced,
            tokenize=tokenize,
            vocabulary=self.grammar.vocabulary,
            exceeding=lambda text: self._language.exceeding(after[0], text),
        )
        return self._allowed(found)

    def _known(self, before: bytes) -> bytes:
        """The end of what stands here by now, enough of it for a jump."""
        parts: list[bytes] = []
        size, place = 0, self._place
        while place.before is not None and size <= MAX_CONTEXT_BYTES:
            parts.append(place.written)
            size += len(place.written)
            place = place.before
        if place.before is None:
            parts.append(before)
        return b"".join(reversed(parts))

    def _allowed(self, token_ids: list[int]) -> list[int]:
        """The first of these tokens, up to one that the mask at its place leaves out: after it a
        completion would not be known to fit.
        """
        ahead = self.fork()
        for count, token_id in enumerate(token_ids):
            if not ahead.allows(token_id):
                return token_ids[:count]
            ahead.accept_token(token_id)
        return token_ids

    def rollback(self, num_tokens: int) -> None:
        """Takes the last `num_tokens` accepted tokens back (a stop token is one)."""
        for _ in range(num_tokens):
            before = self._place.before
            assert before is not None, "no more tokens are taken back than were accepted"
            self._place = before

    def fork(self) -> Matcher:
        """Another cursor at the same place; costs one small object."""
        return copy(self)


def _behind(plan: Spelling, data: bytes) -> Spelling | None:
    """What the plan goes on with after these bytes; None when it begins with others."""
    cell = plan
    for byte in data:
        if cell.rest is None or cell.byte != byte:
            return None
        cell = cell.rest
    return cell


def _tokens(count: int) -> str:
    """A number of tokens, in words."""
    return "more tokens than there are" if count >= UNREACHABLE else f"{count} tokens"
