"""How long does a step take at least, whichever order the chunks run in?

Legend: D devices, M micro-batches. F, I, W, B and F&B are of a share, the model over D.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np

from weftrace.pipeline.comparing.variants import MOST_STAGES
from weftrace.pipeline.costs import Costs
from weftrace.pipeline.simulation import Boundary


def lower_bound_ns(
    costs: Costs,
    *,
    num_devices: int,
    num_micro_batches: int,
    num_layers: int | None = None,
    boundary: Boundary = "barrier",
    memory_cap: float | None = None,
    cap_bytes: int | None = None,
) -> int:
    """A time that no schedule of whole micro-batches on these devices is shorter than, within the caps.

    costs, num_devices, num_micro_batches, num_layers: as in `candidates`; a device has `MOST_STAGES` stages at most, of
    up to two replicas, each of as many micro-batches. The bound, by hand:

    1. Until a first micro-batch has gone forward through the model, D F and D - 1 messages, there is no backward. The
       device that is i-th to begin waits for i // 2 stages, and so does the i-th to get a backward, for I of as many.
       None runs more forwards than it has room for.
    2. From the last forward on there are backwards alone: D I and D - 1 messages, and W of one stage.
    3. The rest of the work, at best as F&B, lies between the two, and all devices do as much of it.
    4. Or, of the device that has most layers: there are no half layers, so where the layers are no multiple of the
       devices, it has more work than the mean.

    Where costs differ by stage or rank, an F&B passes results on before its end, or a step is a rank's own span, only
    the work counts: that of all shares, at best as F&B, over all devices. Rounded down by a nanosecond an action.
    """
    forward, gradient, backward, pair = _shares(costs)
    work = num_micro_batches * min(forward + backward, pair)
    factors = np.broadcast_to(np.array(costs.rank_factor, np.float64), num_devices)
    least = work * num_devices / Fraction(float((1 / factors).sum()))
    most = Fraction(1)  # shares that the busiest device has, in layers of two replicas
    if num_layers and not _differs(costs):
        most = Fraction(ceil(Fraction(2 * num_layers, num_devices)) * num_devices, 2 * num_layers)
        least = max(least, work * most)
    is_plain = (costs.input_needed, costs.output_ready) == ((0, 0), (1, 1)) and not _differs(costs)
    if is_plain and boundary == "barrier":
        ends = _with_ends(
            forward, gradient, backward, pair, costs, num_devices, num_micro_batches,
            Fraction(num_devices, num_layers) if num_layers else Fraction(1, MOST_STAGES),
            _rooms(costs, num_devices, num_micro_batches, memory_cap, cap_bytes), most,
        )  # fmt: skip
        least = max(least, ends)
    rounding = ceil(3 * MOST_STAGES * float(factors.max()) * (num_micro_batches + num_devices))  # times are whole ns
    return max(0, ceil(least) - rounding)


def _with_ends(
    forward: Fraction, gradient: Fraction, backward: Fraction, pair: Fraction, costs: Costs, num_devices: int,
    num_micro_batches: int, smallest: Fraction, rooms: tuple[Fraction, Fraction], most: Fraction,
) -> Fraction:  # fmt: skip
    """rooms: shares of forwards that a device, and that all together, may hold. most: shares of the busiest device."""
    forward, backward = min(forward, pair), min(backward, pair)
    gradient = min(gradient, backward)
    messages = (num_devices - 1) * costs.latency_ns
    first = num_devices * forward + messages
    last = num_devices * gradient + messages + smallest * (backward - gradient)
    of_each, of_all = rooms

    def middle(begun: Fraction, ended: Fraction, share: Fraction) -> Fraction:
        """What is left of so many shares of all work, at best as F&B."""
        forwards, backwards = (share * num_micro_batches * part for part in (forward, backward))
        left = max(Fraction(0), forwards - begun), max(Fraction(0), backwards - ended)
        if (saved := max(Fraction(0), forward + backward - pair)) and forward and backward:
            return sum(left) - saved * min(left[0] / forward, left[1] / backward)
        return sum(left, Fraction(0))

    def of_mean(gradient: Fraction) -> Fraction:
        """gradient: for which the i-th device waits."""
        waits = [device // 2 * smallest for device in range(num_devices)]
        times = (max(first + wait * (gradient - forward), Fraction(0)) for wait in waits)
        begun = min(sum((min(each, of_each * forward) for each in times), Fraction(0)), of_all * forward)
        return (middle(begun, num_devices * last, Fraction(num_devices)) + sum(waits) * gradient) / num_devices

    least = max(of_mean(Fraction(0)), middle(min(first, of_each * forward), last, most))
    if least >= (num_devices - 1) // 2 * smallest * gradient:  # so that forwards do not end before the last wait
        least = max(least, of_mean(gradient))
    return first + last + least


def _rooms(
    costs: Costs, num_devices: int, num_micro_batches: int, cap: float | None, cap_bytes: int | None
) -> tuple[Fraction, Fraction]:
    """Shares of a micro-batch's activations that a device has room for, and that all devices together have."""
    each = Fraction(num_micro_batches * 2) if cap is None else Fraction(cap)
    together = each * num_devices
    if cap_bytes is not None and isinstance(costs.activation_bytes, int) and costs.activation_bytes:
        weights = costs.weight_bytes if isinstance(costs.weight_bytes, int) else 0
        # sizes of chunks may be rounded down by half a byte, of stages of a share's `MOST_STAGES`
        held = Fraction(costs.activation_bytes) - MOST_STAGES
        if held > 0:
            together = min(together, Fraction(num_devices * max(0, cap_bytes - weights + MOST_STAGES)) / held)
    return each, together


