"""Programs in the shapes that people bring from SGLang's frontend, with only the import changed."""

from __future__ import annotations

import re
from typing import Any

import sgdsl as sgl
from sgdsl.backends.script import Request


def test_few_shot_questions_in_a_batch() -> None:
    @sgl.function
    def few_shot_qa(s: Any, question: str) -> None:
        s += "Answer shortly.\n\n"
        s += "Q: What is the capital of France?\nA: Paris\n\n"
        s += "Q: " + question + "\n"
        s += "A:" + sgl.gen("answer", stop="\n", temperature=0)

    states = few_shot_qa.run_batch(
        [{"question": "Italy?"}, {"question": "Spain?"}],
        backend=sgl.MockBackend({"answer": lambda request: request.prompt.split()[-2]}),
        max_new_tokens=16,
        num_threads=2,
        progress_bar=False,
    )
    assert [state["answer"] for state in states] == ["Italy?", "Spain?"]


def test_a_conversation_of_several_turns() -> None:
    @sgl.function
    def multi_turn(s: Any, first: str, second: str) -> None:
        s += sgl.system("You are kind.")
        s += sgl.user(first)
        s += sgl.assistant(sgl.gen("answer_1", max_tokens=256))
        s += sgl.user_begin() + second + sgl.user_end()
        with s.assistant():
            s += sgl.gen("answer_2", max_tokens=256)

    state = multi_turn.run("Hi", "Bye", backend=sgl.MockBackend({"answer_1": "1", "answer_2": "2"}))
    contents = [message["content"] for message in state.messages()]
    assert contents == ["You are kind.", "Hi", "1", "Bye", "2"]


def test_a_json_skeleton_with_typed_holes() -> None:
    @sgl.function
    def character(s: Any, name: str) -> None:
        s += name + " is a character.\n"
        with s.var_scope("json_output"):
            s += '{\n  "name": "' + sgl.gen("name", stop='"') + '",\n'
            s += '  "house": "' + sgl.select("house", ["Gryffindor", "Slytherin"]) + '",\n'
            s += '  "age": ' + sgl.gen("age", regex=sgl.REGEX_INT, stop=[" ", "\n"]) + "\n}"

    backend = sgl.MockBackend({"name": "Harry", "age": "15"})
    state = character.run("Harry", backend=backend)
    assert state["json_output"] == (
        '{\n  "name": "Harry",\n  "house": "Gryffindor",\n  "age": 15\n}'
    )


def test_a_tool_chosen_by_the_model() -> None:
    @sgl.function
    def tool_use(s: Any, question: str) -> None:
        s += "To answer this question: " + question + ", I need to use a "
        s += sgl.gen("tool", choices=["calculator", "search engine"]) + ". "
        if s["tool"] == "calculator":
            s += "The expression is: " + sgl.gen("expression", stop="\n")
            a, b = re.findall(r"\d+", s["expression"])
            s += " = " + str(int(a) * int(b))

    state = tool_use(question="6 times 7?", backend=sgl.MockBackend({"expression": "6*7"}))
    assert state.text().endswith("The expression is: 6*7 = 42")


def test_a_loop_that_acts_until_it_finishes() -> None:
    @sgl.function
    def react(s: Any, question: str) -> int:
        s += "Question: " + question + "\n"
        for step in range(1, 10):
            s += f"Thought {step}: " + sgl.gen(f"thought_{step}", stop="\n") + "\n"
            s += f"Action {step}: " + sgl.gen(f"action_{step}", stop="\n") + "\n"
            if s[f"action_{step}"].startswith("Finish"):
                break
        return step

    def act(request: Request) -> str:
        return "Finish[42]" if request.name == "action_3" else "Look"

    assert react.run("Why?", backend=sgl.MockBackend(act)).ret_value == 3


def test_tips_expanded_in_parallel() -> None:
    @sgl.function
    def tip_suggestion(s: Any) -> None:
        s += "Two tips: 1. Balanced Diet. 2. Regular Exercise.\n\n"
        forks = s.fork(2)
        for i, f in enumerate(forks):
            f += f"Now, expand tip {i + 1} into a paragraph:\n"  # noqa: PLW2901
            f += sgl.gen("detailed_tip", max_tokens=256, stop="\n\n")  # noqa: PLW2901
        s += "Tip 1:" + forks[0]["detailed_tip"] + "\n"
        s += "Tip 2:" + forks[1]["detailed_tip"] + "\n"
        s += "In summary" + sgl.gen("summary")

    def expand(request: Request) -> str:
        found = re.search(r"expand tip (\d)", request.prompt)
        return f" detail {found.group(1)}" if found else " be well"

    state = tip_suggestion.run(backend=sgl.MockBackend(expand))
    assert state.text().endswith("Tip 1: detail 1\nTip 2: detail 2\nIn summary be well")


def test_a_tree_of_thought_gathers_nested_lists() -> None:
    def propose(s: Any, num_branches: int) -> Any:
        s += sgl.user("Propose a plan.")
        forks = s.fork(num_branches)
        forks += sgl.assistant(sgl.gen("plan", max_tokens=256))
        return forks

    def score(s: Any, num_branches: int) -> Any:
        s += sgl.user("Score it.")
        forks = s.fork(num_branches)
        forks += sgl.assistant(sgl.gen("score", max_tokens=8))
        return forks

    @sgl.function
    def tree_search(s: Any, question: str, num_branches: int) -> None:
        s += sgl.user(question)
        plans = propose(s, num_branches)
        for plan in plans:
            scores = score(plan, num_branches)
            scores.join()
        plans.join()

    state = tree_search.run("How?", 3, backend=sgl.MockBackend({"plan": "p", "score": "5"}))
    assert state["plan"] == ["p"] * 3
    assert state["score"] == [["5"] * 3] * 3


def test_documents_read_in_forks_and_concatenated() -> None:
    @sgl.function
    def parallel_encoding(s: Any, documents: list[str]) -> None:
        s += "Answer from these documents.\n"
        forks = s.fork(len(documents))
        forks += lambda i: documents[i] + "\n"
        forks.join("concate_and_append")
        s += "Answer:" + sgl.gen("answer")

    state = parallel_encoding.run(["one", "two"], backend=sgl.MockBackend({"answer": " 3"}))
    assert state.text() == "Answer from these documents.\none\ntwo\nAnswer: 3"


def test_a_streamed_conversation() -> None:
    @sgl.function
    def chat(s: Any, message: str) -> None:
        s += sgl.user(message)
        s += sgl.assistant(sgl.gen("answer"))

    state = chat.run("Hi", stream=True, backend=sgl.MockBackend({"answer": "Hello there"}))
    assert "".join(state.text_iter()) == "USER:Hi\nASSISTANT:Hello there\n"
