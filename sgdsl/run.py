"""One execution of a program: the meeting point of the user's thread and the backend's.

Owns what happens to a run's machine, and its outcome, which is set once. The program's side
extends, closes, cancels and reads; the backend's side drives the machine and finishes. Knows
nothing of how a backend works, nor of how a run is waited for.
"""

from __future__ import annotations

import itertools
from asyncio import CancelledError as TaskCancelled
from collections.abc import Iterable
from typing import Any

from grammars import Constraint
from sgdsl.awaited import Awaited
from sgdsl.chat import ChatTemplate
from sgdsl.choices import ChoiceScores
from sgdsl.errors import BackendError, CancelledError, ProgramError, no_variable
from sgdsl.explanation import BranchRecord, Explanation
from sgdsl.graph import ROOT, Node, Sampling
from sgdsl.machine import Action, Branch, Completion, Machine, Spelling
from sgdsl.outcome import OK, TRUNCATED, Outcome, failure
from sgdsl.source import Source
from sgdsl.values import Lazy

_run_ids = itertools.count()


class Run(Awaited):
    """Thread-safe. Every wait ends: by its value, or by the run's outcome.

    Either side may set the outcome (the program's when its body raises); the first one stays, and a
    backend drops a run that is `cancelled`. Typed values are parsed on the program's side. So the
    `outcome` says what the execution came to, and the program asks `conclude`, which parses those
    that nobody has read: one that cannot be parsed makes a failure of it, before anybody looks.

    `streaming` asks the backend to report partial text (`stream`); off, it saves that work. It may
    be turned on while the run goes on.
    `seed` is what all sampling of this run derives from. `ended_by_program`: the outcome did not
    wait for the backend, which may still be at it. `num_api_spec_tokens` lets a backend that is
    paid by the call ask for so many tokens ahead of the program; others pay no heed to it.
    `priority`: a backend in which runs wait for each other lets higher ones go first. `cache_salt`:
    one that keeps prefixes shares them among runs of the same salt only. `pins`: it keeps what it
    computes of this run until its `unpin`. `nodes`: all that the
    program wrote, for a backend that passes it on; None: nobody asked.
    """

    __slots__ = (
        "_machine",
        "cache_salt",
        "cancelled",
        "defaults",
        "ended_by_program",
        "id",
        "nodes",
        "num_api_spec_tokens",
        "pins",
        "priority",
        "returned",
        "seed",
        "streaming",
        "value",
    )

    def __init__(
        self,
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
    ) -> None:
        super().__init__()
        self.id = next(_run_ids)
        self.num_api_spec_tokens = num_api_spec_tokens
        self.priority = priority
        self.cache_salt = cache_salt
        self.pins = pins
        self.nodes: list[Node] | None = [] if keeps_nodes else None
        self.seed = seed
        self.defaults = defaults
        self.streaming = streaming
        self.cancelled = False
        self.ended_by_program = False
        self.returned = False
        self.value: object = None
        self._machine = Machine(template=template, defaults=defaults, seed=seed)

    # The program's side.

    def extend(self, nodes: Iterable[Node]) -> None:
        with self._lock:
            if self.outcome is not None:
                return
            if self.nodes is not None:
                nodes = list(nodes)
                self.nodes += nodes
            self._machine.extend(nodes)
            overdue = self._machine.overdue()
        if overdue is not None:
            self._set(Outcome("failed", overdue))

    def close(self, value: object = None) -> None:
        """The body returned `value`: no more nodes will come."""
        with self._lock:
            self.returned = True
            self.value = value
            self._machine.close()
            overdue = self._machine.overdue()
        if overdue is not None:
            self._set(Outcome("failed", overdue))

    def cancel(self) -> None:
        """Ask for the end; the backend (woken by the caller) sets the outcome."""
        with self._lock:
            self.cancelled = True

    def end(self, error: CancelledError) -> None:
        """Cancel the run here and now; the backend (woken by the caller) drops it when it hears."""
        with self._lock:
            if self.outcome is None:
                self.cancelled = self.ended_by_program = True
        self._set(Outcome("cancelled", error))

    def abandon(self, error: BaseException, source: Source | None = None) -> None:
        """The body raised `error` at `source`: the outcome is set at once, the backend drops it."""
        asked = self.cancelled
        self.cancel()
        if asked or isinstance(error, KeyboardInterrupt | TaskCancelled):
            self.finish_cancelled("interrupted")
        else:
            self.fail(error, source=source)

    def wait(self, timeout_s: float | None = None) -> Outcome | None:
        """The outcome; None if it is not set within `timeout_s`."""
        self.wait_until(lambda: False, timeout_s=timeout_s)
        return self.conclude()

    def conclude(self) -> Outcome | None:
        """The outcome, after the values that nobody has read are parsed, on this thread; None while
        the run goes on.
        """
        outcome = self.outcome
        if outcome is None or outcome.error is not None or not self._machine.unread:
            return outcome
        with self._lock:
            outcome, values = self.outcome, self._machine.unread
        try:
            for value in values:
                self._read(value)
        except ProgramError:
            pass  # it is the outcome now
        else:
            with self._lock:
                if self.outcome is outcome:
                    self._machine.unread = ()
        return self.outcome

    @property
    def unread(self) -> list[Lazy]:
        """The values that are still to be parsed before the outcome of this run is certain."""
        if not self._machine.unread:
            return []
        with self._lock:
            if self.outcome is None or self.outcome.error is not None:
                return []
            return [value for value in self._machine.unread if not value.made]

    def _read(self, value: Lazy) -> Any:
        """A value that cannot be parsed fails the run, as its gen would."""
        try:
            return value.read()
        except ProgramError as error:
            self._set(Outcome("failed", error), of_value=True)
            self.raise_error()
            raise
        except KeyboardInterrupt:
            interrupted = CancelledError("interrupted while a value was parsed")
            self._set(Outcome("cancelled", interrupted), of_value=True)
            raise

    def variable(self, branch_id: int, name: str | int, *, until_end: bool = False) -> Any:
        """The value of a variable (an int: the unnamed one at that position), as soon as there is
        one. Without one: `until_end`, the program may still write it, so that only the run's end
        says that there is none; else it is enough that the branch has carried out what it has.
        """
        value = self.unread_variable(branch_id, name, until_end=until_end)
        return self._read(value) if isinstance(value, Lazy) else value

    def unread_variable(self, branch_id: int, name: str | int, *, until_end: bool = False) -> Any:
        """The same, but a typed value stays unread: a check may still want it written again."""
        self.wait_until(
            lambda: self._has(branch_id, name) or (not until_end and self._still(branch_id))
        )
        branch = self._branch(branch_id)
        found = branch is not None and branch.defines(name) and not branch.lost(name)
        if branch is None or not found:
            self.raise_error(branch_id)
            has = ([], 0) if branch is None else (sorted(branch.variables), len(branch.unnamed))
            raise no_variable(name, *has)
        return branch.unnamed[name] if isinstance(name, int) else branch.variables[name].value

    def settle(self, branch_id: int) -> Branch:
        """The branch, once it has carried out all that was written on it."""
        self.wait_until(lambda: self._still(branch_id))
        self.raise_error(branch_id)
        branch = self._branch(branch_id)
        assert branch is not None, "a branch that was written on exists unless the run failed"
        return branch

    def peek(self, branch_id: int) -> Branch | None:
        """The branch as it stands, for looking only; None before its fork has been carried out."""
        return self._machine.branches.get(branch_id)

    def explain(self) -> Explanation:
        """What was carried out so far, node by node."""
        with self._lock:
            branches = [BranchRecord.of(branch) for branch in self._machine.branches.values()]
            waiting, outcome = self._machine.waiting(), self.outcome
        return Explanation(branches, waiting, outcome)

    def raise_error(self, branch_id: int = ROOT) -> None:
        """Raise what ended the run, or this fork of it, before its time, if something did."""
        error = self.error_of(branch_id)
        if error is not None:
            raise error.with_traceback(None)

    def error_of(self, branch_id: int) -> BaseException | None:
        outcome = self.conclude()
        if outcome is not None and outcome.error is not None:
            return outcome.error
        branch = self._branch(branch_id)
        return None if branch is None else branch.error

    def release(self) -> None:
        """Drop what only execution needed; called when neither side works on the run any more."""
        assert self.outcome is not None, "a run is released after its end"
        if self.ended_by_program:
            return
        self._machine.release()
        self.nodes = None
        self._release()

    def _branch(self, branch_id: int) -> Branch | None:
        return self._machine.branches.get(branch_id)

    def _has(self, branch_id: int, name: str | int) -> bool:
        branch = self._branch(branch_id)
        return branch is not None and branch.defines(name) and not branch.awaits(name)

    def is_there(self, branch_id: int, name: str | int | None) -> bool:
        """Whether reading the variable (None: anything) of this branch needs no wait."""
        with self._lock:
            branch = self._branch(branch_id)
            if self.outcome is not None or (branch is not None and branch.error is not None):
                return True
            return self._still(branch_id) if name is None else self._has(branch_id, name)

    def _still(self, branch_id: int) -> bool:
        branch = self._branch(branch_id)
        return branch is not None and branch.drained

    # The backend's side.

    def next(self, branch_id: int) -> Action:
        with self._lock:
            action = self._machine.next(branch_id)
            if self._changed is not None or self._waiting:
                self._tell()
            return action

    @property
    def settled(self) -> bool:
        """The program has returned and every branch is done: the backend now calls `finish`."""
        with self._lock:
            return self._machine.finished

    def nodes_ahead(self, branch_id: int | None = None) -> list[Node]:
        """What is still to be carried out, as far as it is known: on this branch, or on all."""
        with self._lock:
            if branch_id is None:
                return self._machine.waiting()
            branch = self._branch(branch_id)
            return [] if branch is None else list(branch.queue)

    def pending_constraints(self) -> list[Constraint]:
        """What to compile before the nodes that wait are reached."""
        with self._lock:
            return self._machine.pending_constraints()

    spells = False
    """Whether somebody wants the tokens of what is streamed."""

    def stream(self, branch_id: int, text: str, spelling: Spelling | None = None) -> None:  # noqa: ARG002
        """What the gen under way has written so far. `spelling`: of that, for who passes it on."""
        with self._lock:
            self._machine.stream(branch_id, text)
            self._tell()

    def complete(self, branch_id: int, completion: Completion) -> None:
        """The text of a gen. What comes after the end of the run is dropped."""
        with self._lock:
            if self.outcome is not None:
                return
            self._machine.complete(branch_id, completion)
            self._tell()

    def choose(
        self, branch_id: int, scores: ChoiceScores, *, draw: float, meta: dict[str, Any]
    ) -> str:
        """The scores of a select; returns the text chosen: none after the end of the run."""
        with self._lock:
            if self.outcome is not None:
                return ""
            try:
                text = self._machine.choose(branch_id, scores, draw=draw, meta=meta)
            except Exception:
                raise
            except BaseException as error:  # a choices_method of the user must not end the backend
                raise BackendError(
                    f"choices_method raised {type(error).__name__}: {error}"
                ) from error
            self._tell()
            return text

    def finish(self) -> None:
        """All nodes were carried out."""
        self._set(TRUNCATED if self._machine.truncated else OK)

    def finish_cancelled(self, reason: str) -> None:
        self._set(Outcome("cancelled", CancelledError(reason)))

    def fail(
        self,
        cause: BaseException,
        *,
        branch_id: int | None = None,
        source: Source | None = None,
    ) -> None:
        """End the run because of `cause`, at the node that is active on `branch_id`, if any.

        That of a fork may be collected by a join: then the run goes on, without an outcome. The
        node counts as answered, and the driver asks the branch for its `next` action, as ever.
        """
        branch = None if branch_id is None else self._branch(branch_id)
        node = None if branch is None else branch.active
        error = failure(cause, node=node, source=source if node is None else node.source)
        if branch is not None:
            with self._lock:
                ends = self.outcome is not None or self._machine.fail(branch.id, error)
                if not ends:
                    self._tell()
                    return
        self._set(Outcome("failed", error))

    def _set(self, outcome: Outcome, *, of_value: bool = False) -> None:
        with self._lock:
            uncertain = of_value and self.outcome is not None and self.outcome.error is None
            if self.outcome is not None and not (uncertain and self._machine.unread):
                return
            self.outcome = outcome
            self._tell()
        self._tell_watchers()
