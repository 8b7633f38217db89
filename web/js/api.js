// Talking to the planes. A mutation carries one Idempotency-Key for one wish, and every repetition of it the same one, so
// that a lost answer never becomes a second hold or a second payment.

import { session } from "./session.js";

const BASE = "/api/v1";
/** Answers after which the same request may be sent again: nothing was decided, or it is not known what was. */
const AGAIN = new Set([502, 503, 504]);
const TRIES = 5;

/** An answer that is an error: `status`, `code`, the sentence as `message`, and what else the code brings. */
export class ApiError extends Error {
  constructor(status, body, retryAfter) {
    super(body.message || "Something went wrong. Please try again.");
    this.status = status;
    this.code = body.error || "UNKNOWN";
    this.details = body;
    this.retryAfter = retryAfter;
  }
}

let known;

/** Origins of the waiting room and of the buy plane; empty ones are this one. */
export function planes() {
  known ??= fetch("/config.json")
    .then((answer) => (answer.ok ? answer.json() : {}))
    .then((said) => ({ browse: "", queue: said.queue || "", buy: said.buy || "" }))
    .catch(() => {
      known = undefined;
      throw new ApiError(0, { error: "OFFLINE", message: OFFLINE });
    });
  return known;
}

const OFFLINE = "The shop cannot be reached. Check your connection and try again.";

/**
 * Ask a plane. Options: `body` (sent as JSON), `key` (Idempotency-Key), `pass` (X-Queue-Token), `signal`, `once` (never
 * repeat), `bytes` (a packed answer: gives the response itself).
 */
export async function call(plane, method, path, options = {}) {
  const origin = (await planes())[plane];
  for (let attempt = 1; ; attempt++) {
    try {
      return await send(origin + BASE + path, method, options);
    } catch (error) {
      const last = options.once || attempt >= TRIES || !mayRepeat(error, method, options);
      if (last) throw error;
      await pause(waitMs(error, attempt), options.signal);
    }
  }
}

async function send(url, method, options) {
  const headers = { Accept: options.bytes ? "application/octet-stream" : "application/json" };
  const fan = session();
  if (fan && options.anonymous !== true) headers.Authorization = "Bearer " + fan.token;
  if (options.key) headers["Idempotency-Key"] = options.key;
  if (options.pass) headers["X-Queue-Token"] = options.pass;
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  const body = options.body === undefined ? undefined : JSON.stringify(options.body);
  let answer;
  try {
    answer = await fetch(url, { method, headers, body, signal: options.signal, cache: options.cache });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { error: "OFFLINE", message: OFFLINE });
  }
  if (answer.ok) return options.bytes ? answer : answer.status === 204 ? null : answer.json();
  const said = await answer.json().catch(() => ({}));
  throw new ApiError(answer.status, said, Number(answer.headers.get("Retry-After")) || said.retry_after_seconds);
}

function mayRepeat(error, method, options) {
  if (!(error instanceof ApiError)) return false;
  // This one was decided: it wants a fresh key, which only the fan's next click brings.
  if (error.code === "HOLD_NOT_DECIDED") return false;
  const harmless = method === "GET" || Boolean(options.key);
  return harmless && (error.status === 0 || AGAIN.has(error.status));
}

function waitMs(error, attempt) {
  const patience = error.retryAfter ? error.retryAfter * 1000 : 300 * 2 ** attempt;
  // Spread, or everybody who was refused together comes back together.
  return Math.min(patience, 8000) * (0.75 + Math.random() / 2);
}

/** Wait, unless the signal says stop. */
export function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}

/** What to tell the fan. */
export function sentence(error) {
  if (error instanceof ApiError) {
    if (error.status === 401) return "Your sign-in is missing or has run out. Open your sign-in link again.";
    return error.message;
  }
  console.error(error);
  return "Something went wrong on this page. Reload it; what you hold is kept.";
}
