// Made by `make types` from the schemas of documents and the types of page blocks. Do not edit.

declare namespace critical_path {
  /** A bar of the waterfall. All bars add up to the measured span. */
  interface BarRow {
    /** A class on the critical path, or the replay's error. */
    name: string;
    time_ns: number;
    /** Of the measured span. */
    share: number;
    /** What the span would lose with none of it, all else as it is. */
    alone_ns: number | null;
  }
  /** All that the replay keeps of the run besides measured durations and the waits. */
  interface KeptTold {
    /** Between two ops back to back on a stream, the median. */
    gap_ns: number;
    /** From a launch call's end to its op's start, the median. */
    launch_latency_ns: number;
    /** From an op's end to a waiter's start elsewhere, the median. */
    wait_latency_ns: number;
    /** From a graph's launch to its first kernel, the median. */
    graph_latency_ns: number;
    /** How long before a kernel's end its SMs are free, the median. */
    drain_ns: number;
    /** From a kernel's end to when a thread that polled for it went on, the median. */
    quiet_latency_ns: number;
    /** Streams that start when they did, held up before the recording. */
    num_pinned: number;
  }
  /** What of the path has one name. The rows of a table add up to the path's span. */
  interface PartRow {
    name: string;
    time_ns: number;
    /** Of the path's span. */
    share: number;
  }
  /** A replay of the inferred plan beside the measurement. */
  interface ReplayTold {
    /** Measured: from the first start on a device to the last end. */
    span_ns: number;
    /** The same of the replay. */
    replayed_ns: number;
    /** replayed_ns / span_ns - 1. */
    error: number;
    /** Whether there are no doubts. */
    is_trustworthy: boolean;
    /** Why the replay is not to be trusted, a clause each. */
    doubts: string[];
    /** Phase and occurrence whose end is farthest off. */
    worst_phase: string | null;
    /** By how much: replayed less measured end. */
    worst_phase_ns: number;
    /** Starts more than 10 µs after stream and launch let them. */
    late_starts: number;
    late_ns: number;
    /** Of these, those that no other wait of the plan explains. */
    unexplained_starts: number;
    unexplained_ns: number;
  }
  /** The ops of one phase, or outside phases, and how near they are to the path. */
  interface SlackRow {
    phase: string;
    num_ops: number;
    /** Without slack: later by a ns, and the span is longer by one. */
    on_path: number;
    /** The least slack of them. */
    least_ns: number;
    median_ns: number;
  }
  /** A step, and what decided how long it took. */
  interface StepRow {
    /** Null outside steps. */
    step: number | null;
    /** Of the path in the step; all rows add up to its span. */
    path_ns: number;
    /** On which most of that is. */
    rank: number;
    rank_ns: number;
    /** Of that rank's part the phase, or kernel family, with the most time. */
    what: string;
    time_ns: number;
  }
  /** The waits that come from one source. */
  interface WaitsRow {
    source: string;
    count: number;
    /** The mean: 1 of what is recorded; of votes, what they leave. */
    confidence: number;
    /** Of all of them together; null where nothing was voted on. */
    votes_for: number | null;
    votes_against: number | null;
  }
  /** The wait on the path of which we are least sure. */
  interface WeakestTold {
    /** Of the op that waited. */
    name: string;
    /** Of the op that it waited for. */
    on_name: string;
    source: string;
    votes_for: number | null;
    votes_against: number | null;
    confidence: number;
  }
  /** What decided how long a measured run took. */
  interface Document {
    schema: "weftrace.critical_path/1";
    /** The version that wrote it. */
    weftrace: string;
    /** The trace, or the job. */
    source: string;
    device_name: string;
    ranks: number[];
    /** Of the inferred plan: on devices and on host threads. */
    num_ops: number;
    /** Of which alone the path is told; null for all of it. */
    step: number | null;
    /** The plan's 0 on the trace's clock. */
    origin_ns: number;
    headline: string;
    replay: ReplayTold;
    kept: KeptTold;
    /** Those of the plan, by where they come from. */
    waits: WaitsRow[];
    /** Of the path: the replayed span of the devices; of a step, the path's time in it. */
    span_ns: number;
    /** Of the chain before the first start on a device; in no sum. */
    before_ns: number;
    by_class: PartRow[];
    by_phase: PartRow[];
    by_family: PartRow[];
    by_kernel: PartRow[];
    /** By how an op came to run when it did. */
    by_cause: PartRow[];
    by_rank: PartRow[];
    steps: StepRow[];
    weakest: WeakestTold | null;
    waterfall: BarRow[];
    slack: SlackRow[];
    /** The path as columns, a row a part: parts lie end to end from the first start to the last end. */
    parts: Record<string, unknown[]>;
    notes: string[];
  }
}

declare namespace replay_checks {
  /** One file: its replay, or the reason why no plan could be inferred. */
  interface CheckTold {
    name: string;
    /** Why there is no plan; null where there is one. */
    reason: string | null;
    /** On devices and on host threads. */
    num_ops: number;
    /** Of these, on devices. */
    num_events: number;
    /** Those of the plan, by where they come from. */
    waits: WaitsRow[];
    kept: KeptTold | null;
    replay: ReplayTold | null;
  }
  /** All that the replay keeps of the run besides measured durations and the waits. */
  interface KeptTold {
    /** Between two ops back to back on a stream, the median. */
    gap_ns: number;
    /** From a launch call's end to its op's start, the median. */
    launch_latency_ns: number;
    /** From an op's end to a waiter's start elsewhere, the median. */
    wait_latency_ns: number;
    /** From a graph's launch to its first kernel, the median. */
    graph_latency_ns: number;
    /** How long before a kernel's end its SMs are free, the median. */
    drain_ns: number;
    /** From a kernel's end to when a thread that polled for it went on, the median. */
    quiet_latency_ns: number;
    /** Streams that start when they did, held up before the recording. */
    num_pinned: number;
  }
  /** A replay of the inferred plan beside the measurement. */
  interface ReplayTold {
    /** Measured: from the first start on a device to the last end. */
    span_ns: number;
    /** The same of the replay. */
    replayed_ns: number;
    /** replayed_ns / span_ns - 1. */
    error: number;
    /** Whether there are no doubts. */
    is_trustworthy: boolean;
    /** Why the replay is not to be trusted, a clause each. */
    doubts: string[];
    /** Phase and occurrence whose end is farthest off. */
    worst_phase: string | null;
    /** By how much: replayed less measured end. */
    worst_phase_ns: number;
    /** Starts more than 10 µs after stream and launch let them. */
    late_starts: number;
    late_ns: number;
    /** Of these, those that no other wait of the plan explains. */
    unexplained_starts: number;
    unexplained_ns: number;
  }
  /** The waits that come from one source. */
  interface WaitsRow {
    source: string;
    count: number;
    /** The mean: 1 of what is recorded; of votes, what they leave. */
    confidence: number;
    /** Of all of them together; null where nothing was voted on. */
    votes_for: number | null;
    votes_against: number | null;
  }
  /** Many files, each replayed by itself. */
  interface Document {
    schema: "weftrace.replay_checks/1";
    /** The version that wrote it. */
    weftrace: string;
    files: CheckTold[];
  }
}

declare namespace sensitivity {
  /** The span over the speed of one selection. */
  interface CurveTold {
    selector: string;
    /** Where it is flat, where its knee is, how steep it is. */
    sentence: string;
    /** The factor up to which it is flat. */
    knee: number;
    points: PointRow[];
  }
  /** All that the replay keeps of the run besides measured durations and the waits. */
  interface KeptTold {
    /** Between two ops back to back on a stream, the median. */
    gap_ns: number;
    /** From a launch call's end to its op's start, the median. */
    launch_latency_ns: number;
    /** From an op's end to a waiter's start elsewhere, the median. */
    wait_latency_ns: number;
    /** From a graph's launch to its first kernel, the median. */
    graph_latency_ns: number;
    /** How long before a kernel's end its SMs are free, the median. */
    drain_ns: number;
    /** From a kernel's end to when a thread that polled for it went on, the median. */
    quiet_latency_ns: number;
    /** Streams that start when they did, held up before the recording. */
    num_pinned: number;
  }
  /** A point of a curve. */
  interface PointRow {
    /** Durations are multiplied by it. */
    factor: number;
    span_ns: number;
    /** span_ns over the replayed span, less 1. */
    change: number;
  }
  /** A replay of the inferred plan beside the measurement. */
  interface ReplayTold {
    /** Measured: from the first start on a device to the last end. */
    span_ns: number;
    /** The same of the replay. */
    replayed_ns: number;
    /** replayed_ns / span_ns - 1. */
    error: number;
    /** Whether there are no doubts. */
    is_trustworthy: boolean;
    /** Why the replay is not to be trusted, a clause each. */
    doubts: string[];
    /** Phase and occurrence whose end is farthest off. */
    worst_phase: string | null;
    /** By how much: replayed less measured end. */
    worst_phase_ns: number;
    /** Starts more than 10 µs after stream and launch let them. */
    late_starts: number;
    late_ns: number;
    /** Of these, those that no other wait of the plan explains. */
    unexplained_starts: number;
    unexplained_ns: number;
  }
  /** One selection, made faster alone. */
  interface SensitivityRow {
    /** class, family, phase or rank. */
    kind: string;
    /** As --scale takes it. */
    selector: string;
    /** Of all its ops together. */
    time_ns: number;
    /** Of that, what lies on the critical path. */
    critical_ns: number;
    /** By which the span is shorter. */
    saved_ns: number;
    /** saved_ns of the replayed span. */
    share: number;
  }
  /** The waits that come from one source. */
  interface WaitsRow {
    source: string;
    count: number;
    /** The mean: 1 of what is recorded; of votes, what they leave. */
    confidence: number;
    /** Of all of them together; null where nothing was voted on. */
    votes_for: number | null;
    votes_against: number | null;
  }
  /** What it saves to make each class, family and phase a little faster, each alone. */
  interface Document {
    schema: "weftrace.sensitivity/1";
    /** The version that wrote it. */
    weftrace: string;
    /** The trace, or the job. */
    source: string;
    device_name: string;
    ranks: number[];
    headline: string;
    /** How much faster: 0.01 is 1 %. */
    by: number;
    replay: ReplayTold;
    kept: KeptTold;
    waits: WaitsRow[];
    replayed_ns: number;
    /** What saves most first, within each kind. */
    rows: SensitivityRow[];
    curves: CurveTold[];
    notes: string[];
  }
}

declare namespace schedule_swap {
  /** What a measured pipeline would take in another order. Makespans go from the first chunk's start to the last's end, over all ranks. */
  interface Document {
    schema: "weftrace.schedule_swap/1";
    /** The version that wrote it. */
    weftrace: string;
    /** The traces. */
    source: string;
    device_name: string;
    ranks: number[];
    headline: string;
    /** The one that was tried. */
    schedule: string;
    /** The one that was measured; "as measured" where it has no name. */
    measured_schedule: string;
    /** Which of the recorded steps. */
    step: number;
    num_ranks: number;
    /** Of the measured schedule. */
    num_stages: number;
    num_micro_batches: number;
    measured_ns: number;
    /** The measured order, simulated with the means of its chunks. */
    simulated_ns: number;
    /** simulated_ns / measured_ns - 1. */
    error: number;
    /** The other order, simulated with the same. */
    after_ns: number;
    /** after_ns / simulated_ns - 1. */
    change: number;
    /** What was assumed. */
    notes: string[];
  }
}

declare namespace what_if {
  /** All that the replay keeps of the run besides measured durations and the waits. */
  interface KeptTold {
    /** Between two ops back to back on a stream, the median. */
    gap_ns: number;
    /** From a launch call's end to its op's start, the median. */
    launch_latency_ns: number;
    /** From an op's end to a waiter's start elsewhere, the median. */
    wait_latency_ns: number;
    /** From a graph's launch to its first kernel, the median. */
    graph_latency_ns: number;
    /** How long before a kernel's end its SMs are free, the median. */
    drain_ns: number;
    /** From a kernel's end to when a thread that polled for it went on, the median. */
    quiet_latency_ns: number;
    /** Streams that start when they did, held up before the recording. */
    num_pinned: number;
  }
  /** What of the path has one name. The rows of a table add up to the path's span. */
  interface PartRow {
    name: string;
    time_ns: number;
    /** Of the path's span. */
    share: number;
  }
  /** A replay of the inferred plan beside the measurement. */
  interface ReplayTold {
    /** Measured: from the first start on a device to the last end. */
    span_ns: number;
    /** The same of the replay. */
    replayed_ns: number;
    /** replayed_ns / span_ns - 1. */
    error: number;
    /** Whether there are no doubts. */
    is_trustworthy: boolean;
    /** Why the replay is not to be trusted, a clause each. */
    doubts: string[];
    /** Phase and occurrence whose end is farthest off. */
    worst_phase: string | null;
    /** By how much: replayed less measured end. */
    worst_phase_ns: number;
    /** Starts more than 10 µs after stream and launch let them. */
    late_starts: number;
    late_ns: number;
    /** Of these, those that no other wait of the plan explains. */
    unexplained_starts: number;
    unexplained_ns: number;
  }
  /** The waits that come from one source. */
  interface WaitsRow {
    source: string;
    count: number;
    /** The mean: 1 of what is recorded; of votes, what they leave. */
    confidence: number;
    /** Of all of them together; null where nothing was voted on. */
    votes_for: number | null;
    votes_against: number | null;
  }
  /** The wait on the path of which we are least sure. */
  interface WeakestTold {
    /** Of the op that waited. */
    name: string;
    /** Of the op that it waited for. */
    on_name: string;
    source: string;
    votes_for: number | null;
    votes_against: number | null;
    confidence: number;
  }
  /** Changes tried on the plan of a measured run. Spans go from the first start on a device to the last end. */
  interface Document {
    schema: "weftrace.what_if/1";
    /** The version that wrote it. */
    weftrace: string;
    /** The trace, or the job. */
    source: string;
    device_name: string;
    ranks: number[];
    /** What was tried, all at once. */
    changes: string[];
    headline: string;
    replay: ReplayTold;
    kept: KeptTold;
    waits: WaitsRow[];
    /** Of the plan as inferred. */
    replayed_ns: number;
    /** Of the changed plan. */
    after_ns: number;
    /** replayed_ns - after_ns; below 0 where the change makes it longer. */
    saved_ns: number;
    /** after_ns / replayed_ns - 1. */
    change: number;
    /** Whether the replay is off by more than what is saved. */
    is_within_error: boolean;
    /** The largest class on the critical path after the change. */
    bottleneck: string;
    /** The critical path by class; adds up to replayed_ns. */
    before: PartRow[];
    /** The same after the change; adds up to after_ns. */
    after: PartRow[];
    before_phases: PartRow[];
    after_phases: PartRow[];
    /** On the path after the change. */
    weakest: WeakestTold | null;
    /** Why the answer may not be valid. */
    limits: string[];
    notes: string[];
  }
}

declare namespace diff {
  /** By how much the mean steps differ, and from where to where, as far as steps of one run each tell. */
  interface DifferenceTold {
    change_ns: number;
    low_ns: number;
    high_ns: number;
    /** That the true difference lies between them: 0.98. */
    confidence: number;
  }
  /** A step that is left out. */
  interface DroppedStep {
    step: number;
    why: string;
  }
  /** What both runs, or one of them, say of themselves. */
  interface FactRow {
    name: string;
    before: string;
    after: string;
  }
  /** A limit that was asked for, and whether it was met. */
  interface GateRow {
    /** As it was written: `exposed`, `family:gemm`. */
    figure: string;
    /** On which side of the limit it fails. */
    direction: "above" | "below";
    /** By how much it may change, as it was written: 5%, 300us. */
    limit: string;
    /** What before and after are in. */
    unit: "ns" | "number" | "share";
    /** Null where it is undefined. */
    before: number | null;
    after: number | null;
    /** Whether it is no larger than what steps of one run differ by; null where one step tells nothing. */
    is_noise: boolean | null;
    /** Null where the runs are not comparable: gates are not judged. */
    is_met: boolean | null;
    sentence: string;
  }
  /** For how long ranks waited, exposed, because this one came last: of a step, mean over ranks. */
  interface LatenessRow {
    /** As `cause` of its part: rank 2. */
    name: string;
    /** Null where it has no number, or one run alone has it. */
    rank: number | null;
    before_ns: number;
    after_ns: number;
    change_ns: number;
    /** With what computation hid of the waiting. */
    before_raw_ns: number;
    after_raw_ns: number;
    /** What changed on it, the largest first, without its own waiting. */
    own: OwnRow[];
  }
  /** A family, kernel, operator or phase: what it adds to a step, idle time that it ends left out. */
  interface MoverRow {
    /** Of the step, whose time it is; a name has a row a part and cause. */
    part: string;
    /** Of communication: data or barrier; of waiting, for whom. */
    cause: string | null;
    /** Common to both runs; … where names differ that are summed. */
    name: string;
    /** As the run has it; of several, the one with most time. */
    before_name: string | null;
    after_name: string | null;
    /** Compute, communication, memory or fused, of most of its time. */
    kind: string | null;
    status: "both" | "gone" | "new" | "replaced";
    /** Of replaced kernels: what stands in their place, and adds. */
    replaced_by: string | null;
    /** Name, or the rule by which names are one; of replaced, what both launch from; null of others. */
    matched_by: string | null;
    /** Own time: by which it lengthens the step. */
    before_ns: number;
    after_ns: number;
    change_ns: number;
    /** Launches in a step. */
    before_num: number;
    after_num: number;
    /** Durations in a step, hidden or not. */
    before_raw_ns: number;
    after_raw_ns: number;
    by_number_ns: number;
    by_duration_ns: number;
    by_overlap_ns: number;
    by_kernel_ns: number;
    /** Whether it is no larger than what steps of one run differ by; null where one step tells nothing. */
    is_noise: boolean | null;
  }
  /** Who changed, each list with the largest change first. */
  interface Movers {
    family: MoverRow[];
    kernel: MoverRow[];
    operator: MoverRow[];
    phase: MoverRow[];
  }
  /** What changed on a rank itself, in a step of this rank. */
  interface OwnRow {
    part: string;
    cause: string | null;
    family: string | null;
    change_ns: number;
  }
  /** A part of a step and its cause. All rows and `remainder_ns` add up to `change_ns` of the document, exactly. */
  interface PartRow {
    part: string;
    /** Of idle time: what was waited for. Of communication: data or barrier; of waiting, for whom. */
    cause: string | null;
    before_ns: number;
    after_ns: number;
    change_ns: number;
    /** Of change_ns: more or fewer launches, or gaps. */
    by_number_ns: number;
    /** Of change_ns: longer or shorter ones. */
    by_duration_ns: number;
    /** Of change_ns: hidden more or less, or beside its like. */
    by_overlap_ns: number;
    /** Of change_ns: kernels that one run alone has. */
    by_kernel_ns: number;
    /** Whether it is no larger than what steps of one run differ by; null where one step tells nothing. */
    is_noise: boolean | null;
  }
  /** A rank that both runs have, in order: its mean step, and what changed most of it. */
  interface RankRow {
    rank: number | null;
    device: number | null;
    before_ns: number;
    after_ns: number;
    change_ns: number;
    part: string | null;
    cause: string | null;
    part_change_ns: number;
  }
  /** A device of a rank that both runs have. */
  interface RankTold {
    rank: number | null;
    device: number | null;
    path: string;
    simulated: boolean;
  }
  /** One of the two runs, as far as it is compared. */
  interface SideTold {
    source: string;
    ranks: RankTold[];
    steps: StepTold[];
    dropped: DroppedStep[];
    /** Of the steps' lengths. */
    median_ns: number;
    /** Their lower quartile. */
    low_ns: number;
    /** Their upper quartile. */
    high_ns: number;
    /** Files that could not be used, and why. */
    failures: string[];
  }
  /** A step that counts. */
  interface StepTold {
    /** Null where the run has no steps: the whole recording is the one. */
    step: number | null;
    /** Its length, mean over ranks. */
    span_ns: number;
  }
  /** Whether what changed may be read as the effect of a change. */
  interface VerdictTold {
    word: "comparable" | "comparable, but" | "not comparable";
    /** What differs, the gravest first. */
    reasons: string[];
    facts: FactRow[];
  }
  /** What changed in a step, from one run to another. */
  interface Document {
    schema: "weftrace.diff/1";
    /** The version that wrote it. */
    weftrace: string;
    before: SideTold;
    after: SideTold;
    verdict: VerdictTold;
    headline: string;
    /** Whether the steps' lengths differ by no more than within a run; null: one step tells nothing. */
    is_noise: boolean | null;
    /** Of the median step. */
    change_ns: number;
    /** Change of the median step less that of the mean step. */
    remainder_ns: number;
    /** Of the mean step; null: one step tells nothing. */
    difference: DifferenceTold | null;
    parts: PartRow[];
    movers: Movers;
    /** Of jobs of several ranks; the largest change first. */
    lateness: LatenessRow[];
    /** Of jobs of several ranks. */
    by_rank: RankRow[];
    gates: GateRow[];
    /** What is missing or left out, and which ranks one run alone has. */
    notes: string[];
  }
}

