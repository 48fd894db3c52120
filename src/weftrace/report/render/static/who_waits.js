// Who waits for whom, and in which collectives most?

import { byId, fill, h } from "render/dom.js";
import { count, duration, percent, plural } from "render/format.js";
import { heatGrid, ramp } from "render/heat_grid.js";
import { NEAR_ABSENT } from "render/slowdown.js";
import { columnsOf, sortableTable } from "render/tables.js";
import { tipRows } from "render/tooltip.js";
import { isPipeline, originsOf } from "./job.js";

/**
 * @typedef {import("./job.js").Job} Job
 * @typedef {import("./job.js").JobRank} JobRank
 */

const MOST_IN_MATRIX = 64; // ranks: of more, the largest pairs are listed
const MOST_NAMED = 8;
const BY_NATURE = "Stages of a pipeline also wait while it fills and drains.";
const WITH_WHOM =
  "Largest first, by the rank that caused most of the waiting. The rank that enters last may have waited itself.";
const IN_PIPELINES =
  "Ranks that make the step longest come first. The rank that enters last may have waited itself. " + BY_NATURE;
const AROUND = 0.5; // of a wait: shown beside it when it is zoomed to

/**
 * @param {Job} job
 * @param {{ onOpen: (rank: JobRank, window: null) => void, onZoom: (from: number, to: number) => void }} handlers
 */
export function whoWaits(job, { onOpen, onZoom }) {
  const { lateness } = job;
  byId("job-waits").hidden = !lateness?.pairs.length;
  byId("job-collectives").hidden = !lateness?.collectives.length;
  byId("job-clocks").textContent = clockWords(job);
  if (!lateness) return null;
  const absent = job.slowdown?.absent ? ` ${NEAR_ABSENT}` : "";
  byId("worst-words").textContent =
    `${isPipeline(job) ? IN_PIPELINES : WITH_WHOM}${absent} Click a row to see it above.`;
  if (lateness.collectives.length) {
    fill(byId("kind-table"), kindTable(job, lateness));
    fill(byId("worst-table"), worstTable(job, lateness, onZoom));
  }
  if (!lateness.pairs.length) return null;
  if (job.ranks.length > MOST_IN_MATRIX) {
    byId("pair-words").textContent =
      `The pairs with most waiting, of ${plural(job.ranks.length, "rank")}` +
      (lateness.pairs_left_ns ? `; pairs that are not listed waited ${duration(lateness.pairs_left_ns)}.` : ".");
    fill(byId("pair-map"), pairTable(job, lateness, onOpen));
    return null;
  }
  byId("pair-words").textContent =
    "Row: the rank that waited. Column: the rank that entered last. Click a cell to open the rank that entered last." +
    (isPipeline(job) ? ` ${BY_NATURE}` : "");
  return pairMap(job, lateness, onOpen);
}

/**
 * @param {Job} job
 * @param {page.Lateness} lateness
 * @param {(rank: JobRank, window: null) => void} onOpen
 */
function pairMap({ ranks }, { pairs }, onOpen) {
  const waited = new Map(pairs.map(([waiter, last, ns, num]) => [waiter * ranks.length + last, { ns, num }]));
  const names = ranks.map(({ name }) => name);
  const short = names.every((name) => /^rank \d+$/.test(name)) ? names.map((name) => name.slice(5)) : names;
  const grid = heatGrid(byId("pair-map"), "pairs", (_, column) => onOpen(ranks[column], null));
  const high = Math.max(...pairs.map(([, , ns]) => ns));
  grid.show({
    rows: names,
    columns: short,
    value: (row, column) => (row === column ? null : (waited.get(row * ranks.length + column)?.ns ?? 0)),
    low: 0,
    high,
    role: "waiting",
    widest: 32,
    row: (row, column) => {
      const pair = waited.get(row * ranks.length + column);
      return { waiter: names[row], last: names[column], waiting_ns: pair?.ns ?? 0, num: pair?.num ?? 0 };
    },
    label: `Who waits for whom, ${plural(ranks.length, "rank")}`,
    tip: (row, column) => {
      const pair = waited.get(row * ranks.length + column);
      return tipRows(`${names[row]} waited for ${names[column]}`, null, [
        ["waited", duration(pair?.ns ?? 0)],
        ["in", plural(pair?.num ?? 0, "collective")],
      ]);
    },
  });
  fill(byId("pair-legend"), ramp("waiting", ["0", duration(high / 2), duration(high)]));
  return grid;
}

/**
 * @param {Job} job
 * @param {page.Lateness} lateness
 * @param {(rank: JobRank, window: null) => void} onOpen
 */
function pairTable({ ranks }, { pairs }, onOpen) {
  const rows = pairs.map(([waiter, last, waiting_ns, num]) => ({
    waiter: ranks[waiter].name,
    last: ranks[last].name,
    waiting_ns,
    num,
    opens: ranks[last],
  }));
  return sortableTable({
    name: "pairs",
    rows,
    limit: 20,
    sort: { key: "waiting_ns", down: true },
    onRow: (row) => onOpen(row.opens, null),
    columns: [
      { key: "waiter", label: "waits", kind: "text" },
      { key: "last", label: "for", kind: "text" },
      { key: "waiting_ns", label: "waited", kind: "time", def: "waiting" },
      { key: "num", label: "collectives", kind: "count" },
    ],
  }).element;
}

