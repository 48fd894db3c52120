"""What serving engines write of their experts' loads, as named arrays: SGLang, vLLM, the load histories of ADRS, and
plain arrays. The values come from JSON, .npz or .pt alike.

Layouts, as the engines' sources have them:
- SGLang, mode `stat`: "logical_count" [steps, L, N]. Mode `per_pass`: "records", one for each forward pass and rank,
  with "global_physical_count" [L, P]; ranks are added up; "last_physical_to_logical_map" [L, P] names the experts.
- vLLM: "expert_load_window" [steps, L, P] with "physical_to_logical_map" [L, P]; without the map, slots are experts.
- ADRS and OpenEvolve: {"load_history": [{"logical_expert_load": [L][N]}, ...]}.
- Plain: "loads" (or "load", "counts", or the only array there is) [L, N] or [steps, L, N]; "layers" [L] numbers them.

A map of slots alone (SGLang's --init-expert-location, vLLM's phy2log) is a placement, and refused as such.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from weftrace.errors import LoadsError
from weftrace.experts.arrays import Floats, is_whole
from weftrace.experts.recorded.steps import Steps, as_steps, numbered, of_experts, refuse_size

_PLAIN = ("loads", "load", "counts", "load_TLN", "load_LN")
_PHYSICAL = ("expert_load_window", "global_physical_count", "physical_count")
_MAPS = ("physical_to_logical_map", "last_physical_to_logical_map", "phy2log")
_PLACEMENTS = {
    **dict.fromkeys((*_MAPS, "physical_to_logical"), "says which expert is in which slot"),
    **dict.fromkeys(
        ("logical_to_all_physical_map", "logical_to_physical_map", "log2phy"), "says which slots hold which expert"
    ),
}
_MAP_MAY_HAVE_CHANGED = (
    "SGLang keeps only the last map of slots: counts from before a re-plan within the recording are credited to the "
    "wrong experts (record in mode stat, or without re-planning)"
)

Values = Mapping[str, Any]


def json_values(data: bytes, path: str) -> Any:
    """A JSON file's top level; what is inside is decoded when it is asked for, one step at a time where it can be."""
    try:
        if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
            return msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=dict[str, msgspec.Raw])
        return msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise LoadsError(f"{path}: not JSON: {error}; was it cut off, or does it have one object per line?") from error


def is_sglang_records(values: Any) -> bool:
    return isinstance(values, Mapping) and "records" in values


def steps_of(values: Any, path: str) -> Steps:
    """The recording in a file's values, whichever of the layouts above it has; not for `is_sglang_records`."""
    if not isinstance(values, Mapping):
        return numbered("arrays", as_steps(_decoded(values, path), path))
    if "load_history" in values:
        return _load_history(values["load_history"], path)
    if "logical_count" in values:
        return numbered("sglang", as_steps(_decoded(values["logical_count"], path), f"{path}: logical_count"))
    for physical in _PHYSICAL:
        if physical in values:
            return _physical(values, physical, path)
    name = next((name for name in _PLAIN if name in values), None)
    if name is None:
        _refuse_placement(values, path)
    if name is None and len(values) == 1:
        name = next(iter(values))
    if name is None:
        named = ", ".join(str(key) for key in list(values)[:8])
        raise LoadsError(
            f"{path}: no loads among its fields ({named}); they are called loads, logical_count, expert_load_window, "
            "load_history or records"
        )
    steps = numbered("arrays", as_steps(_decoded(values[name], path), f"{path}: {name}"))
    layers = _decoded(values["layers"], path) if "layers" in values else None
    if not isinstance(layers, list | tuple | np.ndarray):  # none, or another's count of them
        return steps
    return replace(steps, layers=_layer_numbers(layers, len(steps.layers), path))


def _refuse_placement(values: Values, path: str) -> None:
    """A map of slots read as loads would balance by the experts' own numbers."""
    for name, what in _PLACEMENTS.items():
        if name in values:
            raise LoadsError(
                f"{path}: {name} {what}: this is a placement. Loads count the tokens of each expert: give the loads "
                "that the engine recorded. weftrace.experts.make_placement takes the map, and scores it on loads"
            )


def _layer_numbers(layers: Any, num_layers: int, path: str) -> tuple[int, ...]:
    numbers = np.asarray(layers).tolist()
    are_whole = all(is_whole(number, least=0) for number in numbers)
    if len(numbers) != num_layers or not are_whole or len(set(numbers)) != num_layers:
        raise LoadsError(f"{path}: layers must be {num_layers} different whole numbers of at least 0, not {numbers}")
    return tuple(numbers)


