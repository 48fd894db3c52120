"""Operators of other libraries are rated by rules, a user's own too."""

from __future__ import annotations

import re
from pathlib import Path

from tests.tracefile import GEMM, TraceFile
from weftrace.analysis.efficiency import efficiency_of
from weftrace.costs import load_custom_ops
from weftrace.costs.cost import Status
from weftrace.costs.custom_ops import custom_op
from weftrace.report import analyze

RULES = """
[[operator]]
name = "a gemm of mine"
match = '^mylib::gemm$'
kind = "gemm"
arguments = "a b"
source = "mylib's README"
"""


def test_a_users_rule_makes_flops_of_an_unknown_operator(tmp_path: Path) -> None:
    shapes = {"Input Dims": [[512, 1024], [1024, 2048]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}
    file = TraceFile().host("mylib::gemm", 0, 30, cat="cpu_op", **shapes).kernel(GEMM, 40, 100, launch=5)
    trace, rules = file.write(tmp_path / "trace.json"), tmp_path / "ops.toml"
    rules.write_text(RULES)
    found = [
        analyze(trace, custom_ops=ops).document["ranks"][0]["efficiency"]["flops"]
        for ops in (None, load_custom_ops(rules))
    ]
    assert found == [0, 2 * 512 * 1024 * 2048]


def test_rules_of_ours_are_asked_for_all_the_names_that_they_are_about() -> None:
    for rule in load_custom_ops():
        heads = re.sub(r"[\^()$]", "", rule.match.pattern).split("|")
        names = [re.sub(r".\?", "", head) for head in heads if "::" in head or head.startswith("_")]
        assert names, f"{rule.name}: of a library's namespace, or with a _ before it"
        assert not any(name.startswith(("aten::", "torch")) for name in names), rule.name
    assert custom_op("_C::marlin_gemm") and custom_op("flash_attn::_flash_attn_forward") and custom_op("_Linear")
    assert custom_op("aten::mm") is None is custom_op("AddmmBackward0")


def test_kernels_of_torch_compile_have_the_flops_that_they_state(tmp_path: Path) -> None:
    shapes = {"Input Dims": [[64, 64], [64, 64], [64, 64]], "Input type": ["float"] * 3, "kernel_flop": 524288}
    file = TraceFile().host("triton_tem_fused_mm_0", 0, 30, cat="cpu_op", **shapes)
    file.kernel("triton_tem_fused_mm_0", 40, 100, launch=5)
    (row,) = efficiency_of(file.trace(tmp_path)).shapes.to_dicts()
    assert (row["flops"], row["status"]) == (524288, Status.ESTIMATE)
    assert row["note"].startswith("FLOPs as torch.compile states them")
