// Checkout: the held seats at the price that was frozen, the time that is left by the shop's own clock, and paying. The
// outcome is what the shop says after the provider's word, never what this page believes.

import { ApiError, call, pause, sentence } from "./api.js";
import { randomId } from "./session.js";
import { at, count, date, header, make, minutes, money, notice, seatName } from "./ui.js";

const LOOK_AGAIN_MS = 10_000;
const id = new URLSearchParams(location.search).get("reservation");
const fan = header();
const slot = `encore.payment.${id}`;

let reservation;
/** When the hold ends, by this page's monotonic clock: the device's wall clock may be wrong. */
let ends = 0;
let whole = 1;
let paying = false;
let settled = false;

async function open() {
  if (!fan) return stop("signed-out", "Open your sign-in link first, then this page again.");
  if (!id) return stop("missing", "This address names no reservation.");
  at("pay").addEventListener("submit", (submit) => {
    submit.preventDefault();
    pay();
  });
  at("cancel").addEventListener("click", cancel);
  document.addEventListener("visibilitychange", () => !document.hidden && !settled && refresh());
  setInterval(tick, 250);
  if (!(await refresh())) return;
  describe();
  const payment = JSON.parse(sessionStorage.getItem(slot) ?? "{}").payment;
  if (payment) follow(payment);
  for (;;) {
    await pause(LOOK_AGAIN_MS);
    if (!settled && !paying && !document.hidden) await refresh();
  }
}

async function refresh() {
  try {
    reservation = await call("buy", "GET", `/reservations/${encodeURIComponent(id)}`);
  } catch (error) {
    if (error.status === 404) stop("missing", "There is no such reservation of yours.");
    else notice(sentence(error));
    return false;
  }
  ends = performance.now() + reservation.remaining_ms;
  whole = Math.max(whole, reservation.remaining_ms);
  showOrder();
  showState();
  return true;
}

async function describe() {
  at("back").href = `/events.html?id=${reservation.event_id}`;
  try {
    const event = await call("browse", "GET", `/events/${reservation.event_id}`, { anonymous: true });
    at("order-event").textContent = `${event.title} · ${event.venue} · ${date(event.starts_at)}`;
    at("back").textContent = `Back to ${event.title}`;
  } catch {
    // The title is a comfort; paying does without.
  }
}

function showOrder() {
  const { currency } = reservation;
  const line = (seat) => {
    const price = make("span", { className: "price" });
    if (seat.full_price_cents !== seat.price_cents) price.append(make("s", { textContent: money(seat.full_price_cents, currency) }));
    price.append(money(seat.price_cents, currency));
    return make("li", {}, make("span", { textContent: seatName(seat) }), price);
  };
  at("order-seats").replaceChildren(...reservation.seats.map(line));
  at("order-seats").setAttribute("aria-busy", "false");
  const promotion = reservation.promotion ? ` with ${reservation.promotion}` : "";
  at("order-total").replaceChildren(
    make("span", { textContent: `Total${promotion}` }),
    make("span", { id: "total", textContent: money(reservation.total_cents, currency) }),
  );
  at("pay-button").textContent = `Pay ${money(reservation.total_cents, currency)}`;
}

function showState() {
  const { status } = reservation;
  if (status === "held") return paying || settled || held();
  if (status === "paid") return paying || paid();
  if (status === "expired") return paying || over("expired", "The time ran out, and these seats are on sale again. Nothing was charged for them.");
  if (status === "cancelled") return paying || over("cancelled", "You gave these seats back. They are on sale again.");
  if (status === "preparing") return say("preparing", "The seats are being asked…");
  return over(status, "This reservation has ended.");
}

function held() {
  say("held", `These seats are yours until the time runs out. Pay in time to keep ${count(reservation.seats.length, "seat")}.`);
  at("pay").hidden = false;
  at("done").hidden = true;
}

function say(state, text) {
  at("checkout").dataset.state = state;
  if (at("state").textContent !== text) at("state").textContent = text;
}

function over(state, text) {
  settled = true;
  sessionStorage.removeItem(slot);
  say(state, text);
  at("pay").hidden = true;
  finish("Choose other seats.", "Back to the seats", `/events.html?id=${reservation.event_id}`);
}

function stop(state, text) {
  settled = true;
  say(state, text);
  at("pay").hidden = true;
  at("order-seats").setAttribute("aria-busy", "false");
}

function finish(text, label, href) {
  at("done").hidden = false;
  at("done-text").textContent = text;
  at("done-link").textContent = label;
  at("done-link").href = href;
}

