"""What users read is plain English: no phrase of `tests.plain_english` is in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.plain_english import EXCEPTIONS, IDIOMS, Idiom, Text, excepted, files, hits, hits_in, texts


@pytest.mark.parametrize("idiom", IDIOMS, ids=lambda idiom: idiom.example)
def test_each_idiom_finds_its_example(idiom: Idiom) -> None:
    assert idiom.found.search(idiom.example)


def test_no_phrase_to_change_is_left() -> None:
    found = hits(files())
    assert [str(hit) for hit in found if not excepted(hit.file)] == []
    clean = set(EXCEPTIONS) - {excepted(hit.file) for hit in found}
    assert not clean, "these are clean now: take them off the exceptions in tests/plain_english.toml"


@pytest.mark.parametrize(
    "plain",
    [
        "one box per phase", "for example, it is late", "waits for a message that is late", "exits with status 1",
        "a kind a user knows", "It stands for a rank", "sum of the durations", "1,001 events, 1.1 steps and 21 ranks",
    ],
)  # fmt: skip
def test_plain_phrases_are_left_alone(plain: str) -> None:
    assert list(hits_in([Text(plain, [1])], "x.md")) == []


def test_texts_are_found_with_their_lines(tmp_path: Path) -> None:
    document, module, page = tmp_path / "a.md", tmp_path / "a.py", tmp_path / "a.html"
    document.write_text("# Title\n\n```sh\nweftrace x\n```\nA row\nper `rank a`. <!-- no -->\n\n| a b | c d |\n")
    module.write_text('"""Not this."""\n\nsaid = f"{1} of two"\nshort = "one"\n')
    page.write_text("<p>{{ a }}\nof two</p>")
    found = {path.suffix: [(text.words, text.lines) for text in texts(path)] for path in (document, module, page)}
    assert found == {
        ".md": [("Title", [1]), ("A row\nper CODE.", [6, 7]), ("a b", [9]), ("c d", [9])],
        ".py": [("VALUE of two", [3])],
        ".html": [("VALUE\nof two", [1])],
    }


def test_a_phrase_is_found_in_its_text_and_line() -> None:
    [hit] = hits_in([Text("One.\nTwo.", [1, 2]), Text("One box\na phase. By", [7, 8]), Text("what.", [9])], "x.md")
    assert (hit.line, hit.phrase) == (7, "One box a phase")


def test_a_long_sentence_is_found_where_it_begins() -> None:
    [hit] = hits_in([Text("Short.\n" + "the word " * 18 + "end. Short again.", [4, 5])], "x.md")
    assert (hit.line, hit.instead) == (5, "37 words: make it two sentences")
