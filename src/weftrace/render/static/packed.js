// Columns of numbers as pages hold them: little-endian, in base64 (`weftrace.render.packed`).

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
