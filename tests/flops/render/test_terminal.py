"""The terminal's report of a model's cost: what it says, that it fits, that names stay names."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from tests.flops.small_reports import TINY, UNTIMED, huge
from weftrace.costs.cost import Phase, Status
from weftrace.errors import WeftraceError
from weftrace.facts import hardware
from weftrace.flops.derived.account import account_of
from weftrace.flops.render.diff_terminal import print_flops_diff
from weftrace.flops.render.facts import flops_headline
from weftrace.flops.render.fold import repeated_modules, tree_rows, worst_of
from weftrace.flops.render.terminal import print_flops
from weftrace.flops.render.words import covered_text
from weftrace.flops.several.diff import diff
from weftrace.flops.several.merge import merge
from weftrace.flops.values import FlopsReport, Module, Parallel
from weftrace.units import duration


def printed(report: FlopsReport, width: int = 100, **options: object) -> str:
    text = io.StringIO()
    print_flops(report, Console(file=text, width=width), **options)  # type: ignore[arg-type]
    return text.getvalue()


def layers(number: int = 4) -> FlopsReport:
    """`TINY` put `number` times under "layers", the last with twice the calls of its first operator."""
    modules = [TINY.modules[0], Module(path="layers", name="layers", class_name="ModuleList", parent=0, depth=1)]
    ops, times = [], []
    for layer in range(number):
        base = len(modules)
        modules.append(Module(path=f"layers.{layer}", name=str(layer), class_name="Layer", parent=1, depth=2))
        for index in (1, 2, 3):
            module = TINY.modules[index]
            modules.append(replace(module, path=f"layers.{layer}.{module.name}", parent=base, depth=3))
        for op in TINY.ops:
            if op.module in (1, 2, 3):
                ops.append(replace(op, module=base + op.module, calls=op.calls * (2 if layer == number - 1 else 1)))
        times += [replace(t, module=base + t.module) for t in TINY.times if t.module in (1, 2, 3)]
    return replace(TINY, name="Deep", modules=tuple(modules), ops=tuple(ops), times=tuple(times))


@pytest.mark.parametrize("width", [60, 80, 100, 140])
@pytest.mark.parametrize("report", [TINY, UNTIMED, layers(), huge(60)], ids=["tiny", "untimed", "layers", "huge"])
def test_fits_and_is_plain_text(report: FlopsReport, width: int) -> None:
    text = printed(report, width, hardware="h100")
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= width


def test_says_the_account_of_the_pencil() -> None:
    text = printed(TINY, hardware="h100")
    assert "Tiny: 672 FLOP a step, 48 parameters, 490 ns" in text
    lines = {line.split("  ")[0].strip(): line.split() for line in text.splitlines() if line}
    assert lines["forward"][1:7] == ["288", "288", "288", "24", "676", "B"]
    assert lines["backward"][1:5] == ["384", "384", "384", "24"]
    assert "mylib.loss.default (1 call)" in text and "They add nothing to any total below." in text
    assert "compare two machines" in text  # times of a CPU, peaks of an H100
    assert "made by hand" in text


def test_untimed_says_so_and_shares_flops() -> None:
    text = printed(UNTIMED)
    assert "Nothing was timed" in text and "share: of the model FLOPs" in text and "--hardware" in text
    assert "57.1 %" in text  # fc1: 384 of 672


def test_depth_and_top() -> None:
    assert "fc1" not in printed(UNTIMED, depth=0, top=0)
    assert "fc1" in printed(UNTIMED, depth=1, top=0)
    assert "Most " not in printed(TINY, top=0) and "Most time" in printed(TINY, top=1)


def test_equal_siblings_fold_and_unequal_ones_do_not() -> None:
    report = layers(4)
    numbers = account_of(report)
    rows = [(row.label, row.depth, len(row.members)) for row in tree_rows(numbers)]
    assert rows == [
        ("Deep", 0, 1), ("layers", 1, 1), ("0–2", 2, 3), ("fc1", 3, 1), ("act", 3, 1), ("fc2", 3, 1),
        ("3", 2, 1), ("fc1", 3, 1), ("act", 3, 1), ("fc2", 3, 1),
    ]  # fmt: skip
    assert len(tree_rows(numbers, fold=False)) == len(report.modules)
    kinds = numbers.repeated
    assert kinds[2] == kinds[6] == kinds[10] != kinds[14]
    text = printed(report, 120)
    assert "0–2 ×3" in text
    line = next(line for line in text.splitlines() if "0–2 ×3" in line)
    # 3 layers: 3 * 48 parameters, 3 * 288 FLOPs forward, 3 * 384 backward
    assert line.split()[3:7] == ["144", "864", "1.15", "k"]


def test_alike_modules_stand_together() -> None:
    numbers = account_of(layers(4), "h100")
    labels = [label for label, _ in repeated_modules(numbers)]
    assert "layers.*.fc1 Linear ×3" in labels and "layers.3.fc1 Linear" in labels
    worst = worst_of(numbers, 3)
    assert (worst[0].path, worst[0].phase, worst[0].measured_ns) == ("layers.*.fc1 Linear ×3", Phase.FORWARD, 330)
    assert worst_of(account_of(layers(4)), 3) == []


def test_a_name_cannot_colour_or_forge() -> None:
    evil = replace(
        UNTIMED,
        name="\x1b[31mred\n[bold]x",
        modules=(replace(UNTIMED.modules[0], class_name="\x1b]0;t\x07"), *UNTIMED.modules[1:]),
        notes=("\x1b[2J",),
    )
    text = printed(evil)
    assert "\x1b" not in text and "\x07" not in text and "[bold]x" in text


def test_ascii_console() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    print_flops(layers(), Console(file=stream, width=80))
    stream.flush()
    assert b"0-2 x3" in raw.getvalue()


def test_unknown_hardware_is_an_error() -> None:
    with pytest.raises(WeftraceError, match="no figures for the accelerator 'abacus'"):
        printed(TINY, hardware="abacus")


def test_a_covered_part_is_rounded_down() -> None:
    assert [covered_text(value) for value in (None, 1.0, 0.99996, 0.5)] == ["–", "100.0 %", "99.9 %", "50.0 %"]


def test_rates_of_merged_ranks_are_of_one() -> None:
    ranks = [replace(TINY, rank=rank, parallel=Parallel(data=2)) for rank in range(2)]
    one, both = account_of(ranks[0], "h100"), account_of(merge(ranks), "h100")
    assert both.totals.flops == 2 * one.totals.flops
    assert both.flops_per_s == pytest.approx(one.flops_per_s)
    assert both.utilization is not None and one.utilization is not None
    assert both.utilization.executed_flops_per_s == pytest.approx(both.flops_per_s)
    rows = [next(line for line in printed(report).splitlines() if "fc1" in line) for report in (ranks[0], merge(ranks))]
    assert rows[0].split()[-1] == rows[1].split()[-1]
    assert "of one of 2 ranks" in printed(merge(ranks)) and "of one of" not in printed(ranks[0])


def test_a_report_that_contradicts_itself_still_prints() -> None:
    odd = replace(TINY, parallel=Parallel(data=3, expert=2), clock=replace(TINY.clock, step_ns=(0, 0, 0)))
    text = printed(odd, hardware="h100")
    assert "There is no throughput" in text and "MFU" not in text.split("Phases")[0]


def test_diff() -> None:
    more = replace(TINY, ops=(*TINY.ops[:-1], replace(TINY.ops[-1], calls=4)))
    text = io.StringIO()
    print_flops_diff(diff(TINY, more), Console(file=text, width=80))
    assert "+100.0 %" in text.getvalue() and "vector FLOPs" in text.getvalue()
    assert max(map(len, text.getvalue().splitlines())) <= 80
    same = io.StringIO()
    print_flops_diff(diff(TINY, TINY), Console(file=same, width=80))
    assert "Nothing changed: every count, parameter and module agrees." in same.getvalue()


def test_an_upper_bound_is_said_in_the_first_and_the_last_line() -> None:
    """fc2's products, 96 forward and 2 x 96 backward of 672 FLOPs: 42.9 %."""
    unread = "all pairs: the mask's values were not read"
    ops = [
        replace(op, cost=replace(op.cost, status=Status.UPPER_BOUND, note=unread)) if op.module == 3 else op
        for op in UNTIMED.ops
    ]
    found = account_of(replace(UNTIMED, ops=tuple(ops)))
    assert found.coverage.flops_of_status[Status.UPPER_BOUND] == 288
    assert sum(found.coverage.flops_of_status.values()) == found.totals.flops == 672
    lines = [line for line in printed(found.report, 200).splitlines() if line]
    assert "at most 672 FLOP a step" in lines[1]
    assert "at most: 42.9 % of them are an upper bound" in lines[2]
    assert lines[-1].startswith("at most: model FLOPs 288 forward, 384 backward; 42.9 % of them are an upper bound")
    assert printed(UNTIMED, 200).splitlines()[-1] == "exactly: model FLOPs 288 forward, 384 backward"


