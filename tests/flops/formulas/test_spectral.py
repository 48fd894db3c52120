"""Fourier transforms: 5 N log2 N, half of it for real numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.flops.formulas.single_op import count_op
from weftrace.costs.cost import Kind, Phase, Status

C64 = torch.complex64


def real(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def many(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=C64)


CASES: list[tuple[str, Callable[[], torch.Tensor], str, int]] = [
    ("fft of complex", lambda: torch.fft.fft(many(3, 8)), "_fft_c2c", 3 * 5 * 8 * 3),
    ("ifft", lambda: torch.fft.ifft(many(3, 8)), "_fft_c2c", 3 * 5 * 8 * 3),
    ("fft2", lambda: torch.fft.fft2(many(3, 4, 8)), "_fft_c2c", 3 * 5 * 32 * 5),
    ("rfft", lambda: torch.fft.rfft(real(3, 16)), "_fft_r2c", 3 * 5 * 16 * 4 // 2),
    ("fft of real", lambda: torch.fft.fft(real(3, 16)), "_fft_r2c", 3 * 5 * 16 * 4 // 2),
    ("rfft2", lambda: torch.fft.rfft2(real(3, 4, 16)), "_fft_r2c", 3 * 5 * 64 * 6 // 2),
    ("irfft", lambda: torch.fft.irfft(many(3, 9)), "_fft_c2r", 3 * 5 * 16 * 4 // 2),
    ("fft of 6", lambda: torch.fft.fft(many(6)), "_fft_c2c", round(5 * 6 * 2.584962500721156)),
    ("fft of 1", lambda: torch.fft.fft(many(4, 1)), "_fft_c2c", 0),
    ("stft", lambda: torch.stft(real(64), 16, return_complex=True, window=torch.ones(16)), "_fft_r2c", 17 * 160),
]


@pytest.mark.parametrize(("name", "code", "op", "flops"), CASES, ids=[case[0] for case in CASES])
def test_transforms(name: str, code: Callable[[], torch.Tensor], op: str, flops: int) -> None:
    torch.manual_seed(0)
    plain = code()
    torch.manual_seed(0)
    counted = count_op(code)
    cost = counted.op(op).cost
    assert (cost.vector_flops, cost.flops, cost.kind, cost.status) == (flops, 0, Kind.VECTOR, Status.ESTIMATE)
    assert torch.equal(counted.out, plain)


def test_backward_and_meta() -> None:
    for device in ("cpu", "meta"):
        x = torch.randn(3, 16, device=device, requires_grad=True)
        counted = count_op(lambda x=x: torch.view_as_real(torch.fft.rfft(x)).sum().backward())  # type: ignore[misc]
        assert counted.op("_fft_r2c", Phase.FORWARD).cost.vector_flops == 3 * 160
        assert counted.op("_fft_c2c", Phase.BACKWARD).cost.vector_flops == 3 * 320  # torch pads it to a complex one
