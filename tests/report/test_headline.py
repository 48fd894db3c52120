"""The first sentence: the largest loss and its cause, on small traces by pencil and on recorded ones by a golden file.

After a wanted change: WEFTRACE_FUZZ_CASES=1200 WEFTRACE_UPDATE_GOLDENS=1 pytest of this file, then read what changed.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import few
from tests.report import documents
from tests.report.job_documents import late_job
from tests.report.test_terminal import drawn, report
from tests.tracefile import ALL_REDUCE, DISPATCH, GEMM, TraceFile
from weftrace.report import analyze
from weftrace.report.sentences.headline import headline
from weftrace.trace import open_trace
from weftrace.units import US

GOLDEN = Path(__file__).parent / "golden" / "headlines.txt"
ALL_GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"
UNKNOWN = "No collectives could be matched, so it is not known which rank was late."
COPY = "Memcpy HtoD (Pinned -> Device)"


def summary(file: TraceFile, folder: Path) -> str:
    return analyze(file.trace(folder), timelines=False).document["headline"]


def test_it_leads_with_the_host_where_communication_is_little(tmp_path: Path) -> None:
    """72.9 of 84.5 ms idle for the host, 2.1 ms of communication, none hidden: the host is the story."""
    file = TraceFile()
    for number in range(10):  # 0.95 ms of work every 8.3 ms, each launched just before it starts
        file.kernel(GEMM, 1_000 + 8_300 * number, 950)
    file.kernel(ALL_REDUCE, 2_000, 2_100, stream=20, launch=1_990)
    said = summary(file, tmp_path)
    assert said.startswith(
        "The device waited 64.0 ms of 75.7 ms (84.7 %): 63.9 ms for the host, which recorded nothing ("
    )
    assert "Exposed communication takes another 2.8 %; 0.0 % of communication is hidden" in said
    assert "saved" not in said


def test_it_leads_with_exposed_communication_and_names_the_collective(tmp_path: Path) -> None:
    # compute 0-60, all_reduce 40-100: 20 hidden, 40 exposed of 100 ms
    file = TraceFile().kernel(GEMM, 1_000, 60_000).kernel(ALL_REDUCE, 41_000, 60_000, stream=20, launch=500)
    said = summary(file, tmp_path)
    assert said == (
        "Exposed communication takes 40.0 % of 100 ms, all of it in all_reduce; 33.3 % of communication is hidden."
    )


def test_all_idle_time_counts_whatever_its_causes(tmp_path: Path) -> None:
    """30 ms idle for the host and 10 for what is not recorded are more than 35 ms of exposed communication."""
    file = TraceFile().kernel(GEMM, 1_000, 10_000).kernel(GEMM, 41_000, 10_000).kernel(GEMM, 61_000, 5_000, launch=500)
    said = summary(file.kernel(ALL_REDUCE, 66_000, 35_000, stream=20, launch=500), tmp_path)
    assert said == (
        "25.0 % of the apparent idle time (10.0 ms of 40.0 ms) is unrecorded: work was queued and "
        "nothing ran, so events are "
        "missing (sampled, or not recorded in graphs). The real idle time is unknown."
    )


def test_a_cause_of_less_than_half_is_not_most(tmp_path: Path) -> None:
    file = TraceFile().kernel(GEMM, 1_000, 20_000)
    for number, name in enumerate((ALL_REDUCE, DISPATCH, ALL_GATHER)):
        file.kernel(name, 21_000 + 10_000 * number, 10_000 + number, stream=20 + number, launch=500)
    assert "the largest part of it in all_gather (10.0 ms)" in summary(file, tmp_path)


def test_ranks_of_one_length_have_no_longest() -> None:
    said = headline([documents.rank(number=number) for number in range(3)])
    assert said.endswith(f"Each takes about 20.5 ms. {UNKNOWN}")


def test_it_leads_with_copies(tmp_path: Path) -> None:
    file = TraceFile().kernel(GEMM, 1_000, 60_000).kernel(COPY, 61_000, 40_000, launch=500, cat="gpu_memcpy")
    assert summary(file, tmp_path) == "Copies that overlap no kernel take 40.0 % of 100 ms."


def test_where_little_is_lost_the_kernels_lead(tmp_path: Path) -> None:
    file = TraceFile().kernel(GEMM, 1_000, 99_000).kernel(ALL_REDUCE, 41_000, 60_000, stream=20, launch=500)
    assert summary(file, tmp_path) == (
        "Computation fills 99.0 % of 100 ms (gemm kernels 99.0 %) and hides 98.3 % of communication; the "
        "largest loss is exposed communication, 1.00 ms (1.0 %)."
    )


def test_no_communication_is_not_mentioned(tmp_path: Path) -> None:
    said = summary(TraceFile().kernel(GEMM, 1_000, 99_000), tmp_path)
    assert said == "Computation fills 100.0 % of 99.0 ms (gemm kernels 100.0 %)."


def test_a_job_sums_its_ranks_and_names_the_longest() -> None:
    said = headline(documents.job()["ranks"])
    assert said.startswith("Over 4 ranks, exposed communication takes 9.5 % of the time")
    assert said.endswith(f"The longest span is 21.7 ms (rank 3); the mean is 21.1 ms. {UNKNOWN}")


def test_a_job_names_the_late_rank_and_what_it_cost() -> None:
    """Rank 1 of 4 is 3 ms late in two of three steps of 10 ms: 6 of 30 ms for each of the others. 18 ms are more than
    the 12 that devices idled, and lead only where they are the largest loss."""
    made = late_job()
    said = headline(made["ranks"], made["lateness"])
    late = (
        "Rank 1 made the others wait 6.00 ms each, 20.1 % of their time: it was the last to enter 2 "
        "of 3 matched collectives"
    )
    assert said.endswith(f"{late}.")
    loss = "Over 4 ranks, exposed communication takes 25.1 % of the time"
    assert said.startswith(f"{loss}, most of it spent waiting for other ranks (18.0 ms);")
    for rank in made["lateness"]["ranks"]:
        rank["exposed_ns"] = 0  # all of it behind compute: then it is not what is exposed
    assert headline(made["ranks"], made["lateness"]).startswith(f"{loss};")
    for rank in made["ranks"]:
        rank |= {"exposed_communication_ns": 0, "idle_ns": 0}
    assert headline(made["ranks"], made["lateness"]).startswith(late)


def test_waiting_behind_compute_is_not_exposed(tmp_path: Path) -> None:
    # rank 0  [compute   0 ─────── 140]              [all_reduce  100 ──────── 200]: waits 100-160, 20 of it exposed
    # rank 1  [compute   0 ──────────── 160]                    [all_reduce  160 ─ 200]
    for rank, (busy, came) in enumerate(((140, 100), (160, 160))):
        said: dict[str, Any] = {"Collective name": "allreduce", "Process Group Name": "0", "Seq": 1, "Group size": 2}
        file = TraceFile(rank=rank, world_size=2).kernel(GEMM, 0, busy)
        file.kernel(ALL_REDUCE, came, 200 - came, stream=20, **said).write(tmp_path / f"rank{rank}.json")
    lateness = analyze(tmp_path, workers=1).document["lateness"]
    assert lateness is not None
    summary = [(rank["suffered_ns"], rank["exposed_ns"]) for rank in lateness["ranks"]]
    assert summary == [(60 * US, 20 * US), (0, 0)]


def test_no_rank_is_called_late_without_reason() -> None:
    made = late_job()
    summary = made["lateness"]
    summary["late"] = None
    assert "takes 15.1 % of the time, and no rank stands out" in headline(made["ranks"], summary)
    summary["uncertainty_ns"] = 5_000_000
    assert "late: the clocks, and the ends of one collective, are known only to 5.00 ms" in headline(
        made["ranks"], summary
    )
    for rank in summary["ranks"]:
        rank["suffered_ns"] = 1_000
    assert headline(made["ranks"], summary).endswith(
        "No rank is late: waiting for other ranks takes 0.0 % of the time."
    )
    for one in made["ranks"]:
        one["basis"] = "ranges"  # which may not record waiting
    only = "As far as communication shows, waiting for other ranks takes 0.0 % of the time."
    assert headline(made["ranks"], summary).endswith(only)


def test_what_cannot_be_told_is_no_cause_either() -> None:
    made = late_job()
    summary = made["lateness"]
    summary["late"] = None
    assert "spent waiting for other ranks" in headline(made["ranks"], summary).lower()
    summary["uncertainty_ns"] = 5_000_000
    assert "spent waiting for other ranks" not in headline(made["ranks"], summary).lower()


def test_a_file_without_device_work_is_told_as_what_it_is(tmp_path: Path) -> None:
    file = TraceFile().host("aten::mm", 0, 300, cat="cpu_op").host("aten::add", 900, 100, cat="cpu_op")
    assert summary(file, tmp_path) == (
        "Host only, because the trace holds no device work: operators ran on the host's threads for "
        "40.0 % of 1.00 ms; no thread recorded an operator for 60.0 %."
    )


def test_device_work_that_is_not_read_is_named(tmp_path: Path) -> None:
    file = TraceFile().host("aten::mm", 0, 300, cat="cpu_op")
    file.host("fbgemm::tbe", 50, 200, cat="mtia_ccp_events").host("mtiaLaunch", 10, 5, cat="mtia_runtime")
    made = analyze(file.trace(tmp_path), timelines=False)
    assert "weftrace does not read device work of the kind mtia_ccp_events" in made.document["headline"]
    quality = made.document["ranks"][0]["quality"]
    assert quality["unused"] == {"mtia_ccp_events": 1} and quality["verdict"] == "doubtful"
    assert any("1 event of category mtia_ccp_events" in note for note in quality["notes"])


def test_what_waits_for_other_ranks_is_called_no_bound(tmp_path: Path) -> None:
    file = TraceFile().kernel(GEMM, 1_000, 10_000).kernel(ALL_REDUCE, 1_000, 60_000, stream=20, launch=500)
    text = re.sub(r"\s+", " ", drawn(report, analyze(file.trace(tmp_path), timelines=False).document, width=200))
    assert "by overlap alone, with idle time filled; communication alone took 60.0 ms" in text
    assert "including waits for other ranks, so there is no bound" in text
    file = TraceFile().kernel(GEMM, 1_000, 60_000).kernel(ALL_REDUCE, 1_000, 70_000, stream=20, launch=500)
    file.kernel(GEMM, 71_000, 60_000)
    text = re.sub(r"\s+", " ", drawn(report, analyze(file.trace(tmp_path), timelines=False).document, width=200))
    assert "by overlap alone, with idle time filled; at best 120 ms, bound by compute" in text


def test_nothing_is_promised_to_cost_nothing() -> None:
    package = Path(__file__).resolve().parents[2] / "src" / "weftrace" / "report"
    for path in package.rglob("*"):
        if path.suffix in {".py", ".js", ".html"}:
            assert "costs nothing" not in path.read_text(encoding="utf-8"), path


@pytest.mark.replayed
def test_recorded_traces(shared_data: Path, recorded_traces: list[Path]) -> None:
    found = {}
    for name in few(sorted({path.relative_to(shared_data).parts[0] for path in recorded_traces}), 10):
        source = open_trace(shared_data / name, frames=True)
        found[name] = analyze(source, timelines=False, workers=1).document["headline"]
    text = "".join(f"{name}\n    {said}\n" for name, said in found.items())
    if os.environ.get("WEFTRACE_UPDATE_GOLDENS"):
        GOLDEN.write_text(text, encoding="utf-8")
    golden = dict(re.findall(r"^(\S.*)\n    (.*)$", GOLDEN.read_text(encoding="utf-8"), flags=re.MULTILINE))
    for name in golden.keys() & found.keys():
        assert found[name] == golden[name], name
    if not golden.keys() & found.keys():
        pytest.skip("none of the recorded traces is here: WEFTRACE_DATA names their folder")