declare namespace placement {
  interface BeforeAndAfter {
    /** The placement before, or the published EPLB on the same loads; null where it has no answer. */
    before: GpuLoadTold | null;
    /** With this placement. */
    after: GpuLoadTold;
  }
  /** How good the placement is for the loads that it was made for, layer by layer [L]. */
  interface CertificateTold {
    /** [L] what perfect balance would give every GPU, load over speed. */
    mean: number[];
    /** [L] no placement under the same rules has a lower maximum. */
    bound: number[];
    /** [L] maximum GPU time. */
    achieved: number[];
    is_optimal: boolean[];
    binding: ("constraints" | "duplicates" | "node partition" | "none" | "packing" | "replica granularity" | "slots")[];
    balancedness: number;
    bound_balancedness: number;
    /** Largest achieved / bound - 1. */
    gap: number;
    target: number;
    /** Fewer slots cannot reach the target; null where no number does. */
    slots_for_target: number | null;
  }
  /** Estimated costs of the policies, cheapest first. */
  interface ChoiceTold {
    costs: PolicyCostTold[];
    reason: string;
    assumptions: string[];
    /** [policy, why] of each policy that was not possible. */
    ruled_out: string[][];
  }
  /** GPUs node by node; slots GPU by GPU. */
  interface ClusterTold {
    num_nodes: number;
    slots_of_gpu: number[];
    speed_of_gpu: number[];
    dead: number[];
    draining: number[];
  }
  /** What one placement gives every GPU. */
  interface GpuLoadTold {
    label: string;
    /** [L][G] load of each GPU, not divided by speed. */
    load: number[][];
    /** [L] mean / maximum GPU time; 1 for a layer of zeros. */
    balancedness: number[];
  }
  /** A slot that gets another expert. */
  interface MoveTold {
    round: number;
    /** One of `layers`. */
    layer: number;
    slot: number;
    expert: number;
    /** -1: from storage. */
    from_slot: number;
    from_gpu: number;
    to_gpu: number;
    /** Read from staging memory: its slot was overwritten in an earlier round. */
    staged: boolean;
  }
  /** What turns the placement before into this one; within a round reads come before writes. */
  interface MovesTold {
    num_moves: number;
    num_slots: number;
    /** Experts of which no copy was left. */
    num_from_storage: number;
    /** Between GPUs; neither copies within a GPU nor what storage delivers. Null: not priced. */
    bytes: number | null;
    /** Null where the model, so its price, is not known. */
    expert_bytes: number | null;
    /** Estimated. Null: not priced. */
    time_s: number | null;
    rounds: number;
    /** Most experts that a GPU holds in staging memory at once. */
    most_staged: number;
    assumptions: string[];
    /** Estimated, of computation alone. Null: not priced. */
    saved_s_per_step: number | null;
    /** Steps after which the moves have paid; null where they never do, or are not priced. */
    break_even_steps: number | null;
    before_balancedness: number;
    after_balancedness: number;
    list: MoveTold[];
  }
  /** A way of planning, judged on windows that it had not seen. */
  interface NextWindowRow {
    name: string;
    /** this: as this placement was planned. baseline: what it is compared with. */
    part: "baseline" | "beside" | "this";
    /** [W] mean over layers in each judged window. */
    balancedness: number[];
  }
  /** Windows that came after those planned on; the figures to expect of a placement. */
  interface NextWindowsTold {
    /** [W] the judged windows of the recording, from 0. */
    windows: number[];
    /** Windows that each plan was made on; null: all before the judged one. */
    look_back: number | null;
    /** The first is this placement's way. */
    rows: NextWindowRow[];
  }
  /** What one policy would cost an average layer and micro-batch, estimated. */
  interface PolicyCostTold {
    policy: string;
    balancedness: number;
    compute_us: number;
    dispatch_us: number;
    combine_us: number;
    remote_nodes: number;
    total_us: number;
  }
  interface Document {
    schema: "weftrace.placement/1";
    /** Version of weftrace that wrote it. */
    weftrace: string;
    /** Where the loads are from. */
    source: string;
    num_layers: number;
    /** [L] the number of each layer in the model, as recorded. */
    layers: number[];
    num_experts: number;
    /** P, physical slots a layer, those of GPUs out of service included. */
    num_slots: number;
    num_groups: number;
    cluster: ClusterTold;
    policy: "global" | "hierarchical" | "semi-hierarchical";
    /** even: every copy takes 1 / copies. */
    split: "even" | "uneven";
    /** [L][P] expert in each slot, -1 where empty. */
    expert_of_slot: number[][];
    /** [L][P] part of its expert's tokens that a slot takes; null for an even split. */
    share_of_slot: number[][] | null;
    solver_of_layer: string[];
    certificate: CertificateTold | null;
    choice: ChoiceTold | null;
    /** [L][N] what the placement was judged on. */
    loads: number[][];
    /** Null where the loads came without windows, or as one. */
    next_windows: NextWindowsTold | null;
    /** Under `loads`: what the placement was planned on, so a fit, no prediction. */
    gpu_load: BeforeAndAfter;
    moves: MovesTold | null;
  }
}

declare namespace replay {
  /** Which row to use, and what it gains over the baseline, in points of balancedness. */
  interface RecommendationTold {
    row: number;
    baseline_row: number;
    gain_points: number;
    gain_low: number;
    gain_high: number;
    cheaper_row: number | null;
    text: string;
  }
  /** One combination of solver, estimator, window and interval, and what it would have reached. */
  interface ReplayRow {
    solver: string;
    estimator: string;
    /** Windows the estimator looks back over; null where it has none. */
    window: number | null;
    /** Windows between re-plans; null where it plans once. */
    interval: number | null;
    /** Mean over layers and scored windows. */
    balancedness: number;
    /** 95 % moving-block bootstrap. */
    low: number;
    high: number;
    /** Mean share of slots rewritten by a re-plan. */
    moved_fraction: number;
    num_plans: number;
    /** Mean time of a plan; null where not measured. */
    plan_ms: number | null;
  }
  /** A row of the replay, window by window. */
  interface ReplaySeries {
    row: number;
    /** By window; null where not scored. */
    balancedness: (number | null)[];
    /** By window; null where nothing was planned. */
    moved_fraction: (number | null)[];
  }
  interface Document {
    schema: "weftrace.replay/1";
    /** Version of weftrace that wrote it. */
    weftrace: string;
    source: string;
    num_windows: number;
    num_layers: number;
    num_experts: number;
    num_slots: number;
    num_gpus: number;
    rows: ReplayRow[];
    series: ReplaySeries[];
    recommendation: RecommendationTold;
  }
}

declare namespace flops_diff {
  /** One number of a place in two reports. */
  interface ChangeTold {
    /** Of a module, children included; null: the whole model. */
    path: string | null;
    /** null: parameters, and the whole step. */
    phase: "backward" | "forward" | "optimizer" | "recompute" | null;
    quantity: string;
    /** null: not in the first report. */
    before: number | null;
    /** null: not in the second report. */
    after: number | null;
    /** (after - before) / before; null where before is 0 and after is not. */
    relative: number | null;
    /** A time that differs by no more than its spread. */
    is_within_spread: boolean;
  }
  interface Document {
    schema: "weftrace.flops.diff/1";
    /** Version of weftrace that wrote it. */
    weftrace: string;
    /** Of the two reports. */
    names: string[];
    /** Every count, parameter and module agrees. */
    is_same: boolean;
    /** Numbers of the whole model, changed or not. */
    model: ChangeTold[];
    /** Numbers of single modules that changed. */
    modules: ChangeTold[];
    /** Paths in the second report alone. */
    added: string[];
    /** Paths in the first report alone. */
    removed: string[];
    /** Why some numbers cannot be compared. */
    notes: string[];
  }
}

declare namespace flops {
  interface BothTotals {
    /** What this rank (the merged ranks together) executes. */
    local: TotalsTold;
    /** All ranks; null where those merged do not tell it. */
    global: TotalsTold | null;
  }
  /** Calls, as columns. */
  interface CallColumns {
    module: number[];
    phase: ("backward" | "forward" | "optimizer" | "recompute")[];
    /** Indices into signatures. */
    signature: number[];
    calls: number[];
  }
  /** How times were taken. */
  interface ClockTold {
    /** "cpu clock", "cuda events" or "none". */
    source: string;
    /** Timed steps. */
    steps: number;
    /** Steps before them that were not timed. */
    warm_up: number;
    /** Wall time of each timed step. */
    step_ns: number[];
    /** Whether the timed step was also the counted one. */
    while_counting: boolean;
    /** Wall time of the counted step; null: not measured. */
    counted_step_ns: number | null;
    /** weftrace's own work beside a step, the median. */
    own_ns: number;
  }
  /** Of one call. */
  interface CostTold {
    /** On matrix units, for the model's sake; causal attention exact. */
    flops: number;
    /** The same, attention over all pairs (PaLM's convention). */
    full_flops: number;
    /** On matrix units, a kernel's own recomputation included. */
    executed_flops: number;
    /** Off the matrix units; never added to the others. */
    vector_flops: number;
    read_bytes: number;
    written_bytes: number;
    /** Of the matrix inputs. */
    dtype: string;
    kind: "attention" | "communication" | "conv" | "free" | "matmul" | "move" | "unknown" | "vector";
    status: "estimate" | "exact" | "unknown" | "upper bound";
    /** What was assumed or could not be known. */
    note: string;
  }
  /** The parts of calls, bytes and time that have a formula, 0 to 1; null where there is nothing to take a part of. */
  interface CoverageTold {
    calls: number | null;
    moved_bytes: number | null;
    /** An estimate: modules' times shared among operators by bytes. */
    time: number | null;
    calls_of_status: Record<string, number>;
    /** Model FLOPs of each status: with any under 'upper bound', totals are at most what they say. */
    flops_of_status: Record<string, number>;
    /** Time in which no operator was counted. */
    unattributed_ns: number;
    unknown: UnknownTold[];
  }
  /** One module instance at one place of the model's tree. */
  interface ModuleTold {
    /** As named_modules has it; "" is the root, "(outside)" what ran outside it. */
    path: string;
    /** The last part of path. */
    name: string;
    class_name: string;
    /** Index of an earlier module. */
    parent: number | null;
    /** 0 for the root. */
    depth: number;
    /** What the module prints of itself. */
    detail: string;
    /** Elements registered here and nowhere earlier, on this rank. */
    own_params: number;
    own_trainable_params: number;
    /** Elements before sharding. */
    own_global_params: number;
    own_param_bytes: number;
    /** Those that one token uses. */
    own_active_params: number;
    /** Other paths of the same instance. */
    aliases: string[];
    /** Forward calls in the counted step. */
    calls: number;
  }
  /** How many ranks share the work: sizes of the axes; expert lies inside data. */
  interface ParallelAxes {
    data: number;
    tensor: number;
    pipeline: number;
    context: number;
    expert: number;
  }
  /** Parameters of the model; shared ones count once. */
  interface ParamsTold {
    /** Elements on this rank. */
    total: number;
    trainable: number;
    /** Those that one token uses. */
    active: number;
    bytes: number;
    /** Elements before sharding. */
    global_total: number;
  }
  /** Of one phase. */
  interface PhasePrediction {
    bound_ns: number;
    predicted_ns: number;
  }
  /** Utilization over the time of one phase. */
  interface PhaseUtilizationTold {
    mfu: number;
    mfu_full: number;
    hfu: number;
    flops_per_s: number;
    executed_flops_per_s: number;
    ns: SpreadTold;
  }
  /** A module and phase each, as columns. Times: null where nothing was timed, 0 at a place that was not. */
  interface PlaceColumns {
    module: number[];
    phase: ("backward" | "forward" | "optimizer" | "recompute")[];
    params: number[];
    inclusive: TallyColumns;
    exclusive: TallyColumns;
    inclusive_ns: SpreadColumns | null;
    exclusive_ns: SpreadColumns | null;
  }
  /** The time of one step if its operators ran one after another. */
  interface PredictionTold {
    hardware: string;
    /** What no implementation of the same operators beats. */
    bound_ns: number;
    /** The bounds over the stated efficiencies: an estimate. */
    predicted_ns: number;
    by_phase: Record<string, PhasePrediction>;
    /** Of the predicted step; null without tokens or work. */
    tokens_per_s: number | null;
    param_bytes: number;
    /** Whether the parameters alone fit the device's memory. */
    fits: boolean;
    assumptions: string[];
  }
  /** Rows of a roofline, as columns; bound_ns = compute_ns + memory_ns. */
  interface RoofColumns {
    module: number[];
    bound_ns: number[];
    /** Bounds of calls that arithmetic limits. */
    compute_ns: number[];
    /** Bounds of calls that memory limits. */
    memory_ns: number[];
    /** Executed matrix FLOPs at their dtypes' peaks. */
    matrix_ns: number[];
    executed_flops: number[];
    vector_flops: number[];
    moved_bytes: number[];
    /** Bytes of collectives; in no bound. */
    comm_bytes: number[];
    unknown_calls: number[];
    phase: ("backward" | "forward" | "optimizer" | "recompute")[];
    bound: ("compute" | "memory")[];
    /** Median. */
    measured_ns: (number | null)[];
    /** measured_ns - bound_ns. */
    above_ns: (number | null)[];
    flops_per_s: (number | null)[];
  }
  /** The least time that the accelerator needs. */
  interface RooflineTold {
    hardware: string;
    bound_ns: number;
    by_phase: Record<string, number>;
    exclusive: RoofColumns;
    inclusive: RoofColumns;
    /** Rates above the peak, in sentences. */
    flags: string[];
    notes: string[];
  }
  /** An operator with the shapes of a call. */
  interface SignatureTold {
    op: string;
    signature: string;
    /** Index into costs. */
    cost: number;
  }
  /** Times over the timed steps, as columns. samples: how many steps. */
  interface SpreadColumns {
    median: number[];
    lowest: number[];
    highest: number[];
    samples: number;
  }
  /** A time over the timed steps, ns. samples: how many. */
  interface SpreadTold {
    median: number;
    lowest: number;
    highest: number;
    samples: number;
  }
  /** Tallies, as columns. */
  interface TallyColumns {
    flops: number[];
    full_flops: number[];
    executed_flops: number[];
    vector_flops: number[];
    read_bytes: number[];
    written_bytes: number[];
    calls: number[];
    unknown_calls: number[];
  }
  /** Sums of costs over calls. */
  interface TallyTold {
    flops: number;
    full_flops: number;
    executed_flops: number;
    vector_flops: number;
    read_bytes: number;
    written_bytes: number;
    /** Of operators that do something. */
    calls: number;
    /** Those of them without a formula. */
    unknown_calls: number;
    /** Executed matrix and vector FLOPs a byte; null where none moves. */
    intensity: number | null;
  }
  /** Rates of the whole job and of one GPU of it. */
  interface ThroughputTold {
    step_ns: number;
    /** GPUs. */
    world: number;
    replicas: number;
    /** Of the job's step. */
    samples: number | null;
    tokens: number | null;
    samples_per_s: number | null;
    tokens_per_s: number | null;
    samples_per_s_per_gpu: number | null;
    tokens_per_s_per_gpu: number | null;
    flops_per_gpu: number;
    executed_flops_per_gpu: number;
    flops_per_s_per_gpu: number;
    executed_flops_per_s_per_gpu: number;
  }
  /** Exclusive times, as columns. */
  interface TimeColumns {
    module: number[];
    phase: ("backward" | "forward" | "optimizer" | "recompute")[];
    /** One a timed step. */
    samples_ns: number[][];
  }
  /** The four FLOP totals and the bytes of one step. */
  interface TotalsTold {
    /** Model FLOPs, forward and backward; causal attention exact. */
    flops: number;
    /** The same, attention over all pairs (PaLM's convention). */
    full_flops: number;
    /** Executed on matrix units in all phases, recomputation included. */
    executed_flops: number;
    /** Off the matrix units, all phases; never added to the others. */
    vector_flops: number;
    /** Half of flops. */
    macs: number;
    moved_bytes: number;
    by_phase: Record<string, TallyTold>;
  }
  /** An operator without a formula. */
  interface UnknownTold {
    op: string;
    calls: number;
    moved_bytes: number;
    note: string;
  }
  /** Parts of the accelerator's peak that the step reaches. */
  interface UtilizationTold {
    hardware: string;
    /** Time at peak of the model FLOPs / step_ns. */
    mfu: number;
    /** The same, attention over all pairs. */
    mfu_full: number;
    /** The same of executed FLOPs. */
    hfu: number;
    step_ns: number;
    flops_per_s: number;
    executed_flops_per_s: number;
    /** Executed FLOPs, by the dtype whose peak was used. */
    time_at_peak_ns: Record<string, number>;
    by_phase: Record<string, PhaseUtilizationTold>;
    flags: string[];
    notes: string[];
  }
  interface Document {
    schema: "weftrace.flops/1";
    /** Version of weftrace that wrote it. */
    weftrace: string;
    /** Of the model. */
    name: string;
    /** "cpu", "meta", "cuda: NVIDIA H200" ... */
    device: string;
    /** The accelerator as weftrace knows it, or "". */
    hardware: string;
    /** Whether FP32 products may use TF32. */
    tf32: boolean;
    /** Of one step on this rank. */
    samples: number | null;
    tokens: number | null;
    /** Forward calls of the root in the counted step. */
    micro_batches: number;
    rank: number;
    /** Ranks merged into the report. */
    ranks: number;
    torch_version: string;
    /** Why global_ops and totals.global are less than the work of all ranks. */
    global_partial?: string;
    parallel: ParallelAxes;
    settings: Record<string, string>;
    /** What is missing, assumed or odd, in sentences. */
    notes: string[];
    clock: ClockTold;
    /** Depth first, parents before children. */
    modules: ModuleTold[];
    /** Distinct costs. */
    costs: CostTold[];
    /** Distinct operators with shapes. */
    signatures: SignatureTold[];
    /** Local work. */
    ops: CallColumns;
    /** Work of all ranks, where anything is sharded. */
    global_ops: CallColumns;
    times: TimeColumns;
    totals: BothTotals;
    params: ParamsTold;
    coverage: CoverageTold;
    by_module: PlaceColumns;
    throughput: ThroughputTold | null;
    /** Why a timed report has no throughput; empty where it has one, or nothing was timed. */
    throughput_note: string;
    /** null without an accelerator. */
    roofline: RooflineTold | null;
    /** null without an accelerator, and where no step was timed. */
    utilization: UtilizationTold | null;
    /** null without an accelerator. */
    prediction: PredictionTold | null;
    /** What someone should look at, in sentences. */
    findings: string[];
  }
}

