"""Reports made by hand, small enough for a pencil, and one large enough to measure.

`TINY`: 3 rows through Linear(4, 8), ReLU, Linear(8, 2) without biases, in fp32, forward and backward, then SGD:

    place      phase      operator     matrix FLOPs        vector  read B              written B
    fc1        forward    mm           2*3*4*8 = 192            0  4*(12 + 32) = 176   4*24 = 96
    act        forward    relu                                 24  96                  96
    fc2        forward    mm           2*3*8*2 =  96            0  4*(24 + 16) = 160   4*6 = 24
    (outside)  forward    mylib.loss   unknown                     24                  4
    fc2        backward   2 x mm       2 * 96                   0  2 * 160             2 * 64
    act        backward   threshold                            24  192                 96
    fc1        backward   mm           192                      0  176                 96
    (outside)  optimizer  2 x _foreach                     2 * 48  2 * 192             2 * 192

so 288 FLOPs forward, 384 backward. Times, in ns, of three steps: see `TIMES`.
"""

from __future__ import annotations

from dataclasses import replace

from weftrace.costs.cost import Cost, Kind, Phase, Status
from weftrace.flops.values import Clock, FlopsReport, Module, OpCount, Parallel, Timing

F, B, R, O = Phase.FORWARD, Phase.BACKWARD, Phase.RECOMPUTE, Phase.OPTIMIZER  # noqa: E741

MODULES = (
    Module(path="", name="", class_name="Tiny", parent=None, depth=0, calls=1),
    Module(
        path="fc1",
        name="fc1",
        class_name="Linear",
        parent=0,
        depth=1,
        detail="in_features=4, out_features=8, bias=False",
        own_params=32,
        own_trainable_params=32,
        own_global_params=32,
        own_param_bytes=128,
        own_active_params=32,
        calls=1,
    ),
    Module(path="act", name="act", class_name="ReLU", parent=0, depth=1, calls=1),
    Module(
        path="fc2",
        name="fc2",
        class_name="Linear",
        parent=0,
        depth=1,
        detail="in_features=8, out_features=2, bias=False",
        own_params=16,
        own_trainable_params=16,
        own_global_params=16,
        own_param_bytes=64,
        own_active_params=16,
        aliases=("head", "tied.head"),
        calls=1,
    ),
    Module(path="(outside)", name="(outside)", class_name="", parent=None, depth=0),
)


def matmul(flops: int, read: int, written: int, dtype: str = "fp32", **more: int) -> Cost:
    """A matrix product: the four totals alike unless `more` says otherwise."""
    values = {"full_flops": flops, "executed_flops": flops} | more
    return Cost(
        flops=flops,
        full_flops=values["full_flops"],
        executed_flops=values["executed_flops"],
        vector_flops=values.get("vector_flops", 0),
        read_bytes=read,
        written_bytes=written,
        dtype=dtype,
        kind=Kind.MATMUL,
    )


def vector(flops: int, read: int, written: int, dtype: str = "fp32") -> Cost:
    return Cost(vector_flops=flops, read_bytes=read, written_bytes=written, dtype=dtype)


def unknown(read: int, written: int) -> Cost:
    return Cost(
        read_bytes=read,
        written_bytes=written,
        dtype="fp32",
        kind=Kind.UNKNOWN,
        status=Status.UNKNOWN,
        note="no formula",
    )


FREE = Cost(dtype="fp32", kind=Kind.FREE)
MM1, MM2, GRAD2 = matmul(192, 176, 96), matmul(96, 160, 24), matmul(96, 160, 64)


def op(module: int, phase: Phase, name: str, cost: Cost, calls: int = 1, signature: str = "") -> OpCount:
    return OpCount(module=module, phase=phase, op=name, signature=signature, calls=calls, cost=cost)


