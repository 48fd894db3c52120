// Which gestures move a picture: wheel, drag, keys. The same for the lane picture and the timeline.

import { onScroll } from "./dom.js";

/**
 * @typedef {import("./viewport.js").Viewport} Viewport
 * @typedef {(x: number) => number} Time
 * @typedef {(event: MouseEvent) => [number, number]} Local
 *
 * A press of the pointer, and the view when it began. from: the time under it.
 * @typedef {object} Press
 * @property {number} x
 * @property {number} y
 * @property {number} lastY
 * @property {number} start
 * @property {number} end
 * @property {number} from
 * @property {boolean} ranging
 * @property {boolean} moved
 */

const DRAG_PX = 3; // below it a press is a click
const DOUBLE_PX = 6; // the two clicks of a double click lie no farther apart ...
const DOUBLE_MS = 1000; // ... in time neither, whatever the reader's system counts as one
const ARM_PX = 4; // the pointer must have moved this far over the picture before the wheel belongs to it

/**
 * What gestures do. x and y are pixels within the element.
 * @typedef {object} Handlers
 * @property {() => number} left where the picture begins
 * @property {() => number} width how wide it is
 * @property {(x: number, y: number, event: PointerEvent) => void} [hover]
 * @property {() => void} [leave]
 * @property {(x: number, y: number, event: MouseEvent) => void} [click]
 * @property {(x: number, y: number) => void} [double]
 * @property {(from: number, to: number, finished: boolean) => void} [range] a range was drawn, or is being drawn
 * @property {() => boolean} [ranging] whether a plain drag selects a range; shift and drag always does
 * @property {(dy: number) => void} [scroll]
 */

/**
 * Attaches the gestures to an element that shows `view` between handlers.left() and handlers.left() + handlers.width().
 * @param {HTMLElement} element
 * @param {Viewport} view
 * @param {Handlers} handlers
 */
export function attachGestures(element, view, handlers) {
  /** @param {number} x */
  const time = (x) => view.start + ((x - handlers.left()) / handlers.width()) * view.length;
  /**
   * @param {MouseEvent} event
   * @returns {[number, number]}
   */
  const local = (event) => {
    const at = element.getBoundingClientRect();
    return [event.clientX - at.left, event.clientY - at.top];
  };
  attachWheel(element, view, time, local);
  attachDrag(element, view, handlers, time, local);
  element.addEventListener("pointerleave", () => handlers.leave?.());
  // What was under the pointer has moved away, and so does what was said of it.
  view.onChange(() => handlers.leave?.());
}

/**
 * The wheel zooms at the pointer, once the reader has moved the pointer over the picture or pressed it. A wheel that
 * only scrolled the page until the picture came under a resting pointer goes on scrolling the page, and so does one at
 * the limit.
 * @param {HTMLElement} element
 * @param {Viewport} view
 * @param {Time} time
 * @param {Local} local
 */
function attachWheel(element, view, time, local) {
  let armed = false;
  /** @type {[number, number] | null} */
  let seen = null;
  element.addEventListener("pointermove", (event) => {
    seen ??= [event.clientX, event.clientY];
    if (Math.hypot(event.clientX - seen[0], event.clientY - seen[1]) >= ARM_PX) armed = true;
  });
  element.addEventListener("pointerdown", () => {
    armed = true;
  });
  element.addEventListener("pointerleave", () => {
    armed = false;
    seen = null;
  });
  onScroll(window, () => {
    armed = false;
    seen = null;
  });
  element.addEventListener(
    "wheel",
    (event) => {
      if (!armed && !event.ctrlKey) return;
      view.hold();
      const scale = event.deltaMode === 1 ? 16 : 1; // lines in Firefox, pixels elsewhere
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        view.pan(((event.deltaX || event.deltaY) * scale * view.length) / element.clientWidth);
      } else if (
        view.zoom(Math.exp(Math.max(-120, Math.min(120, event.deltaY * scale)) * 0.0024), time(local(event)[0])) ||
        event.ctrlKey
      ) {
        event.preventDefault();
      }
    },
    { passive: false },
  );
}

