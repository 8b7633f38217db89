// The place in the queue: joined once, then told by WebSocket, and by long polling where sockets do not get through. The
// session is kept for the tab, so that a reload asks instead of joining again; joining again keeps the place anyway.

import { ApiError, call, pause, planes } from "./api.js";

const FINAL = new Set(["sold_out", "closed"]);
const SETTLED = new Set(["expired", "gone"]);
const POLL_WAIT_MS = 20_000;
const RETRY_SOCKET_MS = 30_000;

/** `told` has answer(answer) and trouble(error). */
export class Queue {
  #event;
  #told;
  #session;
  #run = 0;

  constructor(event, told) {
    this.#event = event;
    this.#told = told;
    this.#session = sessionStorage.getItem(this.#key);
  }

  /** Go on where this tab was; false if it never joined. */
  resume() {
    if (!this.#session) return false;
    this.#follow();
    return true;
  }

  async join() {
    const answer = await call("queue", "POST", `/events/${this.#event}/queue/join`, { body: {} });
    this.#session = answer.session;
    sessionStorage.setItem(this.#key, answer.session);
    this.#tell(answer);
    this.#follow();
  }

  /** Ask at once, for instance after a hold has ended. */
  async refresh() {
    if (!this.#session) return;
    this.#tell(await this.#status(0));
  }

  get #key() {
    return `encore.queue.${this.#event}`;
  }

  #tell(answer) {
    if (answer.session) {
      this.#session = answer.session;
      sessionStorage.setItem(this.#key, answer.session);
    }
    this.#told.answer(answer);
    return !FINAL.has(answer.state) && !SETTLED.has(answer.state);
  }

  #forget() {
    this.#session = null;
    sessionStorage.removeItem(this.#key);
    this.#told.answer({ state: "gone", message: "You are not in the queue. Join to get a place." });
  }

  #status(wait) {
    const query = new URLSearchParams({ session: this.#session, wait_ms: wait });
    return call("queue", "GET", `/events/${this.#event}/queue/status?${query}`, { anonymous: true, once: true });
  }

  /** Sockets first; while they do not work, polls, and now and then another try. */
  async #follow() {
    const run = ++this.#run;
    while (run === this.#run && this.#session) {
      const lasted = await this.#socket(run);
      if (run !== this.#run || lasted === "over") return;
      const until = performance.now() + RETRY_SOCKET_MS;
      do {
        if ((await this.#pollOnce(run)) === "over") return;
      } while (run === this.#run && performance.now() < until);
    }
  }

  async #socket(run) {
    const origin = (await planes()).queue || location.origin;
    const query = new URLSearchParams({ session: this.#session });
    const url = `${origin.replace(/^http/, "ws")}/api/v1/events/${this.#event}/queue/ws?${query}`;
    return new Promise((resolve) => {
      let goOn = true;
      const socket = new WebSocket(url);
      socket.addEventListener("message", (message) => {
        if (run !== this.#run) return socket.close();
        const said = JSON.parse(message.data);
        if (said.error) return this.#told.trouble(new ApiError(503, said));
        goOn = this.#tell(said);
        if (!goOn) socket.close();
      });
      socket.addEventListener("close", () => resolve(goOn ? "lost" : "over"));
    });
  }

  async #pollOnce(run) {
    try {
      const answer = await this.#status(POLL_WAIT_MS);
      if (run !== this.#run || !this.#tell(answer)) return "over";
      // Inside, the server answers at once: ask slowly.
      if (answer.state === "admitted" || answer.state === "checkout") await pause(5_000);
    } catch (error) {
      if (error.status === 401 || error.status === 404) {
        this.#forget();
        return "over";
      }
      this.#told.trouble(error);
      await pause((error.retryAfter ?? 3) * 1000);
    }
    return "again";
  }
}
