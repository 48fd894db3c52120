"""A transformer whose parameters are sharded (FSDP): each layer's are gathered before it runs."""

from __future__ import annotations

from tests.causes.simulator import US, Host
from tests.findings.planted.devices import Kernel
from tests.findings.planted.layers import Piece
from tests.findings.planted.names import ALL_GATHER
from tests.findings.planted.process import COMMUNICATION
from tests.findings.planted.transformer import Transformer

REDUCE_SCATTER = "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
#: How long a layer is gathered, over the time of its forward pass: where the link is slow, and where it is not.
GATHER, QUICK_GATHER = 0.6, 0.2


class Sharded(Transformer):
    """FSDP. With the rate limiter the host waits, before it gathers a layer, for the last but one to be done; what it
    does then, and the gather, must be over before the layer between has run.

    Size of `fsdp-rate-limiter`: what FSDP's hooks take of the host for a layer, in us.
    """

    def start(self) -> None:
        super().start()
        self.done: list[int] = []
        self.ready_at: dict[int, int] = {}
        share = GATHER if "fsdp-rate-limiter" in self.form.plants else QUICK_GATHER
        self.gather_ns = share * sum(call.kernel.ns for piece in self.pieces for call in piece.forward)

    def gather(self, number: int, host: Host) -> None:
        """The parameters of a layer are gathered."""
        with self.frames("torch/distributed/fsdp/_runtime_utils.py(388): _pre_forward", host=host):
            if self.planted("fsdp-rate-limiter") and len(self.done) >= 2:
                with host.call("cudaEventSynchronize"):
                    host.work(1 * US)
                    if self.done[-2] > host.now:
                        host.wait_until(self.done[-2] + self.world.about(self.world.machine.wake_ns))
            self.busy(self.size("fsdp-rate-limiter") or 90, host)
            self.collective(host, "_allgather_base", ALL_GATHER, self.gather_ns)
            self.ready_at[number] = self.world.ready(COMMUNICATION)

    def wait_for(self, number: int, host: Host) -> None:
        """What is launched next needs the layer's parameters."""
        self.event("cudaStreamWaitEvent", host)
        self.world.waits[7] = max(self.world.waits.get(7, 0), self.ready_at[number])

    def collective(self, host: Host, name: str, kernel: str, ns: float) -> None:
        elements = round(ns / 1e9 * 150e9 / 2)
        with (
            self.operator(f"c10d::{name}_", host=host),
            host.inside(
                "operator",
                "record_param_comms",
                **{
                    "Collective name": name,
                    "dtype": "BFloat16",
                    "In msg nelems": elements // self.form.world_size,
                    "Out msg nelems": elements,
                    "Group size": self.form.world_size,
                    "Process Group Name": "0",
                    "Process Group Description": "default_pg",
                },
            ),
            host.inside("annotation", f"nccl:{name}"),
        ):
            self.run(
                Kernel(name=self.collective_name(kernel), ns=ns, blocks=16, threads=544, call="cudaLaunchKernelExC"),
                host=host,
                stream=COMMUNICATION,
            )

    def layer_forward(self, number: int, pieces: list[Piece]) -> None:
        self.gather(number, self.main)
        self.wait_for(number, self.main)
        super().layer_forward(number, pieces)
        self.event("cudaEventRecord")
        self.done.append(self.world.ready(7))

    def layer_backward(self, number: int, host: Host) -> None:
        if number == self.form.layers - 1:
            self.gather(number, host)
        if number:
            self.gather(number - 1, host)
        self.wait_for(number, host)
        super().layer_backward(number, host)
        self.event("cudaEventRecord", host)
        self.done.append(self.world.ready(7))
        self.after(COMMUNICATION, 7, host)
        self.collective(host, "_reduce_scatter_base", REDUCE_SCATTER, 0.5 * self.gather_ns)
