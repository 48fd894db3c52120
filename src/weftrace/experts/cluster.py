"""Where experts can live: GPUs in nodes, their slots, their speeds, and which of them are out of service."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from msgspec import Meta

from weftrace.errors import PlacementError
from weftrace.experts.arrays import Bools, Floats, Ints, frozen, is_whole
from weftrace.files.schemas import Count, Positive
from weftrace.files.values import As, Named
from weftrace.notebook import InNotebook, in_words

MOST = 1_000_000  # slots, GPUs, nodes: above it a number is a slip of the keyboard, and memory would run out


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cluster(InNotebook):
    """GPUs and their slots. Slots are numbered GPU by GPU, GPUs node by node; numbers never change when a GPU dies.

    num_nodes: nodes of G / num_nodes GPUs each.
    slots_G: expert slots on each GPU, in each layer.
    speed_G: how fast each GPU is relative to a nominal one; a GPU's time is its load / its speed.
    dead: GPUs whose weights are lost; draining: GPUs that can still be copied from. Neither takes an expert.
    """

    num_nodes: Positive
    slots_G: Annotated[Ints, As(list[Count]), Named("slots_of_gpu"), Meta(min_length=1)]
    speed_G: Annotated[Floats, As(list[Annotated[float, Meta(gt=0)]]), Named("speed_of_gpu"), Meta(min_length=1)]
    dead: frozenset[Count] = frozenset()
    draining: frozenset[Count] = frozenset()

    def __post_init__(self) -> None:
        num_gpus, speed_G = self.num_gpus, self.speed_G
        if most := [slots for slots in self.slots_G.tolist() if slots > MOST]:
            raise PlacementError(f"slots_of_gpu must be at most {MOST:,}, not {most[0]:,}")
        if num_gpus % self.num_nodes:
            raise PlacementError(f"{num_gpus} GPUs cannot be shared evenly by {self.num_nodes} nodes")
        if speed_G.shape != (num_gpus,):
            raise PlacementError(f"speed_of_gpu has shape {list(speed_G.shape)}, and there are {num_gpus} GPUs")
        if not (np.isfinite(speed_G) & (speed_G > 0)).all():
            wrong = int(np.argmin(np.isfinite(speed_G) & (speed_G > 0)))
            raise PlacementError(
                f"GPU {wrong} has speed {speed_G[wrong]}; a speed is above 0 (a GPU out of service is dead=[{wrong}])"
            )
        for name, gpus in (("dead", self.dead), ("draining", self.draining)):
            if max(gpus, default=0) >= num_gpus:
                raise PlacementError(f"{name}: GPU {max(gpus)} does not exist; they are numbered 0 to {num_gpus - 1}")
        object.__setattr__(self, "draining", self.draining - self.dead)

    @property
    def num_gpus(self) -> int:
        return len(self.slots_G)

    @property
    def num_slots(self) -> int:
        """P: all slots, those of dead and draining GPUs included."""
        return int(self.slots_G.sum())

    @property
    def gpus_per_node(self) -> int:
        return self.num_gpus // self.num_nodes

    @property
    def usable_G(self) -> Bools:
        """[G] whether a GPU takes experts."""
        usable = np.ones(self.num_gpus, dtype=np.bool_)
        usable[sorted(self.dead | self.draining)] = False
        return usable

    @property
    def capacity_G(self) -> Ints:
        """[G] slots that experts can be put in: `slots_G`, 0 on dead and draining GPUs."""
        return np.where(self.usable_G, self.slots_G, 0)

    @property
    def first_slot_G(self) -> Ints:
        """[G + 1] first slot of each GPU, then P."""
        return np.concatenate([[0], np.cumsum(self.slots_G)]).astype(np.int64)

    @property
    def gpu_of_slot_P(self) -> Ints:
        return np.repeat(np.arange(self.num_gpus), self.slots_G)

    @property
    def node_of_gpu_G(self) -> Ints:
        return np.arange(self.num_gpus) // self.gpus_per_node

    @property
    def is_uniform(self) -> bool:
        """Every GPU in service, with the same slots and the same speed: what the published balancers assume."""
        return (
            not self.dead
            and not self.draining
            and bool((self.slots_G == self.slots_G[0]).all())
            and bool((self.speed_G == self.speed_G[0]).all())
        )

    def need_service(self) -> None:
        """Raise `PlacementError` where no GPU takes experts."""
        if not self.capacity_G.any():
            raise PlacementError("no GPU is left in service with a slot for an expert")

    def mean_time(self, load_LN: Floats) -> Floats:
        """[L] what perfect balance gives every GPU in service: sum of loads / sum of speeds."""
        mean_L: Floats = load_LN.sum(axis=1) / self.speed_G[self.usable_G].sum()
        return mean_L

    def worst_time(self, load_LG: Floats) -> Floats:
        """[L] time of the latest GPU: maximum of load / speed."""
        worst_L: Floats = (load_LG / self.speed_G).max(axis=1)
        return worst_L

    def balancedness(self, load_LN: Floats, load_LG: Floats) -> Floats:
        """[L] mean over maximum time of GPUs with these loads; 1 for a layer of zeros."""
        mean_L, worst_L = self.mean_time(load_LN), self.worst_time(load_LG)
        balancedness_L: Floats = np.ones_like(mean_L)
        np.divide(mean_L, worst_L, out=balancedness_L, where=worst_L > 0)
        return balancedness_L

    def _describe(self) -> Iterable[tuple[str, str]]:
        slots, speeds = np.unique(self.slots_G), np.unique(self.speed_G)
        yield "GPUs", f"{self.num_gpus:,} in {self.num_nodes:,} node{'s' * (self.num_nodes > 1)}"
        yield "slots", f"{self.num_slots:,} a layer, {_from_to(slots)} a GPU"
        if len(speeds) > 1 or speeds[0] != 1:
            yield "speed of a GPU", _from_to(speeds)
        for name, gpus in (("dead", self.dead), ("draining", self.draining)):
            if gpus:
                yield name, in_words(sorted(gpus))


def make_cluster(
    num_slots: int | None,
    num_gpus: int | None = None,
    num_nodes: int = 1,
    *,
    slots_of_gpu: Sequence[int] | None = None,
    speed_of_gpu: Sequence[float] | None = None,
    dead: Iterable[int] = (),
    draining: Iterable[int] = (),
) -> Cluster:
    """A checked `Cluster`.

    num_slots: P, the same number on every GPU. slots_of_gpu: those of each GPU instead, which says num_gpus too.
    Raises `PlacementError`, naming the numbers that disagree: P not a multiple of G, G not of num_nodes, a GPU
    that does not exist, a speed that is not above 0, no GPU left in service.
    """
    if num_gpus is None:
        if slots_of_gpu is None:
            raise PlacementError("how many GPUs are there? give num_gpus, or slots_of_gpu")
        num_gpus = len(slots_of_gpu)
    num_gpus, num_nodes = _count(num_gpus, "num_gpus"), _count(num_nodes, "num_nodes")
    if slots_of_gpu is not None:
        slots = np.array([_count(slots, "slots_of_gpu", least=0) for slots in slots_of_gpu], dtype=np.int64)
        if len(slots) != num_gpus:
            raise PlacementError(f"slots_of_gpu names {len(slots)} GPUs, and there are {num_gpus}")
        if num_slots is not None and int(slots.sum()) != num_slots:
            raise PlacementError(f"slots_of_gpu sums to {int(slots.sum())} slots, and num_slots is {num_slots}")
    elif num_slots is None:
        raise PlacementError("how many slots are there? give num_slots, or slots_of_gpu")
    else:
        num_slots = _count(num_slots, "num_slots")
        if num_slots % num_gpus:
            below, above = num_slots // num_gpus * num_gpus, (num_slots // num_gpus + 1) * num_gpus
            near = f"{below} or {above} can" if below else f"{above} can"
            raise PlacementError(
                f"{num_slots} slots cannot be shared evenly by {num_gpus} GPUs; {near}, "
                "and slots_of_gpu takes any numbers"
            )
        slots = np.full(num_gpus, num_slots // num_gpus, dtype=np.int64)
    try:
        speed = np.ones(num_gpus) if speed_of_gpu is None else np.array(speed_of_gpu, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise PlacementError(f"speed_of_gpu must be numbers: {error}") from error
    cluster = Cluster(
        num_nodes=num_nodes,
        slots_G=frozen(slots),
        speed_G=frozen(speed),
        dead=frozenset(_count(gpu, "dead", least=0) for gpu in dead),
        draining=frozenset(_count(gpu, "draining", least=0) for gpu in draining),
    )
    cluster.need_service()
    return cluster


def _count(value: object, name: str, *, least: int = 1) -> int:
    if not is_whole(value):
        raise PlacementError(f"{name} must be a whole number, not {value!r}")
    if value < least:
        raise PlacementError(f"{name} must be at least {least}, not {value}")
    if value > MOST:
        raise PlacementError(f"{name} must be at most {MOST:,}, not {value:,}")
    return int(value)


def _from_to(sorted_values: Floats | Ints) -> str:
    least, most = (f"{value:,}" for value in sorted_values[[0, -1]].tolist())
    return least if least == most else f"{least} to {most}"