declare namespace sweep {
  /** One run, of one step. */
  interface SweepPointTold {
    /** Axis -> its value here. */
    at: Record<string, number>;
    flops: number;
    full_flops: number;
    executed_flops: number;
    vector_flops: number;
    moved_bytes: number;
    /** Executed matrix and vector FLOPs a byte. */
    intensity: number | null;
    /** Of this rank's parameters. */
    param_bytes: number;
    tokens: number | null;
    /** Measured, the median; null where nothing was timed. */
    step_ns: number | null;
    /** This and the next two: null without an accelerator. */
    bound_ns: number | null;
    predicted_ns: number | null;
    /** Whichever is more of bound_ns. */
    bound: "compute" | "memory" | null;
    /** Over the measured time, else over the predicted one. */
    tokens_per_s: number | null;
  }
  interface Document {
    schema: "weftrace.flops.sweep/1";
    model: string;
    /** "" without an accelerator. */
    hardware: string;
    axes: Record<string, number[]>;
    /** The last axis turns fastest. */
    points: SweepPointTold[];
    /** Of the predicted times. */
    assumptions: string[];
    /** Of the runs, each once. */
    notes: string[];
  }
}

declare namespace profile_calibration {
  /** The kernels of a phase that are of one group and follow one size, of one layer. */
  interface PartRow {
    /** matrix work, bytes of device memory, data sent to other ranks, waits for other ranks. */
    group: "data" | "matrix" | "memory" | "wait";
    /** What its time is proportional to: routed rows, tokens, or rows + tokens. */
    follows: "both" | "rows" | "tokens";
    /** Of the kernel that takes longest. */
    name: string;
    num_kernels: number;
    /** Blocks of that kernel where it is persistent. */
    num_sms: number | null;
    /** With the phase's mean rows, and nothing that moves data beside it. */
    alone_ns: number;
    /** The shortest of those of which that is the mean. */
    least_ns: number;
  }
  /** One phase of a layer. */
  interface PhaseTold {
    phase: string;
    /** Mean routed rows as launched; null where the trace tells none. */
    rows: number | null;
    /** Mean of its kernels' union over streams. */
    busy_ns: number;
    /** The union of its kernels, by their sum. */
    union: number;
    num_layers: number;
    parts: PartRow[];
  }
  /** What communication that moves data costs the kernels beside it. */
  interface SlowedRow {
    group: "data" | "matrix" | "memory" | "wait";
    /** Kernel families; none: all that no other row names. */
    families: string[];
    /** By how much longer they take. */
    factor: number;
  }
  /** A fit on some layers, tested on the others. */
  interface SplitRow {
    layers: number[];
    /** What communication costs the kernels beside it. */
    factors: (["data" | "matrix" | "memory" | "wait", number])[];
    /** What was known of a tested layer; the error of that phase that computes and is most off. */
    worst: (["beside" | "means" | "rows", number])[];
    /** Error of the tested layers' time, waits as measured; null: none. */
    span: number | null;
  }
  /** How far off predictions of layers were that the fit had not seen. */
  interface TestedRow {
    what: string;
    /** busy: the union of a phase's kernels; data: of those that move data; span: the time of layers one after another, with waits for other ranks as in the fitted layers; span_waits: with waits as measured. */
    by: "busy" | "data" | "span" | "span_waits";
    /** Mean of the tested layers; null of a span. */
    measured_ns: number | null;
    /** What was known of a tested layer; the lowest and highest of predicted / measured - 1. */
    errors: (["beside" | "means" | "rows", number, number])[];
  }
  /** What the phases of a measured trace cost, and how well that predicts layers it was not fitted on. */
  interface Document {
    schema: "weftrace.profile.calibration/1";
    /** Version of weftrace that wrote it. */
    weftrace: string;
    source: string;
    /** Layers of the trace that it was fitted on. */
    layers: number[];
    num_layers: number;
    /** Of a micro-batch on a GPU; null where nothing tells. */
    tokens: number | null;
    /** Idle time between two kernels back to back. */
    gap_ns: number;
    phases: PhaseTold[];
    slowed: SlowedRow[];
    /** How the run was made, as its trace tells. */
    info: [string, string][];
    /** Fits that the errors are of, and what each was off by at most. */
    splits: SplitRow[];
    /** Errors over all splits; empty where nothing was left out. */
    tested: TestedRow[];
    notes: string[];
  }
}

declare namespace profile {
  /** What a layer would take without one of these. */
  interface BottleneckTold {
    limit: "communication" | "compute" | "fused" | "ranks";
    without_compute_ns: number;
    without_communication_ns: number;
    /** Without kernels that move tokens and multiply. */
    without_fused_ns: number;
    /** Where every rank took what the mean rank takes. */
    balanced_ns: number;
    told: string;
  }
  /** Attention over compressed keys (CSA and HCA of DeepSeek-V4), with one key for all heads that is the value too. q_rank: of the compressed queries. rope_dim: how many of a head's dimensions are rotary. o_rank, o_groups: the output projection: each of o_groups groups of heads to o_rank, then all of these to hidden. window: every layer attends to so many latest tokens as they are. num_csa_layers, csa_ratio: layers that besides see the indexer's choice among keys made of csa_ratio tokens each. num_hca_layers, hca_ratio: layers that besides see all keys made of hca_ratio tokens each. The rest: window only. residual_streams: copies of the hidden state between layers (mHC). */
  interface CompressedConfig {
    q_rank: number;
    rope_dim: number;
    o_rank: number;
    o_groups: number;
    window: number;
    num_csa_layers: number;
    num_hca_layers: number;
    csa_ratio: number;
    hca_ratio: number;
    residual_streams?: number;
  }
  /** Routed experts of a mixture-of-experts layer; each is a gated MLP of three matrices. num_experts, top_k: experts a layer, and those that one token uses. intermediate_size: of one expert. num_shared: experts that every token uses besides, built as one MLP num_shared times as wide. num_groups, top_groups: a token's experts come from its best top_groups of num_groups equal groups. num_dense_layers: layers at the start with a dense MLP instead. scoring: "softmax", "sigmoid" or "sqrtsoftplus" of the gate's logits; the last two have a bias an expert, for balance. routed_scale: factor on the routed experts' sum. num_hash_layers: layers at the start whose experts a table of tokens chooses, not the gate. */
  interface ExpertsConfig {
    num_experts: number;
    top_k: number;
    intermediate_size: number;
    num_shared?: number;
    num_groups?: number;
    top_groups?: number;
    num_dense_layers?: number;
    scoring?: string;
    routed_scale?: number;
    num_hash_layers?: number;
  }
  /** What one accelerator could do at best. Every rate is of one GPU and one direction. name, match: weftrace's name for it, and a regex on a profiler's device name. peak_flops: dtype (one of `DTYPES`) -> FLOP/s, OP/s for int8; dense, on the fastest units (tensor or matrix cores). num_sms: SMs (NVIDIA) or compute units (AMD). hbm_bytes, hbm_bytes_per_s: memory capacity in bytes and its peak bandwidth. link_bytes_per_s: NVLink or xGMI to all peers that it joins together, in one direction. nic_bytes_per_s: a GPU's share of its node's network, in one direction. gpus_per_node: GPUs joined by the link: those of a server, or of a rack where the link joins a rack (NVL72). sources: "num_sms", "peak_flops.bf16" ... -> where that number is from. */
  interface Hardware {
    name: string;
    match: string;
    peak_flops: Record<string, number>;
    num_sms: number;
    hbm_bytes: number;
    hbm_bytes_per_s: number;
    link_bytes_per_s: number;
    nic_bytes_per_s: number;
    gpus_per_node: number;
    sources: Record<string, string>;
  }
  /** The indexer of sparse attention (DSA of DeepSeek-V3.2, CSA of V4): which keys does a query attend to? num_heads, head_dim: of the small queries that score every key; all heads share one key of head_dim. top_k: keys that the attention core then sees, the best scored; all of them where there are fewer. */
  interface IndexerConfig {
    num_heads: number;
    head_dim: number;
    top_k: number;
  }
  /** Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1): ranks and dimensions of a head. q_rank, kv_rank: of the compressed queries, and of the compressed keys and values, which are what a cache holds, with rope_dim more for the one rotary key of all heads. q_rank 0: queries are not compressed (V2-Lite). nope_dim, rope_dim, v_dim: a head's key has nope_dim + rope_dim dimensions, its value v_dim. */
  interface LatentConfig {
    q_rank: number;
    kv_rank: number;
    rope_dim: number;
    nope_dim: number;
    v_dim: number;
  }
  /** What one model is made of. name, family: weftrace's name, and the code that would build it (one of `FAMILIES`). num_kv_heads: key and value heads (grouped-query attention); 0 means num_heads. head_dim: 0 means hidden_size / num_heads. intermediate_size: of the dense MLP: gated, of three matrices (llama, deepseek), or of two (bert, gpt2); 0 where no layer is dense. tied_head: whether the output head is the embedding's matrix. qk_norm: RMS norms on each head's queries and keys (Qwen3). mtp_depth: layers after the last that predict one token further each (multi-token prediction); counted nowhere else. rope_theta: base of the rotary positions. params: published count of parameters; 0 where none is exact. sources: "hidden_size", "experts.top_k" ... -> where that number is from. */
  interface ModelConfig {
    name: string;
    family: string;
    vocab_size: number;
    hidden_size: number;
    num_layers: number;
    num_heads: number;
    intermediate_size: number;
    max_positions: number;
    num_kv_heads?: number;
    head_dim?: number;
    norm_eps?: number;
    rope_theta?: number;
    tied_head?: boolean;
    qk_norm?: boolean;
    mtp_depth?: number;
    params?: number;
    experts?: ExpertsConfig | null;
    latent?: LatentConfig | null;
    indexer?: IndexerConfig | null;
    compressed?: CompressedConfig | null;
    aliases?: string[];
    sources?: Record<string, string>;
  }
  /** One number, or an array that broadcasts to [layers, ranks]. */
  interface Numbers {
    shape: number[];
    /** Row by row. */
    values: number[];
  }
  /** One operation of a layer. name: unique in the list. direction: F forward, B backward, W weight gradients. micro_batch: whose tokens. share: which part of the work of its name this is: weight gradients on two lanes are two operations of 0.5 each. chunk, num_chunks: of a micro-batch cut in pieces, which one this works on; its share is 1 / num_chunks. after: operations of the same layer that have ended before this starts; after_previous: of the layer before. phase: the host range that it is launched in, which it may share with its other parts. layer_shift: -1 where it works on the layer before the one that its repetition of the list is about, 1 on the layer after: lists that interleave layers. What it waits for is told by repetition all the same. */
  interface Operation {
    name: string;
    work: "attn" | "attn-0" | "attn-1" | "combine" | "dispatch" | "mlp" | "moe" | "shared";
    direction?: "B" | "F" | "W";
    micro_batch?: number;
    lane?: "communication" | "compute" | "network" | "side";
    part?: "issue" | "receive" | "transfer" | "whole";
    share?: number;
    chunk?: number;
    num_chunks?: number;
    after?: string[];
    after_previous?: string[];
    phase?: string;
    layer_shift?: number;
  }
  /** An operation list of one layer (in training of a pair of layers), which is repeated. name, title: what it is called, short and in words. kinds: profiles that it is for. operations: in issue order. num_chunks: pieces that it cuts a micro-batch in. all_sms: its computation never runs beside kernels that move tokens, and so has every SM. source: who published it. notes: what to know before trusting it. Raises `ProfileError` where two operations share a name, one waits for what the list does not have, what waits for what goes in a circle, or some work is not done whole. */
  interface Overlap {
    name: string;
    title: string;
    kinds: ("decode" | "prefill" | "train")[];
    operations: Operation[];
    num_chunks?: number;
    all_sms?: boolean;
    source?: string;
    notes?: string[];
  }
  /** A phase of one micro-batch on the rank that ends last: means over layers. */
  interface PhaseRow {
    phase: string;
    micro_batch: number;
    kind: string;
    num_layers: number;
    busy_ns: number;
    /** Of communication: beside some computation; else null. */
    hidden_ns: number | null;
    /** The rest of it. */
    exposed_ns: number | null;
    basis: string;
  }
  /** Equal kernels back to back. */
  interface PieceTold {
    name: string;
    kind: "communication" | "compute" | "fused" | "host" | "memory";
    /** Of all its kernels together. */
    duration_ns: Numbers;
    num_kernels: number;
    /** That it holds; null for none. */
    num_sms: number | null;
    /** Whether the ranks of a group of experts wait for each other in it. */
    meets: boolean;
    flops: Numbers;
    moved_bytes: Numbers;
    /** Where the duration comes from. */
    basis: string;
  }
  interface PricedOperation {
    operation: string;
    pieces: PieceTold[];
  }
  /** One rank, over all layers. */
  interface RankRow {
    rank: number;
    compute_ns: number;
    /** Without waits for other ranks. */
    communication_ns: number;
    /** Inside meets, for ranks that come later. */
    waiting_ns: number;
    /** Meets that it was the last to reach. */
    last_in: number;
    meets: number;
  }
  /** One profile's setting; `Setting.of` fills what is not given with the published profile's figures. ep: GPUs of a group of experts; each holds `local_experts` of every layer. num_redundant: experts that are held twice, as EPLB places them. tokens: of one micro-batch on one GPU. sequence: tokens of a prompt (train, prefill), or of a request's cache (decode). tokens_per_request: of one request in one step; in decode 1, or 2 where the model has a layer that drafts. comm, comm_sms: kernels that move tokens, and the SMs that they hold. bandwidth_reached: the part of the bandwidth published for them that they get; DeepSeek's training profile gets 0.55 to 0.78 beside computation. domain: GPUs joined by NVLink. num_layers: layers that are run, each a mixture-of-experts layer; in training pairs of a forward and a backward layer. Raises `ProfileError`, with both numbers, for what cannot be. */
  interface Setting {
    kind: "decode" | "prefill" | "train";
    model: ModelConfig;
    hardware: Hardware;
    ep: number;
    tokens: number;
    sequence: number;
    tokens_per_request: number;
    comm: "deepep-v1" | "deepep-v2" | "fused";
    comm_sms: number;
    domain: number;
    num_layers: number;
    num_redundant?: number;
    bandwidth_reached?: number;
  }
  /** Tokens that a GPU gets done / (layer_ns * num_layers). */
  interface ThroughputTold {
    tokens: number;
    num_layers: number;
    tokens_per_gpu: number;
    tokens_per_node: number;
    gpus_per_node: number;
    /** Of drafted tokens; null where none are drafted. */
    acceptance: number | null;
    /** What the number does not have in it. */
    assumed: string[];
  }
  /** One simulated profile. */
  interface Document {
    schema: "weftrace.profile/1";
    /** Version of weftrace that wrote it. */
    weftrace: string;
    setting: Setting;
    overlap: Overlap;
    /** How prices were found. */
    level: string;
    /** Kernels that ask for more SMs than there are wait for each other. */
    share_sms: boolean;
    /** Of each op of the plan, where durations are stretched by what runs beside; else null. */
    stretched_ns: number[] | null;
    gap_ns: number;
    num_ranks: number;
    /** Whom tokens go to, in words. */
    routing: string;
    prices: PricedOperation[];
    span_ns: number;
    layer_ns: number;
    throughput: ThroughputTold;
    bottleneck: BottleneckTold;
    phases: PhaseRow[];
    /** The rank that ends last. */
    phases_rank: number;
    /** Who is waited for most first; at most 1,024. */
    ranks: RankRow[];
  }
}

declare namespace profile_pays {
  /** One list over all batches. */
  interface Curve {
    overlap: string;
    title: string;
    /** Tokens a second of one GPU, by batch; null: it cannot be cut so. */
    tokens_per_gpu: (number | null)[];
    /** The smallest batch from which on it beats no overlap at every batch; null: at none. */
    pays_from: number | null;
    /** Stretches of batches, first and last, at which it beats no overlap. */
    pays_between: [number, number][];
    /** The most tokens a second over no overlap's, less 1. */
    best_gain: number | null;
    /** At which batch. */
    best_batch: number | null;
    /** At the largest batch. */
    last_gain: number | null;
    /** What the prices of its operations assume. */
    assumed: string[];
    /** Why it is impossible here; empty where it is possible. */
    reason?: string;
  }
  /** One profile; what is None is the published profile's. redundant: experts that are held twice. tokens: of one micro-batch on one GPU; gpu_tokens: of all its micro-batches, which a list cuts as it needs. With neither, a GPU has the published profile's, whatever the list. tokens_per_request: in decode. comm: None for what the list asks for. overlap: name or file of a list. costs: "roofline", "published", or a calibration's file. layers: that are run. ranks: that are simulated. routing: "random" draws experts for each token. seed: of that. spread: of experts' popularity in it. bandwidth_reached: part of the published bandwidth that transfers get. loads: file with the loads of GPUs, [layers, ep]. contention: stretch what runs side by side. */
  interface Request {
    kind: "decode" | "prefill" | "train";
    model?: string;
    hardware?: string;
    ep?: number | null;
    redundant?: number;
    tokens?: number | null;
    gpu_tokens?: number | null;
    sequence?: number | null;
    tokens_per_request?: number | null;
    comm?: "deepep-v1" | "deepep-v2" | "fused" | null;
    comm_sms?: number | null;
    overlap?: string | null;
    costs?: string;
    layers?: number;
    ranks?: number;
    routing?: "balanced" | "random";
    seed?: number;
    spread?: number;
    bandwidth_reached?: number;
    loads?: string | null;
    contention?: boolean;
  }
  /** Operation lists against no overlap, by batch. */
  interface Document {
    schema: "weftrace.profile.pays/1";
    /** Version of weftrace that wrote it. */
    weftrace: string;
    headline: string;
    request: Request;
    /** What all have alike, as text. */
    shared: Record<string, string>;
    /** What batches count. */
    unit: string;
    /** Of one GPU, ascending. */
    batches: number[];
    /** No overlap first. */
    curves: Curve[];
  }
}

