"""Jinja templates of every temper, read as what stands around messages, or refused."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from jinja2 import TemplateError
from transformers import AutoTokenizer

from runtime.model import template_rendering
from runtime.model.chat_template import chat_template_of
from runtime.model.template_rendering import TemplateFaultError, render
from sgdsl import MockBackend, ProgramState, UsageError, function, gen
from sgdsl.chat import PLAIN, ROLES, ChatTemplate
from tests.runtime.model.jinja_templates import DEEPSEEK_R1, FAMILIES, GEMMA, MISTRAL_3

UNUSABLE = {
    "a syntax error": ("{% for %}", "it is no template that can be used: TemplateSyntaxError"),
    "refuses everything": ("{{ raise_exception('no') }}", "TemplateError: no"),
    "an undefined call": ("{{ nonsense() }}", "UndefinedError: 'nonsense' is undefined"),
    "an operator amiss": ("{{ messages + 1 }}", "TypeError"),
    "no end of calls": ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError"),
    "division by zero": ("{{ 1 / 0 }}", "ZeroDivisionError"),
    "no contents": ("hello", "leaves one out"),
    "capitals": ("{% for m in messages %}{{ m.content | upper }}{% endfor %}", "changes or moves"),
    "markup": ("{% for m in messages %}{{ m.content | e }}{% endfor %}", "changes or moves"),
    "twice": ("{% for m in messages %}{{ m.content + m.content }}{% endfor %}", "changes or moves"),
    "a private attribute": ("{{ messages.__class__ }}{{ messages.append(1) }}", "SecurityError"),
    "an underscore": ("{% set n = namespace(a=1) %}{% set n._x = 2 %}", "SecurityError"),
    "numbers": (
        "{% for m in messages %}{{ messages | length ~ m.role ~ ': ' ~ m.content }}{% endfor %}",
        "depends on more than the roles of those before it",
    ),
}
HOSTILE = {
    "an endless loop": (
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "it ran for more than 1 s of processor time",
    ),
    "a bomb": ("{% set a = 'x' * 10 ** 11 %}{{ a }}", "takes more than 512 MiB"),
    "a growing list": (
        "{% set n = namespace(a='x') %}{% for i in range(60) %}{% set n.a = n.a * 2 %}{% endfor %}",
        "takes more than 512 MiB",
    ),
    "much text": ("{% for a in range(99999) %}{{ 'x' * 100 }}{% endfor %}", "makes more than"),
    "a large range": ("{% for a in range(10 ** 12) %}{% endfor %}", "Range too big"),
}


@pytest.fixture(scope="module")
def backend(tiny_llama_path: Path) -> Any:
    return AutoTokenizer.from_pretrained(tiny_llama_path)


def read(backend: Any, template: str | None) -> ChatTemplate:
    backend.chat_template = template
    return chat_template_of(backend)


def applied(backend: Any, conversation: list[tuple[str, str]]) -> str | None:
    """transformers' own answer; None where the template refuses."""
    messages = [{"role": role, "content": content} for role, content in conversation]
    try:
        text = backend.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    except (TemplateError, TypeError, ValueError):
        return None
    assert isinstance(text, str)
    return text


@function
def answer(s: ProgramState) -> None:
    with s.assistant():
        s += gen("answer")


def prompt_of(template: ChatTemplate, conversation: list[tuple[str, str]]) -> str:
    """What a program that starts from the conversation shows to a model."""
    seen: list[str] = []

    def reply(request: Any) -> str:
        seen.append(request.prompt)
        return "yes"

    messages = [{"role": role, "content": content} for role, content in conversation]
    state = answer.run(backend=MockBackend(reply, chat_template=template), messages=messages)
    state.sync()
    if (error := state.error()) is not None:
        assert isinstance(error.__cause__, UsageError)
        raise error.__cause__
    return seen[0]


