"""The ten questions of docs/query.md: the page prints what they give, and most are worked out by other means."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tests.fuzz import few
from tests.query_page import FILE, WRITTEN, filled, printed, questions, written
from tests.tracefile import ALL_REDUCE, DISPATCH, GEMM, TraceFile
from weftrace.questions.asking import query, tables
from weftrace.questions.sql_words import with_fractions
from weftrace.trace import Job, open_trace

PAGE = FILE.read_text()
QUESTIONS = list(questions(PAGE))
OPERATORS = ("aten::mm", "aten::add_", "aten::copy_")


@dataclass(frozen=True, slots=True)
class Ran:
    """A kernel as its file tells it, in whole µs. idle: before it on the whole device."""

    name: str
    start: int
    end: int
    launch: int
    phase: str
    operator: str
    idle: int = 0

    @property
    def moves(self) -> bool:
        return self.name in (ALL_REDUCE, DISPATCH)


@pytest.fixture(scope="module")
def run_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 kernels on three streams, launched one after another in operators in phases, in two steps."""
    chance, file, now = random.Random(7), TraceFile(), 100
    free = {7: 0, 20: 0, 30: 0}
    for step in (1, 2):
        first = now
        for phase in ("attn(F)", "mlp(F)", "mlp(B)", "attn(B)") * 2:
            began = now
            for _ in range(12):
                operator = chance.choice(OPERATORS)
                now += chance.choice((2, 3, 300)) if chance.random() < 0.2 else 2
                stream = chance.choice(tuple(free))
                name = GEMM if stream == 7 else chance.choice((ALL_REDUCE, DISPATCH, GEMM))
                start = max(free[stream], now + chance.randrange(5, 40))
                length = chance.randrange(3, 90)
                file.host(operator, now - 1, 3, cat="cpu_op").kernel(name, start, length, launch=now, stream=stream)
                free[stream], now = start + length, now + 4
            file.host(phase, began, now - began)
        file.host(f"ProfilerStep#{step}", first - 1, now - first + 1)
    return file.write(tmp_path_factory.mktemp("worked") / "run.json")


@pytest.fixture(scope="module")
def ran(run_file: Path) -> list[Ran]:
    """Its kernels in order of start, by plain loops over the JSON."""
    events = json.loads(run_file.read_text())["traceEvents"]
    launches = {e["args"]["correlation"]: e["ts"] for e in events if e["cat"] == "cuda_runtime"}

    def around(at: float, cat: str) -> str:
        found = [e for e in events if e["cat"] == cat and e["ts"] <= at < e["ts"] + e["dur"]]
        return str(next(e["name"] for e in found if not e["name"].startswith("ProfilerStep")))

    kernels, reach = [], None
    for e in sorted((e for e in events if e["cat"] == "kernel"), key=lambda e: (e["ts"], events.index(e))):
        launch, end = launches[e["args"]["correlation"]], e["ts"] + e["dur"]
        idle = 0 if reach is None else max(0, e["ts"] - reach)
        reach = end if reach is None else max(reach, end)
        summary = (around(launch, "user_annotation"), around(launch, "cpu_op"), idle)
        kernels.append(Ran(e["name"], e["ts"], end, launch, *summary))
    return kernels


def asked(number: int, path: Path, *, limit: bool = False) -> list[dict[str, Any]]:
    """The rows of a question of the page, counted from 1; all of them, unless limit."""
    sql = QUESTIONS[number - 1].sql
    return query(open_trace(path), sql if limit else sql.split(" limit ")[0], workers=1).to_dicts()


def microseconds(kernels: list[Ran], chosen: Callable[[Ran], bool]) -> set[int]:
    """In which some of them ran."""
    return {at for kernel in kernels if chosen(kernel) for at in range(kernel.start, kernel.end)}


def test_the_page_is_as_the_code_has_it() -> None:
    assert len(QUESTIONS) == 10
    assert filled(PAGE) == PAGE, "run python -m tests.query_page"


@pytest.mark.parametrize("number", few(range(1, 11), 5))
def test_the_page_prints_what_a_recorded_run_gives(number: int, shared_data: Path, tmp_path: Path) -> None:
    question = QUESTIONS[number - 1]
    source = written(tmp_path) if question.source == WRITTEN else shared_data / question.source
    if not source.exists():
        pytest.skip(f"{source} is not there")
    assert printed(question, source) == question.printed


