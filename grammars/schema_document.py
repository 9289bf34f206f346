"""Where a reference leads. Owns the resources of a schema: their URIs, anchors and places.

A document holds resources (schemas with an `$id`), each a base for the references inside. Other
documents are those that the caller gave: nothing is fetched.
It must not know what a keyword asks for.
Source: JSON Schema core, draft 2020-12, sections 8.2 and 9.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urldefrag, urljoin

from grammars.dialect import NEWEST, UNNAMED, Dialect, dialect_of, named_dialect
from grammars.errors import GrammarError, UnsupportedError
from grammars.json_values import JsonValue

_ONE = """
additionalItems additionalProperties contains contentSchema else if items not propertyNames then
unevaluatedItems unevaluatedProperties
"""
_MANY = "allOf anyOf oneOf prefixItems items"
_NAMED = "$defs definitions dependencies dependentSchemas patternProperties properties"
ONE, MANY, NAMED = frozenset(_ONE.split()), frozenset(_MANY.split()), frozenset(_NAMED.split())
"""Keywords whose value is a schema, a list of schemas, or schemas by name."""


@dataclass(frozen=True)
class Place:
    """A schema, where it stands (as `Spot.place`), and the base of the references inside of it."""

    schema: JsonValue
    place: str
    base: str


class SchemaDocument:
    """Finds the schemas that references name. `resources`: other documents by their URI."""

    def __init__(self, document: JsonValue, resources: Mapping[str, JsonValue]) -> None:
        self.dialect: Dialect = dialect_of(document)
        self._resources: dict[str, Place] = {}
        self._anchors: dict[tuple[str, str], Place] = {}
        self._dynamic: set[tuple[str, str]] = set()
        self._recursive: set[str] = set()
        self._given = {uri.rstrip("#"): text for uri, text in resources.items()}
        self.root = Place(document, "", self.base_inside(document, ""))
        self._index(self.root)

    @property
    def is_dynamic(self) -> bool:
        """Whether it matters through which resources a schema is reached."""
        return bool(self._dynamic or self._recursive)

    def is_foreign(self, schema: dict[str, JsonValue]) -> bool:
        """Whether a part of the document, or another one, says that it is of another dialect."""
        if "$schema" not in schema:
            return False
        named = named_dialect(schema["$schema"])
        return named is None or (
            named != self.dialect and not (self.dialect == UNNAMED and named == NEWEST)
        )

    def base_inside(self, schema: JsonValue, base: str) -> str:
        """The base of references in a schema that stands in `base`: its own `$id`, if any."""
        keyword = self.dialect.id_keyword
        if not isinstance(schema, dict) or not isinstance(schema.get(keyword), str):
            return base
        if self.dialect.lone_refs and "$ref" in schema:
            return base
        return _resolved(base, schema[keyword])[0] or base

    def _index(self, top: Place) -> None:
        """Notes the resources and anchors of one document, each where keywords have schemas."""
        self._resources.setdefault(top.base, top)
        pending = [top]
        while pending:
            here = pending.pop()
            if not isinstance(here.schema, dict):
                continue
            self._note_anchors(here)
            for schema, at in _subschemas(here):
                inner = Place(schema, at, self.base_inside(schema, here.base))
                if inner.base != here.base:
                    self._resources.setdefault(inner.base, inner)
                pending.append(inner)

    def _note_anchors(self, here: Place) -> None:
        schema, base = here.schema, here.base
        for keyword in ("$anchor", "$dynamicAnchor"):
            name = schema.get(keyword)
            if isinstance(name, str):
                self._anchors.setdefault((base, name), here)
                if keyword == "$dynamicAnchor":
                    self._dynamic.add((base, name))
        if schema.get("$recursiveAnchor") is True:
            self._recursive.add(base)
        name = schema.get(self.dialect.id_keyword)
        if self.dialect.legacy_anchors and isinstance(name, str) and name.startswith("#"):
            self._anchors.setdefault((base, name[1:]), here)

    # -- references --------------------------------------------------------------------------

    def enter(self, base: str, scope: tuple[str, ...]) -> tuple[str, ...]:
        """The dynamic scope inside of a schema of the resource `base`."""
        return scope if not self.is_dynamic or base in scope else (*scope, base)

    def resolve(self, reference: str, base: str, at: str) -> Place:
        """The schema that `$ref` names; raises GrammarError or UnsupportedError at `at`."""
        uri, fragment = _resolved(base, reference)
        resource = self._resource(uri, reference, at)
        if not fragment:
            return resource
        if not fragment.startswith("/"):
            found = self._anchors.get((resource.base, unquote(fragment)))
            if found is None:
                raise self._missing(reference, at, f"the anchor {fragment!r}")
            return found
        return self._follow(resource, unquote(fragment), reference, at)

    def resolve_dynamic(self, reference: str, base: str, scope: tuple[str, ...], at: str) -> Place:
        """The schema that `$dynamicRef` names, reached through the resources of `scope`."""
        found = self.resolve(reference, base, at)
        name = urldefrag(reference).fragment
        if (found.base, name) not in self._dynamic:
            return found
        for uri in scope:
            if (uri, name) in self._dynamic:
                return self._anchors[uri, name]
        return found

    def resolve_recursive(
        self, reference: str, base: str, scope: tuple[str, ...], at: str
    ) -> Place:
        """The schema that `$recursiveRef` (draft 2019-09) names."""
        found = self.resolve(reference, base, at)
        if found.base not in self._recursive:
            return found
        outermost = next((uri for uri in scope if uri in self._recursive), found.base)
        return self._resources[outermost]

    def _resource(self, uri: str, reference: str, at: str) -> Place:
        if uri not in self._resources and uri in self._given:
            given = Place(self._given[uri], f"{uri}#", self.base_inside(self._given[uri], uri))
            self._index(given)
            self._resources.setdefault(uri, given)
        if uri not in self._resources:
            raise UnsupportedError(
                f"the schema has the reference {reference!r:.80} out of this document at {at}, "
                "and nothing is fetched; give the other document in resources=",
                at,
            )
        return self._resources[uri]

    def _follow(self, resource: Place, pointer: str, reference: str, at: str) -> Place:
        """The schema at a JSON pointer (RFC 6901) inside of a resource."""
        schema, base = resource.schema, resource.base
        for part in pointer.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(schema, dict) and name in schema:
                schema = schema[name]
            elif isinstance(schema, list) and name in map(str, range(len(schema))):
                schema = schema[int(name)]
            else:
                raise self._missing(reference, at, f"{name!r:.60}")
            base = self.base_inside(schema, base)
        return Place(schema, resource.place + pointer, base)

    def _missing(self, reference: str, at: str, what: str) -> GrammarError:
        return GrammarError(
            f"the schema has {reference!r:.80} at {at}, but {what} is not there; give a reference "
            "to a schema of the document",
            at,
        )


def escape(name: str) -> str:
    """A name as one part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")


def _resolved(base: str, reference: str) -> tuple[str, str]:
    """A reference relative to a base, and its fragment. A URN has no path: a fragment alone is put
    behind it. What is no URI leads to nothing that was given.
    """
    try:
        whole = base + reference if reference.startswith("#") else urljoin(base, reference)
        uri, fragment = urldefrag(whole)
    except ValueError:
        return reference, ""
    return uri, fragment


def _subschemas(here: Place) -> Iterator[tuple[JsonValue, str]]:
    """The schemas directly inside of one, with their places."""
    for keyword, value in here.schema.items():
        at = f"{here.place}/{escape(keyword)}"
        if keyword in MANY and isinstance(value, list):
            yield from ((schema, f"{at}/{index}") for index, schema in enumerate(value))
        elif keyword in NAMED and isinstance(value, dict):
            yield from ((schema, f"{at}/{escape(name)}") for name, schema in value.items())
        elif keyword in ONE:
            yield value, at
