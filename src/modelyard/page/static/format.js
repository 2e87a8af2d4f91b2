// Words for times, sizes and states.

import { h } from "./dom.js";

export const STATES = ["attention", "working", "ready", "resting"];
export const STATE_NAMES = { attention: "Needs attention", working: "On its way", ready: "Ready", resting: "Resting" };

export function duration(seconds) {
  if (seconds < 1) return "under 1 s";
  if (seconds < 100) return `${Math.round(seconds)} s`;
  if (seconds < 6000) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) {
    count /= 1024;
    unit += 1;
  }
  return `${unit ? count.toFixed(1) : count} ${units[unit]}`;
}

export function ago(text) {
  const seconds = (Date.now() - Date.parse(text)) / 1000;
  return Number.isNaN(seconds) ? "" : `${duration(Math.max(0, seconds))} ago`;
}

export function time(text) {
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) return "";
  return h("time", { datetime: text, title: at.toLocaleString(), "data-ago": true }, ago(text));
}

export function held(text) {
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) return "";
  return h("time", { datetime: text, title: `since ${at.toLocaleString()}`, "data-held": true }, heldFor(text));
}

function heldFor(text) {
  return `for ${ago(text).replace(/ ago$/, "")}`;
}

export function refreshTimes() {
  for (const element of document.querySelectorAll("time[data-ago], time[data-held]")) {
    const text = element.dataset.held === undefined ? ago(element.dateTime) : heldFor(element.dateTime);
    if (element.textContent !== text) element.textContent = text;
  }
}

export function badge(row) {
  return h("span", { class: `badge ${row.state}` }, h("span", { class: "dot", "aria-hidden": "true" }), row.phase);
}

export function hrefOf(id, view = "object") {
  return `#/${view}/${id.split("/").map(encodeURIComponent).join("/")}`;
}

export function fullName(row) {
  return row.namespace && row.namespace !== "default" ? `${row.namespace}/${row.name}` : row.name;
}

export function shellQuoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

export function copyable(text, label) {
  const button = h("button", { type: "button", class: "copy", onclick: copy }, "Copy");
  async function copy() {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  }
  return h("div", { class: "copyable" }, h("pre", { tabindex: "0", role: "region", "aria-label": label }, text), button);
}
