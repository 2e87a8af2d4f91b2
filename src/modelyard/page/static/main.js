// The frame of the page: one stream of changes, all rows by id, and the view that the address names.

import { fetchJson, h, marked } from "./dom.js";
import { refreshTimes } from "./format.js";
import { ObjectView } from "./object.js";
import { Overview } from "./overview.js";
import { AskView } from "./ask.js";
import { StartsView } from "./starts.js";

const VIEWS = { object: ObjectView, ask: AskView, starts: StartsView };

export const yard = { rows: new Map(), users: new Map(), synced: false, troubles: [], settings: {} };
let view = null;
let source = null;
let drawing = 0;

function take(update) {
  if (update.fresh) yard.rows.clear();
  for (const row of update.rows ?? []) yard.rows.set(row.id, row);
  for (const id of update.gone ?? []) yard.rows.delete(id);
  yard.synced = update.synced ?? false;
  if (update.troubles !== undefined && update.troubles !== null) showTroubles(update.troubles);
  const changed = new Set([...(update.rows ?? []).map((row) => row.id), ...(update.gone ?? [])]);
  if (changed.size || update.fresh) findUsers();
  view?.changed?.(changed, new Set(update.pods ?? []));
}

function findUsers() {
  yard.users.clear();
  for (const row of yard.rows.values())
    for (const used of row.uses ?? []) {
      if (!yard.users.has(used)) yard.users.set(used, []);
      yard.users.get(used).push(row.id);
    }
}

function showTroubles(troubles) {
  yard.troubles = troubles;
  const box = document.getElementById("troubles");
  box.hidden = troubles.length === 0;
  box.replaceChildren(...troubles.map((line) => h("p", {}, marked(line))));
  showConnected();
}

function showLive(state, words) {
  const live = document.getElementById("live");
  live.className = `live ${state}`;
  live.textContent = words;
}

// What cannot be followed may be old or missing, so only a picture without troubles is called live.
function showConnected() {
  if (yard.troubles.length) showLive("part", "incomplete");
  else showLive("on", "live");
}

// Only while the page is in sight: a browser has six connections to a server, for all its tabs together.
function follow() {
  source?.close();
  if (document.hidden) return showLive("", "connecting");
  const stream = (source = new EventSource("/api/stream"));
  stream.onopen = showConnected;
  stream.onmessage = (event) => take(JSON.parse(event.data));
  stream.onerror = async () => {
    showLive("off", "reconnecting");
    // An event source does not say why it failed. Without a session it would try for ever.
    const answer = await fetch("/api/settings").catch(() => null);
    if (answer?.status === 401) location.reload();
    else if (stream === source && stream.readyState === EventSource.CLOSED) setTimeout(follow, 2000);
  };
}

// Where an address leads. One that was not written by us may be no address at all.
function place() {
  try {
    return location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  } catch {
    return [""];
  }
}

function route() {
  const [name, ...rest] = place();
  const View = VIEWS[name] ?? Overview;
  view?.close?.();
  const main = document.getElementById("view");
  main.replaceChildren();
  main.className = `view-${VIEWS[name] ? name : "overview"}`;
  view = new View(yard, main, rest.join("/"));
  view.draw();
  for (const link of document.querySelectorAll("nav [data-view]")) {
    const isCurrent = link.dataset.view === (VIEWS[name] ? name : "overview");
    if (isCurrent) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = view.title ? `${view.title} · Modelyard` : "Modelyard";
  if (drawing++) main.focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

function keys(event) {
  // A dialog is closed by Escape, and the view stays.
  if (event.target.closest("dialog")) return;
  if (event.target.matches("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "/") {
    event.preventDefault();
    if (view instanceof Overview) view.focusFilter();
    else location.hash = "#/";
  } else if (event.key === "Escape" && !(view instanceof Overview)) {
    location.hash = "#/";
  }
}

async function begin() {
  yard.settings = await fetchJson("/api/settings");
  const { user, cluster, namespace, canLeave } = yard.settings;
  const where = document.getElementById("where");
  where.append(...[user || cluster, namespace && `namespace ${namespace}`].filter(Boolean).map((text) => h("span", {}, text)));
  if (canLeave) where.append(h("button", { type: "button", class: "plain", onclick: leave }, "Sign out"));
  window.addEventListener("hashchange", route);
  document.addEventListener("keydown", keys);
  document.addEventListener("visibilitychange", follow);
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    document.getElementById("view").focus();
  });
  setInterval(refreshTimes, 5000);
  route();
  follow();
}

async function leave() {
  await fetch("/api/leave", { method: "POST" });
  location.reload();
}

begin();