/**
 * @param {Job} job
 * @param {page.Lateness} lateness
 */
function kindTable(job, { collectives }) {
  const { ranks } = job;
  const origin = !isPipeline(job) && collectives.some((row) => row.origin !== undefined) ? "origin " : "";
  return sortableTable({
    name: "late-kinds",
    rows: collectives.map((row) => ({
      ...row,
      last: ranks[row.last].name,
      origin: ranks[row.origin ?? -1]?.name,
      part: (row.origin_ns ?? 0) / (row.waiting_ns || 1),
    })),
    limit: 8,
    sort: { key: "waiting_ns", down: true },
    columns: columnsOf("late-kinds", `collective num waiting_ns transfer_ns share ${origin}last`, {
      share: {
        label: "waiting %",
        kind: "percent",
        value: (row) => row.waiting_ns / (row.waiting_ns + row.transfer_ns || 1),
      },
      origin: {
        kind: "text",
        text: (row) => (row.origin ? `${row.origin} (${percent(row.part, 0)})` : "–"),
        value: (row) => row.origin_ns,
      },
      last: {
        kind: "text",
        text: (row) => `${row.last}, ${count(row.num_last)} times (${percent(row.num_last / (row.num || 1), 0)})`,
        value: (row) => row.num_last,
      },
    }),
  }).element;
}

/**
 * @param {Job} job
 * @param {page.Lateness} lateness
 * @param {(from: number, to: number) => void} onZoom
 */
function worstTable(job, { worst }, onZoom) {
  const { ranks } = job;
  const originOf = originsOf(job);
  const by = isPipeline(job) ? { label: "makes the step longer by", def: "slowdown_rank" } : {};
  const group = worst.some((row) => row.group) ? "group " : "";
  const origin = worst.some((row) => originOf(row)) ? "origin " : "";
  const step = worst.some((row) => row.step !== null) ? "step " : "";
  return sortableTable({
    name: "late-worst",
    rows: worst.map((row) => ({ ...row, last: ranks[row.last].name, origin: originOf(row)?.name ?? null })),
    limit: 10,
    sort: { key: "waiting_ns", down: true },
    onRow: (row) => {
      // Who waited longest came at most as much before the last as all of them waited together.
      const longest = Math.max(row.caused_ns, row.waiting_ns / Math.max(1, ranks.length - 1));
      const length = longest + row.transfer_ns / ranks.length;
      onZoom(row.start_ns - longest - AROUND * length, row.start_ns + row.transfer_ns / ranks.length + AROUND * length);
    },
    columns: columnsOf(
      "late-worst",
      `collective ${group}${step}${origin}waiting_ns last caused_ns start_ns transfer_ns`,
      {
        collective: { text: (row) => `${row.collective} ${row.seq ?? ""}`.trim() },
        group: { node: (row) => h("span", { text: groupName(row.group), title: row.group }) },
        origin: { kind: "text", ...by, node: (row) => h("b", { text: row.origin ?? "–" }) },
        last: { kind: "text" },
      },
    ),
  }).element;
}

/**
 * A process group, and of many ranks in it only how many.
 * @param {string} group its name and, where they are recorded, its ranks: "tp [0, 1, 2, 3]"
 */
function groupName(group) {
  const [, name, ranks] = group.match(/^(.*?)\s*\[([\d, ]*)\]$/) ?? [];
  const num = ranks?.split(",").length ?? 0;
  return num > MOST_NAMED ? `${name} (${num} ranks)`.trim() : group || "–";
}

/**
 * What the common clock, and so all of lateness, rests on.
 * @param {Job} job
 */
function clockWords({ lateness }) {
  if (!lateness) return "No collective could be matched across the ranks, so each row uses its own clock, unshifted.";
  const { by, num_unmatched: unmatched, not_the_same: apart } = lateness;
  const how = [by.sequence ? `${count(by.sequence)} by number` : null, by.order ? `${count(by.order)} by order` : null];
  const without = lateness.ranks.filter(({ num_matched: num }) => num === 0).map(({ name }) => name);
  const more = without.length > MOST_NAMED ? ` and ${without.length - MOST_NAMED} more` : "";
  const parts = [
    `${plural(lateness.num_matched, "collective")} matched across ranks (${how.filter(Boolean).join(", ")}).`,
    lateness.clocks_applied
      ? "The clock offsets of the ranks were subtracted."
      : "No clock offsets were subtracted, because they are small or unknown.",
    `Clocks and ends of one collective are known to ${duration(lateness.uncertainty_ns)} (median), ` +
      "so shorter waits are not shown.",
    unmatched ? `${plural(unmatched, "communication event")} found no partner.` : null,
    apart
      ? `${plural(apart, "pair")} matched by order did not end together and ` +
        `${apart === 1 ? "was" : "were"} left out.`
      : null,
    without.length ? `Without a match: ${without.slice(0, MOST_NAMED).join(", ")}${more}.` : null,
    ...lateness.notes.map((note) => `${note.charAt(0).toUpperCase()}${note.slice(1)}.`),
  ];
  return parts.filter(Boolean).join(" ");
}
