// The state of seats, kept fresh: server-sent hints say what changed, and what is shown is pulled, two bits a seat. Where
// hints are away, everything shown is pulled every few seconds. A version never goes back.

import { call, pause } from "./api.js";
import { unpack } from "./bits.js";

const BETWEEN_PULLS_MS = 400;
const BETWEEN_OVERVIEWS_MS = 2_000;
const AFTER_FAILURE_MS = 2_000;
/** A map older than announced is asked for again, but not for ever: versions may have begun anew. */
const TRIES_BEHIND = 10;
const POLL_MS = 4_000;
/** With hints, everything shown is still pulled now and then: a hint may be lost on its way. */
const SAFETY_POLL_MS = 30_000;
const RETRY_STREAM_MS = 15_000;

/** Watches one event. `told` has section(name, states), overview(sections) and mode("on" | "poll"). */
export class Live {
  #event;
  #told;
  #shown = new Set();
  #versions = new Map();
  #wanted = new Map();
  #pulling = new Set();
  #overview = { due: false, running: false };
  #source;
  #poll;

  constructor(event, told) {
    this.#event = event;
    this.#told = told;
  }

  start() {
    this.#open();
    this.#pullOverview();
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.#pullAll();
    });
  }

  /** From now on these sections are on the screen. */
  show(names) {
    this.#shown = new Set(names);
    for (const name of names) {
      this.#versions.delete(name);
      this.#pull(name, 0);
    }
  }

  #open() {
    const source = new EventSource(`/api/v1/events/${this.#event}/stream`);
    this.#source = source;
    source.addEventListener("open", () => this.#mode("on"));
    source.addEventListener("reset", () => this.#pullAll());
    source.addEventListener("invalidate", (hint) => {
      const { section, version } = JSON.parse(hint.data);
      if (this.#shown.has(section)) this.#pull(section, version);
      this.#pullOverview();
    });
    source.addEventListener("error", () => {
      this.#mode("poll");
      // Closed for good: hints are paused, or this process has too many viewers.
      if (source.readyState === EventSource.CLOSED) {
        source.close();
        setTimeout(() => this.#source === source && this.#open(), RETRY_STREAM_MS);
      }
    });
  }

  #mode(mode) {
    clearInterval(this.#poll);
    this.#poll = setInterval(() => this.#pullAll(), mode === "poll" ? POLL_MS : SAFETY_POLL_MS);
    this.#told.mode(mode);
  }

  #pullAll() {
    for (const name of this.#shown) this.#pull(name, 0);
    this.#pullOverview();
  }

  async #pull(name, version) {
    this.#want(name, version);
    if (this.#pulling.has(name)) return;
    this.#pulling.add(name);
    let behind = 0;
    while (this.#wanted.has(name) && this.#shown.has(name)) {
      const atLeast = this.#wanted.get(name);
      this.#wanted.delete(name);
      try {
        // A hint is given once: what it announced stays wanted until it is seen.
        behind = (await this.#pullOnce(name, atLeast)) < atLeast ? behind + 1 : 0;
        if (behind > 0 && behind < TRIES_BEHIND) this.#want(name, atLeast);
        await pause(BETWEEN_PULLS_MS);
      } catch {
        this.#want(name, atLeast);
        await pause(AFTER_FAILURE_MS);
      }
    }
    this.#wanted.delete(name);
    this.#pulling.delete(name);
  }

  #want(name, version) {
    this.#wanted.set(name, Math.max(version, this.#wanted.get(name) ?? 0));
  }

  /** Answers the version that came. */
  async #pullOnce(name, atLeast) {
    const query = new URLSearchParams({ section: name });
    if (atLeast > 0) query.set("version", atLeast);
    const path = `/events/${this.#event}/seats?${query}`;
    const answer = await call("browse", "GET", path, { anonymous: true, bytes: true, cache: "no-cache" });
    const version = Number(answer.headers.get("X-Seat-Version") ?? 0);
    const count = Number(answer.headers.get("X-Seat-Count"));
    const bytes = new Uint8Array(await answer.arrayBuffer());
    if (version >= (this.#versions.get(name) ?? 0) && this.#shown.has(name)) {
      this.#versions.set(name, version);
      this.#told.section(name, unpack(bytes, count));
    }
    return version;
  }

  async #pullOverview() {
    this.#overview.due = true;
    if (this.#overview.running) return;
    this.#overview.running = true;
    while (this.#overview.due) {
      this.#overview.due = false;
      try {
        const path = `/events/${this.#event}/seats`;
        const { sections } = await call("browse", "GET", path, { anonymous: true, cache: "no-cache" });
        this.#told.overview(sections);
      } catch {
        // Counts are a comfort; the map does without.
      }
      await pause(BETWEEN_OVERVIEWS_MS);
    }
    this.#overview.running = false;
  }
}
