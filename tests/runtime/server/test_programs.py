"""The native door, and the backend that uses it: the same outcomes as in one process."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Literal

import httpx2
import pytest
from pydantic import AfterValidator, BaseModel

import sgdsl as sgl
from sgdsl import MockBackend, ProgramState, gen, select
from sgdsl.backends.remote import RuntimeEndpoint
from sgdsl.backends.script import Request
from sgdsl.chat import CHATML
from sgdsl.protocol import VERSION
from sgdsl.run import Run
from tests.patience import PATIENCE_S
from tests.runtime.server.live import LiveServer


class Person(BaseModel):
    name: str
    age: int


Even = Annotated[int, AfterValidator(lambda value: value // (1 - value % 2))]


@sgl.function
def everything(s: ProgramState, topic: str) -> str:
    s += sgl.system("Be brief.") + sgl.user("On " + topic)
    with s.assistant(), s.var_scope("said"):
        s += gen("answer", stop="\n") + " (" + select("mood", ["glad", "sad"]) + ")"
    s["note"] = object()
    forks = s.fork(2)
    forks += lambda index: f" {index}" + gen("tip")
    forks.join()
    s += "".join(s["tip"]) + gen("person", type=Person) + s.ref("answer")
    return str(s["person"].name)


SCRIPT: dict[str, Any] = {
    "answer": " Tea",
    "tip": lambda request: f"<{request.prompt[-1]}>",
    "person": '{"name": "Ada", "age": 36}',
}


@pytest.fixture
def mock() -> Iterator[MockBackend]:
    backend = MockBackend(
        SCRIPT, scores={"mood": {"glad": -2.0, "sad": -1.0}}, chat_template=CHATML
    )
    yield backend
    backend.close()


def outcome_of(state: ProgramState) -> Any:
    metas = {name: state.get_meta_info(name) for name in ("answer", "mood", "person")}
    for meta in metas.values():
        meta.pop("id")
        meta.pop("e2e_latency", None)
    return state.text(), state.messages(), state["said"], state["tip"], state.ret_value, metas


def test_a_program_is_carried_out_there_as_it_is_here(mock: MockBackend) -> None:
    here = everything.run("tea", backend=mock, seed=1)
    with LiveServer(mock) as server, RuntimeEndpoint(server.url) as remote:
        there = everything.run("tea", backend=remote, seed=1)
        assert there.outcome == sgl.Outcome("ok")
        assert outcome_of(there) == outcome_of(here)
        assert isinstance(there["person"], Person)
        assert remote.chat_template == CHATML
        assert remote.stats().completion_tokens > 0


def test_a_batch_goes_there_in_few_requests(mock: MockBackend) -> None:
    sent: list[str] = []

    class Counting(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            sent.append(request.url.path)
            return await super().handle_async_request(request)

    @sgl.function
    def plain(s: ProgramState, n: int) -> None:
        s += f"{n}:" + gen("answer")

    rows = [(n,) for n in range(200)]
    with (
        LiveServer(mock) as server,
        RuntimeEndpoint(server.url, transport=Counting()) as remote,
    ):
        states = plain.run_batch(rows, backend=remote)
    assert [state.text() for state in states] == [f"{n}: Tea" for n in range(200)]
    assert len(sent) < 100


def test_text_is_streamed(mock: MockBackend) -> None:
    @sgl.function
    def long(s: ProgramState) -> None:
        s += "Count:" + gen("answer")

    slow = MockBackend({"answer": " one two three é 🦜"}, stepwise=True)
    with LiveServer(slow) as server, RuntimeEndpoint(server.url) as remote:
        pieces = list(long.run(backend=remote, stream=True).text_iter("answer"))
        body = {"version": VERSION, "runs": [run_of(gen_node(), streaming=True)]}
        events = events_of(post(server.url, body))
    assert "".join(pieces) == " one two three é 🦜"
    texts = [event["text"] for event in events if event["event"] == "text"]
    assert texts == [" one", " one two", " one two three", " one two three é"]
    slow.close()


@sgl.function
def asks(s: ProgramState, **options: Any) -> None:
    s += "Q:" + gen("answer", **options)


def test_failures_there_are_failures_of_the_node_here(mock: MockBackend) -> None:
    faults: list[tuple[Any, type[Exception], str]] = [
        (sgl.UsageError("too long a prompt"), sgl.UsageError, "too long a prompt"),
        (sgl.BackendError("the engine died"), sgl.BackendError, "the engine died"),
        (OSError("/secret/path"), sgl.BackendError, "the server failed at this node: OSError"),
    ]
    for fault, kind, said in faults:
        backend = MockBackend({"answer": fault})
        with LiveServer(backend) as server, RuntimeEndpoint(server.url) as remote:
            error = asks.run(backend=remote).error()
        assert isinstance(error, sgl.ProgramError)
        assert isinstance(error.__cause__, kind)
        assert said in str(error)
        assert "gen answer" in str(error) and __file__ in str(error)
        assert "/secret" not in str(error)


def test_types_are_read_back_here_validators_included(mock: MockBackend) -> None:
    backend = MockBackend({"answer": ["4", "5"]})
    with LiveServer(backend) as server, RuntimeEndpoint(server.url) as remote:
        assert asks.run(backend=remote, args={"type": Even})["answer"] == 4
        assert "ZeroDivisionError" in str(asks.run(backend=remote, args={"type": Even}).error())


def test_what_cannot_be_sent_is_refused_at_its_row(mock: MockBackend) -> None:
    class Own:
        needs_unconditional = False

        def best(self, scores: Any) -> int:
            return 0

        def log_weights(self, scores: Any) -> list[float]:
            return [0.0]

    @sgl.function
    def own(s: ProgramState) -> None:
        s += select("x", ["a"], choices_method=Own())

    with LiveServer(mock) as server, RuntimeEndpoint(server.url) as remote:
        assert "cannot be sent to another machine" in str(own.run(backend=remote).error())
        assert asks.run(backend=remote)["answer"] == " Tea"


def test_when_the_server_dies_its_runs_fail_within_two_seconds() -> None:
    backend = MockBackend({"answer": sgl.STALL})
    with LiveServer(backend) as server, RuntimeEndpoint(server.url) as remote:
        state = asks.run(backend=remote, stream=True)
        while not backend._drives:
            time.sleep(0.005)
        began = time.monotonic()
        server.kill()
        error = state.error()
        assert time.monotonic() - began < PATIENCE_S
        assert isinstance(error, sgl.ProgramError)
        assert isinstance(error.__cause__, sgl.ProviderError)
        assert "gen answer" not in str(error.node)
        assert "could not be asked" in str(asks.run(backend=remote).error()) or "broke" in str(
            asks.run(backend=remote).error()
        )


def test_a_server_that_falls_silent_is_given_up(mock: MockBackend) -> None:
    class Silent(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if request.url.path != "/programs":
                return await super().handle_async_request(request)
            raise httpx2.ReadTimeout("silence")

    with (
        LiveServer(mock) as server,
        RuntimeEndpoint(server.url, transport=Silent(), silence_s=0.1) as remote,
    ):
        assert "was silent for 0.1 s" in str(asks.run(backend=remote).error())


def test_when_the_client_goes_its_runs_are_cancelled_there() -> None:
    backend = MockBackend({"answer": sgl.STALL})
    with LiveServer(backend) as server:
        with RuntimeEndpoint(server.url) as remote:
            state = asks.run(backend=remote, stream=True)
            while not backend._drives:
                time.sleep(0.005)
        assert "was closed before this run could finish" in str(state.error())
        until = time.monotonic() + PATIENCE_S
        while backend._drives and time.monotonic() < until:
            time.sleep(0.005)
        assert not backend._drives


def test_a_cancelled_run_is_cancelled_there_and_others_go_on() -> None:
    backend = MockBackend({"answer": [sgl.STALL, "x"]})
    with LiveServer(backend) as server, RuntimeEndpoint(server.url) as remote:

        @sgl.function
        def raises(s: ProgramState) -> None:
            stalled, fork = s.fork(2)
            stalled += gen("answer")
            fork += gen("other")
            assert fork["other"] == "mock"
            raise KeyError("enough")

        with pytest.raises(KeyError, match="enough"):
            raises.run(backend=remote)
        until = time.monotonic() + PATIENCE_S
        while backend._drives and time.monotonic() < until:
            time.sleep(0.005)
        assert not backend._drives
        assert asks.run(backend=remote)["answer"] == "x"


# The door itself.


@pytest.fixture(scope="module")
def shared() -> Iterator[str]:
    with LiveServer(MockBackend(SCRIPT)) as server:
        yield server.url


def ask(method: str, url: str, **options: Any) -> httpx2.Response:
    with httpx2.Client(verify=False, trust_env=False, timeout=PATIENCE_S) as client:
        return client.request(method, url, **options)


def post(url: str, body: Any) -> httpx2.Response:
    content, headers = json.dumps(body), {"content-type": "application/json"}
    return ask("POST", url + "/programs", content=content, headers=headers)


def text_node(id_: int = 0, **changes: Any) -> dict[str, Any]:
    return {"kind": "Text", "id": id_, "branch": 0, "text": "Q:", **changes}


def gen_node(id_: int = 1, **changes: Any) -> dict[str, Any]:
    node = {"kind": "Gen", "id": id_, "branch": 0, "name": "answer"}
    return {**node, "sampling": {}, "constraint": None, **changes}


def run_of(*nodes: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"run": 0, "begin": True, "seed": 1, "closed": True, "nodes": list(nodes), **changes}


def events_of(response: httpx2.Response) -> list[dict[str, Any]]:
    lines = [line[6:] for line in response.text.split("\n") if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


def test_a_plain_post_runs_a_graph_and_ends_with_its_runs(mock: MockBackend) -> None:
    with LiveServer(mock) as server:
        body = {"version": VERSION, "runs": [run_of(text_node(), gen_node())]}
        response = post(server.url, body)
    events = events_of(response)
    assert [event["event"] for event in events] == ["session", "completion", "ended"]
    assert events[1]["text"] == " Tea"
    assert events[2]["status"] == "ok"
    assert response.text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([text_node(kind="Gun")], "node kind 'Gun' is unknown"),
        ([text_node(text=5)], "text=5 of a node is not allowed"),
        ([{"kind": "Text", "id": 0, "branch": 0}], "lacks 'text'"),
        ([text_node(id=True)], "id=True of a node is not allowed"),
        ([text_node(branch=7)], "the graph is malformed"),
        ([text_node(1), text_node(0)], "the graph is malformed"),
        ([text_node(text="\ud800")], "a lone surrogate is no text"),
        ([gen_node(sampling={"temperature": "hot"})], "temperature='hot' is not allowed"),
        ([gen_node(sampling={"max_tokens": -1})], "max_tokens=-1 is not allowed"),
        ([gen_node(sampling={"exec": "x"})], "is no sampling"),
        ([gen_node(constraint={"kind": "os"})], "constraint 'os' is unknown"),
        ([gen_node(constraint={"kind": "Regex", "pattern": "("})], "GrammarError"),
        ([gen_node(constraint={"kind": "Regex"})], "a Regex has the fields pattern"),
        (["text"], "'text' is no object"),
        (
            [{"kind": "Join", "id": 0, "branch": 0, "children": [9], "mode": "gather_variable"}],
            "a fork is joined where it was forked",
        ),
        (
            [
                {"kind": "Fork", "id": 0, "branch": 0, "children": [1]},
                {"kind": "Join", "id": 1, "branch": 1, "children": [1], "mode": "gather_variable"},
            ],
            "a fork is joined where it was forked",
        ),
        ([{"kind": "Fork", "id": 0, "branch": 0, "children": [-1]}], "the graph is malformed"),
        (
            [{"kind": "Fork", "id": 0, "branch": 0, "children": [*range(1, 100_001)]}],
            "at most 100000 nodes and forks",
        ),
        ("text", "nodes='text' is not allowed"),
    ],
)
def test_what_is_wrong_with_a_run_is_that_runs_end(shared: str, nodes: Any, said: str) -> None:
    good = run_of(text_node(), gen_node(), run=1)
    body = {"version": VERSION, "runs": [{**run_of(), "nodes": nodes}, good]}
    events = events_of(post(shared, body))
    failed = next(event for event in events if event["event"] == "failed")
    assert failed["run"] == 0
    assert said in failed["error"]["message"] or said == failed["error"]["type"]
    ended = {event["run"]: event["status"] for event in events if event["event"] == "ended"}
    assert ended[1] == "ok"


def test_what_is_no_request_is_refused_in_one_shape(shared: str) -> None:
    url = shared + "/programs"
    json_type = {"content-type": "application/json"}
    cases = [
        (ask("POST", url, content=b"{", headers=json_type), 400, "no JSON"),
        (ask("POST", url, content=b"[" * 100_000, headers=json_type), 400, "no JSON"),
        (ask("POST", url, content=b"[]", headers=json_type), 400, "no object"),
        (ask("POST", url, content=b"{}", headers={"content-type": "text/plain"}), 415, "text"),
        (post(shared, {"version": 99, "runs": []}), 400, "version=99"),
        (post(shared, {"version": VERSION, "runs": [1]}), 400, "1 is no object"),
        (ask("POST", url + "/nobody", json={"version": VERSION, "runs": []}), 404, "session"),
        (ask("GET", shared + "/nowhere"), 404, "Not Found"),
        (ask("GET", url), 405, "Method Not Allowed"),
    ]
    for response, status, said in cases:
        assert response.status_code == status
        error = response.json()["error"]
        assert said in error["message"]
        assert error.keys() == {"message", "type", "param", "code"}


def test_with_a_key_every_route_but_health_asks_for_it(mock: MockBackend) -> None:
    with LiveServer(mock, api_key="k-123") as server:
        assert ask("GET", server.url + "/health").status_code == 200
        for path in ("/get_model_info", "/server_info", "/programs", "/docs", "/nowhere"):
            response = ask(
                "GET", server.url + path, headers={b"authorization": "Bearer é".encode()}
            )
            assert response.status_code == 401
            assert response.json()["error"]["type"] == "authentication_error"
        with pytest.raises(sgl.ProviderError, match="answered 401: this server needs an API key"):
            RuntimeEndpoint(server.url, "wrong")
        with RuntimeEndpoint(server.url, "k-123") as remote:
            assert asks.run(backend=remote)["answer"] == " Tea"
            assert "k-123" not in repr(remote) + repr(vars(remote))


def test_what_the_server_tells_of_itself(mock: MockBackend) -> None:
    with LiveServer(mock) as server, RuntimeEndpoint(server.url) as remote:
        info = sgl.get_server_info(remote)
        assert info["model_path"] == "tiny"
        sgl.flush_cache(remote)
        assert sgl.get_server_info(mock)["max_in_flight"] == 256
        sgl.set_default_backend(remote)
        try:
            assert asks.run()["answer"] == " Tea"
        finally:
            sgl.set_default_backend(None)


def test_without_a_server_the_endpoint_says_so() -> None:
    with pytest.raises(sgl.ProviderError, match="could not be asked: ConnectError"):
        RuntimeEndpoint("http://127.0.0.1:1")


def test_the_real_engine_gives_over_the_wire_what_it_gives_here(tiny_llama_path: Path) -> None:
    @sgl.function
    def write(s: ProgramState, word: str) -> None:
        s += word + gen("a", max_tokens=8, regex="[a-z]{3}") + " and"
        s += gen("b", max_tokens=8)
        s += (" end" if s["b"] else " none") + select("c", [" yes", " no"], temperature=1.0)
        forks = s.fork(2)
        forks += gen("d", type=Literal["x", "yy"])
        forks.join("concate_and_append")

    rows = [("Once",), ("Twice",), ("é",)]
    with sgl.Runtime(tiny_llama_path, kv_bytes=1 << 22) as local:
        here = write.run_batch(rows, backend=local, seed=7)
        with LiveServer(local) as server, RuntimeEndpoint(server.url, silence_s=30) as remote:
            there = write.run_batch(rows, backend=remote, seed=7)
    assert [state.text() for state in there] == [state.text() for state in here]
    assert [state.outcome for state in there] == [state.outcome for state in here]
    assert there[0].get_meta_info("b")["prompt_tokens"] > 0


def test_log_probabilities_and_cached_prefixes_are_the_same_over_the_wire(
    tiny_llama_path: Path,
) -> None:
    @sgl.function
    def write(s: ProgramState, word: str) -> None:
        s += "the license of this work is given to every contributor " * 4 + word
        s += gen("a", 4, temperature=0, top_logprobs_num=2, return_text_in_logprobs=True)

    names = ("output_token_logprobs", "output_top_logprobs")
    with sgl.Runtime(tiny_llama_path, kv_bytes=1 << 22) as local:
        here = write.run("Once", backend=local).get_meta_info("a")
        with LiveServer(local) as server, RuntimeEndpoint(server.url, silence_s=30) as remote:
            sgl.flush_cache(remote)
            write.cache(remote)
            there = write.run("Once", backend=remote).get_meta_info("a")
    assert there["cached_tokens"] > 16
    assert isinstance(there["output_token_logprobs"][0], tuple)
    assert [token[1:] for token in there[names[0]]] == [token[1:] for token in here[names[0]]]
    assert [[token[1:] for token in tops] for tops in there[names[1]]] == [
        [token[1:] for token in tops] for tops in here[names[1]]
    ]


def test_what_is_no_text_travels_and_disturbs_no_other_run(mock: MockBackend) -> None:
    @sgl.function
    def note(s: ProgramState, name: str) -> None:
        s[name] = name
        s += "a" + gen(name + "y")

    with LiveServer(mock) as server, RuntimeEndpoint(server.url) as remote:
        states = note.run_batch([("x",), ("\ud800",)], backend=remote, timeout_s=PATIENCE_S)
        assert [state.outcome for state in states] == [sgl.Outcome("ok")] * 2
        assert states[1]["\ud800y"] == "mock"


class SlowToTake(MockBackend):
    """Takes its time for runs that are submitted, as one does that compiles their constraints."""

    def submit(self, run: Run) -> None:
        time.sleep(0.5)
        super().submit(run)


def test_a_server_that_takes_its_time_for_a_run_is_not_silent() -> None:
    @sgl.function
    def ask(s: ProgramState) -> None:
        s += "a" + gen("x")

    with (
        LiveServer(SlowToTake()) as server,
        RuntimeEndpoint(server.url, silence_s=1.2) as remote,
    ):
        states = ask.run_batch([()] * 4, backend=remote, timeout_s=3 * PATIENCE_S)
        assert [state.outcome for state in states] == [sgl.Outcome("ok")] * 4


def test_clients_that_are_slow_to_serve_hold_up_no_other() -> None:
    @sgl.function
    def ask(s: ProgramState, name: str) -> None:
        s += name + gen("x")

    held = threading.Event()

    class Held(MockBackend):
        def submit(self, run: Run) -> None:
            if [node for node in run.explain().nodes if "HOLD" in str(node)]:
                held.wait(PATIENCE_S)
            super().submit(run)

    with LiveServer(Held()) as server, ExitStack() as stack:
        remotes = [stack.enter_context(RuntimeEndpoint(server.url)) for _ in range(41)]
        waiting = [ask.run("HOLD", backend=remote, stream=True) for remote in remotes[:40]]
        state = ask.run("go", backend=remotes[40], timeout_s=PATIENCE_S)
        assert state.outcome == sgl.Outcome("ok")
        held.set()
        for state in waiting:
            assert state.error() is None


def test_the_priority_of_a_run_is_told() -> None:
    told: list[int] = []

    class Noting(MockBackend):
        def submit(self, run: Run) -> None:
            told.append(run.priority)
            super().submit(run)

    with LiveServer(Noting(SCRIPT)) as server, RuntimeEndpoint(server.url) as remote:
        for priority in (None, 3, -1):
            everything.run("tea", backend=remote, priority=priority)
    assert told == [0, 3, -1]


def test_what_a_runtime_refuses_arrives_as_what_it_is() -> None:
    def refuse(request: Request) -> Exception:
        kind = sgl.OverloadedError if "many" in request.prompt else sgl.ContextLengthError
        return kind("too " + request.prompt)

    @sgl.function
    def ask(s: ProgramState, text: str) -> None:
        s += text + gen("x")

    with (
        LiveServer(MockBackend(refuse)) as server,
        RuntimeEndpoint(server.url) as remote,
    ):
        for text, kind in (("many", sgl.OverloadedError), ("long", sgl.ContextLengthError)):
            error = ask.run(text, backend=remote).error()
            assert error is not None
            assert type(error.__cause__) is kind
            assert str(error.__cause__) == "too " + text
        with sgl.Router([remote, MockBackend({"x": "there"})]) as router:
            assert ask.run("many", backend=router)["x"] == "there"
