"""Traces: who asks for what, and when.

Owns the synthetic workloads. A session is a text that grows by turns; a job of single requests has
sessions of one turn. Lengths are in real tokens, texts in symbols of which each stands for `grain`
of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from benchmarks.simulation.symbols import lengths, random_text


class Turn(NamedTuple):
    """What is said, so many tokens that are answered, and the pause before it."""

    text: str
    num_output: int
    pause_s: float = 0.0


@dataclass(slots=True)
class Session:
    """`opening`: what it shares with others of its kind."""

    start_s: float
    opening: str
    turns: list[Turn]


@dataclass(slots=True)
class Random:
    """The draws of one trace. Symbols have a generator of their own, so that lengths and times are
    the same whatever the grain.
    """

    generator: np.random.Generator
    symbols: np.random.Generator
    grain: int

    def text(self, num_tokens: int) -> str:
        return random_text(self.symbols, max(1, round(num_tokens / self.grain)))

    def output(self, num_tokens: int) -> int:
        """Symbols. The first token comes with the prompt's step, each further one with its own; so
        it is the further ones that are drawn `grain` at a time.
        """
        return 1 + math.ceil((num_tokens - 1) / self.grain)

    def lengths(self, mean: float, *, sigma: float = 0.6, most: int = 8192) -> Iterator[int]:
        return iter(lengths(self.generator, mean=mean, sigma=sigma, least=8, most=most))

    def openings(self, count: int, num_tokens: int) -> Iterator[str]:
        """One of `count` texts, again and again: the k-th 1/k times as often as the first."""
        texts = [self.text(num_tokens) for _ in range(count)]
        shares = np.cumsum(1 / np.arange(1, count + 1))
        while True:
            yield texts[int(np.searchsorted(shares, self.generator.random() * shares[-1]))]

    def pause(self, mean_s: float) -> float:
        return float(self.generator.exponential(mean_s))


Bodies = Iterator[tuple[str, list[Turn]]]


def extraction(random: Random) -> Bodies:
    """200 extraction jobs at once: an instruction of 350 tokens, a document, a record."""
    openings = random.openings(200, 350)
    documents, records = random.lengths(400), random.lengths(90, sigma=0.3)
    while True:
        turn = Turn(random.text(next(documents)), random.output(next(records)))
        yield next(openings), [turn]


def few_shot(random: Random) -> Bodies:
    """1,000 classifiers: 700 tokens of examples, a question, a label of few tokens."""
    openings = random.openings(1000, 700)
    questions = random.lengths(40)
    while True:
        yield next(openings), [Turn(random.text(next(questions)), random.output(4))]


def chat(random: Random) -> Bodies:
    """50 assistants with a system prompt; users who say something four times on average."""
    openings = random.openings(50, 200)
    said, answers = random.lengths(60), random.lengths(180)
    while True:
        turns = [
            Turn(random.text(next(said)), random.output(next(answers)), random.pause(20.0))
            for _ in range(int(random.generator.geometric(0.25)))
        ]
        yield next(openings), turns


def agents(random: Random) -> Bodies:
    """20 kinds of agents with 1,500 tokens of tools; eight calls on average, each of which adds
    what the tool has said.
    """
    openings = random.openings(20, 1500)
    seen, calls = random.lengths(300), random.lengths(80)
    while True:
        turns = [
            Turn(random.text(next(seen)), random.output(next(calls)), random.pause(1.0))
            for _ in range(int(random.generator.integers(4, 13)))
        ]
        yield next(openings), turns


TRACES: dict[str, Callable[[Random], Bodies]] = {
    "extraction": extraction,
    "few-shot": few_shot,
    "chat": chat,
    "agents": agents,
}


def sessions(
    name: str, *, num_requests: int, rate: float | None, seed: int, grain: int
) -> Iterator[Session]:
    """Sessions of `num_requests` turns together. Their starts are a Poisson process of which the
    turns come at `rate` a second in the long run; None: all start at once.
    """
    seeds = np.random.SeedSequence(seed).spawn(2)
    random = Random(np.random.default_rng(seeds[0]), np.random.default_rng(seeds[1]), grain)
    bodies, start_s, num_left = TRACES[name](random), 0.0, num_requests
    while num_left > 0:
        opening, turns = next(bodies)
        del turns[num_left:]
        num_left -= len(turns)
        if rate is not None:
            start_s += random.pause(len(turns) / rate)
        yield Session(start_s, opening, turns)
