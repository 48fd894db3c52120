"""A network of convolutions, in channels_last or not."""

from __future__ import annotations

from tests.causes.programs import elementwise
from tests.findings.planted.devices import Kernel
from tests.findings.planted.layers import Call, Piece
from tests.findings.planted.process import Shape
from tests.findings.planted.transformer import Transformer

RELU = elementwise("(anonymous namespace)::launch_clamp_scalar(at::TensorIteratorBase&)")
RELU_BACKWARD = elementwise("(anonymous namespace)::threshold_kernel_impl<c10::BFloat16>").replace("2ul", "3ul")
STATISTICS = (
    "void at::native::batch_norm_collect_statistics_channels_last_kernel<at::native::Var, c10::BFloat16, float, 4>"
    "(c10::BFloat16 const*, float*, float*, float volatile*, int*, int, int, float)"
)
TRANSFORM = (
    "void at::native::batch_norm_transform_input_channels_last_kernel<c10::BFloat16, float, c10::BFloat16, 4>"
    "(c10::BFloat16 const*, c10::BFloat16 const*, float const*, float const*, c10::BFloat16*, int, int, bool)"
)
NORM_BACKWARD = (
    "void at::native::batch_norm_backward_elemt_channels_last_kernel<4, c10::BFloat16, float, c10::BFloat16>"
    "(c10::BFloat16 const*, c10::BFloat16 const*, float const*, c10::BFloat16*, int, int)"
)


class ConvNet(Transformer):
    """Blocks of a 3x3 convolution of `width` channels over `tokens` pixels, BatchNorm and ReLU."""

    def convolution(self, way: str) -> Kernel:
        """One of the three convolutions of a layer: fprop, dgrad or wgrad."""
        form, device = self.form, self.device
        flops = 2.0 * 9 * form.tokens * form.width**2
        if device.vendor == "amd":
            short = {"fprop": "fwd", "dgrad": "bwd", "wgrad": "wrw"}[way]
            name = f"igemm_{short}_gtcx3_nhwc_bf16_bx0_ex1_bt256x128x32_wt32x32x8_ws1x1_wr2x2_ta1x8x4x1_1x4x1x64.kd"
        elif device.major >= 9:
            name = (
                f"sm90_xmma_{way}_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_"
                "warpgroupsize1x1x1_g1_execute_segment_k_off_kernel__5x_cudnn"
            )
        else:
            name = (
                f"sm80_xmma_{way}_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize256x64x32_stage3_"
                "warpsize4x1x1_g1_tensor16x8x16_execute_kernel__5x_cudnn"
            )
        return Kernel(name=name, ns=2_000 + 1e9 * flops / (0.8 * device.native * device.bf16), blocks=1_024)

    def transposed(self, *, back: bool = False) -> Kernel:
        """A change of layout around a convolution."""
        if self.device.vendor == "amd":
            name = "batched_transpose_64x32_pack_2x2_ediv_1_half.kd"
        else:
            kind = "nhwcToNchwKernel" if back else "nchwToNhwcKernel"
            name = (
                f"void cudnn::ops::{kind}<__nv_bfloat16, __nv_bfloat16, float, false, true, (cudnnKernelDataType_t)0>"
            )
        return self.device.moving(name, 2 * self.tensor)

    def piece(
        self, module: str, node: str, operators: str, forward: list[Kernel], backward_operators: str,
        backward: list[Kernel], shapes: tuple[Shape, ...], backward_shapes: tuple[Shape, ...], *, taken: float = 0.0,
    ) -> Piece:  # fmt: skip
        """A module, each of whose kernels is launched by a call of its own."""
        return Piece(
            module=module,
            node=node,
            forward=tuple(Call(operators=operators, kernel=kernel, shapes=shapes) for kernel in forward),
            backward=tuple(
                Call(operators=backward_operators, kernel=kernel, shapes=backward_shapes) for kernel in backward
            ),
            glue=taken > 0,
            taken=taken,
            given=self.tensor if taken else 0.0,
        )

    def layer(self) -> list[Piece]:
        form, device, tensor = self.form, self.device, self.tensor
        side = 56
        shape = (max(1, form.tokens // side**2), form.width, side, side)
        weight = (form.width, form.width, 3, 3)
        convolve = "aten::conv2d aten::convolution aten::_convolution aten::cudnn_convolution"
        if device.vendor == "amd":
            convolve = convolve.replace("cudnn", "miopen")
        pieces = []
        for number in range(2):
            forward = [self.convolution("fprop")]
            backward = [self.convolution(way) for way in ("dgrad", "wgrad")]
            if number < self.cost("layout-transforms"):
                there, back = self.transposed(), self.transposed(back=True)
                forward = [there, *forward, back]
                backward = [there, backward[0], back, there, backward[1]]
            pieces += [
                self.piece("Conv2d", "ConvolutionBackward0", convolve, forward, "aten::convolution_backward", backward,
                           (shape, weight), (shape, shape, weight)),
                self.piece("BatchNorm2d", "NativeBatchNormBackward0", "aten::batch_norm aten::native_batch_norm",
                           [device.moving(STATISTICS, tensor), device.moving(TRANSFORM, 2 * tensor)],
                           "aten::native_batch_norm_backward", [device.moving(NORM_BACKWARD, 5 * tensor)],
                           (shape,), (shape, shape), taken=2 * tensor),
                self.piece("ReLU", "ReluBackward0", "aten::relu aten::clamp_min", [device.moving(RELU, 2 * tensor)],
                           "aten::threshold_backward", [device.moving(RELU_BACKWARD, 3 * tensor)],
                           (shape,), (shape, shape), taken=tensor),
            ]  # fmt: skip
        return pieces

    def head(self) -> None:
        pooled = self.device.moving("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >", self.tensor)
        self.op("aten::adaptive_avg_pool2d aten::mean", pooled, (self.form.tokens, self.form.width))

    def head_backward(self, host: object) -> None:
        """The pooled mean has next to none."""

    @property
    def num_parameters(self) -> float:
        return 18.0 * self.form.layers * self.form.width**2
