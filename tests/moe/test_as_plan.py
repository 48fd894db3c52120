"""An operation list with prices becomes the plan that a pencil draws."""

from __future__ import annotations

import numpy as np
import pytest

from tests.moe.lists_priced import US, priced
from weftrace.errors import ProfileError
from weftrace.moe import Piece, Setting, known_overlaps, load_overlap, plan_of, simulated
from weftrace.plan import deepseek_training_layers, timetable
from weftrace.plan.deepseek import RECIPE
from weftrace.plan.recipe import load_recipe


@pytest.mark.parametrize(
    ("dispatch", "combine", "attn0", "attn1", "shared", "mlp"),
    [(100, 200, 60, 90, 20, 50), (10, 20, 60, 90, 20, 50), (173, 314, 120, 330, 30, 90)],
)
def test_decode_follows_the_law_of_five_stages(
    dispatch: int, combine: int, attn0: int, attn1: int, shared: int, mlp: int
) -> None:
    overlap = load_overlap("five-stages")
    costs = {
        "dispatch": dispatch, "combine": combine, "attn-0": attn0, "attn-1": attn1, "shared": shared, "mlp": mlp,
    }  # fmt: skip
    setting = Setting.of("decode", num_layers=6)
    plan = plan_of(overlap, priced(overlap, costs), setting, gap_ns=0)
    profile = simulated(setting, overlap, priced(overlap, costs), level="a test")
    assert profile.plan.ops.equals(plan.ops)
    times = timetable(plan)
    starts = times.ops.filter(name="MLP0").get_column("start_ns").to_numpy()
    assert np.diff(starts)[1:-1].tolist() == [2 * US * (max(dispatch, shared + attn0) + mlp + max(combine, attn1))] * (
        len(starts) - 3
    )


def test_the_training_list_waits_as_the_published_recipe_does() -> None:
    """With the measured busy time of each phase as one piece, the list ends where the recipe of phases ends."""
    overlap = load_overlap("training")
    recipe = load_recipe(RECIPE)
    busy = {phase.name: phase.busy_ns for phase in recipe.phases}
    kernels = {
        phase.name: sum(part.num_kernels for part in phase.parts if part.stream != 23) for phase in recipe.phases
    }
    prices = {
        each.name: (
            Piece(
                name=each.name,
                kind="communication" if each.moves_tokens else "compute",
                duration_ns=busy[each.phase] if each.lane != "side" else 0,
                num_kernels=kernels[each.phase] if each.lane != "side" else 1,
                basis="measured",
            ),
        )
        for each in overlap.operations
    }
    made = timetable(plan_of(overlap, prices, Setting.of("train", num_layers=4))).makespan_ns
    assert made == pytest.approx(timetable(deepseek_training_layers(4)).makespan_ns, rel=2e-3)


def test_every_operation_runs_once_a_layer_also_where_the_list_interleaves_layers() -> None:
    for name in known_overlaps():
        overlap = load_overlap(name)
        plan = plan_of(overlap, priced(overlap, {}, 5.0), Setting.of(overlap.kinds[0], num_layers=3), num_ranks=2)
        counts = plan.ops.group_by("name", "layer", "rank").len()
        assert counts.get_column("len").to_list() == [1] * (3 * 2 * len(overlap.operations)), name


def test_ranks_meet_in_their_layer_and_group() -> None:
    overlap = load_overlap("training")
    prices = dict(priced(overlap, {}, 5.0))
    barrier = Piece(name="notify", kind="communication", duration_ns=np.array([[1.0, 9.0]]) * US, meets=True, basis="")
    prices["dispatch(F)"] = (barrier, *prices["dispatch(F)"])
    ops = plan_of(overlap, prices, Setting.of("train", num_layers=3), num_ranks=2).ops.filter(name="notify")
    assert ops.group_by("meet").len().get_column("len").to_list() == [2, 2, 2]
    assert ops.get_column("duration_ns").to_list() == [1_000] * 3 + [9_000] * 3


def test_prices_that_are_missing_or_do_not_fit_are_refused() -> None:
    overlap = load_overlap("training")
    prices = dict(priced(overlap, {}, 5.0))
    setting = Setting.of("train", num_layers=3)
    with pytest.raises(ProfileError, match=r"nobody says what 'mlp\(F\)' costs"):
        plan_of(overlap, {name: own for name, own in prices.items() if name != "mlp(F)"}, setting)
    prices["mlp(F)"] = (Piece(name="gemm", duration_ns=np.ones((4, 2)), basis=""),)
    with pytest.raises(ProfileError, match=r"shape \(4, 2\) do not fit 3 layers of 2 ranks"):
        plan_of(overlap, prices, setting, num_ranks=2)
