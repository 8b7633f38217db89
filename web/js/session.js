// Who is signed in. The fan's token comes in the address's fragment (#token=…), which no server sees; it is kept for this
// tab only. It is shown, never trusted: the planes verify it.

const KEY = "encore.token";

function take() {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const token = fragment.get("token");
  if (!token) return;
  sessionStorage.setItem(KEY, token);
  fragment.delete("token");
  const rest = fragment.toString();
  history.replaceState(null, "", location.pathname + location.search + (rest ? "#" + rest : ""));
}

function claims(token) {
  try {
    const part = token.split(".")[1].replace(/-/g, "+").replace(/_/g, "/");
    const bytes = Uint8Array.from(atob(part), (c) => c.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    return null;
  }
}

take();
addEventListener("hashchange", () => {
  if (location.hash.includes("token=")) {
    take();
    location.reload();
  }
});

/** The signed-in fan: {token, user, expired}, or null. */
export function session() {
  const token = sessionStorage.getItem(KEY);
  const said = token && claims(token);
  if (!said || typeof said.sub !== "string") return null;
  return { token, user: said.sub, expired: typeof said.exp === "number" && said.exp * 1000 <= Date.now() };
}

/** Forget everything that this tab knows of the fan. */
export function signOut() {
  sessionStorage.clear();
}

const DEVICE = "encore.device";

/** A word that names this device to the wallet; made once. */
export function device() {
  return localStorage.getItem(DEVICE) ?? renewDevice();
}

/** From now on this is another device: the old one's secrets are gone, and a secret is given only once a device. */
export function renewDevice() {
  const id = "web-" + randomId();
  localStorage.setItem(DEVICE, id);
  return id;
}

/** 128 random bits in hex. */
export function randomId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
