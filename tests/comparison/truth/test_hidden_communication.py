"""Communication that is moved behind computation is told as hidden, and no kernel as faster."""

from __future__ import annotations

from typing import Any

import pytest

from weftrace.comparison import Diff, diff
from weftrace.comparison.explanations import headline
from weftrace.plan import Op, Plan, Resource, Wait, simulate

MS = 1_000_000
COMPUTE, NETWORK = Resource(stream=7), Resource(stream=27)


def layers(*, overlap: bool, slower: float = 1.0, network: float = 1.0) -> Plan:
    """Four steps of eight layers: attention, an all-reduce of its result, a GEMM.

    overlap: the GEMM does not wait for the all-reduce. slower: how much longer a GEMM beside it takes.
    """
    ops: list[Op] = []
    for step in range(4):
        for layer in range(8):
            of: dict[str, Any] = {"step": step, "layer": layer}
            at = len(ops)
            last = (Wait(at - 2), Wait(at - 1)) if at else ()  # the layer before
            gemm_ns = round(2 * MS * (slower if overlap else 1))
            ops += [
                Op(name="attention", duration_ns=MS, resource=COMPUTE, phase="attn(F)", after=last, **of),
                Op(name="all_reduce", duration_ns=round(MS * network), resource=NETWORK, phase="attn(F)",
                   kind="communication", after=(Wait(at),), **of),
                Op(name="gemm", duration_ns=gemm_ns, resource=COMPUTE, phase="mlp(F)",
                   after=(Wait(at if overlap else at + 1),), **of),
            ]  # fmt: skip
    return Plan.of(ops, name="layers")


def compared(before: Plan, after: Plan) -> tuple[Diff, dict[str, tuple[int, ...]]]:
    found = diff(simulate(before), simulate(after))
    assert found.remainder_ns == 0
    columns = ("change_ns", "by_number_ns", "by_duration_ns", "by_overlap_ns", "by_kernel_ns")
    return found, {row[0]: row[1:] for row in found.by("part").select("part", *columns).iter_rows() if any(row[1:])}


def test_it_is_hidden_and_nothing_is_faster() -> None:
    found, parts = compared(layers(overlap=False), layers(overlap=True))
    assert parts == {"exposed communication": (-8 * MS, 0, 0, -8 * MS, 0)}
    assert headline(found) == (
        "A step takes 8.00 ms less (32.0 ms → 24.0 ms, −25.0 %): exposed all-reduce −8.00 ms, more of it hidden: "
        "0.0 % → 100.0 %, the kernels take as long as before."
    )


def test_what_it_slows_beside_it_is_told_apart() -> None:
    found, parts = compared(layers(overlap=False), layers(overlap=True, slower=1.1))
    assert parts["exposed communication"] == (-8 * MS, 0, 0, -8 * MS, 0)
    assert parts["compute"] == (round(1.6 * MS), 0, round(1.6 * MS), 0, 0)
    assert found.change_ns == round(-6.4 * MS)


def test_a_faster_network_is_none_of_it() -> None:
    _, parts = compared(layers(overlap=False), layers(overlap=False, network=0.5))
    assert parts == {"exposed communication": (-4 * MS, 0, -4 * MS, 0, 0)}


@pytest.mark.parametrize("network", [0.5, 2.0])
def test_hidden_and_faster_at_once_are_both_told(network: float) -> None:
    """Of 8 ms, all of 4 or 16 ms: half of the mean share is that of the duration, the rest is hidden."""
    _, parts = compared(layers(overlap=False), layers(overlap=True, network=network))
    duration = round(8 * MS * (network - 1) / 2)
    assert parts["exposed communication"] == (-8 * MS, 0, duration, -8 * MS - duration, 0)


def test_what_is_slower_behind_computation_is_told_though_the_step_is_as_long() -> None:
    found, parts = compared(layers(overlap=True), layers(overlap=True, network=1.3))
    assert parts == {} and found.change_ns == 0
    assert headline(found).endswith("Behind computation, all-reduce kernels take 1.30 times as long.")


def two_networks(second: float) -> Plan:
    """Four steps of eight layers: a GEMM, then two all-reduces side by side, the second `second` ms long, none hidden.

    compute    GEMM|....|GEMM|....
    network 1      |AAAA|    |AAAA
    network 2      |B   |    |B
    """
    ops: list[Op] = []
    for step in range(4):
        for layer in range(8):
            of: dict[str, Any] = {"step": step, "layer": layer, "phase": "mlp(F)"}
            at = len(ops)
            last = (Wait(at - 2), Wait(at - 1)) if at else ()
            ops.append(Op(name="gemm", duration_ns=2 * MS, resource=COMPUTE, after=last, **of))
            for stream, duration_ms in ((27, 1.0), (28, second)):
                ops.append(Op(name="all_reduce", duration_ns=round(duration_ms * MS), resource=Resource(stream=stream),
                              kind="communication", after=(Wait(at),), **of))  # fmt: skip
    return Plan.of(ops, name="two networks")


def test_what_ran_beside_other_communication_is_not_called_hidden() -> None:
    found, _ = compared(two_networks(1.0), two_networks(0.1))
    assert found.change_ns == 0
    assert "Behind computation" not in headline(found)
