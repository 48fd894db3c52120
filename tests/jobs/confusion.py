"""How often S of a simulated job, and the first cause, are told right: `python -m tests.jobs.confusion`.

Right is the kind with its owner: the rank that was made slow, the stage, the link's ranks. Of two causes the one whose
repair saves more comes first, and both are told. Causes that cost less than 1.5 % of the job need not be. Where files
are absent, nobody who is innocent is named before what is absent is.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zlib import crc32

import weftrace as wt
from tests.jobs import plants as put
from tests.jobs import recipes, write
from tests.jobs import simulate as sim
from tests.jobs.simulate import Job, Planted
from weftrace.advice import infer_lanes_of, slowdown_of
from weftrace.analysis.job_slowdown import Cause, JobSlowdown
from weftrace.errors import WeftraceError
from weftrace.report.build import analyze

NOTHING = "nothing"
_WITHIN = 0.01
_TOLD_FROM, _MUST_FROM = 0.01, 0.015  # of the job's time
_ALIKE = 0.8  # two causes this near in what they save may come in either order
_ABSENT = re.compile(r"missing|not here|no file|absent|not among", re.IGNORECASE)
_NAMES_SOMEONE = re.compile(r"\b(?:rank|stage) \d+|\b(?:DP|PP|TP) \d+", re.IGNORECASE)
_DENIES = re.compile(r"no rank is late|nothing slows|no rank stands out", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Shape:
    """A job that can be made, and its size. empty: without ops."""

    make: Callable[[], Job]
    empty: Job

    @classmethod
    def pipeline(cls, dp: int, pp: int, *, tp: int = 1, **facts: Any) -> Shape:
        return cls(lambda: recipes.pipeline(dp, pp, tp=tp, **facts), Job(dp=dp, pp=pp, tp=tp))

    @classmethod
    def ddp(cls, dp: int, **facts: Any) -> Shape:
        return cls(lambda: recipes.ddp(dp, **facts), Job(dp=dp, pp=1))

    @classmethod
    def fsdp(cls, dp: int, **facts: Any) -> Shape:
        return cls(lambda: recipes.fsdp(dp, **facts), Job(dp=dp, pp=1))


SHAPES: dict[str, Shape] = {
    "1f1b 2x4": Shape.pipeline(2, 4),
    "1f1b 4x2": Shape.pipeline(4, 2),
    "1f1b 1x4": Shape.pipeline(1, 4),
    "1f1b 4x4 zero0": Shape.pipeline(4, 4, zero=0, num_mb=8, steps=3),
    "gpipe 2x2": Shape.pipeline(2, 2, schedule="gpipe"),
    "interleaved 2x2": Shape.pipeline(2, 2, schedule="interleaved"),
    "interleaved 2x4": Shape.pipeline(2, 4, schedule="interleaved", num_mb=8, steps=3),
    "async 2x4": Shape.pipeline(2, 4, sends_wait=False),
    "dualpipe 2x4": Shape.pipeline(2, 4, schedule="dualpipe", num_mb=10),
    "dualpipe 2x8": Shape.pipeline(2, 8, schedule="dualpipe", num_mb=16, steps=3),
    "zb1p 2x4": Shape.pipeline(2, 4, schedule="zb1p", num_mb=8),
    "ddp 4": Shape.ddp(4),
    "ddp 8": Shape.ddp(8),
    "zero2 4": Shape.ddp(4, zero=2),
    "fsdp 4": Shape.fsdp(4),
    "fsdp 8": Shape.fsdp(8, layers=6),
    "tp 2x2x2": Shape.pipeline(2, 2, tp=2),
    "tp 2x2x4": Shape.pipeline(2, 4, tp=2, steps=3),
    "tp 4x2x1": Shape.pipeline(2, 1, tp=4),
    "tp interleaved 2x2x2": Shape.pipeline(2, 2, tp=2, schedule="interleaved"),
    "tp dualpipe 2x2x4": Shape.pipeline(2, 4, tp=2, schedule="dualpipe", num_mb=8, steps=3),
    "1f1b 8x8": Shape.pipeline(8, 8, num_mb=12, steps=2),
    "tp 4x4x4": Shape.pipeline(4, 4, tp=4, num_mb=6, steps=2),
    "tp 8x8x8": Shape.pipeline(8, 8, tp=8, num_mb=8, steps=2),
}  # fmt: skip
ABSENT_FORMS = ("ranks", "kineto", "kineto clocks", "ranks clocks")
LARGE = ("1f1b 8x8", "tp 4x4x4", "tp 8x8x8")


def _others(job: Job, seed: int) -> tuple[int, int]:
    """Two ranks, not of one stage where there are more."""
    one = seed % job.num_ranks
    other = (one + job.num_ranks // 2 + (1 if job.pp == 1 and job.tp == 1 else 0)) % job.num_ranks
    return one, other


#: A plant takes a job and a seed.
PLANTS: dict[str, Callable[[Job, int], Job]] = {
    "slow": lambda job, seed: put.slow_worker(job, seed % job.num_ranks, 1.2 + 0.15 * (seed % 3)),
    "slow backward": lambda job, seed: put.slow_worker(job, seed % job.num_ranks, 1.4, only="backward"),
    "slow kernel": lambda job, seed: put.slow_kernel(job, seed % job.num_ranks, 2.0),
    "slow since": lambda job, seed: put.slow_worker(job, (seed + 1) % job.num_ranks, 1.5, since=1 + seed % 2),
    "two slow": lambda job, seed: put.slow_worker(put.slow_worker(job, _others(job, seed)[0], 1.35),
                                                  _others(job, seed)[1], 1.35),
    "last stage": lambda job, seed: put.slow_stage(job, job.pp - 1, 1.4),
    "first stage": lambda job, seed: put.slow_stage(job, 0, 1.3),
    "lengths": lambda job, seed: put.lengths(job, 0.22, seed),
    "collections": lambda job, seed: put.collections(job, 4e6, min(0.1, 24 / job.num_ranks / 10), seed),
    "host collections": lambda job, seed: put.host_collections(job, 16e6, min(0.03, 0.3 / job.num_ranks), seed),
    "host": lambda job, seed: put.late_host(job, seed % job.num_ranks, 5e6),
    "host midst": lambda job, seed: put.late_host(job, seed % job.num_ranks, 3e6, name="pause", every=3),
    "host midst ahead": lambda job, seed: put.late_host(job, seed % job.num_ranks, 14e6, name="pause", every=4),
    "link pair": lambda job, seed: put.slow_pair(job, job.rank(0, 0), job.rank(1, 0), 25.0),
    "link group": lambda job, seed: put.slow_group(job, seed % job.num_ranks, 12.0),
    "nic": lambda job, seed: put.slow_nic(job, seed % job.num_ranks, 12.0),
}  # fmt: skip
DOUBLES = (("slow", "last stage"), ("slow", "host far"), ("slow", "link pair"), ("host far", "link pair"),
           ("lengths", "slow far"), ("collections", "slow far"), ("last stage", "link pair"), ("host", "last stage"),
           ("lengths", "last stage"), ("collections", "host"))  # fmt: skip
#: The same work, evenly divided: what repairs these causes.
EVENED: dict[str, Callable[[Job, int], Job]] = {
    "last stage": lambda job, seed: put.slow_stage(job, job.pp - 1, 1.4, is_even=True),
    "first stage": lambda job, seed: put.slow_stage(job, 0, 1.3, is_even=True),
    "lengths": lambda job, seed: put.lengths(job, 0.22, seed, is_even=True),
}
PLANTS |= {
    "slow far": lambda job, seed: put.slow_worker(job, _others(job, seed)[1], 1.45),
    "host far": lambda job, seed: put.late_host(job, _others(job, seed)[1], 5e6),
}
_SINGLES = tuple(name for name in PLANTS if not name.endswith("far") and name != "host collections")


def forms_of(shape: str, job: Job) -> tuple[str, ...]:
    if shape == "tp 8x8x8":
        return ("collapsed", "tp hidden table")
    if shape == "tp 4x4x4":
        return ("collapsed", "tp table", "tp apart", "kineto")
    if job.tp > 1:
        return ("collapsed", "kineto", "tp apart", "tp table", "kineto clocks", "tp nested", "collapsed ranks",
                "kineto noseq", "tp clocks")  # fmt: skip
    if shape.startswith("async"):
        return ("plain", "transfers", "ranks", "table", "ranks clocks")
    if shape.startswith(("ddp", "zero2")):  # where in a backward a bucket was ready is told by waiting alone
        return ("plain", "kineto", "ranks clocks", "kineto clocks", "table", "ranks", "kineto noseq", "kineto old")
    old = ("kineto old",) if job.pp == 1 else ()
    return ("plain", "kineto", "ranks clocks", "transfers", "kineto clocks", "table", "ranks", "kineto noseq", *old)


def is_possible(shape: str, plant: str, form: str, job: Job) -> bool:
    """Whether a plant is in such a job, and told by such a file."""
    if "stage" in plant and (job.pp == 1 or "dualpipe" in shape):
        return False
    if plant in ("link pair", "link group", "nic") and (job.pp < 3 or shape.startswith("async")):
        return False
    if plant in ("link group", "nic", "two slow", "host", "host midst", "host far", "slow far") and job.dp == 1:
        return False
    if plant.startswith("host midst") and (plant == "host midst ahead") != form.startswith("kineto"):
        return False  # where the host is ahead of the device, only a long pause is felt
    if plant == "slow kernel" and not form.startswith("kineto"):
        return False
    if plant in ("collections", "lengths") and (shape.startswith("fsdp") or "1x4" in shape):
        return False  # layers, not micro-batches; no peers
    if plant.startswith("host") and (form == "tp hidden table" or (form == "transfers" and "midst" not in plant)):
        return False  # a host's lateness is within its group's ranges, or before a meeting whose waiting is not shown
    return not (plant == "lengths" and "dualpipe" in shape)


@dataclass(frozen=True, slots=True)
class Case:
    shape: str
    plants: tuple[str, ...]
    form: str
    noise: float
    seed: int
    absent: str = ""  # one, half, all but 2, stage; "here" where the cause has its file

    @property
    def name(self) -> str:
        plants = " and ".join(self.plants) or NOTHING
        return " · ".join(filter(None, (self.shape, plants, self.form, self.absent and f"absent {self.absent}")))

    def job(self, plants: Sequence[str] | None = None) -> Job:
        """plants: of its causes those that are there, of the others their repair; all where None."""
        job = put.noisy(SHAPES[self.shape].make(), self.noise, self.seed)
        one_of = job.tp if self.form.startswith("collapsed") else 1  # the rank that is recorded
        for at, plant in enumerate(self.plants):
            seed = (self.seed + 3 * at) * one_of
            if plants is None or plant in plants:
                by_host = plant == "collections" and self.form.startswith("kineto")
                job = PLANTS["host collections" if by_host else plant](job, seed)
            elif plant in EVENED:
                job = EVENED[plant](job, seed)
        if self.form.startswith(("collapsed", "tp hidden")):
            return sim.tensor_groups_hidden(job, is_one_each=self.form.startswith("collapsed"))
        return sim.with_hosts(job) if self.form.startswith("kineto") else job

    def absent_ranks(self, job: Job) -> tuple[int, ...]:
        if not self.absent:
            return ()
        guilty = [rank for each in job.planted for rank in each.ranks]
        guilty += [job.rank(stage, d, t) for each in job.planted for stage in each.stages for d in range(job.dp)
                   for t in range(job.tp)]  # fmt: skip
        others = [rank for rank in range(job.num_ranks) if rank not in guilty]
        pattern, keep = self.absent.removesuffix(" here"), self.absent.endswith(" here")
        number = {"one": 1, "half": job.num_ranks // 2, "all but 2": job.num_ranks - 2}.get(pattern, 0)
        if pattern == "stage":
            stage = job.ops[next(at for at, op in enumerate(job.ops) if op.rank == guilty[0])].stage
            return tuple(job.rank(stage, d, t) for d in range(job.dp) for t in range(job.tp))
        order = [*others[1::2], *others[::2], *guilty] if keep else [*guilty, *others[1::2], *others[::2]]
        return tuple(sorted(order[:number]))


@dataclass(frozen=True, slots=True)
class Outcome:
    case: Case
    told: str
    wrong: str  # what is wrong with the causes; empty where they are right
    extra: str  # who is named beside
    since: str  # where the first step of the first cause is another
    error: float
    truth: float
    sentence: str


def written(case: Case, job: Job, folder: Path) -> Path:
    times = sim.run(job)
    clocks = write.random_clocks(job, case.seed) if case.form.endswith("clocks") else None
    absent = case.absent_ranks(job)
    form = case.form
    if form.startswith("kineto"):
        facts = write.Facts(has_seq="noseq" not in form and "old" not in form, has_groups="old" not in form,
                            has_world="old" not in form)  # fmt: skip
        return write.kineto(job, times, folder / "k", clocks=clocks, absent=absent, facts=facts)
    if form in ("table", "tp table", "tp hidden table"):
        return write.table(job, times, folder / "t.parquet", tensors="apart" if form == "tp table" else "hidden")
    if form in ("plain", "transfers", "collapsed"):
        return write.one_file(job, times, folder / "t.json", transfer_only=form == "transfers")
    tensors: write.Tensors = "nested" if form == "tp nested" else "apart" if form.startswith("tp") else "hidden"
    return write.file_a_rank(job, times, folder / "r", tensors=tensors, clocks=clocks, absent=absent)


def outcome(case: Case) -> Outcome:
    job = case.job()
    truth = sim.slowdown(job)
    with tempfile.TemporaryDirectory() as folder:
        path = written(case, job, Path(folder))
        try:
            found = slowdown_of(infer_lanes_of(wt.open(str(path)), workers=1))
            report = str(analyze(path).document["headline"]) if case.absent else ""
        except WeftraceError as error:
            if case.absent:  # nothing is said of anyone
                return Outcome(case, "refused", "", "", "", 0.0, truth, str(error))
            return Outcome(case, "refused", "refused", "", "", 9.0, truth, str(error))
        except Exception as error:  # a crash is an outcome of this one job
            return Outcome(case, "crash", f"crash {type(error).__name__}", "", "", 9.0, truth, str(error))
    causes = [
        cause
        for cause in found.causes
        if cause.kind not in ("spread", *(("absent ranks",) if case.absent else ()))
        and max(cause.share, cause.alone_ns / found.replayed_ns) >= _TOLD_FROM
    ]
    here = set(range(job.num_ranks)) - set(case.absent_ranks(job))
    whose = {cause: _ranks(job, cause, found, here) for cause in causes}
    extra = "; ".join(
        cause.sentence for cause in causes if not any(_fits(job, cause, whose, each, here) for each in job.planted)
    )
    if case.absent:
        wrong = _absent_wrong(case, job, found, report, extra, here)
        return Outcome(case, causes[0].kind if causes else NOTHING, wrong, "", "", 0.0, truth,
                       f"S={found.slowdown:.4f} {found.headline} REPORT: {report}")  # fmt: skip
    wrong = _wrong(case, job, causes, whose, here)
    begins = {each.since or None for each in job.planted if causes and each.kind == causes[0].kind and each.ranks
              and _fits(job, causes[0], whose, each, here)}  # fmt: skip
    begins |= {None} if begins and causes[0].kind == "late host" else set()  # the first step may hold too few
    since = f"since {causes[0].first_step}" if begins and causes[0].first_step not in begins else ""
    if not wrong and _ABSENT.search(found.headline):
        wrong = "speaks of absent ranks where all are here"
    return Outcome(case, causes[0].kind if causes else NOTHING, wrong, extra, since, found.slowdown / truth - 1, truth,
                   f"S={found.slowdown:.4f} {found.headline}")  # fmt: skip


def _ranks(job: Job, cause: Cause, found: JobSlowdown, here: set[int]) -> frozenset[int]:
    """Ranks of a cause as the simulation numbers them."""
    names = dict(found.workers.select("rank", "name").iter_rows())
    return frozenset(_number(job, str(names.get(rank, rank)), here) for rank in cause.ranks)


def _number(job: Job, name: str, here: set[int]) -> int:
    """What names leave out is the same for all that are here."""
    places = {kind: int(number) for kind, number in re.findall(r"\b(DP|PP|TP) (?:rank )?(\d+)", name)}
    if not places:
        digits = re.findall(r"\d+", name)
        return int(digits[-1]) if digits else -1
    of = {rank: {"TP": rank % job.tp, "DP": rank // job.tp % job.dp, "PP": rank // job.tp // job.dp} for rank in here}
    return min((rank for rank, its in of.items() if places.items() <= its.items()), default=-1)


def _wrong(case: Case, job: Job, causes: list[Cause], whose: dict[Cause, frozenset[int]],
           here: set[int]) -> str:  # fmt: skip
    """What is wrong with the causes that are told."""
    if not case.plants:
        return "names someone in an even job" if causes else ""
    whole = sim.span(job, sim.run(job))
    none = case.job(())
    even = sim.span(none, sim.run(none))
    saved: list[tuple[float, bool, list[Planted]]] = []
    for plant in case.plants:
        without, alone = case.job([each for each in case.plants if each != plant]), case.job([plant])
        saving = 1 - sim.span(without, sim.run(without)) / whole if len(case.plants) > 1 else 1 - even / whole
        must = max(saving, sim.span(alone, sim.run(alone)) / even - 1) >= _MUST_FROM
        saved.append((saving, must, alone.planted))
    if not any(must for _, must, _ in saved):
        return (
            ""
            if not causes or any(_fits(job, causes[0], whose, each, here) for each in job.planted)
            else "blames an innocent"
        )
    if not causes:
        return "tells nothing"
    firsts = [
        saving for saving, _, planted in saved if any(_fits(job, causes[0], whose, each, here) for each in planted)
    ]
    if not firsts:
        return "the first cause is another"
    for _, must, planted in saved:
        if must and not all(any(_fits(job, cause, whose, each, here) for cause in causes) for each in planted):
            return "one is not told"
    if max(firsts) < _ALIKE * max(saving for saving, _, _ in saved) - 0.003:
        return "the lesser comes first"
    return ""


def _fits(job: Job, cause: Cause, whose: dict[Cause, frozenset[int]], planted: Planted,
          here: set[int]) -> bool:  # fmt: skip
    ranks = whose[cause]
    if planted.kind == "slow nic":
        return cause.kind == "slow link" and set(planted.ranks) <= ranks
    size = job.tp * job.dp
    places = {"slow compute", "uneven stages"}
    if {cause.kind, planted.kind} <= places and max(Counter(rank // size for rank in here).values()) == 1:
        # one rank a stage: whether it is slow, or its stage too long, cannot be told
        told = {rank // size for rank in ranks} or set(cause.stages)
        of = [{rank // size for rank in each.ranks} or set(each.stages) for each in job.planted if each.kind in places]
        mine = {rank // size for rank in planted.ranks} or set(planted.stages)
        return mine <= told <= set().union(*of)
    if planted.kind == "garbage collection" and cause.kind == "late host":
        return len(ranks) != 1 and any(op.launch >= 0 for op in job.ops)  # hosts that stop now here, now there
    if cause.kind != planted.kind:
        return False
    if planted.kind == "uneven stages":
        return cause.stages[0] in planted.stages
    if planted.kind == "slow link":
        return bool(ranks) and ranks <= set(planted.ranks)
    of_kind = {rank for each in job.planted if each.kind == planted.kind for rank in each.ranks}
    if planted.kind == "late host" and any(each.kind == "garbage collection" for each in job.planted):
        of_kind |= ranks  # hosts stop elsewhere too
    return not planted.ranks or (set(planted.ranks) <= ranks <= of_kind)


def _absent_wrong(case: Case, job: Job, found: JobSlowdown, report: str, extra: str, here: set[int]) -> str:
    """What is wrong with what is told of a job some of whose files are not here."""
    wrong = []
    is_known = case.form.startswith("kineto") or not _is_a_whole_job(job, here)
    for text, where in ((found.headline, "headline"), (report, "report")):
        if is_known and not _ABSENT.search(text):
            wrong.append(f"{where} is silent about absent files")
        if _DENIES.search(text):
            wrong.append(f"{where} says that no rank is late")
        first = re.split(r"(?<=[a-z0-9)%])\. (?=[A-Z])", text)[0]
        if "here" not in case.absent and _NAMES_SOMEONE.search(first) and is_known and not _ABSENT.search(first):
            wrong.append(f"{where} begins with one that is here")
    if extra:
        wrong.append(f"blames one that is here: {extra}")
    return "; ".join(wrong)


def _is_a_whole_job(job: Job, here: set[int]) -> bool:
    """Whether the ranks that are here are all of a smaller job, for all that plain ranges tell."""
    dps = {rank // job.tp % job.dp for rank in here}
    whole = {job.rank(p, d, t) for p in range(job.pp) for d in range(len(dps)) for t in range(job.tp)}
    return here == whole


def _case(shape: str, plants: tuple[str, ...], form: str, absent: str = "") -> Case:
    """With noise and a seed that follow from its name, so that other cases do not change it."""
    named = Case(shape, plants, form, 0.0, 0, absent)
    number = crc32(named.name.encode())
    noise = (0.003, 0.01, 0.02, 0.03)[: 3 if absent else 4]
    return replace(named, noise=noise[number % len(noise)], seed=number // 7 % 1000)


def cases() -> Iterator[Case]:
    """The grid: shapes of jobs x causes x forms x noise."""
    for shape, its in SHAPES.items():
        job = its.empty
        few = shape in LARGE
        chosen: list[tuple[str, ...]] = [(), *((plant,) for plant in _SINGLES), *DOUBLES]
        if few:
            chosen = [(), ("slow",), ("last stage",), ("host",), ("nic",), ("slow", "last stage")]
        for plants in chosen:
            possible = [
                form for form in forms_of(shape, job) if all(is_possible(shape, plant, form, job) for plant in plants)
            ]
            turn = crc32(f"{shape} {plants}".encode()) % max(1, len(possible))
            most = 1 if few and shape != "1f1b 8x8" else len(possible) if not plants else 4
            for form in (possible[turn:] + possible[:turn])[:most]:
                yield _case(shape, plants, form)
    for shape in ("1f1b 2x4", "ddp 8", "fsdp 4", "1f1b 4x2", "tp 2x2x2", "dualpipe 2x4", "interleaved 2x4", "zero2 4"):
        job = SHAPES[shape].empty
        for plants in (("slow",), ("host",), ("last stage",), ("slow since",), ("two slow",)):
            for absent in ("one", "half", "all but 2", "stage", "one here", "half here"):
                if (plants[0] == "last stage" and absent != "stage") or (absent == "stage" and job.pp == 1):
                    continue
                forms = ("tp apart", "kineto", "tp clocks") if job.tp > 1 else ABSENT_FORMS
                possible = [form for form in forms if is_possible(shape, plants[0], form, job)]
                for form in possible[crc32(f"{shape} {plants} {absent}".encode()) % 2 :: 2]:
                    yield _case(shape, plants, form, absent)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="take each N-th job")
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--only", default="", help="jobs whose name this regular expression finds")
    parser.add_argument("--all", action="store_true", help="print what is told of right ones too")
    given = parser.parse_args(argv)
    chosen = [case for case in cases() if re.search(given.only, case.name)][given.offset :: given.every]
    found: list[Outcome] = []
    started = time.perf_counter()
    for case in chosen:
        one = outcome(case)
        found.append(one)
        if one.wrong or abs(one.error) > _WITHIN or one.extra or one.since or given.all:
            mark = f"WRONG ({one.wrong}) " if one.wrong else ""
            mark += "S OFF " if abs(one.error) > _WITHIN else ""
            mark += ("EXTRA " if one.extra else "") + (f"SINCE ({one.since}) " if one.since else "")
            said = " ".join(one.sentence.split())[:500] + (f" EXTRA: {one.extra[:300]}" if one.extra else "")
            print(f"{mark}{case.name} [noise {case.noise}]: S {one.truth:.4f}, off {one.error:+.2%}: "
                  f"told {one.told}: {said}", flush=True)  # fmt: skip
    print(summary(found))
    print(f"{time.perf_counter() - started:.0f} s")
    whole = [each for each in found if not each.case.absent]
    is_good = sum(not each.wrong for each in whole) >= 0.98 * len(whole)
    return 0 if is_good and all(abs(each.error) <= _WITHIN for each in whole) else 1


def summary(found: list[Outcome]) -> str:
    """The table of planted x told, and how many are right, per form."""
    lines = []
    table = Counter((" and ".join(each.case.plants) or NOTHING, each.told) for each in found if not each.case.absent)
    for (planted, told), number in sorted(table.items()):
        lines.append(f"{planted:32} told as {told:26} {number:4}")
    by_form: dict[str, list[Outcome]] = {}
    for each in found:
        by_form.setdefault("absent" if each.case.absent else each.case.form, []).append(each)
    for form, mine in [*by_form.items(), ("all with files", [each for each in found if not each.case.absent])]:
        right, near = sum(not each.wrong for each in mine), sum(abs(each.error) <= _WITHIN for each in mine)
        worst = max((abs(each.error) for each in mine), default=0.0)
        extra = sum(bool(each.extra) for each in mine)
        part = right / max(1, len(mine))
        lines.append(f"{form:16} {len(mine):4} jobs: owner and kind right in {right:4} ({part:.1%}), S "
                     f"within 1 % in {near:4}, worst {worst:.2%}; {extra} name an innocent beside, "
                     f"{sum(bool(each.since) for each in mine)} another first step")  # fmt: skip
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
