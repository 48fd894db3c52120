"""What could not be counted, and why.

Counting runs inside the user's program: in hooks, and after each operator. Whatever goes wrong there is noted here and
told in the report; it never reaches the program. (weftrace's own tests fail on every note.)
"""

from __future__ import annotations


class Uncounted:
    """found: (what was not counted, why) -> how often."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], int] = {}

    def note(self, what: str, error: Exception) -> str:
        """Remember that `what` was not counted; the reason, in a line."""
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        self.found[what, why] = self.found.get((what, why), 0) + 1
        return why

    def sentences(self) -> list[str]:
        """One for each thing and reason, for the notes of a report."""
        return [
            f"{what} was not counted ({'once' if times == 1 else f'{times:,} times'}): weftrace's own mistake, please "
            f"report it. {why}"
            for (what, why), times in self.found.items()
        ]
