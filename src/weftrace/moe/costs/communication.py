"""What dispatch and combine cost: casts, barriers, and the bytes that move.

The kernel that moves tokens to their experts is also the backward of combine, and the one that brings answers back
also the backward of dispatch. Bytes of a copy of a token, hidden h, K experts a token:

    dispatch    h + 4 h / 128, in FP8 with a float32 scale for 128; 2 h in BF16 where the chip has no FP8;
                forward 12 K + 8 more: its experts, their weights, where it is from (the backward has them cached)
    combine     2 h, in BF16

Normal kernels, DeepEP V1 and V2 alike, are one after another:

    cast        before the dispatch of the backward, to FP8; forward it is part of what computes
    barrier     ranks meet; before the forward dispatch, what goes where is counted first (layout)
    data        copies x bytes / rate; copies to distinct nodes, or inside one NVLink domain to distinct GPUs, sent or
                received, the more of the two

Low-latency kernels (V1 in decode) take the published time, in proportion to tokens x K x bytes; ranks meet in the
transfer. In five stages it holds no SM: a kernel of 5 us issues it, one of 5 us receives it. Of fused kernels each row
goes on its own over the link (`fused`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from weftrace.errors import ProfileError
from weftrace.facts import efficiency
from weftrace.moe.costs.all_to_all import low_latency_us, normal_rate
from weftrace.moe.costs.fused import fused_kernel, rate_of_rows, rows_over_links
from weftrace.moe.costs.rates import Level
from weftrace.moe.operations import Operation
from weftrace.moe.pieces import Floats, Piece
from weftrace.moe.routing.load import Load
from weftrace.moe.setting import Setting

#: A barrier of ranks none of which is late; their lateness comes on top, from the plan.
BARRIER_NS = 10_000
#: Counting what goes where for 4,096 tokens: mean of get_dispatch_layout in DeepSeek's training profile.
LAYOUT_NS = 102_500
#: The short kernels that issue and receive a transfer without SMs.
SHORT_NS = 5_000
#: No transfer is faster than a message of 64 bytes across switches: 3.7 us on InfiniBand (arXiv:2505.09343, table 5).
MESSAGE_NS = 3_700
#: Tokens of a GPU for which normal kernels were published.
PUBLISHED_TOKENS = 4_096
#: What low-latency kernels were published for.
_PUBLISHED_ROWS, _PUBLISHED_HIDDEN = 128 * 8, 7168


def pieces_of(operation: Operation, setting: Setting, load: Load, level: Level = "published") -> tuple[Piece, ...]:
    """Kernels of a dispatch or combine, or of both with the experts in one, for the load of its micro-batch.

    level: "published" rates, of which normal kernels get the part `setting.bandwidth_reached`, or "roofline": bytes
    over the peaks of the links. Raises `ProfileError` for what the kernels of `setting.comm` cannot do.
    """
    if operation.work == "moe":
        return (fused_kernel(operation, setting, load, level),)
    assert operation.moves_tokens, operation
    if operation.part in ("issue", "receive"):
        _check_parts(setting)
        return (_short(operation),)
    load = load.of(operation.micro_batch)
    if setting.comm == "fused":
        return (rows_over_links(operation, setting, load, level),)
    if setting.comm == "deepep-v1" and setting.kind == "decode":
        return (_low_latency(operation, setting, load, level),)
    if operation.part == "transfer":
        _check_parts(setting)
    return tuple(_normal(operation, setting, load, level))


def bytes_of_a_copy(operation: Operation, setting: Setting) -> int:
    """Bytes of one token to one place."""
    hidden = setting.model.hidden_size
    if operation.move == "combine":
        return 2 * hidden
    row = hidden + 4 * -(-hidden // 128) if setting.has_fp8 else 2 * hidden
    return row + (12 * setting.experts.top_k + 8 if operation.direction == "F" else 0)


def _check_parts(setting: Setting) -> None:
    if setting.comm != "deepep-v1" or setting.kind != "decode":
        raise ProfileError(
            f"{setting.comm} in {setting.kind} has no transfers without SMs, which five stages need; choose deepep-v1 "
            "in decode, or an overlap with dispatch and combine as whole kernels"
        )


def _normal(operation: Operation, setting: Setting, load: Load, level: Level) -> Iterator[Piece]:
    move, tokens = operation.move, setting.tokens * operation.share
    if operation.work == "combine" and operation.direction == "B" and setting.has_fp8:
        yield _cast(setting, tokens)
    counts = operation.work == "dispatch" and operation.direction == "F"
    yield Piece(
        name=f"notify_{move}",
        kind="communication",
        duration_ns=BARRIER_NS + (LAYOUT_NS * tokens / PUBLISHED_TOKENS if counts else 0),
        num_kernels=2 if counts else 1,
        num_sms=setting.comm_sms,
        meets=True,
        basis=f"assumed: {BARRIER_NS // 1000} µs for a barrier if all ranks are on time"
        + (", the layout as in the training profile" if counts else ""),
    )
    copy = bytes_of_a_copy(operation, setting)
    copies_LR = (load.gpus_LR if setting.num_domains == 1 else load.nodes_LR) * operation.share
    if level == "roofline":
        duration_LR = _roofline_ns(load, copy * operation.share, setting)
        basis = "roofline: bytes over the peaks of NIC and NVLink"
    else:
        rate = normal_rate(setting, move)
        duration_LR = copies_LR * copy * 1e9 / rate.value
        basis = rate.basis
        if tokens < PUBLISHED_TOKENS:
            basis += f", assumed alike with {tokens:,.0f} tokens, not {PUBLISHED_TOKENS:,}"
    yield Piece(
        name=move,
        kind="communication",
        duration_ns=duration_LR,
        num_sms=setting.comm_sms,
        moved_bytes=copies_LR * copy,
        basis=f"{basis}; {load.basis}",
    )


def _roofline_ns(load: Load, copy: float, setting: Setting) -> Floats:
    """The longer of what the NIC needs for other nodes, and NVLink for distinct GPUs."""
    link_LR = load.gpus_LR * copy * 1e9 / setting.hardware.link_bytes_per_s
    if setting.num_domains == 1:
        return link_LR
    away = 1 - 1 / setting.num_domains
    return np.maximum(link_LR, load.nodes_LR * away * copy * 1e9 / setting.hardware.nic_bytes_per_s)


def _cast(setting: Setting, tokens: float) -> Piece:
    """BF16 to FP8 on the SMs that computation leaves: 3 bytes an element, at 0.6 of their part of the bandwidth."""
    sms = setting.comm_sms or setting.hardware.num_sms
    moved = 3.0 * tokens * setting.model.hidden_size
    rate = setting.hardware.hbm_bytes_per_s * efficiency("bandwidth") * sms / setting.hardware.num_sms
    return Piece(
        name="cast_to_fp8",
        duration_ns=moved * 1e9 / rate,
        num_sms=sms,
        moved_bytes=moved,
        basis=f"assumed: 0.6 of HBM's bandwidth x {sms} of {setting.hardware.num_sms} SMs",
    )


def _low_latency(operation: Operation, setting: Setting, load: Load, level: Level) -> Piece:
    """A whole kernel, or the transfer of one that holds no SM. Each row goes on its own, to its expert."""
    move = operation.move
    rows = setting.tokens * setting.experts.top_k
    busier_LR = np.maximum(1.0, load.rows_LR / rows)  # it waits for what it sends and for what it receives
    copy = setting.model.hidden_size * (2.0 if move == "combine" or not setting.has_fp8 else 1 + 4 / 128)
    moved_LR = busier_LR * rows * copy * operation.share
    if level == "roofline":
        rate = rate_of_rows(setting)
        duration_LR = moved_LR * 1e9 / rate.value
        basis = f"roofline: rows over {rate.basis}"
    else:
        rate = low_latency_us(setting, move)
        of_published = _PUBLISHED_ROWS * _PUBLISHED_HIDDEN * (2.0 if move == "combine" else 1 + 4 / 128)
        duration_LR = np.maximum(MESSAGE_NS, rate.value * 1000 * moved_LR / of_published)
        basis = f"{rate.basis}, in proportion to bytes"
    return Piece(
        name=move,
        kind="communication",
        duration_ns=duration_LR,
        num_sms=setting.comm_sms or None,
        meets=True,
        moved_bytes=moved_LR,
        basis=f"{basis}; {load.basis}",
    )


def _short(operation: Operation) -> Piece:
    move = operation.move
    return Piece(
        name=f"{move}_{operation.part}",
        kind="communication",
        duration_ns=SHORT_NS,
        basis=f"assumed: {SHORT_NS // 1000} µs for a kernel that issues or receives",
    )
