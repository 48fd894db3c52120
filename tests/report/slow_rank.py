"""A training job with one slow rank, as files: what the picture of the job page in the documents shows.

    python -m tests.report.slow_rank FOLDER [RANKS]
    weftrace report FOLDER -o job.html
    python -m tests.pictures job.html docs/images/job.png 1440 1260

Groups of four ranks share each layer and meet after it (all-reduce of a tensor-parallel group); all ranks meet at the
end of a step (gradients). One rank's compute takes a quarter longer from the third step on, so that its own group waits
for it in every layer, and all others at the end of the step. Clocks are up to 40 ms apart.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from tests.analysis.jobs import Job

US = 1_000
SLOW, SLOWER, FROM_STEP = 5, 1.25, 2
LAYERS, STEPS = 8, 6


def slow_rank(number: int = 16, *, steps: int = STEPS, layers: int = LAYERS) -> Job:
    dice = random.Random(3)
    job = Job(number=number, ahead={rank: dice.randint(-20_000, 20_000) * US for rank in range(1, number)}, jitter=500)
    groups = [tuple(range(first, min(first + 4, number))) for first in range(0, number, 4)]
    for step in range(steps):
        job.step = step
        for _ in range(2 * layers):  # forward, then backward
            for rank in range(number):
                length = round(400 * US * dice.uniform(0.97, 1.03))
                job.work(rank, round(length * SLOWER) if rank == SLOW and step >= FROM_STEP else length)
            for group in groups:
                job.meet(group, 60 * US, group="tensor parallel")
        job.meet(range(number), 900 * US, group="data parallel")
        for rank in range(number):
            job.work(rank, round(300 * US * dice.uniform(0.97, 1.03)))
    return job


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for path in slow_rank(int([*sys.argv, "16"][2])).write(Path(sys.argv[1])).iterdir():
        path.write_text(json.dumps({**json.loads(path.read_text()), "weftrace_simulated": True}))
