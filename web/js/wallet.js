// The wallet of this device: tickets and the keys of their rotating codes, kept in the browser's own database as keys that no
// script can read out again. With them the codes need no network.

import { call, sentence } from "./api.js";
import { device, randomId, renewDevice } from "./session.js";
import { importSecret } from "./ticketcode.js";

const DATABASE = "encore-wallet";
const STORE = "tickets";

/** Browsers compute codes only on pages that came over a safe connection (https, or this very machine). */
export const canCompute = () => Boolean(globalThis.crypto?.subtle);

function open() {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "ticket_id" });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

async function within(mode, work) {
  const database = await open();
  try {
    return await new Promise((resolve, reject) => {
      const change = database.transaction(STORE, mode);
      const request = work(change.objectStore(STORE));
      change.oncomplete = () => resolve(request?.result);
      change.onabort = change.onerror = () => reject(change.error);
    });
  } finally {
    database.close();
  }
}

/** What this device keeps: {ticket_id, user, ticket, device, key, window_seconds, ahead_ms}. */
export const kept = () => within("readonly", (store) => store.getAll());

const keep = (record) => within("readwrite", (store) => store.put(record));

/** Forget a fan's tickets on this device, and tell the shop that it carries them no more. */
export async function forget(user) {
  const mine = (await kept()).filter((record) => record.user === user);
  await Promise.allSettled(mine.filter((record) => record.key).map((record) => removeDevice(record.ticket_id, record.device)));
  for (const record of mine) await within("readwrite", (store) => store.delete(record.ticket_id));
  renewDevice();
}

/** Keep these tickets as the shop lists them, and fetch the keys that this device lacks. Gives the records. */
export async function update(user, tickets) {
  const known = new Map((await kept()).map((record) => [record.ticket_id, record]));
  const records = [];
  for (const ticket of tickets) {
    const record = { ...known.get(ticket.ticket_id), ticket_id: ticket.ticket_id, user, ticket };
    delete record.trouble;
    // Another secret, because a device was removed: ours makes no valid code any more.
    const current = record.key && (record.secret_version ?? 1) === ticket.secret_version;
    if (!current && ticket.status === "valid" && canCompute()) Object.assign(record, await fetchKey(ticket));
    await keep(record);
    records.push(record);
  }
  return records;
}

const walletPath = (ticket, carrier) => `/tickets/${encodeURIComponent(ticket)}/wallet?device=${encodeURIComponent(carrier)}`;

const removeDevice = (ticket, carrier) => call("buy", "DELETE", walletPath(ticket, carrier), { key: randomId(), once: true });

/** A secret is given once a device. If that one answer was lost on its way, this becomes another device and asks again. */
async function fetchKey(ticket, again = true) {
  const carrier = device();
  try {
    const said = await call("buy", "GET", walletPath(ticket.ticket_id, carrier));
    return {
      device: carrier,
      key: await importSecret(said.secret),
      secret_version: said.secret_version,
      window_seconds: said.window_seconds,
      // The gate goes by its clock, not by this phone's.
      ahead_ms: said.server_time_ms - Date.now(),
    };
  } catch (error) {
    if (!again || !["WALLET_ALREADY_GIVEN", "DEVICE_REVOKED"].includes(error.code)) return { trouble: sentence(error) };
    await removeDevice(ticket.ticket_id, carrier).catch(() => {});
    renewDevice();
    return fetchKey(ticket, false);
  }
}
