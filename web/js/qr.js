// A QR encoder for what tickets need: bytes, error correction M, versions 1 to 10 (ISO/IEC 18004). Gives the modules as rows
// of booleans, dark is true.

/** Per version: error-correction bytes of a block, then the data bytes of each block. */
const BLOCKS = [
  null,
  [10, [16]],
  [16, [28]],
  [26, [44]],
  [18, [32, 32]],
  [24, [43, 43]],
  [16, [27, 27, 27, 27]],
  [18, [31, 31, 31, 31]],
  [22, [38, 38, 39, 39]],
  [22, [36, 36, 36, 37, 37]],
  [26, [43, 43, 43, 43, 44]],
];
/** Centres of the alignment patterns. */
const ALIGNED = [null, [], [6, 18], [6, 22], [6, 26], [6, 30], [6, 34], [6, 22, 38], [6, 24, 42], [6, 26, 46], [6, 28, 50]];
const MASKS = [
  (x, y) => (x + y) % 2 === 0,
  (x, y) => y % 2 === 0,
  (x) => x % 3 === 0,
  (x, y) => (x + y) % 3 === 0,
  (x, y) => (Math.floor(y / 2) + Math.floor(x / 3)) % 2 === 0,
  (x, y) => ((x * y) % 2) + ((x * y) % 3) === 0,
  (x, y) => (((x * y) % 2) + ((x * y) % 3)) % 2 === 0,
  (x, y) => (((x + y) % 2) + ((x * y) % 3)) % 2 === 0,
];

/** The modules of a text. `mask` 0 to 7 fixes the mask; without it the best one is chosen. */
export function encode(text, mask) {
  const bytes = new TextEncoder().encode(text);
  const version = BLOCKS.findIndex((blocks, at) => blocks && bytes.length <= capacity(at));
  if (version < 0) throw new RangeError(`${bytes.length} bytes do not fit into a code of version 10`);
  const words = interleave(version, dataWords(version, bytes));
  const board = new Board(version);
  board.fill(words);
  const candidates = mask === undefined ? [0, 1, 2, 3, 4, 5, 6, 7] : [mask];
  const drawn = candidates.map((one) => board.masked(one));
  const costs = drawn.map(penalty);
  return drawn[costs.indexOf(Math.min(...costs))];
}

const countBits = (version) => (version < 10 ? 8 : 16);
const dataLength = (version) => BLOCKS[version][1].reduce((sum, block) => sum + block, 0);
const capacity = (version) => dataLength(version) - Math.ceil((4 + countBits(version)) / 8);

function dataWords(version, bytes) {
  const bits = [];
  const push = (value, length) => {
    for (let at = length - 1; at >= 0; at--) bits.push((value >> at) & 1);
  };
  push(0b0100, 4);
  push(bytes.length, countBits(version));
  for (const byte of bytes) push(byte, 8);
  const room = dataLength(version) * 8;
  push(0, Math.min(4, room - bits.length));
  push(0, (8 - (bits.length % 8)) % 8);
  for (let pad = 0xec; bits.length < room; pad ^= 0xec ^ 0x11) push(pad, 8);
  return Uint8Array.from({ length: room / 8 }, (_, word) => bits.slice(word * 8, word * 8 + 8).reduce((all, bit) => all * 2 + bit, 0));
}

/** Data in blocks, each with its correction; then first words of all blocks, second words, and so on. */
function interleave(version, data) {
  const [length, sizes] = BLOCKS[version];
  const generator = generatorOf(length);
  const blocks = [];
  let from = 0;
  for (const size of sizes) {
    const block = data.slice(from, from + size);
    blocks.push({ block, correction: correct(block, generator) });
    from += size;
  }
  const words = [];
  for (let at = 0; at < Math.max(...sizes); at++) for (const { block } of blocks) if (at < block.length) words.push(block[at]);
  for (let at = 0; at < length; at++) for (const { correction } of blocks) words.push(correction[at]);
  return words;
}

/** Multiplication in the field of 256 elements with the polynomial 0x11d. */
function times(a, b) {
  let product = 0;
  for (let bit = 7; bit >= 0; bit--) {
    product = (product << 1) ^ ((product >> 7) * 0x11d);
    if ((b >> bit) & 1) product ^= a;
  }
  return product;
}

function generatorOf(length) {
  let generator = [1];
  let root = 1;
  for (let step = 0; step < length; step++) {
    const next = [...generator, 0];
    generator.forEach((factor, at) => (next[at + 1] ^= times(factor, root)));
    generator = next;
    root = times(root, 2);
  }
  return generator.slice(1);
}

function correct(block, generator) {
  const rest = new Array(generator.length).fill(0);
  for (const word of block) {
    const factor = word ^ rest.shift();
    rest.push(0);
    generator.forEach((one, at) => (rest[at] ^= times(one, factor)));
  }
  return rest;
}

class Board {
  constructor(version) {
    this.version = version;
    this.size = 17 + 4 * version;
    this.dark = grid(this.size);
    /** Modules that belong to the patterns: no data, no mask. */
    this.fixed = grid(this.size);
    this.#patterns();
  }

