"""Do two versions of the command line write the same documents? For changes that must not change a number.

    python -m tests.same_documents OLD/.venv/bin/weft .venv/bin/weftrace

Each of the two runs the same cases: reports of the simulated chunk and of every recorded trace at hand, critical paths
and changes of some, two jobs compared, questions in SQL, placements, re-plans and replays of made loads, costs of
models, pipelines planned and measured. Their JSON is compared value by value, and a table in CSV line by line. Names
count as equal where they differ by the package's name alone (weft, weftrace), numbers where they differ by the order
of a sum alone; fields that only the second writes are listed, not compared.
Prints a line a document; exits with 1 where any differs.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.comparison.written import write_pair
from tests.conftest import shared_data_folder
from tests.pipeline.measured.rank_traces import write_ranks
from weftrace import save
from weftrace.pipeline import Costs, generate, simulate

#: How the command lines before weftrace had that name were asked for a document on standard output.
OLD_JSON = {
    "report": ["--quiet", "--json", "-"],
    "demo": ["--json", "-"],
    "flops": ["--quiet", "--json", "-"],
    "experts": ["-o", "-"],
}
MEASURED = {"plan_ms"}
_PLACE = ["--slots", "288", "--gpus", "32", "--nodes", "4", "--groups", "8"]
_META = ["--device", "meta"]
QUESTIONS = {
    "sums": "select rank, kind, family, count(*) as number, sum(own_ns) as own_ns from work"
    " group by rank, kind, family order by rank, kind, family",
    "join": "select w.rank, w.step, w.name, w.dur_ns, w.exposed_ns, e.occupancy from work w"
    " join events e on w.event = e.event and w.rank = e.rank order by w.rank, w.event",
}


@dataclass(slots=True)
class Difference:
    """What a comparison found. num: values compared. unlike: where they differ. added: paths only the second has."""

    num: int = 0
    unlike: list[str] = field(default_factory=list)
    added: set[str] = field(default_factory=set)


def cases(folder: Path, program: str) -> Iterator[tuple[str, list[str]]]:
    """(name, arguments) of every document. folder: as `make_inputs` leaves it."""
    yield "demo", ["demo"]
    yield "demo of 9 layers", ["demo", "--layers", "9"]
    data = shared_data_folder()
    for path in sorted(data.iterdir()) if data.is_dir() else ():
        if path.name.endswith((".json.gz", ".json")) or path.is_dir():
            yield f"report {path.name}", ["report", str(path)]
            if path.name.startswith(("deepseek", "hta-event-sync", "tracelens-vllm-decode")):
                yield f"critical-path {path.name}", ["critical-path", str(path)]
                yield f"whatif {path.name}", ["whatif", str(path), "--scale", "compute=0.5", "--no-host-gaps"]
                yield f"whatif --sensitivity {path.name}", ["whatif", str(path), "--sensitivity", "--curve", "compute"]
    if data.is_dir():
        yield "critical-path --check", ["critical-path", "--check", *map(str, sorted(data.glob("hta-*.gz")))]
    yield "diff of two jobs", ["diff", str(folder / "before"), str(folder / "after")]
    for name, question in QUESTIONS.items():
        yield f"query {name}", ["query", str(folder / "before"), question, "-o", str(folder / f"{name}.csv")]
    loads = str(folder / "loads.npz")
    for name, options in {
        "": [],
        " uneven": ["--split", "uneven"],
        " global": ["--policy", "global"],
        " dead, draining, speeds": ["--policy", "global", "--dead", "5", "--draining", "6", "--speeds", "1*31,0.8"],
        " re-plan": ["--from", str(folder / f"{Path(program).name}.json"), "--last", "3", "--max-moves", "6%"],
    }.items():
        yield f"experts balance{name}", ["experts", "balance", loads, *_PLACE, *options]
    yield "experts replay", ["experts", "replay", loads, *_PLACE, "--intervals", "2", "--windows", "4"]
    yield "experts demo", ["experts", "demo", "--layers", "3", "--windows", "8"]
    for model, options in {
        "bert-large": ["--input", "80x128", "--masked-positions", "1159"],
        "gpt2": ["--input", "2x64", "--backward", "--optimizer", "adamw"],
        "llama-3-8b": ["--phase", "decode", "--batch", "8", "--context", "4096", "--hardware", "h100"],
        "mixtral-8x7b": ["--input", "1x512", "--backward"],
        "deepseek-v3": ["--phase", "decode", "--batch", "128", "--context", "4096", "--hardware", "h800"],
    }.items():
        yield f"flops {model}", ["flops", model, *_META, *options]
    yield "flops sweep", ["flops", "llama-3-8b", *_META, "--phase", "decode", "--context", "512", "--sweep",
                          "batch=1,8", "--hardware", "h100"]  # fmt: skip
    for name, options in {
        "train": ["--ranks", "4", "--routing", "random", "--spread", "0.5", "--layers", "3"],
        "train stretched": ["--contention"],
        "prefill fused": ["--comm", "fused", "--layers", "2"],
        "prefill swept": ["--sweep", "ep=8,16,7,32", "--sweep", "overlap=none,two-micro-batches"],
        "decode": ["--ep", "64", "--sequence", "8192"],
        "pays": ["decode", "--batch", "8..64"],
    }.items():
        yield f"profile {name}", ["profile", name.partition(" ")[0], *options]
    if (measured := data / "deepseek-v3-train.json.gz").is_file():
        yield "profile calibrate", ["profile", "calibrate", str(measured)]
        yield "profile validate", ["profile", "validate", str(measured), str(measured)]
    for name, options in {
        "compare": ["--stages", "8", "--micro-batches", "20"],
        "compare at equal devices": [
            "--devices",
            "8",
            "--micro-batches",
            "32",
            "--memory-cap",
            "9",
            "--costs",
            "COSTS",
        ],
        "recommend": ["--devices", "8", "--micro-batches", "32", "--costs", "COSTS"],
        "show": ["dualpipe", "--stages", "4", "--micro-batches", "8", "--costs", "COSTS"],
        "step": ["--stages", "16", "--micro-batches", "120", "--ranks", "2048", "--costs", "COSTS"],
    }.items():
        named = [str(folder / "costs.json") if each == "COSTS" else each for each in options]
        yield f"pipeline {name}", ["pipeline", name.partition(" ")[0], *named]
    for name in ("", " --costs-from-run"):
        yield (
            f"pipeline slip{name}",
            ["pipeline", "slip", str(folder / "plan.txt"), str(folder / "steps"), *name.split()],
        )


def document(program: str, arguments: list[str]) -> Any:
    """What a command writes to standard output, decoded; what it says where it refuses its input."""
    is_old = Path(program).name == "weft"
    done = subprocess.run(
        [program, *arguments, *(OLD_JSON[arguments[0]] if is_old else ["--json"])], capture_output=True, text=True
    )
    if done.returncode:
        return {"exit": done.returncode, "stderr": done.stderr.strip()[-500:]}
    document = json.loads(done.stdout)
    table = arguments[-1] if arguments[-1].endswith(".csv") else None
    return {"document": document, "csv": Path(table).read_text().splitlines()} if table else document


def compare(one: Any, other: Any, found: Difference, path: str = "") -> Difference:
    """Everything in `one` must be in `other`, equal but for the package's name."""
    if isinstance(one, dict) and isinstance(other, dict):
        renamed = {_renamed(key): value for key, value in one.items()}
        for key, value in renamed.items():
            if key not in other:
                found.unlike.append(f"{path}.{key} is missing")
            elif key in MEASURED or (
                path in ("", ".document") and key == "weftrace"
            ):  # a time of this very run; the version
                continue
            else:
                compare(value, other[key], found, f"{path}.{key}")
        found.added.update(re.sub(r"\[\d+\]", "[]", f"{path}.{key}") for key in other.keys() - renamed.keys())
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, pair in enumerate(zip(one, other, strict=True)):
            compare(*pair, found, f"{path}[{number}]")
    else:
        found.num += 1
        if type(one) is not type(other) or not _equal(one, other):
            first, second = str(_renamed(one)), str(_renamed(other))
            pairs = enumerate(zip(first, second, strict=False))
            at = max(0, next((at for at, (old, new) in pairs if old != new), 0) - 20)
            found.unlike.append(f"{path}: {first[at : at + 60]} became {second[at : at + 60]}")
    return found


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, float):
        return math.isclose(one, other, rel_tol=1e-12)
    return bool(_renamed(one) == _renamed(other))


