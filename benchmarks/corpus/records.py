"""Documents that people have extracted: invoices, CVs, tickets, metadata."""

from __future__ import annotations

from typing import Any

from benchmarks.corpus.case import (
    DATE,
    EMAIL,
    FLAG,
    TIME,
    Case,
    listing,
    nullable,
    number,
    one_of,
    record,
    schema_case,
    text,
    whole,
)

_LINE = record(
    description=text(minLength=1, maxLength=80),
    quantity=whole(1, 10_000),
    price=number(0, 1e6, multipleOf=0.01),
)


def _invoice() -> Case:
    schema = record(
        "note",
        number=text(pattern="^INV-[0-9]{4}-[0-9]{5}$"),
        date=DATE,
        customer=record(name=text(minLength=1, maxLength=60), email=EMAIL),
        currency=one_of("EUR", "USD", "GBP", "CHF", "JPY"),
        lines=listing(_LINE, 1, 50),
        paid=FLAG,
        note=text(maxLength=500),
    )
    good = {
        "number": "INV-2024-00017",
        "date": "2024-02-29",
        "customer": {"name": "Ada & Söhne", "email": "ada@example.org"},
        "currency": "EUR",
        "lines": [{"description": "Screws, 4 mm", "quantity": 200, "price": 0.07}],
        "paid": False,
    }
    longer = {
        **good,
        "lines": [
            {"description": "Oak board", "quantity": 3, "price": 49.9},
            {"description": 'Glue "strong"', "quantity": 1, "price": 12},
        ],
        "note": "Deliver on Monday.\nRing twice.",
    }
    return schema_case(
        "invoice",
        schema,
        [good, longer],
        [
            {**good, "date": "2023-02-29"},
            {**good, "lines": []},
            {**good, "lines": [{"description": "x", "quantity": 1, "price": 1.005}]},
        ],
    )


def _cv() -> Case:
    job = record(
        "until",
        employer=text(maxLength=60),
        title=text(maxLength=60),
        since=text(pattern="^[12][0-9]{3}-(0[1-9]|1[0-2])$"),
        until=nullable(text(pattern="^[12][0-9]{3}-(0[1-9]|1[0-2])$")),
    )
    schema = record(
        "summary links",
        name=text(minLength=2, maxLength=80),
        born=nullable(DATE),
        summary=text(maxLength=1_000),
        jobs=listing(job, 0, 20),
        skills=listing(text(minLength=1, maxLength=30), 1, 30, uniqueItems=False),
        languages=listing(
            record(name=text(maxLength=20), level=one_of("A1", "A2", "B1", "B2", "C1", "C2")), 0, 9
        ),
        links=listing(text(format="uri"), 0, 5),
    )
    harvard = {
        "employer": "Harvard",
        "title": "Programmer",
        "since": "1944-07",
        "until": "1949-01",
    }
    good = {
        "name": "Grace Hopper",
        "born": "1906-12-09",
        "summary": "Wrote the first compiler; found the first bug.",
        "jobs": [
            harvard,
            {"employer": "US Navy", "title": "Rear admiral", "since": "1967-08", "until": None},
        ],
        "skills": ["COBOL", "compilers"],
        "languages": [{"name": "English", "level": "C2"}],
    }
    return schema_case(
        "cv",
        schema,
        [good, {"name": "Al", "born": None, "jobs": [], "skills": ["tea"], "languages": []}],
        [
            {**good, "jobs": [{**harvard, "since": "1944-13"}]},
            {**good, "languages": [{"name": "English", "level": "D1"}]},
            {**good, "skills": []},
        ],
    )


def _package() -> Case:
    schema = record(
        "homepage dependencies",
        name=text(pattern="^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$", maxLength=40),
        version=text(pattern=r"^[0-9]+(\.[0-9]+){1,3}((a|b|rc)[0-9]+)?$"),
        license=one_of("MIT", "Apache-2.0", "BSD-3-Clause", "GPL-3.0-only", "other"),
        python=nullable(text(pattern=r"^>=3\.[0-9]{1,2}$")),
        keywords=listing(text(pattern="^[a-z][a-z0-9-]{1,20}$"), 0, 8),
        homepage=text(format="uri"),
        dependencies={
            "type": "object",
            "propertyNames": {"pattern": "^[a-z0-9-]{1,30}$"},
            "additionalProperties": text(pattern=r"^([<>=~!]=|[<>])[0-9.*]+$"),
            "maxProperties": 30,
        },
    )
    good = {
        "name": "tomlkite",
        "version": "2.4.1rc1",
        "license": "MIT",
        "python": ">=3.11",
        "keywords": ["toml", "parser"],
        "homepage": "https://example.org/tomlkite",
        "dependencies": {"attrs": ">=23.1", "idna": "~=3.0"},
    }
    bare: dict[str, Any] = {
        "name": "x",
        "version": "0.1",
        "license": "other",
        "python": None,
        "keywords": [],
    }
    return schema_case(
        "package",
        schema,
        [good, bare],
        [
            {**good, "name": "-tomlkite"},
            {**good, "version": "2.4.1rc"},
            {**good, "dependencies": {"attrs": "23"}},
        ],
    )