function tick() {
  const state = at("checkout").dataset.state;
  const counting = reservation && (state === "held" || state === "paying");
  at("clock-heading").textContent = counting || !reservation ? "Time left" : "Your order";
  at("countdown").hidden = !counting && state !== "loading";
  at("countdown-bar").hidden = !counting;
  if (!counting) return;
  const left = ends - performance.now();
  at("countdown").textContent = minutes(left);
  at("countdown-bar").value = Math.max(0, left / whole);
  at("clock").toggleAttribute("data-urgent", left < 60_000);
  if (left <= 0 && !paying && !tick.asked) {
    // The shop decides whether it is over; its clock stands still while it cannot serve.
    tick.asked = true;
    refresh().finally(() => setTimeout(() => (tick.asked = false), 1_500));
  }
}

// Paying. One click is one attempt with one key; a reload during it goes on with the same.

async function pay() {
  const open = JSON.parse(sessionStorage.getItem(slot) ?? "{}");
  const token = new FormData(at("pay")).get("card");
  const key = open.token === token && open.key ? open.key : randomId();
  sessionStorage.setItem(slot, JSON.stringify({ key, token }));
  busy(true);
  notice("");
  say("paying", "Paying…");
  try {
    const body = {
      payment_method: "card", payment_token: token, amount_cents: reservation.total_cents, currency: reservation.currency,
    };
    const path = `/reservations/${encodeURIComponent(id)}/payment`;
    const accepted = await call("buy", "POST", path, { body, key });
    sessionStorage.setItem(slot, JSON.stringify({ key, token, payment: accepted.payment_id }));
    await follow(accepted.payment_id);
  } catch (error) {
    const unknown = error instanceof ApiError && (error.status === 0 || error.status >= 500);
    if (error.code === "PAYMENT_ALREADY_OPEN") return follow(error.details.payment_id);
    if (!unknown) sessionStorage.removeItem(slot);
    notice(sentence(error));
    busy(false);
    await refresh();
  }
}

function busy(now) {
  paying = now;
  for (const control of at("pay").elements) control.disabled = now;
}

async function follow(payment) {
  busy(true);
  say("paying", "Waiting for the payment provider. You may close this page: your tickets come by e-mail as well.");
  for (let wait = 400; ; wait = Math.min(wait * 1.4, 4_000)) {
    let said;
    try {
      said = await call("buy", "GET", `/payments/${encodeURIComponent(payment)}/status`);
    } catch (error) {
      if (error.status === 404) break;
      notice(sentence(error));
    }
    if (said && said.status !== "processing") return decided(said);
    await pause(wait);
  }
  busy(false);
  await refresh();
}

async function decided(said) {
  busy(false);
  notice("");
  sessionStorage.removeItem(slot);
  if (said.status === "succeeded") return paid();
  if (said.status === "failed") {
    // Whether the seats stay for another card is decided right after the refusal: look until it shows.
    for (let look = 0; look < 8 && (await refresh()) && reservation.status === "held"; look++) await pause(400);
    const why = said.reason ? ` (${said.reason.replaceAll("_", " ")})` : "";
    const next = reservation.status === "held" ? "Nothing was charged. You may try another card." : "Nothing was charged, and the seats are on sale again.";
    notice(`The payment was declined${why}. ${next}`);
    if (reservation.status !== "held") over("declined", "The payment was declined.");
    return;
  }
  const back = said.status === "refunded" ? "was given back in full" : "is being given back in full";
  over("refunded", `The payment came too late to keep the seats. ${money(said.amount_cents, said.currency)} ${back}.`);
}

async function paid() {
  if (settled) return;
  settled = true;
  say("paid", "Paid. Your tickets are being written…");
  at("pay").hidden = true;
  finish("Thank you!", "Show my tickets", "/tickets.html");
  for (let wait = 300; ; wait = Math.min(wait * 1.4, 4_000)) {
    try {
      const { tickets } = await call("buy", "GET", "/me/tickets");
      const mine = tickets.filter((ticket) => ticket.reservation_id === id);
      if (mine.length >= reservation.seats.length) {
        say("ticketed", `Paid. ${count(mine.length, "ticket")} in your wallet.`);
        return;
      }
    } catch (error) {
      notice(sentence(error));
    }
    await pause(wait);
  }
}

async function cancel() {
  busy(true);
  notice("");
  try {
    reservation = await call("buy", "DELETE", `/reservations/${encodeURIComponent(id)}`, { key: randomId() });
  } catch (error) {
    notice(sentence(error));
  }
  busy(false);
  if (reservation.status === "held") await refresh();
  else showState();
}

open();
