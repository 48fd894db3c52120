"""A schedule written and read: the house's text and torch's CSV."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.event_loop import random_schedule
from weftrace.errors import ScheduleError
from weftrace.pipeline import (
    FAMILIES,
    Action,
    Schedule,
    check,
    differences,
    from_text,
    from_torch_csv,
    generate,
    to_text,
    to_torch_csv,
)

TWO_DIRECTIONS = """\
# weftrace pipeline schedule, version 1
name: two directions # not a comment
micro-batches: 2
note: by hand
replica 0: 0 1
replica 1: 1 0
rank 0: 0F0 1F1^ 1I1 0B0 1W1
rank 1: 0F1 1F0 1I0 1W0 0B1
"""
MERGED = """\
rank 0: 0F0 0F1&1B0   # stages 0 and 1 are here
"""


def test_text_says_all_that_a_schedule_holds() -> None:
    schedule = from_text(TWO_DIRECTIONS)
    assert to_text(schedule) == TWO_DIRECTIONS
    assert (schedule.num_ranks, schedule.num_stages, schedule.num_replicas) == (2, 2, 2)
    assert schedule.name == "two directions # not a comment"
    assert schedule.listed()[1] == Action(rank=0, kind="F", stage=1, micro_batch=1, offload=True)
    assert from_text(to_text(schedule)) == schedule


def test_lines_that_follow_from_others_may_be_left_out() -> None:
    schedule = from_text(MERGED)
    assert schedule.rank_of == ((0, 0),)
    assert schedule.num_micro_batches == 2
    assert [str(action) for action in schedule.listed()] == ["0F0", "0F1&1B0"]


def test_two_schedules_are_compared_action_by_action() -> None:
    one, other = from_text(TWO_DIRECTIONS), from_text(TWO_DIRECTIONS.replace("1F1^ 1I1 0B0", "1F1 0B0 1I1"))
    assert differences(one, one) == []
    assert differences(one, other) == ["rank 0, action 1: 1F1^ against 1F1"]
    assert (one == other) is False
    shorter = from_text("rank 0: 0F0 0F1")
    assert differences(from_text("rank 0: 0F0 0F1 0B1 0B0"), shorter) == ["rank 0, action 2: 0B1 against no more"]
    assert differences(one, shorter)[:1] == ["ranks of the stages: ((0, 1), (1, 0)) against ((0,),)"]


def test_slices_are_told() -> None:
    one = Action(rank=0, kind="F", stage=0, micro_batch=0)
    schedule = Schedule.of([one], name="sliced", rank_of=[[0]], num_micro_batches=4, num_slices=2)
    assert "\nslices: 2\n" in to_text(schedule)
    assert from_text(to_text(schedule)) == schedule


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no line such as 'rank 0"),
        ("rank 0: 0F0 0X0", "line 1: '0X0' is no action; one is written 3F5"),
        ("rank 0: 0F0\nrank 0: 0B0", "line 2: rank 0 stands twice"),
        ("rank zero: 0F0", "line 1: 'zero' is no whole number"),
        ("rank 0 0F0", "line 1: 'rank 0 0F0' has no colon"),
        ("ranks: 0F0", "line 1: 'ranks' is none of name"),
        ("replica 1: 0\nrank 0: 0F0", "replicas are [1]"),
        ("rank 0: 0F0\nrank 1: 0F1", "stage 0 is on ranks 0 and 1. A stage on several ranks needs lines such as"),
        ("rank 0: 0F0\nrank 1: 2F0", "no rank has an action of stage 1"),
        ("micro-batches: x\nrank 0: 0F0", "line 1: micro-batches: 'x' is no whole number"),
        ("micro-batches: 1\nrank 0: 0F1", "0F1 on rank 0 is of micro-batch 1, of 1 counted from 0"),
        ("rank 0: 0F99999999999", "too large"),
        ("rank 0: 900000000F0", "no rank has an action of stage 0"),
        ("replica 0: 900000000\nrank 0: 0F0", "rank 0 holds no stage"),
        (
            "# weftrace pipeline schedule, version 9\nrank 0: 0F0",
            "version 9 is newer than this weftrace, which reads 1",
        ),
    ],
)
def test_wrong_text_is_told_by_line(text: str, said: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        from_text(text, what="x.txt")
    assert said in str(caught.value)


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in ("dualpipe", "seq1f1b")])
def test_torch_reads_what_is_written_for_it_and_back(tmp_path: Path, name: str) -> None:
    """Through the loader of torch's own runtime, which looks at the order too, and adds messages that all pass."""
    schedule = generate(name, num_ranks=3, num_micro_batches=7)
    torchs = pytest.importorskip("torch.distributed.pipelining.schedules")
    runtime = torchs._PipelineScheduleRuntime.__new__(torchs._PipelineScheduleRuntime)  # its stages are modules
    runtime._stages, runtime.pipeline_order, runtime._defer_pp_recv = [], {}, False
    runtime.pp_group_size, runtime._num_stages = schedule.num_ranks, schedule.num_stages
    runtime._n_microbatches = schedule.num_micro_batches
    path = tmp_path / "schedule.csv"
    path.write_text(to_torch_csv(schedule))
    runtime._load_csv(path)
    runtime._dump_csv(path, format="compute_only")
    assert from_torch_csv(path.read_text()) == schedule
    runtime._dump_csv(path)  # with messages, gathers and reductions
    assert ("SEND_F" in path.read_text()) and from_torch_csv(path.read_text()) == schedule


