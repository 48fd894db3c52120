"""What is asked for becomes the setting that it means, or is refused with both numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from weftrace.errors import ProfileError
from weftrace.moe.requested import overlap_of_request, profile_of, setting_of
from weftrace.moe.requests import Request
from weftrace.moe.routing.load import read_gpu_loads


@pytest.mark.parametrize(
    ("given", "tokens"),
    [
        ({"kind": "prefill"}, 8_192),
        ({"kind": "prefill", "overlap": "none"}, 16_384),
        ({"kind": "decode", "overlap": "none"}, 256),
        ({"kind": "decode", "overlap": "none", "tokens": 128}, 128),
        ({"kind": "prefill", "gpu_tokens": 4_096}, 2_048),
        ({"kind": "train", "overlap": "none"}, 4_096),
    ],
)
def test_a_gpu_has_equally_many_tokens_however_a_list_cuts_them(given: dict[str, Any], tokens: int) -> None:
    request = Request(**given)
    assert setting_of(request, overlap_of_request(request)).tokens == tokens


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kind": "train", "ep": 48}, "48 GPUs cannot hold equal parts of deepseek-v3's 256 experts: 256 / 48"),
        ({"kind": "decode", "gpu_tokens": 255}, "255 tokens of a GPU cannot be cut in 2 equal micro-batches"),
        ({"kind": "decode", "gpu_tokens": 258}, "129 tokens are no whole number of requests of 2 tokens"),
        ({"kind": "prefill", "comm_sms": 132}, "132 SMs for communication leave none of the 132 SMs"),
        ({"kind": "prefill", "ep": 32, "ranks": 33}, "33 ranks of a group of 32 cannot be simulated: choose 1 to 32"),
        ({"kind": "prefill", "overlap": "chunked:3"}, "16,384 tokens cannot be cut in 3 equal chunks"),
        ({"kind": "prefill", "costs": "guess"}, "costs = 'guess'; they are roofline, published, or a calibration's"),
        ({"kind": "prefill", "tokens": 1, "gpu_tokens": 2}, "tokens of a micro-batch and of a GPU are both given"),
        ({"kind": "prefill", "loads": "x.json", "routing": "random"}, "choose one of the two"),
    ],
)
def test_what_cannot_be_is_refused_with_both_numbers(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ProfileError) as refused:
        profile_of(Request(**given))
    assert message in str(refused.value)


@pytest.mark.parametrize("routing", ["balanced", "random"])
@pytest.mark.parametrize("kind", ["train", "prefill", "decode"])
def test_a_profile_of_each_kind_can_be_made_with_both_ways_of_routing(kind: Any, routing: Any) -> None:
    profile = profile_of(Request(kind=kind, ranks=2, layers=2, routing=routing))
    assert profile.num_ranks == 2
    assert profile.summary()["costs"] == "published"
    assert profile.trace(1).info["profile.overlap"] == profile.overlap.name


def test_deepseeks_decode_with_copies_of_experts_can_be_simulated() -> None:
    """EP144 with 32 experts held twice: 2 on each GPU."""
    assert profile_of(Request(kind="decode", ep=144, redundant=32, layers=3)).setting.local_experts == 2


def test_contention_is_an_option_that_the_output_names() -> None:
    plain, stretched = (profile_of(Request(kind="train", layers=3, contention=each)) for each in (False, True))
    assert stretched.layer_ns > plain.layer_ns
    assert stretched.costs == "published, stretched by concurrent kernels (contention)"


def test_loads_of_gpus_come_from_a_placement_or_from_plain_numbers(tmp_path: Path) -> None:
    loads = [[1.0, 3.0], [2.0, 2.0], [5.0, 5.0]]
    plain, placement, other = (tmp_path / f"{name}.json" for name in ("plain", "placement", "other"))
    plain.write_text(json.dumps({"loads": loads}))
    placement.write_text(json.dumps({"schema": "weftrace.placement/1", "gpu_load": {"after": {"load": loads}}}))
    other.write_text(json.dumps({"weights": loads}))
    for file in (plain, placement):
        assert np.array_equal(read_gpu_loads(str(file), 2), loads[:2])
    with pytest.raises(ProfileError, match=r"loads of shape \[3, 2\], and the profile has 4 layers"):
        read_gpu_loads(str(plain), 4)
    with pytest.raises(ProfileError, match="no loads of GPUs; give a weftrace"):
        read_gpu_loads(str(other), 2)
    other.write_text(json.dumps({"schema": "weftrace.placement/2", "loads": loads}))  # of experts, it may be
    with pytest.raises(ProfileError, match=r"other\.json: not a weftrace\.placement/1 document"):
        read_gpu_loads(str(other), 2)


def test_a_gpu_with_more_load_is_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "loads.json"
    file.write_text(json.dumps({"loads": [[1.0] * 7 + [2.0]] * 3}))
    even, uneven = (
        profile_of(Request(kind="prefill", ep=8, ranks=8, layers=3, loads=loads)) for loads in (None, str(file))
    )
    assert uneven.layer_ns > 1.2 * even.layer_ns
