// Light or dark: the system's choice until the reader makes one. Canvases ask here for the colours of the style sheet.

/** @typedef {Record<string, string>} Palette */

/** What the page's style sheet gives a value: colours of roles, among others. */
const ROLES = [...document.styleSheets]
  .flatMap(({ cssRules }) => [...cssRules])
  .flatMap((rule) => (rule instanceof CSSStyleRule && rule.selectorText === ":root" ? [...rule.style] : []))
  .flatMap((name) => (name.startsWith("--") ? [name.slice(2)] : []));
/** Classes whose families have shades of their colour: "compute-1" to "compute-6", the last for all other families. */
const SHADED = ["compute", "communication"];
/** What makes shades of a colour: degrees of hue, factor of saturation, points of lightness.
 * @type {[hue: number, saturation: number, lightness: number][]} */
const SHADES = [
  [4, 1.5, 9],
  [14, 1, -13],
  [-24, 1, 16],
  [28, 1, 22],
  [-30, 0.9, -8],
  [0, 0.3, 6],
];
export const NUM_SHADES = SHADES.length;

/** The typeface of text on canvases: the style sheet's. */
export const SANS = getComputedStyle(document.documentElement).getPropertyValue("--sans").trim();

/** @type {(() => void)[]} */
const listeners = [];
/** @type {Palette | null} */
let cached = null;

/**
 * Role -> colour, as the style sheet sets them for the theme in force.
 * @returns {Palette}
 */
export function palette() {
  if (!cached) {
    const style = getComputedStyle(document.documentElement);
    const colors = Object.fromEntries(ROLES.map((role) => [role, style.getPropertyValue(`--${role}`).trim()]));
    for (const role of SHADED) {
      SHADES.forEach((change, at) => {
        colors[`${role}-${at + 1}`] = shaded(colors[role], change);
      });
    }
    cached = colors;
  }
  return cached;
}

/**
 * @param {string} color
 * @param {[hue: number, saturation: number, lightness: number]} change
 */
function shaded(color, [turn, factor, lighter]) {
  const [hue, saturation, lightness] = toHsl(color);
  return fromHsl(
    hue + turn,
    Math.min(1, saturation * factor),
    Math.min(0.86, Math.max(0.2, lightness + lighter / 100)),
  );
}

/** @param {string} color */
function toHsl(color) {
  const [r, g, b] = channels(color).map((c) => c / 255);
  const most = Math.max(r, g, b);
  const least = Math.min(r, g, b);
  const span = most - least;
  const lightness = (most + least) / 2;
  if (span === 0) return [0, 0, lightness];
  const hue = most === r ? (g - b) / span : most === g ? 2 + (b - r) / span : 4 + (r - g) / span;
  return [60 * hue, span / (1 - Math.abs(2 * lightness - 1)), lightness];
}

/**
 * @param {number} hue
 * @param {number} saturation
 * @param {number} lightness
 */
function fromHsl(hue, saturation, lightness) {
  const reach = saturation * Math.min(lightness, 1 - lightness);
  /** @param {number} at */
  const channel = (at) => {
    const turn = (((at + hue / 30) % 12) + 12) % 12;
    return lightness - reach * Math.max(-1, Math.min(turn - 3, 9 - turn, 1));
  };
  return `#${[0, 8, 4]
    .map((at) =>
      Math.round(255 * channel(at))
        .toString(16)
        .padStart(2, "0"),
    )
    .join("")}`;
}

/** @param {() => void} listener */
export function onTheme(listener) {
  listeners.push(listener);
}

/** @param {HTMLElement} button */
export function startTheme(button) {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const current = () => root.dataset.theme || (dark.matches ? "dark" : "light");
  const changed = () => {
    cached = null;
    const other = current() === "dark" ? "light" : "dark";
    button.setAttribute("aria-label", `Switch to the ${other} theme`);
    button.title = `Switch to the ${other} theme`;
    listeners.forEach((listener) => listener());
  };
  const chosen = remembered();
  if (chosen) root.dataset.theme = chosen;
  button.addEventListener("click", () => {
    root.dataset.theme = current() === "dark" ? "light" : "dark";
    remember(root.dataset.theme);
    changed();
  });
  dark.addEventListener("change", changed);
  // Paper is light. The style sheet switches by itself; canvases must be drawn again before and after.
  /** @type {string | undefined} */
  let before;
  window.addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
    changed();
  });
  window.addEventListener("afterprint", () => {
    if (before) root.dataset.theme = before;
    else delete root.dataset.theme;
    changed();
  });
  changed();
}

/**
 * Black or white, whichever reads better on a colour given as #rrggbb.
 * @param {string} color
 */
export function inkOn(color) {
  const [r, g, b] = channels(color).map((c) => {
    const s = c / 255;
    return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4;
  });
  const luminance = 0.2126 * r + 0.7152 * g + 0.0722 * b;
  // Contrast of white is 1.05/(l+.05), of black (l+.05)/.05: both are 4.58 where they meet.
  return luminance > 0.1791 ? "#000000" : "#ffffff";
}

/**
 * Two colours given as #rrggbb, mixed: share 0 is the first, 1 the second.
 * @param {string} from
 * @param {string} to
 * @param {number} share
 */
export function mix(from, to, share) {
  const a = channels(from);
  const b = channels(to);
  return `#${a
    .map((c, i) =>
      Math.round(c + (b[i] - c) * share)
        .toString(16)
        .padStart(2, "0"),
    )
    .join("")}`;
}

/**
 * Red, green and blue of a colour given as #rrggbb.
 * @param {string} color
 */
export function channels(color) {
  const hex = color.slice(1);
  return [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));
}

// A file:// page may be denied storage; the choice then lasts as long as the page.
function remembered() {
  try {
    return localStorage.getItem("weftrace-theme");
  } catch {
    return null;
  }
}

/** @param {string} theme */
function remember(theme) {
  try {
    localStorage.setItem("weftrace-theme", theme);
  } catch {
    /* not kept, as said above */
  }
}
