"""What do the operations that compute cost? attn, attn-0, attn-1, shared, mlp; forward, backward, weight gradients.

A piece is named as a kernel would be, so that weftrace's kernel rules find its family.
"""

from __future__ import annotations

import numpy as np

from weftrace.facts import fixed_seconds
from weftrace.moe.costs.rates import Floats, Level, PartOfDevice, published_seconds, roofline_seconds
from weftrace.moe.operations import Operation
from weftrace.moe.pieces import Piece
from weftrace.moe.routing.load import Load
from weftrace.moe.setting import Setting
from weftrace.moe.shapes.layer import Layer, parts_of
from weftrace.moe.shapes.parts import Part

_KERNELS = {
    "product": "deep_gemm::{dtype}_gemm_kernel<{name}>",
    "grouped": "deep_gemm::m_grouped_{dtype}_gemm_kernel<{name}>",
    "batched": "cublasLt::bmm_{dtype}<{name}>",
    "core": "flash::flash_fwd_kernel<{name}>",
    "core backward": "flash::flash_bwd_kernel<{name}>",
    "core decode": "flash::flash_fwd_splitkv_kernel<{name}>",
    "latent core decode": "flash::flash_fwd_splitkv_mla_kernel<{name}>",
    "scores": "deep_gemm::fp8_mqa_logits<{name}>",
    "memory": "elementwise_kernel<norms, casts, copies: {name}>",
    "casts": "per_channel_cast_and_transpose<{name}>",
}
MEASURED_TOKENS = 128  # of a micro-batch in the decode profile
#: Operations that share the small operators of a layer in decode: a quarter each. An assumption.
_QUARTERS = {"attn": 2, "attn-0": 1, "attn-1": 1, "shared": 1, "mlp": 1}


def pieces_of(operation: Operation, setting: Setting, load: Load, level: Level = "published") -> tuple[Piece, ...]:
    """The kernels of an operation that computes, in order. load: rows of routed experts, by micro-batch.

    level: "roofline" or "published". Rates published for H800 are scaled by the SMs that computation has, and on other
    accelerators by their peaks; each piece says in `basis` whose rate it is by, and what is assumed. In decode
    memory-bound kernels are taken at a fixed time, at level published, as they are too short for a bandwidth.
    An operation with nothing to do (a shared expert that the model does not have) is one piece of no time.
    Raises `ProfileError` for the backward of work that training does not have.
    """
    layer = layer_of(operation, setting, load)
    parts = parts_of(operation.work, operation.direction, layer)
    pieces = [_piece(part, operation, layer, setting, level) for part in parts]
    if not pieces:
        return (Piece(name=f"elementwise_kernel<no {operation.work}>", duration_ns=0.0, basis="the model has none"),)
    return tuple(pieces)


def layer_of(operation: Operation, setting: Setting, load: Load) -> Layer:
    """What an operation works on: the tokens of its micro-batch, or of its chunk, and their routed rows."""
    chunks = operation.num_chunks
    tokens = setting.tokens * (operation.chunk + 1) // chunks - setting.tokens * operation.chunk // chunks
    decode = setting.kind == "decode"
    return Layer(
        model=setting.model,
        tokens=tokens,
        sequence=setting.sequence,
        requests=-(-tokens // setting.tokens_per_request) if decode else None,
        rows=load.of(operation.micro_batch).rows_LR / chunks,
        local_experts=setting.local_experts,
        shared_in_mlp=setting.kind == "train",
        fp8=setting.has_fp8,
    )


def _piece(part: Part, operation: Operation, layer: Layer, setting: Setting, level: Level) -> Piece:
    decode = setting.kind == "decode"
    device = PartOfDevice(hardware=setting.hardware, num_sms=setting.compute_sms)
    share = operation.share * operation.num_chunks  # of the layer's work on these tokens
    seconds: Floats
    if level == "roofline":
        seconds, basis = roofline_seconds(part, device), "roofline"
    elif decode and part.sort == "memory":
        seconds = np.asarray(_small_operators(operation, layer.tokens))
        basis = "assumed: 54 µs of small operators, a quarter in each of ATTN-0, ATTN-1, SHARED and MLP"
    else:
        seconds, basis = published_seconds(part, device, decode=decode, sparse=setting.model.indexer is not None)
        if part.sort == "core" and setting.model.latent is None:
            basis += ", of MLA, assumed alike"
        basis += device.summary
    return Piece(
        name=_kernel_name(part, decode=decode, latent=setting.model.latent is not None),
        duration_ns=_plain(seconds * 1e9 * share),
        num_kernels=1 if decode else max(1, round(part.num_kernels * share)),
        num_sms=device.num_sms,
        flops=_plain(np.asarray(part.flops * share)),
        moved_bytes=_plain(np.asarray(part.moved_bytes * share)),
        basis=basis,
    )


def _small_operators(operation: Operation, tokens: int) -> float:
    """Seconds in decode: as for 128 tokens, which are too few to matter; in proportion to tokens above."""
    fixed = fixed_seconds("small operators of decode") * _QUARTERS[operation.work] / 4
    return fixed * max(1.0, tokens / MEASURED_TOKENS)


def _kernel_name(part: Part, *, decode: bool, latent: bool) -> str:
    sort: str = "grouped" if part.grouped else part.sort
    if part.sort == "core":
        forward = ("latent core decode" if latent else "core decode") if decode else "core"
        sort = "core backward" if part.backward else forward
    return _KERNELS[sort].format(dtype=part.dtype, name=f"{part.name} {part.backward}".strip())


def _plain(value: Floats) -> float | Floats:
    """A number where there is one, an array [L, R] otherwise."""
    found = np.asarray(value, np.float64)
    return float(found) if found.ndim == 0 else found
