"""`weftrace critical-path` and `weftrace whatif` as a person meets them."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import polars as pl
import pytest

import weftrace as wt
import weftrace.advice
from tests.advice.runs import two_streams
from tests.cli.test_cli import Run, run
from tests.conftest import ROOT
from tests.tracefile import GEMM, TraceFile
from weftrace.advice.cli.whatif import complete_scale, complete_selector
from weftrace.advice.outputs import WHAT_IF
from weftrace.files.documents import read_document
from weftrace.files.schemas import schemas
from weftrace.plan import deepseek_training_layers

__all__ = ["run"]  # the fixture

SCHEMA_OF = {schema.schema: schema for schema in schemas()}


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of DeepSeek-V3's training layers, simulated."""
    path = tmp_path_factory.mktemp("advice") / "train.json.gz"
    wt.save(wt.simulate(deepseek_training_layers(1)), path)
    return path


def checked(path: Path) -> dict[str, Any]:
    document = read_document(path)
    jsonschema.validate(document, SCHEMA_OF[document["schema"]].json_schema())
    return document


def summary(text: str) -> str:
    """What a person reads, in one line."""
    return " ".join(text.replace("│", " ").replace("┃", " ").split())


def test_the_path_is_printed_with_the_sentence_and_the_replays_error_first(run: Run, train: Path) -> None:
    code, out, err = run("critical-path", train)
    assert code == 0, err
    title, sentence, replay, *_ = (summary(block) for block in out.split("\n\n"))
    assert title.startswith("weftrace critical-path · ") and title.endswith("NVIDIA H800 (simulated) · rank 0")
    assert " of the span: " in sentence and "on the critical path" in sentence
    assert replay.startswith("Replayed in ") and ", measured " in replay
    heads = [line for line in out.splitlines() if line.startswith(("By ", "Slack", "What the plan rests on"))]
    assert [head.split("  ")[0] for head in heads] == [
        "By class", "By phase", "By kernel", "By cause", "Slack", "What the plan rests on",
    ]  # fmt: skip
    assert "The replay keeps measured durations, one median each (gap 2.00 µs" in summary(out)
    assert "\x1b[" not in out


def test_a_path_is_written_and_read_back(run: Run, train: Path, tmp_path: Path) -> None:
    outputs = [tmp_path / f"path.{ending}" for ending in ("json.gz", "csv", "md")]
    code, out, err = run("critical-path", train, "-q", *(each for path in outputs for each in ("-o", path)))
    assert (code, out) == (0, ""), err
    document = checked(outputs[0])
    span = document["span_ns"]
    for by in ("by_class", "by_phase", "by_family", "by_kernel", "by_cause", "by_rank"):
        assert sum(row["time_ns"] for row in document[by]) == span, by
    assert sum(bar["time_ns"] for bar in document["waterfall"]) == document["replay"]["span_ns"]
    parts = pl.read_csv(outputs[1])
    assert (parts["until_ns"] - parts["from_ns"]).sum() == span
    assert set(parts["class"]) <= {row["name"] for row in document["by_class"]}
    markdown = outputs[2].read_text()
    assert markdown.startswith("**") and "| class | on the path | share |" in markdown
    again = wt.load(outputs[0])
    wt.save(again, tmp_path / "again.json")
    assert read_document(tmp_path / "again.json") == document


def test_the_trace_is_written_with_its_path(run: Run, train: Path, tmp_path: Path) -> None:
    output = tmp_path / "annotated.json.gz"
    code, _, err = run("critical-path", train, "-q", "-o", output)
    assert code == 0 and f"wrote {output}" in err
    with_path = json.loads(gzip.decompress(output.read_bytes()))["traceEvents"]
    assert {"weftrace: critical path", 0} <= {event["pid"] for event in with_path}
    document = tmp_path / "path.json"
    run("critical-path", train, "-q", "-o", document)
    with pytest.raises(wt.WeftraceError, match="holds no ops to draw"):
        wt.save(wt.load(document), tmp_path / "again-annotated.json")


@pytest.mark.parametrize("command", [["critical-path"], ["whatif", "--scale", "gemm=0.5"]])
def test_devices_that_seem_merged_into_one_are_doubted(run: Run, tmp_path: Path, command: list[str]) -> None:
    """Two processes, each of which called its own device 0: the order of their kernels is none that either had."""
    file = TraceFile().kernel(GEMM, 100, 10).kernel(GEMM, 110, 10)
    next(event for event in file.events if event["ts"] == 100 - 10)["pid"] = 2
    trace = file.write(tmp_path / "merged.json")
    name, *options = command
    code, out, _ = run(name, trace, *options)
    said = "everal devices may be merged onto device 0: processes 1, 2 launch on it"
    assert code == 0 and f"S{said}, so the answer is not reliable. Untrusted: " in summary(out)
    code, _, err = run(name, trace, *options, "--strict", "-q")
    assert code == 1 and f"s{said}" in err


