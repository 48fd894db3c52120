"""Which causes are planted in which programs, how strongly, and what else is then true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.findings.planted.devices import A100, DEVICES, H100, MI300X
from tests.findings.planted.parallel import Parallel
from tests.findings.planted.process import rounded
from tests.findings.planted.programs import (
    Program,
    compiled,
    convnet,
    engine,
    graphs,
    healthy_step_ns,
    narrow,
    parallel,
    sharded,
    small,
    transformer,
)
from tests.findings.planted.sizes import (
    copied_bytes,
    copied_tensors,
    each_layer,
    hooks_us,
    loader,
    lost_share,
    number_of_tiny,
    once,
    per_step,
    region_us,
    searched,
    side_width,
    slower_host,
    trained_share,
)

#: A size for a cause, from the form that it is planted in and the share of the time that it shall take.
Sizing = Callable[[Program, float], float]


@dataclass(frozen=True, kw_only=True)
class Cause:
    """A rule's cause, as it is planted.

    programs: the forms it is planted in, before it is. sizes: three strengths, as shares of the time or as sizes.
    sized: the size for a share; left out, `sizes` are sizes. also_fine: rules that are true besides, by strength.
    """

    rule: str
    programs: tuple[Program, ...]
    sizes: tuple[float, float, float]
    sized: Sizing | None = None
    also_fine: tuple[str, ...] = ()
    strong_also_fine: tuple[str, ...] = ()
    has_gain: bool = True


HOST_TRAINING = (
    transformer(loss_read=True),
    transformer(A100, loss_read=True, seed=1),
    compiled(loss_read=True, seed=1),
    transformer(MI300X, loss_read=True, seed=2),
    graphs(loss_read=True),
)
SMALL = (small(), small(A100), small(MI300X), small(training=False, layers=8))
ENGINES = (engine(), engine(A100, tokens=32), engine(MI300X), engine(seed=1))

CAUSES = (
    Cause(
        rule="host-bound",
        programs=SMALL,
        sizes=(0.30, 0.45, 0.65),
        sized=slower_host,
    ),
    Cause(
        rule="sync-every-step",
        programs=(
            transformer(),
            transformer(A100, seed=1),
            transformer(MI300X, seed=2),
            transformer(training=False, layers=8, seed=3),
        ),
        sizes=(0.02, 0.06, 0.15),
        sized=each_layer,
        also_fine=("pageable-copies",),  # what is read goes to pageable memory
    ),
    Cause(
        rule="data-loading",
        programs=(*HOST_TRAINING, transformer(), convnet(A100), transformer(stacks=True, loss_read=True, seed=2)),
        sizes=(0.075, 0.20, 0.45),
        sized=loader,
        # Without the read of the loss at the step's end, the host would run ahead and hide the loader.
        also_fine=("sync-every-step",),
    ),
    Cause(
        rule="decode-gap",
        programs=ENGINES,
        sizes=(0.15, 0.30, 0.50),
        sized=per_step,
        also_fine=("host-bound",),
    ),
    Cause(
        rule="decode-outside-graphs",
        programs=ENGINES,
        sizes=(2, 4, 6),
        also_fine=("host-bound", "tiny-kernels"),
    ),
    Cause(
        rule="sm-wait",
        programs=(transformer(training=False, layers=8), transformer(A100, training=False, layers=8)),
        sizes=(0.03, 0.06, 0.12),
        sized=lambda program, share: per_step(program, share) / program.form.layers,
        also_fine=("exposed-collective",),
    ),
    Cause(
        rule="fp32-gemm",
        programs=(transformer(), transformer(A100), transformer(training=False), small()),
        sizes=(0.075, 0.30, 0.60),
        sized=side_width,
        also_fine=("old-gemm-kernels",),  # there is no newer kernel for FP32
    ),
    Cause(
        rule="old-gemm-kernels",
        programs=(transformer(), transformer(training=False), transformer(A100), compiled(), graphs()),
        sizes=(1, 2, 3),
    ),
    Cause(
        rule="unfused-attention",
        programs=(transformer(), transformer(A100), transformer(MI300X), transformer(training=False)),
        sizes=(512, 1_024, 4_096),
    ),
    Cause(
        rule="unfused-elementwise",
        programs=(narrow(), narrow(A100), narrow(MI300X), narrow(training=False)),
        sizes=(2, 3, 3),
    ),
    Cause(
        rule="tiny-kernels",
        programs=(small(training=False), small(A100, training=False), small(MI300X, training=False)),
        sizes=(0.20, 0.35, 0.55),
        sized=number_of_tiny,
        also_fine=("host-bound", "unfused-elementwise"),  # they are element-wise, and launched one by one
    ),
    Cause(
        rule="optimizer-step",
        programs=(transformer(), transformer(A100), transformer(MI300X), transformer(tokens=4_096)),
        sizes=(0.045, 0.10, 0.20),
        sized=trained_share,
        strong_also_fine=("unfused-elementwise",),  # its kernels are element-wise too
    ),
    Cause(
        rule="allocator",
        programs=(transformer(), transformer(A100), transformer(MI300X)),
        sizes=(0.02, 0.06, 0.20),
        sized=each_layer,
    ),
    Cause(
        rule="pageable-copies",
        programs=(*HOST_TRAINING, convnet(H100), transformer(training=False, layers=8)),
        sizes=(0.02, 0.06, 0.25),
        sized=copied_bytes,
    ),
    Cause(
        rule="gc-pause",
        programs=(
            *HOST_TRAINING[:2],
            transformer(MI300X, loss_read=True, stacks=True),
            transformer(stacks=True, loss_read=True),
        ),
        sizes=(0.15, 0.30, 0.50),
        sized=once,
    ),
    Cause(
        rule="recompilation",
        programs=(
            *(compiled(device, loss_read=True) for device in DEVICES),
            compiled(training=False, loss_read=True),
            transformer(loss_read=True),
            transformer(MI300X, loss_read=True),
        ),
        sizes=(0.10, 0.40, 0.80),
        sized=once,
    ),
    Cause(
        rule="warm-up-in-sample",
        programs=HOST_TRAINING,
        sizes=(0.45, 1.0, 3.0),
        sized=lambda program, share: share * healthy_step_ns(program) / 1e3,
        has_gain=False,
    ),
    Cause(
        rule="graph-breaks",
        programs=tuple(small(device, style="compiled") for device in (H100, A100, MI300X)),
        sizes=(0.15, 0.30, 0.50),
        sized=region_us,
        also_fine=("host-bound",),
    ),
    Cause(
        rule="graph-launch",
        programs=tuple(program.having(loss_read=True) for program in ENGINES),
        sizes=(0.15, 0.30, 0.50),
        sized=per_step,
        also_fine=("host-bound", "decode-gap"),
    ),
    Cause(
        rule="casts-and-copies",
        programs=(transformer(), transformer(A100), transformer(MI300X), transformer(training=False)),
        sizes=(0.12, 0.20, 0.30),
        sized=copied_tensors,
        strong_also_fine=("unfused-elementwise",),
    ),
    Cause(
        rule="layout-transforms",
        programs=(convnet(), convnet(A100, width=320), convnet(MI300X, width=320), convnet(width=384)),
        sizes=(1, 2, 2),
        also_fine=("casts-and-copies",),
        strong_also_fine=("unfused-elementwise",),  # with norm and activation they are a quarter of the time
    ),
    Cause(
        rule="recomputation",
        programs=(transformer(), transformer(A100), transformer(MI300X)),
        sizes=(2, 3, 4),
    ),
    Cause(
        rule="ddp-overhead",
        programs=(
            *(small(device, ddp=True, world_size=8) for device in (H100, A100, MI300X)),
            parallel(),
            parallel(A100),
        ),
        sizes=(0.02, 0.06, 0.15),
        sized=searched,
        also_fine=("host-bound",),
    ),
    Cause(
        rule="fsdp-rate-limiter",
        programs=(sharded(), sharded(A100), sharded(MI300X)),
        sizes=(0.035, 0.08, 0.14),
        sized=hooks_us,
        also_fine=("exposed-collective", "first-and-last-collective"),
    ),
    Cause(
        rule="unrecorded-work",
        programs=(*ENGINES, transformer(), transformer(MI300X, training=False)),
        sizes=(0.10, 0.2, 0.4),
        sized=lost_share,
        has_gain=False,
    ),
)
STRENGTHS = ("mild", "middle", "strong")


#: Causes that are planted together, and where.
TOGETHER: tuple[tuple[tuple[str, ...], tuple[Program, ...]], ...] = (
    (("data-loading", "fp32-gemm"), (transformer(loss_read=True), transformer(A100, loss_read=True))),
    (("data-loading", "pageable-copies"), (transformer(loss_read=True), transformer(MI300X, loss_read=True))),
    (("sync-every-step", "casts-and-copies"), (transformer(), transformer(A100), transformer(MI300X))),
    (("unfused-attention", "optimizer-step"), (transformer(), transformer(A100), transformer(MI300X))),
    (("allocator", "unfused-elementwise"), (narrow(), narrow(A100), narrow(MI300X))),
    (("recomputation", "old-gemm-kernels"), (transformer(), transformer(A100))),
    (("gc-pause", "data-loading"), (transformer(loss_read=True, stacks=True), transformer(MI300X, loss_read=True))),
    (("recompilation", "old-gemm-kernels"), (compiled(loss_read=True), compiled(A100, loss_read=True))),
    (("layout-transforms", "data-loading"), (convnet(loss_read=True), convnet(MI300X, loss_read=True))),
    (("decode-gap", "decode-outside-graphs"), ENGINES),
    (("warm-up-in-sample", "pageable-copies"), (transformer(loss_read=True), transformer(A100, loss_read=True))),
    (
        ("data-loading", "fp32-gemm", "casts-and-copies"),
        (transformer(loss_read=True), transformer(A100, loss_read=True)),
    ),
    (("sync-every-step", "unfused-attention", "optimizer-step"), (transformer(), transformer(MI300X))),
    (
        ("pageable-copies", "layout-transforms", "data-loading"),
        (convnet(loss_read=True), convnet(A100, loss_read=True)),
    ),
    (("allocator", "recomputation", "fp32-gemm"), (transformer(), transformer(A100))),
)


def changes_of(cause: Cause, program: Program, strength: int) -> dict[str, object]:
    """What else the program needs for a cause of this strength."""
    if program.kind is Parallel:
        return {"tokens": (8_192, 4_096, 2_048)[strength]}
    if cause.rule == "unfused-attention":
        return {"sequence": round(cause.sizes[strength])}
    if cause.rule == "unfused-elementwise" and strength == 2:
        return {"width": rounded(0.55 * program.form.width)}
    if cause.rule == "layout-transforms" and strength == 2:
        return {"width": program.form.width // 2}
    return {}
