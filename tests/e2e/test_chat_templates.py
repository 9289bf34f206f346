"""Templates that do more than to put text around messages, all the way to the tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import AutoTokenizer

from runtime import Runtime
from sgdsl import ChatTemplate, ProgramState, UsageError, function, gen
from sgdsl.chat import Around, Turn

TEMPLATE = ChatTemplate(
    "test",
    turns={
        Turn(False, None, "user"): Around("<|im_start|>user\n", "<|im_end|>\n", trim="both"),
        Turn(False, "user", "assistant"): Around(
            "<|im_start|>", "<|im_end|>\n", literal="said\n", cue="says\n"
        ),
    },
)


@function
def answer(s: ProgramState, begins: str) -> None:
    s.user(" Hi \n")
    with s.assistant():
        s += begins
        s += gen("answer", max_tokens=5, temperature=0.0, ignore_eos=True)


def test_what_the_model_is_shown_is_what_the_template_writes(tiny_llama_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_llama_path)
    with Runtime(tiny_llama_path, chat_template=TEMPLATE) as runtime:
        for begins, opening in (("", "says\n"), ("Well", "said\nWell")):
            state = answer.run(begins, backend=runtime)
            prompt = f"<|im_start|>user\nHi<|im_end|>\n<|im_start|>{opening}"
            assert state.text() == prompt + state["answer"] + "<|im_end|>\n"
            meta = state.get_meta_info("answer")
            assert meta["prompt_tokens"] == len(tokenizer(prompt)["input_ids"])
            assert state.messages()[-1]["content"] == begins + state["answer"]


def test_a_template_s_name_is_looked_up(tiny_llama_path: Path) -> None:
    with Runtime(tiny_llama_path, chat_template="phi-3") as runtime:
        assert answer.run("", backend=runtime).text().startswith("<|user|>\n Hi \n<|end|>\n")
    with pytest.raises(UsageError, match="get_chat_template\\('phi-99'\\): no such template"):
        Runtime(tiny_llama_path, chat_template="phi-99")
    with pytest.raises(UsageError, match="chat_template=3: it must be a ChatTemplate, the name of"):
        Runtime(tiny_llama_path, chat_template=3)
