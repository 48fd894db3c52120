// The data blocks of the page, read once: the report document, and each rank's timeline as typed arrays.

import { union } from "render/intervals.js";

const TYPES = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f8: Float64Array };

/** The timeline of the rank at a position in the report, or null where the page holds none. */
export function readTimeline(index) {
  const block = document.getElementById(`weftrace-timeline-${index}`);
  if (!block) return null;
  const payload = JSON.parse(block.textContent);
  const {
    dur,
    name,
    class: kind,
    launch,
    start,
  } = Object.fromEntries(Object.entries(payload.columns).map(([column, packed]) => [column, unpacked(packed)]));
  // Times count from the rank's own start, as everywhere in the report: int64 on disk, exact in a float64 up to 2^53 ns.
  const origin = payload.first_ns + payload.shift_ns;
  const startNs = new Float64Array(start.length);
  for (let i = 0; i < start.length; i += 1) startNs[i] = start[i] + origin;
  return {
    ...payload,
    num: payload.num_events,
    numDevice: payload.num_device,
    start: startNs,
    dur,
    name,
    kind,
    launch,
    className: payload.classes,
    firstNs: origin,
    endNs: payload.end_ns + payload.shift_ns,
  };
}

/** Unions of a timeline's counted events by class, computed when first asked for: {compute, communication, memory}. */
export function classUnions(timeline) {
  if (!timeline.unions) {
    const pairs = { compute: [], communication: [], memory: [] };
    const bin = timeline.className.map((name) => pairs[name === "barrier" ? "communication" : name]);
    for (let i = 0; i < timeline.num; i += 1) {
      bin[timeline.kind[i]]?.push([timeline.start[i], timeline.start[i] + timeline.dur[i]]);
    }
    timeline.unions = Object.fromEntries(Object.entries(pairs).map(([name, list]) => [name, union(list)]));
  }
  return timeline.unions;
}

function unpacked({ type, data }) {
  const bytes = Uint8Array.fromBase64 ? Uint8Array.fromBase64(data) : decoded(data);
  // Columns are little-endian, like every machine that browsers run on today.
  return new TYPES[type](bytes.buffer, bytes.byteOffset, bytes.byteLength / TYPES[type].BYTES_PER_ELEMENT);
}

function decoded(text) {
  const binary = atob(text);
  const out = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i += 1) out[i] = binary.charCodeAt(i);
  return out;
}
