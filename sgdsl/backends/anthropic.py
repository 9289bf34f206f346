"""`Anthropic`: models behind Anthropic's messages API.

Owns the public arguments. The format is `anthropic_wire`'s business.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import httpx2

from sgdsl.backends.anthropic_wire import AnthropicWire
from sgdsl.backends.api_driver import ApiBackend
from sgdsl.backends.http import Http, Secret
from sgdsl.backends.openai import check_model, check_url
from sgdsl.chat import PLAIN, ChatTemplate

ANTHROPIC_URL = "https://api.anthropic.com"
API_VERSION = "2023-06-01"


class Anthropic(ApiBackend):
    """Runs programs on the model `model_name`.

    `base_url`: without `/v1`; None is Anthropic's own. `api_key`: None takes ANTHROPIC_API_KEY, but
    only together with `base_url=None`. The other arguments are those of `OpenAI`.
    """

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        chat_template: ChatTemplate = PLAIN,
        extra: Mapping[str, Any] | None = None,
        max_in_flight: int = 64,
        max_retries: int = 2,
        constraint_retries: int = 2,
        timeout_s: float = 600.0,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        check_model("Anthropic", model_name)
        if api_key is None and base_url is None:
            api_key = os.environ.get("ANTHROPIC_API_KEY")
        secret = Secret(api_key)
        http = Http(
            check_url("Anthropic", base_url or ANTHROPIC_URL),
            secret,
            headers=_headers,
            timeout_s=timeout_s,
            max_retries=max_retries,
            transport=transport,
        )
        super().__init__(
            AnthropicWire(http, model_name, dict(extra or {})),
            label=f"Anthropic {model_name} at {http.label}",
            secret=secret,
            chat_template=chat_template,
            max_in_flight=max_in_flight,
            constraint_retries=constraint_retries,
        )


def _headers(key: str | None) -> Mapping[str, str]:
    return {"anthropic-version": API_VERSION, **({"x-api-key": key} if key else {})}
