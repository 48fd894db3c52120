"""Recording a loop of torch: what the file holds, what it may cost, and that nothing of it ends the run."""

from __future__ import annotations

import json
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.capture.kineto import kineto, step_of, writes
from weftrace.capture import CaptureError, CaptureWarning, Schedule
from weftrace.trace import Trace, find_steps, open_trace, work_of

torch = pytest.importorskip("torch")
from weftrace.capture import Recording, phase, record  # noqa: E402
from weftrace.capture.runtime import recording as module  # noqa: E402
from weftrace.capture.runtime.profilers import Session as Profiler  # noqa: E402

QUICK = Schedule(wait=1, warmup=1, active=2)
LAYER = torch.nn.Linear(8, 8)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No rank of torchrun's, and a warning that a test does not expect fails it."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RESTART_COUNT"):
        monkeypatch.delenv(name, raising=False)
    with warnings.catch_warnings(record=True) as summary:
        warnings.simplefilter("always", CaptureWarning)
        yield
    assert [str(each.message) for each in summary if each.category is CaptureWarning] == []


def work(step: int = 0) -> None:
    with phase("attn(F)", layer=3, micro_batch=step % 2):
        out = LAYER(torch.ones(2, 8))
    out.sum().backward()


def loop(recording: Recording, steps: int = 6, work: Callable[[int], None] = work) -> None:
    with recording:
        for step in range(steps):
            work(step)
            recording.step()


def opened(path: Path) -> Trace:
    trace = open_trace(path)
    assert isinstance(trace, Trace)
    return trace


def steps_in(path: Path) -> list[int]:
    found: list[int] = find_steps(opened(path).events)["step"].to_list()
    return found


def test_a_file_holds_the_scheduled_steps_and_tells_how_it_was_made(tmp_path: Path) -> None:
    made = record(tmp_path, schedule=QUICK, parallel={"ep": 4, "dp": 2}, info={"profile.kind": "prefill"})
    loop(made)
    (file,) = made.result.files
    assert Path(file) == tmp_path / "rank0.json.gz"
    assert (made.result.steps, made.result.dropped_steps, made.result.problems) == ((2, 3), (), ())
    assert made.result.num_bytes == Path(file).stat().st_size
    trace = opened(Path(file))
    assert (trace.rank, trace.world_size) == (0, 1) and steps_in(Path(file)) == [2, 3]
    summary = trace.configuration
    assert summary["capture.torch"] == torch.__version__ and summary["capture.parallel"] == "ep=4, dp=2"
    assert summary["capture.steps"] == "2-3" and summary["profile.kind"] == "prefill"
    assert summary["capture.schedule"] == "wait 1, warm-up 1, active 2, once"
    assert "recorded; the run was held up for" in summary["capture.overhead"]
    assert not trace.quality.dropped and not trace.quality.repaired


def test_phases_have_their_layer_and_micro_batch(tmp_path: Path) -> None:
    loop(record(tmp_path, schedule=QUICK))
    phases = work_of(opened(tmp_path / "rank0.json.gz")).phases
    assert phases.select("name", "step", "layer", "micro_batch").rows() == [("attn(F)", 2, 3, 0), ("attn(F)", 3, 3, 1)]


def test_a_phase_costs_nothing_where_nothing_records() -> None:
    assert phase("attn(F)", layer=3) is phase("mlp(F)")


def test_a_recording_cut_between_steps_holds_the_same_events(tmp_path: Path) -> None:
    found = []
    for name, longest_pause in (("cut", 1e-9), ("whole", float("inf"))):
        loop(record(tmp_path / name, schedule=Schedule(1, 1, 3), longest_pause=longest_pause))
        trace = opened(tmp_path / name / "rank0.json.gz")
        assert ("capture.stretches" in trace.configuration) == (name == "cut")
        ids = trace.events["external_id"].drop_nulls()
        assert ids.n_unique() == ids.len()
        found.append(work_of(trace).events.group_by("step").len().sort("step").rows())
    assert found[0] == found[1] and [step for step, _ in found[0]] == [2, 3, 4]