def sglang_records(files: Sequence[tuple[str, Values]]) -> Steps:
    """The forward passes of SGLang's per-pass recordings, one file or one a rank: ranks of a pass are added up."""
    load_of_pass: dict[int, Any] = {}
    seen: set[tuple[int, int, str]] = set()
    for path, values in files:
        slot_map = next((_decoded(values[name], path) for name in _MAPS if name in values), None)
        if slot_map is None:
            raise LoadsError(f"{path}: records without last_physical_to_logical_map: which expert is in which slot?")
        for index, record in enumerate(_rows(values["records"], path)):
            what = f"{path}: record {index}"
            if not isinstance(record, Mapping) or "global_physical_count" not in record:
                raise LoadsError(f"{what} has no global_physical_count; record in mode per_pass or stat")
            key = (_whole(record, "forward_pass_id", what, index), _whole(record, "rank", what, 0))
            name = (*key, str(record.get("gatherer_key", "")))
            if name in seen:
                raise LoadsError(f"{what}: pass {key[0]} of rank {key[1]} occurs twice; was a file given twice?")
            seen.add(name)
            load_LN = of_experts(as_steps(record["global_physical_count"], what)[:1], slot_map, what)[0]
            held = load_of_pass.get(key[0])
            if held is not None and held.shape != load_LN.shape:
                raise LoadsError(f"{what} is {list(load_LN.shape)} layers and experts, others {list(held.shape)}")
            load_of_pass[key[0]] = load_LN if held is None else held + load_LN
    shapes = {load_LN.shape for load_LN in load_of_pass.values()}
    if len(shapes) != 1:
        raise LoadsError(f"{files[0][0]}: passes of {len(shapes)} shapes: {sorted(shapes) or 'there are none'}")
    refuse_size((len(load_of_pass), *shapes.pop()), files[0][0])
    return numbered(
        "sglang", np.stack([load_of_pass[number] for number in sorted(load_of_pass)]), (_MAP_MAY_HAVE_CHANGED,)
    )


def _load_history(value: Any, path: str) -> Steps:
    load_TLN: list[Floats] = []
    for index, step in enumerate(_rows(value, path)):
        what = f"{path}: load_history[{index}]"
        if not isinstance(step, Mapping) or "logical_expert_load" not in step:
            raise LoadsError(f"{what} has no logical_expert_load")
        load_LN = as_steps(step["logical_expert_load"], what)
        if len(load_LN) != 1 or (load_TLN and load_LN[0].shape != load_TLN[0].shape):
            shape = load_TLN[0].shape if load_TLN else "one step"
            raise LoadsError(f"{what} is {list(load_LN.shape)}, and the steps before {shape}")
        load_TLN.append(load_LN[0])
        refuse_size((len(load_TLN), *load_LN[0].shape), path)
    if not load_TLN:
        raise LoadsError(f"{path}: load_history is empty")
    return numbered("load-history", np.stack(load_TLN))


def _physical(values: Values, name: str, path: str) -> Steps:
    count_TLP = as_steps(_decoded(values[name], path), f"{path}: {name}")
    format = "vllm" if name == "expert_load_window" else "sglang"
    map_name = next((name for name in _MAPS if name in values), None)
    if map_name is None:
        return numbered(
            format, count_TLP, (f"{name} comes without physical_to_logical_map: its slots are the experts",)
        )
    return numbered(format, of_experts(count_TLP, _decoded(values[map_name], path), f"{path}: {name}"))


def _rows(value: Any, path: str) -> Any:
    """The items of a list, each decoded when its turn comes."""
    if isinstance(value, msgspec.Raw):
        try:
            return (_decoded(raw, path) for raw in msgspec.json.decode(value, type=list[msgspec.Raw]))
        except (msgspec.DecodeError, RecursionError) as error:
            raise LoadsError(f"{path}: a list of steps was expected: {error}") from error
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise LoadsError(f"{path}: a list of steps was expected, not {type(value).__name__}")
    return value


def _decoded(value: Any, path: str) -> Any:
    if not isinstance(value, msgspec.Raw):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise LoadsError(f"{path}: not JSON: {error}") from error


def _whole(record: Values, name: str, what: str, default: int) -> int:
    value = record.get(name, default)
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise LoadsError(f"{what}: {name} is {value!r}, not a whole number") from error
