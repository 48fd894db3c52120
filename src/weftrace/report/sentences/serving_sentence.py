"""What a serving engine did, in a sentence: which kind of step takes the device's time, and at which rate of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weftrace.analysis.serving_steps import NOT_TOLD, OUTSIDE
from weftrace.report.document_types import RankDocument
from weftrace.report.sentences.idle_sentence import leads_with_unrecorded
from weftrace.units import counted, duration, percent

_FULL = 0.95  # of a window: a step whose work runs for as much of it fills the device
_WORTH_SAYING = 0.01  # of the span: what is smaller is not in the sentence
_LARGE = 0.5  # of the device's time: a family of kernels that has more is named
_FAMILIES = {"gemm_grouped": "MoE GEMMs", "gemm": "GEMMs"}
_NO_TOKENS = ("draft", "idle", NOT_TOLD)


def serving_sentence(rank: RankDocument) -> str:
    """The whole sentence, with its full stop; nothing where the rank's file names no iterations of a known engine, or
    its profiler recorded steps."""
    tables: Mapping[str, Any] = rank.get("tables", {})
    kinds = [row for row in tables.get("engine_kinds", ()) if row["kind"] != OUTSIDE and row["device_ns"]]
    if not kinds or rank["steps"]:
        return ""
    if sum(row["num_steps"] for row in kinds) == 1:
        step = next(row for row in tables["engine_steps"] if row["window_ns"])
        return _of_one(rank, step, kinds[0])
    return _of_several(rank, kinds)


def _of_one(rank: RankDocument, step: Mapping[str, Any], kind: Mapping[str, Any]) -> str:
    took = _exact(step["window_ns"])
    rate = _rate(kind)
    graphs = f"{_counted(step['num_graphs'], 'graph')}, " if step["num_graphs"] else ""
    name = f"One {step['kind'] or 'engine'} step{_batch(step)}"
    if step["kind"] in ("decode", "verify"):
        return f"{name}, {graphs}{took} of device time{rate}."
    fills = "fills the device for" if step["busy_ns"] >= _FULL * step["window_ns"] else "takes"
    return f"{name} {fills} {took}{'' if step['kind'] == 'mixed' else rate}{_family(rank, step)}."


def _of_several(rank: RankDocument, kinds: list[Mapping[str, Any]]) -> str:
    first, *others = kinds
    share, whole = percent(first["device_ns"] / rank["span_ns"]), duration(rank["span_ns"])
    requests = f", {_number(first['requests'])} requests each (median)" if first["requests"] else ""
    steps = _counted(first["num_steps"], f"{_word(first)}step")
    summary = f"{steps[0].upper()}{steps[1:]} of {duration(first['median_ns'])} (median){requests}"
    summary += f" take{'s' * (first['num_steps'] == 1)} {share} of {whole}{_rate(first)}"
    for row in others:
        if row["device_ns"] >= _WORTH_SAYING * rank["span_ns"]:
            summary += (
                f"; {_counted(row['num_steps'], f'{_word(row)}step')} {percent(row['device_ns'] / rank['span_ns'])}"
            )
            summary += _rate(row)
    gaps = sum(row["gap_ns"] or 0 for row in kinds)
    losses = [rank[key] for key in ("idle_ns", "exposed_communication_ns", "exposed_memory_ns")]
    if leads_with_unrecorded([rank]):
        gaps = 0  # no idle time is told as a fact
    if gaps >= _WORTH_SAYING * rank["span_ns"] and gaps >= 0.5 * max(losses) and max(losses) == rank["idle_ns"]:
        summary += f"; gaps between steps take {percent(gaps / rank['span_ns'])}"
    return f"{summary}."


def _batch(step: Mapping[str, Any]) -> str:
    """ " of 32 requests", " (9 prefill requests of 8,155 tokens, 37 decodes)": as far as the name tells."""
    context, generation = step["context_requests"], step["generation_requests"]
    if step["kind"] == "mixed" and context is not None and generation is not None:
        tokens = f" of {step['context_tokens']:,} tokens" if step["context_tokens"] is not None else ""
        prefills, decodes = (_counted(n, what) for n, what in ((context, "prefill request"), (generation, "decode")))
        return f" ({prefills}{tokens}, {decodes})"
    if step["requests"] is None:
        return ""
    tokens = step["tokens"]
    many = f" ({tokens:,} tokens)" if tokens is not None and tokens != step["requests"] else ""
    return f" of {_counted(step['requests'], 'request')}{many}"


def _rate(kind: Mapping[str, Any]) -> str:
    """ ": 2,980 tokens/s": output tokens of a kind that makes some, else prefill tokens; both of a mixed one."""
    prefill, output, most = (kind[f"{name}tokens_per_s"] for name in ("prefill_", "output_", "most_output_"))
    if kind["kind"] in _NO_TOKENS or (prefill is None and output is None):
        return ""
    if output is None:
        return f": {_number(prefill)} prefill tokens/s"
    made = f"{_number(output)} tokens/s"
    if most is not None:
        made = f"{_number(output)} to {_number(most)} tokens/s, depending on how many proposed tokens were accepted"
    return f": {_number(prefill)} prefill and {made}" if prefill is not None else f": {made}"


def _family(rank: RankDocument, step: Mapping[str, Any]) -> str:
    """The family of kernels that most of a step is in, where the step is nearly all that the device did."""
    families = [row for row in rank["families"] if row["kind"] == "compute"]
    largest = max(families, key=lambda row: row["busy_ns"], default=None)
    alone = step["window_ns"] >= _FULL * rank["span_ns"]
    if largest is None or not alone or largest["busy_ns"] < _LARGE * step["window_ns"]:
        return ""
    name = _FAMILIES.get(largest["family"], f"{largest['family']} kernels")
    return f"; {percent(largest['busy_ns'] / step['window_ns'], 0)} in {name}"


def _word(kind: Mapping[str, Any]) -> str:
    return "engine " if kind["kind"] == NOT_TOLD else f"{kind['kind']} "


def _counted(number: int, noun: str) -> str:
    return f"one {noun}" if number == 1 else counted(number, noun)


def _number(value: float) -> str:
    """Three significant digits, whole parts with commas: 2,980; 52,100; 236."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 or rounded == int(rounded) else f"{rounded:,g}"


def _exact(time_ns: int) -> str:
    """A time with a decimal at least: "156.5 ms"."""
    text = duration(time_ns)
    return text if "." in text or text.endswith("ns") else duration(time_ns, 4)
