"""weftrace beside torch's own counter: where they differ and why. Each difference has a reason, and the reverse."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.flop_counter import FlopCounterMode

from tests.conftest import ROOT
from weftrace.flops.runtime.profile import profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Matrix FLOPs of one operator in one program, forward and backward: weftrace's executed ones and
    FlopCounterMode's.

    theirs: None where FlopCounterMode stops the program. why: the reason for the difference, "" where there is none.
    """

    program: str
    op: str
    ours: int
    theirs: int | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why an operator differs in a program. right: weftrace's number by hand. theirs: FlopCounterMode's, by mistake."""

    why: str
    right: int
    theirs: int | None = 0


def _leaf(*shape: int, **kwargs: Any) -> Tensor:
    return torch.randn(*shape, requires_grad=True, **kwargs)


def _backward(out: Any) -> None:
    out.sum().backward()


class Lora(nn.Module):
    """A frozen 8 x 8 layer beside a trainable one of rank 2."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(8, 8, bias=False).requires_grad_(False)
        self.down, self.up = nn.Linear(8, 2, bias=False), nn.Linear(2, 8, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.frozen(x) + self.up(self.down(x))
        return out


def _sdpa(backend: SDPBackend, kv_heads: int = 4, **kwargs: Any) -> None:
    query, key, value = _leaf(2, 4, 16, 8), _leaf(2, kv_heads, 16, 8), _leaf(2, kv_heads, 16, 8)
    with sdpa_kernel(backend):
        _backward(F.scaled_dot_product_attention(query, key, value, **kwargs))


def _packed_heads() -> None:
    """(B, S, H, D) = (2, 16, 4, 8), as flash attention itself takes it."""
    query = torch.empty(2, 16, 4, 8, device="meta")
    torch.ops.aten._flash_attention_forward(query, query, query, None, None, 16, 16, 0.0, False, False)


def _efficient_causal() -> None:
    query = torch.empty(2, 4, 16, 8, device="meta")
    torch.ops.aten._scaled_dot_product_efficient_attention(query, query, query, None, False, 0.0, True)


def _experts() -> None:
    """6 tokens of width 16 to 2 experts of 16 x 8."""
    offsets = torch.tensor([2, 6], dtype=torch.int32)
    torch._grouped_mm(torch.randn(6, 16).bfloat16(), torch.randn(2, 16, 8).bfloat16(), offs=offsets)


def _flex() -> None:
    query = torch.randn(1, 2, 256, 16)
    flex_attention(query, query, query, block_mask=_MASK)


_MASK = create_block_mask(lambda b, h, i, j: i >= j, None, None, 256, 256, device="cpu")
_ENCODER = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()


def _fast_path() -> None:
    with torch.no_grad():
        _ENCODER(torch.randn(2, 4, 8))


PROGRAMS: dict[str, Callable[[], object]] = {
    "linear stack": lambda: _backward(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))(_leaf(3, 8))),
    "convolution": lambda: _backward(nn.Conv2d(4, 6, 3)(_leaf(2, 4, 8, 8))),
    "grouped convolution": lambda: _backward(nn.Conv2d(8, 8, 3, groups=4)(_leaf(2, 8, 8, 8))),
    "LoRA beside a frozen layer": lambda: _backward(Lora()(torch.randn(3, 8))),
    "SDPA, math": lambda: _sdpa(SDPBackend.MATH),
    "SDPA, CPU flash": lambda: _sdpa(SDPBackend.FLASH_ATTENTION),
    "SDPA, CPU flash, causal": lambda: _sdpa(SDPBackend.FLASH_ATTENTION, is_causal=True),
    "SDPA, CPU flash, grouped queries": lambda: _sdpa(SDPBackend.FLASH_ATTENTION, kv_heads=2, enable_gqa=True),
    "SDPA, efficient, causal (meta)": _efficient_causal,
    "flash attention, heads inside (meta)": _packed_heads,
    "flex attention": _flex,
    "LSTM": lambda: nn.LSTM(4, 8)(torch.randn(5, 2, 4)),
    "bilinear": lambda: nn.Bilinear(3, 4, 5)(torch.randn(2, 3), torch.randn(2, 4)),
    "cdist": lambda: torch.cdist(torch.randn(30, 8), torch.randn(40, 8)),
    "embedding": lambda: _backward(nn.Embedding(10, 4)(torch.arange(3))),
    "complex product": lambda: torch.randn(3, 4, dtype=torch.complex64) @ torch.randn(4, 5, dtype=torch.complex64),
    "experts by grouped_mm": _experts,
    "integer product": lambda: torch._int_mm(torch.ones(32, 16, dtype=torch.int8), torch.ones(16, 8, dtype=torch.int8)),
    "matrix times vector": lambda: torch.randn(3, 4) @ torch.randn(4),
    "dot": lambda: torch.dot(torch.randn(9), torch.randn(9)),
    "addbmm": lambda: torch.addbmm(torch.randn(3, 5), torch.randn(2, 3, 4), torch.randn(2, 4, 5)),
    "TransformerEncoder, fast path": _fast_path,
}

