"""`async def` bodies and what is awaited. Nothing here needs a thread a row."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pydantic import BaseModel

import sgdsl as sgl
from sgdsl import STALL, AsyncProgramState, MockBackend, ProgramState, gen, select
from sgdsl.async_batch import AsyncBatch
from sgdsl.backends.script import Request
from sgdsl.batch import Batch
from sgdsl.run import Run
from tests.patience import PATIENCE_S, await_that
from tests.sgdsl.backends import ThreadedBackend

pytestmark = pytest.mark.timeout(120)
SOON_S = 0.05


class Person(BaseModel):
    name: str
    age: int


@sgl.function
async def two(s: AsyncProgramState, q: Any = "?") -> str:
    s += f"{q}:" + gen("a")
    first = await s.get("a")
    s += f" {first}!" + gen("b")
    return f"{q} {await s.get('b')}"


@sgl.function
async def once(s: AsyncProgramState, q: Any) -> str:
    s += f"{q}:" + gen("a")
    return await s.get("a", str)


@sgl.function
async def appends(s: AsyncProgramState, q: Any = "?") -> None:
    s += f"{q}:" + gen("a")


@sgl.function
async def sleeps(s: AsyncProgramState, q: Any = "?") -> None:
    s += f"{q}:" + gen("a")
    await asyncio.sleep(3600)


@sgl.function
def plain(s: ProgramState, q: Any = "?") -> str:
    s += f"{q}:" + gen("a")
    return f"<{s['a']}>"


async def eventually(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - of another thread
        await asyncio.sleep(0.002)


def echo(request: Request) -> str:
    return f"[{len(request.prompt)}]"


def slow_first(request: Request) -> Any:
    return STALL if request.prompt.startswith("slow") else "quick"


def statuses(states: list[ProgramState[Any]]) -> list[str]:
    return [state.outcome.status if state.outcome else "none" for state in states]


@pytest.fixture(params=[False, True], ids=["at once", "stepwise"])
def backend(request: pytest.FixtureRequest) -> Any:
    mock = MockBackend(echo, stepwise=request.param)
    yield mock
    mock.close()


def test_an_async_body_reads_what_it_awaits(backend: MockBackend) -> None:
    state = asyncio.run(two.arun("q", backend=backend))
    assert (state["a"], state["b"]) == ("[2]", "[10]")
    assert (state.ret_value, state.outcome) == ("q [10]", sgl.Outcome("ok"))
    assert state.text() == "q:[2] [2]![10]"


def test_without_a_loop_a_run_has_its_own(backend: MockBackend) -> None:
    assert two.run("q", backend=backend).ret_value == "q [10]"
    assert two("q", backend=backend).ret_value == "q [10]"
    assert two.run("q", backend=backend, timeout_s=5).ret_value == "q [10]"
    states = two.run_batch([("a",), ("b",)], backend=backend)
    assert [state.ret_value for state in states] == ["a [10]", "b [10]"]
    pairs = two.run_batch([("a",), ("b",)], backend=backend, as_completed=True)
    assert sorted((i, state.ret_value) for i, state in pairs) == [(0, "a [10]"), (1, "b [10]")]
    in_order = two.run_batch(({"q": q} for q in "ab"), backend=backend, generator_style=True)
    assert [state.ret_value for state in in_order] == ["a [10]", "b [10]"]


def test_inside_of_a_loop_a_run_says_what_to_await() -> None:
    async def main() -> None:
        with pytest.raises(sgl.UsageError, match=r"await f\.arun\(\.\.\.\)"):
            two.run("q", backend=MockBackend())
        with pytest.raises(sgl.UsageError, match=r"await f\.arun_batch\(\.\.\.\)"):
            two.run_batch([("q",)], backend=MockBackend())

    asyncio.run(main())


def test_what_is_not_there_yet_has_to_be_awaited(backend: MockBackend) -> None:
    @sgl.function
    async def hasty(s: AsyncProgramState) -> Any:
        s += "q:" + gen("a") + gen("b")
        with pytest.raises(sgl.UsageError, match=r"await s\.get\("):
            s["a"]
        await s.get("a")
        s["note"] = 5
        with pytest.raises(sgl.UsageError, match=r"await s\.get\("):
            s["note"]
        return s["a"], await s.get("note"), s["note"], "b" in s, "c" in s

    assert hasty.run(backend=backend).ret_value == ("[2]", 5, 5, True, False)


def test_every_read_is_awaited(backend: MockBackend) -> None:
    @sgl.function
    async def reads(s: AsyncProgramState) -> None:
        with s.user():
            s += "Who?"
        with s.assistant(), s.var_scope("both"):
            s += gen("a") + select("c", ["x", "y"])
        assert await s.get("both") == await s.get("a") + await s.get("c")
        assert (await s.messages())[-1] == {"role": "assistant", "content": await s.get("both")}
        assert (await s.text()).endswith(await s.get_var("both") + "\n")
        assert "id" in await s.get_meta_info("a")
        assert await s.error() is None
        with pytest.raises(sgl.UsageError, match="defines only"):
            await s.get("unknown")
        s.set_var("n", "[1, 2]")
        assert await s.get("n", list[int]) == [1, 2]

    assert reads.run(backend=backend).outcome == sgl.Outcome("ok")


def test_forks_are_awaited_together(backend: MockBackend) -> None:
    @sgl.function
    async def tree(s: AsyncProgramState) -> list[str]:
        s += "root"
        forks = s.fork(3)
        forks += lambda index: f" {index}" * (index + 1) + gen("leaf")
        leaves = await asyncio.gather(*(fork.get("leaf") for fork in forks))
        forks.join()
        assert await s.get("leaf") == leaves
        with s.copy() as copied:
            copied.append(gen("copied"))
        return leaves

    assert tree.run(backend=backend).ret_value == ["[6]", "[8]", "[10]"]


def test_programs_call_each_other(backend: MockBackend) -> None:
    @sgl.function
    def shots(s: ProgramState, n: int) -> int:
        s += "shot " * n
        return n

    @sgl.function
    def hasty(s: ProgramState) -> None:
        s += gen("h")
        s["h"]

    @sgl.function
    async def part(s: AsyncProgramState, q: str) -> str:
        s += q + gen("p")
        return str(await s.get("p"))

    @sgl.function
    async def whole(s: AsyncProgramState) -> Any:
        given = shots(s, 2)
        got = await part(s, "q")
        other = await plain.arun("x")  # a run of its own, on this one's backend
        with pytest.raises(sgl.UsageError, match=r"await s\.get\("):
            hasty(s)
        return given, got, other.ret_value

    @sgl.function
    def sync(s: ProgramState) -> None:
        part(s, "q")  # type: ignore[call-overload]

    assert whole.run(backend=backend).ret_value == (2, "[11]", "<[2]>")
    with pytest.raises(sgl.UsageError, match="part of an async def body only"):
        sync.run(backend=backend)


def test_a_plain_program_is_awaited_too(backend: MockBackend) -> None:
    async def main() -> Any:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        ticking = asyncio.create_task(tick())
        state = await plain.arun("q", backend=backend)
        ticking.cancel()
        assert ticks > 0  # the loop went on
        return state.ret_value, state.outcome

    assert asyncio.run(main()) == ("<[2]>", sgl.Outcome("ok"))


@pytest.mark.parametrize("program", [two, plain])
def test_arguments_are_those_of_run(program: Any) -> None:
    def seen(request: Request) -> str:
        return f"{request.sampling.temperature} {request.sampling.max_tokens} {request.seed}"

    async def main() -> Any:
        backend = MockBackend(seen)
        args = {"temperature": 0.5, "max_new_tokens": 7, "seed": 3, "use_thread": True}
        return await program.arun(args={"q": 1}, backend=backend, **args)

    assert asyncio.run(main())["a"] == "0.5 7 3"
    for wrong in ({"n": -1}, {"q": 1, "qq": 2}, {"args": [1]}):
        with pytest.raises(sgl.UsageError):
            asyncio.run(program.arun(backend=MockBackend(), **wrong))


def test_what_a_body_raises_is_raised_where_it_is_awaited() -> None:
    @sgl.function
    async def broken(s: AsyncProgramState) -> None:
        s += gen("a")
        raise LookupError("mine")

    @sgl.function
    async def leaves(s: AsyncProgramState) -> None:
        raise SystemExit(3)

    async def main() -> None:
        with pytest.raises(LookupError, match="mine"):
            await broken.arun(backend=MockBackend())
        with pytest.raises(SystemExit):
            await leaves.arun(backend=MockBackend())
        states = await broken.arun_batch([()] * 3, backend=MockBackend())
        assert [str(state.error()) for state in states] == [
            f"at {__file__}:{broken._body.__code__.co_firstlineno + 3}: LookupError: mine"
        ] * 3
        assert statuses(await leaves.arun_batch([()] * 2, backend=MockBackend())) == ["failed"] * 2

    asyncio.run(main())


def test_a_failed_node_says_so_in_the_outcome() -> None:
    state = appends.run(backend=MockBackend({"a": OSError("down")}))
    assert state.outcome is not None
    assert state.outcome.status == "failed"
    assert "gen a" in str(state.outcome.error)
    with pytest.raises(sgl.ProgramError, match="OSError: down"):
        two.run(backend=MockBackend({"a": OSError("down")}))


# The end before its time.


@pytest.mark.parametrize("program", [two, appends, sleeps, plain])
def test_an_awaited_run_has_a_deadline(program: Any) -> None:
    async def main() -> Any:
        reply = "quick" if program is sleeps else STALL
        return await program.arun(backend=MockBackend({"a": reply}), timeout_s=SOON_S)

    begin_s = time.monotonic()
    state = asyncio.run(main())
    assert time.monotonic() - begin_s < SOON_S + 1
    assert isinstance(state.error(), sgl.DeadlineError)
    assert state.outcome.status == "cancelled"
    assert sgl.num_left_behind() == 0


@pytest.mark.parametrize("program", [two, appends, sleeps, plain])
def test_cancelling_the_task_cancels_the_run(program: Any) -> None:
    runs: list[Run] = []

    class Watched(MockBackend):
        def submit(self, run: Run) -> None:
            runs.append(run)
            super().submit(run)

    async def main() -> None:
        backend = Watched({"a": STALL})
        task = asyncio.create_task(program.arun(backend=backend))
        await asyncio.sleep(SOON_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)
        assert all(run.outcome and run.outcome.status == "cancelled" for run in runs)
        assert not backend._drives  # it was told

    asyncio.run(main())


def test_a_body_that_refuses_to_be_cancelled_is_left_behind() -> None:
    free = threading.Event()

    @sgl.function
    async def stubborn(s: AsyncProgramState) -> None:
        while not free.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    async def main() -> None:
        state = await stubborn.arun(backend=MockBackend(), timeout_s=SOON_S)
        assert state.outcome is not None
        assert state.outcome.status == "cancelled"
        assert sgl.num_left_behind() == 1
        free.set()

    asyncio.run(main())
    await_that(lambda: sgl.num_left_behind() == 0)


@pytest.mark.parametrize("program", [two, sleeps, plain])
@pytest.mark.parametrize("style", ["list", "in_order", "as_completed"])
def test_a_batch_has_deadlines(program: Any, style: str) -> None:
    rows = [("quick",)] + [("slow",)] * 5

    async def main(**limits: float) -> list[ProgramState[Any]]:
        given: Any = {"backend": MockBackend(slow_first, max_in_flight=3), **limits}
        if style == "list":
            return list(await program.arun_batch(rows, **given))
        if style == "in_order":
            return [state async for state in program.astream_batch(rows, **given)]
        pairs = [pair async for pair in program.astream_batch(rows, as_completed=True, **given)]
        assert sorted(index for index, _ in pairs) == list(range(6))
        return [state for _, state in sorted(pairs, key=lambda pair: pair[0])]

    first = "cancelled" if program is sleeps else "ok"
    assert statuses(asyncio.run(main(timeout_s=0.1))) == [first] + ["cancelled"] * 5
    assert statuses(asyncio.run(main(row_timeout_s=SOON_S))) == [first] + ["cancelled"] * 5


@pytest.mark.parametrize("how", ["list", "as_completed", "left"])
def test_a_body_that_outlives_its_failed_run_does_not_hold_a_batch_up(how: str) -> None:
    @sgl.function
    async def outlives(s: AsyncProgramState, q: str) -> None:
        s += gen("a") + gen("lost")
        await s.get("a")
        if q == "slow":
            await asyncio.Event().wait()

    rows, backend = [("slow",), ("quick",)], MockBackend({"lost": OSError("away")}, latency_s=0.01)
    if how == "list":
        states = outlives.run_batch(rows, backend=backend, timeout_s=0.2)
    elif how == "as_completed":
        pairs = outlives.run_batch(rows, backend=backend, timeout_s=0.2, as_completed=True)
        states = [state for _, state in pairs]
    else:
        for _, state in outlives.run_batch(rows, backend=backend, as_completed=True):
            states = [state] * 2
            break
    assert statuses(states) == ["failed"] * 2


# Batches.


@pytest.mark.slow
def test_ten_thousand_rows_wait_on_one_loop_without_threads() -> None:
    backend = ThreadedBackend(echo, max_in_flight=10_000)
    before = threading.active_count()
    most = 0

    async def main() -> list[ProgramState[str]]:
        async def watch() -> None:
            nonlocal most
            await eventually(lambda: backend.num_submitted == 10_000)
            most = threading.active_count()
            backend.go.set()

        rows = ({"q": i} for i in range(10_000))
        states, _ = await asyncio.gather(once.arun_batch(rows, backend=backend), watch())
        return states

    states = asyncio.run(main())
    backend.close()
    assert most <= before
    assert [state.ret_value for state in states[1000::999]] == [
        f"[{len(f'{i}:')}]" for i in range(1000, 10_000, 999)
    ]


@pytest.mark.parametrize("program", [two, plain])
def test_results_come_in_order_or_as_they_complete(program: Any) -> None:
    def reply(request: Request) -> Any:
        return "later" if request.prompt.startswith("0") else "now"

    async def main(**style: Any) -> list[Any]:
        backend = MockBackend(reply, stepwise=True, max_in_flight=2)
        rows = ((i,) for i in range(20))
        got = [each async for each in program.astream_batch(rows, backend=backend, **style)]
        backend.close()
        return got

    in_order = asyncio.run(main())
    assert [state.text()[:2] for state in in_order] == [f"{i}:"[:2] for i in range(20)]
    pairs = asyncio.run(main(as_completed=True))
    assert sorted(index for index, _ in pairs) == list(range(20))
    assert all(state.text().startswith(f"{index}:") for index, state in pairs)


@pytest.mark.parametrize("program", [two, plain])
def test_a_stream_of_rows_that_is_left_early_cancels_the_rest(program: Any) -> None:
    async def main() -> list[str]:
        backend = MockBackend(slow_first, max_in_flight=3)
        rows = [("quick",), ("slow",), ("slow",)]
        stream = program.astream_batch(rows, backend=backend)
        async for state in stream:
            assert state.outcome.status == "ok"
            break
        await stream.aclose()
        await_that(lambda: not backend._drives)
        return [thread.name for thread in threading.enumerate()]

    asyncio.run(main())
    await_that(lambda: sgl.num_left_behind() == 0)


@pytest.mark.parametrize("program", [two, plain])
def test_cancelling_a_batch_cancels_its_rows(program: Any) -> None:
    async def main() -> None:
        backend = MockBackend({"a": STALL}, max_in_flight=3)
        task = asyncio.create_task(program.arun_batch([("q",)] * 9, backend=backend))
        await eventually(lambda: len(backend._drives) == 3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await_that(lambda: not backend._drives)

    asyncio.run(main())


@pytest.mark.parametrize("style", ["list", "in_order"])
def test_ctrl_c_keeps_the_rows_of_an_async_batch(style: str) -> None:
    backend = MockBackend(slow_first, max_in_flight=3)
    rows = [("quick",)] + [("slow",)] * 4

    def interrupt() -> None:
        await_that(lambda: len(backend._drives) == 3)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    in_order: bool = style == "in_order"
    with pytest.raises(sgl.BatchInterrupted) as raised:
        list(two.run_batch(rows, backend=backend, generator_style=in_order))  # type: ignore[call-overload]
    expected = ["ok"] * (style == "list") + ["cancelled"] * 4
    assert statuses(raised.value.states) == expected


def test_on_error_raise_ends_a_batch() -> None:
    def reply(request: Request) -> Any:
        return OSError("down") if request.prompt.startswith("1") else "fine"

    with pytest.raises(sgl.BatchFailed, match=r"row 1: .*down") as raised:
        appends.run_batch(
            [(i,) for i in range(5)], backend=MockBackend(reply, max_in_flight=1), on_error="raise"
        )
    assert statuses(raised.value.states) == ["ok", "failed"] + ["cancelled"] * 3


@pytest.mark.parametrize("program", [appends, plain])
def test_a_deadline_behind_the_last_row_is_no_failure(program: Any) -> None:
    rows = ((i,) for i in range(2))
    states = program.run_batch(rows, backend=MockBackend(), generator_style=True, timeout_s=0.1)
    assert statuses([next(states)]) == ["ok"]
    time.sleep(0.2)
    assert statuses(list(states)) == ["ok"]


@pytest.mark.parametrize("program", [appends, plain])
def test_a_deadline_that_no_row_has_missed_raises_nothing(
    program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It passes when all rows have ended, and before the batch has noticed."""
    late = sgl.DeadlineError("just now")
    monkeypatch.setattr(Batch, "_await", _then(Batch._await, lambda b: b._expire(late)))
    monkeypatch.setattr(AsyncBatch, "_until", _then_async(AsyncBatch._until))
    states = program.run_batch(
        [(0,), (1,)], backend=MockBackend(), on_error="raise", timeout_s=PATIENCE_S
    )
    assert statuses(states) == ["ok"] * 2


