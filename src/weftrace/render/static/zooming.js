// A canvas that zooms: painted again when its view, its size or the theme change; it answers to gestures and keys, and
// tells what is under the pointer.

import { actionButton, h, oncePerFrame } from "./dom.js";
import { attachGestures, keysOver, moveByKey } from "./gestures.js";
import { onTheme } from "./theme.js";
import { hideTip, showTip } from "./tooltip.js";

/**
 * @typedef {import("./dom.js").Child} Child
 * @typedef {import("./viewport.js").Viewport} Viewport
 *
 * A picture. x and y are pixels of its canvas.
 * @typedef {object} Picture
 * @property {HTMLCanvasElement} canvas
 * @property {HTMLElement} frame whose width it takes, and over which keys are its own
 * @property {Viewport} view
 * @property {(width: number) => void} paint
 * @property {(x: number, y: number) => Child[] | null} point notes what is pointed at, and tells of it
 * @property {() => boolean} [pointing] whether what is pointed at answers to a click
 * @property {() => void} [leave] nothing is pointed at any more
 * @property {() => void} [restyle] the theme has changed
 * @property {number} [left] where its time begins
 * @property {(event: KeyboardEvent) => boolean} [key] says whether the key was one of its own
 */

/**
 * Starts a picture and returns what asks for a new frame, and its width from `left` on.
 * @param {Picture & Omit<Partial<import("./gestures.js").Handlers>, keyof Picture | "width" | "hover">} picture
 */
export function zooming({ canvas, frame, view, paint, point, pointing, leave, restyle, left = 0, key, ...handlers }) {
  const width = () => frame.clientWidth - left;
  const now = () => {
    if (width() >= 10) paint(width());
  };
  const place = () => {
    canvas.dataset.start = String(view.start);
    canvas.dataset.end = String(view.end);
  };
  const draw = oncePerFrame(now);
  const away = () => {
    leave?.();
    hideTip();
    draw();
  };
  place();
  view.onChange(() => {
    place();
    draw();
  });
  onTheme(() => {
    restyle?.();
    draw();
  });
  new ResizeObserver(draw).observe(frame);
  attachGestures(canvas, view, {
    ...handlers,
    left: () => left,
    width,
    hover: (x, y, event) => {
      const told = point(x, y);
      canvas.classList.toggle("pointing", pointing ? pointing() : told !== null);
      if (told) showTip(event.clientX, event.clientY, ...told);
      else hideTip();
      draw();
    },
    leave: away,
  });
  keysOver(frame, (event) => key?.(event) || moveByKey(view, event));
  return { draw, now, width };
}

/**
 * Makes the buttons of a page's picture zoom: those whose ids end in -in, -out and -fit.
 * @param {string} at what their ids begin with
 * @param {Viewport} view
 */
export function zoomButtons(at, view) {
  const acts = { fit: () => view.glide(...view.home), in: () => view.zoom(0.6), out: () => view.zoom(1 / 0.6) };
  for (const [what, act] of Object.entries(acts))
    document.getElementById(`${at}-${what}`)?.addEventListener("click", act);
}

/**
 * Buttons that zoom.
 * @param {Viewport} view
 * @param {string} whole what the view's home is
 * @param {string} look
 */
export function zoomTools(view, whole, look) {
  /**
   * @param {string} text
   * @param {string} label
   * @param {() => void} click
   */
  const button = (text, label, click) => actionButton(text, click, { "aria-label": label });
  return h(
    "div",
    { class: `tools ${look}` },
    button("−", "Zoom out", () => view.zoom(1 / 0.6)),
    button("+", "Zoom in", () => view.zoom(0.6)),
    button(`Whole ${whole}`, `Show the whole ${whole}`, () => view.glide(...view.home)),
  );
}
