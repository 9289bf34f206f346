"""Graphs, runs and what happens to them, as JSON: what travels between two machines.

Owns the wire form of nodes, sampling, constraints, errors and events, and its version. Nothing of
it can carry code: names are looked up in tables, fields are checked, and a Python type travels as
its JSON schema, to be read back where the type is. Knows nothing of HTTP.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any

import grammars
from grammars import Constraint, GrammarError, TypeOf
from grammars.schema import Style
from grammars.tags import Tag
from grammars.types import TypeTexts
from sgdsl import choices as choice_methods, errors, graph
from sgdsl.arguments import sampling_from
from sgdsl.chat import ChatTemplate
from sgdsl.choices import ChoiceScores
from sgdsl.errors import BackendError, ProviderError, UsageError
from sgdsl.graph import DEFAULT_SAMPLING, Assign, Gen, Node, Sampling
from sgdsl.reasoning import Tags

VERSION = 1
"""Raised whenever an older reader would misunderstand; the other side refuses what it is not."""

Json = dict[str, Any]

_NODES: dict[str, type[Node]] = {
    kind.__name__: kind
    for kind in vars(graph).values()
    if isinstance(kind, type) and issubclass(kind, Node) and kind is not Node
}
_MADE_BY_MACHINE = {"Collect"}
_METHODS = {
    "token_length_normalized": choice_methods.token_length_normalized,
    "greedy_token_selection": choice_methods.greedy_token_selection,
    "unconditional_likelihood_normalized": choice_methods.unconditional_likelihood_normalized,
}
_CONSTRAINTS: dict[str, type[Any]] = {
    **{
        name: getattr(grammars, name)
        for name in (
            *("Regex", "Choices", "JsonSchema", "Cfg", "Substring"),
            *("Concatenation", "Alternation", "Repetition", "StructuralTags"),
        )
    },
    "Tag": Tag,
    "TypeTexts": TypeTexts,
}
_BY_POSITION = {"Choices": "texts", "Concatenation": "parts", "Alternation": "options"}
"""What these are made of; the latter two take each part as an argument of its own."""
_ERRORS: dict[str, type[Exception]] = {
    **{
        name: getattr(errors, name)
        for name in (
            *("UsageError", "ContextLengthError", "BackendError", "ProviderError"),
            *("OverloadedError", "CancelledError", "DeadlineError"),
        )
    },
    **{
        kind.__name__: kind
        for kind in vars(grammars).values()
        if isinstance(kind, type) and issubclass(kind, GrammarError)
    },
}


_OF_PROVIDERS = ("status", "retryable", "retry_after_s")


# Nodes.


def encode_node(node: Node) -> Json:
    """Raises `UsageError` for what only this process understands. The value of an assignment stays
    here: only its text can matter to a model. So does the user's source line.
    """
    made: Json = {"kind": type(node).__name__}
    for field in fields(node):
        value = getattr(node, field.name)
        if field.name == "source" or (isinstance(node, Assign) and field.name == "value"):
            continue
        if isinstance(node, Gen) and field.name == "typed":
            continue
        made[field.name] = _encode_value(value)
    return made


def _encode_value(value: Any) -> Any:
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, tuple):
        return [_encode_value(item) for item in value]
    if isinstance(value, Sampling):
        return encode_sampling(value)
    if isinstance(value, Constraint):
        return encode_constraint(value)
    if isinstance(value, Tags):
        return [value.start, value.end, value.begun]
    for name, method in _METHODS.items():
        if value == method:
            return name
    raise UsageError(
        f"{value!r} cannot be sent to another machine; choice methods are {', '.join(_METHODS)}"
    )


def decode_node(data: Any) -> Node:
    """Raises `UsageError` for what is no node."""
    kind = field_of(data, "kind", str)
    if kind not in _NODES or kind in _MADE_BY_MACHINE:
        raise UsageError(f"node kind {kind!r} is unknown; it is one of {', '.join(_NODES)}")
    given: Json = {"source": None}
    for field in fields(_NODES[kind]):
        if field.name in ("source", "typed") or (kind == "Assign" and field.name == "value"):
            continue
        if field.name not in data:
            if field.default is not MISSING:
                continue
            raise UsageError(f"a node of kind {kind!r} lacks {field.name!r}")
        given[field.name] = _decode_field(field.name, str(field.type), data[field.name])
    if kind == "Assign":
        given["value"] = given["text"]
    return _NODES[kind](**given)


def _decode_field(name: str, kind: str, value: Any) -> Any:
    decoder = _DECODERS.get("method" if name == "method" else kind)
    assert decoder is not None, f"a field {name!r} of type {kind!r} has a decoder"
    decoded, good = decoder(value)
    if not good:
        raise UsageError(f"{name}={value!r:.80} of a node is not allowed; it is a {kind}")
    return decoded


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62


def _checked(check: Callable[[Any], bool]) -> Callable[[Any], tuple[Any, bool]]:
    return lambda value: (value, check(value))


def _tuple_of(check: Callable[[Any], bool]) -> Callable[[Any], tuple[Any, bool]]:
    def decode(value: Any) -> tuple[Any, bool]:
        good = isinstance(value, list) and all(map(check, value))
        return tuple(value) if good else value, good

    return decode


def _or_none(decode: Callable[[Any], tuple[Any, bool]]) -> Callable[[Any], tuple[Any, bool]]:
    return lambda value: (None, True) if value is None else decode(value)


def _is_str(value: Any) -> bool:
    return isinstance(value, str)


def _decode_tags(value: Any) -> Tags:
    good = isinstance(value, list) and [type(part) for part in value] == [str, str, bool]
    if not good or not value[0] or not value[1]:
        raise UsageError(f"reasoning={value!r:.80} is not allowed; it is two texts and a bool")
    return Tags(*value)


def _is_temperature(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and math.isfinite(value) and value >= 0


_DECODERS: dict[str, Callable[[Any], tuple[Any, bool]]] = {
    "int": _checked(_is_count),
    "str": _checked(_is_str),
    "bool": _checked(lambda value: isinstance(value, bool)),
    "float": _checked(_is_temperature),
    "str | None": _or_none(_checked(_is_str)),
    "int | None": _or_none(_checked(_is_count)),
    "tuple[int, ...]": _tuple_of(_is_count),
    "tuple[str, ...]": _tuple_of(_is_str),
    "tuple[str, ...] | None": _or_none(_tuple_of(_is_str)),
    "Sampling": lambda value: (decode_sampling(value), True),
    "Constraint | None": _or_none(lambda value: (decode_constraint(value), True)),
    "Tags | None": _or_none(lambda value: (_decode_tags(value), True)),
    "method": lambda value: (
        _METHODS.get(value) if isinstance(value, str) else None,
        isinstance(value, str) and value in _METHODS,
    ),
}
"""By a field's annotation: what it gives, and whether it is good."""


