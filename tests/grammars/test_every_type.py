"""Every type is refused, or all that its mask lets through is read back as it. No third way."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import functools
import ipaddress
import os
import pathlib
import random
import re
import sys
import typing as t
import uuid
import zoneinfo
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Any, Literal

import pydantic as p
import pytest
import typing_extensions as te
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from grammars import Compiler, Grammar, GrammarError, Matcher, TypeOf, UnsupportedError, accepts
from grammars.formats import TYPE_FORMATS
from tests.grammars.vocabularies import small_vocabulary, walk

COMPILER = Compiler(small_vocabulary())


class Colour(enum.Enum):
    RED = "red"
    NONE = None
    HALF = 0.5


class Dates(enum.Enum):
    FIRST = dt.date(2024, 1, 1)


class Tuples(enum.Enum):
    PAIR = (1, 2)


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    a: float
    b: dt.datetime
    c: tuple[int, uuid.UUID]
    d: Colour
    e: bytes
    f: Decimal
    g: pathlib.Path


class Stripped(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True)
    a: str
    b: str = Field(max_length=3)


class StrippedAndLong(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True)
    a: str = Field(min_length=2)


class Short(BaseModel):
    model_config = ConfigDict(str_max_length=2)
    a: str


class ShortKeys(BaseModel):
    model_config = ConfigDict(str_max_length=2)
    a: dict[str, int]


class Encoded(BaseModel):
    model_config = ConfigDict(val_json_bytes="base64")
    a: bytes


class Aliased(BaseModel):
    a: str = Field(validation_alias=p.AliasChoices("q", "r"))
    b: str = Field(alias="c")


class Pathed(BaseModel):
    a: str = Field(validation_alias=p.AliasPath("q", 0))


class Defaults(BaseModel):
    a: Any = Field(default={"type": "complex"})
    type: int = 3


class Extras(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int]


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Root(p.RootModel[list[int]]):
    pass


class Movie(te.TypedDict, total=False):
    year: te.Required[int]
    name: str


class Row(t.NamedTuple):
    a: int
    b: dt.date | None = None


@dataclasses.dataclass
class Part:
    a: int
    b: int = dataclasses.field(init=False, default=3)
    c: dataclasses.InitVar[int] = 4


Stripping = Annotated[str, StringConstraints(strip_whitespace=True, min_length=2, max_length=4)]
Caps = Annotated[str, StringConstraints(strip_whitespace=True, pattern=r"^a", to_upper=True)]
SUPPRESSED = contextlib.suppress(ValidationError)


class Strange(BaseModel):
    what: int
    where: p.FilePath | None


class Outer(BaseModel):
    inner: list[Strange]


class StrangeRow(t.NamedTuple):
    where: complex


T1 = t.TypeVar("T1", bound=int)

READ: list[Any] = [
    int, float, bool, str, bytes, None, object, Any, list, dict, tuple, dt.date, dt.datetime,
    dt.time, uuid.UUID, Decimal, pathlib.Path, pathlib.PurePosixPath, os.PathLike[str],
    ipaddress.IPv4Address, Colour, Movie, Row, Part, Root, t.NewType("N", int), T1, list[bytes],
    dict[str, Decimal], tuple[int, ...], tuple[()], collections.deque[int],
    collections.defaultdict[str, int], collections.OrderedDict[str, int], collections.Counter[str],
    t.Sequence[dt.date], t.Mapping[str, int], t.Iterable[int], t.AnyStr, Literal["a", 1, True],
    int | str | None, bytes | None, Strict, Stripped, Short, Aliased, Defaults, Extras,
    Annotated[str, "any metadata"], Annotated[int | None, Field(gt=3)],
    Annotated[Cat | Dog, Field(discriminator="kind")], Stripping, Caps,
    p.UUID1, p.UUID3, p.UUID4, p.UUID5, p.UUID6, p.UUID7, p.UUID8,
    p.NaiveDatetime, p.AwareDatetime, p.SecretStr, p.SecretBytes, p.Secret[int], p.JsonValue,
    p.FiniteFloat, p.PositiveFloat, p.NegativeFloat, p.NonNegativeFloat, p.NonPositiveFloat,
    p.PositiveInt, p.NegativeInt, p.StrictInt, p.StrictFloat, p.StrictBool, p.StrictStr,
    p.StrictBytes, p.InstanceOf[int], p.SkipValidation[int], p.OnErrorOmit[int],
    p.condecimal(gt=0, lt=1), p.condecimal(ge=Decimal("0.1"), le=3), p.confloat(gt=0.1, lt=0.3),
    p.confloat(gt=0, ge=0.5, lt=1, le=1), p.conint(gt=2, le=9), p.conbytes(max_length=3),
    p.conlist(int, min_length=1, max_length=2), p.constr(max_length=3),
    *(Annotated[str, Field(pattern=pattern)] for pattern in (
        r"^\S\s$", r"^\D{9}$", r"^\W{9}$", r"^[^\d]{9}$", r"^.{9}$", r"^[^\w]\w\d{1,3}$", r"b$",
    )),
    Annotated[str, Field(pattern=re.compile(r"^\S\s\D\W$"))],
]  # fmt: skip
"""All that the mask lets through is an instance."""

VALIDATED: list[Any] = [
    p.PastDate, p.FutureDate, p.PastDatetime, p.FutureDatetime,
    Annotated[str, p.AfterValidator(str.strip), Field(min_length=3)],
]  # fmt: skip
"""The same, but for what depends on the clock or on the user's own function."""

