"""Scripts that do not know weftrace, run under a DeepSpeed block: what is printed, when, how often, how they end."""

from __future__ import annotations

import io
import json
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest
from torch.nn.modules import module as hooks
from torch.optim import optimizer as optimizers
from torch.utils._python_dispatch import _get_current_dispatch_mode

import weftrace
from tests.conftest import ROOT
from tests.flops.deepspeed.parse import HEADINGS, LABELS, aggregated, field, labels_in_order, modules, value
from tests.flops.deepspeed.test_config import SAMPLE
from tests.flops.deepspeed.tiny_gpt import BLOCK_MACS, MACS
from weftrace.costs.cost import Phase
from weftrace.errors import FlopsError, OutputError
from weftrace.flops.deepspeed.config import DeepSpeedFlopsConfig, read_deepspeed_config
from weftrace.flops.deepspeed.runtime.script import own_traceback, run_script
from weftrace.flops.derived.tally import totals
from weftrace.flops.values import FlopsReport

ON = DeepSpeedFlopsConfig(enabled=True)
PACKAGE = Path(weftrace.__file__).resolve().parent

SMALL = """
import argparse, sys, torch
from torch import nn
import helper                                    # stands next to the script

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--accumulate", type=int, default=1)
    asked = parser.parse_args()
    model = helper.build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(asked.steps):
        for _ in range(asked.accumulate):
            nn.functional.mse_loss(model(torch.ones(3, 4)), torch.zeros(3, 2)).backward()
        optimizer.step()
        optimizer.zero_grad()
        print("step", step, "done")

if __name__ == "__main__":
    main()
"""
HELPER = """
from torch import nn

def build():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
"""


def write(folder: Path, text: str, name: str = "train.py") -> Path:
    (folder / name).write_text(dedent(text))
    return folder / name


@pytest.fixture
def small(tmp_path: Path) -> Path:
    write(tmp_path, HELPER, "helper.py")
    return write(tmp_path, SMALL)


def ran(
    script: Path, *argv: str, config: DeepSpeedFlopsConfig = ON, model: str | None = None
) -> tuple[FlopsReport, str]:
    """(report, messages) of a script that is profiled; nothing is left behind."""
    report, messages = ran_or_not(script, *argv, config=config, model=model)
    assert report is not None, messages
    return report, messages


def ran_or_not(
    script: Path, *argv: str, config: DeepSpeedFlopsConfig = ON, model: str | None = None
) -> tuple[FlopsReport | None, str]:
    """The same of one that may not be."""
    messages = io.StringIO()
    before = sys.argv, list(sys.path), sys.modules["__main__"]
    report = run_script(script, list(argv), config, model=model, messages=messages)
    assert (sys.argv, sys.path, sys.modules["__main__"]) == before
    assert_clean()
    sys.modules.pop("helper", None)
    return report, messages.getvalue()


def assert_clean() -> None:
    assert not hooks._global_forward_hooks
    assert not hooks._global_forward_pre_hooks
    assert not optimizers._global_optimizer_pre_hooks
    assert not optimizers._global_optimizer_post_hooks
    assert _get_current_dispatch_mode() is None


