// Keeps the tickets page working without a network: its files come fresh where there is one, and from here where there is
// none. Answers of the shop are never kept here; tickets live in the wallet's own database.

const CACHE = "encore-pages-1";
const SHELL = [
  "/tickets.html", "/style.css", "/icon.svg",
  "/js/tickets.js", "/js/wallet.js", "/js/ticketcode.js", "/js/qr.js", "/js/ui.js", "/js/api.js", "/js/session.js",
];

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(CACHE).then((cache) => cache.addAll(SHELL)).then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => {
  const old = (names) => Promise.all(names.filter((name) => name !== CACHE).map((name) => caches.delete(name)));
  event.waitUntil(caches.keys().then(old).then(() => self.clients.claim()));
});

self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  const ours = url.origin === location.origin && (SHELL.includes(url.pathname) || url.pathname === "/tickets");
  if (event.request.method !== "GET" || !ours) return;
  event.respondWith(answer(event.request, url.pathname === "/tickets" ? "/tickets.html" : url.pathname));
});

async function answer(request, path) {
  const cache = await caches.open(CACHE);
  try {
    const fresh = await fetch(request);
    if (fresh.ok) await cache.put(path, fresh.clone());
    return fresh;
  } catch {
    return (await cache.match(path)) ?? Response.error();
  }
}
