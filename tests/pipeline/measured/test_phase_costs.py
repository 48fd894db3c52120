"""What a chunk costs, as the phases of a trace tell it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tracefile import DISPATCH, GEMM, TraceFile
from weftrace.errors import TraceError
from weftrace.pipeline.measured.phase_costs import costs_of_phases, letter_of
from weftrace.plan import simulate
from weftrace.plan.deepseek import deepseek_training_layers
from weftrace.trace import read, work_of
from weftrace.units import US

# µs         100       120       140       160    170
# stream 7   [attn(F) 100-120][attn(B) 120-150][attn(W) 150-160]
# stream 20          [dispatch(B) 110-140]      [dispatch(F) 155-170]
PAIR = (
    ("attn(F)", GEMM, 100, 20, 7), ("dispatch(B)", DISPATCH, 110, 30, 20), ("attn(B)", GEMM, 120, 30, 7),
    ("attn(W)", GEMM, 150, 10, 7), ("dispatch(F)", DISPATCH, 155, 15, 20),
)  # fmt: skip


def trace_of(tmp_path: Path, events: tuple[tuple[str, str, int, int, int], ...]) -> TraceFile:
    file = TraceFile()
    for number, (phase, kernel, start, length, stream) in enumerate(events):
        file.host(phase, 10 * number, 5)
        file.kernel(kernel, start, length, stream=stream, launch=10 * number + 1, blocks=20)
    return file


def test_by_pencil(tmp_path: Path) -> None:
    # F = 20 + 15, I = 30 + 30, W = 10; the pair ran from 100 to 170
    costs = costs_of_phases(trace_of(tmp_path, PAIR).trace(tmp_path))
    assert (costs.forward_ns, costs.input_ns, costs.weight_ns) == (35 * US, 60 * US, 10 * US)
    assert costs.overlapped_ns == 70 * US
    assert costs.serial_ns == 105 * US and costs.overlapped_part == pytest.approx(70 / 105)
    assert [(part.name, part.direction, part.count, part.busy_ns) for part in costs.parts] == [
        ("attn(F)", "F", 1, 20 * US), ("dispatch(B)", "I", 1, 30 * US), ("attn(B)", "I", 1, 30 * US),
        ("attn(W)", "W", 1, 10 * US), ("dispatch(F)", "F", 1, 15 * US),
    ]  # fmt: skip


def test_what_follows_one_after_the_other_tells_no_overlapped_pair(tmp_path: Path) -> None:
    apart = (("attn(F)", GEMM, 0, 10, 7), ("attn(I)", GEMM, 20, 10, 7), ("attn(W)", GEMM, 40, 5, 7))
    costs = costs_of_phases(trace_of(tmp_path, apart).trace(tmp_path))
    assert (costs.forward_ns, costs.input_ns, costs.weight_ns, costs.overlapped_ns) == (10 * US, 10 * US, 5 * US, None)
    assert any("one after the other" in note for note in costs.notes)


def test_several_chunks_are_shared_out_and_their_overlap_is_not_guessed(tmp_path: Path) -> None:
    again = tuple((name, kernel, start + 100, length, stream) for name, kernel, start, length, stream in PAIR)
    costs = costs_of_phases(trace_of(tmp_path, PAIR + again).trace(tmp_path), chunks=2)
    assert (costs.forward_ns, costs.input_ns, costs.weight_ns) == (35 * US, 60 * US, 10 * US)
    assert costs.overlapped_ns is None and any("2 chunks" in note for note in costs.notes)
    with pytest.raises(TraceError, match=r"attn\(F\).* 2 times.*3 chunks"):
        costs_of_phases(trace_of(tmp_path, PAIR + again).trace(tmp_path), chunks=3)


def test_what_no_direction_claims_is_counted_and_told(tmp_path: Path) -> None:
    more = (*PAIR, ("optimizer", GEMM, 200, 40, 7))
    costs = costs_of_phases(trace_of(tmp_path, more).trace(tmp_path))
    assert costs.overlapped_ns == 70 * US
    assert any("optimizer" in note and "40.0 µs" in note for note in costs.notes)


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("attn(F)", "attn(B)"), "no phase of a weight gradient"),
        (("forward", "backward"), "no phase of a weight gradient"),
        (("attn(I)", "attn(W)"), "no phase of a forward"),
        (("attn(F)", "attn(W)"), "no phase of an input gradient"),
        (("attn(F)", "attn(B)", "mlp(I)", "attn(W)"), "B as well as I and W"),
        (("data", "optimizer"), "data, optimizer"),
    ],
)
def test_phases_that_do_not_tell_f_i_and_w_are_refused_with_the_reason(
    tmp_path: Path, names: tuple[str, ...], reason: str
) -> None:
    events = tuple((name, GEMM, 100 * at, 10, 7) for at, name in enumerate(names))
    with pytest.raises(TraceError, match=reason):
        costs_of_phases(trace_of(tmp_path, events).trace(tmp_path))


def test_a_full_backward_is_split_only_by_a_share_that_the_user_gives(tmp_path: Path) -> None:
    events = (("forward", GEMM, 0, 10, 7), ("backward", GEMM, 20, 20, 7))
    costs = costs_of_phases(trace_of(tmp_path, events).trace(tmp_path), weight_share=0.25)
    with pytest.raises(TraceError, match="no phase of a forward"):
        costs_of_phases(trace_of(tmp_path, events[1:]).trace(tmp_path), weight_share=0.25)
    assert (costs.forward_ns, costs.input_ns, costs.weight_ns) == (10 * US, 15 * US, 5 * US)
    assert any("0.25" in note and "assum" in note for note in costs.notes)


def test_a_trace_without_phases_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="record_function"):
        costs_of_phases(TraceFile().kernel(GEMM, 0, 10).trace(tmp_path))


@pytest.mark.parametrize(
    ("name", "letter"),
    [("attn(F)", "F"), ("mlp (B)", "B"), ("attn(I)", "I"), ("mlp.W", "W"), ("layer3.backward", "B"), ("fwd", "F"),
     ("mlp_wgrad", "W"), ("attn dgrad", "I"), ("optimizer", None), ("stage3(F&B)", None)],
)  # fmt: skip
def test_letters_of_names(name: str, letter: str | None) -> None:
    assert letter_of(name) == letter


def test_deepseeks_profile_gives_what_the_reference_states(shared_data: Path) -> None:
    costs = costs_of_phases(work_of(read(shared_data / "deepseek-v3-train.json.gz")))
    assert costs.overlapped_ns is not None
    summary = [round(ns / 1e6, 1) for ns in (costs.forward_ns, costs.input_ns, costs.weight_ns, costs.overlapped_ns)]
    assert summary == [97.4, 111.6, 29.8, 129.0]
    assert costs.overlapped_part == pytest.approx(0.54, abs=0.0005)
    assert costs.num_layers == 4


def test_a_simulated_layer_pair_gives_its_phases_sums() -> None:
    costs = costs_of_phases(simulate(deepseek_training_layers(2)))
    assert costs.num_layers == 2 and costs.overlapped_ns is not None
    assert round(costs.forward_ns / 2e6, 1) == round((4370 + 4604 + 6690 + 8684) / 1e3, 1)


def test_phases_that_launched_nothing_are_refused(tmp_path: Path) -> None:
    """As in a recording of the host alone."""
    file = TraceFile()
    for number, phase in enumerate(("attn(F)", "attn(B)", "attn(W)")):
        file.host(phase, 10 * number, 5)
    file.kernel(GEMM, 100, 20, stream=7)
    with pytest.raises(TraceError, match="no phases that launched work on a device"):
        costs_of_phases(file.trace(tmp_path))
