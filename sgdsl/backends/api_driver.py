"""The driver of all providers behind an API: runs in, questions out, on one loop of one thread.

Owns the tasks of each run, the bound of what is in flight, and the use of what a model wrote ahead
of the program. What a question looks like is the wire's business.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import replace
from typing import Any

from sgdsl.backends.ahead import Ahead
from sgdsl.backends.asking import Answer, Ask, Wire, complete
from sgdsl.backends.base import BackendStats
from sgdsl.backends.conversation import prompt_of
from sgdsl.backends.loop_backend import LoopBackend
from sgdsl.backends.secret import Secret
from sgdsl.backends.validation import satisfying
from sgdsl.chat import ChatTemplate
from sgdsl.errors import BackendError
from sgdsl.graph import ROOT, Sampling, Text
from sgdsl.machine import Append, Branch, Choose, Completion, Generate, Idle, Spawn
from sgdsl.run import Run
from sgdsl.seeds import derive_seed

SEED_BITS = 31
"""Of the seeds that are sent: some providers take no more."""

SPECULATIVE_TRIES = 3
"""How often a message is asked for that should begin with the program's own text."""


class _Drive:
    """One run as its driver sees it."""

    __slots__ = ("ahead", "live", "run", "tasks")

    def __init__(self, run: Run) -> None:
        self.run = run
        self.live: dict[int, None] = {ROOT: None}
        """The branches to ask for their next action: neither finished nor busy."""
        self.tasks: set[asyncio.Task[None]] = set()
        self.ahead: dict[int, Ahead] = {}


class ApiBackend(LoopBackend):
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
        secret: Secret,
        chat_template: ChatTemplate,
        max_in_flight: int,
        constraint_retries: int,
    ) -> None:
        super().__init__(label, thread_name="sgdsl-api")
        self._wire = wire
        self._secret = secret
        self._template = chat_template
        self._max_in_flight = max_in_flight
        self._retries = constraint_retries
        self._drives: dict[int, _Drive] = {}
        self._gate = asyncio.Semaphore(max_in_flight)

    # On the loop.

    def _fail_all(self, error: BackendError) -> None:
        for drive in list(self._drives.values()):
            drive.run.fail(error)
            self._drop(drive)

    async def _hang_up(self) -> None:
        with suppress(Exception):  # it is over anyway
            await self._wire.close()

    def _begin(self, run: Run) -> None:
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
                    self._ask(drive, branch_id, self._generate(drive, branch_id, action))
                    return True
                case Choose() as action:
                    del drive.live[branch_id]
                    drive.ahead.pop(branch_id, None)
                    self._ask(drive, branch_id, self._choose(drive, branch_id, action))
                    return True
                case Idle() as idle:
                    if idle is Idle.FINISHED:
                        del drive.live[branch_id]
                    return moved
            moved = True

    def _ask(self, drive: _Drive, branch_id: int, work: Coroutine[Any, Any, None]) -> None:
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
        self._spent += BackendStats(scored.prompt_tokens or 0, 0, scored.completion_tokens or 0)
        draw = random.Random(f"{run.seed} {node.id}").random()
        run.choose(branch_id, scored.scores, draw=draw, meta=scored.meta)

    def _count(self, answers: list[Answer]) -> None:
        for answer in answers:
            self._spent += BackendStats(
                answer.prompt_tokens or 0,
                answer.cached_tokens or 0,
                answer.completion_tokens or 0,
            )

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
