"""Costs: how long the actions of a pipeline take, how long messages travel, what is held in memory.

All of one *chunk*, one stage's work on one micro-batch. Where stages differ, a field holds one value a stage.

Legend: N actions, S stages, R ranks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Final

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from weftrace.alphabet import Direction
from weftrace.errors import ScheduleError
from weftrace.files.schemas import Count
from weftrace.files.values import OPTIONAL
from weftrace.notebook import InNotebook
from weftrace.pipeline.schedule import KINDS, Schedule, code_of, needed_count
from weftrace.units import duration, quoted

#: One value for all stages, or one per stage.
PerStage = Count | tuple[Count, ...]
#: One value for all pairs, or one for each [forward's stage][backward's stage].
PerPair = Count | tuple[tuple[Count, ...], ...]
_Rate = Annotated[float, Meta(gt=0)]
_Part = Annotated[float, Meta(ge=0, le=1)]

#: What a unit is in `Costs.units`: large enough that halves and tenths are whole.
UNIT_NS: Final = 1_000
_UNITS: Final = "units"

#: Times and sizes are below this, so that sums of them fit int64.
MAX_VALUE: Final = 1 << 61

_PER_STAGE = ("forward_ns", "input_ns", "weight_ns", "backward_ns", "message_bytes", "activation_bytes",
              "pending_bytes", "weight_bytes")  # fmt: skip
_LEFT_OUT = ("backward_ns", "overlapped_ns", "pending_bytes")  # may be None: they follow from others


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs(InNotebook):
    """What one chunk costs. Times are whole nanoseconds, sizes whole bytes.

    forward_ns, input_ns, weight_ns: of F, I and W.

    rank_factor: 2 for half the speed. latency_ns: ranks that hold both stages themselves send no message.
    message_bytes: its gradient on the way back is as large; the value of the last stage plays no part. bytes_per_s:
        each two ranks have one link each way, which passes on one message after another.
    blocking: False, messages travel beside the computation: a reader waits for its input, nobody else does. True: they
        take their latency and their bytes' time from both ranks. The sender computes nothing for so long after the
        action; nor does the receiver before the action that needs the message, from when it has come to it and the
        sender has begun. What a rank sends and receives between two actions passes at once. Receives are posted ahead,
        so that a sender waits for no receiver.
    activation_bytes: taken at the start of F; a B frees all at its end. weight_bytes: with all that is held for the
        parameters for the whole step. offload_bytes_per_s: both ways at a time.

    Raises `ScheduleError` for values of another type or sign than these.
    """

    forward_ns: Annotated[PerStage, Meta(description="F.")]
    input_ns: Annotated[PerStage, Meta(description="I, the gradient of the input.")]
    weight_ns: Annotated[PerStage, Meta(description="W, the gradient of the weights.")]
    backward_ns: Annotated[PerStage | None, OPTIONAL, Meta(description="B, the full backward; null: I + W.")] = None
    overlapped_ns: Annotated[
        PerPair | None,
        OPTIONAL,
        Meta(description="F&B, or a row a stage of the forward, a value a stage of the backward; null: F + B."),
    ] = None
    rank_factor: Annotated[
        _Rate | tuple[_Rate, ...],
        OPTIONAL,
        Meta(description="Factor by which a rank is slower; one value, or one per rank."),
    ] = 1.0
    latency_ns: Annotated[
        Count, OPTIONAL, Meta(description="On a message's way between two ranks, whatever its size.")
    ] = 0
    message_bytes: Annotated[PerStage, OPTIONAL, Meta(description="Of an activation that goes to the next stage.")] = 0
    bytes_per_s: Annotated[
        _Rate | None, OPTIONAL, Meta(description="Of the link from a rank to another; null: size does not matter.")
    ] = None
    blocking: Annotated[
        bool, OPTIONAL, Meta(description="Sender and receiver compute nothing until it has passed.")
    ] = False
    input_needed: Annotated[
        tuple[_Part, _Part],
        OPTIONAL,
        Meta(description="Of an F&B's time, before its forward and its backward read their input."),
    ] = (0.0, 0.0)
    output_ready: Annotated[
        tuple[_Part, _Part], OPTIONAL, Meta(description="Until its forward and its backward have an output.")
    ] = (1.0, 1.0)
    activation_bytes: Annotated[PerStage, OPTIONAL, Meta(description="Held from F on, for the backward.")] = 0
    pending_bytes: Annotated[
        PerStage | None, OPTIONAL, Meta(description="The part of them held from I to W; null: all.")
    ] = None
    weight_bytes: Annotated[PerStage, OPTIONAL, Meta(description="Parameters of a stage and what belongs to them.")] = 0
    offload_bytes_per_s: Annotated[
        _Rate | None, OPTIONAL, Meta(description="Of copies to the host, and of those back.")
    ] = None
    source: Annotated[str, OPTIONAL, Meta(description="Where the numbers come from.")] = ""

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, _plain(getattr(self, field.name)))
        for name in (*_PER_STAGE, "overlapped_ns", "latency_ns"):
            _check_whole(name, getattr(self, name))
        for name in ("rank_factor", "bytes_per_s", "offload_bytes_per_s"):
            _check_rate(name, getattr(self, name))
        for name in ("input_needed", "output_ready"):
            _check_parts(name, getattr(self, name))
        if not isinstance(self.source, str):
            raise ScheduleError(f"costs: source = {self.source!r}; it is text.")
        if type(self.blocking) is not bool:
            raise ScheduleError(f"costs: blocking = {self.blocking!r}; it is true or false.")
        if self.blocking and (self.input_needed, self.output_ready) != ((0, 0), (1, 1)):
            raise ScheduleError(
                "costs: messages that block pass between two actions, so input_needed and output_ready, times inside "
                "an F&B, cannot differ from its start and end. Leave out one of them, or blocking."
            )

    @classmethod
    def units(
        cls,
        F: float = 1,
        I: float = 1,  # noqa: E741 - the alphabet's letter
        W: float = 1,
        FB: float | None = None,
        *,
        latency: float = 0,
        **others: Any,
    ) -> Costs:
        """Costs in units of `UNIT_NS`, as the laws of the literature are written; a chunk's activations are 1 byte.

        FB: of an F&B; None for F + I + W. others: further fields of `Costs`, in their own units.
        """
        times = {"forward_ns": F, "input_ns": I, "weight_ns": W, "overlapped_ns": FB, "latency_ns": latency}
        for name, value in times.items():
            if value is not None and not (
                isinstance(value, int | float | np.integer) and 0 <= value < MAX_VALUE / UNIT_NS
            ):
                of = f"costs: {name.removesuffix('_ns')}"
                raise ScheduleError(f"{of} = {quoted(value)} units; it is a number, 0 or more.")
        whole = {name: None if value is None else round(value * UNIT_NS) for name, value in times.items()}
        return cls(**({"activation_bytes": 1, "source": _UNITS} | whole | others))  # type: ignore[arg-type]

    @property
    def unit_ns(self) -> int:
        """What times are multiples of, where they are in units and no times of a clock; else 0."""
        return UNIT_NS if self.source == _UNITS else 0

    @property
    def tells_sizes(self) -> bool:
        """Whether activation_bytes is a size, and not the 1 that counts chunks."""
        return not self.unit_ns and bool(np.max(self.activation_bytes) > 1)

    def split(self, num_parts: int) -> Costs:
        """Costs of the same model where each stage is cut in equal parts: as many times the stages, each that smaller.

        Messages between the parts are as large as those between stages. Halves of an odd nanosecond are rounded.
        """
        needed_count("costs", "num_parts", num_parts)
        names = (*(name for name in _PER_STAGE if name != "message_bytes"), "overlapped_ns")
        changed = {name: _divided(getattr(self, name), num_parts) for name in names}
        changed["message_bytes"] = self.message_bytes
        return replace(self, **{name: _repeated(value, num_parts) for name, value in changed.items()})

    def sliced(self, num_slices: int) -> Costs:
        """Costs of one of so many equal slices of a micro-batch: its times and sizes divided, its weights the same.

        Attention makes later slices dearer than earlier ones, which this leaves out. Parts of a nanosecond are rounded.
        """
        needed_count("costs", "num_slices", num_slices)
        names = (*(name for name in _PER_STAGE if name != "weight_bytes"), "overlapped_ns")
        return replace(self, **{name: _divided(getattr(self, name), num_slices) for name in names})

    def _describe(self) -> Iterator[tuple[str, str]]:
        for letter, value in (("F", self.forward_ns), ("I", self.input_ns), ("W", self.weight_ns)):
            yield letter, duration(value) if isinstance(value, int) else "by stage"
        if self.overlapped_ns is not None:
            yield "F&B", duration(self.overlapped_ns) if isinstance(self.overlapped_ns, int) else "by pair"
        if self.source:
            yield "source", self.source


def need_costs(given: object) -> None:
    """Raise `ScheduleError` where something else stands for costs."""
    if not isinstance(given, Costs):
        raise ScheduleError(f"Costs are wanted here, not a {type(given).__name__}.")


def need_times(costs: Costs) -> None:
    """Raise `ScheduleError` where nothing takes any time: then no schedule is better than another."""
    if not any(np.any(value) for value in (costs.forward_ns, costs.input_ns, costs.weight_ns)):
        raise ScheduleError(
            f"{costs.source or 'costs'}: F, I and W take no time, so no schedule is better than others."
        )


def of_stages(costs: Costs, name: str, num_stages: int) -> NDArray[np.int64]:
    """A field by stage, int64 [S]; those that follow from others worked out.

    Raises `ScheduleError` where it has a value for each of another number of stages.
    """
    value = getattr(costs, name)
    if value is None and name == "backward_ns":
        return of_stages(costs, "input_ns", num_stages) + of_stages(costs, "weight_ns", num_stages)
    if value is None and name == "pending_bytes":
        return of_stages(costs, "activation_bytes", num_stages)
    if isinstance(value, tuple) and len(value) != num_stages:
        raise ScheduleError(f"costs: {name} has {len(value)} values, for as many stages; there are {num_stages}.")
    return np.broadcast_to(np.array(value, np.int64), num_stages)


def durations_ns(schedule: Schedule, costs: Costs) -> NDArray[np.int64]:
    """How long each action takes, int64 [N], in the order of `schedule.actions`.

    By hand: the kind's time at its stage (an F&B's by the stages of both halves), times its rank's factor, rounded.
    Raises `ScheduleError` where costs are of other stages or ranks than the schedule's.
    """
    num_stages, actions = schedule.num_stages, schedule.actions
    names: dict[Direction, str] = {"F": "forward_ns", "B": "backward_ns", "I": "input_ns", "W": "weight_ns"}
    by_kind = np.zeros((len(KINDS), num_stages), np.int64)
    for kind, name in names.items():
        by_kind[code_of(kind)] = of_stages(costs, name, num_stages)
    code, stage = schedule.kind_N, schedule.stage_N
    times: NDArray[np.int64] = by_kind[code, stage]
    if len(pairs := np.flatnonzero(code == code_of("F&B"))):
        back = actions.get_column("back_stage").gather(pairs).to_numpy()
        times[pairs] = _overlapped_ns(costs, by_kind[code_of("F")], by_kind[code_of("B")])[stage[pairs], back]
    factor = np.array(costs.rank_factor, np.float64)
    if factor.ndim and len(factor) != schedule.num_ranks:
        raise ScheduleError(
            f"costs: rank_factor has {len(factor)} values, for as many ranks; there are {schedule.num_ranks}."
        )
    if (factor != 1).any():
        slower = factor[schedule.rank_N] if factor.ndim else factor
        with np.errstate(over="ignore"):  # `whole_ns` refuses what is no time any more
            times = whole_ns(times * slower, "rank_factor")
    return times


def whole_ns(times: NDArray[np.float64], name: str) -> NDArray[np.int64]:
    """Times rounded. Raises `ScheduleError`, naming the field that made them, where they are no times any more."""
    if len(times) and (longest := float(times.max())) >= MAX_VALUE:
        raise ScheduleError(f"costs: {name} makes a time of {longest:.3g} ns, over {MAX_VALUE / 3.15e16:.0f} years.")
    return np.rint(times).astype(np.int64)


def transfer_ns(sizes: NDArray[np.int64], costs: Costs, name: str) -> NDArray[np.int64]:
    """How long so many bytes take at a rate of the costs, `bytes_per_s` say; no time where it is None."""
    rate = getattr(costs, name)
    return np.zeros(len(sizes), np.int64) if rate is None else whole_ns(sizes / rate * 1e9, name)


def _overlapped_ns(costs: Costs, forward_ns: NDArray[np.int64], backward_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of F&B by pair, [forward's stage, backward's stage]."""
    num_stages = len(forward_ns)
    if costs.overlapped_ns is None:
        return forward_ns[:, None] + backward_ns
    given = np.array(costs.overlapped_ns, np.int64)
    if given.ndim and given.shape != (num_stages, num_stages):
        raise ScheduleError(
            f"costs: overlapped_ns is for {len(given)} x {given.shape[1]} stages; there are {num_stages}."
        )
    return np.broadcast_to(given, (num_stages, num_stages))


