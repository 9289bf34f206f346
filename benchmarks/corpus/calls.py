"""What programs are told: calls of tools, requests, configurations, events; unions by a tag."""

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
    tagged,
    text,
    whole,
)

_ANY_MAP: dict[str, Any] = {"type": "object", "additionalProperties": True}


def _search_call() -> Case:
    schema = record(
        name={"const": "search"},
        arguments=record(
            "limit after", query=text(minLength=1, maxLength=200), limit=whole(1, 100), after=DATE
        ),
    )
    good = {"name": "search", "arguments": {"query": 'cats -"dogs"', "limit": 10}}
    return schema_case(
        "search_call",
        schema,
        [good, {"name": "search", "arguments": {"query": "日本", "after": "2024-05-05"}}],
        [
            {"name": "find", "arguments": {"query": "x"}},
            {"name": "search", "arguments": {"query": ""}},
            {"name": "search", "arguments": {"query": "x", "limit": 101}},
        ],
    )


def _tools() -> Case:
    def tool(name: str, **arguments: dict[str, Any]) -> dict[str, Any]:
        return record(tool={"const": name}, arguments=record(**arguments))

    schema = {
        "oneOf": [
            tool("read_file", path=text(pattern="^/[^\\x00]*$", maxLength=200)),
            tool("write_file", path=text(pattern="^/", maxLength=200), content=text()),
            tool("run", command=listing(text(), 1, 50), timeout=whole(1, 600)),
            tool("weather", city=text(minLength=1), unit=one_of("C", "F")),
            tool("calculate", expression=text(pattern=r"^[0-9+*/(). -]+$")),
        ]
    }
    return schema_case(
        "tools",
        schema,
        [
            {"tool": "run", "arguments": {"command": ["ls", "-l"], "timeout": 5}},
            {"tool": "calculate", "arguments": {"expression": "(1+2)*3.5"}},
            {"tool": "write_file", "arguments": {"path": "/tmp/x", "content": "a\nb"}},
        ],
        [
            {"tool": "run", "arguments": {"city": "Rome", "unit": "C"}},
            {"tool": "read_file", "arguments": {"path": "tmp"}},
            {"tool": "weather", "arguments": {"city": "Rome", "unit": "K"}},
        ],
    )


def _chat() -> Case:
    call = record(id=text(pattern="^call_[A-Za-z0-9]{8}$"), name=text(minLength=1), input=_ANY_MAP)
    schema = listing(
        {
            "anyOf": [
                record(role=one_of("system", "user"), content=text(minLength=1)),
                record(
                    "content calls",
                    role={"const": "assistant"},
                    content=nullable(text()),
                    calls=listing(call, 1, 4),
                ),
                record(role={"const": "tool"}, id=text(), content=text()),
            ]
        },
        1,
        100,
    )
    question = {"role": "user", "content": "How warm is it?"}
    call_it = {"id": "call_a1B2c3D4", "name": "weather", "input": {"city": "Rome", "x": [1, {}]}}
    return schema_case(
        "chat",
        schema,
        [
            [question, {"role": "assistant", "content": None, "calls": [call_it]}],
            [{"role": "tool", "id": "call_a1B2c3D4", "content": "31 °C"}],
        ],
        [
            [],
            [{"role": "root", "content": "x"}],
            [question, {"role": "assistant", "calls": [{**call_it, "id": "a1B2c3D4"}]}],
        ],
    )


