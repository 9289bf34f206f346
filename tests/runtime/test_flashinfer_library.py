"""FlashInfer where it is not installed."""

from __future__ import annotations

import sys

import pytest

from runtime.flashinfer_library import flashinfer
from sgdsl.errors import UsageError


def test_a_library_that_is_not_there_is_said_to_be_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "flashinfer", None)
    with pytest.raises(UsageError, match=r"FlashInfer, which is not installed.*sgdsl\[gpu\]"):
        flashinfer()
