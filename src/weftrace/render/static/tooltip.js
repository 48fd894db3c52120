// One tooltip for the whole page: definitions (hover, focus or tap) and what lies under the pointer on a canvas.

import { h, fill } from "./dom.js";

const box = h("div", { class: "tooltip", role: "tooltip", id: "tooltip", hidden: true });
let owner = null;
let definitions = {}; // key -> [term, text]

/** Shows nodes near a point of the window; keeps them inside it. */
export function showTip(x, y, ...nodes) {
  fill(box, ...nodes);
  box.hidden = false;
  const { width, height } = box.getBoundingClientRect();
  const left = x + 14 + width > innerWidth ? x - 14 - width : x + 14;
  const top = y + 18 + height > innerHeight ? y - 12 - height : y + 18;
  box.style.setProperty("left", `${Math.max(6, left)}px`);
  box.style.setProperty("top", `${Math.max(6, top)}px`);
}

export function hideTip() {
  box.hidden = true;
  if (owner) owner.removeAttribute("aria-describedby");
  owner = null;
}

/** Title, then rows of [label, text]: the content of a canvas tooltip. */
export function tipRows(title, color, rows) {
  const head = h(
    "div",
    { class: "tip-title" },
    color ? h("i", { class: "swatch", style: { background: color } }) : null,
    h("span", { text: title }),
  );
  return [
    head,
    h(
      "dl",
      {},
      rows.filter((row) => row).flatMap(([label, text]) => [h("dt", { text: label }), h("dd", { text })]),
    ),
  ];
}

/** A word that carries its definition: focusable, with a dotted underline. */
export function defined(key, text = definitions[key][0]) {
  return h("button", { class: "defined", type: "button", text, data: { def: key } });
}

/** A question mark that carries a definition, for table heads, where the word itself sorts. */
export function explained(key) {
  return h("button", {
    class: "explained",
    type: "button",
    text: "?",
    "aria-label": `What is ${definitions[key][0]}?`,
    data: { def: key },
  });
}

/** Before anything is drawn: the terms that `defined` and `explained` may name, {key: [term, text]}. */
export function startTooltips(known) {
  definitions = known;
  document.body.append(box);
  const open = (target) => {
    const [title, text] = definitions[target.dataset.def];
    const at = target.getBoundingClientRect();
    showTip(at.left, at.bottom - 10, h("div", { class: "tip-title", text: title }), h("p", { text }));
    owner = target;
    owner.setAttribute("aria-describedby", "tooltip");
  };
  const term = (event) => (event.target instanceof Element ? event.target.closest("[data-def]") : null);
  document.addEventListener("pointerover", (event) => {
    const t = term(event);
    if (t) open(t);
    else if (owner) hideTip();
  });
  document.addEventListener("focusin", (event) => {
    const t = term(event);
    if (t) open(t);
  });
  document.addEventListener("focusout", (event) => {
    if (term(event)) hideTip();
  });
  document.addEventListener("click", (event) => {
    const t = term(event);
    if (t) open(t);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hideTip();
  });
  window.addEventListener("scroll", hideTip, { passive: true });
}
