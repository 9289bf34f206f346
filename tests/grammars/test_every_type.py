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


class Digit(enum.IntEnum):
    ONE = 1
    TWO = 2


class Tone(str, enum.Enum):  # noqa: UP042 - a plain mix-in
    LOW = "low"
    HIGH = "high"


class Low(BaseModel):
    tone: Literal[Tone.LOW] = Field(default=Tone.LOW, alias="t")
    model_config = ConfigDict(extra="allow")


class High(BaseModel):
    tone: Literal[Tone.HIGH] = Field(alias="t")
    a: int = 3


class Hexed(BaseModel):
    model_config = ConfigDict(val_json_bytes="hex")
    a: dict[bytes, bytes]


class EncodedAndLong(BaseModel):
    model_config = ConfigDict(val_json_bytes="base64")
    a: bytes = Field(min_length=2)


class Tree(BaseModel):
    label: str
    left: Tree | None = None
    rest: dict[str, Tree] = {}


class Leaf(BaseModel):
    kind: Literal["leaf"] = "leaf"


class Branch(BaseModel):
    kind: Literal["branch"] = "branch"
    parts: list[Annotated[Leaf | Branch, Field(discriminator="kind")]]


@dataclasses.dataclass
class Chain:
    next: Chain | None = None


Nested = te.TypeAliasType("Nested", "int | list[Nested] | dict[str, Nested]")


class Endless(BaseModel):
    again: Endless


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int
    b: tuple[str, dt.date]


@dataclasses.dataclass(frozen=True)
class FrozenList:
    a: list[int]


def keyed(key: Any) -> Any:
    return dict[key, int]


def differing(item: Any, **lengths: int) -> Any:
    return p.conset(item, **lengths)


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
    # sets
    set[int], frozenset[dt.date], t.AbstractSet[str], set[tuple[int, frozenset[str]]], set[Frozen],
    differing(int), differing(float, max_length=2), differing(str, min_length=1),
    set[Colour | None],
    differing(int, min_length=2), differing(Colour, min_length=2),
    differing(bool | None, min_length=3, max_length=3),
    differing(p.conint(ge=0, le=5), min_length=3), set[ipaddress.IPv4Address], set[Decimal],
    # keys
    dict[int, str], dict[float, int], dict[Decimal, int], dict[bool, int], dict[bytes, int],
    dict[dt.date, int], dict[dt.datetime, int], dict[dt.time, int], dict[dt.timedelta, int],
    dict[uuid.UUID, int], dict[Literal["a", "b", 3], int], dict[Colour, int], dict[Digit, int],
    dict[Tone, Tone], dict[int | None, int], dict[int | Literal["a"], int], dict[Stripping, int],
    dict[Caps, int], keyed(p.constr(max_length=2)), dict[p.HttpUrl, int], ShortKeys,
    keyed(p.conint(ge=5, lt=120)), keyed(p.conint(gt=-12)), keyed(p.conint(le=-3)),
    keyed(p.conint(ge=-30, le=7)), dict[ipaddress.IPv6Address, int], t.Mapping[int, list[int]],
    collections.OrderedDict[int, int], collections.Counter[int], keyed(p.condate(ge=dt.date.max)),
    collections.defaultdict[dt.date, int],
    Annotated[dict[int, int], Field(min_length=1, max_length=2)],
    Annotated[dict[Tone, int], Field(min_length=2)],
    Annotated[dict[str, int], Field(min_length=2)],
    # numbers
    *(p.condecimal(**asked) for asked in (
        {"max_digits": 3, "decimal_places": 2}, {"max_digits": 3}, {"decimal_places": 2},
        {"max_digits": 20, "decimal_places": 2}, {"max_digits": 20, "decimal_places": 0},
        {"max_digits": 2, "decimal_places": 5}, {"decimal_places": 30}, {"max_digits": 40},
        {"max_digits": 4, "decimal_places": 1, "gt": Decimal("-0.3"), "le": Decimal("99.99")},
        {"multiple_of": Decimal("0.5")}, {"multiple_of": Decimal("0.01")}, {"multiple_of": 7},
        {"multiple_of": Decimal("0.25"), "max_digits": 4, "decimal_places": 1},
        {"multiple_of": Decimal("1e3")}, {"multiple_of": Decimal("0.3"), "gt": 1000},
    )),
    *(p.confloat(multiple_of=step) for step in (2, 0.5, 3, 0.1, 0.01, 0.3, 1e-5, 7e8)),
    p.confloat(multiple_of=0.1, gt=0.1, lt=3), p.conint(multiple_of=3),
    p.conint(multiple_of=7, gt=9),
    Annotated[Decimal | None, Field(max_digits=1)],
    # strings
    dt.timedelta, Encoded, Hexed, p.Base64Bytes, p.Base64UrlBytes,
    p.condate(gt=dt.date(2024, 1, 1)),
    p.condate(ge=dt.date(1999, 12, 30), lt=dt.date(2001, 2, 1)), p.AnyUrl, p.HttpUrl, p.AnyHttpUrl,
    p.WebsocketUrl, p.FtpUrl, p.PostgresDsn, p.RedisDsn,
    Annotated[p.AnyUrl, p.UrlConstraints(max_length=12)],
    ipaddress.IPv4Network, ipaddress.IPv4Interface, ipaddress.IPv6Address, ipaddress.IPv6Network,
    ipaddress.IPv6Interface, p.IPvAnyAddress, p.IPvAnyInterface, p.IPvAnyNetwork,
    # classes
    Tree, Branch, Chain, Nested, Literal[Tone.LOW], list[Tree],
    Annotated[Low | High, Field(discriminator="tone")],
]  # fmt: skip
"""All that the mask lets through is an instance."""