  #set(x, y, dark) {
    this.dark[y][x] = Boolean(dark);
    this.fixed[y][x] = true;
  }

  #patterns() {
    const end = this.size - 7;
    for (let at = 0; at < this.size; at++) {
      this.#set(6, at, at % 2 === 0);
      this.#set(at, 6, at % 2 === 0);
    }
    for (const [left, top] of [[0, 0], [end, 0], [0, end]]) this.#finder(left, top);
    const centres = ALIGNED[this.version];
    const last = centres.length - 1;
    centres.forEach((x, i) => centres.forEach((y, j) => {
      const corner = (i === 0 && j === 0) || (i === 0 && j === last) || (i === last && j === 0);
      if (!corner) this.#square(x, y, 2, (away) => away !== 1);
    }));
    this.#format(0);
    if (this.version >= 7) this.#versionBits();
  }

  #finder(left, top) {
    this.#square(left + 3, top + 3, 4, (away) => away !== 2 && away !== 4);
  }

  #square(x, y, reach, isDark) {
    for (let dy = -reach; dy <= reach; dy++) {
      for (let dx = -reach; dx <= reach; dx++) {
        if (x + dx < 0 || y + dy < 0 || x + dx >= this.size || y + dy >= this.size) continue;
        this.#set(x + dx, y + dy, isDark(Math.max(Math.abs(dx), Math.abs(dy))));
      }
    }
  }

  /** Level M (00) and the mask, protected by a BCH code, twice. */
  #format(mask) {
    const bits = ((mask << 10) | remainder(mask, 0x537, 10)) ^ 0x5412;
    const bit = (at) => (bits >> at) & 1;
    for (let at = 0; at < 15; at++) {
      const beside = at < 6 ? at : at < 8 ? at + 1 : this.size - 15 + at;
      this.#set(8, beside, bit(at));
      const along = at < 8 ? this.size - 1 - at : at < 9 ? 7 : 14 - at;
      this.#set(along, 8, bit(at));
    }
    this.#set(8, this.size - 8, true);
  }

  #versionBits() {
    const bits = (this.version << 12) | remainder(this.version, 0x1f25, 12);
    for (let at = 0; at < 18; at++) {
      const [a, b] = [this.size - 11 + (at % 3), Math.floor(at / 3)];
      this.#set(a, b, (bits >> at) & 1);
      this.#set(b, a, (bits >> at) & 1);
    }
  }

  /** Two columns at a time, from the right, up and down in turn. */
  fill(words) {
    let next = 0;
    let up = true;
    for (let right = this.size - 1; right > 0; right -= 2) {
      if (right === 6) right = 5;
      for (let step = 0; step < this.size; step++) {
        const y = up ? this.size - 1 - step : step;
        for (const x of [right, right - 1]) {
          if (this.fixed[y][x]) continue;
          const word = words[next >> 3];
          this.dark[y][x] = word !== undefined && ((word >> (7 - (next & 7))) & 1) === 1;
          next++;
        }
      }
      up = !up;
    }
  }

  masked(mask) {
    const copy = new Board(this.version);
    copy.#format(mask);
    this.dark.forEach((row, y) => row.forEach((dark, x) => {
      if (!this.fixed[y][x]) copy.dark[y][x] = dark !== MASKS[mask](x, y);
    }));
    return copy.dark;
  }
}

const grid = (size) => Array.from({ length: size }, () => new Array(size).fill(false));

/** The remainder of `value` shifted up by `degree`, by a generator of that degree. */
function remainder(value, generator, degree) {
  let rest = value << degree;
  for (let at = 31 - Math.clz32(rest || 1); at >= degree; at--) if ((rest >> at) & 1) rest ^= generator << (at - degree);
  return rest;
}

/** How hard a symbol is to read: long runs, squares, what looks like a finder, and uneven shares of dark. */
function penalty(rows) {
  const size = rows.length;
  const columns = rows.map((_, x) => rows.map((row) => row[x]));
  let cost = 0;
  for (const line of [...rows, ...columns]) cost += runs(line) + finders(line);
  for (let y = 0; y < size - 1; y++) {
    for (let x = 0; x < size - 1; x++) {
      const one = rows[y][x];
      if (rows[y][x + 1] === one && rows[y + 1][x] === one && rows[y + 1][x + 1] === one) cost += 3;
    }
  }
  const dark = rows.flat().filter(Boolean).length;
  return cost + Math.floor(Math.abs(dark * 20 - size * size * 10) / (size * size)) * 10;
}

function runs(line) {
  let cost = 0;
  let length = 0;
  line.forEach((dark, at) => {
    length = at > 0 && line[at - 1] === dark ? length + 1 : 1;
    if (length === 5) cost += 3;
    else if (length > 5) cost += 1;
  });
  return cost;
}

function finders(line) {
  const text = line.map((dark) => (dark ? "1" : "0")).join("");
  let cost = 0;
  for (const look of ["10111010000", "00001011101"]) {
    for (let at = text.indexOf(look); at >= 0; at = text.indexOf(look, at + 1)) cost += 40;
  }
  return cost;
}

/** The path of a symbol's dark modules, one unit a module, with the quiet zone of four that readers want. */
export function path(rows, quiet = 4) {
  let d = "";
  rows.forEach((row, y) => {
    for (let x = 0; x < row.length; x++) {
      if (!row[x]) continue;
      let end = x;
      while (row[end + 1]) end++;
      d += `M${x + quiet} ${y + quiet}h${end - x + 1}v1h-${end - x + 1}z`;
      x = end;
    }
  });
  return { d, size: rows.length + 2 * quiet };
}
