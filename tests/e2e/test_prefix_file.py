"""What one runtime has cached, the next one finds, and writes the same with it."""

from __future__ import annotations

import logging
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load

import sgdsl as sgl
from runtime import Runtime
from runtime.cache import file
from sgdsl import ProgramState
from sgdsl.backends.remote import RuntimeEndpoint
from sgdsl.errors import BackendError, UsageError
from tests.tiny_llama import HEAD_DIM, NUM_KV_HEADS, NUM_LAYERS, write_tiny_llama

PAGE_BYTES = 16 * NUM_LAYERS * 2 * NUM_KV_HEADS * HEAD_DIM * 4
EXAMPLES = "the license of the work is shared by each contributor of this work " * 6
TEXTS = ["a copy", "the source", "a notice", "each patent"]


@sgl.function
def ask(s: ProgramState, text: str) -> None:
    s += EXAMPLES + text
    s += sgl.gen("x", max_tokens=6, temperature=0.0, ignore_eos=True, return_logprob=True)
    s += " and " + sgl.select("y", ["this", "that"])


Answer = tuple[str, list[float]]


def answers(runtime: Runtime, **options: Any) -> tuple[list[Answer], int]:
    """Texts and log-probabilities of all, and the cached tokens of the first."""
    states = [ask.run(text, backend=runtime, **options) for text in TEXTS]
    found = [
        (state.text(), [each[0] for each in state.get_meta_info("x")["output_token_logprobs"]])
        for state in states
    ]
    return found, states[0].get_meta_info("x")["cached_tokens"]


def check_same(found: list[Answer], expected: list[Answer]) -> None:
    for (text, logprobs), (expected_text, expected_logprobs) in zip(found, expected, strict=True):
        assert text == expected_text
        assert logprobs == pytest.approx(expected_logprobs, abs=1e-4)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "prefixes.safetensors"


Make = Callable[..., Runtime]


@pytest.fixture
def make(path: Path, tiny_llama_path: Path) -> Make:
    def make(model: Path = tiny_llama_path, **options: Any) -> Runtime:
        return Runtime(model, **{"kv_bytes": 200 * PAGE_BYTES, "prefix_file": path, **options})

    return make


@pytest.fixture
def cold(tiny_llama_path: Path) -> list[Answer]:
    with Runtime(tiny_llama_path, kv_bytes=200 * PAGE_BYTES, prefix_cache=False) as runtime:
        return answers(runtime)[0]


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.WARNING, logger="sgdsl.runtime")
    return lambda: [record.getMessage() for record in caplog.records]


Said = Callable[[], list[str]]

OPTIONS: list[dict[str, Any]] = [
    {},
    {"page_size": 4},
    {"eviction": "lru"},
    {"dtype": "int8"},
    {"decoder": "general"},
    {"batch_invariant": True},
    {"host_kv_bytes": 40 * PAGE_BYTES, "kv_bytes": 30 * PAGE_BYTES},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_next_runtime_finds_what_was_cached(
    make: Make, said: Said, options: dict[str, Any]
) -> None:
    with make(**options) as runtime:
        computed, before = answers(runtime)
    with make(**options) as runtime:
        runtime._engine.scheduler.cache.check_integrity()
        found, cached = answers(runtime)
        assert runtime.stats().cached_tokens >= cached
    assert before == 0
    assert cached > 100
    check_same(found, computed)
    if options.get("batch_invariant"):
        assert found == computed, "to the bit"
    assert said() == []


WRITER = """
import sys
from pathlib import Path
from runtime import Runtime
from tests.e2e.test_prefix_file import PAGE_BYTES, answers

with Runtime(sys.argv[1], kv_bytes=200 * PAGE_BYTES, prefix_file=sys.argv[2]) as runtime:
    answers(runtime)
"""

SERVER = """
import signal, sys
from runtime.cli import main

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main())
"""


def test_the_next_process_finds_what_was_cached(
    make: Make, path: Path, tiny_llama_path: Path, cold: list[Answer]
) -> None:
    subprocess.run([sys.executable, "-c", WRITER, tiny_llama_path, path], check=True)
    with make() as runtime:
        found, cached = answers(runtime)
    assert cached > 100
    check_same(found, cold)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"page_size": 8}, "page_size"),
        ({"dtype": "bfloat16"}, "dtype"),
        ({"decoder": "general"}, "decoder"),
        ({"batch_invariant": True}, "batch_invariant, threads"),
    ],
    ids=str,
)
def test_another_setup_starts_cold(
    make: Make, said: Said, path: Path, options: dict[str, Any], named: str
) -> None:
    with make() as runtime:
        answers(runtime)
    with make(**options) as runtime:
        assert runtime._engine.scheduler.cache.num_cached == 0
        assert answers(runtime)[1] == 0
    start = f"prefix_file={str(path)!r} was written with another {named}; starting without it"
    assert said() == [start]
    with make(**options) as runtime:
        assert answers(runtime)[1] > 0, "its own prefixes are in the file now"


