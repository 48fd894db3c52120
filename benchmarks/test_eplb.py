"""What weftrace is compared with is the published algorithm, all three times."""

from __future__ import annotations

import numpy as np
import torch

from benchmarks.eplb import by_arrays, by_lists, by_tensors

WEIGHT = [
    [90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86],
    [20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27],
]
PHY2LOG = [
    [5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1],
    [7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1],
]


def test_published_example() -> None:
    tensors = by_tensors(torch.tensor(WEIGHT), 16, 4, 2, 8)
    lists = by_lists([[float(load) for load in layer] for layer in WEIGHT], 16, 4, 2, 8)
    arrays = by_arrays(np.array(WEIGHT), 16, 4, 2, 8)
    for which in (0, 2):
        assert tensors[which].tolist() == lists[which] == arrays[which].tolist()
    assert tensors[0].tolist() == PHY2LOG
    slots = [np.sort(np.asarray(answers[1]), axis=-1).tolist() for answers in (tensors, lists, arrays)]
    assert slots[0] == slots[1] == slots[2]  # copies of one expert are equal, so each sort may order them otherwise
