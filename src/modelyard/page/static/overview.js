// The overview: all objects as columns of the stack, with lines between those that use each other.

import { h, svg } from "./dom.js";
import { STATES, STATE_NAMES, hrefOf } from "./format.js";

const COLUMNS = [
  ["Hosts", ["InferenceHost"]],
  ["Models", ["Model"]],
  ["Services", ["InferenceService", "ModelDeployment", "ZerfooInferenceService", "InferenceModel"]],
  ["Gateways", ["Gateway"]],
  ["Agents", ["Agent", "Orchestrator"]],
  ["Tools", ["MCP"]],
];
const HEIGHT = 86;
const SPARE = 4;

export class Overview {
  constructor(yard, main) {
    this.yard = yard;
    this.main = main;
    this.wanted = { text: "", namespace: "", state: "" };
    this.pending = 0;
    this.pointed = "";
  }

  draw() {
    this.filter = h("input", { type: "search", id: "filter", placeholder: "Filter by name, reason or text", autocomplete: "off", spellcheck: "false", "aria-keyshortcuts": "/", oninput: () => this.choose("text", this.filter.value.trim().toLowerCase()) });
    this.namespaces = h("select", { id: "namespace", onchange: () => this.choose("namespace", this.namespaces.value) });
    this.states = h("div", { class: "chips", role: "group", "aria-label": "State" });
    this.lines = svg("svg", { class: "lines", "aria-hidden": "true" });
    this.board = h("div", { class: "board", onkeydown: (event) => this.move(event) }, this.lines);
    this.empty = h("div", { class: "wait", hidden: true });
    this.columns = COLUMNS.map(([title, kinds]) => new Column(title, kinds, this));
    this.board.append(...this.columns.map((column) => column.element));
    this.main.append(
      h("h1", { class: "hidden" }, "Overview"),
      h("div", { class: "bar" }, h("label", { class: "hidden", for: "filter" }, "Filter"), this.filter, h("label", { class: "hidden", for: "namespace" }, "Namespace"), this.namespaces, this.states),
      this.empty,
      this.board,
    );
    this.resized = new ResizeObserver(() => this.soon());
    this.resized.observe(this.board);
    this.update();
  }

  close() {
    this.resized.disconnect();
    cancelAnimationFrame(this.pending);
  }

  changed() {
    this.update();
  }

  choose(name, value) {
    this.wanted[name] = value;
    this.update();
  }

  focusFilter() {
    this.filter.focus();
    this.filter.select();
  }

  update() {
    const rows = [...this.yard.rows.values()];
    this.showNamespaces(rows);
    const before = rows.filter((row) => this.matches(row));
    this.showStates(before);
    const shown = before.filter((row) => !this.wanted.state || row.state === this.wanted.state);
    this.manyNamespaces = new Set(rows.map((row) => row.namespace)).size > 1;
    for (const column of this.columns) column.take(shown);
    this.board.hidden = shown.length === 0;
    this.empty.hidden = shown.length > 0;
    if (!shown.length) this.empty.replaceChildren(...this.whyEmpty(rows));
    this.soon();
  }

  whyEmpty(rows) {
    if (!this.yard.synced) return ["Reading the cluster"];
    if (!rows.length && this.yard.troubles.length) return [h("p", {}, "Nothing can be shown; the line above says why.")];
    if (rows.length) return [h("p", {}, "Nothing matches the filter."), h("button", { type: "button", onclick: () => this.reset() }, "Show all")];
    return [h("h2", {}, "Nothing here yet"), h("p", {}, "Apply a model and a service, and they appear here:"), h("pre", {}, "kubectl apply -f examples/cpu.yaml")];
  }

  reset() {
    this.wanted = { text: "", namespace: "", state: "" };
    this.filter.value = "";
    this.namespaces.value = "";
    this.update();
  }

  matches(row) {
    const { text, namespace } = this.wanted;
    if (namespace && row.namespace !== namespace) return false;
    return !text || `${row.kind} ${row.namespace}/${row.name} ${row.phase} ${row.reason ?? ""} ${row.message ?? ""}`.toLowerCase().includes(text);
  }

