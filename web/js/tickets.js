// My tickets: each with a code that changes every few seconds and works without a network.

import { call, sentence } from "./api.js";
import { encode, path } from "./qr.js";
import { codeAt } from "./ticketcode.js";
import { at, count, date, draw, header, make, notice, seatName } from "./ui.js";
import { canCompute, kept, update } from "./wallet.js";

const WORDS = { valid: "Valid", revoked: "Not valid any more", checked_in: "Used" };
const fan = header();
const cards = new Map();

async function open() {
  navigator.serviceWorker?.register("/sw.js").catch(() => {});
  const all = await kept().catch(() => []);
  const stored = all.filter((record) => !fan || record.user === fan.user);
  show(stored);
  if (fan) await fresh(stored);
  else at("wallet-state").textContent = stored.length > 0 ? "The tickets that this device keeps." : "Open your sign-in link to see your tickets.";
  setInterval(() => cards.forEach(turn), 500);
}

async function fresh(stored) {
  try {
    const { tickets } = await call("buy", "GET", "/me/tickets");
    show(await update(fan.user, tickets));
    at("wallet-state").textContent = tickets.length > 0 ? `${count(tickets.length, "ticket")}. Show the code at the gate; it also works offline.` : "You have no tickets yet.";
  } catch (error) {
    at("wallet-state").textContent = stored.length > 0 ? "The shop cannot be reached. These are the tickets that this device keeps." : "";
    if (stored.length === 0 || error.status) notice(sentence(error));
  }
}

function show(records) {
  cards.clear();
  const sorted = [...records].sort((a, b) => a.ticket.starts_at.localeCompare(b.ticket.starts_at));
  at("tickets").replaceChildren(...sorted.map(card));
  at("tickets").setAttribute("aria-busy", "false");
  cards.forEach(turn);
}

function card(record) {
  const { ticket } = record;
  const qr = make("div", { className: "qr", role: "img", "aria-label": "Code for the gate" });
  const left = make("progress", { max: 1, value: 1, "aria-hidden": "true" });
  const valid = ticket.status === "valid";
  if (valid && record.key) cards.set(ticket.ticket_id, { record, qr, left, window: null });
  else qr.append(make("p", { textContent: why(record) }));
  return make(
    "article", { className: "ticket", "data-ticket": ticket.ticket_id, "data-status": ticket.status },
    make("h2", { textContent: ticket.event_title || `Event ${ticket.event_id}` }),
    make("p", { className: "hint", textContent: [ticket.venue, date(ticket.starts_at)].filter(Boolean).join(" · ") }),
    make("p", { className: "seatline", textContent: seatName(ticket) }),
    qr,
    valid && record.key ? left : null,
    make("span", { className: "tag", "data-tag": ticket.status, textContent: WORDS[ticket.status] ?? ticket.status }),
  );
}

function why(record) {
  if (record.ticket.status === "checked_in") return "This ticket has been used.";
  if (record.ticket.status !== "valid") return "This ticket was refunded or withdrawn.";
  if (!canCompute()) return "Codes need a secure connection. Open this page over https.";
  return record.trouble ?? "The code could not be fetched yet. Reload this page.";
}

/** Draw a new code when its window begins. */
async function turn(shown) {
  const { record } = shown;
  const now = Date.now() + record.ahead_ms;
  const length = record.window_seconds * 1000;
  const window = Math.floor(now / length);
  shown.left.value = 1 - (now % length) / length;
  if (shown.window === window) return;
  shown.window = window;
  const code = await codeAt(record.ticket_id, record.key, record.window_seconds, now);
  const { d, size } = path(encode(code));
  const svg = draw("svg", { viewBox: `0 0 ${size} ${size}`, "shape-rendering": "crispEdges" }, draw("path", { d }));
  shown.qr.replaceChildren(svg);
  shown.qr.dataset.code = code;
}

open();
