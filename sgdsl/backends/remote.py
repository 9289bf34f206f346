"""`RuntimeEndpoint`: a server of ours, which is given whole graphs and tells what happens to them.

Owns the connection: one stream of events for all runs, the updates that go the other way, and the
truth when it breaks. What a run does with an event is its follower's business.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2

from sgdsl.backends.answer_wire import decode_spelling, encode_answer, encode_begun
from sgdsl.backends.api_arguments import bearer, check_url
from sgdsl.backends.base import BackendStats
from sgdsl.backends.follower import Follower
from sgdsl.backends.http import Http
from sgdsl.backends.loop_backend import LoopBackend
from sgdsl.backends.loop_thread import keep
from sgdsl.backends.replica import Chosen, Replica
from sgdsl.backends.secret import Secret
from sgdsl.backends.shapes import count
from sgdsl.errors import BackendError, ProviderError, UsageError
from sgdsl.graph import shorten
from sgdsl.machine import Completion
from sgdsl.protocol import (
    VERSION,
    decode_error,
    decode_meta,
    decode_numbers,
    decode_scores,
    decode_template,
    encode_node,
    encode_sampling,
    field_of,
)
from sgdsl.run import Run

Json = dict[str, Any]

SILENCE_S = 2.0
"""The server's heart beats four times in it; who hears nothing for so long hears nobody."""


class _Remote:
    """One run that is carried out over there. `sent`: how many of its nodes are known there."""

    __slots__ = ("begun", "closed", "follower", "sent", "streaming")

    def __init__(self, run: Run) -> None:
        self.follower = Follower(run)
        self.sent = 0
        self.begun = self.closed = self.streaming = False


