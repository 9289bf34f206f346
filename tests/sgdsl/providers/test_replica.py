"""Replicas: what is recorded is not asked again, whatever it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sgdsl.backends.answer_wire import decode_answer, decode_begun, encode_answer, encode_begun
from sgdsl.backends.follower import Follower
from sgdsl.backends.replica import Answered, Begun, Chosen, Failed, Replica, Watcher
from sgdsl.chat import PLAIN
from sgdsl.choices import ChoiceScores, token_length_normalized
from sgdsl.errors import UsageError
from sgdsl.graph import DEFAULT_SAMPLING, ROOT, Gen, Select, Text
from sgdsl.machine import Append, Choose, Completion, Generate, Idle, Piece, Spelling
from sgdsl.run import Run

NODES = (
    Text(0, ROOT, None, "Q"),
    Gen(1, ROOT, None, "a"),
    Select(2, ROOT, None, "b", ("x", "y"), token_length_normalized),
    Gen(3, ROOT, None, "c"),
)
SCORES = ChoiceScores([[-2.0], [-1.0]])


def replica(*answers: Answered, partials: dict[int, Begun] | None = None) -> Replica:
    made = Replica(
        Watcher(),
        template=PLAIN,
        defaults=DEFAULT_SAMPLING,
        seed=1,
        answers=[(ROOT, answer) for answer in answers],
        partials=partials,
    )
    made.extend(NODES)
    made.close()
    return made


def test_recorded_answers_are_text_and_the_next_gen_is_asked() -> None:
    run = replica(Completion("A"), Chosen(SCORES, 0.5))
    texts = []
    while isinstance(action := run.next(ROOT), Append):
        texts += [piece.text for piece in action.pieces]
    assert isinstance(action, Generate)
    assert action.node.name == "c"
    assert texts == ["Q", "A", "y"]


def test_what_a_gen_has_written_already_is_text_that_counts() -> None:
    run = replica(partials={ROOT: Begun("so far ")})
    run.next(ROOT)
    assert run.next(ROOT) == Append((Piece("so far ", written=True),))
    action = run.next(ROOT)
    assert isinstance(action, Generate)
    assert action.sampling.max_tokens == 128 - len("so far ") // 4
    branch = run.peek(ROOT)
    assert branch is not None and branch.text() == "Qso far "
    run.stream(ROOT, "and")
    assert branch.text() == "Qso far and"
    run.complete(ROOT, Completion("and on"))
    assert branch.variables["a"].value == "so far and on"


def test_tokens_that_were_written_are_gone_on_with_by_whoever_knows_them() -> None:
    spelling = Spelling("some tokenizer", 1, (3, 4), "rest")
    run = replica(partials={ROOT: Begun("so far ", spelling)})
    run.next(ROOT)
    action = run.next(ROOT)
    assert isinstance(action, Generate)
    assert action.begun == spelling
    assert action.sampling.max_tokens == 128
    run.complete(ROOT, Completion("so far and on"))
    branch = run.peek(ROOT)
    assert branch is not None and branch.variables["a"].value == "so far and on"


@pytest.mark.parametrize(
    "answer",
    [
        Completion("A", truncated=True, spelling=Spelling("some tokenizer", 1, (3, 4), "rest")),
        Completion("A"),
        Chosen(SCORES, 0.5),
    ],
)
def test_answers_arrive_as_they_were(answer: Answered) -> None:
    assert decode_answer(json.loads(json.dumps(encode_answer(7, answer)))) == (7, answer)


@pytest.mark.parametrize(
    ("name", "value"), [("tokens", [1, "2"]), ("tokens", [True]), ("taken", None), ("tokenizer", 1)]
)
def test_tokens_of_another_shape_are_refused(name: str, value: Any) -> None:
    sent = encode_begun(0, Begun("x", Spelling("some tokenizer", 0, (1,))))
    sent["spelling"][name] = value
    with pytest.raises(UsageError, match=name):
        decode_begun(sent)


def test_a_recorded_failure_fails_again_without_a_question() -> None:
    run = replica(Failed(ValueError("no")))
    run.next(ROOT)
    assert run.next(ROOT) is Idle.FINISHED
    assert run.outcome is not None and "no" in str(run.outcome.error)


def test_a_gate_holds_what_may_not_begin_yet() -> None:
    class Gate(Watcher):
        opens = False

        def may_begin(self, branch_id: int, action: Generate | Choose) -> bool:
            return self.opens

    run = replica()
    gate = run.watcher = Gate()
    run.next(ROOT)
    assert run.next(ROOT) is Idle.PAUSED
    assert run.next(ROOT) is Idle.PAUSED
    assert not run.settled
    gate.opens = True
    assert isinstance(run.next(ROOT), Generate)


def test_an_answer_that_nobody_asked_for_fails_the_original() -> None:
    run = Run(template=PLAIN, defaults=DEFAULT_SAMPLING, seed=1)
    run.extend(NODES)
    follower = Follower(run)
    follower.answered(ROOT, Completion("A"))
    follower.answered(ROOT, Completion("B"))
    assert run.outcome is not None
    assert "which had not asked for it" in str(run.outcome.error)
