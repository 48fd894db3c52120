"""Parquet with a digest: every flipped bit is refused; what has none is read apart, and costs nobody the process."""

from __future__ import annotations

import io
import os
import random
import time

import polars as pl
import pytest

from weftrace.errors import TraceError, TraceTooLarge
from weftrace.files.apart import Apart, ApartError
from weftrace.files.parquet import parquet_bytes, read_table

ROWS = pl.DataFrame(
    {"number": [1, None, -(2**63)], "text": ["a", None, "µ" * 50], "list": [[1], [], None]},
    schema_overrides={"number": pl.Int64},
).with_columns(pl.col("text").cast(pl.Categorical).alias("name"))


def unsealed(rows: pl.DataFrame, metadata: dict[str, str] | None = None) -> bytes:
    buffer = io.BytesIO()
    rows.write_parquet(buffer, compression="zstd", metadata=metadata or {})
    return buffer.getvalue()


def flipped(stored: bytes, bit: int) -> bytes:
    damaged = bytearray(stored)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


def test_a_file_comes_back_and_is_ordinary_parquet() -> None:
    stored = parquet_bytes(ROWS, {"key": "value"})
    table = read_table(stored, "t")
    assert table.rows.equals(ROWS) and table.rows.schema == ROWS.schema
    assert table.metadata["key"] == "value" and table.is_checked
    assert pl.read_parquet(io.BytesIO(stored)).equals(ROWS)
    assert stored == parquet_bytes(ROWS, {"key": "value"})  # equal content, equal files


def test_a_digest_in_the_content_is_not_taken_for_the_file_s() -> None:
    """The field is the last of its form: texts and facts that look like it do not matter."""
    field = "weftrace.sha256\x18@" + "0" * 64
    rows = pl.DataFrame({field: [field, "b"]})
    table = read_table(parquet_bytes(rows, {"a": field, field: "b", "z": field}), "t")
    assert table.rows.equals(rows) and table.metadata["z"] == field and table.is_checked


def test_every_flipped_bit_is_refused() -> None:
    stored = parquet_bytes(ROWS.select("number"), {})
    digest = stored.rfind(b"weftrace.sha256")
    for bit in random.Random(7).sample(range(8 * len(stored)), 300):
        if not digest <= bit // 8 < digest + 17:  # below: what takes a process of its own
            with pytest.raises(TraceError, match=r"^t: is damaged, cut short or changed"):
                read_table(flipped(stored, bit), "t")


def test_a_digest_that_is_gone_is_missed() -> None:
    """Its key is another by one bit: the rest of the file says that it had one."""
    stored = parquet_bytes(ROWS, {})
    with pytest.raises(TraceError, match="its digest is gone"):
        read_table(stored.replace(b"weftrace.sha256", b"weftrace.sha257"), "t")


def test_a_file_of_another_writer_is_read_and_not_checked() -> None:
    table = read_table(unsealed(ROWS, {"key": "value"}), "t")
    assert table.rows.equals(ROWS) and table.rows.schema == ROWS.schema
    assert table.metadata["key"] == "value" and not table.is_checked


def test_size_counts_rows_texts_and_categories() -> None:
    """Each file is a few kB, and 20 MB in memory."""
    texts = pl.DataFrame({"text": [str(number) + "x" * 200_000 for number in range(100)]})
    for rows in (
        texts,
        texts.cast(pl.Categorical),
        pl.DataFrame({"nulls": pl.repeat(None, 5_000_000, dtype=pl.Int32, eager=True)}),
    ):
        for stored in (parquet_bytes(rows, {}), unsealed(rows)):
            assert len(stored) < 100_000
            with pytest.raises(TraceTooLarge, match=r"^t: .*its rows expand to"):
                read_table(stored, "t", max_bytes=10_000_000)
    assert read_table(parquet_bytes(rows, {}), "t", max_bytes=50_000_000).rows.equals(rows)


def test_a_function_that_ends_its_process_costs_only_that() -> None:
    with Apart(1 << 20) as apart:
        with pytest.raises(ApartError, match="ends the process that reads it"):
            apart(os.abort)
        assert apart(abs, -3) == 3
        with pytest.raises(ApartError, match=r"^bad operand"):
            apart(abs, "text")
        with pytest.raises(ApartError):
            apart(bytearray, 8 << 40)


def test_a_function_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weftrace.files.apart._SECONDS", 0.05)
    with Apart(1 << 20) as apart, pytest.raises(ApartError, match="takes more than 0 s"):
        apart(time.sleep, 60)
