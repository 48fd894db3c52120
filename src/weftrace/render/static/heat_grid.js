// A heat map: rows by columns, one number a cell, one colour by its size. Where there are more cells than fit, several
// share one, which then shows the largest of them.

import { answeringCells } from "./cells.js";
import { fill, h, oncePerFrame, sizedContext } from "./dom.js";
import { exportTools } from "./exports.js";
import { labelEvery } from "./svg.js";
import { mix, onTheme, palette, SANS } from "./theme.js";

/**
 * @typedef {import("./dom.js").Child} Child
 *
 * What a map shows. value: null where there is none. low, high: what the ends of the scale stand for; more than high is
 * as dark as it.
 * @typedef {object} Values
 * @property {string[]} rows
 * @property {string[]} columns
 * @property {(row: number, column: number) => number | null} value
 * @property {number} low
 * @property {number} high
 * @property {string} role
 * @property {number} widest pixels of a cell
 * @property {string} label what it is, for those who cannot see it
 * @property {(row: number, column: number) => Child[]} tip
 * @property {(rows: number, columns: number) => void} [onPlaced] told how many rows and columns share a cell
 * @property {(row: number, column: number) => Record<string, string | number | null>} row a cell, to take along
 *
 * A cell as drawn: the largest of those that share it, which is in this row and column.
 * @typedef {{ row: number, column: number, value: number | null }} Cell
 *
 * Where cells are. rowsPer, columnsPer: how many share one.
 * @typedef {object} Place
 * @property {number} left
 * @property {number} wide
 * @property {number} tall
 * @property {number} rowsPer
 * @property {number} columnsPer
 * @property {Cell[][]} cells
 */

const TOP = 24;
const LEAST = 5; // pixels: a cell is at least as wide and as high
const TALLEST = 24;
const ROOM = 660; // pixels that rows share
const MOST_NAME = 110;
const FONT = `11.5px ${SANS}`;

/**
 * A heat map in a holder: {show(values), place(row, column) for tests}.
 * @param {HTMLElement} holder
 * @param {string} name of the table that it stands for
 * @param {(row: number, column: number) => void} onPick
 * @param {boolean} [opens] whether a cell that is picked opens anything
 */
export function heatGrid(holder, name, onPick, opens = true) {
  const canvas = h("canvas", { class: "pointing", tabindex: 0, role: "img" });
  const live = h("p", { class: "sr", "aria-live": "polite" });
  /** @type {Values | null} */
  let shown = null;
  /** @type {Place | null} */
  let place = null;
  /** @type {[down: number, right: number] | null} */
  let at = null;
  const draw = oncePerFrame(paint);
  fill(holder, exportTools(name, rows), canvas, live);
  onTheme(draw);
  new ResizeObserver(() => {
    place = null;
    draw();
  }).observe(holder);

  /** @param {[down: number, right: number]} cell */
  const shownIn = ([down, right]) => place?.cells[down][right] ?? null;
  /** @type {import("./cells.js").Cells<[down: number, right: number]>} */
  const cells = {
    at: cellAt,
    beside: (down, right) => {
      if (!place) return null;
      const [row, column] = at ?? [-down, -right];
      return [within(row + down, place.cells), within(column + right, place.cells[0])];
    },
    place: ([down, right]) => {
      const { left, top } = canvas.getBoundingClientRect();
      const { left: start = 0, wide = 0, tall = 0 } = place ?? {};
      return { x: left + start + right * wide, y: top + TOP + down * tall };
    },
    tip: (cell) => {
      const of = shownIn(cell);
      return of && shown ? shown.tip(of.row, of.column) : [];
    },
    point: (cell) => {
      at = cell;
      draw();
    },
    pick: (cell) => {
      const of = shownIn(cell);
      if (of && of.value !== null) onPick(of.row, of.column);
    },
  };
  answeringCells(canvas, live, cells);

  /** Every cell that has a value, as a row to take along. */
  function rows() {
    if (!shown) return [];
    const { rows: down, columns: right, value, row } = shown;
    return down.flatMap((_, i) => right.flatMap((__, j) => (value(i, j) === null ? [] : [row(i, j)])));
  }

  /**
   * @param {number} x
   * @param {number} y
   * @returns {[down: number, right: number] | null}
   */
  function cellAt(x, y) {
    if (!place) return null;
    const [down, right] = [Math.floor((y - TOP) / place.tall), Math.floor((x - place.left) / place.wide)];
    return down >= 0 && right >= 0 && down < place.cells.length && right < place.cells[0].length ? [down, right] : null;
  }

  function paint() {
    const width = holder.clientWidth;
    if (!shown || width < 20) return;
    if (!place) {
      place = placed(shown, width, canvas);
      shown.onPlaced?.(place.rowsPer, place.columnsPer);
    }
    const context = sizedContext(canvas, width, TOP + place.cells.length * place.tall + 2);
    context.clearRect(0, 0, width, canvas.height);
    paintCells(context, shown, place);
    paintLabels(context, shown, place);
    if (!at) return;
    context.strokeStyle = palette().text;
    context.lineWidth = 1.5;
    context.strokeRect(place.left + at[1] * place.wide, TOP + at[0] * place.tall, place.wide - 1, place.tall - 1);
  }

  return {
    /** @param {Values} values */
    show: (values) => {
      shown = values;
      place = null;
      at = null;
      canvas.setAttribute("aria-label", `${values.label}. Arrow keys move${opens ? ", Enter opens" : ""}.`);
      paint();
    },
    /**
     * The middle of a cell in the window, null until the map is painted as it stands; for tests.
     * @param {number} row
     * @param {number} column
     */
    place: (row, column) => {
      if (!place) return null;
      const box = canvas.getBoundingClientRect();
      return {
        x: box.left + place.left + (Math.floor(column / place.columnsPer) + 0.5) * place.wide,
        y: box.top + TOP + (Math.floor(row / place.rowsPer) + 0.5) * place.tall,
      };
    },
  };
}

