"""This CPU as a machine of the simulation: what it takes for steps of known shapes.

Owns the shapes that are measured, and the fit. A step's time is a line between measured numbers of
tokens, plus a price for each slot and each pair that attention reads. All times are CPU time of one
thread, so that a busy machine disturbs them little.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.simulation.costs import Work, work_of
from runtime.batch import Batch, Grant, build_batch
from runtime.executor.runner import ModelRunner
from runtime.sequence import Sequence

KNOTS = (1, 4, 16, 32, 64, 128, 256, 512)
"""Numbers of tokens; in between the time of a step is a line."""

HEAD_ROWS = (1, 4, 16, 64)
HEAD_SHARES = (800, 50, 8)
"""Of the vocabulary, one token in so many."""
ROUNDS = 5
PREFIX_LEN = 384
"""Tokens that rows share where they share any, in whole pages."""

NUM_PAGES = 4096
"""Pages that are enough for what is measured."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Calibrated:
    """The prices of this CPU, in seconds. weights: of `features`; head: at HEAD_ROWS; columns: a
    constant, and for each token whose logits are computed.
    """

    weights: Floats
    head: Floats
    columns: Floats
    pool_tokens: int

    def layers_s(self, work: Work) -> float:
        return float(features(work) @ self.weights)

    def head_s(self, num_rows: int, num_columns: int = 0) -> float:
        full = float(np.interp(num_rows, HEAD_ROWS, self.head)) if num_rows else 0.0
        return full + (float(self.columns @ (1.0, num_columns)) if num_columns else 0.0)


def features(work: Work) -> Floats:
    """How near the work is to each of KNOTS; then slots read for one row, slots read for several,
    those times these rows, and pairs.
    """
    at = np.interp(work.num_tokens, KNOTS, np.arange(len(KNOTS)))
    near = np.clip(1 - np.abs(np.arange(len(KNOTS)) - at), 0, 1)
    shared = work.shared_slots
    return np.array([*near, work.own_slots, shared, shared * work.num_decodes, work.pairs])


def calibrate(runner: ModelRunner, *, page_size: int, num_pages: int) -> Calibrated:
    """`runner` computes on a pool of `num_pages`, of which nothing that it holds is needed."""
    assert num_pages >= NUM_PAGES, "the pool has room for what is measured"
    model, rows, times = runner._model, [], []  # noqa: SLF001 - its parts are measured
    for batch in _shapes(page_size):
        rows.append(features(work_of(batch)))
        times.append(_typical(lambda batch=batch: runner.forward(batch)))  # type: ignore[misc]
    hidden = runner.forward(_batch([(0, 1)] * max(HEAD_ROWS), page_size=page_size))
    with torch.inference_mode():
        head = [_typical(lambda n=n: model.logits(hidden[:n])) for n in HEAD_ROWS]  # type: ignore[misc]
        some = hidden[:16]
        num_columns = [model.shape.vocab_size // share for share in HEAD_SHARES]
        columns = [
            _typical(lambda n=n: model.logits(some, torch.arange(n)))  # type: ignore[misc]
            for n in num_columns
        ]
    narrow = np.stack([np.ones(len(num_columns)), np.array(num_columns)], axis=1)
    return Calibrated(
        weights=fit(np.array(rows), np.array(times)),
        head=np.array(head),
        columns=np.linalg.lstsq(narrow, np.array(columns), rcond=None)[0],
        pool_tokens=num_pages * page_size,
    )


def _batch(rows: list[tuple[int, int]], *, page_size: int, num_shared: int = 0) -> Batch:
    """rows: tokens that are there, tokens that come; the first `num_shared` pages are the same."""
    shared, following = list(range(num_shared)), num_shared
    grants = []
    for num_there, num_new in rows:
        sequence = Sequence([1] * (num_there + num_new))
        sequence.want_sample()
        num_own = -(-(num_there + num_new) // page_size) - num_shared
        sequence.pages = shared + list(range(following, following + num_own))
        following += num_own
        grants.append(Grant(sequence, num_there, num_new))
    return build_batch(grants, page_size)


def _shapes(page_size: int) -> Iterator[Batch]:
    """Decodes of several lengths, with and without a common prefix; prefills; both together."""
    batch = partial(_batch, page_size=page_size)
    for num_rows in (1, 4, 16, 32, 64):
        for length in (48, 400, 800):
            yield batch([(length, 1)] * num_rows)
        for own in (32, 200):
            if num_rows > 1:
                yield batch([(PREFIX_LEN + own, 1)] * num_rows, num_shared=PREFIX_LEN // page_size)
    for there in (0, 384):
        for new in (4, 16, 32, 64, 128, 256, 512):
            yield batch([(there, new)])
    for new in (32, 64, 128):
        yield batch([(0, new)] * 4)
        yield batch([(384, new)] * 4)
        yield batch([(384, 1)] * 16 + [(384, new)])
        yield batch([(384, 1)] * 48 + [(384, new)])


def _typical(call: Callable[[], object]) -> float:
    """CPU seconds of this thread, the median of some rounds: what is predicted is not the best
    case.
    """
    times = []
    for _ in range(ROUNDS):
        began = time.thread_time()
        call()
        times.append(time.thread_time() - began)
    return float(np.median(times))


def fit(rows: Floats, times: Floats) -> Floats:
    """Prices of at least 0 with the least relative error: features that would have a negative one
    are left out, the most negative first.
    """
    used = list(range(rows.shape[1]))
    while True:
        scaled = rows[:, used] / times[:, None]
        found = np.linalg.lstsq(scaled, np.ones(len(times)), rcond=None)[0]
        if found.min() >= 0:
            break
        used.pop(int(found.argmin()))
    weights = np.zeros(rows.shape[1])
    weights[used] = found
    return weights
