"""`LiteLLM`: its proxy, which speaks OpenAI's formats, or the package `litellm` in this process.

Owns that choice and the lazy import. The formats are OpenAI's.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from typing import Any, Unpack

from sgdsl.backends.abilities import abilities_from
from sgdsl.backends.api_arguments import ChatArguments, Given, Place, bearer, check_model
from sgdsl.backends.api_driver import ApiBackend
from sgdsl.backends.http import RETRYABLE
from sgdsl.backends.openai_wire import CHAT, OpenAIWire
from sgdsl.backends.retrying import Caller, L
from sgdsl.backends.secret import Secret
from sgdsl.errors import BackendError, ProviderError, UsageError
from sgdsl.graph import shorten


class LiteLLM(ApiBackend):
    """Runs programs on a model by LiteLLM's name for it, always as chat.

    `base_url`: of a LiteLLM proxy. None takes the package `litellm`, which must be installed and
    finds its providers' keys in the environment. The other arguments are those of `OpenAI`; `seeds`
    and `logprobs` are off by default.
    """

    def __init__(
        self, model_name: str, base_url: str | None = None, **options: Unpack[ChatArguments]
    ) -> None:
        check_model("LiteLLM", model_name)
        given = Given("LiteLLM", ChatArguments, {"seeds": False, "logprobs": False, **options})
        caller: Caller
        if base_url is None:
            secret = given.secret(given["api_key"])
            caller = _Package(secret, given)
        else:
            caller, secret = given.connect(Place(base_url, given["api_key"], _headers(given)))
        abilities = abilities_from(given, True, "max_tokens")
        super().__init__(
            OpenAIWire(caller, model_name, abilities),
            label=f"LiteLLM {model_name} at {caller.label}",
            **given.driver(secret),
        )


def _headers(given: Given) -> Callable[[str | None], Mapping[str, str]]:
    organization = given["organization"]
    told = {"openai-organization": organization} if organization else {}
    return lambda key: {**bearer(key), **told}


class _Package:
    """`litellm.acompletion` as a caller; every body of ours is its keyword arguments."""

    label = "litellm"

    def __init__(self, secret: Secret, given: Given) -> None:
        for name in ("default_query", "transport"):
            if given[name] is not None:
                raise UsageError(
                    f"LiteLLM: {name}= is of a proxy; give its base_url= too, or leave it out"
                )
        try:
            self._litellm: Any = importlib.import_module("litellm")
        except ImportError as error:
            raise UsageError(
                "LiteLLM without base_url= needs the package litellm, which is not installed; "
                "install it, or give the URL of a LiteLLM proxy"
            ) from error
        self._secret = secret
        headers = given["default_headers"]
        self._headers: Callable[[], dict[str, Any]]  # a call, which no repr shows
        self._headers = lambda: {"extra_headers": dict(headers)} if headers else {}
        self._options: dict[str, Any] = {
            "timeout": given["timeout_s"],
            "num_retries": given["max_retries"],
        }
        if given["organization"]:
            self._options["organization"] = given["organization"]

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        assert path == CHAT, "the package is asked for chats only"
        try:
            return _plain(await self._called(body))
        except Exception as error:  # noqa: BLE001 - the package has an exception for every provider
            raise self._fault(error) from None

    async def stream(self, path: str, body: Mapping[str, Any], listen: Callable[[], L]) -> L:
        assert path == CHAT, "the package is asked for chats only"
        listener = listen()
        try:
            async for chunk in await self._called(body):
                listener.take(_plain(chunk))
        except BackendError:
            raise
        except Exception as error:  # noqa: BLE001 - the same
            raise self._fault(error) from None
        return listener

    async def close(self) -> None:
        """The package keeps its own connections."""

    async def _called(self, body: Mapping[str, Any]) -> Any:
        key = await self._secret.reveal()
        given = {**body, **self._options, **self._headers(), **({"api_key": key} if key else {})}
        return await self._litellm.acompletion(**given)

    def _fault(self, error: Exception) -> ProviderError:
        told = getattr(error, "status_code", None)
        status = told if isinstance(told, int) else None
        said = self._secret.scrub(shorten(f"{type(error).__name__}: {error}", 500))
        return ProviderError(
            f"litellm: {said}", status=status, retryable=status is None or status in RETRYABLE
        )


def _plain(value: Any) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(value.model_dump_json())
    return made
