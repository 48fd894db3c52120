"""Numbers as people read them: times, sizes, shares, counts. Inside weftrace a time is integer nanoseconds; only these
functions make text of it. `render/static/format.js` has the same for pages, and `tests/units.json` holds for both."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from itertools import accumulate, pairwise
from typing import TypeGuard

US = 1_000
MS = 1_000_000
S = 1_000_000_000

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30

NOTHING = "–"  # where there is no number

_TIMES = (("ns", 1), ("µs", US), ("ms", MS), ("s", S), ("min", 60 * S), ("h", 3600 * S))
_LIMITS = (1000, 1000, 1000, 1000, 60, math.inf)  # from which number on the next unit is taken
_POWERS = ("", "k", "M", "G", "T", "P", "E", "Z")
_MOST_QUOTED = 80
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """The unit of a table, one for all its times, so that they can be compared at a glance."""

    name: str
    ns: int
    decimals: int

    def __call__(self, time_ns: float) -> str:
        return grouped(time_ns / self.ns, self.decimals)

    def signed(self, time_ns: float) -> str:
        """A change: "+1.25", "−0.30", "0.00"."""
        return _with_plus(time_ns, self(time_ns))

    def shows(self, time_ns: float) -> bool:
        """Whether more than zeros is shown of a time."""
        return _has_digit(self(time_ns))


_UNITS = tuple(
    Unit(name=name, ns=size, decimals=decimals) for (name, size), decimals in zip(_TIMES, (0, 1, 2, 2), strict=False)
)


def unit_for(largest_ns: float) -> Unit:
    """The smallest of ns, µs, ms and s in which a table's largest time is below 10,000."""
    return next((unit for unit in _UNITS if abs(largest_ns) < 10_000 * unit.ns), _UNITS[-1])


def adding_up(times_ns: Iterable[float], unit: Unit) -> list[str]:
    """Times in a unit, rounded so that they still add up to their sum."""
    least = unit.ns / 10**unit.decimals
    ends = [0, *(round(end / least) for end in accumulate(times_ns))]
    return [unit((end - start) * least) for start, end in pairwise(ends)]


def tick(time_ns: float, step_ns: float, span_ns: float) -> str:
    """A time on an axis, with the digits that tell ticks apart: "0.5 ms". All ticks of an axis have the unit that its
    span reaches, or a smaller one where a step would need more than two decimals.
    """
    reached = (unit for unit in reversed(_UNITS) if unit.ns <= span_ns and unit.ns <= 100 * step_ns)
    unit = next(reached, _UNITS[0])
    steps = (step_ns * 10**digits / unit.ns for digits in range(9))
    digits = next((at for at, step in enumerate(steps) if abs(step - round(step)) < 1e-6 * step), 9)
    return f"{grouped(time_ns / unit.ns, digits)} {unit.name}"


def duration(time_ns: float | None, digits: int = 3) -> str:
    """A time in the unit that a person would choose, with three significant digits: "850 ns", "12.4 µs", "1.00 ms",
    "129 ms", "3.21 s", "16.7 min", "4.12 h". A whole part is never cut, and nanoseconds have no decimals, but for less
    than ten of them ("0.4 ns").
    """
    return " ".join(_scaled(time_ns, digits)) if _is_known(time_ns) else NOTHING


def signed_duration(time_ns: float | None, digits: int = 3) -> str:
    """A change: "+90.0 µs", "−1.20 ms", "0 ns"."""
    return _with_plus(time_ns, duration(time_ns, digits))


def of_whole(part_ns: float, whole_ns: float) -> str:
    """A part and its whole, in one unit where both have it: "4.70 of 129 ms", "25.5 µs of 10.7 ms"."""
    (part, unit), (whole, name) = _scaled(part_ns, 3), _scaled(whole_ns, 3)
    return f"{part} of {whole} {name}" if unit == name or not part_ns else f"{part} {unit} of {whole} {name}"


def si(value: float | None, unit: str = "", digits: int = 3) -> str:
    """A large number in powers of 1000, with three significant digits: 1234567 is "1.23 M"."""
    if not _is_known(value):
        return NOTHING
    if 0 < abs(value) < 0.01:
        mantissa, _, power = f"{value:.1e}".partition("e")
        return f"{grouped(float(mantissa), 1)}e{int(power)} {unit}".rstrip()
    at = 0
    while at < len(_POWERS) - 1 and abs(float(f"{value:.{max(digits, 3) - 1}e}")) >= 1000:
        value, at = value / 1000, at + 1
    text = grouped(value, _decimals(value, digits) if at or value % 1 else 0)
    return f"{text} {_POWERS[at]}{unit}".rstrip()


