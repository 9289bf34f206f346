"""`Anthropic`: models behind Anthropic's messages API.

Owns the public arguments. The format is `anthropic_wire`'s business.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Unpack

from sgdsl.backends.anthropic_wire import AnthropicWire
from sgdsl.backends.api_arguments import ApiArguments, Given, Place, bearer, check_model
from sgdsl.backends.api_driver import ApiBackend
from sgdsl.backends.http import Headers
from sgdsl.backends.secret import Key
from sgdsl.errors import UsageError

ANTHROPIC_URL = "https://api.anthropic.com"
API_VERSION = "2023-06-01"


class AnthropicArguments(ApiArguments, total=False):
    """What `Anthropic` takes besides the model and where it is."""

    auth_token: Key


class Anthropic(ApiBackend):
    """Runs programs on the model `model_name`.

    `base_url`: without `/v1`; None is Anthropic's own. `api_key`: None takes ANTHROPIC_API_KEY, but
    only together with `base_url=None`. `auth_token`: instead of it, a token that goes as a
    bearer's. The other arguments are those of `OpenAI`.
    """

    def __init__(
        self, model_name: str, base_url: str | None = None, **options: Unpack[AnthropicArguments]
    ) -> None:
        check_model("Anthropic", model_name)
        given = Given("Anthropic", AnthropicArguments, options)
        key, headers = _credentials(given, is_own=base_url is None)
        caller, secret = given.connect(Place(base_url or ANTHROPIC_URL, key, headers))
        super().__init__(
            AnthropicWire(caller, model_name, dict(given["extra"] or {})),
            label=f"Anthropic {model_name} at {caller.label}",
            **given.driver(secret),
        )


def _credentials(given: Given, *, is_own: bool) -> tuple[Key, Headers]:
    key, token = given["api_key"], given["auth_token"]
    if key is not None and token is not None:
        raise UsageError("Anthropic: api_key and auth_token cannot be given together; keep one")
    if token is not None:
        return token, lambda token: {**_version(None), **bearer(token)}
    return key or (os.environ.get("ANTHROPIC_API_KEY") if is_own else None), _version


def _version(key: str | None) -> Mapping[str, str]:
    return {"anthropic-version": API_VERSION, **({"x-api-key": key} if key else {})}
