// Small pieces that every page uses: elements, the header, notices, money and dates.

import { session, signOut } from "./session.js";

/** The element of this id. */
export const at = (id) => document.getElementById(id);

/** An HTML element; properties starting with `data` or `aria` become attributes, text children are never HTML. */
export function make(name, properties = {}, ...children) {
  const element = document.createElement(name);
  dress(element, properties, children);
  return element;
}

/** An SVG element. */
export function draw(name, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function dress(element, properties, children) {
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key.includes("-") || key === "role") element.setAttribute(key, value);
    else element[key] = value;
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
}

/** Show who is signed in, mark the current page. Signing out also takes the fan's tickets off this device. */
export function header() {
  const account = at("account");
  const fan = session();
  account.replaceChildren();
  if (fan) {
    const out = make("button", { type: "button", className: "quiet", id: "sign-out", textContent: "Sign out" });
    out.addEventListener("click", async () => {
      out.disabled = true;
      const { forget } = await import("./wallet.js");
      await forget(fan.user).catch(console.error);
      signOut();
      location.assign("/");
    });
    account.append(make("span", {}, "Signed in as ", make("b", { id: "fan", textContent: fan.user })), out);
    if (fan.expired) notice("Your sign-in has run out. Open your sign-in link again.");
  } else {
    account.append(make("span", { id: "signed-out", textContent: "Not signed in. Open your sign-in link to buy." }));
  }
  const here = location.pathname.includes("tickets") ? "nav-tickets" : "nav-events";
  at(here)?.setAttribute("aria-current", "page");
  return fan;
}

/** Tell the fan something that matters now; nothing clears it. */
export function notice(text, kind = "error") {
  const box = at("notice");
  box.replaceChildren();
  box.hidden = !text;
  if (!text) return;
  box.dataset.kind = kind;
  const close = make("button", { type: "button", className: "quiet", textContent: "Close" });
  close.addEventListener("click", () => notice(""));
  box.append(make("p", { textContent: text }), close);
  box.scrollIntoView({ block: "nearest" });
}

/** Minor units in words: the currency itself knows how many decimals it has. */
export function money(minor, currency) {
  const format = new Intl.NumberFormat("en", { style: "currency", currency });
  return format.format(minor / 10 ** format.resolvedOptions().maximumFractionDigits);
}

const DATE = new Intl.DateTimeFormat("en-GB", {
  weekday: "short", day: "numeric", month: "long", year: "numeric", hour: "2-digit", minute: "2-digit",
});

/** A moment in the fan's own time zone; nothing for no moment. */
export const date = (text) => (text ? DATE.format(new Date(text)) : "");

/** Minutes and seconds; rounds up, so that 0:00 means over. */
export function minutes(ms) {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

/** A seat in words. */
export function seatName(seat) {
  if (!seat.row) return `${seat.section}, place ${seat.seat}`;
  return `${seat.section}, row ${seat.row}, seat ${seat.seat}`;
}

/** `3 seats`, `1 seat`. */
export const count = (number, one, many = one + "s") => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
