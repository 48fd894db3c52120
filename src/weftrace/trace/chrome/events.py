"""What is one event? The fields that weftrace reads, decoded strictly, or repaired where a file is not strict JSON."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

import msgspec

from weftrace.trace.chrome.json_text import clean, lenient_decimal
from weftrace.trace.chrome.mend import without_flaws
from weftrace.trace.chrome.tally import Tally

MISSING = -(1 << 62)  # an integer argument that the event does not have; null in the frame
NOTHING = msgspec.Raw()  # the same of an argument that is kept as the file has it


class Planned(msgspec.Struct, gc=False, frozen=True):
    """What a plan knows of a simulated event, in the argument `weftrace`: a class of work, or which phase it is."""

    kind: str | None = None
    layer: int = MISSING
    micro_batch: int = MISSING


class Args(msgspec.Struct, gc=False, frozen=True):
    """The arguments that weftrace reads, of all kinds of events.

    They stand in the order in which Kineto writes them, which is how the decoder looks for them. Those that are Raw say
    how a kernel was launched or an operator called: most are alike, and each text is read once (`argument_texts`).
    """

    external_id: int = msgspec.field(name="External id", default=MISSING)
    device: int = MISSING
    stream: int | str = MISSING
    correlation: int = MISSING
    registers: msgspec.Raw = msgspec.field(name="registers per thread", default=NOTHING)
    shared_bytes: msgspec.Raw = msgspec.field(name="shared memory", default=NOTHING)
    grid: msgspec.Raw = NOTHING
    block: msgspec.Raw = NOTHING
    occupancy: msgspec.Raw = msgspec.field(name="est. achieved occupancy %", default=NOTHING)
    moved_bytes: int | str = msgspec.field(name="bytes", default=MISSING)
    graph_id: int = msgspec.field(name="graph id", default=MISSING)
    graph_node_id: int = msgspec.field(name="graph node id", default=MISSING)
    sequence: int = msgspec.field(name="Sequence number", default=MISSING)
    forward_thread: int = msgspec.field(name="Fwd thread id", default=MISSING)
    inputs: msgspec.Raw = msgspec.field(name="Concrete Inputs", default=NOTHING)  # scalars' values, with record_shapes
    input_types: msgspec.Raw = msgspec.field(name="Input type", default=NOTHING)
    input_strides: msgspec.Raw = msgspec.field(name="Input Strides", default=NOTHING)
    input_shapes: msgspec.Raw = msgspec.field(name="Input Dims", default=NOTHING)
    call_stack: msgspec.Raw = msgspec.field(name="Call stack", default=NOTHING)  # with_stack before Python frames
    collective: str | None = msgspec.field(name="Collective name", default=None)
    in_elems: int = msgspec.field(name="In msg nelems", default=MISSING)
    out_elems: int = msgspec.field(name="Out msg nelems", default=MISSING)
    dtype: str | None = None
    group: str | None = msgspec.field(name="Process Group Name", default=None)
    group_size: int = msgspec.field(name="Group size", default=MISSING)
    group_ranks: str | None = msgspec.field(name="Process Group Ranks", default=None)
    src_rank: int | str = msgspec.field(name="Src Rank", default=MISSING)
    dst_rank: int | str = msgspec.field(name="Dst Rank", default=MISSING)
    seq: int = msgspec.field(name="Seq", default=MISSING)
    comms_id: int | str = msgspec.field(name="Comms Id", default=MISSING)
    stated_flops: int | float | str = msgspec.field(name="kernel_flop", default=MISSING)
    wait_stream: int = msgspec.field(name="wait_on_stream", default=MISSING)
    wait_correlation: int = msgspec.field(name="wait_on_cuda_event_record_corr_id", default=MISSING)
    hierarchy: str | None = msgspec.field(name="Module Hierarchy", default=None)  # of TorchScript, with_modules
    planned: Planned | None = msgspec.field(name="weftrace", default=None)
    old_external_id: int = msgspec.field(name="external id", default=MISSING)  # device events of Kineto before 2022
    old_input_shapes: msgspec.Raw = msgspec.field(name="Input dims", default=NOTHING)  # torch 1.8
    # of memory events
    reserved_bytes: int = msgspec.field(name="Total Reserved", default=MISSING)
    allocated_bytes: int = msgspec.field(name="Total Allocated", default=MISSING)
    memory_bytes: int = msgspec.field(name="Bytes", default=MISSING)
    address: int = msgspec.field(name="Addr", default=MISSING)
    memory_device: int = msgspec.field(name="Device Id", default=MISSING)
    device_type: int = msgspec.field(name="Device Type", default=MISSING)
    # of metadata events
    name: str | None = None
    labels: str | None = None
    sort_index: int = MISSING


NO_ARGS = Args()


class AllArgs(Args, gc=False, frozen=True):
    """Every argument of an event, as the file has it: of files that no Kineto wrote, whose writers chose the names."""

    every: dict[str, Any] = msgspec.field(default_factory=dict)


def _all_args(args: Any) -> Args:
    """What Kineto's metadata events say too, and everything else."""
    if not isinstance(args, dict) or not args:
        return NO_ARGS
    texts = {key: value for key in ("name", "labels") if isinstance(value := args.get(key), str)}
    order = args.get("sort_index")
    return AllArgs(**texts, sort_index=order if type(order) is int else MISSING, every=args)  # type: ignore[arg-type]