def test_a_step_has_its_part_of_the_path(run: Run, tmp_path: Path) -> None:
    file = TraceFile()
    for step in range(3):
        file.host(f"ProfilerStep#{step}", 1000 * step, 1000)
        for at in range(3):
            file.kernel("gemm", 1000 * step + 100 + 302 * at, 300, launch=1000 * step + 20 + 5 * at)
    trace = file.write(tmp_path / "steps.json")
    whole = json.loads(run("critical-path", trace, "--json")[1])
    steps = [row["step"] for row in whole["steps"]]  # the path begins with the host, which is at step 1 already
    spans = [json.loads(run("critical-path", trace, "--json", "--step", step)[1])["span_ns"] for step in steps]
    assert steps == [1, 2] and sum(spans) == whole["span_ns"]
    code, out, err = run("critical-path", trace, "--step", 1)
    assert code == 0 and "In step 1, the host decides 99 % of the span" in summary(out), err
    code, _, err = run("critical-path", trace, "--step", 7)
    assert code == 3 and "step 7 is not on the critical path: it goes through 1, 2." in err


def test_a_plan_of_phases_is_smaller(run: Run, train: Path) -> None:
    by_level = [json.loads(run("critical-path", train, "--json", "--level", level)[1]) for level in ("kernel", "phase")]
    assert by_level[1]["num_ops"] < by_level[0]["num_ops"] / 5
    assert abs(by_level[1]["replay"]["error"]) < 0.01


def test_every_public_name_is_told_in_the_guides() -> None:
    guides = ("critical-path.md", "what-if.md", "stragglers.md", "advise.md")
    pages = "".join((ROOT / "docs" / name).read_text("utf-8") for name in guides)
    assert set(dir(wt.advice)) - set(re.findall(r"\w+", pages)) == set()


def test_a_change_is_tried_with_the_replays_error_beside_it(run: Run, train: Path, tmp_path: Path) -> None:
    output = tmp_path / "whatif.json"
    code, out, err = run("whatif", train, "--scale", "compute=0.5", "--scale", "communication.data=0.8", "-o", output)
    assert code == 0, err
    assert "compute ×0.5, communication.data ×0.8: " in summary(out) and " off the measurement" in out
    document = checked(output)
    assert document["changes"] == ["compute ×0.5", "communication.data ×0.8"]
    assert document["replayed_ns"] - document["after_ns"] == document["saved_ns"] > 0
    assert sum(row["time_ns"] for row in document["after"]) == document["after_ns"]
    assert WHAT_IF.document and json.loads(json.dumps(WHAT_IF.document(wt.load(output)))) == document


def test_all_changes_can_be_asked_for_at_once(run: Run, tmp_path: Path) -> None:
    two_streams(tmp_path)
    code, out, err = run(
        "whatif", tmp_path / "trace.json", "--no-barrier-wait", "--no-host-gaps", "--perfect-overlap",
        "--scale", "phase:mlp(F)0=0.9", "--sms", "112/20", "--json",
    )  # fmt: skip
    assert code == 0, err
    changes = json.loads(out)["changes"]
    assert changes[:3] == ["phase:mlp(F)0 ×0.9", "no barrier waits", "no host gaps"]
    assert "112" in changes[3] and changes[4] == "perfect overlap"


def test_the_host_of_a_simulated_run_is_not_there_to_be_changed(run: Run, train: Path) -> None:
    code, _, err = run("whatif", train, "--no-host-gaps")
    assert code == 2
    assert "no host thread" in summary(err)


def test_sensitivity_and_curves(run: Run, train: Path, tmp_path: Path) -> None:
    outputs = [tmp_path / f"sensitivity.{ending}" for ending in ("json", "csv", "md")]
    written = [each for path in outputs for each in ("-o", path)]
    code, out, err = run("whatif", train, "--sensitivity", "--curve", "communication", "--by", "5%", *written)
    assert code == 0, err
    assert "By kernel family 5 % faster" in summary(out) and "×0.5" in out
    document = checked(outputs[0])
    assert document["by"] == 0.05 and [curve["selector"] for curve in document["curves"]] == ["communication"]
    assert pl.read_csv(outputs[1])["selector"].to_list() == [row["selector"] for row in document["rows"]]
    assert "| ×0.5 |" in outputs[2].read_text()


