"""Which range of a rank needs what another range of it made: a forward what it received, a send what was computed."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from weftrace.units import US

_EARLY_NS = 20 * US  # by which an effect may begin before its cause ends: stamps are not taken at once
_NEARLY_ALWAYS = 0.9  # of the computations of a kind on a rank
_FITS = 0.98  # of the pairs must be in order of time, else they are told by time

#: Which role feeds which: the rule of the maker, and of the user.
_FEEDS = (
    ("forward_recv", "forward"), ("forward", "forward_send"), ("backward_recv", "backward"),
    ("backward", "backward_send"), ("forward", "forward_send_backward_recv"),
    ("forward_send_backward_recv", "backward"), ("backward", "backward_send_forward_recv"),
    ("backward_send_forward_recv", "forward"),
)  # fmt: skip
_COMPUTES = ("forward", "backward", "forward_backward")


def passed_on(ops: pl.DataFrame) -> pl.DataFrame:
    """Rows `op`, `on`: what a range on one lane needs of one on another lane of its rank. ops: of `OPS`."""
    rows = ops.with_row_index("row").select(
        "row", "at", "lane", "step", "micro_batch", "chunk", "start_ns", "end_ns", "is_turned",
        pl.col("rule", "kind", "name").cast(pl.String),
    )  # fmt: skip
    rows = _whole(rows)
    if rows.get_column("is_turned").any():
        return _both_ways(rows)
    found = [pl.DataFrame(schema={"op": pl.UInt32(), "on": pl.UInt32()})]
    for maker, user in _FEEDS:
        makers, users = rows.filter(rule=maker), rows.filter(rule=user)
        if makers.height and users.height:
            found.append(_fed(_as_makers(makers), users))
    return pl.concat(found).unique(maintain_order=True)


def stage_to_stage(ops: pl.DataFrame, places: Sequence[tuple[tuple[str, int], ...]]) -> pl.DataFrame:
    """Rows `op`, `on`: of jobs that log no receives, each forward waits for that of its micro-batch on the
    stage before, each backward for that on the stage behind. None where that is against the order of time.

    places: of each rank its coordinates in the job, as far as told.
    """
    nothing = pl.DataFrame(schema={"op": pl.UInt32(), "on": pl.UInt32()})
    told = [dict(each) for each in places]
    rules = ops.get_column("rule").cast(pl.String)
    if not all("pp" in each for each in told) or rules.str.contains("recv").any():
        return nothing
    others = [str(sorted((place, number) for place, number in each.items() if place != "pp")) for each in told]
    rows = ops.with_row_index("row").select(
        "row", "at", "lane", "step", "micro_batch", "chunk", "start_ns", "end_ns", "is_turned",
        pl.col("rule", "kind", "name").cast(pl.String),
    )  # fmt: skip
    if rows.get_column("chunk").n_unique() > 1:
        return nothing
    whole = _whole(rows).filter(pl.col("rule").is_in(("forward", "backward")), pl.col("micro_batch") >= 0)
    whole = whole.with_columns(
        stage=pl.Series([each["pp"] for each in told]).gather(whole.get_column("at")),
        replica=pl.Series(others).gather(whole.get_column("at")),
    )
    key = ["replica", "step", "micro_batch", "rule", "stage"]
    ahead = pl.when(pl.col("rule") == "forward").then(1).otherwise(-1)
    makers = whole.with_columns(pl.col("stage") + ahead).select(*key, "row_last", "end_ns")
    pairs = whole.select(*key, "row", "start_ns").join(makers, on=key, suffix="_on", nulls_equal=True)
    in_order = pl.col("end_ns") <= pl.col("start_ns") + _EARLY_NS
    if pairs.is_empty() or pairs.select(in_order.mean()).item() < _FITS:
        return nothing
    return pairs.filter(in_order).select(op="row", on="row_last")


def _whole(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with row_last and lane_last, their own; of computations in several ranges the first alone, until the end
    of the last: of those that follow each other on a lane, of one micro-batch. Where a collective of the rank nearly
    always follows a kind of computation at once, as those of tensor parallelism do, it is part of it."""
    rows = rows.with_columns(row_last="row", lane_last="lane")
    is_part = (pl.col("kind") == "compute") & pl.col("rule").is_in(_COMPUTES)
    computed = rows.filter(kind="compute").sort("at", "lane", "start_ns", "row")
    key = pl.struct("step", "rule", "micro_batch", "chunk")
    is_new = (key != key.shift(1)) | pl.col("micro_batch").is_null() | (pl.col("micro_batch") < 0)
    computed = computed.with_columns(run=is_new.fill_null(True).cum_sum().over("at", "lane")).filter(is_part)
    whole = computed.group_by("at", "lane", "run", maintain_order=True).agg(
        pl.exclude("end_ns", "row_last", "lane_last").first(), pl.col("end_ns", "row_last", "lane_last").last()
    )
    whole = _with_tails(_with_chunks(whole), rows)
    return pl.concat([rows.filter(~is_part.fill_null(False)), whole.select(rows.columns)])