OPS = (
    op(1, F, "aten.t.default", FREE, signature="[8, 4] fp32 -> [4, 8] fp32"),
    op(1, F, "aten.mm.default", MM1, signature="[3, 4] fp32, [4, 8] fp32 -> [3, 8] fp32"),
    op(1, B, "aten.mm.default", MM1, signature="[8, 3] fp32, [3, 4] fp32 -> [8, 4] fp32"),
    op(2, F, "aten.relu.default", vector(24, 96, 96)),
    op(2, B, "aten.threshold_backward.default", vector(24, 192, 96)),
    op(3, F, "aten.mm.default", MM2, signature="[3, 8] fp32, [8, 2] fp32 -> [3, 2] fp32"),
    op(3, B, "aten.mm.default", GRAD2, calls=2),
    op(4, F, "mylib.loss.default", unknown(24, 4)),
    op(4, O, "aten._foreach_add_.List", vector(48, 192, 192), calls=2),
)

TIMES = {
    (0, F): (10, 12, 11),
    (1, F): (100, 110, 105),
    (2, F): (20, 20, 20),
    (3, F): (50, 60, 70),
    (4, F): (5, 5, 8),
    (3, B): (100, 90, 95),
    (2, B): (30, 30, 30),
    (1, B): (120, 110, 115),
    (4, O): (40, 41, 45),
}
STEP_NS = (480, 490, 500)

TINY = FlopsReport(
    name="Tiny",
    modules=MODULES,
    ops=OPS,
    times=tuple(Timing(module=m, phase=p, samples_ns=samples) for (m, p), samples in TIMES.items()),
    clock=Clock(source="cpu clock", steps=3, warm_up=1, step_ns=STEP_NS, counted_step_ns=900, own_ns=7),
    device="cpu",
    samples=3,
    tokens=12,
    torch_version="2.13.0",
    settings={"deterministic": "False"},
    notes=("made by hand",),
)
UNTIMED = replace(TINY, times=(), clock=Clock(), device="meta")


def huge(num_modules: int = 1000, signatures: int = 10) -> FlopsReport:
    """A report of many modules in layers of ten, every one with `signatures` operators in each of four phases."""
    modules = [Module(path="", name="", class_name="Huge", parent=None, depth=0)]
    for index in range(1, num_modules):
        layer = 0 if index % 10 == 1 else index - (index - 1) % 10
        path = f"layers.{index // 10}" if layer == 0 else f"{modules[layer].path}.part{index % 10}"
        modules.append(
            Module(
                path=path,
                name=path.rsplit(".", 1)[-1],
                class_name="Layer" if layer == 0 else "Linear",
                parent=layer,
                depth=1 if layer == 0 else 2,
                own_params=1000 + index,
                own_trainable_params=1000 + index,
                own_global_params=1000 + index,
                own_param_bytes=4 * (1000 + index),
                own_active_params=1000 + index,
                calls=1,
            )
        )
    costs = [
        matmul(2**40 + index, 2**20, 2**18, "bf16")
        if index % 3 == 0
        else (vector(2**20 + index, 2**21, 2**20, "bf16") if index % 3 == 1 else FREE)
        for index in range(signatures)
    ]
    phases = (F, B, R, O)
    return FlopsReport(
        name="Huge",
        modules=tuple(modules),
        ops=tuple(
            op(module, phase, f"aten.op{index}.default", costs[index], calls=1 + index % 2, signature=f"[{index}] bf16")
            for module in range(num_modules)
            for phase in phases
            for index in range(signatures)
        ),
        times=tuple(
            Timing(module=module, phase=phase, samples_ns=tuple(20_000_000 + module + k for k in range(5)))
            for module in range(num_modules)
            for phase in phases
        ),
        clock=Clock(source="cuda events", steps=5, warm_up=2, step_ns=(10**11,) * 5),
        device="cuda: NVIDIA H200",
        hardware="NVIDIA H200",
        samples=8,
        tokens=8 * 4096,
        parallel=Parallel(data=8, tensor=2),
    )