def _then(method: Any, act: Any) -> Any:
    def both(self: Any, *args: Any, **kwargs: Any) -> None:
        method(self, *args, **kwargs)
        act(self)

    return both


def _then_async(method: Any) -> Any:
    async def both(self: Any, *args: Any) -> None:
        await method(self, *args)
        self._expire()

    return both


def test_an_input_that_raises_ends_a_batch_after_the_rows_before() -> None:
    def rows() -> Any:
        yield ("a",)
        raise OSError("no more")

    states = two.run_batch(rows(), backend=MockBackend(), generator_style=True)
    assert statuses([next(states)]) == ["ok"]
    with pytest.raises(OSError, match="no more"):
        next(states)


def test_finished_rows_leave_nothing_behind() -> None:
    async def main() -> None:
        await two.arun_batch([("q",)] * 50, backend=MockBackend())
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())


# Streams.


@pytest.fixture
def words() -> Any:
    mock = MockBackend({"a": " one two three", "b": " four"}, stepwise=True)
    yield mock
    mock.close()


@sgl.function
def told(s: ProgramState) -> None:
    s += "Say:" + gen("a") + gen("b") + select("c", ["x", "y"])


@sgl.function
async def told_async(s: AsyncProgramState) -> None:
    s += "Say:" + gen("a") + gen("b") + select("c", ["x", "y"])


