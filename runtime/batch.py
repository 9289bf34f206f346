"""One step's ragged input: who computes which tokens, and where their KV goes.

Owns the arrays of a step (numpy, FlashInfer's names). Built from grants; knows neither queues nor
tensors, so that every executor, the fake one of the tests included, reads the same thing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence as List
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from runtime.sequence import Sequence

Int32 = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Grant:
    """`num_tokens` tokens from `start` on, given to a sequence in this step. The last of them are
    the `draft`: guesses of what comes behind the known tokens, which are in this step only.
    """

    sequence: Sequence
    start: int
    num_tokens: int
    draft: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        return self.start + self.num_tokens

    @property
    def samples(self) -> bool:
        """This grant closes the gap of a sequence that wants its next token."""
        known_end = self.end - len(self.draft)
        return self.sequence.wants_sample and known_end == len(self.sequence.tokens)

    @property
    def scored(self) -> range:
        """Indices of the tokens whose log-probability this grant's rows give."""
        first = self.sequence.score_from
        if first is None:
            return range(0)
        return range(max(first, self.start + 1), min(self.end + 1, len(self.sequence.tokens)))


@dataclass(frozen=True, slots=True)
class Batch:
    """A ragged batch of `num_tokens` tokens in `num_rows` rows.

    token_ids, positions, slots: [num_tokens]; a slot is page * page_size + offset. qo_indptr:
    [num_rows + 1] rows' borders in the tokens. kv_indptr: [num_rows + 1] their borders in
    kv_indices, the concatenated page tables. last_page_len: [num_rows] slots in use of the last
    page. kv_lens: [num_rows] tokens that a row attends to. sample_at, score_at: indices into the
    tokens whose logits are needed; score_targets: the token ids that are scored there. sampled: the
    grants behind sample_at, in order; one with a draft draws behind each of its tokens, too.
    """

    grants: List[Grant]
    page_size: int
    token_ids: Int32
    positions: Int32
    slots: Int32
    qo_indptr: Int32
    kv_indptr: Int32
    kv_indices: Int32
    last_page_len: Int32
    kv_lens: Int32
    sample_at: Int32
    score_at: Int32
    score_targets: Int32
    sampled: List[Grant] = field(default_factory=list)

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def num_rows(self) -> int:
        return len(self.grants)

    def draws(self) -> Iterator[tuple[Grant, slice]]:
        """The grants that draw, and which of the drawn tokens are theirs."""
        end = 0
        for grant in self.sampled:
            begin, end = end, end + 1 + len(grant.draft)
            yield grant, slice(begin, end)


def build_batch(grants: List[Grant], page_size: int) -> Batch:
    """Lay the grants out as one ragged batch; each sequence has the pages for its grant."""
    token_ids: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    kv_indices: list[int] = []
    sample_at: list[int] = []
    score_at: list[int] = []
    score_targets: list[int] = []
    sampled: list[Grant] = []
    qo_indptr, kv_indptr, kv_lens = [0], [0], []
    for grant in grants:
        sequence, first = grant.sequence, len(token_ids)
        assert len(sequence.pages) * page_size >= grant.end, "a grant has pages for all its tokens"
        token_ids += sequence.tokens[grant.start : grant.end]
        token_ids += grant.draft
        for position in range(grant.start, grant.end):
            positions.append(position)
            page = sequence.pages[position // page_size]
            slots.append(page * page_size + position % page_size)
        kv_indices += sequence.pages[: -(-grant.end // page_size)]
        kv_lens.append(grant.end)
        qo_indptr.append(len(token_ids))
        kv_indptr.append(len(kv_indices))
        for index in grant.scored:
            score_at.append(first + index - 1 - grant.start)
            score_targets.append(sequence.tokens[index])
        if grant.samples:
            sample_at += range(len(token_ids) - 1 - len(grant.draft), len(token_ids))
            sampled.append(grant)
    lens = np.asarray(kv_lens, dtype=np.int32)
    return Batch(
        grants=grants,
        page_size=page_size,
        token_ids=np.asarray(token_ids, dtype=np.int32),
        positions=np.asarray(positions, dtype=np.int32),
        slots=np.asarray(slots, dtype=np.int32),
        qo_indptr=np.asarray(qo_indptr, dtype=np.int32),
        kv_indptr=np.asarray(kv_indptr, dtype=np.int32),
        kv_indices=np.asarray(kv_indices, dtype=np.int32),
        last_page_len=(lens - 1) % page_size + 1,
        kv_lens=lens,
        sample_at=np.asarray(sample_at, dtype=np.int32),
        score_at=np.asarray(score_at, dtype=np.int32),
        score_targets=np.asarray(score_targets, dtype=np.int32),
        sampled=sampled,
    )