def spoken(roles: tuple[str, ...], edge: str) -> list[tuple[str, str]]:
    return [
        (role, f"{edge}Say <b>{i}</b> {{{{ x }}}} & 'so'.{edge}") for i, role in enumerate(roles)
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_conversation_is_written_as_its_template_writes_it(backend: Any, family: str) -> None:
    template = read(backend, FAMILIES[family])
    num_equal = 0
    every = [roles for n in range(1, 5) for roles in itertools.product(ROLES, repeat=n)]
    for roles, edge in itertools.product(every, ["", " \n"]):
        if roles[-1] == "assistant":
            continue
        expected = applied(backend, spoken(roles, edge))
        messages = [{"role": role, "content": text} for role, text in spoken(roles, edge)]
        try:
            text = template.get_prompt(messages, generate=True)
        except UsageError:
            continue
        assert text == expected, roles
        num_equal += 1
    assert num_equal >= 4  # Gemma's: one and two rounds, each with and without white space


USUAL = [
    ("user",),
    ("user", "assistant", "user"),
    ("system", "user"),
    ("system", "user", "assistant", "user", "assistant", "user"),
]
REFUSED = {"gemma": USUAL[2:], "mistral": USUAL[3:]}


@pytest.mark.parametrize("family", FAMILIES)
def test_usual_conversations_run_unless_the_template_moves_text(backend: Any, family: str) -> None:
    template = read(backend, FAMILIES[family])
    for roles in USUAL:
        conversation = spoken(roles, "\n")
        if roles in REFUSED.get(family, []):
            with pytest.raises(UsageError, match="the model's chat template takes no message"):
                prompt_of(template, conversation)
        else:
            assert prompt_of(template, conversation) == applied(backend, conversation)


CONTENTS = st.text("aé \n\t<|>{}%&'\"", max_size=8)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_random_contents_are_written_as_their_template_writes_them(
    backend: Any, data: st.DataObject
) -> None:
    family = data.draw(st.sampled_from(sorted(FAMILIES)))
    template = read(backend, FAMILIES[family])
    roles = data.draw(st.sampled_from(["u", "uau", "uauau", "su", "suau"]))
    names = {"u": "user", "a": "assistant", "s": "system"}
    conversation = [(names[role], data.draw(CONTENTS)) for role in roles]
    messages = [{"role": role, "content": text} for role, text in conversation]
    try:
        text = template.get_prompt(messages, generate=True)
    except UsageError:
        return
    assert text == applied(backend, conversation)
    assert text == prompt_of(template, conversation)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("roles", [("user",), ("system", "user"), ("user", "assistant", "user")])
def test_an_empty_message_is_written_as_the_template_does_or_refused(
    backend: Any, family: str, roles: tuple[str, ...]
) -> None:
    template = read(backend, FAMILIES[family])
    for at, nothing in itertools.product(range(len(roles)), ["", " \n"]):
        conversation = [(role, nothing if i == at else "Hi") for i, role in enumerate(roles)]
        messages = [{"role": role, "content": text} for role, text in conversation]
        try:
            text = template.get_prompt(messages, generate=True)
        except UsageError as error:
            with pytest.raises(UsageError, match=re.escape(str(error))):
                prompt_of(template, conversation)
        else:
            assert text == prompt_of(template, conversation) == applied(backend, conversation)


def test_what_a_template_takes_away_around_an_empty_message_is_refused(backend: Any) -> None:
    template = read(backend, FAMILIES["llama-2"])
    with pytest.raises(UsageError, match="changes what stands around an empty message of 'user'"):
        prompt_of(template, [("system", "Be brief."), ("user", " ")])


def test_a_refusal_says_what_the_template_says(backend: Any) -> None:
    template = read(backend, GEMMA)
    with pytest.raises(UsageError) as caught:
        prompt_of(template, [("system", "Be brief."), ("user", "Hi")])
    assert str(caught.value) == (
        "the model's chat template takes no message of 'system' first: TemplateError: System role "
        "not supported; order the messages in another way, or give the runtime another "
        "chat_template"
    )
    with pytest.raises(UsageError, match="in a conversation with a system message: it changes or"):
        prompt_of(read(backend, MISTRAL_3), spoken(USUAL[3], ""))


def test_a_message_begins_in_another_way_when_the_model_writes_it(backend: Any) -> None:
    template = read(backend, DEEPSEEK_R1)

    @function
    def prefilled(s: ProgramState) -> None:
        s.user("Hi")
        with s.assistant():
            s += "Well," + gen("answer")

    state = prefilled.run(backend=MockBackend({"answer": " hello"}, chat_template=template))
    assert state.text().endswith("<｜User｜>Hi<｜Assistant｜>Well, hello<｜end▁of▁sentence｜>")
    written = answer.run(
        backend=MockBackend({"answer": "so</think>hello"}, chat_template=template),
        messages=[{"role": "user", "content": "Hi"}],
    )
    assert written.text().endswith("<｜Assistant｜><think>\nso</think>hello<｜end▁of▁sentence｜>")
    assert written.messages()[-1] == {"role": "assistant", "content": "so</think>hello"}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_a_template_that_cannot_be_used_refuses_roles_and_says_why(
    backend: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, reason = UNUSABLE[kind]
    monkeypatch.setattr(template_rendering, "MAX_SECONDS", 60)  # it ends by itself
    template = read(backend, source)
    with pytest.raises(UsageError) as caught:
        prompt_of(template, [("user", "Hi")])
    assert reason in str(caught.value)
    plain = function(lambda s: s.append("Hi" + gen("x"))).run(
        backend=MockBackend(chat_template=template)
    )
    assert plain.text() == "Himock"


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_template_is_stopped(
    backend: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, reason = HOSTILE[kind]
    monkeypatch.setattr(template_rendering, "MAX_SECONDS", 1)
    template = read(backend, source)
    assert template.refusal is not None
    assert reason in template.refusal
    assert "chat_template=sgl.get_chat_template" in template.refusal


def test_a_renderer_that_sleeps_is_killed_by_the_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    run = subprocess.run
    asleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    monkeypatch.setattr(subprocess, "run", lambda _, **options: run(asleep, **options))
    begun = time.monotonic()
    with pytest.raises(TemplateFaultError, match=r"it ran for more than 0\.5 s, and was"):
        render("{{ 1 }}", (), (((("user", "x"),), True),), patience_s=0.5)
    assert time.monotonic() - begun < 60


def test_a_renderer_that_dies_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    run = subprocess.run
    dying = [sys.executable, "-c", "import sys; sys.exit('out of luck')"]
    monkeypatch.setattr(subprocess, "run", lambda _, **options: run(dying, **options))
    with pytest.raises(TemplateFaultError, match="ended with 1: out of luck"):
        render("{{ 2 }}", (), (((("user", "x"),), True),))


def test_the_renderer_imports_nothing_of_this_project() -> None:
    script = Path(template_rendering.__file__).with_name("template_renderer.py")
    code = (
        f"import runpy, sys; runpy.run_path({str(script)!r}); print(sorted("
        "{'torch', 'transformers', 'numpy', 'runtime', 'sgdsl', 'grammars'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, check=True)
    assert json.loads(done.stdout) == []


def test_without_a_template_there_are_labels(backend: Any) -> None:
    assert read(backend, None) is PLAIN


def test_of_several_templates_the_default_one_counts(backend: Any) -> None:
    backend.chat_template = {"default": FAMILIES["phi-3"], "tool_use": GEMMA}
    assert chat_template_of(backend).prefixes["user"] == "<|user|>\n"
    backend.chat_template = {"rag": GEMMA, "tool_use": GEMMA}
    template = chat_template_of(backend)
    assert template.refusal is not None
    assert "multiple chat templates with no default" in template.refusal


def test_a_bos_that_the_tokenizer_puts_itself_is_not_read_twice(backend: Any) -> None:
    class AddsBos:
        """The tokenizer, with a BOS before every text."""

        def __getattr__(self, name: str) -> Any:
            return getattr(backend, name)

        def __call__(self, text: str) -> dict[str, list[int]]:
            return {"input_ids": [backend.bos_token_id, *backend(text)["input_ids"]]}

    backend.chat_template = GEMMA
    conversation = [("user", "Hi"), ("assistant", "Hello"), ("user", "Bye")]
    expected = applied(backend, conversation)
    assert expected is not None
    template = chat_template_of(AddsBos())
    assert backend.bos_token + prompt_of(template, conversation) == expected
