"""Texts of the rules: complete, in plain English, with switches that parse; and which framework a trace shows."""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import json
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from tests.tracefile import GEMM, TraceFile
from weftrace.advice.findings.frameworks import frameworks_of, shown_frameworks
from weftrace.advice.findings.rule_texts import (
    FRAMEWORKS,
    RULES,
    RemedyText,
    RuleText,
    SourceText,
    all_rules,
    rule_text,
)
from weftrace.errors import AdviceError
from weftrace.trace import Trace, open_trace

ALL = """
host-bound sync-every-step exposed-collective one-connection straggler data-loading decode-gap decode-outside-graphs
expert-imbalance contention sm-wait fp32-gemm old-gemm-kernels unfused-attention unfused-elementwise tiny-kernels
optimizer-step allocator pageable-copies fsdp-rate-limiter small-collectives slow-collectives pipeline-bubble slow-stage
sequence-imbalance gc-pause recompilation warm-up-in-sample graph-breaks graph-launch casts-and-copies layout-transforms
recomputation first-and-last-collective tensor-parallel-across-nodes ddp-overhead slow-clocks unrecorded-work
ranks-missing leave-it
"""
IDS = ALL.split()

# of which plain English has other words: "one per rank", "because", "exits with", "by what it is"
IDIOMS = re.compile(
    r"\b(?:a|an) \w+ an? (?:rank|GPU|layer|step|phase|line|file|device|second)\b|\bby what\b|\bwhose\b|\bof which\b"
    r"|, for (?:it|they|the|a)\b"
    r"|\bends with \d|\btold by\b|\bto hand\b|\btaken along\b",
    re.IGNORECASE,
)
RECORDED = {
    "hta-nccl-data.json.gz": ("ddp", "pytorch"),
    "hta-ns-resolution.json.gz": ("ddp", "pytorch"),
    "hta-two-ranks/sampled_rank-0.json.gz": ("ddp", "pytorch"),
    "hta-mi250-minitoy.json.gz": ("pytorch",),
    "tracelens-h100-bert-small.json.gz": ("pytorch",),
    "tracelens-vllm-decode-graph.json.gz": ("vllm", "pytorch"),
    "tracelens-vllm-prefilldecode.json.gz": ("vllm", "pytorch"),
}
FSDP2 = "distributed/fsdp/_fully_shard"
#: What switches in Python call, with the package and file that defines it.
DEFINED_IN = {
    "compile": ("torch", "__init__.py"),
    "AdamW": ("torch", "optim/adamw.py"),
    "DataLoader": ("torch", "utils/data/dataloader.py"),
    "DistributedDataParallel": ("torch", "nn/parallel/distributed.py"),
    "FullyShardedDataParallel": ("torch", "distributed/fsdp/fully_sharded_data_parallel.py"),
    "fully_shard": ("torch", f"{FSDP2}/_fully_shard.py"),
    "unshard": ("torch", f"{FSDP2}/_fully_shard.py"),
    "MixedPrecisionPolicy": ("torch", f"{FSDP2}/_fsdp_api.py"),
    "schedule": ("torch", "profiler/profiler.py"),
    "autocast": ("torch", "amp/autocast_mode.py"),
    "checkpoint": ("torch", "utils/checkpoint.py"),
    "all_reduce": ("torch", "distributed/distributed_c10d.py"),
    "TrainingArguments": ("transformers", "training_args.py"),
}
VLLM_KERNEL = "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)"
SHOWN = {
    "nothing": (),
    "FullyShardedDataParallel.forward": ("fsdp",),
    "FSDP::pre_forward (layers.0)": ("fsdp2",),
    "DistributedDataParallel.forward": ("ddp",),
    "execute_context_1(2048)_generation_0(0)": ("vllm",),
    "gpu_model_runner: forward": ("vllm",),
    "step[DECODE bs=64]": ("sglang",),
    "[pl][profile][Strategy]DDPStrategy.training_step": ("lightning",),
    "execute_plan": (),
    "step[1]": (),
}
OPERATORS = {
    "vllm::unified_attention_with_output": ("vllm",),
    "sgl_kernel::rmsnorm": ("sglang",),
    "LinearWithGradAccumulationAndAsyncCommunicationBackward": ("megatron-lm",),
    "PreBackwardFunctionForModule": ("deepspeed",),
    "torch::distributed::reducer::mul_out": ("ddp",),
    "aten::linear": (),
}
FRAMES = {
    "/opt/Megatron-LM/megatron/core/models/gpt/gpt_model.py(10): forward": ("megatron-lm",),
    "C:\\work\\torchtitan\\train.py(3): train_step": ("torchtitan",),
    "deepspeed/runtime/engine.py(1): backward": ("deepspeed",),
    "transformers/trainer.py(3785): training_step": ("huggingface",),
    "accelerate/utils/operations.py(816): forward": ("huggingface",),
    "lightning/pytorch/loops/fit_loop.py(1): run": ("lightning",),
    "torch/distributed/fsdp/_fully_shard/_fsdp_state.py(1): _pre_forward": ("fsdp2",),
    "transformers/models/llama/modeling_llama.py(1): forward": (),
    "my_vllm/notes.py(1): vllm": (),
}


