// What canvases are painted with, over a stretch of time: rectangles, hatches, texts and paths. As `scene_svg.py` has
// them for files.

import { drawAxis } from "./axis.js";
import { sizedContext } from "./dom.js";
import { hatch } from "./hatch.js";
import { inkOn, palette, SANS } from "./theme.js";

/**
 * @typedef {import("./axis.js").View} View
 *
 * How a text stands: its font, where it is aligned, the most pixels that it may take, and a rim that keeps it legible.
 * @typedef {{ font?: string, align?: CanvasTextAlign, most?: number, rim?: string, alpha?: number }} Look
 */

export const FONT = `11px ${SANS}`;

export class Sheet {
  /**
   * A clear canvas that shows a view from `left` on.
   * @param {HTMLCanvasElement} canvas
   * @param {View} view
   * @param {number} width
   * @param {number} height
   * @param {number} [left]
   */
  constructor(canvas, view, width, height, left = 0) {
    this.context = sizedContext(canvas, left + width, height);
    this.context.clearRect(0, 0, left + width, height);
    this.context.textBaseline = "middle";
    this.colors = palette();
    this.view = view;
    this.width = width;
    this.height = height;
    this.left = left;
    this.scale = width / view.length;
  }

  /**
   * Where a time is.
   * @param {number} ns
   */
  x(ns) {
    return this.left + (ns - this.view.start) * this.scale;
  }

  /**
   * @param {string | CanvasPattern} color
   * @param {number} x
   * @param {number} y
   * @param {number} w
   * @param {number} h
   * @param {number} [alpha]
   */
  rect(color, x, y, w, h, alpha = 1) {
    this.context.fillStyle = color;
    this.context.globalAlpha = alpha;
    this.context.fillRect(x, y, w, h);
    this.context.globalAlpha = 1;
  }

  /**
   * A hatch on a ground, as exposed and idle time have it.
   * @param {string} color
   * @param {string} ground
   * @param {number} alpha of the ground
   * @param {number} x
   * @param {number} y
   * @param {number} w
   * @param {number} h
   */
  hatched(color, ground, alpha, x, y, w, h) {
    this.rect(ground, x, y, w, h, alpha);
    this.rect(hatch(this.context, color), x, y, w, h);
  }

  /**
   * An outline.
   * @param {string} color
   * @param {number} thick
   * @param {number} x
   * @param {number} y
   * @param {number} w
   * @param {number} h
   */
  outline(color, thick, x, y, w, h) {
    this.context.strokeStyle = color;
    this.context.lineWidth = thick;
    this.context.strokeRect(x, y, w, h);
    this.context.lineWidth = 1;
  }

  /**
   * A path, as SVG writes it: a line where it is thick, else filled.
   * @param {string} color
   * @param {number} thick
   * @param {string} d
   * @param {{ alpha?: number, dash?: number[] }} [look]
   */
  path(color, thick, d, { alpha = 1, dash = [] } = {}) {
    const { context } = this;
    context.globalAlpha = alpha;
    context.fillStyle = context.strokeStyle = color;
    context.lineWidth = thick;
    context.setLineDash(dash);
    if (thick) context.stroke(new Path2D(d));
    else context.fill(new Path2D(d));
    context.setLineDash([]);
    context.lineWidth = 1;
    context.globalAlpha = 1;
  }

  /**
   * A curve from one place to another below or above it.
   * @param {string} color
   * @param {number} thick
   * @param {[x: number, y: number]} from
   * @param {[x: number, y: number]} to
   * @param {{ alpha?: number, dash?: number[] }} [look]
   */
  curve(color, thick, [x0, y0], [x1, y1], look) {
    const middle = (y0 + y1) / 2;
    this.path(color, thick, `M${x0} ${y0}C${x0} ${middle} ${x1} ${middle} ${x1} ${y1}`, look);
  }

  /**
   * @param {string} color
   * @param {number} x
   * @param {number} y
   * @param {number} r
   */
  dot(color, x, y, r) {
    this.path(color, 0, `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`);
  }

  /**
   * @param {string} text
   * @param {string} font
   */
  widthOf(text, font) {
    this.context.font = font;
    return this.context.measureText(text).width;
  }

  /**
   * A text, its middle at `y`.
   * @param {string} color
   * @param {string} text
   * @param {number} x
   * @param {number} y
   * @param {Look} [look]
   */
  text(color, text, x, y, { font = FONT, align = "center", most, rim, alpha = 1 } = {}) {
    const { context } = this;
    context.font = font;
    context.textAlign = align;
    context.globalAlpha = alpha;
    if (rim) {
      context.strokeStyle = rim;
      context.lineWidth = 3;
      context.lineJoin = "round";
      context.strokeText(text, x, y, most);
      context.lineWidth = 1;
    }
    context.fillStyle = color;
    context.fillText(text, x, y, most);
    context.globalAlpha = 1;
  }

  /**
   * Ticks and their labels, and grid lines down to `bottom`.
   * @param {number} height
   * @param {number} bottom
   */
  axis(height, bottom) {
    const { context, view, left, width, colors } = this;
    drawAxis(context, { view, left, width, height, bottom, colors, font: FONT });
  }

  /**
   * Words in bubbles above what they tell of: the first come first, and none over another.
   * @param {{ x: number, text: string }[]} callouts
   * @param {number} top
   * @param {string} color
   */
  callouts(callouts, top, color) {
    const [left, right] = [this.left, this.left + this.width];
    const font = `600 ${FONT}`;
    /** @type {[from: number, to: number][]} */
    const taken = [];
    for (const { x, text } of callouts) {
      const half = this.widthOf(text, font) / 2 + 7;
      if (2 * half > right - left) continue;
      const middle = Math.min(Math.max(x, left + half), right - half);
      if (taken.some(([from, to]) => middle + half > from && middle - half < to)) continue;
      taken.push([middle - half - 4, middle + half + 4]);
      this.bubble(color, inkOn(color), text, middle, top, half, 16);
      this.rect(color, x - 0.75, top + 15, 1.5, 6);
    }
  }

  /**
   * A text in a bubble.
   * @param {string} color
   * @param {string} ink
   * @param {string} text
   * @param {number} middle
   * @param {number} top
   * @param {number} half of its width
   * @param {number} high
   */
  bubble(color, ink, text, middle, top, half, high) {
    const { context } = this;
    context.fillStyle = color;
    context.beginPath();
    context.roundRect(middle - half, top, 2 * half, high, high / 2);
    context.fill();
    this.text(ink, text, middle, top + high / 2 + 0.5, { font: `600 ${FONT}` });
  }
}
