// What pages hold much of, made small by `weftrace.render.packed`: columns of numbers, rows of tables as columns, and
// long blocks, deflated. They are inflated here, because the browser's own decompression is asynchronous, and a page
// draws at once.

/**
 * @typedef {Uint8Array | Uint16Array | Uint32Array | Float64Array} Numbers
 * @typedef {timeline_block.PackedColumn} Packed
 */

const TYPES = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f8: Float64Array };

/**
 * @param {Packed} packed
 * @returns {Numbers}
 */
export function unpacked({ type, data, deflated }) {
  const bytes = bytesOf(data);
  // Columns are little-endian, like every machine that browsers run on today.
  if (!deflated)
    return new TYPES[type](bytes.buffer, bytes.byteOffset, bytes.byteLength / TYPES[type].BYTES_PER_ELEMENT);
  const width = TYPES[type].BYTES_PER_ELEMENT;
  const planes = inflated(bytes);
  const out = new TYPES[type](planes.length / width);
  if (out instanceof Float64Array) {
    const low = joined(planes, 0, new Uint32Array(out.length));
    const high = joined(planes, 4 * out.length, new Int32Array(out.length));
    for (let i = 0; i < out.length; i += 1) out[i] = high[i] * 2 ** 32 + low[i];
  } else joined(planes, 0, out);
  if (deflated === "steps") for (let i = 1; i < out.length; i += 1) out[i] += out[i - 1];
  return out;
}

/**
 * Numbers whose bytes stand by weight: all lowest first.
 * @template {Uint8Array | Uint16Array | Uint32Array | Int32Array} Whole
 * @param {Uint8Array} planes
 * @param {number} from
 * @param {Whole} out
 */
function joined(planes, from, out) {
  for (let weight = 0; weight < out.BYTES_PER_ELEMENT; weight += 1) {
    const first = from + weight * out.length;
    for (let i = 0; i < out.length; i += 1) out[i] |= planes[first + i] << (8 * weight);
  }
  return out;
}

/**
 * What a block of JSON says, deflated or not.
 * @param {string} text
 * @returns {any}
 */
export function blockOf(text) {
  const value = JSON.parse(text);
  if (typeof value.deflated !== "string") return value;
  return JSON.parse(new TextDecoder().decode(inflated(bytesOf(value.deflated), value.size)));
}

/** @param {string} text */
function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const out = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i += 1) out[i] = binary.charCodeAt(i);
  return out;
}

/**
 * Data that `packed_rows` made small, as it was.
 * @param {any} value
 * @returns {any}
 */
export function rowsOf(value) {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at += 1) value[at] = rowsOf(value[at]);
    return value;
  }
  const { row_keys: keys, row_columns: packed, numbers } = value;
  if (numbers) return Array.from(unpacked(numbers), (each) => each + value.from);
  if (packed) {
    /** @type {unknown[][]} */
    const columns = packed.map(rowsOf);
    const most = columns.reduce((longest, column) => (column.length > longest.length ? column : longest));
    /** @param {number} at */
    const cells = (at) => columns.map((column) => (column.length > 1 ? column[at] : column[0]));
    if (!keys) return most.map((_, at) => cells(at));
    // `fromEntries` defines each key as the row's own, whatever it is called.
    return most.map((_, at) => Object.fromEntries(cells(at).map((cell, place) => [keys[place], cell])));
  }
  for (const key of Object.keys(value)) value[key] = rowsOf(value[key]);
  return value;
}

// --- inflate: RFC 1951 ---

/** @typedef {{ table: Uint16Array, most: number }} Codes a symbol and its length, by the bits that come next */

const ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
/** For a length's or a distance's symbol: its extra bits, and the least that it stands for. */
const LENGTHS = bases(29, 3, (symbol) => (symbol < 8 ? 0 : (symbol - 4) >> 2));
const DISTANCES = bases(30, 1, (symbol) => (symbol < 4 ? 0 : (symbol - 2) >> 1));
LENGTHS.extra[28] = 0;
LENGTHS.base[28] = 258;

/**
 * @param {number} number
 * @param {number} least
 * @param {(symbol: number) => number} extraOf
 */
function bases(number, least, extraOf) {
  const extra = Array.from({ length: number }, (_, symbol) => extraOf(symbol));
  let next = least;
  const base = extra.map((bits) => {
    next += 1 << bits;
    return next - (1 << bits);
  });
  return { extra, base };
}

