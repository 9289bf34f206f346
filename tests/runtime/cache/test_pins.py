"""Pins against a judge that counts pages by their prefixes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from runtime.cache.pins import Pins
from runtime.cache.prefix import PrefixCache
from sgdsl.errors import UsageError

PAGE = 2
NUM_PAGES = 8

tokens = st.lists(st.integers(0, 1), min_size=PAGE, max_size=9)


class PinMachine(RuleBasedStateMachine):
    """Prompts are computed, pinned and released, while others need the pages."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = PrefixCache(num_pages=NUM_PAGES, page_size=PAGE)
        self.pins = Pins(self.cache)
        self.pinned: dict[int, list[int]] = {}  # the judge: the prompts
        self.numbers = itertools.count()

    def compute(self, prompt: list[int], pin: int | None = None) -> None:
        path = self.cache.match(prompt, len(prompt))
        for node in path:
            self.cache.lock(node)
        for start in range(len(path) * PAGE, len(prompt) - PAGE + 1, PAGE):
            page = self.cache.allocate()
            assert page is not None, "pins leave room for any prompt"
            parent = path[-1] if path else self.cache.root
            path.append(self.cache.insert(parent, tuple(prompt[start : start + PAGE]), page))
        if pin is not None:
            self.pins.hold(pin, path)
        for node in reversed(path):
            self.cache.unlock(node)

    @rule(prompt=tokens)
    def run(self, prompt: list[int]) -> None:
        self.compute(prompt)

    @rule(prompt=tokens, longest=st.integers(0, NUM_PAGES * PAGE))
    def pin(self, prompt: list[int], longest: int) -> None:
        pin = next(self.numbers)
        after = self.pages() | prefixes(prompt)
        fits = len(after) <= NUM_PAGES // 2 and longest <= (NUM_PAGES - len(after)) * PAGE
        if not fits:
            with pytest.raises(
                UsageError, match=rf"{len(prompt)} tokens, \d+ more pages of {PAGE}"
            ):
                self.pins.promise(pin, prompt, salt="", longest=longest)
            return
        self.pins.promise(pin, prompt, salt="", longest=longest)
        self.compute(prompt, pin)
        self.pinned[pin] = prompt

    @rule(prompt=tokens)
    def promise_and_fail(self, prompt: list[int]) -> None:
        if len(self.pages() | prefixes(prompt)) <= NUM_PAGES // 2:
            self.pins.promise(10**6, prompt, salt="", longest=0)
        self.pins.release(10**6)

    @precondition(lambda self: self.pinned)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        pin = data.draw(st.sampled_from(sorted(self.pinned)))
        del self.pinned[pin]
        self.pins.release(pin)
        self.pins.release(pin)

    @rule()
    def flush(self) -> None:
        self.cache.flush()
        assert self.cache.num_cached == len(self.pages())

    def pages(self) -> set[tuple[int, ...]]:
        return {prefix for prompt in self.pinned.values() for prefix in prefixes(prompt)}

    @invariant()
    def all_that_is_pinned_is_cached_and_counted_once(self) -> None:
        for prompt in self.pinned.values():
            assert len(self.cache.match(prompt, len(prompt))) == len(prompt) // PAGE
        assert self.pins.num_pages == len(self.pages())
        assert self.pins.max_tokens == (NUM_PAGES - len(self.pages())) * PAGE
        assert self.cache.num_available == NUM_PAGES - len(self.pages())
        self.cache.check_integrity()


def prefixes(prompt: list[int]) -> set[tuple[int, ...]]:
    return {tuple(prompt[:end]) for end in range(PAGE, len(prompt) + 1, PAGE)}


TestPinMachine = PinMachine.TestCase
TestPinMachine.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)


def test_two_that_are_computed_at_once_have_room_together() -> None:
    pins = Pins(PrefixCache(num_pages=8, page_size=PAGE))
    pins.promise(1, [1] * 6, salt="", longest=0)
    with pytest.raises(UsageError, match=r"2 more pages of 2 would be pinned, but 3 are already, "):
        pins.promise(2, [2] * 4, salt="", longest=0)
    pins.promise(3, [2] * 2, salt="", longest=0)
    pins.clear()
    assert pins.num_pages == 0
