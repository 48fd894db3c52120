"""Is a question understood, read only where it must be, and answered for all ranks alike?"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import weftrace as wt
from tests.questions.test_tables import pencil
from weftrace.errors import QueryError, QueryWarning, TraceError
from weftrace.questions import building
from weftrace.questions.asking import ask, needed, query, tables
from weftrace.questions.columns import TABLES
from weftrace.trace import Job, Trace, open_trace


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return pencil(tmp_path_factory.mktemp("questions"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, trace: Trace) -> Path:
    """Three ranks."""
    folder = tmp_path_factory.mktemp("ranks")
    for rank in range(3):
        wt.save(replace(trace, rank=rank), folder / f"rank{rank}.json")
    return folder


def test_the_example_of_the_readme(trace: Trace) -> None:
    frame = wt.query(
        trace, "select family, sum(end_ns - start_ns) / 1e6 as ms from work group by family order by ms desc"
    )
    assert frame.columns == ["family", "ms"]
    assert dict(frame.rows()) == {"gemm": 0.31, "nccl": 0.15, "memcpy_d2d": 0.06}


@pytest.mark.parametrize("table", TABLES)
def test_every_column_can_be_asked_for_as_it_is_named(trace: Trace, table: str) -> None:
    """None of them is a word that SQL keeps for itself, and each has its type."""
    schema = TABLES[table].schema
    frame = query(trace, f"select {', '.join(schema)} from {table} where rank is not null order by rank")
    assert dict(frame.schema) == schema
    assert frame.height == tables(trace, table)[table].collect().height
    for column in schema:
        needed(f"select {column}, count(*) from {table} group by {column} order by {column}")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select count(*) from steps where step > 1", {"steps": ("rank", "step")}),
        ("select name, dur_ns from work where kind = 'compute' order by at_ns limit 3",
         {"work": ("name", "kind", "dur_ns", "at_ns")}),
        ("with w as (select * from work) select family, max(own_ns) from w group by family",
         {"work": ("family", "own_ns")}),
        ("select w.name, e.pid from work w join events e on w.event = e.event and w.rank = e.rank",
         {"events": ("rank", "event", "pid"), "work": ("rank", "event", "name")}),
        ("select step from steps where span_ns = (select max(span_ns) from steps)", {"steps": ("step", "span_ns")}),
        ("select name from kernels where name in (select next_name from gaps)",
         {"kernels": ("name",), "gaps": ("next_name",)}),
        ("select 'work' as x, step from steps -- of work", {"steps": ("step",)}),
        ("show tables", {}),
    ],
)  # fmt: skip
def test_only_what_a_question_needs_is_built(sql: str, expected: dict[str, tuple[str, ...]]) -> None:
    found = needed(sql)
    assert {name: set(columns) for name, columns in found.items()} == {n: set(c) for n, c in expected.items()}


def test_all_sides_of_joins_are_asked() -> None:
    """Polars does not look at the other side of a join with nothing: rows must be there, and stay."""
    twice = """with w as (
                 select rank, step, dur_ns, row_number() over (partition by rank order by start_ns) as nth from work)
               select a.nth, a.step, b.dur_ns from w a join w b on a.nth = b.nth where a.rank = 0 and b.rank = 3"""
    for _ in range(5):
        assert set(needed(twice)["work"]) == {"rank", "step", "dur_ns", "start_ns"}
    found = needed("select s.step, e.name from steps s cross join events e where e.name = 'no such' and s.step > 9")
    assert found == {"events": ("name",), "steps": ("step",)}
    late = "select s.step from (select name, count(*) as num from work group by name) w join steps s on w.num > 7"
    assert set(needed(late)) == {"work", "steps"}


def test_a_question_about_events_classifies_no_kernels(trace: Trace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "works_of", lambda *_, **__: pytest.fail("kernels were classified"))
    assert query(trace, "select count(*) from events").item() == trace.events.height
    monkeypatch.undo()
    monkeypatch.setattr(building, "own_times", lambda *_: pytest.fail("time was shared out"))
    monkeypatch.setattr(building, "operator_rows", lambda *_: pytest.fail("operators were looked for"))
    assert query(trace, "select sum(dur_ns) from work where family = 'gemm'").item() == 310_000


def test_a_wrong_name_is_told_before_a_trace_is_looked_for() -> None:
    with pytest.raises(QueryError, match="Do you mean family"):
        query("no such file.json", "select famly from work")
    with pytest.raises(TraceError, match="no such file"):
        query("no such file.json", "select family from work")


@pytest.mark.parametrize(
    ("sql", "summary"),
    [
        (
            "select famly from work",
            r"no column famly\. Do you mean family\? Columns of work: rank, device, event, name",
        ),
        ("select w.nme from work w", r"no column nme\. Do you mean name\? Columns of work: "),
        ("select FAMILY from work", "Do you mean family"),
        ("select idle_ns from work", r"Tables with such a column: steps, ranks\."),
        ("select dur_ns as d from work where d > 3", "d is a name that SELECT gives, which WHERE does not know yet"),
        (
            "with w as (select name, kind from work) select own_ns from w",
            "own_ns of work is not there where it is used: an inner SELECT leaves it out. There are: name, kind",
        ),
        ("select name from wrok", r"no table wrok\. Do you mean work\? Tables: events, work, gaps"),
        ("select name from work where", "(?s)in line 1: expected: an expression, found: the end of the text\n"),
        ("select name,, kind from work", "(?s)found: ,\n  select name,, kind from work\n {14}\\^$"),
        ("select name\nfrom work\nwhere kind == 'x' x y", "in line 3"),
        ("selct name from work", "begins with selct is not run.*Do you mean select"),
        ("select percentile_cont(dur_ns) from work", r"write quantile_cont\(x, 0\.5\)"),
        ("select summ(dur_ns) from work", "no function summ. Do you mean sum"),
        ("select sum(name) from work", "`sum` operation not supported for dtype `str`"),
        ("select a; select b", "one question at a time"),
        ("describe work", "weftrace query --schema TABLE"),
        ("  ", "there is no SQL"),
        (f"select {'dur_ns+' * 501}1 from work", r"501 operators.* at most 500.*in \('a', 'b', \.\.\.\)"),
        (" union all ".join(["select name from work"] * 101), "101 SELECTs and JOINs; at most 500 and 100"),
        ("select name from work group by kind", "'name' should participate in the GROUP BY"),
    ],
)
def test_what_is_wrong_is_told_with_what_is_nearest(sql: str, summary: str) -> None:
    with pytest.raises(QueryError, match=summary):
        needed(sql)


def test_what_only_rows_tell_is_told_too(trace: Trace) -> None:
    with pytest.raises(QueryError, match="gives 5 rows: let it give one"):
        query(trace, "select name from kernels where total_ns > (select dur_ns from work)")
    with pytest.raises(QueryError, match="two columns would be called dur_ns: give one another name with AS"):
        query(trace, "select dur_ns, dur_ns from work")


@pytest.mark.parametrize(
    "sql",
    [
        "drop table events", "create table x as select * from events", "truncate table work", "delete from work",
        "insert into work values (1)", "update work set rank = 1", "/* select */ drop table work",
        "explain drop table work", "with d as (select 1) delete from events",
        "with d as (select 1) insert into events select * from d",
        "alter table work rename to x", "copy work to 'x.csv'", "select * into x from work", "set a = 1",
        "select * from read_csv('/etc/passwd')", "select * from read_parquet ('x')", "select * from scan_csv('x')",
        "with x as (select * from READ_JSON('x')) select * from x",
        "select * from work join \"read_csv\" ('x') on true",
        "select $a$'$a$ as x from read_csv('/etc/passwd')", "select q'(')' as x from read_csv('/etc/passwd')",
        "select * from read_csv/* */('/etc/passwd')", "select * from read_csv -- \n('/etc/passwd')",
    ],
)  # fmt: skip
def test_nothing_is_written_and_no_other_file_is_read(trace: Trace, sql: str) -> None:
    with pytest.raises(QueryError):
        query(trace, sql)


def test_names_in_texts_and_comments_are_no_statements(trace: Trace) -> None:
    sql = "-- drop table work\nselect count(*) from work where name <> 'read_csv(''x'')' /* delete */"
    assert query(trace, sql).item() == 5


def test_text_is_text_and_numbers_are_floats_or_whole(trace: Trace) -> None:
    sql = """select upper(kind) as kind, sum(dur_ns) as ns, sum(dur_ns) / 1000.0 as us
             from work where family like 'g%' group by kind"""
    frame = query(trace, sql)
    assert dict(frame.schema) == {"kind": pl.String, "ns": pl.Int64, "us": pl.Float64}
    assert frame.rows() == [("COMPUTE", 310_000, 310.0)]


def test_fractions_keep_their_digits(trace: Trace) -> None:
    """Polars takes 1.0 for a decimal, of which a division keeps six digits."""
    sql = "1.0 * min(dur_ns) / 7e9 as small, 2. / 3 as third, '1.5' as text, 1.5e0 as one, max(dur_ns) // 7 as whole"
    frame = query(trace, f"select {sql} from work")
    assert frame.row(0) == (60_000 / 7e9, 2 / 3, "1.5", 1.5, 150_000 // 7)
    with pytest.raises(QueryError, match=r"(?s)\n  select 1\.5,, 2 from work\n {13}\^$"):
        needed("select 1.5,, 2 from work")


def test_a_job_answers_as_its_ranks_do(folder: Path, trace: Trace) -> None:
    sql = "select rank, name, own_ns, phase from work order by rank, start_ns, own_ns"
    job = open_trace(folder)
    assert isinstance(job, Job)
    alone = [query(replace(trace, rank=rank), sql) for rank in range(3)]
    assert query(job, sql, workers=1).equals(pl.concat(alone))
    answer = ask(job, "select rank, count(*) as num from gaps group by rank order by rank", workers=1)
    assert answer.frame.rows() == [(0, 1), (1, 1), (2, 1)] and answer.read == {"gaps": 3}
    found = tables(job, "steps", workers=1)["steps"].collect()
    assert found["rank"].to_list() == [0, 1, 2]


def test_of_a_job_only_what_is_asked_is_kept_and_nothing_is_left(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept: list[tuple[str, ...]] = []
    scan = pl.scan_parquet

    def scanned(path: Path) -> pl.LazyFrame:
        kept.append(tuple(scan(path).collect_schema()))
        return scan(path)

    monkeypatch.setattr(pl, "scan_parquet", scanned)
    assert query(open_trace(folder), "select max(dur_ns) from work where kind = 'compute'", workers=1).item() == 110_000
    assert kept == [("kind", "dur_ns")]
    assert list(tmp_path.iterdir()) == []


def test_a_rank_that_cannot_be_read_costs_the_others_nothing(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "job")
    (tmp_path / "job" / "rank1.json").write_text("no trace")
    with pytest.warns(QueryWarning, match=r"rank1\.json"):
        frame = query(open_trace(tmp_path / "job"), "select rank from ranks order by rank", workers=1)
    assert frame["rank"].to_list() == [0, 2]
    for rank in (0, 2):
        (tmp_path / "job" / f"rank{rank}.json").write_text("no trace")
    with pytest.raises(TraceError, match=r"rank0\.json"):
        query(open_trace(tmp_path / "job"), "select rank from ranks", workers=1)


def test_no_warning_where_all_ranks_answer(folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert query(str(folder), "select count(*) from ranks", workers=1).item() == 3


def test_tables_are_lazy_frames(trace: Trace) -> None:
    found = tables(trace, "work", "gaps")
    assert list(found) == ["work", "gaps"] and all(isinstance(frame, pl.LazyFrame) for frame in found.values())
    with pytest.raises(QueryError, match=r"no table wrk\. Do you mean work"):
        tables(trace, "wrk")


def test_rules_of_the_users_own_name_kernels(trace: Trace, tmp_path: Path) -> None:
    own = tmp_path / "rules.toml"
    own.write_text("[[rule]]\nname='mine'\nkind='compute'\nfamily='mine'\nmatch='xmma_gemm'\nsource='here'\n")
    rules = wt.trace.load_rules(own)
    assert query(trace, "select distinct family from work where kind = 'compute'", rules=rules).rows() == [("mine",)]


def test_columns_explain_themselves() -> None:
    """Each in a sentence, and alike wherever its name means the same."""
    for table in TABLES.values():
        assert table.meaning.endswith(".")
        assert "rank" in table.schema and len(table.schema) == len(table.columns)
        for column in table.columns:
            assert column.meaning.endswith(".") and "  " not in column.meaning, (table.name, column.name)
            assert (column.unit != "") == column.name.endswith(("_ns", "_bytes", "_GBps"))


ENDLESS = "with recursive t as (select 1 as n union all select n + 1 from t) select max(n) as n from t"


def test_a_recursive_question_that_ends_is_answered(trace: Trace) -> None:
    sql = "with recursive t as (select 1 as n union all select n + 1 from t where n < 5) select n from t"
    assert query(trace, sql)["n"].to_list() == [1, 2, 3, 4, 5]
    back = "with recursive t as (select min(event) as n from work union all select n - 1 from t where n > 0) "
    assert query(trace, f"{back}select min(n) as n from t")["n"].to_list() == [0]


#: Of 15 rows, 15^9.
HUGE = "select max(a.dur_ns + i.dur_ns) as ns from events a, " + ", ".join(f"events {letter}" for letter in "bcdefghi")


@pytest.mark.parametrize("sql", [ENDLESS, HUGE])
def test_what_grows_without_end_is_stopped(trace: Trace, sql: str) -> None:
    with pytest.raises(QueryError, match=r"took more than 1.5 s, and was stopped.*--timeout"):
        query(trace, sql, timeout_s=1.5)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is told by Linux alone")
def test_what_takes_too_much_memory_is_stopped(trace: Trace) -> None:
    with pytest.raises(QueryError, match=r"more than 57.2 MiB of memory, and was stopped.*--max-memory"):
        query(trace, ENDLESS, max_memory_bytes=60_000_000)
