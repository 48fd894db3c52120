// What must be copied to get from the placement before to this one, and between whom?

import { byId, fill, h, fact } from "render/dom.js";
import { duration, grouped, plural, si, smallPercent } from "render/format.js";
import {
  columnPicker,
  drawnToWidth,
  evenColumns,
  grid,
  roundTicks,
  barIn,
  columnNames,
  svgRect,
  svgChart,
} from "render/svg.js";
import { balance } from "./words.js";
import { sortableTable } from "render/tables.js";
import { defined, tipRows } from "render/tooltip.js";

/**
 * @typedef {import("render/dom.js").Child} Child
 * @typedef {import("./placement_model.js").PlacementModel} PlacementModel
 * @typedef {ReturnType<typeof rowsOf>[number]} Row
 *
 * Bars up, and bars down where `lower` is given.
 * @typedef {object} Bars
 * @property {number[]} upper
 * @property {number[]} [lower]
 * @property {string} axis
 * @property {(i: number) => number} [named] number that a bar is called by; its place where not given
 * @property {(i: number) => Child[]} tip
 * @property {(i: number) => void} [onPick]
 */

const LEFT = 46;
const RIGHT = 10;
const TOP = 10;
const BOTTOM = 22;
const HEIGHT = 170;
const UNPRICED = "unknown"; // the size of an expert is

/**
 * The section about moves. onLayer(layer) when a layer is chosen. Returns show(layer).
 * @param {PlacementModel} model
 * @param {(layer: number) => void} onLayer
 * @returns {(layer: number) => void}
 */
export function movesSection(model, onLayer) {
  const { moves } = model.document;
  byId("moves").hidden = !moves;
  if (!moves) return () => {};
  const list = rowsOf(moves.list, model);
  byId("moves-lead").textContent = leadWords(moves);
  showFacts(moves, list);
  byId("moves-pictures").hidden = moves.num_moves === 0;
  if (moves.num_moves === 0) return () => {};
  showCharts(model, list, onLayer);
  const table = moveTable();
  fill(byId("moves-table"), table.element);
  return (layer) => {
    byId("moves-title").textContent = `Moves of layer ${model.numberOf(layer)}`;
    table.setRows(list.filter((move) => move.layer === layer));
  };
}

/**
 * @param {page.Moves} moves
 * @param {Row[]} list
 */
function showFacts(moves, list) {
  const remote = list.filter((move) => move.where === "other node").length;
  const local = list.filter((move) => move.where === "same GPU").length;
  const lost = list.filter((move) => move.fromSlot < 0).length;
  /** @type {[term: string, word: string, value: string][]} */
  const facts = [
    ["moves", "moves", grouped(moves.num_moves)],
    ["moves", "to copy", moves.bytes === null ? UNPRICED : si(moves.bytes, "B")],
    ["move_time", "estimated time", moves.time_s === null ? UNPRICED : duration(moves.time_s * 1e9)],
    ["break_even", "pays after", payWords(moves)],
    ["rounds", "rounds", grouped(moves.rounds)],
    ["moves", "from the same GPU", grouped(local)],
    ["moves", "from another node", grouped(remote)],
  ];
  if (lost) facts.push(["moves", "from storage", grouped(lost)]);
  fill(
    byId("moves-facts"),
    facts.map(([key, word, value]) => fact(defined(key, word), value)),
  );
}

/** @param {page.Moves} moves */
function payWords({ saved_s_per_step: saved, break_even_steps: steps }) {
  if (saved === null) return UNPRICED;
  return steps === null ? "never" : plural(steps, "step");
}

/**
 * How many moves by layer, and by GPU.
 * @param {PlacementModel} model
 * @param {Row[]} list
 * @param {(layer: number) => void} onLayer
 */
function showCharts(model, list, onLayer) {
  const perLayer = counted(list, model.numLayers, (move) => move.layer);
  drawnToWidth(byId("moves-layers"), (width) =>
    bars(width, {
      upper: perLayer,
      axis: "layer",
      named: model.numberOf,
      onPick: onLayer,
      tip: (layer) =>
        tipRows(`Layer ${model.numberOf(layer)}`, null, [
          ["moves", grouped(perLayer[layer])],
          ["of its slots", smallPercent(perLayer[layer] / model.document.num_slots)],
        ]),
    }),
  );
  const received = counted(list, model.numGpus, (move) => move.toGpu);
  const sent = counted(
    list.filter((move) => move.fromSlot >= 0),
    model.numGpus,
    (move) => move.fromGpu,
  );
  drawnToWidth(byId("moves-gpus"), (width) =>
    bars(width, {
      upper: received,
      lower: sent,
      axis: "GPU",
      tip: (gpu) =>
        tipRows(`GPU ${gpu}, node ${model.nodeOf(gpu)}`, null, [
          ["receives", plural(received[gpu], "expert")],
          ["sends", plural(sent[gpu], "expert")],
        ]),
    }),
  );
}

