// Which events does a search find? Names are few and events many, so names are matched once and events by their name's
// number.

/**
 * @typedef {import("./data.js").Timeline} Timeline
 * @typedef {{ text: string, num: number, names: number, hits: Uint32Array, order?: Uint32Array }} Found
 */

/**
 * Events whose name contains the text, whatever its case; null for an empty text.
 * Returns {text, num, names, hits}: hits[i] is the number of matches before event i, shape [num events + 1].
 * @param {Timeline} timeline
 * @param {string} text
 * @returns {Found | null}
 */
export function search(timeline, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return null;
  const matching = Uint8Array.from(timeline.names, (name) => (name.toLowerCase().includes(wanted) ? 1 : 0));
  const hits = new Uint32Array(timeline.num + 1);
  for (let i = 0; i < timeline.num; i += 1) hits[i + 1] = hits[i] + matching[timeline.name[i]];
  return { text: wanted, num: hits[timeline.num], names: matching.reduce((sum, hit) => sum + hit, 0), hits };
}

/**
 * The matching events by start time; sorted when first asked for.
 * @param {Timeline} timeline
 * @param {Found} found
 */
export function inOrder(timeline, found) {
  if (!found.order) {
    const order = new Uint32Array(found.num);
    for (let i = 0, at = 0; i < timeline.num; i += 1) if (found.hits[i + 1] > found.hits[i]) order[at++] = i;
    found.order = order.sort((a, b) => timeline.start[a] - timeline.start[b] || a - b);
  }
  return found.order;
}