REFUSED: list[Any] = [
    set[int], frozenset[int], dt.timedelta, complex, range, bytearray, memoryview, slice, type,
    type[int], t.Callable[[int], int], t.Hashable, t.Pattern[str], re.Pattern[bytes], t.NoReturn,
    ipaddress.IPv4Network, ipaddress.IPv4Interface, ipaddress.IPv6Address, ipaddress.IPv6Network,
    fractions.Fraction, zoneinfo.ZoneInfo, decimal.Context, Dates, Tuples, Literal[Colour.RED],
    Literal[b"a"], collections.OrderedDict[int, int], collections.Counter[int],
    collections.defaultdict[dt.date, int], dict[bool, int], dict[Stripping, int],
    dict[Literal["a"], int], ShortKeys, Encoded, Pathed, StrippedAndLong, int.__add__, len,
    p.IPvAnyAddress, p.IPvAnyInterface, p.IPvAnyNetwork, p.Json, p.Json[int], p.Base64Bytes,
    p.Base64Str, p.Base64UrlBytes, p.Base64UrlStr, p.FilePath, p.DirectoryPath, p.NewPath,
    p.ByteSize, p.ImportString, p.AnyUrl, p.HttpUrl, p.FileUrl, p.PostgresDsn, p.RedisDsn,
    p.WebsocketUrl, p.EmailStr, p.NameEmail, p.conset(int),
    p.condecimal(max_digits=3, decimal_places=2), p.condecimal(multiple_of=Decimal("0.5")),
    p.confloat(multiple_of=2), p.condate(gt=dt.date(2024, 1, 1)),
    Annotated[int | str, Field(gt=3)], Annotated[p.SecretStr, Field(min_length=3)],
    Annotated[pathlib.Path, Field(min_length=3)], Annotated[Decimal | None, Field(max_digits=1)],
    list[p.UUID4 | p.FilePath], Annotated[str, Field(pattern="^[[:alpha:]]$")],
    Annotated[str, Field(pattern="^[a-z&&[^b]]$")],
]  # fmt: skip


def compiled(tp: Any) -> tuple[TypeOf, Grammar]:
    constraint = TypeOf(tp)
    return constraint, COMPILER.compile(constraint)


def walks(grammar: Grammar, count: int) -> Iterator[str]:
    rng = random.Random(0)
    for _ in range(count):
        most = grammar.min_tokens + rng.choice([0, 1, 5, 20, 40])
        yield walk(Matcher(grammar, max_tokens=most), rng).decode()


@pytest.mark.parametrize("tp", READ, ids=str)
def test_all_that_the_mask_of_a_type_allows_is_read_back(tp: Any) -> None:
    constraint, grammar = compiled(tp)
    for text in walks(grammar, 50):
        constraint.parse(text)


@pytest.mark.parametrize("tp", VALIDATED, ids=str)
def test_a_validator_may_refuse_more_than_the_mask(tp: Any) -> None:
    constraint, grammar = compiled(tp)
    for text in walks(grammar, 50):
        with contextlib.suppress(ValidationError):
            constraint.parse(text)


@pytest.mark.parametrize("tp", REFUSED, ids=str)
def test_a_type_that_asks_more_than_its_schema_says_is_refused(tp: Any) -> None:
    with pytest.raises(GrammarError):
        compiled(tp)


EXPORTED = {
    name: getattr(sys.modules[module], name)
    for module in ("pydantic.types", "pydantic.networks")
    for name in sys.modules[module].__all__
}


@pytest.mark.parametrize("name", sorted(EXPORTED))
def test_all_that_pydantic_exports_is_refused_or_read_back(name: str) -> None:
    """Also what a later release adds: a new type of strings must not pass as any string."""
    try:
        constraint, grammar = compiled(EXPORTED[name])
    except GrammarError:
        return
    for text in walks(grammar, 20):
        with contextlib.nullcontext() if EXPORTED[name] not in VALIDATED else SUPPRESSED:
            constraint.parse(text)


@pytest.mark.parametrize(
    ("tp", "place"),
    [
        (Strange, "Strange.where"),
        (list[Strange], "Strange.where"),
        (dict[str, Outer], "Strange.where"),
        (StrangeRow, "StrangeRow.where"),
        (Pathed, "Pathed.a"),
    ],
)
def test_the_refusal_of_a_type_says_where(tp: Any, place: str) -> None:
    with pytest.raises(UnsupportedError, match=f" at {place}, which its JSON schema") as caught:
        TypeOf(tp)
    assert caught.value.position == place


def test_a_function_is_no_type() -> None:
    for tp in (lambda a: a, functools.partial(lambda a: a, 1)):
        with pytest.raises(GrammarError, match="is a function; give a type"):
            TypeOf(tp)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="there, pydantic reads it")