def _renamed(value: Any) -> Any:
    return re.sub(r"\bweft(?!race)", "weftrace", value) if isinstance(value, str) else value


def main(before: str, after: str) -> int:
    """Compare all cases; the exit code."""
    num_unlike = 0
    with tempfile.TemporaryDirectory() as folder:
        make_inputs(before, Path(folder))
        both = zip(cases(Path(folder), before), cases(Path(folder), after), strict=True)
        for (name, old), (_, new) in both:
            found = compare(document(before, old), document(after, new), Difference())
            num_unlike += bool(found.unlike)
            summary = "equal" if not found.unlike else f"{len(found.unlike)} DIFFER, first {found.unlike[0]}"
            added = f"; new fields: {', '.join(sorted(found.added))}" if found.added else ""
            print(f"{name:<44} {found.num:>9,} values {summary}{added}", flush=True)
    print(f"{num_unlike} documents differ" if num_unlike else "all documents are equal")
    return int(num_unlike > 0)


def make_inputs(program: str, folder: Path) -> None:
    """Loads of 4 layers over 12 windows, and a placement made of them, under both names of the package; costs;
    traces of two jobs; a planned pipeline and the traces of its ranks, each action a tenth longer."""
    is_old = Path(program).name == "weft"
    loads, placement = str(folder / "loads.npz"), folder / "weft.json"
    made = ["experts", "demo", "--layers", "4", "--windows", "12"]
    subprocess.run([program, *made, *(["--save", loads] if is_old else ["-o", loads])], check=True, capture_output=True)
    balanced = ["experts", "balance", loads, *_PLACE, "-o", str(placement)]
    subprocess.run([program, *balanced], check=True, capture_output=True)
    costs = {"F_ms": 97.4, "I_ms": 111.6, "W_ms": 29.8, "F&B_ms": 129.0, "latency_us": 40}
    (folder / "costs.json").write_text(json.dumps(costs))
    write_pair(folder)
    plan = simulate(generate("dualpipe", num_ranks=4, num_micro_batches=8), Costs.units(W=0.5, FB=2, latency=0.1))
    save(plan.schedule, folder / "plan.txt")
    num = len(plan.schedule)
    start, end = (times[:num] * 11 // 10 for times in (plan.times.start_ns, plan.times.end_ns))
    write_ranks(folder / "steps", plan.schedule, [(start, end)])
    (folder / "weftrace.json").write_text(re.sub(r"\bweft(?!race)", "weftrace", placement.read_text()))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
