// The colours of load: blue does less than the mean, orange more, and what does its part is grey.

import { h } from "render/dom.js";
import { mix, palette } from "render/theme.js";

/** How far from the mean the colours reach. The same scale serves both pictures, so that they can be compared. */
export const REACHES = [
  { half: 1, label: "0 to 2×", low: "0", high: "2× the mean and more" },
  { half: 0.2, label: "± 20 %", low: "−20 % and less", high: "+20 % and more" },
  { half: 0.02, label: "± 2 %", low: "−2 % and less", high: "+2 % and more" },
];

/** A load as a multiple of the mean -> "#rrggbb", for a reach and the theme in force. */
export function loadColor(ratio, half) {
  const colors = palette();
  const at = Math.max(-1, Math.min(1, (ratio - 1) / half));
  return mix(colors.level, at < 0 ? colors.under : colors.over, Math.abs(at));
}

/** Gradient with its three numbers, and buttons to choose the reach. */
export function scaleLegend(current, onChoose) {
  const { half, low, high } = REACHES[current];
  const stops = Array.from({ length: 17 }, (_, i) => loadColor(1 + half * (i / 8 - 1), half)).join(", ");
  return h(
    "div",
    { class: "scale" },
    h(
      "div",
      {
        class: "scale-bar",
        role: "img",
        "aria-label": `colours from ${low} (blue) over the mean (neutral) to ${high} (orange)`,
      },
      h("div", { class: "scale-colors", style: { background: `linear-gradient(to right, ${stops})` } }),
      h(
        "div",
        { class: "scale-words" },
        h("span", { text: low }),
        h("span", { text: "mean" }),
        h("span", { text: high }),
      ),
    ),
    h(
      "div",
      { class: "choices", role: "group", "aria-label": "Reach of the colours" },
      REACHES.map((reach, at) =>
        h("button", {
          type: "button",
          "aria-pressed": String(at === current),
          text: reach.label,
          data: { reach: at },
          on: { click: () => onChoose(at) },
        }),
      ),
    ),
  );
}
