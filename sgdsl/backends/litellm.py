"""`LiteLLM`: its proxy, which speaks OpenAI's formats, or the package `litellm` in this process.

Owns that choice and the lazy import. The formats are OpenAI's.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import httpx2

from sgdsl.backends.api_driver import ApiBackend
from sgdsl.backends.http import Http, Secret
from sgdsl.backends.openai import (
    Extensions,
    JsonMode,
    bearer,
    check_json_mode,
    check_model,
    check_url,
    extensions_from,
)
from sgdsl.backends.openai_wire import Abilities, Caller, OpenAIWire
from sgdsl.chat import PLAIN, ChatTemplate
from sgdsl.errors import ProviderError, UsageError
from sgdsl.graph import shorten


class LiteLLM(ApiBackend):
    """Runs programs on a model by LiteLLM's name for it, always as chat.

    `base_url`: of a LiteLLM proxy. None takes the package `litellm`, which must be installed and
    finds its providers' keys in the environment. The other arguments are those of `OpenAI`.
    """

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        chat_template: ChatTemplate = PLAIN,
        json_mode: JsonMode = "json_schema",
        extensions: Extensions = (),
        extra: Mapping[str, Any] | None = None,
        seeds: bool = False,
        logprobs: bool = False,
        max_in_flight: int = 64,
        max_retries: int = 2,
        constraint_retries: int = 2,
        timeout_s: float = 600.0,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        check_model("LiteLLM", model_name)
        check_json_mode(json_mode)
        caller: Caller
        secret = Secret(api_key)
        if base_url is None:
            caller = _Package(secret, timeout_s=timeout_s, max_retries=max_retries)
        else:
            caller = Http(
                check_url("LiteLLM", base_url),
                secret,
                headers=bearer,
                timeout_s=timeout_s,
                max_retries=max_retries,
                transport=transport,
            )
        abilities = Abilities(
            chat=True,
            json_mode=json_mode,
            extensions=extensions_from(extensions),
            seeds=seeds,
            logprobs=logprobs,
            extra=dict(extra or {}),
        )
        super().__init__(
            OpenAIWire(caller, model_name, abilities),
            label=f"LiteLLM {model_name} at {caller.label}",
            secret=secret,
            chat_template=chat_template,
            max_in_flight=max_in_flight,
            constraint_retries=constraint_retries,
        )


class _Package:
    """`litellm.acompletion` as a caller; every body of ours is its keyword arguments."""

    label = "litellm"

    def __init__(self, secret: Secret, *, timeout_s: float, max_retries: int) -> None:
        try:
            self._litellm: Any = importlib.import_module("litellm")
        except ImportError as error:
            raise UsageError(
                "LiteLLM without base_url= needs the package litellm, which is not installed; "
                "install it, or give the URL of a LiteLLM proxy"
            ) from error
        self._secret = secret
        self._options = {"timeout": timeout_s, "num_retries": max_retries}

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        assert path == "/chat/completions", "the package is asked for chats only"
        return _plain(await self._called(body))

    async def stream(
        self, path: str, body: Mapping[str, Any], on_event: Callable[[dict[str, Any]], bool]
    ) -> None:
        assert path == "/chat/completions", "the package is asked for chats only"
        async for chunk in await self._called(body):
            on_event(_plain(chunk))

    async def close(self) -> None:
        """The package keeps its own connections."""

    async def _called(self, body: Mapping[str, Any]) -> Any:
        key = self._secret.reveal()
        given = {**body, **self._options, **({"api_key": key} if key else {})}
        try:
            return await self._litellm.acompletion(**given)
        except Exception as error:  # noqa: BLE001 - the package has an exception for every provider
            status = getattr(error, "status_code", None)
            said = self._secret.scrub(shorten(f"{type(error).__name__}: {error}", 500))
            raise ProviderError(
                f"litellm: {said}",
                status=status if isinstance(status, int) else None,
                retryable=status is None or status == 429 or status >= 500,
            ) from None


def _plain(value: Any) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(value.model_dump_json())
    return made
