"""What a recorded call of an operator costs: its name and the texts of the columns `input_*`, made a `Cost`."""

from __future__ import annotations

from typing import NamedTuple

from weftrace.costs.cost import Cost


class RecordedCall(NamedTuple):
    """A call of an operator as Kineto records it with record_shapes; each text is a JSON list, one entry an argument.

    shapes: "Input Dims". types: "Input type". strides: "Input Strides". values: "Concrete Inputs", scalars as texts.
    None where the file has none.
    """

    name: str
    shapes: str | None = None
    types: str | None = None
    strides: str | None = None
    values: str | None = None


def is_counted(name: str) -> bool:
    """Whether an operator of that name ("aten::mm", "triton_poi_fused_add_0", "vllm::fp8_gemm") has a formula."""
    raise NotImplementedError


def cost_of(call: RecordedCall) -> Cost | None:
    """What one call costs; None where its shapes were not recorded.

    An operator with shapes and without a formula costs the bytes of its inputs, status UNKNOWN, and the note says so.
    """
    raise NotImplementedError
