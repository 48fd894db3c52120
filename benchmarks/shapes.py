"""Operators as torch's profiler records them with `record_shapes`: products and what is around them, a kernel each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

_SIZES = (64, 128, 512, 1024, 4096)
_KERNELS = (
    "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_TNN",
    "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float>>",
    "void at::native::vectorized_layer_norm_kernel<c10::BFloat16, float>",
    "void softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 10, false, false>",
)
_DEVICE = {
    "id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132, "computeMajor": 9, "computeMinor": 0, "warpSize": 32,
    "maxThreadsPerMultiprocessor": 2048, "regsPerMultiprocessor": 65536, "sharedMemPerMultiprocessor": 233472,
    "totalGlobalMem": 85018279936,
}  # fmt: skip


def shapes(num_operators: int) -> Iterator[str]:
    """The text of a file with so many operators, in pieces: products of 125 shapes, three others of 25 each."""
    sides = list(product(_SIZES, repeat=3))
    yield json.dumps({"schemaVersion": 1, "deviceProperties": [_DEVICE]})[:-1] + ', "traceEvents": [\n'
    for number in range(num_operators):
        kind = number % len(_KERNELS)
        yield ",\n".join(json.dumps(event) for event in _events(number, kind, *sides[number // 4 % len(sides)]))
        yield ",\n" if number + 1 < num_operators else "\n]}\n"


def _events(number: int, kind: int, m: int, k: int, n: int) -> Iterator[dict[str, Any]]:
    """An operator, its launch and its kernel, 10 us after those before it."""
    bf16 = "c10::BFloat16"
    name, dims, types, values = (
        ("aten::addmm", [[n], [m, k], [k, n], [], []], [bf16] * 3 + ["Scalar"] * 2, ["", "", "", "1", "1"]),
        ("aten::mul", [[m, k], [m, k]], [bf16] * 2, ["", ""]),
        ("aten::native_layer_norm", [[m, k], [], [k], [k], []], [bf16, "ScalarList", bf16, bf16, "Scalar"],
         ["", f"[{k}]", "", "", "1e-5"]),
        ("aten::_softmax", [[m, k], [], []], [bf16, "Scalar", "Scalar"], ["", "-1", "False"]),
    )[kind]  # fmt: skip
    strides = [[size[1], 1] if len(size) == 2 else [1] * len(size) for size in dims]
    ts, ids = 10 * number, {"External id": number + 1, "correlation": number + 1}
    called = {"Input Dims": dims, "Input type": types, "Concrete Inputs": values, "Input Strides": strides}
    launch = {"device": 0, "stream": 7, "grid": [100, 1, 1], "block": [128, 1, 1], "registers per thread": 64}
    host = {"ph": "X", "pid": 1, "tid": 1}
    yield {**host, "cat": "cpu_op", "name": name, "ts": ts, "dur": 9, "args": {"External id": number + 1, **called}}
    yield {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": ts + 3, "dur": 3, "args": ids}
    args = {**ids, **launch, "shared memory": 0}
    kernel = {"ph": "X", "pid": 0, "tid": 7, "cat": "kernel", "name": _KERNELS[kind]}
    yield {**kernel, "ts": ts + 10, "dur": 8, "args": args}
