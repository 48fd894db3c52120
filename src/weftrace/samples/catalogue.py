"""The samples by name: what each simulates, what is planted in it, and its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any

from weftrace.errors import OutputError
from weftrace.files.output import write_output
from weftrace.plan.times import timetable
from weftrace.samples.serving import Serving
from weftrace.samples.training import Training
from weftrace.samples.values import Name, Planted, Sample
from weftrace.trace.chrome.writer import write_chrome
from weftrace.trace.model import Trace
from weftrace.units import duration, percent

#: The file beside the traces that says what is planted. No trace's ending: a folder of ranks stays one.
PLANTED = "planted.txt"


@dataclass(frozen=True, kw_only=True)
class _Cause:
    """what, finding, commands: as `Planted` has them, {0} the sample's folder. without: the same run without it."""

    what: str
    finding: str
    commands: tuple[str, ...]
    without: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class _Recipe:
    """what: in a sentence. run: as it was. causes: planted in it. runs: folder of the files -> the run of them; ""
    of those that are in the sample's own folder. mean_of: what a step is the mean of, where steps differ."""

    what: str
    run: Training | Serving
    causes: tuple[_Cause, ...]
    runs: Mapping[str, Training | Serving]
    file: str = "rank{0}.json.gz"
    mean_of: str = ""


_TRAIN = Training(reads_norm=True, is_unfused=True, reduces_late=True)
_JOB = Training(ranks=tuple(range(8)), layers=3, slow=((5, 1.25),))
_SERVE = Serving(schedules_slowly=True, outgrows_graphs=True)
_BEFORE = Training(ranks=(0, 1), layers=3, steps=5, reduces_late=True)
_AFTER = replace(_BEFORE, reduces_late=False)

_RECIPES: dict[Name, _Recipe] = {
    "train": _Recipe(
        what="Three steps of training a small transformer, recorded on one of 8 ranks.",
        run=_TRAIN,
        causes=(
            _Cause(
                what="GELU is written out operator by operator: eight kernels instead of one fused kernel.",
                finding="unfused-elementwise",
                commands=("weftrace advise {0}/train.json.gz",),
                without={"is_unfused": False},
            ),
            _Cause(
                what="Gradients are all-reduced after the backward pass, so nothing hides the communication.",
                finding="exposed-collective",
                commands=("weftrace report {0}/train.json.gz", "weftrace critical-path {0}/train.json.gz"),
                without={"reduces_late": False},
            ),
            _Cause(
                what="The gradients' norm is read by .item() in every step, so the device waits while it is logged.",
                finding="sync-every-step",
                commands=("weftrace advise {0}/train.json.gz",),
                without={"reads_norm": False},
            ),
        ),
        runs={"": _TRAIN},
        file="train.json.gz",
    ),
    "job": _Recipe(
        what="Three steps of data-parallel training on 8 ranks, one file per rank.",
        run=_JOB,
        causes=(
            _Cause(
                what="Rank 5 computes 1.25 times as long as the others, which wait for it in every all-reduce.",
                finding="straggler",
                commands=("weftrace report {0}/", "weftrace stragglers {0}/"),
                without={"slow": ()},
            ),
        ),
        runs={"": _JOB},
    ),
    "inference": _Recipe(
        what="A server reads two prompts, then decodes in 24 steps: 16 for 64 requests, by CUDA graph, and 8 for 128.",
        run=_SERVE,
        causes=(
            _Cause(
                what="After each step the host schedules for 1.2 ms where 0.1 ms would do, and the device waits.",
                finding="decode-gap",
                commands=("weftrace report {0}/inference.json.gz", "weftrace advise {0}/inference.json.gz"),
                without={"schedules_slowly": False},
            ),
            _Cause(
                what="A third of the decode steps has 128 requests, more than any graph was captured for.",
                finding="decode-outside-graphs",
                commands=("weftrace advise {0}/inference.json.gz",),
                without={"outgrows_graphs": False},
            ),
        ),
        runs={"": _SERVE},
        file="inference.json.gz",
        mean_of=", the mean of 2 prompts and 24 decode steps with the gaps after them",
    ),
    "pair": _Recipe(
        what="Five steps of training on 2 ranks, before and after a change, in the folders before/ and after/.",
        run=_BEFORE,
        causes=(
            _Cause(
                what="Before, gradients are all-reduced after the backward pass; after, bucket by bucket during it.",
                finding="exposed-collective",
                commands=("weftrace diff {0}/before {0}/after",),
                without={"reduces_late": False},
            ),
        ),
        runs={"before": _BEFORE, "after": _AFTER},
    ),
}  # fmt: skip