@pytest.mark.parametrize("number", range(1, 11))
def test_each_question_runs_on_a_run_of_the_tests_own(number: int, run_file: Path) -> None:
    assert asked(number, run_file) or number in (3, 10), "sizes and a second rank are not there"


@pytest.fixture(scope="module")
def job(run_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Job:
    """The run as three ranks, of which the last has lost its second half."""
    folder = tmp_path_factory.mktemp("job")
    document = json.loads(run_file.read_text())
    for rank in range(3):
        document["distributedInfo"] = {"rank": rank, "world_size": 3}
        events = document["traceEvents"]
        cut = {**document, "traceEvents": events[: len(events) // 2] if rank == 2 else events}
        (folder / f"rank{rank}.json").write_text(json.dumps(cut))
    found = open_trace(folder)
    assert isinstance(found, Job)
    return found


@pytest.fixture(scope="module")
def together(job: Job) -> dict[str, pl.LazyFrame]:
    return tables(job, workers=1)


@pytest.mark.parametrize("number", few(range(1, 11), 5))
def test_a_job_in_files_answers_as_its_tables_in_memory(
    number: int, job: Job, together: dict[str, pl.LazyFrame]
) -> None:
    sql = QUESTIONS[number - 1].sql.split(" limit ")[0]
    whole = pl.SQLContext(together).execute(with_fractions(sql)).collect()
    assert_frame_equal(query(job, sql, workers=1), whole, check_row_order=False)


def test_1_the_longest_gaps_and_who_launched_after_them(run_file: Path, ran: list[Ran]) -> None:
    gaps = sorted((kernel.idle * 1000, kernel.operator, kernel.phase) for kernel in ran if kernel.idle)
    rows = asked(1, run_file)
    assert sorted((row["dur_ns"], row["next_operator"], row["next_phase"]) for row in rows) == gaps
    assert [row["dur_ns"] for row in asked(1, run_file, limit=True)] == [gap[0] for gap in gaps[::-1][:5]]


def test_2_the_kernels_that_take_most_of_each_phase(run_file: Path, ran: list[Ran]) -> None:
    total: Counter[tuple[str, str]] = Counter()
    for kernel in ran:
        total[kernel.phase, kernel.name] += kernel.end - kernel.start
    expected = [
        (phase, name, us / 1000)
        for phase in ("attn(B)", "mlp(B)")
        for (_, name), us in Counter({key: us for key, us in total.items() if key[0] == phase}).most_common(2)
    ]
    assert [(row["phase"], row["name"], row["ms"]) for row in asked(2, run_file)] == expected


def test_3_bytes_and_bandwidth_of_each_collective(tmp_path: Path) -> None:
    path = written(tmp_path)
    moved: defaultdict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
    for event in json.loads(path.read_text())["traceEvents"]:
        if event["name"].startswith("nccl"):
            args = event["args"]
            size = {"BFloat16": 2, "Float": 4}[args["dtype"]] * max(args["In msg nelems"], args["Out msg nelems"])
            moved[args["Collective name"], args["Group size"]].append((size, event["dur"] * 1000))
    names = {"all_gather": "allgather", "reduce_scatter": "reduce_scatter", "all_reduce": "allreduce"}
    rows = asked(3, path)
    assert len(rows) == len(moved) == 3
    for row in rows:
        size = row["group_size"]
        events = moved[names[row["collective"]], size]
        factor = Fraction(size - 1, size) * (2 if row["collective"] == "all_reduce" else 1)
        speeds = [float(factor * num_bytes / ns) for num_bytes, ns in events]
        total = sum(num_bytes for num_bytes, _ in events)
        assert (row["calls"], row["payload_bytes"]) == (len(events), total)
        found = (row["algbw_GBps"], row["busbw_GBps"], row["slowest"])
        assert found == pytest.approx((total / sum(ns for _, ns in events), median(speeds), min(speeds)))


def test_4_the_queue_over_time(run_file: Path, ran: list[Ran]) -> None:
    """Its largest depth, and its mean over time: the sum of all launch delays over the time that is told of."""
    queue = query(open_trace(run_file), "select * from queue").to_dicts()
    for row in queue[:: len(queue) // 50]:
        at = row["start_ns"] // 1000
        assert row["queue_length"] == sum(k.launch <= at for k in ran) - sum(k.start <= at for k in ran)
    assert sum(row["queue_length"] * row["dur_ns"] for row in queue) == 1000 * sum(k.start - k.launch for k in ran)
    rows = asked(4, run_file)
    assert max(row["deepest"] for row in rows) == max(row["queue_length"] for row in queue)


def test_5_who_owns_exposed_communication(run_file: Path, ran: list[Ran]) -> None:
    """Each µs of it belongs to the communication that started first of those that run then."""
    computing = microseconds(ran, lambda kernel: not kernel.moves)
    owner: dict[int, str] = {}
    for kernel in ran:
        if kernel.moves:
            for at in range(kernel.start, kernel.end):
                owner.setdefault(at, kernel.phase)
    exposed = Counter(phase for at, phase in owner.items() if at not in computing)
    hidden = Counter(phase for at, phase in owner.items() if at in computing)
    rows = asked(5, run_file)
    assert {row["phase"]: row["exposed_ns"] for row in rows} == {p: 1000 * us for p, us in exposed.items()}
    assert {row["phase"]: row["hidden_ns"] for row in rows} == {p: 1000 * us for p, us in hidden.items()}
    assert sum(row["share"] for row in rows) == pytest.approx(100)


def test_6_what_a_step_has_more_of_adds_up(run_file: Path) -> None:
    rows = asked(6, run_file)
    assert len(rows) == 2 and sum(row["more_ns"] for row in rows) == 0 < rows[0]["more_ns"]
    for row in rows:
        assert sum(row[part] for part in ("compute_ns", "exposed_ns", "memory_ns", "idle_ns")) == row["more_ns"]


def test_7_operators_that_the_device_waits_for(run_file: Path, ran: list[Ran]) -> None:
    late: defaultdict[str, list[Ran]] = defaultdict(list)
    for kernel in _late(ran):
        late[kernel.operator].append(kernel)
    found = {row["operator"]: (row["kernels"], row["kernel_ns"], row["idle_before_ns"]) for row in asked(7, run_file)}
    assert found == {
        name: (len(each), 1000 * sum(k.end - k.start for k in each), 1000 * sum(k.idle for k in each))
        for name, each in late.items()
    }


def _late(ran: list[Ran]) -> Iterator[Ran]:
    """Kernels launched after the gap before them had begun."""
    return (kernel for kernel in ran if kernel.idle and kernel.launch > kernel.start - kernel.idle)


def test_8_kernels_that_vary(run_file: Path, ran: list[Ran]) -> None:
    durations: defaultdict[str, list[int]] = defaultdict(list)
    for kernel in ran:
        durations[kernel.name].append(1000 * (kernel.end - kernel.start))
    for row in asked(8, run_file):
        each = durations.pop(row["name"])
        assert (row["calls"], row["min_ns"], row["max_ns"]) == (len(each), min(each), max(each))
        assert row["above_min_ns"] == pytest.approx(sum(each) - len(each) * min(each), abs=len(each))
    assert not durations


def test_9_hidden_communication_by_phase(run_file: Path, ran: list[Ran]) -> None:
    computing = microseconds(ran, lambda kernel: not kernel.moves)
    totals: dict[str, tuple[int, int]] = {}
    for row in query(open_trace(run_file), "select * from phases").to_dicts():
        begin, end = row["host_start_ns"] // 1000, row["host_end_ns"] // 1000

        def own(kernel: Ran, begin: int = begin, end: int = end) -> bool:
            return kernel.moves and begin <= kernel.launch < end

        moving = microseconds(ran, own)
        assert row["communication_ns"] == 1000 * len(moving) and row["exposed_ns"] == 1000 * len(moving - computing)
        name_moving, name_hidden = totals.get(row["name"], (0, 0))
        totals[row["name"]] = (name_moving + len(moving), name_hidden + len(moving & computing))
    for row in asked(9, run_file):
        moved, hidden = totals[row["name"]]
        assert row["hidden_percent"] == pytest.approx(100 * hidden / moved)


def test_10_who_comes_last_is_who_is_shortest(tmp_path: Path) -> None:
    """Two ranks; the second comes 30 µs late into the second of two collectives."""
    for rank, late in ((0, 0), (1, 30)):
        file = TraceFile(rank=rank, world_size=2)
        file.kernel(ALL_REDUCE, 100, 50).kernel(ALL_REDUCE, 300 + late, 90 - late)
        file.write(tmp_path / f"rank{rank}.json")
    rows = asked(10, tmp_path)
    assert [(row["nth"], row["came_last"], row["waited_ns"]) for row in rows] == [(2, 1, 30_000), (1, 1, 0)]
