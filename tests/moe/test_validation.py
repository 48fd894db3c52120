"""Predicted against measured, phase by phase: numbers that a pencil can check, and what is missing is said."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

import weftrace as wt
from tests.moe.layers import GEMM, MOVES, WAITS, Kernel, trace_of_layers
from weftrace.errors import DocumentError, TraceError
from weftrace.files.values import from_document, to_document
from weftrace.moe.render.validation_terminal import print_validation
from weftrace.moe.validation.comparison import Validation, validate, validation_table
from weftrace.plan import simulate
from weftrace.plan.deepseek import deepseek_training_layers
from weftrace.trace import Trace, write_chrome

US = 1_000


def run(attn: int = 100, combine: int = 40, wait: int = 0, layers: int = 3, extra: str = "") -> Trace:
    """Of each layer, in us:   stream 7   attn(F) `attn`    stream 27   combine(F) waits `wait`, moves data `combine`"""
    each = [
        Kernel("attn(F)", GEMM, 7, 0, attn, blocks=112),
        *([Kernel("combine(F)", WAITS, 27, attn, wait, blocks=20)] if wait else []),
        Kernel("combine(F)", MOVES, 27, attn + wait, combine, blocks=20),
        *([Kernel(extra, GEMM, 7, attn + wait, 10, blocks=112)] if extra else []),
    ]
    return trace_of_layers([each] * layers, length_us=500)


def worst(found: Validation) -> tuple[str, float]:
    assert found.worst is not None
    return found.worst.name, round(found.worst.error, 3)


def test_each_phase_is_predicted_by_measured() -> None:
    found = validate(run(attn=90), run(attn=100))
    assert (
        repr(found)
        == f"Validation({found.predicted.source!r} against {found.measured.source!r}, {len(found.phases)} phases)"
    )
    assert [(row.phase, row.direction, row.lane, row.ratio) for row in found.phases] == [
        ("attn(F)", "F", "compute", 0.9), ("combine(F)", "F", "communication", 1.0),
    ]  # fmt: skip
    assert worst(found) == ("attn(F)", -0.1)
    assert found.within(0.11) and not found.within(0.09)
    assert found.headline == (
        "attn(F) is furthest off of 2 phases: predicted 10.0 % too short; the span 0.9 % too short."
    )
    assert validate(run(), run()).headline == "All 2 phases are predicted as measured; the span as measured."


def test_communication_is_compared_by_the_data_that_it_moves_and_waits_are_told_in_the_span() -> None:
    """Measured 30 of waiting and 40 of data; predicted no wait and 40 of data."""
    found = validate(run(), run(wait=30))
    row = next(row for row in found.phases if row.phase == "combine(F)")
    assert (row.by, row.ratio, row.measured.median_ns) == ("data", 1.0, 40 * US)
    whole = {each.what: each for each in found.whole}
    assert (whole["exposed communication"].predicted.median_ns, whole["exposed communication"].measured.median_ns) == (
        3 * 40 * US, 3 * 70 * US,
    )  # fmt: skip
    assert whole["span"].measured.median_ns - whole["span"].predicted.median_ns == 30 * US


def test_runs_of_another_number_of_layers_are_compared_by_layer() -> None:
    """Two layers last 500 + 140, five 2,000 + 140: 320 and 428 a layer."""
    found = validate(run(layers=2), run(layers=5))
    assert found.per_layer
    assert [found.whole[0].predicted.median_ns, found.whole[0].measured.median_ns] == [320 * US, 428 * US]
    assert any("2 layers against 5 layers" in note for note in found.notes)


def two_micro_batches(first: str, second: str, layers: int) -> Trace:
    """Two phases a layer, of 30 and 30 us."""
    each = [Kernel(first, GEMM, 7, 0, 30, blocks=132), Kernel(second, GEMM, 7, 50, 30, blocks=132)]
    return trace_of_layers([each] * layers, length_us=100)


TOLD = ("ATTN {layer=0, micro_batch=0}", "ATTN {layer=0, micro_batch=1}")


def test_a_digit_after_a_known_name_is_its_micro_batch_and_spelling_does_not_count() -> None:
    found = validate(two_micro_batches(*TOLD, layers=1), two_micro_batches("attn0", "Attn 1", layers=1))
    assert [(row.phase, row.micro_batch, row.ratio) for row in found.phases] == [("ATTN", 0, 1.0), ("ATTN", 1, 1.0)]
    assert not found.alone


def test_a_run_that_does_not_tell_micro_batches_has_as_many_layers_as_one_that_does() -> None:
    """Predicted a layer of two micro-batches, measured two layers of them, all called ATTN: spans of 80 and 180."""
    found = validate(two_micro_batches(*TOLD, layers=1), two_micro_batches("ATTN", "ATTN ", layers=2))
    (row,) = found.phases
    assert (row.micro_batch, row.predicted.num_samples, row.measured.num_samples) == (None, 2, 4)
    assert found.per_layer
    assert [found.whole[0].predicted.median_ns, found.whole[0].measured.median_ns] == [80 * US, 90 * US]


def test_what_stands_on_one_side_only_is_said() -> None:
    found = validate(run(extra="mlp(F)"), run(extra="gate(F)"))
    assert [(each.side, each.name, each.median_ns, each.num_samples) for each in found.alone] == [
        ("predicted", "mlp(F)", 10 * US, 3), ("measured", "gate(F)", 10 * US, 3),
    ]  # fmt: skip
    assert [row.phase for row in found.phases] == ["attn(F)", "combine(F)"]


def test_another_order_of_phases_is_seen() -> None:
    """compute: attn(F) mlp(F) against mlp(F) attn(F)."""

    def in_order(*phases: str) -> Trace:
        return trace_of_layers(
            [[Kernel(phase, GEMM, 7, 20 * at, 10, blocks=112) for at, phase in enumerate(phases)]] * 3
        )

    (same,) = validate(in_order("attn(F)", "mlp(F)"), in_order("attn(F)", "mlp(F)")).orders
    assert same.is_same
    (other,) = validate(in_order("mlp(F)", "attn(B)", "attn(F)"), in_order("attn(F)", "attn(B)", "mlp(F)")).orders
    assert other.measured == ("attn(F)", "attn(B)", "mlp(F)")
    assert other.predicted == ("attn(F)", "mlp(F)", "attn(B)")


def test_ranks_are_told_by_their_median_and_spread(tmp_path: Path) -> None:
    """Ranks of 100, 110 and 150: the median is 110, from 100 to 150."""
    for rank, attn in enumerate((100, 110, 150)):
        write_chrome(run(attn=attn), tmp_path / f"rank{rank}.json")
    found = validate(run(attn=110), wt.open(tmp_path))
    (row, _) = found.phases
    assert (row.measured.median_ns, row.measured.low_ns, row.measured.high_ns) == (110 * US, 100 * US, 150 * US)
    assert (row.ratio, found.measured.num_ranks, row.measured.num_samples) == (1.0, 3, 9)
    assert "1 rank against 3 ranks" in found.notes


def test_a_trace_without_phases_is_compared_as_a_whole_and_no_gate_is_met() -> None:
    bare = trace_of_layers([[Kernel("", GEMM, 7, 0, 100, blocks=112)]] * 3, length_us=500)
    found = validate(run(), bare)
    assert not found.phases and not found.within(10.0)
    assert "measured: no named ranges, so there are no phases to compare; the run as a whole is" in found.notes
    assert found.headline.startswith("The two have no phase in common")
    assert {each.name for each in found.alone} == {"attn(F)", "combine(F)"}


def test_a_trace_without_work_is_refused() -> None:
    with pytest.raises(TraceError, match="no work with a time to compare"):
        validate(run(), replace(run(), events=run().events.head(0)))


def test_runs_of_different_settings_are_said_to_be() -> None:
    one = replace(run(), info={"profile.model": "deepseek-v3", "profile.ep": "64", "profile.costs": "published"})
    other = replace(run(), info={"profile.model": "tiny-mla", "profile.ep": "64", "capture.torch": "2.9"})
    found = validate(one, other)
    assert "different model: what differs is more than a prediction's error" in found.notes
    assert "profile.model  deepseek-v3 | tiny-mla" in summary(found) and "capture.torch" not in summary(found)


def test_a_saved_validation_is_the_same_one_and_its_table_has_a_row_a_phase() -> None:
    found = validate(run(attn=90, extra="mlp(F)"), run(wait=10))
    document = msgspec.json.decode(msgspec.json.encode(to_document(found)))
    assert from_document(Validation, document, what="validation") == found
    assert validation_table(found).get_column("what").to_list()[:3] == ["attn(F)", "combine(F)", "span"]
    with pytest.raises(DocumentError, match="a broken field"):
        from_document(Validation, {**document, "phases": 3}, what="validation")


def summary(found: Validation, width: int = 80) -> str:
    out = io.StringIO()
    print_validation(found, Console(file=out, width=width))
    return out.getvalue()


def test_it_is_told_in_80_columns() -> None:
    text = summary(validate(run(attn=90, extra="mlp(F)"), run(wait=10)))
    assert max(map(len, text.splitlines())) <= 80
    assert "attn(F)                90.0     100.0          –  −10.0 %" in text
    assert "compute, the same: attn(F)" in text
    assert "mlp(F)  predicted      10.0        3" in text


def test_the_published_training_profile_beside_its_simulation(shared_data: Path) -> None:
    """The plan of its own mean times: each phase as measured, in the published order on both lanes."""
    measured = wt.open(shared_data / "deepseek-v3-train.json.gz")
    assert isinstance(measured, Trace)
    found = validate(simulate(deepseek_training_layers()), measured)
    assert len(found.phases) == 10 and not found.alone
    assert worst(found) == ("span", -0.013)
    assert all(row.ratio == pytest.approx(1, abs=1e-3) for row in found.phases)
    assert all(order.is_same for order in found.orders) and len(found.orders) == 2
    whole = {each.what: each.measured.median_ns // US for each in found.whole}
    assert whole == {
        "span": 129_012, "computation": 124_310, "communication": 113_440, "exposed communication": 4190,
    }  # fmt: skip


@pytest.mark.parametrize(
    "name", ["hta-cpu-only-rank34.json.gz", "hta-two-ranks", "tracelens-vllm-decode-graph.json.gz"]
)
def test_other_recorded_traces_are_told_without_phases_in_common(shared_data: Path, name: str) -> None:
    found = validate(simulate(deepseek_training_layers()), wt.open(shared_data / name))
    assert not found.phases and found.whole and len(found.alone) >= 10
    assert max(map(len, summary(found).splitlines())) <= 80