/**
 * @param {number} index
 * @param {unknown[]} list
 */
function within(index, list) {
  return Math.max(0, Math.min(list.length - 1, index));
}

/**
 * @param {Values} values
 * @param {number} width
 * @param {HTMLCanvasElement} canvas
 * @returns {Place}
 */
function placed(values, width, canvas) {
  const context = sizedContext(canvas, width, 1);
  context.font = FONT;
  const widest = Math.max(...values.rows.map((name) => context.measureText(name).width));
  const left = Math.ceil(Math.min(MOST_NAME, widest)) + 10;
  const columnsPer = Math.ceil((values.columns.length * LEAST) / (width - left - 2));
  const rowsPer = Math.ceil((values.rows.length * LEAST) / ROOM);
  const numColumns = Math.ceil(values.columns.length / columnsPer);
  const numRows = Math.ceil(values.rows.length / rowsPer);
  const cells = Array.from({ length: numRows }, (_, down) =>
    Array.from({ length: numColumns }, (_, right) =>
      largest(values, down * rowsPer, right * columnsPer, rowsPer, columnsPer),
    ),
  );
  const named = Math.max(...values.columns.map((name) => context.measureText(name).width)) + 10;
  const wide = Math.min(Math.max(values.widest, named), (width - left - 2) / numColumns);
  return { left, wide, tall: Math.min(TALLEST, Math.floor(ROOM / numRows)), rowsPer, columnsPer, cells };
}

/**
 * @param {Values} values
 * @param {number} top
 * @param {number} left
 * @param {number} rows
 * @param {number} columns
 */
function largest(values, top, left, rows, columns) {
  /** @type {Cell} */
  const best = { row: top, column: left, value: null };
  for (let row = top; row < Math.min(values.rows.length, top + rows); row += 1) {
    for (let column = left; column < Math.min(values.columns.length, left + columns); column += 1) {
      const value = values.value(row, column);
      if (value === null || (best.value !== null && value <= best.value)) continue;
      Object.assign(best, { row, column, value });
    }
  }
  return best;
}

/**
 * How dark a value is: 0 to 1 of the scale.
 * @param {Values} values
 * @param {number} value
 */
function darkness({ low, high }, value) {
  return Math.max(0, Math.min(1, (value - low) / (high - low || 1)));
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Values} values
 * @param {Place} place
 */
function paintCells(context, values, { cells, left, wide, tall }) {
  const colors = palette();
  const gapX = wide >= 8 ? 1 : 0;
  const gapY = tall >= 8 ? 1 : 0;
  cells.forEach((line, down) => {
    line.forEach(({ value }, right) => {
      if (value === null) return;
      context.fillStyle = mix(colors.raised, colors[values.role], darkness(values, value));
      context.fillRect(left + right * wide, TOP + down * tall, wide - gapX, tall - gapY);
    });
  });
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Values} values
 * @param {Place} place
 */
function paintLabels(context, { rows, columns }, { cells, left, wide, tall, rowsPer, columnsPer }) {
  context.font = FONT;
  context.fillStyle = palette().muted;
  context.textBaseline = "middle";
  context.textAlign = "right";
  const every = labelEvery(cells.length, tall, 12);
  for (let down = 0; down < cells.length; down += every) {
    context.fillText(rows[down * rowsPer], left - 7, TOP + (down + 0.5) * tall, left - 8);
  }
  context.textAlign = "center";
  const widest = Math.max(...columns.map((name) => context.measureText(name).width));
  const step = labelEvery(cells[0]?.length ?? 1, wide, widest + 10);
  for (let right = 0; right < (cells[0]?.length ?? 0); right += step) {
    context.fillText(columns[right * columnsPer], left + (right + 0.5) * wide, TOP - 11);
  }
}

/**
 * What the colours of a map stand for: its scale, with the numbers at its ends and in the middle.
 * @param {string} role
 * @param {string[]} words
 */
export function ramp(role, words) {
  return h(
    "div",
    { class: "ramp", role: "img", "aria-label": `from ${words[0]}, pale, to ${words[words.length - 1]}, dark` },
    h("div", {
      class: "ramp-colors",
      style: { background: `linear-gradient(to right, var(--raised), var(--${role}))` },
    }),
    h(
      "div",
      { class: "ramp-words" },
      words.map((text) => h("span", { text })),
    ),
  );
}