def test_empty_cells_of_torch_are_idle_slots() -> None:
    assert from_torch_csv("0F0,,0B0\n,1F0,1B0\n\n") == from_text("rank 0: 0F0 0B0\nrank 1: 1F0 1B0")


def test_what_torch_cannot_say_is_refused_with_the_reason() -> None:
    with pytest.raises(ScheduleError, match=r"stage 0 on 0 and 1\), and torch's schedules know one rank"):
        to_torch_csv(from_text(TWO_DIRECTIONS))
    with pytest.raises(ScheduleError, match="offloads activations"):
        to_torch_csv(from_text("rank 0: 0F0^ 0B0"))
    with pytest.raises(ScheduleError, match="cut into slices"):
        to_torch_csv(from_text("slices: 2\nrank 0: 0F0 0F1 0B1 0B0"))


def test_cells_that_are_no_action_are_refused_with_their_place() -> None:
    with pytest.raises(ScheduleError, match="row 1: '0SEND_X0' is no action"):
        from_torch_csv("0F0,0SEND_X0\n")
    with pytest.raises(ScheduleError, match="row 2: '1G0' is no action"):
        from_torch_csv("0F0\n1G0\n")


@pytest.mark.parametrize("read", [from_text, from_torch_csv])
def test_damaged_text_is_refused_or_read_but_never_a_surprise(read: Any) -> None:
    """Pieces cut out, doubled, and put in from a list of unpleasant ones; what is read is written and read again."""
    names = ("zb1p", "dualpipev", "interleaved-fb") if read is from_torch_csv else ("dualpipe", "seq1f1b", "zbv")
    write = to_torch_csv if read is from_torch_csv else to_text
    texts = [write(generate(name, num_ranks=2, num_micro_batches=4)) for name in names]
    pieces = [
        *'0:#\n\r\x0b\x00^&();, "\ud800²',
        "900000000",
        "9" * 30,
        "\u2028",
        "rank 700000000:",
        "replica 1: 900000000",
    ]
    pieces += ["micro-batches: 900000000\n", "slices: 3\n", "OVERLAP_F_B", "# weftrace pipeline schedule, version 2"]
    chance = random.Random(7)
    num_read = 0
    for _ in range(600):
        text = chance.choice(texts)
        for _ in range(chance.randint(1, 3)):
            start = chance.randrange(len(text))
            end = start + chance.choice((0, 1, 5))
            text = text[:start] + chance.choice(["", text[start:end] * 2, *pieces]) + text[end:]
        try:
            schedule = read(text)
            num_read += 1
            assert from_text(to_text(schedule)) == schedule
            check(schedule)
        except ScheduleError:
            continue
    assert num_read > 5


def test_only_text_is_text() -> None:
    for read in (from_text, from_torch_csv):
        with pytest.raises(ScheduleError, match="wanted as text, not as bytes"):
            read(b"rank 0: 0F0")  # type: ignore[arg-type]
    assert from_torch_csv("\ufeff0F0,0B0\n") == from_text("\ufeffrank 0: 0F0 0B0")  # as spreadsheets begin files


def test_any_schedule_that_can_run_is_written_and_read_again() -> None:
    """Replicas, slices, split backwards, overlaps and offloads, in all combinations; and by torch's form, what it can
    say."""
    num_csv = 0
    for seed in range(60):
        schedule = random_schedule(random.Random(seed))
        assert from_text(to_text(schedule)) == schedule
        says_all = schedule.num_replicas == schedule.num_slices == 1 and not schedule.actions["offload"].any()
        if says_all:
            assert from_torch_csv(to_torch_csv(schedule)) == schedule
            num_csv += 1
    assert num_csv > 5
