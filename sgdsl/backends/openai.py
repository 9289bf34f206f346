"""`OpenAI`: any endpoint that speaks OpenAI's chat completions or completions.

Owns the public arguments and what they default to. The formats are `openai_wire`'s business.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Unpack

from sgdsl.backends.abilities import abilities_from
from sgdsl.backends.api_arguments import (
    ChatArguments,
    Given,
    Place,
    bearer,
    check_model,
    check_url,
)
from sgdsl.backends.api_driver import ApiBackend
from sgdsl.backends.azure import AZURE_ARGUMENTS, azure_from, max_tokens_field
from sgdsl.backends.openai_wire import OpenAIWire
from sgdsl.errors import UsageError

OPENAI_URL = "https://api.openai.com/v1"
_VARIABLES = {
    "api_key": "OPENAI_API_KEY",
    "organization": "OPENAI_ORG_ID",
    "project": "OPENAI_PROJECT_ID",
}
_HEADERS = {"organization": "openai-organization", "project": "openai-project"}

COMPLETION_MODELS = ("gpt-3.5-turbo-instruct", "davinci-002", "babbage-002")
"""All that OpenAI itself still offers through completions."""


class OpenAIArguments(ChatArguments, total=False):
    """What `OpenAI` takes besides the model and where it is."""

    is_chat_model: bool | None
    is_azure: bool
    api_version: str | None
    azure_endpoint: str | None
    azure_deployment: str | None
    azure_ad_token: str | None
    azure_ad_token_provider: Callable[[], str] | None
    project: str | None


class OpenAI(ApiBackend):
    """Runs programs on the model `model_name` of an endpoint.

    `base_url`: with its `/v1`; None is OpenAI's own, or OPENAI_BASE_URL. `api_key`: it, or a
    function that gives one before each request. None takes OPENAI_API_KEY, but only together with
    `base_url=None`: no other endpoint is told OpenAI's key. So it is with `organization`
    (OPENAI_ORG_ID) and `project` (OPENAI_PROJECT_ID).

    `is_chat_model`: True asks chat completions, False completions; None asks chat for programs with
    roles, and for plain text completions if the endpoint has them (OpenAI's own chat models do
    not), else a chat with all text as the user's message.

    `json_mode`: the `response_format` that the endpoint takes, None for none. `extensions`: what it
    has beyond OpenAI's fields: "vllm", "sglang" or "sgdsl", or names of ours to its fields, such as
    {"regex": "guided_regex"}. `extra`: fields that go into every request as they are.
    `default_headers`, `default_query`: what else goes with every request.

    `timeout_s` (or `timeout`): for an answer, or the next event of a stream. `max_retries`: of
    requests that failed for a while; `constraint_retries`: of answers that do not satisfy their
    gen's constraint. `transport`: of httpx2, for tests.

    `is_azure`: the model is a deployment at Azure, at `azure_endpoint` (AZURE_OPENAI_ENDPOINT), by
    the name `azure_deployment` if that is another one. `api_version`: of its API
    (OPENAI_API_VERSION). The key is `api_key` (AZURE_OPENAI_API_KEY), or a token: `azure_ad_token`
    (AZURE_OPENAI_AD_TOKEN), or what `azure_ad_token_provider` gives before each request.

    Raises `TypeError` for an argument that is none of these, `UsageError` for a value that is not
    allowed.
    """

    def __init__(
        self, model_name: str, base_url: str | None = None, **options: Unpack[OpenAIArguments]
    ) -> None:
        check_model("OpenAI", model_name)
        given = Given("OpenAI", OpenAIArguments, options)
        is_chat_model, field = given["is_chat_model"], "max_tokens"
        if given["is_azure"]:
            place = azure_from(given, model_name, base_url)
            field = max_tokens_field(place)
        else:
            place = _place(given, base_url)
        if place.url.rstrip("/") == OPENAI_URL:
            field = "max_completion_tokens"
        if is_chat_model is None and (given["is_azure"] or place.url.rstrip("/") == OPENAI_URL):
            is_chat_model = not model_name.startswith(COMPLETION_MODELS)
        caller, secret = given.connect(place)
        super().__init__(
            OpenAIWire(caller, model_name, abilities_from(given, is_chat_model, field)),
            label=f"OpenAI {model_name} at {caller.label}",
            **given.driver(secret),
        )


def _place(given: Given, base_url: str | None) -> Place:
    if azures := [name for name in AZURE_ARGUMENTS if given[name] is not None]:
        raise UsageError(f"OpenAI: {', '.join(azures)} belong to Azure; give is_azure=True too")
    url = check_url("OpenAI", base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL)
    found = {
        name: given[name] or (os.environ.get(variable) if base_url is None else None)
        for name, variable in _VARIABLES.items()
    }

    def headers(key: str | None) -> Mapping[str, str]:
        told = {header: str(found[name]) for name, header in _HEADERS.items() if found[name]}
        return {**bearer(key), **told}

    return Place(url, found["api_key"], headers)