class RuntimeEndpoint(LoopBackend):
    """Runs programs on a server that `sgdsl serve` has started, at `base_url`.

    Graphs go there whole, many runs in one request, and a read goes on from the tokens that the
    server has. When the connection breaks, its runs fail within `silence_s` seconds; the next run
    connects again. `api_key`: of the server. `transport`: of httpx2, for tests.

    Raises `BackendError` when there is no such server.
    """

    passes_nodes_on = True
    caches_prefixes = True

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        verify: bool | str | None = True,
        *,
        max_in_flight: int | None = None,
        connect_timeout_s: float = 10.0,
        silence_s: float = SILENCE_S,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        url = check_url("RuntimeEndpoint", base_url).rstrip("/")
        super().__init__(f"RuntimeEndpoint {url}", thread_name="sgdsl-remote")
        self._silence_s = silence_s
        self._secret = Secret(api_key)
        self._http = Http(
            url,
            self._secret,
            headers=bearer,
            timeout_s=60.0,
            connect_timeout_s=connect_timeout_s,
            verify=True if verify is None else verify,
            label=url,
            hint="; is `sgdsl serve` running there?",
            transport=transport,
        )
        self._runs: dict[int, _Remote] = {}
        self._outbox: dict[int, Json] = {}
        self._session_id: asyncio.Future[str] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._flushing: asyncio.Task[None] | None = None
        try:
            info = self._wait_for(self._http.ask("GET", "/get_model_info"))
            self._learn(info, max_in_flight)
        except BaseException:
            self.close()
            raise

    def _learn(self, info: Json, max_in_flight: int | None) -> None:
        """What the server says of itself."""
        try:
            self.model = field_of(info, "model_path", str)
            self.tokenizer_id = None if info.get("tokenizer") is None else str(info["tokenizer"])
            self._template = decode_template(info.get("chat_template"))
            self._max_in_flight = max_in_flight or field_of(info, "max_in_flight", int)
        except UsageError as error:
            raise self._http.fault(f"is no server of ours: {error}") from None

    def server_info(self) -> Json:
        """What the server tells of itself."""
        return self._wait_for(self._http.ask("GET", "/get_server_info"))

    def flush_cache(self) -> None:
        """Have the server forget its cached prefixes."""
        self._wait_for(self._http.ask("POST", "/flush_cache", {}))

    def unpin(self, run: Run) -> None:
        """What the server computed for a run that `pins` may be evicted there again."""
        self._have(self._unpin, run)

    def _unpin(self, run: Run) -> None:
        if self._session_id is not None:  # without it, the server has nothing pinned any more
            self._outbox[run.id] = {"run": run.id, "unpin": True}
            self._flush()

    async def _hang_up(self) -> None:
        await self._http.close()

    # On the loop: what goes there.

    def _begin(self, run: Run) -> None:
        assert run.nodes is not None, "a backend that passes nodes on is given runs that keep them"
        self._runs[run.id] = _Remote(run)
        self._look(run)

    def _look(self, run: Run) -> None:
        remote = self._runs.get(run.id)
        if remote is None:
            return
        if run.cancelled:
            run.finish_cancelled("the run was cancelled")
        if run.outcome is None:
            try:
                self._add(remote)
            except Exception as error:  # noqa: BLE001 - what cannot be sent is this run's fault
                run.fail(error)
            else:
                remote.follower.advance()
        self._settle(remote)

    def _add(self, remote: _Remote) -> None:
        """Put what the server does not know yet into the outbox."""
        run = remote.follower.run
        closed = run.returned  # before the nodes: then these are all of them
        nodes = (run.nodes or [])[remote.sent :]
        news = nodes or closed != remote.closed or run.streaming != remote.streaming
        if remote.begun and not news:
            return
        encoded = [encode_node(node) for node in nodes]
        update = self._outbox.setdefault(run.id, {"run": run.id, "nodes": []})
        if not remote.begun:
            update |= _beginning(run)
        update["nodes"] += encoded
        update["closed"] = closed
        update["streaming"] = run.streaming
        remote.sent += len(nodes)
        remote.begun, remote.closed, remote.streaming = True, closed, run.streaming
        self._flush()

    def _settle(self, remote: _Remote) -> None:
        run = remote.follower.run
        if run.outcome is None and run.settled:
            run.finish()
            self._runs.pop(run.id, None)
        elif run.outcome is not None and self._runs.pop(run.id, None) is not None and remote.begun:
            self._outbox[run.id] = {"run": run.id, "cancelled": True}
            self._flush()

    def _flush(self) -> None:
        if self._flushing is None:
            self._flushing = keep(self._send_outbox())

    async def _send_outbox(self) -> None:
        """One request after another, so that updates arrive in their order; what comes meanwhile
        goes with the next.
        """
        try:
            while self._outbox:
                updates, self._outbox = list(self._outbox.values()), {}
                body = {"version": VERSION, "keep_open": True, "runs": updates}
                if self._session_id is None:
                    self._session_id = asyncio.get_running_loop().create_future()
                    self._reading = keep(self._read(body))
                    await asyncio.wait([self._session_id])
                    continue
                await self._http.ask("POST", f"/programs/{await self._session_id}", body)
        except ProviderError as error:
            error.retryable |= error.status == 404  # another server is there, or the same anew
            self._fail_all(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, no run waits for it
            self._fail_all(self._http.fault(f"could not be told: {shorten(repr(error), 200)}"))
        finally:
            self._flushing = None

    # On the loop: what comes from there.

    async def _read(self, body: Json) -> None:
        """The stream of events, from its beginning to its end, which is the end of its runs."""
        session_id = self._session_id
        assert session_id is not None, "a session that is being opened has a future"
        try:
            await self._read_events(body, session_id)
            error = self._http.fault("ended the connection", retryable=True)
        except ProviderError as caught:
            error = caught
        except Exception as caught:  # noqa: BLE001 - in the shape of an event, whatever it is
            said = shorten(f"{type(caught).__name__}: {caught}", 500)
            error = self._http.fault(f"sent what is no event: {said}")
        if self._session_id is session_id:
            self._fail_all(error)

    async def _read_events(self, body: Json, session_id: asyncio.Future[str]) -> None:
        path, silence_s = "/programs", self._silence_s
        async with self._http.events(path, body, silence_s=silence_s) as events:
            async for data in events:
                self._take(json.loads(data), session_id)

    def _take(self, event: Any, session_id: asyncio.Future[str]) -> None:
        kind = field_of(event, "event", str)
        if kind == "session":
            if not session_id.done():
                session_id.set_result(field_of(event, "id", str))
            return
        remote = self._runs.get(field_of(event, "run", int))
        if remote is None:
            return  # it has ended here before it did there
        follower = remote.follower
        if kind == "failed":
            branch = None if event.get("branch") is None else field_of(event, "branch", int)
            follower.failed(self._decode_error(event.get("error")), branch)
        elif kind == "ended":  # of a run that is fine there, this is the end here already
            follower.run.fail(self._http.fault("ended the run early"))
        else:
            self._take_answer(follower, kind, field_of(event, "branch", int), event)
        self._settle(remote)

    def _take_answer(self, follower: Follower, kind: str, branch: int, event: Json) -> None:
        if kind == "text":
            text = field_of(event, "text", str)
            follower.streamed(branch, text, decode_spelling(event.get("spelling")))
        elif kind == "completion":
            meta = decode_meta(field_of(event, "meta", dict))
            names = ("prompt_tokens", "cached_tokens", "completion_tokens")
            self._spent += BackendStats(*(count(meta, name) or 0 for name in names))
            text = field_of(event, "text", str)
            spelling = decode_spelling(event.get("spelling"))
            truncated = bool(event.get("truncated"))
            follower.answered(branch, Completion(text, meta, truncated, spelling))
        elif kind == "choice":
            scores = decode_scores(event.get("scores"))
            meta = decode_numbers(field_of(event, "meta", dict))
            follower.answered(branch, Chosen(scores, field_of(event, "draw", float), meta))

    def _decode_error(self, data: Any) -> Exception:
        message = self._secret.scrub(field_of(data, "message", str))
        return decode_error({**data, "message": message})

    def _fail_all(self, error: BackendError) -> None:
        """The connection is gone, and with it what the server knew of the runs."""
        session_id, self._session_id = self._session_id, None
        if session_id is not None and not session_id.done():
            session_id.cancel()
        reading, self._reading = self._reading, None
        if reading is not None and reading is not asyncio.current_task():
            reading.cancel()
        runs, self._runs = self._runs, {}
        self._outbox.clear()
        for remote in runs.values():
            remote.follower.run.fail(error)


def _beginning(run: Run) -> Json:
    """What the server is told of a run once."""
    made: Json = {"begin": True, "seed": run.seed, "defaults": encode_sampling(run.defaults)}
    if run.priority:
        made["priority"] = run.priority
    if run.cache_salt is not None:
        made["cache_salt"] = run.cache_salt
    if run.pins:
        made["pins"] = True
    if isinstance(run, Replica):  # another backend has been at it
        made["spells"] = run.spells
        made["answers"] = [encode_answer(branch, answer) for branch, answer in run.answers]
        partials, run.partials = run.partials, {}
        made["partials"] = [encode_begun(branch, begun) for branch, begun in partials.items()]
    return made
