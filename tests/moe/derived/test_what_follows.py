"""Tokens a second, who holds a layer up, who is waited for: each by pencil."""

from __future__ import annotations

import numpy as np
import pytest

from tests.moe.lists_priced import US, laid_out, priced
from weftrace.moe import Piece, Setting, load_overlap, simulated
from weftrace.moe.derived.late_ranks import idle_wait_share, stragglers
from weftrace.moe.derived.limits import bottleneck
from weftrace.moe.derived.tokens_per_second import throughput, tokens_of
from weftrace.units import duration

COST = {"attn": 10, "shared": 3, "dispatch": 4, "mlp": 6, "combine": 5}


def test_tokens_a_second_are_those_of_all_micro_batches_over_all_layers_of_the_model() -> None:
    """Prefill: 2 x 8,192 tokens, a layer of 38 us, 61 layers: 16,384 / 2.318 ms a GPU, 8 of them a node."""
    found = throughput(laid_out(load_overlap("two-micro-batches"), COST))
    assert found.tokens_per_gpu == pytest.approx(16_384 / (61 * 38e-6))
    assert found.tokens_per_node == pytest.approx(8 * found.tokens_per_gpu)
    assert found.assumed[0] == "all 61 layers cost what this one does, the 3 dense ones too"


def test_lmsys_rate_of_the_published_prefill_profile_is_its_layer_times_sixty_one() -> None:
    """62,713 tokens/s a node, derived by LMSYS: 16,384 tokens in 61 layers of 34,263 us on each GPU."""
    setting = Setting.of("prefill")
    assert tokens_of(setting, 2) * 8 / (61 * 34_263e-6) == pytest.approx(62_713, rel=1e-4)


@pytest.mark.parametrize(("per_request", "got"), [(1, 1.0), (2, 1.85), (3, 1 + 0.85 + 0.85**2)])
def test_a_drafted_token_counts_where_all_before_it_were_accepted(per_request: int, got: float) -> None:
    """128 requests a GPU; with n tokens of each in a step, n - 1 are drafted, and 85 % of drafts are accepted."""
    setting = Setting.of("decode", tokens=64 * per_request, tokens_per_request=per_request)
    assert tokens_of(setting, 2) == pytest.approx(128 * got)


def test_a_mean_of_eighty_to_ninety_percent_is_stated_and_can_be_changed() -> None:
    profile = laid_out(load_overlap("dual-batch"), COST)
    decode = simulated(
        Setting.of("decode", num_layers=4), load_overlap("dual-batch"), priced(load_overlap("dual-batch"), COST),
        level="a test",
    )  # fmt: skip
    assert throughput(profile).acceptance is None
    assert throughput(decode).assumed[-1] == "85 % of drafted tokens accepted: 1.85 tokens per request and step"
    assert throughput(decode, acceptance=0.5).tokens == 128 * 1.5


@pytest.mark.parametrize(
    ("cost", "limit", "without_us"),
    [
        (COST, "compute", 2 * (4 + 5)),  # all is hidden: without computation the link alone
        ({**COST, "dispatch": 30, "combine": 40}, "communication", 2 * (10 + 3 + 6)),
    ],
)
def test_what_holds_a_layer_up_is_that_without_which_it_would_be_shortest(
    cost: dict[str, float], limit: str, without_us: int
) -> None:
    found = bottleneck(laid_out(load_overlap("two-micro-batches"), cost))
    assert found.limit == limit
    assert found.without_ns[found.limit] == without_us * US
    assert found.in_words().endswith(
        f"a layer would take {duration(without_us * US, 4)}, not {duration(found.layer_ns, 4)}"
    )


def test_ranks_that_wait_for_the_slowest_are_told_as_such() -> None:
    """Two ranks, no overlap: mlp takes 10 us on one and 50 on the other, in turn; each layer they meet in dispatch.

    A layer takes 50 + the rest (22); with 30 on both it would take 52. Without computation, 10 in turn would be left.
    """
    overlap = load_overlap("none", "prefill")
    mlp_LR = np.array([[10.0, 50.0]] * 6) * US
    prices = {
        **priced(overlap, {**COST, "dispatch": 100, "combine": 1}),
        "MLP": (Piece(name="gemm", duration_ns=mlp_LR, basis="a test"),),
        "DISPATCH": (Piece(name="notify", kind="communication", duration_ns=4 * US, meets=True, basis="a test"),),
    }
    profile = simulated(Setting.of("prefill", num_layers=6), overlap, prices, level="a test", num_ranks=2, gap_ns=0)
    assert profile.layer_ns == (10 + 3 + 4 + 50 + 1) * US
    table = stragglers(profile)
    assert table.get_column("rank").to_list() == [1, 0]
    row = table.row(1, named=True)
    assert (row["waiting_ns"], row["last_in"], row["meets"]) == (5 * 40 * US, 1, 6)  # the first meet finds both there
    assert idle_wait_share(profile) == pytest.approx(5 * 40 / 2 / (6 * (10 + 3 + 4 + 50 + 1)))
    assert bottleneck(profile).balanced_ns == (10 + 3 + 4 + 30 + 1) * US


def test_a_fused_kernel_is_told_apart_from_computation() -> None:
    """attn 10, shared 3, the kernel 20: without computation 20, without the kernel 13."""
    overlap = load_overlap("waves", "prefill")
    prices = {
        **priced(overlap, {"attn": 10, "shared": 3}),
        "MOE": (Piece(name="mega_moe", kind="fused", duration_ns=20 * US, basis="a test"),),
    }
    found = bottleneck(
        simulated(Setting.of("prefill", comm="fused", num_layers=4), overlap, prices, level="a test", gap_ns=0)
    )
    assert (found.limit, found.without_fused_ns, found.without_compute_ns) == ("fused", 13 * US, 20 * US)
    assert found.in_words() == "the fused kernel: without it a layer would take 13.00 µs, not 33.00 µs"