/**
 * @param {number[]} lengths of each symbol's code, in bits
 * @returns {Codes}
 */
function codesOf(lengths) {
  const most = Math.max(1, ...lengths);
  const table = new Uint16Array(1 << most);
  let code = 0;
  for (let length = 1; length <= most; length += 1) {
    for (let symbol = 0; symbol < lengths.length; symbol += 1) {
      if (lengths[symbol] !== length) continue;
      let reversed = 0;
      for (let bit = 0; bit < length; bit += 1) reversed |= ((code >> bit) & 1) << (length - 1 - bit);
      for (let at = reversed; at < table.length; at += 1 << length) table[at] = (symbol << 4) | length;
      code += 1;
    }
    code <<= 1;
  }
  return { table, most };
}

/**
 * @param {Uint8Array} data
 * @param {number} [size] of what comes out, where it is known
 */
function inflated(data, size = 8 * data.length + 64) {
  let out = new Uint8Array(size);
  let [at, to, held, count] = [0, 0, 0, 0];
  /** @param {number} number */
  const bits = (number) => {
    while (count < number) {
      held |= data[at] << count; // nothing is 0: a code may be looked for past the end
      at += 1;
      count += 8;
    }
    const found = held & ((1 << number) - 1);
    held >>>= number;
    count -= number;
    return found;
  };
  /** @param {Codes} codes */
  const symbolOf = ({ table, most }) => {
    while (count < most) {
      held |= data[at] << count;
      at += 1;
      count += 8;
    }
    const found = table[held & ((1 << most) - 1)];
    held >>>= found & 15;
    count -= found & 15;
    return found >> 4;
  };
  /** @param {number} more */
  const room = (more) => {
    if (to + more <= out.length) return;
    const wider = new Uint8Array(2 * (to + more));
    wider.set(out);
    out = wider;
  };
  for (let last = 0; !last; ) {
    last = bits(1);
    const kind = bits(2);
    if (kind === 0) {
      at -= count >> 3; // whole bytes that were taken too early
      const length = data[at] | (data[at + 1] << 8);
      held = 0;
      count = 0;
      room(length);
      out.set(data.subarray(at + 4, at + 4 + length), to);
      at += 4 + length;
      to += length;
      continue;
    }
    const [literals, distances] = kind === 1 ? fixedCodes() : writtenCodes(bits, symbolOf);
    for (let symbol = symbolOf(literals); symbol !== 256; symbol = symbolOf(literals)) {
      if (symbol < 256) {
        if (to === out.length) room(1);
        out[to] = symbol;
        to += 1;
        continue;
      }
      const length = LENGTHS.base[symbol - 257] + bits(LENGTHS.extra[symbol - 257]);
      const by = symbolOf(distances);
      const distance = DISTANCES.base[by] + bits(DISTANCES.extra[by]);
      room(length);
      for (let end = to + length; to < end; to += 1) out[to] = out[to - distance];
    }
  }
  return out.subarray(0, to);
}

/** @returns {[Codes, Codes]} */
function fixedCodes() {
  const literals = Array.from({ length: 288 }, (_, symbol) =>
    symbol < 144 ? 8 : symbol < 256 ? 9 : symbol < 280 ? 7 : 8,
  );
  return [codesOf(literals), codesOf(Array(30).fill(5))];
}

/**
 * @param {(number: number) => number} bits
 * @param {(codes: Codes) => number} symbolOf
 * @returns {[Codes, Codes]}
 */
function writtenCodes(bits, symbolOf) {
  const [numLiterals, numDistances, numOrdered] = [bits(5) + 257, bits(5) + 1, bits(4) + 4];
  const own = Array(19).fill(0);
  for (let i = 0; i < numOrdered; i += 1) own[ORDER[i]] = bits(3);
  const codes = codesOf(own);
  /** @type {number[]} */
  const lengths = [];
  while (lengths.length < numLiterals + numDistances) {
    const symbol = symbolOf(codes);
    if (symbol < 16) lengths.push(symbol);
    else {
      const again = symbol === 16 ? lengths[lengths.length - 1] : 0;
      const times = symbol === 16 ? 3 + bits(2) : symbol === 17 ? 3 + bits(3) : 11 + bits(7);
      for (let i = 0; i < times; i += 1) lengths.push(again);
    }
  }
  return [codesOf(lengths.slice(0, numLiterals)), codesOf(lengths.slice(numLiterals))];
}
