"""The profile that a request asks for: its operation list, its setting, its costs and its routing."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from weftrace.errors import ProfileError
from weftrace.moe.operations import Overlap
from weftrace.moe.overlap_files import load_overlap
from weftrace.moe.profiles import PUBLISHED_OVERLAP, Profile, default_overlap, make_profile
from weftrace.moe.requests import Comm, Request
from weftrace.moe.setting import Setting
from weftrace.units import counted

if TYPE_CHECKING:
    from weftrace.moe.costs.levels import AnyLevel
    from weftrace.moe.routing.load import Load


def overlap_of_request(request: Request) -> Overlap:
    """Its list. Raises `ProfileError`."""
    return load_overlap(request.overlap or default_overlap(request.kind, request.comm or "deepep-v1"), request.kind)


def setting_of(request: Request, overlap: Overlap) -> Setting:
    """Its setting, tokens cut as the list needs. Raises `ProfileError`, with both numbers, for what cannot be."""
    comm: Comm = request.comm or ("fused" if overlap.is_fused else "deepep-v1")
    plain = _plain(
        replace(request, comm=comm, gpu_tokens=None, overlap=None, costs="published", ranks=1, routing="balanced",
                seed=0, spread=0.0, loads=None, contention=False)
    )  # fmt: skip
    if request.tokens is not None:
        if request.gpu_tokens is not None:
            raise ProfileError("tokens of a micro-batch and of a GPU are both given; give one of them")
        return plain
    whole = request.gpu_tokens
    if whole is None:
        whole = plain.tokens * load_overlap(PUBLISHED_OVERLAP[request.kind]).num_micro_batches
        whole = plain.tokens * overlap.num_micro_batches if request.kind == "train" else whole
    if whole < overlap.num_micro_batches or whole % overlap.num_micro_batches:
        raise ProfileError(
            f"{counted(whole, 'token')} of a GPU cannot be cut in {overlap.num_micro_batches} equal micro-batches: "
            f"{whole:,} / {overlap.num_micro_batches} is no whole number"
        )
    return replace(plain, tokens=whole // overlap.num_micro_batches)


@lru_cache(256)  # facts are read from files, and a sweep asks for few settings many times
def _plain(request: Request) -> Setting:
    assert request.comm is not None
    return Setting.of(
        request.kind, model=request.model, hardware=request.hardware, comm=request.comm, ep=request.ep,
        tokens=request.tokens, sequence=request.sequence, tokens_per_request=request.tokens_per_request,
        comm_sms=request.comm_sms, num_layers=request.layers, num_redundant=request.redundant,
        bandwidth_reached=request.bandwidth_reached,
    )  # fmt: skip


def profile_of(request: Request) -> Profile:
    """The profile that is asked for. Raises `ProfileError` for what cannot be."""
    overlap = overlap_of_request(request)
    setting = setting_of(request, overlap)
    if not 1 <= request.ranks <= setting.ep:
        raise ProfileError(
            f"{request.ranks} ranks of a group of {setting.ep} cannot be simulated: choose 1 to {setting.ep}"
        )
    load = _load(request, setting, overlap.num_micro_batches)
    return make_profile(
        setting, overlap, level=level_of(request.costs), load=load, num_ranks=request.ranks,
        contention=request.contention,
    )  # fmt: skip


@cache
def level_of(costs: str) -> AnyLevel:
    """ "roofline" and "published" as they are; else the calibration in that file."""
    if costs == "roofline":
        return "roofline"
    if costs == "published":
        return "published"
    if not costs.endswith((".json", ".json.gz", ".json.zst")):
        raise ProfileError(f"costs = {costs!r}; they are roofline, published, or a calibration's .json file")
    from weftrace.moe.calibration.values import read_calibration

    return read_calibration(costs)


def _load(request: Request, setting: Setting, num_micro_batches: int) -> Load | None:
    if request.loads is not None:
        if request.routing == "random":
            raise ProfileError("loads are given and experts are to be drawn; choose one of the two")
        from weftrace.moe.routing.load import from_loads, read_gpu_loads

        loads = read_gpu_loads(request.loads, setting.num_layers)
        return from_loads(setting, loads).first(request.ranks)
    if request.spread and request.routing != "random":
        raise ProfileError(f"a spread of popularity of {request.spread:g} is for routing = 'random'")
    if request.routing == "random":
        from weftrace.moe.routing.random_draw import drawn

        found = drawn(setting, seed=request.seed, spread=request.spread, num_micro_batches=num_micro_batches)
        return found.first(request.ranks)
    return None