async def pieces(stream: AsyncIterator[Any]) -> list[Any]:
    return [piece async for piece in stream]


@pytest.mark.parametrize("program", [told, told_async])
def test_a_text_arrives_in_pieces(program: Any) -> None:
    heard = threading.Event()

    def last(request: Request) -> str:
        assert heard.wait(PATIENCE_S)  # nobody has to wait for the end
        return " four"

    async def main() -> Any:
        backend = MockBackend({"a": " one two three", "b": last}, stepwise=True)
        state = await program.arun(backend=backend, stream=True)
        got = ""
        async for piece in state.text_async_iter():
            got += piece
            if got == "Say: one two three":
                heard.set()
        assert await state.get("b") == " four"
        backend.close()
        return got, state.outcome

    assert asyncio.run(main()) == ("Say: one two three fourx", sgl.Outcome("ok"))


@pytest.mark.parametrize("program", [told, told_async])
def test_a_streamed_run_is_read_on_any_loop(program: Any, words: MockBackend) -> None:
    state = program.run(backend=words, stream=True)
    got = asyncio.run(pieces(state.text_async_iter("a")))
    assert "".join(got) == " one two three"
    assert state["c"] == "x"


def test_pieces_come_with_what_is_known_of_the_variable(words: MockBackend) -> None:
    async def main() -> Any:
        words.pause()
        state = await told.arun(backend=words, stream=True)
        words.resume()
        return await pieces(state.text_async_iter("a", return_meta_data=True))

    got = asyncio.run(main())
    assert "".join(piece for piece, _ in got) == " one two three"
    assert [meta["finish_reason"] for _, meta in got[:-1]] == [None] * (len(got) - 1)
    assert got[-1][1]["completion_tokens"] == 3
    assert got[-1][1]["finish_reason"]["type"] == "stop"


