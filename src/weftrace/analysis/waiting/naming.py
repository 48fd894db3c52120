"""Which names may stand in a sentence, and which one names the cause of some time best?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from weftrace.analysis.intervals import Array, sums_by_group
from weftrace.analysis.waiting.host_paths import ANNOTATION, FRAME, KINDS, OPERATOR, Paths
from weftrace.trace.code_names import function_step

#: The deepest node that holds so much of a cause names it.
ENOUGH = 0.6
#: Paths that are looked at, the longest times first; each with all nodes around it.
_MOST_PATHS = 20_000

#: Functions that only call others: decorators and hooks.
_PASSES_ON = re.compile(
    r": (__torch_function__|_call_impl|_wrapped_call_impl|wrapper\w*|inner|decorate_\w+|_fn|new_forward|<module>|"
    r"<lambda>|__call__|_bootstrap\w*|_?run_code|_run_module_as_main|__enter__|__exit__)$"
)
_GENERATED = re.compile(r"^(<(frozen|eval_with_key|string|stdin|__array)|.*/torchinductor_|.*/tmp[\w-]{8}/)")
#: Operators that run what torch.compile made.
COMPILED = ("Torch-Compiled Region", "CompiledFunction")
_WRAPPING = ("autograd::engine::evaluate_function: ", "record_param_comms", "Torch-Compiled Region")


class Named(NamedTuple):
    """What names some time: name as recorded, kind (its number in KINDS, -1 of none), and its time in ns."""

    name: str
    kind: int
    ns: int


NOTHING = Named("", -1, 0)


@lru_cache(50_000)
def may_name(name: str, kind: int) -> bool:
    """Whether a person can act on a name: no built-in function, no frame of torch's, of Python's own or of generated
    code, and nothing that only passes calls on."""
    if kind == KINDS.index(OPERATOR):
        return not name.startswith(_WRAPPING)
    if kind != KINDS.index(FRAME):
        return True
    if name.startswith("nn.Module: "):
        return True
    if _PASSES_ON.search(name) or _GENERATED.search(name):
        return False
    step = function_step(name, "python_function")
    return step is not None and step.way == "inside"


@lru_cache(50_000)
def is_built_in(name: str) -> bool:
    return name.startswith("<built-in ")


def names_of(paths: Paths, path: Array, ns: Array, *, frames: bool = True) -> tuple[Named, Named, Named]:
    """What names some time: the deepest node with 60 % of it; the deepest operator or annotation around that one; and
    the largest of what is within it. Nodes of one name count as one, wherever they stand.

    path: nodes, -1 for none; ns: the time that is innermost in each. frames: whether Python functions may be named.
    """
    total = int(ns.sum())
    node, sums = _largest_paths(path, ns)
    if not len(node):
        return NOTHING, NOTHING, NOTHING
    origin, at, depth = _with_all_around(paths, node)
    usable = np.array([may_name(n, k) for n, k in _labels(paths, at)], np.bool_)
    usable &= frames | (paths.kind[at] != KINDS.index(FRAME))
    origin, at, depth = origin[usable], at[usable], depth[usable]
    if not len(at):
        return NOTHING, NOTHING, NOTHING
    key = paths.name[at] * len(KINDS) + paths.kind[at]
    first = np.unique(origin * (int(key.max()) + 1) + key, return_index=True)[1]  # a recursion counts once
    origin, key, depth = origin[first], key[first], depth[first]
    keys, label = np.unique(key, return_inverse=True)
    times = sums_by_group(label, sums[origin], len(keys))
    depths = sums_by_group(label, depth * sums[origin], len(keys)) / np.maximum(times, 1)
    enough = np.flatnonzero(times >= ENOUGH * total)
    best = enough[np.lexsort((-times[enough], -depths[enough]))[0]] if len(enough) else -1
    inside = np.isin(origin, origin[label == best]) if best >= 0 else np.ones(len(origin), np.bool_)
    deeper = inside & (depth > (depths[best] if best >= 0 else -1)) & (label != best)
    below = sums_by_group(label[deeper], sums[origin[deeper]], len(keys))
    around = [
        k for k in enough if k != best and depths[k] < depths[best] and keys[k] % len(KINDS) in (
            KINDS.index(OPERATOR), KINDS.index(ANNOTATION))
    ]  # fmt: skip
    outer = max(around, key=lambda k: depths[k], default=-1)

    def named(k: int, ns: int) -> Named:
        if k < 0 or ns <= 0:
            return NOTHING
        name, kind = divmod(int(keys[k]), len(KINDS))
        return Named(str(paths.names[name]), kind, ns)

    child = int(below.argmax()) if len(below) else -1
    own = named(int(best), int(times[best])) if best >= 0 else NOTHING
    return own, named(int(outer), int(times[outer])), named(child, int(below[child]) if child >= 0 else 0)


def outermost_operators(paths: Paths, path: Array, ns: Array, most: int = 3) -> list[Named]:
    """The operators that no other operator is around, those with most time first."""
    node, sums = _largest_paths(path, ns)
    if not len(node):
        return []
    origin, at, _ = _with_all_around(paths, node)
    named = [may_name(*label) or label[0].startswith(COMPILED) for label in _labels(paths, at)]
    chosen = (paths.kind[at] == KINDS.index(OPERATOR)) & np.array(named, np.bool_)
    top: dict[int, int] = {}
    for path_at, node_at in zip(origin[chosen].tolist(), at[chosen].tolist(), strict=True):
        top[path_at] = node_at  # they come innermost first
    totals: dict[str, int] = {}
    for path_at, node_at in top.items():
        name = str(paths.names[int(paths.name[node_at])])
        totals[name] = totals.get(name, 0) + int(sums[path_at])
    largest = sorted(totals.items(), key=lambda item: -item[1])[:most]
    return [Named(name, KINDS.index(OPERATOR), total) for name, total in largest]


def _largest_paths(path: Array, ns: Array) -> tuple[Array, Array]:
    """Distinct nodes and their sums, the largest first."""
    totals = sums_by_group(path + 1, ns, int(path.max()) + 2)[1:] if len(path) else np.empty(0, np.int64)
    node = np.flatnonzero(totals)
    sums = totals[node]
    order = np.argsort(-sums, kind="stable")[:_MOST_PATHS]
    return node[order], sums[order]


def _with_all_around(paths: Paths, node: Array) -> tuple[Array, Array, Array]:
    """Each node with all around it: which of the nodes, the node, how many are around that one."""
    depth = paths.depth[node]
    origin, at, level = [np.arange(len(node))], [node], [depth]
    current, alive = node, np.arange(len(node))
    while len(current):
        above = paths.parent[current]
        alive, current = alive[above >= 0], above[above >= 0]
        origin.append(alive)
        at.append(current)
        level.append(paths.depth[current])
    return np.concatenate(origin), np.concatenate(at), np.concatenate(level)


def _labels(paths: Paths, at: Array) -> Sequence[tuple[str, int]]:
    names = paths.names.to_list()
    return [(names[name], kind) for name, kind in zip(paths.name[at].tolist(), paths.kind[at].tolist(), strict=True)]
