// A canvas of cells that answers: to the pointer, to the arrow keys, to a click and to Enter.

import { hideTip, showTip } from "./tooltip.js";

/** @type {Record<string, [down: number, right: number]>} */
const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

/**
 * What a canvas of cells knows of them. x and y are its pixels.
 * @template Cell
 * @typedef {object} Cells
 * @property {(x: number, y: number) => Cell | null} at
 * @property {(down: number, right: number) => Cell | null} beside the cell that is so many from the one pointed at
 * @property {(cell: Cell) => { x: number, y: number }} place where it is in the window
 * @property {(cell: Cell) => import("./dom.js").Child[]} tip
 * @property {(cell: Cell | null) => void} point it is pointed at, or nothing is
 * @property {(cell: Cell) => void} pick
 */

/**
 * @template Cell
 * @param {HTMLCanvasElement} canvas
 * @param {HTMLElement} live where what the keys point at is told
 * @param {Cells<Cell>} cells
 */
export function answeringCells(canvas, live, { at, beside, place, tip, point, pick }) {
  /** @type {Cell | null} */
  let current = null;
  /**
   * @param {Cell | null} cell
   * @param {{ x: number, y: number }} from
   */
  const tell = (cell, { x, y }) => {
    current = cell;
    point(cell);
    if (cell) showTip(x, y, ...tip(cell));
    else hideTip();
  };
  const leave = () => tell(null, { x: 0, y: 0 });
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    tell(at(event.clientX - box.left, event.clientY - box.top), event);
  });
  canvas.addEventListener("pointerleave", leave);
  canvas.addEventListener("blur", leave);
  canvas.addEventListener("click", () => current && pick(current));
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && current) pick(current);
    const cell = STEPS[event.key] && beside(...STEPS[event.key]);
    if (!cell) return;
    event.preventDefault();
    tell(cell, place(cell));
    live.textContent = tip(cell)
      .map((node) => (node instanceof Node ? node.textContent : node))
      .join(", ");
  });
}
