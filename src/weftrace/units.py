"""Units: time inside weftrace is integer nanoseconds; it becomes text for a person with these functions alone."""

import math

US = 1_000
MS = 1_000_000
S = 1_000_000_000

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30


def counted(number: float, noun: str) -> str:
    """ "1 rank", "2,048 ranks", "8.5 chunk activations"; a noun in -ch takes -es."""
    ending = "" if number == 1 else "es" if noun.endswith("ch") else "s"
    return f"{number:,.6g} {noun}{ending}" if isinstance(number, float) else f"{number:,} {noun}{ending}"


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


def of_whole(part_ns: float, whole_ns: float) -> str:
    """A part and its whole, in one unit unless the part would vanish in it: "4.7 of 129.0 ms", "25.5 µs of 10.7 ms"."""
    unit, name = (MS, "ms") if whole_ns >= 10 * MS else (US, "µs")
    if 0 < part_ns < unit:
        return f"{duration(part_ns)} of {duration(whole_ns)}"
    return f"{part_ns / unit:,.1f} of {whole_ns / unit:,.1f} {name}"


def short_time(time_ns: float) -> str:
    """Three significant digits and a unit: "850 ns", "12.4 µs", "1.21 ms", "3.21 s"."""
    if 0 < abs(time_ns) < 9.95:
        return f"{time_ns:.2g} ns"
    for size, name in ((US, "ns"), (MS, "µs"), (S, "ms")):
        if abs(time_ns) < 0.9995 * size:
            value = time_ns * 1000 / size
            return f"{value:.0f} ns" if size == US else f"{value:.{max(0, 3 - len(str(int(abs(value)))))}f} {name}"
    return f"{time_ns / S:,.{max(0, 3 - len(str(int(abs(time_ns / S)))))}f} s"


def si(value: float | None, unit: str = "", digits: int = 3) -> str:
    """1234567 -> "1.23 M"; powers of 1000, three significant digits, a dash for None."""
    if value is None:
        return "–"
    size, names, at = float(value), ("", "k", "M", "G", "T", "P", "E", "Z"), 0
    while abs(size) >= 999.5 and at < len(names) - 1:
        size, at = size / 1000, at + 1
    if at == 0 and size == int(size):
        return f"{int(size)} {unit}".rstrip()
    whole = len(str(int(abs(size))))
    return f"{size:.{max(0, digits - whole)}f} {names[at]}{unit}".rstrip()


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
