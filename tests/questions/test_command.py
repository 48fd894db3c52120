"""`weftrace query` as a person meets it."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path

import jsonschema
import polars as pl
import pytest

import weftrace as wt
from tests.cli.test_cli import Run, run
from tests.questions.test_tables import pencil
from weftrace.files.schemas import schemas
from weftrace.questions.columns import TABLES
from weftrace.questions.document import SCHEMA, TABLES_SCHEMA

SCHEMA_OF = {each.schema: each for each in schemas()}
__all__ = ["run"]  # the fixture

BY_FAMILY = "select family, sum(end_ns - start_ns) / 1e6 as ms from work group by family order by ms desc"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train.json, and job/ with two ranks."""
    folder = tmp_path_factory.mktemp("query")
    trace = pencil(folder)
    (folder / "trace.json").rename(folder / "train.json")
    (folder / "job").mkdir()
    for rank in range(2):
        wt.save(replace(trace, rank=rank), folder / "job" / f"rank{rank}.json")
    return folder


def test_rows_are_printed_with_how_many_there_are(run: Run, folder: Path) -> None:
    code, out, err = run("query", folder / "train.json", BY_FAMILY)
    assert (code, err) == (0, "")
    lines = [line.rstrip() for line in out.splitlines()]
    assert lines == [
        "family          ms",
        "gemm        0.3100",
        "nccl        0.1500",
        "memcpy_d2d  0.0600",
        "",
        "3 rows",
    ]


def test_a_limit_says_what_it_leaves_out(run: Run, folder: Path) -> None:
    code, out, _ = run(
        "query", folder / "train.json", "select dur_ns from work order by at_ns", "--limit", 2, "--human"
    )
    assert code == 0
    assert out.split()[:3] == ["dur_ns", "100.0", "µs"]
    assert out.rstrip().endswith("2 of 5 rows; --limit 0 shows all, -o FILE writes all")
    assert len(run("query", folder / "train.json", "select dur_ns from work", "--limit", 0)[1].splitlines()) == 8


def test_an_empty_answer_says_of_how_many_rows(run: Run, folder: Path) -> None:
    code, out, _ = run("query", folder / "train.json", "select name from work where kind = 'fused'")
    assert (code, out.strip()) == (0, "no rows, of 5 rows of work")


def test_an_answer_is_written_and_read_back(run: Run, folder: Path, tmp_path: Path) -> None:
    sql = "select name, kind, dur_ns, dur_ns / 7 as part, null as nothing, dur_ns > 1 as so from work order by at_ns"
    endings = ("csv", "parquet", "json", "json.gz", "md")
    code, out, err = run(
        "query", folder / "train.json", sql, "-q", *(each for end in endings for each in ("-o", tmp_path / f"x.{end}"))
    )
    assert (code, out) == (0, "") and err.count("wrote ") == len(endings)
    frame = wt.query(str(folder / "train.json"), sql)
    assert pl.read_parquet(tmp_path / "x.parquet").equals(frame)
    assert pl.read_csv(tmp_path / "x.csv")["dur_ns"].to_list() == frame["dur_ns"].to_list()
    document = json.loads((tmp_path / "x.json").read_text())
    jsonschema.validate(document, SCHEMA_OF[SCHEMA].json_schema())
    assert document["num_rows"] == 5 and document["rows"] == frame.to_dicts() and document["sql"] == sql
    again = wt.load(tmp_path / "x.json.gz")
    assert again.frame.drop("nothing").equals(frame.drop("nothing")) and again.read == {"work": 5}
    wt.save(again, tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text())["rows"] == document["rows"]
    markdown = (tmp_path / "x.md").read_text()
    assert markdown.startswith(f"```sql\n{sql}\n```\n\n| name | kind | dur_ns |") and markdown.endswith("5 rows\n")


def test_json_is_the_document_alone(run: Run, folder: Path) -> None:
    sql = "select rank, sum(own_ns) as ns from work group by rank order by rank"
    code, out, err = run("query", folder / "job", sql, "--json", "--workers", 1)
    assert (code, err) == (0, "")
    assert json.loads(out)["rows"] == [{"rank": 0, "ns": 340_000}, {"rank": 1, "ns": 340_000}]
    code, out, _ = run("query", folder / "job", "--ranks", "1", "select rank from ranks", "--workers", 1)
    assert out.split()[:2] == ["rank", "1"]


