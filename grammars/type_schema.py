"""From a type to a JSON schema that asks all that the type's parser will ask. Owns what pydantic's
own schema leaves out and is added: bounds and digits of numbers as their reader rounds, decimals as
numbers, dates within bounds, datetimes and times without a zone, lengths in bytes, lengths of
stripped strings, keys of maps, the tag of a union, the end of what nests.

What is not added is refused by `type_checks`. A validator that the user wrote is beyond any schema,
and left to the parser.
It must not know how a schema is enforced.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from grammars.errors import GrammarError
from grammars.type_checks import definitions_of, refuse_undescribed
from grammars.type_depth import limit_depth
from grammars.type_names import Names, date_bounds
from grammars.type_numbers import decimal_numbers, float_numbers

Core = dict[str, Any]
Schema = dict[str, Any]

_TRIMMED = r"^[^\s\x85](?:[\s\S]*[^\s\x85])?$"

# The reader of schemas takes a pattern in ECMA-262's syntax, pydantic in that of Rust or of Python.
# There, digits and letters are those of Unicode: \d and \w hold for more characters, \D and \W for
# fewer. About white space the three differ in a few characters, which are then not written.
_ASCII = r"^[\x00-\x7f]*$"
_COMPLEMENT = re.compile(r"\\[DWbB]|\[\^[^\]]*\\[dw]")
_SPACE = re.compile(r"\\[sS]")
_SURE_SPACE = r"^[^\x1c-\x1f\x85\ufeff]*$"


def schema_of(tp: Any, adapter: TypeAdapter[Any]) -> Schema:
    """The JSON schema whose values all are instances of `tp`, but for validators of the user.

    Raises UnsupportedError for what cannot be described, with its place in the type.
    """
    core: Any = adapter.core_schema
    if not isinstance(core, dict):  # a stand-in for a type that was not complete when it was made
        core = core.rebuild()
        if not isinstance(core, dict):
            adapter.json_schema(schema_generator=_ExactJsonSchema)  # pydantic says what is missing
            raise GrammarError(f"the type {tp!r} is not complete; define the names that it uses")
    if core["type"] == "call" and not isinstance(core["function"], type):
        raise GrammarError(f"{tp!r} is a function; give a type")
    refuse_undescribed(tp, core)
    return limit_depth(adapter.json_schema(schema_generator=_ExactJsonSchema))


class _ExactJsonSchema(GenerateJsonSchema):
    """The JSON schema by pydantic, with what it leaves out."""

    _names: Names

    def generate(self, schema: Any, mode: Any = "validation") -> dict[str, Any]:
        self._names = Names(definitions_of(schema), self.generate_inner)
        return super().generate(schema, mode)

    # -- scalars -----------------------------------------------------------------------------

    def float_schema(self, schema: Any) -> Schema:
        return float_numbers(super().float_schema(schema), schema)

    def decimal_schema(self, schema: Any) -> Schema:
        return decimal_numbers(schema)

    def str_schema(self, schema: Any) -> Schema:
        found = super().str_schema(schema)
        more: list[Schema] = []
        if schema.get("strip_whitespace") and not {"minLength", "pattern"}.isdisjoint(found):
            # lengths and patterns are asked of the stripped text: of one that is so already
            more.append({"anyOf": [{"pattern": _TRIMMED}, {"const": ""}]})
        if _COMPLEMENT.search(found.get("pattern", "")):
            more.append({"pattern": _ASCII})
        elif _SPACE.search(found.get("pattern", "")):
            more.append({"pattern": _SURE_SPACE})
        return {**found, "allOf": more} if more else found

    def bytes_schema(self, schema: Any) -> Schema:
        written = self._config.val_json_bytes
        if written in {"base64", "hex"}:
            return {"type": "string", "format": written}
        found = {**super().bytes_schema(schema), "format": "binary"}
        if "maxLength" in found:
            found["pattern"] = _ASCII  # so that a character is a byte
        return found

    def date_schema(self, schema: Any) -> Schema:
        bounds = date_bounds(schema)
        return {"type": "string", "format": "date", **({"allOf": bounds} if bounds else {})}

    def time_schema(self, schema: Any) -> Schema:
        naive = schema.get("tz_constraint") == "naive"
        return {"type": "string", "format": "naive-time" if naive else "time"}

    def datetime_schema(self, schema: Any) -> Schema:
        naive = schema.get("tz_constraint") == "naive"
        return {"type": "string", "format": "naive-date-time" if naive else "date-time"}

    def timedelta_schema(self, schema: Any) -> Schema:  # noqa: ARG002 - pydantic's signature
        return {"type": "string", "format": "timedelta"}

    def url_schema(self, schema: Any) -> Schema:
        found: Schema = {"type": "string", "format": "url"}
        if schema.get("allowed_schemes"):
            found["pattern"] = f"^(?:{'|'.join(map(re.escape, schema['allowed_schemes']))}):"
        else:
            found["not"] = {"pattern": "^file:"}  # it has no port
        if schema.get("max_length") is not None:
            found["maxLength"] = max(schema["max_length"] - 1, 0)  # a path `/` may be added
        return found

    multi_host_url_schema = url_schema

    # -- sets and maps -----------------------------------------------------------------------

    def set_schema(self, schema: Any) -> Schema:
        found = super().set_schema(schema)
        if schema.get("min_length", 0) < 2:
            del found["uniqueItems"]  # what is there twice is read once
        return found

    frozenset_schema = set_schema

    def dict_schema(self, schema: Any) -> Schema:
        found: Schema = {"type": "object"}
        values = schema.get("values_schema")
        found["additionalProperties"] = self.generate_inner(values) if values else True
        names = self._names.of(schema["keys_schema"]) if "keys_schema" in schema else {}
        assert names is not None, "keys that are not known were refused"
        if names not in ({}, {"type": "string"}):
            found["propertyNames"] = names
        self.update_with_validations(found, schema, self.ValidationsMapping.object)
        return found

    ordered_dict_schema = counter_schema = dict_schema

    # -- classes -----------------------------------------------------------------------------

    def model_schema(self, schema: Any) -> Schema:
        return _closed(super().model_schema(schema))

    def dataclass_schema(self, schema: Any) -> Schema:
        return _closed(super().dataclass_schema(schema))

    def typed_dict_schema(self, schema: Any) -> Schema:
        return _closed(super().typed_dict_schema(schema))

    def model_fields_schema(self, schema: Any) -> Schema:
        found = super().model_fields_schema(schema)
        properties = found.get("properties", {})
        for name, field in schema["fields"].items():
            # otherwise, where there may be more members, such a name may be read as the field
            for other in (name, *_plain_aliases(field.get("validation_alias"))):
                properties.setdefault(other, False)
        return found

    def tagged_union_schema(self, schema: Any) -> Schema:
        found = super().tagged_union_schema(schema)
        names = _tag_names(schema["discriminator"])
        if not names:
            return found
        tags: dict[str, list[Any]] = {}
        branches: dict[str, Schema] = {}
        for tag, choice in schema["choices"].items():
            branch = self.generate_inner(choice)
            tags.setdefault(repr(branch), []).append(tag.value if isinstance(tag, Enum) else tag)
            branches[repr(branch)] = branch
        return {
            "anyOf": [
                {"allOf": [branch, {"anyOf": _tagged(names, tags[key])}]}
                for key, branch in branches.items()
            ]
        }


def _closed(found: Schema) -> Schema:
    """A class without members of which nothing is known: they would be thrown away."""
    if found.get("type") == "object":
        found.setdefault("additionalProperties", False)
    return found


def _plain_aliases(alias: Any) -> list[str]:
    """The names among the ways to name a field."""
    if isinstance(alias, list):
        paths = alias if all(isinstance(path, list) for path in alias) else [alias]
        return [path[0] for path in paths if len(path) == 1]
    return [alias] if isinstance(alias, str) else []


def _tag_names(discriminator: Any) -> list[str]:
    """The members in which a tag is looked for, in their order; none where a function finds it."""
    if isinstance(discriminator, str):
        return [discriminator]
    return _plain_aliases(discriminator) if isinstance(discriminator, list) else []


def _tagged(names: list[str], tags: list[Any]) -> list[Schema]:
    """Objects with one of these tags in the first of these members that is there."""
    return [
        {
            "required": [name],
            "properties": {**dict.fromkeys(names[:index], False), name: {"enum": tags}},
        }
        for index, name in enumerate(names)
    ]
