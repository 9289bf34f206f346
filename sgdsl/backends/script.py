"""What a mock backend answers: scripts of replies and scores.

Owns the forms in which a test may write them. Knows nothing of runs or threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from grammars import Constraint
from sgdsl.backends.validation import shortest
from sgdsl.choices import ChoiceScores
from sgdsl.errors import BackendError, UsageError
from sgdsl.graph import Sampling, Select
from sgdsl.machine import Completion
from sgdsl.record import record


@record
class Request:
    """What a scripted function is asked: continue `prompt` for the variable `name`."""

    name: str | None
    prompt: str
    sampling: Sampling
    constraint: Constraint | None
    seed: int


class Stall:
    """The answer that never comes: the run goes on until it is cancelled or its backend dies."""


STALL = Stall()

Reply = str | Completion | BaseException | Stall
Replies = Reply | Sequence[Reply] | Callable[[Request], Reply]
Scores = Mapping[str, float] | ChoiceScores | BaseException | Stall


class Script:
    """Looks answers up. A reply that is an exception is raised: it fails its node."""

    def __init__(
        self,
        replies: Mapping[str, Replies] | Callable[[Request], Reply] | None,
        scores: Mapping[str, Scores] | None,
        default: str | None,
    ) -> None:
        given: object = replies
        if given is not None and not isinstance(given, Mapping) and not callable(given):
            raise UsageError(
                f"MockBackend({replies!r}): replies are a dict by variable name, or a function of "
                "the request; default=... is one reply for every gen"
            )
        self._for_all = replies if callable(replies) else None
        self._by_name: Mapping[str, Replies] = {}
        if isinstance(replies, Mapping):
            self._by_name = replies
        self._scores = scores if scores is not None else {}
        self._default = default
        self._num_used: dict[str, int] = {}

    def reply(self, request: Request) -> Completion | Stall:
        name = request.name or ""
        found: Any = self._for_all or self._by_name.get(name, self._default)
        if found is None:  # nobody has said anything
            found = "mock" if request.constraint is None else shortest(request.constraint)
        if callable(found):
            found = found(request)
        if isinstance(found, (list, tuple)):
            index = self._num_used.get(name, 0)
            if index == len(found):
                raise BackendError(f"the {index} scripted replies for {name!r} are used up")
            self._num_used[name] = index + 1
            found = found[index]
        if isinstance(found, BaseException):
            raise found
        if isinstance(found, str):
            return Completion(found)
        if not isinstance(found, (Completion, Stall)):
            raise UsageError(
                f"the reply {found!r} scripted for {name!r} is not allowed; a reply is a str, a "
                "Completion, an exception or STALL"
            )
        return found

    def scores(self, node: Select) -> ChoiceScores | Stall:
        """Without a script, the choices have log-probabilities -1, -2, ... in their order."""
        found = self._scores.get(node.name or "", {})
        if isinstance(found, BaseException):
            raise found
        if isinstance(found, (ChoiceScores, Stall)):
            return found
        ranked = enumerate(node.choices, start=1)
        conditional = [[found.get(choice, -float(rank))] for rank, choice in ranked]
        unconditional = [[-1.0] for _ in conditional] if node.method.needs_unconditional else None
        return ChoiceScores(conditional, unconditional)
