"""The operation list: what a mixture-of-experts layer does, in which order, on which lane, and what waits for what.

An `Overlap` is data: simulated by `as_plan`, executed by `runtime`, written by users as a TOML file. Operations are in
the order in which the host issues them; those of one lane run in that order, as on a CUDA stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from weftrace.errors import ProfileError
from weftrace.moe.requests import ModelPhase
from weftrace.notebook import InNotebook

#: What a layer consists of. attn: attention and the routing gate; attn-0: its projections before the attention core;
#: attn-1: the core, the output projection and the gate; shared: the shared expert; mlp: the routed experts (in training
#: the shared expert too); dispatch and combine: tokens to their experts, and back; moe: dispatch, routed experts and
#: combine in one fused kernel.
Work = Literal["attn", "attn-0", "attn-1", "shared", "mlp", "dispatch", "combine", "moe"]
WORKS: tuple[Work, ...] = get_args(Work)
Direction = Literal["F", "B", "W"]
#: compute and side: two streams of kernels; communication: kernels that move tokens, and hold SMs; network: transfers
#: that hold none.
Lane = Literal["compute", "side", "communication", "network"]
#: What a kernel does that moves tokens: to their experts, or back.
Move = Literal["dispatch", "combine"]
#: whole; or of a transfer that holds no SM: the short kernel that issues it, the transfer, the short kernel that ends
#: it.
Part = Literal["whole", "issue", "transfer", "receive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(InNotebook):
    """One operation of a layer.

    name: unique in the list. direction: F forward, B backward, W weight gradients. micro_batch: whose tokens.
    share: which part of the work of its name this is: weight gradients on two lanes are two operations of 0.5 each.
    chunk, num_chunks: of a micro-batch cut in pieces, which one this works on; its share is 1 / num_chunks.
    after: operations of the same layer that have ended before this starts; after_previous: of the layer before.
    phase: the host range that it is launched in, which it may share with its other parts.
    layer_shift: -1 where it works on the layer before the one that its repetition of the list is about, 1 on the layer
    after: lists that interleave layers. What it waits for is told by repetition all the same.
    """

    name: str
    work: Work
    direction: Direction = "F"
    micro_batch: int = 0
    lane: Lane = "compute"
    part: Part = "whole"
    share: float = 1.0
    chunk: int = 0
    num_chunks: int = 1
    after: tuple[str, ...] = ()
    after_previous: tuple[str, ...] = ()
    phase: str = ""
    layer_shift: int = 0

    @property
    def moves_tokens(self) -> bool:
        return self.work in ("dispatch", "combine")

    @property
    def move(self) -> Move:
        """Which kernel moves its tokens: the backward of combine is a dispatch, that of dispatch a combine."""
        return "dispatch" if (self.work == "dispatch") == (self.direction == "F") else "combine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap(InNotebook):
    """An operation list of one layer (in training of a pair of layers), which is repeated.

    name, title: what it is called, short and in words. kinds: profiles that it is for. operations: in issue order.
    num_chunks: pieces that it cuts a micro-batch in. all_sms: its computation never runs beside kernels that move
    tokens, and so has every SM. source: who published it. notes: what to know before trusting it.

    Raises `ProfileError` where two operations share a name, one waits for what the list does not have, what waits for
    what goes in a circle, or some work is not done whole.
    """

    name: str
    title: str
    kinds: tuple[ModelPhase, ...]
    operations: tuple[Operation, ...]
    num_chunks: int = 1
    all_sms: bool = False
    source: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check(self)

    def __getitem__(self, name: str) -> Operation:
        found = next((each for each in self.operations if each.name == name), None)
        if found is None:
            raise ProfileError(f"overlap {self.name!r} has no operation {name!r}; it has {', '.join(self.names)}")
        return found

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.operations)

    @property
    def num_micro_batches(self) -> int:
        return 1 + max(each.micro_batch for each in self.operations)

    @property
    def is_fused(self) -> bool:
        """Whether one kernel moves tokens and multiplies."""
        return any(each.work == "moe" for each in self.operations)

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "overlap", self.title
        yield "for", ", ".join(self.kinds)
        lanes = dict.fromkeys(each.lane for each in self.operations)
        yield from ((lane, " ".join(each.name for each in self.operations if each.lane == lane)) for lane in lanes)


def check(overlap: Overlap) -> None:
    """Raise `ProfileError` where the list cannot run."""
    of = f"overlap {overlap.name!r}"
    names = set(overlap.names)
    if len(names) < len(overlap.operations):
        twice = next(name for name in overlap.names if overlap.names.count(name) > 1)
        raise ProfileError(f"{of}: two operations are called {twice!r}")
    for each in overlap.operations:
        for other in (*each.after, *each.after_previous):
            if other not in names:
                raise ProfileError(f"{of}: {each.name!r} waits for {other!r}, which the list does not have")
        if each.part != "whole" and not each.moves_tokens:
            raise ProfileError(f"{of}: {each.name!r} is {each.work}, which has no {each.part}, only the whole")
    _check_shares(overlap)
    if circle := _circle(overlap):
        raise ProfileError(f"{of}: its operations wait for each other in a circle: {' -> '.join(circle)}")


def need_whole(overlap: Overlap, kind: ModelPhase) -> None:
    """Raise `ProfileError` where a layer of that kind of profile does something that the list leaves out.

    Without it a list would be fast by what it does not do.
    """
    if kind not in overlap.kinds:
        raise ProfileError(f"overlap {overlap.name!r} is for {', '.join(overlap.kinds)}, not for {kind}")
    done = {(each.work, each.direction, each.micro_batch) for each in overlap.operations}
    for micro_batch in range(overlap.num_micro_batches):
        twice = [work for work in ("dispatch", "mlp", "combine") if (work, "F", micro_batch) in done]
        if twice and ("moe", "F", micro_batch) in done:
            raise ProfileError(
                f"overlap {overlap.name!r}: micro-batch {micro_batch} has {twice[0]} and moe, one kernel that does "
                "it too"
            )
        for directions, works in _needed(overlap, kind, micro_batch):
            for direction in directions:
                missing = [work for work in works if (work, direction, micro_batch) not in done]
                if missing:
                    raise ProfileError(
                        f"overlap {overlap.name!r}: micro-batch {micro_batch} has no {missing[0]} of direction "
                        f"{direction}, which a layer of {kind} needs"
                    )


def _needed(overlap: Overlap, kind: ModelPhase, micro_batch: int) -> Iterator[tuple[str, tuple[Work, ...]]]:
    """Directions, and the works that each of them consists of."""
    own = [each for each in overlap.operations if each.micro_batch == micro_batch]
    works = {each.work for each in own}
    attention: tuple[Work, ...] = ("attn-0", "attn-1") if "attn-0" in works else ("attn",)
    experts: tuple[Work, ...] = ("moe",) if "moe" in works else ("dispatch", "mlp", "combine")
    if kind != "train":
        yield "F", (*attention, "shared", *experts)
        return
    yield "".join(dict.fromkeys(each.direction for each in own if each.direction != "W")), (*attention, *experts)
    if any(each.direction == "B" for each in own):
        yield "W", (*attention, "mlp")


def _check_shares(overlap: Overlap) -> None:
    """Parts of one work add up to it."""
    shares: dict[tuple[str, ...], float] = {}
    for each in overlap.operations:
        key = (each.work, each.direction, str(each.micro_batch), each.part)
        shares[key] = shares.get(key, 0.0) + each.share
    for (work, direction, micro_batch, _), share in shares.items():
        if abs(share - 1) > 1e-9:
            raise ProfileError(
                f"overlap {overlap.name!r}: the operations of {work}({direction}) of micro-batch {micro_batch} do "
                f"{share:g} of it together; their shares add up to 1"
            )


def _circle(overlap: Overlap) -> list[str]:
    """Operations that wait for each other, through `after` and through the order of a lane; none where all can run."""
    waits = {each.name: set(each.after) for each in overlap.operations}
    last: dict[str, str] = {}
    for each in overlap.operations:
        if each.lane in last:
            waits[each.name].add(last[each.lane])
        last[each.lane] = each.name
    while free := [name for name, on in waits.items() if not on & waits.keys()]:
        for name in free:
            del waits[name]
    if not waits:
        return []
    path = [next(iter(waits))]
    while path[-1] not in path[:-1]:
        path.append(next(iter(sorted(waits[path[-1]] & waits.keys()))))
    return path[path.index(path[-1]) :]