def _divided(value: Any, by: int) -> Any:
    """A value, or each of a field by stage or pair, divided and rounded."""
    if isinstance(value, tuple):
        return tuple(_divided(item, by) for item in value)
    return None if value is None else round(value / by)


def _repeated(value: Any, times: int) -> Any:
    """A field by stage or pair with each stage so many times in a row."""
    if isinstance(value, tuple):
        return tuple(each for item in value for each in (_repeated(item, times),) * times)
    return value


def _plain(value: Any) -> Any:
    """Lists and arrays as tuples, numbers of NumPy as Python's."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    return tuple(_plain(each) for each in value) if isinstance(value, list | tuple) else value


def _check_whole(name: str, value: Any) -> None:
    if value is None and name in _LEFT_OUT:
        return
    rows = value if isinstance(value, tuple) and name != "latency_ns" else (value,)
    if name == "overlapped_ns" and isinstance(value, tuple):
        if any(not isinstance(row, tuple) or len(row) != len(value) for row in value):
            raise ScheduleError("costs: overlapped_ns by pair is as many rows as stages, each of as many values.")
        rows = tuple(each for row in value for each in row)
    if not rows:
        raise ScheduleError(f"costs: {name} is an empty list; it is one value, or one per stage.")
    for each in rows:
        if type(each) is not int or not 0 <= each < MAX_VALUE:
            what = "nanoseconds" if name.endswith("_ns") else "bytes"
            held = f"costs: {name} holds {quoted(each)}"
            raise ScheduleError(f"{held}; it must be a whole number of {what}, from 0 to 2^61.")


def _check_rate(name: str, value: Any) -> None:
    if value is None and name != "rank_factor":
        return
    each_of = value if isinstance(value, tuple) and name == "rank_factor" else (value,)
    for each in each_of:
        if type(each) not in (int, float) or not 0 < each < float("inf"):
            raise ScheduleError(f"costs: {name} holds {quoted(each)}; it must be a number above 0.")


def _check_parts(name: str, value: Any) -> None:
    fits = isinstance(value, tuple) and len(value) == 2 and all(type(each) in (int, float) for each in value)
    if not fits or not all(0 <= each <= 1 for each in value):
        raise ScheduleError(
            f"costs: {name} = {quoted(value)}; it is two parts of an F&B, from 0 to 1: the forward's, the backward's."
        )
