"""What is saved is read back equal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from weftrace.errors import OutputError
from weftrace.experts.recorded.generator import generate_loads
from weftrace.experts.recorded.read import read_loads
from weftrace.experts.recorded.save_loads import save_loads


@pytest.mark.parametrize("name", ["loads.npz", "loads.json", "loads.json.gz"])
@pytest.mark.parametrize("tokens", [1000, None])
def test_saved_loads_are_read_back(name: str, tokens: int | None, tmp_path: Path) -> None:
    history = generate_loads("real", 3, 2, 8, tokens=tokens)
    save_loads(history, tmp_path / name)
    np.testing.assert_array_equal(read_loads(tmp_path / name).load_TLN, history.load_TLN)


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"loads are written as .npz or .json"):
        save_loads([[1, 2]], tmp_path / "loads.xls")