def _event() -> Case:
    schema = record(
        "location repeat",
        title=text(minLength=1, maxLength=100),
        start=TIME,
        minutes=whole(5, 1_440, multipleOf=5),
        attendees=listing(record(email=EMAIL, required=FLAG), 1, 100),
        location={"anyOf": [text(maxLength=80), record(room=whole(1, 999), floor=whole(-3, 60))]},
        repeat=record("count", every=one_of("day", "week", "month"), count=whole(1, 52)),
    )
    good = {
        "title": "Stand-up",
        "start": "2025-03-30T09:15:00Z",
        "minutes": 15,
        "attendees": [{"email": "a.b@example.com", "required": True}],
    }
    return schema_case(
        "event",
        schema,
        [
            {**good, "location": {"room": 12, "floor": -1}, "repeat": {"every": "day"}},
            {**good, "location": "roof", "repeat": {"every": "week", "count": 52}},
        ],
        [
            {**good, "minutes": 7},
            {**good, "start": "2025-03-30T25:15:00Z"},
            {**good, "location": {"room": 0, "floor": 2}},
        ],
    )


def _address() -> Case:
    schema = {
        **record(
            "state",
            street=text(minLength=1, maxLength=60),
            city=text(minLength=1, maxLength=40),
            country=one_of("US", "DE", "NL"),
            state=text(pattern="^[A-Z]{2}$"),
            postcode=text(minLength=4, maxLength=10),
        ),
        "if": {"properties": {"country": {"const": "US"}}},
        "then": {
            "required": ["state"],
            "properties": {"postcode": {"pattern": "^[0-9]{5}(-[0-9]{4})?$"}},
        },
        "else": {"properties": {"postcode": {"pattern": "^[0-9]{5}$|^[0-9]{4} [A-Z]{2}$"}}},
    }
    us = {
        "street": "1 Infinite Loop",
        "city": "Cupertino",
        "country": "US",
        "state": "CA",
        "postcode": "95014-2083",
    }
    nl = {"street": "Damrak 1", "city": "Amsterdam", "country": "NL", "postcode": "1012 LG"}
    return schema_case(
        "address",
        schema,
        [us, nl],
        [
            {**us, "postcode": "1012 LG"},
            {**nl, "postcode": "95014-2083"},
            {k: v for k, v in us.items() if k != "state"},
        ],
    )


def _product() -> Case:
    schema = record(
        "sale_price size",
        sku=text(pattern="^[A-Z]{3}-[0-9]{6}$"),
        title=text(minLength=1, maxLength=120),
        price=number(exclusiveMinimum=0, maximum=99_999.99),
        sale_price=nullable(number(exclusiveMinimum=0)),
        size=record(width=number(0, 500), height=number(0, 500), unit=one_of("cm", "in")),
        colours=listing(one_of("red", "green", "blue", "black", "white"), 1, 3, uniqueItems=True),
        stock=whole(0),
    )
    good = {
        "sku": "TBL-000123",
        "title": "Table, round",
        "price": 249.95,
        "size": {"width": 120, "height": 74.5, "unit": "cm"},
        "colours": ["white", "black"],
        "stock": 12,
    }
    return schema_case(
        "product",
        schema,
        [good, {k: v for k, v in good.items() if k != "size"}],
        [
            {**good, "price": 0},
            {**good, "colours": ["red", "red"]},
            {**good, "sku": "TBL-00012"},
        ],
    )