# Sampling.


def encode_sampling(sampling: Sampling) -> Json:
    """What it says; what it inherits is left out."""
    said = ((field.name, getattr(sampling, field.name)) for field in fields(sampling))
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in said
        if value is not None
    }


def decode_sampling(data: Any) -> Sampling:
    known = {field.name for field in fields(Sampling)}
    if not isinstance(data, dict) or not data.keys() <= known:
        raise UsageError(f"{data!r:.80} is no sampling; its fields are {', '.join(sorted(known))}")
    said = {name: value for name, value in data.items() if value not in ([], None)}
    empty: Json = {name: () for name, value in data.items() if value == []}
    sampling = sampling_from("sampling", said)
    return Sampling(**empty).over(sampling) if empty else sampling


def decode_defaults(data: Any) -> Sampling:
    """The sampling of a run, complete."""
    return decode_sampling(data).over(DEFAULT_SAMPLING)


# Constraints.


def encode_constraint(constraint: Any) -> Any:
    """Raises `UsageError` for a class of the user's own."""
    if isinstance(constraint, str):
        return constraint
    if isinstance(constraint, TypeOf):
        constraint = constraint.portable()
    kind = type(constraint).__name__
    if _CONSTRAINTS.get(kind) is not type(constraint):
        raise UsageError(
            f"{constraint!r:.120} cannot be sent to another machine; use one of the constraints of "
            "`grammars`, or a backend in this process"
        )
    made: Json = {"kind": kind}
    for field in fields(constraint):
        made[field.name] = _encode_part(getattr(constraint, field.name))
    return made


