// Which schedule gives most for its memory? Each as a point: the best lie down and to the left.

import { digitsFor, drawnToWidth, grid, roundTicks, svg } from "render/svg.js";
import { hideTip, showTip, tipPlace, tipRows } from "render/tooltip.js";
import { timeText } from "./schedule_text.js";

const LEFT = 46;
const RIGHT = 24;
const TOP = 14;
const BOTTOM = 38;
const HEIGHT = 340;
const LINE = 15;

/** @typedef {{ x: (value: number) => number, y: (value: number) => number, width: number }} Place */

/**
 * Draws the points into an element; returns a function that draws again. onRow(row): a point was chosen.
 * @param {HTMLElement} holder
 * @param {page.Comparison} block
 * @param {Set<number>} shown
 * @param {(row: number) => void} onRow
 */
export function tradeOff(holder, block, shown, onRow) {
  if (!block.rows.length) {
    holder.textContent = "No schedule is possible here.";
    return () => {};
  }
  const times = block.rows.map((row) => timeOf(block, row));
  const held = block.rows.map((row) => row.peak_activations);
  const [low, high] = [Math.min(...times), Math.max(...times)];
  const margin = (high - low || high || 1) * 0.06;
  const most = Math.max(...held, block.memory_cap ?? 0) * 1.08;
  return drawnToWidth(holder, (width) => {
    /** @param {number} value */
    const x = (value) => LEFT + ((value - low + margin) / (high - low + 2 * margin)) * (width - LEFT - RIGHT);
    /** @param {number} value */
    const y = (value) => TOP + (1 - value / most) * (HEIGHT - TOP - BOTTOM);
    const across = roundTicks(low - margin, high + margin, Math.min(8, width / 110));
    const up = roundTicks(0, most, 6);
    const line = block.front.map((at, i) => `${i ? "L" : "M"}${x(times[at]).toFixed(1)} ${y(held[at]).toFixed(1)}`);
    return svg(
      "svg",
      { class: "chart", width, height: HEIGHT, role: "group", "aria-label": "Time against memory, a point a schedule" },
      [
        grid({
          values: up.values,
          y,
          left: LEFT,
          right: width - RIGHT,
          text: (value) => value.toFixed(digitsFor(up.step)),
        }),
        across.values.map((value) => [
          svg("line", { class: "grid", x1: x(value), x2: x(value), y1: TOP, y2: HEIGHT - BOTTOM }),
          svg("text", {
            class: "tick",
            x: x(value),
            y: HEIGHT - BOTTOM + 15,
            "text-anchor": x(value) > width - 60 ? "end" : "middle",
            text: timeText(block, value),
          }),
        ]),
        svg("text", { class: "tick", x: width - RIGHT, y: HEIGHT - 6, "text-anchor": "end", text: axisText(block) }),
        svg("text", { class: "tick", x: 2, y: TOP - 3, text: "activations held at most ↑" }),
        block.memory_cap === null ? null : capLine(block.memory_cap, y, width),
        svg("path", { class: "frontier", d: line.join("") }),
        points(block, { x, y, width }, shown, onRow),
      ],
    );
  });
}

/**
 * How long a step is; of schedules on different numbers of devices, what it takes of all of them.
 * @param {page.Comparison} block
 * @param {page.Comparison["rows"][number]} row
 */
function timeOf(block, row) {
  return block.equal === "devices" ? row.step_ns : row.step_ns * row.num_devices;
}

/** @param {page.Comparison} block */
function axisText(block) {
  return block.equal === "devices" ? "step →" : "step x devices →";
}

/**
 * @param {number} cap
 * @param {(value: number) => number} y
 * @param {number} width
 */
function capLine(cap, y, width) {
  return [
    svg("line", { class: "cap", x1: LEFT, x2: width - RIGHT, y1: y(cap), y2: y(cap) }),
    svg("text", { class: "tick", x: width - RIGHT, y: y(cap) - 4, "text-anchor": "end", text: `room for ${cap}` }),
  ];
}

/**
 * The points, those that share a place as one, and their names, moved apart where they would lie over each other.
 * @param {page.Comparison} block
 * @param {Place} place
 * @param {Set<number>} shown
 * @param {(row: number) => void} onRow
 */
function points(block, { x, y, width }, shown, onRow) {
  /** @type {Map<string, number[]>} */
  const spots = new Map();
  block.rows.forEach((row, at) => {
    const key = `${Math.round(x(timeOf(block, row)))} ${Math.round(y(row.peak_activations))}`;
    spots.set(key, [...(spots.get(key) ?? []), at]);
  });
  /** @type {{ left: number, right: number, y: number }[]} */
  const taken = [];
  return [...spots.values()].map((rows) => {
    const first = block.rows[rows[0]];
    const [cx, cy] = [x(timeOf(block, first)), y(first.peak_activations)];
    const text = rows.map((at) => block.rows[at].title).join(", ");
    const wide = text.length * 7;
    const atLeft = cx + 11 + wide > width;
    const left = atLeft ? cx - 11 - wide : cx + 11;
    let down = cy + 4;
    while (taken.some((box) => box.left < left + wide && box.right > left && Math.abs(box.y - down) < LINE))
      down -= LINE;
    taken.push({ left, right: left + wide, y: down });
    return [
      dot(
        block,
        rows,
        { cx, cy },
        rows.some((at) => shown.has(at)),
        onRow,
      ),
      svg("text", {
        class: "point-word",
        x: atLeft ? cx - 11 : left,
        y: down,
        "text-anchor": atLeft ? "end" : "start",
        text,
      }),
    ];
  });
}

/**
 * @param {page.Comparison} block
 * @param {number[]} rows
 * @param {{ cx: number, cy: number }} at
 * @param {boolean} on
 * @param {(row: number) => void} onRow
 */
function dot(block, rows, { cx, cy }, on, onRow) {
  const row = block.rows[rows[0]];
  const name = rows.map((each) => block.rows[each].title).join(", ");
  /** @param {Event} event */
  const tell = (event) => {
    const box = circle.getBoundingClientRect();
    showTip(
      ...tipPlace(event, box.right, box.top),
      ...tipRows(name, null, [
        ["step", timeText(block, row.step_ns)],
        ["bubble", timeText(block, row.bubble_ns)],
        ["activations", String(row.peak_activations)],
        ["devices", String(row.num_devices)],
      ]),
    );
  };
  const circle = svg("circle", {
    class: `point ${on ? "on" : ""} ${row.fits ? "" : "over"}`,
    cx,
    cy,
    r: 6,
    tabindex: "0",
    role: "button",
    "aria-pressed": String(on),
    "aria-label": `${name}: step ${timeText(block, row.step_ns)}, ${row.peak_activations} activations`,
    data: { row: rows[0] },
    on: {
      pointermove: tell,
      pointerleave: hideTip,
      focus: tell,
      blur: hideTip,
      click: () => rows.forEach(onRow),
      keydown: (event) => {
        if (event.key === "Enter") rows.forEach(onRow);
      },
    },
  });
  return circle;
}
