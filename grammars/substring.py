"""Quotations: any contiguous part of a given text. Owns the automaton of its substrings.

A state is what was written so far, as the run of those suffixes of the text that begin with it: two
places in the sorted suffixes and a length. Where only one place is left, the state is that place
alone. The states are made when they are asked for, so a text of a million characters costs its
sorted suffixes and what is visited.

The words' twin, a suffix automaton, has fewer states and takes far more to build in Python: A.
Blumer et al., "The smallest automaton recognizing the subwords of a text", 1985.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from grammars.algebra import Algebra
from grammars.constraint import Constraint
from grammars.derive import arms
from grammars.errors import EmptyLanguageError, GrammarError
from grammars.expr import Expr, Ref
from grammars.json_values import is_text
from grammars.quotable import BETWEEN, Quotable, Unit, quotable

BYTES_PER_STEP = 16
"""Bytes of a text that count as one step of a compile's budget: sorting one takes about 50 ns."""

MANY_SUFFIXES = 512
"""A run of more is bisected: at least two numpy calls a byte, and none over all of the text."""

FREQUENT, FREQUENT_STATES = 32, 16_384
"""What begins more suffixes than this is derived by the compile, up to so many states."""

TRIED_PLACES = 64
"""Places of a state that are looked at for the nearest end."""

TRIED_ENDINGS = 8
"""Endings among which the tokens decide."""


