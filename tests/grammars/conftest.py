"""How much a constraint may cost in these tests."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from grammars import Compiler, compiler


@pytest.fixture(scope="package", autouse=True)
def patient_steps() -> Iterator[None]:
    """A step may take longer than users would wait: how many seconds one takes depends on who else
    uses the machine. How many steps there may be, and the limits that tests set, stay as they are.
    """
    defaults = Compiler.__init__.__kwdefaults__
    assert defaults is not None, "its limits are keywords with defaults"
    before = defaults["max_lazy_seconds"]
    kept = (compiler._byte_compiler, compiler._compiler_of)  # made with the defaults of their time
    defaults["max_lazy_seconds"] = 30.0
    for each in kept:
        each.cache_clear()
    yield
    defaults["max_lazy_seconds"] = before
    for each in kept:
        each.cache_clear()


@pytest.fixture(scope="module", autouse=True)
def own_heap() -> None:
    """What other tests have left is not walked by this module's garbage collections: those would
    take most of the seconds that a step may.
    """
    gc.collect()
    gc.freeze()
