"""A fake executor that obeys the protocol and forgives nothing.

Its KV slots hold the hash of the prefix that they complete; a token's hash follows from the hash in
the slot before it and the token. So a wrong page, slot, position or stale KV is a wrong hash, and a
wrong hash is a wrong token: whatever the bookkeeping gets wrong shows in the output.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from runtime.batch import Batch
from runtime.cache.copies import Copy
from runtime.cache.rates import Rates
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


class HashExecutor:
    """An `Executor` of `num_slots` slots in pages of `page_size`. `log` keeps the number of tokens
    of every step. One of more than `memory` tokens does not fit, which it says when it has done
    half of its work.
    """

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
        if self.memory is not None and batch.num_tokens > self.memory:
            raise MemoryError(f"{batch.num_tokens} tokens")
        return hashes

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
            logits = hash_logits(hidden[batch.sample_at[index]], self.vocab_size)
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
            known = log_softmax(hash_logits(hidden[at], self.vocab_size))
            scores += known[here].tolist()
            score_tops.append(likeliest(known, num))
        return Sampled(tokens, logprobs, scores, tops, score_tops)


def likeliest(logprobs: NDArray[np.float64], num: int) -> Top:
    """The `num` likeliest tokens with their log-probabilities."""
    order = np.argsort(-logprobs, kind="stable")[:num].tolist()
    return [(float(logprobs[token]), token) for token in order]
