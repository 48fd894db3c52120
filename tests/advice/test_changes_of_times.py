"""Chains of kernels as one, kernels at another rate, and collectives as fewer messages: answers told by hand, in µs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.advice.runs import trace_of
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.advice.changed_plans import changed, span_ns
from weftrace.advice.changes import Change, Remove
from weftrace.advice.jobs import infer_job
from weftrace.advice.kernel_times import at_efficiency, fused
from weftrace.advice.message_times import messages_of
from weftrace.advice.whatifs import what_if
from weftrace.errors import AdviceError
from weftrace.plan.inference.inferring import infer
from weftrace.plan.inference.values import Inferred

MUL, GELU, TAIL, PRODUCT = 0, 1, 2, 3
MATRIX = [1_000, 1_000]
TB = 1e12


def span(inferred: Inferred, *changes: Change) -> float:
    return span_ns(changed(inferred, changes)) / 1_000


def kernels(folder: Path, *, shapes: bool = True) -> Inferred:
    """7   [mul 15][gelu 10][custom 10][gemm 50]    launched early, 3 each

    mul reads two matrices of 4 MB and writes one; gelu reads that and writes another. custom has no operator.
    """
    file, starts = TraceFile(), (1_010, 1_025, 1_035, 1_045)
    for number, (name, num_inputs) in enumerate((("aten::mul", 2), ("aten::gelu", 1), ("", 0), ("aten::mm", 2))):
        told = {"Input Dims": [MATRIX] * num_inputs, "Input type": ["float"] * num_inputs} if shapes else {}
        if name:
            file.host(name, 1_000 + 3 * number, 2.5, cat="cpu_op", **told)
        kernel = GEMM if name == "aten::mm" else f"kernel_{number}"
        file.kernel(kernel, starts[number], (15, 10, 10, 50)[number], launch=1_001 + 3 * number)
    return infer(file.trace(folder))


def test_a_chain_reads_its_first_inputs_and_writes_its_last_result_once(tmp_path: Path) -> None:
    inferred = kernels(tmp_path)
    (work,) = inferred.works
    assert span(inferred) == 85
    by_bytes = fused("fused", work, [MUL, GELU], bytes_per_s=TB)
    assert span(inferred, by_bytes) == 85 - 25 + 12, "12 MB at 1 TB/s"
    assert changed(inferred, [by_bytes]).notes == (
        "fused: 1 chain of kernels as one each, by the bytes that it must move",
    )
    assert span(inferred, fused("fast", work, [MUL, GELU], bytes_per_s=100 * TB)) == 85 - 25 + 10, "the shortest"
    assert span(inferred, fused("slow", work, [MUL, GELU], bytes_per_s=TB / 100)) == 85, "no longer than it was"
    assert span(inferred, fused("rate", work, [MUL, GELU])) == 85 - 25 + 15, "the longest"
    unknown = fused("unknown", work, [GELU, TAIL], bytes_per_s=TB)
    assert span(inferred, unknown) == 85 - 10
    assert "1 chain with unknown bytes" in changed(inferred, [unknown]).notes[-1]
    two = fused("two", work, [MUL, GELU, TAIL, PRODUCT], [1, 1, 2, 2])
    assert span(inferred, two) == 15 + 50
    assert what_if(inferred, [by_bytes]).after_ns == 72_000


def test_a_chain_needs_two_kernels_and_shapes_tell_bytes(tmp_path: Path) -> None:
    (work,) = kernels(tmp_path, shapes=False).works
    with pytest.raises(AdviceError, match="no chain has two kernels"):
        fused("alone", work, [MUL, GELU], [1, 2], bytes_per_s=TB)
    with pytest.raises(AdviceError, match="4 events, each once"):
        fused("wrong", work, [MUL, 9], bytes_per_s=TB)
    with pytest.raises(AdviceError, match="the FLOPs of these kernels are not known"):
        at_efficiency("rate", work, [PRODUCT], 1e14)


def test_a_product_at_another_rate_takes_its_flops_over_it(tmp_path: Path) -> None:
    inferred = kernels(tmp_path)
    (work,) = inferred.works
    faster = at_efficiency("rate", work, [MUL, PRODUCT], 1e14)
    assert span(inferred, faster) == 85 - 50 + 20, "2e9 FLOPs"
    assert changed(inferred, [faster]).notes == ("rate: 1 kernel without known FLOPs keep their time",)
    assert span(inferred, at_efficiency("slower", work, [PRODUCT], 2e13)) == 85 + 50
    with pytest.raises(AdviceError, match="a number above 0"):
        at_efficiency("none", work, [PRODUCT], 0)


def collectives(folder: Path, rank: int = 0, *, sizes: tuple[int, ...] = (1, 2, 3, 4), later: float = 0) -> Path:
    """20   [1 MB 20][2 MB 30][3 MB 40][4 MB 50]    10 for each, and 10 for each MB; launched early, 3 each

    later: by how much the rank comes later to the first, for which the other waits."""
    file, at = TraceFile(rank=rank, world_size=2), 1_100.0
    for number, mega in enumerate(sizes):
        waits = (20 - later) * (number == 0)
        elements = mega * 250_000
        told: dict[str, Any] = {
            "Collective name": "allreduce", "In msg nelems": elements, "Out msg nelems": elements, "dtype": "Float",
            "Group size": 2, "Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Seq": number,
        }  # fmt: skip
        lasts, launch = 10 + 10 * mega + waits, 1_000 + 3 * number
        file.kernel(ALL_REDUCE, at - waits, lasts, launch=launch, stream=20, **told)
        at += 10 + 10 * mega
    return file.write(folder / f"rank{rank}.json")


def test_small_messages_as_one_save_their_latencies(tmp_path: Path) -> None:
    inferred = infer(trace_of(collectives(tmp_path, later=20)))
    assert span(inferred) == 140
    pairs = messages_of("pairs", inferred, factor=2)
    assert span(inferred, pairs) == 140 - 2 * 10
    assert span(inferred, messages_of("all", inferred, target_bytes=100e6)) == 140 - 3 * 10
    assert span(inferred, messages_of("six", inferred, target_bytes=6e6)) == 140 - 2 * 10, "1, 2 and 3 MB are 6"
    (note,) = changed(inferred, [pairs]).notes
    assert note == "pairs: 4 collectives become 2, by 10.0 µs and 93.1 GiB/s for all_reduce"


def test_of_joined_ranks_transfers_alone_tell_the_line_and_waiting_stays(tmp_path: Path) -> None:
    paths = [collectives(tmp_path, 0), collectives(tmp_path, 1, later=20)]
    inferred = infer_job([trace_of(path) for path in paths])
    assert inferred.plan.ops.get_column("meet").drop_nulls().n_unique() == 4
    assert span(inferred) == 160
    assert span(inferred, messages_of("pairs", inferred, factor=2)) == 160 - 2 * 10
    assert span(inferred, messages_of("all", inferred, factor=4)) == 160 - 3 * 10


def test_a_line_needs_four_sizes_and_messages_need_others(tmp_path: Path) -> None:
    few = infer(trace_of(collectives(tmp_path, sizes=(1, 2, 3, 3))))
    with pytest.raises(AdviceError, match="4 or more sizes of one collective"):
        messages_of("few", few, factor=2)
    inferred = infer(trace_of(collectives(tmp_path)))
    with pytest.raises(AdviceError, match="no two collectives"):
        messages_of("alone", inferred, target_bytes=1)
    wrong: tuple[dict[str, Any], ...] = ({}, {"factor": 1}, {"target_bytes": -1}, {"factor": 2, "target_bytes": 1})
    for asked in wrong:
        with pytest.raises(AdviceError, match="say how many become one"):
            messages_of("wrong", inferred, **asked)


def test_of_one_rank_of_two_the_truth_lies_between(tmp_path: Path) -> None:
    """Rank 1 comes 20 later to the first collective; of rank 0 alone nobody knows that."""
    paths = [collectives(tmp_path, 0), collectives(tmp_path, 1, later=20)]
    both, alone = infer_job([trace_of(path) for path in paths]), infer(trace_of(paths[0]))
    truth, answer = (what_if(of, [messages_of("pairs", of, factor=2)]) for of in (both, alone))
    assert answer.is_interval and not truth.is_interval
    assert answer.low_ns <= truth.after_ns <= answer.high_ns


def test_collectives_that_are_not_done_hold_no_ranks_together(tmp_path: Path) -> None:
    paths = [collectives(tmp_path, 0), collectives(tmp_path, 1, later=20)]
    inferred = infer_job([trace_of(path) for path in paths])
    after = changed(inferred, [Remove(selector="communication")])
    assert after.plan.ops.get_column("meet").null_count() == len(after.plan)
    assert what_if(inferred, [Remove(selector="communication")]).limits
