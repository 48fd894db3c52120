"""Names of a rank's files, under torchrun and without, and that none is ever overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from weftrace.capture import CaptureError
from weftrace.capture.places import World, prepared, world_of
from weftrace.trace.chrome.facts import rank_in_name


def test_a_process_of_torchrun_knows_its_place() -> None:
    summary = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "TORCHELASTIC_RESTART_COUNT": "0"}
    assert world_of(summary) == World(rank=3, world_size=8, local_rank=1, restart=0)
    assert world_of({}) == World(rank=0, world_size=1, local_rank=0, restart=0)
    assert world_of({"RANK": "x", "WORLD_SIZE": ""}) == World()


def test_names_tell_the_rank_and_where_there_are_several_the_step(tmp_path: Path) -> None:
    one = prepared(tmp_path / "a/b", World(rank=3, world_size=8), has_one_file=True)
    assert one.of(20) == tmp_path / "a/b/rank3.json.gz" and (tmp_path / "a/b").is_dir()
    several = prepared(tmp_path / "c", World(rank=3, world_size=8), has_one_file=False)
    assert several.of(20) == tmp_path / "c/step20/rank3.json.gz"
    assert rank_in_name(str(several.of(20))) == 3


def test_what_torchrun_begins_again_writes_beside_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "rank0.json.gz").touch()
    again = prepared(tmp_path, World(restart=1), has_one_file=True)
    assert again.of(7) == tmp_path / "restart1/rank0.json.gz"


@pytest.mark.parametrize("there", ["rank3.json.gz", "step5/rank3.json.gz"])
def test_a_recording_is_never_overwritten(tmp_path: Path, there: str) -> None:
    (tmp_path / there).parent.mkdir(exist_ok=True)
    (tmp_path / there).touch()
    one_file = "/" not in there
    with pytest.raises(CaptureError, match=f"{there}: is there already"):
        prepared(tmp_path, World(rank=3, world_size=8), has_one_file=one_file)
    assert prepared(tmp_path, World(rank=4, world_size=8), has_one_file=one_file)  # another rank's is no matter


def test_a_folder_that_cannot_be_is_refused_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CaptureError, match="Choose another folder"):
        prepared(tmp_path / "file/traces", World(), has_one_file=True)
