"""Schedules as settings of Megatron-LM, torchtitan and DeepSpeed: what they run is the schedule, or it is refused.

The orders of Megatron-LM and DeepSpeed are written here once more, from their rules, action by action; torchtitan's are
those of torch's CSV. Held against the code of megatron-core 0.16.1, DeepSpeed 0.19.8 and torchtitan 0.3.0 by hand.
"""

from __future__ import annotations

import random
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import weftrace as wt
from tests.cli.test_cli import run as command
from weftrace.errors import ScheduleError
from weftrace.pipeline import (
    FAMILIES,
    Schedule,
    check,
    from_text,
    from_torch_csv,
    generate,
    to_deepspeed,
    to_megatron,
    to_torchtitan,
)
from weftrace.pipeline.exports.megatron import order_of
from weftrace.pipeline.exports.values import Export, layers_of_stages

__all__ = ["command"]  # the fixture


def actions(schedule: Schedule, rank: int) -> list[str]:
    return [str(action) for action in schedule.listed() if action.rank == rank]


def words(export: Export) -> dict[str, str]:
    """The arguments of a command, by name."""
    parts = shlex.split(export.text)
    pairs = zip(parts, [*parts[1:], "--"], strict=True)
    return {name: "" if value.startswith("--") else value for name, value in pairs if name.startswith("--")}


def megatrons(said: dict[str, str], many: int, rank: int) -> list[str]:
    """What Megatron-LM runs by its arguments. A virtual micro-batch k is number k of the table of (micro-batch, chunk);
    its backward is of the chunk that mirrors it."""
    size, turns = (
        int(said["--pipeline-model-parallel-size"]),
        int(said.get("--num-virtual-stages-per-pipeline-rank", 1)),
    )
    group = int(said.get("--microbatch-group-size-per-virtual-pipeline-stage", 1))
    overlaps = "--overlap-moe-expert-parallel-comm" in said
    table = [
        (number, turn)
        for start in range(0, many, group)
        for turn in range(turns)
        for number in range(start, min(start + group, many))
    ]
    ahead = size - rank - 1 if turns == 1 else 2 * (size - rank - 1) + (turns - 1) * group + overlaps
    ahead = min(ahead, len(table))

    def forward(k: int) -> str:
        return f"{table[k][1] * size + rank}F{table[k][0]}"

    def backward(k: int) -> str:
        return f"{(turns - 1 - table[k][1]) * size + rank}B{table[k][0]}"

    found = [forward(k) for k in range(ahead)]
    for k in range(len(table) - ahead):
        both = [forward(k + ahead), backward(k)]
        found += ["&".join(both)] if overlaps else both
    return found + [backward(k) for k in range(len(table) - ahead, len(table))]


def test_megatrons_arguments_run_the_schedule() -> None:
    """1F1B, interleaved with one to four stages per rank and any group, with F&B; each read off the arguments."""
    chance, tried = random.Random(3), set()
    for _ in range(60):
        size, turns, many = chance.randint(2, 5), chance.randint(1, 4), chance.randint(1, 12)
        group, overlaps = (chance.randint(1, 8), chance.random() < 0.5) if turns > 1 else (size, False)
        schedule = order_of(size, many, turns, group, overlaps=overlaps)
        if turns > 1 and (not size <= group <= many or 0 < many % group < size):
            with pytest.raises(ScheduleError):
                to_megatron(schedule)
            continue
        said = words(to_megatron(schedule))
        assert [megatrons(said, many, rank) for rank in range(size)] == [actions(schedule, r) for r in range(size)]
        check(schedule)
        tried.add((turns > 1, overlaps))
    assert tried == {(False, False), (True, False), (True, True)}
    for name in ("1f1b", "interleaved", "interleaved-fb"):  # as this house makes them
        assert to_megatron(generate(name, num_ranks=4, num_micro_batches=12)).framework == "megatron"


def test_megatrons_layout_has_the_layers_of_each_stage() -> None:
    layers = (1, 1, 1, 1, 3, 2, 2, 2, 2, 1, 1, 5)
    export = to_megatron(generate("interleaved", num_ranks=3, num_micro_batches=6, stages_per_rank=4), layers)
    layout = words(export)["--pipeline-model-parallel-layout"]
    assert layout == "Et|(t|)*3t*3|(t*2|)*4t|t|t*5L"
    unrolled = re.sub(r"\(([^)]+)\)\*(\d+)", lambda m: m[1] * int(m[2]), layout)  # as Megatron-LM reads it
    unrolled = re.sub(r"(.)\*(\d+)", lambda m: m[1] * int(m[2]), unrolled)
    assert tuple(stage.count("t") for stage in unrolled.split("|")) == layers
    assert "--num-virtual-stages-per-pipeline-rank" not in words(export)  # Megatron-LM takes one of the two
    even = words(to_megatron(order_of(3, 6, 4, 3, overlaps=False), (2,) * 12))
    assert (even["--num-layers"], even["--num-virtual-stages-per-pipeline-rank"]) == ("24", "4")


