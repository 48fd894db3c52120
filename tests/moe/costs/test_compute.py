"""Prices of operations that compute: against the measured training profile, by pencil, and on other accelerators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from weftrace.errors import ProfileError
from weftrace.facts import load_models
from weftrace.moe.costs.compute import pieces_of
from weftrace.moe.costs.rates import Level
from weftrace.moe.operations import Operation
from weftrace.moe.overlap_files import load_overlap
from weftrace.moe.pieces import Piece
from weftrace.moe.requests import ModelPhase
from weftrace.moe.routing.load import balanced
from weftrace.moe.setting import Setting
from weftrace.trace.kernels import classify, load_rules

TRAIN = Setting.of("train")
LEVELS: tuple[Level, ...] = ("published", "roofline")
#: Mean of four layers in DeepSeek's training profile, in microseconds; compute of a layer is their sum.
MEASURED = {"attn(F)": 4370, "mlp(F)": 4604, "attn(B)": 9341, "mlp(B)": 5306, "mlp(W)": 5063, "attn(W)": 2389}


def priced(setting: Setting, overlap: str, level: Level = "published") -> dict[str, float]:
    """Microseconds of each phase that computes, of one micro-batch."""
    found: dict[str, float] = {}
    load = balanced(setting)
    for each in load_overlap(overlap).operations:
        if not each.moves_tokens:
            key = each.phase if setting.kind == "train" else each.name
            found[key] = found.get(key, 0.0) + micro(pieces_of(each, setting, load, level))
    return found


def micro(pieces: Sequence[Piece]) -> float:
    return sum(float(np.mean(piece.duration_ns)) for piece in pieces) / 1000


def test_training_phases_are_within_12_percent_of_the_measured_and_a_layer_within_6() -> None:
    found = priced(TRAIN, "training")
    errors = {phase: round(100 * (found[phase] / MEASURED[phase] - 1), 1) for phase in MEASURED}
    assert errors == {
        "attn(F)": -7.6, "mlp(F)": -2.0, "attn(B)": -3.9, "mlp(B)": 0.6, "mlp(W)": -11.2, "attn(W)": -1.2,
    }  # fmt: skip
    assert max(map(abs, errors.values())) < 12
    layer = sum(found.values()) / sum(MEASURED.values()) - 1
    assert round(100 * layer, 1) == -4.3 and abs(layer) < 0.06
    shortest = [phase for phase in sorted(found, key=lambda phase: found[phase]) if phase != "mlp(W)"]
    assert shortest == ["attn(W)", "attn(F)", "mlp(F)", "mlp(B)", "attn(B)"]  # as measured


def test_prefill_computes_as_long_as_a_measured_layer_takes_within_5_percent() -> None:
    """Communication is hidden at published bandwidths: a layer of both micro-batches takes what it computes."""
    found = priced(Setting.of("prefill"), "two-micro-batches")
    assert sum(found.values()) == pytest.approx(34_263, rel=0.05)
    assert round(100 * (sum(found.values()) / 34_263 - 1), 1) == 2.5


def decode_by_law() -> float:
    """2 [max(dispatch, SHARED + ATTN-0) + MLP + max(combine, ATTN-1)], DeepEP's low-latency kernels at EP128: 192 and
    369 us."""
    found = priced(Setting.of("decode"), "five-stages")
    return 2 * (max(192.0, found["SHARED0"] + found["ATTN-0(1)"]) + found["MLP0"] + max(369.0, found["ATTN-1(1)"]))


def test_decode_by_the_law_of_five_stages_is_within_8_percent() -> None:
    """1,431 us as a third party read it."""
    assert decode_by_law() == pytest.approx(1431, rel=0.08)
    assert round(100 * (decode_by_law() / 1431 - 1), 1) == -7.0


def test_a_product_by_pencil() -> None:
    """q_b on 112 of 132 SMs: 2 x 4,096 x 1,536 x 24,576 FLOP at 990 TFLOP/s x 112/132."""
    pieces = {piece.name: piece for piece in pieces_of(Operation(name="a", work="attn"), TRAIN, balanced(TRAIN))}
    q_b = pieces["deep_gemm::fp8_gemm_kernel<q_b>"]
    assert q_b.flops == 2 * 4096 * 1536 * 24576
    assert q_b.duration_ns == pytest.approx(q_b.flops / (990e12 * 112 / 132) * 1e9)
    assert (q_b.num_sms, q_b.basis) == (112, "published: DeepGEMM's rates")
    core = pieces["flash::flash_fwd_kernel<core>"]
    assert core.duration_ns == pytest.approx(128 * 4096 * 4096 * 320 / (600e12 * 112 / 132) * 1e9)
    glue = pieces["elementwise_kernel<norms, casts, copies: attention>"]
    assert glue.duration_ns == pytest.approx(511_000 * 4096 / (0.6 * 3.35e12) * 1e9)
    assert glue.num_kernels == 62
    weights = pieces_of(Operation(name="w", work="attn", direction="W"), TRAIN, balanced(TRAIN))[2]
    gradients = 8 * 1536 * 24576 / (0.6 * 3.35e12) * 1e9
    assert weights.duration_ns == pytest.approx(float(q_b.duration_ns) + gradients)


def test_kernels_are_as_many_as_in_the_published_profile() -> None:
    """Measured, mean of four layers: 69, 19.75, 101, 29, 12 and 5."""
    load = balanced(TRAIN)
    counted = {
        each.name: sum(piece.num_kernels for piece in pieces_of(each, TRAIN, load))
        for each in load_overlap("training").operations
        if not each.moves_tokens
    }
    assert counted == {
        "attn(F)": 69, "mlp(B)": 29, "mlp(W)": 5, "mlp(W) side": 5, "mlp(F)": 19, "attn(B)": 99, "attn(W)": 5,
    }  # fmt: skip


@pytest.mark.parametrize(("kind", "overlap"), [("train", "training"), ("prefill", "two-micro-batches")])
def test_names_are_found_by_the_kernel_rules(kind: str, overlap: str) -> None:
    setting = Setting.of(kind)  # type: ignore[arg-type]
    load = balanced(setting)
    pieces = [piece for each in load_overlap(overlap).operations if not each.moves_tokens
              for piece in pieces_of(each, setting, load)]  # fmt: skip
    found = classify(pl.Series([piece.name for piece in pieces]), load_rules())
    assert set(found["kind"]) == {"compute"}
    wanted = {"gemm_fp8", "gemm_grouped", "gemm", "attention", "elementwise"} | (
        {"quantize"} if kind == "train" else set()
    )
    assert set(found["family"]) == wanted


def test_names_of_decode_are_found_too() -> None:
    for model in ("deepseek-v3", "deepseek-v3.2", "qwen3-235b-a22b"):
        setting = Setting.of("decode", model=model)
        attn = Operation(name="a", work="attn")
        names = [piece.name for piece in pieces_of(attn, setting, balanced(setting))]
        families = dict(zip(names, classify(pl.Series(names), load_rules())["family"], strict=True))
        assert "other" not in families.values(), families
        latent = "_mla" if setting.model.latent else ""
        assert families[f"flash::flash_fwd_splitkv{latent}_kernel<core>"] == "attention"


def test_roofline_is_never_slower_than_what_is_published() -> None:
    for kind, overlap in (("train", "training"), ("prefill", "two-micro-batches"), ("decode", "five-stages")):
        setting = Setting.of(kind)  # type: ignore[arg-type]
        published, least = priced(setting, overlap), priced(setting, overlap, "roofline")
        assert all(0 < least[phase] < published[phase] for phase in published)


def test_shares_and_chunks_of_work() -> None:
    load = balanced(TRAIN)
    whole = pieces_of(Operation(name="m", work="mlp", direction="W"), TRAIN, load)
    half = pieces_of(Operation(name="m", work="mlp", direction="W", share=0.5), TRAIN, load)
    assert 2 * micro(half) == pytest.approx(micro(whole))
    chunks = [
        pieces_of(Operation(name="c", work="mlp", chunk=at, num_chunks=3, share=1 / 3), TRAIN, load) for at in range(3)
    ]
    one = pieces_of(Operation(name="m", work="mlp"), TRAIN, load)
    assert sum(float(np.mean(piece.flops)) for pieces in chunks for piece in pieces) == pytest.approx(
        sum(float(np.mean(piece.flops)) for piece in one)
    )
    assert sum(map(micro, chunks)) > micro(one)  # smaller products are slower
    decode = Setting.of("decode")
    small = [pieces_of(Operation(name="c", work="attn-1", chunk=at, num_chunks=2, share=0.5), decode, balanced(decode))
             for at in range(2)]  # fmt: skip
    assert sum(map(micro, small)) > 0.99 * micro(
        pieces_of(Operation(name="a", work="attn-1"), decode, balanced(decode))
    )


def test_busier_ranks_take_longer() -> None:
    load = balanced(TRAIN)
    rows_LR = np.array([[0.0, 32768.0], [16384.0, 65536.0]])
    uneven = replace(load, rows_LR=rows_LR)
    mlp = Operation(name="m", work="mlp")
    w13 = pieces_of(mlp, TRAIN, uneven)[0]
    assert np.shape(w13.duration_ns) == (2, 2)
    times = np.asarray(w13.duration_ns)
    assert times[0, 0] == 0
    assert times[0, 1] == pytest.approx(float(np.mean(pieces_of(mlp, TRAIN, load)[0].duration_ns)))
    assert times[1, 1] == pytest.approx(2 * times[0, 1]) and times[1, 0] < times[0, 1]


MODELS = [config for config in load_models() if config.experts is not None]


@pytest.mark.parametrize("model", MODELS, ids=lambda config: str(config.name))
@pytest.mark.parametrize("kind", ["train", "prefill", "decode"])
def test_every_model_has_a_price_and_each_piece_says_whence(model: object, kind: str) -> None:
    setting = Setting.of(kind, model=model, ep=8)  # type: ignore[arg-type]
    load = balanced(setting)
    works = [("attn", "F"), ("shared", "F"), ("mlp", "F")]
    works += (
        [("attn", "B"), ("attn", "W"), ("mlp", "B"), ("mlp", "W")]
        if kind == "train"
        else [("attn-0", "F"), ("attn-1", "F")]
    )
    for work, direction in works:
        pieces = pieces_of(Operation(name="x", work=work, direction=direction), setting, load)  # type: ignore[arg-type]
        assert all(piece.basis for piece in pieces)
        assert micro(pieces) > 0 or (work == "shared" and not model.experts.num_shared)  # type: ignore[attr-defined]


def test_other_accelerators_are_scaled_and_say_so() -> None:
    core = Operation(name="a", work="attn")
    times = {}
    for name in ("h800", "h200", "a100", "b200", "gb200", "gb300", "mi300x"):
        setting = Setting.of("train", hardware=name)
        pieces = pieces_of(core, setting, balanced(setting))
        times[name] = micro(pieces)
        assert all(("scaled to" in piece.basis) == (name != "h800") for piece in pieces)
    assert times["a100"] > times["h800"] > times["h200"] > times["b200"] > times["gb200"] >= times["gb300"]
    # BF16 alone: A100's products take 1979 / 312 of the time on all SMs, as far as computing bounds them
    a100 = Setting.of("train", hardware="a100", comm_sms=0)
    o = pieces_of(core, a100, balanced(a100))[5]
    assert o.name == "deep_gemm::bf16_gemm_kernel<o>"
    assert o.duration_ns == pytest.approx(2 * 4096 * 16384 * 7168 / (1358e12 * 312 / 1979) * 1e9)


@pytest.mark.parametrize("hardware", ["a100", "h200", "mi300x", "gb200"])
def test_no_product_is_faster_than_the_peaks_of_its_accelerator(hardware: str) -> None:
    """A100 reads its weights in BF16, twice as many bytes as those with which the rates were measured."""
    setting = Setting.of("decode", hardware=hardware, ep=64)
    load = balanced(setting)
    for each in load_overlap("none", "decode").operations:
        if not each.moves_tokens:
            for piece, least in zip(*(pieces_of(each, setting, load, level) for level in LEVELS), strict=True):
                assert piece.mean_ns >= least.mean_ns or piece.name.startswith("elementwise"), piece.name
                assert ("gemm" in piece.name and "gate" not in piece.name and hardware == "a100") == (
                    "in BF16" in piece.basis
                )


def test_what_is_not_published_is_called_assumed() -> None:
    def bases(kind: ModelPhase, model: str, operation: Operation) -> dict[str, str]:
        setting = Setting.of(kind, model=model)
        return {piece.name: piece.basis for piece in pieces_of(operation, setting, balanced(setting))}

    backward = bases("train", "deepseek-v3.2", Operation(name="x", work="attn", direction="B"))
    assert "assumed for a sparse one too" in backward["flash::flash_bwd_kernel<core dgrad>"]
    assert backward["deep_gemm::fp8_gemm_kernel<o dgrad>"] == "published: DeepGEMM's rates, assumed as in the forward"
    grouped = bases("prefill", "qwen3-235b-a22b", Operation(name="x", work="attn"))
    assert grouped["flash::flash_fwd_kernel<core>"].endswith(", of MLA, assumed alike")


def test_decode_of_few_tokens_reads_weights() -> None:
    """From 8 tokens to 64 products take as long: their matrices are read all the same."""
    few, more = (Setting.of("decode", tokens=tokens, tokens_per_request=1) for tokens in (8, 64))
    attn = Operation(name="a", work="attn-0")
    times = [{piece.name: float(np.mean(piece.duration_ns)) for piece in pieces_of(attn, setting, balanced(setting))}
             for setting in (few, more)]  # fmt: skip
    glue = "elementwise_kernel<norms, casts, copies: attention>"
    assert times[0][glue] == times[1][glue] == 54_000 / 4
    many = Setting.of("decode", tokens=512)
    assert pieces_of(attn, many, balanced(many))[0].duration_ns == pytest.approx(54_000)  # 4 x 128 tokens
    name = "deep_gemm::fp8_gemm_kernel<q_b>"
    assert times[0][name] == times[1][name] == pytest.approx(2 * 64 * 1536 * 24576 / 289e12 * 1e9)


def test_backward_of_what_serving_alone_has_is_refused() -> None:
    with pytest.raises(ProfileError, match=r"attn-1\(W\)"):
        pieces_of(Operation(name="a", work="attn-1", direction="W"), TRAIN, balanced(TRAIN))