def test_shapes_and_stacks_on_request(tmp_path: Path) -> None:
    loop(record(tmp_path, schedule=QUICK, shapes=True, stacks=True))
    trace = opened(tmp_path / "rank0.json.gz")
    assert trace.events["input_shapes"].null_count() < len(trace) and trace.quality.skipped["python_function"] > 0
    assert trace.configuration["capture.with"] == "shapes, stacks"


def test_a_rank_of_torchrun_writes_its_own_file_also_without_torch_distributed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    loop(record(tmp_path, schedule=QUICK, ranks=[0, 3]))
    trace = opened(tmp_path / "rank3.json.gz")
    assert (trace.rank, trace.world_size) == (3, 8)


def test_other_ranks_than_asked_for_record_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    made = record(tmp_path / "traces", ranks=[0])
    loop(made)
    assert made.result.files == () and list(tmp_path.iterdir()) == []


def test_several_recordings_are_a_folder_each_within_one_bound(tmp_path: Path) -> None:
    def slow(step: int) -> None:
        while made._writer.num_waiting:
            time.sleep(0.001)
        work(step)

    made = record(tmp_path / "all", schedule=Schedule(0, 1, 1, repeat=0))
    loop(made, 8, slow)
    sizes = {path.parent.name: path.stat().st_size for path in (tmp_path / "all").rglob("*.gz")}
    assert sorted(sizes) == ["step1", "step3", "step5", "step7"]
    made = record(tmp_path / "few", schedule=Schedule(0, 1, 1, repeat=0), max_mb=2.5 * max(sizes.values()) / 2**20)
    loop(made, 8, slow)
    assert made.result.steps == (5, 7) and made.result.dropped_steps == (1, 3)
    assert sum(path.stat().st_size for path in (tmp_path / "few").rglob("*.gz")) <= made.result.max_bytes


def test_a_recording_stays_under_1_mb_and_says_what_it_dropped(tmp_path: Path) -> None:
    def much(step: int) -> None:
        numbers = torch.ones(1)
        for _ in range(6_000):  # some 0.4 MB a step
            numbers = numbers + 1

    made = record(tmp_path, schedule=Schedule(0, 1, 5), max_mb=1)
    loop(made, work=much)
    assert (tmp_path / "rank0.json.gz").stat().st_size <= 2**20
    kept, dropped = made.result.steps, made.result.dropped_steps
    assert dropped and dropped + kept == (1, 2, 3, 4, 5) and steps_in(tmp_path / "rank0.json.gz") == list(kept)
    summary = opened(tmp_path / "rank0.json.gz").configuration["capture.dropped_steps"]
    assert summary.startswith(f"{len(dropped)} step") and summary.endswith("to stay within 1.0 MiB a rank")


def test_recordings_that_are_not_written_in_time_are_left_out_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 0)
    made = record(tmp_path, schedule=QUICK)
    with pytest.warns(CaptureWarning, match="writing is slower than recording"):
        loop(made)
    assert made.result.steps == ()


# --- the run goes on ----------------------------------------------------------------------------------------------


class Interrupted(BaseException):
    pass


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, Interrupted])
def test_an_exception_passes_and_what_was_recorded_is_written(tmp_path: Path, error: type[BaseException]) -> None:
    def fails(step: int) -> None:
        work(step)
        if step == 3:
            raise error

    made = record(tmp_path, schedule=Schedule(1, 1, 9))
    with pytest.raises(error):
        loop(made, work=fails)
    assert made.result.steps == (2, 3) and steps_in(tmp_path / "rank0.json.gz") == [2, 3]
    cut = opened(tmp_path / "rank0.json.gz").configuration["capture.cut_short"]
    assert cut == f"step 3, by {error.__name__}"


