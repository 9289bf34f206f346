"""What may be given to providers behind an API: as SGLang's users write it, and where keys go."""

from __future__ import annotations

import copy
import logging
import pickle
import traceback
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

import sgdsl as sgl
from sgdsl import ProgramState
from sgdsl.backends.openai import OpenAI
from tests.sgdsl.providers.fake import KEY, Provider, refusal

AZURE: Any = {
    "is_azure": True,
    "api_version": "2024-10-21",
    "azure_endpoint": "https://resource.azure.test/",
}


@sgl.function
def talk(s: ProgramState) -> None:
    s += sgl.user("Why?") + sgl.assistant(sgl.gen("answer", max_tokens=7))


@pytest.fixture(autouse=True)
def no_keys_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("API_KEY", "BASE_URL", "ORG_ID", "PROJECT_ID", "API_VERSION"):
        monkeypatch.delenv(f"OPENAI_{name}", raising=False)
    for name in ("API_KEY", "AD_TOKEN", "ENDPOINT"):
        monkeypatch.delenv(f"AZURE_OPENAI_{name}", raising=False)


def asked(*values: Any, model: str = "m", **options: Any) -> tuple[httpx2.URL, dict[str, str], Any]:
    """The URL, the headers and the body of what is asked."""
    provider = Provider(["x"])
    with OpenAI(model, *values, transport=provider, **options) as backend:
        assert talk.run(backend=backend)["answer"] == "x"
    return provider.urls[0], provider.headers[0], provider.bodies[0]


# Azure.


def test_azure_has_a_deployment_a_version_and_a_key_of_its_own() -> None:
    url, headers, body = asked(model="my model", api_key=KEY, **AZURE)
    assert str(url) == (
        "https://resource.azure.test/openai/deployments/my%20model/chat/completions"
        "?api-version=2024-10-21"
    )
    assert headers["api-key"] == KEY
    assert "authorization" not in headers
    assert body["max_completion_tokens"] == 7
    assert asked(**AZURE | {"api_version": "2024-02-01"})[2]["max_tokens"] == 7


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"azure_deployment": "d"}, "/openai/deployments/d/chat/completions"),
        (
            {"azure_endpoint": None, "base_url": "http://a.test/x"},
            "/x/deployments/m/chat/completions",
        ),
        (
            {"azure_endpoint": None, "base_url": "http://a.test/o/deployments/d"},
            "/o/deployments/d/chat/completions",
        ),
        ({"is_chat_model": False}, "/openai/deployments/m/completions"),
    ],
)
def test_where_a_deployment_is(options: dict[str, Any], path: str) -> None:
    provider = Provider(reply=lambda path, body: "x")
    with OpenAI("m", transport=provider, **AZURE | options) as backend:
        talk.run(backend=backend)
    assert provider.urls[0].path == path


def test_azure_reads_what_its_clients_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://named.test")
    monkeypatch.setenv("OPENAI_API_VERSION", "2025-01-01")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    url, headers, _ = asked(is_azure=True)
    assert (url.host, url.query) == ("named.test", b"api-version=2025-01-01")
    assert headers["api-key"] == KEY
    monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", "a token")
    assert asked(is_azure=True)[1]["authorization"] == "Bearer a token"
    assert asked(is_azure=True, api_key="mine")[1]["api-key"] == "mine"
    assert "api-key" not in asked("http://elsewhere.test/v1")[1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"azure_endpoint": None}, "where is the Azure resource"),
        ({"api_version": None}, "asks for a version of its API; give api_version="),
        ({"api_key": KEY, "azure_ad_token": KEY}, "api_key and azure_ad_token cannot be given"),
        ({"base_url": "http://x.test"}, "base_url and azure_endpoint cannot be given together"),
        ({"is_azure": False}, "api_version, azure_endpoint belong to Azure; give is_azure=True"),
        ({"azure_ad_token": KEY.encode()}, "azure_ad_token is a bytes; it is a str, or a function"),
        ({"azure_deployment": 5}, "azure_deployment=5 is not allowed"),
    ],
)
def test_what_does_not_go_together_at_azure_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(sgl.UsageError, match=said) as caught:
        OpenAI("m", **AZURE | options)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "header", "lead"),
    [
        ({"api_key": None}, "authorization", "Bearer "),
        ({**AZURE, "azure_ad_token_provider": None}, "authorization", "Bearer "),
    ],
)
def test_a_key_that_is_made_is_made_for_each_request_and_never_shown(
    options: dict[str, Any], header: str, lead: str
) -> None:
    made: list[str] = []

    def make_key() -> str:
        made.append(f"token-{len(made)}-abcdef")
        return made[-1]

    def reply(path: str, body: Any) -> Any:
        return refusal(401, f"{made[0]} has expired, as {made[-1]} will")

    provider = Provider(reply=reply)
    given: Any = {name: value if value is not None else make_key for name, value in options.items()}
    base_url = None if "is_azure" in given else "http://x.test"
    with OpenAI("m", base_url, transport=provider, max_retries=0, **given) as backend:
        for _ in range(2):
            error = talk.run(backend=backend).error()
            assert "*** has expired, as *** will" in str(error)
    assert [each[header] for each in provider.headers] == [lead + key for key in made]
    assert len(made) == 2


