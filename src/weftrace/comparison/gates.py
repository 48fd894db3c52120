"""Gates: by how much may a figure change? What the command line fails on."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from msgspec import Meta

IsNoise = Annotated[
    bool | None,
    Meta(
        description="Whether it is no larger than what steps of one run differ by; null where one step tells nothing."
    ),
]


class GateRow(TypedDict):
    """A limit that was asked for, and whether it was met."""

    figure: Annotated[str, Meta(description="As it was written: `exposed`, `family:gemm`.")]
    direction: Annotated[Literal["above", "below"], Meta(description="On which side of the limit it fails.")]
    limit: Annotated[str, Meta(description="By how much it may change, as it was written: 5%, 300us.")]
    unit: Annotated[Literal["ns", "share", "number"], Meta(description="What before and after are in.")]
    before: Annotated[float | None, Meta(description="Null where it is undefined.")]
    after: float | None
    is_noise: IsNoise
    is_met: Annotated[bool | None, Meta(description="Null where the runs are not comparable: gates are not judged.")]
    sentence: str
