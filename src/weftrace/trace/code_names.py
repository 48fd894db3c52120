"""What does a frame's name tell: which module or which function, and whose it is? As torch's profiler writes names."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

from weftrace.errors import WeftraceError

#: What time is told by: modules (nn.Module), or Python functions with the line at which they begin.
By = Literal["module", "line"]

_MODULE = "nn.Module: "
_INSTANCE = re.compile(r"^(.*)_\d+$")  # "Linear_21": the 22nd Linear that was called in the recording
_FUNCTION = re.compile(r"^(?P<file>(?:[^<]|<ipython-input-).*)\((?P<line>\d+)\): (?P<function>.*)$")
_SEGMENT = re.compile(r"(?<![^.()])([^.()]+)\(([^()]*)\)::[^.]*\.?")  # TorchScript's "layers(Sequential)::forward."
_DOTTED = re.compile(r"^[A-Za-z_]\w*(?:\.\w+)+$")
_NUMBERED = re.compile(r"\.\d+(?:\.|$)")
# Who runs the user's functions, and is not asked about: torch and what it compiles with. And Python's own library.
_MACHINERY = re.compile(r"(?:^|/(?:site|dist)-packages/)(?:torch|triton|functorch)/")
_LIBRARY = re.compile(r"(?:/lib/python\d[\d.]*|^[A-Za-z]:/.*/Lib)/(?!(?:site|dist)-packages/)")


def each_of(by: By | Sequence[By]) -> tuple[By, ...]:
    """What time is asked for by, each once. Raises WeftraceError for another word."""
    named = (by,) if isinstance(by, str) else tuple(by)
    if unknown := [word for word in named if word not in get_args(By)]:
        raise WeftraceError(f'by={unknown[0]!r}: choose "module", "line", or ("module", "line").')
    return tuple(dict.fromkeys(named))


class Step(NamedTuple):
    """What a range adds to the path of those around it.

    names: what is added. way: "inside" those around it; "absolute", in place of what such ranges around it said;
    "alone", only where no range around it says anything.
    """

    names: tuple[str, ...]
    way: Literal["inside", "absolute", "alone"]


def module_step(name: str, cat: str) -> Step | None:
    """Of a module's frame, or of the hierarchy that an operator of TorchScript states; None of any other."""
    if cat == "module_hierarchy":
        found = [(own, "" if own.upper() == "TOP" else kind) for own, kind in _SEGMENT.findall(name) if own != "SELF"]
        names = tuple(f"{own}: {kind}" if kind else own for own, kind in found)
        return Step(names, "absolute") if names else None
    return Step((name.removeprefix(_MODULE),), "inside") if name.startswith(_MODULE) else None


def function_step(name: str, cat: str) -> Step | None:
    """Of a function's frame; None of built-in functions, of modules (whose `forward` has a frame), of generated code.

    Functions of torch, triton and Python's library count only where no other function is around them.
    """
    found = _FUNCTION.match(name) if cat == "python_function" else None
    if found is None:
        return None
    return Step((name,), "alone" if _is_machinery(found["file"]) else "inside")


def stack_step(stack: str) -> Step | None:
    """Of an operator that states its call stack, innermost first, as files of torch before 1.11 do: "model.py(7):
    forward;train.py(3): main"."""
    steps = [step for name in reversed(stack.split(";")) if (step := function_step(name, "python_function"))]
    own = [step.names[0] for step in steps if step.way == "inside"] or [step.names[0] for step in steps[-1:]]
    return Step(tuple(own), "absolute") if own else None


def _is_machinery(file: str) -> bool:
    file = file.replace("\\", "/")
    root = file.split("/", 1)[0].removesuffix(".py")
    return bool(_MACHINERY.search(file) or _LIBRARY.search(file)) or root in sys.stdlib_module_names


def range_steps(names: list[str]) -> dict[str, Step]:
    """Of ranges that are named like modules (`model.layers.3.mlp`); of those alone that share the first part with one
    that has a number in it, for a class's method is written with a dot too."""
    dotted = [name for name in names if _DOTTED.match(name)]
    roots = {name.split(".")[0] for name in dotted if _NUMBERED.search(name)}
    return {name: Step(tuple(name.split(".")), "absolute") for name in dotted if name.split(".")[0] in roots}


def kind_of(name: str) -> str:
    """What siblings have in common that fold into one: a module's class; of a list's members "*"."""
    if ": " in name:  # of TorchScript, "0: Block"
        own, kind = name.split(": ", 1)
        return f"*: {kind}" if own.isdigit() else name
    instance = _INSTANCE.match(name)
    return instance[1] if instance else "*" if name.isdigit() else name
