// A stretch of time and what it is made of: the stacked bar and the sum under it. Used for ranks, steps and ranges
// alike.

import { h } from "render/dom.js";
import { addingUp, duration, inUnit, percent, unitFor } from "render/format.js";
import { defined } from "render/tooltip.js";

/**
 * @typedef {"compute" | "exposed" | "exposed_memory" | "unrecorded" | "idle"} Part
 * @typedef {Record<Part | "span" | "communication" | "hidden", number>} Parts
 */

/**
 * [key in a breakdown, colour role and definition's key, word]; in the order in which they are stacked.
 * @type {[key: Part, role: string, word: string][]}
 */
export const PARTS = [
  ["compute", "compute", "compute"],
  ["exposed", "exposed", "exposed communication"],
  ["exposed_memory", "exposed_memory", "exposed memory"],
  ["unrecorded", "idle_unrecorded", "unrecorded"],
  ["idle", "idle", "idle"],
];

/** @typedef {"host" | "call" | "launch_latency" | "turnaround" | "held" | "unrecorded" | "unknown"} IdlePart */

/**
 * The parts of idle time, likewise: keys of `idle_account`.
 * @type {[key: `${IdlePart}_ns`, role: string, word: string][]}
 */
export const IDLE_PARTS = [
  ["host_ns", "idle_host", "host"],
  ["call_ns", "idle_call", "launch call"],
  ["launch_latency_ns", "idle_launch_latency", "launch latency"],
  ["turnaround_ns", "idle_turnaround", "turnaround"],
  ["held_ns", "idle_held", "held"],
  ["unrecorded_ns", "idle_unrecorded", "unrecorded"],
  ["unknown_ns", "idle_unknown", "unknown"],
];

/**
 * A rank's (or step's) breakdown in the shape of `breakdown` in account.js.
 * @param {page.Rank | page.Step} row
 * @returns {Parts}
 */
export function partsOf(row) {
  const unrecorded = ("idle_account" in row && row.idle_account?.unrecorded_ns) || 0;
  return {
    span: row.span_ns,
    compute: row.compute_ns,
    exposed: row.exposed_communication_ns,
    exposed_memory: row.exposed_memory_ns,
    unrecorded,
    idle: row.idle_ns - unrecorded,
    communication: "communication_ns" in row ? row.communication_ns : 0,
    hidden: "hidden_communication_ns" in row ? row.hidden_communication_ns : 0,
  };
}

/**
 * Bar of the four parts, or of others. Widths are shares of the span, exactly.
 * @template {string} [Key=Part]
 * @param {Record<Key | "span", number>} parts
 * @param {"tall" | "medium" | "small"} [size]
 * @param {[key: Key, role: string, word: string][]} [kinds]
 */
export function stackedBar(parts, size = "tall", kinds = /** @type {[Key, string, string][]} */ (PARTS)) {
  const words = kinds.map(([key, , word]) => `${word} ${duration(parts[key])}`).join(", ");
  return h(
    "div",
    { class: `stack ${size}`, role: "img", "aria-label": words },
    kinds
      .filter(([key]) => parts[key] > 0)
      .map(([key, role, word]) =>
        h(
          "div",
          {
            class: `part ${role}`,
            title: `${word}: ${duration(parts[key])}, ${percent(parts[key] / parts.span)}`,
            style: { "flex-grow": parts[key] / parts.span },
          },
          size === "tall" && parts[key] / parts.span > 0.12
            ? h("span", { text: `${word} ${percent(parts[key] / parts.span)}` })
            : null,
        ),
      ),
  );
}

/**
 * The communication bar, on the scale of the stacked bar above it: its exposed part lies under the exposed part there,
 * and its hidden part under compute, which is what hides it.
 * @param {Parts} parts
 */
export function communicationBar(parts) {
  const before = parts.compute + parts.exposed - parts.communication;
  /** @param {number} ns */
  const share = (ns) => `${(100 * ns) / parts.span}%`;
  return h(
    "div",
    {
      class: "stack thin behind",
      role: "img",
      "aria-label": `communication: ${duration(parts.hidden)} hidden, ${duration(parts.exposed)} exposed`,
    },
    h(
      "div",
      {
        class: "part hidden-part",
        style: { "margin-left": share(Math.max(0, before)), width: share(parts.hidden) },
        title: `hidden behind compute: ${duration(parts.hidden)}`,
      },
      parts.hidden / parts.span > 0.3
        ? h("span", { text: `communication, hidden ${percent(parts.hidden / parts.communication)}` })
        : null,
    ),
    h("div", {
      class: "part exposed",
      style: { width: share(parts.exposed) },
      title: `exposed: ${duration(parts.exposed)}`,
    }),
  );
}

/**
 * The parts with their numbers and definitions.
 * @template {string} [Key=Part]
 * @param {Record<Key | "span", number>} parts
 * @param {[key: Key, role: string, word: string][]} [kinds]
 */
export function partsList(parts, kinds = /** @type {[Key, string, string][]} */ (PARTS)) {
  return h(
    "ul",
    { class: "parts" },
    present(parts, kinds).map(([key, role, word]) =>
      h(
        "li",
        { data: { part: key, ns: parts[key] } },
        h("i", { class: `swatch part ${role}` }),
        defined(role, word),
        h("b", { text: duration(parts[key]) }),
        h("span", {
          class: "muted",
          text: parts.span
            ? percent(parts[key] / parts.span, parts[key] / parts.span < 0.001 && parts[key] > 0 ? 3 : 1)
            : "–",
        }),
      ),
    ),
  );
}

/**
 * Without what is unrecorded, where nothing is.
 * @template {string} Key
 * @param {Record<Key | "span", number>} parts
 * @param {[key: Key, role: string, word: string][]} kinds
 */
function present(parts, kinds) {
  return kinds.filter(([key]) => key !== "unrecorded" || parts[key] > 0);
}

/**
 * "124.31 + 4.19 + 0.02 + 0.49 = 129.01 ms": the check that a reader can do.
 * @param {Parts} parts
 */
export function sumLine(parts) {
  const words = present(parts, PARTS).map(([, , word]) => word);
  const unit = unitFor(parts.span);
  return h(
    "p",
    { class: "sum", title: `${words.join(" + ")} = span` },
    addingUp(
      present(parts, PARTS).map(([key]) => parts[key]),
      unit,
    ).join(" + "),
    h("b", { text: ` = ${inUnit(parts.span, unit)} ${unit.name}` }),
  );
}
