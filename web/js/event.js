// One event: the live map, the place in the queue, and the hold that leads to checkout.

import { ApiError, call, sentence } from "./api.js";
import { Cart, holdBest, holdCart } from "./cart.js";
import { Live } from "./live.js";
import { Queue } from "./queue.js";
import { QueuePanel } from "./queuepanel.js";
import { SeatMap, seatKey } from "./seatmap.js";
import { at, count, date, header, make, money, notice, seatName } from "./ui.js";

/** Past this many seats, all at once would be too small to choose from. */
const ALL_AT_ONCE = 1_500;
const EVERYTHING = "";

const id = Number(new URLSearchParams(location.search).get("id"));
const fan = header();
let event;
let layout;
let cart;
let pass = null;
let holding = false;
const overview = new Map();
const shown = [];

const map = new SeatMap(at("map"), { toggle, block: (name) => choose(name), price: priceWords });
const live = new Live(id, { section: seatsChanged, overview: countsChanged, mode: liveMode });
const panel = new QueuePanel((said) => {
  pass = said.pass;
  if (cart) showCart();
});
const queue = new Queue(id, { answer: (said) => panel.answer(said), trouble: (error) => panel.trouble(error) });

async function open() {
  if (!Number.isInteger(id) || id < 1) {
    at("columns").hidden = true;
    return notice("This address names no event. Choose one from the list of events.");
  }
  try {
    event = await call("browse", "GET", `/events/${id}`, { anonymous: true });
    describe();
    const path = `/events/${id}/layout?version=${event.plan_version}`;
    layout = await call("browse", "GET", path, { anonymous: true });
  } catch (error) {
    at("title").textContent = "Event";
    at("columns").hidden = true;
    return notice(sentence(error));
  }
  cart = new Cart(id, Math.min(event.cart_limit ?? 6, event.user_limit ?? 6));
  listSections();
  wire();
  live.start();
  choose(new URLSearchParams(location.hash.slice(1)).get("section") ?? EVERYTHING);
  showCart();
  if (!fan) panel.signedOut();
  else if (!queue.resume()) panel.answer({ state: "gone", message: "Join the queue to buy. Your place is kept if you reload." });
}

function describe() {
  document.title = `${event.title} · Encore`;
  at("title").textContent = event.title;
  at("title").classList.remove("loading");
  at("facts").textContent = `${event.venue} · ${date(event.starts_at)}`;
  at("prices").textContent = event.tiers.map((tier) => `${tier.name} ${money(tier.base_price_cents, event.currency)}`).join(" · ");
  for (const tier of event.tiers) at("best-tier").append(make("option", { value: tier.name, textContent: tier.name }));
}

function wire() {
  at("section").addEventListener("change", (change) => choose(change.target.value));
  at("zoom-in").addEventListener("click", () => map.zoom(1.25));
  at("zoom-out").addEventListener("click", () => map.zoom(0.8));
  at("standing-count").addEventListener("change", stand);
  at("standing").addEventListener("submit", (submit) => submit.preventDefault());
  at("hold").addEventListener("click", () => hold(() => holdCart(cart, promotion(), pass)));
  at("best").addEventListener("submit", (submit) => {
    submit.preventDefault();
    hold(() => holdBest(id, wishes(), promotion(), pass));
  });
  at("join").addEventListener("click", join);
}

async function join() {
  at("join").disabled = true;
  try {
    notice("");
    await queue.join();
  } catch (error) {
    notice(sentence(error));
  } finally {
    at("join").disabled = false;
  }
}

// What is on the screen.

const seats = () => layout.sections.reduce((sum, section) => sum + (section.kind === "standing" ? 0 : section.capacity), 0);

function listSections() {
  const all = seats() <= ALL_AT_ONCE ? "Whole house" : "Overview";
  const option = (section) => make("option", { value: section.section, textContent: section.section });
  at("section").append(make("option", { value: EVERYTHING, textContent: all }), ...layout.sections.map(option));
}

