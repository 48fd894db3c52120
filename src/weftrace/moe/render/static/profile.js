// The page of a simulated profile: what a layer costs, its lanes, its phases, and how its ranks differ.

import { card } from "render/cards.js";
import { showConfiguration } from "render/configuration.js";
import { byId, choiceButtons, fact, fill, h } from "render/dom.js";
import { duration, grouped, percent } from "render/format.js";
import { lanePicture } from "render/lanes.js";
import { startPage } from "render/start.js";
import { columnsOf, kindChip, showTable } from "render/tables.js";

/** @typedef {page.Profile["phases"][number]} Phase */
/** @typedef {page.Profile["ranks"][number]} RankRow */

startPage("weftrace-profile", (/** @type {page.Profile} */ block) => {
  byId("facts").textContent = block.shape;
  fill(byId("cards"), cards(block));
  showConfiguration(block.configuration);
  const lanes = lanePicture({
    accounts: () => ({ compute: [], communication: [], hidden: [], exposed: [], busy: [] }),
    onBox: () => {},
    onRange: () => {},
  });
  const [from, to] = block.first_view_ns;
  show("together");
  lanes.view.set(from, to);
  showPhases(block);
  showRanks(block);
  return { block, lanes, show };

  /** @param {"together" | "apart"} by */
  function show(by) {
    const { start, end } = lanes.view;
    lanes.show(by === "apart" && block.by_micro_batch ? block.by_micro_batch : block.picture, null);
    if (end > start + 1) lanes.view.set(start, end);
    const choices = /** @type {const} */ ([
      ["together", "Two bands"],
      ["apart", "A lane for each micro-batch"],
    ]);
    fill(
      byId("lanes-by"),
      block.by_micro_batch
        ? choiceButtons(
            choices,
            ([, words]) => words,
            ([key]) => key === by,
            ([key]) => show(key),
          )
        : null,
    );
  }
});

/** @param {page.Profile} block */
function cards(block) {
  /** @param {number} ns */
  const share = (ns) => `${percent(ns / block.layer_ns)} of a layer`;
  const communicates = block.hidden_fraction !== null;
  const none = block.fused ? "one kernel computes and communicates: not separable" : "no communication";
  return [
    card(
      "tokens",
      "tokens/s a GPU",
      grouped(block.tokens_per_gpu, 0),
      `${grouped(block.tokens_per_node, 0)} a node of ${block.gpus_per_node}; ${block.assumed.join("; ")}`,
    ),
    card("layer", "a layer", duration(block.layer_ns, 4), `held up by ${block.held_up}`),
    card(
      "hidden",
      "hidden",
      percent(block.hidden_fraction),
      communicates ? "of communication runs beside computation" : none,
      "hidden",
    ),
    card(
      "exposed",
      "exposed",
      communicates ? duration(block.exposed_ns) : "–",
      communicates ? share(block.exposed_ns) : none,
      "exposed",
    ),
    card("idle", "idle", duration(block.idle_ns), share(block.idle_ns)),
  ];
}

/** @param {page.Profile} block */
function showPhases({ phases, bases }) {
  const [{ num_layers: num } = { num_layers: 0 }] = phases;
  byId("phase-lead").textContent =
    `Mean of ${num} layer${num === 1 ? "" : "s"}${num > 1 ? ", without the first and the last" : ""}. ` +
    "Busy counts kernels in every lane, without the gaps between them; a box of the picture spans one lane.";
  const longest = Math.max(1, ...phases.map((row) => row.busy_ns));
  const several = new Set(phases.map((row) => row.micro_batch)).size > 1;
  const keys = ["phase", ...(several ? ["micro_batch"] : []), "kind", "busy_ns", "hidden_ns", "exposed_ns"];
  /** @type {import("render/tables.js").Column<Phase>[]} */
  const columns = columnsOf("phases", keys, {
    phase: { wide: false, node: (row) => h("b", { class: "phase-name", text: row.phase, title: row.phase }) },
    kind: { node: (row) => kindChip(row.kind) },
    busy_ns: { bar: (row) => row.busy_ns / longest },
  });
  showTable("phase-table", { name: "phases", columns, rows: phases });
  fill(
    byId("bases"),
    bases.map((each) => fact(each.phases.join(", "), each.basis)),
  );
}

/** @param {page.Profile} block */
function showRanks({ ranks, rank_words: words }) {
  byId("ranks").hidden = ranks.length < 2;
  if (ranks.length < 2) return;
  byId("rank-lead").textContent = words;
  const longest = Math.max(1, ...ranks.map((row) => row.compute_ns + row.communication_ns));
  showTable("rank-table", {
    name: "ranks",
    rows: ranks,
    limit: 16,
    sort: { key: "last_in", down: true },
    columns: columnsOf("ranks", ["rank", "compute_ns", "communication_ns", "waiting_ns", "last_in", "meets"], {
      compute_ns: { bar: (row) => row.compute_ns / longest },
      communication_ns: { bar: (row) => row.communication_ns / longest },
      waiting_ns: { bar: (row) => row.waiting_ns / longest },
    }),
  });
}
