// Why did the device stand still, how far ahead does the host run, and what could overlap still save?

import { byId, fact, fill, h } from "render/dom.js";
import { count, duration, grouped, percent, withoutFolders } from "render/format.js";
import { icicle, legendKeys } from "render/icicle.js";
import { columnsOf, kernelName, showTable } from "render/tables.js";
import { defined } from "render/tooltip.js";
import { IDLE_PARTS, partsList, stackedBar } from "./parts.js";
import { boundWords } from "./summary.js";

/** @typedef {NonNullable<page.Rank["idle_account"]>} Account */
/** @typedef {Account["host"][number] & { up: Node | null, children: Node[], outer: string[] }} Node */
/** What the host did, by kind, and the colour of each. */
const KINDS = ["annotation", "operator", "frame", "call"];
const KIND_WORDS = ["annotation", "operator", "Python function", "call of the runtime"];
const LEAST_PAIR = 0.01; // of the idle time
const FOLDED = 0.95; // of a node's time in its one child: both are one

/** @param {page.Rank} rank */
export function showWaits(rank) {
  showIdle(rank);
  showLaunch(rank.launch);
  showHeadroom(rank);
}

/** @param {page.Rank} rank */
function showIdle({ idle_account: account, basis }) {
  const known = account && account.idle_ns > 0 && basis !== "ranges"; // which nothing launches: no cause is known
  byId("idle-box").hidden = !known;
  if (!known) return;
  const present = IDLE_PARTS.filter(([key]) => account[key] > 0);
  const parts = { ...account, span: account.idle_ns };
  fill(
    byId("idle-bar"),
    stackedBar(parts, "medium", present),
    partsList(parts, present),
    account.unrecorded_ns
      ? h("p", {
          class: "notice warn",
          text:
            `Work ran that is missing from the file: ${duration(account.unrecorded_ns)} are ` +
            "unrecorded and may not be idle.",
        })
      : null,
  );
  showTable("idle-table", {
    name: "idle",
    rows: account.causes,
    limit: 12,
    sort: { key: "ns", down: true },
    columns: columnsOf("idle", "cause ns share num_gaps name child", {
      cause: { node: (row) => defined(`cause_${row.cause}`) },
      share: { bar: (row) => row.share },
      name: { node: (row) => named(row.name) },
      child: { node: (row) => named(row.child) },
    }),
  });
  showHost(account.host);
  const pairs = account.separated.filter((row) => row.ns >= LEAST_PAIR * account.idle_ns);
  byId("idle-pairs-box").hidden = !pairs.length;
  showTable("idle-pairs", {
    name: "separated",
    rows: pairs,
    limit: 5,
    sort: { key: "ns", down: true },
    columns: columnsOf("separated", "before after num_gaps ns host_ns", {
      before: { node: (row) => kernelName(row.before) },
      after: { node: (row) => kernelName(row.after) },
    }),
  });
}

/**
 * The tree of what the launching threads did in the gaps, as an icicle.
 * @param {Account["host"]} rows parents before their children
 */
function showHost(rows) {
  byId("idle-host").hidden = !rows.length;
  const all = nodesOf(rows);
  const holder = h("div"); // of its own, so that a rank that was shown before draws into none that is on the screen
  fill(byId("idle-chart"), holder);
  fill(byId("idle-path"));
  if (!rows.length) return;
  const drawn = KIND_WORDS.map((word, at) => /** @type {[string, number]} */ ([word, at])).filter(([, at]) =>
    all.some((node) => node.kind === KINDS[at]),
  );
  fill(byId("idle-legend"), legendKeys(drawn));
  icicle(holder, byId("idle-path"), () => ({
    label: "What the host did while the device waited",
    all: "all",
    roots: all.filter((node) => !node.up),
    children: (node) => node.children,
    parent: (node) => node.up,
    of: (node) => node.ns,
    own: (node) => node.ns - node.children.reduce((sum, child) => sum + child.ns, 0),
    text: (ns) => duration(ns),
    title: (node) => withoutFolders(node.name),
    name: (node) => node.name,
    color: (node) => Math.max(0, KINDS.indexOf(node.kind)),
    facts: (node, ns, share) => [
      ["the device waited", `${duration(ns)}${share}`],
      ["recorded as", KIND_WORDS[KINDS.indexOf(node.kind)] ?? node.kind],
      node.outer.length ? ["in", node.outer.map(withoutFolders).join(" › ")] : null,
    ],
  }));
}

