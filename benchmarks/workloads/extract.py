"""The main job: typed records out of package metadata, behind one instruction of 350 tokens."""

from __future__ import annotations

import json

import jsonschema

from benchmarks.workloads.texts import drawn_documents
from benchmarks.workloads.workload import Row, Texts, Verdict, Workload
from examples.extract_packages import Package, agreement, extract

NUM_FIELDS = len(Package.model_fields)


def rows(count: int, seed: int) -> list[Row]:
    found = drawn_documents(count, seed)
    return [Row({"document": document.text}, document.truth) for document in found]


def judge(texts: Texts, row: Row) -> Verdict:
    (text,) = texts["record"]
    try:
        jsonschema.validate(json.loads(text), Package.model_json_schema())
    except (json.JSONDecodeError, jsonschema.ValidationError):
        return Verdict(False, 0, NUM_FIELDS)
    return Verdict(True, agreement(Package.model_validate_json(text), row.truth), NUM_FIELDS)


EXTRACT = Workload("extract", extract, rows, judge, num_rows=64, num_quick=6)
