"""The driver of all providers behind an API: runs in, questions out, on one loop of one thread.

Owns the loop, the tasks of each run, the bound of what is in flight, and the use of what a model
wrote ahead of the program. What a question looks like is the wire's business.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import weakref
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from sgdsl.backends.ahead import Ahead
from sgdsl.backends.asking import Answer, Ask, Wire, complete
from sgdsl.backends.base import BackendStats, closed
from sgdsl.backends.conversation import prompt_of
from sgdsl.backends.http import Secret
from sgdsl.backends.validation import satisfying
from sgdsl.chat import PLAIN, ChatTemplate
from sgdsl.errors import BackendError
from sgdsl.graph import ROOT, Sampling, Text
from sgdsl.machine import Append, Branch, Choose, Completion, Generate, Idle, Spawn
from sgdsl.run import Run
from sgdsl.seeds import derive_seed

SEED_BITS = 31
"""Of the seeds that are sent: some providers take no more."""

NO_SECRET = Secret(None)

SPECULATIVE_TRIES = 3
"""How often a message is asked for that should begin with the program's own text."""


class LoopThread:
    """An asyncio loop on a daemon thread, from its first use until it is stopped."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process_id = os.getpid()
        self._stopped = False

    @property
    def stopped(self) -> bool:
        """A fork of the process, which has no threads, counts as one that was stopped."""
        return self._stopped or os.getpid() != self._process_id

    def call(self, function: Any, *args: Any) -> bool:
        """Have `function` called on the loop; False when it has stopped."""
        if self.stopped:  # before the lock, which a fork may have for ever
            return False
        with self._lock:
            if self._stopped:
                return False
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name=self._name, daemon=True
                )
                self._thread.start()
            self._loop.call_soon_threadsafe(function, *args)
            return True

    def stop(self, last: Coroutine[Any, Any, None] | None = None) -> None:
        """Await `last` on the loop, cancel what is left there, and end the thread."""
        already = self.stopped
        if not already:
            with self._lock:
                already, self._stopped = self._stopped, True
        loop, thread = self._loop, self._thread
        if already or loop is None or thread is None:
            if last is not None:
                last.close()
            return

        async def end() -> None:
            if last is not None:
                await last
            loop.stop()

        ending = asyncio.run_coroutine_threadsafe(end(), loop)
        if thread is not threading.current_thread():
            thread.join()
            assert ending.done(), "the loop ends behind its last task"


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


class _Drive:
    """One run as its driver sees it."""

    __slots__ = ("ahead", "live", "run", "tasks")

    def __init__(self, run: Run) -> None:
        self.run = run
        self.live: dict[int, None] = {ROOT: None}
        """The branches to ask for their next action: neither finished nor busy."""
        self.tasks: set[asyncio.Task[None]] = set()
        self.ahead: dict[int, Ahead] = {}


class ApiBackend:
    """Drives runs with answers of `wire`. A context manager; `close()` ends its thread.

    `secret`: the key, which no error shows. `max_in_flight`: questions at once.
    `constraint_retries`: how often an answer that does not satisfy its constraint is asked for
    again.
    """

    speaks_messages = True
    """The chat template is what `text()` shows; a provider that gets messages applies its own."""

    def __init__(
        self,
        wire: Wire,
        *,
        label: str,
        secret: Secret = NO_SECRET,
        chat_template: ChatTemplate = PLAIN,
        max_in_flight: int = 64,
        constraint_retries: int = 2,
    ) -> None:
        self._wire = wire
        self._secret = secret
        self.label = label
        self._template = chat_template
        self._max_in_flight = max_in_flight
        self._retries = constraint_retries
        self._drives: dict[int, _Drive] = {}
        self._gate = asyncio.Semaphore(max_in_flight)
        self._counts = [0, 0, 0]
        self._thread = LoopThread("sgdsl-api")
        self._finalizer = weakref.finalize(self, self._thread.stop)

    def __repr__(self) -> str:
        return f"<{self.label}>"

    @property
    def chat_template(self) -> ChatTemplate:
        return self._template

    @property
    def max_in_flight(self) -> int:
        return self._max_in_flight

    def submit(self, run: Run) -> None:
        if not self._thread.call(self._start, run):
            run.fail(self._closed())

    def wake(self, run: Run) -> None:
        if not self._thread.call(self._look, run):
            run.fail(self._closed())

    def stats(self) -> BackendStats:
        prompt, cached, completion = self._counts
        return BackendStats(
            prompt_tokens=prompt, cached_tokens=cached, completion_tokens=completion
        )

    def close(self) -> None:
        """Runs under way end as failed; closing twice is fine."""
        self._thread.stop(self._shut())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _closed(self) -> BackendError:
        return closed(self.label)

    async def _shut(self) -> None:
        for drive in list(self._drives.values()):
            drive.run.fail(self._closed())
            self._drop(drive)
        with suppress(Exception):  # it is over anyway
            await self._wire.close()

    # On the loop.

    def _start(self, run: Run) -> None:
        self._drives[run.id] = _Drive(run)
        self._look(run)

    def _look(self, run: Run) -> None:
        drive = self._drives.get(run.id)
        if drive is None:
            return
        if run.cancelled:
            run.finish_cancelled("the run was cancelled")
        self._advance(drive)

    def _drop(self, drive: _Drive) -> None:
        self._drives.pop(drive.run.id, None)
        for task in drive.tasks:
            task.cancel()

    def _advance(self, drive: _Drive) -> None:
        """Ask every branch until none of them moves; see `MockBackend._step` for the rules."""
        run, moved = drive.run, True
        while moved and not _is_over(run):
            moved = False
            for branch_id in list(drive.live):
                try:
                    moved |= self._step(drive, branch_id)
                except BaseException as error:  # noqa: BLE001 - it is this run's end, no other's
                    run.fail(error, branch_id=branch_id)
                    moved = True
                if _is_over(run):
                    break
        if run.outcome is None and run.settled:
            run.finish()
        if run.outcome is not None:
            self._drop(drive)

    def _step(self, drive: _Drive, branch_id: int) -> bool:
        run, moved = drive.run, False
        while True:
            match run.next(branch_id):
                case Append(pieces=pieces):
                    ahead = drive.ahead.get(branch_id)
                    if ahead is not None and (
                        any(piece.special for piece in pieces)
                        or not ahead.follow("".join(piece.text for piece in pieces))
                    ):
                        del drive.ahead[branch_id]
                case Spawn(children=children):
                    drive.live.update(dict.fromkeys(children))
                case Generate() as action:
                    del drive.live[branch_id]
                    self._begin(drive, branch_id, self._generate(drive, branch_id, action))
                    return True
                case Choose() as action:
                    del drive.live[branch_id]
                    drive.ahead.pop(branch_id, None)
                    self._begin(drive, branch_id, self._choose(drive, branch_id, action))
                    return True
                case Idle() as idle:
                    if idle is Idle.FINISHED:
                        del drive.live[branch_id]
                    return moved
            moved = True

    def _begin(self, drive: _Drive, branch_id: int, work: Coroutine[Any, Any, None]) -> None:
        async def answer() -> None:
            try:
                await work
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # noqa: BLE001 - it is this run's end, no other's
                self._secret.scrub_error(error)
                drive.run.fail(error, branch_id=branch_id)
            drive.live[branch_id] = None
            if drive.run.id in self._drives:
                self._advance(drive)

        task = asyncio.get_running_loop().create_task(answer())
        drive.tasks.add(task)
        task.add_done_callback(drive.tasks.discard)

    async def _generate(self, drive: _Drive, branch_id: int, action: Generate) -> None:
        run, node = drive.run, action.node
        branch = run.peek(branch_id)
        assert branch is not None, "an active branch exists"
        written = await self._speculate(drive, branch, action)
        if written is not None:
            run.complete(branch_id, written)
            return
        streams = run.streaming and node.constraint is None
        ask = Ask(
            prompt_of(branch),
            action.sampling,
            _seed(run, action.sampling, node.id),
            node.constraint,
            on_text=(lambda text: run.stream(branch_id, text)) if streams else None,
        )
        async with self._gate:
            completion, answers = await complete(self._wire, ask, retries=self._retries)
        self._count(answers)
        run.complete(branch_id, completion)

    async def _choose(self, drive: _Drive, branch_id: int, action: Choose) -> None:
        run, node = drive.run, action.node
        branch = run.peek(branch_id)
        assert branch is not None, "an active branch exists"
        seed = _seed(run, Sampling(), node.id)
        async with self._gate:
            scored = await self._wire.score(prompt_of(branch), node, seed=seed)
        self._counts[0] += scored.prompt_tokens or 0
        self._counts[2] += scored.completion_tokens or 0
        draw = random.Random(f"{run.seed} {node.id}").random()
        run.choose(branch_id, scored.scores, draw=draw, meta=scored.meta)

    def _count(self, answers: list[Answer]) -> None:
        for answer in answers:
            self._counts[0] += answer.prompt_tokens or 0
            self._counts[1] += answer.cached_tokens or 0
            self._counts[2] += answer.completion_tokens or 0

    # What the model writes ahead of the program.

    async def _speculate(
        self, drive: _Drive, branch: Branch, action: Generate
    ) -> Completion | None:
        """The gen's value out of one completion of the whole rest; None: ask for it alone."""
        if (num_tokens := drive.run.num_api_spec_tokens) is None:
            return None
        node, stops = action.node, action.sampling.stop or ()
        following = _following(branch)
        meta: dict[str, Any] = {"speculated": True, "completion_tokens": 0}
        ahead = drive.ahead.pop(branch.id, None)
        if ahead is not None and len(branch.pieces) < ahead.num_pieces:
            ahead = None
        value = None if ahead is None else ahead.cut(stops, following)
        if value is None:
            ahead, meta = await self._look_ahead(drive.run, branch, action, num_tokens)
            value = None if ahead is None else ahead.cut(stops, following)
        if value is not None and node.constraint is not None:
            value = await asyncio.to_thread(satisfying, node.constraint, value, prefix=False)
        if value is None or ahead is None:
            return None
        ahead.num_pieces = len(branch.pieces) + 1
        drive.ahead[branch.id] = ahead
        return Completion(value, {"finish_reason": {"type": "stop", "matched": None}, **meta})

    async def _look_ahead(
        self, run: Run, branch: Branch, action: Generate, num_tokens: int
    ) -> tuple[Ahead | None, dict[str, Any]]:
        """Ask for all that may follow. In a message that the program has begun, the model writes
        the message from its beginning, and must begin it in the same way.
        """
        prompt = prompt_of(branch)
        begun = prompt.begun if prompt.is_chat else ""
        sampling = replace(action.sampling, max_tokens=num_tokens, min_tokens=0, stop=())
        ask = Ask(
            replace(prompt, begun="") if begun else prompt,
            sampling,
            _seed(run, action.sampling, action.node.id),
        )
        for attempt in range(SPECULATIVE_TRIES):
            async with self._gate:
                completion, answers = await complete(
                    self._wire, replace(ask, seed=ask.seed + attempt), retries=0
                )
            self._count(answers)
            ahead = Ahead(completion.text, ended=not completion.truncated)
            for lead in dict.fromkeys(("", completion.text[: _num_blanks(completion.text)])):
                if ahead.follow(lead + begun):
                    return ahead, {**completion.meta, "speculated": True}
        return None, {}


def _is_over(run: Run) -> bool:
    return run.outcome is not None


def _num_blanks(text: str) -> int:
    return len(text) - len(text.lstrip())


def _following(branch: Branch) -> str:
    """The literal that is known to come behind the active node."""
    texts: list[str] = []
    for node in list(branch.queue):
        if not isinstance(node, Text):
            break
        texts.append(node.text)
    return "".join(texts)


def _seed(run: Run, sampling: Sampling, node_id: int) -> int:
    seed = run.seed if sampling.seed is None else sampling.seed
    return derive_seed(seed, node_id) >> (63 - SEED_BITS)
