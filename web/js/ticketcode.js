// The rotating code of a ticket: `{ticket}.{window}.{hex HMAC-SHA256(secret, "ticket:window")}`.

/** The code of a ticket at a moment. */
export async function codeAt(ticket, key, windowSeconds, nowMs) {
  const window = Math.floor(nowMs / (windowSeconds * 1000));
  const message = new TextEncoder().encode(`${ticket}:${window}`);
  const proof = new Uint8Array(await crypto.subtle.sign("HMAC", key, message));
  return `${ticket}.${window}.${Array.from(proof, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

/** A secret, as the shop gives it in hex, as a key that stays in the browser. */
export function importSecret(text) {
  const bytes = Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  return crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
}
