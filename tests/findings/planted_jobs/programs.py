"""What hosts of each form of job do: which kernels and collectives they launch, in which order, waiting for what."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from tests.findings.planted_jobs.engine import COMMUNICATION, COPY, HOST, KERNEL, Op
from tests.findings.planted_jobs.setups import MB, US, Setup
from tests.jobs.orders import order_of

#: Computations of a layer, as (operator, family, blocks, share of the layer's forward); those of attention are scaled.
FORWARD = (
    ("norm", "norm", 512, 0.03),
    ("qkv", "gemm", 768, 0.20),
    ("attention", "attention", 640, 0.22),
    ("proj", "gemm", 256, 0.08),
    ("norm2", "norm", 512, 0.03),
    ("up", "gemm", 1024, 0.20),
    ("act", "activation", 896, 0.04),
    ("down", "gemm", 1152, 0.20),
    ("residual", "activation", 128, 0.006),
)
BACKWARD = (
    ("down dgrad", "gemm_dgrad", 1024, 0.20),
    ("down wgrad", "gemm_wgrad", 1152, 0.20),
    ("act backward", "activation_backward", 896, 0.06),
    ("up dgrad", "gemm_dgrad", 768, 0.20),
    ("up wgrad", "gemm_wgrad", 1024, 0.20),
    ("norm2 backward", "norm_backward", 512, 0.05),
    ("proj dgrad", "gemm_dgrad", 256, 0.08),
    ("proj wgrad", "gemm_wgrad", 256, 0.08),
    ("attention backward", "attention_backward", 640, 0.50),
    ("qkv dgrad", "gemm_dgrad", 640, 0.20),
    ("qkv wgrad", "gemm_wgrad", 768, 0.20),
    ("norm backward", "norm_backward", 512, 0.03),
    ("residual backward", "activation_backward", 128, 0.006),
)

#: What tensor parallelism sums over its ranks.
REDUCED = ("proj", "down", "up dgrad", "qkv dgrad")


@dataclass(slots=True)
class Range:
    """An annotation of a host: from the begin of its first operation to the end of its last."""

    rank: int
    name: str
    thread: int
    first: int
    last: int = -1


@dataclass(slots=True)
class Program:
    """All operations of a job."""

    setup: Setup
    ops: list[Op] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)


class Rank:
    """The host of a rank: what it does is added to the program."""

    def __init__(self, program: Program, rank: int) -> None:
        self.program, self.setup, self.ops, self.rank = program, program.setup, program.ops, rank
        self.step, self.thread, self.queued = 0, 1, -1
        self.updated: list[int] = []  # the end of the optimizer's last step
        self.slow_host = dict(self.setup.slow_host).get(rank, 1.0)

    def key(self, name: str) -> str:
        return f"{self.rank} {self.step} {name}"

    @contextmanager
    def range(self, name: str) -> Iterator[None]:
        found = Range(self.rank, name, self.thread, len(self.ops))
        self.program.ranges.append(found)
        yield
        found.last = next(at for at in reversed(range(len(self.ops))) if self.ops[at].kind == HOST)

    def host_noise(self, name: str) -> float:
        return self.setup.noise(self.key(f"host {name}"), 0.08)

    def host(self, name: str, ns: float, category: str = "", after: Iterable[int] = (), key: str = "") -> int:
        """Work of the host; category: how it is recorded, if at all."""
        self.ops.append(Op(self.rank, "host", HOST, name, ns * self.host_noise(key or name), self.step,
                           after=list(after), category=category, thread=self.thread))  # fmt: skip
        return len(self.ops) - 1

    def launch(self, op: Op, operator: str, ns: float) -> int:
        """A call that launches device work, behind what the device has to begin before."""
        op.launch = self.host(operator, ns * self.slow_host, "launch", key=f"{op.name} {op.meet}")
        if self.setup.queue and self.queued >= 0:
            (op.behind if self.setup.queue == "order" else op.after).append(self.queued)
        self.ops.append(op)
        self.queued = len(self.ops) - 1
        return self.queued

    def kernel(self, name: str, family: str, ns: float, *, blocks: int = 512, after: Iterable[int] = (),
               lane: str = "compute") -> int:  # fmt: skip
        setup = self.setup
        factor = setup.noise(self.key(name), setup.jitter) * setup.noise(self.key("all"), setup.wander)
        if not setup.slow_family or family.startswith(setup.slow_family):
            factor *= dict(setup.slow).get(self.rank, 1.0)
        factor *= setup.slow_since[1] if self.step >= setup.slow_since[0] else 1.0
        if family.startswith("attention") and setup.sequences:
            factor *= sequence_factor(setup, self.rank, self.step)
        beside = setup.beside if "gemm" in family else 1 + (setup.beside - 1) / 2
        op = Op(self.rank, lane, KERNEL, name, ns * factor, self.step, after=list(after), family=family, blocks=blocks,
                beside=beside)  # fmt: skip
        return self.launch(op, family, setup.launch_ns)

    def collective(self, what: str, name: str, megabytes: float, *, after: Iterable[int] = (), lane: str = "comm",
                   group: tuple[int, ...] = (), pieces: int = 0, peer: int = -1) -> int:  # fmt: skip
        """Returns the last of its pieces."""
        setup, group, pieces = self.setup, group or self.setup.ranks, pieces or self.setup.pieces
        last = -1
        for piece in range(pieces):
            num_bytes = int(megabytes * MB / pieces) // 4096 * 4096 or 4096
            meet = (name, self.step, piece, group)
            ns = setup.transfer_ns(what, num_bytes, len(group)) * setup.noise(f"{meet}", 0.02) + self.lag(meet)
            op = Op(self.rank, lane, COMMUNICATION, name, ns, self.step, after=list(after), meet=meet, family=what,
                    num_bytes=num_bytes, group=group, blocks=24, peer=peer)  # fmt: skip
            last = self.launch(op, what, min(setup.launch_ns, 25 * US))
        return last

    def lag(self, meet: tuple[object, ...]) -> float:
        """Ranks do not leave a collective at the very same instant."""
        return 600.0 * self.setup.noise(self.key(f"{meet}"), 0.5)

    def barrier(self, name: str, family: str, *, after: Iterable[int] = ()) -> int:
        """DeepEP's exchange of counts: it waits for all ranks."""
        op = Op(self.rank, "comm", COMMUNICATION, name, 6 * US, self.step, after=list(after),
                meet=(name, self.step), family=family, blocks=2)  # fmt: skip
        return self.launch(op, family, 12 * US)

    def item(self, name: str, after: int) -> None:
        """tensor.item(): a copy from the device for which the host waits, then works with what it got."""
        with self.range("aten::item"):
            op = Op(self.rank, "compute", COPY, "Memcpy DtoH (Device -> Pageable)", 1.5 * US, self.step,
                    after=[after], family="item", num_bytes=4)  # fmt: skip
            copied = self.launch(op, "item", 8 * US)
            self.host(f"{name} sync", 4 * US, "sync", after=[copied] if self.setup.blocks else [])
        self.host(f"{name} logged", self.setup.sync_work_ns)

    def layer(self, computations: Iterable[tuple[str, str, int, float]], layer: int, waits: int = -1) -> int:
        """waits: what its first kernel waits for; -1: nothing. Returns what the next one has to wait for."""
        setup, last = self.setup, waits
        for name, family, blocks, share in computations:
            if family.startswith("attention"):
                share *= setup.attention / 0.22
            is_reduced = setup.form == "tensor" and name in REDUCED
            chunks = setup.chunks if is_reduced else 1
            for chunk in range(chunks):
                after = [waits] if waits >= 0 and not chunk else []
                key = f"{name} {layer}" + (f" {chunk}" if chunk else "")
                last = self.kernel(key, family, share * setup.unit_ns / chunks, blocks=blocks // chunks, after=after)
                if is_reduced:
                    last = self.collective("all_reduce", f"{key} reduced", setup.activation_mb / chunks, after=[last])
            waits = last if is_reduced else -1
        return last


def sequence_factor(setup: Setup, rank: int, step: int) -> float:
    """Lengths of sequences: the longest moves from rank to rank, so that no rank is the last for long."""
    size, place = len(setup.ranks), setup.ranks.index(rank)

    def of(at: int) -> float:
        far = (at - 3 * step) % size / max(1, size - 1)  # 0: the longest
        return 1 + setup.sequences * (1 - 2 * far) * setup.noise(f"{at} {step} length", 0.05)

    return sum(map(of, range(size))) / size if setup.is_even else of(place)


# --- data parallelism -------------------------------------------------------------------------------------------------


def begin_step(me: Rank) -> None:
    setup = me.setup
    with me.range("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"):
        me.host("load", dict(setup.loader_ns).get(me.rank, 120 * US))
    op = Op(me.rank, "compute", COPY, "Memcpy HtoD (Pinned -> Device)", 25 * US, me.step, family="batch",
            num_bytes=1 << 20)  # fmt: skip
    me.launch(op, "batch", 12 * US)


def middle_of_forward(me: Rank) -> None:
    rank, step, ns = me.setup.pause
    if (rank, step) == (me.rank, me.step) and ns:
        me.host("pause", ns, "gc" if me.setup.is_pause_recorded else "")


def data_parallel(me: Rank) -> None:
    """A step of DDP, FSDP, tensor parallelism or of experts."""
    setup, is_fsdp = me.setup, me.setup.form == "fsdp"
    begin_step(me)
    ends: list[int] = []  # of the units' computations, in the order in which they run
    order = [("forward", x) for x in range(setup.layers)] + [("backward", x) for x in reversed(range(setup.layers))]
    gathered: dict[int, int] = {}
    updated = me.updated

    def gather(at: int) -> None:
        """Gathers a unit once the one two before it is computed, or the one before, where nothing is prefetched."""
        way, layer = order[at]
        if is_fsdp and at < len(order) and at not in gathered and not (way == "backward" and layer == setup.layers - 1):
            free = at - 1 if setup.prefetch else at
            gathered[at] = me.collective("all_gather", f"{way} {layer} gathered", setup.layer_mb, lane="gathers",
                                         after=ends[free : free + 1] if free >= 0 else updated)  # fmt: skip

    def run(at: int, compute: Callable[[int], int]) -> None:
        gather(at)
        if setup.prefetch and not setup.gathers_behind and at + 1 < len(order):
            gather(at + 1)
        ends.append(compute(gathered.get(at, -1)))
        if setup.prefetch and setup.gathers_behind and at + 1 < len(order):
            gather(at + 1)

    with me.range("FullyShardedDataParallel.forward" if is_fsdp else "DistributedDataParallel.forward"):
        root = me.collective("all_gather", "root gathered", setup.tail_mb, lane="gathers", pieces=1,
                             after=updated) if is_fsdp else -1  # fmt: skip
        if is_fsdp and setup.prefetch and not setup.gathers_behind:
            gather(0)
        last = me.kernel("stem", "gemm", setup.stem * setup.unit_ns, blocks=2048, after=[root] if is_fsdp else [])
        ends.append(last)
        for layer in range(setup.layers):
            if layer == setup.layers // 2:
                middle_of_forward(me)
            run(layer, partial(compute_layer, me, FORWARD, layer))
            if layer < setup.syncs - 1:
                me.item(f"item {layer}", ends[-1])
        last = me.kernel("loss", "loss", 0.04 * setup.unit_ns, after=ends[-1:])
    if setup.syncs:
        me.item("loss", last)

    me.thread = 2
    reduced: list[int] = []
    for number, layer in enumerate(reversed(range(setup.layers)), 1):
        run(setup.layers + number - 1, partial(compute_layer, me, BACKWARD, layer))
        if is_fsdp:
            reduced.append(me.collective("reduce_scatter", f"layer {layer} scattered", setup.layer_mb, lane="scatters",
                                         after=ends[-1:]))  # fmt: skip
        elif setup.form == "ddp" and number % setup.layers_per_bucket == 0:
            size = setup.layers_per_bucket * setup.layer_mb
            reduced.append(me.collective("all_reduce", f"bucket {layer} reduced", size, after=ends[-1:]))
    last = me.kernel("stem backward", "gemm_wgrad", 2 * setup.stem * setup.unit_ns, blocks=2048)
    rest = setup.layers % setup.layers_per_bucket * setup.layer_mb + setup.tail_mb
    if is_fsdp:
        reduced.append(me.collective("reduce_scatter", "root scattered", setup.tail_mb, lane="scatters", after=[last],
                                     pieces=1))  # fmt: skip
    else:
        reduced.append(me.collective("all_reduce", "last bucket reduced", rest, after=[last],
                                     pieces=setup.pieces if setup.form == "ddp" else 1))  # fmt: skip
    me.thread = 1
    optimizer(me, reduced[-1:])


def optimizer(me: Rank, after: list[int]) -> None:
    with me.range("Optimizer.step#AdamW.step"):
        for number in range(4):
            after = [me.kernel(f"optimizer {number}", "optimizer", 0.06 * me.setup.unit_ns, after=after)]
    me.updated = after


def compute_layer(me: Rank, computations: tuple[tuple[str, str, int, float], ...], layer: int, waits: int) -> int:
    """A layer; one of experts has them in the place of its feed-forward part."""
    if me.setup.form != "moe":
        return me.layer(computations, layer, waits)
    if computations is FORWARD:
        me.layer(FORWARD[:5], layer, waits)
        return experts(me, f"forward {layer}", layer, "", 1.0)
    experts(me, f"backward {layer}", layer, "_dgrad", 2.0)
    return me.layer(BACKWARD[5:], layer, waits)


def experts(me: Rank, key: str, layer: int, suffix: str, times: float) -> int:
    """Tokens go to the ranks of their experts, and come back, while a shared expert computes."""
    setup, unit = me.setup, me.setup.unit_ns
    before = me.kernel(f"{key} gate", "gemm" + suffix, 0.02 * unit, blocks=64)
    dispatched = exchange(me, "dispatch", key, before)
    me.kernel(f"{key} shared up", "gemm" + suffix, 0.16 * times * unit, blocks=1024)
    work = setup.expert_share * unit * times * expert_load(setup, me.rank, layer)
    me.kernel(f"{key} experts up", "grouped", 0.58 * work, blocks=1056, after=[dispatched])
    me.kernel(f"{key} experts act", "activation", 0.04 * work, blocks=896)
    last = me.kernel(f"{key} experts down", "grouped", 0.38 * work, blocks=1188)
    combined = exchange(me, "combine", key, last)
    me.kernel(f"{key} shared down", "gemm" + suffix, 0.16 * times * unit, blocks=1152)
    return me.kernel(f"{key} sum", "activation", 0.02 * unit, blocks=900, after=[combined])


def exchange(me: Rank, what: str, key: str, after: int) -> int:
    setup = me.setup
    if not setup.deep_ep:
        return me.collective("all_to_all", f"{key} {what}", setup.dispatch_mb, after=[after], pieces=1)
    noted = me.barrier(f"{key} notify {what}", f"notify_{what}", after=[after])
    return me.collective(what, f"{key} {what}", setup.dispatch_mb, after=[noted], pieces=1)


def expert_load(setup: Setup, rank: int, layer: int) -> float:
    """Another rank is the fullest in each layer; the mean over ranks is 1."""
    size, place = len(setup.ranks), setup.ranks.index(rank)
    if setup.is_even:
        return 1.0
    return setup.skew if place == layer % size else (size - setup.skew) / (size - 1)


# --- pipelines --------------------------------------------------------------------------------------------------------

#: Computations of a micro-batch, by the letter of the action.
PARTS = {
    "F": (("qkv", "gemm", 768, 0.32), ("attention", "attention", 640, 0.24), ("up", "gemm", 1024, 0.22),
          ("down", "gemm", 1152, 0.22)),
    "I": (("down dgrad", "gemm_dgrad", 1024, 0.30), ("attention backward", "attention_backward", 640, 0.40),
          ("qkv dgrad", "gemm_dgrad", 640, 0.30)),
    "W": (("down wgrad", "gemm_wgrad", 1152, 0.50), ("qkv wgrad", "gemm_wgrad", 768, 0.50)),
}  # fmt: skip
PARTS["B"] = PARTS["I"] + PARTS["W"]


def pipeline(me: Rank) -> None:
    """A step of a pipeline, a stage a rank."""
    setup, stage = me.setup, me.setup.ranks.index(me.rank)
    size = len(setup.ranks)
    begin_step(me)
    num_layers = setup.stages[stage] if setup.stages else 1
    work = 1 / num_layers if setup.is_even or not setup.stages else size / sum(setup.stages)
    last = -1
    for actions in order_of(setup.schedule, size, setup.micro_batches).actions[stage]:
        for letter, number, _ in actions:
            me.thread = 1 if letter == "F" else 2
            forward = letter == "F"
            other = stage - 1 if forward else stage + 1
            waits = []
            if letter != "W" and 0 <= other < size:
                way = "forward" if forward else "backward"
                waits = [hop(me, "recv", way, number, other, stage, [last] if last >= 0 else me.updated)]
            for layer in range(num_layers):
                for name, family, blocks, share in PARTS[letter]:
                    last = me.kernel(f"{letter} {number} {name} {layer}", family, share * setup.unit_ns * work,
                                     blocks=blocks, after=waits)  # fmt: skip
                    waits = []
            to = stage + 1 if forward else stage - 1
            if letter != "W" and 0 <= to < size:
                way = "forward" if forward else "backward"
                hop(me, "send", way, number, stage, to, [last])
    me.thread = 1
    clipped = me.collective("all_reduce", "gradients clipped", 0.0, pieces=1, after=[last])
    optimizer(me, [clipped])


def hop(me: Rank, what: str, way: str, number: int, sender: int, receiver: int, after: Iterable[int]) -> int:
    """One side of a transfer between two stages: both leave together."""
    setup = me.setup
    pair = (setup.ranks[sender], setup.ranks[receiver])
    meet = (way, me.step, number, pair)
    num_bytes = int(setup.activation_mb * MB)
    ns = setup.transfer_ns("send", num_bytes, 2) * setup.noise(f"{meet}", 0.02) + me.lag(meet)
    op = Op(me.rank, f"{way} {what}", COMMUNICATION, f"{way} {number}", ns, me.step, after=list(after), meet=meet,
            family=what, num_bytes=num_bytes, group=setup.ranks, blocks=4,
            peer=pair[1] if what == "send" else pair[0])  # fmt: skip
    return me.launch(op, what, min(setup.launch_ns, 20 * US))


def program(setup: Setup) -> Program:
    """All steps of all ranks."""
    found = Program(setup)
    everyone = [Rank(found, rank) for rank in setup.ranks]
    loaders = dict(setup.loader_ns)
    loading = {me.rank: loaders.get(me.rank, 120 * US) * me.host_noise("load") for me in everyone}
    for me in everyone:
        rank = me.rank
        early = max(loading.values()) - loading[rank]  # devices begin together: who loads longer began to load earlier
        me.host("start", (setup.noise(f"{rank} start", 0.5) * 60 * US + early) / me.host_noise("start"))
        for step in range(setup.steps):
            me.step = step
            with me.range(f"ProfilerStep#{step}"):
                (pipeline if setup.form == "pipeline" else data_parallel)(me)
        last_of = {op.lane: at for at, op in enumerate(found.ops) if op.rank == rank and op.kind != HOST}
        me.host("end", 5 * US, "device sync", after=last_of.values())
    return found