  showNamespaces(rows) {
    const names = [...new Set(rows.map((row) => row.namespace))].sort();
    if (names.join() === this.names) return;
    this.names = names.join();
    this.namespaces.replaceChildren(h("option", { value: "" }, "All namespaces"), ...names.map((name) => h("option", { value: name }, name)));
    this.namespaces.value = this.wanted.namespace;
    this.namespaces.hidden = names.length < 2;
  }

  showStates(rows) {
    const counts = Object.fromEntries(STATES.map((state) => [state, 0]));
    for (const row of rows) counts[row.state] += 1;
    if (!this.chips) {
      this.chips = new Map([["", "All"], ...STATES.map((state) => [state, STATE_NAMES[state]])].map(([state, words]) => {
        const count = h("b");
        const button = h("button", { type: "button", class: `chip ${state}`, onclick: () => this.choose("state", this.wanted.state === state ? "" : state) }, state && h("span", { class: "dot", "aria-hidden": "true" }), `${words} `, count);
        return [state, { button, count }];
      }));
      this.states.append(...[...this.chips.values()].map((chip) => chip.button));
    }
    for (const [state, { button, count }] of this.chips) {
      count.textContent = state ? counts[state] : rows.length;
      button.setAttribute("aria-pressed", this.wanted.state === state);
    }
  }

  soon() {
    cancelAnimationFrame(this.pending);
    this.pending = requestAnimationFrame(() => {
      for (const column of this.columns) column.render();
      this.connect();
    });
  }

  point(id) {
    if (this.pointed === id) return;
    this.pointed = id;
    this.connect();
  }

  // Lines between cards that can be seen: from what is used to what uses it.
  connect() {
    const places = new Map(this.columns.flatMap((column) => column.places()));
    const near = new Set();
    const paths = [];
    for (const [id, to] of places)
      for (const used of this.yard.rows.get(id)?.uses ?? []) {
        const from = places.get(used);
        if (!from) continue;
        const strong = this.pointed === id || this.pointed === used;
        if (strong) near.add(id).add(used);
        paths.push(svg("path", { d: curve(from, to), class: strong ? "strong" : "" }));
      }
    paths.sort((a, b) => a.classList.contains("strong") - b.classList.contains("strong"));
    this.lines.replaceChildren(...paths);
    this.board.classList.toggle("pointing", near.size > 0);
    for (const column of this.columns) column.mark(near);
  }

  move(event) {
    const at = this.columns.findIndex((column) => column.element.contains(document.activeElement));
    if (at < 0) return;
    const index = this.columns[at].indexOf(document.activeElement);
    const step = { ArrowDown: [0, 1], ArrowUp: [0, -1], ArrowRight: [1, 0], ArrowLeft: [-1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    let column = at + step[0];
    while (step[0] && this.columns[column] && !this.columns[column].rows.length) column += step[0];
    this.columns[column]?.focus(index + step[1]);
  }
}

function curve(from, to) {
  const forward = from.left < to.left;
  const x1 = forward ? from.right : from.left;
  const x2 = forward ? to.left : to.right;
  if (from.left === to.left) return `M${from.right} ${from.y} C${from.right + 30} ${from.y} ${from.right + 30} ${to.y} ${to.right} ${to.y}`;
  const bend = (x2 - x1) / 2;
  return `M${x1} ${from.y} C${x1 + bend} ${from.y} ${x2 - bend} ${to.y} ${x2} ${to.y}`;
}

// One column: only the cards that can be seen are in the document.
class Column {
  constructor(title, kinds, overview) {
    this.kinds = new Set(kinds);
    this.overview = overview;
    this.title = title;
    this.rows = [];
    this.cards = new Map();
    this.count = h("span", { class: "count" });
    this.space = h("div", { class: "space", "aria-hidden": "true" });
    this.list = h("ul", { class: "cards", "aria-label": title });
    this.scroller = h("div", { class: "scroller", onscroll: () => overview.soon() }, this.space, this.list);
    this.element = h("section", { class: "column", "aria-label": title }, h("h2", {}, title, " ", this.count), this.scroller);
  }

  take(rows) {
    this.rows = rows.filter((row) => this.kinds.has(row.kind));
    this.rows.sort((a, b) => (b.state === "attention") - (a.state === "attention") || a.namespace.localeCompare(b.namespace) || a.name.localeCompare(b.name));
    this.element.hidden = this.rows.length === 0;
    this.count.textContent = this.rows.length;
    this.space.style.height = `${this.rows.length * HEIGHT}px`;
  }

  range() {
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / HEIGHT) - SPARE);
    const last = Math.ceil((this.scroller.scrollTop + this.scroller.clientHeight) / HEIGHT) + SPARE;
    return [first, Math.min(this.rows.length, last)];
  }

