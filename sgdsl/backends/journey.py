"""A run on its way over a router's lanes: what it has so far, and who carries it now.

Owns the original run, the record of its answers, and the replica of the present leg. What comes of
a failure is the router's decision.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from sgdsl.backends.follower import Follower
from sgdsl.backends.lanes import CHARS_PER_TOKEN, Lane
from sgdsl.backends.replica import Answered, Begun, Chosen, Failed, Replica, Watcher
from sgdsl.errors import BackendError
from sgdsl.graph import Text
from sgdsl.machine import Choose, Completion, Generate, Spelling
from sgdsl.run import Run


class Carrier(Protocol):
    """The router, as a journey's legs see it. Called with the journey's lock held."""

    def may_begin(self, leg: Leg, branch_id: int, action: Generate | Choose) -> bool: ...

    def progressed(self, leg: Leg, branch_id: int) -> None: ...

    def fell(self, leg: Leg, cause: BaseException, branch_id: int | None) -> bool:
        """Whether the journey goes on without this leg."""
        ...

    def arrived(self, journey: Journey) -> None:
        """The original has its outcome."""
        ...


class Journey:
    """`num_failures` since the last answer; `failed`: the lanes where these were; `barred`: those
    that can never carry it. Everything is read and written under `lock`.
    """

    def __init__(self, run: Run, carrier: Carrier) -> None:
        assert run.nodes is not None, "a backend that passes nodes on is given runs that keep them"
        self.lock = threading.RLock()
        self.run = run
        self.carrier = carrier
        self.follower = Follower(run)
        self.answers: list[tuple[int, Answered]] = []
        self.shown: dict[int, Begun] = {}
        """What the readers of a stream have seen of gens that go on."""
        if isinstance(run, Replica):  # a router among the providers of another
            self.answers += run.answers
            self.shown, run.partials = run.partials, {}
        self.leg: Leg | None = None
        self.num_failures = 0
        self.failed: set[int] = set()
        self.barred: set[int] = set()
        self.reasons: list[str] = []
        self.is_over = False

    @property
    def input_tokens(self) -> int:
        """Of all text so far, about."""
        written = sum(len(node.text) for node in self.run.nodes or () if isinstance(node, Text))
        answered = sum(len(each.text) for _, each in self.answers if isinstance(each, Completion))
        return (written + answered) // CHARS_PER_TOKEN

    def set_out(self, lane: Lane, *, is_trial: bool) -> Leg:
        """A new leg, on `lane`, with all that is known."""
        leg = self.leg = Leg(self, lane, is_trial=is_trial)
        leg.update()
        return leg

    def look(self) -> Leg | None:
        """The program has written more, or has ended; the leg to wake, if there is one."""
        run = self.run
        if run.cancelled:
            run.finish_cancelled("the run was cancelled")
        if run.outcome is None:
            self.follower.advance()
        self.settle()
        if self.leg is not None and not self.is_over:
            self.leg.update()
        return self.leg

    def settle(self) -> None:
        run = self.run
        if run.outcome is None and run.settled:
            run.finish()
        if run.outcome is not None and not self.is_over:
            self.is_over = True
            self.carrier.arrived(self)

    def leave(self) -> Leg | None:
        """The present leg is over, whatever its backend still does; the caller wakes that."""
        leg, self.leg = self.leg, None
        if leg is not None:
            leg.replica.cancel()
        return leg


class Leg(Watcher):
    """A journey on one lane. What comes from a leg that is no longer the journey's is passed over.
    `is_trial`: it is to show whether the lane is well again.
    """

    def __init__(self, journey: Journey, lane: Lane, *, is_trial: bool) -> None:
        run = journey.run
        self.journey = journey
        self.lane = lane
        self.is_trial = is_trial
        self.begun_s: dict[int, float] = {}
        """When what is being answered was begun, by branch."""
        self._num_sent = 0
        self.replica = Replica(
            self,
            template=lane.backend.chat_template,
            defaults=run.defaults,
            seed=run.seed,
            streaming=run.streaming,
            num_api_spec_tokens=run.num_api_spec_tokens,
            priority=run.priority,
            cache_salt=run.cache_salt,
            keeps_nodes=getattr(lane.backend, "passes_nodes_on", False),
            answers=journey.answers,
            partials=self._continued(),
            spells=True,
        )

    def _continued(self) -> dict[int, Begun]:
        """What this lane can go on with: the tokens, where they are its own, or the text. The other
        gens are begun again, and have to come to the same.
        """
        own = getattr(self.lane.backend, "tokenizer_id", None)
        takes_text = not getattr(self.lane.backend, "speaks_messages", False)
        found = dict[int, Begun]()
        for branch, begun in self.journey.shown.items():
            action = self.journey.follower.asked.get(branch)
            if not isinstance(action, Generate):
                continue
            if begun.spelling is not None and begun.spelling.tokenizer == own:
                found[branch] = begun
            elif begun.text and takes_text and action.node.constraint is None:
                found[branch] = Begun(begun.text)
        return found

    @property
    def is_present(self) -> bool:
        return self.journey.leg is self

    def update(self) -> None:
        """Pass on what the program has written since."""
        run, replica = self.journey.run, self.replica
        returned = run.returned  # before the nodes: then these are all of them
        nodes = (run.nodes or [])[self._num_sent :]
        self._num_sent += len(nodes)
        replica.streaming = run.streaming
        replica.extend(nodes)
        if returned and not replica.returned:
            replica.close()

    # What the backend does, on its thread.

    def may_begin(self, branch_id: int, action: Generate | Choose) -> bool:
        with self.journey.lock:
            return not self.is_present or self.journey.carrier.may_begin(self, branch_id, action)

    def streamed(self, branch_id: int, text: str, spelling: Spelling | None) -> None:
        def stream() -> None:
            shown = self._shown(branch_id)
            if text.startswith(shown):
                self.journey.shown[branch_id] = Begun(text, spelling)
                self.journey.follower.streamed(branch_id, text, spelling)
            elif not shown.startswith(text):
                self._contradict(branch_id)

        self._if_present(stream)

    def answered(self, branch_id: int, answer: Completion | Chosen) -> None:
        def take() -> None:
            journey, shown = self.journey, self._shown(branch_id)
            journey.shown.pop(branch_id, None)
            if isinstance(answer, Completion) and not answer.text.startswith(shown):
                self._contradict(branch_id)
                return
            journey.answers.append((branch_id, answer))
            journey.carrier.progressed(self, branch_id)
            journey.follower.answered(branch_id, answer)
            journey.settle()

        self._if_present(take)

    def failed(self, cause: BaseException, branch_id: int | None) -> bool:
        with self.journey.lock:
            if not self.is_present or self.journey.carrier.fell(self, cause, branch_id):
                return True
            if branch_id is not None:
                self.journey.answers.append((branch_id, Failed(cause)))
            self.journey.follower.failed(cause, branch_id)
            self.journey.settle()
            return False

    def _shown(self, branch_id: int) -> str:
        begun = self.journey.shown.get(branch_id)
        return "" if begun is None else begun.text

    def _if_present(self, act: Callable[[], None]) -> None:
        with self.journey.lock:
            if self.is_present:
                act()

    def _contradict(self, branch_id: int) -> None:
        self.journey.run.fail(
            BackendError(
                "a provider failed in the middle of a stream, and the next one writes another text "
                "than what was passed on already, which cannot be taken back"
            ),
            branch_id=branch_id,
        )
        self.journey.settle()