declare namespace profile_sweep {
  /** One profile; what is None is the published profile's. redundant: experts that are held twice. tokens: of one micro-batch on one GPU; gpu_tokens: of all its micro-batches, which a list cuts as it needs. With neither, a GPU has the published profile's, whatever the list. tokens_per_request: in decode. comm: None for what the list asks for. overlap: name or file of a list. costs: "roofline", "published", or a calibration's file. layers: that are run. ranks: that are simulated. routing: "random" draws experts for each token. seed: of that. spread: of experts' popularity in it. bandwidth_reached: part of the published bandwidth that transfers get. loads: file with the loads of GPUs, [layers, ep]. contention: stretch what runs side by side. */
  interface Request {
    kind: "decode" | "prefill" | "train";
    model?: string;
    hardware?: string;
    ep?: number | null;
    redundant?: number;
    tokens?: number | null;
    gpu_tokens?: number | null;
    sequence?: number | null;
    tokens_per_request?: number | null;
    comm?: "deepep-v1" | "deepep-v2" | "fused" | null;
    comm_sms?: number | null;
    overlap?: string | null;
    costs?: string;
    layers?: number;
    ranks?: number;
    routing?: "balanced" | "random";
    seed?: number;
    spread?: number;
    bandwidth_reached?: number;
    loads?: string | null;
    contention?: boolean;
  }
  /** One combination: its values by axis, and its numbers, or why it is impossible. */
  interface Row {
    values: Record<string, string | number>;
    summary?: Summary | null;
    /** Empty where it is possible. */
    reason?: string;
  }
  /** One profile in numbers; times are of one layer and in nanoseconds. */
  interface Summary {
    /** The operation list. */
    overlap: string;
    /** Tokens of all micro-batches on one GPU. */
    gpu_tokens: number;
    /** Time that a layer adds. */
    layer_ns: number;
    /** Tokens a second of one GPU. */
    tokens_per_gpu: number;
    /** Tokens a second of the GPUs that NVLink joins. */
    tokens_per_node: number;
    /** |communication| on the rank that ends last, the mean of its inner layers; null where a fused kernel holds it. */
    communication_ns: number | null;
    /** Of it, what no computation hides; null as there. */
    exposed_ns: number | null;
    /** Without which of these a layer would be shortest. */
    limit: "communication" | "compute" | "fused" | "ranks";
    /** What a layer would take without it. */
    without_limit_ns: number;
    /** How durations were found. */
    costs: string;
    /** What the prices assume. */
    assumed?: string[];
  }
  /** Every combination of some settings. */
  interface Document {
    schema: "weftrace.profile.sweep/1";
    /** Version of weftrace that wrote it. */
    weftrace: string;
    headline: string;
    base: Request;
    /** What all have alike, as text. */
    shared: Record<string, string>;
    /** Option -> its values. */
    axes: Record<string, (string | number)[]>;
    /** In the order of the axes, the last one fastest. */
    rows: Row[];
  }
}

declare namespace profile_validation {
  /** A phase of one side. */
  interface AloneRow {
    side: "measured" | "predicted";
    name: string;
    median_ns: number;
    num_samples: number;
  }
  /** A phase on both sides. */
  interface ComparedRow {
    phase: string;
    /** F, B or W; empty where the name tells none. */
    direction: string;
    /** Null where not both sides tell one. */
    micro_batch: number | null;
    /** compute or communication, as measured. */
    lane: string;
    /** busy: the union of its kernels; data: of those that move data to other ranks. */
    by: "busy" | "data";
    predicted: TimesRow;
    measured: TimesRow;
    /** Predicted / measured; null where nothing was measured. */
    ratio: number | null;
  }
  /** The order in which a lane's phases start, one turn. */
  interface OrderRow {
    lane: string;
    predicted: string[];
    measured: string[];
    is_same: boolean;
  }
  /** One of the two runs. */
  interface SideRow {
    source: string;
    /** Whether weftrace made the traces. */
    simulated: boolean;
    num_ranks: number;
    num_steps: number;
    /** Of a step: how often its commonest phase ran. */
    num_layers: number;
    /** What stands for work: device, host, ranges. */
    basis: string;
    /** How it was made, as its first trace tells. */
    info: [string, string][];
  }
  /** Of ranks, each rank's median over steps of the mean of a step's layers. */
  interface TimesRow {
    /** The median of the ranks. */
    median_ns: number;
    /** The lowest rank; of a single rank, the shortest sample. */
    low_ns: number;
    /** The highest rank; of a single rank, the longest sample. */
    high_ns: number;
    /** Layers, steps and ranks together. */
    num_samples: number;
  }
  /** What the run took as a whole. */
  interface WholeTold {
    what: "communication" | "computation" | "exposed communication" | "span";
    predicted: TimesRow;
    measured: TimesRow;
    ratio: number | null;
  }
  /** What is furthest off, of the phases and the span. */
  interface WorstTold {
    name: string;
    /** Predicted / measured - 1. */
    error: number;
  }
  /** A predicted run beside a measured one, phase by phase. */
  interface Document {
    schema: "weftrace.profile.validation/1";
    /** Version of weftrace that wrote it. */
    weftrace: string;
    headline: string;
    predicted: SideRow;
    measured: SideRow;
    worst: WorstTold | null;
    /** In order of first start, as measured. */
    phases: ComparedRow[];
    whole: WholeTold[];
    /** Whether `whole` is of one layer: the runs differ in layers. */
    per_layer: boolean;
    orders: OrderRow[];
    alone: AloneRow[];
    notes: string[];
  }
}

declare namespace recommendation {
  /** One schedule on these devices. */
  interface CandidateRow {
    name: string;
    title: string;
    /** Of one step, as `boundary` ends it. */
    step_ns: number;
    /** Idle time of the rank that idles most. */
    bubble_ns: number;
    /** bubble_ns / step_ns. */
    bubble_fraction: number;
    /** Most activations that a device holds, in those of its share of the model on one micro-batch. */
    peak_chunks: number;
    /** The same in bytes, with parameters; null without sizes. */
    peak_bytes: number | null;
    /** That a device holds, in those of its share of the model. */
    parameters: number;
    /** Within the memory cap. */
    fits: boolean;
    /** Holds less than every faster one, as `memory_in` counts. */
    on_front: boolean;
    /** What it asks of the model beside an order of chunks, or empty. */
    needs: string;
  }
  /** What one chunk costs, the mean over stages where they differ. */
  interface CostsTold {
    forward_ns: number;
    input_ns: number;
    weight_ns: number;
    /** F&B; null: F + B, no gain. */
    overlapped_ns: number | null;
    latency_ns: number;
    /** A trace's phases, a run's actions, FLOPs and hardware, or given numbers. */
    basis: "actions" | "flops" | "given" | "phases";
    /** F, I and W are sums of phases that ran beside others: serial upper bounds. */
    is_upper_bound: boolean;
    source: string;
    /** What was assumed or left out, in sentences. */
    notes: string[];
  }
  /** The nearest value of one cost at which another schedule is the choice. */
  interface FlipTold {
    /** overlapped: F&B in parts of F + B; weight: W in parts of B; latency: a message's time in parts of F. */
    factor: "latency" | "overlapped" | "weight";
    now: number;
    /** Exact to 0.01: 0.01 nearer to now, the choice is today's. */
    at: number;
    /** Name of the schedule that is the choice there. */
    winner: string;
    text: string;
  }
  /** A schedule that there is not for these numbers. */
  interface ImpossibleRow {
    name: string;
    title: string;
    reason: string;
  }
  interface Document {
    schema: "weftrace.pipeline.recommendation/1";
    /** Version of weftrace that wrote it. */
    weftrace: string;
    num_devices: number;
    num_micro_batches: number;
    /** How a step ends: a barrier of all ranks, or each rank's own span. */
    boundary: "barrier" | "span";
    /** In chunk activations of a device. */
    memory_cap: number | null;
    cap_bytes: number | null;
    /** What memory is compared in: bytes where the costs tell sizes and the cap is none in chunks. */
    memory_in: "bytes" | "chunks";
    /** Of one device's share of the model on one micro-batch. */
    costs: CostsTold;
    /** Name of the schedule to use; null where none fits. */
    choice: string | null;
    headline: string;
    /** What else should be known, flips first. */
    sentences: string[];
    /** Fastest first. */
    rows: CandidateRow[];
    impossible: ImpossibleRow[];
    /** Null where none were looked for. */
    flips: FlipTold[] | null;
  }
}

declare namespace comparison {
  /** What one chunk, one stage's work on one micro-batch, costs: for all stages, or a list with a value a stage. */
  interface CostsDocument {
    schema: string;
    /** F. */
    forward_ns: number | number[];
    /** I, the gradient of the input. */
    input_ns: number | number[];
    /** W, the gradient of the weights. */
    weight_ns: number | number[];
    /** B, the full backward; null: I + W. */
    backward_ns?: number | number[] | null;
    /** F&B, or a row a stage of the forward, a value a stage of the backward; null: F + B. */
    overlapped_ns?: number | number[][] | null;
    /** Times by which a rank is slower; one, or one a rank. */
    rank_factor?: number | number[];
    /** On a message's way between two ranks. */
    latency_ns?: number;
    /** Of an activation that goes to the next stage. */
    message_bytes?: number | number[];
    /** Of the link from a rank to another; null: size does not matter. */
    bytes_per_s?: number | null;
    /** Sender and receiver compute nothing until it has passed. */
    blocking?: boolean;
    /** Of an F&B's time, before its forward and its backward read their input. */
    input_needed?: number[];
    /** Until its forward and its backward have an output. */
    output_ready?: number[];
    /** Held from F on, for the backward. */
    activation_bytes?: number | number[];
    /** The part of them held from I to W; null: all. */
    pending_bytes?: number | number[] | null;
    /** Parameters of a stage and what belongs to them. */
    weight_bytes?: number | number[];
    /** Of copies to the host, and of those back. */
    offload_bytes_per_s?: number | null;
    /** Where the numbers come from. */
    source?: string;
  }
  /** One schedule that is impossible here. */
  interface ImpossibleRow {
    name: string;
    title: string;
    reason: string;
  }
  /** A formula for the bubble, and whether the simulation is as it says. */
  interface LawTold {
    /** With F, I, W, B, F&B of a chunk; PP stages, D devices. */
    formula: string;
    /** What it gives here, which may be below 0; null where stages differ. */
    bubble_ns: number | null;
    /** bubble_ns - the simulated bubble. */
    difference_ns: number | null;
    holds: boolean;
    /** Empty where it holds. */
    why_not: string;
  }
  /** One schedule that is possible here. */
  interface ScheduleRow {
    name: string;
    title: string;
    num_devices: number;
    num_stages: number;
    makespan_ns: number;
    /** By the boundary: what decides how soon a step can follow another. */
    step_ns: number;
    /** Idle time of the device that idles most, simulated. */
    bubble_ns: number;
    /** bubble_ns / step_ns. */
    bubble_share: number;
    /** Most that a device holds, in shares of a micro-batch. */
    peak_activations: number;
    /** Most that a device holds, by the costs' sizes; 0 without any. */
    peak_bytes: number;
    /** That a device holds, in shares of the model. */
    parameters: number;
    /** Whether peak_activations is within the cap, if there is one. */
    fits: boolean;
    /** What it asks of the model beside an order of chunks, or empty. */
    needs: string;
    /** The law as published; null where none was. */
    published: LawTold | null;
    /** The law that holds; null where none is known. */
    exact: LawTold | null;
  }
  /** Schedules on one model, the best first. */
  interface Document {
    schema: "weftrace.pipeline.comparison/1";
    weftrace: string;
    /** What all have as many of. */
    equal: "devices" | "stages";
    num_equal: number;
    num_micro_batches: number;
    /** Where the step of a rank ends. */
    boundary: "barrier" | "span";
    /** Peak activations that a device has room for. */
    memory_cap: number | null;
    /** Times are shown in multiples of it; 0: as times. */
    unit_ns: number;
    /** Of one stage, or of one device's share, on one micro-batch. */
    costs: CostsDocument;
    rows: ScheduleRow[];
    impossible: ImpossibleRow[];
  }
}

declare namespace costs {
  /** What one chunk, one stage's work on one micro-batch, costs: for all stages, or a list with a value a stage. */
  interface Document {
    schema: "weftrace.pipeline.costs/1";
    /** F. */
    forward_ns: number | number[];
    /** I, the gradient of the input. */
    input_ns: number | number[];
    /** W, the gradient of the weights. */
    weight_ns: number | number[];
    /** B, the full backward; null: I + W. */
    backward_ns?: number | number[] | null;
    /** F&B, or a row a stage of the forward, a value a stage of the backward; null: F + B. */
    overlapped_ns?: number | number[][] | null;
    /** Times by which a rank is slower; one, or one a rank. */
    rank_factor?: number | number[];
    /** On a message's way between two ranks. */
    latency_ns?: number;
    /** Of an activation that goes to the next stage. */
    message_bytes?: number | number[];
    /** Of the link from a rank to another; null: size does not matter. */
    bytes_per_s?: number | null;
    /** Sender and receiver compute nothing until it has passed. */
    blocking?: boolean;
    /** Of an F&B's time, before its forward and its backward read their input. */
    input_needed?: number[];
    /** Until its forward and its backward have an output. */
    output_ready?: number[];
    /** Held from F on, for the backward. */
    activation_bytes?: number | number[];
    /** The part of them held from I to W; null: all. */
    pending_bytes?: number | number[] | null;
    /** Parameters of a stage and what belongs to them. */
    weight_bytes?: number | number[];
    /** Of copies to the host, and of those back. */
    offload_bytes_per_s?: number | null;
    /** Where the numbers come from. */
    source?: string;
  }
}

declare namespace pipeline {
  /** What one chunk, one stage's work on one micro-batch, costs: for all stages, or a list with a value a stage. */
  interface CostsDocument {
    schema: string;
    /** F. */
    forward_ns: number | number[];
    /** I, the gradient of the input. */
    input_ns: number | number[];
    /** W, the gradient of the weights. */
    weight_ns: number | number[];
    /** B, the full backward; null: I + W. */
    backward_ns?: number | number[] | null;
    /** F&B, or a row a stage of the forward, a value a stage of the backward; null: F + B. */
    overlapped_ns?: number | number[][] | null;
    /** Times by which a rank is slower; one, or one a rank. */
    rank_factor?: number | number[];
    /** On a message's way between two ranks. */
    latency_ns?: number;
    /** Of an activation that goes to the next stage. */
    message_bytes?: number | number[];
    /** Of the link from a rank to another; null: size does not matter. */
    bytes_per_s?: number | null;
    /** Sender and receiver compute nothing until it has passed. */
    blocking?: boolean;
    /** Of an F&B's time, before its forward and its backward read their input. */
    input_needed?: number[];
    /** Until its forward and its backward have an output. */
    output_ready?: number[];
    /** Held from F on, for the backward. */
    activation_bytes?: number | number[];
    /** The part of them held from I to W; null: all. */
    pending_bytes?: number | number[] | null;
    /** Parameters of a stage and what belongs to them. */
    weight_bytes?: number | number[];
    /** Of copies to the host, and of those back. */
    offload_bytes_per_s?: number | null;
    /** Where the numbers come from. */
    source?: string;
  }
  /** A rank's step: busy, and idle in warm-up, steady state and cool-down; the most that it holds at once. */
  interface RankTold {
    rank: number;
    busy_ns: number;
    idle_ns: number;
    warm_up_ns: number;
    steady_ns: number;
    cool_down_ns: number;
    peak_bytes: number;
    /** Chunks whose activations, or a part of them, are held. */
    peak_activations: number;
    weight_bytes: number;
  }
  /** What the simulation found; it follows from the rest of the document. */
  interface ResultTold {
    /** From the first action's start to the last one's end. */
    makespan_ns: number;
    /** The longest step of a rank, by the boundary. */
    step_ns: number;
    /** Idle time of the rank that idles most, by the boundary. */
    bubble_ns: number;
    ranks: RankTold[];
  }
  /** A schedule, what its chunks cost, and what came of it. */
  interface Document {
    schema: "weftrace.pipeline/1";
    /** The version that wrote it. */
    weftrace: string;
    name: string;
    num_ranks: number;
    num_stages: number;
    num_micro_batches: number;
    /** Where a step ends: for all ranks, or for each by itself. */
    boundary: "barrier" | "span";
    /** The lines of its text: facts, then the actions of each rank. */
    schedule: string[];
    /** Of one chunk, a stage's work on one micro-batch. */
    costs: CostsDocument;
    result: ResultTold;
  }
}

