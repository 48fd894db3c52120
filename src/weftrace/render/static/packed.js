// What pages hold much of, made small by `weftrace.render.packed`: columns of numbers, little-endian, in base64; rows
// of tables as columns.

/**
 * @typedef {Uint8Array | Uint16Array | Uint32Array | Float64Array} Numbers
 * @typedef {timeline_block.PackedColumn} Packed
 */

const TYPES = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f8: Float64Array };

/**
 * @param {Packed} packed
 * @returns {Numbers}
 */
export function unpacked({ type, data }) {
  const bytes = Uint8Array.fromBase64 ? Uint8Array.fromBase64(data) : decoded(data);
  // Columns are little-endian, like every machine that browsers run on today.
  return new TYPES[type](bytes.buffer, bytes.byteOffset, bytes.byteLength / TYPES[type].BYTES_PER_ELEMENT);
}

/** @param {string} text */
function decoded(text) {
  const binary = atob(text);
  const out = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i += 1) out[i] = binary.charCodeAt(i);
  return out;
}

/**
 * Data in which long lists of rows stand as columns, {row_keys, row_columns}, with their rows again.
 * @param {any} value
 * @returns {any}
 */
export function rowsOf(value) {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at += 1) value[at] = rowsOf(value[at]);
    return value;
  }
  const { row_keys: keys, row_columns: packed } = value;
  if (keys && packed) {
    /** @type {unknown[][]} */
    const columns = packed.map(rowsOf);
    const most = columns.reduce((longest, column) => (column.length > longest.length ? column : longest));
    // `fromEntries` defines each key as the row's own, whatever it is called.
    return most.map((_, at) =>
      Object.fromEntries(columns.map((column, place) => [keys[place], column.length > 1 ? column[at] : column[0]])),
    );
  }
  for (const key of Object.keys(value)) value[key] = rowsOf(value[key]);
  return value;
}
