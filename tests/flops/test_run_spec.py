"""What a person writes of a run, read and checked."""

from __future__ import annotations

import pytest

from weftrace.errors import FlopsError
from weftrace.flops.run_spec import InputSpec, RunSpec, model_kind, parse_dtype, parse_input, parse_parallel
from weftrace.flops.values import Parallel


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("80x128", InputSpec(shape=(80, 128))),
        ("7", InputSpec(shape=(7,))),
        ("1x3x224x224:bf16", InputSpec(shape=(1, 3, 224, 224), dtype="bfloat16")),
        ("input_ids=1x128", InputSpec(shape=(1, 128), name="input_ids")),
        (" mask = 2x2:bool ", InputSpec(shape=(2, 2), dtype="bool", name="mask")),
    ],
)
def test_inputs(text: str, expected: InputSpec) -> None:
    assert parse_input(text) == expected


@pytest.mark.parametrize("text", ["", "x", "80x", "80,128", "-1x2", "2x3:float7", "1=2x3"])
def test_what_is_no_input_is_refused(text: str) -> None:
    with pytest.raises(FlopsError, match=r"no input|no dtype"):
        parse_input(text)


def test_dtypes_have_short_names_and_torchs() -> None:
    assert [parse_dtype(name) for name in ("bf16", "BF16", "torch.float32", "fp8")] == [
        "bfloat16", "bfloat16", "float32", "fp8",
    ]  # fmt: skip


def test_axes_of_a_job() -> None:
    assert parse_parallel("tp=4, dp=8") == Parallel(tensor=4, data=8)
    assert parse_parallel("ep=16") == Parallel(expert=16, data=16), "expert ranks lie inside the data-parallel ones"
    assert parse_parallel("ep=2,dp=8") == Parallel(expert=2, data=8)
    for text in ("xp=2", "tp=0", "tp", "tp=2,tp=3", ""):
        with pytest.raises(FlopsError, match="write the axes"):
            parse_parallel(text)


def test_kinds_of_models_and_names_near_to_a_slip() -> None:
    assert model_kind("BERT_large") == model_kind("qwen3-moe") == "built-in"
    assert model_kind("some/config.json") == "config"
    assert model_kind("a.b:c") == "user"
    with pytest.raises(FlopsError, match="did you mean deepseek-v3"):
        model_kind("deepsek-v3")
    with pytest.raises(FlopsError, match="--config"):
        model_kind("train.py")


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"phase": "serve"}, "no phase"),
        ({"optimizer": "lion"}, "no optimizer"),
        ({"phase": "decode", "backward": True}, "no backward"),
        ({"attention": "flash"}, "no attention"),
        ({"experts": "loop"}, "no experts"),
    ],
)
def test_contradictions_are_refused(wrong: dict[str, object], text: str) -> None:
    with pytest.raises(FlopsError, match=text):
        RunSpec(model="gpt2", **wrong).check()  # type: ignore[arg-type]