declare namespace slip {
  /** measured - planned = own + p2p + between - slack, exactly: along the critical path of the measured step. */
  interface CausesTold {
    /** Actions took longer than planned. */
    own_ns: number;
    /** Messages took longer than planned. */
    p2p_ns: number;
    /** A rank did neither an action nor wait for a message. */
    between_ns: number;
    /** Time that the plan had to spare on this path, used up. */
    slack_ns: number;
  }
  /** The actions of one kind, stage and rank: means over micro-batches. */
  interface OpRow {
    rank: number;
    kind: string;
    stage: number;
    /** Of an F&B: the backward's. */
    back_stage: number | null;
    count: number;
    planned_ns: number;
    measured_ns: number;
    /** The longest of them, measured. */
    longest_ns: number;
    /** By how much they started later than planned. */
    late_ns: number;
  }
  /** One action on the critical path, with what it added to the slip. */
  interface PathRow {
    rank: number;
    /** As a schedule writes it: 3F5, 0F4&7B1. */
    action: string;
    /** What it waited for: the action before on its rank, or another rank's. */
    reason: "input" | "rank" | "start";
    late_ns: number;
    own_ns: number;
    p2p_ns: number;
    between_ns: number;
    slack_ns: number;
  }
  /** One rank in this step, and what of the slip is on it. */
  interface RankRow {
    rank: number;
    /** In its actions. */
    busy_ns: number;
    /** Its bubble with a barrier: the makespan of all ranks - busy_ns. */
    idle_ns: number;
    /** Between its own first start and last end. */
    idle_span_ns: number;
    /** In waits for messages; null where the run does not tell. */
    waited_ns: number | null;
    planned_busy_ns: number;
    planned_idle_ns: number;
    own_ns: number;
    p2p_ns: number;
    between_ns: number;
    slack_ns: number;
  }
  interface Document {
    schema: "weftrace.pipeline.slip/1";
    /** Version of weftrace that wrote it. */
    weftrace: string;
    schedule: string;
    /** The traces. */
    source: string;
    num_ranks: number;
    /** Which recorded step, from 0. */
    step: number;
    num_steps: number;
    /** Whose clock times the actions. */
    basis: "device" | "host";
    /** Whether the planned times rest on the plan's costs, or on the run's. */
    costs_from: "plan" | "run";
    /** How a step ends: for all ranks with the last one. */
    boundary: "barrier";
    planned_ns: number;
    measured_ns: number;
    /** (planned - measured) / measured. */
    error: number;
    causes: CausesTold;
    ranks: RankRow[];
    ops: OpRow[];
    /** The critical path of the measured step, first to last. */
    path: PathRow[];
    /** Every action with the causes of its lateness, as columns. */
    actions: Record<string, unknown[]>;
    headline: string;
    notes: string[];
  }
}

declare namespace step {
  /** The published bubble, of which the schedule makes a part; the rest is slip. Means over ranks. */
  interface BubbleTold {
    published_ns: number;
    /** The schedule's own, with the costs of the published parts. */
    law_ns: number;
    /** On the rank that idles most. */
    law_most_ns: number;
    slip_ns: number;
    /** A message's time that alone would make the slip. */
    alone_latency_ns: number;
    /** Part by which one slower rank alone would make it. */
    alone_slower: number | null;
    text: string;
  }
  /** What one chunk costs, the mean over stages where they differ. */
  interface CostsTold {
    forward_ns: number;
    input_ns: number;
    weight_ns: number;
    /** F&B; null: F + B, no gain. */
    overlapped_ns: number | null;
    latency_ns: number;
    /** A trace's phases, a run's actions, FLOPs and hardware, or given numbers. */
    basis: "actions" | "flops" | "given" | "phases";
    /** F, I and W are sums of phases that ran beside others: serial upper bounds. */
    is_upper_bound: boolean;
    source: string;
    /** What was assumed or left out, in sentences. */
    notes: string[];
  }
  /** One part of the step, the mean over ranks. */
  interface PartRow {
    name: "1B" | "1F" | "1F1B" | "1W" | "bubble" | "optimizer";
    time_ns: number;
    /** Actions of this part on a rank, at least; null where it has none. */
    fewest: number | null;
    /** At most. */
    most: number | null;
    /** What its time rests on: sums of phases that ran beside others; measured side by side; costs as they are; the simulation; what was given; nothing. */
    basis: "costs" | "given" | "not given" | "overlapped" | "serial upper bound" | "simulated";
    /** Of the published step of this shape; null without one. */
    published_ns: number | null;
  }
  /** One rate, as predicted and as published. */
  interface RateTold {
    name: string;
    /** From the predicted step; null where the model is not told. */
    predicted: number | null;
    /** From the published step's time with our count; null without one. */
    counted: number | null;
    published: number | null;
  }
  interface Document {
    schema: "weftrace.pipeline.step/1";
    /** Version of weftrace that wrote it. */
    weftrace: string;
    schedule: string;
    num_stages: number;
    /** Of one pipeline. */
    num_micro_batches: number;
    num_ranks: number;
    /** Side by side. */
    num_pipelines: number;
    step_ns: number;
    /** Idle time of the rank that idles most, with a barrier at the end. */
    bubble_ns: number;
    /** They add up to step_ns. */
    parts: PartRow[];
    /** Of the step, over all pipelines. */
    tokens: number;
    tokens_per_micro_batch: number;
    tokens_per_s: number;
    tokens_per_day: number;
    /** Whose FLOPs are counted; null where it is not told. */
    model: string | null;
    hardware: string | null;
    rates: RateTold[];
    costs: CostsTold;
    /** The published step of this shape; null where there is none. */
    published: string | null;
    published_source: string | null;
    published_step_ns: number | null;
    bubble: BubbleTold | null;
    headline: string;
    /** What does not fit together, in sentences. */
    flags: string[];
    assumptions: string[];
  }
}

declare namespace plan {
  /** One piece of work on one stream: a row of `Plan.ops`, with its waits. id: unique in the plan where given. Other ops name it in their `after`, and errors name it too. name: what runs, for kernel tables: many ops may share it. duration_ns: time its kernels run, integer nanoseconds, 0 or more. kind: "host" for what runs on a host thread: a launch, a call that blocks. The ops of a stream all are, or none is. num_kernels: the op is this many equal kernels back to back; the stream idles `Plan.gap_ns` between them, so the op holds its stream for `duration_ns + (num_kernels - 1) * gap_ns`. after: what the op waits for: ids or row numbers of ops that must have ended before this one starts, or a `Wait` that says more. num_sms: SMs that each kernel holds; None where it is not known or holds none. meet: a number shared by ops, of several ranks as a rule, that happen together (a collective, a barrier, a blocking send and its receive): each starts when it can, and all end at the last start plus their own duration. phase: name of the host range that the op is launched in, such as "dispatch(F)"; None for no range. layer, micro_batch, step: which repetition of the phase this is. start_bytes, end_bytes: how the memory held on the rank changes when the op starts, and when it ends. */
  interface Op {
    id?: string | null;
    name: string;
    duration_ns: number;
    resource?: Resource;
    kind?: "communication" | "compute" | "fused" | "host" | "memory";
    after?: (string | number | Wait)[];
    num_sms?: number | null;
    num_kernels?: number;
    meet?: number | null;
    phase?: string | null;
    layer?: number | null;
    micro_batch?: number | null;
    step?: number | null;
    start_bytes?: number;
    end_bytes?: number;
  }
  /** One stream of one rank, or one thread of its host: it runs one op at a time, in the order of the plan. */
  interface Resource {
    rank?: number;
    stream?: number;
  }
  /** An op may start once `lag_ns` have passed since the end, or the start, of another. on: the other's id, or its row number. lag_ns: nanoseconds, a network's latency say; negative where the op may start that much before, as one that needs its input late. why: "data", it uses the result; "launch", the other is the host call that launches it; "sm", it found no free SMs before; "host", a host call that blocks until then; "vote", inferred from repeats. */
  interface Wait {
    on: string | number;
    since?: "end" | "start";
    lag_ns?: number;
    why?: "data" | "host" | "launch" | "sm" | "vote";
  }
  /** A plan as its document has it: times are integer nanoseconds; what is left out has the default. */
  interface Document {
    schema: "weftrace.plan/2";
    name: string;
    source?: string;
    notes?: string[];
    device_name?: string;
    num_sms?: number | null;
    world_size?: number | null;
    gap_ns?: number;
    ops: Op[];
  }
}

declare namespace query {
  /** A column of the answer. */
  interface AnswerColumn {
    name: string;
    /** As Polars calls it: Int64, Float64, String, Boolean. */
    type: string;
  }
  /** A file of a job that could not be used: the answer is without its rows. */
  interface FileFailed {
    path: string;
    error: string;
  }
  /** A table that the question needed. */
  interface TableRead {
    table: string;
    rows: number;
  }
  /** A question in SQL and the rows that it gave. */
  interface Document {
    schema: "weftrace.query/1";
    /** The version that wrote it. */
    weftrace: string;
    source: string;
    sql: string;
    read: TableRead[];
    failures: FileFailed[];
    /** Files that lost a part: the answer is of what is left. */
    notes: string[];
    columns: AnswerColumn[];
    num_rows: number;
    /** Column -> value. What is no number (NaN, infinity) is null. */
    rows: Record<string, unknown>[];
  }
}

declare namespace query_tables {
  /** A column of a table. */
  interface ColumnTold {
    name: string;
    type: string;
    /** Empty for counts and names. */
    unit: string;
    meaning: string;
  }
  /** A table that questions are asked of. */
  interface TableTold {
    name: string;
    /** What a row is. */
    meaning: string;
    columns: ColumnTold[];
  }
  /** The tables that `weftrace query` is asked of. */
  interface Document {
    schema: "weftrace.query_tables/1";
    /** The version that wrote it. */
    weftrace: string;
    tables: TableTold[];
  }
}

