// The report as the page uses it: a tree of modules with what each does itself and with all below it.

import { PHASES } from "./words.js";

const SUMS = ["flops", "executed", "vector", "bytes", "bound"];

/** {doc, phases, nodes, roots, timed, bounded}: nodes[i] = {i, name, path, children, own, all, time ...}, as in the block. */
export function flopsModel(doc) {
  const columns = doc.modules;
  const count = columns.name.length;
  const phases = PHASES.filter((phase) => doc.work[phase]);
  const nodes = Array.from({ length: count }, (_, i) => ({
    i,
    name: columns.name[i],
    className: doc.classes[columns.class[i]],
    detail: doc.details[columns.detail[i]],
    parent: columns.parent[i],
    same: columns.same[i],
    calls: columns.calls[i],
    ownParams: columns.params[i],
    depth: 0,
    path: "",
    children: [],
    own: Object.fromEntries(phases.map((phase) => [phase, work(doc.work[phase], i)])),
    time: Object.fromEntries(phases.map((phase) => [phase, doc.work[phase].time?.[i] ?? null])),
    ownTime: Object.fromEntries(phases.map((phase) => [phase, doc.work[phase].own_time?.[i] ?? null])),
  }));
  const roots = [];
  for (const node of nodes) {
    const parent = node.parent < 0 ? null : nodes[node.parent];
    (parent ? parent.children : roots).push(node);
    node.depth = parent ? parent.depth + 1 : 0;
    node.path = parent?.path ? `${parent.path}.${node.name}` : node.name;
  }
  for (const node of [...nodes].reverse()) {
    node.params = node.ownParams + sum(node.children, (child) => child.params);
    node.all = Object.fromEntries(
      phases.map((phase) => [
        phase,
        Object.fromEntries(
          SUMS.map((key) => [key, node.own[phase][key] + sum(node.children, (child) => child.all[phase][key])]),
        ),
      ]),
    );
    node.area = sum(phases, (phase) => node.ownTime[phase] ?? 0) + sum(node.children, (child) => child.area);
    node.totalTime = doc.timed ? sum(phases, (phase) => node.time[phase] ?? 0) : null;
    node.matrix = Math.max(0, ...phases.map((phase) => node.own[phase].executed)) > 0;
  }
  return { doc, phases, nodes, roots, timed: doc.timed, bounded: doc.bounded, whole: total(roots, phases) };
}

function work(columns, i) {
  return {
    ...Object.fromEntries(SUMS.map((key) => [key, columns[key]?.[i] ?? (key === "executed" ? columns.flops[i] : 0)])),
    kind: columns.kind?.[i] ?? "-",
  };
}

function total(roots, phases) {
  const over = (key) => sum(roots, (node) => sum(phases, (phase) => node.all[phase][key]));
  return {
    flops: over("flops"),
    executed: over("executed"),
    vector: over("vector"),
    bytes: over("bytes"),
    params: sum(roots, (node) => node.params),
    time: sum(roots, (node) => node.totalTime ?? 0),
    area: sum(roots, (node) => node.area),
  };
}

/** Over all phases: of a node's own work ("own"), or with all below it ("all"). */
export function overPhases(model, node, key, scope = "all") {
  return sum(model.phases, (phase) => node[scope][phase][key]);
}

/** Siblings in order; neighbours that are alike all the way down stand together: [[node, …], …]. */
export function folded(nodes, fold) {
  const groups = [];
  for (const node of nodes) {
    const last = groups.at(-1);
    if (fold && last && last[0].same === node.same && last[0].name !== "(outside)") last.push(node);
    else groups.push([node]);
  }
  return groups;
}

/** "layers.0–23", "0–11": the names of folded siblings. */
export function groupName(nodes) {
  if (nodes.length === 1) return nodes[0].name || "(the model)";
  return `${nodes[0].name}–${nodes.at(-1).name}`;
}

export function sum(list, value) {
  let result = 0;
  for (const item of list) result += value(item);
  return result;
}

/** Of numbers; null for none. */
export function median(values) {
  const known = values.filter((value) => value !== null).sort((a, b) => a - b);
  if (!known.length) return null;
  const middle = known.length >> 1;
  return known.length % 2 ? known[middle] : (known[middle - 1] + known[middle]) / 2;
}
