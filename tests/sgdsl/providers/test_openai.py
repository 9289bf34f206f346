"""Programs on endpoints that speak OpenAI's formats: what is asked, what comes of the answers."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any, Literal

import httpx2
import pytest
from pydantic import BaseModel

import sgdsl as sgl
from sgdsl import ProgramState, gen, select
from sgdsl.backends.openai import OpenAI
from tests.sgdsl.providers.fake import (
    KEY,
    USAGE,
    Chunks,
    Provider,
    chat,
    chat_events,
    completion,
    refusal,
    sse,
)

Make = Callable[..., OpenAI]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[OpenAI] = []

    def backend(provider: Provider, **options: Any) -> OpenAI:
        options = {"max_retries": 0, "api_key": KEY, **options}
        made.append(OpenAI("m", "http://provider.test/v1", transport=provider, **options))
        return made[-1]

    yield backend
    for each in made:
        each.close()


class Person(BaseModel):
    name: str
    age: int


@sgl.function
def talk(s: ProgramState, question: str, **options: Any) -> None:
    s += sgl.system("Be brief.") + sgl.user(question)
    s += sgl.assistant(gen("answer", **options))


@sgl.function
def write(s: ProgramState, **options: Any) -> None:
    s += "Q: why?\nA:" + gen("answer", **options) + "\nB:"


def error_of(state: ProgramState) -> str:
    error = state.error()
    assert isinstance(error, sgl.ProgramError)
    return str(error)


def test_roles_are_messages(make: Make) -> None:
    provider = Provider(["Rome."])
    state = talk.run("Where?", backend=make(provider), temperature=0.5, max_new_tokens=9)
    assert state["answer"] == "Rome."
    path, body = provider.asked[0]
    assert path == "/v1/chat/completions"
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Where?"},
    ]
    assert (body["model"], body["max_tokens"], body["temperature"]) == ("m", 9, 0.5)
    assert provider.headers[0]["authorization"] == f"Bearer {KEY}"
    assert state.messages()[-1] == {"role": "assistant", "content": "Rome."}


def test_plain_text_is_a_completion_and_goes_on_behind_it(make: Make) -> None:
    provider = Provider([" because"])
    state = write.run(backend=make(provider), args={"stop": "\n"})
    assert state.text() == "Q: why?\nA: because\nB:"
    path, body = provider.asked[0]
    assert (path, body["prompt"], body["stop"]) == ("/v1/completions", "Q: why?\nA:", ["\n"])


def test_where_there_are_no_completions_plain_text_is_the_users_message(make: Make) -> None:
    def reply(path: str, body: dict[str, Any]) -> Any:
        return refusal(404, "no such route") if path == "/v1/completions" else "yes"

    provider = Provider(reply=reply)
    backend = make(provider)
    assert write.run(backend=backend)["answer"] == "yes"
    assert provider.bodies[1]["messages"] == [{"role": "user", "content": "Q: why?\nA:"}]
    assert write.run(backend=backend)["answer"] == "yes"
    assert [path for path, _ in provider.asked][2:] == ["/v1/chat/completions"], "it has learnt"


def test_a_chat_model_of_openai_itself_is_never_asked_for_completions() -> None:
    provider = Provider(["hi"])
    with OpenAI("gpt-x", api_key=KEY, transport=provider) as backend:
        write.run(backend=backend)
    assert provider.asked[0][0] == "/v1/chat/completions"
    assert "max_completion_tokens" in provider.bodies[0]


def test_meta_info_has_what_the_provider_tells(make: Make) -> None:
    backend = make(Provider([chat("Rome", finish="length")]))
    state = talk.run("Where?", backend=backend)
    meta = state.get_meta_info("answer")
    assert meta["id"] == "chat-1"
    assert (meta["prompt_tokens"], meta["completion_tokens"], meta["cached_tokens"]) == (11, 3, 4)
    assert meta["finish_reason"] == {"type": "length", "length": 3}
    assert state.outcome == sgl.Outcome("truncated")
    assert backend.stats() == sgl.BackendStats(11, 4, 3)


def test_stop_strings_hold_whatever_the_provider_does_with_them(make: Make) -> None:
    stops = ["one", "two", "three", "four", "END"]
    provider = Provider([chat("all of it END and more")])
    state = talk.run("Go", backend=make(provider), args={"stop": stops})
    assert state["answer"] == "all of it "
    assert state.get_meta_info("answer")["finish_reason"] == {"type": "stop", "matched": "END"}
    assert len(provider.bodies[0]["stop"]) == 4


def test_log_probabilities(make: Make) -> None:
    tokens = [{"token": "Ro", "logprob": -0.5, "top_logprobs": []}, {"token": "me", "logprob": -1}]
    provider = Provider([chat("Rome", logprobs={"content": tokens})])
    state = talk.run("Where?", backend=make(provider), args={"return_logprob": True})
    told = state.get_meta_info("answer")["output_token_logprobs"]
    assert told == [(-0.5, None, "Ro"), (-1.0, None, "me")]
    assert provider.bodies[0]["logprobs"] is True


@pytest.mark.parametrize(("name", "value"), [("top_k", 5), ("min_p", 0.1), ("ignore_eos", True)])
def test_what_the_endpoint_does_not_have_is_refused_unless_it_is_named(
    make: Make, name: str, value: Any
) -> None:
    provider = Provider(["x", "x"])
    state = talk.run("Go", backend=make(provider), args={name: value})
    assert f"{name}={value!r} is not known to this provider" in error_of(state)
    assert provider.asked == []
    named = make(provider, extensions={name: f"nested.{name}"})
    assert talk.run("Go", backend=named, args={name: value})["answer"] == "x"
    assert provider.bodies[0]["nested"] == {name: value}


def test_extra_fields_are_sent_as_they_are(make: Make) -> None:
    provider = Provider(["x"])
    talk.run("Go", backend=make(provider, extra={"service_tier": "flex"}))
    assert provider.bodies[0]["service_tier"] == "flex"


# Constraints.


def test_a_schema_is_a_response_format_and_the_value_has_its_type(make: Make) -> None:
    provider = Provider([chat('{"age": 36, "name": "Ada"}')])
    state = talk.run("Who?", backend=make(provider), args={"type": Person})
    assert state["answer"] == Person(name="Ada", age=36)
    form = provider.bodies[0]["response_format"]
    assert form["type"] == "json_schema"
    assert form["json_schema"]["schema"]["required"] == ["name", "age"]
    meta = state.get_meta_info("answer")
    assert (meta["constraint"], meta["attempts"]) == ("json_schema", 1)


@pytest.mark.parametrize(
    ("kind", "answer", "value"),
    [
        (int, {"value": 42}, 42),
        (list[int], {"value": [1, 2]}, [1, 2]),
        (Literal["a", "b"], {"value": "b"}, "b"),
    ],
)
def test_a_type_that_is_no_object_is_wrapped_in_one(
    make: Make, kind: Any, answer: dict[str, Any], value: Any
) -> None:
    provider = Provider([chat(json.dumps(answer))])
    assert talk.run("Go", backend=make(provider), args={"type": kind})["answer"] == value
    schema = provider.bodies[0]["response_format"]["json_schema"]["schema"]
    assert list(schema["properties"]) == ["value"]


class Tree(BaseModel):
    label: str
    children: list[Tree]


def test_definitions_of_a_recursive_type_stay_where_references_lead(make: Make) -> None:
    answer = {"label": "a", "children": [{"label": "b", "children": []}]}
    provider = Provider([chat(json.dumps({"value": answer}))])
    state = talk.run("Go", backend=make(provider), args={"type": Tree})
    assert state["answer"].children[0].label == "b"
    schema = provider.bodies[0]["response_format"]["json_schema"]["schema"]
    assert "Tree" in schema["$defs"]


def test_an_endpoint_with_json_objects_only_is_told_the_schema_in_words(make: Make) -> None:
    provider = Provider([chat('{"name": "Ada", "age": 36}')])
    backend = make(provider, json_mode="json_object")
    assert talk.run("Who?", backend=backend, args={"type": Person})["answer"].age == 36
    body = provider.bodies[0]
    assert body["response_format"] == {"type": "json_object"}
    assert '"required": ["name", "age"]' in body["messages"][0]["content"]


def test_a_pattern_goes_to_providers_that_have_them(make: Make) -> None:
    provider = Provider([chat("123")])
    backend = make(provider, extensions="vllm")
    state = talk.run("Go", backend=backend, args={"regex": "[0-9]{3}"})
    assert state["answer"] == "123"
    assert provider.bodies[0]["structured_outputs"] == {"regex": "[0-9]{3}"}
    assert state.get_meta_info("answer")["constraint"] == "regex"


def test_other_constraints_are_validated_and_asked_for_again(make: Make) -> None:
    provider = Provider([chat("about 12"), chat(" 123\n")])
    state = talk.run("Go", backend=make(provider), args={"regex": "[0-9]{3}"})
    assert state["answer"] == "123"
    meta = state.get_meta_info("answer")
    assert (meta["constraint"], meta["attempts"]) == ("validated", 2)
    again = provider.bodies[1]["messages"]
    assert again[-2] == {"role": "assistant", "content": "about 12"}
    assert "does not satisfy Regex" in again[-1]["content"]
    assert provider.bodies[0]["seed"] != provider.bodies[1]["seed"]


def test_after_some_answers_that_violate_it_the_gen_fails_and_says_what(make: Make) -> None:
    provider = Provider([chat("no"), chat("never"), chat("12")])
    state = talk.run("Go", backend=make(provider), args={"regex": "[0-9]{3}"})
    message = error_of(state)
    assert "gen answer" in message
    assert "none of 3 answers satisfies the constraint; the last: '12'" in message
    assert "it ends too early" in message


def test_a_provider_that_breaks_its_own_promise_is_found_out(make: Make) -> None:
    provider = Provider([chat('{"name": "Ada"}')])
    backend = make(provider, constraint_retries=0)
    assert "does not satisfy the type Person" in error_of(
        talk.run("Who?", backend=backend, args={"type": Person})
    )


def test_a_constrained_output_is_never_truncated(make: Make) -> None:
    provider = Provider([chat('{"name": "Ad', finish="length")])
    backend = make(provider, constraint_retries=0)
    state = talk.run("Who?", backend=backend, args={"type": Person})
    assert state.outcome is not None and state.outcome.status == "failed"
    assert "it was cut by max_tokens=128" in error_of(state)


def test_of_a_completion_the_longest_beginning_that_satisfies_it_is_taken(make: Make) -> None:
    provider = Provider([completion(" 42\nB: something else")])
    state = write.run(backend=make(provider), args={"type": int})
    assert state["answer"] == 42
    assert state.text() == "Q: why?\nA: 42\nB:"


# Selects.


@sgl.function
def pick(s: ProgramState, **options: Any) -> None:
    s += "The capital is" + select("city", [" Rome", " Paris"], **options)


def echoed(prompt: str, last: float) -> dict[str, Any]:
    """One token a word, each with the blank before it."""
    words = prompt.replace(" ", "\0 ").split("\0")
    values = [None, *[-1.0] * (len(words) - 2), last]
    return {"tokens": words, "token_logprobs": values}


def test_select_scores_echoed_choices(make: Make) -> None:
    def reply(path: str, body: dict[str, Any]) -> Any:
        assert (path, body["max_tokens"], body["echo"]) == ("/v1/completions", 0, True)
        values = {" Rome": -3.0, " Paris": -1.0}
        choices = [
            {"index": i, "text": p, "logprobs": echoed(p, values[" " + p.rsplit(" ", 1)[1]])}
            for i, p in enumerate(body["prompt"])
        ]
        return {"choices": choices[::-1], "usage": USAGE}  # the index counts, not the order

    state = pick.run(backend=make(Provider(reply=reply)))
    assert state["city"] == " Paris"
    meta = state.get_meta_info("city")
    assert meta["normalized_prompt_logprobs"] == [-3.0, -1.0]
    assert meta["scored_by"] == "echoed log-probabilities"


def test_a_token_over_the_border_counts_for_all_choices(make: Make) -> None:
    def reply(path: str, body: dict[str, Any]) -> Any:
        tokens = [["The capital", " is", " Rome"], ["The capital", " is Paris"]]
        values = [[None, -0.5, -2.0], [None, -1.0]]
        return {
            "choices": [
                {"index": i, "logprobs": {"tokens": tokens[i], "token_logprobs": values[i]}}
                for i in range(2)
            ]
        }

    meta = pick.run(backend=make(Provider(reply=reply))).get_meta_info("city")
    assert meta["normalized_prompt_logprobs"] == [-1.25, -1.0]


def test_an_endpoint_that_echoes_nothing_says_so(make: Make) -> None:
    def reply(path: str, body: dict[str, Any]) -> Any:
        return {"choices": [{"index": i, "text": "", "logprobs": None} for i in range(2)]}

    state = pick.run(backend=make(Provider(reply=reply)))
    assert "echoes no log-probabilities, by which a select is scored" in error_of(state)


@sgl.function
def judge(s: ProgramState, **options: Any) -> None:
    s += sgl.user("Good?")
    s += sgl.assistant("It is " + select("verdict", ["good", "bad"], **options) + ".")


def entry(token: str, logprob: float, **top: float) -> dict[str, Any]:
    tops = [{"token": t, "logprob": v} for t, v in {token: logprob, **top}.items()]
    return {"token": token, "logprob": logprob, "top_logprobs": tops}


def test_select_in_a_chat_is_a_constrained_choice_with_the_answers_log_probabilities(
    make: Make,
) -> None:
    tokens = [
        entry('{"value": "', 0.0),
        entry("bad", -0.25, good=-1.5, other=-9.0),
        entry('"}', 0.0),
    ]
    answer = chat('{"value": "bad"}', logprobs={"content": tokens})
    provider = Provider([answer])
    state = judge.run(backend=make(provider))
    assert state["verdict"] == "bad"
    meta = state.get_meta_info("verdict")
    assert meta["normalized_prompt_logprobs"] == [-1.5, -0.25]
    assert meta["scored_by"] == "log-probabilities of the answer's tokens"
    assert meta["bounded"] == []
    body = provider.bodies[0]
    assert body["messages"][-2] == {"role": "assistant", "content": "It is "}
    assert "- good\n- bad" in body["messages"][-1]["content"]
    schema = body["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["value"]["enum"] == ["good", "bad"]


def test_without_log_probabilities_the_answer_alone_decides_and_meta_says_so(make: Make) -> None:
    backend = make(Provider([chat("so-so"), chat("bad")]), logprobs=False, json_mode=None)
    meta = judge.run(backend=backend).get_meta_info("verdict")
    assert meta["scored_by"] == "the answer alone"
    assert meta["probabilities"] == [0.0, 1.0]


def test_a_choice_that_was_not_given_fails(make: Make) -> None:
    state = judge.run(backend=make(Provider([chat("so-so")] * 3)))
    assert "'so-so', which is none of the choices, 3 times" in error_of(state)


def test_what_a_chat_cannot_score_is_refused(make: Make) -> None:
    method = sgl.unconditional_likelihood_normalized
    state = judge.run(backend=make(Provider()), args={"choices_method": method})
    assert "which a chat endpoint does not give" in error_of(state)


# What no list of messages says.


def test_a_gen_in_a_message_that_has_begun_needs_an_endpoint_that_goes_on_with_it(
    make: Make,
) -> None:
    @sgl.function
    def begun(s: ProgramState) -> None:
        s += sgl.user("Hi") + sgl.assistant("Dear " + gen("name"))

    state = begun.run(backend=make(Provider()))
    assert "has begun with 'Dear ' before the gen" in error_of(state)
    provider = Provider(["Ada"])
    state = begun.run(backend=make(provider, extensions=["continue_final_message"]))
    assert state.messages()[-1]["content"] == "Dear Ada"
    body = provider.bodies[0]
    assert body["continue_final_message"] is True
    assert body["messages"][-1] == {"role": "assistant", "content": "Dear "}


def test_gens_in_other_roles_and_text_beside_messages_are_refused(make: Make) -> None:
    @sgl.function
    def as_user(s: ProgramState) -> None:
        s += sgl.user(gen("question"))

    @sgl.function
    def beside(s: ProgramState) -> None:
        s += "Preamble." + sgl.user("Hi") + sgl.assistant(gen("x"))

    backend = make(Provider())
    assert "a gen stands in a user message" in error_of(as_user.run(backend=backend))
    assert "'Preamble.' stands beside the messages" in error_of(beside.run(backend=backend))


def test_a_gen_behind_a_message_is_the_assistants(make: Make) -> None:
    @sgl.function
    def bare(s: ProgramState) -> None:
        s += sgl.user("Hi")
        s += gen("x")

    provider = Provider(["hello"])
    assert bare.run(backend=make(provider))["x"] == "hello"
    assert provider.bodies[0]["messages"] == [{"role": "user", "content": "Hi"}]


# Streams.


def test_a_stream_arrives_in_pieces_and_ends_as_the_whole(make: Make) -> None:
    provider = Provider([sse(*chat_events("Ro", "me", "."))])
    state = talk.run("Where?", backend=make(provider), stream=True)
    assert "".join(state.text_iter("answer")) == "Rome."
    assert state.get_meta_info("answer")["completion_tokens"] == 3
    assert provider.bodies[0]["stream_options"] == {"include_usage": True}


def test_characters_split_over_chunks_and_line_separators_inside_of_text_come_through(
    make: Make,
) -> None:
    text = "é\u2028ß 🦜\x85."
    whole = b"".join(sse(*chat_events(text[:3], text[3:])))
    provider = Provider([[whole[i : i + 1] for i in range(len(whole))]])
    state = talk.run("Go", backend=make(provider), stream=True)
    assert "".join(state.text_iter("answer")) == text


def test_no_piece_of_a_stop_string_is_streamed(make: Make) -> None:
    provider = Provider([sse(*chat_events("one E", "N", "D two"))])
    backend = make(provider)
    state = talk.run("Go", backend=backend, stream=True, args={"stop": "END"})
    assert "".join(state.text_iter("answer")) == "one "


def test_a_stream_that_breaks_or_stops_early_fails_the_run(make: Make) -> None:
    events = sse(*chat_events("Ro", "me"))
    faults: list[tuple[list[bytes | BaseException], str]] = [
        ([*events[:2], httpx2.ReadError("reset by peer")], "ReadError: reset by peer"),
        ([*events[:2]], "a stream that stopped before its end"),
        ([*events[:2], *sse({"error": {"message": "the GPU burnt"}})], "the GPU burnt"),
        ([*events[:2], b"data: {oops\n\n"], "answered what is no JSON"),
    ]
    for fault, said in faults:
        response = httpx2.Response(200, stream=Chunks(fault))
        state = talk.run("Go", backend=make(Provider([response]), max_retries=3), stream=True)
        with pytest.raises(sgl.ProgramError, match=said):
            "".join(state.text_iter("answer"))


# Faults.


@pytest.mark.parametrize(
    ("reply", "status", "said"),
    [
        (refusal(400, "bad field: stop"), 400, "provider.test answered 400: bad field: stop"),
        (refusal(401, f"Incorrect API key: {KEY}"), 401, "answered 401: Incorrect API key: ***"),
        (refusal(500, "our fault"), 500, "answered 500: our fault"),
        (httpx2.Response(502, text="<html>Bad Gateway</html>"), 502, "502: <html>Bad Gateway"),
        (httpx2.Response(503, content=b"\xff\xfe"), 503, "answered 503"),
        (httpx2.Response(302, headers={"location": "http://evil.test"}), 302, "answered 302"),
        (httpx2.Response(200, text="{"), None, "what is no JSON: '{'"),
        (httpx2.Response(200, text="[" * 100_000), None, "what is no JSON"),
        (httpx2.Response(200, text="[]"), None, "which is no object"),
        ({"choices": []}, None, "there is no .choices[0] in []"),
        ({"choices": [{"message": None}]}, None, ".message is None, no dict"),
        ({"choices": [{"message": {"content": 5}}]}, None, ".content is 5, no str"),
        (chat(None), None, ".content is None, no str"),
        (chat("x", finish="content_filter"), None, "content filter ended the answer"),
        (httpx2.ConnectError("refused"), None, "ConnectError: refused"),
        (httpx2.ReadTimeout("slow"), None, "no answer within 600 s"),
    ],
)
def test_every_fault_is_an_error_of_its_row_alone(
    make: Make, reply: Any, status: int | None, said: str
) -> None:
    def answer(path: str, body: dict[str, Any]) -> Any:
        return reply if body["messages"][1]["content"] == "bad" else "fine"

    states = talk.run_batch(
        [{"question": q} for q in ("good", "bad", "better")], backend=make(Provider(reply=answer))
    )
    assert [s.outcome.status for s in states if s.outcome] == ["ok", "failed", "ok"]
    message = error_of(states[1])
    assert "gen answer" in message and __file__ in message
    assert said in message
    error = states[1].error()
    assert error is not None
    cause = error.__cause__
    assert isinstance(cause, sgl.BackendError)
    assert getattr(cause, "status", None) == status


def test_a_slow_provider_is_given_up(make: Make) -> None:
    class Hanging(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            timeout = request.extensions["timeout"]["read"]
            await asyncio.sleep(timeout)
            raise httpx2.ReadTimeout("slow")

    with OpenAI("m", "http://provider.test/v1", transport=Hanging(), timeout_s=0.05) as backend:
        backend.close()
    backend = OpenAI(
        "m", "http://provider.test/v1", transport=Hanging(), timeout_s=0.05, max_retries=0
    )
    assert "no answer within 0.05 s" in error_of(talk.run("Go", backend=backend))
    backend.close()


def test_what_fails_for_a_while_is_tried_again(make: Make) -> None:
    provider = Provider(
        [
            refusal(429, "slow down", **{"retry-after": "0"}),
            refusal(500, "oops", **{"retry-after": "0"}),
            "yes",
        ]
    )
    assert talk.run("Go", backend=make(provider, max_retries=2))["answer"] == "yes"
    assert len(provider.asked) == 3


def test_a_provider_that_asks_for_too_much_patience_is_given_up_at_once(make: Make) -> None:
    provider = Provider([refusal(429, "tomorrow", **{"retry-after": "86400"})])
    state = talk.run("Go", backend=make(provider, max_retries=5))
    assert "answered 429: tomorrow" in error_of(state)
    error = state.error()
    assert error is not None and isinstance(error.__cause__, sgl.ProviderError)
    assert error.__cause__.retry_after_s == 86400


def test_no_more_is_in_flight_than_allowed(make: Make) -> None:
    provider = Provider(reply=lambda path, body: "x", delay_s=0.001)
    rows = [{"question": str(i)} for i in range(30)]
    states = talk.run_batch(rows, backend=make(provider, max_in_flight=4))
    assert all(state["answer"] == "x" for state in states)
    assert 1 < provider.most_in_flight <= 4


def test_forks_are_asked_at_the_same_time_and_reads_go_on(make: Make) -> None:
    @sgl.function
    def tips(s: ProgramState) -> str:
        s += sgl.user("Two tips.")
        forks = s.fork(2)
        forks += lambda i: sgl.user(str(i)) + sgl.assistant(gen("tip"))
        forks.join()
        s += sgl.user(" and ".join(s["tip"])) + sgl.assistant(gen("end"))
        return str(s["end"])

    provider = Provider(reply=lambda path, body: body["messages"][-1]["content"].upper() + "!")
    assert tips.run(backend=make(provider)).ret_value == "0! AND 1!!"


def test_close_and_cancel_end_the_runs(make: Make) -> None:
    provider = Provider(reply=lambda path, body: "x", delay_s=60)
    backend = make(provider)
    state = talk.run("Go", backend=backend, stream=True)
    backend.close()
    assert "was closed before this run could finish" in error_of(state)
    assert "was closed" in error_of(talk.run("Go", backend=backend))


def test_the_key_is_nowhere(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    provider = Provider(
        reply=lambda path, body: refusal(400, f"you sent Authorization: Bearer {KEY}")
    )
    backend = make(provider)
    state = talk.run("Go", backend=backend)
    error = state.error()
    assert error is not None
    texts = [repr(backend), repr(vars(backend)), str(error), repr(error.__cause__), caplog.text]
    texts += [repr(vars(part)) for part in (backend._wire, backend._wire._caller)]  # type: ignore[attr-defined]
    assert KEY not in "".join(texts)
    assert KEY not in json.dumps(provider.bodies)


def test_openais_key_is_told_to_openai_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    provider = Provider(["x", "x"])
    with OpenAI("m", "http://elsewhere.test/v1", transport=provider) as other:
        talk.run("Go", backend=other)
    with OpenAI("m", transport=provider) as own:
        talk.run("Go", backend=own)
    assert "authorization" not in provider.headers[0]
    assert provider.headers[1]["authorization"] == f"Bearer {KEY}"


def test_wrong_arguments_are_refused_where_they_are_written() -> None:
    with pytest.raises(sgl.UsageError, match="model_name='' is not allowed"):
        OpenAI("")
    with pytest.raises(sgl.UsageError, match="base_url='provider' is not allowed"):
        OpenAI("m", "provider")
    with pytest.raises(sgl.UsageError, match="has a user or a password") as caught:
        OpenAI("m", f"http://me:{KEY}@provider.test/v1")
    assert KEY not in str(caught.value)
    with pytest.raises(sgl.UsageError, match="json_mode='xml' is not allowed"):
        OpenAI("m", json_mode="xml")  # type: ignore[arg-type]
    with pytest.raises(sgl.UsageError, match=r"extensions=\['regexp'\] is not allowed"):
        OpenAI("m", extensions=["regexp"])
    with pytest.raises(sgl.UsageError, match="extensions='tgi' is not allowed"):
        OpenAI("m", extensions="tgi")


def test_a_stop_ends_an_answer_where_it_satisfies_its_constraint(make: Make) -> None:
    provider = Provider(["36 years, I think", "12-\n34\n!"])
    backend = make(provider)
    state = talk.run("How old?", args={"regex": "[0-9]+ *", "stop": " "}, backend=backend)
    assert state["answer"] == "36"
    assert state.get_meta_info("answer")["finish_reason"] == {"type": "stop", "matched": " "}
    options = {"regex": "[0-9]+-\n[0-9]+\n?", "stop": "\n"}
    state = talk.run("?", args=options, backend=backend)
    assert state["answer"] == "12-\n34"
    assert all("stop" not in body for body in provider.bodies)  # it would cut the second one short
