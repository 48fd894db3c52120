"""Loads of GPUs from a file: a placement's document, or a JSON object with `loads`."""

from __future__ import annotations

from typing import Any

import numpy as np

from weftrace.errors import ProfileError
from weftrace.files.documents import read_document
from weftrace.moe.routing.load import Floats

PLACEMENT = "weftrace.placement/1"


def read_gpu_loads(path: str, num_layers: int) -> Floats:
    """[L, R] loads of the GPUs in the first `num_layers` layers of a file.

    What `weftrace experts balance -o plan.json` writes holds what its placement gives each GPU; else a JSON object
    whose `loads` is a list of layers, each a list of GPUs. Raises `DocumentError` where the file cannot be read, and
    `ProfileError` where it holds no such loads, or too few layers.
    """
    document: Any = read_document(path)
    is_placement = document.get("schema") == PLACEMENT
    try:
        loads = np.array(document["gpu_load"]["after"]["load"] if is_placement else document["loads"], np.float64)
    except (KeyError, TypeError, ValueError) as error:
        raise ProfileError(
            f"{path}: no loads of GPUs; give a {PLACEMENT} document, or {{'loads': [[of each GPU] of each layer]}}"
        ) from error
    if loads.ndim != 2 or len(loads) < num_layers:
        raise ProfileError(f"{path}: loads of shape {list(loads.shape)}, and the profile has {num_layers} layers")
    return loads[:num_layers]
