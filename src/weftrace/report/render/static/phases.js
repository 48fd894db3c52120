// What does a phase cost on average, how much of it is hidden, and what do the collectives move?

import { byId, h } from "render/dom.js";
import { bytes, grouped } from "render/format.js";
import { columnsOf, kindChip, showTable } from "render/tables.js";

const MEAN_COLUMNS = "name lane count mean_busy_ns mean_data_ns mean_hidden_ns mean_exposed_ns hidden_share";
const COLLECTIVE_COLUMNS = "collective num_events busy_ns data_ns barrier_ns hidden_ns exposed_ns";
const SIZE_COLUMNS = " payload_bytes algbw_GBps busbw_GBps";

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
  showTable("phase-table", {
    name: "phases",
    rows: means,
    limit: 24,
    sort: { key: "", down: false },
    columns: columnsOf("phases", MEAN_COLUMNS, {
      name: { node: (row) => h("b", { class: "phase-name", text: row.name, title: row.name }) },
      lane: { node: (row) => kindChip(row.lane) },
      mean_busy_ns: { bar: (row) => row.mean_busy_ns / longest },
      mean_data_ns: { value: only("communication", "mean_data_ns") },
      mean_hidden_ns: { value: only("communication", "mean_hidden_ns") },
      mean_exposed_ns: { value: only("communication", "mean_exposed_ns") },
      hidden_share: {
        label: "hidden %",
        kind: "percent",
        def: "hidden",
        value: (row) =>
          row.lane === "communication" ? row.mean_hidden_ns / (row.mean_hidden_ns + row.mean_exposed_ns || 1) : null,
      },
    }),
  });
}

/** @param {Collective[]} collectives */
function showCollectives(collectives) {
  const busiest = Math.max(1, ...collectives.map((collective) => collective.busy_ns));
  const sized = collectives.some((collective) => collective.payload_bytes !== null);
  /** @param {"algbw_GBps" | "busbw_GBps"} key */
  const rate = (key) => (/** @type {Collective} */ row) => (row[key] === null ? "–" : grouped(row[key], 1));
  showTable("collective-table", {
    name: "collectives",
    rows: collectives,
    limit: 16,
    sort: { key: "busy_ns", down: true },
    columns: columnsOf("collectives", COLLECTIVE_COLUMNS + (sized ? SIZE_COLUMNS : ""), {
      collective: { node: (row) => h("b", { text: row.collective }) },
      busy_ns: { bar: (row) => row.busy_ns / busiest },
      payload_bytes: { kind: "count", text: (row) => bytes(row.payload_bytes) },
      algbw_GBps: { text: rate("algbw_GBps") },
      busbw_GBps: { text: rate("busbw_GBps") },
    }),
  });
}
