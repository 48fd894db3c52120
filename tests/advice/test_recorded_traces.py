"""What must hold of any critical path and what-if, on recorded traces: of kernels, of phases and of ranks together."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import few
from weftrace.advice.changes import Scale
from weftrace.advice.critical_paths import critical_path_of
from weftrace.advice.jobs import infer_job
from weftrace.advice.selecting import selectors
from weftrace.advice.waterfalls import waterfall
from weftrace.advice.whatifs import what_if
from weftrace.plan import Inferred, infer
from weftrace.trace import open_trace, read_chrome

FILES = (
    "deepseek-v3-train.json.gz", "hta-event-sync-multi-stream.json.gz", "hta-mi250-minitoy.json.gz",
    "hta-triton-example.json.gz", "tracelens-h100-bert-small.json.gz", "tracelens-mi300-bert-small.json.gz",
    "tracelens-vllm-decode-graph.json.gz",
)  # fmt: skip


def check_path(inferred: Inferred) -> int:
    """The parts add up, and nothing on the path has slack; the span."""
    path = critical_path_of(inferred)
    assert path.span_ns == inferred.replay.replayed_ns
    for each in (path.by_class, path.by_phase, path.by_family, path.by_kernel, path.by_cause, path.by_rank):
        assert each.get_column("time_ns").sum() == path.span_ns
    on_path = path.path.get_column("op").to_numpy()
    assert (path.slack_ns >= 0).all() and (path.slack_ns[on_path] == 0).all()
    assert path.sentence.endswith(".")
    return path.span_ns


def check(inferred: Inferred) -> None:
    span_ns = check_path(inferred)
    assert waterfall(inferred).bars.get_column("time_ns").sum() == inferred.replay.span_ns
    same = [Scale(selector=selector, factor=1) for selector in selectors(inferred) if selector in ("compute", "host")]
    assert what_if(inferred, same).saved_ns == 0
    for selector in ("compute", "host"):
        if selector in selectors(inferred):
            assert what_if(inferred, [Scale(selector=selector, factor=0.5)]).after_ns <= span_ns


@pytest.mark.parametrize("name", few(FILES, 4))
def test_what_holds_of_any_path_holds_of_recorded_traces(shared_data: Path, name: str) -> None:
    check(infer(read_chrome(shared_data / name)))


def test_it_holds_of_phases_and_of_ranks_together(shared_data: Path) -> None:
    check_path(infer(read_chrome(shared_data / FILES[0]), level="phase"))
    check_path(infer_job(open_trace(shared_data / "hta-two-ranks")))