def test_another_model_starts_cold(make: Make, said: Said, tmp_path: Path) -> None:
    """Of the same names, shapes and sizes."""
    other = write_tiny_llama(tmp_path / "other", seed=1)
    with make() as runtime:
        answers(runtime)
    with make(other) as runtime:
        found, cached = answers(runtime)
    assert cached == 0
    with Runtime(other, kv_bytes=200 * PAGE_BYTES) as runtime:
        check_same(found, answers(runtime)[0])
    assert [message.partition(" was ")[2] for message in said()] == [
        "written with another model; starting without it"
    ]


def test_the_file_may_lie_in_the_model_folder(make: Make, said: Said, tmp_path: Path) -> None:
    model = write_tiny_llama(tmp_path / "model")
    for expected in (False, True, True):
        with make(model, prefix_file=str(model / "prefixes.safetensors")) as runtime:
            assert (answers(runtime)[1] > 0) is expected
    assert said() == []


def test_what_was_computed_for_a_salt_is_not_written(make: Make, path: Path) -> None:
    with make() as runtime:
        answers(runtime, cache_salt="ours")
        assert runtime._engine.scheduler.cache.num_cached > 0
        assert runtime.save_prefixes() == 0
    assert not path.exists()
    with make() as runtime:
        answers(runtime, cache_salt="ours")
        ask.run("x", backend=runtime)
        assert runtime.save_prefixes() > 100
    with make() as runtime:
        assert answers(runtime, cache_salt="ours")[1] == 0
        assert answers(runtime)[1] > 0


@pytest.mark.parametrize("num_pages", [1, 5, 12, 30])
def test_a_smaller_pool_takes_what_fits(make: Make, num_pages: int, cold: list[Answer]) -> None:
    with make() as runtime:
        answers(runtime)
        total = runtime.save_prefixes() // 16
    with make(kv_bytes=num_pages * PAGE_BYTES) as runtime:
        cache = runtime._engine.scheduler.cache
        assert cache.num_cached == min(num_pages, total)
        assert cache.num_available == num_pages, "whatever is needed makes room"
        cache.check_integrity()
        if num_pages == 30:
            found, cached = answers(runtime)
            assert cached > 0
            check_same(found, cold)