def test_a_finished_state_streams_at_once(backend: MockBackend) -> None:
    async def main() -> Any:
        state = await two.arun("q", backend=backend)
        whole = await pieces(state.text_async_iter())
        return whole, await pieces(state.text_async_iter("b", return_meta_data=True))

    whole, ((piece, meta),) = asyncio.run(main())
    assert "".join(whole) == "q:[2] [2]![10]"
    assert (piece, meta["completion_tokens"]) == ("[10]", 1)


def test_a_body_streams_what_it_wrote(words: MockBackend) -> None:
    @sgl.function
    async def inner(s: AsyncProgramState) -> list[str]:
        s += "Say:" + gen("a")
        return await pieces(s.text_async_iter("a"))

    assert "".join(inner.run(backend=words).ret_value) == " one two three"


def test_a_stream_raises_what_ended_it() -> None:
    async def main() -> None:
        state = await told.arun(backend=MockBackend({"b": OSError("down")}), stream=True)
        with pytest.raises(sgl.ProgramError, match="down"):
            await pieces(state.text_async_iter())
        with pytest.raises(sgl.ProgramError, match="down"):
            await pieces(state.text_async_iter("c"))
        fine = await told.arun(backend=MockBackend())
        with pytest.raises(sgl.UsageError, match="defines only"):
            await pieces(fine.text_async_iter("unknown"))
        with pytest.raises(sgl.UsageError, match="give var_name too"):
            fine.text_async_iter(return_meta_data=True)  # type: ignore[call-overload]

    asyncio.run(main())


