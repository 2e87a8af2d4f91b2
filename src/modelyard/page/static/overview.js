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
// Of a card with the space below it, as the style has it.
const HEIGHT = 86;
// Cards above and below what is in sight that are drawn with it.
const SPARE = 4;
// How long cards out of sight are drawn at a time. Changes, keys and frames come in between.
const SLICE_MS = 8;

const ALL = { text: "", namespace: "", state: "" };
// What was looked at last, for whom comes back from an object.
const last = { wanted: ALL, tops: [] };

export class Overview {
  constructor(yard, main) {
    this.yard = yard;
    this.main = main;
    this.wanted = last.wanted;
    this.frame = 0;
    this.slice = 0;
    this.pointed = "";
  }

  draw() {
    this.filter = h("input", { type: "search", id: "filter", placeholder: "Filter by name, reason or text", autocomplete: "off", spellcheck: "false", "aria-keyshortcuts": "/", oninput: () => this.choose("text", this.filter.value), value: this.wanted.text });
    this.namespaces = h("select", { id: "namespace", onchange: () => this.choose("namespace", this.namespaces.value) });
    this.states = h("div", { class: "chips", role: "group", "aria-label": "State" });
    this.lines = svg("svg", { class: "lines", "aria-hidden": "true" });
    const point = (event) => this.point(event.target.closest("a.card")?.dataset.id ?? "");
    const leave = () => this.point("");
    this.board = h("div", { class: "board", onkeydown: (event) => this.move(event), onpointerover: point, onpointerleave: leave, onfocusin: point, onfocusout: leave }, this.lines);
    this.empty = h("div", { class: "wait", hidden: true });
    this.columns = COLUMNS.map(([title, kinds]) => new Column(title, kinds, this));
    this.board.append(...this.columns.map((column) => column.element));
    this.main.append(
      h("h1", { class: "hidden" }, "Overview"),
      h("div", { class: "bar" }, h("label", { class: "hidden", for: "filter" }, "Filter"), this.filter, h("label", { class: "hidden", for: "namespace" }, "Namespace"), this.namespaces, this.states),
      this.empty,
      this.board,
    );
    this.resized = new ResizeObserver(() => this.render());
    this.resized.observe(this.board);
    this.update();
    this.columns.forEach((column, index) => (column.scroller.scrollTop = last.tops[index] ?? 0));
  }

