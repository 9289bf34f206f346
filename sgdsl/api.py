"""The primitives that programs are written with.

Owns the public signatures of `gen`, `select`, the roles and `function`'s companions, and refuses
malformed arguments where they are written. Knows nothing of states, runs or backends.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn

from grammars import Constraint
from sgdsl import choices as choice_methods
from sgdsl.arguments import refuse, refuse_surrogates, sampling_from, temperature_from
from sgdsl.constraints import CONSTRAINT_ARGUMENTS, constraint_from
from sgdsl.errors import UsageError
from sgdsl.expressions import Expr, Hole, Part, Shared, parts_of, role_begin, role_end
from sgdsl.graph import Gen, Select
from sgdsl.reasoning import Tags, tags_of
from sgdsl.remembered import remembered

REGEX_INT = r"[-+]?[0-9]+[ \n]*"
REGEX_FLOAT = r"[-+]?[0-9]*\.?[0-9]+[ \n]*"
REGEX_BOOL = r"(True|False)"
REGEX_STR = r"\"[\w\d\s]*\""


@remembered
def gen(  # noqa: PLR0917 - the positional order is part of the contract
    name: str | None = None,
    max_tokens: int | None = None,
    min_tokens: int | None = None,
    n: int | None = None,
    stop: str | Sequence[str] | None = None,
    stop_token_ids: Sequence[int] | None = None,
    stop_regex: str | Sequence[str] | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    top_k: int | None = None,
    min_p: float | None = None,
    frequency_penalty: float | None = None,
    presence_penalty: float | None = None,
    ignore_eos: bool | None = None,
    return_logprob: bool | None = None,
    logprob_start_len: int | None = None,
    top_logprobs_num: int | None = None,
    return_text_in_logprobs: bool | None = None,
    dtype: builtins.type | str | None = None,
    choices: Sequence[str] | None = None,
    choices_method: choice_methods.ChoicesMethod | None = None,
    regex: str | None = None,
    json_schema: Any = None,
    *,
    type: Any = None,  # noqa: A002 - the word that users look for
    grammar: str | None = None,
    constraint: Constraint | None = None,
    substring_of: str | None = None,
    seed: int | None = None,
    healing: bool | None = None,
) -> Expr:
    """Text written by the model, kept as the variable `name`.

    None inherits from `run`. `max_tokens` and `min_tokens` count sampled tokens, without those that
    only spell a healed literal again; with `max_tokens=0` nothing is drawn, and the variable is
    empty. With `n` above 1 the variable is a list of n outputs, and the text goes on with the
    first. The output ends before the first of the texts `stop`, and before what one of the patterns
    `stop_regex` matches as soon as it matches. `return_logprob`, `top_logprobs_num` (so many
    likeliest tokens a position) and `logprob_start_len` (from that token of the prompt on) put
    log-probabilities into the meta info.

    At most one of `regex` (the whole output matches it), `json_schema` (a dict, a bool, JSON text,
    a pydantic class or a `JsonSchema`), `dtype` (int, float, bool, str or their names), `type`
    (pydantic, dataclass, Enum, Literal, list[...], ...), `grammar` (the rules of a context-free
    grammar), `substring_of` (the output is a quotation from that text), `constraint` (any one of
    `grammars`) and `choices` (a `select`). With `dtype` and `type` the variable is a value of that
    type. With `constraint` it is what the constraint reads in the text, of a `TypeOf` an instance;
    of a `JsonSchema`, and in all other cases, it is the text.

    A constrained output ends where it satisfies its constraint and the model goes on to what that
    does not allow, or before a text of `stop`; where what stands before that does not satisfy the
    constraint, it is a part of the output.
    `stop_regex` and `stop_token_ids` are refused beside a constraint, and the stops of `run` or of
    a role do not concern it; `min_tokens` and `ignore_eos` make it go on as long as its constraint
    allows. `str` is no constraint.

    Raises `UsageError`, here and at once, for arguments that cannot work.
    """
    given = {key: value for key, value in locals().items() if value is not None}
    given.pop("name", None)
    check_name("gen", name)
    if choices is not None:
        return _gen_choices(name, given)
    if choices_method is not None:
        raise UsageError(
            f"gen: choices_method={choices_method!r} was given without choices; "
            "give choices=[...] too"
        )
    asked = {key: given.pop(key) for key in CONSTRAINT_ARGUMENTS if key in given}
    made, typed = constraint_from("gen", asked) if asked else (None, False)
    if made is not None:
        _refuse_stops(given, asked)
    sampling = sampling_from("gen", given)
    return Expr((Shared(Gen, name=name, sampling=sampling, constraint=made, typed=typed),))


def _refuse_stops(given: dict[str, Any], asked: dict[str, Any]) -> None:
    stops = [key for key in ("stop_regex", "stop_token_ids") if key in given]
    if stops:
        raise UsageError(
            f"gen: {' and '.join(stops)} and {next(iter(asked))} cannot be given together; a "
            "constrained output ends where its constraint is complete, or before stop=: give that "
            "instead, or make the end a part of the constraint"
        )


def _gen_choices(name: str | None, given: dict[str, Any]) -> Expr:
    others = sorted(given.keys() - {"choices", "choices_method", "temperature"})
    if others:
        raise UsageError(
            f"gen: {', '.join(others)} and choices cannot be given together; gen(choices=...) is "
            "a select, which takes choices, choices_method and temperature only"
        )
    return _select(
        "gen",
        name,
        given["choices"],
        temperature=given.get("temperature", 0.0),
        method=given.get("choices_method", choice_methods.token_length_normalized),
    )


def gen_int(*args: Any, **kwargs: Any) -> Expr:
    """`gen(..., dtype=int)`: the variable is an int."""
    return gen(*args, **{"dtype": int, **kwargs})


def gen_string(*args: Any, **kwargs: Any) -> Expr:
    """`gen(..., dtype=str)`: the variable is a str."""
    return gen(*args, **{"dtype": str, **kwargs})


def select(
    name: str | None = None,
    choices: Sequence[str] | None = None,
    temperature: float = 0.0,
    choices_method: choice_methods.ChoicesMethod = choice_methods.token_length_normalized,
) -> Expr:
    """The likeliest of `choices`, kept as the variable `name`.

    `temperature` 0 takes the best under `choices_method`; above, one is sampled. Probabilities and
    log-probabilities: `s.get_meta_info(name)`. Raises `UsageError` for anything but distinct,
    non-empty texts.
    """
    check_name("select", name)
    return _select("select", name, choices, temperature=temperature, method=choices_method)


def _select(
    where: str, name: str | None, choices: object, *, temperature: object, method: Any
) -> Expr:
    allowed = "a list of one or more different, non-empty str"
    if not isinstance(choices, (list, tuple)) or not choices:
        refuse(where, "choices", choices, allowed)
    texts = tuple(choice.text if isinstance(choice, Hole) else choice for choice in choices)
    if not all(isinstance(text, str) and text for text in texts) or len(set(texts)) < len(texts):
        refuse(where, "choices", choices, allowed)
    refuse_surrogates(where, "choices", texts)
    if not hasattr(method, "log_weights"):
        refuse(where, "choices_method", method, "one of sgdsl's three methods, or one like them")
    return Expr(
        (
            partial(
                Select,
                name=name,
                choices=texts,
                method=method,
                temperature=temperature_from(where, temperature),
            ),
        )
    )


def check_name(where: str, name: object) -> None:
    """Refuse what cannot be a variable's name."""
    if name is not None and (not isinstance(name, str) or not name):
        refuse(where, "name", name, "the name of the variable, a non-empty str")