def test_sql_from_a_file_or_from_standard_input(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "question.sql").write_text("-- how many\nselect count(*) as num\nfrom work;\n")
    for given in (("--sql-file", tmp_path / "question.sql"), ("--sql-file", "-"), ("-",)):
        monkeypatch.setattr(sys, "stdin", io.StringIO("select count(*) as num from work"))
        code, out, err = run("query", folder / "train.json", *given)
        assert (code, out.split()[:2]) == (0, ["num", "5"]), err
    code, _, err = run("query", folder / "train.json", "--sql-file", tmp_path / "nothing.sql")
    assert code == 2 and "nothing.sql" in err


def test_the_schema_explains_every_column(run: Run) -> None:
    code, out, _ = run("query", "--schema")
    summary = " ".join(out.split())
    assert code == 0
    for table in TABLES.values():
        assert table.meaning in summary
        for column in table.columns:
            assert f"{column.name} {str(column.dtype).lower()} {column.meaning.split()[0]}" in summary, column
    code, out, _ = run("query", "--schema", "gaps", "--json")
    document = json.loads(out)
    jsonschema.validate(document, SCHEMA_OF[TABLES_SCHEMA].json_schema())
    assert [each["name"] for each in document["tables"]] == ["gaps"]
    units = {each["name"]: each["unit"] for each in document["tables"][0]["columns"]}
    assert units["dur_ns"] == "ns" and units["cause"] == ""
    code, _, err = run("query", "--schema", "gap")
    assert code == 2 and "Do you mean gaps?" in err


def test_what_is_wrong_is_told_in_a_line_with_exit_code_2(run: Run, folder: Path) -> None:
    code, out, err = run("query", folder / "train.json", "select famly from work")
    assert (code, out) == (2, "") and err.startswith("weftrace: there is no column famly. Do you mean family?")
    code, _, err = run("query", folder / "train.json", "drop table work")
    assert code == 2 and "a trace is only read" in err
    for given in ((folder / "train.json",), (BY_FAMILY,), ()):
        code, _, err = run("query", *given)
        assert code == 2 and "SQL" in err, err
    code, _, err = run("query", folder / "absent.json", BY_FAMILY)
    assert code == 3 and "absent.json" in err
    code, _, err = run("query", folder / "train.json", BY_FAMILY, "-o", folder / "train.json")
    assert code == 2 and "input" in err and "never overwritten" in err.replace("│", " ").replace("\n", " "), err
    code, _, err = run("query", folder / "train.json", BY_FAMILY, "-o", folder / "x.html")
    assert code == 2 and ".parquet" in err


def test_a_rank_that_cannot_be_read_is_named_beside_the_answer(run: Run, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_bytes((folder / "job" / "rank0.json").read_bytes())
    (tmp_path / "rank1.json").write_text("no trace")
    code, out, err = run("query", tmp_path, "select rank from ranks", "--workers", 1)
    assert code == 0 and "rank1.json" in err and "1 row, without 1 file that cannot be read" in out


def test_nothing_in_a_name_reaches_the_terminal_as_it_is(run: Run, folder: Path) -> None:
    code, out, _ = run("query", folder / "train.json", "select '\x1b[31m[bold]' as \"a\x1b[1m\" from ranks")
    assert code == 0 and "\x1b" not in out and "[bold]" in out


def test_a_file_that_lost_a_part_is_told(run: Run, folder: Path) -> None:
    """Rows of half a trace look like those of a whole one."""
    cut = folder / "cut.json"
    text = (folder / "train.json").read_text()
    cut.write_text(text[: len(text) * 3 // 4])
    (folder / "some").mkdir()
    (folder / "some" / "rank0.json").write_text(cut.read_text())
    (folder / "some" / "rank1.json").write_text((folder / "job" / "rank1.json").read_text())
    for source, name in ((cut, "cut.json"), (folder / "some", "rank0.json")):
        code, out, err = run("query", source, "select count(*) as n from work", "--json")
        assert code == 0 and f"{name}: incomplete: cut short (" in err and "the answer covers the rest" in err
        assert json.loads(out)["notes"] == [err.strip().removeprefix("weftrace: ")]
    with pytest.warns(wt.errors.QueryWarning, match="incomplete: cut short"):
        wt.query(cut, "select 1 from work")


@pytest.mark.parametrize("sql", ["delete from work", "update work set rank = 1", "insert into work values (1)"])
def test_what_would_write_is_no_misspelt_select(run: Run, folder: Path, sql: str) -> None:
    code, _, err = run("query", folder / "train.json", sql)
    assert code == 2 and "a trace is only read" in err and "Do you mean" not in err


def test_a_column_in_capitals_is_found_in_a_table_in_capitals(run: Run, folder: Path) -> None:
    code, _, err = run("query", folder / "train.json", "select Family from Work")
    assert code == 2 and "there is no column Family. Do you mean family? Columns of work:" in err
