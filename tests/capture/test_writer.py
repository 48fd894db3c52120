"""The thread that writes: within its bound, the oldest steps first, and harmless whatever happens."""

from __future__ import annotations

import gzip
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.capture.kineto import kineto, step_of, taken
from weftrace.capture.captured import listed
from weftrace.capture.writer import Taken, Window, Writer


class Written:
    """A writer, what it told, and windows for it: steps of some 10,000 bytes each, compressed, a stretch a step."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder, self.problems = folder, list[str]()
        self.writer = Writer(max_bytes, self.problems.append)

    def give(self, *steps: int, in_one: bool = False, name: str = "rank0.json.gz", **more: Any) -> None:
        texts = {n: step_of(n, 100.0 * n, ops=20, filling=1000) for n in steps}
        stretches = [steps] if in_one else [(n,) for n in steps]
        each = [taken(some, kineto(*(texts[n] for n in some))) for some in stretches]
        self.writer.give(Window(path=self.folder / name, taken=each, facts=lambda: {"weftrace": {}}, pace_s=0, **more))

    def summary(self, name: str = "rank0.json.gz") -> dict[str, str]:
        found: dict[str, str] = json.loads(gzip.decompress((self.folder / name).read_bytes()))["weftrace"]
        return found


@pytest.mark.parametrize("in_one", [True, False])
def test_the_oldest_steps_go_and_are_counted_where_the_file_would_be_too_large(tmp_path: Path, in_one: bool) -> None:
    made = Written(tmp_path, 35_000)
    made.give(7, 8, 9, 10, 11, in_one=in_one)
    made.writer.close()
    (file,) = made.writer.files
    assert file.steps == (9, 10, 11) and made.writer.dropped == [7, 8] and made.problems == []
    assert file.num_bytes == (tmp_path / "rank0.json.gz").stat().st_size <= 35_000
    assert made.summary() == {
        "capture.steps": "9-11", "capture.dropped_steps": "2 steps: 7-8, to stay within 34.2 KiB a rank"
    }  # fmt: skip


def test_nothing_is_dropped_where_all_fits(tmp_path: Path) -> None:
    made = Written(tmp_path, 1_000_000)
    made.give(7, 8)
    made.writer.close()
    assert made.summary() == {"capture.steps": "7-8"} and made.writer.dropped == []


def test_a_step_that_does_not_fit_leaves_no_file_and_says_so(tmp_path: Path) -> None:
    made = Written(tmp_path, 5_000)
    made.give(7, 8)
    made.writer.close()
    assert list(tmp_path.iterdir()) == [] and made.writer.dropped == [7, 8]
    assert made.problems == ["step 8 alone is larger than 5,000 bytes: nothing was written"]


def test_older_files_make_room_for_new_ones(tmp_path: Path) -> None:
    made = Written(tmp_path, 40_000)
    for step in range(5):
        made.give(step, name=f"step{step}/rank0.json.gz")
    made.writer.close()
    assert [file.steps for file in made.writer.files] == [(2,), (3,), (4,)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step2", "step3", "step4"]
    assert sum(path.stat().st_size for path in tmp_path.rglob("*.gz")) <= 40_000
    assert (
        made.writer.dropped == [0, 1] and "2 steps: 0-1" in made.summary("step4/rank0.json.gz")["capture.dropped_steps"]
    )


def test_giving_does_not_wait_for_writing(tmp_path: Path) -> None:
    made, may = Written(tmp_path, 1_000_000), threading.Event()
    text = kineto(step_of(1, 0))

    def save(path: str) -> None:
        assert may.wait(60)
        Path(path).write_bytes(text)

    made.writer.give(Window(path=tmp_path / "a.json.gz", taken=[Taken((1,), save)], facts=dict, pace_s=0))
    assert made.writer.num_waiting == 1 and made.writer.files == []  # here already, and nothing is written
    may.set()
    made.writer.close()
    assert made.writer.num_waiting == 0 and [file.steps for file in made.writer.files] == [(1,)]


def test_a_file_that_cannot_be_written_is_told_and_the_next_one_is_written(tmp_path: Path) -> None:
    made = Written(tmp_path, 1_000_000)
    (tmp_path / "step1").touch()  # a file where a folder should be
    made.give(1, name="step1/rank0.json.gz")
    made.give(2, name="step2/rank0.json.gz")
    made.writer.close()
    assert [file.steps for file in made.writer.files] == [(2,)]
    (problem,) = made.problems
    assert problem.startswith("steps 1 were not written: ") and not list(tmp_path.rglob("*.part"))


def test_what_another_process_wrote_meanwhile_stays(tmp_path: Path) -> None:
    made = Written(tmp_path, 1_000_000)
    (tmp_path / "rank0.json.gz").write_text("another's")
    made.give(1)
    made.writer.close()
    assert (tmp_path / "rank0.json.gz").read_text() == "another's"
    assert "by another recording of the same rank" in made.problems[0]


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, data: bytes) -> int:
        with self.open("wb") as file:
            file.write(data[:100])
        raise OSError(28, "No space left on device")

    made = Written(tmp_path, 1_000_000)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", full)
        made.give(1, 2)
        made.writer.close()
    assert list(tmp_path.iterdir()) == [] and made.writer.files == []
    assert "No space left" in made.problems[0]


def test_the_rest_of_a_loop_is_no_step(tmp_path: Path) -> None:
    made = Written(tmp_path, 1_000_000)
    made.give(7, renamed={"ProfilerStep#7": "after the last step"})
    made.writer.close()
    text = gzip.decompress((tmp_path / "rank0.json.gz").read_bytes())
    assert b'"after the last step"' in text and b"ProfilerStep" not in text


def test_numbers_are_listed_in_runs() -> None:
    assert listed([]) == "" and listed([9, 7, 8, 20, 22, 23]) == "7-9, 20, 22-23"