@pytest.mark.parametrize("name", ["zbv", "dualpipev", "interleaved", "1f1b"])
def test_torchtitan_loads_the_schedule_and_holds_its_stages(name: str) -> None:
    """Its configuration, run with classes that hold what they are given."""
    schedule = generate(name, num_ranks=3, num_micro_batches=7)
    layers = tuple(1 + stage % 2 for stage in range(schedule.num_stages))
    export = to_torchtitan(schedule, layers, csv="out/my.csv")
    code = export.text.replace("from torchtitan.config import ParallelismConfig, TrainingConfig", "")
    given: dict[str, Any] = {"ParallelismConfig": SimpleNamespace, "TrainingConfig": SimpleNamespace}
    exec(code, given)
    config = given["parallelism"]
    assert from_torch_csv(export.csv) == schedule
    assert (config.pipeline_parallel_degree, config.pipeline_parallel_schedule_csv) == (3, "out/my.csv")
    assert given["training"].local_batch_size // config.pipeline_parallel_microbatch_size == 7
    parts = config.module_fqns_per_model_part
    assert [sum(part.startswith("layers.") for part in stage) for stage in parts] == list(layers)
    assert parts[0][0] == "tok_embeddings" and parts[-1][-2:] == ["norm", "lm_head"]
    goes_back = config.pipeline_parallel_schedule == "ZBVZeroBubble"  # torchtitan places stages by this name
    assert goes_back or config.pipeline_parallel_schedule == ("1F1B" if len(parts) == 3 else "Interleaved1F1B")
    ranks = [*range(3), *range(3)[::-1]] if goes_back else [*range(3)] * (len(parts) // 3)
    assert schedule.rank_of == (tuple(ranks),)


def test_deepspeeds_order_is_1f1b() -> None:
    """A stage's forwards are two steps apart; the backward of the last stage follows its forward at once."""
    for size, many in ((1, 3), (4, 2), (4, 9)):
        schedule = generate("1f1b", num_ranks=size, num_micro_batches=many)
        for stage in range(size):
            steps = {2 * k + stage: f"{stage}F{k}" for k in range(many)}
            steps |= {2 * (size + k) - stage - 1: f"{stage}B{k}" for k in range(many)}
            assert actions(schedule, stage) == [steps[step] for step in sorted(steps)]
        text = to_deepspeed(schedule, [2, *[1] * (size - 1)]).text
        assert f"num_stages={size}" in text and f'"gradient_accumulation_steps": {many}' in text


REFUSED = {
    "its order is another one (rank 0, action 3: 0F3 against 0B0 there)": ("megatron", "gpipe"),
    "it splits backwards into I and W": ("megatron", "zb1p"),
    "stage s on rank s mod": ("megatron", "v-half"),
    "each stage is on 2 ranks": ("megatron", "dualpipe"),
    "its sequences are cut into slices": ("megatron", "seq1f1b"),
    "torch's stages do not carry keys": ("torchtitan", "seq1f1b"),
    "its order is 1F1B (rank 0, action 3: 0I0": ("deepspeed", "zb1p"),
    "it has one stage per rank; its DualPipeVModule": ("deepspeed", "dualpipev"),
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_a_framework_does_not_run_is_refused_with_the_first_difference(said: str) -> None:
    framework, name = REFUSED[said]
    export: Any = {"megatron": to_megatron, "torchtitan": to_torchtitan, "deepspeed": to_deepspeed}[framework]
    size = 4 if name == "dualpipe" else 3
    with pytest.raises(ScheduleError, match=re.escape(said)):
        export(generate(name, num_ranks=size, num_micro_batches=8))


def test_other_placements_orders_and_layers_are_refused() -> None:
    swapped = from_text("replica 0: 1 0\nrank 0: 1F0 1B0\nrank 1: 0F0 0B0")
    late = from_text("rank 0: 0F0 0F1 0B1 0B0\nrank 1: 1F0 1F1 1B1 1B0")
    offloaded = from_text("rank 0: 0F0^ 0B0")
    cannot_run = from_text("rank 0: 0F0 0B0 0F1 0B1\nrank 1: 1F0 1F1 1B0 1B1")
    four = generate("interleaved", num_ranks=2, num_micro_batches=4, stages_per_rank=4)
    refused: dict[str, Callable[[], Any]] = {
        "stages lie otherwise": lambda: to_megatron(swapped),
        "here they lie otherwise": lambda: to_torchtitan(swapped),
        r"rank 0, action 2: 0B1 against 0B0 there": lambda: to_megatron(late),
        "it offloads activations": lambda: to_megatron(offloaded),
        "wait for each other in a circle": lambda: to_deepspeed(cannot_run),
        "several stages per rank ask for two ranks": lambda: to_megatron(from_text("rank 0: 0F0 1F0 1B0 0B0")),
        "F&B ask for several stages": lambda: to_megatron(from_text("rank 0: 0F0 0F1&0B0 0B1")),
        "groups of micro-batches are 5, the last 3": lambda: to_megatron(order_of(4, 13, 2, 5, overlaps=False)),
        "it runs no pipeline": lambda: to_torchtitan(from_text("rank 0: 0F0 0B0")),
        "two stages per rank at most": lambda: to_torchtitan(four),
        "layers of 3 stages are given; the schedule has 8": lambda: to_megatron(four, (1, 2, 3)),
        "stage 1 has 0 layers": lambda: to_megatron(four, (1, 0, *[1] * 6)),
        "takes no list of layers, and its own are 2, 1": lambda: to_deepspeed(
            generate("1f1b", num_ranks=2, num_micro_batches=4), (1, 2)
        ),
    }
    for said, does in refused.items():
        with pytest.raises(ScheduleError, match=said):
            does()


def test_layers_are_read_as_recommend_prints_them() -> None:
    assert layers_of_stages("8", 4) == layers_of_stages("2,2,2,2", 4) == layers_of_stages("4 of 2", 4) == (2, 2, 2, 2)
    assert layers_of_stages("1 of 3, 2 of 1", 3) == (3, 1, 1)
    for text, said in {
        "9": "9 layers cannot be dealt out evenly to 4 stages",
        "0": "0 layers cannot be dealt out",
        "1,2": "layers of 2 stages are given; the schedule has 4",
        "999999 of 1": "layers of 5 stages are given",  # no list of a million is made
        "3 of": "not '3 of'",
        "": "not ''",
    }.items():
        with pytest.raises(ScheduleError, match=re.escape(said)):
            layers_of_stages(text, 4)


def test_every_family_is_exported_or_refused_and_saved(tmp_path: Path) -> None:
    """Never a surprise; the files say what the value says."""
    runs: dict[str, set[str]] = {"megatron": set(), "torchtitan": set(), "deepspeed": set()}
    exports: tuple[Any, ...] = (to_megatron, to_torchtitan, to_deepspeed)
    for name in FAMILIES:
        for to in exports:
            try:
                export = to(generate(name, num_ranks=4, num_micro_batches=8))
            except ScheduleError:
                continue
            runs[export.framework].add(name)
    assert runs["megatron"] == {"1f1b", "interleaved", "interleaved-fb"} and runs["deepspeed"] == {"1f1b"}
    assert runs["torchtitan"] == set(FAMILIES) - {"dualpipe", "seq1f1b"}
    export = to_torchtitan(generate("zbv", num_ranks=2, num_micro_batches=4))
    for suffix, text in ((".txt", export.text), (".csv", export.csv)):
        wt.save(export, tmp_path / f"x{suffix}")
        assert (tmp_path / f"x{suffix}").read_text() == text
    wt.save(export, tmp_path / "x.json")
    assert wt.load(tmp_path / "x.json") == export


def test_the_choice_of_recommend_is_exported_with_its_layers(
    command: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    costs, choice, csv = (tmp_path / name for name in ("costs.json", "choice.txt", "c.csv"))
    costs.write_text('{"F_ms": 1, "I_ms": 1, "W_ms": 1, "F&B_ms": 2.5}')
    size = ("--devices", "2", "--micro-batches", "4", "--layers", "5")
    only = ("--schedule", "interleaved-fb", "--search-seconds", "0")
    assert command("pipeline", "recommend", "--costs", costs, *size, *only, "-q", "-o", choice)[0] == 0
    export = ("pipeline", "export", choice, "--to")
    said = command(*export, "megatron")[1]
    (layout,) = re.findall(r"--pipeline-model-parallel-layout '(.+)'", said)
    assert "--num-layers 5\n" in said and layout.count("|") == 3
    assert "--num-layers 8\n" in command(*export, "megatron", "--layers", "8")[1]
    assert str(csv) in command(*export, "torchtitan", "-o", csv)[1]
    assert from_torch_csv(csv.read_text()).num_stages == 4
    for framework, what, reason in (
        ("deepspeed", choice, "has one stage per rank"),
        ("megatron", choice, "reads no CSV"),
    ):
        code, _, error = command("pipeline", "export", what, "--to", framework, "-o", csv)
        assert code == 2 and reason in error
