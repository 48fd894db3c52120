"""From a name to a model, and from shapes to tensors."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tests.flops import user_models
from weftrace.errors import FlopsError
from weftrace.flops.run_spec import InputSpec, RunSpec, parse_input
from weftrace.flops.runtime.run.device_room import room_for, usable_device
from weftrace.flops.runtime.run.load_model import find_object, load_model, make_inputs, needs_input, one_line
from weftrace.flops.runtime.run.prepare_model import users_own

HERE = "tests.flops.user_models"


def test_a_class_a_function_and_an_instance() -> None:
    assert type(load_model(f"{HERE}:Words", device="cpu").model) is user_models.Words
    assert isinstance(load_model(f"{HERE}:build", device="cpu").model[0], nn.Conv2d)  # type: ignore[index]
    assert load_model(f"{HERE}:instance", device="cpu").model is user_models.instance


def test_device_and_dtype() -> None:
    model = load_model(f"{HERE}:Words", device="meta", dtype=torch.bfloat16).model
    assert {(p.device.type, p.dtype) for p in model.parameters()} == {("meta", torch.bfloat16)}


def test_fake_tensors_claim_to_be_on_the_cpu_and_take_no_memory() -> None:
    loaded = load_model(f"{HERE}:Words", device="meta", dtype=torch.float16, fake=True)
    assert loaded.fake is not None
    parameters = list(loaded.model.parameters())
    assert {(p.device.type, p.dtype) for p in parameters} == {("cpu", torch.float16)}
    assert torch.get_default_dtype() is torch.float32
    with pytest.raises(FlopsError, match="real weights"):
        load_model(f"{HERE}:instance", device="meta", fake=True)


def test_a_file_and_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "weftrace_neighbour.py").write_text("WIDTH = 6\n")
    (tmp_path / "weftrace_some_net.py").write_text(
        "from torch import nn\nfrom weftrace_neighbour import WIDTH\n\n"
        "class Nets:\n    small = lambda: nn.Linear(WIDTH, 2)\n"
    )
    model = load_model(f"{tmp_path / 'weftrace_some_net.py'}:Nets.small", device="cpu").model
    assert model.in_features == 6


def test_the_working_directory_can_be_imported_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "weftrace_here.py").write_text("build = 3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [])
    assert find_object("weftrace_here:build") == 3


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (f"{HERE}:absent", "has no 'absent'; it has .*Words"),
        (f"{HERE}:number", "neither a torch.nn.Module nor what makes one"),
        (f"{HERE}:text", "gives str, not a torch.nn.Module"),
        (f"{HERE}:broken", "could not be built: ValueError: two lines of trouble"),
        ("weftrace_no_such_module:x", "no module 'weftrace_no_such_module'"),
        ("./weftrace_absent.py:x", "no such file"),
        (":x", "names no model"),
    ],
)
def test_mistakes_are_told_in_one_line(target: str, text: str) -> None:
    with pytest.raises(FlopsError, match=text) as raised:
        load_model(target, device="cpu")
    assert "\n" not in str(raised.value)


def test_a_module_that_raises_or_lacks_another(tmp_path: Path) -> None:
    (tmp_path / "weftrace_bad.py").write_text("1 / 0\n")
    with pytest.raises(FlopsError, match="cannot be imported: ZeroDivisionError") as raised:
        find_object(f"{tmp_path / 'weftrace_bad.py'}:x")
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


def test_a_file_does_not_stand_in_for_a_module_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("import sys\nfrom torch.nn import Identity\n")
    load_model(f"{tmp_path / 'json.py'}:Identity", device="cpu")
    import json

    assert json.loads("3") == 3
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(3)\n")
    with pytest.raises(FlopsError, match="SystemExit: 3"):
        find_object(f"{tmp_path / 'leaves.py'}:x")


def test_ids_floats_and_names() -> None:
    words, image = user_models.Words(), user_models.build()
    (ids,), _, notes = make_inputs(words, [parse_input("2x5")], device="cpu")
    assert (ids.dtype, ids.shape) == (torch.int64, (2, 5))
    assert "token ids" in notes[0]
    (floats,), _, notes = make_inputs(image.to(torch.bfloat16), [parse_input("2x3x8x8")], device="cpu")
    assert floats.dtype is torch.bfloat16
    assert notes == ()
    specs = [parse_input("2x5"), parse_input("scale=2x1x8:fp32"), parse_input("flags=3:bool")]
    _, named, _ = make_inputs(words, specs, device="meta")
    assert {name: tensor.dtype for name, tensor in named.items()} == {"scale": torch.float32, "flags": torch.bool}
    with pytest.raises(FlopsError, match="given twice"):
        make_inputs(words, [InputSpec(shape=(1,), name="a"), InputSpec(shape=(1,), name="a")], device="cpu")


def test_which_models_need_an_input() -> None:
    assert needs_input(user_models.Words())

    class Alone(nn.Module):
        def forward(self, x: int = 3) -> int:
            return x

    assert not needs_input(Alone())


def test_long_exceptions_are_cut() -> None:
    assert one_line(ValueError("a\n b"), 2) == "ValueError: a …"
    assert one_line(KeyError()) == "KeyError"


@pytest.mark.parametrize(
    ("text", "device", "summary"),
    [
        ("100000000000x512", "cpu", r"--input 100000000000x512 takes 372.5 TiB, more than cpu .*--device meta"),
        ("ids=100000000000x512:bool", "cpu", r"--input ids=100000000000x512 takes 46.6 TiB"),
        ("999999999999x999999999999", "meta", r"more than meta has room for; give a smaller one"),
    ],
)
def test_an_input_without_room_is_named_with_its_bytes(text: str, device: str, summary: str) -> None:
    with pytest.raises(FlopsError, match=summary):
        make_inputs(user_models.Words(), [parse_input(text)], device=device)


def test_only_a_lack_of_room_is_told_as_one() -> None:
    with pytest.raises(RuntimeError, match="something else"), room_for("2x3", (2, 3), torch.int64, "cpu"):
        raise RuntimeError("something else")


def test_devices_that_torch_cannot_use_are_told_in_one_line() -> None:
    assert usable_device("cpu") == torch.device("cpu")
    assert usable_device("meta").type == "meta"
    for name, text in (("foo", "no device 'foo'"), ("vulkan", "cannot use the device 'vulkan' here; --device meta")):
        with pytest.raises(FlopsError, match=text) as raised:
            usable_device(name)
        assert len(str(raised.value)) < 100


@pytest.mark.parametrize("choice", [{"attention": "eager"}, {"experts": "bmm"}])
def test_a_users_own_model_chooses_its_implementations_itself(choice: dict[str, str]) -> None:
    spec = RunSpec(model=f"{HERE}:Words", inputs=(parse_input("2x5"),), **choice)  # type: ignore[arg-type]
    with pytest.raises(FlopsError, match="for models by name"):
        users_own(spec, torch.device("cpu"), fake=False)
