"""A transformer on two devices by one process: DataParallel, which sends the model to the other one in each step."""

from __future__ import annotations

from tests.causes.programs import AUTOGRAD, BROADCAST
from tests.causes.recorder import DEVICE
from tests.causes.simulator import US, Host
from tests.findings.planted.devices import Kernel
from tests.findings.planted.transformer import Transformer

REDUCE = "ncclDevKernel_Reduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


class Parallel(Transformer):
    """DataParallel. Without it (`ddp-overhead` removed) this process has one device, and DDP."""

    @property
    def devices(self) -> tuple[int, ...]:
        return (0, DEVICE) if self.planted("ddp-overhead") else (0,)

    def on_all(self, operator: str, kernel: str, host: Host) -> None:
        """All parameters between the devices."""
        ns = 30 * US + 1e9 * 2 * self.num_parameters / 180e9
        both = max(self.world.ready(7 + shift) for shift in self.devices)
        with self.operator(operator, host=host):
            for shift in self.devices:
                self.shift = shift
                self.world.waits[7 + self.shift] = both
                sent = Kernel(
                    name=self.collective_name(kernel), ns=ns, blocks=8, threads=544, call="cudaLaunchKernelExC"
                )
                self.run(sent, host=host)
        self.shift = 0

    def forward(self) -> None:
        if not self.planted("ddp-overhead"):
            super().forward()
            return
        with self.annotation("DataParallel.forward"):
            with self.frames("torch/nn/parallel/replicate.py(83): replicate"):
                self.on_all("Broadcast", BROADCAST, self.main)
            for shift in self.devices:
                self.shift = shift
                with self.frames("torch/nn/parallel/parallel_apply.py(77): _worker"):
                    super().forward()
            self.shift = 0
            with self.operator("Gather"):
                self.world.waits[7] = self.world.ready(7 + DEVICE)
                name = self.copy_name("Memcpy PtoP (Device -> Device)")
                self.main.launch(name, 20 * US, call="cudaMemcpyAsync", kind="gpu_memcpy", num_bytes=1_000_000)

    def backward(self) -> None:
        """Each device has a thread of autograd's."""
        if not self.planted("ddp-overhead"):
            super().backward()
            return
        with self.frames("torch/_tensor.py(571): backward", "torch/autograd/graph.py(823): _engine_run_backward"):
            threads = (self.autograd, Host(self.world, AUTOGRAD + 1))
            for host, shift in zip(threads, self.devices, strict=True):
                self.shift = shift
                host.now = self.main.now + self.world.about(28 * US)
                self.backward_of(host)
            self.shift = 0
            self.main.wait_until(max(host.now for host in threads) + 20 * US)
        self.on_all("ReduceAddCoalesced", REDUCE, self.main)
