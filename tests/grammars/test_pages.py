"""Arrays whose memory comes page by page."""

from __future__ import annotations

import multiprocessing

import numpy as np

from grammars.pages import int32_zeros


def test_it_is_an_array_of_zeros() -> None:
    made = int32_zeros(1_000, 256)
    assert made.dtype == np.int32 and made.shape == (1_000, 256)
    assert not made.any()
    made[3] = 7
    assert made.sum() == 7 * 256
    assert int32_zeros(0, 4).shape == (0, 4)


def test_a_fork_has_its_own() -> None:
    made = int32_zeros(4, 4)
    process = multiprocessing.get_context("fork").Process(target=made.fill, args=(1,))
    process.start()
    process.join()
    assert process.exitcode == 0 and not made.any()