def _recipe() -> Case:
    schema = record(
        title=text(minLength=3, maxLength=60),
        serves=whole(1, 24),
        ingredients=listing(
            record(
                amount=nullable(number(0, 5_000)),
                unit=one_of("g", "ml", "tsp", "tbsp", "piece", None),
                name=text(minLength=1, maxLength=40),
            ),
            1,
            40,
        ),
        steps=listing(text(minLength=5, maxLength=400), 1, 30),
        vegan=FLAG,
    )
    good = {
        "title": "Crêpes",
        "serves": 4,
        "ingredients": [
            {"amount": 250, "unit": "g", "name": "flour"},
            {"amount": None, "unit": None, "name": "salt"},
        ],
        "steps": ["Whisk everything.", "Fry at 180 °C until golden – then flip."],
        "vegan": False,
    }
    return schema_case(
        "recipe",
        schema,
        [good, {**good, "serves": 24}],
        [{**good, "serves": 25}, {**good, "steps": ["Fry"]}, {**good, "vegan": None}],
    )


def _book() -> Case:
    schema = record(
        "subtitle",
        isbn=text(pattern="^97[89]-[0-9]{1,5}-[0-9]{1,7}-[0-9]{1,6}-[0-9]$"),
        title=text(minLength=1, maxLength=200),
        subtitle=text(maxLength=200),
        authors=listing(record(given=text(maxLength=40), family=text(minLength=1)), 1, 12),
        year=whole(1450, 2100),
        pages=whole(exclusiveMinimum=0),
        rating=number(0, 5, multipleOf=0.5),
    )
    good = {
        "isbn": "978-3-16-148410-0",
        "title": "Sein und Zeit",
        "authors": [{"given": "M.", "family": "Heidegger"}],
        "year": 1927,
        "pages": 445,
        "rating": 3.5,
    }
    return schema_case(
        "book",
        schema,
        [good, {**good, "rating": 0}],
        [{**good, "rating": 3.3}, {**good, "year": 1400}, {**good, "pages": 0}],
    )


def _weather() -> Case:
    schema = record(
        station=text(pattern="^[A-Z]{4}$"),
        at=TIME,
        temperature=number(-90, 60),
        humidity=whole(0, 100),
        pressure=number(850, 1_100),
        wind=record(speed=number(0, 120), degrees=whole(0, 359)),
        clouds=listing(one_of("few", "scattered", "broken", "overcast"), 0, 4),
    )
    good = {
        "station": "EDDB",
        "at": "2024-12-31T23:59:59+01:00",
        "temperature": -4.25,
        "humidity": 93,
        "pressure": 1013.25,
        "wind": {"speed": 3.1, "degrees": 359},
        "clouds": ["few", "broken"],
    }
    return schema_case(
        "weather",
        schema,
        [good, {**good, "temperature": 60}],
        [
            {**good, "temperature": -90.5},
            {**good, "wind": {"speed": 1, "degrees": 360}},
            {**good, "at": "2024-12-31T23:59:59"},
        ],
    )


def _transfer() -> Case:
    schema = record(
        "purpose",
        to=record(
            name=text(minLength=1, maxLength=70),
            iban=text(pattern="^[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}$"),
        ),
        amount=number(0.01, 1_000_000, multipleOf=0.01),
        purpose=text(maxLength=140),
        when={"anyOf": [{"const": "now"}, DATE]},
    )
    good = {
        "to": {"name": "Stadtwerke", "iban": "DE02120300000000202051"},
        "amount": 120.5,
        "purpose": "Strom 3/24",
        "when": "now",
    }
    return schema_case(
        "transfer",
        schema,
        [good, {**good, "when": "2024-04-01"}],
        [{**good, "when": "later"}, {**good, "amount": 0}, {**good, "amount": 1.001}],
    )


def _medical() -> Case:
    schema = record(
        patient=record(id=text(format="uuid"), sex=one_of("f", "m", "x"), age=whole(0, 130)),
        diagnoses=listing(
            record(code=text(pattern=r"^[A-TV-Z][0-9][0-9AB](\.[0-9A-KXZ]{1,4})?$"), sure=FLAG)
        ),
        drugs=listing(
            record(
                "until",
                name=text(minLength=2, maxLength=50),
                mg=nullable(number(exclusiveMinimum=0)),
                times=listing(text(format="time"), 1, 6),
                until=DATE,
            )
        ),
        smoker=nullable(FLAG),
    )
    good = {
        "patient": {"id": "0b0f2d2a-8d0f-4a9e-9a51-0c2c8d1d7b11", "sex": "x", "age": 41},
        "diagnoses": [{"code": "J45.901", "sure": True}],
        "drugs": [{"name": "salbutamol", "mg": 0.1, "times": ["08:00:00Z"], "until": "2025-06-30"}],
        "smoker": None,
    }
    empty = {**good, "diagnoses": [], "drugs": []}
    return schema_case(
        "medical",
        schema,
        [good, empty],
        [
            {**good, "diagnoses": [{"code": "U45", "sure": True}]},
            {**good, "smoker": "no"},
            {**empty, "patient": {"id": "0b0f2d2a", "sex": "x", "age": 41}},
        ],
    )


