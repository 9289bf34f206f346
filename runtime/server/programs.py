"""The native door: graphs in, events out, over any backend.

Owns the routes of the frontend's remote backend and those that tell of the server. What a session
does with its runs is `session`'s business.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from runtime.server.session import Session
from sgdsl.backends.base import Backend
from sgdsl.errors import UsageError
from sgdsl.protocol import VERSION, encode_numbers, encode_template, field_of, to_bytes

BEAT_S = 0.5
"""A client that hears nothing for some of these knows that the connection is dead."""

MAX_BODY_BYTES = 64 << 20
MAX_BODY_ON_LOOP = 256 << 10
"""Bytes that are read in a few milliseconds."""

MAX_UPDATES = 64
"""Threads for what clients send: a constraint may take seconds to compile, and others go on."""

OPEN_PATHS = frozenset({"/health"})


class Refusal(Exception):  # noqa: N818 - it is an answer
    """An answer in the shape of all errors of this server."""

    def __init__(self, status: int, message: str, *, kind: str = "invalid_request_error") -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "type": kind, "param": None, "code": None}}


def make_app(backend: Backend, *, model: str, api_key: str | None = None) -> FastAPI:
    """The application around `backend`. `model`: the name that it goes by. With `api_key`, every
    route but /health asks for it.
    """
    app = FastAPI(title="sgdsl", version=version("sgdsl"))
    app.add_middleware(KeyGuard, api_key=api_key)
    _add_errors(app)
    _add_information(app, backend, model)
    _add_programs(app, backend)
    return app


class KeyGuard:
    """Refuses what does not bring the key; by the path that is routed, and before any body."""

    def __init__(self, app: ASGIApp, api_key: str | None) -> None:
        self._app = app
        self._expected = None if api_key is None else f"Bearer {api_key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._refuses(scope):
            body = Refusal(401, "this server needs an API key", kind="authentication_error").body
            response = JSONResponse(body, 401, {"www-authenticate": "Bearer"})
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refuses(self, scope: Scope) -> bool:
        if self._expected is None or scope["path"] in OPEN_PATHS:
            return False
        given = dict(scope["headers"]).get(b"authorization", b"")
        return not hmac.compare_digest(given, self._expected)


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(Refusal)
    async def refusal(_: Request, error: Refusal) -> JSONResponse:
        return JSONResponse(error.body, error.status)

    @app.exception_handler(UsageError)
    async def usage(_: Request, error: UsageError) -> JSONResponse:
        return JSONResponse(Refusal(400, str(error)).body, 400)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return JSONResponse(Refusal(400, str(error)).body, 400)

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> JSONResponse:
        kind = "not_found_error" if error.status_code == 404 else "invalid_request_error"
        body = Refusal(error.status_code, str(error.detail), kind=kind).body
        return JSONResponse(body, error.status_code, error.headers)

    @app.exception_handler(Exception)
    async def ours(_: Request, __: Exception) -> JSONResponse:
        return JSONResponse(Refusal(500, "the server failed", kind="server_error").body, 500)


def _add_information(app: FastAPI, backend: Backend, model: str) -> None:
    @app.get("/health")
    async def health() -> JSONResponse:
        """503 once the backend takes no more runs."""
        alive = getattr(backend, "is_alive", True)
        return JSONResponse({"status": "ok" if alive else "dead"}, 200 if alive else 503)

    @app.get("/get_model_info")
    @app.get("/model_info")
    async def model_info() -> dict[str, Any]:
        return {
            "model_path": model,
            "protocol": VERSION,
            "max_in_flight": backend.max_in_flight,
            "tokenizer": getattr(backend, "tokenizer_id", None),
            "chat_template": encode_template(backend.chat_template),
        }

    @app.get("/get_server_info")
    @app.get("/server_info")
    async def server_info() -> dict[str, Any]:
        tell = getattr(backend, "server_info", dict)
        told: dict[str, Any] = encode_numbers(tell())
        return {"version": version("sgdsl"), "model_path": model, **told}

    @app.post("/flush_cache")
    async def flush_cache() -> dict[str, Any]:
        flush = getattr(backend, "flush_cache", None)
        if flush is not None:
            await asyncio.to_thread(flush)
        return {"status": "ok"}


def _add_programs(app: FastAPI, backend: Backend) -> None:
    sessions: dict[str, Session] = {}
    updates = ThreadPoolExecutor(MAX_UPDATES, "sgdsl-update")

    def on_thread(update: Callable[[list[Any]], None], runs: list[Any]) -> asyncio.Future[None]:
        return asyncio.get_running_loop().run_in_executor(updates, update, runs)

    @app.post("/programs")
    async def begin(request: Request) -> StreamingResponse:
        """Runs in, their events out, until all have ended; with `keep_open`, until the client goes.
        The first event names the session, through which runs are gone on with and begun.
        """
        body = await _body(request)
        session = Session(backend, asyncio.get_running_loop())
        sessions[session.id] = session

        async def stream() -> AsyncIterator[bytes]:
            try:
                yield _framed({"event": "session", "id": session.id, "version": VERSION})
                beginning = on_thread(session.update, body["runs"])  # constraints are compiled
                while not await request.is_disconnected():
                    events = await session.events(BEAT_S)
                    yield b"".join(map(_framed, events)) or b": beat\n\n"
                    goes_on = body.get("keep_open") or session.num_live or not beginning.done()
                    if not (goes_on or events):
                        yield b"data: [DONE]\n\n"
                        return
            finally:
                sessions.pop(session.id, None)
                await asyncio.shield(asyncio.to_thread(session.close))

        return StreamingResponse(stream(), media_type="text/event-stream")

    @app.post("/programs/{session_id}")
    async def go_on(session_id: str, request: Request) -> dict[str, Any]:
        """News of runs of a session, and new ones; what comes of them is in its events."""
        body = await _body(request)
        session = sessions.get(session_id)
        if session is None:
            raise Refusal(404, "there is no such session; it ends with its connection")
        await on_thread(session.update, body["runs"])
        return {"status": "ok"}


async def _body(request: Request) -> dict[str, Any]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal(415, f"content-type {kind!r} is not allowed; it is application/json")
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > MAX_BODY_BYTES:
            raise Refusal(413, f"the body is larger than {MAX_BODY_BYTES} bytes")
    try:
        if len(content) <= MAX_BODY_ON_LOOP:  # who compiles on threads holds nobody up here
            body = json.loads(bytes(content))
        else:
            body = await asyncio.to_thread(json.loads, bytes(content))
    except (ValueError, RecursionError):
        raise Refusal(400, "the body is no JSON") from None
    if field_of(body, "version", int) != VERSION:
        raise Refusal(400, f"version={body['version']!r}: this server speaks version {VERSION}")
    for update in field_of(body, "runs", list):
        field_of(update, "run", int)
    return dict(body)


def _framed(event: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % to_bytes(event)