def test_a_second_ctrl_c_waits_until_what_was_recorded_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under torchrun a Ctrl-C comes twice: from the terminal, and from torchrun while the file is being written."""

    class Interrupts(Session):
        def stop(self) -> Callable[[str], Any]:
            save = writes(kineto(step_of(2, 0)))

            def interrupted(path: str) -> None:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.05)
                save(path)

            return interrupted

    def fails(step: int) -> None:
        if step == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(module, "Session", lambda **asked: Interrupts(""))
    made = record(tmp_path, schedule=Schedule(1, 1, 9), longest_pause=float("inf"))
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        loop(made, work=fails)
    assert made.result.steps == (2, 3) and (tmp_path / "rank0.json.gz").exists()
    assert signal.getsignal(signal.SIGINT) is before


def test_a_loop_that_ends_early_leaves_whole_steps(tmp_path: Path) -> None:
    made = record(tmp_path, schedule=Schedule(1, 1, 9), longest_pause=float("inf"))
    loop(made, steps=4)
    assert made.result.steps == (2, 3) and steps_in(tmp_path / "rank0.json.gz") == [2, 3]


def test_a_loop_that_ends_before_the_first_step_is_told(tmp_path: Path) -> None:
    made = record(tmp_path)
    with pytest.warns(CaptureWarning, match="nothing was recorded: the loop ended in step 4, before"):
        loop(made, steps=4)
    assert made.result.files == ()


def test_another_profiler_stays_whole_and_is_warned_of_once(tmp_path: Path) -> None:
    made = record(tmp_path, schedule=QUICK)
    running = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    with running as other, pytest.warns(CaptureWarning, match="another profiler of torch is running") as summary:
        loop(made)
    assert len([each for each in summary if each.category is CaptureWarning]) == 1
    assert made.result.steps == () and len(made.result.problems) == 1
    assert sum(event.count for event in other.key_averages() if event.key == "aten::linear") == 6


@pytest.mark.parametrize("wait", [0, 2])
def test_a_profiler_with_a_schedule_of_its_own_stays_whole(tmp_path: Path, wait: int) -> None:
    """It waits for its steps while this one would record: two sessions would end each other, and crash torch."""
    events: list[int] = []
    other = torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(wait=wait, warmup=1, active=2, repeat=1),
        on_trace_ready=lambda ready: events.append(len(ready.events())),
    )
    made = record(tmp_path, schedule=QUICK)

    def both(step: int) -> None:
        work(step)
        other.step()

    with other, pytest.warns(CaptureWarning, match="another profiler of torch is running"):
        loop(made, work=both)
    assert made.result.steps == () and len(events) == 1 and events[0] > 0


def test_a_profiler_that_begins_meanwhile_ends_the_recording(tmp_path: Path) -> None:
    other = torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(wait=5, warmup=1, active=1),
    )

    def begins(step: int) -> None:
        if step == 3:
            other.start()
        work(step)

    made = record(tmp_path, schedule=Schedule(1, 1, 9), longest_pause=float("inf"))
    with pytest.warns(CaptureWarning, match="another profiler of torch began"):
        loop(made, work=begins)
    other.stop()
    assert made.result.steps == (2, 3)


def test_a_session_that_another_one_took_is_no_result() -> None:
    session = Profiler(shapes=False, stacks=False)
    session.start()
    torch.autograd._disable_profiler()
    with pytest.raises(RuntimeError, match="another profiler took its place"):
        session.stop()


class Session:
    """A profiler that fails where it is told to."""

    def __init__(self, fails: str) -> None:
        self.fails = fails

    def start(self) -> None:
        if self.fails == "start":
            raise RuntimeError("no start")

    def stop(self) -> Callable[[str], Any]:
        if self.fails == "stop":
            raise RuntimeError("no stop")
        if self.fails == "save":
            return lambda path: (_ for _ in ()).throw(RuntimeError("no save"))
        return writes(b"no JSON" if self.fails == "text" else kineto(step_of(2, 0)))


@pytest.mark.parametrize(
    ("fails", "problem"),
    [("start", "no start"), ("stop", "no stop"), ("save", "no save"), ("text", "the profiler wrote no events")],
)
def test_a_profiler_that_fails_is_warned_of_once_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str, problem: str
) -> None:
    monkeypatch.setattr(module, "Session", lambda **asked: Session(fails))
    done: list[int] = []
    made = record(tmp_path, schedule=QUICK)
    with pytest.warns(CaptureWarning, match=problem):
        loop(made, work=done.append)
    assert done == [0, 1, 2, 3, 4, 5] and made.result.files == ()
    assert any(problem in summary for summary in made.result.problems) and list(tmp_path.iterdir()) == []


def test_warnings_that_are_errors_do_not_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Session", lambda **asked: Session("stop"))
    made = record(tmp_path, schedule=QUICK)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loop(made)
    assert made.result.problems


def test_a_folder_that_is_lost_meanwhile_is_told(tmp_path: Path) -> None:
    def lost(step: int) -> None:
        if step == 1:
            (tmp_path / "traces").rmdir()
            (tmp_path / "traces").touch()

    made = record(tmp_path / "traces", schedule=QUICK)
    with pytest.warns(CaptureWarning, match="steps 2-3 were not written"):
        loop(made, work=lost)
    assert made.result.files == () and made.result.steps == ()


def test_what_cannot_work_is_refused_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "rank0.json.gz").touch()
    with pytest.raises(CaptureError, match="is there already"):
        record(tmp_path)
    refused: list[dict[str, Any]] = [
        *({"max_mb": wrong} for wrong in (0, -1, float("nan"), float("inf"), 1e-9)),
        *({"longest_pause": wrong} for wrong in (0, float("nan"))), {"info": {"model": "x"}}, {"ranks": [3]},
    ]  # fmt: skip
    for wrong in refused:
        with pytest.raises(CaptureError, match=next(iter(wrong))):
            record(tmp_path / "other", **wrong)


def test_what_another_recording_wrote_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    first, second = record(tmp_path, schedule=QUICK), record(tmp_path, schedule=QUICK)
    loop(first)
    with pytest.warns(
        CaptureWarning, match=r"steps 2-3 were not written: .*rank0.json.gz was written meanwhile, by another"
    ):
        loop(second)
    assert first.result.num_bytes == (tmp_path / "rank0.json.gz").stat().st_size
    assert second.result.files == () and second.result.steps == ()


def test_a_recording_records_within_its_block_alone_and_once(tmp_path: Path) -> None:
    made = record(tmp_path, schedule=Schedule(0, 1, 1, 0))
    with pytest.warns(CaptureWarning, match=r"step\(\) was called outside of the recording's with block"):
        for step in range(4):
            work(step)
            made.step()
    loop(made, steps=2)
    made.step()
    assert made.result.steps == (1,)
    with pytest.raises(CaptureError, match=r"this recording has ended: call record\(\) again"), made:
        pass


def three_steps(made: Recording) -> None:
    for _ in range(3):
        made.step()


def test_steps_on_another_thread_than_the_blocks_are_told_and_leave_the_profiler_free(tmp_path: Path) -> None:
    def on_another_thread(made: Recording) -> None:
        with made:
            thread = Thread(target=three_steps, args=(made,))
            thread.start()
            thread.join()

    made = record(tmp_path / "from-the-first", schedule=Schedule(0, 1, 1))
    with pytest.warns(CaptureWarning, match=r"step\(\) was called on another thread than the one that began"):
        on_another_thread(made)
    assert made.result.steps == ()
    later = record(tmp_path / "later", schedule=Schedule(1, 1, 1))
    on_another_thread(later)
    assert later.result.steps == (2,) and not later.result.problems


def test_the_first_step_of_a_program_is_not_what_a_step_took_before(tmp_path: Path) -> None:
    made = record(tmp_path, schedule=QUICK)
    loop(made, work=lambda step: time.sleep(0.3 * (step == 0)))
    assert made.result.overhead.step_ns is None or made.result.overhead.step_ns < 250_000_000


def test_the_result_reads_as_lines(tmp_path: Path) -> None:
    made = record(tmp_path, schedule=QUICK)
    loop(made)
    lines = dict(line.split(maxsplit=1) for line in made.result.in_lines().splitlines()[1:])
    assert lines["rank"] == "0 of 1" and lines["steps"] == "2-3" and json.dumps(lines["size"]).endswith('256.0 MiB"')