@dataclass(frozen=True)
class Substring(Constraint):
    """Any contiguous part of the text `of`.

    `unit="character"`: it begins and ends between any two characters (code points). "word": it
    neither begins nor ends inside of a word (a run of what `\\w` is) or with white space.
    `min_length` counts units; below 1 the empty text is one of them, too. Raises GrammarError for
    other arguments; the compile raises EmptyLanguageError when nothing is long enough.
    """

    of: str
    min_length: int = 1
    unit: Unit = "character"

    def __post_init__(self) -> None:
        of: object = self.of
        if not isinstance(of, str) or not is_text(of):
            raise GrammarError(f"Substring got of={of!r:.80}; give a str without lone surrogates")
        least: object = self.min_length
        if not isinstance(least, int) or isinstance(least, bool) or least < 0:
            raise GrammarError(f"Substring got min_length={least!r}; give an int of at least 0")
        if self.unit not in ("character", "word"):
            raise GrammarError(f"unit={self.unit!r} is unknown; give 'character' or 'word'")

    def lower(self, algebra: Algebra) -> Expr:
        algebra.budget.spend(len(self.of) // BYTES_PER_STEP)
        places = quotable(self.of, self.unit, self.min_length, algebra.alphabet)
        if len(places.suffixes):
            return _Suffixes(algebra, places, self).start
        if self.min_length == 0:
            return algebra.epsilon
        raise EmptyLanguageError(
            f"Substring has no part of at least {self.min_length} {self.unit}s that the vocabulary "
            f"can write in {self.of!r:.80}; lower min_length"
        )


class _Suffixes:
    """The states; see `expr.Rules`.

    A key is (first, last, length), or the only place where what was written ends, once it is long
    enough: then it does not matter where it began.
    """

    def __init__(self, algebra: Algebra, places: Quotable, quotation: Substring) -> None:
        self._algebra = algebra
        self._places = places
        self._min_length = min_length = quotation.min_length
        self._is_by_character = quotation.unit == "character"
        root = (0, len(places.suffixes), 0)
        self.start = algebra.ref(self, root, nullable=min_length == 0)
        self._derive_frequent()

    def _derive_frequent(self) -> None:
        """Derives the first states of a long text, which nearly every first mask asks for: the
        compile has more room than a step of decoding."""
        pending: deque[Expr] = deque([self.start])
        for _ in range(FREQUENT_STATES):
            if not pending:
                break
            for _, after in arms(self._algebra, pending.popleft()):
                assert isinstance(after, Ref), "every state is a reference"
                if isinstance(after.key, tuple) and after.key[1] - after.key[0] > FREQUENT:
                    pending.append(after)

    def unfold(self, key: Hashable) -> Expr:
        """The state itself, its arms filled in: its partition is known without any operator."""
        node = self._algebra.ref(self, key)
        if isinstance(key, int):
            byte = int(self._places.data[key])
            node.arms = () if byte == BETWEEN else ((1 << byte, self._only(key + 1)),)
        else:
            assert isinstance(key, tuple), "a key is a place or a run of suffixes"
            node.arms = tuple(self._followers(*key))
        return node

    def _only(self, place: int) -> Expr:
        """The state of one place."""
        return self._algebra.ref(self, place, nullable=bool(self._places.is_end[place]))

    def _followers(self, first: int, last: int, length: int) -> list[tuple[int, Expr]]:
        """By next byte, the state after it: the suffixes are sorted, so each is a run."""
        found = []
        for byte, start, stop, may_end in self._runs(first, last, length):
            if byte == BETWEEN:
                continue
            place = int(self._places.suffixes[start]) + length + 1
            if stop - start == 1 and (may_end or self._min_length == 0):
                after = self._only(place)
            else:
                after = self._algebra.ref(self, (start, stop, length + 1), nullable=may_end)
            found.append((1 << byte, after))
        return found

    def _runs(self, first: int, last: int, length: int) -> Iterator[tuple[int, int, int, bool]]:
        """Each next byte, the first and the last of its run, and whether a substring may end after
        it. Few suffixes are looked at all at once, many by bisection.
        """
        if last - first <= MANY_SUFFIXES:
            following = self._places.data[self._places.suffixes[first:last] + np.int32(length)]
            starts = np.flatnonzero(following[1:] != following[:-1]) + 1
            starts = np.concatenate([[0], starts])
            ends = np.logical_or.reduceat(self._may_end(first, last, length + 1), starts)
            stops = [*starts[1:].tolist(), last - first]
            for start, stop, end in zip(starts.tolist(), stops, ends.tolist(), strict=True):
                yield int(following[start]), first + start, first + stop, end
            return
        suffixes, data = self._places.suffixes, self._places.data
        while first < last:
            byte = int(data[suffixes[first] + length])
            at_most = last
            if data[suffixes[last - 1] + length] != byte:
                run = range(first, last)
                at_most = first + bisect_right(run, byte, key=lambda i: data[suffixes[i] + length])
            yield byte, first, at_most, self._may_any_end(first, at_most, length + 1)
            first = at_most

    def _may_end(self, first: int, last: int, length: int) -> NDArray[np.bool_]:
        """For each of these suffixes, whether a substring may end after so many bytes of it."""
        places = self._places
        begins = places.suffixes[first:last]
        here = np.minimum(begins + np.int32(length), len(places.data) - 1)
        may_end: NDArray[np.bool_] = places.is_end[here]
        if self._min_length:
            may_end &= places.units[here] - places.units[begins] >= self._min_length
        return may_end

    def _may_any_end(self, first: int, last: int, length: int) -> bool:
        """Whether any of these may. All have the same text, so one tells for all but words, which
        may go on in one place and end in another.
        """
        if self._may_end(first, first + 1, length)[0]:
            return True
        places = self._places
        begin = places.suffixes[first]
        is_inside_character = 0x80 <= places.data[begin + length] < 0xC0
        counted = places.units[begin + length] - places.units[begin] + 1  # and one may end here
        if self._is_by_character or is_inside_character or counted < self._min_length:
            return False
        size = MANY_SUFFIXES
        while first < last:
            if self._may_end(first, min(first + size, last), length).any():
                return True
            first, size = first + size, 8 * size
        return False

    def least(self, key: Hashable) -> Expr:
        """The nearest ends of a few places."""
        places = self._places
        if isinstance(key, int):
            stop = int(places.ends[np.searchsorted(places.ends, key + 1)])
            return self._algebra.literal(places.data[key:stop].tobytes())
        assert isinstance(key, tuple), "a key is a place or a run of suffixes"
        first, last, length = key
        tried = np.linspace(first, last - 1, min(last - first, TRIED_PLACES)).astype(np.int64)
        begins = np.unique(places.suffixes[tried]).astype(np.int64)
        near = np.searchsorted(places.ends, begins + max(length, 1))
        enough = places.units[begins] + self._min_length
        far = np.searchsorted(places.units[places.ends], enough)
        stops = places.ends[np.maximum(near, far)]
        nearest = np.argsort(stops - begins, kind="stable")[:TRIED_ENDINGS]
        pairs = zip((begins[nearest] + length).tolist(), stops[nearest].tolist(), strict=True)
        return self._algebra.words(places.data[start:stop].tobytes() for start, stop in pairs)
