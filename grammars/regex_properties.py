"""Unicode's general categories as sets of code points. Owns their names.

`unicodedata` knows the categories and nothing else, so scripts and other properties are refused.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from itertools import groupby

from grammars.charset import ANY, LAST, Ranges, invert, normalized

_LONG_NAMES = {
    "L": "Letter",
    "LC": "Cased_Letter",
    "Lu": "Uppercase_Letter",
    "Ll": "Lowercase_Letter",
    "Lt": "Titlecase_Letter",
    "Lm": "Modifier_Letter",
    "Lo": "Other_Letter",
    "M": "Mark",
    "Mn": "Nonspacing_Mark",
    "Mc": "Spacing_Mark",
    "Me": "Enclosing_Mark",
    "N": "Number",
    "Nd": "Decimal_Number",
    "Nl": "Letter_Number",
    "No": "Other_Number",
    "P": "Punctuation",
    "Pc": "Connector_Punctuation",
    "Pd": "Dash_Punctuation",
    "Ps": "Open_Punctuation",
    "Pe": "Close_Punctuation",
    "Pi": "Initial_Punctuation",
    "Pf": "Final_Punctuation",
    "Po": "Other_Punctuation",
    "S": "Symbol",
    "Sm": "Math_Symbol",
    "Sc": "Currency_Symbol",
    "Sk": "Modifier_Symbol",
    "So": "Other_Symbol",
    "Z": "Separator",
    "Zs": "Space_Separator",
    "Zl": "Line_Separator",
    "Zp": "Paragraph_Separator",
    "C": "Other",
    "Cc": "Control",
    "Cf": "Format",
    "Cs": "Surrogate",
    "Co": "Private_Use",
    "Cn": "Unassigned",
}
_ALIASES = {"Combining_Mark": "M", "digit": "Nd", "punct": "P", "cntrl": "Cc"}
_CATEGORY_OF = {name: name for name in _LONG_NAMES} | _ALIASES
_CATEGORY_OF |= {long: short for short, long in _LONG_NAMES.items()}
_CASED = ("Lu", "Ll", "Lt")


def property_class(name: str) -> Ranges | None:
    """The code points of `\\p{name}`; None when it is not known.

    Names of general categories are those of Unicode, short or long, also as `gc=...`. `Any`,
    `Assigned` and `ASCII` are known too.
    """
    if name in ("Any", "Assigned", "ASCII"):
        return {"Any": ANY, "ASCII": ((0, 127),)}.get(name) or invert(_category("Cn"))
    key, _, value = name.rpartition("=")
    if key not in ("", "General_Category", "gc") or "=" in name and not key:
        return None
    short = _CATEGORY_OF.get(value)
    return None if short is None else _category(short)


@lru_cache(maxsize=64)
def _category(short: str) -> Ranges:
    """A category, or all those that begin with its letter."""
    table = _categories()
    names = _CASED if short == "LC" else [name for name in table if name.startswith(short)]
    return normalized(pair for name in names for pair in table.get(name, ()))


@lru_cache(maxsize=1)
def _categories() -> dict[str, list[tuple[int, int]]]:
    """The ranges of each category, of the running interpreter's Unicode version."""
    found: dict[str, list[tuple[int, int]]] = {}
    codes = range(LAST + 1)
    start = 0
    for name, same in groupby(map(unicodedata.category, map(chr, codes))):
        end = start + sum(1 for _ in same)
        found.setdefault(name, []).append((start, end - 1))
        start = end
    return found
