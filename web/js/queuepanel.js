// The queue's panel: one sentence, one number, and the button that fits.

import { sentence } from "./api.js";
import { at, count, minutes } from "./ui.js";

const CAN_JOIN = new Set(["gone", "expired"]);
const LINE = new Set(["waiting", "unlikely", "pre_sale"]);

export class QueuePanel {
  #changed;
  #most = 0;
  #until = 0;
  #ticking;

  /** `changed` is told {pass}: the pass that opens a hold, or null. */
  constructor(changed) {
    this.#changed = changed;
  }

  answer(said) {
    const state = said.state;
    at("queue").dataset.state = state;
    at("queue-message").textContent = said.message ?? "";
    at("join").hidden = !CAN_JOIN.has(state);
    at("join").textContent = state === "expired" ? "Join again" : "Join the queue";
    if (state !== "checkout") at("resume").hidden = true;
    // Also for a fan whose answer to the hold was lost on its way: the queue knows which reservation is theirs.
    else if (said.reservation_id) this.inCheckout(said.reservation_id);
    this.#place(said, LINE.has(state));
    this.#clock(said);
    this.#changed({ pass: state === "admitted" ? said.token : null });
  }

  #place(said, inLine) {
    const known = inLine && said.position !== null && said.position !== undefined;
    at("queue-position").hidden = !known;
    at("queue-progress").hidden = !known;
    if (known) {
      this.#most = Math.max(this.#most, said.position);
      at("queue-position").textContent = said.position.toLocaleString("en");
      at("queue-progress").max = this.#most;
      at("queue-progress").value = this.#most - said.position + 1;
    }
    at("queue-wait").hidden = !inLine;
    if (inLine) at("queue-wait").textContent = this.#wait(said);
  }

  #wait(said) {
    const parts = [];
    if (said.sale_starts_in > 0) parts.push(`The sale starts in ${minutes(said.sale_starts_in * 1000)}`);
    if (said.ahead > 0) parts.push(`${count(said.ahead, "fan")} before you`);
    if (said.estimated_wait > 0) parts.push(`about ${roughly(said.estimated_wait)}`);
    return parts.length > 0 ? parts.join(" · ") : "You are next.";
  }

  /** A pass runs out; say how long it lasts. */
  #clock(said) {
    clearInterval(this.#ticking);
    if (said.state !== "admitted" || !said.expires_in) return;
    this.#until = performance.now() + said.expires_in * 1000;
    const tick = () => {
      at("queue-position").hidden = false;
      at("queue-position").textContent = minutes(this.#until - performance.now());
    };
    tick();
    this.#ticking = setInterval(tick, 500);
  }

  trouble(error) {
    at("queue-wait").hidden = false;
    at("queue-wait").textContent = sentence(error);
  }

  signedOut() {
    at("queue").dataset.state = "signed-out";
    at("queue-message").textContent = "Open your sign-in link to join the queue. You can look at the seats meanwhile.";
  }

  /** There is a hold: the way to it. */
  inCheckout(reservation) {
    at("resume").href = `/checkout.html?reservation=${encodeURIComponent(reservation)}`;
    at("resume").hidden = false;
  }
}

function roughly(seconds) {
  if (seconds < 60) return count(Math.ceil(seconds / 5) * 5, "second");
  return count(Math.ceil(seconds / 60), "minute");
}