def _http() -> Case:
    schema = record(
        "body query",
        method=one_of("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"),
        path=text(pattern="^/([a-z0-9._~-]+/?)*$"),
        query={"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
        headers={
            "type": "object",
            "propertyNames": {"pattern": "^[A-Za-z-]+$"},
            "additionalProperties": text(pattern=r"^[\x20-\x7e]*$"),
        },
        body={},
    )
    good = {
        "method": "POST",
        "path": "/v1/users/7",
        "query": {"dry-run": True, "page": 2},
        "headers": {"Content-Type": "application/json", "Accept": "*/*"},
        "body": {"name": "Ada", "tags": [None, 1.5e3, "x"]},
    }
    return schema_case(
        "http_request",
        schema,
        [good, {"method": "GET", "path": "/", "headers": {}}],
        [
            {**good, "method": "FETCH"},
            {**good, "headers": {"X 1": "a"}},
            {**good, "query": {"a": None}},
        ],
    )


def _log() -> Case:
    schema = {
        "type": "object",
        "properties": {
            "time": TIME,
            "level": one_of("DEBUG", "INFO", "WARNING", "ERROR"),
            "logger": text(pattern=r"^[a-z_]+(\.[a-z_]+)*$"),
            "message": text(),
            "pid": whole(1, 4_194_304),
        },
        "required": ["time", "level", "message"],
        "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
    }
    good = {"time": "2024-06-01T00:00:00.125Z", "level": "INFO", "message": "up", "pid": 1}
    return schema_case(
        "log_record",
        schema,
        [good, {**good, "user": "ada", "ms": 1.5, "ok": True}],
        [{**good, "pid": 0}, {**good, "user": ["ada"]}, {**good, "time": "today"}],
    )


def _pipeline() -> Case:
    step = {
        "oneOf": [
            record("name", name=text(), run=text(minLength=1)),
            record("name", name=text(), uses=text(pattern=r"^[\w-]+/[\w-]+@v[0-9]+$")),
        ]
    }
    job = record(
        "needs env",
        image=text(pattern="^[a-z0-9./-]+(:[a-z0-9.-]+)?$"),
        needs=listing(text()),
        env={"type": "object", "additionalProperties": text()},
        steps=listing(step, 1, 40),
    )
    schema = record(
        on=listing(one_of("push", "pull_request", "schedule", "manual"), 1, uniqueItems=True),
        jobs={
            "type": "object",
            "patternProperties": {"^[a-z][a-z0-9_-]*$": job},
            "additionalProperties": False,
            "minProperties": 1,
        },
    )
    test = {
        "image": "python:3.11-slim",
        "env": {"CI": "true"},
        "steps": [{"uses": "actions/checkout@v4"}, {"name": "test", "run": "make test"}],
    }
    good = {"on": ["push", "manual"], "jobs": {"test": test, "lint": {**test, "env": {}}}}
    return schema_case(
        "ci_pipeline",
        schema,
        [good, {"on": ["push"], "jobs": {"a": test}}],
        [
            {"on": ["push"], "jobs": {}},
            {"on": ["push"], "jobs": {"A": test}},
            {"on": ["push"], "jobs": {"a": {**test, "steps": [{"run": "a", "uses": "b/c@v1"}]}}},
        ],
    )


def _server() -> Case:
    schema = {
        **record(
            "certificate key workers",
            host={"anyOf": [text(format="ipv4"), text(format="hostname")]},
            port=whole(1, 65_535),
            certificate=text(minLength=1),
            key=text(minLength=1),
            workers=whole(1, 256),
        ),
        "dependentRequired": {"certificate": ["key"], "key": ["certificate"]},
    }
    good = {"host": "10.0.0.1", "port": 8443, "certificate": "a.pem", "key": "b.pem"}
    return schema_case(
        "server_config",
        schema,
        [good, {"host": "db-1.example.org", "port": 1, "workers": 8}],
        [
            {"host": "10.0.0.1", "port": 8443, "certificate": "a.pem"},
            {**good, "port": 65_536},
            {**good, "host": "-x"},
        ],
    )


def _filter() -> Case:
    schema = {
        "$defs": {
            "filter": {
                "anyOf": [
                    record(**{"and": listing({"$ref": "#/$defs/filter"}, 1)}),
                    record(**{"or": listing({"$ref": "#/$defs/filter"}, 1)}),
                    record(
                        field=text(pattern="^[a-z_]{1,30}$"),
                        op=one_of("=", "!=", "<", "<=", ">", ">=", "in"),
                        value={"type": ["string", "number", "boolean", "null", "array"]},
                    ),
                ]
            }
        },
        "$ref": "#/$defs/filter",
    }
    leaf = {"field": "age", "op": ">=", "value": 18}
    return schema_case(
        "filter",
        schema,
        [{"and": [leaf, {"or": [leaf, {"field": "name", "op": "in", "value": ["a"]}]}]}, leaf],
        [{"and": []}, {"not": leaf}, {"or": [{**leaf, "op": "=="}]}],
    )


def _webhook() -> Case:
    who = record(login=text(pattern="^[a-z0-9-]{1,39}$"), id=whole(1))
    schema = {
        "oneOf": [
            tagged("push", ref=text(pattern="^refs/(heads|tags)/"), commits=whole(0), by=who),
            tagged("star", action=one_of("created", "deleted"), by=who),
            tagged("issue", action=one_of("opened", "closed"), title=text(minLength=1), by=who),
            tagged("release", version=text(pattern=r"^v[0-9]+\.[0-9]+\.[0-9]+$"), draft=FLAG),
        ]
    }
    ada = {"login": "ada", "id": 1}
    return schema_case(
        "webhook",
        schema,
        [
            {"type": "push", "ref": "refs/heads/main", "commits": 3, "by": ada},
            {"type": "release", "version": "v1.2.30", "draft": False},
            {"type": "issue", "action": "opened", "title": "x", "by": ada},
        ],
        [
            {"type": "star", "action": "opened", "by": ada},
            {"type": "release", "version": "1.2.3", "draft": False},
            {"type": "push", "ref": "main", "commits": 3, "by": ada},
        ],
    )


def _contact() -> Case:
    schema = {
        **record(
            "email phone",
            name=text(minLength=1),
            email=EMAIL,
            phone=text(pattern=r"^\+[0-9]{7,15}$"),
        ),
        "anyOf": [{"required": ["email"]}, {"required": ["phone"]}],
    }
    return schema_case(
        "contact",
        schema,
        [{"name": "A", "phone": "+4930123456"}, {"name": "A", "email": "a@example.org"}],
        [{"name": "A"}, {"name": "A", "phone": "030"}, {"name": "", "email": "a@example.org"}],
    )


def _payment() -> Case:
    schema = {
        **record(
            "card iban",
            amount=number(exclusiveMinimum=0),
            method=one_of("card", "debit", "cash"),
            card=record(
                number=text(pattern="^[0-9]{16}$"), expires=text(pattern="^[01][0-9]/[0-9]{2}$")
            ),
            iban=text(pattern="^[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}$"),
        ),
        "allOf": [
            {
                "if": {"properties": {"method": {"const": "card"}}},
                "then": {"required": ["card"]},
                "else": {"properties": {"card": False}},
            },
            {
                "if": {"properties": {"method": {"const": "debit"}}},
                "then": {"required": ["iban"]},
            },
        ],
    }
    card = {"number": "4111111111111111", "expires": "12/27"}
    return schema_case(
        "payment",
        schema,
        [
            {"amount": 3.5, "method": "card", "card": card},
            {"amount": 1, "method": "cash"},
            {"amount": 9.99, "method": "debit", "iban": "DE02120300000000202051"},
        ],
        [
            {"amount": 3.5, "method": "card"},
            {"amount": 1, "method": "cash", "card": card},
            {"amount": 9.99, "method": "debit"},
        ],
    )


def _container() -> Case:
    quantity = text(pattern="^[0-9]+(\\.[0-9]+)?(m|Ki|Mi|Gi)?$")
    schema = record(
        "resources env ports probe",
        name=text(pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", maxLength=63),
        image=text(minLength=1, maxLength=255),
        env=listing(
            {
                "oneOf": [
                    record(name=text(pattern="^[A-Z_]+$"), value=text()),
                    record(name=text(pattern="^[A-Z_]+$"), secret=record(name=text(), key=text())),
                ]
            }
        ),
        ports=listing(
            record("protocol", port=whole(1, 65_535), protocol=one_of("TCP", "UDP")), 0, 9
        ),
        resources=record(
            "limits",
            requests=record("cpu memory", cpu=quantity, memory=quantity),
            limits=record("cpu memory", cpu=quantity, memory=quantity),
        ),
        probe=record(
            "period", path=text(pattern="^/"), port=whole(1, 65_535), period=whole(1, 3600)
        ),
    )
    good = {
        "name": "web-1",
        "image": "registry.example.org/web:1.2",
        "env": [
            {"name": "A_B", "value": "x"},
            {"name": "KEY", "secret": {"name": "s", "key": "k"}},
        ],
        "ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}],
        "resources": {"requests": {"cpu": "250m", "memory": "1.5Gi"}},
        "probe": {"path": "/ready", "port": 80},
    }
    return schema_case(
        "container",
        schema,
        [good, {"name": "a", "image": "b"}],
        [
            {**good, "name": "web-"},
            {**good, "env": [{"name": "A", "value": "x", "secret": {"name": "s", "key": "k"}}]},
            {**good, "resources": {"requests": {"cpu": "250x"}}},
        ],
    )


def _flags() -> Case:
    schema = {
        "type": "object",
        "propertyNames": {"pattern": "^[a-z]+(\\.[a-z]+)*$", "maxLength": 30},
        "additionalProperties": {
            "anyOf": [FLAG, record(share=number(0, 1), seed=whole(0, 2**31 - 1))]
        },
        "minProperties": 1,
    }
    return schema_case(
        "feature_flags",
        schema,
        [{"ui.dark": True}, {"a": False, "b.c": {"share": 0.125, "seed": 7}}],
        [{}, {"UI": True}, {"a": {"share": 1.5, "seed": 7}}],
    )


def _geo() -> Case:
    point = {
        "type": "array",
        "prefixItems": [number(-180, 180), number(-90, 90)],
        "items": number(),
        "minItems": 2,
        "maxItems": 3,
    }
    schema = {
        "oneOf": [
            tagged("Point", coordinates=point),
            tagged("LineString", coordinates=listing(point, 2)),
            tagged("Polygon", coordinates=listing(listing(point, 4))),
        ]
    }
    return schema_case(
        "geometry",
        schema,
        [
            {"type": "Point", "coordinates": [13.4, 52.5, 34]},
            {"type": "LineString", "coordinates": [[0, 0], [1.5, -1]]},
            {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]},
        ],
        [
            {"type": "Point", "coordinates": [13.4]},
            {"type": "LineString", "coordinates": [[0, 0]]},
            {"type": "Circle", "coordinates": [0, 0]},
        ],
    )


def _patch() -> Case:
    path = text(pattern="^(/([^~/]|~[01])*)*$")
    schema = listing(
        {
            "oneOf": [
                record(op=one_of("add", "replace", "test"), path=path, value={}),
                record(op={"const": "remove"}, path=path),
                record(**{"op": one_of("move", "copy"), "from": path, "path": path}),
            ]
        },
        1,
    )
    return schema_case(
        "json_patch",
        schema,
        [
            [{"op": "add", "path": "/a/0", "value": {"x": [1]}}, {"op": "remove", "path": "/b~1c"}],
            [{"op": "move", "from": "/a", "path": ""}],
        ],
        [[], [{"op": "remove", "path": "a"}], [{"op": "add", "path": "/a"}]],
    )


def _rpc() -> Case:
    schema = record(
        "params id",
        jsonrpc={"const": "2.0"},
        method=text(pattern=r"^[a-z]+(\.[a-zA-Z]+)*$"),
        params={"anyOf": [listing({}), _ANY_MAP]},
        id={"type": ["integer", "string", "null"]},
    )
    good = {"jsonrpc": "2.0", "method": "user.getAll", "params": [1, "a"], "id": 1}
    return schema_case(
        "json_rpc",
        schema,
        [good, {**good, "params": {"x": {"y": []}}, "id": "q"}],
        [{**good, "jsonrpc": 2.0}, {**good, "params": "x"}, {**good, "id": True}],
    )


def _cron() -> Case:
    schema = record(
        minute=text(pattern=r"^(\*|[0-5]?[0-9](-[0-5]?[0-9])?)(/[0-9]{1,2})?$"),
        hour=text(pattern=r"^(\*|(1?[0-9]|2[0-3])(,(1?[0-9]|2[0-3])){0,23})$"),
        weekday=listing(one_of("mon", "tue", "wed", "thu", "fri", "sat", "sun"), 0, 7),
        command=text(pattern="^[^|;&]+$", maxLength=200),
        zone=text(pattern="^(UTC|[A-Z][a-z]+/[A-Z][a-zA-Z_]+)$"),
    )
    good = {
        "minute": "*/15",
        "hour": "9,12,23",
        "weekday": ["mon", "fri"],
        "command": "backup --all",
        "zone": "Europe/Berlin",
    }
    return schema_case(
        "cron",
        schema,
        [good, {**good, "minute": "5-59", "weekday": []}],
        [{**good, "hour": "24"}, {**good, "command": "a; b"}, {**good, "zone": "Berlin"}],
    )


def _notification() -> Case:
    schema = record(
        channel=one_of("mail", "sms", "push"),
        priority=whole(0, 9),
        text=text(minLength=1, maxLength=160),
        meta={"type": "object", "additionalProperties": text(maxLength=20), "maxProperties": 3},
        retry=record(times=whole(0, 5), seconds=listing(whole(1, 3600), 0, 5)),
    )
    good = {
        "channel": "sms",
        "priority": 3,
        "text": "Your code: 123-456",
        "meta": {"a": "1", "b": "2"},
        "retry": {"times": 2, "seconds": [1, 60]},
    }
    return schema_case(
        "notification",
        schema,
        [good, {**good, "meta": {}}],
        [
            {**good, "meta": {"a": "1", "b": "2", "c": "3", "d": "4"}},
            {**good, "text": "x" * 161},
            {**good, "priority": 10},
        ],
    )


def cases() -> list[Case]:
    """The calls."""
    makers = [_search_call, _tools, _chat, _http, _log, _pipeline, _server, _filter, _webhook]
    makers += [_contact, _payment, _container, _flags, _geo, _patch, _rpc, _cron, _notification]
    return [make() for make in makers]
