"""The runs of one connection: what the client writes goes to the backend, what happens comes back.

Owns the replicas of a connection, the check of what the client sends, and their end when the
connection ends. Knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from threading import Lock
from typing import Any

from sgdsl.arguments import cache_salt_from
from sgdsl.backends.answer_wire import decode_answer, decode_begun, encode_spelling
from sgdsl.backends.base import Backend
from sgdsl.backends.replica import Chosen, Replica, Watcher
from sgdsl.errors import UsageError
from sgdsl.graph import Fork, Node
from sgdsl.machine import Completion, Spelling
from sgdsl.protocol import (
    decode_defaults,
    decode_node,
    encode_error,
    encode_numbers,
    encode_scores,
    field_of,
)
from sgdsl.shape import Shape

MAX_RUNS = 100_000
MAX_NODES = 100_000
"""Of a connection, and of a run: far more than a program has, far less than the memory."""

MAX_PINS = 1_000
"""Of a connection: each is a program whose beginning stays cached."""

Event = dict[str, Any]


class Session:
    """`loop`: where `events` are awaited; all else may be called from any thread."""

    def __init__(self, backend: Backend, loop: asyncio.AbstractEventLoop) -> None:
        self.id = secrets.token_urlsafe(24)
        self._backend = backend
        self._loop = loop
        self._events: deque[Event] = deque()
        self._bell = asyncio.Event()
        self._lock = Lock()  # one update after another
        self._runs: dict[int, _Served] = {}
        self._pinned: dict[int, Replica] = {}  # what has ended, and stays cached
        self._closed = False

    def emit(self, event: Event) -> None:
        self._events.append(event)
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._bell.set)

    @property
    def num_live(self) -> int:
        return len(self._runs)

    async def events(self, beat_s: float) -> list[Event]:
        """What has happened since; none, if nothing does for `beat_s`."""
        if not self._events:
            self._bell.clear()
            try:
                async with asyncio.timeout(beat_s):
                    await self._bell.wait()
            except TimeoutError:
                return []
        found = []
        while self._events:
            found.append(self._events.popleft())
        return found

    def update(self, updates: list[Any]) -> None:
        """New runs and news of old ones. What is wrong with one is the end of that one alone."""
        with self._lock:
            for update in updates:
                run_id = field_of(update, "run", int)
                served = self._runs.get(run_id)
                try:
                    if update.get("unpin"):
                        if served is not None:
                            served.unpinned = True  # it has answered, and is about to end
                        self._unpin(run_id)
                        continue
                    if served is None:
                        if not update.get("begin"):
                            continue  # it has ended meanwhile
                        served = self._begin(run_id, update)
                    served.update(update)
                except Exception as error:  # noqa: BLE001 - whatever it is, it is this run's alone
                    self.emit(
                        {"event": "failed", "run": run_id, "branch": None}
                        | {"error": encode_error(error)}
                    )
                    self._drop(run_id)

    def _begin(self, run_id: int, update: Event) -> _Served:
        if len(self._runs) >= MAX_RUNS:
            raise UsageError(f"a connection has at most {MAX_RUNS} runs at once; wait for some")
        if self._closed:
            raise UsageError("the connection has ended")
        if update.get("pins") and len(self._pinned) >= MAX_PINS:
            raise UsageError(f"a connection keeps at most {MAX_PINS} prefixes; release some")
        served = self._runs[run_id] = _Served(run_id, update, self)
        served.run.when_finished(lambda _: self._ended(served))
        return served

    def _ended(self, served: _Served) -> None:
        outcome = served.run.outcome
        assert outcome is not None, "a run that has ended has an outcome"
        self._runs.pop(served.id, None)
        if served.run.pins and outcome.error is None:
            self._pinned[served.id] = served.run
            if self._closed or served.unpinned:
                self._unpin(served.id)
        self.emit({"event": "ended", "run": served.id, "status": outcome.status})

    def _unpin(self, run_id: int) -> None:
        run = self._pinned.pop(run_id, None)
        unpin = getattr(self._backend, "unpin", None)
        if run is not None and unpin is not None:
            unpin(run)

    def _drop(self, run_id: int) -> None:
        served = self._runs.pop(run_id, None)
        if served is not None:
            served.cancel()

    @property
    def backend(self) -> Backend:
        return self._backend

    def close(self) -> None:
        """The client is gone: so are its runs."""
        with self._lock:
            self._closed = True
            for served in list(self._runs.values()):
                served.cancel()
            for run_id in list(self._pinned):
                self._unpin(run_id)


class _Served(Watcher):
    """One run of a client."""

    def __init__(self, run_id: int, update: Event, session: Session) -> None:
        self.id = run_id
        self._session = session
        self._shape = Shape()
        self._submitted = False
        self.unpinned = False
        self._num_nodes = 0
        self.run = Replica(
            self,
            template=session.backend.chat_template,
            defaults=decode_defaults(update.get("defaults", {})),
            seed=field_of(update, "seed", int),
            streaming=bool(update.get("streaming")),
            priority=field_of(update, "priority", int) if "priority" in update else 0,
            cache_salt=_salt(update),
            pins=bool(update.get("pins")),
            answers=[decode_answer(each) for each in _listed(update, "answers")],
            partials=dict(decode_begun(each) for each in _listed(update, "partials")),
            spells=bool(update.get("spells")),
        )

    def update(self, update: Event) -> None:
        if update.get("cancelled"):
            self.cancel()
            return
        given = update.get("nodes", [])
        if not isinstance(given, list):
            raise UsageError(f"nodes={given!r:.80} is not allowed; it is a list of nodes")
        nodes = list[Node]()
        for each in given:
            nodes.append(node := decode_node(each))
            self._num_nodes += 1 + (len(node.children) if isinstance(node, Fork) else 0)
            if self._num_nodes > MAX_NODES:
                raise UsageError(f"a run has at most {MAX_NODES} nodes and forks")
        try:
            for node in nodes:
                self._shape.admit(node)
        except AssertionError as error:  # the invariants of an honest client
            raise UsageError(f"the graph is malformed: {error}") from None
        self.run.streaming |= bool(update.get("streaming"))
        self.run.extend(nodes)
        if update.get("closed"):
            self.run.close()
        backend = self._session.backend
        if self._submitted:
            backend.wake(self.run)
        else:
            self._submitted = True
            backend.submit(self.run)

    def cancel(self) -> None:
        self.run.cancel()
        if self._submitted:
            self._session.backend.wake(self.run)
        else:
            self.run.finish_cancelled("cancelled by the client")

    # What the backend does.

    def streamed(self, branch_id: int, text: str, spelling: Spelling | None) -> None:
        self._tell("text", branch_id, text=text, **encode_spelling(spelling))

    def answered(self, branch_id: int, answer: Completion | Chosen) -> None:
        if isinstance(answer, Completion):
            self._tell(
                "completion",
                branch_id,
                text=answer.text,
                truncated=answer.truncated,
                meta=encode_numbers(answer.meta),
                **encode_spelling(answer.spelling if self.run.spells else None),
            )
            return
        self._tell("choice", branch_id, **encode_choice(answer))

    def failed(self, cause: BaseException, branch_id: int | None) -> bool:
        self._tell("failed", branch_id, error=encode_error(cause))
        return False

    def _tell(self, event: str, branch_id: int | None, **said: Any) -> None:
        self._session.emit({"event": event, "run": self.id, "branch": branch_id, **said})


def encode_choice(chosen: Chosen) -> Event:
    return {
        "scores": encode_scores(chosen.scores),
        "draw": chosen.draw,
        "meta": encode_numbers(chosen.meta),
    }


def _salt(update: Event) -> str | None:
    given = update.get("cache_salt")
    return None if given is None else cache_salt_from("run", given)


def _listed(update: Event, name: str) -> list[Any]:
    given = update.get(name, [])
    if not isinstance(given, list):
        raise UsageError(f"{name}={given!r:.80} is not allowed; it is a list")
    return given
