"""What a transformer's layer launches, forward and backward.

A layer is a list of pieces, one for each call of a module. Glue is what only moves bytes; compiled, neighbours of it
become one kernel that reads what comes in once and writes what goes out once.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from tests.causes.programs import NORM
from tests.findings.planted.devices import BF16, FP32, Kernel
from tests.findings.planted.names import (
    ADD,
    CAST,
    CAT,
    CONTIGUOUS,
    GELU,
    GELU_BACKWARD,
    MEAN,
    MUL,
    NORM_BACKWARD,
    NORM_GAMMA,
    POW,
    RSQRT,
    SCALE,
    SOFTMAX,
    TANH,
)
from tests.findings.planted.process import Shape, rounded
from tests.findings.planted.stalls import Stalls


@dataclass(frozen=True, kw_only=True)
class Call:
    """Operators, one in the other (parted by spaces), with the shapes of their inputs; the last launches the kernel."""

    operators: str
    kernel: Kernel
    shapes: tuple[Shape, ...]
    kind: str = BF16


@dataclass(frozen=True, kw_only=True)
class Piece:
    """What a module does.

    taken, given: bytes that glue reads and writes however it is fused; beside: what it reads from, and keeps for,
    others in the midst of a chain.
    """

    module: str
    node: str
    forward: tuple[Call, ...]
    backward: tuple[Call, ...] = ()
    role: str = ""
    glue: bool = False
    taken: float = 0.0
    given: float = 0.0
    beside: float = 0.0


class Layers(Stalls):
    """A decoder's layer."""

    def linear(self, role: str, k: int, n: int, *, kind: str = "bf16") -> Piece:
        device, m = self.device, self.form.tokens
        of = FP32 if kind.endswith("32") else BF16
        return Piece(
            module="Linear",
            node="AddmmBackward0",
            role=role,
            forward=(
                Call(
                    operators="aten::linear aten::addmm",
                    kernel=device.matmul(m, n, k, kind=kind),
                    shapes=((n,), (m, k), (k, n)),
                    kind=of,
                ),
            ),
            backward=(
                Call(operators="aten::mm", kernel=device.matmul(m, k, n, kind=kind), shapes=((m, n), (n, k)), kind=of),
                Call(operators="aten::mm", kernel=device.matmul(n, k, m, kind=kind), shapes=((n, m), (m, k)), kind=of),
            ),
        )

    def glue(
        self, operator: str, name: str, num_bytes: float, *, module: str = "Block", back: float = 1.5,
        beside: float = 0.0, scale: int = 1, inputs: int = 1, back_name: str = "",
    ) -> Piece:  # fmt: skip
        """An operator that reads and writes tensors; `back`: bytes of its backward pass over those."""
        device, (rows, width) = self.device, self.hidden
        shapes = ((rows, width * scale),) * inputs
        backward: tuple[Call, ...] = ()
        if back:
            kernel = device.moving(back_name or name, back * num_bytes)
            backward = (Call(operators=f"{operator}_backward", kernel=kernel, shapes=shapes * 2),)
        return Piece(
            module=module,
            node=operator.rsplit("::", 1)[1].strip("_").capitalize() + "Backward0",
            forward=(Call(operators=operator, kernel=device.moving(name, num_bytes), shapes=shapes),),
            backward=backward,
            glue=True,
            taken=self.tensor * scale,
            given=self.tensor * scale,
            beside=beside,
        )

    def norm(self) -> list[Piece]:
        """LayerNorm; or RMSNorm as it is written down, operator by operator."""
        tensor, device = self.tensor, self.device
        if self.planted("unfused-elementwise"):
            rows = 4.0 * self.form.tokens
            return [
                self.glue("aten::pow", POW, 2 * tensor, module="RMSNorm"),
                self.glue("aten::mean", MEAN, tensor, module="RMSNorm", back=1.0),
                self.glue("aten::add", SCALE, 2 * rows, module="RMSNorm", back=0.0),
                self.glue("aten::rsqrt", RSQRT, 2 * rows, module="RMSNorm"),
                self.glue("aten::mul", MUL, 2 * tensor, module="RMSNorm"),
                self.glue("aten::mul", MUL, 2 * tensor, module="RMSNorm"),
            ]
        back = "aten::native_layer_norm_backward"
        return [
            Piece(
                module="LayerNorm",
                node="NativeLayerNormBackward0",
                forward=(
                    Call(
                        operators="aten::layer_norm aten::native_layer_norm",
                        kernel=device.moving(NORM, 2 * tensor),
                        shapes=(self.hidden,),
                    ),
                ),
                backward=(
                    Call(operators=back, kernel=device.moving(NORM_BACKWARD, 3 * tensor), shapes=(self.hidden,) * 2),
                    Call(operators=back, kernel=device.moving(NORM_GAMMA, 0.3 * tensor), shapes=(self.hidden,) * 2),
                ),
                glue=True,
                taken=tensor,
                given=tensor,
            )
        ]

    def activation(self) -> list[Piece]:
        """GELU; or, of the stronger forms, as the formula says it, operator by operator."""
        wide, size = 4 * self.tensor, self.cost("unfused-elementwise")
        if size >= 2:
            names = [("aten::mul", SCALE), ("aten::pow", POW), ("aten::mul", SCALE), ("aten::add", SCALE)]
            names += [("aten::mul", SCALE), ("aten::tanh", TANH), ("aten::add", SCALE), ("aten::mul", SCALE)]
            found = names[-4:] if size < 3 else names
            return [self.glue(operator, name, 2 * wide, module="NewGELU", scale=4) for operator, name in found]
        return [self.glue("aten::gelu", GELU, 2 * wide, module="GELU", scale=4, back_name=GELU_BACKWARD)]

    def residual(self) -> list[Piece]:
        """The hidden state is added to; backward its gradient is."""
        return [self.glue("aten::add", ADD, 3 * self.tensor, back=1.0, beside=2 * self.tensor, inputs=2)]

    def attention(self) -> list[Piece]:
        form, device = self.form, self.device
        heads, batch = form.width // 64, form.tokens // form.sequence
        flops = 4.0 * form.tokens * form.sequence * form.width
        if self.planted("unfused-attention"):
            return self.attention_by_parts(batch, heads)
        forward = " ".join([
            "aten::scaled_dot_product_attention",
            "aten::_scaled_dot_product_flash_attention",
            "aten::_flash_attention_forward",
        ])  # fmt: skip
        backward = "aten::_scaled_dot_product_flash_attention_backward aten::_flash_attention_backward"
        shape = (batch, heads, form.sequence, 64)
        return [
            Piece(
                module="Attention",
                node="ScaledDotProductFlashAttentionBackward0",
                forward=(Call(operators=forward, kernel=device.flash(flops / 2), shapes=(shape,) * 3),),
                backward=(
                    Call(operators=backward, kernel=device.flash(1.25 * flops, backward=True), shapes=(shape,) * 4),
                ),
            )
        ]

    def attention_by_parts(self, batch: int, heads: int) -> list[Piece]:
        """Scores and softmax are written to memory."""
        device, sequence = self.device, self.form.sequence
        many = batch * heads
        scores = 2.0 * many * sequence * sequence
        narrow, wide = (many, sequence, 64), (many, sequence, sequence)
        turned = (many, 64, sequence)
        whole = (batch, heads, sequence, sequence)
        inner = device.matmul(sequence, sequence, 64, batch=many)
        outer = device.matmul(sequence, 64, sequence, batch=many)
        first = Call(operators="aten::matmul aten::bmm", kernel=inner, shapes=(narrow, turned))
        second = Call(operators="aten::matmul aten::bmm", kernel=outer, shapes=(wide, narrow))
        to_scores = Call(operators="aten::bmm", kernel=inner, shapes=(narrow, turned))
        from_scores = Call(operators="aten::bmm", kernel=outer, shapes=(wide, narrow))
        softmax = Call(
            operators="aten::softmax aten::_softmax",
            kernel=device.moving(SOFTMAX.format(way="forward"), 2 * scores),
            shapes=(whole,),
        )
        backward = Call(
            operators="aten::_softmax_backward_data",
            kernel=device.moving(SOFTMAX.format(way="backward"), 3 * scores),
            shapes=(whole, whole),
        )
        return [
            Piece(module="Attention", node="BmmBackward0", forward=(first,), backward=(from_scores, from_scores)),
            Piece(module="Attention", node="SoftmaxBackward0", forward=(softmax,), backward=(backward,)),
            Piece(module="Attention", node="BmmBackward0", forward=(second,), backward=(to_scores, from_scores)),
        ]

    def gemm_kind(self, role: str) -> str:
        """By which kernels a GEMM runs."""
        old = {1: ("proj",), 2: ("qkv", "proj"), 3: ("qkv", "fc1", "fc2")}.get(round(self.cost("old-gemm-kernels")), ())
        return "old" if role in old else "bf16"

    def side(self) -> list[Piece]:
        """A side branch in FP32, which TF32 would do for."""
        if "fp32-gemm" not in self.form.plants:
            return []
        kind = "fp32" if self.planted("fp32-gemm") else "tf32"
        return [self.linear("side", self.form.width, rounded(self.size("fp32-gemm")), kind=kind)]

    def copies(self) -> list[Piece]:
        """Casts, concatenations and changes of layout that are needless. Size: bytes over a tensor's."""
        found: list[Piece] = []
        left = self.cost("casts-and-copies")
        kinds = (
            ("aten::to aten::_to_copy aten::copy_", CAST, 3.0, "ToCopyBackward0"),
            ("aten::cat", CAT, 2.0, "CatBackward0"),
            ("aten::contiguous aten::clone aten::copy_", CONTIGUOUS, 2.0, "CloneBackward0"),
        )
        while left > 0.05:
            operators, name, most, node = kinds[len(found) % 3]
            share = min(most, left)
            left -= share
            call = Call(
                operators=operators, kernel=self.device.moving(name, share * self.tensor), shapes=(self.hidden,)
            )
            found.append(Piece(module="Attention", node=node, forward=(call,), backward=(call,)))
        return found

    def layer(self) -> list[Piece]:
        width = self.form.width
        return [
            *self.norm(),
            self.linear("qkv", width, 3 * width, kind=self.gemm_kind("qkv")),
            *self.copies(),
            *self.attention(),
            self.linear("proj", width, width, kind=self.gemm_kind("proj")),
            *self.residual(),
            *self.norm(),
            *self.side(),
            self.linear("fc1", width, 4 * width, kind=self.gemm_kind("fc1")),
            *self.activation(),
            self.linear("fc2", 4 * width, width, kind=self.gemm_kind("fc2")),
            *self.residual(),
        ]

    @property
    def is_compiled(self) -> bool:
        """torch.compile is also the remedy for unfused glue."""
        form = self.form
        return form.style in ("compiled", "graph") or "unfused-elementwise" in form.plants.keys() & form.removed

    def fused(self, pieces: list[Piece]) -> list[Piece]:
        """Neighbours of glue become one."""
        found: list[Piece] = []
        for is_glue, chain in groupby(pieces, key=lambda piece: piece.glue):
            chained = list(chain)
            if not is_glue:
                found += chained
                continue
            moved = chained[0].taken + chained[-1].given + sum(piece.beside for piece in chained)
            name = f"triton_per_fused_add_native_layer_norm_{len(found)}"
            if any("GELU" in piece.module for piece in chained):
                name = f"triton_poi_fused_gelu_{len(found)}"
            shapes = chained[0].forward[0].shapes
            calls = [
                Call(operators=name, kernel=self.device.moving(name, num_bytes, call="cuLaunchKernel"), shapes=shapes)
                for name, num_bytes in ((name, moved), (f"{name}9", 1.5 * moved))
            ]
            found.append(
                Piece(
                    module="Block",
                    node="CompiledFunctionBackward",
                    forward=(calls[0],),
                    backward=(calls[1],),
                    glue=True,
                )
            )
        return found
