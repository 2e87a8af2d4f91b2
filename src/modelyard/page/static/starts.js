// The cold starts of all pods, the newest first.

import { fetchJson, h, Section } from "./dom.js";
import { duration, hrefOf, time } from "./format.js";
import { bar, isOver, legend, total } from "./bars.js";

const EVERY = 1000;

export class StartsView {
  constructor(yard, main) {
    this.yard = yard;
    this.main = main;
    this.title = "Cold starts";
  }

  draw() {
    this.list = new Section(h("div", { class: "starts" }), (starts) => this.rows(starts));
    this.main.append(h("h1", {}, "Cold starts"), h("p", { class: "quiet" }, "From the creation of a pod to its readiness, the newest first. Kubernetes notes whole seconds, and of a pod that lost its readiness only the last time."), legend(), this.list.element);
    this.load();
    this.timer = setInterval(() => this.tick(), EVERY);
  }

  close() {
    clearInterval(this.timer);
    this.closed = true;
  }

  // Rows, too: all of them come after a time without a connection, and pods may have changed in it.
  changed(rows, pods) {
    if (rows.size || pods.size) this.stale = true;
  }

  tick() {
    if (this.stale || this.going) this.load();
  }

  async load() {
    this.stale = false;
    try {
      const starts = await fetchJson("/api/starts");
      if (this.closed) return;
      this.going = starts.some((start) => !isOver(start));
      this.list.show(starts);
    } catch (error) {
      this.list.show(error.message);
    }
  }

  rows(starts) {
    if (typeof starts === "string") return h("p", { class: "error" }, starts);
    if (!starts.length) return h("p", { class: "wait" }, "There are no pods.");
    const longest = Math.max(...starts.map(total));
    this.owners = new Map([...this.yard.rows.values()].map((row) => [`${row.kind.toLowerCase()}/${row.namespace}/${row.name}`, row]));
    return h("table", {}, h("thead", {}, h("tr", {}, ["Pod", "Object", "Stages", "Took", "Created"].map((word) => h("th", { scope: "col" }, word)))), h("tbody", {}, starts.map((start) => this.row(start, longest))));
  }

  row(start, longest) {
    const [kind, name] = start.owner.split("/");
    const owner = this.owners.get(`${kind}/${start.namespace}/${name}`);
    return h("tr", {},
      h("td", { class: "name" }, start.pod, start.restarts ? h("span", { class: "quiet" }, ` restarted ${start.restarts} times`) : null),
      h("td", {}, owner ? h("a", { href: hrefOf(owner.id) }, owner.name) : (name ?? "")),
      h("td", { class: "wide" }, bar(start, longest)),
      h("td", { class: "number" }, `${duration(total(start))}${isOver(start) ? "" : " so far"}`),
      h("td", { class: "quiet number" }, time(start.created)));
  }
}
