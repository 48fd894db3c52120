"""`weftrace experts` as a person meets it: what it prints and writes, and what it says of mistakes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import polars as pl
import pytest

from tests.cli.test_cli import Run, run
from weftrace.experts import generate_loads, read_loads, read_placement, save_loads
from weftrace.experts.outputs import PLACEMENT, REPLAY
from weftrace.files.documents import read_document
from weftrace.files.schemas import schema_for

__all__ = ["run"]  # the fixture

CLUSTER = ("--slots", "48", "--gpus", "8", "--nodes", "2", "--groups", "4")
SHAPE = (*CLUSTER, "--time-budget", "0")  # how good placements become is asked of the solvers' tests


@pytest.fixture
def loads(tmp_path: Path) -> Path:
    """12 windows of 3 layers of 32 experts."""
    path = tmp_path / "loads.npz"
    save_loads(generate_loads("real", 12, 3, 32, drift=0.8), path)
    return path


def read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def test_balance_prints_and_writes_a_placement(run: Run, loads: Path, tmp_path: Path) -> None:
    output, page, table = (tmp_path / f"placement.{suffix}" for suffix in ("json.gz", "html", "csv"))
    code, out, err = run("experts", "balance", loads, *SHAPE, "-o", output, "-o", page, "-o", table)
    assert code == 0, err
    for part in ("On the next window balancedness 0.", "the published EPLB by node", "Certificate", "Policy",
                 "Assumed: hardware: H800"):  # fmt: skip
        assert part in " ".join(out.split())
    assert "experts in order" not in out
    assert "\x1b[" not in out
    jsonschema.Draft202012Validator(schema_for(PLACEMENT).json_schema()).validate(read_document(output))
    assert f"wrote {output}" in err
    assert "<!doctype html>" in page.read_text()[:20].lower()
    slots = pl.read_csv(table)
    assert len(slots) == 3 * 48
    total = read_loads(loads).load_TLN.sum()
    assert slots["load"].sum() == pytest.approx(total)
    assert read_placement(output).balancedness(read_loads(loads).load_TLN.sum(axis=0)).mean() > 0.9


def test_json_on_stdout_stands_alone_and_quiet_says_nothing(run: Run, loads: Path, tmp_path: Path) -> None:
    code, out, _ = run("experts", "balance", loads, *SHAPE, "--json")
    assert code == 0
    assert json.loads(out)["schema"] == "weftrace.placement/1"
    code, out, _ = run("experts", "balance", loads, *SHAPE, "-q", "-o", tmp_path / "p.json")
    assert (code, out) == (0, "")
    assert (tmp_path / "p.json").is_file()


def test_inputs_are_never_overwritten(run: Run, loads: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    run("experts", "balance", loads, *SHAPE, "-q", "-o", old)
    folder = tmp_path / "recorded"
    folder.mkdir()
    (folder / "loads.json").write_text(json.dumps(read_loads(loads).load_TLN.tolist()))
    for arguments in (
        ("balance", loads, "--gpus", "8", "--from", old, "-o", old),
        ("balance", folder / "loads.json", *SHAPE, "-o", folder / "loads.json"),
        ("replay", folder, *CLUSTER, "-o", folder / "loads.json"),
    ):
        before = Path(arguments[-1]).read_bytes()
        code, out, err = run("experts", *arguments)
        assert (code, out) == (2, "")
        assert "never overwritten" in " ".join(err.replace("│", " ").split())
        assert Path(arguments[-1]).read_bytes() == before


def test_an_ending_that_is_not_written_is_refused_before_the_work(run: Run, loads: Path, tmp_path: Path) -> None:
    code, _, err = run("experts", "balance", loads, *SHAPE, "-o", tmp_path / "placement.xlsx")
    assert code == 2
    assert ".html, .csv, .json" in " ".join(err.replace("│", " ").split())


def test_balance_from_an_old_placement_moves_little(run: Run, loads: Path, tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    run("experts", "balance", loads, *SHAPE, "--last", "4", "-o", old)
    code, out, err = run(
        "experts", "balance", loads, "--gpus", "8", "--nodes", "2", "--groups", "4",
        "--from", old, "--max-moves", "10%", "--last", "1", "-o", new,
    )  # fmt: skip
    assert code == 0, err
    assert "Moves" in out
    moves = read(new)["moves"]
    assert 0 < moves["num_moves"] <= 0.1 * 3 * 48
    assert moves["after_balancedness"] > moves["before_balancedness"]


def test_one_window_is_a_fit_and_no_prediction(run: Run, loads: Path, tmp_path: Path) -> None:
    code, out, err = run("experts", "balance", loads, *SHAPE, "--window-steps", "12", "-o", tmp_path / "p.json")
    assert code == 0, err
    first = " ".join(out.split("\n\n")[1].split())
    assert first.startswith("Balancedness ") and "on the loads that it was planned on" in first
    assert first.endswith(": a fit, no prediction.")
    assert run("experts", "balance", loads, *SHAPE, "--window-steps", "12")[1].count("On the next window") == 0
    assert read(tmp_path / "p.json")["next_windows"] is None


def test_the_next_window_is_planned_on_as_many_windows_as_the_placement(run: Run, loads: Path, tmp_path: Path) -> None:
    run("experts", "balance", loads, *SHAPE, "--last", "3", "-q", "-o", tmp_path / "p.json")
    judged = read(tmp_path / "p.json")["next_windows"]
    assert (judged["look_back"], judged["windows"]) == (3, list(range(4, 12)))


@pytest.fixture
def numbered(tmp_path: Path) -> Path:
    """The same loads with the numbers that a recording gives: layers 3, 4 and 5, for the first three are dense."""
    path = tmp_path / "numbered.npz"
    save_loads(replace(generate_loads("real", 12, 3, 32, drift=0.8), layers=(3, 4, 5)), path)
    return path


def test_layers_keep_their_numbers_through_every_command(run: Run, loads: Path, numbered: Path, tmp_path: Path) -> None:
    old, new, table = tmp_path / "old.json", tmp_path / "new.json", tmp_path / "new.csv"
    code, out, err = run("experts", "balance", numbered, *SHAPE, "--pin", "5:12:3", "-o", old)
    assert code == 0, err
    document = read(old)
    assert document["layers"] == [3, 4, 5]
    assert [12 in row[18:24] for row in document["expert_of_slot"]][2]  # the third row is layer 5; GPU 3 has 18 to 23
    assert "(layer 5)" in out or "(layer 4)" in out or "(layer 3)" in out
    assert "(layer 0)" not in out and "(layer 1)" not in out
    again = ("--gpus", "8", "--nodes", "2", "--groups", "4", "--from", old, "--last", "1", "-o", new, "-o", table)
    for source in (numbered, loads):  # loads without numbers of their own take those of the placement
        code, _, err = run("experts", "balance", source, *again)
        assert code == 0, err
        assert read(new)["layers"] == [3, 4, 5]
        assert {move["layer"] for move in read(new)["moves"]["list"]} <= {3, 4, 5}
        assert set(pl.read_csv(table)["layer"]) == {3, 4, 5}


def test_layers_that_are_not_there_are_refused(run: Run, numbered: Path, tmp_path: Path) -> None:
    old, other = tmp_path / "old.json", tmp_path / "other.npz"
    run("experts", "balance", numbered, *SHAPE, "-q", "-o", old)
    save_loads(replace(read_loads(numbered), layers=(7, 8, 9)), other)
    code, _, err = run("experts", "balance", other, "--gpus", "8", "--nodes", "2", "--groups", "4", "--from", old)
    assert code == 3
    assert "loads are of 3 layers from 7 to 9" in " ".join(err.split())
    code, _, err = run("experts", "balance", numbered, *SHAPE, "--pin", "0:12:3")
    assert code == 2
    assert "the loads have no layer 0, but 3 to 5" in " ".join(err.replace("│", " ").split())


def test_a_re_plan_is_priced_with_its_own_model_or_not_at_all(run: Run, loads: Path, tmp_path: Path) -> None:
    """3 layers of 32 experts are no model that is known: nothing is priced until it is named."""
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    run("experts", "balance", loads, *SHAPE, "--last", "4", "-q", "-o", old)
    again = ("experts", "balance", loads, "--gpus", "8", "--nodes", "2", "--groups", "4", "--from", old, "--last", "1")
    code, out, err = run(*again, "-o", new)
    assert code == 0, err
    moves = read(new)["moves"]
    assert moves["num_moves"] > 0
    assert [moves[key] for key in ("bytes", "expert_bytes", "time_s", "saved_s_per_step", "break_even_steps")] == [
        None
    ] * 5
    assert "weights sent" not in out and "pays after" not in out
    assert "not priced" in out and "--model" in out
    for name, expert_bytes in (("qwen3-30b-a3b", 3 * 2048 * 768), ("1024x512", 3 * 1024 * 512)):
        code, out, err = run(*again, "--model", name, "--hardware", "A100", "-o", new)
        assert code == 0, err
        assert read(new)["moves"]["expert_bytes"] == 2 * expert_bytes  # BF16: an A100 computes no FP8
        assert "pays after" in out
        assert name in read(new)["moves"]["assumptions"][0]
    for name, text in (("gpt2", "gpt2 has no experts"), ("llama-9", "no model is called 'llama-9'")):
        code, _, err = run(*again, "--model", name)
        assert code in (2, 3) and text in " ".join(err.split())


def test_a_dead_gpu_is_evacuated(run: Run, loads: Path, tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    run("experts", "balance", loads, *SHAPE, "--policy", "global", "-o", old)
    code, _, err = run(
        "experts", "balance", loads, "--gpus", "8", "--nodes", "2", "--from", old, "--dead", "5", "-o", new
    )
    assert code == 0, err
    for layer in read(new)["expert_of_slot"]:
        assert layer[30:36] == [-1] * 6
        assert set(layer) >= set(range(32))


def test_options_reach_the_solver(run: Run, loads: Path, tmp_path: Path) -> None:
    output = tmp_path / "placement.json"
    code, _, err = run(
        "experts", "balance", loads, "--gpus", "8", "--slots-of-gpu", "6*7,4", "--speeds", "1*7,0.5", "--pin", "3:7",
        "--split", "uneven", "--time-budget", "0", "-o", output,
    )  # fmt: skip
    assert code == 0, err
    document = read(output)
    assert document["cluster"]["slots_of_gpu"] == [6] * 7 + [4]
    assert document["cluster"]["speed_of_gpu"] == [1] * 7 + [0.5]
    assert document["split"] == "uneven"
    assert all(3 in layer[42:46] for layer in document["expert_of_slot"])


def test_a_budget_is_shared_among_layers(run: Run, loads: Path, tmp_path: Path) -> None:
    output = tmp_path / "placement.json"
    code, _, err = run("experts", "balance", loads, "--gpus", "8", "--budget", "120", "-o", output)
    assert code == 0, err
    assert sum(expert >= 0 for layer in read(output)["expert_of_slot"] for expert in layer) <= 120


def test_replay_recommends_and_writes(run: Run, loads: Path, tmp_path: Path) -> None:
    output, page, table = (tmp_path / f"replay.{suffix}" for suffix in ("json", "html", "csv"))
    code, out, err = run(
        "experts",
        "replay",
        loads,
        *CLUSTER,
        "--windows",
        "2",
        "--intervals",
        "1,3",
        "-o",
        output,
        "-o",
        page,
        "-o",
        table,
    )
    assert code == 0, err
    assert "best" in out
    assert "baseline" in out
    document = read(output)
    jsonschema.Draft202012Validator(schema_for(REPLAY).json_schema()).validate(document)
    assert document["recommendation"]["text"].split(" would ")[0] in " ".join(out.split())
    assert "<!doctype html>" in page.read_text()[:20].lower()
    assert pl.read_csv(table)["solver"].to_list() == [row["solver"] for row in document["rows"]]


def test_demo_runs_by_itself(run: Run, tmp_path: Path) -> None:
    saved, page = tmp_path / "loads.npz", tmp_path / "demo.html"
    code, out, err = run("experts", "demo", "--layers", "2", "--windows", "8", "-o", saved, "-o", page)
    assert code == 0, err
    assert "weftrace experts replay" in out
    assert read_loads(saved).load_TLN.shape == (8, 2, 256)
    assert page.is_file()
    code, out, err = run("experts", "demo", "--layers", "2", "--windows", "8", "--json")
    assert code == 0, err
    assert json.loads(out)["num_layers"] == 2  # the placement alone, nothing is replayed


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--slots", "50", "--gpus", "8"), "50 slots cannot be shared evenly by 8 GPUs; 48 or 56 can"),
        (("--slots", "24", "--gpus", "8"), "32 experts"),
        (("--gpus", "8"), "give num_slots"),
        (("--slots", "48", "--gpus", "8", "--dead", "8"), "GPU 8 does not exist"),
        (("--slots", "48", "--gpus", "8", "--dead", "x"), "no list of GPUs"),
        (("--slots", "48", "--gpus", "8", "--pin", "3"), "no pin"),
        (("--slots", "48", "--gpus", "8", "--speeds", "fast"), "no number"),
        (("--slots", "48", "--gpus", "8", "--policy", "best"), "best"),
        (("--slots", "48", "--gpus", "8", "--split", "odd"), "odd"),
        (("--slots", "48", "--gpus", "8", "--hardware", "abacus"), "abacus"),
        (("--slots", "48", "--gpus", "8", "--from", "absent.json"), "absent.json: cannot be read"),
        (("--gpus", "8", "--from", "old.json", "--split", "uneven"), "a re-plan keeps the policy"),
    ],
)
def test_mistakes_are_told_in_words(run: Run, loads: Path, options: tuple[str, ...], text: str) -> None:
    code, _, err = run("experts", "balance", loads, *options)
    assert code == (3 if "absent.json" in options else 2)
    assert text in " ".join(err.replace("│", " ").split())
    assert "Traceback" not in err


def test_files_that_hold_no_loads_are_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "loads.json").write_text('[[1, 2], [3, "x"]]')
    code, _, err = run("experts", "balance", tmp_path / "loads.json", "--slots", "8", "--gpus", "2")
    assert code == 3
    assert "loads.json" in err
    assert "Traceback" not in err
