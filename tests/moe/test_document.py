"""A profile's document holds all that it was made of: read back it is the same profile."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

import weftrace as wt
import weftrace.moe
from tests.conftest import ROOT
from weftrace.errors import DocumentError
from weftrace.moe.document import load_profile, profile_document
from weftrace.moe.requested import profile_of
from weftrace.moe.requests import Request


@pytest.mark.parametrize(
    "request_",
    [
        Request(kind="train", layers=3, ranks=2, routing="random"),
        Request(kind="prefill", layers=3, overlap="chunked:2"),
        Request(kind="decode", layers=3, contention=True),
        Request(kind="prefill", layers=3, overlap="waves", ep=8),
    ],
)
def test_a_profile_comes_back_as_it_was(request_: Request, tmp_path: Path) -> None:
    profile = profile_of(request_)
    wt.save(profile, tmp_path / "profile.json.gz")
    again = wt.load(tmp_path / "profile.json.gz")
    assert again.plan.ops.equals(profile.plan.ops)
    assert again.times.end_ns.tolist() == profile.times.end_ns.tolist()
    assert (again.setting, again.overlap, again.costs) == (profile.setting, profile.overlap, profile.costs)
    assert profile_document(again) == profile_document(profile)
    assert repr(again) == repr(profile) and repr(profile).startswith(f"Profile('{request_.kind} of deepseek-v3 on ")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("setting", "ep"), 48, "48 GPUs cannot hold equal parts"),
        (("num_ranks",), 0, "a weftrace.profile/1 document with a broken field"),
        (("prices",), [], "nobody says what 'ATTN1' costs"),
        (("overlap", "operations", 0, "after"), ["X"], "'ATTN1' waits for 'X', which the list does not have"),
    ],
)
def test_a_document_that_holds_what_cannot_be_is_refused(path: tuple[Any, ...], value: Any, message: str) -> None:
    document: Any = msgspec.json.decode(
        msgspec.json.encode(profile_document(profile_of(Request(kind="prefill", layers=2))))
    )
    at = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    with pytest.raises(DocumentError) as refused:
        load_profile(document, what="mine.json")
    assert message in str(refused.value)
    assert str(refused.value).startswith("mine.json: ")


def test_every_public_name_is_told_in_the_guide() -> None:
    """`Profile` and `make_profile` by the example there, all others in the table below it."""
    summary = set(re.findall(r"\w+", (ROOT / "docs" / "profiles.md").read_text("utf-8").partition("## In Python")[2]))
    assert set(dir(weftrace.moe)) - summary == set()
