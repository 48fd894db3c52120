"""Which weights travel where when one placement gives way to another, in which order, and how long that takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, TypedDict

import numpy as np
import polars as pl
from msgspec import Meta

from weftrace.errors import PlacementError
from weftrace.experts.arrays import Bools, Ints, is_whole
from weftrace.experts.moves.move_kernels import find_sources, in_rounds
from weftrace.experts.moves.relabel import check_same_shape
from weftrace.experts.placement import Placement
from weftrace.facts import Hardware, hardware
from weftrace.files.columns import columns_of
from weftrace.files.schemas import Count
from weftrace.notebook import InNotebook
from weftrace.units import duration, si, size


class MoveRow(TypedDict):
    """A slot that gets another expert."""

    round: Count
    layer: Count
    slot: Count
    expert: Count
    from_slot: Annotated[int, Meta(ge=-1, description="-1: from storage.")]
    from_gpu: Annotated[int, Meta(ge=-1)]
    to_gpu: Count
    staged: Annotated[bool, Meta(description="Read from staging memory: its slot was overwritten in an earlier round.")]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moves(InNotebook):
    """The slots that get another expert, M of them, in rounds.

    In a round a GPU sends to and receives from at most one other GPU, at most one expert each way. Arrivals are staged:
    a round reads all that it reads before it writes. An expert that is overwritten in its slot before its last reading
    stays in the staging memory of its GPU until then; `staged_M` marks the moves that read it there.

    round_M: from 0, ascending. layer_M, slot_M, expert_M: what is written where.
    from_slot_M, from_gpu_M: where it is read, -1 where no copy is left in service: such an expert comes from storage.
    to_gpu_M: the GPU of slot_M. Moves inside a GPU and from storage need no other GPU and stand in round 0.
    num_slots: slots that the new placement fills.
    most_staged: experts that a GPU keeps in staging memory at once, at most, those that arrive in the round included.
    expert_bytes: size of one expert of one layer; None where it was not given. time_s: an estimate, the sum over rounds
        of the slowest transfer; None with it. assumptions: what time_s takes for granted.
    """

    round_M: Ints
    layer_M: Ints
    slot_M: Ints
    expert_M: Ints
    from_slot_M: Ints
    from_gpu_M: Ints
    to_gpu_M: Ints
    staged_M: Bools
    num_slots: int
    gpus_per_node: int
    most_staged: int
    expert_bytes: int | None
    time_s: float | None
    assumptions: tuple[str, ...]

    @property
    def table(self) -> pl.DataFrame:
        """A `MoveRow` for each move."""
        return pl.DataFrame({column.name: getattr(self, f"{column.name}_M") for column in columns_of(MoveRow)})

    @property
    def num_moves(self) -> int:
        return len(self.slot_M)

    @property
    def num_rounds(self) -> int:
        return int(self.round_M.max(initial=-1)) + 1

    @property
    def num_local(self) -> int:
        """Moves inside a GPU: a copy in its memory, no network."""
        return int((self.from_gpu_M == self.to_gpu_M).sum())

    @property
    def num_from_storage(self) -> int:
        """Moves of experts of which no copy survived."""
        return int((self.from_gpu_M < 0).sum())

    @property
    def num_in_node(self) -> int:
        """Moves to another GPU of the same node."""
        same_M = self.from_gpu_M // self.gpus_per_node == self.to_gpu_M // self.gpus_per_node
        return int((same_M & (self.from_gpu_M >= 0)).sum()) - self.num_local

    @property
    def num_between_nodes(self) -> int:
        return self.num_moves - self.num_local - self.num_from_storage - self.num_in_node

    @property
    def num_bytes(self) -> int | None:
        """Bytes between GPUs; neither copies inside a GPU nor what storage delivers. None without a size."""
        sent = self.num_in_node + self.num_between_nodes
        return None if self.expert_bytes is None else sent * self.expert_bytes

    def _describe(self) -> Iterable[tuple[str, str]]:
        yield "slots rewritten", f"{self.num_moves:,} of {self.num_slots:,}"
        yield "from storage", f"{self.num_from_storage:,}"
        yield "rounds", f"{self.num_rounds:,}"
        if self.num_bytes is not None and self.time_s is not None:
            yield "weights sent", size(self.num_bytes)
            yield "estimated time", duration(self.time_s * 1e9)
            yield "assumed", "; ".join(self.assumptions)


def moves_between(
    old: Placement, new: Placement, *, expert_bytes: int | None = None, device: Hardware | None = None
) -> Moves:
    """What has to move for `old` to become `new`.

    Each slot whose expert changes reads a slot that held it in `old`: on its own GPU if there is one, else in its node,
    else elsewhere; among equals, from the GPU that sends least so far. GPUs that are dead in `new`'s cluster are not
    read, draining ones are. `relabel` first, if `new` was planned without a look at `old`.
    expert_bytes: of one expert in one layer (`CostModel.expert_bytes`); without it moves are counted, not priced.
    device: whose link and network count, H800 if None.

    The order: rounds are filled one after the other with the pairs of GPUs that have most left to exchange, an
    approximation of the shortest edge colouring; no GPU with d moves in or out can be done before d rounds, and about
    1.2 d are usual. Raises `PlacementError` where the two are of different layers, experts or slots.
    """
    check_same_shape(old, new)
    if expert_bytes is not None and not is_whole(expert_bytes, least=1):
        raise PlacementError(f"expert_bytes must be a whole number of bytes, at least 1, not {expert_bytes!r}")
    device = hardware("H800") if device is None else device
    cluster = new.cluster
    alive_G = np.ones(cluster.num_gpus, dtype=np.bool_)
    alive_G[sorted(cluster.dead)] = False
    new_LP = np.array(new.expert_of_slot_LP)
    changed_LP = (new_LP != old.expert_of_slot_LP) & (new_LP >= 0)
    layer_M, slot_M = (index_M.astype(np.int64) for index_M in np.nonzero(changed_LP))
    gpu_of_slot_P = cluster.gpu_of_slot_P.astype(np.int64)
    from_slot_M = find_sources(
        np.array(old.expert_of_slot_LP), layer_M, slot_M, new_LP[layer_M, slot_M], gpu_of_slot_P, alive_G,
        cluster.gpus_per_node, new.num_experts,
    )  # fmt: skip
    order = in_rounds(layer_M, slot_M, from_slot_M, gpu_of_slot_P)
    layer_M, slot_M, from_slot_M = layer_M[order.order_M], slot_M[order.order_M], from_slot_M[order.order_M]
    from_gpu_M = np.where(from_slot_M >= 0, gpu_of_slot_P[from_slot_M], -1)
    to_gpu_M = gpu_of_slot_P[slot_M]
    time_s: float | None = None
    assumptions: tuple[str, ...] = ()
    if expert_bytes is not None:
        time_s, assumptions = _time(order.round_M, from_gpu_M, to_gpu_M, cluster.gpus_per_node, expert_bytes, device)
    return Moves(
        round_M=order.round_M,
        layer_M=layer_M,
        slot_M=slot_M,
        expert_M=new_LP[layer_M, slot_M],
        from_slot_M=from_slot_M,
        from_gpu_M=from_gpu_M,
        to_gpu_M=to_gpu_M,
        staged_M=order.staged_M,
        num_slots=int((new_LP >= 0).sum()),
        gpus_per_node=cluster.gpus_per_node,
        most_staged=order.most_staged,
        expert_bytes=None if expert_bytes is None else int(expert_bytes),
        time_s=time_s,
        assumptions=assumptions,
    )


def _time(
    round_M: Ints, from_gpu_M: Ints, to_gpu_M: Ints, gpus_per_node: int, expert_bytes: int, device: Hardware
) -> tuple[float, tuple[str, ...]]:
    """Seconds: a round takes as long as its slowest transfer, over the network or over the link inside a node."""
    travels_M = (from_gpu_M >= 0) & (from_gpu_M != to_gpu_M)
    far_M = travels_M & (from_gpu_M // gpus_per_node != to_gpu_M // gpus_per_node)
    far_rounds = len(np.unique(round_M[far_M]))
    near_rounds = len(np.unique(round_M[travels_M])) - far_rounds
    time_s = expert_bytes * (far_rounds / device.nic_bytes_per_s + near_rounds / device.link_bytes_per_s)
    return time_s, (
        f"{device.name}: {si(device.nic_bytes_per_s, 'B/s')} between nodes, {si(device.link_bytes_per_s, 'B/s')} "
        "inside a node, each way at once, at the full rate",
        "a round ends with its slowest transfer, and the next starts at once",
        "copies inside a GPU and loads from storage take no time here",
    )
