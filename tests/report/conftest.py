"""A browser for the tests of the HTML report, and the traces they look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser import Open
from tests.report.documents import layers
from tests.tracefile import DISPATCH, GEMM, TraceFile
from weftrace.report import Report, analyze, render_html
from weftrace.trace import Trace

if TYPE_CHECKING:
    from playwright.sync_api import Page

DEVICE_ZERO_US = 50_000  # the device runs this far behind the host


@pytest.fixture(scope="session")
def layered_trace(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Trace]:
    """A trace that runs what `documents.layers` draws, so that its numbers can be checked with that pencil."""

    def made(number: int = 2, *, rank: int = 0, extra_idle_us: float = 0) -> Trace:
        file = TraceFile(rank=rank, world_size=2)
        events = layers(number)
        for place, event in enumerate(events):
            launch = 100.0 * place
            late = extra_idle_us if event is events[-1] else 0
            start, length = event.start_ns / 1000 + late, (event.end_ns - event.start_ns) / 1000
            if event.in_phase:
                file.host(event.name, launch, 90)
                file.host("aten::linear", launch + 5, 60, cat="cpu_op")
            if event.kind == "memory":
                file.kernel("Memcpy HtoD (Pinned -> Device)", DEVICE_ZERO_US + start, length, launch=launch + 20,
                            cat="gpu_memcpy", call="cudaMemcpyAsync", stream=event.stream)  # fmt: skip
            else:
                name = DISPATCH if event.kind == "communication" else GEMM if event.in_phase else event.name
                file.kernel(
                    name, DEVICE_ZERO_US + start, length, launch=launch + 20, stream=event.stream, blocks=event.sms
                )
        return file.trace(tmp_path_factory.mktemp("trace"))

    return made


@pytest.fixture(scope="session")
def report(layered_trace: Callable[..., Trace]) -> Report:
    """The report of two layers."""
    return analyze(layered_trace())


@pytest.fixture(scope="session")
def html(report: Report) -> str:
    """Its page."""
    return render_html(report.document, report.timelines)


@pytest.fixture(scope="session")
def job_html(layered_trace: Callable[..., Trace]) -> str:
    """The page of two ranks, the second 0.4 ms slower, and of a file that could not be read."""
    reports = [analyze(layered_trace(rank=0)), analyze(layered_trace(rank=1, extra_idle_us=400))]
    ranks = [report.document["ranks"][0] for report in reports]
    failure = {"path": "rank2.json.gz", "error": "the gzip stream ends early"}
    document: Any = reports[0].document | {"ranks": ranks, "num_ranks": 2, "failures": [failure]}
    return render_html(document, [report.timelines[0] for report in reports])


@pytest.fixture
def page(open_html: Open, html: str) -> Page:
    """The page of two layers, open."""
    return open_html(html)