def test_sync_reads_on_the_loop_of_the_run_do_not_block_it() -> None:
    async def main() -> None:
        state = await two.arun(backend=MockBackend({"a": STALL}), stream=True)
        await asyncio.sleep(SOON_S)
        with pytest.raises(sgl.UsageError, match="await"):
            state["a"]
        state.cancel()
        assert isinstance(await state.error(), sgl.CancelledError)

    asyncio.run(main())


def test_traces_of_async_bodies() -> None:
    assert str(two.trace()) == (
        "graph two(q)\n  %0 text '?:'\n  %1 gen a\n  %2 text ' {a}!'\n  %3 gen b"
    )
    with pytest.raises(sgl.TraceError, match="no running event loop"):
        sleeps.trace()

    @sgl.function
    async def elsewhere(s: AsyncProgramState) -> None:
        await asyncio.sleep(0)

    with pytest.raises(sgl.TraceError, match="awaited something else"):
        elsewhere.trace()


def test_constraints_are_compiled_away_from_the_loop() -> None:
    threads: list[str] = []

    class Compiling(MockBackend):
        def submit(self, run: Run) -> None:
            threads.append(threading.current_thread().name)
            super().submit(run)

    @sgl.function
    async def typed(s: AsyncProgramState) -> Person:
        s += gen("p", type=Person)
        return await s.get("p", Person)

    backend = Compiling({"p": '{"name":"Ada","age":36}'})
    assert typed.run(backend=backend).ret_value == Person(name="Ada", age=36)
    assert threads == ["sgdsl-submit"]


