"""What all providers behind an API take as arguments, and how a wrong one is refused.

Owns their names, defaults and checks, and the connection that follows from them. What only one
provider has is its own file's business.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

import httpx2

from sgdsl.arguments import did_you_mean, refuse
from sgdsl.backends.http import Headers, Http
from sgdsl.backends.retrying import Retrying
from sgdsl.backends.secret import Key, Secret
from sgdsl.chat import PLAIN, ChatTemplate
from sgdsl.errors import UsageError

Extensions = Mapping[str, str] | Iterable[str] | str
JsonMode = Literal["json_schema", "json_object"] | None


class ApiArguments(TypedDict, total=False):
    """Of every provider. `timeout`, `default_headers` and `default_query` are called as the
    clients of these providers call them.
    """

    api_key: Key
    chat_template: ChatTemplate | None
    default_headers: Mapping[str, str] | None
    default_query: Mapping[str, object] | None
    extra: Mapping[str, Any] | None
    max_in_flight: int
    max_retries: int
    constraint_retries: int
    timeout: float | None
    timeout_s: float
    transport: httpx2.AsyncBaseTransport | None


class ChatArguments(ApiArguments, total=False):
    """Of who speaks OpenAI's formats."""

    extensions: Extensions
    json_mode: JsonMode
    logprobs: bool
    organization: str | None
    seeds: bool


DEFAULTS: dict[str, Any] = {
    "chat_template": PLAIN,
    "max_in_flight": 64,
    "max_retries": 2,
    "constraint_retries": 2,
    "timeout_s": 600.0,
    "json_mode": "json_schema",
    "extensions": (),
    "seeds": True,
    "logprobs": True,
}
"""None for all others."""

_INSTEAD = {
    "http_client": "give transport=, of httpx2, for requests to go another way",
    "model": "the model's name is model_name, the first argument",
}
_SECRETIVE = ("key", "auth", "token", "secret", "password", "cookie", "signature", "sig")


@dataclass(frozen=True, slots=True)
class Place:
    """Where requests go, and what lets them in: `headers(key)`."""

    url: str
    key: Key = field(repr=False)
    headers: Headers
    query: Mapping[str, str] = field(default_factory=dict)


class Given:
    """The arguments of one provider, checked, with their defaults."""

    def __init__(self, where: str, kind: type[Any], given: Mapping[str, Any]) -> None:
        known = [*kind.__annotations__]
        for name in given:
            if name not in known:
                hint = f"; {_INSTEAD[name]}" if name in _INSTEAD else did_you_mean(name, known)
                takes = ", ".join(["model_name", "base_url", *known])
                raise TypeError(f"{where} has no argument {name!r}{hint}; it takes {takes}")
        self._where = where
        said = {name: value for name, value in given.items() if value is not None}
        if "json_mode" in given:  # of which None says something
            said["json_mode"] = given["json_mode"]
        if "timeout" in said:
            if "timeout_s" in said:
                raise UsageError(f"{where}: timeout= and timeout_s= are the same; give one of them")
            said["timeout_s"] = said.pop("timeout")
        self._values = {**DEFAULTS, **said}
        for name in ("max_in_flight", "max_retries", "constraint_retries"):
            self._check_count(name, int(name == "max_in_flight"))
        self._check_timeout()
        for name in ("default_headers", "default_query", "extra"):
            self._check_mapping(name)
        self._check_template()
        key = said.get("api_key")
        if not (key is None or isinstance(key, str) or callable(key)):
            raise UsageError(
                f"{where}: api_key is a {type(key).__name__}; it is a str, or a function that "
                "gives one"
            )

    def __getitem__(self, name: str) -> Any:
        """The value; None for what was not given and has no default."""
        return self._values.get(name)

    def connect(self, place: Place) -> tuple[Retrying, Secret]:
        """What asks there, and the key that it holds."""
        own, secret = dict(self["default_headers"] or {}), self.secret(place.key)
        http = Http(
            check_url(self._where, place.url),
            secret,
            headers=lambda key: {**place.headers(key), **own},
            query={**place.query, **self._query()},
            timeout_s=self["timeout_s"],
            transport=self["transport"],
        )
        return Retrying(http, max_retries=self["max_retries"]), secret

    def secret(self, key: Key) -> Secret:
        """The key; what headers say that look like one is as secret."""
        headers = self["default_headers"] or {}
        hidden = [value for name, value in headers.items() if _is_secretive(name)]
        return Secret(key, also=[*hidden, *(value.split(" ")[-1] for value in hidden)])

    def driver(self, secret: Secret) -> dict[str, Any]:
        """What the driver of all providers takes."""
        names = ("chat_template", "max_in_flight", "constraint_retries")
        return {"secret": secret, **{name: self[name] for name in names}}

    def _query(self) -> dict[str, str]:
        query = {name: str(value) for name, value in (self["default_query"] or {}).items()}
        for name in query:
            if _is_secretive(name):
                raise UsageError(
                    f"{self._where}: default_query has {name!r}, which looks like a key, and URLs "
                    "stand in logs; give it as api_key=, or as a header in default_headers="
                )
        return query

    def _check_count(self, name: str, least: int) -> None:
        value = self[name]
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            refuse(self._where, name, value, f"a whole number, at least {least}")

    def _check_timeout(self) -> None:
        value = self["timeout_s"]
        if (
            not isinstance(value, (int, float))
            or isinstance(value, bool)
            or not 0 < value < math.inf
        ):
            refuse(self._where, "timeout_s", value, "a number of seconds above 0")

    def _check_mapping(self, name: str) -> None:
        value = self[name]
        if value is None:
            return
        good = isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
        if good and name == "default_headers":
            good = all(isinstance(text, str) for text in value.values())
        if not good:  # a header may be a key: it is not shown
            raise UsageError(
                f"{self._where}: {name} is a {type(value).__name__} that is not allowed; it is a "
                f"dict from str to {'str' if name == 'default_headers' else 'values'}"
            )

    def _check_template(self) -> None:
        if not isinstance(self["chat_template"], ChatTemplate):
            allowed = "a ChatTemplate, such as get_chat_template('chatml')"
            refuse(self._where, "chat_template", self["chat_template"], allowed)


def bearer(key: str | None) -> Mapping[str, str]:
    return {"authorization": f"Bearer {key}"} if key else {}


def check_model(where: str, model: object, *, name: str = "model_name") -> None:
    if not isinstance(model, str) or not model:
        refuse(where, name, model, "the name of a model, a non-empty str")


def check_url(where: str, url: object) -> str:
    """Refuse what no request can be sent to, and keys in a URL, where they would be shown."""
    allowed = "a URL such as http://127.0.0.1:8000/v1"
    if isinstance(url, httpx2.URL):
        url = str(url)
    if not isinstance(url, str):
        refuse(where, "base_url", url, f"{allowed}; all other arguments are given by name")
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL:
        refuse(where, "base_url", url, allowed)
    if parsed.userinfo:
        raise UsageError(
            f"{where}: base_url has a user or a password in it; give the key as api_key="
        )
    if parsed.query or parsed.fragment:
        raise UsageError(
            f"{where}: base_url has something behind a ? or #, and paths are added to it; give it "
            "as default_query="
        )
    if parsed.scheme not in ("http", "https") or not parsed.host:
        refuse(where, "base_url", url, allowed)
    return url


def _is_secretive(name: str) -> bool:
    return any(part in name.lower() for part in _SECRETIVE)
