"""What did reading leave out, and why?"""

from __future__ import annotations

from collections import Counter

from weftrace.trace.model import ReadQuality


class Tally:
    """Counts of events that reading dropped, repaired and skipped, with the first example of each reason.

    Reasons are a fixed set of phrases, never text of the file: a hostile file cannot make the tally grow.
    """

    def __init__(self) -> None:
        self.dropped: Counter[str] = Counter()
        self.repaired: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.examples: dict[str, str] = {}

    def drop(self, reason: str, example: str | bytes, count: int = 1) -> None:
        """Events that are lost."""
        self.dropped[reason] += count
        self.examples.setdefault(reason, shown(example))

    def repair(self, reason: str, example: str | bytes, count: int = 1) -> None:
        """Events that were kept after a repair, or damage between events that cost none."""
        self.repaired[reason] += count
        self.examples.setdefault(reason, shown(example))

    def skip(self, kind: str, count: int = 1) -> None:
        """Sound events of which weftrace makes no use."""
        self.skipped[kind] += count

    def add(self, other: Tally) -> None:
        """What another one counted of events that come after these."""
        self.dropped.update(other.dropped)
        self.repaired.update(other.repaired)
        self.skipped.update(other.skipped)
        for reason, example in other.examples.items():
            self.examples.setdefault(reason, example)

    def taken(self) -> Tally | None:
        """What was counted since this was asked last; None where that is nothing."""
        if not (self.dropped or self.repaired or self.skipped):
            return None
        taken = Tally()
        for name, counts in vars(self).items():
            vars(taken)[name].update(counts)
            counts.clear()
        return taken

    def quality(self, truncated: str | None) -> ReadQuality:
        return ReadQuality(
            dropped=dict(self.dropped),
            repaired=dict(self.repaired),
            skipped=dict(self.skipped),
            truncated=truncated,
            examples=dict(self.examples),
        )

    def main_losses(self) -> str:
        """The commonest reasons for dropping, for an error message: `not an object: 3; no usable time: 1`."""
        return "; ".join(f"{reason}: {count:,}" for reason, count in self.dropped.most_common(3))


def shown(text: bytes | str) -> str:
    """A short, printable beginning of untrusted text, in quotes."""
    start = text[:40] if isinstance(text, str) else text[:40].decode("utf-8", "replace")
    return ascii(start) + ("…" if len(text) > 40 else "")
