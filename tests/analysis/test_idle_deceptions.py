"""Files that look like one cause of idle time and are of another. Times of the pictures are µs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analysis.test_idle_account import account, causes, frame
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.report import analyze
from weftrace.trace import open_trace


def headline(file: TraceFile, folder: Path) -> str:
    source = open_trace(file.write(folder / "trace.json"), frames=True)
    return str(analyze(source, timelines=False).document["headline"])


def steps_with(gap: float, *, waits: bool, num: int = 5) -> TraceFile:
    """Steps of a kernel of 1,000 µs, and a gap after each in which the host recorded nothing; it may wait before."""
    file, at = TraceFile(), 0.0
    for step in range(num):
        file.host(f"ProfilerStep#{step}", at, 1_015 + gap).kernel(GEMM, at + 15, 1_000, launch=at + 9)
        if waits:
            file.host("cudaDeviceSynchronize", at + 12, 1_008, cat="cuda_runtime")
        at += 1_015 + gap + step % 3 * gap / 10 * (not waits)
    return file


def test_a_host_that_works_in_each_step_is_no_file_that_was_cut(tmp_path: Path) -> None:
    """Each step: device █ 1,000 ··· 20,000 to 24,000. A gap is nearly as long as a step, but every step has one."""
    found = causes(account(steps_with(20_000, waits=False), tmp_path))
    assert set(found) == {"nothing_recorded", "launch_call", "launch_latency"}


def test_a_hole_after_a_wait_for_the_device_is_the_host_s(tmp_path: Path) -> None:
    """Exactly 20,000 in each step, as of time.sleep; the host had waited until nothing was left on the device, and its
    wait returned 5 later."""
    assert causes(account(steps_with(20_000, waits=True), tmp_path))["nothing_recorded"] == 4 * (20_009 - 5)


def test_inputs_that_are_copied_are_no_broadcast_of_buffers(tmp_path: Path) -> None:
    """host  forward(aten::to 3,000, broadcast 50 | aten::to 2,000, conv2d); before and after the broadcast."""
    file = TraceFile().kernel(GEMM, 15, 10, launch=9).host("DistributedDataParallel.forward", 100, 6_000)
    file.host("aten::to", 110, 3_000, cat="cpu_op").kernel(GEMM, 3_100, 10, launch=3_094)
    file.host("c10d::broadcast_", 3_150, 50, cat="cpu_op").kernel(ALL_REDUCE, 3_200, 10, launch=3_190)
    file.host("aten::to", 3_210, 2_000, cat="cpu_op").kernel(GEMM, 5_200, 10, launch=5_194)
    found = causes(account(file, tmp_path))
    assert found["buffer_broadcast"] == 3_191 - 3_110  # with the call
    assert found["operators"] == 3_094 - 110 + 5_194 - 3_210 + 2  # with the calls


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("torch/optim/lr_scheduler.py(150): step", "python"),
        ("torch/optim/adamw.py(150): step", "optimizer"),
        (r"C:\Python311\Lib\site-packages\torch\utils\data\dataloader.py(701): __next__", "data_loading"),
        ("metrics.py(3): dataset_stats", "python"),
        ("model/norms.py(3): get_batch_norm", "python"),
        ("config.py(3): print_config", "python"),
    ],
)
def test_names_that_look_like_a_known_activity(tmp_path: Path, name: str, cause: str) -> None:
    file = TraceFile().kernel(GEMM, 15, 10, launch=9).kernel(GEMM, 5_215, 10, launch=5_209)
    frame(file, name, 30, 5_100)
    assert next(iter(causes(account(file, tmp_path)))) == cause


def test_an_annotation_of_a_learning_rate_s_scheduler_is_no_engine(tmp_path: Path) -> None:
    file = TraceFile().kernel(GEMM, 15, 10, launch=9).kernel(GEMM, 5_215, 10, launch=5_209)
    assert causes(account(file.host("scheduler_step", 30, 5_100), tmp_path))["annotation"] == 5_100


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("<ipython-input-3-a1b2c3>(5): resize", "resize of <ipython-input-3-a1b2c3>"),
        ("/tmp/ipykernel_123/456.py(7): resize", "resize of tmp/ipykernel_123/456.py"),
        (r"C:\Users\me\job\train.py(7): resize", "resize of me/job/train.py"),
        ("train.py(7): resize" + "x" * 5_000, "resize" + "x" * 94 + "… of train.py"),
        ("train.py(7): re\x1b[31msize", "re [31msize of train.py"),
        (r"C:\Python311\Lib\threading.py(7): notify", "main of train.py"),
        ("/tmp/tmpab12cd_9/main.py(7): launcher", "main of train.py"),
    ],
)
def test_functions_are_named_wherever_their_files_are(tmp_path: Path, name: str, said: str) -> None:
    file = TraceFile().kernel(GEMM, 15, 10, launch=9).kernel(GEMM, 5_215, 10, launch=5_209)
    frame(file, "train.py(1): main", 0, 5_300)
    assert f"in {said}, one gap" in headline(frame(file, name, 30, 5_100), tmp_path)


def test_ranges_that_cross_by_rounding_follow_one_another(tmp_path: Path) -> None:
    """host  first 30-1,030 and a part of it that ends with it; second 1,029.5-5,130: half a µs is rounding."""
    file = TraceFile().kernel(GEMM, 15, 10, launch=9).kernel(GEMM, 5_215, 10, launch=5_209)
    for name, ts, dur in (("first", 30, 1_000), ("part", 500, 530), ("second", 1_029.5, 4_100.5)):
        frame(file, f"train.py(1): {name}", ts, dur)
    row = account(file, tmp_path).causes.row(0, named=True)
    assert (row["name"], row["name_ns"]) == ("train.py(1): second", 4_100_500)


def test_an_operator_that_works_long_after_a_wait_is_the_cause(tmp_path: Path) -> None:
    """host  [wait -30][aten::to 31 ... launch 3,094]: the wait ended, and 3 ms of one operator followed."""
    file = TraceFile().kernel(GEMM, 15, 10, launch=9).host("cudaDeviceSynchronize", 12, 18, cat="cuda_runtime")
    file.host("aten::to", 31, 3_100, cat="cpu_op").kernel(GEMM, 3_100, 10, launch=3_094)
    assert causes(account(file, tmp_path))["operators"] == 3_094 - 31


def test_a_graph_launch_that_takes_its_usual_time_has_not_blocked(tmp_path: Path) -> None:
    file = TraceFile()
    for number in range(20):
        file.kernel(GEMM, 500 * number + 70, 100, launch=500 * number, call="cudaGraphLaunch")
        file.events[-2]["dur"] = 60
    found = causes(account(file, tmp_path))
    assert (found["launch_call"], found["python"]) == (19 * 60, 19 * 330)


def test_compiled_code_is_not_called_eager(tmp_path: Path) -> None:
    file = TraceFile().host("Torch-Compiled Region: 0/0", 0, 5_000, cat="cpu_op")
    for number in range(40):
        file.kernel("triton_poi_fused_add_0", 100 * number + 15, 10, launch=100 * number + 9, call="cuLaunchKernel")
    said = headline(file, tmp_path)
    assert "for compiled code, which launches one kernel after another" in said
    assert "eager" not in said


def test_first_uses_are_counted(tmp_path: Path) -> None:
    """Twelve kernels, three of which are long in their first launch."""
    file, at = TraceFile(), 0.0
    for number in range(24):
        long = number in (4, 7, 9)
        file.kernel(f"kernel_{number % 12}", at + 15 + 3_000 * long, 10, launch=at + 9)
        file.events[-2]["dur"] = 1 + 3_000 * long
        at += 100 + 3_000 * long
    assert "3 launch calls that blocked, each the first of its kernel" in headline(file, tmp_path)


def test_recording_is_blamed_for_small_operators_alone(tmp_path: Path) -> None:
    for gap, is_said in ((50, True), (5_000, False)):
        file = TraceFile()
        for number in range(5):
            at = number * (gap + 20)
            file.kernel(GEMM, at + gap, 10, launch=at + gap - 6)
            frame(file, "train.py(1): main", at, gap + 15)
        assert ("Recording stacks made" in headline(file, tmp_path)) is is_said


def test_the_rank_with_the_slow_loader_is_named(tmp_path: Path) -> None:
    """Four ranks; rank 2 alone loads data for 3,000 µs between its two kernels, the others launch late by 400 µs."""
    for rank in range(4):
        wait = 3_000 if rank == 2 else 400
        file = TraceFile(rank=rank, world_size=4).kernel(GEMM, 20, 500, launch=10).kernel(GEMM, 530 + wait, 500)
        if rank == 2:
            file.host("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 525, wait - 20)
        file.write(tmp_path / f"rank{rank}.json")
    headline = analyze(tmp_path, timelines=False, workers=1).document["headline"]
    assert "the data loader, all of it in rank 2" in headline