def _encode_part(value: Any) -> Any:
    if isinstance(value, Style):
        return value._asdict()
    if isinstance(value, tuple):
        return [_encode_part(item) for item in value]
    if isinstance(value, (Constraint, Tag)):
        return encode_constraint(value)
    return value


def decode_constraint(data: Any) -> Any:
    """Raises `UsageError` or the errors of `grammars`, which check all fields."""
    kind = field_of(data, "kind", str)
    if kind not in _CONSTRAINTS:
        raise UsageError(f"constraint {kind!r} is unknown; it is one of {', '.join(_CONSTRAINTS)}")
    if kind == "TypeTexts":
        return _decode_type(data)
    given = {name: _decode_part(value) for name, value in data.items() if name != "kind"}
    known = {field.name for field in fields(_CONSTRAINTS[kind])}
    if given.keys() != known:
        raise UsageError(f"a {kind} has the fields {', '.join(sorted(known))}")
    if kind in _BY_POSITION:
        parts = given[_BY_POSITION[kind]]
        return _CONSTRAINTS[kind](parts) if kind == "Choices" else _CONSTRAINTS[kind](*parts)
    if kind == "JsonSchema":
        given["schema"] = given.pop("text")
        given["resources"] = _pairs(given["resources"])
    return _CONSTRAINTS[kind](**given)


def _decode_part(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decode_part(item) for item in value)
    return decode_constraint(value) if isinstance(value, dict) else value


def _decode_type(data: Any) -> TypeTexts:
    """What its layout may be, `JsonSchema` knows."""
    layout = dict(field_of(data, "layout", dict))
    if layout.keys() != set(Style._fields):
        raise UsageError(f"layout={layout!r:.80} is no layout of a type's texts")
    any_order, ignores = layout.pop("any_order"), layout.pop("ignore_formats")
    checked = grammars.JsonSchema(
        field_of(data, "text", str),
        property_order="any" if any_order else "declared",
        formats="ignore" if ignores else "enforce",
        **layout,
    )
    return TypeTexts(checked.text, checked.style())


def _pairs(value: Any) -> dict[str, str]:
    good = isinstance(value, tuple) and all(
        isinstance(pair, tuple) and len(pair) == 2 and all(map(_is_str, pair)) for pair in value
    )
    if not good:
        raise UsageError(f"resources={value!r:.80} is not allowed; it is a list of pairs of texts")
    return dict(value)


# Templates, errors, numbers.


def encode_template(template: ChatTemplate) -> Json:
    return {
        "name": template.name,
        "prefixes": dict(template.prefixes),
        "suffixes": dict(template.suffixes),
        "stop": list(template.stop),
        "default_system_prompt": template.default_system_prompt,
    }


def decode_template(data: Any) -> ChatTemplate:
    return ChatTemplate(
        name=field_of(data, "name", str),
        prefixes=_texts(field_of(data, "prefixes", dict)),
        suffixes=_texts(field_of(data, "suffixes", dict)),
        stop=tuple(_texts(dict(enumerate(field_of(data, "stop", list)))).values()),
        default_system_prompt=data.get("default_system_prompt"),
    )