declare namespace report {
  /** One stretch of a phase, or of a kernel family outside phases. It spans no wait of 30 µs or more, but in a lane of thousands of boxes, where only the longest waits part them. */
  interface BoxDocument {
    name: string;
    /** Which occurrence of the name it is, from 0. */
    index: number;
    /** Number of the phase in the trace; boxes of one phase share it. */
    phase: number | null;
    /** What a plan says of a simulated phase; null where nothing does. */
    layer: number | null;
    /** As layer. */
    micro_batch: number | null;
    /** Forward, backward, weight gradient; null where none is told. */
    direction: "B" | "F" | "W" | null;
    start_ns: number;
    end_ns: number;
    /** A duration in nanoseconds. */
    busy_ns: number;
    sms: number | null;
    /** Of a transfer that holds no SM: the kernel that issues it, it, the kernel that ends it. */
    part?: "issue" | "receive" | "transfer";
  }
  /** A rank's clock against the first rank's. */
  interface ClockDocument {
    rank: number;
    offset_ns: number | null;
    spread_ns: number | null;
    num_matched: number;
    /** Whether lateness subtracts it: it is beyond what the matches disagree. */
    applied: boolean;
    /** How much faster it runs; offset_ns is then that of the middle. */
    drift_ppm: number;
  }
  /** Time by module, or by Python function. Own times of nodes and outside add up to serial_ns; idle_ns of roots and outside to the rank's. */
  interface CodeDocument {
    /** The profiler's frames, TorchScript's operators, ranges named like modules, old call stacks. */
    told_by: "frames" | "hierarchy" | "nothing" | "ranges" | "stacks";
    /** Nodes found; `nodes` holds at most 5,000, of many ranks fewer. */
    num_nodes: number;
    nodes: CodeNodeDocument[];
    /** By module: siblings of one class in one node. By function: each once, without parents. */
    folded: CodeNodeDocument[];
    /** What lies in none, or whose launch is unknown. */
    outside: CodeNodeDocument;
    /** Of outside's total_ns: launched with others by one call (a CUDA graph). */
    graph_ns: number;
  }
  /** A module or a function at its place in the tree, with all below it unless told otherwise. */
  interface CodeNodeDocument {
    name: string;
    /** Position of the node above, which comes before; null of a root. */
    parent: number | null;
    /** Nodes that stand in it: more than 1 where siblings are folded. */
    num_members: number;
    /** Calls that launched something; 0 where no call is recorded. */
    num_calls: number;
    num_events: number;
    /** Sum of durations of what it launched itself, and none below. */
    self_ns: number;
    /** Sum of durations. */
    total_ns: number;
    /** Of total_ns, what backward operators launched. */
    backward_ns: number;
    /** Union of its events. */
    busy_ns: number;
    /** Its communication during which no compute ran. */
    exposed_ns: number;
    /** Gaps of the device that its events ended. */
    idle_ns: number;
    /** Of idle_ns, what the host was late for. */
    host_wait_ns: number;
  }
  /** Communication of one kind. */
  interface CollectiveDocument {
    collective: string;
    num_events: number;
    /** A duration in nanoseconds. */
    busy_ns: number;
    /** A duration in nanoseconds. */
    hidden_ns: number;
    /** A duration in nanoseconds. */
    exposed_ns: number;
    /** A duration in nanoseconds. */
    data_ns: number;
    /** A duration in nanoseconds. */
    barrier_ns: number;
    payload_bytes: number | null;
    algbw_GBps: number | null;
    busbw_GBps: number | null;
  }
  /** A file that could not be used. */
  interface FailureDocument {
    path: string;
    error: string;
  }
  /** Device events of one kernel family. */
  interface FamilyDocument {
    /** Class of device work: compute, communication, memory or fused. */
    kind: string;
    family: string;
    num_events: number;
    /** A duration in nanoseconds. */
    total_ns: number;
    /** A duration in nanoseconds. */
    busy_ns: number;
  }
  /** Against perfect overlap. */
  interface HeadroomDocument {
    /** A duration in nanoseconds. */
    ideal_ns: number;
    /** A duration in nanoseconds. */
    headroom_ns: number;
    bound_by: "chain" | "communication" | "compute";
    /** A duration in nanoseconds. */
    longest_chain_ns: number;
    assumption: string;
  }
  /** Host calls that wait for the device. */
  interface HostCallDocument {
    name: string;
    num_events: number;
    /** A duration in nanoseconds. */
    total_ns: number;
  }
  /** Phases in which the host recorded nothing for a millisecond or more. */
  interface HostStallDocument {
    name: string;
    num_events: number;
    /** A duration in nanoseconds. */
    total_ns: number;
    /** A duration in nanoseconds. */
    longest_ns: number;
  }
  /** Idle time of the device by cause; the four add up to idle_ns. */
  interface IdleCausesDocument {
    /** A duration in nanoseconds. */
    threshold_ns: number;
    /** A duration in nanoseconds. */
    host_wait_ns: number;
    /** A duration in nanoseconds. */
    dependency_wait_ns: number;
    /** A duration in nanoseconds. */
    kernel_gap_ns: number;
    /** A duration in nanoseconds. */
    unknown_ns: number;
    by_stream: StreamGapsDocument[];
  }
  /** FLOPs of a weftrace.flops report joined to this trace by phase; there with --flops only. */
  interface JoinedDocument {
    model: string;
    /** Whose peaks count; null where none is known. */
    hardware: string | null;
    basis: string;
    /** Steps of the report that the trace holds. */
    steps: number;
    /** A duration in nanoseconds. */
    span_ns: number;
    /** Executed FLOPs on matrix units of all phases / the span; null where the span is 0. */
    flops_per_s: number | null;
    mfu: number | null;
    mfu_full: number | null;
    hfu: number | null;
    phases: JoinedPhaseDocument[];
    ranges: JoinedRangeDocument[];
    /** Elapsed time of events without a launch. With elapsed_ns of the phases it adds up to span_ns. */
    no_phase_ns: number;
    num_no_phase: number;
    /** What is assumed, estimated, or does not agree. */
    notes: string[];
  }
  /** FLOPs of one phase of the joined steps. */
  interface JoinedPhaseDocument {
    /** forward, backward (what a checkpoint ran again with it) or optimizer. */
    phase: string;
    /** Model FLOPs on matrix units, of all joined steps. */
    flops: number;
    full_flops: number;
    executed_flops: number;
    vector_flops: number;
    moved_bytes: number;
    num_events: number;
    /** A duration in nanoseconds. */
    busy_ns: number;
    /** A duration in nanoseconds. */
    elapsed_ns: number;
    /** executed_flops / elapsed_ns. */
    flops_per_s: number | null;
    /** Time of flops at the device's peak / elapsed_ns; null where no peak is known. */
    mfu: number | null;
    mfu_full: number | null;
    hfu: number | null;
  }
  /** FLOPs of a module's range in the trace. */
  interface JoinedRangeDocument {
    path: string;
    flops: number;
    /** A duration in nanoseconds. */
    busy_ns: number;
    mfu: number | null;
  }
  /** All calls of one kernel. */
  interface KernelDocument {
    name: string;
    /** Class of device work: compute, communication, memory or fused. */
    kind: string;
    family: string;
    num_events: number;
    /** A duration in nanoseconds. */
    total_ns: number;
    mean_ns: number;
    p50_ns: number;
    p99_ns: number;
    /** A duration in nanoseconds. */
    min_ns: number;
    /** A duration in nanoseconds. */
    max_ns: number;
    share: number;
    sms: number | null;
    sms_exact: boolean;
  }
  /** Of each row its labels, as positions in the names of `kernels`, then in `names`; -1 for none. */
  interface LabelsDocument {
    /** Whole numbers with spaces between. */
    part: string;
    /** Whole numbers with spaces between. */
    cause: string;
    /** Whole numbers with spaces between. */
    kind: string;
    /** Whole numbers with spaces between. */
    family: string;
    /** Whole numbers with spaces between. */
    kernel: string;
    /** Whole numbers with spaces between. */
    operator: string;
    /** Whole numbers with spaces between. */
    phase: string;
  }
  /** One band of the lane picture: compute, communication, or whatever its name says. */
  interface LaneDocument {
    lane: string;
    /** SMs that it holds; null where no launch grid is recorded. */
    sms: number | null;
    /** False where sms is an upper bound. */
    sms_exact: boolean;
    /** What `sms` counts: compute units (CUs) on AMD. */
    sm_unit: "CUs" | "SMs";
    /** A duration in nanoseconds. */
    busy_ns: number;
    /** When it ran, in order: what pictures fill. */
    busy: number[][];
    streams: number[];
    boxes: BoxDocument[];
  }
  /** Matched collectives of one kind. */
  interface LateCollectiveDocument {
    collective: string;
    num: number;
    /** Of all ranks. */
    waiting_ns: number;
    /** A duration in nanoseconds. */
    transfer_ns: number;
    /** Position of the rank that came last most often. */
    last: number;
    /** How often it did. */
    num_last: number;
  }
  /** A rank's lateness, over its matched collectives. */
  interface LateRankDocument {
    /** As in `ranks`; so are device and path. */
    rank: number | null;
    device: number | null;
    path: string;
    /** What it is called. */
    name: string;
    /** Own start - second last start, where it came last. */
    caused_ns: number;
    /** Waiting of all ranks that began with this one: what a rank is late from waiting itself is passed on to whom it waited for. */
    origin_ns: number;
    /** Its waiting: last start - own start, within its collectives. */
    suffered_ns: number;
    /** Of suffered_ns, while it computed nothing: in exposed communication or, where events show the transfer only, in idle time. Beyond 20,000 stretches of waiting neighbours count as one. */
    exposed_ns: number;
    /** The rest of its matched collectives: own end - last start. */
    transfer_ns: number;
    /** Collectives into which it came last. */
    num_last: number;
    num_matched: number;
  }
  /** Lateness in one step, per position. */
  interface LateStepDocument {
    step: number;
    caused_ns: number[];
    suffered_ns: number[];
  }
  /** Who came late into matched collectives, and who waited. Positions are those in its `ranks`. */
  interface LatenessDocument {
    /** Collectives found on two ranks or more. */
    num_matched: number;
    /** Communication events that found no partner. */
    num_unmatched: number;
    by: MatchedByDocument;
    /** Paired by order, but their ends disagree: left out. */
    not_the_same: number;
    /** Whether offsets of clocks were subtracted. */
    clocks_applied: boolean;
    /** How far apart ends of one collective still lie, median. */
    uncertainty_ns: number;
    /** Position of the rank with the most origin_ns; null where none stands out, or waiting does not stand above uncertainty_ns. */
    late: number | null;
    /** Those in the sums of the job, in the order of `ranks`. */
    ranks: LateRankDocument[];
    /** Who waited for whom, most first; at most 10,000. */
    pairs: number[][];
    /** Waiting of the pairs that are not listed. */
    pairs_left_ns: number;
    /** Most waiting first. */
    collectives: LateCollectiveDocument[];
    /** Most waiting first; at most 100. */
    worst: WorstCollectiveDocument[];
    /** At most 100,000 values, of the first steps. */
    steps: LateStepDocument[];
    /** What these numbers rest on, where it is not as usual. */
    notes: string[];
  }
  /** Launches and the queue. */
  interface LaunchDocument {
    num_linked: number;
    /** Nanoseconds; null where nothing was measured. */
    delay_p50_ns: number | null;
    /** Nanoseconds; null where nothing was measured. */
    delay_p99_ns: number | null;
    /** Nanoseconds; null where nothing was measured. */
    delay_max_ns: number | null;
    queue_max: number | null;
    queue_mean: number | null;
    host_blocked: HostCallDocument[];
    host_stalls: HostStallDocument[];
  }
  /** How collectives were matched. */
  interface MatchedByDocument {
    /** By process group, sequence number and kind. */
    sequence: number;
    /** By order among those of a kind, where their ends agree. */
    order: number;
  }
  /** ns[i][j]: time in which communication[i] and compute[j] both ran. */
  interface MatrixDocument {
    communication: string[];
    compute: string[];
    ns: number[][];
    hidden_ns: number[];
    exposed_ns: number[];
  }
  /** All calls of one operator. */
  interface OperatorDocument {
    name: string;
    num_calls: number;
    num_events: number;
    /** A duration in nanoseconds. */
    total_ns: number;
    share: number;
  }
  /** What lies before the first step's window, or after the last one's. */
  interface OutsideStepsDocument {
    /** A duration in nanoseconds. */
    span_ns: number;
    /** A duration in nanoseconds. */
    compute_ns: number;
    /** A duration in nanoseconds. */
    exposed_communication_ns: number;
    /** A duration in nanoseconds. */
    exposed_memory_ns: number;
    /** A duration in nanoseconds. */
    idle_ns: number;
    hidden_fraction: number | null;
    place: "after" | "before";
  }
  /** One occurrence of a phase, in device order. */
  interface PhaseDocument {
    name: string;
    /** Which occurrence of the name in its step it is, from 0. */
    index: number;
    step: number | null;
    /** What a plan says of a simulated phase; null where nothing does. */
    layer: number | null;
    /** As layer. */
    micro_batch: number | null;
    lane: "communication" | "compute";
    start_ns: number;
    end_ns: number;
    /** A duration in nanoseconds. */
    busy_ns: number;
    /** A duration in nanoseconds. */
    compute_ns: number;
    /** A duration in nanoseconds. */
    communication_ns: number;
    /** A duration in nanoseconds. */
    data_ns: number;
    /** A duration in nanoseconds. */
    hidden_ns: number;
    /** A duration in nanoseconds. */
    exposed_ns: number;
    sms: number | null;
    stream: number | null;
    num_events: number;
  }
  /** All occurrences of a phase together. */
  interface PhaseMeanDocument {
    name: string;
    lane: "communication" | "compute";
    count: number;
    /** A duration in nanoseconds. */
    mean_busy_ns: number;
    /** A duration in nanoseconds. */
    mean_data_ns: number;
    /** A duration in nanoseconds. */
    mean_hidden_ns: number;
    /** A duration in nanoseconds. */
    mean_exposed_ns: number;
  }
  /** What was left out or mended. */
  interface QualityDocument {
    verdict: "doubtful" | "good" | "usable";
    dropped: number;
    repaired: number;
    clipped: number;
    unlinked: number;
    unnamed_share: number;
    overlapping: number;
    out_of_window: number;
    skipped: Record<string, number>;
    truncated: string | null;
    /** Device work of a kind that is not read: how many events by category. */
    unused: Record<string, number>;
    notes: string[];
  }
  /** One device of one rank. Starts and ends count from start_ns. */
  interface RankDocument {
    /** Rank in the job; null where neither the file nor its name says. */
    rank: number | null;
    /** What a plain Chrome trace calls it ("DP 0 PP 3"); empty elsewhere. */
    name: string;
    /** Device number; null where the file holds no device work. */
    device: number | null;
    device_name: string;
    /** SMs (NVIDIA) or compute units (AMD) of the device. */
    num_sms: number | null;
    /** What `sms` counts: compute units (CUs) on AMD. */
    sm_unit: "CUs" | "SMs";
    /** File name, without its folder. */
    path: string;
    /** What was accounted: device events, host operators in their place, ranges of a plain Chrome trace, or nothing. */
    basis: "device" | "host" | "none" | "ranges";
    /** The ProfilerStep asked for; null for the whole trace. */
    step: number | null;
    /** What of the step: all in its window, or what it launched; null for the whole trace. */
    step_by: "launch" | "window" | null;
    simulated: boolean;
    /** Why it is in no sum of the job: no device work where others have some, another world size, or another file of the same rank before it; null where it is. */
    apart: "duplicate" | "host" | "world" | null;
    /** First device start, absolute nanoseconds; does not fit a float64. */
    start_ns: number;
    /** A duration in nanoseconds. */
    span_ns: number;
    /** A duration in nanoseconds. */
    busy_ns: number;
    /** A duration in nanoseconds. */
    idle_ns: number;
    /** A duration in nanoseconds. */
    compute_ns: number;
    /** Of compute_ns: kernels that compute and communicate in one, not separable. */
    fused_ns: number;
    /** A duration in nanoseconds. */
    communication_ns: number;
    /** A duration in nanoseconds. */
    hidden_communication_ns: number;
    /** A duration in nanoseconds. */
    exposed_communication_ns: number;
    hidden_fraction: number | null;
    /** A duration in nanoseconds. */
    memory_ns: number;
    /** A duration in nanoseconds. */
    exposed_memory_ns: number;
    /** A duration in nanoseconds. */
    serial_ns: number;
    overlap_speedup: number | null;
    /** A duration in nanoseconds. */
    data_ns: number;
    /** A duration in nanoseconds. */
    barrier_ns: number;
    streams: StreamDocument[];
    families: FamilyDocument[];
    collectives: CollectiveDocument[];
    phases: PhaseDocument[];
    /** Phases found; `phases` lists at most 20,000 of them, of a job of many ranks fewer. */
    num_phases: number;
    phase_means: PhaseMeanDocument[];
    overlap_matrix: MatrixDocument;
    /** When the device ran anything, in order; it was idle in between. */
    busy: number[][];
    /** Bands of the lane picture, in the order of drawing. */
    lanes: LaneDocument[];
    /** start_ns from the job's zero, the first start of a rank, on the common clock. */
    shift_ns: number;
    /** When it waited within communication for the last rank to come, as in `busy`. */
    waits: number[][];
    /** When communication was exposed, in order, as in `busy`. */
    exposed: number[][];
    /** Stretches of it; `exposed` lists fewer where some are merged. */
    num_exposed: number;
    kernels: KernelDocument[];
    /** Device time by the innermost operator that launched it, longest first, at most 500. */
    operators: OperatorDocument[];
    num_without_operator: number;
    /** A duration in nanoseconds. */
    without_operator_ns: number;
    unnamed: UnnamedDocument[];
    /** Of compute time. */
    unnamed_share: number;
    idle_causes: IdleCausesDocument;
    launch: LaunchDocument;
    headroom: HeadroomDocument;
    /** Windows of the profiler's steps. With outside_steps they add up to the whole trace. */
    steps: StepDocument[];
    outside_steps: OutsideStepsDocument[];
    quality: QualityDocument;
    /** How the trace was made, as it says itself: profile.* and capture.*; there where it does. */
    configuration?: Record<string, string>;
    /** What `weftrace diff` compares; absent in pages and in reports of earlier versions. */
    shares?: SharesDocument;
    flops?: JoinedDocument;
    /** Time by module; there where it was asked for. */
    modules?: CodeDocument;
    /** Time by function; there where it was asked for. */
    lines?: CodeDocument;
  }
  /** Rows of one step, a column each. */
  interface ShareColumns {
    /** Positions in `labels`. */
    row: string;
    /** Launches; of idle time, gaps. */
    num: string;
    /** Durations. */
    raw_ns: string;
    /** Of raw_ns, beside others of its class; empty where all are 0. */
    beside_ns: string;
    /** Of the rest, hidden by another class; likewise. Own is the rest. */
    hidden_ns: string;
  }
  /** Whose the time of each step is: what `weftrace diff` compares, so that a saved report can stand for its trace. */
  interface SharesDocument {
    world_size: number | null;
    /** Name of ranges that stand for steps; null: no such are needed. */
    steps_by: string | null;
    /** How far the ends of windows may be off, median; null: unknown. */
    seam_ns: number | null;
    /** What the file says of device, versions, shapes and settings. */
    facts: Record<string, string>;
    /** Those of labels that `kernels` does not hold, each once. */
    names: string[];
    labels: LabelsDocument;
    /** Rows beyond 2,000, of many ranks fewer, which are merged: "other". */
    num_merged: number;
    /** Steps found; `steps` holds 100 of them at most, evenly chosen. */
    num_steps: number;
    steps: StepSharesDocument[];
  }
  /** How long a rank computes in a step, against its peers: the ranks of its stage where stages are told, else all. */
  interface SlowRankDocument {
    /** As in `ranks`; so are device, path and name. */
    rank: number | null;
    device: number | null;
    path: string;
    name: string;
    /** Pipeline stage; null where none is told. */
    stage: number | null;
    /** Mean over the steps that all ranks tell; else of the whole trace. */
    compute_ns: number;
    /** Mean over the steps of the lower median of its peers', itself included. */
    peers_ns: number;
    /** compute_ns / peers_ns. */
    ratio: number;
    /** Steps in which it computes longer than that median. */
    share_of_steps: number;
    /** The phase in which it loses most; null where none is told. */
    phase: string | null;
    phase_ratio: number | null;
    /** ratio of 1.1 or more, in two thirds of the steps, and far beyond how the others differ. */
    is_slow: boolean;
  }
  /** How long the ranks of a pipeline stage compute in a step, against those of the other stages. */
  interface SlowStageDocument {
    stage: number;
    /** Lower median of its ranks. */
    compute_ns: number;
    /** To the lower median of the stages. */
    ratio: number;
    /** ratio of 1.1 or more. */
    is_slow: boolean;
  }
  /** Who computes longer than those that do the same. */
  interface SlowWorkDocument {
    /** Steps the means are over; 0 where no step is told. */
    num_steps: number;
    /** Those in the sums of the job, in the order of `ranks`. */
    ranks: SlowRankDocument[];
    /** Where two stages or more are told. */
    stages: SlowStageDocument[];
    /** The slowest of a step against its peers, median over steps, where no rank is slow in all and another one is the slowest most of the time; null where it is not so. */
    varies: number | null;
    /** How many ranks are the slowest of a step. */
    num_slowest: number;
  }
  /** One ProfilerStep: the window from the first device event that it launched to the next step's. */
  interface StepDocument {
    /** A duration in nanoseconds. */
    span_ns: number;
    /** A duration in nanoseconds. */
    compute_ns: number;
    /** A duration in nanoseconds. */
    exposed_communication_ns: number;
    /** A duration in nanoseconds. */
    exposed_memory_ns: number;
    /** A duration in nanoseconds. */
    idle_ns: number;
    hidden_fraction: number | null;
    step: number;
    /** Start of the window, from the rank's start_ns. */
    start_ns: number;
    /** Busy in the window with what other steps, or none, launched. */
    from_other_steps_ns: number;
    /** Busy before the window with what the step launched. */
    ran_ahead_ns: number;
    /** Busy after the window with what the step launched. */
    spilled_ns: number;
  }
  /** A step's time: own times of its rows add up to span_ns. */
  interface StepSharesDocument {
    /** Null without steps: the whole trace. With steps_by: also what is outside of them. */
    step: number | null;
    start_ns: number;
    span_ns: number;
    shares: ShareColumns;
    /** Rows to be added, with a minus where time is taken from a row: what of communication and idle time is waiting for late ranks. Null where that is not known. */
    waits: ShareColumns | null;
  }
  /** One stream. */
  interface StreamDocument {
    stream: number;
    /** A duration in nanoseconds. */
    busy_ns: number;
    num_events: number;
    /** Class of device work: compute, communication, memory or fused. */
    kind: string;
  }
  /** Gaps of one stream. */
  interface StreamGapsDocument {
    stream: number;
    /** A duration in nanoseconds. */
    idle_ns: number;
    /** A duration in nanoseconds. */
    host_wait_ns: number;
    /** A duration in nanoseconds. */
    dependency_wait_ns: number;
    /** A duration in nanoseconds. */
    kernel_gap_ns: number;
    /** A duration in nanoseconds. */
    unknown_ns: number;
  }
  /** A kernel that no rule names. */
  interface UnnamedDocument {
    name: string;
    num_events: number;
    /** A duration in nanoseconds. */
    total_ns: number;
  }
  /** One matched collective. */
  interface WorstCollectiveDocument {
    collective: string;
    group: string;
    seq: number | null;
    step: number | null;
    /** Last start, from the job's zero. */
    start_ns: number;
    /** Position of the rank that came last. */
    last: number;
    /** A duration in nanoseconds. */
    caused_ns: number;
    /** Of all ranks. */
    waiting_ns: number;
    /** A duration in nanoseconds. */
    transfer_ns: number;
  }
  /** What weftrace tells about a trace or a job. Times are integer nanoseconds. Fields may be added within a version; readers ignore what they do not know. docs/report-json.md explains each field. */
  interface Document {
    schema: "weftrace.report/1";
    /** Version of weftrace that wrote the document. */
    weftrace: string;
    source: string;
    headline: string;
    world_size: number | null;
    num_ranks: number;
    failures: FailureDocument[];
    clocks: ClockDocument[];
    /** Of a job; null of one rank, or where nothing could be matched. */
    lateness: LatenessDocument | null;
    /** Of a job; null of one rank. */
    slow_work: SlowWorkDocument | null;
    /** What is missing from the whole: ranks without a file, ranks with several. */
    notes: string[];
    ranks: RankDocument[];
  }
}

declare namespace timeline_block {
  /** A rank's timeline as the page holds it: shift_ns is how far its start is from the rank's. */
  interface Block {
    classes: string[];
    columns: TimelineColumns;
    end_ns: number;
    facts: TimelineFacts;
    first_correlation: number;
    first_ns: number;
    format: string;
    groups: TimelineGroup[];
    left_out: Record<string, number>;
    names: string[];
    num_device: number;
    num_events: number;
    rank: number | null;
    shift_ns: number;
    shortened_names: number;
    start_ns: number;
    tracks: TimelineTrack[];
  }
  interface TimelineColumns {
    class: PackedColumn;
    correlation: PackedColumn;
    dur: PackedColumn;
    facts: PackedColumn;
    launch: PackedColumn;
    name: PackedColumn;
    start: PackedColumn;
  }
  /** Little-endian numbers in base64. */
  interface PackedColumn {
    data: string;
    type: "f8" | "u1" | "u2" | "u4";
  }
  /** Each different row once; `timeline_facts` says which events they are of. */
  interface TimelineFacts {
    rows: FactsRow[];
    texts: string[];
  }
  /** What events say beside name and times; a text is its position in `texts`. bytes: what a copy or a collective moved. sms: what a kernel holds, at most, or exactly with sms_exact. operator: where its launch is not drawn. */
  interface FactsRow {
    block?: number;
    bytes?: number;
    collective?: number;
    dtype?: number;
    graph?: number;
    grid?: number;
    group?: number;
    group_size?: number;
    in_elems?: number;
    occupancy?: number;
    operator?: number;
    out_elems?: number;
    ranks?: number;
    registers?: number;
    shapes?: number;
    shared_bytes?: number;
    sms?: number;
    sms_exact?: number;
    stack?: number;
    types?: number;
  }
  interface TimelineGroup {
    kind: "device" | "host";
    label: string;
  }
  /** A stream, what is noted beside one, or a host thread. rows: (first event, how many) of each depth of nesting. */
  interface TimelineTrack {
    device?: number;
    group: number;
    kind: "notes" | "stream" | "thread";
    label: string;
    rows: [number, number][];
    stream?: number;
  }
}

declare namespace flops_block {
  /** The page's data. exact: the model FLOPs to the last one, and how far they can be trusted. Counts have few digits, times are in ns. */
  interface Block {
    bounded: boolean;
    cards: Card[];
    classes: string[];
    coverage: Covered;
    details: string[];
    exact: string;
    facts: string[];
    kinds: KindTotal[];
    modules: ModuleColumns;
    name: string;
    ops: OperatorRow[];
    phases: PhaseTotal[];
    ranks: number;
    remarks: [string, string[]][];
    roofs: Roofs | null;
    timed: boolean;
    unknown: UnknownRow[];
    warnings: string[];
    work: Record<string, WorkColumns>;
    worst: WorstRow[];
  }
  /** A number of the first screen. key: its term. */
  interface Card {
    key: string;
    label: string;
    look: string;
    note: string;
    value: string;
  }
  /** The parts of all calls, bytes and time that have a formula. */
  interface Covered {
    bytes: number | null;
    calls: number | null;
    time: number | null;
  }
  /** All operators of a kind. work: executed and vector FLOPs together. */
  interface KindTotal {
    bound_ns: number;
    bytes: number;
    calls: number;
    kind: string;
    work: number;
  }
  interface ModuleColumns {
    calls: number[];
    class: number[];
    detail: number[];
    name: string[];
    params: number[];
    parent: number[];
    same: number[];
  }
  interface OperatorRow {
    bytes: number;
    calls: number;
    executed: number;
    kind: string;
    note: string;
    op: string;
    phase: "backward" | "forward" | "optimizer" | "recompute";
    status: string;
    vector: number;
  }
  /** What a step does in a phase. time: in ns, None where nothing was timed. */
  interface PhaseTotal {
    bytes: number;
    executed: number;
    flops: number;
    phase: "backward" | "forward" | "optimizer" | "recompute";
    time: number | null;
    vector: number;
  }
  /** Memory's bandwidth, and (name, rate) of each peak that the work used, highest first. */
  interface Roofs {
    bytes_per_s: number;
    compute: [string, number][];
    name: string;
  }
  /** An operator without a formula. */
  interface UnknownRow {
    calls: number;
    op: string;
  }
  /** What each module does itself in a phase; zero columns are left out. kind: a letter a module: "c", "m" or "-". */
  interface WorkColumns {
    bound?: number[];
    bytes?: number[];
    executed?: number[];
    flops: number[];
    kind?: string;
    own_time?: number[];
    vector?: number[];
  }
  /** A module that took longer than its bound. */
  interface WorstRow {
    above_ns: number;
    bound_ns: number;
    kind: "compute" | "memory" | null;
    measured_ns: number;
    path: string;
    phase: "backward" | "forward" | "optimizer" | "recompute";
  }
}

