"""Two random traces, as whole files: whatever is in them, rows of movers add up to the change of the step."""

from __future__ import annotations

from hypothesis import given, settings

from tests.analysis.random_traces import few_rules, traces
from tests.fuzz import examples
from weftrace.comparison.alignment.movers import Level, movers_of
from weftrace.comparison.diffs import diff
from weftrace.trace import Trace


@settings(max_examples=examples(6), deadline=None)
@given(traces(), traces())
def test_movers_of_random_traces_add_up_to_the_nanosecond(before: Trace, after: Trace) -> None:
    found = diff(before, after, rules=few_rules())
    levels: tuple[Level, ...] = ("family", "kernel", "operator", "phase")
    total = int(found.changes["change_ns"].sum())
    assert total == found.change_ns - found.remainder_ns
    for level in levels:
        movers = movers_of(found, level)
        assert int(movers["change_ns"].sum()) == total
        split = movers.select("by_number_ns", "by_duration_ns", "by_overlap_ns", "by_kernel_ns").sum_horizontal()
        assert split.to_list() == movers["change_ns"].to_list()
