"""The runtime's options: what is refused, and in which words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime import Runtime
from runtime.config import RuntimeConfig, config_from, num_pages
from sgdsl.errors import UsageError

COUNTS = ["page_size", "max_running", "token_budget", "kv_bytes", "max_in_flight", "context_len"]
OPTIONAL = COUNTS[3:]


@pytest.mark.parametrize("value", ["16", "4GB", 1.5, 2.0, True, False, 0, -5, [1], b"1"])
@pytest.mark.parametrize("name", COUNTS)
def test_a_count_is_a_whole_number_of_at_least_1(name: str, value: object) -> None:
    with pytest.raises(UsageError) as caught:
        config_from({name: value})
    assert str(caught.value) == f"{name}={value!r}: it must be a whole number, at least 1" + (
        ", or None" if name in OPTIONAL else ""
    )


@pytest.mark.parametrize("name", COUNTS)
def test_none_is_for_what_has_a_rule(name: str) -> None:
    if name in OPTIONAL:
        assert getattr(config_from({name: None}), name) is None
    else:
        with pytest.raises(UsageError, match=f"{name}=None: it must be a whole number"):
            config_from({name: None})


@pytest.mark.parametrize("value", ["no", 0, 1, None])
def test_the_prefix_cache_is_on_or_off(value: Any) -> None:
    with pytest.raises(UsageError, match=f"prefix_cache={value!r}: it must be True or False"):
        RuntimeConfig(prefix_cache=value)


def test_a_pool_has_whole_pages_and_at_least_one() -> None:
    assert num_pages(1599, bytes_per_token=100, page_size=8) == 1
    assert num_pages(1600, bytes_per_token=100, page_size=8) == 2
    with pytest.raises(UsageError) as caught:
        num_pages(799, bytes_per_token=100, page_size=8)
    assert str(caught.value) == (
        "kv_bytes=799 is less than one page: page_size=8 tokens of 100 bytes take 800 bytes; give"
        " at least that many, or a smaller page_size"
    )


def test_less_than_a_page_is_refused_by_the_runtime(tiny_llama_path: Path) -> None:
    with pytest.raises(UsageError, match="kv_bytes=1 is less than one page"):
        Runtime(tiny_llama_path, kv_bytes=1)


@pytest.mark.parametrize("kv_bytes", [1 << 60, 1 << 65, 1 << 80])
def test_more_memory_than_there_is_is_refused_by_the_runtime(
    tiny_llama_path: Path, kv_bytes: int
) -> None:
    with pytest.raises(UsageError) as caught:
        Runtime(tiny_llama_path, kv_bytes=kv_bytes)
    message = str(caught.value)
    assert message.startswith(f"kv_bytes={kv_bytes} is more memory than can be had")
    assert "\n" not in message