declare namespace moves_block {
  /** The list of moves as the page holds it: lists of equal length. */
  interface Block {
    expert: number[];
    from_slot: number[];
    layer: number[];
    round: number[];
    slot: number[];
  }
}

declare namespace schedules_block {
  /** What the page of simulated schedules holds. */
  interface Block {
    pictures: PictureBlock[];
  }
  /** A simulated schedule as a page holds it; fields as in `Picture`, and what is said of it in words. */
  interface PictureBlock {
    boundary: string;
    bubble_ns: number;
    bubble_share: number;
    cells: CellColumns;
    headline: string;
    held_in: string;
    held_words: string;
    left_out: string;
    makespan_ns: number;
    memory_words: string;
    name: string;
    peak: number;
    peak_rank: number;
    ranks: PictureRank[];
    shades: string[];
    shape: string;
    unit_ns: number;
  }
  /** The actions of a picture as lists of equal length, by rank and in order of time; null where there is none. */
  interface CellColumns {
    back_micro_batch: (number | null)[];
    back_shade: (number | null)[];
    back_stage: (number | null)[];
    cause: (number | null)[];
    end_ns: number[];
    kind: string[];
    micro_batch: number[];
    shade: number[];
    stage: number[];
    start_ns: number[];
  }
  /** A row of a picture. cells: first and one after the last of its cells. time_ns, held: its memory curve. */
  interface PictureRank {
    busy_ns: number;
    cells: number[];
    cool_down_ns: number;
    held: number[];
    idle_ns: number;
    idle_share: number;
    peak: number;
    rank: number;
    steady_ns: number;
    time_ns: number[];
    warm_up_ns: number;
  }
}

declare namespace comparison_block {
  /** What the page of a comparison holds. pictures: by row; null where the schedules are too large to hold them all. front: rows that no other beats in both time of devices and memory, from the fastest on. first: rows drawn at first. */
  interface Block {
    equal: string;
    facts: string[];
    first: number[];
    front: number[];
    impossible: ImpossibleRow[];
    laws: LawLine[];
    memory_cap: number | null;
    pictures: (PictureBlock | null)[];
    rows: ScheduleRow[];
    unit_ns: number;
  }
  /** One schedule that is impossible here. */
  interface ImpossibleRow {
    name: string;
    reason: string;
    title: string;
  }
  /** A law as the page lists it. */
  interface LawLine {
    formula: string;
    holding: string;
    title: string;
    which: string;
  }
  /** A simulated schedule as a page holds it; fields as in `Picture`, and what is said of it in words. */
  interface PictureBlock {
    boundary: string;
    bubble_ns: number;
    bubble_share: number;
    cells: CellColumns;
    headline: string;
    held_in: string;
    held_words: string;
    left_out: string;
    makespan_ns: number;
    memory_words: string;
    name: string;
    peak: number;
    peak_rank: number;
    ranks: PictureRank[];
    shades: string[];
    shape: string;
    unit_ns: number;
  }
  /** The actions of a picture as lists of equal length, by rank and in order of time; null where there is none. */
  interface CellColumns {
    back_micro_batch: (number | null)[];
    back_shade: (number | null)[];
    back_stage: (number | null)[];
    cause: (number | null)[];
    end_ns: number[];
    kind: string[];
    micro_batch: number[];
    shade: number[];
    stage: number[];
    start_ns: number[];
  }
  /** A row of a picture. cells: first and one after the last of its cells. time_ns, held: its memory curve. */
  interface PictureRank {
    busy_ns: number;
    cells: number[];
    cool_down_ns: number;
    held: number[];
    idle_ns: number;
    idle_share: number;
    peak: number;
    rank: number;
    steady_ns: number;
    time_ns: number[];
    warm_up_ns: number;
  }
  /** One schedule that is possible here. */
  interface ScheduleRow {
    /** Idle time of the device that idles most, simulated. */
    bubble_ns: number;
    /** bubble_ns / step_ns. */
    bubble_share: number;
    /** The law that holds; null where none is known. */
    exact: LawTold | null;
    /** Whether peak_activations is within the cap, if there is one. */
    fits: boolean;
    makespan_ns: number;
    name: string;
    /** What it asks of the model beside an order of chunks, or empty. */
    needs: string;
    num_devices: number;
    num_stages: number;
    /** That a device holds, in shares of the model. */
    parameters: number;
    /** Most that a device holds, in shares of a micro-batch. */
    peak_activations: number;
    /** Most that a device holds, by the costs' sizes; 0 without any. */
    peak_bytes: number;
    /** The law as published; null where none was. */
    published: LawTold | null;
    /** By the boundary: what decides how soon a step can follow another. */
    step_ns: number;
    title: string;
  }
  /** A formula for the bubble, and whether the simulation is as it says. */
  interface LawTold {
    /** What it gives here, which may be below 0; null where stages differ. */
    bubble_ns: number | null;
    /** bubble_ns - the simulated bubble. */
    difference_ns: number | null;
    /** With F, I, W, B, F&B of a chunk; PP stages, D devices. */
    formula: string;
    holds: boolean;
    /** Empty where it holds. */
    why_not: string;
  }
}

declare namespace profile_block {
  /** What the page of a profile holds. first_view_ns: what of the picture is seen at first: an inner layer or two. assumed: what tokens a second rest on. */
  interface Block {
    assumed: string[];
    bases: Basis[];
    by_micro_batch: PlannedPicture | null;
    compute_ns: number;
    configuration: Record<string, string>;
    exposed_ns: number;
    first_view_ns: number[];
    fused: boolean;
    gpus_per_node: number;
    held_up: string;
    hidden_fraction: number | null;
    idle_ns: number;
    layer_ns: number;
    phases: PhaseRow[];
    picture: PlannedPicture;
    rank_words: string;
    ranks: RankRow[];
    shape: string;
    tokens_per_gpu: number;
    tokens_per_node: number;
  }
  /** What the times of some phases rest on. */
  interface Basis {
    basis: string;
    phases: string[];
  }
  /** Lanes of a plan, which knows what waits for what across them. hidden: communication beside which some compute ran. */
  interface PlannedPicture {
    arrows: ArrowDocument[];
    basis: "device" | "host" | "none" | "ranges";
    busy: number[][];
    /** A duration in nanoseconds. */
    communication_ns: number;
    device: number | null;
    device_name: string;
    exposed: number[][];
    /** A duration in nanoseconds. */
    exposed_communication_ns: number;
    hidden: number[][];
    hidden_fraction: number | null;
    lanes: LaneDocument[];
    name: string;
    num_exposed: number;
    rank: number | null;
    simulated: boolean;
    /** A duration in nanoseconds. */
    span_ns: number;
  }
  /** What waits for what: work of one lane for the end of another's. Lanes are told by their place in the picture. */
  interface ArrowDocument {
    from_lane: number;
    from_ns: number;
    /** Whether the one that waits began just then: nothing else held it longer. */
    held: boolean;
    to_lane: number;
    to_ns: number;
  }
  /** One band of the lane picture: compute, communication, or whatever its name says. */
  interface LaneDocument {
    boxes: BoxDocument[];
    /** When it ran, in order: what pictures fill. */
    busy: number[][];
    /** A duration in nanoseconds. */
    busy_ns: number;
    lane: string;
    /** What `sms` counts: compute units (CUs) on AMD. */
    sm_unit: "CUs" | "SMs";
    /** SMs that it holds; null where no launch grid is recorded. */
    sms: number | null;
    /** False where sms is an upper bound. */
    sms_exact: boolean;
    streams: number[];
  }
  /** One stretch of a phase, or of a kernel family outside phases. It spans no wait of 30 µs or more, but in a lane of thousands of boxes, where only the longest waits part them. */
  interface BoxDocument {
    /** A duration in nanoseconds. */
    busy_ns: number;
    /** Forward, backward, weight gradient; null where none is told. */
    direction: "B" | "F" | "W" | null;
    end_ns: number;
    /** Which occurrence of the name it is, from 0. */
    index: number;
    /** What a plan says of a simulated phase; null where nothing does. */
    layer: number | null;
    /** As layer. */
    micro_batch: number | null;
    name: string;
    /** Of a transfer that holds no SM: the kernel that issues it, it, the kernel that ends it. */
    part?: "issue" | "receive" | "transfer";
    /** Number of the phase in the trace; boxes of one phase share it. */
    phase: number | null;
    sms: number | null;
    start_ns: number;
  }
  /** A row of `phase_table`. */
  interface PhaseRow {
    basis: string;
    busy_ns: number;
    exposed_ns: number | null;
    hidden_ns: number | null;
    kind: string;
    micro_batch: number;
    num_layers: number;
    phase: string;
  }
  /** A row of `stragglers`. */
  interface RankRow {
    communication_ns: number;
    compute_ns: number;
    last_in: number;
    meets: number;
    rank: number;
    waiting_ns: number;
  }
}

declare namespace path_block {
  /** A critical path as a page holds it. picture: None of one that was read from a file, which holds no ops. document: without its parts, and of long tables the first rows. roles: class -> colour. waits: those on the path that are not certain, the least sure first. */
  interface Block {
    document: CriticalPathDocument;
    num_waits: number;
    picture: PathPicture | null;
    roles: Record<string, string>;
    sensitivity: SensitivityDocument | null;
    told: Told;
    waits: WaitRow[];
  }
  /** What decided how long a measured run took. */
  interface CriticalPathDocument {
    /** Of the chain before the first start on a device; in no sum. */
    before_ns: number;
    /** By how an op came to run when it did. */
    by_cause: PartRow[];
    by_class: PartRow[];
    by_family: PartRow[];
    by_kernel: PartRow[];
    by_phase: PartRow[];
    by_rank: PartRow[];
    device_name: string;
    headline: string;
    kept: KeptTold;
    notes: string[];
    /** Of the inferred plan: on devices and on host threads. */
    num_ops: number;
    /** The plan's 0 on the trace's clock. */
    origin_ns: number;
    /** The path as columns, a row a part: parts lie end to end from the first start to the last end. */
    parts: Record<string, unknown[]>;
    ranks: number[];
    replay: ReplayTold;
    schema: string;
    slack: SlackRow[];
    /** The trace, or the job. */
    source: string;
    /** Of the path: the replayed span of the devices; of a step, the path's time in it. */
    span_ns: number;
    /** Of which alone the path is told; null for all of it. */
    step: number | null;
    steps: StepRow[];
    /** Those of the plan, by where they come from. */
    waits: WaitsRow[];
    waterfall: BarRow[];
    weakest: WeakestTold | null;
    /** The version that wrote it. */
    weftrace: string;
  }
  /** What of the path has one name. The rows of a table add up to the path's span. */
  interface PartRow {
    name: string;
    /** Of the path's span. */
    share: number;
    time_ns: number;
  }
  /** All that the replay keeps of the run besides measured durations and the waits. */
  interface KeptTold {
    /** How long before a kernel's end its SMs are free, the median. */
    drain_ns: number;
    /** Between two ops back to back on a stream, the median. */
    gap_ns: number;
    /** From a graph's launch to its first kernel, the median. */
    graph_latency_ns: number;
    /** From a launch call's end to its op's start, the median. */
    launch_latency_ns: number;
    /** Streams that start when they did, held up before the recording. */
    num_pinned: number;
    /** From a kernel's end to when a thread that polled for it went on, the median. */
    quiet_latency_ns: number;
    /** From an op's end to a waiter's start elsewhere, the median. */
    wait_latency_ns: number;
  }
  /** A replay of the inferred plan beside the measurement. */
  interface ReplayTold {
    /** Why the replay is not to be trusted, a clause each. */
    doubts: string[];
    /** replayed_ns / span_ns - 1. */
    error: number;
    /** Whether there are no doubts. */
    is_trustworthy: boolean;
    late_ns: number;
    /** Starts more than 10 µs after stream and launch let them. */
    late_starts: number;
    /** The same of the replay. */
    replayed_ns: number;
    /** Measured: from the first start on a device to the last end. */
    span_ns: number;
    unexplained_ns: number;
    /** Of these, those that no other wait of the plan explains. */
    unexplained_starts: number;
    /** Phase and occurrence whose end is farthest off. */
    worst_phase: string | null;
    /** By how much: replayed less measured end. */
    worst_phase_ns: number;
  }
  /** The ops of one phase, or outside phases, and how near they are to the path. */
  interface SlackRow {
    /** The least slack of them. */
    least_ns: number;
    median_ns: number;
    num_ops: number;
    /** Without slack: later by a ns, and the span is longer by one. */
    on_path: number;
    phase: string;
  }
  /** A step, and what decided how long it took. */
  interface StepRow {
    /** Of the path in the step; all rows add up to its span. */
    path_ns: number;
    /** On which most of that is. */
    rank: number;
    rank_ns: number;
    /** Null outside steps. */
    step: number | null;
    time_ns: number;
    /** Of that rank's part the phase, or kernel family, with the most time. */
    what: string;
  }
  /** The waits that come from one source. */
  interface WaitsRow {
    /** The mean: 1 of what is recorded; of votes, what they leave. */
    confidence: number;
    count: number;
    source: string;
    votes_against: number | null;
    /** Of all of them together; null where nothing was voted on. */
    votes_for: number | null;
  }
  /** A bar of the waterfall. All bars add up to the measured span. */
  interface BarRow {
    /** What the span would lose with none of it, all else as it is. */
    alone_ns: number | null;
    /** A class on the critical path, or the replay's error. */
    name: string;
    /** Of the measured span. */
    share: number;
    time_ns: number;
  }
  /** The wait on the path of which we are least sure. */
  interface WeakestTold {
    confidence: number;
    /** Of the op that waited. */
    name: string;
    /** Of the op that it waited for. */
    on_name: string;
    source: string;
    votes_against: number | null;
    votes_for: number | null;
  }
  /** A critical path on its streams. roles: colour of each class. left_out: ops, and rows, that are not drawn. */
  interface PathPicture {
    causes: string[];
    classes: string[];
    hops: HopColumns;
    left_out_ops: number;
    left_out_rows: number;
    names: string[];
    ops: OpColumns;
    parts: PartColumns;
    path: PathColumns;
    roles: string[];
    rows: PathRow[];
    span_ns: number;
  }
  /** Where the path passes from one row to another: positions in `rows`, and times. */
  interface HopColumns {
    from_ns: number[];
    from_row: number[];
    to_ns: number[];
    to_row: number[];
  }
  interface OpColumns {
    class: PackedColumn;
    dur: PackedColumn;
    name: PackedColumn;
    slack: PackedColumn;
    start: PackedColumn;
  }
  /** Little-endian numbers in base64. */
  interface PackedColumn {
    data: string;
    type: "f8" | "u1" | "u2" | "u4";
  }
  interface PartColumns {
    class: PackedColumn;
    dur: PackedColumn;
    name: PackedColumn;
  }
  interface PathColumns {
    cause: PackedColumn;
    class: PackedColumn;
    dur: PackedColumn;
    name: PackedColumn;
    start: PackedColumn;
    sure: PackedColumn;
    waited_for: PackedColumn;
  }
  /** A stream or host thread. first, count: its ops; path_first, path_count: its ops on the path. */
  interface PathRow {
    count: number;
    first: number;
    name: string;
    on_device: boolean;
    path_count: number;
    path_first: number;
    rank: number;
  }
  /** What it saves to make each class, family and phase a little faster, each alone. */
  interface SensitivityDocument {
    /** How much faster: 0.01 is 1 %. */
    by: number;
    curves: CurveTold[];
    device_name: string;
    headline: string;
    kept: KeptTold;
    notes: string[];
    ranks: number[];
    replay: ReplayTold;
    replayed_ns: number;
    /** What saves most first, within each kind. */
    rows: SensitivityRow[];
    schema: string;
    /** The trace, or the job. */
    source: string;
    waits: WaitsRow[];
    /** The version that wrote it. */
    weftrace: string;
  }
  /** The span over the speed of one selection. */
  interface CurveTold {
    /** The factor up to which it is flat. */
    knee: number;
    points: PointRow[];
    selector: string;
    /** Where it is flat, where its knee is, how steep it is. */
    sentence: string;
  }
  /** A point of a curve. */
  interface PointRow {
    /** span_ns over the replayed span, less 1. */
    change: number;
    /** Durations are multiplied by it. */
    factor: number;
    span_ns: number;
  }
  /** One selection, made faster alone. */
  interface SensitivityRow {
    /** Of that, what lies on the critical path. */
    critical_ns: number;
    /** class, family, phase or rank. */
    kind: string;
    /** By which the span is shorter. */
    saved_ns: number;
    /** As --scale takes it. */
    selector: string;
    /** saved_ns of the replayed span. */
    share: number;
    /** Of all its ops together. */
    time_ns: number;
  }
  /** What is said of the replay, of why it is not to be trusted, and of the wait of which we are least sure. */
  interface Told {
    doubts: string;
    kept: string;
    replay: string;
    weakest: string;
  }
  /** A wait on the path that is not certain. at_ns: when the op that waited started, from the first on a device. */
  interface WaitRow {
    at_ns: number;
    confidence: number;
    name: string;
    source: string;
    votes_against: number | null;
    votes_for: number | null;
    waited_for: string;
  }
}

