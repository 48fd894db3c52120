"""The page of a simulated profile: what it says, that it draws what it measures, on wide and narrow screens."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.browser import Open
from tests.moe.render.profiles import made
from weftrace.moe import Setting
from weftrace.moe.profiles import Profile, make_profile
from weftrace.moe.render.page import render_profile_html
from weftrace.moe.render.view import profile_view
from weftrace.moe.render.words import first_view, headline

KINDS = ("train", "prefill", "decode")


def block_of(html: str) -> Any:
    return json.loads(html.split('id="weftrace-profile">')[1].split("</script>")[0])


@pytest.mark.parametrize(
    ("kind", "summary"),
    [
        (
            "train",
            "Training of deepseek-v3 on 64 × H800 SXM loses 5.8 % of its time to exposed communication, 98.7 % of it "
            "dispatch(B). A layer takes 30.30 ms, simulated; costs: published.",
        ),
        (
            "prefill",
            "Prefill of deepseek-v3 on 32 × H800 SXM computes for 99.6 % of its time. A layer takes 29.52 ms, "
            "simulated; costs: published.",
        ),
        (
            "decode",
            "Decode of deepseek-v3 on 128 × H800 SXM loses 24.4 % of its time to exposed communication, 69.6 % of it "
            "COMBINE. A layer takes 1.402 ms, simulated; costs: published.",
        ),
    ],
)
def test_the_first_sentence_is_the_largest_loss_and_its_cause(kind: str, summary: str) -> None:
    assert headline(profile_view(made(kind))) == summary


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_layers", [1, 2, 3, 6])
def test_a_layer_is_its_parts(kind: str, num_layers: int) -> None:
    profile = made(kind, num_layers=num_layers)
    summary = profile_view(profile)
    assert summary.compute_ns + summary.exposed_ns + summary.idle_ns == pytest.approx(summary.layer_ns)
    assert min(summary.compute_ns, summary.exposed_ns, summary.idle_ns) >= 0
    if num_layers > 2:
        assert summary.layer_ns == profile.layer_ns
        assert summary.phases["exposed_ns"].sum() == pytest.approx(summary.exposed_ns)
    start, end = first_view(summary)
    assert 0 <= start < end <= summary.picture["span_ns"]


def test_of_a_fused_kernel_nothing_is_said_to_be_exposed() -> None:
    profile = make_profile(Setting.of("prefill", comm="fused", num_layers=3), "waves")
    assert "not separable" in headline(profile_view(profile))
    block = block_of(render_profile_html(profile))
    assert block["fused"] and block["hidden_fraction"] is None


def opened(open_html: Open, profile: Profile, **options: Any) -> Any:
    return open_html(render_profile_html(profile), **options)


COUNT = """(roles) => {
  const canvas = document.getElementById("lanes-canvas");
  const { width, height } = canvas;
  const pixels = canvas.getContext("2d").getImageData(0, 0, width, height).data;
  return roles.map((role) => {
    const wanted = getComputedStyle(document.documentElement).getPropertyValue("--" + role).trim();
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(wanted.slice(at, at + 2), 16));
    let found = 0;
    for (let i = 0; i < pixels.length; i += 4) {
      if (Math.abs(pixels[i] - r) + Math.abs(pixels[i + 1] - g) + Math.abs(pixels[i + 2] - b) < 12) found += 1;
    }
    return found / width / 92; // of a band's ground
  });
}"""


def test_micro_batches_have_their_colours_as_long_as_they_ran(open_html: Open) -> None:
    """The part of both bands that has a micro-batch's colour is the time for which it was busy; names are written
    over it, and so it may be less, but not by much, and never more."""
    profile = made("decode")
    page = opened(open_html, profile)
    picture = profile_view(profile).picture
    page.evaluate("weftrace.lanes.view.set(...weftrace.lanes.view.home)")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    for batch, drawn in enumerate(page.evaluate(COUNT, ["batch0", "batch1"])):
        boxes = [box for lane in picture["lanes"] for box in lane["boxes"] if box["micro_batch"] == batch]
        busy = sum(box["busy_ns"] for box in boxes if box.get("part") in (None, "transfer")) / picture["span_ns"]
        assert 0.75 * busy <= drawn <= 1.02 * busy, (batch, busy, drawn)


def test_the_page_shows_bands_micro_batches_and_settings(open_html: Open) -> None:
    profile = made("decode")
    page = opened(open_html, profile)
    labels = page.locator(".lane-label b").all_text_contents()
    assert labels == ["compute", "communication"]
    assert page.locator(".lane-sms").all_text_contents() == ["132 SMs", "0 SMs"]
    legend = page.locator("#lanes-legend").text_content()
    assert "micro-batch 0" in legend and "messages are issued" in legend and "waits for" in legend
    page.get_by_role("button", name="A lane for each micro-batch").click()
    assert page.locator(".lane-label b").all_text_contents() == [
        "compute 0", "compute 1", "communication 0", "communication 1",
    ]  # fmt: skip
    assert "128" in page.locator("#configuration").text_content()
    assert page.locator("#ranks").is_hidden()


def test_ranks_that_wait_are_listed(open_html: Open) -> None:
    page = opened(open_html, made("prefill", num_layers=2, num_ranks=3))
    assert page.locator("#rank-table tbody tr").count() == 3
    assert "3 ranks" in page.locator("#rank-lead").text_content()