def test_pinned_prefixes_come_first(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    @sgl.function
    def kept(s: ProgramState, text: str) -> None:
        s += "these are the rules that every answer must keep to: " * 3
        s += text + sgl.gen("x", max_tokens=2)

    with make() as runtime:
        kept.cache(runtime)
        pinned = runtime.cache_stats.pinned_pages
        answers(runtime)
        monkeypatch.setattr(file, "MAX_BYTES", (pinned + 1) * (PAGE_BYTES + 8 * 17))
    with make() as runtime:
        assert runtime._engine.scheduler.cache.num_cached == pinned + 1
        state = kept.run("a", backend=runtime)
        assert state.get_meta_info("x")["cached_tokens"] >= 16 * pinned


def test_a_damaged_file_is_told_of_once_and_written_anew(
    make: Make, path: Path, said: Said, cold: list[Answer]
) -> None:
    with make() as runtime:
        answers(runtime)
    whole = path.read_bytes()
    path.write_bytes(whole[:-40] + bytes([whole[-40] ^ 1]) + whole[-39:])
    with make() as runtime:
        found, cached = answers(runtime)
    assert cached == 0
    check_same(found, cold)
    [message] = said()
    assert message.startswith(f"prefix_file={str(path)!r} is damaged (")
    assert message.endswith("; starting without it")
    with make() as runtime:
        assert answers(runtime)[1] > 0


def test_a_path_that_cannot_be_written_is_told_of(
    make: Make, said: Said, tmp_path: Path, cold: list[Answer]
) -> None:
    path = tmp_path / "missing" / "prefixes"
    with make(prefix_file=path) as runtime:
        message = f"prefix_file={str(path)!r} cannot be written (No such file or directory); the "
        answers(runtime)
        with pytest.raises(UsageError, match=re.escape(message)):
            runtime.save_prefixes()
        check_same(answers(runtime)[0], cold)
        assert said() == []
    assert said() == [message + "prefixes are not saved"]


def test_weights_named_by_mistake_are_not_replaced(make: Make, said: Said, tmp_path: Path) -> None:
    model = write_tiny_llama(tmp_path / "model")
    weights = (model / "model.safetensors").read_bytes()
    with make(model, prefix_file=model / "model.safetensors") as runtime:
        answers(runtime)
    assert (model / "model.safetensors").read_bytes() == weights
    at_start, at_end = said()
    assert "is not a file of prefixes, or is damaged; starting without it" in at_start
    assert "is not a file of prefixes, and is not replaced" in at_end


def test_a_runtime_without_prefixes_leaves_the_file_as_it_is(make: Make, path: Path) -> None:
    with make() as runtime:
        answers(runtime)
    whole = path.read_bytes()
    with make() as runtime:
        sgl.flush_cache(runtime)
    assert path.read_bytes() == whole


def test_it_is_saved_while_runs_are_under_way(make: Make, cold: list[Answer]) -> None:
    with make() as runtime:
        states = ask.run_batch(
            [(text,) for text in TEXTS * 20], backend=runtime, generator_style=True
        )
        for _ in zip(states, range(20), strict=False):
            runtime.save_prefixes()
    with make() as runtime:
        found, cached = answers(runtime)
    assert cached > 0
    check_same(found, cold)


def test_it_is_saved_by_a_runtime_that_has_a_file_and_is_open(
    make: Make, tiny_llama_path: Path
) -> None:
    runtime = Runtime(tiny_llama_path, kv_bytes=PAGE_BYTES)
    with runtime, pytest.raises(UsageError, match="this runtime has none; give it one"):
        runtime.save_prefixes()
    with make() as runtime:
        answers(runtime)
    runtime.close()
    with pytest.raises(BackendError, match="closed"):
        runtime.save_prefixes()


@pytest.mark.parametrize("value", ["", ".", "/", 5, True, b"x", "a\0b"])
def test_a_prefix_file_is_a_path(tiny_llama_path: Path, value: object) -> None:
    with pytest.raises(UsageError, match=r"prefix_file=.*: it must be the path of a file, or None"):
        Runtime(tiny_llama_path, prefix_file=value)


def test_what_it_cannot_go_with_is_refused(tiny_llama_path: Path) -> None:
    with pytest.raises(UsageError, match="prefix_cache=False caches none; leave one of them away"):
        Runtime(tiny_llama_path, prefix_file="x", prefix_cache=False)
    with pytest.raises(UsageError, match="prefix_file='x' is for one process on the CPU"):
        Runtime(tiny_llama_path, prefix_file=Path("x"), tensor_parallel=2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_that_is_told_to_end_writes_it(
    make: Make, path: Path, tiny_llama_path: Path, number: signal.Signals
) -> None:
    command = [sys.executable, "-c", SERVER, "serve", "--port", "0", "--device", "cpu"]
    command += ["--model", str(tiny_llama_path), "--prefix-file", str(path)]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    try:
        url = next(
            found[0] for line in server.stderr if (found := re.search(r"http://[\d.:]+", line))
        )
        with RuntimeEndpoint(url) as remote:
            ask.run(TEXTS[0], backend=remote)
        server.send_signal(number)
        server.communicate(timeout=60)
    finally:
        server.kill()
        server.wait()
    assert server.returncode == (130 if number == signal.SIGINT else -signal.SIGTERM)
    with make() as runtime:
        assert answers(runtime)[1] > 100


def test_a_copy_that_waits_for_the_next_step_is_in_it(make: Make, path: Path) -> None:
    with make() as runtime:
        answers(runtime)
        cache = runtime._engine.scheduler.cache

        def copy_a_page() -> None:
            [source, *_] = cache.root.children.values()
            page = cache.allocate()
            assert page is not None
            cache.copy(source.page, page, 16)
            cache.unlock(cache.insert(cache.root, (5,) * 16, page))

        runtime._between_steps(copy_a_page)
        runtime.save_prefixes()
    arrays = load(path.read_bytes())
    at = {tuple(key): kv for key, kv in zip(arrays["tokens"], arrays["pages"], strict=True)}
    copied = at.pop((5,) * 16)
    assert any((copied == kv).all() for kv in at.values())


def test_a_fault_while_pages_are_taken_is_the_callers_and_the_engine_goes_on(
    make: Make, said: Said, path: Path, monkeypatch: pytest.MonkeyPatch, cold: list[Answer]
) -> None:
    def no_memory(*_: object) -> None:
        raise MemoryError

    with make() as runtime:
        answers(runtime)
        monkeypatch.setattr("runtime.cache.handover.hottest", no_memory)
        with pytest.raises(MemoryError):
            runtime.save_prefixes()
        check_same(answers(runtime)[0], cold)
    assert said() == [f"prefix_file={str(path)!r} is not written: there is no memory for it"]