declare namespace what_if_block {
  /** A what-if as its page holds it. before, after: None of one that was read from a file. */
  interface Block {
    after: PathPicture | null;
    before: PathPicture | null;
    document: WhatIfDocument;
    roles: Record<string, string>;
    told: Told;
  }
  /** A critical path on its streams. roles: colour of each class. left_out: ops, and rows, that are not drawn. */
  interface PathPicture {
    causes: string[];
    classes: string[];
    hops: HopColumns;
    left_out_ops: number;
    left_out_rows: number;
    names: string[];
    ops: OpColumns;
    parts: PartColumns;
    path: PathColumns;
    roles: string[];
    rows: PathRow[];
    span_ns: number;
  }
  /** Where the path passes from one row to another: positions in `rows`, and times. */
  interface HopColumns {
    from_ns: number[];
    from_row: number[];
    to_ns: number[];
    to_row: number[];
  }
  interface OpColumns {
    class: PackedColumn;
    dur: PackedColumn;
    name: PackedColumn;
    slack: PackedColumn;
    start: PackedColumn;
  }
  /** Little-endian numbers in base64. */
  interface PackedColumn {
    data: string;
    type: "f8" | "u1" | "u2" | "u4";
  }
  interface PartColumns {
    class: PackedColumn;
    dur: PackedColumn;
    name: PackedColumn;
  }
  interface PathColumns {
    cause: PackedColumn;
    class: PackedColumn;
    dur: PackedColumn;
    name: PackedColumn;
    start: PackedColumn;
    sure: PackedColumn;
    waited_for: PackedColumn;
  }
  /** A stream or host thread. first, count: its ops; path_first, path_count: its ops on the path. */
  interface PathRow {
    count: number;
    first: number;
    name: string;
    on_device: boolean;
    path_count: number;
    path_first: number;
    rank: number;
  }
  /** Changes tried on the plan of a measured run. Spans go from the first start on a device to the last end. */
  interface WhatIfDocument {
    /** The same after the change; adds up to after_ns. */
    after: PartRow[];
    /** Of the changed plan. */
    after_ns: number;
    after_phases: PartRow[];
    /** The critical path by class; adds up to replayed_ns. */
    before: PartRow[];
    before_phases: PartRow[];
    /** The largest class on the critical path after the change. */
    bottleneck: string;
    /** after_ns / replayed_ns - 1. */
    change: number;
    /** What was tried, all at once. */
    changes: string[];
    device_name: string;
    headline: string;
    /** Whether the replay is off by more than what is saved. */
    is_within_error: boolean;
    kept: KeptTold;
    /** Why the answer may not be valid. */
    limits: string[];
    notes: string[];
    ranks: number[];
    replay: ReplayTold;
    /** Of the plan as inferred. */
    replayed_ns: number;
    /** replayed_ns - after_ns; below 0 where the change makes it longer. */
    saved_ns: number;
    schema: string;
    /** The trace, or the job. */
    source: string;
    waits: WaitsRow[];
    /** On the path after the change. */
    weakest: WeakestTold | null;
    /** The version that wrote it. */
    weftrace: string;
  }
  /** What of the path has one name. The rows of a table add up to the path's span. */
  interface PartRow {
    name: string;
    /** Of the path's span. */
    share: number;
    time_ns: number;
  }
  /** All that the replay keeps of the run besides measured durations and the waits. */
  interface KeptTold {
    /** How long before a kernel's end its SMs are free, the median. */
    drain_ns: number;
    /** Between two ops back to back on a stream, the median. */
    gap_ns: number;
    /** From a graph's launch to its first kernel, the median. */
    graph_latency_ns: number;
    /** From a launch call's end to its op's start, the median. */
    launch_latency_ns: number;
    /** Streams that start when they did, held up before the recording. */
    num_pinned: number;
    /** From a kernel's end to when a thread that polled for it went on, the median. */
    quiet_latency_ns: number;
    /** From an op's end to a waiter's start elsewhere, the median. */
    wait_latency_ns: number;
  }
  /** A replay of the inferred plan beside the measurement. */
  interface ReplayTold {
    /** Why the replay is not to be trusted, a clause each. */
    doubts: string[];
    /** replayed_ns / span_ns - 1. */
    error: number;
    /** Whether there are no doubts. */
    is_trustworthy: boolean;
    late_ns: number;
    /** Starts more than 10 µs after stream and launch let them. */
    late_starts: number;
    /** The same of the replay. */
    replayed_ns: number;
    /** Measured: from the first start on a device to the last end. */
    span_ns: number;
    unexplained_ns: number;
    /** Of these, those that no other wait of the plan explains. */
    unexplained_starts: number;
    /** Phase and occurrence whose end is farthest off. */
    worst_phase: string | null;
    /** By how much: replayed less measured end. */
    worst_phase_ns: number;
  }
  /** The waits that come from one source. */
  interface WaitsRow {
    /** The mean: 1 of what is recorded; of votes, what they leave. */
    confidence: number;
    count: number;
    source: string;
    votes_against: number | null;
    /** Of all of them together; null where nothing was voted on. */
    votes_for: number | null;
  }
  /** The wait on the path of which we are least sure. */
  interface WeakestTold {
    confidence: number;
    /** Of the op that waited. */
    name: string;
    /** Of the op that it waited for. */
    on_name: string;
    source: string;
    votes_against: number | null;
    votes_for: number | null;
  }
  /** What is said of the replay, of why it is not to be trusted, and of the wait of which we are least sure. */
  interface Told {
    doubts: string;
    kept: string;
    replay: string;
    weakest: string;
  }
}

declare namespace sensitivity_block {
  /** A sensitivity as its page holds it. */
  interface Block {
    document: SensitivityDocument;
    told: Told;
  }
  /** What it saves to make each class, family and phase a little faster, each alone. */
  interface SensitivityDocument {
    /** How much faster: 0.01 is 1 %. */
    by: number;
    curves: CurveTold[];
    device_name: string;
    headline: string;
    kept: KeptTold;
    notes: string[];
    ranks: number[];
    replay: ReplayTold;
    replayed_ns: number;
    /** What saves most first, within each kind. */
    rows: SensitivityRow[];
    schema: string;
    /** The trace, or the job. */
    source: string;
    waits: WaitsRow[];
    /** The version that wrote it. */
    weftrace: string;
  }
  /** The span over the speed of one selection. */
  interface CurveTold {
    /** The factor up to which it is flat. */
    knee: number;
    points: PointRow[];
    selector: string;
    /** Where it is flat, where its knee is, how steep it is. */
    sentence: string;
  }
  /** A point of a curve. */
  interface PointRow {
    /** span_ns over the replayed span, less 1. */
    change: number;
    /** Durations are multiplied by it. */
    factor: number;
    span_ns: number;
  }
  /** All that the replay keeps of the run besides measured durations and the waits. */
  interface KeptTold {
    /** How long before a kernel's end its SMs are free, the median. */
    drain_ns: number;
    /** Between two ops back to back on a stream, the median. */
    gap_ns: number;
    /** From a graph's launch to its first kernel, the median. */
    graph_latency_ns: number;
    /** From a launch call's end to its op's start, the median. */
    launch_latency_ns: number;
    /** Streams that start when they did, held up before the recording. */
    num_pinned: number;
    /** From a kernel's end to when a thread that polled for it went on, the median. */
    quiet_latency_ns: number;
    /** From an op's end to a waiter's start elsewhere, the median. */
    wait_latency_ns: number;
  }
  /** A replay of the inferred plan beside the measurement. */
  interface ReplayTold {
    /** Why the replay is not to be trusted, a clause each. */
    doubts: string[];
    /** replayed_ns / span_ns - 1. */
    error: number;
    /** Whether there are no doubts. */
    is_trustworthy: boolean;
    late_ns: number;
    /** Starts more than 10 µs after stream and launch let them. */
    late_starts: number;
    /** The same of the replay. */
    replayed_ns: number;
    /** Measured: from the first start on a device to the last end. */
    span_ns: number;
    unexplained_ns: number;
    /** Of these, those that no other wait of the plan explains. */
    unexplained_starts: number;
    /** Phase and occurrence whose end is farthest off. */
    worst_phase: string | null;
    /** By how much: replayed less measured end. */
    worst_phase_ns: number;
  }
  /** One selection, made faster alone. */
  interface SensitivityRow {
    /** Of that, what lies on the critical path. */
    critical_ns: number;
    /** class, family, phase or rank. */
    kind: string;
    /** By which the span is shorter. */
    saved_ns: number;
    /** As --scale takes it. */
    selector: string;
    /** saved_ns of the replayed span. */
    share: number;
    /** Of all its ops together. */
    time_ns: number;
  }
  /** The waits that come from one source. */
  interface WaitsRow {
    /** The mean: 1 of what is recorded; of votes, what they leave. */
    confidence: number;
    count: number;
    source: string;
    votes_against: number | null;
    /** Of all of them together; null where nothing was voted on. */
    votes_for: number | null;
  }
  /** What is said of the replay, of why it is not to be trusted, and of the wait of which we are least sure. */
  interface Told {
    doubts: string;
    kept: string;
    replay: string;
    weakest: string;
  }
}

declare namespace diff_block {
  /** What the page of a comparison holds. document: of long lists of movers the first rows. bars: of the waterfall. begin_ns: where its axis begins. ranks: pictures; none of a comparison that was read from a file. */
  interface Block {
    bars: BarTold[];
    begin_ns: number;
    document: DiffDocument;
    ranks: RankPicture[];
  }
  /** A bar between the step before and the one after. All of them add up to the change of the median step, exactly. why: by what most of it came about, as tables say it. role: its colour. is_noise: None where it is not asked, or one step tells nothing. */
  interface BarTold {
    by_duration_ns: number;
    by_kernel_ns: number;
    by_number_ns: number;
    by_overlap_ns: number;
    change_ns: number;
    is_noise: boolean | null;
    name: string;
    role: string;
    why: string;
  }
  /** What changed in a step, from one run to another. */
  interface DiffDocument {
    after: SideTold;
    before: SideTold;
    /** Of jobs of several ranks. */
    by_rank: RankRow[];
    /** Of the median step. */
    change_ns: number;
    /** Of the mean step; null: one step tells nothing. */
    difference: DifferenceTold | null;
    gates: GateRow[];
    headline: string;
    /** Whether the steps' lengths differ by no more than within a run; null: one step tells nothing. */
    is_noise: boolean | null;
    /** Of jobs of several ranks; the largest change first. */
    lateness: LatenessRow[];
    movers: Movers;
    /** What is missing or left out, and which ranks one run alone has. */
    notes: string[];
    parts: PartRow[];
    /** Change of the median step less that of the mean step. */
    remainder_ns: number;
    schema: string;
    verdict: VerdictTold;
    /** The version that wrote it. */
    weftrace: string;
  }
  /** One of the two runs, as far as it is compared. */
  interface SideTold {
    dropped: DroppedStep[];
    /** Files that could not be used, and why. */
    failures: string[];
    /** Their upper quartile. */
    high_ns: number;
    /** Their lower quartile. */
    low_ns: number;
    /** Of the steps' lengths. */
    median_ns: number;
    ranks: RankTold[];
    source: string;
    steps: StepTold[];
  }
  /** A step that is left out. */
  interface DroppedStep {
    step: number;
    why: string;
  }
  /** A device of a rank that both runs have. */
  interface RankTold {
    device: number | null;
    path: string;
    rank: number | null;
    simulated: boolean;
  }
  /** A step that counts. */
  interface StepTold {
    /** Its length, mean over ranks. */
    span_ns: number;
    /** Null where the run has no steps: the whole recording is the one. */
    step: number | null;
  }
  /** A rank that both runs have, in order: its mean step, and what changed most of it. */
  interface RankRow {
    after_ns: number;
    before_ns: number;
    cause: string | null;
    change_ns: number;
    device: number | null;
    part: string | null;
    part_change_ns: number;
    rank: number | null;
  }
  /** By how much the mean steps differ, and from where to where, as far as steps of one run each tell. */
  interface DifferenceTold {
    change_ns: number;
    /** That the true difference lies between them: 0.98. */
    confidence: number;
    high_ns: number;
    low_ns: number;
  }
  /** A limit that was asked for, and whether it was met. */
  interface GateRow {
    after: number | null;
    /** Null where it is undefined. */
    before: number | null;
    /** On which side of the limit it fails. */
    direction: "above" | "below";
    /** As it was written: `exposed`, `family:gemm`. */
    figure: string;
    /** Null where the runs are not comparable: gates are not judged. */
    is_met: boolean | null;
    /** Whether it is no larger than what steps of one run differ by; null where one step tells nothing. */
    is_noise: boolean | null;
    /** By how much it may change, as it was written: 5%, 300us. */
    limit: string;
    sentence: string;
    /** What before and after are in. */
    unit: "ns" | "number" | "share";
  }
  /** For how long ranks waited, exposed, because this one came last: of a step, mean over ranks. */
  interface LatenessRow {
    after_ns: number;
    after_raw_ns: number;
    before_ns: number;
    /** With what computation hid of the waiting. */
    before_raw_ns: number;
    change_ns: number;
    /** As `cause` of its part: rank 2. */
    name: string;
    /** What changed on it, the largest first, without its own waiting. */
    own: OwnRow[];
    /** Null where it has no number, or one run alone has it. */
    rank: number | null;
  }
  /** What changed on a rank itself, in a step of this rank. */
  interface OwnRow {
    cause: string | null;
    change_ns: number;
    family: string | null;
    part: string;
  }
  /** Who changed, each list with the largest change first. */
  interface Movers {
    family: MoverRow[];
    kernel: MoverRow[];
    operator: MoverRow[];
    phase: MoverRow[];
  }
  /** A family, kernel, operator or phase: what it adds to a step, idle time that it ends left out. */
  interface MoverRow {
    after_name: string | null;
    after_ns: number;
    after_num: number;
    after_raw_ns: number;
    /** As the run has it; of several, the one with most time. */
    before_name: string | null;
    /** Own time: by which it lengthens the step. */
    before_ns: number;
    /** Launches in a step. */
    before_num: number;
    /** Durations in a step, hidden or not. */
    before_raw_ns: number;
    by_duration_ns: number;
    by_kernel_ns: number;
    by_number_ns: number;
    by_overlap_ns: number;
    /** Of communication: data or barrier; of waiting, for whom. */
    cause: string | null;
    change_ns: number;
    /** Whether it is no larger than what steps of one run differ by; null where one step tells nothing. */
    is_noise: boolean | null;
    /** Compute, communication, memory or fused, of most of its time. */
    kind: string | null;
    /** Name, or the rule by which names are one; of replaced, what both launch from; null of others. */
    matched_by: string | null;
    /** Common to both runs; … where names differ that are summed. */
    name: string;
    /** Of the step, whose time it is; a name has a row a part and cause. */
    part: string;
    /** Of replaced kernels: what stands in their place, and adds. */
    replaced_by: string | null;
    status: "both" | "gone" | "new" | "replaced";
  }
  /** A part of a step and its cause. All rows and `remainder_ns` add up to `change_ns` of the document, exactly. */
  interface PartRow {
    after_ns: number;
    before_ns: number;
    /** Of change_ns: longer or shorter ones. */
    by_duration_ns: number;
    /** Of change_ns: kernels that one run alone has. */
    by_kernel_ns: number;
    /** Of change_ns: more or fewer launches, or gaps. */
    by_number_ns: number;
    /** Of change_ns: hidden more or less, or beside its like. */
    by_overlap_ns: number;
    /** Of idle time: what was waited for. Of communication: data or barrier; of waiting, for whom. */
    cause: string | null;
    change_ns: number;
    /** Whether it is no larger than what steps of one run differ by; null where one step tells nothing. */
    is_noise: boolean | null;
    part: string;
  }
  /** Whether what changed may be read as the effect of a change. */
  interface VerdictTold {
    facts: FactRow[];
    /** What differs, the gravest first. */
    reasons: string[];
    word: "comparable" | "comparable, but" | "not comparable";
  }
  /** What both runs, or one of them, say of themselves. */
  interface FactRow {
    after: string;
    before: string;
    name: string;
  }
  /** A rank, before and after. change_ns: of its mean step. missing: why one of them is not drawn. */
  interface RankPicture {
    after: RunPicture | null;
    before: RunPicture | null;
    change_ns: number;
    missing: string[];
    name: string;
  }
  /** A rank of one of the two runs. shown: position in `steps` of the median step. num_steps: of how many. */
  interface RunPicture {
    labels: LabelRow[];
    num_steps: number;
    shown: number;
    steps: StepPicture[];
  }
  /** Whose an event is, by all the names that a mover may have. name: of the kernel, as its run has it; the others are those by which both runs are aligned. replacement: a number that kernels in each other's place share. */
  interface LabelRow {
    family: string;
    kernel: string;
    kind: string;
    name: string;
    operator: string | null;
    phase: string | null;
    replacement: number | null;
  }
  /** A step of a rank: its lanes, and the events of its device by stream and start. start, dur: ns; label: position in `RunPicture.labels`. left_out: events that are not listed, the shortest. */
  interface StepPicture {
    dur: PackedColumn;
    label: PackedColumn;
    lanes: PlannedPicture;
    left_out: number;
    rows: EventRow[];
    start: PackedColumn;
    step: number | null;
  }
  /** Little-endian numbers in base64. */
  interface PackedColumn {
    data: string;
    type: "f8" | "u1" | "u2" | "u4";
  }
  /** Lanes of a plan, which knows what waits for what across them. hidden: communication beside which some compute ran. */
  interface PlannedPicture {
    arrows: ArrowDocument[];
    basis: "device" | "host" | "none" | "ranges";
    busy: number[][];
    /** A duration in nanoseconds. */
    communication_ns: number;
    device: number | null;
    device_name: string;
    exposed: number[][];
    /** A duration in nanoseconds. */
    exposed_communication_ns: number;
    hidden: number[][];
    hidden_fraction: number | null;
    lanes: LaneDocument[];
    name: string;
    num_exposed: number;
    rank: number | null;
    simulated: boolean;
    /** A duration in nanoseconds. */
    span_ns: number;
  }
  /** What waits for what: work of one lane for the end of another's. Lanes are told by their place in the picture. */
  interface ArrowDocument {
    from_lane: number;
    from_ns: number;
    /** Whether the one that waits began just then: nothing else held it longer. */
    held: boolean;
    to_lane: number;
    to_ns: number;
  }
  /** One band of the lane picture: compute, communication, or whatever its name says. */
  interface LaneDocument {
    boxes: BoxDocument[];
    /** When it ran, in order: what pictures fill. */
    busy: number[][];
    /** A duration in nanoseconds. */
    busy_ns: number;
    lane: string;
    /** What `sms` counts: compute units (CUs) on AMD. */
    sm_unit: "CUs" | "SMs";
    /** SMs that it holds; null where no launch grid is recorded. */
    sms: number | null;
    /** False where sms is an upper bound. */
    sms_exact: boolean;
    streams: number[];
  }
  /** One stretch of a phase, or of a kernel family outside phases. It spans no wait of 30 µs or more, but in a lane of thousands of boxes, where only the longest waits part them. */
  interface BoxDocument {
    /** A duration in nanoseconds. */
    busy_ns: number;
    /** Forward, backward, weight gradient; null where none is told. */
    direction: "B" | "F" | "W" | null;
    end_ns: number;
    /** Which occurrence of the name it is, from 0. */
    index: number;
    /** What a plan says of a simulated phase; null where nothing does. */
    layer: number | null;
    /** As layer. */
    micro_batch: number | null;
    name: string;
    /** Of a transfer that holds no SM: the kernel that issues it, it, the kernel that ends it. */
    part?: "issue" | "receive" | "transfer";
    /** Number of the phase in the trace; boxes of one phase share it. */
    phase: number | null;
    sms: number | null;
    start_ns: number;
  }
  /** A stream: its events in `StepPicture.start`, `dur` and `label`. */
  interface EventRow {
    count: number;
    first: number;
    stream: number;
  }
}
