// The packed state of seats: two bits a seat, four seats a byte, the most significant pair first.

/** What the two bits mean. */
export const STATES = ["free", "held", "sold", "blocked"];

/** The states of the first `count` seats. */
export function unpack(bytes, count) {
  const states = new Uint8Array(count);
  for (let i = 0; i < count; i++) states[i] = (bytes[i >> 2] >> (6 - 2 * (i % 4))) & 3;
  return states;
}