  render() {
    const [first, last] = this.range();
    const kept = new Map();
    for (let index = first; index < last; index += 1) {
      const row = this.rows[index];
      const card = this.cards.get(row.id) ?? new Card(row.id, this.overview);
      card.show(row, index, this.rows.length, this.overview.manyNamespaces);
      kept.set(row.id, card);
      if (!card.element.isConnected) this.list.append(card.element);
    }
    for (const [id, card] of this.cards) if (!kept.has(id)) card.element.remove();
    this.cards = kept;
  }

  places() {
    if (this.element.hidden) return [];
    const { left, width } = { left: this.element.offsetLeft, width: this.element.offsetWidth };
    const top = this.element.offsetTop + this.scroller.offsetTop - this.scroller.scrollTop;
    const [from, until] = [this.scroller.scrollTop, this.scroller.scrollTop + this.scroller.clientHeight];
    return [...this.cards.values()]
      .filter((card) => card.index * HEIGHT + HEIGHT / 2 > from && card.index * HEIGHT + HEIGHT / 2 < until)
      .map((card) => [card.id, { left, right: left + width, y: top + card.index * HEIGHT + (HEIGHT - 8) / 2 }]);
  }

  mark(near) {
    for (const [id, card] of this.cards) card.element.classList.toggle("near", near.has(id));
  }

  indexOf(element) {
    return [...this.cards.values()].find((card) => card.element.contains(element))?.index ?? 0;
  }

  focus(wanted) {
    const index = Math.max(0, Math.min(this.rows.length - 1, wanted));
    const top = index * HEIGHT;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top + HEIGHT > this.scroller.scrollTop + this.scroller.clientHeight) this.scroller.scrollTop = top + HEIGHT - this.scroller.clientHeight;
    this.render();
    this.cards.get(this.rows[index].id)?.link.focus({ preventScroll: true });
    this.overview.soon();
  }
}

class Card {
  constructor(id, overview) {
    this.id = id;
    this.name = h("span", { class: "name" });
    this.kind = h("span", { class: "kind" });
    this.state = h("span", { class: "state" });
    this.ready = h("span", { class: "ratio" });
    this.meter = h("span", { class: "meter", hidden: true }, h("i"));
    this.link = h("a", { href: hrefOf(id), onpointerenter: () => overview.point(id), onpointerleave: () => overview.point(""), onfocus: () => overview.point(id), onblur: () => overview.point("") },
      h("span", { class: "line" }, h("span", { class: "dot", "aria-hidden": "true" }), this.name, this.ready),
      this.state,
      this.kind,
      this.meter);
    this.element = h("li", {}, this.link);
  }

  show(row, index, size, withNamespace) {
    this.index = index;
    this.element.style.transform = `translateY(${index * HEIGHT}px)`;
    this.element.setAttribute("aria-setsize", size);
    this.element.setAttribute("aria-posinset", index + 1);
    if (this.row === row) return;
    this.row = row;
    this.link.className = `card ${row.state}`;
    this.name.textContent = row.name;
    this.link.title = `${row.kind} ${row.namespace}/${row.name}${row.message ? `\n${row.message}` : ""}`;
    this.kind.textContent = withNamespace ? `${row.kind} · ${row.namespace}` : row.kind;
    this.state.textContent = row.reason && row.reason !== row.phase && row.state !== "ready" ? `${row.phase} · ${row.reason}` : row.phase;
    this.ready.textContent = row.ready ?? "";
    const done = row.progress?.total ? row.progress.done / row.progress.total : null;
    this.meter.hidden = done === null;
    if (done !== null) this.meter.firstChild.style.width = `${100 * done}%`;
  }
}
