"""How does DeepSpeed's text write a number? "6.28 TFLOPS", "336.23 M", "76.67 ms".

`number_to_string` and its family take the arguments of DeepSpeed 0.19.8's functions and give its strings. `EARLIER`
writes as the releases did whose output stands in many documents: nothing above G for counts, "3139.93 GMACs".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

DEFAULT_PRECISION = 2  # digits after the point

_SIZE = {"T": 1e12, "G": 1e9, "M": 1e6, "K": 1e3, "": 1.0, "m": 1e-3, "u": 1e-6}


def number_to_string(num: float, units: str | None = None, precision: int = DEFAULT_PRECISION) -> str:
    """6.28 T: the number over the size of its unit, a space and the unit. units: one of T, G, M, K, m, u; None
    chooses.
    """
    if units is None:
        above = (unit for unit in ("T", "G", "M", "K") if num >= _SIZE[unit])
        below = "" if num >= 1 or num == 0 else "m" if num >= _SIZE["m"] else "u"
        units = next(above, below)
    return f"{round(num / _SIZE.get(units, 1.0), precision):g} {units}"


def macs_to_string(macs: float, units: str | None = None, precision: int = DEFAULT_PRECISION) -> str:
    """3.14 TMACs: multiply-accumulates."""
    return f"{number_to_string(macs, units, precision)}MACs"


def flops_to_string(flops: float, units: str | None = None, precision: int = DEFAULT_PRECISION) -> str:
    """81.9 TFLOPS: a rate, FLOPs in each second. A number of FLOPs is written by `number_to_string`."""
    return f"{number_to_string(flops, units, precision)}FLOPS"


def bytes_to_string(b: float, units: str | None = None, precision: int = DEFAULT_PRECISION) -> str:
    """1.34 GB: bytes, in powers of 1000."""
    return f"{number_to_string(b, units, precision)}B"


def params_to_string(params_num: float, units: str | None = None, precision: int = DEFAULT_PRECISION) -> str:
    """336.23 M, "1.5 B": parameters; B, billions, where other counts say G."""
    asked = units.replace("B", "G") if units else units
    return number_to_string(params_num, asked, precision).replace("G", "B").strip()


def duration_to_string(duration: float, units: str | None = None, precision: int = DEFAULT_PRECISION) -> str:
    """76.67 ms: seconds in."""
    return f"{number_to_string(duration, units, precision)}s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A way to write the profile.

    width: columns that the labels of the summary fill. The functions write counts, MACs, FLOPs per second, parameters
    and seconds. share: writes a fraction with the name of its whole ("100% Params"); joined: between the two.
    """

    name: str
    width: int
    number: Callable[[float], str]
    macs: Callable[[float], str]
    rate: Callable[[float], str]
    params: Callable[[float], str]
    duration: Callable[[float], str]
    share: Callable[[float], str]
    joined: str


def _up_to(units: str, most: str) -> Callable[[float], str]:
    def write(num: float) -> str:
        unit = next((unit for unit in most if num >= _SIZE[unit.upper()]), "")
        value = round(num / _SIZE[unit.upper()], 2)
        return f"{value if unit else format(value, 'g')} {unit}{units}"

    return write


def _earlier_duration(seconds: float) -> str:
    size, unit = (1.0, "s") if seconds > 1 else (1e-3, "ms") if seconds > 1e-3 else (1e-6, "us")
    return f"{round(seconds / size, 2)} {unit}"


PRESENT = Layout(
    name="present",
    width=70,
    number=number_to_string,
    macs=macs_to_string,
    rate=flops_to_string,
    params=params_to_string,
    duration=duration_to_string,
    share=lambda fraction: f"{round(100 * fraction, DEFAULT_PRECISION):g}%",
    joined=" = ",
)
EARLIER = Layout(
    name="earlier",
    width=60,
    number=_up_to("", "GMK"),
    macs=_up_to("MACs", "GMK"),
    rate=_up_to("FLOPS", "TGMK"),
    params=lambda num: _up_to("", "Mk")(num).strip(),
    duration=_earlier_duration,
    share=lambda fraction: f"{fraction:.2%}",
    joined=", ",
)
LAYOUTS = {layout.name: layout for layout in (PRESENT, EARLIER)}
