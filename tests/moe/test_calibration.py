"""Costs from a measured trace: what is fitted can be checked with a pencil, and is tested on layers it has not seen."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import msgspec
import polars as pl
import pytest

import weftrace as wt
from tests.moe.layers import GEMM, GLUE, GROUPED, MOVES, WAITS, Kernel, trace_of_layers
from weftrace.errors import DocumentError, ProfileError, TraceError
from weftrace.files.values import from_document, to_document
from weftrace.moe import Setting, load_overlap, make_profile
from weftrace.moe.calibration.fit import calibrate, layers_of
from weftrace.moe.calibration.pricing import pieces_of, slowdowns_of
from weftrace.moe.calibration.values import Calibration
from weftrace.moe.requests import ModelPhase
from weftrace.moe.routing.load import balanced
from weftrace.moe.validation.held_out import calibrate_and_test, held_out
from weftrace.trace import Trace

US = 1_000


def layers(rows: tuple[int, ...] = (100, 200, 300)) -> Trace:
    """Of each layer, on two streams, in us:

    stream 7   mlp(F)      GLUE one block a row, rows / 10     GEMM a block an SM, 40
    stream 27  combine(F)                                      WAITS 5, MOVES 20 beside half of the GEMM
    """
    return trace_of_layers(
        [
            [
                Kernel("mlp(F)", GLUE, 7, 0, number // 10, blocks=number),
                Kernel("mlp(F)", GEMM, 7, number // 10, 40, blocks=112),
                Kernel("combine(F)", WAITS, 27, number // 10 + 15, 5, blocks=20),
                Kernel("combine(F)", MOVES, 27, number // 10 + 20, 20, blocks=20),
            ]
            for number in rows
        ]
    )


def test_a_part_whose_grid_follows_the_rows_costs_by_the_row() -> None:
    found = calibrate(layers(), [0, 2])["mlp(F)"]
    assert found.rows == 200
    parts = {part.group: part for part in found.parts}
    assert parts["memory"].follows == "rows" and parts["memory"].alone_ns == pytest.approx(20 * US)
    assert parts["matrix"].follows == "both", "no grouped GEMM: it is not known whose rows they are"


def test_layers_that_were_left_out_are_predicted_from_their_rows() -> None:
    """mlp(F) of layers 0, 1 and 2 takes 50, 60 and 70; means of 0 and 1 are 55, of 2 with 300 rows 30 + 40."""
    tests = held_out(layers_of(layers(), tokens=10**9))  # so many tokens that 100 rows are nothing to the GEMM
    row = tests.predicted.filter(phase="mlp(F)", split=0).row(0, named=True)
    assert (tests.splits[0].calibration.layers, row["layer"], row["measured_ns"]) == ((0, 1), 2, 70 * US)
    assert row["means"] == 55 * US
    assert row["rows"] == pytest.approx(70 * US, rel=1e-5)
    assert tests.num_possible == len(tests.splits) == 3


def test_what_slows_a_kernel_is_told_from_how_it_ran_in_other_layers() -> None:
    """A kernel of 40 alone runs 40 with nothing beside it, 48 where data moves all the while: a factor of 1.2."""
    trace = trace_of_layers(
        [
            [Kernel("attn(F)", GLUE, 7, 0, took, blocks=64), Kernel("combine(F)", MOVES, 27, at, took, blocks=20)]
            for took, at in ((40, 100), (48, 0), (44, 24))
        ]
    )  # the third is beside it for 20 of 44, and loses 20 * (1 - 1 / 1.2) = 3.3: nearly 44
    fitted = calibrate(trace, [0, 1])
    assert fitted.factor("memory") == 1.2
    assert fitted["attn(F)"].parts[0].alone_ns == pytest.approx(40 * US)
    row = held_out(layers_of(trace)).predicted.filter(phase="attn(F)", split=0).row(0, named=True)
    assert row["beside"] == pytest.approx(40 * US / (1 - 20 / 44 * (1 - 1 / 1.2)))
    assert row["means"] == 44 * US


def test_layers_that_run_alike_tell_no_factor() -> None:
    """Two layers whose times differ by a nanosecond, beside data for as long."""
    trace = trace_of_layers(
        [
            [Kernel("attn(F)", GLUE, 7, 0, took, blocks=64), Kernel("combine(F)", MOVES, 27, 10, 20, blocks=20)]
            for took in (40, 40.001, 40.002)
        ]
    )
    assert calibrate(trace).factor("memory") == 1


def test_a_wait_for_other_ranks_slows_nothing_and_is_not_predicted() -> None:
    found = held_out(layers_of(layers())).predicted
    assert found.filter(phase="combine(F)").get_column("by").unique().to_list() == ["data"]
    assert found.filter(phase="combine(F)").get_column("measured_ns").unique().to_list() == [20 * US]


def test_ranges_in_which_the_runtime_waits_are_waits() -> None:
    trace = trace_of_layers([[Kernel("wait for combine(F)", GLUE, 7, 0, 10, blocks=1)]] * 3)
    assert [part.group for part in calibrate(trace)["wait for combine(F)"].parts] == ["wait"]
    assert not calibrate_and_test(trace).tested


def test_fits_do_not_look_at_the_times_of_tested_layers() -> None:
    """Twice as long in the layer that is left out: the same costs."""
    one, other = layers((100, 200, 300)), layers((100, 200, 300))
    slower = trace_of_layers(
        [
            [
                Kernel("mlp(F)", GLUE, 7, 0, 2**layer * (10 * layer + 10), blocks=100 * layer + 100),
                Kernel("mlp(F)", GEMM, 7, 300, 40, blocks=112),
            ]
            for layer in (0, 1, 2)
        ]
    )
    assert calibrate(one, [0, 1]).phases == calibrate(other, [0, 1]).phases
    assert calibrate(slower, [0])["mlp(F)"].parts[0].alone_ns == 10 * US


def test_operations_are_priced_by_the_rows_and_tokens_there_are() -> None:
    """32,768 rows (8 x 4,096 tokens) in place of 200, 4,096 tokens in place of 2,048."""
    fitted = calibrate(layers(), tokens=2048)
    operation = load_overlap("training")["mlp(F)"]
    setting = Setting.of("train")
    glue, gemm = pieces_of(fitted, operation, setting, balanced(setting))
    assert glue.mean_ns == pytest.approx(20 * US * 32_768 / 200)
    alone_ns = fitted["mlp(F)"].parts[1].alone_ns
    assert gemm.mean_ns == pytest.approx(alone_ns * (32_768 + 4096) / (200 + 2048))
    assert glue.basis == gemm.basis == "calibrated on layers 0, 1, 2 of layers.json, scaled from 2,048 tokens"
    wait, data = pieces_of(fitted, load_overlap("training")["combine(F)"], setting, balanced(setting))
    assert (wait.mean_ns, data.mean_ns) == (2 * 5 * US, 2 * 20 * US)
    assert wait.meets and not data.meets and wait.kind == data.kind == "communication"


def test_rows_are_read_from_shapes_of_grouped_gemms_where_they_were_recorded() -> None:
    """[rows, k] by [experts, k, n]; the other way round is a weight gradient, whose first size is no row."""
    rows = (640, 480, 512)
    trace = trace_of_layers(
        [
            [
                Kernel("MLP", GROUPED, 7, 0, number / 8, blocks=132, shapes=((number, 64), (8, 64, 128))),
                Kernel("MLP(W)", GROUPED, 7, 200, 50, blocks=132, shapes=((64, number), (number, 128))),
            ]
            for number in rows
        ]
    )
    known = layers_of(trace)
    assert known.rows.table.select("phase", "rows").rows() == [("MLP", float(number)) for number in rows]
    assert known.rows.notes == ("routed rows of MLP: shapes of the grouped GEMMs",)
    error = {each.what: each for each in calibrate_and_test(known).tested}["MLP"]
    assert error.worst("rows") == pytest.approx(0, abs=1e-9) and (error.worst("means") or 0) > 0.1


def test_operations_that_a_trace_does_not_tell_are_refused_by_name() -> None:
    fitted = calibrate(layers())
    setting = Setting.of("train")
    with pytest.raises(ProfileError, match=r"no phase 'attn\(F\)'; its phases are mlp\(F\), combine\(F\)"):
        pieces_of(fitted, load_overlap("training")["attn(F)"], setting, balanced(setting))
    issue = load_overlap("five-stages").operations[0]
    with pytest.raises(ProfileError, match="no separate time for the issue of"):
        pieces_of(fitted, issue, Setting.of("decode"), balanced(Setting.of("decode")))


def test_costs_of_another_model_are_refused_with_both_names() -> None:
    fitted = calibrate(replace(layers(), info={"profile.model": "tiny-mla", "capture.torch": "2.9"}))
    assert fitted.info == (("profile.model", "tiny-mla"),)
    setting = Setting.of("train")
    with pytest.raises(ProfileError, match="calibrated on tiny-mla; it does not say what deepseek-v3 costs"):
        pieces_of(fitted, load_overlap("training")["mlp(F)"], setting, balanced(setting))


def test_slowdowns_are_beside_data_that_moves_and_not_beside_waits() -> None:
    rows = slowdowns_of(calibrate(layers()))
    ops = pl.DataFrame(
        {"kind": ["communication", "communication", "compute"], "name": ["notify_combine", "combine", GEMM]}
    )
    assert [ops.select(row.beside.alias("x")).get_column("x").to_list() for row in rows] == [[False, True, False]] * 2


def test_a_saved_calibration_is_the_same_one() -> None:
    found = calibrate_and_test(layers())
    document = msgspec.json.decode(msgspec.json.encode(to_document(found)))
    assert from_document(Calibration, document, what="calibration") == found
    with pytest.raises(DocumentError, match="a broken field"):
        from_document(Calibration, {**document, "phases": "none"}, what="calibration")
    for change in ({"tokens": -1}, {"tokens": 0}, {"phases": document["phases"] * 2}):
        with pytest.raises(DocumentError, match=r"calibration: a broken field: .*(tokens|`phases` has two rows)"):
            from_document(Calibration, {**document, **change}, what="calibration")


def test_too_few_layers_are_calibrated_and_the_lack_of_a_test_said() -> None:
    found = calibrate_and_test(layers((100, 200)))
    assert found.tested == () and found.layers == (0, 1)
    assert "no error is known: 2 layers, and a test needs one more than the 2 to fit on" in found.notes
    with pytest.raises(TraceError, match="2 layers; a test needs one more than the 2"):
        held_out(layers_of(layers((100, 200))))


def test_of_many_layers_some_fits_are_tested_and_it_is_said() -> None:
    """500 layers: 124,750 ways to choose two, of which 20 are tried."""
    trace = trace_of_layers([[Kernel("attn(F)", GLUE, 7, 0, 10, blocks=64)]] * 500, length_us=20)
    found = calibrate_and_test(trace)
    assert len({split.layers for split in found.splits}) == 20
    assert "errors are of 20 of the 124,750 ways to choose 2 layers" in found.notes


def test_a_layer_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(ProfileError, match="no layer 7; its layers are 0-2"):
        calibrate(layers(), [0, 7])


def test_traces_without_phases_are_refused_in_a_sentence() -> None:
    with pytest.raises(TraceError, match="no named ranges"):
        calibrate(trace_of_layers([[Kernel("", GEMM, 7, 0, 10, blocks=1)]]))


@pytest.mark.parametrize("kind", ["train", "prefill"])
def test_costs_of_a_simulated_trace_simulate_it_again(kind: ModelPhase) -> None:
    """The circle: costs -> profile -> trace -> costs -> the same profile. Every layer alike, so that nothing is off."""
    profile = make_profile(Setting.of(kind, num_layers=4, model="kimi-k2"))
    found = calibrate_and_test(profile.trace())
    assert {each.by for each in found.tested} == {"busy", "data", "span", "span_waits"}
    assert max(each.worst("beside") or 0 for each in found.tested) < 1e-3
    again = make_profile(profile.setting, level=found)
    assert again.span_ns == pytest.approx(profile.span_ns, rel=1e-3)
    assert "at most 0.0 % off a phase where tested" in again.costs


# --- DeepSeek's published training profile ----------------------------------------------------------------------------


def test_two_layers_of_the_published_profile_predict_the_other_two(shared_data: Path) -> None:
    """All six ways to choose two of its four layers; each phase that computes, each layer that was left out."""
    source = wt.open(shared_data / "deepseek-v3-train.json.gz")
    assert isinstance(source, Trace)
    found = calibrate_and_test(source)
    assert [split.layers for split in found.splits] == list(combinations(range(4), 2))
    busy = {each.what: each for each in found.tested if each.by == "busy"}
    assert set(busy) == {"attn(F)", "mlp(B)", "mlp(W)", "mlp(F)", "attn(B)", "attn(W)"}
    worst = {known: max(each.worst(known) or 0 for each in busy.values()) for known in ("means", "rows", "beside")}
    assert worst == pytest.approx({"means": 0.177, "rows": 0.072, "beside": 0.047}, abs=5e-4)
    spans = {(each.what, each.by): each.worst("beside") for each in found.tested if each.by.startswith("span")}
    assert spans["all layers", "span_waits"] == pytest.approx(0.010, abs=1e-3), "within 2 %"
    assert spans["tested layers", "span_waits"] == pytest.approx(0.023, abs=1e-3)
    assert spans["all layers", "span"] == pytest.approx(0.029, abs=1e-3), (
        "waits of other layers do not predict one's own"
    )


def test_rows_of_the_published_profile_are_read_from_its_launch_grids(shared_data: Path) -> None:
    """per_token_cast_to_fp8 takes a block a row; mlp(W)'s largest grid is 7 / 16 of that of mlp(B)."""
    source = wt.open(shared_data / "deepseek-v3-train.json.gz")
    assert isinstance(source, Trace)
    rows = layers_of(source).rows
    of = {phase: part.get_column("rows").to_list() for (phase,), part in rows.table.group_by("phase")}
    backward = [34_688, 32_512, 32_896, 28_416]
    assert of == {"mlp(F)": [31_104, 30_976, 36_864, 31_104], "mlp(B)": backward, "mlp(W)": backward}
    assert rows.tokens == 4096
