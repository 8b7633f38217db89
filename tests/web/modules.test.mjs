// The pages' pure modules, run by `node --test tests/web/modules.test.mjs`: no packages, no network. Symbols were computed
// by another encoder; the ticket code is the one that the gate's own tests pin.

import assert from "node:assert/strict";
import { webcrypto } from "node:crypto";
import test from "node:test";
import { encode, path } from "../../web/js/qr.js";
import { unpack } from "../../web/js/bits.js";
import { codeAt, importSecret } from "../../web/js/ticketcode.js";

// Older versions of Node have it, but not by this name.
globalThis.crypto ??= webcrypto;

const CODE = "tic_0123456789abcdef0011223344556677.117600000.e2c51a5a735703e51360439f417c6e22e7dc9ba4ec3eb5a6dd602852d166d7bf";

/** Each row of a symbol as one hexadecimal number, dark is one. */
function rows(symbol) {
  const digits = Math.ceil(symbol.length / 4);
  const row = (modules) => BigInt("0b" + modules.map(Number).join("")).toString(16).padStart(digits, "0");
  return symbol.map(row).join(" ");
}

test("a short text is a symbol of version 1", () => {
  const expected =
    "1fd17f 105641 174f5d 17545d 17405d 104841 1fd57f 001000 16ec4b 14b929 1559ff 122988 04d292 001c89 1fd8dc 1053cd " +
    "17426f 17588e 175e88 104b51 1fdb1c";
  assert.equal(rows(encode("Encore", 3)), expected);
});

test("a ticket code is a symbol of version 7, with its version bits", () => {
  const expected =
    "1fcc03c4597f 1051e7961241 1750cabd7a5d 17552e91535d 174171fd575d 1040b510a841 1fd55555557f 0011df19f800 " +
    "105d27f408ce 0227fd57e75c 11f24c2c07ee 0f85b708f8b4 11dfce07b031 08aa1b01c10d 03e9473c074e 10b6354e6d67 " +
    "06772712ce2a 10b8d80ac117 1fd5a499a017 01bd5c3179b6 07f5fff843fa 0f1481147712 0757eb5a055c 1117e111d91e " +
    "05f131fd57f9 0033e6f0734f 1b6ab52ca412 0f398b94efb6 16ef7db84c1b 0bb90cd94387 1d4fb25b32c7 05b718117bf5 " +
    "0968343c08f8 192c0e14e53c 01591d4e2422 0f03417fb3ef 134d0bfbbbfb 001ae71ec917 1fce2f502f58 1040c9146d1d " +
    "174afdf00dfe 17497ff362bd 174153e333f9 10428721f134 1fd720d889ea";
  assert.equal(rows(encode(CODE, 5)), expected);
});

test("the largest symbol is full, and more is refused", () => {
  const largest = encode("x".repeat(213), 0);
  assert.equal(largest.length, 57);
  const first = "1fcf4bbddddd67f";
  const last = "1fd8b5ecb77748b";
  assert.deepEqual([rows(largest).split(" ")[0], rows(largest).split(" ").at(-1)], [first, last]);
  assert.throws(() => encode("x".repeat(214)), RangeError);
});

test("the mask is chosen the same way every time", () => {
  assert.equal(rows(encode(CODE)), rows(encode(CODE)));
  const all = [0, 1, 2, 3, 4, 5, 6, 7].map((mask) => rows(encode(CODE, mask)));
  assert.ok(all.includes(rows(encode(CODE))));
});

test("a symbol is drawn as runs inside its quiet zone", () => {
  const { d, size } = path([[true, true], [false, true]]);
  assert.deepEqual([d, size], ["M4 4h2v1h-2zM5 5h1v1h-1z", 10]);
});

test("seats come four to a byte, the first in the highest bits", () => {
  assert.deepEqual([...unpack(new Uint8Array([0b00011011, 0b10000000]), 5)], [0, 1, 2, 3, 2]);
});

test("the wallet computes the code that the gate accepts", async () => {
  const secret = Array.from({ length: 32 }, (_, at) => at.toString(16).padStart(2, "0")).join("");
  const key = await importSecret(secret);
  assert.equal(await codeAt("tic_0123456789abcdef0011223344556677", key, 15, 1_764_000_007_000), CODE);
  assert.equal(key.extractable, false);
});

test("a change that was announced is asked for until it is seen", { timeout: 30_000 }, async () => {
  const store = { getItem: () => null, setItem() {}, removeItem() {} };
  Object.assign(globalThis, { sessionStorage: store, localStorage: store, history: { replaceState() {} } });
  globalThis.location = { hash: "", pathname: "/", search: "", origin: "http://shop.example" };
  globalThis.document = { hidden: false, addEventListener() {} };
  globalThis.addEventListener = () => {};
  const listeners = {};
  globalThis.EventSource = class {
    addEventListener(name, listener) {
      listeners[name] = listener;
    }
  };
  // The shop's memory is behind for two answers: one seat held, version 6; then free again, version 7.
  let asked = 0;
  globalThis.fetch = async (address) => {
    const url = new URL(address, "http://shop.example");
    if (url.pathname === "/config.json") return Response.json({});
    if (!url.searchParams.has("section")) return Response.json({ sections: [] });
    asked += 1;
    const fresh = asked > 3;
    const headers = { "X-Seat-Version": fresh ? "7" : "6", "X-Seat-Count": "1" };
    return new Response(new Uint8Array([fresh ? 0 : 0b01_000000]), { headers });
  };
  const { Live } = await import("../../web/js/live.js");
  const shown = new Promise((resolve) => {
    const live = new Live(1, {
      section: (name, states) => states[0] === 0 && resolve(name),
      overview() {},
      mode() {},
    });
    live.start();
    live.show(["A"]);
    listeners.invalidate({ data: JSON.stringify({ section: "A", version: 7 }) });
  });
  assert.equal(await shown, "A");
  assert.ok(asked > 3, `asked ${asked} times`);
});
