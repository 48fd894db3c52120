"""Functions that are interpreted until that takes long, and compiled then, give the same either way, and where no
compiled code can be kept, or what is kept is damaged."""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core import config

from weftrace import compiled as compiling
from weftrace.compiled import compiled, interpreted, is_compiled, is_kept
from weftrace.errors import CompileWarning
from weftrace.experts.proof import bounds, fold_bound


def test_interpreted_functions_give_the_same_bits_as_compiled_ones() -> None:
    random = np.random.default_rng(3)
    load_LN, speed_G = random.gamma(0.5, size=(3, 24)), np.repeat([1.0, 0.5], 4)
    capacity_LG = np.full((3, 8), 4)
    calls: list[tuple[Any, tuple[Any, ...]]] = [
        (bounds._replica_bound, (load_LN, capacity_LG, speed_G, np.array([True, False, True]))),
        (bounds._capacity_bound, (load_LN, capacity_LG, speed_G)),
        (bounds._bound_by_slots, (load_LN, speed_G, np.full(3, 1e-3), False, 8)),
        (fold_bound._fold_bound, (load_LN, np.full(3, 16), np.full(3, 0.1), load_LN.max(axis=1), np.full(3, True))),
    ]
    for function, arguments in calls:
        compiled, plain = function.compiled(*arguments), interpreted(function.compiled)(*arguments)
        for one, other in zip(_arrays(compiled), _arrays(plain), strict=True):
            assert one.tobytes() == other.tobytes()


def twice(number: int) -> int:
    return 2 * number


@pytest.fixture(autouse=True)
def nothing_told_yet() -> None:
    compiling._tell_not_kept.cache_clear()


def test_where_no_folder_can_be_written_functions_are_compiled_in_memory_with_one_remark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compiling._Files, "_locator_classes", [compiling._Beside])
    with pytest.warns(CompileWarning, match=r"no folder .* NUMBA_CACHE_DIR") as told:
        for _ in range(2):
            function = compiled(twice)
            assert (function(4), is_compiled(function), is_kept(function)) == (8, False, False)
    assert len(told) == 1


def test_a_full_disk_costs_a_remark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("numba.core.caching.os.replace", full)
    with pytest.warns(CompileWarning, match="No space left on device"):
        assert compiled(twice)(4) == 8


@pytest.mark.parametrize("damaged", ["*.nbi", "*.nbc"])
@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:-9], lambda data: b"\xff" + data[1:]])
def test_a_damaged_cache_is_written_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, damaged: str, damage: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    compiled(twice)(4)
    (path,) = tmp_path.rglob(damaged)
    whole = path.stat().st_size
    path.write_bytes(damage(path.read_bytes()))
    with warnings.catch_warnings(action="error"):
        assert compiled(twice)(4) == 8
    (path,) = tmp_path.rglob(damaged)
    assert path.stat().st_size == whole


def _arrays(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