class Event(msgspec.Struct, gc=False):
    """One event of a Chrome trace; times in microseconds as the file writes them. What has no phase is no event."""

    ph: str
    cat: str = ""
    name: str = ""
    pid: int | str = ""
    tid: int | str = ""
    ts: int | float | Decimal | None = None
    dur: int | float | Decimal | None = None
    id: int | str | None = None
    args: Args = NO_ARGS


class _FloatEvent(Event, gc=False):
    ts: int | float | None = None
    dur: int | float | None = None


class _DecimalEvent(Event, gc=False):
    ts: int | Decimal | None = None
    dur: int | Decimal | None = None


class _WholeFloatEvent(_FloatEvent, gc=False):
    args: Any = NO_ARGS


class _WholeDecimalEvent(_DecimalEvent, gc=False):
    args: Any = NO_ARGS


_FLOATS = msgspec.json.Decoder(list[_FloatEvent])
_DECIMALS = msgspec.json.Decoder(list[_DecimalEvent])
_ONE = msgspec.json.Decoder(_DecimalEvent)
_WHOLE_FLOATS = msgspec.json.Decoder(list[_WholeFloatEvent])
_WHOLE_DECIMALS = msgspec.json.Decoder(list[_WholeDecimalEvent])
_WHOLE_ONE = msgspec.json.Decoder(_WholeDecimalEvent)
_UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ArithmeticError)


def decode_list(text: bytes | memoryview, *, exact: bool, whole: bool = False) -> list[Event] | None:
    """A JSON list of events, or None when the text is not exactly that. exact: fractions as decimals, not as floats.
    whole: with all arguments (`AllArgs`)."""
    try:
        if not whole:
            return (_DECIMALS if exact else _FLOATS).decode(text)  # type: ignore[return-value]
        events: list[Event] = (_WHOLE_DECIMALS if exact else _WHOLE_FLOATS).decode(text)  # type: ignore[assignment]
    except _UNDECODABLE:
        return None
    for event in events:
        event.args = _all_args(event.args)
    return events


def _decode_one(text: str | bytes, *, whole: bool) -> Event:
    """Raises one of `_UNDECODABLE`."""
    if not whole:
        return _ONE.decode(text)
    event = _WHOLE_ONE.decode(text)
    event.args = _all_args(event.args)
    return event


def quick_event(text: str, tally: Tally, *, whole: bool = False) -> Event | None:
    """An event from its text where that is sound, or where the commonest flaws are soon mended; None for the others,
    which `lenient_event` takes."""
    try:
        return _decode_one(text.encode("utf-8", "surrogateescape"), whole=whole)
    except _UNDECODABLE:
        pass
    if (strict := without_flaws(text, _USED)) is None:
        return None
    try:
        event = _decode_one(strict[0], whole=whole)
    except _UNDECODABLE:
        return None
    tally.repair(_NO_NUMBER if strict[1] else _NO_TEXT, text)
    return event