def _with_chunks(whole: pl.DataFrame) -> pl.DataFrame:
    """Where no chunk is told, by how often the rank has computed the micro-batch in the step: forwards begin with the
    first chunk, backwards with the last."""
    nth = pl.int_range(pl.len(), dtype=pl.Int32).over("at", "step", "rule", "micro_batch", order_by="start_ns")
    chunk = pl.when(pl.col("rule") == "forward").then(nth).otherwise(-nth)
    return whole.with_columns(pl.coalesce("chunk", pl.when(pl.col("micro_batch") >= 0).then(chunk)).alias("chunk"))


def _with_tails(whole: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    tails = rows.filter(pl.col("kind") == "communication", ~pl.col("rule").str.contains("send|recv").fill_null(False))
    tails = tails.select("at", "name", "end_ns", "row", "lane", tail_ns="start_ns").sort("tail_ns")
    found = whole.with_columns(until=pl.col("end_ns") - _EARLY_NS).sort("until").join_asof(
        tails, left_on="until", right_on="tail_ns", by="at", strategy="forward", suffix="_tail", check_sortedness=False,
        tolerance=2 * _EARLY_NS, coalesce=False,
    )  # fmt: skip
    follows = pl.col("row_tail").is_not_null() & (pl.col("end_ns_tail") >= pl.col("end_ns") - _EARLY_NS)
    usual = pl.when(follows).then("name_tail").mode().first().over("at", "name")
    found = found.with_columns(is_tail=(follows & (pl.col("name_tail") == usual)).fill_null(False))
    has_tail = pl.col("is_tail") & (pl.col("is_tail").mean().over("at", "name") >= _NEARLY_ALWAYS)
    return found.with_columns(
        pl.when(has_tail).then(f"{column}_tail").otherwise(other).alias(other)
        for column, other in (("row", "row_last"), ("lane", "lane_last"), ("end_ns", "end_ns"))
    )


def _as_makers(rows: pl.DataFrame) -> pl.DataFrame:
    """With what ends them."""
    return rows.with_columns(row="row_last", lane="lane_last")


def _fed(makers: pl.DataFrame, users: pl.DataFrame) -> pl.DataFrame:
    by = ["at", "step"]
    counts = [
        part.group_by(by).agg(pl.len().alias(name)) for part, name in ((makers, "num_makers"), (users, "num_users"))
    ]
    both = counts[0].join(counts[1], on=by, nulls_equal=True)
    alike = both.filter(pl.col("num_makers") == pl.col("num_users")).select(by)
    nth = pl.int_range(pl.len()).over(by)
    a, b = (
        part.join(alike, on=by, how="semi", nulls_equal=True).sort("start_ns", "row").with_columns(nth.alias("nth"))
        for part in (makers, users)
    )
    pairs = b.join(a, on=[*by, "nth"], nulls_equal=True, suffix="_on")
    in_order = pl.col("end_ns_on") <= pl.col("start_ns") + _EARLY_NS
    fits = pairs.group_by(by).agg(in_order.mean().alias("fits"))
    fine = pairs.join(fits.filter(pl.col("fits") >= _FITS), on=by, how="semi", nulls_equal=True).filter(in_order)
    frames = [fine]
    rest = both.join(fits.filter(pl.col("fits") >= _FITS), on=by, how="anti", nulls_equal=True)
    for key in rest.select(by).rows():
        of_key = [pl.col(name).eq_missing(value) for name, value in zip(by, key, strict=True)]
        frames.append(_by_chunk_or_time(makers.filter(of_key), users.filter(of_key)))
    chosen = pl.concat([frame.select("row", "row_on", "lane", "lane_on") for frame in frames])
    return chosen.filter(pl.col("lane") != pl.col("lane_on")).select(op="row", on="row_on")


def _by_chunk_or_time(makers: pl.DataFrame, users: pl.DataFrame) -> pl.DataFrame:
    """Of a rank with several chunks, whose first or last takes from no other rank, or gives to none."""
    more, fewer = (makers, users) if makers.height > users.height else (users, makers)
    chunks = more.get_column("chunk")
    for left_out in (chunks.min(), chunks.max()):
        if left_out is None or (kept := more.filter(pl.col("chunk") != left_out)).height != fewer.height:
            continue
        a, b = (kept, fewer) if more is makers else (fewer, kept)
        a, b = a.sort("start_ns", "row"), b.sort("start_ns", "row")
        pairs = b.hstack(a.select(pl.all().name.suffix("_on")))
        if pairs.select((pl.col("end_ns_on") <= pl.col("start_ns") + _EARLY_NS).mean()).item() >= _FITS:
            return pairs
    return _by_time(makers, users)


def _by_time(makers: pl.DataFrame, users: pl.DataFrame) -> pl.DataFrame:
    """Fewer of one than of the other, as where a rank holds several chunks: each of the fewer with the nearest free one
    in time."""
    makers, users = makers.sort("end_ns", "row"), users.sort("start_ns", "row")
    ends, starts = makers.get_column("end_ns").to_list(), users.get_column("start_ns").to_list()
    chosen: list[tuple[int, int]] = []
    if len(ends) <= len(starts):  # each maker feeds the first user that starts after it
        at = 0
        for maker, end in enumerate(ends):
            while at < len(starts) and starts[at] + _EARLY_NS < end:
                at += 1
            if at < len(starts):
                chosen.append((at, maker))
                at += 1
    else:  # each user took from the last maker that ended before it
        at = len(ends) - 1
        for user in range(len(starts) - 1, -1, -1):
            while at >= 0 and ends[at] > starts[user] + _EARLY_NS:
                at -= 1
            if at >= 0:
                chosen.append((user, at))
                at -= 1
    used, made = [user for user, _ in chosen], [maker for _, maker in chosen]
    return users[used].hstack(makers[made].select(pl.all().name.suffix("_on")))


# --- a model that runs through the pipeline both ways -----------------------------------------------------------------


def _both_ways(rows: pl.DataFrame) -> pl.DataFrame:
    """The same where a model runs through the pipeline both ways: each direction has its micro-batches, and lanes of
    sends and receives. An overlapped forward and backward is a forward of one and a backward of the other.

    No file tells which micro-batches run in which direction: one half, or every other, or those of one chunk. Taken is
    what agrees best with the order of time.
    """
    batch = pl.col("micro_batch").rank("dense").over("step", order_by="micro_batch").cast(pl.Int64)
    half = 2 * batch > batch.max().over("step")
    found = pl.DataFrame(schema={"op": pl.UInt32(), "on": pl.UInt32()})
    best = (_FITS, -float("inf"))
    computed = rows.filter(pl.col("rule").is_in(("forward", "backward", "forward_backward")))
    for is_turned in (half, batch % 2 == 0, pl.col("chunk") == pl.col("chunk").max()):
        for turned in (is_turned, ~is_turned):
            parts = computed.with_columns(turned.alias("is_turned"))
            pairs = _fed_both_ways(rows, parts)
            if pairs.is_empty():
                continue
            in_order = pl.col("end_ns_on") <= pl.col("start_ns") + _EARLY_NS
            waited = pairs.filter("sends").select((pl.col("start_ns") - pl.col("end_ns_on")).median()).item()
            summary = (round(pairs.select(in_order.mean()).item(), 2), -float(waited or 0))
            if summary > best:
                best = summary
                found = pairs.filter(in_order, pl.col("lane") != pl.col("lane_on")).select(op="row", on="row_on")
    return found.unique(maintain_order=True)


def _fed_both_ways(rows: pl.DataFrame, computed: pl.DataFrame) -> pl.DataFrame:
    """Makers and users by their order in their direction, where there are as many; sends: whether the user sends."""
    both = pl.col("rule") == "forward_backward"
    parts = {
        "forward": computed.filter(both | (pl.col("rule") == "forward")),
        "backward": computed.filter(both | (pl.col("rule") == "backward")).with_columns(
            pl.col("is_turned") != both  # an overlapped one bears the forward's micro-batch
        ),
    }
    by = ["at", "step", "is_turned"]
    found = []
    for way, part in parts.items():
        for side in ("send", "recv"):
            passed = rows.filter(rule=f"{way}_{side}")
            a, b = (
                each.sort("start_ns", "row").with_columns(
                    nth=pl.int_range(pl.len()).over(by), num=pl.len().over(by)
                )
                for each in ((_as_makers(part), passed) if side == "send" else (passed, part))
            )  # fmt: skip
            pairs = b.join(a, on=[*by, "nth", "num"], suffix="_on", nulls_equal=True)
            found.append(pairs.with_columns(sends=pl.lit(side == "send")))
    return pl.concat(found)
