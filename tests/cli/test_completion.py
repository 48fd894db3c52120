"""Names that the shell completes: which, and that nothing heavy is imported for them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from weftrace.advice.changes import SCALABLE
from weftrace.advice.findings.registry import RULES
from weftrace.cli import completion
from weftrace.comparison.gates import FIGURES
from weftrace.experts.constraints import SPLITS
from weftrace.experts.recorded.estimators import ESTIMATORS
from weftrace.experts.replays.replay import SOLVERS
from weftrace.experts.solvers.candidates import POLICIES
from weftrace.moe.costs.levels import LEVELS
from weftrace.pipeline.generators.families import FAMILIES
from weftrace.questions.columns import TABLES
from weftrace.trace import load_rules

LINES = {
    "pi": "pipeline",
    "pipeline show d": "dualpipe dualpipev",
    "pipeline compare --schedule zb": "zb1p zb2p zbv",
    "pipeline recommend --hardware h2": "h200 h20",
    "whatif t.json --schedule v-": "v-half v-min",
    "whatif t.json --scale gemm_fp": "gemm_fp4= gemm_fp8=",
    "report t.json --hardware H80": "H800",
    "report t.json --fail-below te": "tensor-cores=",
    "report t.json --step-events ": "window launch",
    "t.json --step-e": "--step-events",
    "diff a b --fail-above exp": "exposed= exposed:",
    "diff a b --fail-above family:gemm_fp": "family:gemm_fp4= family:gemm_fp8=",
    "advise t.json --gate host-bound,sync-e": "host-bound,sync-every-step",
    "annotate t.json --hardware h80": "h800",
    "flops llama-3-7": "llama-3-70b",
    "flops gpt2 --phase d": "decode",
    "flops diff a.json b.json --fail": "--fail-above",
    "profile decode --costs r": "roofline",
    "profile train --overlap five": "five-stages",
    "experts balance loads.json --policy s": "semi-hierarchical",
    "experts replay loads.json --solvers deepseek,r": "deepseek,replan",
    "query --schema ga": "gaps",
    "query ga": "",
    "sample j": "job",
}


def test_names_are_completed_without_heavy_imports() -> None:
    """One process for all lines, as if a shell had asked each; what the words name is not imported for any."""
    code = f"""
import os, sys
from weftrace.cli.main import main
sys.argv = ["weftrace"]
for line in {list(LINES)!r}:
    words = ["weftrace", *line.split(" ")]
    os.environ.update(_WEFTRACE_COMPLETE="complete_bash", COMP_WORDS="\\n".join(words), COMP_CWORD=str(len(words) - 1))
    try:
        main()
    except SystemExit:
        print("---")
heavy = {{"numpy", "polars", "numba", "torch", "jinja2", "plotly", "fsspec"}} & set(sys.modules)
print(*heavy)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120, env=os.environ
    )
    *found, heavy = done.stdout.split("---\n")
    assert {line: " ".join(words.split()) for line, words in zip(LINES, found, strict=True)} == LINES
    assert heavy.split() == []


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (completion.SCHEDULES, FAMILIES),
        (completion.POLICIES, ("auto", *POLICIES)),
        (completion.SPLITS, SPLITS),
        (completion.ESTIMATORS, ESTIMATORS),
        (completion.SOLVERS, SOLVERS),
        (completion.CLASSES, SCALABLE),
        (completion.TABLES, TABLES),
        (completion.FIGURES, [f"{figure.name}{':' if figure.takes else '='}" for figure in FIGURES]),
        (completion.among("roofline", "published")(""), LEVELS),
        (completion.families(), {rule.family for rule in load_rules().rules}),
        (completion.ids_of_rules(""), ("all", *(rule.id for rule in RULES))),
    ],
)  # fmt: skip
def test_the_words_are_the_names_of_what_they_stand_for(words: list[str], names: list[str]) -> None:
    assert sorted(words) == sorted(names)
