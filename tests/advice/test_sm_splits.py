"""Another split of the SMs: which kernels follow it, by how much, and that all of it is said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import weftrace as wt
from tests.tracefile import TraceFile
from weftrace.advice.changes import SmSplit
from weftrace.advice.swaps.sm_splits import present_split, split_durations
from weftrace.advice.whatifs import what_if
from weftrace.errors import AdviceError
from weftrace.plan import Inferred, by_phase, infer
from weftrace.trace import Trace

DATA = Path(os.environ.get("WEFTRACE_DATA", "../shared/data"))
DEEPSEEK = DATA / "deepseek-v3-train.json.gz"

PERSISTENT = "void deep_gemm::fp8_gemm_kernel<2112u, 7168u>(float*, CUtensorMap)"
FLASH = "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128>>(Flash_fwd_params)"
DISPATCH = "void deep_ep::internode::dispatch<false, 8, false, 8>(int4*, float*)"
NOTIFY = "void deep_ep::internode::cached_notify<false>(int, int, int)"
NORM = "void rms_norm_kernel<float>(float*)"


def inferred_of(tmp_path: Path, *kernels: tuple[str, int, int, int, int]) -> Inferred:
    """Kernels as (name, stream, start, length in us, blocks)."""
    file = TraceFile()
    for name, stream, start, length, blocks in kernels:
        file.kernel(name, start, length, stream=stream, blocks=blocks)
    return infer(file.trace(tmp_path))


#  us 1000        1200        1400   1500   1600
#  7   [gemm 112   |flash 4096       |norm   ]      flash from 1200 to 1400
#  27  [notify|dispatch 20    ]                     dispatch from 1100 to 1300: beside half of flash
RUN = (
    (PERSISTENT, 7, 1000, 200, 112),
    (NOTIFY, 27, 1000, 100, 20),
    (DISPATCH, 27, 1100, 200, 20),
    (FLASH, 7, 1200, 200, 4096),
    (NORM, 7, 1400, 100, 132),
)


def test_the_present_split_is_read_from_blocks_of_persistent_kernels(tmp_path: Path) -> None:
    now = present_split(inferred_of(tmp_path, *RUN))
    assert (now.num_sms, now.compute, now.communication) == (132, 112, 20)
    without = present_split(inferred_of(tmp_path, *RUN[1:]))
    assert (without.compute, without.communication) == (112, 20)  # what communication leaves


def test_each_kernel_follows_the_split_by_its_rule(tmp_path: Path) -> None:
    inferred = inferred_of(tmp_path, *RUN)
    durations, notes = split_durations(inferred, 124, 8)
    on_device = inferred.plan.ops["kind"] != "host"
    summary = dict(
        zip(inferred.plan.ops["name"].filter(on_device), durations[on_device.to_numpy()] / 1000, strict=True)
    )
    assert summary == {
        PERSISTENT: pytest.approx(200 * 112 / 124),
        FLASH: pytest.approx(100 + 100 * 112 / 124),
        NORM: 100,
        NOTIFY: 100,
        DISPATCH: pytest.approx(200 * 20 / 8),
    }
    assert notes == (
        "SMs now: 112 compute, 20 communicate, of 132 (blocks of persistent kernels)",
        "200 µs of persistent kernels that compute: × 112/124, assumed",
        "200 µs of other GEMMs, convolutions and attention: × 112/124 for the 50.0 % beside communication, assumed",
        "200 µs of communication that moves data: × 20/8, assumed: no bandwidths by number of SMs are on record; "
        "what the network bounds gains nothing by more",
        "200 µs as measured: waits for other ranks, work bound by memory, too few blocks",
    )


def test_the_split_as_it_is_changes_nothing(tmp_path: Path) -> None:
    inferred = inferred_of(tmp_path, *RUN)
    assert split_durations(inferred, 112, 20)[0].tolist() == inferred.plan.ops["duration_ns"].to_list()


@pytest.mark.parametrize(
    ("split", "summary"), [((130, 8), "does not split the device's 132 SMs"), ((0, 8), "each part has 1 or more")]
)
def test_a_split_that_does_not_fit_is_refused(tmp_path: Path, split: tuple[int, int], summary: str) -> None:
    with pytest.raises(AdviceError, match=summary):
        split_durations(inferred_of(tmp_path, *RUN), *split)


def test_without_communication_on_sms_of_its_own_there_is_no_split(tmp_path: Path) -> None:
    with pytest.raises(AdviceError, match="no communication kernel here holds SMs of its own"):
        present_split(inferred_of(tmp_path, RUN[0]))


@pytest.mark.skipif(not DEEPSEEK.exists(), reason="DeepSeek's profile is not here")
def test_deepseek_uses_112_sms_to_compute_and_20_to_communicate() -> None:
    trace = wt.open(DEEPSEEK)
    assert isinstance(trace, Trace)
    inferred = infer(trace)
    now = present_split(inferred)
    assert (now.compute, now.communication) == (112, 20)
    durations, notes = split_durations(inferred, 124, 8)
    data = (inferred.measured["role"] == "data").fill_null(False)
    before = inferred.plan.ops["duration_ns"].to_numpy()[data.to_numpy()]
    assert durations[data.to_numpy()].sum() == pytest.approx(2.5 * before.sum())
    assert notes[2].startswith("22.3 ms of other GEMMs, convolutions and attention: × 112/124 for the 99.8 % beside")
    after = what_if(inferred, [SmSplit(compute=124, communication=8)])
    assert after.after_ns > after.replayed_ns and after.notes == notes
    with pytest.raises(AdviceError, match="phases"):
        split_durations(by_phase(inferred), 124, 8)
