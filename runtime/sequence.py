"""A sequence: known tokens, and how many of them are computed.

Owns one branch's token stream as the engine sees it. The programs write the tokens, the scheduler
writes the computed count and the pages; each only through the methods of its half. Knows nothing of
text, models or queues.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from runtime.foresight import Ahead

if TYPE_CHECKING:
    from runtime.cache.nodes import PageNode
    from runtime.token_tree import TokenTree

_sequence_ids = itertools.count()


class Sequence:
    """`score_from`: token index from which on the log-probability of every token is wanted (the
    rows before those tokens are computed even if the cache holds them); None when none is.
    `num_top`: so many of the likeliest tokens are wanted there too. `tree`: texts that go on from
    the last token, all of whose log-probabilities are wanted; its nodes are known, and are computed
    in their order behind the tokens. `wants_sample`: when the gap
    closes, the next token is drawn. `group`: the run it belongs to; runs that came later have
    higher ones. `salt`: cached prefixes are those of the same one. `work`: tokens that the run has
    still to compute, where a policy asks. `ahead`: what may come behind the known tokens before the
    sequence parks. `awaits`: the next token was drawn for it, and has not arrived. `next_row`: the
    row of the last step that this token was drawn in, if it is to be computed before anybody has
    seen it: then it counts as known. Else -1.
    """

    __slots__ = (
        "admission",
        "ahead",
        "awaits",
        "cached",
        "computed",
        "counted",
        "displaced",
        "group",
        "id",
        "next_row",
        "nodes",
        "num_top",
        "pages",
        "priority",
        "salt",
        "score_from",
        "stale_from",
        "tokens",
        "tree",
        "wants_sample",
        "work",
    )

    def __init__(
        self,
        tokens: Iterable[int] = (),
        *,
        score_from: int | None = None,
        num_top: int = 0,
        tree: TokenTree | None = None,
    ) -> None:
        self.id = self.group = next(_sequence_ids)
        self.priority = self.work = 0
        self.salt = ""
        self.ahead = Ahead()
        self.tokens: list[int] = list(tokens)
        self.score_from = score_from
        self.num_top = num_top
        self.tree = tree
        self.wants_sample = False
        self.stale_from: int | None = None
        self.awaits = False
        self.next_row = -1
        self.computed = 0
        self.cached = 0  # tokens that the prefix cache gave at the last admission
        self.counted = False  # in the statistics
        self.displaced = 0  # how often it left for others since it was added to the scheduler
        self.admission = -1  # rises with every sequence that the scheduler lets in
        self.pages: list[int] = []
        self.nodes: list[PageNode] = []  # of the leading pages: those that are in the tree, locked

    # The programs' half.

    def append(self, tokens: Iterable[int]) -> None:
        self.tokens.extend(tokens)

    def replace_tail(self, keep: int, tokens: Iterable[int]) -> None:
        """Keep the first `keep` tokens and put `tokens` behind them."""
        assert 0 <= keep <= len(self.tokens), "only known tokens are kept"
        self.tokens[keep:] = tokens
        if keep < self.computed:
            self.lose(keep)

    def want_sample(self) -> None:
        """The next token is to be drawn: the last known one must be computed for it (again)."""
        assert self.next_row < 0, "it is not drawn yet"
        self.wants_sample = True
        if self.valid == len(self.tokens):
            self.stale_from = len(self.tokens) - 1

    def lose(self, keep: int) -> None:
        """Of what is computed, all but the first `keep` tokens is of no use."""
        self.stale_from = keep if self.stale_from is None else min(keep, self.stale_from)
        self.awaits, self.next_row = False, -1

    def arrived(self) -> bool:
        """What was drawn arrives. False if it is not the next token any more: pages were lost."""
        awaited, self.awaits, self.next_row = self.awaits, False, -1
        return awaited

    # What both may read.

    @property
    def num_known(self) -> int:
        known = len(self.tokens) + (self.next_row >= 0)
        return known + (0 if self.tree is None else len(self.tree))

    @property
    def goal(self) -> int:
        """How many tokens are to be computed: all but the last of a scored text, unless what would
        follow it is asked for too.
        """
        return self.num_known - (self.score_from is not None and not self.wants_sample)

    @property
    def gap(self) -> int:
        """Known tokens that are to be computed and are not yet."""
        goal = len(self.tokens)  # inlined, since every step asks every sequence
        if self.score_from is not None and not self.wants_sample:
            goal -= 1
        if self.tree is not None:
            goal += len(self.tree)
        if self.next_row >= 0:
            goal += 1
        return goal - (self.computed if self.stale_from is None else self.valid)

    @property
    def valid(self) -> int:
        """Tokens whose KV exists and still belongs to them."""
        return self.computed if self.stale_from is None else min(self.computed, self.stale_from)

    def targets(self, place: int) -> list[int]:
        """The tokens that are scored behind this one of those that are computed."""
        if self.tree is None:
            return self.tokens[place + 1 : place + 2]
        return self.tree.behind(place - len(self.tokens))

    def num_slots(self, computed: int) -> int:
        """Places in pages that are needed once the first `computed` tokens are. Of a tree that is
        one for each depth of the path that later nodes go on from, and none when all is computed.
        """
        beyond = computed - len(self.tokens)
        if beyond <= 0 or self.tree is None:
            return computed
        if beyond == len(self.tree):
            return len(self.tokens)
        return len(self.tokens) + self.tree.depths[beyond - 1] + 1

    @property
    def max_slots(self) -> int:
        """The most that may be needed for what is known."""
        return len(self.tokens) + (0 if self.tree is None else self.tree.height)

    @property
    def cacheable(self) -> int:
        """How many first tokens may come from the cache; what is sampled or scored may not."""
        last = len(self.tokens) - 1
        return max(0, last if self.score_from is None else min(last, self.score_from - 1))

    def __repr__(self) -> str:
        return f"<sequence {self.id}: {self.num_known} known, {self.computed} computed>"
