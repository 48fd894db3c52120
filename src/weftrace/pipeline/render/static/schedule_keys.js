// The legend of a simulated schedule: what each colour, shade and frame of it means.

import { h } from "render/dom.js";
import { defined } from "render/tooltip.js";
import { cellColor, ROLES } from "./schedule_paint.js";
import { KINDS } from "./schedule_text.js";

/**
 * A key for each kind of action that is drawn, for shades where there are several, and for memory.
 * @param {page.Schedule} block
 */
export function scheduleKeys({ cells, shades, peak_rank, ranks }) {
  const kinds = new Set(cells.kind);
  const numShades = shades.length;
  /**
   * @param {string} kind
   * @param {number} shade
   */
  const swatch = (kind, shade) => h("i", { style: { background: cellColor(kind, shade, numShades) } });
  /** @param {...(Node | string)} parts */
  const key = (...parts) => h("span", { class: "key" }, ...parts);
  const pairs = kinds.has("F&B");
  const single = Object.keys(ROLES).filter((kind) => kinds.has(kind) || (pairs && "FB".includes(kind)));
  const term = shades[0].split(" ")[0];
  return [
    ...single.map((kind) =>
      key(
        h("span", { class: "shades" }, ...shades.map((_, shade) => swatch(kind, shade))),
        defined(ROLES[kind], `${kind}, ${KINDS[kind]}`),
      ),
    ),
    pairs
      ? key(
          h("span", { class: "shades pair" }, swatch("F", 0), swatch("B", numShades - 1)),
          defined("pair", "F&B, overlapped"),
        )
      : null,
    numShades > 1 ? key(defined(term, shades[0]), `in full colour, ${shades.slice(1).join(", ")} fainter`) : null,
    ranks.length > 1 ? key(h("i", { class: "key-band" }), defined("held", "held, all ranks")) : null,
    key(h("i", { class: "key-line" }), `held by rank ${peak_rank}, or by the one pointed at`),
  ];
}