function moveTable() {
  return sortableTable({
    name: "moves",
    /** @type {Row[]} */
    rows: [],
    limit: 10,
    sort: { key: "round", down: false },
    empty: "No moves in this layer.",
    columns: [
      { key: "round", label: "round", kind: "count", def: "rounds" },
      { key: "expert", label: "expert", kind: "count" },
      {
        key: "from",
        label: "from",
        kind: "text",
        value: (row) => row.fromSlot,
        node: (row) => h("span", { text: row.fromSlot < 0 ? "storage" : `slot ${row.fromSlot}, GPU ${row.fromGpu}` }),
      },
      {
        key: "to",
        label: "to",
        kind: "text",
        value: (row) => row.slot,
        node: (row) => h("span", { text: `slot ${row.slot}, GPU ${row.toGpu}` }),
      },
      { key: "where", label: "over", kind: "text" },
    ],
  });
}

/**
 * The moves as rows.
 * @param {page.Moves["list"]} columns
 * @param {PlacementModel} model
 */
function rowsOf(columns, model) {
  return columns.round.map((_, at) => {
    const slot = columns.slot[at];
    const fromSlot = columns.from_slot[at];
    const toGpu = model.gpuOf(slot);
    const fromGpu = fromSlot < 0 ? -1 : model.gpuOf(fromSlot);
    const where =
      fromSlot < 0
        ? "storage"
        : fromGpu === toGpu
          ? "same GPU"
          : model.nodeOf(fromGpu) === model.nodeOf(toGpu)
            ? "same node"
            : "other node";
    return {
      round: columns.round[at],
      layer: columns.layer[at],
      expert: columns.expert[at],
      slot,
      fromSlot,
      toGpu,
      fromGpu,
      where,
    };
  });
}

/**
 * @param {Row[]} rows
 * @param {number} size
 * @param {(row: Row) => number} index
 */
function counted(rows, size, index) {
  /** @type {number[]} */
  const counts = Array(size).fill(0);
  for (const row of rows) counts[index(row)] += 1;
  return counts;
}

/**
 * Bars up, and where `lower` is given bars down from the same line.
 * @param {number} width
 * @param {Bars} chart
 */
function bars(width, { upper, lower, axis, named = (i) => i, tip, onPick }) {
  const count = upper.length;
  const cell = (width - LEFT - RIGHT) / count;
  const columns = evenColumns(count, LEFT, cell);
  const x = columns.from;
  const up = Math.max(1, ...upper);
  const down = lower ? Math.max(1, ...lower) : 0;
  const floor = HEIGHT - BOTTOM;
  /** @param {number} value */
  const y = (value) => TOP + ((up - value) / (up + down)) * (floor - TOP);
  const { thick, inset } = barIn(cell, 30);
  const ticks = roundTicks(-down, up, 4).values.filter(Number.isInteger);
  const mark = svgRect("column", 0, TOP, 1, floor - TOP);
  const drawn = svgChart(
    width,
    HEIGHT,
    `Moves by ${axis}; arrow keys move`,
    [
      grid({ values: ticks, y, left: LEFT, right: width - RIGHT, text: (value) => grouped(Math.abs(value)) }),
      mark,
      upper.map((value, i) => svgRect("received", x(i) + inset, y(value), thick, y(0) - y(value))),
      (lower ?? []).map((value, i) => svgRect("sent", x(i) + inset, y(0), thick, y(-value) - y(0))),
      columnNames({ count, cell, x, floor, left: LEFT }, axis, named),
    ],
    { class: `chart ${onPick ? "picks" : ""}` },
  );
  columnPicker(drawn, { ...columns, mark, tip, onPick });
  return drawn;
}

/** @param {page.Moves} moves */
function leadWords(moves) {
  if (moves.num_moves === 0) return "Nothing has to move.";
  const share = smallPercent(moves.num_moves / moves.num_slots);
  const what = `${plural(moves.num_moves, "slot")} of ${grouped(moves.num_slots)} (${share}) take another expert`;
  const [before, after] = [balance(moves.before_balancedness), balance(moves.after_balancedness)];
  return `${what}: balancedness ${before} before, ${after} after.`;
}
