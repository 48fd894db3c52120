"""From "package.module:build" to a model, and from "80x128" to the tensors it takes.

On the meta device a model has shapes and no weights. Code that looks at values, or mixes devices, fails there; fake
tensors, which claim to be on the CPU, get further, so they are tried next, and the report says so.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from weftrace.errors import FlopsError, SpecError
from weftrace.flops.run_spec import InputSpec
from weftrace.flops.runtime.run.device_room import room_for

TRACEBACK = "--traceback shows where"


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A user's model, ready to be called. fake: the mode that its tensors belong to, None where they are real."""

    model: nn.Module
    device: torch.device
    fake: FakeTensorMode | None = None

    def mode(self) -> AbstractContextManager[Any]:
        """The context in which the model's inputs are made and it is called."""
        return nullcontext() if self.fake is None else self.fake


def find_object(target: str) -> Any:
    """What "package.module:attribute" or "./file.py:attribute" names; attributes may be nested with dots.

    The working directory can be imported from. Raises `FlopsError` where the module or attribute is not there, or the
    module raises while it is imported; the module's own exception is its cause.
    """
    source, _, attribute = target.rpartition(":")
    if not source or not attribute:
        raise SpecError(f"{target!r} names no model; write package.module:build or ./file.py:build")
    found: Any = _import_file(source) if source.endswith(".py") else _import_module(source)
    for name in attribute.split("."):
        if not hasattr(found, name):
            public = [known for known in vars(found) if not known.startswith("_")] if hasattr(found, "__dict__") else []
            makers = [known for known in public if callable(getattr(found, known))]
            raise FlopsError(
                f"{source} has no {name!r}; it has {', '.join(makers[:12]) or 'nothing that can be called'}"
            )
        found = getattr(found, name)
    return found


def load_model(
    target: str, *, device: torch.device | str, dtype: torch.dtype | None = None, fake: bool = False
) -> Loaded:
    """The module that `target` is or makes: an instance, a class or function that is called without arguments.

    dtype: of floating-point parameters; None leaves them. fake: with fake tensors that claim to be on the CPU, instead
    of on `device`. Raises `FlopsError`, whose cause is what the model's own code raised.
    """
    made = find_object(target)
    device = torch.device("cpu" if fake else device)
    mode = FakeTensorMode(allow_non_fake_inputs=True) if fake else None
    with mode or nullcontext():
        if isinstance(made, nn.Module):
            if fake:
                raise FlopsError(f"{target} is a module with real weights; name the function or class that makes it")
            model: Any = made
        elif callable(made):
            with told_in_words(f"{target} could not be built"), device, _default_dtype(dtype if fake else None):
                model = made()
        else:
            raise FlopsError(f"{target} is of type {type(made).__name__}: neither a torch.nn.Module nor what makes one")
        if not isinstance(model, nn.Module):
            raise FlopsError(f"{target}() gives {type(model).__name__}, not a torch.nn.Module")
        if not fake:  # fake parameters cannot be swapped for others: they were made as they shall be
            with told_in_words(f"{target} could not be put on {device}"):
                model = model.to(device=device, dtype=dtype)
    return Loaded(model=model, device=device, fake=mode)


def make_inputs(
    model: nn.Module, inputs: Sequence[InputSpec], *, device: torch.device | str, dtype: torch.dtype | None = None
) -> tuple[tuple[torch.Tensor, ...], dict[str, torch.Tensor], tuple[str, ...]]:
    """(positional, keyword, notes) of a call of the model. Floats are random, integers 0, booleans true.

    A tensor whose dtype is not given holds token ids where it has two dimensions and the model begins with an
    embedding, or is named like ids; else floats of `dtype`, or of the model's first parameter.
    Raises `FlopsError` where a name is given twice, or the device has no room for a tensor.
    """
    floats = dtype or next((p.dtype for p in model.parameters() if p.dtype.is_floating_point), torch.float32)
    args: list[torch.Tensor] = []
    kwargs: dict[str, torch.Tensor] = {}
    notes: list[str] = []
    for number, spec in enumerate(inputs):
        if spec.dtype:
            wanted: torch.dtype = getattr(torch, spec.dtype)
        elif _is_ids(spec, model):
            wanted = torch.int64
            shape = "x".join(map(str, spec.shape))
            notes.append(f"input {spec.name or number} is taken as token ids; {shape}:float32 would make floats of it")
        else:
            wanted = floats
        summary = f"{f'{spec.name}=' if spec.name else ''}{'x'.join(map(str, spec.shape))}"
        with room_for(summary, spec.shape, wanted, device):
            tensor = _filled(spec.shape, wanted, torch.device(device))
        if spec.name:
            if spec.name in kwargs:
                raise SpecError(f"the input {spec.name!r} is given twice")
            kwargs[spec.name] = tensor
        else:
            args.append(tensor)
    return tuple(args), kwargs, tuple(notes)


def needs_input(model: nn.Module) -> bool:
    """Whether the model's forward has a parameter without a default."""
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return False
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return any(p.default is inspect.Parameter.empty and p.kind in plain for p in parameters)


@contextmanager
def told_in_words(what: str, hint: str = "") -> Iterator[None]:
    """Turn what a model's own code raises into a `FlopsError` of one line, with the exception as its cause."""
    try:
        yield
    except (FlopsError, KeyboardInterrupt):
        raise
    except Exception as error:  # any of theirs: it is their code
        raise FlopsError(f"{what}: {one_line(error)}{f'. {hint}' if hint else ''} ({TRACEBACK})") from error


def one_line(error: BaseException, most: int = 300) -> str:
    """An exception as one line: its type and its own text, cut where it is long."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:most]}{'…' if len(text) > most else ''}" if text else type(error).__name__


@contextmanager
def _default_dtype(dtype: torch.dtype | None) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype or before)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _is_ids(spec: InputSpec, model: nn.Module) -> bool:
    if spec.name:
        return spec.name.endswith(("_ids", "ids", "tokens", "labels"))
    first = next((module for module in model.modules() if any(True for _ in module.parameters(recurse=False))), None)
    return len(spec.shape) == 2 and isinstance(first, nn.Embedding)


def _filled(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    make: Callable[..., torch.Tensor] = torch.zeros
    if dtype.is_floating_point or dtype.is_complex:
        make = torch.randn
    elif dtype is torch.bool:
        make = torch.ones
    return make(shape, dtype=dtype, device=device)


def _import_module(name: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if missing == name or name.startswith(f"{missing}."):
            raise FlopsError(
                f"no module {missing!r} in {here} nor installed; a file is named as ./file.py:build"
            ) from error
        raise FlopsError(f"{name} needs the module {missing!r}, which is not installed ({TRACEBACK})") from error
    except (Exception, SystemExit) as error:  # theirs; a script without a main guard may exit
        raise FlopsError(f"{name} cannot be imported: {one_line(error)} ({TRACEBACK})") from error


def _import_file(path: str) -> Any:
    file = Path(path)
    if not file.is_file():
        raise FlopsError(f"{path}: no such file")
    folder = str(file.resolve().parent)
    if folder not in sys.path:  # its neighbours, as `python file.py` would find them
        sys.path.insert(0, folder)
    name = f"weftrace_model_{file.stem}"  # a name of its own: a file called json.py must not stand in for json
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # theirs
        sys.modules.pop(name, None)
        raise FlopsError(f"{path} cannot be imported: {one_line(error)} ({TRACEBACK})") from error
    return module
