"""The recipes of CONTRIBUTING.md, each followed in a copy of the package: the files that they name are enough."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser import Open
from tests.conftest import ROOT


class Copy:
    """The package in a folder of links, of which a file becomes its own when it is written."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.by_hand = folder, set[str]()
        for home, _, names in os.walk(ROOT / "src/weftrace"):
            there = folder / Path(home).relative_to(ROOT)
            there.mkdir(parents=True)
            for name in names:
                if not name.endswith((".nbc", ".nbi")):
                    os.symlink(Path(home) / name, there / name)

    def write(self, file: str, text: str) -> None:
        self.by_hand.add(file)
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(text, encoding="utf-8")

    def insert(self, file: str, before: str, text: str) -> None:
        own = (self.folder / file).read_text("utf-8")
        assert own.count(before) == 1, f"{file} has {before!r} {own.count(before)} times"
        self.write(file, own.replace(before, text + before))

    def python(self, code: str) -> str:
        """What a program prints that imports the copy, and `run(*arguments)`, a command of weftrace's."""
        head = (
            "import sys, weftrace as wt\n"
            "from weftrace.cli.main import main\n"
            f"assert wt.__file__.startswith({str(self.folder)!r})\n"
            "def run(*arguments):\n"
            "    sys.argv = ['weftrace', *arguments]\n"
            "    try:\n        main()\n"
            "    except SystemExit as ended:\n        assert not ended.code, ended.code\n"
        )
        environment = {"PYTHONPATH": str(self.folder / "src"), "COLUMNS": "100", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, "-c", head + code], cwd=self.folder, env=environment, capture_output=True, text=True,
            timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


def check_number(copy: Copy, heading: str) -> None:
    """A recipe says how many files it takes, its test among them, and this is so."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    recipe = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    (summary,) = re.findall(r"^Files to edit: (\d+)", recipe, re.MULTILINE)
    assert len(copy.by_hand) + 1 == int(summary), sorted(copy.by_hand)
    for file in copy.by_hand:
        name = re.sub("|".join(NEW), "NAME", Path(file).name)
        assert name == "__init__.py" or name in recipe, f"the recipe does not name {name}"


#: What the recipes below make, which CONTRIBUTING calls NAME.
NEW = ("long_kernels", "census")


def test_a_kernel_rule(copy: Copy) -> None:
    rule = """[[rule]]
name = "weaver"
kind = "compute"
family = "weaving"
match = '^weaver_(?:up|down)_kernel'
source = "a recipe"

"""
    first = '[[rule]]\nname = "sim_notify_dispatch"'
    copy.insert("src/weftrace/trace/kernels.toml", first, rule)
    summary = copy.python("""
import polars as pl
from weftrace.trace.kernels import classify, load_rules
found = classify(pl.Series(["weaver_up_kernel<float>", "weaver_sideways_kernel"], dtype=pl.Categorical()), load_rules())
print(found["family"].to_list())
""")
    assert summary.strip() == "['weaving', 'other']"
    check_number(copy, "To add a kernel rule")


LONG_KERNELS = '''"""Which kernels took longest at once?"""

from __future__ import annotations

from typing import Annotated, TypedDict

import polars as pl
from msgspec import Meta

from weftrace.files.columns import Shown
from weftrace.files.schemas import Count
from weftrace.trace.work import Work


class LongKernelRow(TypedDict):
    """A kernel that ran for a microsecond or more, longest first."""

    name: Annotated[str, Meta(description="As the profiler wrote it."), Shown("kernel", wide=True)]
    stream: int | None
    dur_ns: Annotated[Count, Meta(description="From its start to its end."), Shown("took")]
    span_share: Annotated[float, Meta(ge=0, description="dur_ns / the device's span."), Shown("of the span")]


def long_kernels(work: Work) -> pl.DataFrame:
    """Frame of `LongKernelRow`s."""
    dur_ns = pl.col("end_ns") - pl.col("start_ns")
    span_ns = max(1, work.end_ns - work.start_ns)
    long = work.events.filter(dur_ns >= 1_000).sort(dur_ns, descending=True)
    return long.select(pl.col("name").cast(pl.String), "stream", dur_ns=dur_ns, span_share=dur_ns / span_ns)
'''


def test_an_analysis_with_a_table(copy: Copy, open_html: Open) -> None:
    copy.write("src/weftrace/analysis/long_kernels.py", LONG_KERNELS)
    registry = "src/weftrace/analysis/rank_tables.py"
    own = (ROOT / registry).read_text("utf-8")
    line = '\n    "long_kernels": RankTable("Longest kernels", LongKernelRow, long_kernels),'
    own = re.sub(r"(?m)^(TABLES\b.* = \{)(\})?$", lambda found: found[1] + line + ("\n}" if found[2] else ""), own)
    own = own.replace(
        "from weftrace.trace.work",
        "from weftrace.analysis.long_kernels import LongKernelRow, long_kernels\nfrom weftrace.trace.work",
    )
    copy.write(registry, own)
    shown = copy.python("""