_FUSED = "FlopCounterMode has no formula, and says nothing"
_PAIRS = 2 * 4 * 16 * 16  # batch x heads x queries x keys
_CAUSAL = 2 * 4 * 16 * 17 // 2
_WIDE = (
    6 * 6 * 2 * 8 * (8 // 4) * 9
)  # products of the grouped convolution: positions x batch x outputs x inputs x kernel

# (program, operator) -> why it differs, and both numbers by hand.
REASONS: dict[tuple[str, str], Reason] = {
    ("grouped convolution", "aten.convolution_backward"): Reason(
        why="FlopCounterMode multiplies the weight's gradient by the number of groups",
        right=2 * 2 * _WIDE,
        theirs=2 * _WIDE + 4 * 2 * _WIDE,
    ),
    ("SDPA, CPU flash", "aten._scaled_dot_product_flash_attention_for_cpu"): Reason(why=_FUSED, right=2 * _PAIRS * 16),
    ("SDPA, CPU flash", "aten._scaled_dot_product_flash_attention_for_cpu_backward"): Reason(
        why=_FUSED, right=5 * 2 * _PAIRS * 8
    ),
    ("SDPA, CPU flash, causal", "aten._scaled_dot_product_flash_attention_for_cpu"): Reason(
        why=_FUSED, right=2 * _CAUSAL * 16
    ),
    ("SDPA, CPU flash, causal", "aten._scaled_dot_product_flash_attention_for_cpu_backward"): Reason(
        why=_FUSED, right=5 * 2 * _CAUSAL * 8
    ),
    ("SDPA, CPU flash, grouped queries", "aten._scaled_dot_product_flash_attention_for_cpu"): Reason(
        why=_FUSED, right=2 * _PAIRS * 16
    ),
    ("SDPA, CPU flash, grouped queries", "aten._scaled_dot_product_flash_attention_for_cpu_backward"): Reason(
        why=_FUSED, right=5 * 2 * _PAIRS * 8
    ),
    ("SDPA, efficient, causal (meta)", "aten._scaled_dot_product_efficient_attention"): Reason(
        why="a causal kernel skips what is masked; FlopCounterMode counts every pair",
        right=2 * _CAUSAL * 16,
        theirs=2 * _PAIRS * 16,
    ),
    ("flash attention, heads inside (meta)", "aten._flash_attention_forward"): Reason(
        why="FlopCounterMode reads (batch, tokens, heads, width) as (batch, heads, tokens, width)",
        right=2 * _PAIRS * 16,
        theirs=2 * (2 * 16 * 4 * 4) * 16,
    ),
    ("flex attention", "flex_attention"): Reason(
        why="FlopCounterMode stops the program; weftrace counts the 3 of 4 blocks of 128 x 128 that the mask lists",
        right=2 * (2 * 3 * 128 * 128) * 32,
        theirs=None,
    ),
    ("LSTM", "aten.mkldnn_rnn_layer"): Reason(why=_FUSED, right=2 * 5 * 2 * 4 * 8 * (4 + 8)),
    ("bilinear", "aten._trilinear"): Reason(why=_FUSED, right=2 * (2 * 3 * 4 * 5 + 2 * 4 * 5)),
    ("cdist", "aten._euclidean_dist"): Reason(  # [-2 x, |x|^2, 1] [y, 1, |y|^2]^T: 10 columns for 8
        why=_FUSED, right=2 * 30 * 40 * (8 + 2)
    ),
    ("complex product", "aten.mm"): Reason(
        why="a complex product is 4 real ones; FlopCounterMode counts it as one",
        right=4 * 2 * 3 * 4 * 5,
        theirs=2 * 3 * 4 * 5,
    ),
    ("experts by grouped_mm", "aten._grouped_mm"): Reason(why=_FUSED, right=2 * 6 * 16 * 8),
    ("integer product", "aten._int_mm"): Reason(why=_FUSED, right=2 * 32 * 16 * 8),
    ("matrix times vector", "aten.mv"): Reason(why=_FUSED, right=2 * 3 * 4),
    ("dot", "aten.dot"): Reason(why=_FUSED, right=2 * 9),
    ("addbmm", "aten.addbmm"): Reason(why=_FUSED, right=2 * 2 * 3 * 4 * 5),
    ("TransformerEncoder, fast path", "aten._transformer_encoder_layer_fwd"): Reason(
        why=_FUSED, right=2 * 8 * (4 * 8 * 8 + 2 * 8 * 16) + 2 * (2 * 4 * 4 * 8) * 2
    ),
}


def _ours(program: Callable[[], object]) -> dict[str, int]:
    with profile(nn.Module()) as counted:
        program()
    found: dict[str, int] = defaultdict(int)
    for op in counted.report().ops:
        found[op.op.rsplit(".", 1)[0] if op.op.count(".") > 1 else op.op] += op.calls * op.cost.executed_flops
    return found


def _theirs(program: Callable[[], object]) -> dict[str, int] | None:
    """None where counting stops the program."""
    counter = FlopCounterMode(display=False)
    try:
        with counter:
            program()
    except Exception:  # it is what FlopCounterMode does to flex attention; the reason is in the table
        return None
    return {str(op): int(flops) for op, flops in counter.get_flop_counts().get("Global", {}).items()}


def rows() -> list[Row]:
    """Every operator that either counter gives matrix FLOPs, program by program."""
    found = []
    for name, program in PROGRAMS.items():
        torch.manual_seed(0)
        ours, theirs = _ours(program), _theirs(program)
        for op in sorted({op for op, flops in ours.items() if flops} | set(theirs or {})):
            other = None if theirs is None else theirs.get(op, 0)
            reason = REASONS.get((name, op))
            found.append(Row(program=name, op=op, ours=ours.get(op, 0), theirs=other, why=reason.why if reason else ""))
    return found


def cross_check_table(found: list[Row]) -> str:
    """What differs, as Markdown."""
    lines = [
        "| program | operator | weftrace, executed | FlopCounterMode | why they differ |",
        "|---|---|---:|---:|---|",
    ]
    for row in found:
        if not row.why:
            continue
        theirs = "stops" if row.theirs is None else f"{row.theirs:,}"
        lines.append(f"| {row.program} | `{row.op}` | {row.ours:,} | {theirs} | {row.why} |")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module", name="found")
def _found() -> list[Row]:
    return rows()


def test_every_difference_has_a_reason(found: list[Row]) -> None:
    for row in found:
        assert row.ours == row.theirs or row.why, row


def test_every_reason_is_used_and_both_numbers_are_as_it_says(found: list[Row]) -> None:
    by_key = {(row.program, row.op): row for row in found}
    assert set(REASONS) <= set(by_key)
    for key, reason in REASONS.items():
        row = by_key[key]
        assert (row.ours, row.theirs) == (reason.right, reason.theirs), key
        assert row.ours != row.theirs, f"{key}: there is no difference left to explain"


def test_the_documented_table_is_this_one(found: list[Row]) -> None:
    assert {row.program for row in found} == set(PROGRAMS) - {"embedding"}  # which has no matrix work
    assert cross_check_table(found) in (ROOT / "docs" / "flops.md").read_text("utf-8")
