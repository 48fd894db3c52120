"""Do micro-batches differ in length, or are single ones held up by collections of garbage?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from weftrace.advice.slowdown.found import BY_ONE, UNEVEN, Found, listed
from weftrace.units import counted, duration

_TOGETHER = 0.9  # correlation from which forward and backward grow together
_MOST_GROW = 0.8  # of the time of kernels that must grow together
_FEW = 8  # micro-batches
_LONG = 1.15  # times its like: a single stretch that is longer, and
_OUTSIDE = 6.0  # deviations of logarithms away from it, stands alone
_FEW_A_STEP = 3  # micro-batches: of fewer in a step a long one is not told from a slow step
_NEARLY_ALL = 0.8  # of the micro-batches of a step: what is long in more is slow there
_GARBAGE = r"(?i)\bgc\b|gc[._ -]?collect|garbage"
_RARE = 0.25  # of the forwards: what is more frequent is no garbage collection


def _roles(rows: pl.DataFrame) -> pl.DataFrame:
    """The forwards and backwards among computations, each with role ("f" or "b") and mb, its micro-batch, or where the
    file tells none its place in the step."""
    words = pl.col("type").str.to_lowercase()
    is_b = words.str.contains(r"b(?:ack)?wa?r?d|^b|bprop|backward")
    is_f = words.str.contains(r"f(?:or)?wa?r?d|^f|fprop|forward")
    role = pl.when(is_b).then(pl.lit("b")).when(is_f).then(pl.lit("f"))
    mine = rows.filter(pl.col("pace") == "compute").with_columns(role.alias("role")).drop_nulls("role")
    order = pl.int_range(pl.len()).over("at", "step", "chunk", "role")
    key = pl.when(pl.col("micro_batch").is_null().any()).then(order).otherwise(pl.col("micro_batch").cast(pl.Int64))
    return mine.with_columns(key.alias("mb"))


def _pairs(rows: pl.DataFrame, by: str = "at") -> pl.DataFrame:
    """Forward and backward of each micro-batch and rank: their times over the median of their rank (ratio, ratio_b), or
    of their stage,
    and over that of the step (own, own_b; of one micro-batch a step, of the rank)."""
    whole = (
        _roles(rows)
        .group_by("at", "stage", "step", "chunk", "mb", "role")
        .agg(pl.col("duration_ns").sum(), pl.col("row").first())
    )
    typical = pl.col("duration_ns").median().over(by, "chunk", "role").clip(lower_bound=1)
    several = pl.len().over("at", "step", "chunk", "role") > 2
    in_step = pl.col("duration_ns").median().over("at", "step", "chunk", "role").clip(lower_bound=1)
    own = pl.when(several).then(in_step).otherwise(typical)
    whole = whole.with_columns(
        (pl.col("duration_ns") / typical).alias("ratio"), (pl.col("duration_ns") / own).alias("own")
    )
    keys = ["at", "stage", "step", "chunk", "mb"]
    f, b = (whole.filter(role=each).drop("role").sort(keys) for each in ("f", "b"))
    return f.join(b, on=keys, suffix="_b", nulls_equal=True)


def uneven_lengths(rows: pl.DataFrame, by: str = "at") -> Iterator[Found]:
    """Micro-batches of different lengths: forward and backward grow together, within steps, at most of the ranks."""
    pairs = _pairs(rows, by)
    if pairs.height < _FEW:
        return
    uneven = pairs.group_by("at").agg(pl.min_horizontal(pl.col("own").std(), pl.col("own_b").std()).alias("sd"))
    if (uneven.get_column("sd").fill_null(0).to_numpy() >= UNEVEN).mean() < 0.5:
        return
    correlation = float(np.corrcoef(pairs.get_column("own"), pairs.get_column("own_b"))[0, 1])
    if correlation < _TOGETHER:
        return
    factor = pairs.select("at", "step", "chunk", "mb", length=(pl.col("ratio") + pl.col("ratio_b")) / 2)
    mean = float(factor.get_column("length").mean() or 1)  # type: ignore[arg-type]
    factor = factor.with_columns(pl.col("length") / mean)
    mine = _roles(rows).join(factor, on=("at", "step", "chunk", "mb"), nulls_equal=True)
    repaired = rows.get_column("duration_ns").to_numpy().copy()
    at = mine.get_column("row").to_numpy()
    repaired[at] /= np.maximum(mine.get_column("length").to_numpy(), 1e-3)
    spread = float(np.std(factor.get_column("length").to_numpy()))
    yield Found(
        kind="uneven sequence lengths",
        repaired_ns=repaired,
        evidence=f"forwards and backwards grow together, correlation {correlation:.2f}",
        details={"spread": spread, "error": spread / np.sqrt(pairs.height / pairs.get_column("at").n_unique())},
    )


def lengths_of_kernels(rows: pl.DataFrame, by: str = "at") -> Iterator[Found]:
    """The same of kernels, whose names tell no forward and backward: nearly all of a micro-batch grow together, each
    with the others. by: at, or stage: whose kernels of that name are its like."""
    mine = rows.filter(pl.col("pace") == "compute", pl.col("track").is_not_null(), pl.col("micro_batch").is_not_null())
    mine = mine.with_columns(pl.col("step").min().over("at", "micro_batch"))
    keys = ["at", "stage", "step", "micro_batch"]
    parts = mine.group_by(*keys, "track").agg(pl.col("duration_ns").sum())
    typical = pl.col("duration_ns").median().over(by, "track").clip(lower_bound=1)
    several = pl.len().over("at", "step", "track") > 2
    in_step = pl.col("duration_ns").median().over("at", "step", "track").clip(lower_bound=1)
    parts = parts.with_columns(
        typical.alias("typical"),
        (pl.col("duration_ns") / pl.when(several).then(in_step).otherwise(typical)).alias("own"),
    )
    whole, length = pl.col("typical").sum().over(keys), (pl.col("typical") * pl.col("own")).sum().over(keys)
    others = (length - pl.col("typical") * pl.col("own")) / (whole - pl.col("typical")).clip(lower_bound=1)
    parts = parts.with_columns(others.alias("others"), (length / whole).alias("length"))
    lengths = parts.unique(keys)
    uneven = lengths.group_by("at").agg(pl.col("length").std().alias("sd")).get_column("sd").fill_null(0).to_numpy()
    if lengths.height < _FEW or (uneven >= UNEVEN).mean() <= 0.5:
        return
    weighed = parts.group_by("track").agg(
        pl.corr("own", "others").alias("r"), pl.col("typical").sum(), pl.len().alias("num")
    )  # fmt: skip
    weighed = weighed.with_columns(pl.col("r").fill_nan(0).fill_null(0))
    together = weighed.filter(pl.col("r") >= _TOGETHER)
    if float(together.get_column("typical").sum()) < _MOST_GROW * float(weighed.get_column("typical").sum()):
        return
    parts = parts.join(together.select("track"), on="track", how="semi")
    factor = parts.group_by(*keys).agg(
        pl.col("duration_ns").sum().alias("own_ns"), pl.col("typical").sum().alias("like_ns")
    ).with_columns(pl.col("own_ns") / pl.col("like_ns").clip(lower_bound=1))  # fmt: skip
    mean = float(factor.get_column("own_ns").mean() or 1)  # type: ignore[arg-type]
    factor = factor.select(*keys, length=pl.col("own_ns") / mean)
    repaired = rows.get_column("duration_ns").to_numpy().copy()
    growing = mine.join(together.select("track"), on="track", how="semi", maintain_order="left")
    growing = growing.join(factor, on=keys, maintain_order="left")
    repaired[growing.get_column("row").to_numpy()] /= np.maximum(growing.get_column("length").to_numpy(), 1e-3)
    spread = float(np.std(factor.get_column("length").to_numpy()))
    correlation = float(np.average(together.get_column("r"), weights=together.get_column("typical")))
    yield Found(
        kind="uneven sequence lengths",
        repaired_ns=repaired,
        evidence=f"all their kernels grow together, correlation {correlation:.2f}",
        details={"spread": spread, "error": spread / np.sqrt(lengths.height / lengths.get_column("at").n_unique())},
    )


def named_collections(ops: pl.DataFrame) -> Iterator[Found]:
    """Ranges that say that they collect garbage, where few ranks do so in that step: where all do it costs each the
    same."""
    is_one = (pl.col("pace") == "compute") & pl.col("type").fill_null("").str.contains(_GARBAGE)
    num_ranks = ops.get_column("at").n_unique()
    mine = ops.select("at", "step", "type", "duration_ns", is_one=is_one.fill_null(False))
    at_once = pl.when("is_one").then("at").n_unique().over("step", "is_one")
    alone = mine.select(pl.col("is_one") & (2 * at_once <= num_ranks)).to_series().fill_null(False)
    single = mine.filter(alone)
    if single.is_empty():
        return
    ranks = single.get_column("at").unique().sort().to_list()
    names = single.get_column("type").unique().sort().to_list()
    extra = float(single.get_column("duration_ns").median() or 0)  # type: ignore[arg-type]
    own = ops.get_column("duration_ns").to_numpy()
    told = f"{counted(single.height, 'range')} of {listed(names[:2])} at {counted(len(ranks), 'rank')}"
    few = ranks if 2 * len(ranks) <= num_ranks else []
    yield Found(
        kind="garbage collection",
        repaired_ns=np.where(alone.to_numpy(), 0.0, own),
        ranks=tuple(few),
        evidence=f"{told}, {duration(extra)} each in the median",
        details={"is_named": 1.0, "extra": extra, "num": float(single.height), "ranks": float(len(ranks))},
    )


def held_up_forwards(clean: pl.DataFrame, rows: pl.DataFrame) -> Iterator[Found]:
    """Single long forwards, whose backward is as ever: Python's garbage collector ran in their host's midst. Or single
    long backwards, whose forward is."""
    pairs = _pairs(clean)
    if pairs.is_empty():
        return
    yield from _long(pairs, rows, "forward")
    yield from _long(pairs, rows, "backward")


def _long(pairs: pl.DataFrame, rows: pl.DataFrame, way: str) -> Iterator[Found]:
    """Of one way. What is long in nearly all of a step is slow there."""
    end, other = ("", "_b") if way == "forward" else ("_b", "")
    f, b = pairs.get_column(f"ratio{end}").to_numpy(), pairs.get_column(f"ratio{other}").to_numpy()
    middle = float(np.median(f))
    apart = np.log(np.maximum(f, 1e-9) / middle)
    deviation = 1.4826 * float(np.median(np.abs(apart)))
    is_long = (f > _LONG * middle) & (apart > _OUTSIDE * deviation)
    is_long &= (f - np.median(f)) > 2 * (b - np.median(b))
    number, num_long = pl.len().over("at", "step"), pl.col("long").sum().over("at", "step")
    in_step = pairs.select("at", "step", long=pl.Series(is_long)).select(
        few=(number < _FEW_A_STEP) | (num_long <= _NEARLY_ALL * number)
    )
    is_long &= in_step.get_column("few").to_numpy()
    share = float(is_long.mean())
    num_ranks = pairs.filter(pl.Series(is_long)).get_column("at").n_unique()
    if not is_long.any() or share > _RARE or is_long.sum() < 2 or num_ranks < 2:
        return
    long = pairs.filter(pl.Series(is_long))
    if way == "backward" and long.get_column("at").value_counts().get_column("count").max() > BY_ONE * long.height:  # type: ignore[operator]
        return
    like = long.get_column(f"duration_ns{end}").to_numpy() / f[is_long]
    values = rows.get_column("duration_ns").to_numpy().copy()
    at = long.get_column(f"row{end}").to_numpy()
    extra = long.get_column(f"duration_ns{end}").to_numpy() - like
    values[at] = np.maximum(values[at] - extra, 0)
    yield Found(
        kind="garbage collection",
        repaired_ns=values,
        ranks=(),
        evidence=f"{int(is_long.sum()):,} of {len(is_long):,}, at {num_ranks} ranks, by "
        f"{duration(float(np.median(extra)))}; not their {'backwards' if way == 'forward' else 'forwards'}",
        details={
            "way": way,
            "extra": float(np.median(extra)),
            "num": float(is_long.sum()),
            "ranks": float(num_ranks),
        },
    )
