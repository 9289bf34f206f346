"""A run that stands for another one: with another backend, or on another machine.

Owns the replay of what is answered already, and the report of what is answered anew. The original
is driven by a `Follower`, from these reports.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from sgdsl.chat import ChatTemplate
from sgdsl.choices import ChoiceScores
from sgdsl.graph import Sampling
from sgdsl.machine import (
    Action,
    Append,
    Choose,
    Completion,
    Generate,
    Idle,
    Piece,
    Replay,
    Spelling,
)
from sgdsl.run import Run
from sgdsl.source import Source


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a select was answered."""

    scores: ChoiceScores
    draw: float
    meta: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failed:
    """What a gen or select was answered, where a graph goes on without the branch."""

    cause: BaseException


Answered = Completion | Chosen | Failed


@dataclass(frozen=True, slots=True)
class Begun:
    """What a gen has written that has not ended. `spelling`: its tokens, if the backend can go on
    from them.
    """

    text: str
    spelling: Spelling | None = None


class Watcher:
    """Who hears of a replica. Called on the backend's thread, without a lock of the replica."""

    def may_begin(self, branch_id: int, action: Generate | Choose) -> bool:  # noqa: ARG002
        """Whether the backend may be asked this now; if not, wake it later."""
        return True

    def streamed(self, branch_id: int, text: str, spelling: Spelling | None) -> None: ...

    def answered(self, branch_id: int, answer: Completion | Chosen) -> None: ...

    def failed(self, cause: BaseException, branch_id: int | None) -> bool:  # noqa: ARG002
        """Whether that is the end of the replica, whatever the graph says of failures."""
        return False

    def finished(self) -> None: ...


class Replica(Run):
    """`answers`: for each branch, in order, what its gens and selects were answered before.
    `partials`: what the gen that comes next on a branch has written already.
    """

    __slots__ = ("_held", "_leads", "_replays", "answers", "partials", "spells", "watcher")

    def __init__(
        self,
        watcher: Watcher,
        *,
        template: ChatTemplate,
        defaults: Sampling,
        seed: int,
        streaming: bool = False,
        num_api_spec_tokens: int | None = None,
        keeps_nodes: bool = False,
        priority: int = 0,
        cache_salt: str | None = None,
        pins: bool = False,
        answers: Iterable[tuple[int, Answered]] = (),
        partials: dict[int, Begun] | None = None,
        spells: bool = False,
    ) -> None:
        super().__init__(
            template=template,
            defaults=defaults,
            seed=seed,
            streaming=streaming,
            num_api_spec_tokens=num_api_spec_tokens,
            keeps_nodes=keeps_nodes,
            priority=priority,
            cache_salt=cache_salt,
            pins=pins,
        )
        self.watcher: Watcher = watcher
        self.spells = spells
        self.answers = list(answers)
        """All that was answered before this replica began, for who passes it on."""
        self.partials = dict(partials or {})
        self._replays: dict[int, deque[Answered]] | None = None
        self._held: dict[int, Generate | Choose] = {}
        self._leads: dict[int, str] = {}

    def next(self, branch_id: int) -> Action:
        held = self._held.get(branch_id)
        if held is None:
            action = super().next(branch_id)
            if not isinstance(action, Generate | Choose):
                return action
            if (known := self._known(branch_id)) is not None:
                if isinstance(known, Failed):
                    super().fail(known.cause, branch_id=branch_id)
                    return self.next(branch_id) if self.outcome is None else Idle.FINISHED
                return self._replay(branch_id, action, known)
            held = self._held[branch_id] = action
            if isinstance(action, Generate) and (begun := self.partials.pop(branch_id, None)):
                super().stream(branch_id, begun.text)
                if begun.spelling is None:
                    self._leads[branch_id] = begun.text
                    self._held[branch_id] = _shortened(action, begun.text)
                    return Append((Piece(begun.text, written=True),))
                held = self._held[branch_id] = replace(action, begun=begun.spelling)
        if not self.watcher.may_begin(branch_id, held):
            return Idle.PAUSED
        del self._held[branch_id]
        return held

    def _known(self, branch_id: int) -> Answered | None:
        """The next answer that is recorded for the branch."""
        if self._replays is None:
            self._replays = {}
            for branch, answer in self.answers:
                self._replays.setdefault(branch, deque()).append(answer)
        recorded = self._replays.get(branch_id)
        return recorded.popleft() if recorded else None

    def _replay(
        self, branch_id: int, action: Generate | Choose, known: Completion | Chosen
    ) -> Replay:
        if isinstance(action, Generate):
            assert isinstance(known, Completion), "a gen is answered by a completion"
            super().complete(branch_id, known)
            return Replay((Piece(known.text, written=True),), known)
        assert isinstance(known, Chosen), "a select is answered by scores"
        text = super().choose(branch_id, known.scores, draw=known.draw, meta=known.meta)
        return Replay((Piece(text, written=True),), None)

    def stream(self, branch_id: int, text: str, spelling: Spelling | None = None) -> None:
        if lead := self._leads.get(branch_id, ""):
            text, spelling = lead + text, None
        super().stream(branch_id, text)
        self.watcher.streamed(branch_id, text, spelling)

    def complete(self, branch_id: int, completion: Completion) -> None:
        if lead := self._leads.pop(branch_id, ""):
            completion = replace(completion, text=lead + completion.text, spelling=None)
        super().complete(branch_id, completion)
        self.watcher.answered(branch_id, completion)

    def choose(
        self, branch_id: int, scores: ChoiceScores, *, draw: float, meta: dict[str, Any]
    ) -> str:
        text = super().choose(branch_id, scores, draw=draw, meta=meta)
        self.watcher.answered(branch_id, Chosen(scores, draw, meta))
        return text

    def fail(
        self,
        cause: BaseException,
        *,
        branch_id: int | None = None,
        source: Source | None = None,
    ) -> None:
        if self.outcome is not None:
            return
        final = self.watcher.failed(cause, branch_id)
        super().fail(cause, branch_id=branch_id, source=source)
        if final and self.outcome is None:
            super().fail(cause)

    def finish(self) -> None:
        super().finish()
        self.watcher.finished()


def _shortened(action: Generate, lead: str) -> Generate:
    """What was written counts, at four bytes a token: nobody knows the tokens of another model."""
    limit = action.sampling.max_tokens or 1
    left = max(1, limit - len(lead.encode()) // 4)
    return replace(action, sampling=Sampling(max_tokens=left).over(action.sampling))
