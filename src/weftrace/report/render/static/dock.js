// Where an answer stands: in a panel beside the pictures, at the foot of a narrow screen, and always within the window.
// What was clicked stays where it is, and in sight.

import { byId, oncePerFrame, onScroll } from "render/dom.js";
import { hideTip } from "render/tooltip.js";

/** Below the page's head, and from the window's foot, in pixels. */
const ABOVE = 62;
const BELOW = 12;
const MARGIN = 20; // over the pictures' sections
const LEAST = 300; // high it is at least, where it needs that
const FOOT = matchMedia("(max-width: 1099px)"); // as in page.css
const SECOND_MS = 400; // in which a second click comes
const CANVASES = ["timeline-canvas", "lanes-canvas"];
const RECENT_MS = 700; // between a press and the answer to it

/**
 * The panel of the page's template, which holds parts: the last one that was shown stands first, and the panel is there
 * while one is.
 * @param {() => void} onClose the reader closed it: nothing is picked any more
 */
export function dock(onClose) {
  const pictures = byId("pictures");
  const panel = byId("dock");
  /** @type {{ y: number, at: number } | null} */
  let press = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let giving;
  /** @type {HTMLElement | null} */
  let cameFrom = null;
  const measure = oncePerFrame(fit);

  pictures.addEventListener(
    "pointerup",
    (event) => {
      if (event.target instanceof Node && !panel.contains(event.target))
        press = { y: event.clientY, at: performance.now() };
    },
    { capture: true },
  );
  onScroll(window, measure);
  window.addEventListener("resize", measure);
  byId("dock-close").addEventListener("click", close);
  document.addEventListener("keydown", (event) => {
    const typing = event.target instanceof Element && event.target.matches("input, select, textarea");
    if (panel.hidden || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") close();
    if (event.key === "i") panel.focus();
  });

  function close() {
    const inside = panel.contains(document.activeElement);
    onClose();
    if (inside) cameFrom?.focus({ preventScroll: true });
  }

  /**
   * Shows a part that has been filled, before the others.
   * @param {HTMLElement} part
   */
  function show(part) {
    hideTip(); // what it said is in the panel
    const clicked = press && performance.now() - press.at < RECENT_MS ? press : null;
    const active = document.activeElement;
    if (active instanceof HTMLElement && !panel.contains(active)) cameFrom = active;
    part.hidden = false;
    byId("dock-parts").prepend(part);
    place();
    panel.scrollTop = 0;
    if (!clicked) return;
    giveWay();
    const covered = clicked.y + 30 - panel.getBoundingClientRect().top;
    if (FOOT.matches && covered > 0) scrollBy({ top: covered, behavior: "instant" });
    fit();
  }

  /** It may have come under the pointer, which is about to click a second time. */
  function giveWay() {
    panel.style.setProperty("pointer-events", "none");
    clearTimeout(giving); // an answer before this one is not to end it
    giving = setTimeout(() => panel.style.removeProperty("pointer-events"), SECOND_MS);
  }

  /** @param {HTMLElement} part */
  function hide(part) {
    if (part.hidden) return;
    part.hidden = true;
    place();
  }

  /** Makes room for the panel, or takes it back. The picture that one looks at stays where it is on the screen. */
  function place() {
    const open = [...byId("dock-parts").children].some((part) => part instanceof HTMLElement && !part.hidden);
    const held = CANVASES.map((id) => byId(id, HTMLCanvasElement)).find(inSight);
    const top = held?.getBoundingClientRect().top ?? 0;
    panel.hidden = !open;
    document.body.classList.toggle("docked", open);
    if (held) scrollBy({ top: held.getBoundingClientRect().top - top, behavior: "instant" });
    fit();
  }

  /**
   * Beside the pictures, no longer than the part of them that is on the screen; where little of them is, it stands on
   * what is above or below them.
   */
  function fit() {
    if (panel.hidden) return;
    const { top, bottom, right } = pictures.getBoundingClientRect();
    const room = Math.min(innerHeight - BELOW, bottom) - Math.max(ABOVE, top + MARGIN);
    panel.style.setProperty("--room", `${Math.max(LEAST, room)}px`);
    panel.style.setProperty("--right", `${document.documentElement.clientWidth - right}px`);
    panel.classList.toggle("above", room < LEAST && top > ABOVE);
    panel.classList.toggle("below", room < LEAST && top <= ABOVE);
  }

  return { show, hide };
}

/** @param {Element} element */
function inSight(element) {
  const { top, bottom } = element.getBoundingClientRect();
  return bottom > ABOVE && top < innerHeight;
}