VALIDATED: list[Any] = [
    p.PastDate, p.FutureDate, p.PastDatetime, p.FutureDatetime,
    Annotated[str, p.AfterValidator(str.strip), Field(min_length=3)],
]  # fmt: skip
"""The same, but for what depends on the clock or on the user's own function."""

REFUSED: list[Any] = [
    complex, range, bytearray, memoryview, slice, type, type[int], t.Callable[[int], int],
    t.Hashable, t.Pattern[str], re.Pattern[bytes], t.NoReturn, fractions.Fraction,
    zoneinfo.ZoneInfo, decimal.Context, Dates, Tuples, Literal[Colour.RED], Literal[Digit.ONE],
    Literal[b"a"], Pathed, StrippedAndLong, int.__add__, len, Endless,
    dict[tuple[int], int], dict[None, int], dict[Literal[3], int], keyed(p.confloat(gt=3)),
    keyed(p.conint(multiple_of=3)), dict[Frozen, int], dict[int | list[int], int],
    Annotated[dict[float, int], Field(min_length=2)],
    set, set[Any], set[list[int]], set[Cat], set[Movie], set[FrozenList], set[p.JsonValue],
    differing(float, min_length=2), differing(Stripping, min_length=2),
    differing(Literal[1, True], min_length=2), differing(uuid.UUID, min_length=2), EncodedAndLong,
    p.Json, p.Json[int], p.Base64Str, p.Base64UrlStr, p.FilePath, p.DirectoryPath, p.NewPath,
    p.ByteSize, p.ImportString, p.FileUrl, p.EmailStr, p.NameEmail, p.condecimal(gt=1, lt=1),
    p.condecimal(multiple_of=Decimal("1.2345678901234567")),
    p.condecimal(multiple_of=Decimal("1e-20")),
    p.condecimal(max_digits=2, decimal_places=0, gt=100), p.condate(gt=dt.date.max),
    Annotated[dt.datetime, Field(gt=dt.datetime(2024, 1, 1, tzinfo=dt.UTC))],
    Annotated[dt.timedelta, Field(gt=dt.timedelta(1))],
    Annotated[int | str, Field(gt=3)], Annotated[p.SecretStr, Field(min_length=3)],
    Annotated[pathlib.Path, Field(min_length=3)], list[p.UUID4 | p.FilePath],
    Annotated[str, Field(pattern="^[[:alpha:]]$")], Annotated[str, Field(pattern="^[a-z&&[^b]]$")],
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


SPANS = [
    f"{sign}P{days}{clock}"
    for sign in ("", "-")
    for days in ("", "0D", "999999Y999999M999999D", "1Y2D", "999999W")
    for clock in ("", "T999999H999999M999999.999999S", "T0.1S", "T1H2S")
]  # fmt: skip
URLS = [
    f"http://{host}{port}{path}"
    for host in ("a", "A.b-c", "1.a", "1.2.3.4", "a.1", "256.1.1.1", "0x1", "xn--a", "a--b", "a_b")
    for port in ("", ":0", ":65535", ":65536", ":")
    for path in ("", "/", "/..//%41;'", "?a=b?/", "#f?", "/a?'", "/%zz", "/é")
]  # fmt: skip
DIGITS = ["0", "-0", "0.0", "9", "9.5", "0.01", "-0.99", "99.9", "999", "0.001", "0.0000000001"]
DIGITS += [f"{'9' * whole}{ending}" for whole in (3, 13, 15, 16, 26, 27, 40)
           for ending in ("", "0", ".9", ".5", ".00", ".99", ".999999999999999")]  # fmt: skip
MULTIPLES = [str(Decimal("0.1") * (10**size + odd)) for size in range(0, 24, 2) for odd in (3, 9)]


@pytest.mark.parametrize(
    ("tp", "texts", "least"),
    [
        (dt.timedelta, SPANS, 30),
        (p.HttpUrl, URLS, 40),
        (p.AnyUrl, [*URLS, "file://a:1", "file:///a", "a://b:1", "z+-.1://b"], 40),
        (p.condecimal(max_digits=4, decimal_places=2), DIGITS, 5),
        (p.condecimal(max_digits=3), DIGITS, 5),
        (p.condecimal(max_digits=20, decimal_places=1), DIGITS, 10),
        (p.condecimal(decimal_places=1, multiple_of=Decimal("0.5")), DIGITS, 5),
        (p.condecimal(multiple_of=Decimal("0.1")), MULTIPLES, 10),
        (p.confloat(multiple_of=0.1), MULTIPLES, 5),
        (p.confloat(multiple_of=0.5), [*DIGITS, *MULTIPLES], 8),
        (ipaddress.IPv4Network, [f"{a}.128.0.0/{n}" for a in (0, 8, 255) for n in range(40)], 50),
        (ipaddress.IPv6Network, [f"{a}::/{n}" for a in ("1:f000", "abc0") for n in range(140)], 6),
    ],
    ids=str,
)
def test_what_the_mask_allows_at_its_edges_is_read_back(
    tp: Any, texts: list[str], least: int
) -> None:
    constraint = TypeOf(tp)
    written = [text for text in texts if accepts(constraint, text)]
    assert len(written) >= least
    for text in written:
        constraint.parse(text)


def test_keys_are_written_within_their_bounds() -> None:
    for low, high in [(-12, 7), (0, 0), (5, 120), (-30, -9), (99, 1000)]:
        constraint = TypeOf(keyed(p.conint(ge=low, le=high)))
        written = {n for n in range(-150, 1100) if accepts(constraint, f'{{"{n}":0}}')}
        assert written == set(range(low, high + 1))
        assert not accepts(constraint, f'{{"0{high}":0}}')
    assert not accepts(TypeOf(dict[int, int]), '{"-0":0}')


def test_dates_are_written_within_their_bounds() -> None:
    first, last = dt.date(2023, 12, 30), dt.date(2024, 3, 2)
    constraint = TypeOf(p.condate(gt=first, le=last))
    days = [dt.date(2023, 12, 1) + dt.timedelta(days) for days in range(120)]
    assert [day for day in days if accepts(constraint, str(day))] == days[30:93]
