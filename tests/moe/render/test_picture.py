"""The lane picture of a simulated profile shows what its trace holds: box by box, lane by lane, wait by wait."""

from __future__ import annotations

import pytest

from tests.moe.render.profiles import made
from weftrace.analysis import breakdown, lanes
from weftrace.moe.render.picture import profile_picture
from weftrace.plan.as_traces import trace_of
from weftrace.render.lane_types import LaneDocument, PlannedPicture

KINDS = ("train", "prefill", "decode")


def lane(picture: PlannedPicture, name: str) -> LaneDocument:
    (found,) = (each for each in picture["lanes"] if each["lane"] == name)
    return found


@pytest.mark.parametrize(("kind", "sms"), [("train", (112, 20)), ("prefill", (108, 24)), ("decode", (132, 0))])
def test_two_bands_with_their_sms(kind: str, sms: tuple[int, int]) -> None:
    picture = profile_picture(made(kind))
    assert [(each["lane"], each["sms"]) for each in picture["lanes"]] == [
        ("compute", sms[0]), ("communication", sms[1]),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("by_micro_batch", [False, True])
def test_a_lane_is_as_busy_as_the_trace_measures(kind: str, by_micro_batch: bool) -> None:
    profile = made(kind)
    picture = profile_picture(profile, by_micro_batch=by_micro_batch)
    measured = breakdown(trace_of(profile.times, 0))
    assert picture["span_ns"] == measured.span_ns
    assert picture["communication_ns"] == measured.communication_ns
    assert picture["exposed_communication_ns"] == measured.exposed_communication_ns
    assert sum(busy for _, _, busy in picture["exposed"]) == measured.exposed_communication_ns
    assert sum(busy for _, _, busy in picture["busy"]) == measured.busy_ns
    for each in picture["lanes"]:
        assert each["busy_ns"] == sum(busy for _, _, busy in each["busy"])
        assert all(a < b <= c for (a, b, _), (c, _, _) in zip(each["busy"], each["busy"][1:], strict=False))
        assert sum(box["busy_ns"] for box in each["boxes"]) >= each["busy_ns"]  # two streams of a lane at once
        assert all(0 < box["busy_ns"] <= box["end_ns"] - box["start_ns"] for box in each["boxes"])


def test_training_is_drawn_as_its_report_draws_it() -> None:
    """The lanes that weftrace finds in the trace of the profile have the same boxes."""
    profile = made("train")
    picture = profile_picture(profile)
    for found in lanes(trace_of(profile.times, 0)):
        ours = lane(picture, found.lane)
        zero = int(trace_of(profile.times, 0).info["origin_ns"])
        rows = found.boxes.select("name", "layer", "micro_batch", "direction", "start_ns", "end_ns", "busy_ns").rows()
        assert sorted((*row[:4], row[4] - zero, row[5] - zero, row[6]) for row in rows) == sorted(
            (box["name"], box["layer"], box["micro_batch"], box["direction"], box["start_ns"], box["end_ns"],
             box["busy_ns"]) for box in ours["boxes"]
        )  # fmt: skip


def test_every_operation_of_every_layer_has_its_box() -> None:
    profile = made("decode", num_layers=5)
    boxes = [box for each in profile_picture(profile)["lanes"] for box in each["boxes"]]
    found = {(box["name"], box.get("part"), box["micro_batch"], box["layer"]) for box in boxes}
    assert len(boxes) == len(found) == 5 * len(profile.overlap.operations)
    assert {box.get("part") for box in lane(profile_picture(profile), "communication")["boxes"]} == {"transfer"}
    thin = [box for box in lane(profile_picture(profile), "compute")["boxes"] if "part" in box]
    assert {box["part"] for box in thin} == {"issue", "receive"} and len(thin) == 5 * 8


def test_arrows_are_the_waits_of_the_list_between_bands() -> None:
    """Decode, one layer: each transfer waits for its issue, and each receive for its transfer: 4 transfers, 8 arrows.

    The first transfer starts when its issue ends, so nothing else held it.
    """
    picture = profile_picture(made("decode", num_layers=1))
    arrows = picture["arrows"]
    assert sorted((each["from_lane"], each["to_lane"]) for each in arrows) == [(0, 1)] * 4 + [(1, 0)] * 4
    assert all(each["from_ns"] <= each["to_ns"] for each in arrows)
    starts = {box["start_ns"] for box in lane(picture, "communication")["boxes"]}
    assert starts == {each["to_ns"] for each in arrows if each["to_lane"] == 1}
    assert [each["held"] for each in arrows if each["to_lane"] == 1] == [True] * 4


def test_a_lane_for_each_micro_batch() -> None:
    picture = profile_picture(made("decode", num_layers=2), by_micro_batch=True)
    assert [each["lane"] for each in picture["lanes"]] == [
        "compute 0",
        "compute 1",
        "communication 0",
        "communication 1",
    ]
    for each in picture["lanes"]:
        assert {box["micro_batch"] for box in each["boxes"]} == {int(each["lane"][-1])}
    together = profile_picture(made("decode", num_layers=2))
    assert sum(len(each["boxes"]) for each in picture["lanes"]) == sum(len(each["boxes"]) for each in together["lanes"])
    assert all(picture["lanes"][each["from_lane"]]["lane"] for each in picture["arrows"])


def test_of_several_ranks_the_one_that_ends_last_is_drawn() -> None:
    assert profile_picture(made("prefill", num_ranks=2, num_layers=2))["rank"] in (0, 1)
    assert profile_picture(made("prefill", num_ranks=2, num_layers=2), rank=1)["rank"] == 1
    assert profile_picture(made("prefill", num_layers=2))["rank"] is None
