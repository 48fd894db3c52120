"""Which phases of two runs are the same? Names are read generously, and layers counted in what both have.

Spaces and capitals do not count: "Attn (F)" is attn(F). A digit at the end of a name is a micro-batch where the other
run has a phase of the name before it: ATTN1 is ATTN of micro-batch 1. Micro-batches are told apart where both tell
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import polars as pl

_NUMBERED = re.compile(r"(.*\D)(\d)")
_KEY = ("phase", "micro_batch")


def with_common_names(predicted: pl.DataFrame, measured: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The samples of both sides, under the names of the predicted side; micro-batches null where not both tell them."""
    predicted = _renamed(predicted, _names(measured), other_wins=False)
    measured = _renamed(measured, _names(predicted), other_wins=True)
    summary = [set(_names(each.drop_nulls("micro_batch"))) for each in (predicted, measured)]
    apart = pl.when(pl.col("phase").is_in(list(summary[0] & summary[1]))).then("micro_batch").alias("micro_batch")
    return predicted.with_columns(apart), measured.with_columns(apart)


def layers_in_common(predicted: pl.DataFrame, measured: pl.DataFrame, num_micro_batches: int) -> tuple[int, int] | None:
    """How many layers a step of each side has, counted by the commonest of the phases that both have; None without one.

    predicted, measured: of `with_common_names`. num_micro_batches: that one side tells of a layer, where the other does
    not tell them apart.
    """
    common = predicted.select(_KEY).unique().join(measured.select(_KEY).unique(), on=_KEY, nulls_equal=True)
    if common.is_empty():
        return None
    found = []
    for samples in (predicted, measured):
        own = samples.join(common, on=_KEY, how="semi", nulls_equal=True)
        is_pooled = own.get_column("micro_batch").null_count() > 0
        counts = own.group_by("rank", "step", *_KEY).len().group_by("rank", "step").agg(pl.max("len"))
        number = float(counts.get_column("len").median() or 0)  # type: ignore[arg-type]
        found.append(max(1, round(number / (num_micro_batches if is_pooled else 1))))
    return found[0], found[1]


def _names(samples: pl.DataFrame) -> list[str]:
    return samples.get_column("phase").unique(maintain_order=True).to_list()


def _renamed(samples: pl.DataFrame, others: Iterable[str], *, other_wins: bool) -> pl.DataFrame:
    """Samples with names that the other side knows, where it knows one. other_wins: whether its spelling is taken."""
    spelling = {_folded(name): name for name in others}
    new: dict[str, tuple[str, int | None]] = {}
    for name in _names(samples):
        if (same := spelling.get(_folded(name))) is not None:
            new[name] = (same if other_wins else name, None)
        elif (stem := _stem(name, spelling)) is not None:
            new[name] = stem
    if not new:
        return samples
    to_name = {name: phase for name, (phase, _) in new.items()}
    to_number = {name: number for name, (_, number) in new.items() if number is not None}
    number = pl.lit(None, pl.Int32)
    if to_number:
        number = pl.col("phase").replace_strict(to_number, default=None, return_dtype=pl.Int32)
    return samples.with_columns(
        pl.col("phase").replace(to_name), micro_batch=pl.coalesce(pl.col("micro_batch"), number)
    )


def _stem(name: str, spelling: Mapping[str, str]) -> tuple[str, int] | None:
    match = _NUMBERED.fullmatch(name.strip())
    if match is None or (known := spelling.get(_folded(match[1]))) is None:
        return None
    return known, int(match[2])


def _folded(name: str) -> str:
    return "".join(name.split()).casefold()