def test_what_cannot_make_a_key_fails_the_row_with_its_cause() -> None:
    def make_key() -> str:
        raise OSError("no login")

    with OpenAI("m", "http://x.test", api_key=make_key, transport=Provider()) as backend:
        error = talk.run(backend=backend).error()
    assert "what makes the key raised OSError: no login" in str(error)


def test_a_key_that_is_made_is_a_text() -> None:
    """Of another type it would be sent as its `repr`, and not be known where an answer has it."""
    made: Any = KEY.encode()
    provider = Provider()
    with OpenAI("m", "http://x.test", api_key=lambda: made, transport=provider) as backend:
        error = talk.run(backend=backend).error()
    assert "what makes the key gave a bytes; have it give a str" in str(error)
    assert not provider.headers
    assert KEY not in f"{error!r} {error and error.__cause__!r}"


# Names.


def test_what_sglangs_users_pass_to_the_client_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    url, headers, _ = asked(
        "http://x.test/v1",
        organization="org-1",
        project="proj-1",
        timeout=12,
        max_retries=5,
        default_headers={"x-team": "t"},
        default_query={"beta": 1},
    )
    assert str(url) == "http://x.test/v1/chat/completions?beta=1"
    told = [headers[name] for name in ("openai-organization", "openai-project", "x-team")]
    assert told == ["org-1", "proj-1", "t"]
    monkeypatch.setenv("OPENAI_ORG_ID", "org-2")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-2")
    assert "openai-organization" not in asked("http://x.test/v1")[1]
    assert asked()[1]["openai-organization"] == "org-2"
    assert asked()[1]["openai-project"] == "proj-2"


