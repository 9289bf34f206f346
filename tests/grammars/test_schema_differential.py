"""Random schemas of every keyword against `jsonschema`, both ways: what is valid in our
serialisation is accepted, and whatever can be written is valid.
"""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, reject, settings, strategies as st
from jsonschema import Draft202012Validator
from jsonschema.exceptions import _WrappedReferencingError

from grammars import EmptyLanguageError, GrammarError, JsonSchema, accepts
from tests.grammars.json_schemas import schemas, values


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def is_valid(schema: Any, value: Any) -> bool:
    try:
        return bool(Draft202012Validator(schema).is_valid(value))
    except (RecursionError, _WrappedReferencingError):
        reject()


@given(schemas(), st.lists(values, min_size=1, max_size=8))
@settings(max_examples=1500, suppress_health_check=list(HealthCheck))
def test_a_value_is_accepted_exactly_where_it_is_valid(schema: Any, tried: list[Any]) -> None:
    constraint = JsonSchema(schema, property_order="any")
    for value in tried:
        expected = is_valid(schema, value)
        try:
            found = accepts(constraint, compact(value))
        except EmptyLanguageError:
            found = False
        except GrammarError:
            reject()
        assert found == expected, (schema, value)
