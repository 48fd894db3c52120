"""Whose the time of each step is, as plain JSON values: by it a saved report can stand for its trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, TypedDict

import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray

from weftrace.analysis.intervals import EMPTY
from weftrace.analysis.step_shares import LABELS, PIECE_SCHEMA, SHARE_SCHEMA, SUMS, WAITING, StepShares
from weftrace.analysis.time_owners import PARTS

#: Rows of labels, and steps, that a document holds of a rank.
MOST_LABELS, MOST_STEPS = 2_000, 100
#: Family and kernel of what is merged beyond that.
OTHER = "other"

_WINDOWS = {"step": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64}

Count = Annotated[int, Meta(ge=0)]
Numbers = Annotated[
    str, Meta(pattern=r"^(-?[0-9]{1,18}( -?[0-9]{1,18})*)?$", description="Whole numbers with spaces between.")
]


class LabelsDocument(TypedDict):
    """Of each row its labels, as positions in the names of `kernels`, then in `names`; -1 for none."""

    part: Numbers
    cause: Numbers
    kind: Numbers
    family: Numbers
    kernel: Numbers
    operator: Numbers
    phase: Numbers


class ShareColumns(TypedDict):
    """Rows of one step, a column each."""

    row: Annotated[Numbers, Meta(description="Positions in `labels`.")]
    num: Annotated[Numbers, Meta(description="Launches; of idle time, gaps.")]
    raw_ns: Annotated[Numbers, Meta(description="Durations.")]
    beside_ns: Annotated[Numbers, Meta(description="Of raw_ns, beside others of its class; empty where all are 0.")]
    hidden_ns: Annotated[
        Numbers, Meta(description="Of the rest, hidden by another class; empty if all are 0. Own is the rest.")
    ]


class StepSharesDocument(TypedDict):
    """A step's time: own times of its rows add up to span_ns."""

    step: Annotated[
        int | None,
        Meta(description="Null without steps: the whole trace. With steps_by: also what is outside of them."),
    ]
    start_ns: int
    span_ns: Count
    shares: ShareColumns
    waits: Annotated[
        ShareColumns | None,
        Meta(
            description="Rows to be added, with a minus where time is taken from a row: what of communication and idle "
            "time is waiting for late ranks. Null where that is not known."
        ),
    ]


class SharesDocument(TypedDict):
    """Whose the time of each step is: what `weftrace diff` compares, so that a saved report can stand for its trace."""

    world_size: int | None
    steps_by: Annotated[str | None, Meta(description="Name of ranges that stand for steps; null: no such are needed.")]
    seam_ns: Annotated[int | None, Meta(description="How far the ends of windows may be off, median; null: unknown.")]
    facts: Annotated[dict[str, str], Meta(description="What the file says of device, versions, shapes and settings.")]
    names: Annotated[list[str], Meta(description="Those of labels that `kernels` does not hold, each once.")]
    labels: LabelsDocument
    num_merged: Annotated[Count, Meta(description='Rows beyond 2,000, of many ranks fewer, which are merged: "other".')]
    num_steps: Annotated[Count, Meta(description="Steps found; `steps` holds 100 of them at most, evenly chosen.")]
    steps: list[StepSharesDocument]


