"""Which of several equal engines gets a prompt: the one that will be through with it first.

Owns the memory of what was sent where, and what each engine has before it. Pure: no clock, no
engine, no text's meaning; it is told what is sent and what has ended. What an engine's cache really
holds it cannot know: an engine that has had a prompt lately is taken to have it still.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

BLOCK = 16
"""Units of a prompt that are remembered together: tokens, or four times as many characters."""

MAX_BLOCKS = 1 << 17
"""Blocks that are remembered for each engine; those that were used least recently go first."""

PATIENCE = 8
"""So many units of waiting are taken for one that need not be computed again. Simulated fleets of
16 replicas (few-shot, extraction, agents) got faster up to 8, and no more beyond it.
"""

Units = str | Sequence[int]
"""A prompt's text, or its tokens."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A prompt's place: the engine, and the work that it was taken to be there."""

    engine: int
    work: int


class PrefixRouting:
    """Each prompt goes where (work that is there already) + patience * (what the engine has not had
    of it yet) is least. So those that share a prefix stay together until the others have so much
    less to do that computing it once more pays. Work is what was missing of the prompts under way,
    and the tokens that they draw. `max_blocks`: about as many as an engine's cache has pages.
    """

    def __init__(
        self,
        num_engines: int,
        *,
        block: int = BLOCK,
        max_blocks: int = MAX_BLOCKS,
        patience: int = PATIENCE,
    ) -> None:
        assert num_engines > 0, "there is somewhere to send prompts"
        assert block > 0, "a block has a unit"
        self._block = block
        self._max_blocks = max_blocks
        self._patience = patience
        self._known: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(num_engines)]
        self._work = [0] * num_engines
        self._last = -1

    @property
    def work(self) -> Sequence[int]:
        """What each engine has before it."""
        return tuple(self._work)

    def send(self, prompt: Units, *, num_output: int, among: Sequence[int] | None = None) -> Sent:
        """Where `prompt` is to go, of the engines `among` (None: all). `num_output`: tokens that
        will be drawn, as far as is known.
        """
        candidates = range(len(self._work)) if among is None else among
        assert len(candidates) > 0, "there is somewhere to send the prompt"
        keys = self._keys(prompt)
        missing = {
            engine: len(prompt) - self._num_known(engine, keys) * self._block
            for engine in candidates
        }
        count = len(self._work)
        engine = min(
            candidates,
            key=lambda each: (
                self._work[each] + self._patience * missing[each],
                (each - self._last - 1) % count,
            ),
        )
        self._last = engine
        sent = Sent(engine, missing[engine] + num_output)
        self._work[engine] += sent.work
        self._remember(engine, keys)
        return sent

    def ended(self, sent: Sent) -> None:
        """It came to its end there, whatever that was; once for each `send`."""
        self._work[sent.engine] -= sent.work
        assert self._work[sent.engine] >= 0, "what ends was sent"

    def forget(self, engine: int) -> None:
        """Its cache is gone."""
        self._known[engine].clear()

    def _keys(self, prompt: Units) -> list[int]:
        """A key for each whole block, which stands for all before it too."""
        keys, key, size = list[int](), 0, self._block
        for start in range(0, len(prompt) - size + 1, size):
            block = prompt[start : start + size]
            key = hash((key, block if isinstance(block, str) else tuple(block)))
            keys.append(key)
        return keys

    def _num_known(self, engine: int, keys: list[int]) -> int:
        """Blocks from the beginning on. Those behind a known one may be forgotten, not those
        before: they were used as recently.
        """
        known = self._known[engine]
        low, high = 0, len(keys)
        while low < high:
            middle = (low + high) // 2
            if keys[middle] in known:
                low = middle + 1
            else:
                high = middle
        return low

    def _remember(self, engine: int, keys: list[int]) -> None:
        """The last blocks first, so that they are the first to be forgotten."""
        known = self._known[engine]
        for key in reversed(keys):
            known[key] = None
            known.move_to_end(key)
        while len(known) > self._max_blocks:
            known.popitem(last=False)
