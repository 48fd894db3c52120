"""Pipeline schedules in words: what terminal, page and figures say alike, and what each term means."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from weftrace.alphabet import DIRECTIONS
from weftrace.units import counted, duration, percent, size

if TYPE_CHECKING:
    from weftrace.pipeline.render.picture import Picture

#: Where a step is said to end, and what that means for the idle time of a rank.
BOUNDARIES: Mapping[str, str] = MappingProxyType(
    {
        "barrier": "all ranks end together",
        "span": "each rank by itself, from its first action to its last",
    }
)

#: Of a picture of schedules: key -> (term, what it means).
PICTURE_TERMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "makespan": ("Makespan", "Time from the start of the first action to the end of the last, over all ranks."),
        "bubble": (
            "Bubble",
            "Of a rank: the length of its step less the time in which it runs actions. Of a schedule: the largest of "
            "any rank. The boundary says what the step's length is.",
        ),
        "boundary": (
            "Boundary",
            "Start and end of a rank's step. Barrier: the first and the last action of any rank, as before "
            "an optimizer that all ranks enter together. Span: the rank's own first and last action, as if the "
            "next step may begin at once.",
        ),
        "idle": ("Idle", "Time of a rank's step in which it runs nothing: it waits for another rank's result."),
        "warm_up": ("Warm-up", "Of a rank's idle time, what lies before the start of its first backward."),
        "steady": ("Steady", "Of a rank's idle time, what lies between its first backward and its last forward."),
        "cool_down": ("Cool-down", "Of a rank's idle time, what lies after the end of its last forward."),
        "micro_batch": (
            "Micro-batch",
            "A part of the batch that goes through the pipeline by itself. The number in a cell says which.",
        ),
        "stage": ("Stage", "A part of the model's layers. Each rank holds one or more."),
        "direction": (
            "Direction",
            "In DualPipe every stage lives on two ranks, and micro-batches enter at both ends of the pipeline: "
            "direction 0 runs from rank 0 on, direction 1 from the last rank on.",
        ),
        "chunk": (
            "Chunk",
            "A rank with several stages holds several chunks of the model, numbered in the model's order.",
        ),
        "forward": ("F", "Forward of a chunk on one micro-batch."),
        "backward": ("B", "Full backward of a chunk: the gradients of its input and of its weights, I + W."),
        "input": ("I", "The part of a backward that computes the input's gradient, for which the stage before waits."),
        "weight": ("W", "The part of a backward that computes the weights' gradients, for which nobody waits."),
        "pair": (
            "F&B",
            "A forward and a full backward of different micro-batches, overlapped: one computes while the other "
            "communicates. Drawn as two halves in one frame: the forward above, the backward below.",
        ),
        "held": (
            "Activations held",
            "What forwards leave behind for their backwards, in chunks: one from the start of a forward until its "
            "weights' gradient is done. The band reaches from the rank that holds least to the one that holds most.",
        ),
    }
)


def time_text(time_ns: float, unit_ns: int) -> str:
    """A time in words: in units where costs are units, else in seconds and their parts."""
    return f"{time_ns / unit_ns:,.6g}" if unit_ns else duration(time_ns, 4)


def length_text(time_ns: float, unit_ns: int) -> str:
    """The same with its unit: "99.5 units"."""
    text = time_text(time_ns, unit_ns)
    return f"{text} {'unit' if text == '1' else 'units'}" if unit_ns else text


def held_text(held: float, held_in: str) -> str:
    """An amount of memory in words."""
    return size(held) if held_in == "bytes" else f"{held:,.6g}"


def shape_text(picture: Picture) -> str:
    """ "8 stages on 8 ranks, 20 micro-batches"."""
    stages, ranks = counted(picture.num_stages, "stage"), counted(picture.num_ranks, "rank")
    return f"{stages} on {ranks}, {counted(picture.num_micro_batches, 'micro-batch')}"


def headline(picture: Picture) -> str:
    """The picture's first sentence: how long it takes, what of it is bubble and by which boundary, what it holds."""
    length = length_text(picture.makespan_ns, picture.unit_ns) + " of time" * bool(picture.unit_ns)
    bubble = time_text(picture.bubble_ns, picture.unit_ns)
    chunks = " chunk's activations" if picture.peak == 1 else " chunks' activations"
    what = "" if picture.held_in == "bytes" else chunks
    name = picture.name[:1].upper() + picture.name[1:]
    return (
        f"{name} takes {length}; bubble {bubble} ({percent(picture.bubble_share)}; boundary: {picture.boundary}, "
        f"{BOUNDARIES[picture.boundary]}); a rank holds at most {held_text(picture.peak, picture.held_in)}{what}."
    )


def held_words(picture: Picture) -> str:
    """What memory counts."""
    return "bytes held" if picture.held_in == "bytes" else "chunks with activations held"


def memory_text(picture: Picture) -> str:
    """What the memory curve shows, and its peak."""
    peak = held_text(picture.peak, picture.held_in)
    what = held_words(picture).capitalize()
    return f"{what}: band of all ranks, line of rank {picture.peak_rank}, which peaks at {peak}"


def left_out(picture: Picture) -> str:
    """Which ranks are drawn, and which kinds take no time, so that nothing of them is seen; else nothing."""
    drawn, cells = picture.ranks.get_column("rank").to_list(), picture.cells
    said = []
    if len(drawn) < picture.num_ranks:
        few = ", ".join(map(str, drawn[:3]))
        said.append(f"{len(drawn)} of {picture.num_ranks:,} ranks are drawn, evenly chosen: {few}, … {drawn[-1]}.")
    takes_time = cells.filter(cells["end_ns"] > cells["start_ns"]).get_column("kind").unique()
    said += [f"{kind} takes no time: none is drawn." for kind in sorted({*cells.get_column("kind")} - {*takes_time})]
    return " ".join(said)


def action_text(cell: Mapping[str, Any]) -> str:
    """ "forward of micro-batch 4, stage 0, overlapped with backward of micro-batch 1, stage 7"; cell: a row of
    `Picture.cells`."""
    if cell["kind"] == "F&B":
        pair = (("F", cell["stage"], cell["micro_batch"]), ("B", cell["back_stage"], cell["back_micro_batch"]))
        return " overlapped with ".join(f"{DIRECTIONS[k]} of micro-batch {m}, stage {s}" for k, s, m in pair)
    return f"{DIRECTIONS[cell['kind']]} of micro-batch {cell['micro_batch']}, stage {cell['stage']}"
