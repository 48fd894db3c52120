"""Names of serving engines' iterations: each spelling and each trap once, with the numbers that it states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.tracefile import TraceFile
from weftrace.trace.engine_steps import ENGINE_NAMES, find_engine_steps, read_engine_names

VLLM = {"engine": "vLLM"}
SGLANG = {"engine": "SGLang"}
TRTLLM = {"engine": "TensorRT-LLM"}
ATOM = {"engine": "ATOM"}


def of(kind: str | None, requests: int | None = None, tokens: int | None = None, **more: int) -> dict[str, Any]:
    return {"kind": kind, "requests": requests, "tokens": tokens, **more}


def both(context: tuple[int, int], generation: tuple[int, int]) -> dict[str, int]:
    names = ("context_requests", "context_tokens", "generation_requests", "generation_tokens")
    return dict(zip(names, (*context, *generation), strict=True))


READ: dict[str, dict[str, Any]] = {
    # a context request has no output token yet: 6,144 tokens of two are chunks of prompts as well
    "execute_context_2(6144)_generation_3(3)": VLLM | of("mixed", 5, 6147, **both((2, 6144), (3, 3))),
    "execute_context_1(2048)_generation_0(0)": VLLM | of("prefill", 1, 2048, **both((1, 2048), (0, 0))),
    "execute_context_0(0)_generation_0(0)": VLLM | of("idle", 0, 0, **both((0, 0), (0, 0))),
    # the second number is the square of the first, and not more tokens
    "execute_context_1(888_788544)_generation_2(2_2)": VLLM | of("mixed", 3, 890, **both((1, 888), (2, 2))),
    # with speculation there are more tokens than requests
    "execute_context_0(0)_generation_32(128)": VLLM | of("decode", 32, 128, **both((0, 0), (32, 128))),
    "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)": VLLM
    | of("mixed", 46, 8192, **both((9, 8155), (37, 37)), context_kv_tokens=8430, generation_kv_tokens=34489),
    # of a cached request the name does not tell whether it decodes or goes on with its prompt
    "execute_new_1_cached_31": VLLM | of(None, 32),
    "execute_new_0_cached_31": VLLM | of(None, 31),
    "execute_new_3_cached_0": VLLM | of("prefill", 3, context_requests=3, generation_requests=0),
    "step[EXTEND bs=2 toks=14721]": SGLANG | of("prefill", 2, 14721, context_requests=2, context_tokens=14721),
    "step[EXTEND bs=2 toks=14721 c_sqsq=108745533 c_sqsk=120007533 c_sk=16221]": SGLANG
    | of("prefill", 2, 14721, context_requests=2, context_tokens=14721, context_kv_tokens=16221),
    "step[DECODE bs=64]": SGLANG | of("decode", 64, generation_requests=64),
    # 117 requests in a graph that was captured for 128
    "step[DECODE bs=117/128]": SGLANG | of("decode", 117, padded_requests=128, generation_requests=117),
    "step[DECODE bs=64 g_sq=128 g_sqsq=256 g_sqsk=262144 g_sk=131072]": SGLANG
    | of("decode", 64, 128, generation_requests=64, generation_tokens=128, generation_kv_tokens=131072),
    "step[TARGET_VERIFY bs=8]": SGLANG | of("verify", 8, generation_requests=8),
    "step[MIXED bs=2]": SGLANG | of("mixed", 2),  # how many of the two decode is not told
    "step[MIXED bs=5 c=2 g=3 c_sq=6144 c_sk=7144 c_sqsq=20971520 c_sqsk=23019520 g_sq=3 g_sk=6144 g_sqsq=3]": SGLANG
    | of("mixed", 5, 6147, **both((2, 6144), (3, 3)), context_kv_tokens=7144, generation_kv_tokens=6144),
    "draft step[DECODE bs=32]": SGLANG | of("draft", 32),
    "step[DRAFT_EXTEND_V2 bs=4]": SGLANG | of("draft", 4),
    "step[IDLE bs=0]": SGLANG | of("idle"),
    "[Executor] _forward_step: 2 ctx reqs, 5 gen reqs": TRTLLM
    | of("mixed", 7, context_requests=2, generation_requests=5),
    "[Executor] _forward_step 71: 0 ctx reqs, 0 ctx tokens, 32 gen reqs": TRTLLM
    | of("decode", 32, context_requests=0, context_tokens=0, generation_requests=32),
    "[Executor] _forward_step 9: 1 ctx reqs, 8192 ctx tokens, 0 generation reqs": TRTLLM
    | of("prefill", 1, context_requests=1, context_tokens=8192, generation_requests=0),
    "prefill[bs=2 tok=14721 ctx=[7803, 6918]]": ATOM
    | of("prefill", 2, 14721, context_requests=2, context_tokens=14721),
    "decode[bs=117/128 tok=117 d=117]": ATOM
    | of("decode", 117, 117, padded_requests=128, generation_requests=117, generation_tokens=117),
    "decode[bs=32 tok=128 d=32 spec=3 sqsq=512 sqsk=262144 sk=65536]": ATOM
    | of("verify", 32, 128, generation_requests=32, generation_tokens=128, generation_kv_tokens=65536),
    "decode[bs=128 tok=384 p=2 d=126 spec=3]": ATOM
    | of("mixed", 128, 384, context_requests=2, generation_requests=126),
    "dummy_decode[bs=1 tok=1 d=1]": ATOM | of("idle"),
}


@pytest.mark.parametrize("name", READ)
def test_what_a_name_tells_and_nothing_else(name: str) -> None:
    (row,) = read_engine_names(pl.Series([name])).to_dicts()
    assert row == dict.fromkeys(ENGINE_NAMES) | READ[name]


def test_other_names_are_no_iterations(tmp_path: Path) -> None:
    file = TraceFile()
    others = ("ProfilerStep#3", "forward", "step[", "execute_model", "decode", "prefill", "my step[DECODE bs=2]", "")
    for number, name in enumerate(others):
        file.host(name, 100 * number, 50)
    assert find_engine_steps(file.trace(tmp_path).events).is_empty()


def test_two_names_of_one_iteration_are_one(tmp_path: Path) -> None:
    """outer ████████ 0-90    ████ 100-150     what the outer name does not tell, the inner does
    inner   ████   10-80"""
    file = TraceFile().host("execute_new_1_cached_3", 0, 90).host("execute_context_1(888)_generation_3(3)", 10, 70)
    file.host("execute_new_0_cached_4", 100, 50)
    rows = find_engine_steps(file.trace(tmp_path).events)
    assert rows.get_column("dur_ns").to_list() == [90_000, 50_000]
    assert rows.select("kind", "requests", "tokens").rows() == [("mixed", 4, 891), (None, 4, None)]
