"""The three READMEs say the same: the same commands, quoted output, links and figures, section by section.

A change of README.md therefore fails here until README.zh-CN.md and README.ko.md follow. What they say in words between
these is not compared: only that each paragraph is there, and written in its language.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = {"README.zh-CN.md": "[\u4e00-\u9fff]", "README.ko.md": "[\uac00-\ud7a3]"}
LANGUAGES = "[English](README.md) · [简体中文](README.zh-CN.md) · [한국어](README.ko.md)"
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
FIGURE = re.compile(r"\d+(?:[.,]\d+)*")


def sections(path: Path) -> list[str]:
    """A document cut before each heading; the first is what stands before the second heading."""
    parts = re.split(r"^(```.*?^```$)", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = [""]
    for at, part in enumerate(parts):
        for number, piece in enumerate([part] if at % 2 else re.split(r"^(?=## )", part, flags=re.MULTILINE)):
            if number:
                found.append("")
            found[-1] += piece
    return found


def paragraphs(section: str) -> list[str]:
    """What stands between blank lines, without fenced blocks; each item of a list is one, and each row of a table."""
    text = re.sub(r"\n(?=[-|] ?)", "\n\n", FENCE.sub("", section))
    return [part for part in re.split(r"\n{2,}", text.strip()) if part]


def prose(paragraph: str) -> str:
    """A paragraph without code and the targets of links."""
    return LINK.sub("]", SPAN.sub("", paragraph))


def summary(section: str) -> dict[str, list[str]]:
    """What has to be the same in every language; words may change their order, so all but the blocks are sorted."""
    text = FENCE.sub("", section)
    return {
        "heading": re.findall(r"^#+ ", text, re.MULTILINE),
        "blocks": FENCE.findall(section),
        "links": sorted(LINK.findall(text)),
        "code": sorted(SPAN.findall(text)),
        "figures": sorted(FIGURE.findall(prose(text))),
    }


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_translation_has_the_commands_figures_and_links_of_the_readme(name: str) -> None:
    english, other = sections(ROOT / "README.md"), sections(ROOT / name)
    assert [summary(section)["heading"] for section in other] == [summary(section)["heading"] for section in english]
    for ours, theirs in zip(english, other, strict=True):
        title, expected = ours.splitlines()[0], summary(ours)
        for what, found in summary(theirs).items():
            assert found == expected[what], f"{name}: the {what} of {title!r} are not those of README.md"
        assert len(paragraphs(theirs)) == len(paragraphs(ours)), f"{name}: section {title!r} lacks a paragraph"


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_translation_is_in_its_language(name: str) -> None:
    english = {part for section in sections(ROOT / "README.md") for part in paragraphs(section)}
    for part in (part for section in sections(ROOT / name) for part in paragraphs(section)):
        words = re.findall(r"[A-Za-z]{2,}", prose(part))
        assert len(words) < 4 or re.search(SCRIPTS[name], part), f"{name}: not translated: {part}"
        assert part not in english or len(words) < 4, f"{name}: not translated: {part}"


@pytest.mark.parametrize("name", ["README.md", *SCRIPTS])
def test_each_leads_to_the_others(name: str) -> None:
    assert (ROOT / name).read_text("utf-8").splitlines()[2] == LANGUAGES


#: Other words for what the glossary has one term for: a job, communication, the lane picture, late; to compute, hidden,
#: overlap, idle, a layer, noise; and what means something else to engineers (a message bus, a TLS certificate).
NOT_SAID = {
    "README.zh-CN.md": ("作业", "消息", "通道图", "拖后腿", "迟到", "跨度", "翼", "暴露"),
    "README.ko.md": ("작업", "겹침", "겹치", "숨", "유휴", "한 층", "잡음", "인증서", "짚어", "셉니다"),
}


def test_each_readme_uses_the_glossarys_term_for_each_thing() -> None:
    glossary = (ROOT / "docs/glossary.md").read_text("utf-8").partition("## In Chinese and Korean\n")[2]
    rows = [line.strip("| ").split(" | ") for line in glossary.splitlines() if line.startswith("| ")][1:]
    english = {part for section in sections(ROOT / "README.md") for part in paragraphs(section)}
    said = 0
    for number, name in enumerate(SCRIPTS, start=1):
        text = (ROOT / name).read_text("utf-8")
        for row in rows:
            if any(re.search(rf"\b{row[0]}\b", prose(part)) for part in english):
                assert row[number] in text, f"{name} says something else for {row[0]}: {row[number]} is the term"
                said += 1
        assert [word for word in NOT_SAID[name] if word in text] == [], name
    assert said > len(rows), "most terms are of the READMEs"


def test_a_difference_is_seen() -> None:
    """The comparison itself, on texts small enough to check by eye."""
    text = "## One\n\nIt took 1.25 s with `--step 3`, [see](a.md).\n\n```sh\nweftrace report\n```\n"
    assert summary(text) == {
        "heading": ["## "],
        "blocks": ["```sh\nweftrace report\n```"],
        "links": ["a.md"],
        "code": ["`--step 3`"],
        "figures": ["1.25"],
    }
    for change in ("1.25", "--step 3", "a.md", "report"):
        assert summary(text.replace(change, "9")) != summary(text)
    assert summary("见[此](a.md)：`--step 3` 用了 1.25 s。")["figures"] == ["1.25"]
    assert paragraphs("- one\n- two\n\nthree\n\n```sh\nfour\n\nfive\n```\n") == ["- one", "- two", "three"]
