"""What `mypy --strict` infers in a user's file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parents[2]

USERS_FILE = """
from collections.abc import AsyncIterator, Iterable

from pydantic import BaseModel

import sgdsl as sgl


class Person(BaseModel):
    name: str
    age: int


@sgl.function
def plain(s: sgl.ProgramState, q: str) -> int:
    s += q + sgl.gen("p", type=Person)
    reveal_type(s.get("p", Person))  # Person
    reveal_type(s.get("p", list[int]))  # list[int]
    reveal_type(s.get("p"))  # Any
    with s.user() as inner:
        reveal_type(inner)  # ProgramState[Any]
    for fork in s.fork(2):
        reveal_type(fork)  # ProgramState[Any]
    reveal_type(s.text())  # str
    return s.get("p", Person).age


@sgl.function()
def with_arguments(s: sgl.ProgramState) -> None:
    total = plain(s, "nested")
    reveal_type(total)  # int
    for fork in s.fork(2):
        reveal_type(plain(fork, q="nested"))  # int
    s += str(total)


@sgl.function
async def awaited(s: sgl.AsyncProgramState, q: str) -> list[str]:
    s += q + sgl.gen("a")
    reveal_type(plain(s, q))  # int
    reveal_type(await awaited(s, q))  # list[str]
    reveal_type(await s.get("a", str))  # str
    reveal_type(await s.text())  # str
    reveal_type(await s.get("a"))  # Any
    return [await s.get("a", str)]


@sgl.function
def of_anything(s: sgl.ProgramState, value: object) -> str:
    return str(value)


def main(backend: sgl.Backend, rows_of: Iterable[str], maybe: str | None) -> None:
    for given in (Person, Person(name="a", age=1), [1], {"a": 1}, rows_of, maybe, len, lambda: 1):
        of_anything(given)
    reveal_type(of_anything(Person))  # ProgramState[str]
    reveal_type(of_anything([1]))  # ProgramState[str]
    reveal_type(of_anything(rows_of))  # ProgramState[str]
    reveal_type(of_anything(maybe))  # ProgramState[str]
    reveal_type(of_anything(lambda: 1))  # ProgramState[str]
    reveal_type(of_anything(value=1))  # ProgramState[str]
    reveal_type(plain)  # Program[int]
    reveal_type(with_arguments)  # Program[None]
    reveal_type(awaited)  # AsyncProgram[list[str]]
    reveal_type(plain.bind(q="x"))  # Program[int]
    state = plain.run("q", backend=backend, timeout_s=1.0)
    reveal_type(state)  # ProgramState[int]
    reveal_type(state.ret_value)  # int
    reveal_type(plain("q"))  # ProgramState[int]
    reveal_type(awaited("q"))  # ProgramState[list[str]]
    rows = [{"q": "x"}]
    states: list[sgl.ProgramState] = plain.run_batch(rows, temperature=0, timeout_s=5)
    reveal_type(plain.run_batch(rows))  # list[ProgramState[int]]
    reveal_type(plain.run_batch(rows, generator_style=True))  # Iterator[ProgramState[int]]
    reveal_type(plain.run_batch(rows, as_completed=True))  # Iterator[tuple[int, ProgramState[int]]]
    for error in [each.error() for each in states]:
        reveal_type(error)  # BaseException | None
    reveal_type(state.outcome)  # Outcome | None


async def main_async() -> None:
    reveal_type(await awaited.arun("q"))  # ProgramState[list[str]]
    reveal_type((await awaited.arun("q")).ret_value)  # list[str]
    reveal_type(await plain.arun("q"))  # ProgramState[int]
    streamed = await plain.arun("q", stream=True)
    reveal_type(streamed)  # AsyncProgramState[int]
    async for piece in streamed.text_async_iter():
        reveal_type(piece)  # str
    async for pair in streamed.text_async_iter("p", return_meta_data=True):
        reveal_type(pair)  # tuple[str, dict[str, Any]]
    reveal_type(await awaited.arun_batch([("q",)]))  # list[ProgramState[list[str]]]
    async for index, state in awaited.astream_batch([("q",)], as_completed=True):
        reveal_type((index, state.ret_value))  # tuple[int, list[str]]
"""

WRONG = """
import sgdsl as sgl


@sgl.function
def plain(s: sgl.ProgramState) -> int:
    age: str = s.get("age", int)
    return 5


text: str = plain.run().ret_value
plain.run_batch([], timeout="1")
plain.run_batch([], on_error="ignore")
s = plain.run()
s.fork(1).join(on_error="ignore")


@sgl.function
def nesting(s: sgl.ProgramState) -> None:
    text: str = plain(s)
    for piece in s:
        pass
"""


@pytest.mark.slow
def test_mypy_knows_what_programs_give(tmp_path: Path) -> None:
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(USERS_FILE)
    wrong.write_text(WRONG)
    config = tmp_path / "mypy.ini"
    config.write_text("[mypy]\nstrict = True\n[mypy-runtime.*]\nfollow_imports = skip\n")
    arguments = ["--config-file", str(config), "--cache-dir", str(ROOT / ".mypy_cache" / "user")]
    said, failed, _ = api.run([*arguments, "--no-error-summary", str(right), str(wrong)])
    assert not failed
    notes = re.findall(r'right\.py:(\d+): note: Revealed type is "(.*)"', said)
    lines = USERS_FILE.splitlines()
    expected = [line.split("# ")[1] for line in lines if "reveal_type" in line]
    assert [_short(note) for _, note in notes] == expected
    assert not re.findall(r"right\.py:\d+: error: .*", said)
    found = sorted({int(line) for line in re.findall(r"wrong\.py:(\d+): error", said)})
    assert found == [7, 11, 12, 13, 15, 20, 21]


def _short(revealed: str) -> str:
    """Without modules."""
    return re.sub(r"(?:\w+\.)+(?=\w)", "", revealed)
