"""Equal generations: what can only come out the same is computed once.

Owns which lines write the same, which of them is computed, and the outputs that are remembered. It
must not know what a token means, nor when a line is computed.

A greedy generation depends on its tokens, its constraint and its sampling, and on nothing else: not
on its neighbours, its cache hits or its preemptions. So a second one of the same follows the first,
and one that comes later gets what was written before.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import NamedTuple

from grammars import Constraint
from grammars.content import num_bytes
from runtime.line import Line
from sgdsl.graph import Sampling

MAX_BYTES = 64 << 20
"""Of all remembered outputs together."""

BYTES_PER_OUTPUT, BYTES_PER_TOKEN = 1024, 112
"""What Python takes for them: a short output costs by far more than its tokens."""


class Key(NamedTuple):
    """What a deterministic generation depends on, and who may know that it was there before. The
    digest is of the tokens before it: 128 bits, so that two prompts with the same one are never
    met.
    """

    digest: bytes
    prefix: bytes
    sampling: Sampling
    constraint: Constraint | None
    limit: int
    salt: str


class Drawn(NamedTuple):
    """A token of an output."""

    token: int
    is_forced: bool


def key_of(
    tokens: Sequence[int],
    sampling: Sampling,
    constraint: Constraint | None,
    *,
    prefix: bytes,
    limit: int,
    salt: str = "",
) -> Key | None:
    """`prefix`: what the first tokens have to spell again; `salt`: of the run. None where draws
    decide, and where more is asked for than the output: log-probabilities are computed for who
    asks.
    """
    if sampling.temperature != 0 or sampling.wants_logprobs or sampling.top_logprobs_num:
        return None
    digest = blake2b(array("q", tokens).tobytes(), digest_size=16).digest()
    return Key(digest, prefix, replace(sampling, seed=None), constraint, limit, salt)


class SharedOutputs:
    """The lines of one key accept the same tokens. The first of them is computed: it leads."""

    def __init__(self, *, enabled: bool = True) -> None:
        self._enabled = enabled
        self._lines: dict[Key, list[Line]] = {}
        self._written: dict[Key, list[Drawn]] = {}  # by the line that leads, so far
        self._keys: dict[Line, Key] = {}
        self._outputs: OrderedDict[Key, tuple[Drawn, ...]] = OrderedDict()
        self._num_bytes = 0
        self.num_shared = 0
        """Generations that were not computed."""

    def join(self, key: Key | None, line: Line) -> Sequence[Drawn] | None:
        """None if the line is to be computed. Else what it has to accept before anything else: all
        of its output, or what the line that leads has written; the rest arrives with that.
        """
        if key is None or not self._enabled:
            return None
        output = self._outputs.get(key)
        if output is not None:
            self._outputs.move_to_end(key)
            self.num_shared += 1
            return output
        self._keys[line] = key
        lines = self._lines.setdefault(key, [])
        lines.append(line)
        if len(lines) == 1:
            self._written[key] = []
            return None
        self.num_shared += 1
        return tuple(self._written[key])

    def followers(self, line: Line) -> list[Line]:
        """Who accepts the same tokens as this line, which is computed."""
        key = self._keys.get(line)
        return [] if key is None else self._lines[key][1:]

    def wrote(self, line: Line, drawn: Drawn) -> None:
        """The line has accepted a token."""
        key = self._keys.get(line)
        if key is not None and self._lines[key][0] is line:
            self._written[key].append(drawn)

    def finish(self, line: Line) -> None:
        """The line's output has ended. Of one that leads it is remembered."""
        key = self._keys.get(line)
        if key is not None and self._lines[key][0] is line:
            assert len(self._lines[key]) == 1, "those that follow have ended before"
            self._remember(key, tuple(self._written[key]))
        self._remove(line)

    def leave(self, line: Line) -> Line | None:
        """The line is over before its output is. Who leads in its place, if it led others."""
        key = self._keys.get(line)
        if key is None:
            return None
        led = self._lines[key][0] is line
        self._remove(line)
        return self._lines[key][0] if led and key in self._lines else None

    def forget(self) -> None:
        """Remember no output."""
        self._outputs.clear()
        self._num_bytes = 0

    def _remember(self, key: Key, output: tuple[Drawn, ...]) -> None:
        self._outputs[key] = output
        self._num_bytes += _num_bytes(key, output)
        while self._num_bytes > MAX_BYTES:
            self._num_bytes -= _num_bytes(*self._outputs.popitem(last=False))

    def _remove(self, line: Line) -> None:
        key = self._keys.pop(line, None)
        if key is None:
            return
        self._lines[key].remove(line)
        if not self._lines[key]:
            del self._lines[key], self._written[key]


def _num_bytes(key: Key, output: Sequence[Drawn]) -> int:
    stops = sum(map(len, (*(key.sampling.stop or ()), *(key.sampling.stop_regex or ()))))
    constraint = 0 if key.constraint is None else num_bytes(key.constraint)
    words = stops + len(key.salt)
    return BYTES_PER_OUTPUT + BYTES_PER_TOKEN * len(output) + words + constraint