/**
 * The rows as a tree, in which a chain is one node, its innermost: a node whose one child has nearly all its time
 * stands in that child's `outer`.
 * @param {Account["host"]} rows
 * @returns {Node[]}
 */
function nodesOf(rows) {
  /** @type {Node[]} */
  const all = rows.map((row) => ({ ...row, up: null, children: [], outer: [] }));
  const known = new Map(all.map((node) => [node.id, node]));
  for (const node of all) {
    node.up = known.get(node.parent) ?? null;
    node.up?.children.push(node);
  }
  /** @type {Set<Node>} */
  const folded = new Set();
  for (const node of all) {
    const [child] = node.children;
    if (node.children.length !== 1 || child.ns < FOLDED * node.ns) continue;
    folded.add(node);
    child.outer = [...node.outer, node.name];
    child.up = node.up;
    if (node.up) node.up.children = node.up.children.map((each) => (each === node ? child : each));
  }
  return all.filter((node) => !folded.has(node));
}

/**
 * A name as recorded, without the folders of its file; whole in its title.
 * @param {string} name
 */
function named(name) {
  return h("span", { text: withoutFolders(name), title: name });
}

/** @param {page.Launch | null} launch */
function showLaunch(launch) {
  byId("launch-box").hidden = !launch;
  if (!launch) return;
  showFacts("launch-facts", [
    ["launch_delay", "launch delay, median", duration(launch.delay_p50_ns)],
    ["launch_delay", "launch delay, p99", duration(launch.delay_p99_ns)],
    ["launch_delay", "launch delay, longest", duration(launch.delay_max_ns)],
    ["queue", "queue length, mean", launch.queue_mean === null ? "–" : grouped(launch.queue_mean, 1)],
    ["queue", "queue length, longest", count(launch.queue_max)],
    [null, "device events with their launch", count(launch.num_linked)],
  ]);
  showTable("blocked-table", {
    name: "blocked",
    rows: launch.host_blocked,
    limit: 8,
    sort: { key: "total_ns", down: true },
    empty: "The host never waited for the device.",
    columns: columnsOf("blocked", "name num_events total_ns"),
  });
  const stalls = launch.host_stalls ?? [];
  byId("stall-table").hidden = stalls.length === 0;
  if (stalls.length)
    showTable("stall-table", {
      name: "stalls",
      rows: stalls,
      limit: 8,
      sort: { key: "total_ns", down: true },
      columns: columnsOf("stalls", "name num_events longest_ns total_ns"),
    });
}

/** @param {page.Rank} rank */
function showHeadroom({ headroom, span_ns: span }) {
  byId("headroom-box").hidden = !headroom;
  if (!headroom) return;
  showFacts("headroom-facts", [
    ["span", "span", duration(span)],
    ["headroom", "ideal step", duration(headroom.ideal_ns)],
    ["headroom", "headroom", `${duration(headroom.headroom_ns)} (${percent(headroom.headroom_ns / (span || 1))})`],
    [null, "ideal step is", boundWords(headroom.bound_by)],
    ["chain", "longest dependent chain", duration(headroom.longest_chain_ns)],
  ]);
  byId("headroom-note").textContent = headroom.assumption ? `Assumes: ${headroom.assumption}` : "";
}

/**
 * Lines of a name, with its definition where there is one, and a value.
 * @param {string} id
 * @param {[def: string | null, label: string, value: string][]} rows
 */
function showFacts(id, rows) {
  fill(
    byId(id),
    rows.map(([def, label, value]) => fact(def ? defined(def, label) : label, value)),
  );
}