  close() {
    last.tops = this.columns.map((column) => column.sight.from);
    this.resized.disconnect();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.slice);
  }

  // In the next frame, and once for all changes until then.
  changed() {
    this.frame ||= requestAnimationFrame(() => this.update());
  }

  choose(name, value) {
    this.wanted = last.wanted = { ...this.wanted, [name]: value };
    this.update();
  }

  focusFilter() {
    this.filter.focus();
    this.filter.select();
  }

  update() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
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
    this.render();
    this.later();
  }

  // What is in sight, now. All is measured before anything is drawn: each turn from one to the other is a layout.
  render() {
    for (const column of this.columns) column.measure();
    for (const column of this.columns) column.render();
    this.connect();
  }

  // What is not, little by little: it must be in the document for searches in the page and for screen readers.
  later() {
    clearTimeout(this.slice);
    this.slice = setTimeout(() => {
      const until = performance.now() + SLICE_MS;
      if (!this.columns.every((column) => column.fill(until))) this.later();
    });
  }

  whyEmpty(rows) {
    if (!this.yard.synced) return ["Reading the cluster"];
    if (!rows.length && this.yard.troubles.length) return [h("p", {}, "Nothing can be shown; the line above says why.")];
    if (rows.length) return [h("p", {}, "Nothing matches the filter."), h("button", { type: "button", onclick: () => this.reset() }, "Show all")];
    return [h("h2", {}, "Nothing here yet"), h("p", {}, "Apply a model and a service, and they appear here:"), h("pre", {}, "kubectl apply -f examples/cpu.yaml")];
  }

  reset() {
    this.wanted = last.wanted = ALL;
    this.filter.value = "";
    this.namespaces.value = "";
    this.update();
  }

  matches(row) {
    const { namespace } = this.wanted;
    const text = this.wanted.text.trim().toLowerCase();
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

// Brings elements into an order with few moves. One that has the focus keeps it.
function arrange(list, wanted) {
  const focused = document.activeElement;
  const kept = new Set(wanted);
  for (const element of [...list.children]) if (!kept.has(element)) element.remove();
  let at = list.firstElementChild;
  for (const element of wanted) {
    // One that comes later in the order is passed over here, and is moved when it is its turn.
    if (at && at !== element && at.nextElementSibling === element) at = element;
    if (at === element) at = element.nextElementSibling;
    else list.insertBefore(element, at);
  }
  if (focused !== document.activeElement && list.contains(focused)) focused.focus({ preventScroll: true });
}

// One column: a place for each row in its order, with the cards in sight drawn first. The style lets the browser skip
// the layout of those that are not.
class Column {
  constructor(title, kinds, overview) {
    this.kinds = new Set(kinds);
    this.overview = overview;
    this.rows = [];
    this.cards = new Map();
    this.filled = 0;
    this.near = [];
    this.count = h("span", { class: "count" });
    this.list = h("ul", { class: "cards", "aria-label": title });
    this.scroller = h("div", { class: "scroller", onscroll: () => overview.render() }, this.list);
    this.element = h("section", { class: "column", "aria-label": title }, h("h2", {}, title, " ", this.count), this.scroller);
  }

  take(rows) {
    this.rows = rows.filter((row) => this.kinds.has(row.kind));
    this.rows.sort((a, b) => (b.state === "attention") - (a.state === "attention") || compare(a.namespace, b.namespace) || compare(a.name, b.name));
    this.element.hidden = this.rows.length === 0;
    this.count.textContent = this.rows.length;
    this.cards = new Map(this.rows.map((row) => [row.id, this.cards.get(row.id) ?? new Card(row.id)]));
    arrange(this.list, [...this.cards.values()].map((card) => card.element));
    this.filled = 0;
  }

  measure() {
    const { scrollTop, clientHeight } = this.scroller;
    const { offsetLeft: left, offsetWidth: width } = this.element;
    this.sight = { left, right: left + width, top: this.element.offsetTop + this.scroller.offsetTop, from: scrollTop, until: scrollTop + clientHeight };
  }

  render() {
    const first = Math.max(0, Math.floor(this.sight.from / HEIGHT) - SPARE);
    const last = Math.min(this.rows.length, Math.ceil(this.sight.until / HEIGHT) + SPARE);
    for (let index = first; index < last; index += 1) this.show(index);
  }

  // Returns whether all cards are drawn.
  fill(until) {
    while (this.filled < this.rows.length && performance.now() < until) this.show(this.filled++);
    return this.filled === this.rows.length;
  }

  show(index) {
    const row = this.rows[index];
    const card = this.cards.get(row.id);
    card.show(row, this.overview.manyNamespaces);
    return card;
  }

  // Where lines may begin and end: the cards whose middle is in sight.
  places() {
    const { left, right, top, from, until } = this.sight;
    const middle = (HEIGHT - 8) / 2;
    const first = Math.max(0, Math.ceil((from - middle) / HEIGHT));
    const last = Math.ceil((until - middle) / HEIGHT);
    return this.rows.slice(first, last).map((row, place) => [row.id, { left, right, y: top - from + (first + place) * HEIGHT + middle }]);
  }

  mark(near) {
    for (const card of this.near) card.element.classList.remove("near");
    this.near = [...near].map((id) => this.cards.get(id)).filter(Boolean);
    for (const card of this.near) card.element.classList.add("near");
  }

  indexOf(element) {
    return this.rows.findIndex((row) => this.cards.get(row.id).element.contains(element));
  }

  focus(wanted) {
    const index = Math.max(0, Math.min(this.rows.length - 1, wanted));
    const top = index * HEIGHT;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top + HEIGHT > this.scroller.scrollTop + this.scroller.clientHeight) this.scroller.scrollTop = top + HEIGHT - this.scroller.clientHeight;
    this.show(index).link.focus({ preventScroll: true });
  }
}

// Names are of plain letters. By the rules of a language, thousands of them would take longer than a frame.
function compare(a, b) {
  return a < b ? -1 : Number(a > b);
}

// What cards are copies of, which is much faster than to build each.
const BLANK = h("a", {},
  h("span", { class: "line" }, h("span", { class: "dot", "aria-hidden": "true" }), h("span", { class: "name" }), h("span", { class: "ratio" })),
  h("span", { class: "state" }),
  h("span", { class: "kind" }),
  h("span", { class: "meter", hidden: true }, h("i")));

class Card {
  constructor(id) {
    this.id = id;
    this.element = document.createElement("li");
  }

  build() {
    this.link = BLANK.cloneNode(true);
    this.link.href = hrefOf(this.id);
    this.link.dataset.id = this.id;
    const [line, state, kind, meter] = this.link.children;
    const [, name, ready] = line.children;
    Object.assign(this, { name, ready, state, kind, meter });
    this.element.append(this.link);
  }

  show(row, withNamespace) {
    if (this.row === row && this.withNamespace === withNamespace) return;
    if (!this.link) this.build();
    this.row = row;
    this.withNamespace = withNamespace;
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
