"""Costly constraints are tried in a process of their own: it is killed, stalled, missing here."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from grammars import (
    CompileBudgetError,
    Compiler,
    Concatenation,
    Constraint,
    EmptyLanguageError,
    JsonSchema,
    Regex,
)
from grammars.budget import Limits
from grammars.compiler import ON_THE_SPOT
from grammars.content import is_portable, num_bytes
from grammars.errors import GrammarError, UnsupportedError
from grammars.probe import Probe
from grammars.types import TypeOf
from tests.grammars.vocabularies import small_vocabulary
from tests.patience import PATIENCE_S

VOCABULARY = small_vocabulary()
ENDLESS = Regex("(a{1000}b){1000}")
MANY_STEPS = Limits(10**9, 1_000.0, 1 << 40)


@pytest.fixture
def probe() -> Iterator[Probe]:
    made = Probe(VOCABULARY, Limits(max_seconds=5.0))
    yield made
    made.close()


def wait_until_gone(process_id: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            os.kill(process_id, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    raise AssertionError("the worker is still there, or a zombie")


def is_running(probe: Probe) -> bool:
    return probe.process_id is not None


def test_it_says_yes_or_what_is_wrong(probe: Probe) -> None:
    assert probe.process_id is None
    probe.check(Regex("a+"))
    first = probe.process_id
    with pytest.raises(UnsupportedError, match="nothing is fetched") as found:
        probe.check(JsonSchema({"$ref": "https://example.com/other"}))
    assert found.value.position == "/$ref"
    with pytest.raises(EmptyLanguageError):
        probe.check(JsonSchema({"type": "integer", "minimum": 3, "maximum": 2}))
    with pytest.raises(CompileBudgetError, match="max_steps"):
        probe.check(ENDLESS)
    probe.check(Regex("b+"))
    assert probe.process_id == first


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
def test_a_worker_that_dies_or_stalls_is_an_error_of_its_constraint_alone(sent: int) -> None:
    probe = Probe(VOCABULARY, MANY_STEPS, patience_s=2.0 if sent == signal.SIGSTOP else PATIENCE_S)
    probe.check(Regex("a"))
    first = probe.process_id
    assert first is not None
    hurt = subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -{int(sent)} {first}"])
    with pytest.raises(CompileBudgetError, match="killed"):
        probe.check(ENDLESS)
    hurt.wait()
    wait_until_gone(first)
    probe.check(Regex("a"))
    assert probe.process_id not in (None, first)
    probe.close()


def test_a_worker_that_died_before_is_replaced(probe: Probe) -> None:
    probe.check(Regex("a"))
    first = probe.process_id
    assert first is not None
    os.kill(first, signal.SIGKILL)
    wait_for_death(probe)
    probe.check(Regex("a"))
    assert probe.process_id not in (None, first)


def wait_for_death(probe: Probe) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while probe.process_id is not None and time.monotonic() < deadline:
        time.sleep(0.01)


def test_what_takes_too_much_memory_is_refused_by_the_worker_s_limit() -> None:
    probe = Probe(VOCABULARY, MANY_STEPS, max_memory=60 << 20)
    with pytest.raises(CompileBudgetError, match=r"memory|MiB"):
        probe.check(JsonSchema({"enum": [f"value {n}" * 9 for n in range(300_000)]}))
    probe.check(Regex("a"))
    probe.close()


def test_a_worker_that_cannot_be_started_is_an_error(
    probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(CompileBudgetError, match="cannot be started"):
        probe.check(Regex("a"))
    monkeypatch.undo()
    probe.check(Regex("a"))


def test_the_worker_ends_with_its_probe_and_leaves_no_zombie() -> None:
    probe = Probe(VOCABULARY, Limits())
    probe.check(Regex("a"))
    process_id = probe.process_id
    assert process_id is not None
    del probe
    gc.collect()
    wait_until_gone(process_id)


def test_the_worker_ends_with_its_parent_even_while_it_computes() -> None:
    program = """
