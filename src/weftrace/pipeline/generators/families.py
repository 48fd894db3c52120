"""Every schedule that weftrace can make, by its name: `generate("zb1p", num_stages=8, num_micro_batches=32)`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

from weftrace.errors import ScheduleError
from weftrace.pipeline.generators.arguments import need_counts
from weftrace.pipeline.generators.dualpipe import dualpipe, dualpipe_v
from weftrace.pipeline.generators.looped import interleaved, interleaved_zb
from weftrace.pipeline.generators.one_stage import gpipe, one_f_one_b, zb1p, zb2p
from weftrace.pipeline.generators.overlapped import interleaved_overlapped
from weftrace.pipeline.generators.sliced import seq1f1b
from weftrace.pipeline.generators.v_shape import v_half, v_min, zbv
from weftrace.pipeline.schedule import Schedule, plain_int
from weftrace.units import counted, quoted, whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A schedule for any number of ranks and micro-batches.

    name: as in `generate` and on the command line. title: as in pictures and tables.
    make: (number of ranks, number of micro-batches, **options) -> Schedule.
    stages_per_rank: of one replica, without options. replicas: copies of the model's stages.
    overlaps: has F&B. splits: has I and W, not only B. description: what it trades. source: who published it.
    """

    name: str
    title: str
    make: Callable[..., Schedule]
    stages_per_rank: int = 1
    replicas: int = 1
    overlaps: bool = False
    splits: bool = False
    description: str
    source: str

    @property
    def options(self) -> dict[str, int | None]:
        """What `make` takes beside the two numbers, and what it is if not given."""
        after = list(inspect.signature(self.make).parameters.values())[2:]
        return {parameter.name: parameter.default for parameter in after}


_ZERO_BUBBLE = "Qi et al., 2023, Zero Bubble Pipeline Parallelism, arXiv:2401.10241"
_MEGATRON = "Narayanan et al., 2021, Efficient Large-Scale Training on GPU Clusters, arXiv:2104.04473"
_CONTROLLABLE = "Qi et al., 2024, Pipeline Parallelism with Controllable Memory, arXiv:2405.15362"
_DUALPIPE = "DeepSeek, 2025, DualPipe, https://github.com/deepseek-ai/DualPipe"

_ALL = (
    Family(
        name="gpipe",
        title="GPipe",
        make=gpipe,
        description="all forwards, then all backwards: the simplest order; memory grows with the micro-batches",
        source="Huang et al., 2019, GPipe, arXiv:1811.06965",
    ),
    Family(
        name="1f1b",
        title="1F1B",
        make=one_f_one_b,
        description="a backward as soon as it can be: GPipe's bubble, and memory for PP micro-batches at most",
        source=_MEGATRON,
    ),
    Family(
        name="interleaved",
        title="interleaved 1F1B",
        make=interleaved,
        stages_per_rank=2,
        description="several smaller stages a rank: 1F1B's bubble divided by their number, for messages and memory",
        source=_MEGATRON,
    ),
    Family(
        name="zb1p",
        title="ZB1P",
        make=zb1p,
        splits=True,
        description="1F1B with weight gradients in the gaps: a third of its bubble at its memory",
        source=f"{_ZERO_BUBBLE} (there ZB-H1)",
    ),
    Family(
        name="zb2p",
        title="ZB2P",
        make=zb2p,
        splits=True,
        description="twice the forwards in flight: no rank waits between its first and last action; twice the memory",
        source=f"{_ZERO_BUBBLE} (there ZB-H2)",
    ),
    Family(
        name="zbv",
        title="ZBV",
        make=zbv,
        stages_per_rank=2,
        splits=True,
        description="down the ranks and back up: no rank waits between its first and last action, at 1F1B's memory",
        source=_ZERO_BUBBLE,
    ),
    Family(
        name="v-half",
        title="V-Half",
        make=v_half,
        stages_per_rank=2,
        splits=True,
        description="ZBV's shape with little over half of 1F1B's memory, for less than half of its bubble",
        source=_CONTROLLABLE,
    ),
    Family(
        name="v-min",
        title="V-Min",
        make=v_min,
        stages_per_rank=2,
        splits=True,
        description="ZBV's shape at half of 1F1B's memory on 8 ranks, a third on many, for two thirds of its bubble",
        source=_CONTROLLABLE,
    ),
    Family(
        name="interleaved-zb",
        title="interleaved zero bubble",
        make=interleaved_zb,
        stages_per_rank=2,
        splits=True,
        description="interleaved 1F1B with weight gradients in the gaps: a third of its bubble, less of its memory",
        source=_ZERO_BUBBLE,
    ),
    Family(
        name="dualpipe",
        title="DualPipe",
        make=dualpipe,
        replicas=2,
        overlaps=True,
        splits=True,
        description="two directions at once, each forward under a backward: PP + 1 activations, the parameters twice",
        source=_DUALPIPE,
    ),
    Family(
        name="dualpipev",
        title="DualPipeV",
        make=dualpipe_v,
        stages_per_rank=2,
        overlaps=True,
        splits=True,
        description="DualPipe folded into a V: its overlap with the parameters held once",
        source=_DUALPIPE,
    ),
    Family(
        name="interleaved-fb",
        title="interleaved F&B",
        make=interleaved_overlapped,
        stages_per_rank=2,
        overlaps=True,
        description="interleaved 1F1B, each backward overlapped with the next forward: one more chunk held",
        source="Megatron-LM, its interleaved schedule with overlapped MoE communication",
    ),
    Family(
        name="seq1f1b",
        title="Seq1F1B",
        make=seq1f1b,
        description="1F1B on slices of sequences: its bubble divided by their number, and nearly so its memory",
        source="Sun et al., 2024, Seq1F1B, arXiv:2406.03488",
    ),
)