def _flight() -> Case:
    airport = text(pattern="^[A-Z]{3}$")
    schema = record(
        flight=text(pattern="^[A-Z0-9]{2}[0-9]{1,4}$"),
        leg=record(**{"from": airport, "to": airport}),
        departs=TIME,
        seats=listing(text(pattern="^[1-9][0-9]?[A-K]$"), 1, 9),
        cabin=one_of("economy", "premium", "business", "first"),
        bags=whole(0, 5),
    )
    good = {
        "flight": "LH400",
        "leg": {"from": "FRA", "to": "JFK"},
        "departs": "2025-01-07T13:05:00-05:00",
        "seats": ["12A", "9K"],
        "cabin": "economy",
        "bags": 2,
    }
    return schema_case(
        "flight",
        schema,
        [good, {**good, "seats": ["1B"]}],
        [{**good, "seats": ["100A"]}, {**good, "cabin": "cargo"}, {**good, "bags": 2.5}],
    )


def _ticket() -> Case:
    schema = record(
        "due",
        subject=text(minLength=5, maxLength=120),
        body=text(maxLength=5_000),
        severity=one_of("low", "normal", "high", "critical"),
        component=text(enum=["api", "ui", "billing", "docs"]),
        labels=listing(text(pattern="^[a-z]+(-[a-z]+)*$", maxLength=24), 0, 10),
        due=DATE,
        votes=whole(0),
    )
    good = {
        "subject": "Crash on start",
        "body": "It says:\n\tSegmentation fault (core dumped)\n" + "and again, " * 20,
        "severity": "critical",
        "component": "api",
        "labels": ["crash", "needs-triage"],
        "votes": 3,
    }
    due = {**{k: v for k, v in good.items() if k != "votes"}, "body": "", "due": "2024-01-31"}
    return schema_case(
        "ticket",
        schema,
        [good, {**due, "votes": 0}],
        [
            {**good, "subject": "Hm"},
            {**good, "labels": ["-crash"]},
            {**due, "due": "2024-01-32", "votes": 0},
        ],
    )


def _survey() -> Case:
    schema = {
        "type": "object",
        "properties": {"respondent": whole(1)},
        "required": ["respondent"],
        "patternProperties": {
            "^q[0-9]{1,2}$": {"anyOf": [whole(1, 5), text(maxLength=80)]},
            "^skip_": FLAG,
        },
        "additionalProperties": False,
        "minProperties": 2,
    }
    return schema_case(
        "survey",
        schema,
        [{"respondent": 7, "q1": 5, "q2": "none"}, {"respondent": 8, "skip_3": True, "q12": 1}],
        [{"respondent": 7}, {"respondent": 7, "q1": 6}, {"respondent": 7, "x": 1}],
    )


def _playlist() -> Case:
    track = record(
        title=text(minLength=1, maxLength=80),
        artist=text(minLength=1, maxLength=60),
        length=text(pattern="^[0-5]?[0-9]:[0-5][0-9]$"),
        explicit=FLAG,
    )
    schema = record(
        name=text(minLength=1, maxLength=60), public=FLAG, tracks=listing(track, 1, 200)
    )
    song = {"title": "Nüwa", "artist": "Björk", "length": "4:33", "explicit": False}
    good = {"name": "Zoë's", "public": True, "tracks": [song, {**song, "title": "日本"}]}
    return schema_case(
        "playlist",
        schema,
        [good, {**good, "tracks": [song] * 3}],
        [
            {**good, "tracks": [{**song, "length": "4:63"}]},
            {**good, "tracks": []},
            {**good, "name": ""},
        ],
    )


