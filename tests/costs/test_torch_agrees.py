"""What is written down of torch's operators is what torch itself says."""

from __future__ import annotations

from itertools import product

import pytest
import torch

from tests.costs.operator_arguments import FILE, operators_text
from weftrace.costs.outputs.dtypes import dtype_of_code, promoted
from weftrace.costs.tensors import DType, Tensor

INTEGERS = ("bool", "uint8", "int8", "int16", "int32", "int64")
DTYPES = (*INTEGERS, "float16", "bfloat16", "float32", "float64", "complex64", "complex128")


def test_arguments_are_those_of_torchs_schemas() -> None:
    text = FILE.read_text(encoding="utf-8")
    written_for = text.split("torch ", 1)[1].split()[0]
    if written_for != torch.__version__.split("+")[0]:
        pytest.skip(f"{FILE.name} is of torch {written_for}, this is {torch.__version__}")
    assert text == operators_text()


def test_dtypes_promote_as_torchs_do() -> None:
    """Of two tensors, each with a dimension or without, and of a tensor and a number."""
    sides = list(product(DTYPES, (0, 1)))
    theirs = {(name, rank): torch.ones((3,) * rank, dtype=getattr(torch, name)) for name, rank in sides}
    own = {(name, rank): Tensor((3,) * rank, DType(name)) for name, rank in sides}
    for a, b in product(sides, sides):
        assert str(promoted([own[a], own[b]])) == str(torch.result_type(theirs[a], theirs[b])), (a, b)
    for a, number in product(sides, (True, 2, 2.0, 2j)):
        assert str(promoted([own[a], number])) == str(torch.result_type(theirs[a], number)), (a, number)


def test_codes_of_dtypes() -> None:
    """As a trace of a cast records them; ScalarType has them in its order."""
    known = {4: "int64", 5: "float16", 6: "float32", 11: "bool", 15: "bfloat16", 24: "float8_e4m3fn"}
    assert {code: str(dtype_of_code(code)) for code in known} == {code: f"torch.{name}" for code, name in known.items()}
    assert dtype_of_code(None) is None and dtype_of_code(99) is None
