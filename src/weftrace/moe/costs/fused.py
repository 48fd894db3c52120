"""What does one fused kernel cost, that moves tokens and multiplies? By the law of waves (`moe.laws.waves`).

Rows travel each on its own, to one expert, and only the links limit them: h (1 + 1 / 32) bytes there in FP8, 2 h back.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from weftrace.facts import efficiency
from weftrace.moe.costs import compute
from weftrace.moe.costs.all_to_all import Rate
from weftrace.moe.costs.rates import Level
from weftrace.moe.laws.waves import waves_time
from weftrace.moe.operations import Operation
from weftrace.moe.pieces import Piece
from weftrace.moe.routing.load import Load
from weftrace.moe.setting import Setting


def fused_kernel(operation: Operation, setting: Setting, load: Load, level: Level) -> Piece:
    """Dispatch, products and combine in one, in as many waves as the GPU has experts: an assumption, one expert a wave.

    Products as those of separate kernels, on all SMs; what lies between them is part of the kernel and taken to take no
    time of its own. Ranks meet in it, since its rows come from all.
    """
    experts = replace(operation, work="mlp")
    pieces = compute.pieces_of(experts, replace(setting, comm_sms=0), load, level)
    products = [piece for piece in pieces if np.any(piece.flops)]
    there, back = (
        rows_over_links(replace(operation, work=work), setting, load, level) for work in ("dispatch", "combine")
    )
    computing = sum((np.asarray(piece.duration_ns) for piece in products), np.zeros(()))
    return Piece(
        name="mega_moe_kernel",
        kind="fused",
        duration_ns=waves_time(there.duration_ns, computing, back.duration_ns, setting.local_experts),
        num_sms=setting.hardware.num_sms,
        meets=True,
        flops=sum((np.asarray(piece.flops) for piece in products), np.zeros(())),
        moved_bytes=there.moved_bytes + back.moved_bytes,
        basis=f"law of {setting.local_experts} waves, assumed an expert each; {there.basis}; products: "
        + products[0].basis,
    )


def rows_over_links(operation: Operation, setting: Setting, load: Load, level: Level) -> Piece:
    """What a wave sends or gets back: the kernel's own SMs move it. Ranks meet before the first wave."""
    rows = setting.tokens * setting.experts.top_k
    move = operation.move
    copy = setting.model.hidden_size * (2.0 if move == "combine" or not setting.has_fp8 else 1 + 1 / 32)
    moved_LR = np.maximum(rows, load.of(operation.micro_batch).rows_LR) * copy * operation.share
    parts = (1.0, 1.0) if level == "roofline" else (efficiency("nvlink"), efficiency("nic"))
    rate = rate_of_rows(setting, *parts)
    assumed = "" if setting.num_domains == 1 else ", assumed: fused kernels are published inside one domain only"
    return Piece(
        name=move,
        kind="communication",
        duration_ns=moved_LR * 1e9 / rate.value,
        meets=operation.chunk == 0,
        moved_bytes=moved_LR,
        basis=f"{'roofline: ' if level == 'roofline' else ''}rows over {rate.basis}{assumed}; {load.basis}",
    )


def rate_of_rows(setting: Setting, part_of_link: float = 1.0, part_of_nic: float = 1.0) -> Rate:
    """Bytes a second of rows, each on its own and evenly to all GPUs: in one domain all cross the link, otherwise those
    to other nodes the NIC.
    """
    device, nodes = setting.hardware, setting.num_domains
    if nodes == 1:
        return Rate(value=device.link_bytes_per_s * part_of_link, basis=f"{part_of_link:.2f} of NVLink's peak")
    away = 1 - 1 / nodes
    return Rate(value=device.nic_bytes_per_s * part_of_nic / away, basis=f"{part_of_nic:.2f} of the NIC's peak")
