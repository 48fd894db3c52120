"""A run as a `RunSpec` says: what is counted, timed, and said of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.flops import user_models
from weftrace.costs.cost import Phase
from weftrace.errors import FlopsError
from weftrace.flops.derived.params import params
from weftrace.flops.derived.tally import totals
from weftrace.flops.run_spec import RunSpec, parse_input, parse_parallel
from weftrace.flops.runtime.run.prepare_model import Ready
from weftrace.flops.runtime.run.run_model import run_model, run_steps
from weftrace.flops.values import FlopsReport

HERE = "tests.flops.user_models"


def run(model: str, *inputs: str, **options: object) -> FlopsReport:
    return run_model(RunSpec(model=model, inputs=tuple(map(parse_input, inputs)), **options))  # type: ignore[arg-type]


def by_phase(report: FlopsReport) -> dict[Phase, int]:
    return {phase: tally.flops for phase, tally in totals(report).by_phase.items()}


def test_bert_large_as_in_the_published_profile() -> None:
    """docs/flops.md takes this number apart, product by product."""
    h, vocabulary, batch, seq = 1024, 30528, 80, 128
    tokens = batch * seq
    linear = 24 * 12 * h**2 * tokens + batch * h**2 + tokens * h**2 + 1159 * h * vocabulary
    attention = 24 * 2 * batch * seq**2 * h  # QK^T and AV, all heads together
    next_sentence = batch * h * 2
    report = run("bert-large", "80x128", masked_positions=1159)
    assert totals(report).flops == 2 * (linear + attention + next_sentence) == 6_407_707_099_136
    assert params(report).total == 336_232_258
    assert (report.samples, report.tokens) == (80, 10_240)


def test_forward_backward_and_optimizer() -> None:
    forward = 2 * 3 * 5 * 8 * 10
    assert by_phase(run(f"{HERE}:Words", "3x5", device="cpu")) == {Phase.FORWARD: forward}
    trained = run(f"{HERE}:Words", "3x5", device="cpu", optimizer="adamw")
    assert by_phase(trained) == {Phase.FORWARD: forward, Phase.BACKWARD: 2 * forward, Phase.OPTIMIZER: 0}
    assert totals(trained).by_phase[Phase.OPTIMIZER].vector_flops > 0
    assert trained.settings["optimizer"] == "adamw"
    assert by_phase(run("gpt2", batch=1, seq=8, phase="train"))[Phase.BACKWARD] > 0


def test_batch_and_seq_replace_sizes() -> None:
    assert totals(run(f"{HERE}:Words", "3x5", batch=6, seq=7, device="meta")).flops == 2 * 6 * 7 * 80
    assert totals(run(f"{HERE}:Words", batch=6, seq=7, device="meta")).flops == 2 * 6 * 7 * 80
    assert run("gpt2", "2x8").tokens == run("gpt2", batch=2, seq=8).tokens == 16


def test_timed_steps_and_the_calls_that_they_are() -> None:
    model = user_models.Remembers()
    model.line.eval()  # as frozen norms are
    seen: list[tuple[int, int]] = []
    ready = Ready(model=model, name="m", args=(torch.ones(2, 4),), kwargs={})
    report = run_steps(ready, steps=3, warm_up=2, on_step=lambda done, total: seen.append((done, total)))
    assert (report.clock.steps, report.clock.warm_up, len(report.clock.step_ns)) == (3, 2, 3)
    assert seen == [(n, 6) for n in range(1, 7)], "one counted, two to warm up, three timed"
    assert model.calls == [(False, False)] * 6, "evaluation mode, no gradients"
    model.calls.clear()
    run_steps(ready, backward=True)
    assert model.calls == [(True, True)]
    assert (model.training, model.line.training) == (True, False), "as they were"
    assert model.line.weight.grad is None


def test_an_optimizer_leaves_the_weights_and_is_counted_in_its_steady_state() -> None:
    model = user_models.Remembers()
    before = model.line.weight.detach().clone()
    ready = Ready(model=model, name="m", args=(torch.ones(2, 4),), kwargs={})
    for name in ("sgd", "adamw"):
        report = run_steps(ready, backward=True, optimizer=name)
        made = [op.op for op in report.ops if op.phase is Phase.OPTIMIZER and "zeros" in op.op]
        assert made == [], "the optimizer's state is there before the counted step"
        assert torch.equal(model.line.weight, before)
    model.requires_grad_(False)
    with pytest.raises(FlopsError, match="nothing for an optimizer"):
        run_steps(ready, optimizer="sgd")


def test_meta_times_nothing_and_says_so() -> None:
    report = run(f"{HERE}:Words", "3x5", device="meta", steps=3)
    assert not report.times
    assert any("nothing was timed" in note for note in report.notes)


def test_what_fails_on_meta_is_counted_on_fake_tensors_and_said() -> None:
    report = run(f"{HERE}:NamesTheCpu", "2x4", device="meta", backward=True, steps=2)
    assert by_phase(report) == {Phase.FORWARD: 2 * 2 * 16, Phase.BACKWARD: 2 * 2 * 16}
    assert report.device == "meta"
    assert any("fake tensors" in note and "device" in note for note in report.notes)
    with pytest.raises(FlopsError, match="--device cpu or cuda runs the real thing"):
        run(f"{HERE}:LooksAtValues", "2x4", device="meta")


def test_decode_of_deepseek_on_one_of_many_expert_ranks() -> None:
    spec = RunSpec(model="deepseek-v3", phase="decode", batch=4, context=64)
    whole = run_model(spec)
    one = run_model(replace(spec, parallel=parse_parallel("ep=128")))
    assert totals(one).flops == totals(whole).flops, "as many rows come as go"
    config = 58 * 3 * 7168 * 2048  # weights of one expert in all MoE layers
    assert params(whole).total - params(one).total == 254 * config
    assert params(one).active < params(one).total
    assert any("one of 128 expert ranks" in note for note in one.notes)
    with pytest.raises(FlopsError, match="do not divide 256 experts"):
        run_model(replace(spec, parallel=parse_parallel("ep=7")))
    with pytest.raises(FlopsError, match="models with experts"):
        run("gpt2", "1x8", parallel=parse_parallel("ep=2"))


def test_fp8_halves_the_bytes_of_the_weights() -> None:
    wide, narrow = (run("llama-3-8b", "1x8", dtype=dtype) for dtype in (None, "fp8"))
    assert totals(wide).flops == totals(narrow).flops
    assert params(narrow).bytes < 0.6 * params(wide).bytes


def test_other_ranks_than_experts_are_not_split_and_that_is_said() -> None:
    report = run("gpt2", "1x8", parallel=parse_parallel("tp=2,dp=3"))
    assert report.parallel.world == 6
    assert any("of the whole model, not of one of the 2 GPUs" in note for note in report.notes)


def test_a_hugging_face_config(tmp_path: Path) -> None:
    layer = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = {"model_type": "llama", "vocab_size": 100, "num_hidden_layers": 2, **layer}
    (tmp_path / "config.json").write_text(json.dumps(config))
    seq, h = 16, 64
    linear = 2 * (h * h * 3 + 3 * h * 96) + h * 100  # q, o, and k with v half as wide each; the MLP; the head
    report = run(str(tmp_path / "config.json"), f"1x{seq}")
    assert totals(report).full_flops == 2 * seq * linear + 2 * 4 * seq**2 * h
    assert report.name == tmp_path.name
    assert run(str(tmp_path), "1x16").ops == report.ops


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"model": "bert-large"}, "how many tokens"),
        ({"model": "bert-large", "inputs": (parse_input("1x2x3"),)}, "BATCHxSEQUENCE"),
        ({"model": "gpt2", "batch": 1, "seq": 4, "device": "gpu"}, "no device 'gpu'"),
        ({"model": "gpt2", "batch": 1, "seq": 4, "dtype": "int64"}, "floating-point"),
        ({"model": "gpt2", "batch": 1, "seq": 4, "dtype": "fp8"}, "FP8"),
        ({"model": "llama-3-8b", "seq": 4, "dtype": "fp8", "backward": True}, "no backward"),
        ({"model": f"{HERE}:Words", "device": "cpu"}, "what does its forward take"),
        ({"model": f"{HERE}:Words", "device": "cpu", "phase": "decode"}, "for models by name"),
        ({"model": f"{HERE}:Words", "device": "cpu", "masked_positions": 3}, "BERT"),
        ({"model": f"{HERE}:build", "device": "cpu", "inputs": (parse_input("2x3x9x9"),)}, "cannot be multiplied"),
        ({"model": f"{HERE}:instance", "device": "cpu", "inputs": (parse_input("3"),), "seq": 2}, "no dimension 1"),
    ],
)
def test_mistakes_are_told_in_words(options: dict[str, object], text: str) -> None:
    with pytest.raises(FlopsError, match=text):
        run_model(RunSpec(**options))  # type: ignore[arg-type]
