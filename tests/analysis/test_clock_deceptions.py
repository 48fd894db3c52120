"""What is told of clocks is right to what is told of its uncertainty, or it is not told: jobs made to deceive."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from tests.analysis.clock_jobs import MS, NAMES, US, ClockJob, Judged, deceptions, judged, record
from tests.fuzz import thorough
from weftrace.analysis.meetings import meetings_of
from weftrace.analysis.stragglers import lateness_of

PLAIN = ClockJob(tp=2, dp=2, pp=2, seed=1, steps=6, noise=0.002, jitter=2 * US)


def told(job: ClockJob) -> Judged:
    recorded = record(job)
    return judged(recorded, meetings_of(recorded.frames))


@pytest.mark.parametrize("names", NAMES)
def test_no_clock_is_wrong_by_more_than_is_told(names: str) -> None:
    assert sum(told(job).violations for job in deceptions(names, range(12))) == 0


@thorough
@pytest.mark.parametrize("names", NAMES)
def test_no_clock_of_many_jobs_is_wrong_by_more_than_is_told(names: str) -> None:
    found = [told(job) for job in deceptions(names, range(400))]
    assert sum(one.violations for one in found) <= 0.002 * sum(one.told for one in found)


@pytest.mark.parametrize("names", ["numbered", "named"])
@pytest.mark.parametrize("eager", [False, True])
def test_stages_that_share_messages_alone_are_told_by_those_of_both_ways(names: str, eager: bool) -> None:
    """Sends that end with the receive tell to some us. Those that end when the data has left, 125 us before: the offset
    is uncertain by that, and right to it."""
    found = told(replace(PLAIN, told=names, eager=eager))
    assert found.told == found.ranks == 7 and not found.violations
    assert max(found.told_ns) < (160 * US if eager else 20 * US)


def test_messages_one_way_do_not_tell() -> None:
    """Only the first stage, of two tensor parallel groups, has a clock that is known."""
    found = told(replace(PLAIN, one_way=True, eager=True))
    assert found.told == 3 and not found.violations


@pytest.mark.parametrize("names", ["sized", "nothing"])
def test_what_repeats_elsewhere_a_little_later_is_no_clock(names: str) -> None:
    """Two stages do the same 0.77 ms apart, to the nanosecond; files do not say which ranks meet."""
    job = replace(PLAIN, told=names, noise=0.0, jitter=0, per_host=8, has_peers=False, has_world=False, has_steps=False)
    found = told(job)
    assert not found.violations
    assert found.told < found.ranks


def test_one_layer_off_is_not_told() -> None:
    """A group of two, of equal layers; one file lacks the first three, and has three more: order is wrong by 1.275 ms,
    and nothing tells."""
    job = ClockJob(tp=2, dp=1, pp=1, seed=3, told="named", steps=1, batches=4, rolled=((1, 3),), jitter=0)
    assert told(job).told == 0
    assert told(replace(job, told="numbered")).told == 1
    irregular = told(replace(job, noise=0.2, batches=8))  # layers that differ tell, whatever is lacking
    assert (irregular.told, irregular.violations) == (1, 0)


def test_drifting_clocks_along_a_chain() -> None:
    job = replace(PLAIN, ppm=20.0, steps=30, apart_ns=900 * MS)
    found = told(job)
    assert found.told == found.ranks and not found.violations and max(found.told_ns) < 60 * US


def test_waiting_is_not_told_below_what_clocks_are_uncertain_by() -> None:
    """Two stages that share messages alone, whose sends end 125 us before they are received."""
    recorded = record(replace(PLAIN, tp=1, dp=1, eager=True))
    meetings = meetings_of(recorded.frames)
    found, unsure = lateness_of(meetings), meetings.clocks.uncertainty(1, 0)
    assert found is not None and unsure is not None and found.uncertainty_ns >= unsure > 100 * US
    assert meetings.clocks.uncertainty(0, 1) == unsure and meetings.clocks.uncertainty(1, 1) == 0


def test_where_clocks_cannot_be_told_no_rank_is_late() -> None:
    """Messages one way between stages, of which the second is slow: no clock links the two, nor what they wait."""
    recorded = record(replace(PLAIN, tp=1, dp=1, one_way=True, eager=True, late=((1, 1.6),)))
    found = lateness_of(meetings_of(recorded.frames))
    assert found is None or found.late is None


def test_jobs_are_the_same_each_time() -> None:
    assert list(islice(deceptions("sized", range(3)), 3)) == list(deceptions("sized", range(3)))