def shares_document(
    shared: StepShares,
    waits: pl.DataFrame | None,
    *,
    zero_ns: int,
    kernels: Sequence[str] = (),
    world_size: int | None = None,
    steps_by: str | None = None,
    facts: Mapping[str, str] | None = None,
    most_labels: int = MOST_LABELS,
    most_steps: int = MOST_STEPS,
) -> SharesDocument:
    """The shares of a rank. Starts count from zero_ns. kernels: names that stand beside in the document.

    Rows beyond most_labels, those with the least time, are merged with their like in part, cause and kind, so that all
    adds up; of more steps than most_steps, so many are chosen.
    """
    windows = shared.windows
    chosen = _evenly(windows.height, most_steps)
    steps = windows[chosen].rows()
    if not steps or steps_by is not None:  # ranges of other names may stand for no steps of another run
        outside_ns = shared.shares.filter(pl.col("step").is_null()).get_column("own_ns").sum()
        steps.append((None, zero_ns, zero_ns + int(outside_ns)))
    rows, num_merged = _merged(shared.shares, waits, [step for step, _, _ in steps], most_labels)
    labels = rows.select(LABELS).unique(maintain_order=True).with_row_index("label")
    rows = rows.join(labels, on=LABELS, how="left", nulls_equal=True, maintain_order="left")
    names = pl.concat([labels.get_column(name) for name in LABELS]).drop_nulls().unique(maintain_order=True).to_list()
    position = {name: at for at, name in reversed(list(enumerate(kernels)))}
    others = [name for name in names if name not in position]
    position |= {name: len(kernels) + at for at, name in enumerate(others)}
    at = {name: labels.get_column(name).replace_strict(position, default=-1, return_dtype=pl.Int64) for name in LABELS}
    of_step = rows.partition_by("step", "is_wait", as_dict=True, maintain_order=True)
    nothing = rows.clear()
    return {
        "world_size": world_size,
        "steps_by": steps_by,
        "seam_ns": shared.seam_ns,
        "facts": dict(facts or {}),
        "names": others,
        "labels": {name: _text(at[name]) for name in LABELS},  # type: ignore[typeddict-item] # LabelsDocument has them
        "num_merged": num_merged,
        "num_steps": windows.height,
        "steps": [
            {
                "step": step,
                "start_ns": start_ns - zero_ns,
                "span_ns": end_ns - start_ns,
                "shares": _columns(of_step.get((step, False), nothing)),
                "waits": None if waits is None else _columns(of_step.get((step, True), nothing)),
            }
            for step, start_ns, end_ns in steps
        ],
    }


def shares_from(
    document: SharesDocument, *, zero_ns: int, kernels: Sequence[str] = ()
) -> tuple[StepShares, pl.DataFrame | None]:
    """What a document holds: the shares of a rank, without pieces, and what splits waiting from them.

    Raises ValueError, with the place within the document, where a position names nothing or rows have other lengths.
    """
    names = pl.Series([*kernels, *document["names"], None], dtype=pl.String)
    at = {name: _numbers(document["labels"][name]) for name in LABELS}  # type: ignore[literal-required] # as above
    for name, positions in at.items():
        _check(positions, len(at["part"]), (-1, len(names) - 2), f".labels.{name}")
    labels = pl.DataFrame({name: names.gather(positions % len(names)) for name, positions in at.items()})
    if strange := set(labels.get_column("part")) - {*PARTS, WAITING}:
        raise ValueError(f"{next(iter(strange))!r} is no part of a step - at `.labels.part`")
    steps = document["steps"]
    starts_ns = [zero_ns + step["start_ns"] for step in steps]
    windows = [
        (step["step"], start_ns, start_ns + step["span_ns"])
        for step, start_ns in zip(steps, starts_ns, strict=True)
        if step["step"] is not None
    ]
    shared = StepShares(
        shares=_rows(labels, [(step["step"], step["shares"], f".steps[{n}].shares") for n, step in enumerate(steps)]),
        pieces=pl.DataFrame(schema=PIECE_SCHEMA),
        exposed=EMPTY,
        windows=pl.DataFrame(windows, schema=_WINDOWS, orient="row"),
        seam_ns=document["seam_ns"],
    )
    waits = [
        (step["step"], step["waits"], f".steps[{number}].waits")
        for number, step in enumerate(steps)
        if step["waits"] is not None
    ]
    return shared, _rows(labels, waits) if waits else None


def _evenly(num: int, most: int) -> list[int]:
    return np.unique(np.linspace(0, num - 1, min(num, most)).round().astype(np.int64)).tolist() if num else []