def test_the_typed_dict_of_typing_is_refused_with_the_way_out() -> None:
    plain = t.TypedDict("plain", {"a": int})  # noqa: UP013 - not the one of typing_extensions
    for tp in (plain, list[plain]):
        with pytest.raises(GrammarError, match=r"take TypedDict from typing_extensions$"):
            TypeOf(tp)


def test_the_version_of_a_uuid_is_in_its_mask() -> None:
    for version in (1, 3, 4, 5, 6, 7, 8):
        text = f"2eb8aa08-aa98-{version}1ea-b4aa-73b441d16380"
        assert accepts(TypeOf(getattr(p, f"UUID{version}")), text)
        assert accepts(TypeOf(uuid.UUID), text)
        assert not accepts(TypeOf(getattr(p, f"UUID{version}")), text.replace("-b4", "-04"))
        other = text.replace(f"-{version}1ea", f"-{version % 8 + 1}1ea")
        assert not accepts(TypeOf(getattr(p, f"UUID{version}")), other)


def test_a_bound_holds_for_the_number_that_is_read() -> None:
    """0.99999999999999999999 is below 1; its float is not."""
    for below in (p.confloat(lt=1), p.condecimal(lt=1)):
        assert accepts(TypeOf(below), "0.9999999999999999")
        assert not accepts(TypeOf(below), "0.99999999999999999999")
    for positive in (p.PositiveFloat, p.condecimal(gt=0)):
        assert accepts(TypeOf(positive), f"0.{'0' * 300}1")
        assert not accepts(TypeOf(positive), f"0.{'0' * 400}1")
        assert not accepts(TypeOf(positive), "0.0")
    with pytest.raises(UnsupportedError, match="leaves no float"):
        TypeOf(p.condecimal(gt=Decimal("1e400")))


def test_a_zone_is_written_where_it_is_asked_for() -> None:
    for tp, naive, aware in [
        (dt.datetime, False, True), (p.AwareDatetime, False, True), (p.NaiveDatetime, True, False),
    ]:  # fmt: skip
        assert accepts(TypeOf(tp), "2024-02-29T10:20:30") == naive
        assert accepts(TypeOf(tp), "2024-02-29T10:20:30+02:00") == aware


def test_white_space_is_what_all_dialects_take_for_it() -> None:
    constraint = TypeOf(Annotated[str, Field(pattern=r"^\S\s$")])
    for number in (*range(0x100), 0x1680, 0x180E, *range(0x2000, 0x2030), 0x205F, 0x3000, 0xFEFF):
        for text in (chr(number) + " ", "a" + chr(number)):
            if accepts(constraint, text):
                constraint.parse(text)


CLOCKS = [f"{clock}:{second}{fraction}"
    for clock in ("00:00", "09:59", "10:00", "19:59", "20:00", "23:59")
    for second in ("00", "09", "10", "59")
    for fraction in ("", *(f".{'9' * size}" for size in range(1, 10)), ".000000001")
]  # fmt: skip
ZONES = ["Z", "z", *(sign + at for sign in "+-" for at in ("00:00", "09:59", "19:59", "23:59"))]
DAYS = ["0001-01-01", "0004-02-29", "1900-02-28", "2000-02-29", "9999-12-31"]


@pytest.mark.parametrize(
    ("tp", "name", "texts"),
    [
        (dt.time, "time", [clock + zone for clock in CLOCKS for zone in ZONES]),
        (dt.datetime, "date-time",
         [f"{day}{mark}{clock}{zone}"
          for day in DAYS for mark in "Tt" for clock in CLOCKS for zone in ZONES]),
        (p.NaiveDatetime, "naive-date-time",
         [f"{day}{mark}{clock}" for day in DAYS for mark in "Tt" for clock in CLOCKS]),
        (dt.date, "date",
         [f"{year:04}-{month:02}-{day:02}"
          for year in (0, 1, 4, 99, 100, 400, 999, 1000, 1900, 2000, 2024, 2100, 9996, 9999)
          for month in range(14) for day in range(33)]),
    ],
)  # fmt: skip
def test_all_dates_and_times_of_the_mask_are_read(tp: Any, name: str, texts: list[str]) -> None:
    """Each part of the pattern at both ends of each of its ranges, in every combination."""
    written = [text for text in texts if re.fullmatch(TYPE_FORMATS[name], text)]
    assert len(written) == len(texts) or name == "date"
    constraint = TypeOf(tp)
    for text in written:
        constraint.parse(text)


@pytest.mark.parametrize(
    "text",
    ["24:00:00Z", "23:59:60Z", "23:60:00Z", "10:20:30.Z", "10:20:30.1234567891Z", "10:20:30+24:00",
     "10:20:30+99:99", "10:20:30+10:60", "10:20:30-0100", "10:20Z"],
)  # fmt: skip
def test_what_no_clock_shows_is_not_written(text: str) -> None:
    assert not accepts(TypeOf(dt.time), text)
    assert not accepts(TypeOf(dt.datetime), f"2024-02-29T{text}")