def read(path: Path, *, frames: bool = False) -> Trace:
    trace = open_trace(path, frames=frames)
    assert isinstance(trace, Trace)
    return trace


def texts(rule: RuleText) -> list[str]:
    return [rule.looks_for, rule.gain, rule.when_not, *(remedy.remedy for remedy in rule.remedies)]


def test_every_rule_has_one_text() -> None:
    assert [(rule.number, rule.id) for rule in all_rules()] == list(enumerate(IDS, 1))
    assert Counter(each["id"] for each in tomllib.loads(RULES.read_text("utf-8"))["rule"]) == dict.fromkeys(IDS, 1)


def test_rules_state_known_fields_alone() -> None:
    def known(kind: type) -> set[str]:
        return {field.name for field in dataclasses.fields(kind)}

    for table in tomllib.loads(RULES.read_text("utf-8"))["rule"]:
        assert table.keys() <= known(RuleText), table["id"]
        assert all(each.keys() <= known(RemedyText) for each in table["remedies"]), table["id"]
        assert all(each.keys() == known(SourceText) for each in table.get("sources", ())), table["id"]


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_texts_are_short_sentences_in_plain_english(rule: RuleText) -> None:
    assert len(rule.title) <= 60 and rule.title[0].isupper() and not rule.title.endswith(".")
    for text in texts(rule):
        assert text[0].isupper() and text.endswith(".") and len(text) <= 220, text
    for text in [rule.title, *texts(rule), *(source.says for source in rule.sources)]:
        assert not IDIOMS.search(text), text


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_remedies_stand_once_per_framework_with_sources(rule: RuleText) -> None:
    frameworks = [remedy.framework for remedy in rule.remedies]
    assert "pytorch" in frameworks and len(set(frameworks)) == len(frameworks)
    for remedy in rule.remedies:
        assert remedy.versions
        assert remedy.switch == remedy.switch.strip()
        assert remedy.switch == "" or remedy.source, remedy
    for reference in [*(remedy.source for remedy in rule.remedies), *(source.ref for source in rule.sources)]:
        assert re.fullmatch(r"(https://\S+|[\w.-]+/[\w.-]+#\d+)?", reference), reference
    assert all(isinstance(limit, int | float) for limit in rule.thresholds.values()) and rule.thresholds


def test_deepspeed_switches_are_json() -> None:
    switches = [each.switch for rule in all_rules() for each in rule.remedies if each.framework == "deepspeed"]
    assert all(isinstance(json.loads(switch), dict) for switch in switches if switch) and len(switches) > 8


def test_json_within_flags_parses() -> None:
    switches = [each.switch for rule in all_rules() for each in rule.remedies if "'{" in each.switch]
    assert all(json.loads(switch.split("'")[1]) for switch in switches) and switches


def test_code_names_arguments_that_exist() -> None:
    """Switches in Python name arguments of the versions installed here."""
    asked = [
        (called(call.func), str(keyword.arg))
        for switch in (each.switch for rule in all_rules() for each in rule.remedies if "(" in each.switch)
        for call in ast.walk(ast.parse(switch))
        if isinstance(call, ast.Call)
        for keyword in call.keywords
    ]
    known = {name: arguments_of(name, *place) for name, place in DEFINED_IN.items()}
    checked = [(name, argument) for name, argument in asked if name in known]
    assert [(name, argument) for name, argument in checked if argument not in known[name]] == []
    assert len(checked) > 40


