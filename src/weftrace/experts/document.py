"""A placement and what it does to loads: a value that is its document (`weftrace.placement/1`). `build.py` makes it;
docs/experts.md explains the fields."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, Literal

import numpy as np
import polars as pl
from msgspec import Meta

from weftrace.errors import DocumentError, LoadsError, PlacementError
from weftrace.experts.arrays import Floats, Ints
from weftrace.experts.certificate import Certificate
from weftrace.experts.cluster import Cluster
from weftrace.experts.moves.moves import MoveRow
from weftrace.experts.placement import Choice, Placement, Policy, make_placement
from weftrace.experts.replays.held_out import NextWindows
from weftrace.experts.slots import even_shares
from weftrace.files.documents import read_document
from weftrace.files.schemas import Amount, Count, Fraction, Positive
from weftrace.files.values import UNSAVED, As, Named, from_document
from weftrace.notebook import InNotebook

SCHEMA: Final = "weftrace.placement/1"

Loads = Annotated[Floats, As(list[list[Amount]])]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GpuLoad:
    """What one placement gives every GPU."""

    label: str
    load_LG: Annotated[Loads, Meta(description="[L][G] load of each GPU, not divided by speed.")]
    balancedness_L: Annotated[
        Floats,
        As(list[Annotated[float, Meta(gt=0, le=1.000000001)]]),
        Meta(description="[L] mean / maximum GPU time; 1 for a layer of zeros."),
    ]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BeforeAndAfter:
    """What the placement before gives every GPU, and what this one does."""

    before: Annotated[
        GpuLoad | None,
        Meta(description="The placement before, or the published EPLB on the same loads; null where it has no answer."),
    ]
    after: Annotated[GpuLoad, Meta(description="With this placement.")]

    @property
    def sides(self) -> dict[str, GpuLoad]:
        """Those that are there, by name."""
        return {"after": self.after} if self.before is None else {"before": self.before, "after": self.after}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MovesSummary:
    """What turns the placement before into this one; within a round reads come before writes."""

    num_moves: Count
    num_slots: Count
    num_from_storage: Annotated[Count, Meta(description="Experts with no copy left.")]
    num_bytes: Annotated[
        Amount | None,
        Named("bytes"),
        Meta(description="Between GPUs; neither copies within a GPU nor what storage delivers. Null: not priced."),
    ]
    expert_bytes: Annotated[Positive | None, Meta(description="Null where the model, so its price, is not known.")]
    time_s: Annotated[Amount | None, Meta(description="Estimated. Null: not priced.")]
    num_rounds: Annotated[Count, Named("rounds")]
    most_staged: Annotated[Count, Meta(description="Most experts that a GPU holds in staging memory at once.")]
    assumptions: tuple[str, ...]
    saved_s_per_step: Annotated[float | None, Meta(description="Estimated, of computation alone. Null: not priced.")]
    break_even_steps: Annotated[
        int | None,
        Meta(description="Steps after which the moves have paid; null where they never do, or are not priced."),
    ]
    before_balancedness: Fraction
    after_balancedness: Fraction
    table: Annotated[pl.DataFrame, As(list[MoveRow]), Named("list")]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class PlacementReport(InNotebook):
    """A placement, and what it does to loads. placement: as the other fields say it."""

    source: Annotated[str, Meta(description="Where the loads are from.")]
    layers: Annotated[tuple[Count, ...], Meta(description="[L] the number of each layer in the model, as recorded.")]
    num_experts: Positive
    num_groups: Positive
    cluster: Cluster
    policy: Annotated[str, As(Policy, read=str)]
    split: Annotated[Literal["even", "uneven"], Meta(description="even: every copy takes 1 / copies.")]
    expert_of_slot_LP: Annotated[
        Ints,
        As(list[list[Annotated[int, Meta(ge=-1)]]]),
        Meta(description="[L][P] expert in each slot, -1 where empty."),
    ]
    share_of_slot_LP: Annotated[
        Annotated[Floats, As(list[list[Fraction]])] | None,
        Meta(description="[L][P] part of its expert's tokens that a slot takes; null for an even split."),
    ]
    solver_of_layer: tuple[str, ...]
    certificate: Certificate | None
    choice: Choice | None
    loads_LN: Annotated[Loads, Meta(description="[L][N] the loads that the placement is scored on.")]
    next_windows: Annotated[NextWindows | None, Meta(description="Null if the loads came without windows, or as one.")]
    gpu_load: Annotated[
        BeforeAndAfter, Meta(description="Under `loads`: what the placement was planned on, so a fit, no prediction.")
    ]
    moves: MovesSummary | None
    placement: Annotated[Placement, UNSAVED] = field(init=False)

    @property
    def num_layers(self) -> Positive:
        return len(self.expert_of_slot_LP)

    @property
    def num_slots(
        self,
    ) -> Annotated[Positive, Meta(description="P, physical slots a layer, those of GPUs out of service included.")]:
        return self.cluster.num_slots

    def __post_init__(self) -> None:
        if self.num_experts > self.num_slots:
            raise ValueError(f"`num_experts`: {self.num_experts:,} experts, and {self.num_slots:,} slots for them")
        self.cluster.need_service()
        try:
            made = make_placement(
                self.expert_of_slot_LP, self.cluster, self.num_experts, shares=self.share_of_slot_LP,
                policy=self.policy, solver_of_layer=self.solver_of_layer,
            )  # fmt: skip
        except PlacementError as error:
            raise PlacementError(f"expert_of_slot or share_of_slot: {error}") from error
        whole = replace(made, is_even=self.split == "even", certificate=self.certificate, choice=self.choice)
        object.__setattr__(self, "placement", whole)
        self._need_shapes()

    def _need_shapes(self) -> None:
        """Raise ValueError where tables have other sizes than the placement."""
        layers, gpus = self.num_layers, self.cluster.num_gpus
        shapes: dict[str, tuple[Any, tuple[int, ...]]] = {
            "layers": (self.layers, (layers,)),
            "loads": (self.loads_LN, (layers, self.num_experts)),
        }
        for side, loads in self.gpu_load.sides.items():
            shapes[f"gpu_load.{side}.load"] = loads.load_LG, (layers, gpus)
            shapes[f"gpu_load.{side}.balancedness"] = loads.balancedness_L, (layers,)
        if (certificate := self.certificate) is not None:
            for name in ("mean", "bound", "achieved", "is_optimal", "binding"):
                shapes[f"certificate.{name}"] = getattr(certificate, f"{name}_L"), (layers,)
        for name, (found, needed) in shapes.items():
            if np.shape(found) != needed:
                raise ValueError(f"`{name}` has {_in_words(np.shape(found))}, and {_in_words(needed)} are needed")
        if self.moves is not None and not self.moves.table["layer"].is_in(self.layers).all():
            raise ValueError("a layer of `moves.list` is none of `layers`")

    def need_agreement(self) -> None:
        """Raise ValueError where fields say what the placement and the loads do not: a document was changed by hand."""
        made, after = self.placement, self.gpu_load.after
        if len(set(self.layers)) < len(self.layers):
            raise ValueError("`layers` gives two layers one number")
        if made.is_even and not np.allclose(
            made.share_of_slot_LP, even_shares(made.expert_of_slot_LP, made.num_experts)
        ):
            raise ValueError("`split` is even, and `share_of_slot` is not")
        total_L = made.checked_loads(self.loads_LN).sum(axis=1, keepdims=True)
        if not np.allclose(after.load_LG / _or_one(total_L), made.gpu_load(self.loads_LN) / _or_one(total_L)):
            raise ValueError("`gpu_load.after.load` is not what this placement gives the GPUs of `loads`")
        if not np.allclose(after.balancedness_L, made.balancedness(self.loads_LN)):
            raise ValueError("`gpu_load.after.balancedness` is not that of this placement under `loads`")
        before = self.gpu_load.before
        if before is not None and not np.allclose(
            before.load_LG.sum(axis=1, keepdims=True) / _or_one(total_L), total_L > 0
        ):
            raise ValueError("`gpu_load.before.load` does not add up to `loads`")

    def _describe(self) -> Iterable[tuple[str, str]]:
        yield "loads", self.source or "given"
        for row in () if self.next_windows is None else self.next_windows.rows[:2]:
            yield f"on the next window, {row.name}", f"balancedness {np.mean(row.balancedness_W):.4f}"
        for name, loads in self.gpu_load.sides.items():
            called = "this placement" if name == "after" else loads.label
            yield f"on these loads, {called}", f"balancedness {loads.balancedness_L.mean():.4f}"
        if self.moves is not None:
            yield "moves", f"{self.moves.num_moves:,} of {self.moves.num_slots:,} slots"
        yield from self.placement._describe()


def placement_of(document: Mapping[str, Any], *, what: str = "placement") -> Placement:
    """The placement that a document holds.

    what: how an error names it, a file's path say. Raises `DocumentError` where it is no `weftrace.placement/1`, or a
    field or the map in it is broken.
    """
    return _report_of(document, what).placement


def read_placement(path: str | os.PathLike[str]) -> Placement:
    """The placement of a JSON file, plain or compressed, that `weftrace experts balance -o` or `weftrace.save` wrote.

    Raises `DocumentError`, naming the file, where it cannot be read or holds none.
    """
    return read_report(path).placement


def read_report(path: str | os.PathLike[str]) -> PlacementReport:
    """The same with what it does to loads."""
    return _report_of(read_document(path, schema=SCHEMA), os.fspath(path))


def _report_of(document: Mapping[str, Any], what: str) -> PlacementReport:
    report = from_document(PlacementReport, document, schema=SCHEMA, what=what)
    try:
        report.need_agreement()
    except (ValueError, LoadsError) as error:
        raise DocumentError(f"{what}: a {SCHEMA} document that contradicts itself: {error}") from error
    return report


def _or_one(total_L: Floats) -> Floats:
    """Totals to divide by: 1 where a layer has no load."""
    return np.where(total_L > 0, total_L, 1.0)


def _in_words(shape: tuple[int, ...]) -> str:
    return f"{' × '.join(map(str, shape))} elements"
