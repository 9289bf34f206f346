"""Jumps with the runtime's own tokenizer: what is forced in compact JSON is the tokens that the
tokenizer makes of the finished text, and enough of it to be worth a jump.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from grammars import Compiler, JsonSchema, Matcher
from runtime.model.load import load_tokenizer
from runtime.tokenizer import Tokenizer

MIN_SHARE = 0.2
"""Of the tokens of a text: what its schema forces is jumped, not drawn."""

PROMPT = "Extract the record.\nRecord: "

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "born": {"type": "string", "format": "date"},
        "address": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "zip_code": {"type": "string"}},
            "required": ["city", "zip_code"],
        },
    },
    "required": ["name", "born", "address"],
}
PACKAGE = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "license": {"enum": ["MIT", "BSD-3-Clause", "Apache-2.0"]},
        "development_status": {"enum": ["planning", "production", None]},
        "min_python": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "is_typed": {"type": "boolean"},
    },
    "required": ["name", "license", "development_status", "min_python", "is_typed"],
}
CALLS = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "function": {"const": "get_weather"},
            "arguments": {
                "type": "object",
                "properties": {"location": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["location", "days"],
            },
        },
        "required": ["function", "arguments"],
    },
    "minItems": 1,
}
VALUES: list[tuple[dict[str, Any], list[Any]]] = [
    (
        PERSON,
        [
            {
                "name": "Ada Lovelace",
                "born": "1815-12-10",
                "address": {"city": "London", "zip_code": "SW1Y 4JH"},
            },
            {
                "name": 'd\'Artagnan "né" 日本 🐢',
                "born": "1611-01-01",
                "address": {"city": " ", "zip_code": ""},
            },
        ],
    ),
    (
        PACKAGE,
        [
            {
                "name": "rich",
                "license": "MIT",
                "development_status": "production",
                "min_python": ">=3.8",
                "is_typed": True,
            },
            {
                "name": "a-b_c",
                "license": "BSD-3-Clause",
                "development_status": None,
                "min_python": None,
                "is_typed": False,
            },
        ],
    ),
    (
        CALLS,
        [
            [
                {"function": "get_weather", "arguments": {"location": "Zürich", "days": 3}},
                {"function": "get_weather", "arguments": {"location": "", "days": -12}},
            ]
        ],
    ),
]


def jumped(matcher: Matcher, tokens: list[int], tokenizer: Tokenizer, *, before: bytes) -> int:
    """How many of a text's tokens are jumped on the way; all of them stand where they belong."""
    at = count = 0
    while at < len(tokens):
        jump = matcher.jump_forward(tokenizer.encode_within, before=before)
        assert tokens[at : at + len(jump)] == jump, "a jump is canonical"
        for token_id in jump or [tokens[at]]:
            assert matcher.allows(token_id)
            matcher.accept_token(token_id)
        at += len(jump) or 1
        count += len(jump)
    assert matcher.is_complete
    return count


@pytest.fixture(scope="module")
def smol(default_model_path: Path) -> Tokenizer:
    config = json.loads((default_model_path / "config.json").read_text(encoding="utf-8"))
    return load_tokenizer(default_model_path, vocab_size=config["vocab_size"])


@pytest.mark.model
@pytest.mark.parametrize(("schema", "values"), VALUES, ids=["person", "package", "calls"])
def test_a_fifth_of_compact_json_is_jumped_and_all_of_it_canonical(
    smol: Tokenizer, schema: dict[str, Any], values: list[Any]
) -> None:
    grammar = Compiler(smol.vocabulary).compile(JsonSchema(schema))
    prompt = smol.encode(PROMPT)
    num_tokens = num_jumped = 0
    for value in values:
        whole = smol.encode(PROMPT + json.dumps(value, ensure_ascii=False, separators=(",", ":")))
        # The prompt's last token is part of a longer one: it is taken back, as healing does.
        border = len(prompt) - 1
        assert whole[:border] == prompt[:border]
        assert whole[border] != prompt[border]
        matcher = Matcher(grammar, max_tokens=200, prefix=smol.decode(prompt[border:]))
        before = smol.decode(prompt[:border])
        num_jumped += jumped(matcher, whole[border:], smol, before=before)
        num_tokens += len(whole) - border
    assert num_jumped >= MIN_SHARE * num_tokens
