"""One `gen` being written: what may come next, when it ends, and what its text is.

Owns the stops and the text of one generation. What may come next is its frontier's business. It is
told tokens; it knows no sequence, batch or model.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from grammars import Matcher
from grammars.search import Search, searched
from runtime.frontier import Frontier, Int32
from runtime.tokenizer import Tokenizer
from sgdsl.errors import UsageError
from sgdsl.graph import Sampling


@dataclass(frozen=True, slots=True)
class Ending:
    """How a generation ended. `kept`: how many of its tokens stand; `residue`: text after those
    that belongs to it too (a stop string began inside a token).
    """

    reason: dict[str, Any]
    text: str
    kept: int
    residue: str = ""
    truncated: bool = False


class Generation:
    """`limit`: tokens that may be written behind `prefix`, the bytes that were taken back from the
    literal before and are spelled again first; `matcher` knows both already.

    A constrained generation ends by its grammar (or complete, at its limit), or before a stop
    string where what it has written by then is complete: elsewhere the string is a part of it. Stop
    tokens and patterns do not concern it.

    Where its frontier is open, an output ends where the model is done with it: by a token that the
    grammar does not allow.
    """

    def __init__(
        self,
        sampling: Sampling,
        tokenizer: Tokenizer,
        *,
        limit: int,
        matcher: Matcher | None,
        prefix: bytes,
    ) -> None:
        self._tokenizer = tokenizer
        self._matcher = matcher
        self._prefix_len = len(prefix)
        self._min_tokens = sampling.min_tokens or 0
        self._stops = sampling.stop or ()
        self._searches: dict[str, Search] = {}
        self._stop_ids = tokenizer.eos_token_ids
        if matcher is None:
            self._searches = {each: Search(searched(each)) for each in sampling.stop_regex or ()}
            eos = frozenset() if sampling.ignore_eos else tokenizer.eos_token_ids
            self._stop_ids = eos.union(sampling.stop_token_ids or ())
        elif sampling.ignore_eos:  # the constraint goes on as long as it can
            self._min_tokens = limit
        self._check_stop_ids()
        self.frontier = Frontier(
            tokenizer,
            matcher=matcher,
            prefix=prefix,
            limit=limit,
            min_tokens=self._min_tokens,
            stop_ids=self._stop_ids,
        )
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._ends: list[int] = []  # bytes up to and including each token, prefix and all
        self._text = ""  # as decoded so far; invalid bytes are lone surrogates
        self._stops_from = 0  # where in the text the first stop string may begin
        self._searched_from = 0  # where the text begins in which patterns are found
        self._num_begun = 0  # bytes before there of a character that the text does not have yet
        self.tokens: list[int] = []
        self.num_forced = 0  # tokens that the constraint left no choice about; whoever draws counts
        self.ending: Ending | None = None
        self._forced: int | None = None  # the only token that may come
        self._knows_forced = False

    def _check_stop_ids(self) -> None:
        size = len(self._tokenizer.token_bytes)
        for token in self._stop_ids:
            if not 0 <= token < size:
                raise UsageError(
                    f"stop_token_ids has {token}, but this model's tokens are 0 to {size - 1}; "
                    "give ids within them"
                )

    @property
    def text(self) -> str:
        """What can be shown already: whole characters, and no beginning of a stop string."""
        shown = len(self._text)
        for stop in self._stops:
            for size in range(min(len(stop), shown), 0, -1):
                if self._text.endswith(stop[:size]):
                    shown = min(shown, len(self._text) - size)
                    break
        if self._searches:
            start, text = self._searched_from, self._text[self._searched_from :]
            shown = min(shown, *(start + s.num_settled(text) for s in self._searches.values()))
        return _displayed(self._text[:shown])

    @property
    def num_healed(self) -> int:
        """How many of the tokens, the first ones, only spell the literal before again."""
        return len(self.tokens) - self.frontier.num_written

    @property
    def matcher(self) -> Matcher | None:
        """Where the sequence stands in its constraint."""
        return self._matcher

    @property
    def is_masked(self) -> bool:
        """Whether some tokens may not come next."""
        return self.frontier.is_masked

    def narrow(self, row: Int32) -> None:
        """What the matcher filled, or all bits, without what may not come for other reasons."""
        self.frontier.narrow(row)

    @property
    def forced_token(self) -> int | None:
        """The only token that may come next, where the constraint leaves but one."""
        if not self._knows_forced:
            self._forced = None if self.ending is not None else self.frontier.forced_token()
            self._knows_forced = True
        return self._forced

    def accept(self, token: int) -> None:
        """The token that was sampled; sets `ending` when it is the last."""
        assert self.ending is None, "nothing follows the end"
        self._knows_forced = False
        frontier = self.frontier
        if token in self._stop_ids and not frontier.is_healing:
            self._end({"type": "stop", "matched": token}, kept=len(self.tokens))
            return
        matcher = self._matcher
        if matcher is not None and frontier.is_open and not matcher.allows(token):
            self._leave(matcher, token)
            return
        frontier.take(token)
        self._write(token, self._tokenizer.token_bytes[token] or b"")
        if self._cut_at_stop():
            return
        if matcher is not None and matcher.is_final:
            self._end({"type": "stop", "matched": None}, kept=len(self.tokens))
        elif frontier.is_over:
            complete = self._matcher is not None and self._matcher.is_complete
            assert complete or self._matcher is None, "a constrained output ends complete"
            self._end(self._length(), kept=len(self.tokens), truncated=not complete)

    def _leave(self, matcher: Matcher, token: int) -> None:
        """The model goes on with what the constraint does not allow: the output ends here. What is
        complete of the token's own text belongs to it, as the full stop of ".\\n" in one line.
        """
        part, too_dear = matcher.complete_part(token)
        kept = len(self.tokens)
        if part:
            self._write(token, part)
            if self._cut_at_stop():
                return
        reason = self._length() if too_dear else {"type": "stop", "matched": None}
        self._end(reason, kept=kept, residue=part.decode())

    def _length(self) -> dict[str, Any]:
        """The reason of an end by the limit."""
        return {"type": "length", "length": self.frontier.num_written}

    def end_unwritten(self) -> None:
        """Nothing is to be drawn at all, which cuts nothing off."""
        assert self.frontier.num_left == 0, "what may be written is"
        self._end(self._length(), kept=0)

    def _write(self, token: int, data: bytes) -> None:
        """`data`: what stands of the token's bytes."""
        self.tokens.append(token)
        self._ends.append((self._ends[-1] if self._ends else 0) + len(data))
        self._text += self._decoder.decode(self.frontier.wrote(token, data))

    def _cut_at_stop(self) -> bool:
        self._search_behind_min_tokens()
        if self.frontier.num_written < self._min_tokens or not (found := self._found()):
            return False
        at, stop = min(found)
        self._text = self._text[:at]
        size = self._prefix_len + len(self._text.encode("utf-8", "surrogateescape"))
        kept = sum(end <= size for end in self._ends)
        whole = self._ends[kept - 1] if kept else 0
        rest = self._tokenizer.decode(self.tokens)[whole:size].decode("utf-8", "replace")
        self._decoder.reset()
        self._end({"type": "stop", "matched": stop}, kept=kept, residue=rest)
        return True

    def _search_behind_min_tokens(self) -> None:
        """An end begins behind them, at the earliest. A character that begins in them is theirs, as
        soon as it is written, and the bytes that turn out to begin none are, too.
        """
        if self.frontier.num_written <= self._min_tokens:
            self._stops_from = self._searched_from = len(self._text)
            self._num_begun = len(self._decoder.getstate()[0])
        elif self._num_begun and len(self._text) > self._searched_from:
            is_whole = not _is_undecoded(self._text[self._searched_from])
            self._searched_from += 1 if is_whole else self._num_begun
            self._stops_from = self._searched_from
            self._num_begun = 0

    def _found(self) -> list[tuple[int, str]]:
        """The stops that the text has come to: where each begins, and what it is."""
        found: list[tuple[int, str]] = []
        if self._stops:
            start, longest = self._stops_from, max(map(len, self._stops))
            found = [
                (at, stop)
                for stop in self._stops
                for at in self._places(stop, start)
                if self._may_end(at)
            ]
            self._stops_from = max(start, len(self._text) - longest + 1)
        if self._searches:
            text = self._text[self._searched_from :]
            for pattern, search in self._searches.items():
                if (match := search.find(text)) is not None:
                    found.append((self._searched_from + match.start, pattern))
        return found

    def _places(self, stop: str, start: int) -> Iterator[int]:
        """Where in the text, from `start` on, the stop string stands."""
        at = self._text.find(stop, start)
        while at >= 0:
            yield at
            at = self._text.find(stop, at + 1)

    def _may_end(self, at: int) -> bool:
        """Whether the output could end there: unless it is constrained, it could anywhere."""
        if self._matcher is None:
            return True
        language, node, _ = self._matcher.grammar.begin(b"")
        reached = language.after(node, self._text[:at].encode("utf-8", "surrogateescape"))
        assert reached is not None, "what has been written is allowed"
        return reached[0].nullable

    def _end(
        self, reason: dict[str, Any], *, kept: int, residue: str = "", truncated: bool = False
    ) -> None:
        self._text += self._decoder.decode(b"", final=True)
        self.ending = Ending(reason, _displayed(self._text), kept, residue, truncated)


def _is_undecoded(char: str) -> bool:
    """Whether it stands for a byte that is no text."""
    return "\udc80" <= char <= "\udcff"


def _displayed(text: str) -> str:
    """Invalid bytes as the replacement character."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
