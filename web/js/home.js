// The list of events.

import { call, sentence } from "./api.js";
import { at, count, date, header, make, money, notice } from "./ui.js";

const WORDS = { on_sale: "On sale", scheduled: "Soon", closed: "Closed", cancelled: "Called off" };

function card(event) {
  const link = make("a", { href: `/events.html?id=${event.event_id}`, textContent: event.title });
  const sale = event.status === "scheduled" ? `On sale from ${date(event.on_sale_at)}` : count(event.capacity, "place");
  return make(
    "li", { "data-event": event.event_id },
    make(
      "article", { className: "card" },
      make("h2", {}, link),
      make("p", { className: "hint", textContent: `${event.venue} · ${date(event.starts_at)}` }),
      make(
        "div", { className: "row" },
        make("span", { textContent: `from ${money(event.from_price_cents, event.currency)}` }),
        make("span", { className: "tag", "data-tag": event.status, textContent: WORDS[event.status] ?? event.status }),
      ),
      make("p", { className: "hint", textContent: sale }),
    ),
  );
}

async function show() {
  header();
  const list = at("events");
  try {
    const { events } = await call("browse", "GET", "/events", { anonymous: true });
    list.replaceChildren(...events.map(card));
    if (events.length === 0) notice("There are no events yet.", "info");
  } catch (error) {
    notice(sentence(error));
  } finally {
    list.setAttribute("aria-busy", "false");
  }
}

show();