function choose(name) {
  const section = layout.sections.find((one) => one.section === name);
  at("section").value = section ? name : EVERYTHING;
  const place = section ? `#section=${encodeURIComponent(name)}` : location.pathname + location.search;
  history.replaceState(null, "", place);
  shown.length = 0;
  const standing = section?.kind === "standing";
  at("map").hidden = standing;
  at("standing").hidden = !standing;
  const drawn = layout.sections.filter((one) => one.rows.length > 0);
  const asBlocks = !section && seats() > ALL_AT_ONCE;
  if (standing) showStanding(section);
  else if (asBlocks) map.blocks(layout.sections);
  else map.seats((section ? [section] : drawn));
  if (!standing && !asBlocks) shown.push(...(section ? [section] : drawn).map((one) => one.section));
  at("map-hint").textContent = hint(standing, asBlocks);
  at("legend").hidden = standing || asBlocks;
  map.choose(cart.keys);
  map.counts([...overview.values()]);
  live.show(shown);
}

function hint(standing, asBlocks) {
  if (standing) return "Standing places have no numbers; say how many you want.";
  if (asBlocks) return "Choose a section from the list or the map to see its seats.";
  return "Use the arrow keys to move between seats, and Enter or Space to choose.";
}

function showStanding(section) {
  const counts = overview.get(section.section)?.counts;
  const free = counts ? `${count(counts.free, "place")} free` : "Asking how many are free…";
  at("standing-text").textContent = `${section.section} · ${priceWords(section.section)} · ${free}`;
  at("standing-count").max = cart.limit;
  at("standing-count").value = cart.standing(section.section);
}

function priceOf(section) {
  const told = overview.get(section)?.price_cents;
  if (told !== undefined) return told;
  const tier = event.sections.find((one) => one.section === section)?.tier;
  return event.tiers.find((one) => one.name === tier)?.base_price_cents;
}

function priceWords(section) {
  const price = priceOf(section);
  return price === undefined ? "" : money(price, event.currency);
}

function liveMode(mode) {
  at("live").dataset.live = mode;
  at("live").textContent = mode === "on" ? "live" : "every few seconds";
}

function countsChanged(sections) {
  for (const section of sections) overview.set(section.section, section);
  map.counts(sections);
  for (const option of at("section").options) {
    const said = overview.get(option.value);
    if (said) option.textContent = `${option.value} — ${said.counts.free.toLocaleString("en")} free, ${priceWords(option.value)}`;
  }
  const current = layout.sections.find((one) => one.section === at("section").value);
  if (current?.kind === "standing" && document.activeElement !== at("standing-count")) showStanding(current);
  showCart();
}

function seatsChanged(name, states) {
  map.states(name, states);
  if (holding) return;
  const lost = cart.seats.filter((seat) => seat.section === name && ["held", "sold", "blocked"].includes(map.stateOf(seatKey(seat))));
  if (lost.length === 0) return;
  for (const seat of lost) cart.remove(seatKey(seat));
  map.choose(cart.keys);
  showCart();
  notice(`${lost.map(seatName).join("; ")}: just taken by somebody else. Choose again.`, "warn");
}

// The cart.

function toggle(seat) {
  if (cart.has(seat.key)) cart.remove(seat.key);
  else if (seat.state !== "free") return notice(`${seatName(seat)} cannot be had just now.`, "warn");
  else if (!cart.add(seat)) return notice(`You can choose up to ${count(cart.limit, "seat")} at once.`, "warn");
  map.choose(cart.keys);
  at("suggestion").hidden = true;
  showCart();
}

function stand() {
  const section = at("section").value;
  const wanted = Number(at("standing-count").value) || 0;
  const taken = cart.stand(section, wanted);
  at("standing-count").value = taken;
  if (taken < wanted) notice(`You can choose up to ${count(cart.limit, "seat")} at once.`, "warn");
  showCart();
}