def arguments_of(name: str, package: str, file: str) -> set[str]:
    """Arguments of the function, or fields or arguments of the class; read from the source, without importing it."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"{package} is not installed")
    tree = ast.parse(Path(found.submodule_search_locations[0], file).read_text("utf-8"))
    arguments = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == name:
            arguments |= {each.target.id for each in node.body if isinstance(each, ast.AnnAssign)
                          and isinstance(each.target, ast.Name)}  # fmt: skip
            makers = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
        else:
            makers = [node] if isinstance(node, ast.FunctionDef) and node.name == name else []
        arguments |= {each.arg for maker in makers for each in (*maker.args.args, *maker.args.kwonlyargs)}
    assert arguments, f"{package}/{file} defines no {name}"
    return arguments


def called(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def test_flags_of_a_shell_hold_no_code() -> None:
    for rule in all_rules():
        for each in rule.remedies:
            if each.framework in ("vllm", "sglang", "megatron-lm", "torchtitan") and each.switch:
                assert re.match(r"--[a-z]|[A-Z_]+=|unset ", each.switch), each


def test_most_specific_framework_has_its_remedy() -> None:
    rule = rule_text("exposed-collective")
    assert rule.remedy_for(["ddp", "pytorch"]).framework == "ddp"
    assert rule.remedy_for(["ddp", "deepspeed", "pytorch"]).framework == "deepspeed"
    assert rule.remedy_for(["huggingface", "fsdp2", "pytorch"]).framework == "fsdp2"  # the Trainer has both, and DDP
    assert rule.remedy_for([]).framework == rule.remedy_for(["unknown"]).framework == "pytorch"
    assert rule_text("layout-transforms").remedy_for(["vllm", "pytorch"]).framework == "pytorch"
    assert FRAMEWORKS[-1] == "pytorch"


def test_unknown_rule_names_the_nearest() -> None:
    with pytest.raises(AdviceError, match="there is no rule 'host-bond'; did you mean 'host-bound'"):
        rule_text("host-bond")
    with pytest.raises(AdviceError, match="the rules are host-bound, sync-every-step"):
        rule_text("xyz")


@pytest.mark.parametrize(("name", "expected"), SHOWN.items())
def test_annotations_show_frameworks(name: str, expected: tuple[str, ...], tmp_path: Path) -> None:
    trace = TraceFile().host(name, 0, 10).kernel(GEMM, 20, 5).trace(tmp_path)
    assert frameworks_of(trace) == (*expected, "pytorch")


@pytest.mark.parametrize(("name", "expected"), OPERATORS.items())
def test_operators_show_frameworks(name: str, expected: tuple[str, ...], tmp_path: Path) -> None:
    trace = TraceFile().host(name, 0, 10, cat="cpu_op").kernel(GEMM, 20, 5).trace(tmp_path)
    assert frameworks_of(trace) == (*expected, "pytorch")
    assert [(each.place, each.evidence) for each in shown_frameworks(trace)] == [("operator", name)] * bool(expected)


@pytest.mark.parametrize(("name", "expected"), FRAMES.items())
def test_frames_show_frameworks(name: str, expected: tuple[str, ...], tmp_path: Path) -> None:
    path = TraceFile().host(name, 0, 10, cat="python_function").kernel(GEMM, 20, 5).write(tmp_path / "trace.json")
    assert frameworks_of(read(path, frames=True)) == (*expected, "pytorch")


def test_kernels_and_the_header_show_frameworks(tmp_path: Path) -> None:
    assert frameworks_of(TraceFile().kernel(VLLM_KERNEL, 20, 5).trace(tmp_path)) == ("vllm", "pytorch")
    file = TraceFile().kernel(GEMM, 20, 5)
    file.facts["traceName"] = "/runs/torchtitan/llama3/rank0.json"
    assert frameworks_of(file.trace(tmp_path)) == ("torchtitan", "pytorch")


def test_frameworks_are_in_order_and_each_once(tmp_path: Path) -> None:
    trace = (
        TraceFile().host("FSDP::pre_forward", 0, 10).host("FSDP::post_forward", 10, 10)
        .host("DistributedDataParallel.forward", 20, 5).host("[pl][profile]run", 30, 5)
        .kernel(GEMM, 40, 5).trace(tmp_path)
    )  # fmt: skip
    assert frameworks_of(trace) == ("lightning", "fsdp2", "ddp", "pytorch")


@pytest.mark.parametrize(("name", "expected"), RECORDED.items())
def test_recorded_traces_show_their_framework(name: str, expected: tuple[str, ...], shared_data: Path) -> None:
    path = shared_data / name
    if not path.exists():
        pytest.skip(f"{path} is not there")
    assert frameworks_of(read(path)) == expected