def write_sample(name: Name, folder: str = "", *, seed: int = 0) -> Sample:
    """Simulate a sample and write its traces, and a text about what is planted, into a folder.

    folder: by default one with the sample's name. The same seed gives the same files. Raises `OutputError` where the
    folder holds anything but an earlier sample of this name.
    """
    home = Path(folder or name)
    recipe = _RECIPES[name]
    _check(home, name)
    sample = _sample(name, recipe, str(home), seed)
    text = [f"weftrace sample {name}: {recipe.what} Simulated, not measured."]
    text += [each.what for each in sample.planted]
    facts = {"sample": text[0], "planted": " ".join(text[1:]), "seed": str(seed)}
    facts |= {"record_shapes": "1", "with_stack": str(int(isinstance(recipe.run, Training)))}
    for part, run in recipe.runs.items():
        (home / part).mkdir(parents=True, exist_ok=True)
        for trace in _traces(run, seed, facts):
            write_chrome(trace, home / part / recipe.file.format(trace.rank))
    write_output(home / PLANTED, [summary(sample)])
    return sample


def summary(sample: Sample) -> str:
    """A sample in words, as it stands beside its files and in the terminal."""
    num = len(sample.planted)
    what = "1 cause is planted" if num == 1 else f"{num} causes are planted"
    step = duration(sample.step_ns) + _RECIPES[sample.name].mean_of
    lines = [
        f"weftrace sample {sample.name}",
        "",
        f"{sample.what} Simulated, not measured. A step takes {step}; {what}:",
    ]
    for number, each in enumerate(sample.planted, start=1):
        share = percent(each.cost_ns / sample.step_ns)
        lines += ["", f"{number}. {each.what}", f"   It costs {duration(each.cost_ns)} of a step ({share}). Find it:"]
        lines += [f"   {command}" for command in each.commands]
    return "\n".join(lines) + "\n"


def _sample(name: Name, recipe: _Recipe, folder: str, seed: int) -> Sample:
    step_ns = _step_ns(replace(recipe.run, seed=seed))
    planted = [
        Planted(
            what=cause.what, finding=cause.finding,
            commands=tuple(command.format(quote(folder)) for command in cause.commands),
            cost_ns=step_ns - _step_ns(replace(recipe.run, seed=seed, **cause.without)),
        )
        for cause in recipe.causes
    ]  # fmt: skip
    files = [str(Path(part) / recipe.file.format(rank)) for part, run in recipe.runs.items() for rank in run.ranks]
    return Sample(
        name=name, what=recipe.what, seed=seed, folder=folder, files=tuple(files), step_ns=step_ns,
        planted=tuple(sorted(planted, key=lambda each: -each.cost_ns)),
    )  # fmt: skip


def _traces(run: Training | Serving, seed: int, facts: Mapping[str, str]) -> list[Trace]:
    return replace(run, seed=seed).record().traces(**facts)


def _step_ns(run: Training | Serving) -> int:
    """The mean step of a run; of a server each prompt is a step too."""
    steps = run.steps if isinstance(run, Training) else run.decodes + len(run.prompts)
    return timetable(run.record().plan()).makespan_ns // steps


def _check(home: Path, name: Name) -> None:
    """A sample is written over an earlier one of its name, and over nothing else."""
    if home.exists() and not home.is_dir():
        raise OutputError(f"{home}: is a file; a sample goes into a folder.")
    if not home.is_dir() or not any(home.iterdir()):
        return
    about = home / PLANTED
    if not about.is_file() or not about.read_text("utf-8", "replace").startswith(f"weftrace sample {name}\n"):
        raise OutputError(f"{home}: holds files that are no earlier sample of {name}. Choose another folder.")