function showCart() {
  const line = (text, price, take) =>
    make(
      "li", {}, make("span", { textContent: text }), make("span", { className: "price", textContent: price }),
      make("button", { type: "button", className: "quiet", textContent: "Remove", "aria-label": `Remove ${text}`, onclick: take }),
    );
  const lines = cart.seats.map((seat) => line(seatName(seat), priceWords(seat.section), () => drop(seatKey(seat))));
  for (const { section, count: places } of cart.places) {
    const price = money(priceOf(section) * places, event.currency);
    lines.push(line(`${section}, ${count(places, "place")}`, price, () => {
      cart.stand(section, 0);
      if (at("section").value === section) at("standing-count").value = 0;
      showCart();
    }));
  }
  at("cart-seats").replaceChildren(...lines);
  at("cart-empty").hidden = cart.size > 0;
  at("cart-total").hidden = cart.size === 0;
  if (cart.size > 0) at("cart-total").replaceChildren(make("span", { textContent: "About" }), total());
  at("hold").disabled = !pass || cart.size === 0 || holding;
  at("best-hold").disabled = !pass || holding;
  const dynamic = event.dynamic_pricing ? " The price is fixed when you hold." : "";
  at("hold-hint").textContent = (pass ? "Held seats are yours while you pay." : "You can hold seats when it is your turn.") + dynamic;
}

function total() {
  const sum = cart.seats.reduce((all, seat) => all + priceOf(seat.section), 0);
  const standing = cart.places.reduce((all, { section, count: places }) => all + priceOf(section) * places, 0);
  return make("span", { textContent: money(sum + standing, event.currency) });
}

function drop(key) {
  cart.remove(key);
  map.choose(cart.keys);
  showCart();
}

const promotion = () => at("promotion").value.trim();

function wishes() {
  const preferences = { contiguous: at("best-together").checked, accessible: Number(at("best-accessible").value) };
  if (at("best-tier").value) preferences.tier = at("best-tier").value;
  return { count: Number(at("best-count").value), preferences };
}

// Holding.

async function hold(ask) {
  holding = true;
  notice("");
  at("suggestion").hidden = true;
  showCart();
  try {
    const reservation = await ask();
    panel.inCheckout(reservation.reservation_id);
    location.assign(`/checkout.html?reservation=${encodeURIComponent(reservation.reservation_id)}`);
  } catch (error) {
    holding = false;
    refused(error);
    showCart();
  }
}

function refused(error) {
  notice(sentence(error), error.status === 409 || error.status === 404 ? "warn" : "error");
  if (!(error instanceof ApiError)) return;
  const said = error.details;
  if (error.code === "SEAT_UNAVAILABLE") {
    for (const seat of said.unavailable_seats ?? []) cart.remove(seatKey(seat));
    const names = (said.unavailable_seats ?? []).map(seatName).join("; ");
    if (names) notice(`${sentence(error)} (${names})`, "warn");
    map.choose(cart.keys);
    live.show(shown);
    if (said.suggestion?.seats?.length) suggest(said.suggestion.seats);
  }
  if (error.code === "NO_MATCHING_SEATS" && said.alternatives?.length) {
    const words = said.alternatives.slice(0, 4).map((one) => `${one.section}: ${one.free} free, ${one.largest_together} side by side`);
    notice(`${sentence(error)} ${words.join("; ")}.`, "warn");
  }
  if (error.code === "CHECKOUT_ALREADY_OPEN" && said.reservation_id) panel.inCheckout(said.reservation_id);
  if (["QUEUE_TOKEN_USED", "QUEUE_TOKEN_INVALID"].includes(error.code)) {
    pass = null;
    queue.refresh().catch((trouble) => panel.trouble(trouble));
  }
}

function suggest(alternatives) {
  const names = alternatives.map(seatName).join("; ");
  const take = make("button", { type: "button", id: "take-suggestion", textContent: "Choose these instead" });
  take.addEventListener("click", () => {
    cart.clear();
    alternatives.forEach((seat) => cart.add(seat));
    at("suggestion").hidden = true;
    choose(at("section").value && alternatives[0].section);
    showCart();
  });
  at("suggestion").replaceChildren(make("p", { textContent: `Still free: ${names}.` }), take);
  at("suggestion").hidden = false;
}

open();