import os, threading, time
from grammars import Regex
from grammars.probe import Probe
from tests.grammars.test_probe import ENDLESS, MANY_STEPS, VOCABULARY
probe = Probe(VOCABULARY, MANY_STEPS)
probe.check(Regex("a"))
print(probe.process_id, flush=True)
threading.Timer(0.3, os._exit, [0]).start()
probe.check(ENDLESS)
"""
    root = Path(__file__).parents[2]
    found = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True
    )
    wait_until_gone(int(found.stdout))


def test_the_compiler_asks_only_for_what_is_costly() -> None:
    compiler = Compiler(VOCABULARY, isolate=True)
    probe = compiler.probe
    assert probe is not None
    compiler.compile(JsonSchema({"type": "array", "items": {"type": "string"}}))
    with pytest.raises(GrammarError):
        compiler.compile(JsonSchema({"type": "integer", "minimum": 3, "maximum": 2}))
    assert not is_running(probe)
    with pytest.raises(CompileBudgetError, match="max_steps"):
        compiler.compile(ENDLESS)
    assert is_running(probe)
    many = JsonSchema({"enum": [f"value {n}" for n in range(20_000)]})
    assert compiler.compile(many).min_tokens > 0
    compiler.close()
    assert not is_running(probe)


def test_closing_ends_a_trial_that_is_under_way() -> None:
    compiler = Compiler(VOCABULARY, max_steps=10**9, max_seconds=1_000, isolate=True)
    assert compiler.probe is not None
    compiler.probe.check(Regex("a"))
    closing = Timer(0.8, compiler.close)
    closing.start()
    with pytest.raises(CompileBudgetError):
        compiler.compile(ENDLESS)
    closing.join()


def test_only_values_of_this_package_are_sent() -> None:
    class Own(Regex):
        pass

    class OwnType(TypeOf):
        pass

    types: list[Any] = [int, list[str], Point]
    assert is_portable(JsonSchema({"type": "string"}))
    assert not is_portable(Own("a"))
    assert all(is_portable(TypeOf(tp)) for tp in types)
    assert is_portable(Concatenation("a", TypeOf(Point)))
    assert not is_portable(OwnType(Point))
    assert num_bytes(Regex("a" * 10_000)) > 10_000


class Point(BaseModel):
    """A type that only this module has."""

    x: int
    y: Annotated[float, Field(lt=1)] = 0.5


class Costly(BaseModel):
    """A type whose texts are beyond any budget."""

    model_config = {"regex_engine": "python-re"}
    x: Annotated[str, Field(pattern=ENDLESS.pattern)]


def test_of_a_type_its_schema_is_tried(probe: Probe) -> None:
    assert probe.check(TypeOf(Point)) is not None
    assert probe.check(Concatenation("at ", TypeOf(Point), ".")) is not None
    with pytest.raises(EmptyLanguageError):
        probe.check(TypeOf(Annotated[int, Field(gt=3, lt=3)]))
    with pytest.raises(CompileBudgetError, match="max_steps"):
        probe.check(TypeOf(Costly))


def test_a_costly_type_is_tried_elsewhere_first() -> None:
    compiler = Compiler(VOCABULARY, isolate=True)
    assert compiler.probe is not None
    compiler.compile(TypeOf(Point))
    assert not is_running(compiler.probe)
    many: Any = Literal[tuple(f"value {n}" for n in range(20_000))]
    assert compiler.compile(TypeOf(many)).min_tokens > 0
    assert is_running(compiler.probe)
    compiler.close()


@pytest.mark.parametrize(
    "constraint",
    [
        Regex("(?:ab|[0-9]{3})*"),
        JsonSchema({"type": "array", "items": {"enum": [1, "a"]}, "uniqueItems": True}),
        TypeOf(Point),
    ],
    ids=lambda constraint: type(constraint).__name__,
)
def test_a_trial_says_what_a_compile_needs(probe: Probe, constraint: Constraint) -> None:
    tried = probe.check(constraint)
    needed = Compiler(VOCABULARY).compile(constraint).needed
    assert tried is not None
    assert needed.max_steps > 0
    assert tried.max_steps == needed.max_steps
    enough = Compiler(VOCABULARY, max_steps=needed.max_steps)
    assert enough.compile(constraint).needed.max_steps == needed.max_steps


def test_what_a_trial_needed_bounds_the_compile_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = Compiler(VOCABULARY, isolate=True)
    assert compiler.probe is not None
    monkeypatch.setattr(compiler.probe, "check", lambda constraint: Limits(10, 0.0, 0))
    with pytest.raises(CompileBudgetError, match=f"more than {40 + ON_THE_SPOT.max_steps} "):
        compiler.compile(ENDLESS)
    compiler.close()
