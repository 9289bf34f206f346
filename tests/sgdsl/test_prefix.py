"""The constant beginning of a program: `f.cache(backend)`."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import sgdsl as sgl
from sgdsl import AsyncProgramState, MockBackend, ProgramState, gen
from sgdsl.chat import CHATML
from sgdsl.prefix import literal_prefix, unknown
from sgdsl.run import Run


class Caching(MockBackend):
    """Says that it caches, and remembers the prompts."""

    caches_prefixes = True

    def __init__(self, reply: Any = "x") -> None:
        self.prompts: list[str] = []
        super().__init__(self._note)
        self._answer = reply

    def _note(self, request: Any) -> Any:
        self.prompts.append(request.prompt)
        assert request.sampling.max_tokens == 1
        return self._answer


def prompts(program: Any) -> list[str]:
    backend = Caching()
    program.cache(backend)
    return backend.prompts


def test_text_up_to_the_first_argument_is_computed() -> None:
    @sgl.function
    def program(s: ProgramState, q: str, k: int = 2) -> None:
        s += sgl.system(f"Give {k} answers.")
        with s.user():
            s += "Question: "
            s += f"<{q}>" + gen("a")

    assert prompts(program) == ["SYSTEM:Give 2 answers.\nUSER:Question: <"]
    assert prompts(program.bind(q="who")) == ["SYSTEM:Give 2 answers.\nUSER:Question: <who>"]


def test_it_ends_where_the_program_needs_a_value() -> None:
    @sgl.function
    def branching(s: ProgramState, q: str) -> None:
        s += "constant "
        if q == "x":
            s += "never known"

    @sgl.function
    def reading(s: ProgramState) -> None:
        s += "first" + gen("a")
        s += s["a"]

    @sgl.function
    def forking(s: ProgramState) -> None:
        s += "root"
        forks = s.fork(2)
        forks += "leaf"
        forks.join("concate_and_append")

    @sgl.function
    def looking_back(s: ProgramState) -> None:
        s += "a"
        s += s.text() + "b"

    @sgl.function
    async def asynchronous(s: AsyncProgramState, q: str) -> None:
        s += "before " + q
        await s.text()

    assert prompts(branching) == ["constant "]
    assert prompts(reading) == ["first"]
    assert prompts(forking) == ["root"]
    assert prompts(looking_back) == ["a"]
    assert prompts(asynchronous) == ["before "]


def test_what_begins_with_an_argument_has_nothing_to_compute() -> None:
    @sgl.function
    def program(s: ProgramState, q: str) -> None:
        s += q + gen("a")

    assert prompts(program) == []
    assert literal_prefix(lambda s: program._body(s, unknown("q")), asynchronous=False) == []


def test_a_backend_without_a_cache_is_left_alone() -> None:
    class Untouched(MockBackend):
        def submit(self, run: Run) -> None:
            raise AssertionError("nothing is asked of it")

    @sgl.function
    def program(s: ProgramState) -> None:
        s += "text" + gen("a")

    program.cache(Untouched())


def test_a_backend_that_fails_says_so() -> None:
    @sgl.function
    def program(s: ProgramState) -> None:
        s += "text" + gen("a")

    with pytest.raises(sgl.ProgramError, match="down"):
        program.cache(Caching(OSError("down")))


@sgl.function
def constant(s: ProgramState, q: str) -> None:
    s += sgl.system("Be brief.") + sgl.user(q) + sgl.assistant(gen("a"))


def test_every_backend_of_a_router_that_can_computes_it_in_its_own_template() -> None:
    first, second, third = Caching(), Caching(), Caching()
    second._template = CHATML
    outer = sgl.Router([first, MockBackend(), sgl.Router([second, sgl.Provider(third)])])
    with outer:
        constant.cache(outer)
    assert first.prompts == third.prompts == ["SYSTEM:Be brief.\nUSER:"]
    assert second.prompts == ["<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n"]


def test_what_some_backends_of_a_router_fail_with_is_said_and_the_others_have_it() -> None:
    well, broken = Caching(), Caching(OSError("down"))
    both = sgl.Router([sgl.Provider(broken, name="here"), sgl.Provider(well, name="there")])
    with both, pytest.raises(sgl.BackendError, match="cached on there, and failed on here:") as e:
        constant.cache(both)
    assert "down" in str(e.value)
    assert len(well.prompts) == 1
    with sgl.Router([broken]) as one, pytest.raises(sgl.ProgramError, match="down"):
        constant.cache(one)


def test_a_router_without_a_cache_is_left_alone() -> None:
    with sgl.Router([MockBackend(lambda _: OSError("asked"))]) as router:
        constant.cache(router)


class Pinning(Caching):
    """Notes what it is asked to keep, and what no longer."""

    def __init__(self, reply: Any = "x") -> None:
        super().__init__(reply)
        self.pinned: list[Run] = []

    def submit(self, run: Run) -> None:
        if run.pins:
            self.pinned.append(run)
        super().submit(run)

    def unpin(self, run: Run) -> None:
        self.pinned.remove(run)


def test_what_is_cached_is_pinned_until_it_is_released() -> None:
    backend, other = Pinning(), Pinning()
    with constant.cache(backend) as kept:
        assert len(backend.pinned) == 1
    assert backend.pinned == []
    kept.release()
    first = constant.cache(backend)
    constant.cache(backend, cache_salt="a")
    constant.cache(other)
    first.release()
    assert [run.cache_salt for run in backend.pinned] == ["a"]
    constant.uncache(backend)
    constant.uncache(backend)
    assert (backend.pinned, len(other.pinned)) == ([], 1)


def test_no_pin_is_asked_for_where_none_is_wanted_or_kept() -> None:
    backend, plain = Pinning(), Caching()
    constant.cache(backend, pin=False).release()
    assert backend.pinned == []
    with constant.cache(plain):
        assert plain.prompts == backend.prompts
    constant.uncache(plain)


def test_a_router_is_released_as_a_whole_and_a_failure_leaves_no_pin() -> None:
    one, two, broken = Pinning(), Pinning(), Pinning(OSError("down"))
    with sgl.Router([one, two]) as router:
        constant.cache(router)
        assert len(one.pinned) == len(two.pinned) == 1
        constant.uncache(router)
        assert one.pinned == two.pinned == []
    with sgl.Router([one, broken]) as router, pytest.raises(sgl.BackendError, match="failed on"):
        constant.cache(router)
    assert one.pinned == broken.pinned == []


def test_a_pin_keeps_no_backend_alive() -> None:
    backend = Pinning()
    gone = weakref.ref(backend)
    constant.cache(backend)
    del backend
    gc.collect()
    assert gone() is None
