"""How many tokens a GPU and a node get done in a second?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from weftrace.files.schemas import Amount, Positive
from weftrace.files.values import UNSAVED
from weftrace.moe.profiles import Profile
from weftrace.moe.setting import Setting
from weftrace.notebook import InNotebook
from weftrace.units import S, counted, percent

#: Drafted tokens of multi-token prediction that are accepted: 80 to 90 % (DeepSeek-V3 report, section 5.4.3).
ACCEPTED = 0.85


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRates(InNotebook):
    """Tokens a second, by hand: tokens / (layer_ns * num_layers).

    tokens: that a GPU gets done when all layers have run once. Training: a micro-batch, forward and backward. Prefill:
    all micro-batches. Decode: requests of all micro-batches, times the tokens that each gets in a step: 1, and of those
    drafted the share `acceptance`, each only where the one before was. num_layers: of the model, all taken to cost what
    this layer does. gpus_per_node: of an NVLink domain. step_ns: of all layers. assumed: what the number rests on.
    """

    tokens: Amount
    num_layers: Positive
    layer_ns: Annotated[float, UNSAVED]
    gpus_per_node: Positive
    acceptance: Annotated[float | None, Meta(description="Of drafted tokens; null without drafting.")]
    assumed: Annotated[tuple[str, ...], Meta(description="What the number does not have in it.")]

    @property
    def step_ns(self) -> float:
        return self.layer_ns * self.num_layers

    @property
    def tokens_per_gpu(self) -> Annotated[float, Meta(ge=0)]:
        return self.tokens * S / self.step_ns if self.step_ns else 0.0

    @property
    def tokens_per_node(self) -> Annotated[float, Meta(ge=0)]:
        return self.tokens_per_gpu * self.gpus_per_node

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "tokens/s a GPU", f"{self.tokens_per_gpu:,.0f}"
        yield f"tokens/s a node of {self.gpus_per_node}", f"{self.tokens_per_node:,.0f}"
        yield from (("assumed", text) for text in self.assumed)


def throughput(profile: Profile, *, acceptance: float = ACCEPTED) -> TokenRates:
    """Tokens a second of a profile. acceptance: share of drafted tokens that are accepted (decode)."""
    setting = profile.setting
    drafted = _drafted(setting)
    return TokenRates(
        tokens=tokens_of(setting, profile.overlap.num_micro_batches, acceptance), num_layers=setting.model.num_layers,
        layer_ns=profile.layer_ns, gpus_per_node=setting.domain, acceptance=acceptance if drafted else None,
        assumed=tuple(_assumed(setting, drafted, acceptance)),
    )  # fmt: skip


def tokens_of(setting: Setting, num_micro_batches: int, acceptance: float = ACCEPTED) -> float:
    """Tokens that a GPU gets done when all layers have run once: see `TokenRates`."""
    if setting.kind == "train":
        return float(setting.tokens)
    if setting.kind == "prefill":
        return float(setting.tokens * num_micro_batches)
    return setting.requests * num_micro_batches * _got(_drafted(setting), acceptance)


def _drafted(setting: Setting) -> int:
    return setting.tokens_per_request - 1 if setting.kind == "decode" else 0


def _got(drafted: int, acceptance: float) -> float:
    """Tokens that a request gets in a step: a drafted one counts where all before it were accepted."""
    return float(sum(acceptance**n for n in range(drafted + 1)))


def _assumed(setting: Setting, drafted: int, acceptance: float) -> Iterator[str]:
    dense = setting.experts.num_dense_layers
    yield f"all {setting.model.num_layers} layers cost what this one does" + (
        f", the {counted(dense, 'dense one')} too" if dense else ""
    )
    if setting.kind == "train":
        yield "no pipeline bubble, no optimizer, no gradients' reduction"
    else:
        yield "embedding and head are left out" + (", and the layer that drafts" if drafted else "")
    if drafted:
        got = _got(drafted, acceptance)
        yield f"{percent(acceptance, 0)} of drafted tokens accepted: {got:.2f} tokens per request and step"
