// Taking a table along: to the clipboard for a spreadsheet, or as a CSV or JSON file. Values are exact, as the document
// has them: integer nanoseconds and unrounded shares, under the document's own names.

import { actionButton, h } from "./dom.js";

/**
 * @typedef {string | number | boolean | null} Scalar
 * @typedef {Record<string, Scalar>} Flat
 */

const SAID_MS = 1600; // how long a button says that it is done
// A spreadsheet computes a text that begins so, or goes on so where it splits lines at semicolons, and names in a trace
// can be anything: an apostrophe keeps it a text. As `csv_cell` of files/plain_text.py.
const FORMULA = /(^|[;\t\r\n])(?=\s*[=+\-@＝＋－＠])/g;
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;

/**
 * Buttons that copy or save the rows of a table.
 * @param {string} name of the table and of its files
 * @param {() => Flat[]} rows
 */
export function exportTools(name, rows) {
  /**
   * @param {string} label
   * @param {string} title
   * @param {() => Promise<boolean> | void} act says whether it could be done, where that is known
   */
  const tool = (label, title, act) => {
    const button = actionButton(label, () => report(button, label, act()), { title });
    return button;
  };
  return h(
    "div",
    { class: "export", role: "group", "aria-label": `Export the table "${name}"` },
    tool("Copy", "Copy all rows, for a spreadsheet", () => copyText(asText(rows(), "\t"))),
    tool("CSV", "Save all rows as CSV", () => saveFile(`weftrace-${name}.csv`, "text/csv", asText(rows(), ","))),
    tool("JSON", "Save all rows as JSON", () =>
      saveFile(`weftrace-${name}.json`, "application/json", `${JSON.stringify(rows(), null, 1)}\n`),
    ),
  );
}

/**
 * @param {HTMLElement} button
 * @param {string} label
 * @param {Promise<boolean> | void} done
 */
async function report(button, label, done) {
  button.textContent = (await (done ?? true)) ? "done" : "not allowed";
  setTimeout(() => {
    button.textContent = label;
  }, SAID_MS);
}

/**
 * The scalars of a row under their own names, then what the columns of numbers add to them. A whole number that
 * JavaScript cannot hold exactly (ns since 1970) is left out: rounded it would look like the document's.
 * @param {object} row
 * @param {[key: string, value: Scalar | undefined][]} added
 * @returns {Flat}
 */
export function flatRow(row, added) {
  /** @type {Flat} */
  const flat = {};
  for (const [key, value] of Object.entries(row)) {
    const isRounded = Number.isInteger(value) && !Number.isSafeInteger(value);
    if (value === null || (["string", "number", "boolean"].includes(typeof value) && !isRounded)) flat[key] = value;
  }
  for (const [key, value] of added) if (!(key in flat) && value !== undefined) flat[key] = value;
  return flat;
}

/**
 * A line of names, then a line a row. Cells are quoted where they must be (RFC 4180).
 * @param {Flat[]} rows
 * @param {"," | "\t"} separator
 */
function asText(rows, separator) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  /** @param {Scalar | undefined} value */
  const cell = (value) => {
    if (value === null || value === undefined) return "";
    const text = String(value);
    const shown = typeof value === "string" && !NUMBER.test(text) ? text.replace(FORMULA, "$1'") : text;
    return /["\r\n,\t]/.test(shown) ? `"${shown.replaceAll('"', '""')}"` : shown;
  };
  const lines = [names.map(cell), ...rows.map((row) => names.map((name) => cell(row[name])))];
  return `${lines.map((line) => line.join(separator)).join("\r\n")}\r\n`;
}

/**
 * Hands the reader a file. No network is needed, and nothing leaves the machine.
 * @param {string} name
 * @param {string} type
 * @param {BlobPart} content
 */
export function saveFile(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000); // some browsers read it after the click
}

/**
 * To the clipboard; where a browser keeps it from pages of files, the old way. Says whether it could be done.
 * @param {string} text
 */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = h("textarea", { class: "sr", readonly: true });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
