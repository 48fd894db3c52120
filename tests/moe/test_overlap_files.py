"""A list that a user writes is read as it is meant, or refused with the place and the words that are known."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from weftrace.errors import ProfileError
from weftrace.moe import Setting, known_overlaps, load_overlap, make_profile
from weftrace.moe.overlap_files import overlap_of
from weftrace.moe.profiles import check_fit

CHUNKED = """
name = "mine"
kinds = ["prefill"]
num_chunks = 2
[[operation]]
name = "A"
work = "attn"
after_previous = ["C"]
[[operation]]
name = "D"
work = "dispatch"
lane = "communication"
each_chunk = true
after = ["A"]
[[operation]]
name = "M"
work = "mlp"
each_chunk = true
after = ["D"]
[[operation]]
name = "C"
work = "combine"
lane = "communication"
each_chunk = true
after = ["M"]
"""


def test_operations_of_chunks_wait_for_their_own_chunk_and_whole_ones_for_all() -> None:
    mine = overlap_of(CHUNKED, "mine.toml")
    assert mine.names == ("A", "D.0", "D.1", "M.0", "M.1", "C.0", "C.1")
    assert mine["M.1"].after == ("D.1",)
    assert mine["D.1"].after == ("A",)
    assert mine["A"].after_previous == ("C.0", "C.1")
    assert [(each.chunk, each.num_chunks, each.share, each.phase) for each in (mine["M.0"], mine["M.1"])] == [
        (0, 2, 0.5, "M"), (1, 2, 0.5, "M"),
    ]  # fmt: skip


def test_a_file_is_cut_in_as_many_chunks_as_its_name_asks_for(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(CHUNKED)
    assert load_overlap(str(file)).num_chunks == 2
    assert len(load_overlap(f"{file}:5").operations) == 1 + 3 * 5
    assert load_overlap("chunked:8").name == "chunked:8"


def test_lists_of_one_name_serve_kinds_of_their_own() -> None:
    assert load_overlap("none", "train").operations[-1].name == "attn(W)"
    assert load_overlap("none", "decode").kinds == ("prefill", "decode")
    assert set(known_overlaps("train")) == {"none", "training"}
    assert set(known_overlaps("decode")) == {"none", "five-stages", "two-batch", "dual-batch", "chunked", "waves"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('each_chunk = true\nafter = ["A"]', 'each_chunk = 1\nafter = ["A"]'), "(D): each_chunk = 1; it is"),
        (("num_chunks = 2", "num_chunks = 0"), "num_chunks = 0; it is a whole number from 1 to 64"),
        (('kinds = ["prefill"]', 'kinds = ["serve"]'), "kinds = ['serve']; it lists some of train, prefill, decode"),
        (('name = "mine"', 'nam = "mine"'), "unknown key 'nam'; the keys are name, title"),
        (('work = "attn"', 'work = "attn"\nshare = 0.5'), "attn(F) of micro-batch 0 do 0.5 of it together"),
        (('work = "attn"', 'work = "attn"\nlane = "gpu"'), "lane = 'gpu'; it is one of compute, side, communication"),
        (('after_previous = ["C"]', 'after_previous = "C"'), "after_previous = 'C'; it is a list of names"),
        (('name = "M"\n', 'name = "D"\n'), "two operations are called 'D.0'"),
        (('after = ["M"]', 'after = ["X"]'), "'C.0' waits for 'X', which the list does not have"),
        (('work = "attn"', 'work = "attn"\nlayer_shift = 2'), "layer_shift = 2; it is -1, 0 or 1"),
        (('work = "attn"', 'work = "attn"\nlayer_shift = 1.0'), "layer_shift = 1.0; it is -1, 0 or 1"),
        (('work = "attn"', 'work = "attn"\npart = "issue"'), "'A' is attn, which has no issue, only the whole"),
        (('kinds = ["prefill"]', 'notes = 3'), "mine.toml: notes = 3; it is a list of texts"),
        (('kinds = ["prefill"]', 'all_sms = "no"'), "mine.toml: all_sms = 'no'; it is true or false"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_list_is_told_with_its_place(change: tuple[str, str], message: str) -> None:
    assert change[0] in CHUNKED
    with pytest.raises(ProfileError) as refused:
        overlap_of(CHUNKED.replace(*change), "mine.toml")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("five", "no overlap 'five'; there are chunked, dual-batch,"),
        ("nowhere.toml", "nowhere.toml: cannot be read: No such file or directory"),
        ("none:4", "it is not cut in chunks, so 4 chunks have no meaning"),
        ("training", "overlap 'training' is for train, not for decode; for that there are chunked, dual-batch,"),
    ],
)
def test_a_list_that_there_is_none_of_is_refused_with_those_there_are(name: str, message: str) -> None:
    with pytest.raises(ProfileError) as refused:
        load_overlap(name, "decode")
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("waves", {}, "overlap 'waves' has one fused kernel, so comm is \"fused\", not 'deepep-v1'"),
        ("none", {"comm": "fused"}, 'moves tokens by kernels of their own, so comm is "deepep-v1" or "deepep-v2"'),
        ("five-stages", {"comm": "deepep-v2"}, "DeepEP V2 has none: its kernels hold 6 SMs here"),
        ("chunked:3", {}, "128 tokens cannot be cut in 3 equal chunks: 128 / 3 is no whole number"),
    ],
)
def test_a_list_that_does_not_fit_a_setting_is_refused(name: str, given: dict[str, str], message: str) -> None:
    with pytest.raises(ProfileError) as refused:
        check_fit(Setting.of("decode", **given), load_overlap(name, "decode"))  # type: ignore[arg-type]
    assert message in str(refused.value)


def test_a_list_that_leaves_out_part_of_a_layer_is_not_simulated() -> None:
    """It would be fast by what it does not do."""
    with pytest.raises(
        ProfileError, match="micro-batch 0 has no shared of direction F, which a layer of prefill needs"
    ):
        check_fit(Setting.of("prefill"), overlap_of(CHUNKED, "mine.toml"))


def test_what_a_fused_kernel_does_is_not_done_twice() -> None:
    text = CHUNKED + '\n[[operation]]\nname = "MOE"\nwork = "moe"\n\n[[operation]]\nname = "S"\nwork = "shared"\n'
    with pytest.raises(ProfileError, match="micro-batch 0 has dispatch and moe, one kernel that does it too"):
        check_fit(Setting.of("prefill"), overlap_of(text, "mine.toml"))


def test_computation_beside_transfers_does_not_have_every_sm() -> None:
    """`none`, but its shared expert waits for attention alone, as the dispatch does."""
    text = files("weftrace.moe").joinpath("overlaps/none.toml").read_text("utf-8")
    beside = overlap_of(text.replace('after = ["SHARED"]', 'after = ["ATTN"]'), "mine.toml")
    with pytest.raises(ProfileError, match=r"says all_sms, .* it does for [0-9.]+ ms"):
        make_profile(Setting.of("prefill"), beside)
    assert make_profile(Setting.of("prefill"), replace(beside, all_sms=False)).layer_ns > 0