#: Name -> family, in the order of tables.
FAMILIES: dict[str, Family] = {family.name: family for family in _ALL}


def family_of(name: str) -> Family:
    """The family of this name. Raises `ScheduleError`, with those that there are, where there is none."""
    if isinstance(name, str) and (found := FAMILIES.get(name.strip().lower())):
        return found
    name_of = {name: name for name in FAMILIES} | {family.title.lower(): family.name for family in _ALL}
    near = get_close_matches(str(name).lower(), name_of, n=1)
    meant = f" Is {name_of[near[0]]!r} meant?" if near else ""
    raise ScheduleError(f"there is no schedule {quoted(name)}.{meant} There are {', '.join(FAMILIES)}.")


def generate(
    name: str,
    *,
    num_ranks: int | None = None,
    num_stages: int | None = None,
    num_micro_batches: int,
    **options: int,
) -> Schedule:
    """The schedule of this name, one of `FAMILIES`.

    num_ranks, num_stages: one of them, or both where they agree: a rank holds `stages_per_rank` stages of a replica.
    num_micro_batches: of the whole step, over all replicas; of Seq1F1B whole sequences.
    options: `stages_per_rank` and `group_size` of interleaved schedules, `num_slices` of Seq1F1B.

    Raises `ScheduleError` for an unknown name or option and for numbers that the schedule is impossible with.
    """
    family = family_of(name)
    if unknown := sorted(set(options) - set(family.options)):
        has = f"its options are {', '.join(family.options)}" if family.options else "it has none"
        raise ScheduleError(f"{family.title} has no option {unknown[0]!r}; {has}.")
    options = {option: plain_int(value) for option, value in options.items()}
    num_ranks, num_stages, num_micro_batches = map(plain_int, (num_ranks, num_stages, num_micro_batches))
    stages_per_rank = options.get("stages_per_rank", family.stages_per_rank)
    ranks = _num_ranks(family.title, num_ranks, num_stages, stages_per_rank)
    need_counts(family.title, num_ranks=ranks, num_micro_batches=num_micro_batches)
    return family.make(ranks, num_micro_batches, **options)


def _num_ranks(title: str, num_ranks: int | None, num_stages: int | None, stages_per_rank: int) -> int:
    given = {"num_ranks": num_ranks, "num_stages": num_stages}
    given = {what: value for what, value in given.items() if value is not None}
    if not given:
        raise ScheduleError(f"{title}: say on how many ranks (num_ranks), or into how many stages (num_stages).")
    for what, value in (given | {"stages_per_rank": stages_per_rank}).items():
        need_counts(title, **{what: value})
    if num_stages is None:
        assert num_ranks is not None
        return num_ranks
    if num_stages % stages_per_rank:
        raise ScheduleError(
            f"{title}: {counted(num_stages, 'stage')} cannot be dealt out, {whole(stages_per_rank)} to each rank; "
            f"{whole(num_stages - num_stages % stages_per_rank or stages_per_rank)} can."
        )
    if num_ranks is not None and num_ranks * stages_per_rank != num_stages:
        raise ScheduleError(
            f"{title}: {counted(num_stages, 'stage')} are on {counted(num_stages // stages_per_rank, 'rank')}, "
            f"{whole(stages_per_rank)} on each, not on {whole(num_ranks)}. One of the two numbers is enough."
        )
    return num_stages // stages_per_rank