def lenient_event(
    value: dict[str, Any], text: str, tally: Tally, *, mended: bool = False, whole: bool = False
) -> Event:
    """An event from its text and from the object, which has a "ph", that `lenient_json` made of it. What cannot be used
    is left out and counted. mended: the text is not as the file has it (`mend`)."""
    raw = text.encode("utf-8", "surrogateescape")
    try:
        event = _decode_one(raw, whole=whole)  # sound by itself: only a neighbour was not
    except _UNDECODABLE:
        pass
    else:
        if mended:
            tally.repair(_UNESCAPED, text)
        return event
    fields, unusable = _usable(value)
    args, unusable_args = _usable_args(value.get("args"))
    if whole and isinstance(value.get("args"), dict):
        args, unusable_args = _all_args({key: _plain(item) for key, item in value["args"].items()}), []
    unusable += unusable_args
    if unusable:
        reason = f"unusable {min(unusable)} left out"
    elif not mended and _is_json(raw):
        reason = "value of another type converted"
    elif _NOT_A_NUMBER.search(text):
        reason = _NO_NUMBER
    else:
        reason = _UNESCAPED if mended else _NO_TEXT
    tally.repair(reason, text)
    return _DecimalEvent(**{"ph": "", **fields}, args=args)


_NO_NUMBER = "NaN or Infinity left out"
_NO_TEXT = "control characters or bytes that are not UTF-8 in a text"
_UNESCAPED = "quotes or backslashes escaped in a text"
_NOT_A_NUMBER = re.compile(r"\b(?:NaN|Infinity)\b")


def _is_json(raw: bytes) -> bool:
    try:
        raw.decode()
        msgspec.json.decode(raw)
    except (ValueError, RecursionError):
        return False
    return True


# --- repair ---------------------------------------------------------------------------------------------------------

_ARGUMENTS = {field.encode_name: field for field in msgspec.structs.fields(Args)}
_USED = frozenset((*_ARGUMENTS, *Event.__struct_fields__))


def _usable(value: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The fields of `Event`, without `args`, that can be used; and the names of those that cannot."""
    fields: dict[str, Any] = {}
    unusable = []
    for key, item in value.items():
        if key not in Event.__struct_fields__ or key == "args" or item is None:
            continue
        try:
            fields[key] = _number(item) if key in ("ts", "dur") else _label(item, is_text=key in ("ph", "cat", "name"))
        except (ValueError, ArithmeticError):
            unusable.append(key)
    return fields, unusable


def _number(item: Any) -> int | Decimal:
    if isinstance(item, str):
        item = lenient_decimal(item.strip())
    if isinstance(item, bool) or not isinstance(item, int | Decimal) or not (isinstance(item, int) or item.is_finite()):
        raise ValueError(item)
    return item


def _label(item: Any, *, is_text: bool) -> int | str:
    """A name, or a number that serves as one."""
    if isinstance(item, dict | list):
        raise ValueError(item)
    if isinstance(item, str):
        return clean(item)
    return item if isinstance(item, int) and not isinstance(item, bool) and not is_text else str(item)


def _usable_args(value: Any) -> tuple[Args, list[str]]:
    """The arguments that can be used; and the names of those that cannot, or of `args` as a whole."""
    if not isinstance(value, dict):
        return NO_ARGS, [] if value is None else ["args"]
    fields: dict[str, Any] = {}
    unusable = []
    for key, item in value.items():
        field = _ARGUMENTS.get(key)
        if field is None or item is None:
            continue
        try:
            plain = _plain(item)
            if field.type is msgspec.Raw:
                if isinstance(plain, float) and not math.isfinite(plain):
                    raise ValueError(plain)  # JSON has no text for it
                fields[field.name] = msgspec.Raw(msgspec.json.encode(plain))
            else:
                fields[field.name] = msgspec.convert(plain, field.type, strict=False)
        except (ValueError, OverflowError, RecursionError):
            unusable.append(f"args.{key}")
    return Args(**fields), unusable


def _plain(item: Any) -> Any:
    """Decimals, which `lenient_json` makes, as the integers that they may stand for; texts cleaned."""
    if isinstance(item, Decimal):
        return int(item) if item.is_finite() and MISSING < item < -MISSING and item == int(item) else float(item)
    if isinstance(item, list):
        return [_plain(part) for part in item]
    return clean(item) if isinstance(item, str) else item
