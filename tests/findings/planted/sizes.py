"""How large a cause must be to take a share of the time."""

from __future__ import annotations

from tests.findings.planted.engine import Engine
from tests.findings.planted.parallel import Parallel
from tests.findings.planted.programs import Program, healthy_step_ns, host_step_ns
from tests.findings.planted.sharded import GATHER, QUICK_GATHER, Sharded
from tests.findings.planted.transformer import Transformer


def per_step(program: Program, share: float) -> float:
    """Microseconds a step that make up the share, where the host does not run ahead over steps."""
    return share / (1 - share) * healthy_step_ns(program) / 1e3


def beyond_run_ahead(program: Program, share: float) -> float:
    """The same, where what the host takes must first be more than what the device does."""
    return (healthy_step_ns(program) / (1 - share) - host_step_ns(program)) / 1e3


def loader(program: Program, share: float) -> float:
    return (per_step if program.form.loss_read else beyond_run_ahead)(program, share)


def each_layer(program: Program, share: float) -> float:
    """Microseconds for each of a step's layers, less what it takes anyway to get going again."""
    return max(10.0, per_step(program, share) / program.form.layers - 35)


def once(program: Program, share: float) -> float:
    """Microseconds once in the whole recording."""
    return per_step(program, share) * program.form.num_steps


def slower_host(program: Program, share: float) -> float:
    """How much slower the host is; what the driver takes stays."""
    once = host_step_ns(program)
    twice = host_step_ns(program.having(plants={"host-bound": 2.0}))
    return 1 + (healthy_step_ns(program) / (1 - share) - once) / (twice - once)


def copied_bytes(program: Program, share: float) -> float:
    return per_step(program, share) * 6e3


#: What it takes to launch one tiny kernel.
TINY_NS = 10_500


def number_of_tiny(program: Program, share: float) -> float:
    """Kernels for each layer that take the share, with the time in which the device waits for the host."""
    slack = healthy_step_ns(program) - host_step_ns(program)
    return (1e3 * per_step(program, share) + slack) / TINY_NS / program.form.layers


def side_width(program: Program, share: float) -> float:
    """The width of a branch in FP32 that takes the share of the GEMMs' time."""
    device, form = program.form.device, program.form
    slower = device.bf16 * device.native / (device.fp32 * 0.8)
    return share / (1 - share) / slower * 12 * form.width


def copied_tensors(program: Program, share: float) -> float:
    """Copies for each layer and pass, in tensors, that take the share of kernels' time."""
    process = program.kind(program.form)
    assert isinstance(process, Transformer)
    passes = 2 * program.form.layers if program.form.training else program.form.layers
    each = 1e6 * process.tensor / program.form.device.bandwidth
    return per_step(program, share) / passes / each


def searched(program: Program, share: float) -> float:
    return share if program.kind is Parallel else beyond_run_ahead(program, share)


def region_us(program: Program, share: float) -> float:
    """What a region takes of the host before its code runs."""
    regions = 2 * program.form.layers
    return max(0.0, beyond_run_ahead(program, share) / regions - 50)


def hooks_us(program: Program, share: float) -> float:
    """What FSDP's hooks take for a layer so that waiting leaves the device idle."""
    process = program.kind(program.form)
    assert isinstance(process, Sharded)
    process.start()
    forward = process.gather_ns / QUICK_GATHER / 1e3
    return (1 - GATHER) * forward - 60 + per_step(program, share) / (program.form.layers - 2)


def lost_share(program: Program, share: float) -> float:
    """The share of a graph's kernels; or microseconds for each layer."""
    return share if program.kind is Engine else per_step(program, share) / program.form.layers


def trained_share(program: Program, share: float) -> float:
    """The share of parameters that are trained, one by one, in this share of the time."""
    process = program.kind(program.form)
    assert isinstance(process, Transformer)
    fused = 28 * process.num_parameters / program.form.device.bandwidth * 1e9
    rest = healthy_step_ns(program) - fused
    return min(1.0, share / (1 - share) * rest / (84 / 28 * fused))
