"""DeepSpeed's `FlopsProfiler` and `get_model_profile`: the same calls, counted by weft."""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from weft.errors import FlopsError, OutputError
from weft.flops.deepspeed_numbers import Sizes, fold, module_lines
from weft.flops.deepspeed_strings import (
    LAYOUTS,
    Layout,
    duration_to_string,
    macs_to_string,
    number_to_string,
    params_to_string,
)
from weft.flops.deepspeed_text import aggregated_text, deepspeed_text
from weft.flops.runtime.deepspeed_engine import engine_sizes, expert_tensor_parallelism
from weft.flops.runtime.gather import gather_report
from weft.flops.runtime.profile import Profile
from weft.flops.values import FlopsReport


class FlopsProfiler:
    """Counts and times a model between `start_profile` and `stop_profile`, as DeepSpeed's class of this name does.

    Totals are of the forward: FLOPs of matrix work with attention over all pairs (2 for each MAC), MACs, seconds,
    parameters stored on this rank. Calls of the model between start and stop add up. Where the backward and the
    optimizer run there too, the text has their measured lines. `report()` gives weft's `FlopsReport`, with everything
    else that was found.

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
        self.layout = _layout(layout)
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
        types = tuple(ignore_list or ())
        self._ignored = frozenset(path for path, module in self.model.named_modules() if type(module) in types)
        self._begin()
        self.started = True

    def stop_profile(self) -> None:
        """Count no more; what was found stays until `end_profile`."""
        if self._open is not None:
            opened, self._open = self._open, None
            self._unhook()
            self._unhook = _nothing
            opened.__exit__(None, None, None)
            self._report = _found(opened)
        else:
            self._unhook()
            self._unhook = _nothing

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

        handle = self.model.register_forward_hook(left, always_call=True)
        finalizer = weakref.finalize(self, _close, handle, opened)
        finalizer.atexit = False

        def unhook() -> None:
            finalizer.detach()
            handle.remove()

        self._unhook = unhook

    def _failed(self) -> None:
        if self._open is not None and torch._C._current_autograd_node() is None:  # not a checkpoint that stops early
            opened, self._open = self._open, None
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
        line = module_lines(found)[0]
        self.flops, self.macs, self.params = line.flops, line.macs, line.params
        text = deepspeed_text(
            fold(found, self._ignored),
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


def get_model_profile(
    model: nn.Module,
    input_shape: Sequence[int] | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    print_profile: bool = True,
    detailed: bool = True,
    module_depth: int = -1,
    top_modules: int = 1,
    warm_up: int = 1,
    as_string: bool = True,
    output_file: str | None = None,
    ignore_modules: Sequence[type[nn.Module]] | None = None,
    mode: str = "forward",
    *,
    layout: str = "present",
) -> tuple[Any, Any, Any]:
    """(FLOPs, MACs, parameters) of one forward, as numbers or, with `as_string`, as ("6.28 T", "3.14 TMACs", "336.23
    M").

    input_shape: the model takes one tensor of this shape, zeros of its first parameter's dtype; else args and kwargs.
    warm_up: runs before the timed one; the first of them is counted, so that no time holds the cost of counting (with
    0, one run is both). mode: "forward", or "generate" for `model.generate`. The model runs in eval mode and comes
    back as it was. Raises `FlopsError` where there is no input, or mode is another.
    """
    profiler = FlopsProfiler(model, layout=layout)
    inputs = _inputs(model, input_shape, args, kwargs or {})
    if mode not in ("forward", "generate"):
        raise FlopsError(f"get_model_profile: mode is 'forward' or 'generate', not {mode!r}")
    if warm_up < 0:
        raise FlopsError(f"get_model_profile: warm_up is a number of runs; {warm_up} is below 0")
    run: Any = model if mode == "forward" else model.generate
    opened = Profile(model, warm_up=max(0, warm_up - 1))
    with _evaluating(model), opened:
        for _ in range(warm_up + 1):
            run(*inputs, **(kwargs or {}))
            if warm_up and opened.clock is not None:
                opened.step()
            elif opened.clock is None:
                break  # nothing to time
    report = opened.report()
    line = module_lines(report)[0]
    if print_profile:
        profiler._report, profiler.started = report, True
        profiler._ignored = frozenset(
            path for path, module in model.named_modules() if type(module) in tuple(ignore_modules or ())
        )
        profiler.print_model_profile(warm_up, module_depth, top_modules, detailed, output_file)
    if as_string:
        return number_to_string(line.flops), macs_to_string(line.macs), params_to_string(line.params)
    return line.flops, line.macs, line.params


def write_text(text: str, output_file: str | None) -> None:
    """To a file, whose folder is made, or to standard output. Raises `OutputError` where the file cannot be written."""
    if not output_file:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    path = Path(output_file)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{path}: the profile cannot be written: {error}") from error


def _inputs(
    model: nn.Module, shape: Sequence[int] | None, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Any, ...]:
    if shape is None:
        if not args and not kwargs:
            raise FlopsError("get_model_profile: no input; give input_shape, or args and kwargs")
        return tuple(args)
    if not isinstance(shape, (tuple, list)) or not shape or not all(isinstance(size, int) for size in shape):
        raise FlopsError(f"get_model_profile: input_shape is a tuple of sizes, as (1, 3, 224, 224), not {shape!r}")
    first = next(model.parameters(), None)
    if first is None:
        return (torch.zeros(tuple(shape)),)
    return (torch.zeros(tuple(shape), dtype=first.dtype, device=first.device),)


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


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
    ran = any(
        counts for frame in (opened.tracker.outside, *opened.tracker.frames.values()) for counts in _tables(frame)
    )
    return gather_report(opened) if ran else None


def _tables(frame: Any) -> Iterator[dict[int, int]]:
    for table in (frame.counts, frame.local_counts, frame.global_counts):
        yield from table.values()


def _layout(name: str) -> Layout:
    if name not in LAYOUTS:
        raise FlopsError(f"no layout {name!r}; choose from {', '.join(LAYOUTS)}")
    return LAYOUTS[name]


def _close(handle: Any, opened: Profile) -> None:
    handle.remove()
    opened.__exit__(None, None, None)


def _nothing() -> None:
    """There is no hook to remove."""
