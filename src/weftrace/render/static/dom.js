// Building elements. Text only ever becomes a text node, so no name from a trace can turn into markup.

import { blockOf } from "./packed.js";

/**
 * What an element is filled with; null and undefined leave nothing.
 * @typedef {Node | string | null | undefined} Child
 * @typedef {string | number | null | undefined} Text
 */

/**
 * Of an element: class, text, title, data (dataset), on (listeners), style (CSS properties, set through the CSSOM
 * because the content policy forbids style attributes); anything else is an attribute (null and false leave it out).
 * @typedef {object} Known
 * @property {Text} [class]
 * @property {Text} [text]
 * @property {Record<string, string | number>} [data]
 * @property {Record<string, string | number>} [style]
 * @property {{ [E in keyof GlobalEventHandlersEventMap]?: (event: GlobalEventHandlersEventMap[E]) => void }} [on]
 *
 * @typedef {Known & { [attribute: string]: unknown }} Properties
 */

/**
 * An element.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Properties} [properties]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, properties = {}, ...children) {
  const { class: className, text, data, style, on, ...attributes } = properties;
  const element = document.createElement(tag);
  if (className !== null && className !== undefined) element.className = String(className);
  if (text !== null && text !== undefined) element.textContent = String(text);
  for (const [key, value] of Object.entries(style ?? {})) element.style.setProperty(key, String(value));
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  equip(element, data, on);
  element.append(...present(children.flat()));
  return element;
}

/**
 * A line of a list: a term, and what it is.
 * @param {Child} term
 * @param {string | number} value
 */
export function fact(term, value) {
  return h("div", {}, h("dt", {}, term), h("dd", { text: value }));
}

/**
 * Texts as the lines of a list.
 * @param {string[]} texts
 */
export function items(texts) {
  return texts.map((text) => h("li", { text }));
}

/**
 * Fills a list, which is hidden where there is nothing to say.
 * @param {HTMLElement} list
 * @param {string[]} texts
 */
export function showNotes(list, texts) {
  list.hidden = texts.length === 0;
  fill(list, items(texts));
}

/**
 * What happens when an element, or the window, is scrolled.
 * @param {EventTarget} element
 * @param {() => void} act
 */
export function onScroll(element, act) {
  element.addEventListener("scroll", act, { passive: true });
}

/**
 * A button that does something.
 * @param {Text} text
 * @param {(event: MouseEvent) => void} click
 * @param {Properties} [more]
 * @param {...Child} children
 */
export function actionButton(text, click, more = {}, ...children) {
  return h("button", { type: "button", text, on: { click }, ...more }, ...children);
}

/**
 * Buttons of which one is chosen.
 * @template Item
 * @param {readonly Item[]} items
 * @param {(item: Item, at: number) => Text} text
 * @param {(item: Item, at: number) => boolean} isChosen
 * @param {(item: Item, at: number) => void} choose
 * @param {(item: Item, at: number) => Record<string, string | number>} [data]
 */
export function choiceButtons(items, text, isChosen, choose, data) {
  return items.map((item, at) => {
    const more = { "aria-pressed": String(isChosen(item, at)), data: data?.(item, at) };
    return actionButton(text(item, at), () => choose(item, at), more);
  });
}

/**
 * Gives an element its data and its listeners.
 * @param {HTMLElement | SVGElement} element
 * @param {Known["data"]} data
 * @param {Known["on"]} on
 */
export function equip(element, data, on) {
  Object.assign(element.dataset, data);
  for (const [event, listener] of Object.entries(on ?? {})) {
    element.addEventListener(event, /** @type {EventListener} */ (listener));
  }
}

/**
 * An element of the page's template. A page without it, or with one of another kind, is our own mistake.
 * @template {Element} [E=HTMLElement]
 * @param {string} id
 * @param {new () => E} [kind]
 * @returns {E}
 */
export function byId(id, kind) {
  const element = document.getElementById(id);
  if (!(element instanceof (kind ?? HTMLElement)))
    throw new Error(`the page has no ${kind?.name ?? "element"} "${id}"`);
  return /** @type {E} */ (/** @type {unknown} */ (element));
}

/**
 * Replaces what an element holds.
 * @param {Element} element
 * @param {...(Child | Child[])} children
 */
export function fill(element, ...children) {
  element.replaceChildren(...present(children.flat()));
}

/**
 * @param {Child[]} children
 * @returns {(Node | string)[]}
 */
function present(children) {
  return children.filter((child) => child !== null && child !== undefined);
}

/**
 * A canvas's context.
 * @param {HTMLCanvasElement} canvas
 */
export function contextOf(canvas) {
  const context = canvas.getContext("2d");
  if (!context) throw new Error("this browser cannot draw on a canvas");
  return context;
}

/**
 * A canvas's context with one unit a CSS pixel, sized for the screen's density.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 */
export function sizedContext(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const wide = Math.max(1, Math.round(width * ratio));
  const high = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.setProperty("width", `${width}px`);
    canvas.style.setProperty("height", `${height}px`);
  }
  const context = contextOf(canvas);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

/**
 * Calls `draw` once in the next frame, however often it is asked for.
 * @param {() => void} draw
 */
export function oncePerFrame(draw) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };
}

/**
 * The value of a JSON block of the page.
 * @param {string} id
 */
export function readBlock(id) {
  return blockOf(byId(id).textContent);
}
