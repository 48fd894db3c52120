"""Units: time inside weft is integer nanoseconds; only `report` and `cli` turn it into text, with these functions."""

import math

US = 1_000
MS = 1_000_000
S = 1_000_000_000

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30


def us(time_ns: float) -> str:
    """Nanoseconds as whole microseconds, halves up, with thousands separated: `129,012 µs`."""
    return f"{math.floor(time_ns / US + 0.5):,} µs"


def duration(time_ns: float) -> str:
    """Nanoseconds in the unit a person would choose: `850 ns`, `12.4 µs`, `129.0 ms`, `3.21 s`."""
    size = abs(time_ns)
    if size < US:
        return f"{time_ns:,.0f} ns"
    if size < MS:
        return f"{time_ns / US:,.1f} µs"
    if size < 10 * S:
        return f"{time_ns / MS:,.1f} ms"
    return f"{time_ns / S:,.2f} s"


def percent(fraction: float | None, digits: int = 1) -> str:
    """A fraction as a percentage, or an en dash where it is undefined."""
    return "–" if fraction is None else f"{100 * fraction:.{digits}f} %"


def size(num_bytes: float) -> str:
    """Bytes in binary units: `14.3 MiB`."""
    value = float(num_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
