"""The document: valid by its schema, read back equal, and refused with a reason when broken."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.flops.small_reports import TINY, UNTIMED, B, F, huge, matmul, op
from tests.test_house import python
from weftrace.errors import FlopsError
from weftrace.facts import Hardware, hardware
from weftrace.files.schemas import schema_for
from weftrace.flops.derived.module_time import times_of
from weftrace.flops.derived.tally import exclusive, inclusive, totals
from weftrace.flops.document import flops_document, read_flops, report_of
from weftrace.flops.outputs import REPORT
from weftrace.flops.several.merge import merge
from weftrace.flops.values import FlopsReport, Parallel

H200 = hardware("h200")
BIG = replace(TINY, ops=(op(1, F, "mm", matmul(2**70 + 1, 2**65, 3), calls=2**10 + 1),), times=())
SHARDED = replace(TINY, parallel=Parallel(tensor=4), global_ops=(op(1, F, "mm", matmul(768, 1, 1)),))
MERGED = merge([TINY, replace(TINY, rank=1)])
REPORTS = {"tiny": TINY, "untimed": UNTIMED, "big": BIG, "sharded": SHARDED, "merged": MERGED, "huge": huge(50, 4)}


def written(report: FlopsReport, device: Hardware | None = None) -> Any:
    """The document, indexed without looking at its type."""
    return flops_document(report, device)


@pytest.mark.parametrize("device", [None, H200], ids=["no device", "H200"])
@pytest.mark.parametrize("name", REPORTS)
def test_a_report_is_valid_and_read_back_equal(name: str, device: Hardware | None, tmp_path: Path) -> None:
    report = REPORTS[name]
    text = json.dumps(written(report, device), allow_nan=False)
    schema = schema_for(REPORT).json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(text), schema)
    (tmp_path / "a.json").write_text(text)
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(text.encode()))
    assert read_flops(tmp_path / "a.json") == report
    assert read_flops(tmp_path / "a.json.gz") == report


def test_derived_numbers_are_those_of_the_functions() -> None:
    document = written(TINY, H200)
    assert document["totals"]["local"]["flops"] == totals(TINY).flops == 672
    assert document["totals"]["local"]["by_phase"]["forward"]["unknown_calls"] == 1
    assert document["params"]["total"] == 48
    places = list(zip(document["by_module"]["module"], document["by_module"]["phase"], strict=True))
    assert (0, "backward") in places
    own, whole = exclusive(TINY), inclusive(TINY)
    own_time, whole_time = times_of(TINY).exclusive, times_of(TINY).inclusive
    for at, (module, phase) in enumerate(places):
        key = next(key for key in (*whole, *whole_time) if key == (module, phase))
        for kind, expected in (("inclusive", whole), ("exclusive", own)):
            values = document["by_module"][kind]
            assert values["flops"][at] == (expected[key].flops if key in expected else 0)
            assert values["read_bytes"][at] == (expected[key].read_bytes if key in expected else 0)
        for kind, times in (("inclusive_ns", whole_time), ("exclusive_ns", own_time)):
            found = document["by_module"][kind]
            assert found["median"][at] == (times[key].median if key in times else 0)
            assert found["highest"][at] == (times[key].highest if key in times else 0)
    assert document["utilization"]["mfu"] > 0
    assert document["roofline"]["bound_ns"] == pytest.approx(document["prediction"]["bound_ns"])
    assert any("no formula" in text for text in document["findings"])
    assert document["throughput"]["samples"] == 3


def test_what_cannot_be_told_is_null_and_not_zero() -> None:
    document = written(UNTIMED, H200)
    assert document["utilization"] is None
    assert document["throughput"] is None
    assert document["coverage"]["time"] is None
    assert document["by_module"]["inclusive_ns"] is None
    assert document["prediction"]["predicted_ns"] > 0
    assert written(TINY)["roofline"] is None
    odd = written(replace(TINY, parallel=Parallel(data=2, expert=3)))
    assert odd["throughput"] is None and "do not divide" in odd["throughput_note"]
    assert (document["throughput_note"], written(TINY)["throughput_note"]) == ("", "")
    partly = replace(TINY, ranks=3, parallel=Parallel(data=8))
    assert written(partly)["totals"]["global"] is None


def test_big_integers_stay_integers() -> None:
    document = json.loads(json.dumps(written(BIG, H200)))
    assert document["totals"]["local"]["flops"] == (2**70 + 1) * (2**10 + 1)
    assert report_of(document) == BIG


def test_global_work_is_in_it() -> None:
    assert written(SHARDED)["totals"]["global"]["flops"] == 768
    assert written(replace(TINY, parallel=Parallel(data=4)))["totals"]["global"]["flops"] == 4 * 672


def broken(**changes: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(written(TINY)))
    document |= changes
    return {name: value for name, value in document.items() if value != "gone"}


@pytest.mark.parametrize(
    ("document", "summary"),
    [
        ({"schema": "weftrace.report/1"}, "its schema is 'weftrace.report/1'"),
        (broken(modules="gone"), "missing required field `modules`"),
        (broken(costs=[]), "broken field"),
        (broken(clock={}), r"missing required field `source` - at `\$\.clock`"),
        (broken(modules=[]), "names 4, and there are 0 modules"),
        (
            broken(times={"module": [0], "phase": ["sideways"], "samples_ns": [[1]]}),
            r"Invalid enum value 'sideways' - at `\$\.times\.phase\[0\]`",
        ),
        (broken(times={"module": [0], "phase": [], "samples_ns": []}), "broken field"),
        (broken(notes=None), "broken field"),
    ],
)
def test_a_broken_document_is_refused(document: dict[str, Any], summary: str) -> None:
    with pytest.raises(FlopsError, match=summary) as caught:
        report_of(document, what="some/file.json")
    assert str(caught.value).startswith("some/file.json: ")


def test_a_parent_after_its_child_and_a_float_count_are_refused() -> None:
    document = broken()
    document["modules"][1]["parent"] = 3
    with pytest.raises(FlopsError, match=r"module 1 \('fc1'\) has the parent 3, not an earlier one"):
        report_of(document)
    document = broken()
    document["costs"][1]["flops"] = 1.5
    with pytest.raises(FlopsError, match=r"got `float` - at `\$\.costs\[1\]\.flops`"):
        report_of(document)


@pytest.mark.parametrize(
    ("data", "summary"),
    [
        (None, "cannot be read: No such file"),
        (b"", "cut off before its end"),
        (json.dumps(written(TINY)).encode()[:500], "cut off before its end"),
        (gzip.compress(json.dumps(written(TINY)).encode())[:-20], "cut off or damaged"),
        (b"FLOPs: many", "not JSON"),
        (b"[1]", "a JSON array"),
        (b'{"a": 1}', "its schema is None"),
    ],
)
def test_a_file_that_is_no_report_is_refused(data: bytes | None, summary: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(FlopsError, match=summary) as caught:
        read_flops(path)
    assert str(path) in str(caught.value)


def test_unknown_fields_are_passed_over() -> None:
    """Fields may be added within a version."""
    assert report_of(broken(later={"x": 1})) == TINY


def test_everything_but_running_works_without_torch() -> None:
    """Each module of the package, but for those under a folder named runtime, which are what torch is for."""
    loaded = python("""
import importlib, pkgutil, sys
sys.modules["torch"] = None
import weftrace.flops
found = pkgutil.walk_packages(weftrace.flops.__path__, "weftrace.flops.", onerror=lambda name: None)
for name in [each.name for each in found]:
    if "runtime" not in name.split("."):
        importlib.import_module(name)
        print(name)
""").split()
    assert {"weftrace.flops.document.read", "weftrace.flops.outputs", "weftrace.flops.render.page"} <= set(loaded)


def test_a_phase_that_was_timed_and_had_no_operators_is_there() -> None:
    report: FlopsReport = replace(TINY, ops=())
    document = written(report, H200)
    assert (2, B.value) in zip(document["by_module"]["module"], document["by_module"]["phase"], strict=True)
    assert report_of(document) == report
