"""The text: labels, order, columns and units, on a report made by hand (see `small_reports`).

Forward of TINY: fc1 192 FLOPs, fc2 96, so 288 and 144 MACs; backward 384 = 1.33 x 288. Times in three steps, in ns:
forward of the root with all below it 180, 202, 206; backward 250, 230, 240; optimizer 40, 41, 45. The medians count.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.flops.deepspeed.parse import (
    EARLIER_MODULE,
    HEADINGS,
    INFERENCE,
    LABELS,
    aggregated,
    field,
    labels_in_order,
    modules,
    value,
)
from tests.flops.small_reports import TINY, UNTIMED, B, F, huge, matmul, op
from weftrace.costs.cost import Phase
from weftrace.flops.deepspeed.numbers import Sizes, fold, module_lines, step_line
from weftrace.flops.deepspeed.strings import EARLIER
from weftrace.flops.deepspeed.text import deepspeed_text

TEXT = deepspeed_text(TINY, profile_step=7)


def test_headings_and_labels_are_all_there_in_order() -> None:
    places = [TEXT.index(heading) for heading in HEADINGS]
    assert places == sorted(places)
    found = labels_in_order(TEXT)
    assert len(found) == len(LABELS)
    assert found == sorted(found)
    assert places[0] < TEXT.index("Profile Summary at step 7:") < found[0]
    assert found[-1] < places[1]
    assert TEXT.endswith("-" * 78 + "\n")


def test_labels_fill_70_columns() -> None:
    summary = TEXT.split(HEADINGS[1])[0]
    rows = [line for line in summary.splitlines() if re.match(r"^[^:]+: {2,}\S", line)]
    assert len(rows) >= len(LABELS)
    for row in rows:
        label = row[: row.index(": ") + 2]
        assert row[max(70, len(label)) :].startswith("  ")
        assert row[max(70, len(label)) + 2] != " "


@pytest.mark.parametrize(
    ("label", "written"),
    [
        (r"world size: ", "1"),
        (r"batch size per GPU: ", "3"),
        (r"params per GPU: ", "48"),
        (r"fwd MACs per GPU: ", "144 MACs"),
        (r"fwd flops per GPU: ", "288"),
        (r"fwd latency: ", "0.2 us"),
        (r"fwd FLOPS per GPU = fwd flops per GPU / fwd latency: ", "1.43 GFLOPS"),
        (r"bwd latency: ", "0.24 us"),
        (r"bwd FLOPS per GPU = 1.33 \* fwd flops per GPU / bwd latency: ", "1.6 GFLOPS"),
        (r"fwd\+bwd FLOPS per GPU = 2.33 \* fwd flops per GPU / \(fwd\+bwd latency\): ", "1.52 GFLOPS"),
        (r"step latency: ", "0.04 us"),
        (r"iter latency: ", "0.48 us"),
        (r"FLOPS per GPU = 2.33 \* fwd flops per GPU / iter latency: ", "1.39 GFLOPS"),
        (r"samples/second: ", "6211180.12"),
        (r"bwd flops per GPU, counted: ", "384"),
    ],
)
def test_values(label: str, written: str) -> None:
    assert field(TEXT, label) == written


def test_tree() -> None:
    root, fc1, act, fc2 = modules(TEXT)
    assert (root["cls"], fc1["name"], fc1["indent"], fc2["name"]) == ("Tiny", "fc1", "  ", "fc2")
    assert value(fc1["macs"]) == 96
    assert fc1["macs_share"] == "66.67"
    assert (fc1["params"], fc1["params_share"]) == ("32", "66.67")
    assert fc1["time_share"] == "51.98"  # 105 / 202
    assert (act["macs"], act["rate"]) == ("0 ", "0 ")
    assert "  (fc1): Linear(32 = 66.67% Params" in TEXT
    assert "FLOPS, in_features=4, out_features=8, bias=False)\n" in TEXT


def test_aggregated_has_the_deepest_level() -> None:
    depths = aggregated(TEXT)
    assert list(depths) == [0, 1]
    assert depths[0] == {"params": {"Tiny": "48"}, "MACs": {"Tiny": "144 MACs"}, "fwd latency": {"Tiny": "0.2 us"}}
    linear = {"params": "48", "MACs": "144 MACs", "fwd latency": "0.17 us"}
    assert depths[1] == {row: {"Linear": text} for row, text in linear.items()}
    assert len(aggregated(deepspeed_text(TINY, top_modules=5))[1]["params"]) == 2
    assert list(aggregated(deepspeed_text(TINY, module_depth=0))) == [0]
    assert list(aggregated(deepspeed_text(TINY, module_depth=99))) == [0, 1]


def test_not_detailed() -> None:
    assert HEADINGS[2] not in deepspeed_text(TINY, detailed=False)


def test_the_earlier_layout() -> None:
    text = deepspeed_text(TINY, layout=EARLIER)
    assert f"{'fwd MACs per GPU: ':<60}  144 MACs" in text
    assert f"{'params per gpu: ':<60}  48" in text
    root, fc1, *_ = modules(text, EARLIER_MODULE)
    assert (root["params_share"], fc1["macs_share"]) == ("100.00", "66.67")
    assert text.index("bwd latency: ") < text.index("fwd FLOPS per GPU")  # latencies first
    assert text.index("iter latency: ") < text.index("samples/second: ")


def test_without_a_backward_its_lines_are_left_out() -> None:
    forward = replace(
        TINY,
        ops=tuple(row for row in TINY.ops if row.phase is F),
        times=tuple(time for time in TINY.times if time.phase is F),
    )
    text = deepspeed_text(forward)
    assert len(labels_in_order(text)) == len(INFERENCE)
    assert "bwd latency: " not in text


def test_what_was_not_measured_is_said() -> None:
    text = deepspeed_text(UNTIMED)
    assert field(text, r"fwd latency: ") == "not measured"
    assert field(text, r"iter latency: ") == "not measured"
    assert "note: latency was not measured; 0 s in the aggregated profile and the tree stands for that" in text
    assert [row["time"] for row in modules(text)] == ["0 "] * 4


def test_an_engines_timers_without_a_backward_that_was_counted() -> None:
    """No factor of 2 is assumed: where the backward was not counted, its rate is not given."""
    forward = replace(TINY, ops=tuple(row for row in TINY.ops if row.phase is F), times=())
    text = deepspeed_text(forward, sizes=Sizes(bwd_s=0.002, step_s=0.001))
    assert field(text, r"bwd latency: ") == "2 ms"
    assert field(text, r"bwd FLOPS per GPU = \? \* fwd flops per GPU / bwd latency: ") == "not counted"


def test_recomputation_counts_in_the_backward_where_asked() -> None:
    again = replace(TINY, ops=(*TINY.ops, op(1, Phase.RECOMPUTE, "aten.mm.default", matmul(192, 176, 96))))
    assert step_line(again, Sizes()).bwd_flops == 384
    assert step_line(again, Sizes(), recomputation=True).bwd_flops == 576


def test_full_attention_in_the_numbers_and_causal_apart() -> None:
    causal = replace(TINY, ops=(*TINY.ops, op(0, F, "attention", matmul(50, 1, 1, full_flops=100))))
    text = deepspeed_text(causal)
    assert field(text, "fwd flops per GPU: ") == "388"
    assert field(text, "fwd flops per GPU with causal attention exact: ") == "338"


def test_samples_are_those_of_the_replicas() -> None:
    line = step_line(TINY, Sizes(world=8, data=4, model=2))
    assert (line.samples, line.model_flops) == (12, 576)


def test_accumulation_sums_the_micro_batches() -> None:
    line = step_line(replace(TINY, micro_batches=3), Sizes(batch=1))
    assert (line.batch, line.samples, line.micro_batches) == (1, 3, 3)


def test_a_weight_update_that_takes_most_of_the_step_is_a_finding() -> None:
    slow = deepspeed_text(replace(TINY, times=()), sizes=Sizes(bwd_s=0.1, step_s=30.0))
    assert "note: the update of the weights takes longer than forward and backward together" in slow
    assert "the update of the weights" not in TEXT


def test_folded_modules_give_their_work_to_the_one_above() -> None:
    folded = module_lines(fold(TINY, frozenset({"fc1"})))
    plain = module_lines(TINY)
    assert folded[0] == plain[0]
    assert (folded[1].flops, folded[1].seconds, folded[1].params) == (0, None or 0.0, 32)


def test_the_backward_of_a_fold_is_kept() -> None:
    assert step_line(fold(TINY, frozenset({"fc1"})), Sizes()).bwd_flops == 384
    assert any(row.phase is B and row.module == 0 for row in fold(TINY, frozenset({"fc1"})).ops)


def test_a_thousand_modules() -> None:
    text = deepspeed_text(huge())
    assert len(modules(text)) == 1000
