"""The runtime's options: what is refused, and in which words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from runtime import Runtime
from runtime.cache.kv import KVPool
from runtime.config import OPTIONAL, RuntimeConfig, config_from, num_pages
from sgdsl.errors import UsageError

COUNTS = ["page_size", *OPTIONAL]


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


@pytest.mark.parametrize("value", ["LPM", "", None, 1, ["lpm"]])
def test_a_policy_is_one_of_four(value: Any) -> None:
    with pytest.raises(UsageError) as caught:
        RuntimeConfig(policy=value)
    assert str(caught.value) == f"policy={value!r}: it must be one of lpm, dfs, fcfs, sjf"


@pytest.mark.parametrize("value", ["LRU", "fifo", None, 1])
def test_an_eviction_order_is_one_of_two(value: Any) -> None:
    with pytest.raises(UsageError) as caught:
        RuntimeConfig(eviction=value)
    assert str(caught.value) == f"eviction={value!r}: it must be one of 'lfu', 'lru'"


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


@pytest.mark.parametrize("kv_bytes", [None, 1 << 60])
def test_a_pool_that_cannot_be_had_is_a_smaller_one_unless_it_was_asked_for(
    tiny_llama_path: Path, monkeypatch: pytest.MonkeyPatch, kv_bytes: int | None
) -> None:
    asked: list[int] = []

    def allocate(*, num_slots: int, **shape: Any) -> KVPool:
        asked.append(num_slots)
        if num_slots > 2000:
            raise MemoryError
        return KVPool(num_slots=num_slots, **shape)

    monkeypatch.setattr("runtime.executor.build.KVPool", allocate)
    if kv_bytes is not None:
        with pytest.raises(UsageError, match="more memory than can be had"):
            Runtime(tiny_llama_path, kv_bytes=kv_bytes)
        assert len(asked) == 1
        return
    with Runtime(tiny_llama_path) as runtime:
        assert 1000 < asked[-1] <= 2000 < asked[-2]
        assert runtime.num_pages == asked[-1] // 16
        assert re.search(r"KV pool \d+ MiB \([\d,]+ MiB could not be had\) = 1,", runtime.summary)
        assert f"up to {asked[-1] // 128} rows and 512 tokens a step" in runtime.summary


@pytest.mark.parametrize(
    ("options", "pool_tokens", "expected"),
    [
        ({}, 90_000, (64, 512, 128)),
        ({}, 1280, (10, 512, 20)),
        ({}, 16, (1, 512, 2)),
        ({"max_running": 200}, 1280, (200, 1600, 400)),
        ({"max_running": 4, "token_budget": 8}, 90_000, (4, 8, 8)),
        ({"token_budget": 32}, 90_000, (32, 32, 64)),
        ({"max_in_flight": 7}, 90_000, (64, 512, 7)),
        ({"max_waiting": 9}, 90_000, (64, 512, 9)),
    ],
)
def test_sizes_follow_from_the_pool_and_each_can_be_given(
    options: dict[str, int], pool_tokens: int, expected: tuple[int, int, int]
) -> None:
    sizes = config_from(options).sizes(pool_tokens)
    assert (sizes.max_running, sizes.token_budget, sizes.max_in_flight) == expected
