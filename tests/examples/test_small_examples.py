"""The small examples: what they do with scripted answers, and that they end on any model."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from examples import agent, chat, classify, judge, quote, tree_of_thought
from sgdsl import MockBackend
from sgdsl.backends.script import Request


def test_calibration_takes_away_what_a_label_has_without_a_text() -> None:
    assert classify.calibrated([0.6, 0.4], [[0.6, 0.4]]) == pytest.approx([0.5, 0.5])
    assert classify.calibrated([0.5, 0.5], [[0.8, 0.2], [0.6, 0.4]]) == pytest.approx([0.3, 0.7])


def test_texts_are_classified_in_one_batch() -> None:
    backend = MockBackend(scores={"label": {"positive": -0.1, "negative": -2.0, "neutral": -2.0}})
    found = classify.classify_all(["one", "two"], backend)
    # the same scores as those of the texts without content: nothing speaks for any label
    assert found == [pytest.approx([1 / 3] * 3)] * 2


@pytest.mark.parametrize(
    ("straight", "turned", "winner"),
    [("A", "B", "first"), ("B", "A", "second"), ("A", "A", "tie"), ("B", "B", "tie")],
)
def test_a_judge_is_believed_where_both_orders_agree(
    straight: str, turned: str, winner: str
) -> None:
    assert judge.verdict(straight, turned) == winner


def test_who_always_likes_the_first_answer_decides_nothing() -> None:
    backend = MockBackend(scores={"better": {"A": -0.1, "B": -3.0}})
    state = judge.judge.run("Why?", ("one", "other"), backend=backend)
    assert state.ret_value == dict.fromkeys(judge.DIMENSIONS, "tie")


def test_the_best_of_nine_solutions_is_taken() -> None:
    def reply(request: Request) -> str:
        if request.name == "score":
            return "9" if "solution 4" in request.prompt else "2"
        return f" {request.name} {next(counts[request.name or ''])}"

    counts = {"plan": iter(range(3)), "solution": iter(range(9))}
    best = tree_of_thought.solve.run("?", backend=MockBackend(reply)).ret_value
    assert (best.plan, best.text, best.score) == (" plan 1", " solution 4", 9)


def test_the_agent_stops_when_it_answers() -> None:
    backend = MockBackend(
        {"thought": " Look them up.", "answer": "11200000"},
        scores={"tool": {"answer ": -0.1}},
    )
    state = agent.agent.run("Norway twice?", backend=backend)
    assert state.ret_value == "11200000"
    assert state.text().endswith("Thought: Look them up.\nAction: answer 11200000")


def test_the_agent_answers_at_its_last_step_at_the_latest() -> None:
    backend = MockBackend(
        {"thought": " Hm.", "expression": "2 * 3 + 4", "answer": "10"},
        scores={"tool": {"calculate ": -0.1}},
    )
    text = agent.agent.run("?", backend=backend).text()
    assert text.count("\nObservation: 10") == agent.MAX_STEPS - 1
    assert text.endswith("\nAction: answer 10")


@pytest.mark.parametrize(
    ("expression", "value"),
    [("2 + 3 * 4", "14"), ("10 / 4", "2.5"), ("1 / 0", "division by zero"), ("7 - 9", "-2")],
)
def test_the_calculator(expression: str, value: str) -> None:
    assert agent.calculate(expression) == value


def test_a_chat_goes_on_from_what_was_said() -> None:
    prompts: list[str] = []

    def reply(request: Request) -> str:
        prompts.append(request.prompt)
        return f"reply {len(prompts)}"

    said = "".join(chat.chat(["hello", "and?", "", "never"], MockBackend(reply)))
    assert said == "reply 1\nreply 2\n"
    assert prompts[1].startswith(prompts[0] + "reply 1")
    assert "and?" in prompts[1]


def test_a_quote_is_in_the_part_that_answers() -> None:
    document = "\n\n".join(f"Paragraph {n}. " + "Some words. " * 60 for n in range(5))
    found = quote.ask(document, "Which?", MockBackend({"quote": "Some words.", "answer": " It."}))
    assert found == quote.Answer("Some words.", " It.")
    assert found.quote in quote.parts_of(document)[0]


def test_parts_are_whole_paragraphs_and_lose_nothing() -> None:
    document = quote.LICENSE.read_text(encoding="utf-8")
    parts = quote.parts_of(document)
    assert len(parts) > 5
    assert " ".join(parts) == " ".join(document.split())


@pytest.mark.parametrize(
    "main",
    [classify.main, judge.main, tree_of_thought.main, agent.main, chat.main, quote.main],
    ids=["classify", "judge", "tree_of_thought", "agent", "chat", "quote"],
)
def test_an_example_ends_on_a_model_that_knows_nothing(
    main: Callable[[list[str]], None],
    tiny_llama_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Hello?\nAnd now?\n"))
    main(["--model", str(tiny_llama_path)])
    assert capsys.readouterr().out.strip()
