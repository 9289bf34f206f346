"""Programs that reason in several ways at once, as people bring them from SGLang's frontend: only
the import is changed.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from typing import Any

import pytest

import sgdsl as sgl
from sgdsl.backends.script import Request
from sgdsl.choices import ChoiceScores


@pytest.mark.parametrize(
    ("method", "taken"),
    [
        (sgl.token_length_normalized, "Rome"),
        (sgl.greedy_token_selection, "Ravenna"),
        (sgl.unconditional_likelihood_normalized, "Pisa"),
    ],
)
def test_a_select_by_each_of_the_three_methods(method: Any, taken: str) -> None:
    @sgl.function
    def capital(s: Any) -> None:
        s += "An old capital of Italy is "
        s += sgl.select("city", ["Rome", "Ravenna", "Pisa"], 0.0, method)
        s += ". It is " + sgl.gen("size", choices=["large", "small"], choices_method=method)

    scores = ChoiceScores(
        conditional=[[-1.0, -0.2], [-0.5, -3.0], [-2.0, -2.0]],
        unconditional=[[-1.0, -1.0], [-1.0, -1.0], [-6.0, -6.0]],
    )
    size = ChoiceScores(conditional=[[-1.0], [-2.0]], unconditional=[[-2.0], [-2.0]])
    state = capital.run(backend=sgl.MockBackend(scores={"city": scores, "size": size}))
    assert state["city"] == taken
    assert state["size"] == "large"
    assert len(state.get_meta_info("city")["normalized_prompt_logprobs"]) == 3


def test_an_expert_who_is_found_by_the_model_answers() -> None:
    @sgl.function
    def expert_answer(s: Any, question: str) -> None:
        s += sgl.user("Who knows most about this? " + question)
        s += sgl.assistant("It is " + sgl.gen("expert", max_tokens=16, stop=[".", "\n"]) + ".")
        expert = s["expert"]
        s += sgl.user(f"You are {expert}. {question}")
        s += sgl.assistant(sgl.gen("answer", temperature=0))

    state = expert_answer.run(
        "What do bees eat?", backend=sgl.MockBackend({"expert": "a beekeeper", "answer": "Nectar"})
    )
    assert state.messages()[2]["content"] == "You are a beekeeper. What do bees eat?"
    assert state.messages()[3]["content"] == "Nectar"


def test_a_calculator_that_the_model_calls_in_the_middle_of_a_sentence() -> None:
    @sgl.function
    def solve(s: Any, problem: str) -> None:
        s += problem + "\nSolution:"
        for index in itertools.count():
            s += sgl.gen(f"step_{index}", max_tokens=64, stop=["<<", "\n"])
            if s.get_meta_info(f"step_{index}")["finish_reason"]["matched"] != "<<":
                break
            s += "<<" + sgl.gen("expression", regex=r"[0-9]+\*[0-9]+") + ">>"
            left, right = s["expression"].split("*")
            s += str(int(left) * int(right))

    def stopped(text: str, matched: str) -> sgl.Completion:
        return sgl.Completion(text, {"finish_reason": {"type": "stop", "matched": matched}})

    backend = sgl.MockBackend(
        {
            "step_0": stopped(" three boxes of four make ", "<<"),
            "step_1": stopped(" pens, at two each ", "<<"),
            "step_2": stopped(" in all.", "\n"),
            "expression": ["3*4", "12*2"],
        }
    )
    text = solve.run("How much are the pens?", backend=backend).text()
    assert text.endswith("make <<3*4>>12 pens, at two each <<12*2>>24 in all.")


def test_a_deep_tree_that_is_never_joined() -> None:
    depth, width = 4, 2

    def grow(s: Any, level: int, leaves: list[Any]) -> None:
        if level == depth:
            leaves.append(s)
            return
        forks = s.fork(width)
        forks += lambda index: f" {level}.{index}" + sgl.gen(f"level_{level}", max_tokens=4)
        for fork in forks:
            grow(fork, level + 1, leaves)

    @sgl.function
    def tree(s: Any) -> list[str]:
        s += "root"
        leaves: list[Any] = []
        grow(s, 0, leaves)
        return [leaf.text() for leaf in leaves]

    backend = sgl.MockBackend(lambda request: "=" + str(len(request.prompt)))
    texts = tree.run(backend=backend).ret_value
    assert len(set(texts)) == width**depth
    assert all(text.startswith("root 0.") and text.count("=") == depth for text in texts)


def test_branch_solve_merge_judging() -> None:
    dimensions = ["Clarity", "Depth"]

    @sgl.function
    def judge_essay(s: Any, topic: str, essay: str) -> None:
        s += sgl.system("Please judge this essay.")
        s += sgl.user("Topic: " + topic + "\nEssay: " + essay)
        s += sgl.assistant("Let me see. " + sgl.select("on_topic", ["yes", "no"]))
        if s["on_topic"] == "no":
            return
        forks = s.fork(len(dimensions))
        for fork, dimension in zip(forks, dimensions, strict=True):
            fork += sgl.user("Judge this dimension: " + dimension)  # noqa: PLW2901 - as people write it
            fork += sgl.assistant("Judgement: " + sgl.gen("judgement", stop="END"))  # noqa: PLW2901
        forks.join()
        s += sgl.user("Judgements: " + "; ".join(f["judgement"] for f in forks))
        s += sgl.assistant("Summary: " + sgl.gen("summary") + " Grade: ")
        s += sgl.select("grade", ["A", "B", "C"])

    def judge(request: Request) -> str:
        dimension = re.findall(r"dimension: (\w+)", request.prompt)[-1]
        return f"good {dimension.lower()}"

    state = judge_essay.run(
        "Bees", "Bees fly.", backend=sgl.MockBackend({"judgement": judge, "summary": "good"})
    )
    assert state["judgement"] == ["good clarity", "good depth"]
    assert "Judgements: good clarity; good depth" in state.text()
    assert state["grade"] == "A"


def test_several_chains_sampled_and_a_greedy_parent() -> None:
    @sgl.function
    def multi_chain(s: Any, question: str, num_chains: int) -> None:
        s += "Question: " + question + "\nAnswer: "
        forks = s.fork(num_chains)
        for index in range(num_chains):
            forks[index] += f"Chain {index}: " + sgl.gen(
                "chain", max_tokens=64, temperature=0.3, stop="Question"
            )
        for index, fork in enumerate(forks):
            s += f"Rationale {index}: {fork['chain']}\n"
        s += "So the answer is " + sgl.gen("answer", max_tokens=8, temperature=0)

    temperatures: list[float | None] = []

    def reply(request: Request) -> str:
        temperatures.append(request.sampling.temperature)
        return "42" if request.name == "answer" else f"because of {request.prompt[-3]}"

    state = multi_chain.run("6 x 7?", 3, backend=sgl.MockBackend(reply))
    assert state["answer"] == "42"
    assert [f"Rationale {n}: because of {n}\n" in state.text() for n in range(3)] == [True] * 3
    assert temperatures == [0.3, 0.3, 0.3, 0.0]


def test_self_consistency_by_votes() -> None:
    @sgl.function
    def vote(s: Any, question: str) -> str:
        s += question + "\nAnswer: "
        forks = s.fork(5)
        forks += sgl.gen("answer", dtype=int)
        forks.join()
        winner = Counter(s["answer"]).most_common(1)[0][0]
        s += str(winner)
        return str(winner)

    backend = sgl.MockBackend({"answer": ["4", "5", "4", "4", "6"]})
    assert vote.run("2 + 2?", backend=backend).ret_value == "4"


def test_tips_expanded_by_nested_functions() -> None:
    @sgl.function
    def expand_tip(s: Any, tip: str) -> None:
        s += sgl.user("Expand this tip: " + tip)
        s += sgl.assistant(sgl.gen("expanded"))

    @sgl.function
    def suggest(s: Any, topic: str) -> None:
        s += sgl.user(f"Two tips for {topic}.")
        s += sgl.assistant("1. Sleep. 2. Eat.")
        states = expand_tip.run_batch([{"tip": "Sleep"}, {"tip": "Eat"}])
        for index, state in enumerate(states):
            s += f"Tip {index + 1}: " + state["expanded"] + "\n"
        s += "In summary" + sgl.gen("summary")

    def reply(request: Request) -> str:
        tip = re.search(r"this tip: (\w+)", request.prompt)
        return f"Really: {tip.group(1)}" if tip else ", do so."

    text = suggest.run("health", backend=sgl.MockBackend(reply)).text()
    assert "Tip 1: Really: Sleep\nTip 2: Really: Eat\nIn summary, do so." in text


def test_fields_filled_by_several_gens_in_one_template() -> None:
    @sgl.function
    def city(s: Any, name: str) -> None:
        s += (
            '{"name": "' + name + '", "population": ' + sgl.gen("population", regex="[0-9]+")
            + ', "sea": ' + sgl.gen("sea", choices=["true", "false"])
            + ', "mayor": "' + sgl.gen("mayor", stop='"', max_tokens=16) + '"}'
        )  # fmt: skip

    state = city.run("Rome", backend=sgl.MockBackend({"population": "2800000", "mayor": "R. G."}))
    assert state.text() == '{"name": "Rome", "population": 2800000, "sea": true, "mayor": "R. G."}'
    assert (state["population"], state["sea"], state["mayor"]) == ("2800000", "true", "R. G.")
