// Why this policy? What each would cost, by an estimate whose assumptions are listed.

import { byId, fill, h, items } from "render/dom.js";
import { duration, grouped } from "render/format.js";
import { balance } from "./words.js";
import { showTable } from "render/tables.js";

/**
 * @typedef {"compute_us" | "dispatch_us" | "combine_us"} CostPart
 */

/** @type {[key: CostPart, role: string, label: string][]} */
const PARTS = [
  ["compute_us", "compute", "experts' products"],
  ["dispatch_us", "dispatch", "dispatch"],
  ["combine_us", "combine", "combine"],
];

/** @param {page.Placement} placement */
export function policySection({ choice, policy }) {
  byId("policy").hidden = !choice;
  if (!choice) return;
  byId("policy-reason").textContent = choice.reason;
  byId("policy-costs").hidden = choice.costs.length === 0;
  const longest = Math.max(...choice.costs.map((cost) => cost.total_us), 1e-9);
  /** @param {CostPart | "total_us"} key */
  const us = (key) => (/** @type {page.PolicyCost} */ row) => grouped(row[key], 1);
  /** @type {import("render/tables.js").Column<page.PolicyCost>[]} */
  const parts = PARTS.map(([key, , label]) => ({ key, label: `${label} µs`, kind: "count", text: us(key) }));
  showTable("policy-table", {
    name: "policy",
    rows: choice.costs,
    sort: { key: "total_us", down: false },
    rowClass: (row) => (row.policy === policy ? "current" : ""),
    columns: [
      {
        key: "policy",
        label: "policy",
        kind: "text",
        def: "policy",
        node: (row) =>
          h(
            "span",
            {},
            h("b", { text: row.policy }),
            " ",
            row.policy === policy ? h("span", { class: "chip taken", text: "taken" }) : null,
          ),
      },
      { key: "total_us", label: "estimated µs a layer", kind: "count", def: "policy_time", text: us("total_us") },
      {
        key: "parts",
        label: "made of",
        kind: "text",
        value: (row) => row.total_us,
        node: (row) => costBar(row, longest),
      },
      ...parts,
      {
        key: "balancedness",
        label: "balancedness",
        kind: "count",
        def: "balancedness",
        text: (row) => balance(row.balancedness),
      },
      {
        key: "remote_nodes",
        label: "remote nodes",
        kind: "count",
        def: "remote_nodes",
        text: (row) => grouped(row.remote_nodes, 2),
      },
    ],
  });
  byId("ruled-out").hidden = choice.ruled_out.length === 0;
  fill(
    byId("ruled-out"),
    choice.ruled_out.map(([name, why]) => h("li", {}, h("b", { text: name }), `: not possible, ${why}`)),
  );
  byId("assumption-box").hidden = choice.assumptions.length === 0;
  const summary = byId("assumption-box").querySelector("summary");
  if (summary) summary.textContent = `What the estimate assumes (${choice.assumptions.length})`;
  fill(byId("assumptions"), items(choice.assumptions));
}

/**
 * @param {page.PolicyCost} row
 * @param {number} longest
 */
function costBar(row, longest) {
  const words = PARTS.map(([key, , label]) => `${label} ${duration(row[key] * 1000)}`).join(", ");
  return h(
    "div",
    {
      class: "stack small",
      role: "img",
      "aria-label": words,
      title: words,
      style: { width: `${(100 * row.total_us) / longest}%` },
    },
    PARTS.map(([key, role]) => h("div", { class: `part cost-${role}`, style: { "flex-grow": row[key] } })),
  );
}
