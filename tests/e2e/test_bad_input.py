"""Bad input gets a clear error, and nobody else notices."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel, field_validator

import sgdsl as sgl
from grammars import Constraint, EmptyLanguageError, Grammar, UnsupportedError
from grammars.algebra import Algebra
from grammars.expr import Expr
from runtime import Runtime
from runtime.errors import ContextLengthError
from runtime.models import ModelNotFoundError
from sgdsl import ProgramError, ProgramState, UsageError
from tests.e2e.conftest import HashService, MakeService
from tests.tiny_llama import CONTEXT_LENGTH


class Picky(BaseModel):
    word: str

    @field_validator("word")
    @classmethod
    def refuse(cls, word: str) -> str:
        raise ValueError(f"no word pleases: {word!r}")


class Broken(Constraint):
    """A user's own, with a fault."""

    def lower(self, algebra: Algebra) -> Expr:
        raise LookupError("nothing was looked up")


@sgl.function
def ask(s: ProgramState, kind: str) -> None:
    s += "the license"
    match kind:
        case "fine":
            s += sgl.gen("x", 4)
        case "long prompt":
            s += " work" * CONTEXT_LENGTH + sgl.gen("x", 4)
        case "long select":
            s += " work" * CONTEXT_LENGTH + sgl.select("x", ["a", "b"])
        case "unsatisfiable":
            s += sgl.gen("x", json_schema={"type": "integer", "minimum": 3, "maximum": 2})
        case "unsupported":
            s += sgl.gen("x", json_schema={"type": "string", "format": "regex"})
        case "own constraint":
            s += sgl.gen("x", constraint=Broken())
        case "small budget":
            s += sgl.gen("x", 3, regex="[0-9]{20}")
        case "body":
            s += sgl.gen("x", 4)
            raise ZeroDivisionError(kind)
        case "validator":
            s += sgl.gen("x", 60, type=Picky)
        case "regex":
            s += sgl.gen("x", regex="a(b")


def check_fine(state: ProgramState) -> None:
    assert state.outcome is not None
    assert state.outcome.status in ("ok", "truncated")
    assert isinstance(state["x"], str)


CASES: dict[str, tuple[type[BaseException], str]] = {
    "long prompt": (ContextLengthError, f"may have {CONTEXT_LENGTH}"),
    "long select": (ContextLengthError, "shorten the prompt"),
    "unsatisfiable": (EmptyLanguageError, ""),
    "unsupported": (UnsupportedError, "/format"),
    "own constraint": (LookupError, "nothing was looked up"),
    "small budget": (UsageError, "takes 20"),
    "body": (ZeroDivisionError, "body"),
    "validator": (ValueError, "no word pleases"),
    "regex": (UsageError, "column 1"),
}


@pytest.mark.parametrize("kind", CASES)
def test_a_bad_row_says_what_is_wrong_and_its_neighbours_are_fine(
    make_service: MakeService, kind: str
) -> None:
    service = make_service()
    rows = [{"kind": name} for name in ("fine", kind, "fine", kind, "fine")]
    states = ask.run_batch(rows, backend=service)
    error_type, words = CASES[kind]
    for row, state in zip(rows, states, strict=True):
        if row["kind"] == "fine":
            check_fine(state)
            continue
        assert state.outcome is not None
        assert state.outcome.status == "failed"
        error = state.error()
        assert isinstance(error, ProgramError)
        assert isinstance(error.__cause__, error_type), error.__cause__
        assert words in str(error)
        assert error.source is not None
        assert "test_bad_input.py:" in error.source
        with pytest.raises(ProgramError):
            state["x"]
    service.check_idle()


def test_appending_after_the_body_returned_is_refused(make_service: MakeService) -> None:
    service = make_service()
    state = ask.run(kind="fine", backend=service)
    with pytest.raises(UsageError, match="has returned"):
        state += "more"
    check_fine(state)


def test_a_schema_nobody_can_satisfy_is_refused_once_for_all_rows(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service()
    compiled: list[Constraint] = []
    compile_one = service._grammars._compiler.compile

    def counting(constraint: Constraint) -> Grammar:
        compiled.append(constraint)
        return compile_one(constraint)

    monkeypatch.setattr(
        service._grammars._compiler,
        "compile",
        counting,
    )
    states = ask.run_batch([{"kind": "unsatisfiable"}] * 20, backend=service)
    assert {state.outcome.status for state in states if state.outcome} == {"failed"}
    assert len(compiled) == 1


def test_a_prompt_that_just_fits_is_served(make_service: MakeService) -> None:
    service = make_service(num_pages=20, page_size=4)

    @sgl.function
    def fill(s: ProgramState, num_words: int) -> None:
        s += " work" * num_words + sgl.gen("x", 8, healing=False, ignore_eos=True)

    tokens = fill.run(num_words=1, backend=service).get_meta_info("x")["prompt_tokens"]
    state = fill.run(num_words=(80 - 1) // tokens, backend=service)
    assert state.outcome is not None
    assert state.outcome.status == "truncated"
    assert state.get_meta_info("x")["completion_tokens"] == 1
    assert isinstance(fill.run(num_words=80 // tokens, backend=service).error(), ProgramError)
    service.check_idle()


def test_an_unknown_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="no-such-folder"):
        Runtime(tmp_path / "no-such-folder")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"page_size": 0}, "page_size=0"),
        ({"token_budget": 8, "max_running": 9}, "token_budget=8"),
        ({"kv_bytes": -1}, "kv_bytes=-1"),
        ({"context_len": CONTEXT_LENGTH + 1}, f"made for {CONTEXT_LENGTH} tokens"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    tiny_llama_path: Path, options: dict[str, int], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        Runtime(tiny_llama_path, **options)


def test_an_unknown_option_is_refused_by_name(tiny_llama_path: Path) -> None:
    with pytest.raises(UsageError, match="pagesize"):
        Runtime(tiny_llama_path, pagesize=16)


def test_two_runtimes_live_in_one_process_and_after_each_other(tiny_llama_path: Path) -> None:
    options = {"kv_bytes": 1 << 20}
    texts = []
    for _ in range(2):
        with Runtime(tiny_llama_path, **options) as one, Runtime(tiny_llama_path, **options) as two:
            for backend in (one, two):
                state = ask.run(kind="fine", backend=backend, temperature=0.0)
                check_fine(state)
                texts.append(state.text())
    assert len(set(texts)) == 1


def test_a_closed_service_fails_what_comes_and_can_be_closed_again(
    make_service: MakeService,
) -> None:
    service: HashService = make_service()
    service.close()
    service.close()
    state = ask.run(kind="fine", backend=service)
    assert state.outcome is not None
    assert state.outcome.status == "failed"
    assert "closed" in str(state.error())
