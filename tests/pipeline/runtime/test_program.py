"""The order of messages: no tags, no circle, on transports as strict as there may be."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.fuzz import few
from tests.pipeline.runtime.random_schedules import random_schedule
from weftrace.pipeline.dependencies import messages
from weftrace.pipeline.generators.families import FAMILIES, generate
from weftrace.pipeline.passes.without_backward import forward_only
from weftrace.pipeline.rules import check
from weftrace.pipeline.runtime.program import Message, Program, programs_of


def run_strictly(programs: tuple[Program, ...]) -> None:
    """Run on a transport on which messages have no tags, a send ends only with its receive, what a rank posts together
    ends together, and what it posts next begins only then. Asserts that all ends and each receives what it expects."""
    batches = {  # rank -> what it does, in order: ("post", batch), ("take", the batches that hold it)
        program.rank: [
            step
            for turn in program.turns
            for step in (
                ("post", turn.post),
                *(("wait", message) for message in (*turn.done, *turn.needs)),
            )
        ]
        for program in programs
    }
    at = dict.fromkeys(batches, 0)  # the host's place in its steps
    posted: dict[int, list[tuple[Message, ...]]] = defaultdict(list)
    ended: set[Message] = set()
    moved = True
    while moved:
        moved = False
        for rank, steps in batches.items():
            while at[rank] < len(steps):
                kind, what = steps[at[rank]]
                if kind == "post":
                    posted[rank].append(what)  # type: ignore[arg-type]
                elif not any(what in batch and ended.issuperset(batch) for batch in posted[rank]):
                    break
                at[rank] += 1
                moved = True
        # The first batch of a rank that has not ended is the one that is under way.
        current = {
            rank: next((batch for batch in found if not ended.issuperset(batch)), ()) for rank, found in posted.items()
        }
        for rank, batch in current.items():
            for message in batch:
                if message.source == rank and message not in ended and message in current.get(message.target, ()):
                    ended.add(message)
                    moved = True
    assert all(at[rank] == len(steps) for rank, steps in batches.items()), at


def check_pairs(programs: tuple[Program, ...]) -> None:
    """Two ranks list what passes from one to the other in the same order."""
    lists: dict[tuple[int, int], dict[int, list[Message]]] = defaultdict(lambda: defaultdict(list))
    for program in programs:
        for turn in program.turns:
            for message in turn.post:
                lists[message.source, message.target][program.rank].append(message)
    for (source, target), found in lists.items():
        assert found[source] == found[target]


@pytest.mark.parametrize("seed", few(range(30), 10))
def test_any_schedule_runs_without_tags_where_every_send_waits_for_its_receive(seed: int) -> None:
    schedule = random_schedule(seed)
    for each in (schedule, forward_only(schedule)):
        check(each)
        programs = programs_of(each)
        check_pairs(programs)
        run_strictly(programs)


def test_each_message_between_ranks_is_posted_by_both_and_taken_once() -> None:
    schedule = random_schedule(3)
    waits = messages(schedule)
    ranks = schedule.actions.get_column("rank")
    between = int((ranks.gather(waits["op"]) != ranks.gather(waits["on"])).sum())
    programs = programs_of(schedule)
    posted = [message for program in programs for turn in program.turns for message in turn.post]
    taken = [message for program in programs for turn in program.turns for message in turn.needs]
    done = [message for program in programs for turn in program.turns for message in turn.done]
    assert len(taken) == len(set(taken)) == between
    assert sorted(posted) == sorted(taken * 2)
    assert sorted(done) == sorted(taken)


def test_a_ranks_turns_of_1f1b_by_hand() -> None:
    # units     0    1    2    3    4    5
    # rank 0   0F0  0F1       0B0       0B1     F takes 1, B takes 2
    # rank 1        1F0  1B0  ...  1F1 1B1
    summary = [
        (str(turn.action), [str(m) for m in turn.post], [str(m) for m in turn.needs])
        for turn in programs_of(generate("1f1b", num_ranks=2, num_micro_batches=2))[0].turns
    ]
    input0, input1 = "the input of stage 1, micro-batch 0", "the input of stage 1, micro-batch 1"
    gradient0, gradient1 = "the gradient of stage 0, micro-batch 0", "the gradient of stage 0, micro-batch 1"
    assert summary == [
        ("0F0", [], []),
        ("0F1", [input0], []),
        ("0B0", [input1, gradient0], [gradient0]),
        ("0B1", [gradient1], [gradient1]),
        ("None", [], []),
    ]


@pytest.mark.parametrize("name", few(FAMILIES, 6))
def test_every_family_runs_so_and_its_receive_buffers_do_not_grow_with_the_micro_batches(name: str) -> None:
    """At most 8 values of other ranks are held at once, of 32 micro-batches; by each rank that holds two stages, 64."""
    schedule = generate(name, num_ranks=4, num_micro_batches=32)
    for each in (schedule, forward_only(schedule)):
        programs = programs_of(each)
        check_pairs(programs)
        run_strictly(programs)
    assert max(program.peak_received for program in programs_of(schedule)) <= 8