def test_async_bodies_check_what_was_written(backend: MockBackend) -> None:
    replies = iter(["x", "12", "y", "13"])

    @sgl.function
    async def checked(s: AsyncProgramState) -> Any:
        s += "number: " + gen("n")
        number = await s.check(str.isdigit)
        s += " again: " + gen()
        with pytest.raises(sgl.CheckFailed):
            await s.check(str.isdigit, retries=0)
        return number

    mock = MockBackend(lambda _: next(replies))
    state = checked.run(backend=mock)
    assert state.ret_value == "12"
    assert state.text() == "number: 12 again: y"


def test_a_conversation_comes_before_an_async_body() -> None:
    messages = [{"role": "user", "content": "hi"}]
    state = appends.run(backend=MockBackend(), messages=messages)
    assert state.messages() == messages
    states = appends.run_batch([(1,), (2,)], backend=MockBackend(), messages=messages)
    assert [each.messages() for each in states] == [messages] * 2
    assert (
        asyncio.run(appends.arun(backend=MockBackend(), messages=messages)).messages() == messages
    )
    assert "user {" in str(appends.trace(messages=messages))


def test_ctrl_c_between_two_rows_loses_none_that_goes_on() -> None:
    @sgl.function
    async def ask(s: sgl.AsyncProgramState, index: int) -> None:
        s += "a" + sgl.gen("slow" if index else "fast")

    backend = sgl.MockBackend({"slow": sgl.STALL}, max_in_flight=4)
    rows = ask.run_batch(((index,) for index in range(9)), backend=backend, generator_style=True)
    assert next(iter(rows)).outcome == sgl.Outcome("ok")
    with pytest.raises(sgl.BatchInterrupted) as raised:
        rows.throw(KeyboardInterrupt())  # type: ignore[attr-defined]
    statuses = [state.outcome and state.outcome.status for state in raised.value.states]
    assert statuses == ["cancelled"] * len(statuses)
    assert len(statuses) >= 3
