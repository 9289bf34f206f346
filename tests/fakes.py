"""A fake executor that obeys the protocol and forgives nothing.

Its KV slots hold the hash of the prefix that they complete; a token's hash follows from the hash in
the slot before it and the token. So a wrong page, slot, position or stale KV is a wrong hash, and a
wrong hash is a wrong token: whatever the bookkeeping gets wrong shows in the output.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from runtime.batch import Batch
from runtime.cache.copies import Copy
from runtime.cache.rates import Rates
from runtime.executor.base import Pending
from runtime.foresight import Ahead, Usage
from runtime.sampling.request import Sampled, SampleRequest, SampleRow, Top
from sgdsl.seeds import mix

UNWRITTEN = 0xDEAD
_SPREAD = 4.0


def extend_hash(prefix: int, token: int) -> int:
    """The hash of a prefix and one more token; the empty prefix has hash 0."""
    return mix(prefix ^ (token + 1) * 0x9E3779B97F4A7C15)


def hash_logits(prefix: int, vocab_size: int) -> NDArray[np.float64]:
    """The fake model: logits of the token after a prefix with this hash. [vocab_size]"""
    with np.errstate(over="ignore"):
        mixed = (np.arange(1, vocab_size + 1, dtype=np.uint64) * np.uint64(0xD1342543DE82EF95)) ^ (
            np.uint64(prefix)
        )
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        mixed ^= mixed >> np.uint64(32)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53 * _SPREAD


def log_softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    shifted = logits - logits.max()
    total: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum())
    return total


def draw(logits: NDArray[np.float64], row: SampleRow) -> int:
    """Greedy, or the inverse of the cumulative distribution; no other parameter is known here."""
    if row.temperature == 0.0:
        return int(logits.argmax())
    weights = np.exp(log_softmax(logits / row.temperature))
    cumulative = weights.cumsum()
    place = int(np.searchsorted(cumulative, row.draw * cumulative[-1], side="right"))
    return min(place, int(np.flatnonzero(weights)[-1]))


class Hope(Usage):
    """Lets everyone in as if nobody needed a page more, so that pages run out."""

    def expected(self, ahead: Ahead, num_known: int) -> tuple[int, int]:
        return -num_known, 0


class Fickle(Rates):
    """Every other time that it is asked, to copy a page back does not pay."""

    def __init__(self) -> None:
        super().__init__()
        self._asked = 0

    @property
    def copying_pays(self) -> bool:
        self._asked += 1
        return self._asked % 2 == 1


LOOP = 11
"""Tokens that a parrot says over and over."""


def parrot_logits(tokens: list[int], vocab_size: int) -> NDArray[np.float64]:
    """A fake model that mostly goes on as it went on before, so that guesses come true: behind each
    token one of a few others is likely, behind some of them by less than chance. [vocab_size]
    """
    prefix = 0
    for token in tokens:
        prefix = extend_hash(prefix, token)
    return _parroted(prefix, tokens[-1], vocab_size)


def _parroted(prefix: int, last: int, vocab_size: int) -> NDArray[np.float64]:
    logits = hash_logits(prefix, vocab_size)
    logits[vocab_size // 2 + last * 7 % LOOP] += 0.5 * _SPREAD + (prefix % 4 > 0) * 2 * _SPREAD
    return logits


class HashExecutor:
    """An `Executor` of `num_slots` slots in pages of `page_size`. `log` keeps the number of tokens
    of every step. One of more than `memory` tokens does not fit, which it says when it has done
    half of its work.
    """

    overlaps = False

    def __init__(self, *, vocab_size: int, num_slots: int, page_size: int) -> None:
        self.vocab_size = vocab_size
        self.page_size = page_size
        self.slots: list[int] = [UNWRITTEN] * num_slots
        self.log: list[int] = []
        self.memory: int | None = None

    def copy(self, copies: Sequence[Copy]) -> None:
        for copy in copies:
            for index in range(copy.num_slots):
                found = self.slots[copy.source * self.page_size + index]
                assert found != UNWRITTEN, "only computed slots are copied"
                self.slots[copy.target * self.page_size + index] = found

    def forward(self, batch: Batch) -> list[int]:
        """Writes the slots; returns the hash at every token of the batch."""
        hashes = self.compute(batch)
        self.check_memory(batch)
        return hashes

    def check_memory(self, batch: Batch) -> None:
        if self.memory is not None and batch.num_tokens > self.memory:
            raise MemoryError(f"{batch.num_tokens} tokens")

    def compute(self, batch: Batch) -> list[int]:
        """The same, with memory for it."""
        self.log.append(batch.num_tokens)
        hashes: list[int] = []
        for row in range(batch.num_rows):
            if row in batch.trees:
                hashes += self._tree(batch, row)
                continue
            pages = batch.kv_indices[batch.kv_indptr[row] : batch.kv_indptr[row + 1]].tolist()
            for index in range(batch.qo_indptr[row], batch.qo_indptr[row + 1]):
                position = int(batch.positions[index])
                before = self._read(pages, position - 1, batch.page_size) if position else 0
                slot = pages[position // batch.page_size] * batch.page_size
                slot += position % batch.page_size
                assert slot == batch.slots[index], "slots and page tables say the same"
                self.slots[slot] = extend_hash(before, int(batch.token_ids[index]))
                hashes.append(self.slots[slot])
            assert batch.kv_lens[row] == position + 1, "a row attends up to its last token"
            used = (int(batch.kv_lens[row]) - 1) % batch.page_size + 1
            assert used == batch.last_page_len[row], "last_page_len follows from kv_lens"
        return hashes

    def logits(self, prefix: int) -> NDArray[np.float64]:
        """Of the token after a prefix with this hash. [vocab_size]"""
        return hash_logits(prefix, self.vocab_size)

    def _tree(self, batch: Batch, row: int) -> list[int]:
        """A row whose tokens follow those that its tree says; what is stored is stored at the end,
        since tokens attend to the pages as they were.
        """
        pages = batch.kv_indices[batch.kv_indptr[row] : batch.kv_indptr[row + 1]].tolist()
        begin, end = int(batch.qo_indptr[row]), int(batch.qo_indptr[row + 1])
        hashes: list[int] = []
        for index, parent in zip(range(begin, end), batch.trees[row].tolist(), strict=True):
            position = int(batch.positions[index])
            assert parent < len(hashes), "a token comes behind the one that it follows"
            if parent >= 0:
                assert position == batch.positions[begin + parent] + 1, "positions follow the tree"
                before = hashes[parent]
            else:
                assert position <= batch.kv_lens[row], "a row's pages hold what its tokens follow"
                before = self._read(pages, position - 1, batch.page_size) if position else 0
            hashes.append(extend_hash(before, int(batch.token_ids[index])))
        for index, found in zip(range(begin, end), hashes, strict=True):
            if batch.slots[index] >= 0:
                place = batch.positions[index] % batch.page_size
                assert batch.slots[index] % batch.page_size == place, "a slot is a position's"
                self.slots[batch.slots[index]] = found
        return hashes

    def _read(self, pages: list[int], position: int, page_size: int) -> int:
        found = self.slots[pages[position // page_size] * page_size + position % page_size]
        assert found != UNWRITTEN, "only computed slots are read"
        return found

    def sample(self, hidden: list[int], batch: Batch, request: SampleRequest) -> Sampled:
        tokens, logprobs, tops = [], [], []
        for index, row in enumerate(request.rows):
            logits = self.logits(hidden[batch.sample_at[index]])
            known = log_softmax(logits)
            if request.bitmask is not None:
                bits = np.unpackbits(request.bitmask[index].view(np.uint8), bitorder="little")
                logits[bits[: self.vocab_size] == 0] = -np.inf
            tokens.append(draw(logits, row))
            logprobs.append(float(known[tokens[-1]]) if row.wants_logprob else 0.0)
            tops.append(likeliest(known, row.num_top))
        scores, score_tops = [], []
        nums = request.score_tops or [0] * len(batch.score_at)
        targets = np.split(batch.score_targets, batch.score_indptr[1:-1])
        for at, here, num in zip(batch.score_at, targets, nums, strict=False):
            known = log_softmax(self.logits(hidden[at]))
            scores += known[here].tolist()
            score_tops.append(likeliest(known, num))
        return Sampled(tokens, logprobs, scores, tops, score_tops)


class OverlappingExecutor(HashExecutor):
    """The same as a device does it: all that is asked for is done as late as can be, in order, when
    the tokens of a step are read. Until then nobody has seen them: a row that goes on behind one is
    given its token here.

    `calls` keeps what was asked for, in order; "read" is where the host waits.
    """

    overlaps = True

    def __init__(self, *, vocab_size: int, num_slots: int, page_size: int) -> None:
        super().__init__(vocab_size=vocab_size, num_slots=num_slots, page_size=page_size)
        self.calls: list[str] = []
        self._work: deque[Callable[[], None]] = deque()
        self._drawn: Sequence[int] = ()  # by the last step

    def copy(self, copies: Sequence[Copy]) -> None:
        copies = list(copies)
        self._work.append(lambda: super(OverlappingExecutor, self).copy(copies))

    def forward(self, batch: Batch) -> list[int]:
        self.calls.append("forward")
        hashes: list[int] = []

        def carry_out() -> None:
            ids = [token if token >= 0 else self._drawn[-1 - token] for token in batch.token_ids]
            known = np.maximum(np.asarray(ids, dtype=np.int32), 0)  # none was drawn: not wanted
            hashes.extend(self.compute(replace(batch, token_ids=known)))

        self._work.append(carry_out)
        self.check_memory(batch)
        return hashes

    def sample(  # type: ignore[override] # the others are done at once
        self, hidden: list[int], batch: Batch, request: SampleRequest
    ) -> Pending:
        self.calls.append("sample")
        bitmask = None if request.bitmask is None else request.bitmask.copy()
        request, later = replace(request, bitmask=bitmask), Later(self)

        def draw() -> None:
            later.sampled = HashExecutor.sample(self, hidden, batch, request)
            self._drawn = later.sampled.tokens

        self._work.append(draw)
        return later

    def work_until(self, later: Later) -> Sampled:
        self.calls.append("read")
        while later.sampled is None:
            self._work.popleft()()
        return later.sampled


@dataclass
class Later:
    """What a step draws, which is drawn when it is read."""

    executor: OverlappingExecutor
    sampled: Sampled | None = None

    def read(self) -> Sampled:
        assert self.sampled is None, "it is read once, before what comes behind it"
        return self.executor.work_until(self)


class ParrotExecutor(HashExecutor):
    """The same around `parrot_logits`."""

    def __init__(self, *, vocab_size: int, num_slots: int, page_size: int) -> None:
        super().__init__(vocab_size=vocab_size, num_slots=num_slots, page_size=page_size)
        self._last: dict[int, int] = {}  # token of each prefix, by its hash

    def forward(self, batch: Batch) -> list[int]:
        hashes = super().forward(batch)
        self._last.update(zip(hashes, batch.token_ids.tolist(), strict=True))
        return hashes

    def logits(self, prefix: int) -> NDArray[np.float64]:
        return _parroted(prefix, self._last[prefix], self.vocab_size)


def likeliest(logprobs: NDArray[np.float64], num: int) -> Top:
    """The `num` likeliest tokens with their log-probabilities."""
    order = np.argsort(-logprobs, kind="stable")[:num].tolist()
    return [(float(logprobs[token]), token) for token in order]
