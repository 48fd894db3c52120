"""The document of a placement, versioned (`weftrace.placement/1`): its type, from which its schema is made, and the way
back to a placement. `build.py` makes documents; docs/experts.md explains the fields."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypedDict

from msgspec import Meta

from weftrace.errors import PlacementError
from weftrace.experts.cluster import make_cluster
from weftrace.experts.placement import Placement, make_placement
from weftrace.files.documents import broken, document_as, need_lengths, read_document
from weftrace.files.schemas import Amount, Count, DocumentSchema, Fraction, Positive

SCHEMA: Final = "weftrace.placement/1"

Binding = Literal["none", "replica granularity", "slots", "node partition", "duplicates", "constraints", "packing"]
PolicyAndReason = Annotated[list[str], Meta(min_length=2, max_length=2)]


class ClusterSummary(TypedDict):
    """GPUs node by node; slots GPU by GPU."""

    num_nodes: Positive
    slots_of_gpu: Annotated[list[Count], Meta(min_length=1)]
    speed_of_gpu: Annotated[list[Annotated[float, Meta(gt=0)]], Meta(min_length=1)]
    dead: list[Count]
    draining: list[Count]


class CertificateSummary(TypedDict):
    """How good the placement is for the loads that it was made for, layer by layer [L]."""

    mean: Annotated[list[Amount], Meta(description="[L] what perfect balance would give every GPU, load over speed.")]
    bound: Annotated[list[Amount], Meta(description="[L] no placement under the same rules has a lower maximum.")]
    achieved: Annotated[list[Amount], Meta(description="[L] maximum GPU time.")]
    is_optimal: list[bool]
    binding: list[Binding]
    balancedness: Fraction
    bound_balancedness: Fraction
    gap: Annotated[Amount, Meta(description="Largest achieved / bound - 1.")]
    target: Fraction
    slots_for_target: Annotated[
        int | None, Meta(description="Fewer slots cannot reach the target; null where no number does.")
    ]


class PolicyCostSummary(TypedDict):
    """What one policy would cost an average layer and micro-batch, estimated."""

    policy: str
    balancedness: Fraction
    compute_us: Amount
    dispatch_us: Amount
    combine_us: Amount
    remote_nodes: Amount
    total_us: Amount


class ChoiceSummary(TypedDict):
    """Estimated costs of the policies, cheapest first."""

    costs: list[PolicyCostSummary]
    reason: str
    assumptions: list[str]
    ruled_out: Annotated[list[PolicyAndReason], Meta(description="[policy, why] of each policy that was not possible.")]


class GpuLoadSummary(TypedDict):
    """What one placement gives every GPU."""

    label: str
    load: Annotated[list[list[Amount]], Meta(description="[L][G] load of each GPU, not divided by speed.")]
    balancedness: Annotated[
        list[Annotated[float, Meta(gt=0, le=1.000000001)]],
        Meta(description="[L] mean / maximum GPU time; 1 for a layer of zeros."),
    ]


class BeforeAndAfter(TypedDict):
    before: Annotated[
        GpuLoadSummary | None,
        Meta(description="The placement before, or the published EPLB on the same loads; null where it has no answer."),
    ]
    after: Annotated[GpuLoadSummary, Meta(description="With this placement.")]


class NextWindowRow(TypedDict):
    """A way of planning, judged on windows that it had not seen."""

    name: str
    part: Annotated[
        Literal["this", "baseline", "beside"],
        Meta(description="this: as this placement was planned. baseline: what it is compared with."),
    ]
    balancedness: Annotated[list[Fraction], Meta(description="[W] mean over layers in each judged window.")]


class NextWindowsSummary(TypedDict):
    """Windows that came after those planned on; the figures to expect of a placement."""

    windows: Annotated[list[Count], Meta(min_length=1, description="[W] the judged windows of the recording, from 0.")]
    look_back: Annotated[
        Positive | None, Meta(description="Windows that each plan was made on; null: all before the judged one.")
    ]
    rows: Annotated[list[NextWindowRow], Meta(min_length=1, description="The first is this placement's way.")]


class MoveSummary(TypedDict):
    """A slot that gets another expert."""

    round: Count
    layer: Annotated[Count, Meta(description="One of `layers`.")]
    slot: Count
    expert: Count
    from_slot: Annotated[int, Meta(ge=-1, description="-1: from storage.")]
    from_gpu: Annotated[int, Meta(ge=-1)]
    to_gpu: Count
    staged: Annotated[bool, Meta(description="Read from staging memory: its slot was overwritten in an earlier round.")]


_MoveList = list[MoveSummary]


class MovesSummary(TypedDict):
    """What turns the placement before into this one; within a round reads come before writes."""

    num_moves: Count
    num_slots: Count
    num_from_storage: Annotated[Count, Meta(description="Experts of which no copy was left.")]
    bytes: Annotated[
        Amount | None,
        Meta(description="Between GPUs; neither copies within a GPU nor what storage delivers. Null: not priced."),
    ]
    expert_bytes: Annotated[Positive | None, Meta(description="Null where the model, so its price, is not known.")]
    time_s: Annotated[Amount | None, Meta(description="Estimated. Null: not priced.")]
    rounds: Count
    most_staged: Annotated[Count, Meta(description="Most experts that a GPU holds in staging memory at once.")]
    assumptions: list[str]
    saved_s_per_step: Annotated[float | None, Meta(description="Estimated, of computation alone. Null: not priced.")]
    break_even_steps: Annotated[
        int | None,
        Meta(description="Steps after which the moves have paid; null where they never do, or are not priced."),
    ]
    before_balancedness: Fraction
    after_balancedness: Fraction
    list: _MoveList


class PlacementDocument(TypedDict):
    schema: Literal["weftrace.placement/1"]
    weftrace: Annotated[str, Meta(description="Version of weftrace that wrote it.")]
    source: Annotated[str, Meta(description="Where the loads are from.")]
    num_layers: Positive
    layers: Annotated[list[Count], Meta(description="[L] the number of each layer in the model, as recorded.")]
    num_experts: Positive
    num_slots: Annotated[
        Positive, Meta(description="P, physical slots a layer, those of GPUs out of service included.")
    ]
    num_groups: Positive
    cluster: ClusterSummary
    policy: Literal["global", "hierarchical", "semi-hierarchical"]
    split: Annotated[Literal["even", "uneven"], Meta(description="even: every copy takes 1 / copies.")]
    expert_of_slot: Annotated[
        list[list[Annotated[int, Meta(ge=-1)]]], Meta(description="[L][P] expert in each slot, -1 where empty.")
    ]
    share_of_slot: Annotated[
        list[list[Fraction]] | None,
        Meta(description="[L][P] part of its expert's tokens that a slot takes; null for an even split."),
    ]
    solver_of_layer: list[str]
    certificate: CertificateSummary | None
    choice: ChoiceSummary | None
    loads: Annotated[list[list[Amount]], Meta(description="[L][N] what the placement was judged on.")]
    next_windows: Annotated[
        NextWindowsSummary | None, Meta(description="Null where the loads came without windows, or as one.")
    ]
    gpu_load: Annotated[
        BeforeAndAfter, Meta(description="Under `loads`: what the placement was planned on, so a fit, no prediction.")
    ]
    moves: MovesSummary | None


PLACEMENT_SCHEMA = DocumentSchema(
    document=PlacementDocument,
    schema=SCHEMA,
    title="A placement of experts, what it does to loads, and how good that is",
)


def placement_of(document: Mapping[str, Any], *, what: str = "placement") -> Placement:
    """The placement that a document holds; its certificate and choice stay in the document.

    what: how an error names it, a file's path say. Raises `DocumentError` where it is no `weftrace.placement/1`, or a
    field or the map in it is broken.
    """
    summary = document_as(document, PlacementDocument, schema=SCHEMA, what=what)
    gpus = summary["cluster"]
    _need_tables(summary, what)
    place = "$.cluster"
    try:
        cluster = make_cluster(
            None,
            len(gpus["slots_of_gpu"]),
            gpus["num_nodes"],
            slots_of_gpu=gpus["slots_of_gpu"],
            speed_of_gpu=gpus["speed_of_gpu"],
            dead=gpus["dead"],
            draining=gpus["draining"],
        )
        place = "$.expert_of_slot" if summary["share_of_slot"] is None else "$.expert_of_slot or $.share_of_slot"
        return make_placement(
            summary["expert_of_slot"],
            cluster,
            summary["num_experts"],
            shares=summary["share_of_slot"],
            policy=summary["policy"],
            solver_of_layer=tuple(summary["solver_of_layer"]),
        )
    except PlacementError as error:
        raise broken(what, SCHEMA, str(error), place) from error


def _need_tables(summary: PlacementDocument, what: str) -> None:
    """Raise `DocumentError` where tables have other sizes than the document says, or name experts beyond its number."""
    num_layers, num_experts, num_slots = (
        summary["num_layers"],
        summary["num_experts"],
        sum(summary["cluster"]["slots_of_gpu"]),
    )
    if num_experts > num_slots:
        raise broken(what, SCHEMA, f"{num_experts:,} experts, and {num_slots:,} slots for them", "$.num_experts")
    for layer, row in enumerate(summary["expert_of_slot"]):
        if row and max(row) >= num_experts:
            place = f"$.expert_of_slot[{layer}][{row.index(max(row))}]"
            raise broken(what, SCHEMA, f"expert {max(row)} does not exist; there are {num_experts}", place)
    tables: dict[str, tuple[Sequence[Sequence[float]], int]] = {
        "expert_of_slot": (summary["expert_of_slot"], num_slots),
        "loads": (summary["loads"], num_experts),
    }
    if summary["share_of_slot"] is not None:
        tables["share_of_slot"] = summary["share_of_slot"], num_slots
    by_layer: dict[str, Sequence[object]] = {"layers": summary["layers"]}
    if (certificate := summary["certificate"]) is not None:
        for name in ("mean", "bound", "achieved", "is_optimal", "binding"):
            by_layer[f"certificate.{name}"] = certificate[name]
    for side in ("before", "after"):
        if (loads := summary["gpu_load"][side]) is not None:
            tables[f"gpu_load.{side}.load"] = (loads["load"], len(summary["cluster"]["slots_of_gpu"]))
            by_layer[f"gpu_load.{side}.balancedness"] = loads["balancedness"]
    need_lengths(what, SCHEMA, num_layers, **by_layer, **{name: rows for name, (rows, _) in tables.items()})
    for name, (rows, width) in tables.items():
        need_lengths(what, SCHEMA, width, **{f"{name}[{layer}]": row for layer, row in enumerate(rows)})
    if (judged := summary["next_windows"]) is not None:
        own = {f"next_windows.rows[{at}].balancedness": row["balancedness"] for at, row in enumerate(judged["rows"])}
        need_lengths(what, SCHEMA, len(judged["windows"]), **own)
    for at, move in enumerate(() if summary["moves"] is None else summary["moves"]["list"]):
        if move["layer"] not in summary["layers"]:
            raise broken(what, SCHEMA, f"layer {move['layer']} is none of $.layers", f"$.moves.list[{at}].layer")


def read_placement(path: str | os.PathLike[str]) -> Placement:
    """The placement of a JSON file, plain or compressed, that `weftrace experts balance -o` or `weftrace.save` wrote.

    Raises `DocumentError`, naming the file, where it cannot be read or holds none.
    """
    return placement_of(read_document(path, schema=SCHEMA), what=os.fspath(path))
