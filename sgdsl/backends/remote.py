"""`RuntimeEndpoint`: a server of ours, which is given whole graphs and tells what happens to them.

Owns the connection: one stream of events for all runs, the updates that go the other way, and the
truth when it breaks. What a run does with an event is its follower's business.
"""

from __future__ import annotations

import asyncio
import json
import threading
import weakref
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

import httpx2

from sgdsl.backends.api_driver import LoopThread
from sgdsl.backends.base import BackendStats, closed
from sgdsl.backends.follower import Follower
from sgdsl.backends.http import Secret
from sgdsl.backends.openai import bearer, check_url
from sgdsl.backends.replica import Answered, Chosen, Failed, Replica
from sgdsl.backends.shapes import count
from sgdsl.backends.sse import EventReader, EventTooLongError
from sgdsl.chat import ChatTemplate
from sgdsl.errors import BackendError, ProviderError
from sgdsl.graph import shorten
from sgdsl.machine import Completion
from sgdsl.protocol import (
    VERSION,
    decode_error,
    decode_meta,
    decode_numbers,
    decode_scores,
    decode_template,
    encode_error,
    encode_node,
    encode_sampling,
    encode_scores,
    field_of,
    to_bytes,
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


class RuntimeEndpoint:
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
        self._url = check_url("RuntimeEndpoint", base_url).rstrip("/")
        self._secret = Secret(api_key)
        self._silence_s = silence_s
        self._client = httpx2.AsyncClient(
            timeout=httpx2.Timeout(60.0, connect=connect_timeout_s),
            limits=httpx2.Limits(max_connections=None),
            transport=transport,
            verify=(True if verify is None else verify)
            and self._url.startswith("https"),  # certificates take 0.2 s to load
        )
        self._runs: dict[int, _Remote] = {}
        self._outbox: dict[int, Json] = {}
        self._session_id: asyncio.Future[str] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._counts = [0, 0, 0]
        self._thread = LoopThread("sgdsl-remote")
        self._finalizer = weakref.finalize(self, self._thread.stop)
        try:
            info = self._wait_for(self._get("/get_model_info"))
        except BackendError:
            self.close()
            raise
        self.model = field_of(info, "model_path", str)
        self._template = decode_template(info.get("chat_template"))
        self._max_in_flight = max_in_flight or field_of(info, "max_in_flight", int)

    def __repr__(self) -> str:
        return f"<RuntimeEndpoint {self._url}>"

    @property
    def chat_template(self) -> ChatTemplate:
        return self._template

    @property
    def max_in_flight(self) -> int:
        return self._max_in_flight

    def submit(self, run: Run) -> None:
        if not self._thread.call(self._begin, run):
            run.fail(self._closed())

    def wake(self, run: Run) -> None:
        if not self._thread.call(self._look, run):
            run.fail(self._closed())

    def stats(self) -> BackendStats:
        """Of the runs that were sent from here."""
        prompt, cached, completion = self._counts
        return BackendStats(
            prompt_tokens=prompt, cached_tokens=cached, completion_tokens=completion
        )

    def server_info(self) -> Json:
        """What the server tells of itself."""
        return self._wait_for(self._get("/get_server_info"))

    def flush_cache(self) -> None:
        """Have the server forget its cached prefixes."""
        self._wait_for(self._send("/flush_cache", {}))

    def close(self) -> None:
        """Runs under way end as failed, here and there; closing twice is fine."""
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
        return closed(repr(self))

    def _wait_for(self, work: Coroutine[Any, Any, Json]) -> Json:
        done: list[Json | BaseException] = []
        over = threading.Event()

        async def carry_out() -> None:
            try:
                done.append(await work)
            except BaseException as error:  # noqa: BLE001 - raised by whoever waits
                done.append(error)
            over.set()

        if not self._thread.call(lambda: _keep(carry_out())):
            work.close()
            raise self._closed()
        over.wait()
        if isinstance(found := done[0], BaseException):
            raise found
        return found

    async def _shut(self) -> None:
        self._lose(self._closed())
        await self._client.aclose()

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
            self._flushing = _keep(self._send_outbox())

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
                    self._reading = _keep(self._read(body))
                    await asyncio.wait([self._session_id])
                    continue
                await self._send(f"/programs/{await self._session_id}", body)
        except BackendError as error:
            self._lose(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, no run waits for it
            self._lose(BackendError(f"{self._url} could not be told: {shorten(repr(error), 200)}"))
        finally:
            self._flushing = None

    # On the loop: what comes from there.

    async def _read(self, body: Json) -> None:
        """The stream of events, from its beginning to its end, which is the end of its runs."""
        session_id = self._session_id
        assert session_id is not None, "a session that is being opened has a future"
        try:
            await self._read_events(body, session_id)
            error = ProviderError(f"{self._url} ended the connection", retryable=True)
        except BackendError as caught:
            error = caught if isinstance(caught, ProviderError) else ProviderError(str(caught))
        except Exception as caught:  # noqa: BLE001 - in the shape of an event, whatever it is
            said = shorten(f"{type(caught).__name__}: {caught}", 500)
            error = ProviderError(self._secret.scrub(f"{self._url} sent what is no event: {said}"))
        if self._session_id is session_id:
            self._lose(error)

    async def _read_events(self, body: Json, session_id: asyncio.Future[str]) -> None:
        timeout = httpx2.Timeout(self._silence_s, connect=10.0)
        request = self._request("POST", "/programs", body, timeout)
        reader = EventReader()
        try:
            response = await self._client.send(request, stream=True)
            try:
                await self._check(response)
                async for chunk in response.aiter_bytes():
                    for data in reader.feed(chunk):
                        self._take(json.loads(data), session_id)
            finally:
                await response.aclose()
        except httpx2.TimeoutException:
            raise ProviderError(
                f"{self._url} was silent for {self._silence_s:g} s", retryable=True
            ) from None
        except (httpx2.HTTPError, EventTooLongError, ValueError) as error:
            said = shorten(f"{type(error).__name__}: {error}", 500)
            raise ProviderError(
                self._secret.scrub(f"the connection to {self._url} broke: {said}"), retryable=True
            ) from None

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
            follower.run.fail(BackendError(f"{self._url} ended the run early"))
        else:
            self._take_answer(follower, kind, field_of(event, "branch", int), event)
        self._settle(remote)

    def _take_answer(self, follower: Follower, kind: str, branch: int, event: Json) -> None:
        if kind == "text":
            follower.streamed(branch, field_of(event, "text", str))
        elif kind == "completion":
            meta = decode_meta(field_of(event, "meta", dict))
            for index, name in enumerate(("prompt_tokens", "cached_tokens", "completion_tokens")):
                self._counts[index] += count(meta, name) or 0
            text = field_of(event, "text", str)
            follower.answered(branch, Completion(text, meta, bool(event.get("truncated"))))
        elif kind == "choice":
            scores = decode_scores(event.get("scores"))
            meta = decode_numbers(field_of(event, "meta", dict))
            follower.answered(branch, Chosen(scores, field_of(event, "draw", float), meta))

    def _decode_error(self, data: Any) -> Exception:
        message = self._secret.scrub(field_of(data, "message", str))
        return decode_error({**data, "message": message})

    def _lose(self, error: BackendError) -> None:
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

    # Requests.

    def _request(
        self, method: str, path: str, body: Json | None, timeout: httpx2.Timeout | None = None
    ) -> httpx2.Request:
        content = None
        headers = dict(bearer(self._secret.reveal()))
        if body is not None:
            content = to_bytes(body)
            headers["content-type"] = "application/json"
        if timeout is None:
            return self._client.build_request(
                method, self._url + path, content=content, headers=headers
            )
        return self._client.build_request(
            method, self._url + path, content=content, headers=headers, timeout=timeout
        )

    async def _get(self, path: str) -> Json:
        return await self._exchange(self._request("GET", path, None))

    async def _send(self, path: str, body: Json) -> Json:
        return await self._exchange(self._request("POST", path, body))

    async def _exchange(self, request: httpx2.Request) -> Json:
        try:
            response = await self._client.send(request)
            await self._check(response)
            found = json.loads(response.content)
        except (httpx2.HTTPError, ValueError, RecursionError) as error:
            raise ProviderError(
                f"{self._url} could not be asked: {type(error).__name__}: {error}; "
                "is `sgdsl serve` running there?",
                retryable=True,
            ) from None
        if not isinstance(found, dict):
            raise ProviderError(f"{self._url} answered {shorten(repr(found), 80)}, no object")
        return found

    async def _check(self, response: httpx2.Response) -> None:
        if response.status_code < 300:
            return
        text = (await response.aread()).decode(errors="replace")
        try:
            said = str(json.loads(text)["error"]["message"])
        except (ValueError, KeyError, TypeError, RecursionError):
            said = text
        status = response.status_code
        raise ProviderError(
            self._secret.scrub(f"{self._url} answered {status}: {shorten(said, 500)}"),
            status=status,
            retryable=status >= 500 or status == 404,
        )


_kept: set[asyncio.Task[Any]] = set()


def _keep(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """A task of the running loop, which by itself would keep only a weak reference to it."""
    task = asyncio.get_running_loop().create_task(work)
    _kept.add(task)
    task.add_done_callback(_kept.discard)
    return task


def _beginning(run: Run) -> Json:
    """What the server is told of a run once."""
    made: Json = {"begin": True, "seed": run.seed, "defaults": encode_sampling(run.defaults)}
    if isinstance(run, Replica):  # another backend has been at it
        made["answers"] = [
            {"branch": branch, **_encode_answer(answer)} for branch, answer in run.answers
        ]
        partials, run.partials = run.partials, {}
        made["partials"] = [{"branch": b, "text": text} for b, text in partials.items()]
    return made


def _encode_answer(answer: Answered) -> Json:
    if isinstance(answer, Failed):
        return {"error": encode_error(answer.cause)}
    if isinstance(answer, Completion):
        return {"text": answer.text, "truncated": answer.truncated}
    return {"scores": encode_scores(answer.scores), "draw": answer.draw}
