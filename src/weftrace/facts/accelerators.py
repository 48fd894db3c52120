"""Accelerators: peak rates, memory, links. The numbers are in hardware.toml, a source beside each."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from weftrace.errors import WeftraceError
from weftrace.facts.tables import read_tables
from weftrace.units import size

BUILT_IN = Path(__file__).with_name("hardware.toml")

DTYPES = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4")

_COUNTS = ("num_sms", "hbm_bytes", "gpus_per_node")
_RATES = ("hbm_bytes_per_s", "link_bytes_per_s", "nic_bytes_per_s")
_OPTIONAL = ("pcie_bytes_per_s",)  # of files that were written before weftrace asked for it

#: Names under which ROCm's profilers list any AMD accelerator; they tell nothing.
_NAMELESS = ("", "AMD Radeon Graphics")
#: Profilers see up to 5 % less memory than there is.
_LEAST_SEEN = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """What one accelerator could do at best. Every rate is of one GPU and one direction.

    name, match: weftrace's name for it, and a regex on a profiler's device name.
    peak_flops: dtype (one of `DTYPES`) -> FLOP/s, OP/s for int8; dense, on the fastest units (tensor or matrix cores).
    num_sms: SMs (NVIDIA) or compute units (AMD).
    hbm_bytes, hbm_bytes_per_s: memory capacity in bytes and its peak bandwidth.
    link_bytes_per_s: NVLink or xGMI to all peers that it joins together, in one direction.
    nic_bytes_per_s: a GPU's share of its node's network, in one direction.
    gpus_per_node: GPUs joined by the link: those of a server, or of a rack where the link joins a rack (NVL72).
    pcie_bytes_per_s: one GPU to its host in one direction, over PCIe or what takes its place (NVLink-C2C); None where
    the file does not say.
    sources: "num_sms", "peak_flops.bf16" ... -> where that number is from.
    """

    name: str
    match: str
    peak_flops: Mapping[str, float]
    num_sms: int
    hbm_bytes: int
    hbm_bytes_per_s: float
    link_bytes_per_s: float
    nic_bytes_per_s: float
    gpus_per_node: int
    sources: Mapping[str, str]
    pcie_bytes_per_s: float | None = None

    def peak(self, dtype: str) -> float:
        """Dense peak of a dtype in FLOP/s; raises `WeftraceError` where the chip has no such peak."""
        if dtype not in self.peak_flops:
            raise WeftraceError(f"{self.name} has no peak for {dtype!r}; it has {', '.join(self.peak_flops)}")
        return self.peak_flops[dtype]


def load_hardware(*paths: str | os.PathLike[str]) -> tuple[Hardware, ...]:
    """weftrace's own list and the accelerators of `paths` (TOML files of the same form), which go first.

    An accelerator with a known name (case does not count) replaces that one. Raises `WeftraceError`, naming file and
    entry, where a file cannot be read, is not TOML, or an entry lacks a number or its source.
    """
    known: dict[str, Hardware] = {}
    for devices in (_built_in(), *(_read(Path(path)) for path in paths)):
        new = {device.name.lower(): device for device in devices}
        known = {**new, **{key: device for key, device in known.items() if key not in new}}
    return tuple(known.values())


def known_hardware(*paths: str | os.PathLike[str]) -> tuple[str, ...]:
    """Names that `hardware` knows, in the order in which it tries them."""
    return tuple(device.name for device in load_hardware(*paths))


def hardware(name: str, *paths: str | os.PathLike[str]) -> Hardware:
    """The accelerator of that name: weftrace's ("H100 SXM"), its start ("h100"), or a profiler's ("NVIDIA H100 80GB
    HBM3").

    Case does not count. paths: TOML files that extend the list. Raises `WeftraceError`, listing the names, where none
    fits.
    """
    devices = load_hardware(*paths)
    wanted = " ".join(name.lower().split())
    for device in devices:
        if device.name.lower() == wanted:
            return device
    for device in devices:
        if re.search(device.match, name, re.IGNORECASE):
            return device
    for device in devices:
        if wanted and f"{device.name.lower()} ".startswith(f"{wanted} "):
            return device
    known = ", ".join(device.name for device in devices)
    raise WeftraceError(
        f"no figures for the accelerator {name!r}; known: {known}. Add it in a TOML file: docs/hardware.md"
    )


def hardware_of_device(
    name: str, num_sms: int | None, memory_bytes: int | None, *paths: str | os.PathLike[str]
) -> tuple[Hardware, str]:
    """(the accelerator that a profiler lists, what it was taken for it by where its name does not tell, else "").

    A name that tells is looked up as `hardware` does. Of AMD's devices the name is often empty or "AMD Radeon
    Graphics": then SMs and memory decide, where all accelerators that have these have the same peaks and memory
    bandwidth, within 1 %. Raises `WeftraceError` where none fits or several that differ.
    """
    if name.strip() not in _NAMELESS:
        return hardware(name, *paths), ""
    seen = (
        f"{num_sms or 'an unknown number of'} SMs or CUs and {size(memory_bytes) if memory_bytes else 'unknown memory'}"
    )
    fits = [
        device
        for device in load_hardware(*paths)
        if device.num_sms == num_sms and memory_bytes and _LEAST_SEEN <= memory_bytes / device.hbm_bytes <= 1
    ]
    if not fits or not all(_is_as_fast(device, fits[0]) for device in fits):
        which = f": {', '.join(device.name for device in fits)} have these" if fits else ""
        raise WeftraceError(
            f"the device's name {name.strip()!r} does not name an accelerator, and {seen} do not "
            f"either{which}. Name it with --hardware"
        )
    return fits[0], f"taken for {' or '.join(device.name for device in fits)} by its {seen}"


def _is_as_fast(one: Hardware, other: Hardware) -> bool:
    mine, theirs = ({**device.peak_flops, "hbm": device.hbm_bytes_per_s} for device in (one, other))
    return mine.keys() == theirs.keys() and all(math.isclose(mine[k], theirs[k], rel_tol=0.01) for k in mine)


@cache
def _built_in() -> tuple[Hardware, ...]:
    return tuple(_read(BUILT_IN))


def _read(path: Path) -> list[Hardware]:
    entries = read_tables(path, "hardware", what="accelerators", error=WeftraceError)
    return [_device(entry, f"{path}: accelerator {number}") for number, entry in enumerate(entries, 1)]


def _device(entry: Mapping[str, Any], where: str) -> Hardware:
    name = _text(entry, "name", where)
    where = f"{where} ({name})"
    match = _text(entry, "match", where)
    try:
        re.compile(match)
    except re.error as error:
        raise WeftraceError(f"{where}: bad regex in 'match': {error}: {match}") from error
    unknown = sorted(set(entry) - {"name", "match", "peak_flops", *_COUNTS, *_RATES, *_OPTIONAL})
    if unknown:
        raise WeftraceError(f"{where}: unknown key {unknown[0]!r}")
    peaks = entry.get("peak_flops")
    if not isinstance(peaks, dict) or not peaks:
        raise WeftraceError(f"{where}: 'peak_flops' is missing; give at least one of {', '.join(DTYPES)}")
    strange = sorted(set(peaks) - set(DTYPES))
    if strange:
        raise WeftraceError(f"{where}: unknown dtype {strange[0]!r} in peak_flops; choose from {', '.join(DTYPES)}")
    numbers = {key: _number(entry.get(key), f"{where}: {key}") for key in (*_COUNTS, *_RATES)}
    more = {key: _number(entry[key], f"{where}: {key}") for key in _OPTIONAL if key in entry}
    peak = {dtype: _number(peaks[dtype], f"{where}: peak_flops.{dtype}") for dtype in DTYPES if dtype in peaks}
    for key in _COUNTS:
        if numbers[key][0] != int(numbers[key][0]):
            raise WeftraceError(f"{where}: {key} must be a whole number, not {numbers[key][0]}")
    return Hardware(
        name=name,
        match=match,
        peak_flops=MappingProxyType({dtype: value for dtype, (value, _) in peak.items()}),
        num_sms=int(numbers["num_sms"][0]),
        hbm_bytes=int(numbers["hbm_bytes"][0]),
        hbm_bytes_per_s=numbers["hbm_bytes_per_s"][0],
        link_bytes_per_s=numbers["link_bytes_per_s"][0],
        nic_bytes_per_s=numbers["nic_bytes_per_s"][0],
        gpus_per_node=int(numbers["gpus_per_node"][0]),
        sources=MappingProxyType(
            {key: source for key, (_, source) in (numbers | more).items()}
            | {f"peak_flops.{dtype}": source for dtype, (_, source) in peak.items()}
        ),
        pcie_bytes_per_s=more["pcie_bytes_per_s"][0] if "pcie_bytes_per_s" in more else None,
    )


def _text(entry: Mapping[str, Any], key: str, where: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value.strip():
        raise WeftraceError(f"{where}: {key!r} is missing; it must be a text")
    return value


def _number(entry: Any, where: str) -> tuple[float, str]:
    """(value, source) of `{ value = 132, source = "data sheet" }`."""
    if not isinstance(entry, dict) or set(entry) != {"value", "source"}:
        raise WeftraceError(f'{where} must be given as {{ value = ..., source = "where from" }}, not {entry!r}')
    value, source = entry["value"], entry["source"]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise WeftraceError(f"{where}: value must be a number above 0, not {value!r}")
    if not isinstance(source, str) or not source.strip():
        raise WeftraceError(f"{where}: source must say where {value!r} is from")
    return float(value), source
