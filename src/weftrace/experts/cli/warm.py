"""`weftrace experts warm`: compile the solvers beforehand, for an image or a cluster's shared folder."""

from __future__ import annotations

from weftrace.experts.cli import options as experts_options

EPILOG = """[bold]Examples[/bold]

weftrace experts warm                                 once per machine, image or CI cache

NUMBA_CACHE_DIR=/opt/cache weftrace experts warm      into a folder of your choice; set the same when you use it"""


def command() -> None:
    """Compile the solvers now, so that the first balance does not wait for it; where they are, nothing happens."""
    from weftrace.experts import balance, generate_loads, replay

    history = generate_loads("real", 8, 2, 64, seed=0)
    with experts_options.balancing_progress("compiling") as on_progress:
        for split in ("even", "uneven"):
            balance(history.total(1), 80, 16, 4, 8, split=split, on_progress=on_progress)
        replay(
            history, num_slots=80, num_gpus=16, num_nodes=4, num_groups=8, estimators=("last",), windows=(4,),
            intervals=(4,),
        )  # fmt: skip
