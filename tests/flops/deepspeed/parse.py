"""Read DeepSpeed's text as tools scrape it: a label at the start of a line, a number and a unit at its end."""

from __future__ import annotations

import ast
import re

SIZE = {"T": 1e12, "G": 1e9, "B": 1e9, "M": 1e6, "K": 1e3, "k": 1e3, "": 1.0, "m": 1e-3, "u": 1e-6}

LABELS = (  # of the present layout, in their order
    r"world size: ",
    r"data parallel size: ",
    r"model parallel size: ",
    r"batch size per GPU: ",
    r"params per GPU: ",
    r"params of model = params per GPU \* mp_size: ",
    r"fwd MACs per GPU: ",
    r"fwd flops per GPU: ",
    r"fwd flops of model = fwd flops per GPU \* mp_size: ",
    r"fwd latency: ",
    r"fwd FLOPS per GPU = fwd flops per GPU / fwd latency: ",
    r"bwd latency: ",
    r"bwd FLOPS per GPU = [\d.]+ \* fwd flops per GPU / bwd latency: ",
    r"fwd\+bwd FLOPS per GPU = [\d.]+ \* fwd flops per GPU / \(fwd\+bwd latency\): ",
    r"step latency: ",
    r"iter latency: ",
    r"FLOPS per GPU = [\d.]+ \* fwd flops per GPU / iter latency: ",
    r"samples/second: ",
)
INFERENCE = LABELS[:11]
QUANTITY = re.compile(r"([\d.]+(?:e[+-]?\d+)?)\s*([TGBMKkmu]?)(MACs|FLOPS|s)?$")
HEADINGS = (
    "-------------------------- DeepSpeed Flops Profiler --------------------------",
    "----------------------------- Aggregated Profile per GPU -----------------------------",
    "------------------------------ Detailed Profile per GPU ------------------------------",
)
MODULE = re.compile(
    r"(?P<indent> *)(?:\((?P<name>\S+)\): )?(?P<cls>\w+)\(\s*"
    r"(?P<params>[\d.]+ ?[BMK]?) = (?P<params_share>[\d.]+)% Params, "
    r"(?P<macs>[\d.]+ [TGMK]?)MACs = (?P<macs_share>[\d.]+)% MACs, "
    r"(?P<time>[\d.]+ [mu]?)s = (?P<time_share>[\d.]+)% latency, "
    r"(?P<rate>[\d.]+ [TGMK]?)FLOPS"
)
EARLIER_MODULE = re.compile(
    r"(?P<indent> *)(?:\((?P<name>\S+)\): )?(?P<cls>\w+)\(\s*"
    r"(?P<params>[\d.]+ ?[Mk]?), (?P<params_share>[\d.]+)% Params, "
    r"(?P<macs>[\d.]+ [GMK]?)MACs, (?P<macs_share>[\d.]+)% MACs, "
    r"(?P<time>[\d.]+ [mu]?)s, (?P<time_share>[\d.]+)% latency, "
    r"(?P<rate>[\d.]+ [TGMK]?)FLOPS, "
)


def value(text: str) -> float:
    """ "6.28 T" -> 6.28e12, whatever the unit measures."""
    found = QUANTITY.match(text.strip())
    assert found, text
    return float(found[1]) * SIZE[found[2]]


def field(text: str, label: str) -> str:
    """What stands after the first line that begins with this pattern."""
    found = re.search(rf"^{label}\s+(\S.*?)\s*$", text, re.MULTILINE)
    assert found, f"no line {label!r} in\n{text}"
    return found[1]


def labels_in_order(text: str) -> list[int]:
    """Positions of the labels that are there."""
    found = (re.search(rf"^{label}", text, re.MULTILINE) for label in LABELS)
    return [match.start() for match in found if match]


def aggregated(text: str) -> dict[int, dict[str, dict[str, str]]]:
    """depth -> "params", "MACs", "fwd latency" -> class -> text."""
    depths: dict[int, dict[str, dict[str, str]]] = {}
    for line in text.splitlines():
        if depth := re.fullmatch(r"depth (\d+):", line):
            depths[int(depth[1])] = {}
        elif row := re.fullmatch(r"    (params|MACs|fwd latency) +- (\{.*\})", line):
            depths[max(depths)][row[1]] = ast.literal_eval(row[2])
    return depths


def modules(text: str, pattern: re.Pattern[str] = MODULE) -> list[dict[str, str]]:
    """The lines of the tree, with what stands in them."""
    return [match.groupdict() for match in pattern.finditer(text.split(HEADINGS[2])[1])]
