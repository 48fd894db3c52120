"""B is cut into I and W, in its place."""

from __future__ import annotations

from tests.pipeline.passes.orders import lines_of, of_lines, one_f_one_b
from weftrace.pipeline.generators.dualpipe import dualpipe
from weftrace.pipeline.passes.splitting import split_backward
from weftrace.pipeline.rules import check


def test_each_full_backward_becomes_its_two_parts_where_it_stood() -> None:
    schedule = of_lines("0F0^ 0F1 0B0 0B1\n1F0 1B0 1F1 1B1", replicas="0 1", num_micro_batches=2)
    split = split_backward(schedule)
    check(split)
    assert lines_of(split) == ["0F0^ 0F1 0I0 0W0 0I1 0W1", "1F0 1I0 1W0 1F1 1I1 1W1"]


def test_the_backward_of_a_pair_stays_whole_and_nothing_is_split_twice() -> None:
    split = split_backward(dualpipe(4, 8))
    check(split)
    assert "3I6 3W6 3F7&0B1 3I7 3W7 0I2 0W2" in lines_of(split)[0]
    assert split_backward(split) == split
    assert len(split_backward(one_f_one_b(4, 8))) == 4 * 8 * 3
