// What pages call the parts of their documents. By their place in the document, so that its own names may change.

/** The definitions of a page: key -> [term, what it means]. */
type Terms = Record<string, [string, string]>;

interface Window {
  /** What the page shows, for people at the console and for tests. */
  weftrace: unknown;
}

interface Uint8ArrayConstructor {
  /** Not in every browser yet. */
  fromBase64?(text: string): Uint8Array<ArrayBuffer>;
}

declare namespace page {
  type Report = report.Document;
  type Rank = Report["ranks"][number];
  /** A report as its page holds it: some fields of ranks, named in `details`, stand in a block a rank. */
  type ReportBlock = Report & { details: Record<"rank" | "idle_account" | "lane", string[]> };
  type RankBlock = {
    rank: Record<string, unknown>;
    idle_account: Record<string, unknown>;
    lane: Record<string, unknown>[];
  };
  type Lateness = NonNullable<Report["lateness"]>;
  type LateRank = Lateness["ranks"][number];
  type SlowRank = NonNullable<Report["slow_work"]>["ranks"][number];
  type Efficiency = NonNullable<Rank["efficiency"]>;
  type Bandwidth = NonNullable<Report["bandwidth"]>;
  type Slowdown = NonNullable<Report["slowdown"]>;
  type Cause = Slowdown["causes"][number];
  type Phase = Rank["phases"][number];
  type Lane = Rank["lanes"][number];
  type LaneBox = Lane["boxes"][number];
  /** What the lane picture is drawn from: a rank of a report, or a simulated profile's lanes, which know what waits. */
  type Lanes = Pick<
    Rank,
    "basis" | "span_ns" | "communication_ns" | "exposed_communication_ns" | "busy" | "lanes" | "exposed"
  > & { phases?: Phase[]; hidden?: number[][]; arrows?: profile_block.ArrowDocument[] };
  type Stream = Rank["streams"][number];
  type Step = Rank["steps"][number];
  type IdleCauses = NonNullable<Rank["idle_causes"]>;
  type Launch = NonNullable<Rank["launch"]>;
  type Timeline = timeline_block.Block;

  /** A placement as its page holds it: `placement_block`. */
  type Placement = Omit<placement.Document, "moves"> & {
    moves: Moves | null;
    meanings: Record<string, string>;
    words: Record<string, string>;
  };
  type Moves = Omit<NonNullable<placement.Document["moves"]>, "list"> & { list: moves_block.Block };
  type NextWindowRow = NonNullable<placement.Document["next_windows"]>["rows"][number];
  type Certificate = NonNullable<placement.Document["certificate"]>;
  type Policy = NonNullable<placement.Document["choice"]>;
  type PolicyCost = Policy["costs"][number];

  /** A replay as its page holds it: `replay_block`. */
  type Replay = replay.Document & { names: string[] };
  type ReplayRow = Replay["rows"][number];
  type ReplaySeries = Replay["series"][number];

  /** Simulated pipeline schedules: `PageBlock`. */
  type Schedules = schedules_block.Block;
  type Schedule = Schedules["pictures"][number];

  /** A comparison of pipeline schedules: `ComparisonBlock`. */
  type Comparison = comparison_block.Block;

  /** A simulated profile of mixture-of-experts layers: `ProfileBlock`. */
  type Profile = profile_block.Block;
  type ProfileSweep = profile_sweep.Document;
  type Pays = profile_pays.Document;
  type Validation = profile_validation.Document;

  /** A critical path: `PathBlock`; its picture, which pages of several hold too; and a what-if: `WhatIfBlock`. */
  type PathBlock = path_block.Block;
  type PathPicture = NonNullable<PathBlock["picture"]>;
  type WhatIfBlock = what_if_block.Block;
  type SensitivityBlock = sensitivity_block.Block;

  /** A comparison of two runs: `DiffBlock`. */
  type DiffBlock = diff_block.Block;
  type Mover = DiffBlock["document"]["movers"]["kernel"][number];
  type RankPicture = DiffBlock["ranks"][number];
  type RunPicture = NonNullable<RankPicture["before"]>;
  type StepPicture = RunPicture["steps"][number];

  type Flops = flops_block.Block;
  type PhaseName = Flops["phases"][number]["phase"];
}
