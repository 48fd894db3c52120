"""How many blocks an SM holds, and how much of the last wave is empty: by pencil, and against what Kineto recorded."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from tests.conftest import shared_data_folder
from weftrace.analysis.efficiency.waves import KINETO_SHARED_BYTES, WAVE_SCHEMA, untold, waves_of
from weftrace.facts import sm_limits
from weftrace.trace.chrome.reader import read_chrome
from weftrace.trace.model import Device

DATA = shared_data_folder()
H100 = Device(id=0, name="NVIDIA H100 80GB HBM3", num_sms=132, capability=(9, 0), warp_size=32)
V100 = Device(id=0, name="Tesla V100-SXM2-32GB", num_sms=80, capability=(7, 0), warp_size=32)
MI300X = Device(id=0, name="AMD Instinct MI300X", num_sms=304, capability=(9, 4), max_threads_per_sm=2048, warp_size=64)


def waves(device: Device, *launches: tuple[int | None, int | None, int | None, int | None]) -> pl.DataFrame:
    columns = ("num_blocks", "num_threads", "registers", "shared_bytes")
    return waves_of(pl.DataFrame(launches, schema=dict.fromkeys(columns, pl.Int64()), orient="row"), device)


def test_the_least_of_four_limits_counts() -> None:
    held = waves(
        H100,
        (1000, 1024, 32, 0),  # threads: 2048 / 1024
        (1000, 128, 128, 0),  # registers: 128 x 32 = 4096 a warp, 4 warps a quarter of 16384, 16 warps / 4
        (1000, 128, 33, 0),  # registers: 33 x 32 = 1056, given as 1280; 12 warps a quarter, 48 / 4
        (1000, 128, 16, 40_000),  # shared memory: 40,000 + 1,024 = 41,024, given as 41,088; 233,472 / 41,088 = 5.7
        (1000, 32, 16, 0),  # blocks: 32, though there is room for 64 warps
        (1000, 100, 16, 0),  # 100 threads take 4 warps
        (56 * 2, 384, 168, 231_424),  # a GEMM of cuBLAS
    )
    assert held.get_column("blocks_per_sm").to_list() == [2, 4, 12, 5, 32, 16, 1]
    assert held.get_column("occupancy_percent").to_list() == [100, 25, 75, 31.25, 50, 78.125, 18.75]
    # Volta reserves nothing: 98,304 / 40,192
    assert waves(V100, (1000, 128, 16, 40_000)).item(0, "blocks_per_sm") == 2


def test_the_last_wave() -> None:
    one = (384, 168, 231_424)  # one block an SM, so that a wave is of 132
    table = waves(H100, (132, *one), (133, *one), (112, *one), (264, *one))
    assert table.get_column("num_waves").to_list() == [1, 2, 1, 2]
    assert table.get_column("last_wave_empty_share").to_list() == pytest.approx([0, 131 / 132, 20 / 132, 0])
    # 112 blocks do not fill 132 SMs: 384 / 2048 of the threads, in 112 / 132 of the SMs
    assert table.item(2, "estimated_percent") == pytest.approx(100 * 384 / 2048 * 112 / 132)


def test_blocks_of_persistent_kernels_are_no_pieces_of_work() -> None:
    launch = pl.DataFrame({"num_blocks": [132, 132], "num_threads": 384, "registers": 168, "shared_bytes": 0})
    table = waves_of(launch.with_columns(persistent=pl.Series([True, None])), H100)
    assert table.get_column("num_waves").to_list() == [None, 1]
    assert table.get_column("last_wave_empty_share").to_list() == [None, 0]
    assert table.item(0, "blocks_per_sm") == 1


def test_what_is_not_recorded_is_null() -> None:
    table = waves(H100, (10, 128, None, 0), (10, 128, 32, None), (None, 128, 32, 0), (0, 0, 0, 0), (10, 4096, 32, 0))
    assert dict(table.schema) == WAVE_SCHEMA
    assert table.null_count().row(0) == (5,) * 5  # 4096 threads fit on no SM
    for device in (MI300X, replace(H100, num_sms=None), replace(H100, capability=(99, 0)), Device(id=0)):
        table = waves(device, (10, 128, 32, 0))
        assert (dict(table.schema), table.null_count().row(0)) == (WAVE_SCHEMA, (1,) * 5)
    assert waves(H100).is_empty()


def test_why_waves_are_not_told() -> None:
    assert untold(H100) == ""
    assert "ROCm's profiler records neither the registers" in untold(MI300X)
    assert "how many SMs" in untold(Device(id=0))
    assert "what one SM of its device holds" in untold(replace(H100, capability=None))


def test_what_the_file_states_goes_first() -> None:
    assert waves(replace(H100, max_threads_per_sm=1024), (1000, 128, 16, 0)).item(0, "blocks_per_sm") == 8


@pytest.mark.parametrize(("name", "least_full"), [("deepseek-v3-train", 381), ("hta-event-sync-multi-stream", 3)])
def test_the_occupancy_that_kineto_recorded(name: str, least_full: int) -> None:
    """All launches agree with the recorded percent, which is whole; above 48 KiB of shared memory Kineto says 0."""
    path = DATA / f"{name}.json.gz"
    if not path.is_file():
        pytest.skip(f"{path} is missing; set WEFTRACE_DATA")
    trace = read_chrome(path)
    launches = trace.events.filter(pl.col("occupancy").is_not_null())
    both = pl.concat([launches, waves_of(launches, trace.device(trace.device_ids[0]))], how="horizontal")
    is_large = pl.col("shared_bytes") > KINETO_SHARED_BYTES
    assert both.filter(is_large).get_column("occupancy").to_list() == [0] * both.filter(is_large).height
    compared = both.filter(~is_large)
    agree = compared.filter((pl.col("estimated_percent") - pl.col("occupancy")).abs() <= 0.501)
    assert (agree.height, compared.height) == (compared.height, both.height - both.filter(is_large).height)
    # of these, full enough that the blocks that an SM holds decide, not the grid
    full = compared.filter(pl.col("occupancy_percent") == pl.col("estimated_percent"))
    assert full.height >= least_full


def test_stated_limits_are_those_of_the_capability() -> None:
    """The file's own numbers, where it has them, are those of the guide."""
    path = DATA / "deepseek-v3-train.json.gz"
    if not path.is_file():
        pytest.skip(f"{path} is missing; set WEFTRACE_DATA")
    device = read_chrome(path).device(0)
    assert device.capability is not None
    limits = sm_limits(device.capability)
    assert limits is not None
    assert (device.max_threads_per_sm, device.registers_per_sm, device.shared_bytes_per_sm) == (
        limits.max_threads_per_sm,
        limits.registers_per_sm,
        limits.shared_bytes_per_sm,
    )