def role_expr(role: str, content: object) -> Expr:
    """A whole message of `role`."""
    inner = () if content is None else parts_of(content, f"{role}(...)")
    return Expr((role_begin(role), *inner, role_end(role)))


def system(expr: str | Expr | None = None) -> Expr:
    """A system message: `s += system("You are ...")`."""
    return role_expr("system", expr)


def user(expr: str | Expr | None = None) -> Expr:
    """A user message: `s += user("Question: " + q)`."""
    return role_expr("user", expr)


def assistant(expr: str | Expr | None = None) -> Expr:
    """An assistant message: `s += assistant(gen("answer"))`."""
    return role_expr("assistant", expr)


def system_begin() -> Expr:
    return Expr((role_begin("system"),))


def system_end() -> Expr:
    return Expr((role_end("system"),))


def user_begin() -> Expr:
    return Expr((role_begin("user"),))


def user_end() -> Expr:
    return Expr((role_end("user"),))


def assistant_begin() -> Expr:
    return Expr((role_begin("assistant"),))


def assistant_end() -> Expr:
    return Expr((role_end("assistant"),))


def separate_reasoning(expr: Expr | None = None, model_type: str | None = None) -> Expr:
    """Tell the reasoning of a text `gen` from its answer, by the tags of the family of models.

    The variable is the answer; `<name>_reasoning_content` is what stands between the tags. The
    state's text keeps both, a message's content has the answer only. Without an end tag all is
    reasoning. In an expression of several gens each is told apart.

    `model_type` is one of `sgdsl.reasoning.MODEL_TYPES`, such as "deepseek-r1" or "qwen3". Raises
    `UsageError` for another one, for a gen without a name, and for one that is constrained.
    """
    tags = tags_of(model_type)
    given: object = expr
    parts = given.parts if isinstance(given, Expr) else ()
    if not any(_makes(part, Gen) or _makes(part, Select) for part in parts):
        raise UsageError(f"separate_reasoning({expr!r}): there is no gen; give it gen(...)")
    return Expr(tuple(_told_apart(part, tags) for part in parts))


def _makes(part: Part, kind: builtins.type) -> bool:
    return isinstance(part, partial) and part.func is kind


def _told_apart(part: Part, tags: Tags) -> Part:
    if not isinstance(part, partial) or not (_makes(part, Gen) or _makes(part, Select)):
        return part
    name, constraint = part.keywords["name"], part.keywords.get("constraint")
    if _makes(part, Select) or constraint is not None:
        raise UsageError(
            f"separate_reasoning: {name!r} is constrained, so the model cannot reason before it; "
            "let it reason in a gen of its own first"
        )
    if name is None:
        raise UsageError(
            "separate_reasoning: a gen without a name has no variable for its reasoning; name it"
        )
    return partial(Gen, **{**part.keywords, "reasoning": tags})


def image(path: object) -> NoReturn:
    """Not supported by any backend yet: raises `UsageError`."""
    raise UsageError(
        f"image({path!r}) is not supported: no backend takes images yet; describe it in text"
    )


def video(path: object, num_frames: int = 0) -> NoReturn:
    """Not supported by any backend yet: raises `UsageError`."""
    raise UsageError(
        f"video({path!r}, {num_frames!r}) is not supported: no backend takes videos yet; "
        "describe it in text"
    )