def test_the_published_block_on_a_tiny_gpt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fields, order and units as in DeepSpeed's text; the second step is profiled; accumulation prints once."""
    (tmp_path / "ds.json").write_text(SAMPLE)
    root = ROOT
    script = write(
        tmp_path,
        f"""
        import sys
        sys.path.insert(0, {str(root)!r})
        import torch
        from torch.nn import functional as F
        from tests.flops.deepspeed.tiny_gpt import GPT, V, ids
        model = GPT(own_head=True)                       # a product in the root's own forward
        optimizer = torch.optim.AdamW(model.parameters())
        for step in range(5):
            for micro in range(3):
                F.cross_entropy(model(ids()).view(-1, V), ids().view(-1)).backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
    )
    report, messages = ran(script, config=read_deepspeed_config(tmp_path / "ds.json"))
    text = capsys.readouterr().out
    assert messages == ""
    assert text.count(HEADINGS[0]) == 1
    found = labels_in_order(text)
    assert len(found) == len(LABELS)
    assert found == sorted(found)
    places = [text.index(heading) for heading in HEADINGS]
    assert places == sorted(places)
    assert "Profile Summary at step 1:" in text

    assert report.micro_batches == 3
    assert value(field(text, "fwd MACs per GPU: ")) == pytest.approx(3 * MACS, rel=0.01)
    assert value(field(text, "fwd flops per GPU: ")) == pytest.approx(6 * MACS, rel=0.01)
    assert field(text, "micro-batches in the step .*: ") == "3"
    assert field(text, "batch size per GPU: ") == "2"
    for label in LABELS:
        if "latency: " in label and "FLOPS" not in label:
            assert field(text, label).endswith("s")
            assert 0 < value(field(text, label)) < 60  # not 1.8 Gs, the time since 1970
        if "FLOPS per GPU" in label:
            assert field(text, label).endswith("FLOPS")

    rows = modules(text)
    assert rows[0]["cls"] == "GPT"
    assert value(rows[0]["macs"]) == pytest.approx(3 * MACS, rel=0.01)
    blocks = [row for row in rows if row["cls"] == "Block"]
    assert [value(row["macs"]) for row in blocks] == [pytest.approx(3 * BLOCK_MACS, rel=0.01)] * 2
    assert sum(value(row["macs"]) for row in rows if row["indent"] == "  ") < value(rows[0]["macs"])
    assert 0 < value(rows[0]["time"]) < 60
    assert list(aggregated(text)) == [0, 1, 2, 3, 4]  # the deepest level too: the Linears of the MLP
    assert list(aggregated(text)[4]["params"]) == ["Linear"]


def test_arguments_neighbours_and_main_guard(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report, messages = ran(small, "--steps", "3", "--accumulate", "2")
    text = capsys.readouterr().out
    assert (report.micro_batches, totals(report).by_phase[Phase.FORWARD].macs) == (2, 2 * 144)
    assert (report.clock.while_counting, report.clock.steps) == (False, 1)
    assert text.index("step 1 done") < text.index("Profile Summary") < text.index("step 2 done")
    assert messages == ""


def test_a_script_without_a_step_to_time_is_timed_while_it_is_counted(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report, messages = ran(small, "--steps", "2")
    text = capsys.readouterr().out
    assert report.clock.while_counting
    assert "note: latencies were taken while counting" in text
    assert text.index("step 1 done") < text.index("Profile Summary")
    assert messages == ""


def test_step_zero(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report, _ = ran(small, config=replace(ON, profile_step=0))
    text = capsys.readouterr().out
    assert "Profile Summary at step 0:" in text
    assert modules(text)[0]["cls"] == "Sequential"
    assert value(modules(text)[0]["macs"]) == 144
    assert report.micro_batches == 1


def test_a_step_that_never_comes(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report, messages = ran_or_not(small, "--steps", "4", config=replace(ON, profile_step=4))
    assert report is None
    assert "profile_step is 4, and the program ended after 4 optimizer steps" in messages
    assert "so 5 are needed" in messages
    assert "step 3 done" in capsys.readouterr().out


def test_not_enabled(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report, messages = ran_or_not(small, config=DeepSpeedFlopsConfig())
    assert report is None
    assert '"enabled": false' in messages
    assert HEADINGS[0] not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["train.py", "ds.json", "./ds.json", "linked.txt"])
def test_a_profile_replaces_neither_the_script_nor_the_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "train.py"
    script.write_text("raise SystemExit(5)  # is not run")
    (tmp_path / "linked.txt").symlink_to(script)
    block = {"enabled": True, "profile_step": 1, "output_file": name}
    config = tmp_path / "ds.json"
    config.write_text(json.dumps({"flops_profiler": block}))
    before = script.read_bytes(), config.read_bytes()
    with pytest.raises(OutputError, match="is an input, which is never overwritten"):
        run_script(script, [], read_deepspeed_config(config), inputs=[config])
    assert (script.read_bytes(), config.read_bytes()) == before


def test_output_file(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = replace(ON, output_file=str(tmp_path / "new" / "flops.txt"), detailed=False)
    ran(small, config=config)
    assert HEADINGS[0] not in capsys.readouterr().out
    text = (tmp_path / "new" / "flops.txt").read_text()
    assert HEADINGS[1] in text
    assert HEADINGS[2] not in text


def test_a_file_that_cannot_be_written_does_not_stop_the_script(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report, messages = ran(small, config=replace(ON, output_file=str(tmp_path)))
    assert report is not None
    assert "the profile cannot be written" in messages
    assert "step 3 done" in capsys.readouterr().out


def test_sizes_of_the_configuration_that_disagree_are_named(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = replace(ON, gradient_accumulation_steps=4, train_micro_batch_size_per_gpu=5)
    ran(small, config=config)
    text = capsys.readouterr().out
    assert "says gradient_accumulation_steps 4; the model was called 1 times in the step" in text
    assert "note: the configuration says 5 samples a micro-batch; the inputs of the step suggest 3 in 1" in text
    assert field(text, "batch size per GPU: ") == "5"


def test_exit_code_and_report_of_a_script_that_exits(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small.write_text(small.read_text().replace("    main()\n", "    main()\n    sys.exit(7)\n"))
    found: list[FlopsReport] = []
    with pytest.raises(SystemExit) as ended:
        run_script(small, [], ON, on_report=found.append)
    assert ended.value.code == 7
    assert len(found) == 1
    assert_clean()
    sys.modules.pop("helper", None)
    assert HEADINGS[0] in capsys.readouterr().out


def test_an_exception_is_the_scripts_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = write(
        tmp_path,
        """
        import torch
        from torch import nn

        class Breaks(nn.Module):
            def __init__(self):
                super().__init__()
                self.f, self.calls = nn.Linear(4, 4), 0
            def forward(self, x):
                self.calls += 1
                if self.calls == 2:                       # in the step that is counted
                    raise ValueError("of the script")
                return self.f(x)

        model = Breaks()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(4):
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
        """,
    )
    messages = io.StringIO()
    with pytest.raises(ValueError, match="of the script") as error:
        run_script(script, [], ON, messages=messages)
    assert_clean()
    assert messages.getvalue() == ""
    assert HEADINGS[0] not in capsys.readouterr().out
    shown = traceback.extract_tb(own_traceback(error.value, script))
    assert (shown[0].filename, shown[0].lineno) == (str(script), 18)
    assert not any(Path(frame.filename).is_relative_to(PACKAGE) for frame in shown[1:])


def test_a_script_without_a_model(tmp_path: Path) -> None:
    report, messages = ran_or_not(write(tmp_path, "print(1 + 1)\n"))
    assert report is None
    assert "no torch module was called with gradients enabled" in messages


def test_a_script_without_an_optimizer(tmp_path: Path) -> None:
    script = write(tmp_path, "import torch\ntorch.nn.Linear(4, 4)(torch.ones(2, 4))\n")
    report, messages = ran_or_not(script)
    assert report is None
    assert "no torch optimizer took a step in this process; modules called were Linear" in messages


def test_a_script_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FlopsError, match=r"none\.py: the script cannot be read: No such file"):
        run_script(tmp_path / "none.py", [], ON)


TWO = """
import torch
from torch import nn
from torch.nn import functional as F

class Teacher(nn.Linear): pass
class Student(nn.Sequential): pass

teacher = Teacher(4, 2)
with torch.no_grad():
    teacher(torch.ones(3, 4))
frozen = Teacher(4, 4)                                  # called first, with gradients, trained by nobody
student = Student(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for step in range(4):
    F.mse_loss(student(frozen(torch.ones(3, 4))), teacher(torch.ones(3, 4)).detach()).backward()
    optimizer.step()
"""


@pytest.mark.parametrize("step", [0, 1])
def test_the_model_is_the_one_that_the_optimizer_trains(
    step: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, messages = ran(write(tmp_path, TWO), config=replace(ON, profile_step=step))
    text = capsys.readouterr().out
    assert modules(text)[0]["cls"] == "Student"
    assert value(modules(text)[0]["macs"]) == 144
    assert ("Teacher was called first, but the optimizer trains Student" in messages) == (step == 0)
    # Both teachers forward, and the weight's gradient of the one that was not detached: in no number of the student's.
    assert value(field(text, "flops per GPU outside the model, fwd and bwd .*: ")) == 2 * 3 * (16 + 8) + 2 * 3 * 16
    assert value(field(text, "bwd flops per GPU, counted: ")) == 2 * 2 * 3 * (4 * 8 + 8 * 2)


def test_a_model_may_be_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran(write(tmp_path, TWO), model="__main__.Student")
    assert modules(capsys.readouterr().out)[0]["cls"] == "Student"
    report, messages = ran_or_not(write(tmp_path, TWO), model="Elsewhere")
    assert report is None
    assert "no module of class Elsewhere was called with gradients enabled; called were Teacher, Student" in messages


def test_a_named_part_of_a_model(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran(small, model="linear.Linear")
    text = capsys.readouterr().out
    assert [row["cls"] for row in modules(text)] == ["Together", "Linear", "Linear"]


def test_models_that_the_script_calls_one_after_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = write(
        tmp_path,
        """
        import torch
        from torch import nn
        encoder, decoder = nn.Linear(4, 8), nn.Linear(8, 2)
        optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)
        for step in range(4):
            decoder(encoder(torch.ones(3, 4)).relu()).sum().backward()
            optimizer.step()
        """,
    )
    ran(script)
    rows = modules(capsys.readouterr().out)
    assert [(row["cls"], row["name"], value(row["macs"])) for row in rows] == [
        ("Together", None, 144),
        ("Linear", "Linear", 96),
        ("Linear", "Linear_2", 48),
    ]


def test_data_parallel_wrappers_are_looked_through(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = write(
        tmp_path,
        f"""
        import torch
        import torch.distributed as dist
        from torch import nn
        dist.init_process_group("gloo", rank=0, world_size=1, init_method="file://{tmp_path}/store")
        model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
        optimizer = torch.optim.AdamW(model.parameters())
        for step in range(3):
            model(torch.ones(3, 4)).sum().backward()
            optimizer.step()
        dist.destroy_process_group()
        """,
    )
    report, messages = ran(script)
    text = capsys.readouterr().out
    assert messages == ""
    assert modules(text)[0]["cls"] == "Sequential"
    assert totals(report).by_phase[Phase.FORWARD].macs == 144
    assert field(text, "bwd flops per GPU, counted: ") == "384"


def test_shapes_that_change_between_the_counted_and_the_timed_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = write(
        tmp_path,
        """
        import torch
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(4):
            model(torch.ones(3 + step, 4)).sum().backward()
            optimizer.step()
        """,
    )
    ran(script)
    assert "was given tensors of other shapes" in capsys.readouterr().out


def test_evaluation_within_the_step_is_no_part_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = write(
        tmp_path,
        """
        import torch
        model = torch.nn.Sequential(torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(4):
            model(torch.ones(3, 4)).sum().backward()
            model.eval()
            with torch.no_grad():
                model(torch.ones(100, 4))
            model.train()
            optimizer.step()
        """,
    )
    report, _ = ran(script)
    text = capsys.readouterr().out
    assert value(field(text, "fwd MACs per GPU: ")) == 3 * 8
    assert value(field(text, "batch size per GPU: ")) == 3
    assert "note: calls of the model without gradients (1), as in an evaluation, are not counted" in text
    assert report is not None
    assert (report.samples, report.micro_batches) == (3, 1)


def test_a_script_that_changes_folder_finds_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = write(
        tmp_path,
        """
        import os, pathlib, torch
        os.chdir("/")
        assert pathlib.Path(__file__).resolve().exists() and os.path.isabs(__file__)
        assert __builtins__.__name__ == "builtins"
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(4):
            model(torch.ones(3, 4)).sum().backward()
            optimizer.step()
        """,
    )
    ran(script, config=replace(ON, output_file=str(tmp_path / "profile.txt")))
    assert "Profile Summary" in (tmp_path / "profile.txt").read_text()


def test_a_compiled_model_is_counted_without_its_compiler(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = write(
        tmp_path,
        """
        import torch
        from torch import nn
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        compiled = torch.compile(model, backend="eager", fullgraph=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(4):
            compiled(torch.ones(3, 4)).sum().backward()
            optimizer.step()
        """,
    )
    report, messages = ran(script)
    text = capsys.readouterr().out
    assert messages == ""
    assert totals(report).by_phase[Phase.FORWARD].macs == 144
    assert "note: the model is compiled; it was counted, and timed, without its compiler" in text
    assert [row["cls"] for row in modules(text)] == ["OptimizedModule", "Sequential", "Linear", "ReLU", "Linear"]
