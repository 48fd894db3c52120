"""One account for every way out: what follows from a report is worked out once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_cli import Run, run
from tests.flops.small_reports import TINY
from weftrace.facts import hardware
from weftrace.files.documents import write_document
from weftrace.flops.derived import columns as columns_module
from weftrace.flops.derived.account import account_of
from weftrace.flops.derived.coverage import coverage
from weftrace.flops.derived.module_time import times_of
from weftrace.flops.derived.predict import predict
from weftrace.flops.derived.roofline import roofline
from weftrace.flops.derived.tally import exclusive, inclusive, totals
from weftrace.flops.derived.throughput import throughput
from weftrace.flops.derived.utilization import utilization
from weftrace.flops.document import flops_document

__all__ = ["run"]  # the fixture


def test_it_holds_what_the_functions_give() -> None:
    h100 = hardware("h100")
    account = account_of(TINY, "h100")
    assert (account.totals, account.coverage, account.times) == (totals(TINY), coverage(TINY), times_of(TINY))
    assert (account.exclusive, account.inclusive) == (exclusive(TINY), inclusive(TINY))
    assert (account.roofline, account.utilization) == (roofline(TINY, h100), utilization(TINY, h100))
    assert (account.prediction, account.throughput) == (predict(TINY, h100), throughput(TINY))


def test_an_account_is_taken_as_it_is_unless_another_device_is_named() -> None:
    account = account_of(TINY, "h100")
    assert account_of(account) is account
    assert account.device is not None and account.device.name == "H100 SXM"
    assert account_of(account, "a100").device != account.device


def _count_columns(patch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of the operator lists that `columns` is called with, wherever it was imported to."""
    real, seen = columns_module.columns, list[int]()

    def counted(ops: Any) -> Any:
        seen.append(len(ops))
        return real(ops)

    for module in list(sys.modules.values()):
        if getattr(module, "columns", None) is real:
            patch.setattr(module, "columns", counted)
    return seen


def test_columns_are_computed_once_in_one_delivery(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = tmp_path / "saved.json"
    write_document(flops_document(TINY), saved)
    files = [tmp_path / f"report{suffix}" for suffix in (".html", ".json", ".csv", ".md", ".trace.json")]
    seen = _count_columns(monkeypatch)
    outputs = [part for path in files for part in ("-o", path)]
    assert run("flops", "show", saved, "--hardware", "h100", *outputs)[0] == 0
    assert all(path.is_file() for path in files)
    assert seen == [len(TINY.ops)]
    seen.clear()
    assert run("flops", "show", saved, "--text-layout", "deepspeed")[0] == 0
    assert seen == [len(TINY.ops)]
