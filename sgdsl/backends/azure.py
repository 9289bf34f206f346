"""OpenAI's models at Azure: where they are, and how one is let in.

Owns the URL of a deployment and the two kinds of keys. What is asked and answered there is OpenAI's
format.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import quote

from sgdsl.backends.api_arguments import Given, Place, bearer, check_model
from sgdsl.backends.http import Headers
from sgdsl.backends.secret import Key
from sgdsl.errors import UsageError

AZURE_ARGUMENTS = (
    *("api_version", "azure_endpoint", "azure_deployment"),
    *("azure_ad_token", "azure_ad_token_provider"),
)

NEW_LIMIT = "2024-09-01"
"""Versions from this day on know `max_completion_tokens`."""


def azure_from(given: Given, model_name: str, base_url: str | None) -> Place:
    """What is not given stands in the variables that Azure's clients read: OPENAI_API_VERSION,
    AZURE_OPENAI_ENDPOINT, and AZURE_OPENAI_AD_TOKEN or AZURE_OPENAI_API_KEY.
    """
    version = given["api_version"] or os.environ.get("OPENAI_API_VERSION")
    if not isinstance(version, str):
        raise UsageError(
            "OpenAI: Azure asks for a version of its API; give api_version=, such as "
            "'2024-10-21', or set OPENAI_API_VERSION"
        )
    key, headers = _credentials(given)
    return Place(_url(given, model_name, base_url), key, headers, {"api-version": version})


def max_tokens_field(place: Place) -> str:
    """What the limit is called in its version of the API."""
    is_new = place.query["api-version"][: len(NEW_LIMIT)] >= NEW_LIMIT
    return "max_completion_tokens" if is_new else "max_tokens"


def _url(given: Given, model_name: str, base_url: str | None) -> str:
    endpoint = given["azure_endpoint"]
    if base_url is not None and endpoint is not None:
        raise UsageError("OpenAI: base_url and azure_endpoint cannot be given together")
    endpoint = endpoint or os.environ.get("AZURE_OPENAI_ENDPOINT")
    if base_url is None and not isinstance(endpoint, str):
        raise UsageError(
            "OpenAI: where is the Azure resource? give azure_endpoint=, such as "
            "https://my-resource.openai.azure.com, or set AZURE_OPENAI_ENDPOINT"
        )
    deployment = given["azure_deployment"] or model_name
    check_model("OpenAI", deployment, name="azure_deployment")
    url = (base_url or f"{str(endpoint).rstrip('/')}/openai").rstrip("/")
    if "/deployments" in url:
        return url
    return f"{url}/deployments/{quote(deployment, safe='')}"


def _credentials(given: Given) -> tuple[Key, Headers]:
    names = ("api_key", "azure_ad_token", "azure_ad_token_provider")
    said = [name for name in names if given[name] is not None]
    for name in said:
        if not (isinstance(given[name], str) or callable(given[name])):
            raise UsageError(  # it may be the key, in some wrapping: it is not shown
                f"OpenAI: {name} is a {type(given[name]).__name__}; it is a str, or a function "
                "that gives one"
            )
    if len(said) > 1:
        raise UsageError(f"OpenAI: {' and '.join(said)} cannot be given together; keep one")
    if said == ["api_key"]:
        return given["api_key"], _api_key
    if said:
        return given[said[0]], bearer
    if token := os.environ.get("AZURE_OPENAI_AD_TOKEN"):
        return token, bearer
    return os.environ.get("AZURE_OPENAI_API_KEY"), _api_key


def _api_key(key: str | None) -> Mapping[str, str]:
    return {"api-key": key} if key else {}