run("demo", "-o", "demo.html", "-o", "demo.json")
report = wt.load("demo.json")
rows = report.document["ranks"][0]["tables"]["long_kernels"]
assert rows[0]["dur_ns"] == max(row["dur_ns"] for row in rows) and 0 < rows[0]["span_share"] < 1
from weftrace.files.schemas import schemas
schema = {each.schema: each for each in schemas()}["weftrace.report/1"].json_schema()
assert schema["$defs"]["LongKernelRow"]["properties"]["dur_ns"]["description"] == "From its start to its end."
""")
    shown = shown[shown.index("Longest kernels") :]
    assert re.match(r".*the first 12 of \d+\s+kernel +stream +took \w+ +of the span\s", shown), shown
    page = open_html((copy.folder / "demo.html").read_text("utf-8"))
    table = page.locator("#tables [data-table=long_kernels]")
    assert "took" in table.locator("th").all_inner_texts()[2] and table.locator("tbody tr").count() > 3
    assert page.locator("#definition-list").get_by_text("From its start to its end.").count() == 1
    check_number(copy, "To add an analysis")


def test_a_pipeline_schedule(copy: Copy) -> None:
    generators, laws = "src/weftrace/pipeline/generators/", "src/weftrace/pipeline/laws/by_schedule.py"
    copy.insert(
        f"{generators}one_stage.py",
        "def _to_the_end(",
        '''def late_w(num_stages: int, num_micro_batches: int) -> Schedule:
    """ZB1P whose weight gradients all wait for the end. Every rank holds all micro-batches."""
    need_counts("late W", num_stages=num_stages, num_micro_batches=num_micro_batches)
    sweeps: dict[Direction, OfRanks] = {"F": 0, "I": _to_the_end(num_stages), "W": num_stages + num_micro_batches}
    return _schedule("late W", num_stages, num_micro_batches, sweeps)


''',
    )
    families = f"{generators}families.py"
    copy.insert(
        families,
        '    Family(\n        name="zb2p"',
        """    Family(
        name="late-w",
        title="late W",
        make=late_w,
        splits=True,
        description="1F1B, and all weight gradients at the end",
        source="a recipe",
    ),
""",
    )
    own = (copy.folder / families).read_text("utf-8")
    copy.write(families, own.replace("import gpipe, one_f", "import gpipe, late_w, one_f"))
    copy.insert(laws, '    "zb2p": Formulas(', '    "late-w": Formulas(barrier=bubbles.ZB1P, peak=peaks.ALL),\n')
    summary = copy.python("""
run("pipeline", "compare", "--stages", "4", "--micro-batches", "8", "-o", "compared.json")
run("pipeline", "show", "late-w", "--stages", "4", "--micro-batches", "8", "-q", "-o", "late.html", "-o", "late.svg")
from weftrace.pipeline import check, generate
check(generate("late-w", num_ranks=4, num_micro_batches=8))
""")
    assert "late W" in summary and "4 F&" not in summary
    check_number(copy, "To add a pipeline schedule")


CENSUS = {
    "__init__.py": '"""How many events of each category a trace has."""\n',
    "counting.py": '''"""How many events of each category?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypedDict

import polars as pl
from msgspec import Meta

from weftrace.files.schemas import Count
from weftrace.files.values import As
from weftrace.trace import Trace


class CategoryRow(TypedDict):
    """Events of one category."""

    category: str
    num_events: Count


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Census:
    """Events of a trace by category."""

    source: Annotated[str, Meta(description="The trace's file.")]
    categories: Annotated[pl.DataFrame, As(list[CategoryRow])]


def census(trace: Trace) -> Census:
    """The census of a trace."""
    counts = trace.events.group_by(category=pl.col("cat").cast(pl.String)).agg(num_events=pl.len().cast(pl.Int64))
    return Census(source=trace.path, categories=counts.sort("num_events", "category"))
''',
    "outputs.py": '''"""What can be done with a census."""

from __future__ import annotations

from rich.console import Console

from weftrace.census.counting import CategoryRow, Census
from weftrace.outputs import Output
from weftrace.render.console_parts import rows_table


def _show(found: Census, console: Console) -> None:
    console.print(rows_table(CategoryRow, found.categories.to_dicts(), console.width))


OUTPUTS = (
    Output(
        value=Census,
        schema="weftrace.census/1",
        title="Events of a trace by category",
        show=_show,
        table=lambda found: found.categories,
    ),
)
''',
    "cli/__init__.py": "",
    "cli/app.py": '''"""`weftrace census`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from weftrace.cli import outputs
from weftrace.cli.requests import command_of
from weftrace.options import Option


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A trace."""

    trace: Annotated[str, Option("The trace.", is_argument=True, metavar="TRACE")]


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("census")(command_of((Request, outputs.Destination), run, without=("open",)))


def run(request: Request, to: outputs.Destination) -> None:
    """Count the events of a trace by category."""
    import weftrace
    from weftrace.census.counting import census
    from weftrace.census.outputs import OUTPUTS

    wanted = to.wanted(writes=OUTPUTS[0], inputs=[request.trace])
    outputs.deliver(census(weftrace.open(request.trace)), OUTPUTS[0], wanted)
''',
}


def test_a_wing(copy: Copy) -> None:
    for file, text in CENSUS.items():
        copy.write(f"src/weftrace/census/{file}", text)
    copy.insert("src/weftrace/wings.py", '    Wing("capture"', '    Wing("census"),\n')
    (copy.folder / "pyproject.toml").symlink_to(ROOT / "pyproject.toml")
    copy.insert("pyproject.toml", "(weftrace.experts) | (weftrace.flops)", "(weftrace.census) | ")
    shown = copy.python("""
run("demo", "-q", "-o", "demo.trace.json.gz")
run("census", "demo.trace.json.gz", "-o", "census.json", "-o", "census.csv")
found = wt.load("census.json")
wt.show(found)
""")
    assert shown.count("category") == 2 and "kernel" in (copy.folder / "census.csv").read_text()
    lint = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    summary = subprocess.run(
        [sys.executable, "-c", lint, "--no-cache"], cwd=copy.folder, env={"PYTHONPATH": str(copy.folder / "src")},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert "0 broken" in summary.stdout, summary.stdout
    check_number(copy, "To add a wing")
