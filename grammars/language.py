"""A constraint's language in one vocabulary, derived as it is asked for. Owns the lock around that.

Nothing is built ahead of need: successors, masks and costs are derived on the way and kept. Any
number of threads may ask. It must not know what the constraint was written in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import RLock

from grammars.algebra import Algebra
from grammars.budget import Limits, too_deep_is_over_budget
from grammars.completion import Completions
from grammars.cost_bounds import CostBounds
from grammars.derive import walk
from grammars.expr import Expr
from grammars.forced import exceeding, forced_run
from grammars.mask_store import MaskStore
from grammars.masks import Mask
from grammars.spelling import UNREACHABLE, Spelling
from grammars.trie import Int32

BYTES_PER_STEP = 64
"""Bytes of a text that are judged within one allowance: those of some tokens."""


class Language:
    """The expressions of one lowering of a constraint, from `start` on, and what is known of them.

    What a mask promises holds for as long as its language lives: the cost of a state never changes.
    `needed`: the limits that its compile has needed.
    """

    def __init__(self, start: Expr, *, algebra: Algebra, masks: MaskStore) -> None:
        self.start = start
        self.needed = Limits(0, 0.0, 0)
        self._algebra = algebra
        self._masks = masks
        self._completions = Completions(algebra, masks.vocabulary)
        self._bounds = CostBounds(self._completions)
        self._forced: dict[Expr, bytes] = {}
        self._lock = RLock()

    def __len__(self) -> int:
        """The expressions that were derived by now."""
        return len(self._algebra)

    @property
    def num_bytes(self) -> int:
        """What it keeps, about."""
        return self._algebra.budget.num_bytes

    def is_empty(self) -> bool:
        """Whether no text is in it."""
        with self._step():
            return not self._completions.is_alive(self.start)

    def begin(self, prefix: bytes = b"") -> tuple[Expr, Spelling]:
        """The state before `prefix` and the language, and its cheapest completion."""
        with self._step():
            plan = self._completions.settled(self.start)
            if not prefix:
                return self.start, plan
            node = self._algebra.concat(self._algebra.literal(prefix), self.start)
            whole = self._completions.in_front(prefix, plan)
            return node, min(self._completions.settled(node), whole, key=lambda found: found.cost)

    def settle(self, limits: Limits) -> None:
        """End the compile, of which the cheapest completion is a part: each later step is bounded
        by `limits`.
        """
        budget = self._algebra.budget
        lowered = budget.used
        self.begin()
        self.needed = lowered.covering(budget.used)
        budget.allow(*limits)

    def advance(self, node: Expr, data: bytes, cost: int) -> tuple[Expr, Spelling | None]:
        """The state after the bytes of a token, and its cheapest completion; None for that where
        it is sure to cost at most `cost`.
        """
        with self._step():
            following = walk(self._algebra, node, data)
            assert self._completions.is_alive(following), f"the token {data!r} is a dead end"
            if not following.notes and self._bounds.bound(following) <= cost:
                return following, None
            return following, self._completions.spelling(following)

    def spelling(self, node: Expr) -> Spelling:
        """The cheapest completion of a state."""
        with self._step():
            return self._completions.spelling(node)

    def after(self, node: Expr, data: bytes) -> tuple[Expr, Spelling] | None:
        """The state after any bytes, and its cheapest completion; None when they lead nowhere."""
        with self._step():
            following = walk(self._algebra, node, data)
            if not self._completions.is_alive(following):
                return None
            return following, self._completions.spelling(following)

    def last_complete(self, node: Expr, data: bytes) -> tuple[int, bool]:
        """How many first bytes of `data` lead to the last complete text on its way, none for none;
        and whether a text that begins with all of it can be written.
        """
        size = 0
        with self._step():
            for count in range(1, len(data) + 1):
                node = walk(self._algebra, node, data[count - 1 : count])
                if not self._completions.is_alive(node):
                    return size, False
                if node.nullable:
                    size = count
            return size, self._completions.cost(node) < UNREACHABLE

    def forced(self, node: Expr) -> bytes:
        """The bytes with which every text that may follow begins (up to a bound)."""
        with self._step():
            if node not in self._forced:
                self._forced[node] = forced_run(node, self._completions)
            return self._forced[node]

    def exceeding(self, node: Expr, written: bytes) -> list[int]:
        """Where in `written`, which led to `node`, a token may begin that reaches beyond it."""
        with self._step():
            return exceeding(node, written, self._completions)

    def settled(self, node: Expr) -> Spelling:
        """A completion that can be written as it is, whatever must differ."""
        with self._step():
            return self._completions.settled(node)

    def excess(self, node: Expr) -> int:
        """Tokens that finishing after a token of the mask may take beyond what the mask says."""
        if not node.notes:
            return 0
        with self._step():
            return self._completions.excess(node)

    def completion_after(self, node: Expr, data: bytes) -> Spelling:
        """The completion after a token that the mask of `node` counts on."""
        with self._step():
            return self._masks.completion_after(node, data, self._completions)

    def mask(self, node: Expr) -> Mask:
        """The mask of a state; a few microseconds when it is known, milliseconds when it is not.

        Raises CompileBudgetError when deriving it costs more than one step may.
        """
        found = self._masks.known(node)
        if found is None or found.is_bounded:
            with self._step():
                found = self._masks.mask(node, self._completions)
        return found

    def has_mask(self, node: Expr) -> bool:
        """Whether a mask of the state is known."""
        return self._masks.known(node) is not None

    def whole_mask(self, node: Expr, cost: int) -> Mask | None:
        """The mask of a state, where finishing costs at most `cost` after any of its tokens. Raises
        as `mask` does.
        """
        found = self._masks.known(node) or self._bounded(node)
        excess = self.excess(node)
        if found.is_bounded and found.dearest + excess > cost:
            found = self.mask(node)
        return found if found.dearest + excess <= cost else None

    def _bounded(self, node: Expr) -> Mask:
        with self._step():
            return self._masks.bounded(node, self._completions, self._bounds)

    def within(self, node: Expr, token_ids: Sequence[int], cost: int) -> list[int]:
        """Those of these tokens after which finishing costs at most `cost`, each looked at by
        itself.
        """
        found = []
        for token_id in token_ids:
            with self._step():
                data = self._masks.vocabulary.token_bytes(token_id)
                assert data is not None, "masks are made of tokens that write bytes"
                following = walk(self._algebra, node, data)
                if self._completions.is_alive(following):
                    if self._completions.cost(following) <= cost:
                        found.append(token_id)
        return found

    def successors(self, node: Expr) -> tuple[list[Expr], Int32]:
        """The states after `node`, and which of them each token leads to; see `MaskStore`."""
        with self._step():
            return self._masks.successors(node, self._completions)

    def is_final(self, node: Expr) -> bool:
        """Whether nothing can follow a text that ends here."""
        if node is self._algebra.epsilon:
            return True
        return (self._masks.known(node) or self._bounded(node)).dearest < 0

    def contains(self, data: bytes) -> bool:
        """Whether `data` is a text of it; a step for every so many bytes, as in decoding."""
        here = self.start
        for first in range(0, len(data), BYTES_PER_STEP):
            with self._step():
                here = walk(self._algebra, here, data[first : first + BYTES_PER_STEP])
        return here.nullable

    def spell(self, data: bytes) -> Spelling:
        """The fewest tokens that write `data`."""
        with self._step():
            return self._completions.spell(data)

    @contextmanager
    def _step(self) -> Iterator[None]:
        """One lazy step: alone, and with an allowance of its own."""
        with self._lock, too_deep_is_over_budget(self._algebra.budget):
            self._algebra.budget.refill()
            yield