def test_a_time_out_by_either_name() -> None:
    class Silent(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            raise httpx2.ReadTimeout(str(request.extensions["timeout"]["read"]))

    for name in ("timeout", "timeout_s"):
        options: Any = {name: 0.25, "max_retries": 0, "transport": Silent()}
        with OpenAI("m", "http://x.test", **options) as backend:
            assert "no answer within 0.25 s" in str(talk.run(backend=backend).error())
    with pytest.raises(sgl.UsageError, match="timeout= and timeout_s= are the same"):
        OpenAI("m", timeout=1, timeout_s=1)


@pytest.mark.parametrize("kind", [sgl.OpenAI, sgl.Anthropic, sgl.LiteLLM])
def test_an_unknown_argument_is_a_type_error_that_names_the_known_ones(
    kind: Callable[..., Any],
) -> None:
    with pytest.raises(TypeError, match=f"{kind.__name__} has no .* did you mean 'api_key'"):
        kind("m", "http://x.test", api_kye="k")
    with pytest.raises(TypeError, match=r"http_client.*transport=.* it takes .*max_retries"):
        kind("m", "http://x.test", http_client=object())
    with pytest.raises(TypeError, match="no argument 'temperature'"):
        kind("m", "http://x.test", temperature=0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"base_url": True}, "base_url=True is not allowed.* given by name"),
        ({"base_url": "http://x.test/v1?key=1"}, "has something behind a"),
        ({"base_url": "http://\0"}, "is not allowed"),
        ({"max_in_flight": 0}, "max_in_flight=0 is not allowed; max_in_flight is a whole number"),
        ({"max_retries": -1}, "max_retries=-1 is not allowed"),
        ({"timeout": 0}, "timeout_s=0 is not allowed"),
        ({"timeout_s": float("inf")}, "timeout_s=inf is not allowed"),
        ({"chat_template": "chatml"}, "chat_template='chatml' is not allowed; .* a ChatTemplate"),
        ({"default_headers": {"x": 1}}, "default_headers is a dict that is not allowed"),
        ({"default_query": {"api_key": KEY}}, "'api_key', which looks like a key, and URLs stand"),
        ({"api_key": 7}, "api_key is a int; it is a str"),
    ],
)
def test_wrong_values_are_refused_and_keys_not_repeated(options: dict[str, Any], said: str) -> None:
    with pytest.raises(sgl.UsageError, match=said) as caught:
        OpenAI("m", **options)
    assert KEY not in str(caught.value)


def test_anthropic_takes_a_token_instead_of_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    provider = Provider(reply=lambda path, body: {"content": [], "stop_reason": "end_turn"})
    with sgl.Anthropic("m", auth_token="t", transport=provider, timeout=3) as backend:
        assert talk.run(backend=backend)["answer"] == ""
    assert provider.headers[0]["authorization"] == "Bearer t"
    assert "x-api-key" not in provider.headers[0]
    with pytest.raises(sgl.UsageError, match="api_key and auth_token cannot be given together"):
        sgl.Anthropic("m", api_key="k", auth_token="t")


# Keys.


def everything_in(value: Any, depth: int = 0) -> str:
    """What `repr` shows of an object and of all that it refers to."""
    parts = [repr(value)]
    if depth < 6 and type(value).__module__.startswith("sgdsl"):
        names = getattr(value, "__dict__", {})
        parts += [everything_in(each, depth + 1) for each in names.values()]
    return "\n".join(parts)


@pytest.mark.parametrize(
    "make",
    [
        lambda **o: OpenAI("m", "http://x.test", api_key=KEY, **o),
        lambda **o: OpenAI("m", "http://x.test", default_headers={"X-Api-Key": KEY}, **o),
        lambda **o: OpenAI("m", "http://x.test", default_headers={"Cookie": f"a {KEY}"}, **o),
        lambda **o: OpenAI("m", api_key=KEY, **AZURE, **o),
        lambda **o: OpenAI("m", azure_ad_token=KEY, **AZURE, **o),
        lambda **o: OpenAI("m", azure_ad_token_provider=lambda: KEY, **AZURE, **o),
        lambda **o: sgl.Anthropic("m", "http://x.test", api_key=KEY, **o),
        lambda **o: sgl.Anthropic("m", auth_token=KEY, **o),
        lambda **o: sgl.LiteLLM("m", "http://x.test", api_key=KEY, **o),
    ],
)
def test_a_key_is_nowhere(make: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    provider = Provider(reply=lambda path, body: refusal(403, f"{KEY} may not", x=KEY))
    with make(transport=provider, max_retries=0) as backend:
        error = talk.run(backend=backend).error()
        assert error is not None
        assert "*** may not" in str(error)
        assert any(KEY in "".join(headers.values()) for headers in provider.headers)
        shown = [everything_in(backend), "".join(traceback.format_exception(error)), caplog.text]
        shown += [str(url) for url in provider.urls] + [str(provider.bodies)]
        assert KEY not in "\n".join(shown)
        for keep in (pickle.dumps, copy.deepcopy):
            with pytest.raises(TypeError) as caught:
                keep(backend._secret)
            assert KEY not in str(caught.value)
            with pytest.raises(TypeError):
                keep(backend)
        assert KEY.encode() not in pickle.dumps(error.__cause__)