def test_the_prediction_stands_first_where_nothing_was_timed() -> None:
    lines = [line for line in printed(UNTIMED, 200, hardware="h100").splitlines() if line]
    assert "; predicted " in lines[1] and " on H100 SXM" in lines[1] and " tokens/s" in lines[1]
    assert [line.split("  ")[0] for line in lines[2:5]] == ["predicted step", "tokens/s, predicted", "memory"]
    assert "fits" in lines[4]
    sections = [line.split("  ")[0] for line in lines]
    assert sections.index("Prediction") < sections.index("Phases")
    assert "redicted" not in printed(TINY, 200, hardware="h100")
    small = replace(hardware("h100"), hbm_bytes=100)
    assert "on which it does not fit" in flops_headline(account_of(UNTIMED, small))


def test_folded_rows_hold_all_of_their_modules_in_every_column() -> None:
    """Time, bound and share of "×3" are three times those of one."""
    numbers = account_of(layers(4), "h100")
    folded = next(line for line in printed(layers(4), 200, hardware="h100").splitlines() if "×3" in line)
    members = next(row.members for row in tree_rows(numbers) if len(row.members) == 3)
    took = sum(numbers.time_of(index) or 0 for index in members)
    bound = sum(numbers.bound_of(index)[0] for index in members)
    assert duration(took) in folded and duration(bound) in folded
