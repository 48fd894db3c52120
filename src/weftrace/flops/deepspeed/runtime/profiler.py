"""DeepSpeed's `FlopsProfiler`: the same calls, counted by weftrace."""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from weftrace.errors import FlopsError
from weftrace.flops.deepspeed.numbers import Sizes, fold, module_lines
from weftrace.flops.deepspeed.runtime.engine import engine_sizes, expert_tensor_parallelism
from weftrace.flops.deepspeed.runtime.model_profile import get_model_profile
from weftrace.flops.deepspeed.runtime.output import layout_of, places_of, write_text
from weftrace.flops.deepspeed.strings import duration_to_string, macs_to_string, number_to_string, params_to_string
from weftrace.flops.deepspeed.text import aggregated_text, deepspeed_text
from weftrace.flops.derived.account import account_of
from weftrace.flops.runtime.gather import gather_report
from weftrace.flops.runtime.own_hook import OwnHook
from weftrace.flops.runtime.profile import Profile
from weftrace.flops.values import FlopsReport

__all__ = ["FlopsProfiler", "get_model_profile"]


class FlopsProfiler:
    """Counts and times a model between `start_profile` and `stop_profile`, as DeepSpeed's class of this name does.

    Totals are of the forward: FLOPs of matrix work with attention over all pairs (2 for each MAC), MACs, seconds,
    parameters stored on this rank. Calls of the model between start and stop add up. Where the backward and the
    optimizer run there too, the text has their measured lines. `report()` gives weftrace's `FlopsReport`, with
    everything else that was found.

    ds_engine: anything that looks like a DeepSpeed engine; sizes and timers are taken from it. recompute_fwd_factor:
    above 0, recomputation counts in the FLOPS of the backward. layout: "present", or "earlier", which many documents
    show.

    No function is patched. If the model raises, counting ends there and then.
    """

    def __init__(
        self,
        model: nn.Module,
        ds_engine: Any = None,
        recompute_fwd_factor: float = 0.0,
        *,
        layout: str = "present",
    ) -> None:
        if not isinstance(model, nn.Module):
            raise FlopsError(f"FlopsProfiler takes a torch.nn.Module, not {type(model).__name__}")
        self.model = model
        self.ds_engine = ds_engine
        self.recompute_fwd_factor = recompute_fwd_factor
        self.started = False
        self.layout = layout_of(layout)
        self.flops = self.macs = self.params = 0  # of the last text that was printed
        self._ignored: frozenset[str] = frozenset()
        self._open: Profile | None = None
        self._report: FlopsReport | None = None
        self._unhook: Callable[[], object] = _nothing

    # -- starting and stopping

    def start_profile(self, ignore_list: Sequence[type[nn.Module]] | None = None) -> None:
        """Count and time from here. ignore_list: classes whose work is shown at the module above them."""
        self.stop_profile()
        self._report = None
        self._ignored = places_of(self.model, ignore_list or ())
        self._begin()
        self.started = True

    def stop_profile(self) -> None:
        """Count no more; what was found stays until `end_profile`."""
        self._unhook()
        self._unhook = _nothing
        self._close_profile()

    def reset_profile(self) -> None:
        """Forget what was found; count on if counting."""
        counting = self._open is not None
        self.stop_profile()
        self._report = None
        if counting:
            self._begin()

    def end_profile(self) -> None:
        """Stop, and forget what was found."""
        self.stop_profile()
        self._report = None
        self.started = False

    def _begin(self) -> None:
        opened = Profile(self.model)
        opened.__enter__()
        if _is_running(self.model):  # a DeepSpeed engine starts from a pre-hook: the hooks of now come too late
            opened.model_is_running()
        self._open = opened
        me = weakref.ref(self)

        def left(module: nn.Module, args: Any, out: Any) -> None:
            """An exception in the model ends the profile: nobody may be left to do it."""
            profiler = me()
            if out is None and sys.exception() is not None and profiler is not None:
                profiler._failed()

        handle = self.model.register_forward_hook(OwnHook(left), always_call=True)
        finalizer = weakref.finalize(self, _close, handle, opened)
        finalizer.atexit = False

        def unhook() -> None:
            finalizer.detach()
            handle.remove()

        self._unhook = unhook

    def _failed(self) -> None:
        if torch._C._current_autograd_node() is None:  # not a checkpoint that stops early
            self._close_profile()

    def _close_profile(self) -> None:
        opened, self._open = self._open, None
        if opened is not None:
            opened.__exit__(None, None, None)
            self._report = _found(opened)

    # -- what was found

    def report(self) -> FlopsReport:
        """Everything that was found so far. Raises `FlopsError` where nothing ran, or after `end_profile`."""
        found = self._now()
        if found is None:
            raise FlopsError(
                "nothing is profiled: call start_profile(), run the model, and ask before end_profile()"
                if not self.started
                else f"no operator ran since start_profile(): run the {type(self.model).__name__} first"
            )
        return found

    def _now(self) -> FlopsReport | None:
        """The report so far, or None; counting goes on if it was."""
        opened = self._open
        if opened is None:
            return self._report
        if opened.clock is not None:
            opened.clock.end_step()
        try:
            return _found(opened)
        finally:
            if opened.clock is not None:
                opened.clock.start_step()

    def get_total_flops(self, as_string: bool = False) -> Any:
        """FLOPs of the forward: an int, or as in "6.28 T"."""
        found = self._now()
        flops = module_lines(found)[0].flops if found else 0
        return number_to_string(flops) if as_string else flops

    def get_total_macs(self, as_string: bool = False) -> Any:
        """Multiply-accumulates of the forward: an int, or as in "3.14 TMACs"."""
        found = self._now()
        macs = module_lines(found)[0].macs if found else 0
        return macs_to_string(macs) if as_string else macs

    def get_total_duration(self, as_string: bool = False) -> Any:
        """Seconds of the forward, 0.0 where none was measured: a float, or as in "76.67 ms"."""
        found = self._now()
        seconds = (module_lines(found)[0].seconds or 0.0) if found else 0.0
        return duration_to_string(seconds) if as_string else seconds

    def get_total_params(self, as_string: bool = False) -> Any:
        """Parameters on this rank, shared ones once: an int, or as in "336.23 M"."""
        found = self._now()
        count = module_lines(found)[0].params if found else sum(p.numel() for p in self.model.parameters())
        return params_to_string(count) if as_string else count

    def is_expert_tensor_parallelism_enabled(self) -> bool:
        """Whether the model's first DeepSpeed MoE layer spreads its experts by tensor parallelism."""
        return expert_tensor_parallelism(self.model)

    # -- printing

    def print_model_profile(
        self,
        profile_step: int = 1,
        module_depth: int = -1,
        top_modules: int = 1,
        detailed: bool = True,
        output_file: str | None = None,
    ) -> None:
        """Print the profile, or write it to output_file, whose folder is made. See `deepspeed_text`."""
        found = self._to_print("print_model_profile")
        if found is None:
            return
        account = account_of(found)
        line = module_lines(account)[0]
        self.flops, self.macs, self.params = line.flops, line.macs, line.params
        text = deepspeed_text(
            fold(found, self._ignored) if self._ignored else account,
            profile_step=profile_step,
            module_depth=module_depth,
            top_modules=top_modules,
            detailed=detailed,
            recomputation=self.recompute_fwd_factor > 0,
            sizes=self._sizes(),
            layout=self.layout,
        )
        write_text(text, output_file)

    def print_model_aggregated_profile(self, module_depth: int = -1, top_modules: int = 1) -> None:
        """Print the classes with most parameters, MACs and latency at each depth."""
        found = self._to_print("print_model_aggregated_profile")
        if found is not None:
            folded = fold(found, self._ignored)
            text = aggregated_text(folded, module_depth=module_depth, top_modules=top_modules, layout=self.layout)
            write_text(text + "\n", None)

    def _to_print(self, asked: str) -> FlopsReport | None:
        if not self.started:
            warnings.warn(
                f"{asked}() belongs between start_profile() and end_profile(): nothing to print", stacklevel=3
            )
            return None
        return self.report()

    def _sizes(self) -> Sizes:
        return engine_sizes(self.model, self.ds_engine)


def _is_running(model: nn.Module) -> bool:
    """Whether the caller was called from the model's own call: by one of its pre-hooks, or inside its forward."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code is nn.Module._call_impl.__code__ and frame.f_locals.get("self") is model:
            return True
        if frame.f_back is None:
            break
        frame = frame.f_back
    return False


def _found(opened: Profile) -> FlopsReport | None:
    counted = opened.counted()
    return None if counted.is_empty else gather_report(counted)


def _close(handle: Any, opened: Profile) -> None:
    handle.remove()
    opened.__exit__(None, None, None)


def _nothing() -> None:
    """There is no hook to remove."""
