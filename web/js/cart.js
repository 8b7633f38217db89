// What the fan has chosen, and holding it. One wish has one Idempotency-Key: it is kept until its outcome is known, also over
// a reload, and a changed wish gets a fresh one.

import { ApiError, call } from "./api.js";
import { randomId } from "./session.js";
import { seatKey } from "./seatmap.js";

export class Cart {
  #seats = new Map();
  #places = new Map();

  constructor(event, limit) {
    this.event = event;
    this.limit = limit;
  }

  get size() {
    let places = 0;
    for (const count of this.#places.values()) places += count;
    return this.#seats.size + places;
  }

  get keys() {
    return this.#seats.keys();
  }

  get seats() {
    return [...this.#seats.values()];
  }

  get places() {
    return [...this.#places].map(([section, count]) => ({ section, count }));
  }

  has(key) {
    return this.#seats.has(key);
  }

  /** Add a seat; false if the cart is full. */
  add({ section, row, seat }) {
    if (this.size >= this.limit) return false;
    this.#seats.set(seatKey({ section, row, seat }), { section, row, seat });
    return true;
  }

  remove(key) {
    this.#seats.delete(key);
  }

  /** Take this many standing places; as many as fit are taken. */
  stand(section, count) {
    this.#places.delete(section);
    const fits = Math.max(0, Math.min(count, this.limit - this.size));
    if (fits > 0) this.#places.set(section, fits);
    return fits;
  }

  standing(section) {
    return this.#places.get(section) ?? 0;
  }

  clear() {
    this.#seats.clear();
    this.#places.clear();
  }
}

/** Hold what the cart has. */
export function holdCart(cart, promotion, pass) {
  const body = { event_id: cart.event, seats: cart.seats };
  if (cart.places.length > 0) body.places = cart.places;
  if (promotion) body.promotion = promotion;
  return attempt(cart.event, "/reservations", body, pass);
}

/** Hold the best seats for these wishes. */
export function holdBest(event, wishes, promotion, pass) {
  const body = promotion ? { ...wishes, promotion } : wishes;
  return attempt(event, `/events/${event}/best-available`, body, pass);
}

async function attempt(event, path, body, pass) {
  const slot = `encore.attempt.${event}`;
  const wish = JSON.stringify([path, body]);
  const open = JSON.parse(sessionStorage.getItem(slot) ?? "null");
  const key = open?.wish === wish ? open.key : randomId();
  sessionStorage.setItem(slot, JSON.stringify({ wish, key }));
  try {
    const reservation = await call("buy", "POST", path, { body, key, pass });
    sessionStorage.removeItem(slot);
    return reservation;
  } catch (error) {
    const unknown = error instanceof ApiError && (error.status === 0 || error.status >= 500) && error.code !== "HOLD_NOT_DECIDED";
    if (!unknown) sessionStorage.removeItem(slot);
    throw error;
  }
}