def size(num_bytes: float | None) -> str:
    """Bytes in powers of 1024, with one decimal: "14.3 MiB"."""
    if not _is_known(num_bytes):
        return NOTHING
    at = 0
    while at < len(_SIZES) - 1 and abs(num_bytes) >= (1023.95 if at else 1023.5):
        num_bytes, at = num_bytes / 1024, at + 1
    return f"{grouped(num_bytes, 1 if at else 0)} {_SIZES[at]}"


def percent(fraction: float | None, digits: int = 1) -> str:
    """A fraction as a percentage: "96.3 %"."""
    return f"{grouped(100 * fraction, digits)} %" if _is_known(fraction) else NOTHING


def small_percent(fraction: float | None) -> str:
    """The same, but of less than 0.1 % two significant digits: "96.3 %", "0.0042 %"."""
    if _is_known(fraction) and 5e-9 <= abs(fraction) < 0.001:
        return percent(fraction, 1 - _power(100 * fraction, 2))
    return percent(fraction)


def signed(fraction: float | None, digits: int = 1) -> str:
    """A change as a percentage: "+3.1 %", "−0.4 %", "0.0 %"."""
    return _with_plus(fraction, percent(fraction, digits))


def grouped(value: float, decimals: int = 0) -> str:
    """1234567.8 as "1,234,567.80": a true minus, but none before zeros."""
    text = f"{abs(value):,.{decimals}f}"
    return f"−{text}" if value < 0 and _has_digit(text) else text


def whole(number: int) -> str:
    """ "2,048"; from 10^18 on "1.00e+300", so that no message is full of digits."""
    return f"{number:,}" if abs(number) < 10**18 else f"{Decimal(number):.2e}"


def quoted(value: object) -> str:
    """A value that somebody gave, in a message: as Python writes it; long numbers rounded, long texts cut."""
    if type(value) is int:
        return whole(value)
    text = repr(value)
    return text if len(text) <= _MOST_QUOTED else f"{text[: _MOST_QUOTED // 2]}…{text[-_MOST_QUOTED // 2 :]}"


def counted(number: float, noun: str) -> str:
    """ "1 rank", "2,048 ranks", "8.5 chunk activations", "2 boxes", "3 copies"."""
    text = f"{number:,.6g}" if isinstance(number, float) else whole(number)
    return f"{text} {noun if number == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """The plural of a noun: "ranks", "batches", "copies", "boxes"."""
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("ch", "sh", "x", "ss")) else f"{noun}s"


def listed(words: Iterable[object], *, conjunction: str = "and", most: int | None = None) -> str:
    """ "a", "a and b", "a, b and c"; of more than `most`, those and "and 3 more"."""
    texts = list(map(str, words))
    if most is not None and len(texts) > most:
        texts = [*texts[:most], f"{len(texts) - most:,} more"]
    return f" {conjunction} ".join(filter(None, (", ".join(texts[:-1]), *texts[-1:])))


def _scaled(time_ns: float, digits: int) -> tuple[str, str]:
    """A time as a number and the name of its unit."""
    if abs(time_ns) < 9.95 and time_ns % 1:
        return grouped(time_ns, min(2, 1 - _power(time_ns, 2))).rstrip("0").rstrip("."), "ns"
    at = 0
    while True:
        name, unit = _TIMES[at]
        decimals = _decimals(time_ns / unit, digits) if at else 0
        if abs(float(f"{time_ns / unit:.{decimals}f}")) < _LIMITS[at]:
            return grouped(time_ns / unit, decimals), name
        at += 1


def _decimals(value: float, digits: int) -> int:
    """So many that a number from 1 on has `digits` significant ones."""
    return max(0, digits - 1 - max(0, _power(value, digits)))


def _power(value: float, digits: int) -> int:
    """The power of ten of a number that is rounded to `digits` significant ones."""
    return int(f"{value:.{digits - 1}e}".partition("e")[2])


def _with_plus(value: float | None, text: str) -> str:
    """A plus before what is more than zeros."""
    return f"+{text}" if value and value > 0 and _has_digit(text) else text


def _has_digit(text: str) -> bool:
    return any(digit in text for digit in "123456789")


def _is_known(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)
