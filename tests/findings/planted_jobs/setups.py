"""What a job is: its form, sizes and machines, and the knobs that a cause turns and a remedy turns back."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TypeAlias
from zlib import crc32

MB = 1 << 20
US, MS = 1e3, 1e6

#: Of some ranks: a factor, or ns.
Pairs: TypeAlias = tuple[tuple[int, float], ...]

_DRAW = random.Random(30)
_GAUSS = tuple(_DRAW.gauss(0.0, 1.0) for _ in range(8191))


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A training job. Times in ns; ratios as factors.

    ranks: who is simulated; recorded: whose files are written, None: all. world: ranks of the whole job, 0: those of
    `ranks`. unit_ns: the forward of a layer. launch_ns: the host's time for a kernel. jitter: of each kernel; wander:
    of all kernels of a rank in a step. beside: how much longer computations take beside communication.
    """

    form: str = "ddp"
    vendor: str = "nvidia"
    ranks: tuple[int, ...] = (0, 1, 2, 3)
    recorded: tuple[int, ...] | None = None
    world: int = 0
    steps: int = 4
    layers: int = 4
    unit_ns: float = MS
    launch_ns: float = 45 * US
    stem: float = 0.5
    attention: float = 0.22
    jitter: float = 0.03
    wander: float = 0.0
    seed: int = 0
    clock_ns: float = 0.0  # how far the ranks' clocks are apart

    # communication
    link: float = 400e9  # bytes a second that large messages reach
    alpha_ns: float = 14 * US
    layer_mb: float = 64.0
    tail_mb: float = 4.0  # of the last bucket of DDP, of the first and last unit of FSDP
    layers_per_bucket: int = 1
    pieces: int = 1  # of each message
    prefetch: bool = True
    gathers_behind: bool = False  # the host launches the next gather behind the layer, not before it
    queue: str = ""  # "" many connections; "order": begin in the order of launches; "serial": one after the other
    activation_mb: float = 16.0  # tensor parallelism
    chunks: int = 1
    beside: float = 1.0

    # computation
    slow: Pairs = ()  # rank -> factor
    slow_family: str = ""  # of `slow`; all where empty
    slow_since: tuple[int, float] = (10_000, 1.0)  # step, factor: of all ranks
    sequences: float = 0.0  # spread of the attention's time over ranks and steps
    is_even: bool = False  # sequences, experts' loads and stages are levelled
    skew: float = 1.0  # of the fullest rank's experts, to the mean
    expert_share: float = 0.5  # of a layer
    deep_ep: bool = True
    dispatch_mb: float = 24.0

    # pipelines
    micro_batches: int = 16
    schedule: str = "1f1b"
    stages: tuple[int, ...] = ()  # layers of each stage; a micro-batch's forward takes unit_ns in their mean

    # hosts
    loader_ns: Pairs = ()  # rank -> a step's
    slow_host: Pairs = ()  # rank -> factor
    syncs: int = 0
    blocks: bool = True
    sync_work_ns: float = 150 * US
    pause: tuple[int, int, float] = (-1, -1, 0.0)  # rank, step, ns
    is_pause_recorded: bool = False

    def noise(self, key: str, sigma: float) -> float:
        """The same for a key whatever else is changed, so that jobs with and without a cause differ by that alone."""
        return math.exp(sigma * _GAUSS[crc32(f"{self.seed} {key}".encode()) % len(_GAUSS)])

    def transfer_ns(self, what: str, num_bytes: float, size: int) -> float:
        """Latency and bandwidth. num_bytes: of the whole tensor, as it is before it is scattered or after gathering."""
        moved = {"all_reduce": 2 * (size - 1) / size, "send": 1.0, "recv": 1.0}.get(what, (size - 1) / size)
        return self.alpha_ns + num_bytes * moved / self.link * 1e9

    @property
    def shown(self) -> tuple[int, ...]:
        return self.ranks if self.recorded is None else self.recorded

    @property
    def num_ranks(self) -> int:
        return max(self.world, len(self.ranks))