@pytest.mark.parametrize(
    ("option", "begun", "completed"),
    [
        ("--scale", "communication.", "communication.data="),
        ("--scale", "ph", "phase:"),
        ("--scale", "gemm_fp", "gemm_fp8="),
        ("--scale", "ho", "host:"),
        ("--curve", "comp", "compute"),
        ("--remove", "op", "operator:"),
    ],
)
def test_selectors_are_completed(option: str, begun: str, completed: str) -> None:
    """A class or family that is to be scaled comes with the sign that its factor follows."""
    complete = {"--scale": complete_scale}.get(option, complete_selector)
    assert completed in complete(begun) and all(name.startswith(begun) for name in complete(begun))


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["whatif", "--scale", "comunication=0.5"], 2, "Did you mean communication?"),
        (["whatif", "--scale", "communication"], 2, "write what and how much, as in communication=0.5"),
        (["whatif", "--remove", "operator:aten::mm"], 2, "'operator:aten::mm' selects nothing in this trace"),
        (["whatif", "--no-blocking", "item"], 2, "is called 'item'; these block: none"),
        (["whatif", "--sms", "124"], 2, "write compute/communication, as in 124/8"),
        (["whatif"], 2, "say what to try"),
        (["whatif", "--sensitivity", "--no-host-gaps"], 2, "it tries each selection alone"),
        (["whatif", "--no-host-gaps", "--by", "1%"], 2, "needs --sensitivity"),
        (["whatif", "--no-host-gaps", "-o", "annotated.json.gz"], 2, "has no trace to be drawn into"),
        (["critical-path", "-o", "path.docx"], 2, ".csv"),
    ],
)
def test_wrong_usage_says_what_helps(run: Run, train: Path, arguments: list[str], code: int, says: str) -> None:
    command, *rest = arguments
    got, out, err = run(command, train, *rest)
    assert (got, out) == (code, "")
    assert says in summary(err)


@pytest.mark.parametrize("command", [["critical-path"], ["whatif", "--no-host-gaps"]])
def test_a_file_without_device_work_is_refused_in_a_sentence(run: Run, tmp_path: Path, command: list[str]) -> None:
    host = TraceFile().host("aten::mm", 0, 10, cat="cpu_op").write(tmp_path / "host.json")
    code, out, err = run(command[0], host, *command[1:])
    assert (code, out) == (3, "")
    assert "host.json: no work on a device is recorded" in err and err.count("\n") == 1


def test_strict_fails_where_the_replay_is_off(run: Run, train: Path, tmp_path: Path) -> None:
    assert run("critical-path", train, "--strict", "-q")[0] == 0
    late = TraceFile().kernel("a", 100, 50).kernel("b", 200, 100, stream=27, launch=150).write(tmp_path / "late.json")
    code, out, err = run("critical-path", late, "--strict")
    assert code == 1 and "--strict: the replay is not reliable: its span is −20.0 % off" in err
    assert "Take what follows for a hint." in summary(out)


@pytest.mark.parametrize("command", [["critical-path"], ["whatif", "--no-host-gaps"], ["whatif", "--sensitivity"]])
def test_no_answer_leads_where_the_replay_is_off(run: Run, tmp_path: Path, command: list[str]) -> None:
    """100 to 150 us on one stream, 200 to 300 on another, without a wait between them: the replay takes 160."""
    late = TraceFile().kernel("a", 100, 50).kernel("b", 200, 100, stream=27, launch=150).write(tmp_path / "late.json")
    leads = "The replay is off by 20.0 %, so the answer is not reliable: its span is −20.0 % off"
    name, *rest = command
    _, out, _ = run(name, late, *rest, "-o", tmp_path / "answer.html", "-o", tmp_path / "answer.json")
    assert out.split("\n\n")[1].replace("\n", "").startswith(leads)
    assert json.loads((tmp_path / "answer.json").read_text())["headline"].startswith(leads)
    assert "<h1>The replay is off by" in (tmp_path / "answer.html").read_text()


def test_ranges_and_python_frames_are_tried_from_the_command_line(run: Run, tmp_path: Path) -> None:
    """Of two kernels the second is launched after item() and a function of Python's."""
    file = TraceFile().kernel("a", 1_010, 50, launch=1_000).kernel("b", 1_160, 10, launch=1_150)
    file.host("aten::item", 1_005, 70, cat="cpu_op").host("cudaStreamSynchronize", 1_006, 60, cat="cuda_runtime")
    file.host("train.py(3): log", 1_080, 50, cat="python_function", **{"Python id": 1})
    path = file.write(tmp_path / "train.json")
    for asked, change, saved_us in (
        (["--no-blocking", "aten::item"], "no blocking in aten::item", 54),
        (["--scale", "host:^train.py=0"], "host:^train.py ×0", 50),
        (["--remove", "kernel:^b$"], "without kernel:^b$", 20),  # and its launch of 1, and the latency of 9
    ):
        code, _, err = run("whatif", path, *asked, "-o", tmp_path / "answer.json", "-q")
        assert code == 0, err
        document = checked(tmp_path / "answer.json")
        assert (document["changes"], document["saved_ns"] / 1_000) == ([change], saved_us)


def test_an_input_is_never_overwritten(run: Run, train: Path) -> None:
    for command in (["critical-path", train], ["whatif", train, "--no-host-gaps"]):
        before = train.read_bytes()
        code, _, err = run(*command, "-o", train)
        assert (code, train.read_bytes()) == (2, before) and "is an input" in summary(err)


def test_one_file_of_two_devices_is_one_file(run: Run, tmp_path: Path) -> None:
    file = TraceFile().kernel("a", 100, 50).kernel("b", 100, 60, device=1, launch=90)
    code, out, err = run("critical-path", file.write(tmp_path / "two.json"))
    assert code == 0, err
    assert "two.json · " in summary(out) and "2 ranks" in summary(out) and "more" not in summary(out)
