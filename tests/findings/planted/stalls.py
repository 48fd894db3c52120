"""What makes a host stand or be busy while its device waits."""

from __future__ import annotations

from contextlib import ExitStack

from tests.causes.simulator import US
from tests.findings.planted.names import SCALE
from tests.findings.planted.process import Process


class Stalls(Process):
    """Causes that a program has on its host."""

    def batch(self) -> None:
        """The next batch: from a loader (workers', this process's own, or one of the user's), and to the device."""
        size, kind = self.cost("data-loading"), self.form.seed % 4
        if kind == 2:
            with self.frames("train.py(88): get_batch", "numpy/_core/memmap.py(358): __getitem__"):
                self.busy(size + 40)
        else:
            self.from_loader(size, workers=kind % 2 == 1)
        copied = self.size("pageable-copies") or 8.0 * self.form.tokens
        with self.frames("train.py(127): to_device"):
            self.copied(copied, pinned=not self.planted("pageable-copies"))
        if self.step == 0 and self.planted("warm-up-in-sample"):
            self.warm_up()

    def from_loader(self, us: float, *, workers: bool) -> None:
        """A DataLoader's next batch: what workers have ready, or what this thread decodes and collates."""
        kind = "_MultiProcessingDataLoaderIter" if workers else "_SingleProcessDataLoaderIter"
        with (
            self.frames("torch/utils/data/dataloader.py(733): __next__"),
            self.annotation(f"enumerate(DataLoader)#{kind}.__next__"),
        ):
            if workers:
                with self.frames("torch/utils/data/dataloader.py(1275): _try_get_data", "queue.py(171): get"):
                    self.busy(us)
            elif us:
                with self.frames("torch/utils/data/_utils/fetch.py(44): fetch", "dataset.py(41): __getitem__"):
                    self.busy(0.9 * us)
                self.op("aten::stack aten::cat", None)
                self.busy(0.1 * us)
            self.main.work(40 * US)

    def warm_up(self) -> None:
        """What the first step alone does: memory is asked for, code is loaded, handles are made."""
        host, size = self.main, self.cost("warm-up-in-sample")
        self.op("aten::empty aten::fill_", self.device.moving(SCALE, 1e5))
        for call in ("cudaMalloc", "cuModuleLoadData", "cudaMalloc", "cuModuleLoadData"):
            with self.operator("aten::empty"), host.call(call):
                self.busy(0.25 * size)

    def search_unused(self) -> None:
        """find_unused_parameters=True: the graph is walked before each backward pass."""
        name = f"<built-in method prepare_for_backward of PyCapsule object at {self.address()}>"
        with self.frames(name), self.operator("torch.distributed.ddp.reducer::search_unused_parameters", us=8):
            self.busy(self.size("ddp-overhead"))

    def unrecorded(self, ns: float) -> None:
        """A kernel of another library, which the profiler does not see."""
        self.world.losing = True
        self.main.launch("hidden", ns)
        self.world.losing = False

    def read_value(self) -> None:
        """A value of the device is read, and the host works on; without the cause it works all the same."""
        if "sync-every-step" not in self.form.plants:
            return
        with self.frames("model.py(75): route"):
            if self.planted("sync-every-step"):
                self.blocking_read(self.form.seed % 4)
            self.busy(self.size("sync-every-step"))

    def blocking_read(self, kind: int) -> None:
        """item(), nonzero(), tolist() or a masked select: a few bytes that the host waits for."""
        if kind == 0:
            self.item()
            return
        if kind == 2:
            with (
                self.frames(f"<built-in method tolist of Tensor object at {self.address()}>"),
                self.operators("aten::to", "aten::_to_copy", "aten::copy_"),
            ):
                self.blocking_copy("Memcpy DtoH (Device -> Pageable)", ns=2_000, num_bytes=256)
            return
        name, frame = (("aten::nonzero", "nonzero"), ("aten::masked_select", "masked_select"))[kind // 2]
        with self.frames(f"<built-in method {frame} of Tensor object at {self.address()}>"), ExitStack() as stack:
            for operator in (name,) if kind == 1 else (name, "aten::nonzero"):
                stack.enter_context(self.operator(operator, (self.form.tokens,), kind="bool"))
            self.run(self.device.moving("void at_cuda_detail::cub::DeviceReduceSingleTileKernel<int>(int)", 1e4))
            self.blocking_copy("Memcpy DtoH (Device -> Pageable)", ns=1_900, num_bytes=4)
            self.run(self.device.moving("void at_cuda_detail::cub::DeviceSelectSweepKernel<int>(int)", 2e4))

    def allocate_anew(self) -> None:
        """The cache has no block that fits: memory is given back, for which the driver waits, and asked for anew."""
        host, size = self.main, self.size("allocator")
        with self.operator("aten::empty", us=1):
            with host.call("cudaFree"):
                host.wait_until(self.world.all_done())
                self.busy(0.4 * size)
            self.memory_event(-(512 << 20))
            with host.call("cudaMalloc"):
                self.busy(0.6 * size)
            self.memory_event(512 << 20)

    def tune(self) -> None:
        """A Triton kernel meets a new shape: variants of it are compiled, loaded and timed."""
        size, host = self.size("recompilation"), self.main
        kernel = self.device.moving("fused_rotary_kernel", 2 * self.tensor, call="cuLaunchKernel")
        with self.frames("triton/runtime/autotuner.py(187): run", "triton/testing.py(96): do_bench"):
            for _ in range(4):
                with self.frames("triton/compiler/compiler.py(226): compile"):
                    self.busy(0.24 * size)
                with host.call("cuModuleLoadData"):
                    self.busy(0.01 * size)
                for _ in range(10):
                    self.run(kernel)
                host.synchronize("cudaDeviceSynchronize")

    def compile_again(self) -> None:
        """A shape changed: torch.compile traces and compiles once more."""
        size = self.size("recompilation")
        with (
            self.frames(
                "torch/_dynamo/eval_frame.py(1076): compile_wrapper", "torch/_dynamo/convert_frame.py(1633): _compile"
            ),
            self.operators("dynamo", "entire_frame_compile", "_compile.compile_inner (dynamo_timed)"),
        ):
            self.busy(0.4 * size)
            with self.operators("compile_fx.<locals>.fw_compiler_base", "compile_fx_inner (dynamo_timed)"):
                self.busy(0.6 * size)

    def collect_garbage(self) -> None:
        """Python looks for cycles; the profiler records it where it is told to."""
        with self.main.inside("gc" if self.form.stacks else "hidden", "Python GC"):
            self.busy(self.size("gc-pause"))