def _listing() -> Case:
    schema = record(
        "garden",
        kind=one_of("flat", "house", "office"),
        rent=record(amount=whole(1, 100_000), warm=FLAG),
        rooms=number(1, 20, multipleOf=0.5),
        area=number(5, 2_000),
        built=nullable(whole(1000, 2100)),
        garden=number(0),
        features=listing(one_of("lift", "balcony", "kitchen", "parking", "pets"), uniqueItems=True),
        position={
            "type": "array",
            "prefixItems": [number(-90, 90), number(-180, 180)],
            "items": False,
            "minItems": 2,
        },
    )
    good = {
        "kind": "flat",
        "rent": {"amount": 950, "warm": True},
        "rooms": 2.5,
        "area": 61.3,
        "built": 1908,
        "features": ["balcony", "pets"],
        "position": [52.5163, -13.3777],
    }
    return schema_case(
        "real_estate",
        schema,
        [good, {**good, "built": None, "features": []}],
        [
            {**good, "rooms": 2.25},
            {**good, "position": [52.5]},
            {**good, "features": ["lift", "pets", "lift"]},
        ],
    )


def _chess() -> Case:
    move = text(pattern="^(O-O(-O)?|[KQRBN]?[a-h]?[1-8]?x?[a-h][1-8](=[QRBN])?)[+#]?$", maxLength=8)
    schema = record(
        white=text(minLength=1, maxLength=40),
        black=text(minLength=1, maxLength=40),
        result=one_of("1-0", "0-1", "1/2-1/2", "*"),
        moves=listing(listing(move, 1, 2), 0, 300),
    )
    good = {
        "white": "Anderssen",
        "black": "Kieseritzky",
        "result": "1-0",
        "moves": [["e4", "e5"], ["f4", "exf4"], ["Bc4", "Qh4+"], ["Be7#"]],
    }
    return schema_case(
        "chess",
        schema,
        [good, {**good, "moves": [["O-O-O", "e8=Q"]]}],
        [{**good, "result": "2-0"}, {**good, "moves": [["e9"]]}, {**good, "moves": [[]]}],
    )


def _citation() -> Case:
    schema = record(
        "doi pages",
        kind=one_of("article", "book", "inproceedings", "misc"),
        key=text(pattern="^[a-z]+[0-9]{4}[a-z]?$"),
        authors=listing(text(pattern="^[^,]+, [^,]+$", maxLength=60), 1, 20),
        title=text(minLength=1, maxLength=250),
        year=whole(1600, 2100),
        doi=text(pattern=r"^10\.[0-9]{4,9}/[A-Za-z0-9./_-]+$"),
        pages=text(pattern="^[0-9]+(--[0-9]+)?$"),
    )
    good = {
        "kind": "article",
        "key": "brzozowski1964",
        "authors": ["Brzozowski, Janusz A."],
        "title": "Derivatives of Regular Expressions",
        "year": 1964,
        "doi": "10.1145/321239.321249",
        "pages": "481--494",
    }
    return schema_case(
        "citation",
        schema,
        [good, {**good, "authors": ["Knuth, D.", "Erdős, P."]}],
        [
            {**good, "authors": ["Knuth"]},
            {**good, "pages": "481-494"},
            {**good, "doi": "11.1145/3"},
        ],
    )


def _person() -> Case:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "email": {"type": "string"},
        },
        "required": ["name", "age"],
    }
    return schema_case(
        "person",
        schema,
        [{"name": "Ada", "age": 36}, {"name": "", "age": 0, "email": "a@b"}],
        [{"name": "Ada", "age": 151}, {"name": "Ada"}, {"name": None, "age": 1}],
    )


def _bug() -> Case:
    schema = record(
        id=whole(1),
        state=one_of("open", "fixed", "won't fix"),
        seen=record(first=DATE, last=DATE),
        trace=listing(
            record(file=text(pattern=r"^[\w/.-]+\.py$"), line=whole(1), function=text(minLength=1)),
            1,
            50,
        ),
        hash=text(pattern="^[0-9a-f]{40}$"),
    )
    frame = {"file": "src/app/main.py", "line": 42, "function": "<lambda>"}
    good = {
        "id": 7,
        "state": "won't fix",
        "seen": {"first": "2024-01-01", "last": "2024-12-31"},
        "trace": [frame, {**frame, "line": 1}],
        "hash": "0123456789abcdef0123456789abcdef01234567",
    }
    return schema_case(
        "bug",
        schema,
        [good, {**good, "state": "open"}],
        [
            {**good, "hash": "0123"},
            {**good, "trace": [{**frame, "file": "main.rs"}]},
            {**good, "seen": {"first": "2024-01-01"}},
        ],
    )


def cases() -> list[Case]:
    """The documents."""
    makers = [_invoice, _cv, _package, _event, _address, _product, _recipe, _book, _weather]
    makers += [_transfer, _medical, _flight, _ticket, _survey, _playlist, _listing, _chess]
    makers += [_citation, _person, _bug]
    return [make() for make in makers]
