// What does a phase cost on average, how much of it is hidden, and what do the collectives move?

import { byId, fill, h } from "render/dom.js";
import { bytes, grouped } from "render/format.js";
import { kindChip, sortableTable } from "render/tables.js";

/**
 * @typedef {page.Rank["phase_means"][number]} Mean
 * @typedef {page.Rank["collectives"][number]} Collective
 */

/** @param {page.Rank} rank */
export function showPhases({ phase_means: means, collectives }) {
  byId("phases").hidden = !means.length && !collectives.length;
  byId("phase-box").hidden = !means.length;
  byId("collective-box").hidden = !collectives.length;
  if (means.length) showMeans(means);
  if (collectives.length) showCollectives(collectives);
}

/** @param {Mean[]} means */
function showMeans(means) {
  const longest = Math.max(1, ...means.map((mean) => mean.mean_busy_ns));
  /**
   * @param {string} lane
   * @param {keyof Mean} key
   */
  const only = (lane, key) => (/** @type {Mean} */ row) => (row.lane === lane ? row[key] : null);
  fill(
    byId("phase-table"),
    sortableTable({
      name: "phases",
      rows: means,
      limit: 24,
      sort: { key: "", down: false },
      columns: [
        {
          key: "name",
          label: "phase",
          kind: "text",
          node: (row) => h("b", { class: "phase-name", text: row.name, title: row.name }),
        },
        { key: "lane", label: "lane", kind: "text", def: "lane", node: (row) => kindChip(row.lane) },
        { key: "count", label: "times", kind: "count" },
        {
          key: "mean_busy_ns",
          label: "mean busy",
          kind: "time",
          def: "busy",
          bar: (row) => row.mean_busy_ns / longest,
        },
        {
          key: "mean_data_ns",
          label: "moves data",
          kind: "time",
          def: "data_barrier",
          value: only("communication", "mean_data_ns"),
        },
        {
          key: "mean_hidden_ns",
          label: "hidden",
          kind: "time",
          def: "hidden",
          value: only("communication", "mean_hidden_ns"),
        },
        {
          key: "mean_exposed_ns",
          label: "exposed",
          kind: "time",
          def: "exposed",
          value: only("communication", "mean_exposed_ns"),
        },
        {
          key: "hidden_share",
          label: "hidden %",
          kind: "percent",
          def: "hidden",
          value: (row) =>
            row.lane === "communication" ? row.mean_hidden_ns / (row.mean_hidden_ns + row.mean_exposed_ns || 1) : null,
        },
      ],
    }).element,
  );
}

/** @param {Collective[]} collectives */
function showCollectives(collectives) {
  const busiest = Math.max(1, ...collectives.map((collective) => collective.busy_ns));
  const sized = collectives.some((collective) => collective.payload_bytes !== null);
  /** @param {"algbw_GBps" | "busbw_GBps"} key */
  const rate = (key) => (/** @type {Collective} */ row) => (row[key] === null ? "–" : grouped(row[key], 1));
  /** @type {import("render/tables.js").Column<Collective>[]} */
  const sizes = [
    { key: "payload_bytes", label: "payload", kind: "count", text: (row) => bytes(row.payload_bytes) },
    { key: "algbw_GBps", label: "algbw GB/s", kind: "count", def: "algbw", text: rate("algbw_GBps") },
    { key: "busbw_GBps", label: "busbw GB/s", kind: "count", text: rate("busbw_GBps") },
  ];
  fill(
    byId("collective-table"),
    sortableTable({
      name: "collectives",
      rows: collectives,
      limit: 16,
      sort: { key: "busy_ns", down: true },
      columns: [
        { key: "collective", label: "collective", kind: "text", node: (row) => h("b", { text: row.collective }) },
        { key: "num_events", label: "events", kind: "count" },
        { key: "busy_ns", label: "busy", kind: "time", def: "busy", bar: (row) => row.busy_ns / busiest },
        { key: "data_ns", label: "moves data", kind: "time", def: "data_barrier" },
        { key: "barrier_ns", label: "waits", kind: "time", def: "data_barrier" },
        { key: "hidden_ns", label: "hidden", kind: "time", def: "hidden" },
        { key: "exposed_ns", label: "exposed", kind: "time", def: "exposed" },
        ...(sized ? sizes : []),
      ],
    }).element,
  );
}
