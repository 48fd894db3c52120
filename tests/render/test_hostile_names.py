"""What is written is what its ending says, whatever a trace calls its kernels: a reader of each format finds no more in
it than texts."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest.mock import patch
from xml.etree import ElementTree

import polars as pl
import pytest

from tests.fuzz import is_thorough
from tests.render.hostile_names import hostile_names, read
from tests.tracefile import ALL_REDUCE, TraceFile
from weftrace.cli.main import main
from weftrace.files.plain_text import clean, csv_cell, csv_of, csv_of_rows
from weftrace.render.markdown import markdown_code, markdown_table, markdown_text
from weftrace.render.scene import Key, Look, Rect, Row, Scene
from weftrace.render.scene_svg import scene_svg

NAMES = hostile_names(1_000)
SHOWN = [clean(name) for name in NAMES]


def run(*arguments: object) -> None:
    """`weftrace ARGUMENTS`, in this process."""
    with patch.object(sys, "argv", ["weftrace", *map(str, arguments)]):
        try:
            main()
        except SystemExit as ended:
            assert not ended.code, f"weftrace {' '.join(map(str, arguments))}"


def test_markdown_holds_texts_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    for at, name in enumerate(NAMES):
        table = markdown_table(["x", name], [[name, "1"], [f"a{name}", markdown_code(name)]])
        line = markdown_text(name)
        parts = (line, f"- {line}", f"**{markdown_text(f'a {name} b')}**", f"## {line} ({markdown_code(name)})", table)
        path.write_text("\n\n".join(parts) + "\n", "utf-8")
        try:
            read(path)
        except AssertionError as error:
            pytest.fail(f"name {at}, {name!a}: {error}")


def test_markdown_of_ordinary_names_is_easy_to_read() -> None:
    assert markdown_text("nccl:all_reduce of 12.5 %, -3 µs & more: ~80 % off") == (
        r"nccl:all_reduce of 12.5 %, -3 µs & more: `~80` % off"
    )
    assert markdown_text("a kernel, vec<4, __half>(int*), by @someone; #12|x") == (
        r"a kernel, vec\<4, \_\_half\>(int\*), by `@someone;` `#12`\|x"
    )
    assert markdown_text("3. train.py: -x") == r"3\. train.py: -x"
    assert markdown_table(["name", "a_b"], [["x|y", "-1.5"]]) == "| name | a_b |\n| --- | --: |\n| x\\|y | -1.5 |"


def test_csv_holds_numbers_and_texts(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(csv_of_rows(["name", "ns", *NAMES[:3]], ([name, -1.5, None, "", 2] for name in NAMES)), "utf-8")
    read(path)
    frame = pl.DataFrame({"name": SHOWN, "=kind": pl.Series(SHOWN, dtype=pl.Categorical), "ns": -1.5})
    frame = frame.with_columns(all=pl.lit([1, 2]))
    path.write_text(csv_of(frame), "utf-8")
    read(path)
    again = pl.read_csv(path, infer_schema_length=None)
    assert again["ns"].to_list() == [-1.5] * len(NAMES) and again["all"][0] == "[1,2]"
    assert again["name"].fill_null("").to_list() == [csv_cell(name) for name in NAMES]
    assert csv_of(frame.head(0)) == "name,'=kind,ns,all\n"


def test_svg_is_xml_that_holds_each_name(tmp_path: Path) -> None:
    rects = [Rect(at, 0, 9_000, "c0", text=name, title=name) for at, name in enumerate(NAMES)]
    scene = Scene(
        name=NAMES[-1], title="".join(NAMES), start_ns=0, end_ns=9_000, left=9, right=9,
        looks={"c0": Look(fill="#123456", word=NAMES[0])},
        rows=tuple(Row(label=name, height=9, gap=1) for name in NAMES),
        rects=rects, keys=tuple(Key(("c0",), name) for name in NAMES),
    )  # fmt: skip
    path = tmp_path / "x.svg"
    path.write_text(scene_svg([scene], 800), "utf-8")
    read(path)
    titles = [each.text or "" for each in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}title")]
    assert [name for name in SHOWN if name] == titles[1:]


def test_numbers_and_ordinary_names_stay_as_they_are_in_csv() -> None:
    for text in ("-1", "+1.5e-3", ".5", "a-b", "void f<-1>(a, b)", "aten::add_", "naïve", "x=1"):
        assert csv_cell(text) == text
    assert [csv_cell(text) for text in ("=1", " @a", "-1+2", "a;=b", "\t=1")] == [
        "'=1",
        "' @a",
        "'-1+2",
        "a;'=b",
        "\\x09=1",
    ]


def hostile_trace(folder: Path) -> Path:
    """Two steps in which each name is that of an operator, a kernel and a phase."""
    folder.mkdir()
    for rank, slower, path in ((0, 0, "rank0.json"), (1, 0, "rank1.json"), (0, 1, "../slower.json")):
        file = TraceFile(rank=rank, world_size=2)
        for step in range(3):
            zero = 200_000.0 * step
            file.host(f"ProfilerStep#{step}", zero, 190_000)
            file.kernel(ALL_REDUCE, zero + 150_000, 5_000, stream=20)
            for at, name in enumerate(NAMES if is_thorough() else NAMES[:200]):
                begin = zero + 100 * at
                file.host(name, begin, 90)
                file.host(name, begin + 5, 30, cat="cpu_op")
                file.kernel(name, begin + 60_000, 70 + at % 7 + step + 9 * slower, launch=begin + 10, blocks=64)
        file.write(folder / path)
    return folder


COMMANDS = {
    "report": (("html", "md", "csv", "json"), ["report", "{both}", "--workers", "1", "--by", "module"]),
    "lanes": (("html", "svg"), ["lanes", "{one}"]),
    "query": (("md", "csv", "json", "parquet"), ["query", "{one}", "select name, kind, dur_ns from work"]),
    "diff": (("html", "md", "csv", "json"), ["diff", "{one}", "{slower}"]),
    "advise": (("html", "md", "csv", "json"), ["advise", "{one}"]),
    "path": (("html", "md", "csv", "json"), ["critical-path", "{one}"]),
    "stragglers": (("html", "md", "csv", "json"), ["stragglers", "{both}"]),
    "whatif": (("html", "md", "csv", "json"), ["whatif", "{one}", "--sensitivity"]),
    "convert": (("parquet",), ["convert", "{one}"]),
    "convert to JSON": (("json",), ["convert", "{one}"]),
    "annotate": (("json",), ["annotate", "{one}"]),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_command_writes_is_what_its_ending_says(command: str, trace: Path, tmp_path: Path) -> None:
    endings, arguments = COMMANDS[command]
    places = {"both": trace, "one": trace / "rank0.json", "slower": trace / "../slower.json"}
    files = [tmp_path / f"x.{ending}" for ending in endings]
    outputs = [part for file in files for part in ("-o", file)]
    run(*(each.format(**places) for each in arguments), *outputs)
    for file in files:
        if file.suffix == ".parquet":
            assert pl.read_parquet(file).height
        else:
            read(file)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile_trace(tmp_path_factory.mktemp("hostile") / "traces")
