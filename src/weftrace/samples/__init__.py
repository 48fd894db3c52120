"""Simulated recordings with planted causes, to try weftrace on: training, a job of ranks, inference, a pair of runs.

import weftrace as wt

sample = wt.samples.write_sample("train", "train")     # train/train.json.gz, and train/planted.txt
sample.planted[0].what                                 # what is wrong, and what it costs
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weftrace.lazy import lazily

if TYPE_CHECKING:
    from weftrace.samples.catalogue import write_sample as write_sample
    from weftrace.samples.values import Planted as Planted
    from weftrace.samples.values import Sample as Sample

    __all__: list[str]

if not TYPE_CHECKING:  # a checker would take `__getattr__` to mean that every name exists
    __getattr__, __dir__, __all__ = lazily(__name__)