/**
 * @param {HTMLElement} element
 * @param {Viewport} view
 * @param {Handlers} handlers
 * @param {Time} time
 * @param {Local} local
 */
function attachDrag(element, view, handlers, time, local) {
  /** @type {Press | null} */
  let press = null;
  let clickable = false;
  /** @type {MouseEvent | null} */
  let clicked = null;
  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    view.hold();
    const [x, y] = local(event);
    const ranging = Boolean(handlers.range && (event.shiftKey || handlers.ranging?.()));
    press = { x, y, lastY: y, start: view.start, end: view.end, from: time(x), ranging, moved: false };
    element.setPointerCapture(event.pointerId);
  });
  element.addEventListener("pointermove", (event) => {
    const [x, y] = local(event);
    if (!press) {
      handlers.hover?.(x, y, event);
      return;
    }
    if (!press.moved && Math.hypot(x - press.x, y - press.y) < DRAG_PX) return;
    press.moved = true;
    handlers.leave?.();
    if (press.ranging) {
      handlers.range?.(Math.min(press.from, time(x)), Math.max(press.from, time(x)), false);
    } else {
      const ns = ((press.x - x) / handlers.width()) * (press.end - press.start);
      view.set(press.start + ns, press.end + ns);
      handlers.scroll?.(press.lastY - y);
      press.lastY = y;
    }
  });
  /** @param {PointerEvent} event */
  const finish = (event) => {
    if (!press) return;
    const [x] = local(event);
    const { moved, ranging, from } = press;
    press = null;
    if (moved && ranging) handlers.range?.(Math.min(from, time(x)), Math.max(from, time(x)), true);
    clickable = !moved && event.type === "pointerup";
  };
  // Of a double click the first is a click, and what it does may move the picture away from under the second.
  element.addEventListener("click", (event) => {
    if (clickable && event.detail < 2) {
      clicked = event;
      handlers.click?.(...local(event), event);
    }
    clickable = false;
  });
  document.addEventListener("dblclick", (event) => {
    const again = clicked && Math.hypot(event.clientX - clicked.clientX, event.clientY - clicked.clientY) <= DOUBLE_PX;
    if (clicked && again && event.timeStamp - clicked.timeStamp < DOUBLE_MS) handlers.double?.(...local(clicked));
    clicked = null;
  });
  element.addEventListener("pointerup", finish);
  element.addEventListener("pointercancel", finish);
}

/**
 * W/S and +/- zoom, A/D and the arrows pan, Home shows everything. Says whether the key was one of these.
 * @param {Viewport} view
 * @param {KeyboardEvent} event
 */
export function moveByKey(view, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  /** @type {Record<string, () => void>} */
  const moves = {
    w: () => view.zoom(0.75),
    s: () => view.zoom(1 / 0.75),
    "+": () => view.zoom(0.75),
    "=": () => view.zoom(0.75),
    "-": () => view.zoom(1 / 0.75),
    a: () => view.pan(-0.15 * view.length),
    d: () => view.pan(0.15 * view.length),
    ArrowLeft: () => view.pan(-0.15 * view.length),
    ArrowRight: () => view.pan(0.15 * view.length),
    Home: () => view.glide(...view.home),
  };
  const move = moves[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!move) return false;
  view.hold();
  move();
  event.preventDefault();
  return true;
}

/**
 * Passes keys to a picture while the pointer is over it or the focus is inside it, but never while someone types.
 * @param {HTMLElement} frame
 * @param {(event: KeyboardEvent) => void} handler
 */
export function keysOver(frame, handler) {
  document.addEventListener("keydown", (event) => {
    if (event.target instanceof Element && event.target.matches("input, select, textarea")) return;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (frame.matches(":hover") || frame.contains(document.activeElement)) handler(event);
  });
}
