"""What is run: a profile's kind, the model, the accelerator, and how the work is cut among GPUs and micro-batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from weftrace.errors import ProfileError
from weftrace.facts import ExpertsConfig, Hardware, ModelConfig, hardware, load_models
from weftrace.facts.models import find_config
from weftrace.moe.requests import COMMS, PHASES, Comm, ModelPhase
from weftrace.notebook import InNotebook
from weftrace.units import counted, quoted

#: The published profiles (DeepSeek's profile-data): GPUs of a group of experts, tokens of one micro-batch on one GPU,
#: length of a prompt or of the cache, tokens of a request in a step (in decode 2, as with one MTP token).
PUBLISHED: Final[dict[ModelPhase, dict[str, int]]] = {
    "train": {"ep": 64, "tokens": 4096, "sequence": 4096, "tokens_per_request": 4096},
    "prefill": {"ep": 32, "tokens": 8192, "sequence": 4096, "tokens_per_request": 4096},
    "decode": {"ep": 128, "tokens": 128, "sequence": 4096, "tokens_per_request": 2},
}

#: SMs that the communication kernels hold. DeepEP V1: the published profiles; V2: "4-6 instead of 24" for training such
#: as DeepSeek-V3's, the upper one; low-latency and fused kernels hold none of their own.
_COMM_SMS: Final[dict[Comm, dict[ModelPhase, int]]] = {
    "deepep-v1": {"train": 20, "prefill": 24, "decode": 0},
    "deepep-v2": {"train": 6, "prefill": 6, "decode": 6},
    "fused": {"train": 0, "prefill": 0, "decode": 0},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting(InNotebook):
    """One profile's setting; `Setting.of` fills what is not given with the published profile's figures.

    ep: GPUs of a group of experts; each holds `local_experts` of every layer. num_redundant: experts that are held
    twice, as EPLB places them. tokens: of one micro-batch on one GPU. sequence: tokens of a prompt (train, prefill),
    or of a request's cache (decode). tokens_per_request: of one request in one step; in decode 1, or
    2 where the model has a layer that drafts. comm, comm_sms: kernels that move tokens, and the SMs that they hold.
    bandwidth_reached: the part of the bandwidth published for them that they get; DeepSeek's training profile gets 0.55
    to 0.78 beside computation. domain: GPUs joined by NVLink. num_layers: layers that are run, each a
    mixture-of-experts layer; in training pairs of a forward and a backward layer.

    Raises `ProfileError`, with both numbers, for what cannot be.
    """

    kind: ModelPhase
    model: ModelConfig
    hardware: Hardware
    ep: int
    tokens: int
    sequence: int
    tokens_per_request: int
    comm: Comm
    comm_sms: int
    domain: int
    num_layers: int
    num_redundant: int = 0
    bandwidth_reached: float = 1.0

    def __post_init__(self) -> None:
        _check(self)

    @classmethod
    def of(
        cls,
        kind: ModelPhase,
        *,
        model: str | ModelConfig = "deepseek-v3",
        hardware: str | Hardware = "h800",
        comm: Comm = "deepep-v1",
        ep: int | None = None,
        tokens: int | None = None,
        sequence: int | None = None,
        tokens_per_request: int | None = None,
        comm_sms: int | None = None,
        domain: int | None = None,
        num_layers: int = 4,
        num_redundant: int = 0,
        bandwidth_reached: float = 1.0,
    ) -> Setting:
        """The published profile of that kind, but for what is given. model, hardware: a name, or the facts themselves.

        Raises `ProfileError`, with both numbers, for what cannot be, and what `hardware` raises.
        """
        for what, value, known in (("kind", kind, PHASES), ("comm", comm, COMMS)):
            if value not in known:
                raise ProfileError(f"{what} = {value!r}: weftrace knows {', '.join(known)}")
        published = PUBLISHED[kind]
        of_device = _hardware(hardware)
        sequence = published["sequence"] if sequence is None else sequence
        of_model = _model(model) if isinstance(model, str) else model
        if tokens_per_request is None:
            tokens_per_request = tokens_of_a_step(of_model) if kind == "decode" else sequence
        if tokens is None:
            tokens = published["tokens"]
            if kind == "decode":  # as many requests, whatever each does in a step
                tokens = tokens // published["tokens_per_request"] * tokens_per_request
        return cls(
            kind=kind,
            model=of_model,
            hardware=of_device,
            ep=published["ep"] if ep is None else ep,
            tokens=tokens,
            sequence=sequence,
            tokens_per_request=tokens_per_request,
            comm=comm,
            comm_sms=_COMM_SMS[comm][kind] if comm_sms is None else comm_sms,
            domain=of_device.gpus_per_node if domain is None else domain,
            num_layers=num_layers,
            num_redundant=num_redundant,
            bandwidth_reached=bandwidth_reached,
        )

    @property
    def experts(self) -> ExpertsConfig:
        """The model's experts."""
        assert self.model.experts is not None
        return self.model.experts

    @property
    def local_experts(self) -> int:
        """Experts, copies included, that a GPU holds of one layer."""
        return (self.experts.num_experts + self.num_redundant) // self.ep

    @property
    def compute_sms(self) -> int:
        """SMs that are left for computation while communication kernels run."""
        return self.hardware.num_sms - self.comm_sms

    @property
    def has_fp8(self) -> bool:
        """Whether the accelerator multiplies in FP8: tokens then travel to their experts in it."""
        return "fp8" in self.hardware.peak_flops

    @property
    def num_domains(self) -> int:
        """NVLink domains ("nodes") over which a group of experts lies."""
        return -(-self.ep // self.domain)

    @property
    def requests(self) -> int:
        """Requests of one micro-batch on one GPU: in decode exact, else prompts, of which one may be a part."""
        return -(-self.tokens // self.tokens_per_request)

    def summary(self) -> dict[str, str]:
        """The setting as text, by the keys under which a trace tells it (`Trace.info`, with "profile." before)."""
        part = f", {self.bandwidth_reached:g} of the published bandwidth" if self.bandwidth_reached != 1 else ""
        comm = self.comm + part
        return {
            "kind": self.kind, "model": self.model.name, "hardware": self.hardware.name, "ep": str(self.ep),
            "tokens": f"{self.tokens:,} of a micro-batch on a GPU", "sequence": f"{self.sequence:,}", "comm": comm,
            "sms": f"{self.compute_sms} for computation, {self.comm_sms} for communication",
        }  # fmt: skip

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield from self.summary().items()
        yield "layers", str(self.num_layers)


def tokens_of_a_step(model: ModelConfig) -> int:
    """Of a request in decode, where none are given: the published profile's, if the model has a layer that drafts."""
    return PUBLISHED["decode"]["tokens_per_request"] if model.mtp_depth else 1


def known_moe_models() -> tuple[str, ...]:
    """Names of the models that have routed experts, without their aliases."""
    return tuple(config.name for config in load_models() if config.experts is not None)


def complete_model(incomplete: str) -> list[str]:
    """Names of such models that begin so."""
    return [name for name in known_moe_models() if name.startswith(incomplete.lower())]


def _model(name: str) -> ModelConfig:
    found = find_config(name, load_models())
    if found is None:
        raise ProfileError(
            f"no model is called {quoted(name)}; with routed experts there are {', '.join(known_moe_models())}"
        )
    return found


def _hardware(given: str | Hardware) -> Hardware:
    return hardware(given) if isinstance(given, str) else given


def _check(setting: Setting) -> None:
    numbers: dict[str, Any] = {
        name: getattr(setting, name)
        for name in ("ep", "tokens", "sequence", "tokens_per_request", "domain", "num_layers")
    }
    for name, value in numbers.items():
        if type(value) is not int or value < 1:
            raise ProfileError(f"{name} = {value!r}: it is a whole number of 1 or more")
    experts = setting.model.experts
    if experts is None:
        raise ProfileError(
            f"{setting.model.name} has no routed experts, so there is nothing to send to other GPUs. "
            f"Those with some are {', '.join(known_moe_models())}."
        )
    copies = experts.num_experts + setting.num_redundant
    if setting.num_redundant < 0 or copies % setting.ep:
        extra = f" and {setting.num_redundant} copies" if setting.num_redundant else ""
        raise ProfileError(
            f"{counted(setting.ep, 'GPU')} cannot hold equal parts of {setting.model.name}'s {experts.num_experts} "
            f"experts{extra}: {copies} / {setting.ep} is no whole number. Choose a divisor, or other copies."
        )
    if setting.ep > setting.domain and setting.ep % setting.domain:
        raise ProfileError(
            f"{setting.ep} GPUs do not fill nodes of {setting.domain}: "
            f"{setting.ep} / {setting.domain} is no whole number. Choose at most {setting.domain}, or a multiple of it."
        )
    if not 0 < setting.bandwidth_reached <= 1:
        raise ProfileError(
            f"bandwidth_reached = {setting.bandwidth_reached}: a part of the published bandwidth: above 0, at most 1"
        )
    if not 0 <= setting.comm_sms < setting.hardware.num_sms:
        raise ProfileError(
            f"{setting.comm_sms} SMs for communication leave none of the {setting.hardware.num_sms} SMs of "
            f"{setting.hardware.name} for computation"
        )
    if setting.kind == "decode" and setting.tokens % setting.tokens_per_request:
        raise ProfileError(
            f"{counted(setting.tokens, 'token')} {'is' if setting.tokens == 1 else 'are'} no whole number of requests "
            f"of {counted(setting.tokens_per_request, 'token')} a step"
        )
