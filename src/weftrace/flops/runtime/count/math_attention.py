"""Attention that torch takes apart: which of a module's products are its two, and what they cost under its mask.

Where no fused kernel fits (dropout on a CPU, values of another width, inputs that are not 4-D, a mask that learns),
`scaled_dot_product_attention` becomes a product, `_safe_softmax` of the scores, and a product. `_safe_softmax` comes of
nothing else; so it says that its module's products over its scores' pairs are attention, and the scores, where they can
be read, how many pairs the mask let through. Model FLOPs are of those, executed FLOPs of all, as of a fused kernel.

Products are told by their shapes and their number: 2 for each softmax forward, at most 2 in a recomputation, at most 4
backward. Where it is another, which are attention's is not known, and the module's products are an upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from weftrace.costs.cost import Cost, Phase, Status
from weftrace.costs.formulas.softmax_and_loss import pairs_let_through, without_pairs
from weftrace.flops.runtime.count.signatures import Signatures

Counts = Mapping[int, int]
Seen = tuple[int | None, int]  # pairs that the mask let through, None where it was not read; softmaxes
Scores = dict[tuple[int, ...], list[Seen]]  # shape of scores -> what each softmax of it saw

_PRODUCTS = frozenset({"aten::mm", "aten::bmm"})
_ADDS = frozenset({"aten::add", "aten::add_"})
_NOTE = "pairs that the mask lets through; scaled_dot_product_attention fell apart into products over all"
_UNREAD = "all pairs: scaled_dot_product_attention fell apart into products, and its mask was not read"
_UNTOLD = "all pairs: which products are those of masked scaled_dot_product_attention is not known"


def masked_costs(
    signatures: Signatures, by_phase: Mapping[Phase, Counts], again: Scores
) -> Iterator[tuple[Phase, int, int, Cost]]:
    """(phase, signature, calls, cost) of all that ran in a module; signatures of products may come in parts.

    again: scores of other modules whose backward may stand here: what a reentrant checkpoint of a plain function made.
    """
    scores = {phase: _scores(signatures, counts) for phase, counts in by_phase.items()}
    for phase, counts in by_phase.items():
        backward = phase is Phase.BACKWARD
        found = scores[phase] or ((scores[Phase.FORWARD] or scores[Phase.RECOMPUTE] or again) if backward else {})
        costs = _of_phase(signatures, counts, found, phase) if found else {}
        for number, calls in counts.items():
            for part, cost in costs.get(number, [(calls, without_pairs(signatures.costs[number]))]):
                yield phase, number, part, cost


def recomputed_scores(signatures: Signatures, modules: Iterable[Mapping[Phase, Counts]]) -> Scores:
    """The scores under a mask of all that checkpoints ran again."""
    found: Scores = {}
    for by_phase in modules:
        for shape, seen in _scores(signatures, by_phase[Phase.RECOMPUTE]).items():
            found.setdefault(shape, []).extend(seen)
    return found


def _scores(signatures: Signatures, counts: Counts) -> Scores:
    """Those under a mask; none where no softmax has a mask."""
    found: Scores = {}
    for number, calls in counts.items():
        if _name(signatures, number) == "aten::_safe_softmax":
            shape = signatures.shapes[number][0]
            found.setdefault(shape, []).append((pairs_let_through(signatures.costs[number]), calls))
    added = {signatures.shapes[number][0] for number in counts if _name(signatures, number) in _ADDS}
    return {
        shape: seen
        for shape, seen in found.items()
        if any(shape in added if pairs is None else pairs < math.prod(shape) for pairs, _ in seen)
    }


def _of_phase(
    signatures: Signatures, counts: Counts, scores: Scores, phase: Phase
) -> dict[int, list[tuple[int, Cost]]]:
    """Signature of a product -> (calls, cost) of its parts, for those whose cost the masks change."""
    products = [number for number in counts if _name(signatures, number) in _PRODUCTS]
    costs: dict[int, list[tuple[int, Cost]]] = {}
    for shape, seen in scores.items():
        mine = [number for number in products if _over(signatures.shapes[number], shape)]
        softmaxes, ran = sum(times for _, times in seen), sum(counts[number] for number in mine)
        most = {Phase.BACKWARD: 4, Phase.RECOMPUTE: 2}.get(phase)  # a checkpoint stops where it has what it needs
        certain = ran == 2 * softmaxes if most is None else ran <= most * softmaxes
        certain = certain and all(counts[number] * times % softmaxes == 0 for number in mine for _, times in seen)
        for number in mine if certain else products:
            cost = signatures.costs[number]
            if not certain or number in costs:
                costs[number] = [(counts[number], replace(cost, status=Status.UPPER_BOUND, note=_UNTOLD))]
            else:
                costs[number] = [
                    (counts[number] * times // softmaxes, _under(cost, pairs, math.prod(shape)))
                    for pairs, times in seen
                ]
    return costs


def _under(cost: Cost, pairs: int | None, every: int) -> Cost:
    """The cost of a product over all pairs, of which a mask lets some through."""
    if pairs is None:
        return replace(cost, status=Status.UPPER_BOUND, note=_UNREAD)
    return replace(cost, flops=cost.flops * pairs // every, note=_NOTE) if pairs < every else cost


def _over(shapes: tuple[Any, ...], scores: tuple[int, ...]) -> bool:
    """Whether a product of these shapes makes, or takes, a matrix of scores of that shape."""
    (*lead, rows, inner), (*_, columns) = shapes[:2]
    *of_scores, num_q, num_k = scores
    sides = {(rows, inner), (inner, columns), (rows, columns)}
    return math.prod(lead) == math.prod(of_scores) and bool(sides & {(num_q, num_k), (num_k, num_q)})


def _name(signatures: Signatures, number: int) -> str:
    schema = getattr(signatures.ops[number], "_schema", None)
    return "" if schema is None else str(schema.name)
