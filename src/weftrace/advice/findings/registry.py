"""Every rule, a line each; their texts, thresholds and remedies are in rules.toml."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from weftrace.advice.findings.evidence import Evidence, JobEvidence
from weftrace.advice.findings.found import Found, Missing
from weftrace.advice.findings.rules import (
    calls,
    clocks,
    communication,
    copies,
    fusion,
    gemms,
    graphs,
    host,
    imbalance,
    jobs,
    launch_order,
    loading,
    optimizer,
    pauses,
    pipelines,
    quality,
    rates,
    recomputing,
    serving,
    sharing,
    tiny_kernels,
)
from weftrace.trace.work import Basis

DeviceRule = Callable[[Evidence], Iterable[Found | Missing]]
JobRule = Callable[[JobEvidence], Iterable[Found | Missing]]


@dataclass(frozen=True, slots=True)
class Rule:
    """id: as in rules.toml. of_device: looks at a device of a rank; of_job: at a job of several ranks. in_place: when
    the latter stands for the ranks' findings: always, if it found something, or if their plans were joined. bases:
    kinds of work that `of_device` looks at. is_remark: limits what can be said, or tells what is not worth doing, and
    is no loss."""

    id: str
    of_device: DeviceRule | None = None
    of_job: JobRule | None = None
    bases: tuple[Basis, ...] = ("device",)
    is_remark: bool = False
    in_place: Literal["always", "if found", "if joined"] = "always"


RULES: tuple[Rule, ...] = (
    Rule("unrecorded-work", quality.unrecorded_work, is_remark=True),
    Rule("ranks-missing", quality.ranks_missing, quality.ranks_missing_of_job, is_remark=True),
    Rule("fp32-gemm", gemms.fp32_gemm),
    Rule("old-gemm-kernels", gemms.old_gemm_kernels),
    Rule("unfused-attention", fusion.unfused_attention),
    Rule("unfused-elementwise", fusion.unfused_elementwise),
    Rule("casts-and-copies", copies.casts_and_copies),
    Rule("layout-transforms", copies.layout_transforms),
    Rule("recomputation", recomputing.recomputation),
    Rule("warm-up-in-sample", quality.warm_up_in_sample, is_remark=True),
    Rule("host-bound", host.host_bound),
    Rule("sync-every-step", host.sync_every_step, bases=("device", "host")),
    Rule("data-loading", loading.data_loading, bases=("device", "host")),
    Rule("decode-gap", serving.decode_gap),
    Rule("decode-outside-graphs", serving.decode_outside_graphs),
    Rule("graph-breaks", graphs.graph_breaks),
    Rule("graph-launch", serving.graph_launch),
    Rule("tiny-kernels", tiny_kernels.tiny_kernels),
    Rule("optimizer-step", optimizer.optimizer_step),
    Rule("allocator", calls.allocator),
    Rule("pageable-copies", calls.pageable_copies),
    Rule("fsdp-rate-limiter", calls.fsdp_rate_limiter),
    Rule("ddp-overhead", optimizer.ddp_overhead),
    Rule("gc-pause", pauses.gc_pause, jobs.gc_pause, in_place="if found"),
    Rule("recompilation", pauses.recompilation),
    Rule("exposed-collective", communication.exposed_collective, communication.exposed_collective_of_job,
         in_place="if joined"),
    Rule("one-connection", launch_order.one_connection),
    Rule("slow-clocks", clocks.slow_clocks, jobs.slow_clocks, in_place="if found"),
    Rule("straggler", of_job=jobs.straggler),
    Rule("contention", sharing.contention),
    Rule("sm-wait", sharing.sm_wait),
    Rule("expert-imbalance", imbalance.expert_imbalance, imbalance.expert_imbalance_of_job),
    Rule("pipeline-bubble", of_job=pipelines.pipeline_bubble),
    Rule("slow-stage", of_job=jobs.slow_stage),
    Rule("sequence-imbalance", of_job=imbalance.sequence_imbalance),
    Rule("small-collectives", rates.small_collectives, rates.small_collectives_of_job, in_place="if joined"),
    Rule("slow-collectives", of_job=rates.slow_collectives_of_job),
    Rule("tensor-parallel-across-nodes", rates.tensor_parallel_across_nodes, rates.tensor_parallel_across_nodes_of_job,
         in_place="if joined"),
    Rule("first-and-last-collective", communication.first_and_last_collective,
         communication.first_and_last_collective_of_job, in_place="if joined"),
    Rule("leave-it", quality.leave_it, is_remark=True),
)  # fmt: skip