def _shares(costs: Costs) -> tuple[Fraction, Fraction, Fraction, Fraction]:
    """F, I, B and F&B of the mean share; B is the shorter of the whole and of its halves."""
    forward, gradient, weight = (_mean(getattr(costs, name)) for name in ("forward_ns", "input_ns", "weight_ns"))
    backward = gradient + weight if costs.backward_ns is None else min(_mean(costs.backward_ns), gradient + weight)
    if costs.overlapped_ns is None:
        return forward, gradient, backward, forward + backward
    if not _differs(costs):
        return forward, gradient, backward, _mean(costs.overlapped_ns)
    shape = (len(costs.overlapped_ns),) * 2 if isinstance(costs.overlapped_ns, tuple) else _shape(costs)
    forward_S = np.broadcast_to(np.array(costs.forward_ns, np.float64), shape[0])
    backward_S = np.add(costs.input_ns, costs.weight_ns).astype(np.float64)
    if costs.backward_ns is not None:
        backward_S = np.minimum(backward_S, costs.backward_ns)
    whole = np.broadcast_to(forward_S, shape).T + np.broadcast_to(backward_S, shape)
    part = np.min(
        np.broadcast_to(np.array(costs.overlapped_ns, np.float64), shape) / np.where(whole > 0, whole, np.inf)
    )
    return forward, gradient, backward, (forward + backward) * Fraction(min(1.0, float(part)))


def _shape(costs: Costs) -> tuple[int, int]:
    values = (costs.forward_ns, costs.input_ns, costs.weight_ns, costs.backward_ns)
    num = next((len(value) for value in values if isinstance(value, tuple)), 1)
    return num, num


def _differs(costs: Costs) -> bool:
    """Whether stages or ranks have costs of their own."""
    times = (costs.forward_ns, costs.input_ns, costs.weight_ns, costs.backward_ns, costs.overlapped_ns)
    return any(isinstance(value, tuple) for value in (*times, costs.activation_bytes)) or costs.rank_factor != 1


def _mean(value: int | tuple[int, ...] | tuple[tuple[int, ...], ...]) -> Fraction:
    return Fraction(float(np.mean(value))) if isinstance(value, tuple) else Fraction(value)