def _merged(
    shares: pl.DataFrame, waits: pl.DataFrame | None, steps: Sequence[int | None], most: int
) -> tuple[pl.DataFrame, int]:
    """Rows of these steps, of at most about so many labels; `is_wait` tells those that split waiting off."""
    parts = [shares.with_columns(is_wait=pl.lit(False))]
    parts += [] if waits is None else [waits.with_columns(is_wait=pl.lit(True))]
    rows = pl.concat(parts).filter(pl.col("step").is_in(steps, nulls_equal=True))
    sizes = rows.group_by(LABELS).agg(pl.col("raw_ns").abs().sum().alias("size"), pl.col("num").sum())
    kept = sizes.sort("size", "num", *LABELS, descending=[True, True, *[False] * len(LABELS)], nulls_last=True)
    if kept.height <= most:
        return rows, 0
    small = kept[most:].select(LABELS)
    return in_other(rows, small).group_by("step", "is_wait", *LABELS, maintain_order=True).agg(
        pl.col(SUMS).sum()
    ), small.height


def in_other(rows: pl.DataFrame, small: pl.DataFrame) -> pl.DataFrame:
    """Rows whose labels are among `small` under the family and kernel `OTHER` of their part, cause and kind."""
    rows = rows.join(small.with_columns(is_small=True), on=LABELS, how="left", nulls_equal=True, maintain_order="left")
    is_small = pl.col("is_small").is_not_null()
    return rows.with_columns(
        *(pl.when(is_small).then(pl.lit(OTHER)).otherwise(name).alias(name) for name in ("family", "kernel")),
        *(pl.when(~is_small).then(name).alias(name) for name in ("operator", "phase")),
    ).drop("is_small")


def _columns(rows: pl.DataFrame) -> ShareColumns:
    raw_ns, union_ns, own_ns = (rows.get_column(name) for name in ("raw_ns", "union_ns", "own_ns"))
    return {
        "row": _text(rows.get_column("label")),
        "num": _text(rows.get_column("num")),
        "raw_ns": _text(raw_ns),
        "beside_ns": _unless_zero(raw_ns - union_ns),
        "hidden_ns": _unless_zero(union_ns - own_ns),
    }


def _rows(labels: pl.DataFrame, steps: Sequence[tuple[int | None, ShareColumns, str]]) -> pl.DataFrame:
    parts = []
    for step, columns, place in steps:
        row, num, raw_ns = (_numbers(columns[name]) for name in ("row", "num", "raw_ns"))
        beside_ns, hidden_ns = (
            _numbers(columns[name]) if columns[name] else np.zeros_like(raw_ns) for name in ("beside_ns", "hidden_ns")
        )
        _check(row, len(row), (0, labels.height - 1), f"{place}.row")
        for name, own in (("num", num), ("raw_ns", raw_ns), ("beside_ns", beside_ns), ("hidden_ns", hidden_ns)):
            _check(own, len(row), None, f"{place}.{name}")
        parts.append(
            labels[row].with_columns(
                step=pl.lit(step, dtype=pl.Int64),
                num=pl.Series(num),
                raw_ns=pl.Series(raw_ns),
                union_ns=pl.Series(raw_ns - beside_ns),
                own_ns=pl.Series(raw_ns - beside_ns - hidden_ns),
            )
        )
    return pl.concat([pl.DataFrame(schema=SHARE_SCHEMA), *(part.select(*SHARE_SCHEMA) for part in parts)])


def _text(numbers: pl.Series) -> str:
    return " ".join(map(str, numbers.to_list()))


def _unless_zero(numbers: pl.Series) -> str:
    return _text(numbers) if (numbers != 0).any() else ""


def _check(numbers: NDArray[np.int64], num: int, within: tuple[int, int] | None, place: str) -> None:
    """Raise ValueError where these are not so many numbers, or one of them is not within bounds."""
    if len(numbers) != num:
        raise ValueError(f"{len(numbers)} numbers, where others have {num} - at `{place}`")
    if within is not None and num and not (within[0] <= numbers.min() and numbers.max() <= within[1]):
        raise ValueError(f"positions are {within[0]} to {within[1]} - at `{place}`")


def _numbers(text: str) -> NDArray[np.int64]:
    return np.array(text.split(), dtype=np.int64)