def _texts(value: Mapping[Any, Any]) -> dict[Any, str]:
    if not all(map(_is_str, value.values())):
        raise UsageError(f"{value!r:.80} has what is no text")
    return dict(value)


def encode_error(error: BaseException) -> Json:
    """An error of ours with its message; of any other its name alone, since its message may tell
    what is nobody else's business.
    """
    for kind in type(error).__mro__:
        if kind.__name__ in _ERRORS and _ERRORS[kind.__name__] is kind:
            made = {"type": kind.__name__, "message": str(error)}
            if isinstance(error, ProviderError):
                made |= {name: getattr(error, name) for name in _OF_PROVIDERS}
            return made
    return {
        "type": "BackendError",
        "message": f"the server failed at this node: {type(error).__name__}",
    }


def decode_error(data: Any) -> Exception:
    """One that is not known here is a `BackendError`."""
    name, message = field_of(data, "type", str), field_of(data, "message", str)
    kind = _ERRORS.get(name, BackendError)
    if kind is not ProviderError:
        return kind(message)
    status, retryable, after_s = (data.get(each) for each in _OF_PROVIDERS)
    good = (status is None or _is_count(status)) and (
        retryable is None or retryable in (True, False)
    )
    if not good or not (after_s is None or _is_temperature(after_s)):
        raise UsageError(f"{data!r:.200} is no error of a provider")
    return ProviderError(message, status=status, retryable=bool(retryable), retry_after_s=after_s)


def encode_scores(scores: ChoiceScores) -> Json:
    return {field.name: encode_numbers(getattr(scores, field.name)) for field in fields(scores)}


def decode_scores(data: Any) -> ChoiceScores:
    """What a newer side tells beyond what is known here is passed over."""
    known = {field.name for field in fields(ChoiceScores)}
    if not isinstance(data, dict) or not isinstance(data.get("conditional"), list):
        raise UsageError(f"{data!r:.80} are no scores of choices")
    return ChoiceScores(
        **{name: decode_numbers(value) for name, value in data.items() if name in known}
    )


def encode_numbers(value: Any) -> Any:
    """Data with the numbers that JSON does not have; tuples become lists."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"$number": str(value)}
    if isinstance(value, (list, tuple)):
        return [encode_numbers(item) for item in value]
    if isinstance(value, dict):
        return {str(name): encode_numbers(item) for name, item in value.items()}
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    return str(value)


def decode_numbers(value: Any) -> Any:
    if isinstance(value, list):
        return [decode_numbers(item) for item in value]
    if isinstance(value, dict):
        if value.keys() == {"$number"}:
            return float(value["$number"])
        return {name: decode_numbers(item) for name, item in value.items()}
    return value


def decode_meta(data: Any) -> Json:
    """The meta info of a gen, its log-probabilities as tuples again."""
    meta: Json = decode_numbers(data)
    for name in ("input_token_logprobs", "output_token_logprobs"):
        if name in meta:
            meta[name] = _tuples(meta[name])
    for name in ("input_top_logprobs", "output_top_logprobs"):
        if isinstance(meta.get(name), list):
            meta[name] = [_tuples(tokens) for tokens in meta[name]]
    return meta


def _tuples(tokens: Any) -> Any:
    if not isinstance(tokens, list):
        return tokens
    return [tuple(token) if isinstance(token, list) else token for token in tokens]


def to_bytes(data: Any) -> bytes:
    """JSON as it travels. A lone surrogate, which UTF-8 does not have, is escaped."""
    try:
        return json.dumps(data, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        return json.dumps(data, allow_nan=False).encode()


def field_of(data: Any, name: str, kind: type[Any]) -> Any:
    """A field that must be there, of its type; raises `UsageError`."""
    if not isinstance(data, dict):
        raise UsageError(f"{data!r:.80} is no object")
    value = data.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise UsageError(f"{name}={value!r:.80} is not allowed; it is a {kind.__name__}")
    return value
