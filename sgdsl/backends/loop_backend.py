"""What all backends share whose runs are carried out on somebody else's machine.

Owns the way of a run to the loop's thread, the counts of tokens, and the truth when it ends: what
is in flight fails, whether the backend was closed or its thread has died. What is asked over there
is the business of those who inherit.
"""

from __future__ import annotations

import threading
import weakref
from abc import abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, TypeVar

from sgdsl.backends.base import BackendStats, Closing, closed
from sgdsl.backends.loop_thread import LoopThread, keep
from sgdsl.chat import ChatTemplate
from sgdsl.errors import BackendError
from sgdsl.run import Run

T = TypeVar("T")


class LoopBackend(Closing):
    """`label`: what it is called in errors. Its thread ends with it."""

    _template: ChatTemplate
    _max_in_flight: int

    def __init__(self, label: str, *, thread_name: str) -> None:
        self.label = label
        self._spent = BackendStats()
        self._thread = LoopThread(thread_name, died=_weakly(self._die))
        self._finalizer = weakref.finalize(self, self._thread.stop)

    def __repr__(self) -> str:
        return f"<{self.label}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} has a thread, and maybe a key; make it where it is used")

    @property
    def chat_template(self) -> ChatTemplate:
        return self._template

    @property
    def max_in_flight(self) -> int:
        return self._max_in_flight

    def submit(self, run: Run) -> None:
        self._have(self._begin, run)

    def wake(self, run: Run) -> None:
        self._have(self._look, run)

    def stats(self) -> BackendStats:
        """Of the runs that were sent from here."""
        return self._spent

    def close(self) -> None:
        """Runs under way end as failed, here and there; closing twice is fine."""
        self._thread.stop(self._shut())

    def _have(self, carry_out: Callable[[Run], None], run: Run) -> None:
        def carefully() -> None:
            try:
                carry_out(run)
            except BaseException as error:  # noqa: BLE001 - it is this run's end, no other's
                run.fail(error)

        if not self._thread.call(carefully):
            run.fail(closed(self.label))

    def _wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` gives on the loop."""
        done: list[T | BaseException] = []
        over = threading.Event()

        async def carry_out() -> None:
            try:
                done.append(await work)
            except BaseException as error:  # noqa: BLE001 - raised by whoever waits
                done.append(error)
            over.set()

        if not self._thread.call(lambda: keep(carry_out())):
            work.close()
            raise closed(self.label)
        over.wait()
        if isinstance(found := done[0], BaseException):
            raise found
        return found

    def _die(self, cause: BaseException) -> None:
        said = f"its thread has ended ({type(cause).__name__}: {cause}); make another one"
        error = BackendError(f"{self.label}: {said}")
        error.__cause__ = cause
        self._fail_all(error)

    async def _shut(self) -> None:
        self._fail_all(closed(self.label))
        await self._hang_up()

    # On the loop.

    @abstractmethod
    def _begin(self, run: Run) -> None:
        """Take the run on."""

    @abstractmethod
    def _look(self, run: Run) -> None:
        """The run has more nodes, was closed or cancelled; it may have been dropped long ago."""

    @abstractmethod
    def _fail_all(self, error: BackendError) -> None:
        """End every run that is under way."""

    @abstractmethod
    async def _hang_up(self) -> None:
        """Let the connections go. Raises nothing."""


def _weakly(method: Callable[[BaseException], None]) -> Callable[[BaseException], None]:
    """`method`, if there is still somebody to call it on."""
    of = weakref.WeakMethod(method)

    def call(cause: BaseException) -> None:
        if (found := of()) is not None:
            found(cause)

    return call
