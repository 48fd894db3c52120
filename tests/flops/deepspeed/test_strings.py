"""Numbers as DeepSpeed 0.19.8 writes them, and as its earlier releases did. The expected strings are its own output."""

from __future__ import annotations

from typing import Any

import pytest

from weftrace.flops.deepspeed.strings import (
    EARLIER,
    bytes_to_string,
    duration_to_string,
    flops_to_string,
    macs_to_string,
    number_to_string,
    params_to_string,
)


@pytest.mark.parametrize(
    ("num", "written"),
    [
        (0, "0 "),
        (1, "1 "),
        (999, "999 "),
        (1000, "1 K"),
        (2_104_000, "2.1 M"),
        (6279.86e9, "6.28 T"),
        (0.5, "500 m"),
        (0.00012345, "123.45 u"),
        (123456.789e12, "123457 T"),
    ],
)
def test_number(num: float, written: str) -> None:
    assert number_to_string(num) == written


@pytest.mark.parametrize(
    ("function", "arguments", "written"),
    [
        (number_to_string, (6279.86e9, "G"), "6279.86 G"),
        (number_to_string, (6279.86e9, "G", 0), "6280 G"),
        (number_to_string, (1234, "furlongs"), "1234 furlongs"),
        (macs_to_string, (2_104_000,), "2.1 MMACs"),
        (macs_to_string, (12,), "12 MACs"),
        (macs_to_string, (3139.93e9,), "3.14 TMACs"),
        (flops_to_string, (81.9e12,), "81.9 TFLOPS"),
        (params_to_string, (336_232_258,), "336.23 M"),
        (params_to_string, (1.5e9,), "1.5 B"),
        (params_to_string, (1.5e9, "B"), "1.5 B"),
        (params_to_string, (58,), "58"),
        (bytes_to_string, (1_344_929_032,), "1.34 GB"),
        (duration_to_string, (0.07667,), "76.67 ms"),
        (duration_to_string, (34.12,), "34.12 s"),
        (duration_to_string, (3.409e-5,), "34.09 us"),
        (duration_to_string, (0,), "0 s"),
    ],
)
def test_family(function: Any, arguments: tuple[Any, ...], written: str) -> None:
    assert function(*arguments) == written


def test_earlier() -> None:
    assert EARLIER.number(6279.86e9) == "6279.86 G"
    assert EARLIER.macs(3139.93e9) == "3139.93 GMACs"
    assert EARLIER.params(336_232_258) == "336.23 M"
    assert EARLIER.params(1.5e9) == "1500.0 M"
    assert EARLIER.rate(81.9e12) == "81.9 TFLOPS"
    assert EARLIER.duration(0.07667) == "76.67 ms"
    assert EARLIER.duration(3.409e-5) == "34.09 us"
    assert EARLIER.share(0.985) == "98.50%"
