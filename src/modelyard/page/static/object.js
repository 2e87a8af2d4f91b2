// One object: why it is not ready and what to do next, first; then everything that it consists of.

import { fetchJson, h, marked, post, Section } from "./dom.js";
import { ago, badge, bytes, copyable, duration, fullName, held, hrefOf, time } from "./format.js";
import { bar, isOver, legend, total } from "./bars.js";
import { LogPanel } from "./log.js";

const SOON = 150;
const EVERY = 5000;
const NEGATIVE = new Set(["Degraded", "Paused", "FieldsIgnored", "SourceDrifted", "ReplicaFailure", "Stalled"]);
const NEUTRAL = new Set(["Progressing"]);
const ACTION_NAMES = { scale: "Scale", pause: "Pause", resume: "Resume", retry: "Try again", delete: "Delete" };

export class ObjectView {
  constructor(yard, main, id) {
    this.yard = yard;
    this.main = main;
    this.id = id;
    const [kind, , name] = id.split("/");
    this.title = `${kind} ${name}`;
  }

  draw() {
    const [kind, namespace, name] = this.id.split("/");
    this.head = new Section(h("div", { class: "head" }), (row) => this.drawHead(row));
    this.why = new Section(h("section", { class: "why", "aria-label": "State" }), (told) => this.drawWhy(told));
    this.actions = new Section(h("section", { class: "panel", "aria-label": "Actions" }), (told) => this.drawActions(told));
    this.progress = new Section(h("section", { class: "panel", "aria-label": "Download" }), (told) => drawProgress(told));
    this.queue = new Section(h("section", { class: "panel", "aria-label": "GPU queue" }), (told) => this.drawQueue(told));
    this.links = new Section(h("section", { class: "panel", "aria-label": "Links" }), (told) => this.drawLinks(told));
    this.conditions = new Section(h("section", { class: "panel", "aria-label": "Conditions" }), (told) => drawConditions(told));
    this.pods = new Section(h("section", { class: "panel", "aria-label": "Pods" }), (pods) => this.drawPods(pods));
    this.children = new Section(h("section", { class: "panel", "aria-label": "Children" }), (children) => drawChildren(children));
    this.events = new Section(h("section", { class: "panel", "aria-label": "Events" }), (events) => drawEvents(events));
    this.unread = new Section(h("section", { class: "panel", "aria-label": "What could not be read" }), (problems) => drawUnread(problems));
    this.manifest = new Section(h("section", { class: "panel", "aria-label": "Manifest" }), (text) => drawManifest(text));
    this.log = new LogPanel(namespace);
    this.note = h("p", { class: "error", role: "alert", hidden: true });
    this.main.append(
      h("p", { class: "crumbs" }, h("a", { href: "#/" }, "Overview"), ` / ${kind} / ${namespace} / ${name}`),
      this.head.element,
      this.note,
      this.why.element,
      h("div", { class: "panels" },
        h("div", { class: "most" }, this.progress.element, this.queue.element, this.conditions.element, this.pods.element, this.log.element, this.events.element, this.unread.element),
        h("div", { class: "side" }, this.actions.element, this.links.element, this.children.element, this.manifest.element)));
    for (const section of [this.why, this.actions, this.progress, this.queue, this.links, this.conditions, this.pods, this.children, this.events, this.unread, this.manifest]) section.element.hidden = true;
    this.timer = setInterval(() => this.load(), EVERY);
    this.load();
  }

  close() {
    this.closed = true;
    clearInterval(this.timer);
    clearTimeout(this.soon);
    this.log.leave();
  }

  changed(rows, pods) {
    const row = this.yard.rows.get(this.id);
    if (row) {
      this.head.show(row);
      this.progress.show(row.progress ?? null);
      if (row.queue !== this.place) this.queue.shown = undefined;
    }
    const mine = [this.id, ...(row?.uses ?? []), ...(this.yard.users.get(this.id) ?? [])];
    if (!mine.some((id) => rows.has(id)) && !pods.has(this.instance)) return;
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.load(), rows.has(this.id) ? 0 : SOON);
  }

  async load() {
    if (this.loading) {
      this.again = true;
      return;
    }
    this.loading = true;
    try {
      const detail = await fetchJson(`/api/object?id=${encodeURIComponent(this.id)}`);
      if (!this.closed) this.show(detail);
    } catch (error) {
      if (!this.closed) this.fail(error.message);
    }
    this.loading = false;
    if (this.again && !this.closed) {
      this.again = false;
      this.load();
    }
  }

  // What was shown stays: an object that has just been deleted is still read about.
  fail(words) {
    this.complain(this.yard.synced ? words : "Reading the cluster");
  }

  complain(words) {
    this.note.hidden = !words;
    this.note.textContent = words ?? "";
  }

  show(detail) {
    this.complain("");
    this.instance = detail.instance;
    this.uid = detail.uid;
    this.head.show(detail.row);
    this.why.show({ row: detail.row, why: detail.why });
    this.actions.show({ actions: detail.actions, replicas: detail.replicas });
    this.progress.show(detail.row.progress ?? null);
    this.place = detail.row.queue;
    this.queue.show(detail.queue);
    this.links.show({ uses: this.linked(detail.row.uses ?? [], detail.unseen), users: this.linked(this.yard.users.get(this.id) ?? []) });
    this.conditions.show({ conditions: detail.conditions, history: detail.history, minute: Math.floor(Date.now() / 10000) });
    this.pods.show(detail.pods);
    this.children.show(detail.children);
    this.events.show(detail.events);
    this.unread.show(detail.problems);
    this.manifest.show(detail.manifest);
    this.log.offer(detail.pods);
  }

  linked(ids, unseen = []) {
    const absent = (id) => (unseen.includes(id) ? { id, state: "resting", phase: "not readable" } : { id, state: "attention", phase: "missing" });
    return ids.map((id) => this.yard.rows.get(id) ?? absent(id));
  }

  drawHead(row) {
    return [
      h("h1", {}, row.name, " ", badge(row)),
      h("p", { class: "facts" },
        h("span", {}, row.kind), row.ready && h("span", {}, `${row.ready} ready`), row.reason && h("span", {}, row.reason), row.since && h("span", {}, held(row.since)),
        row.answers && h("a", { class: "button", href: hrefOf(row.id, "ask") }, "Ask it")),
    ];
  }

  drawWhy({ row, why }) {
    if (row.state === "ready" && !why.waitsFor.length) return null;
    this.why.element.className = `why ${row.state}`;
    const next = why.nextStep || (row.state === "ready" ? "it goes on without what it refers to" : "");
    return [
      h("h2", {}, why.headline),
      why.cause && h("p", { class: "cause" }, marked(why.cause)),
      next && h("p", { class: "next" }, h("b", {}, "Next: "), marked(next)),
      why.waitsFor.length ? h("p", {}, row.state === "ready" ? "Not ready: " : "It waits for: ", why.waitsFor.map((id, index) => [index ? ", " : "", h("a", { href: hrefOf(id) }, shortId(id), this.yard.rows.has(id) ? "" : " (missing)")])) : null,
      row.state !== "ready" && why.commands.length ? h("details", {}, h("summary", {}, "From a shell"), copyable(why.commands.join("\n"), "Commands")) : null,
    ].filter(Boolean);
  }

  drawActions({ actions, replicas }) {
    if (!actions.length) return null;
    const buttons = actions.filter((action) => action !== "scale").map((action) =>
      h("button", { type: "button", class: action === "delete" ? "danger" : "", onclick: () => (action === "delete" ? this.confirm() : this.edit(action)) }, ACTION_NAMES[action]));
    return [h("h2", {}, "Change it"), actions.includes("scale") ? this.scaler(replicas) : null, h("div", { class: "buttons" }, buttons)].filter(Boolean);
  }

  scaler(replicas) {
    const input = h("input", { type: "number", id: "replicas", required: true, min: "0", max: "1000", value: String(replicas ?? 1) });
    const submit = (event) => {
      event.preventDefault();
      this.edit("scale", Number(input.value));
    };
    return h("form", { class: "scale", onsubmit: submit }, h("label", { for: "replicas" }, "Replicas"), input, h("button", { type: "submit" }, ACTION_NAMES.scale));
  }

  confirm() {
    const [kind, , name] = this.id.split("/");
    const yes = h("button", { value: "yes", class: "danger", disabled: true }, "Delete");
    const typed = h("input", { type: "text", id: "confirm", autocomplete: "off", oninput: () => (yes.disabled = typed.value !== name) });
    const dialog = h("dialog", { "aria-labelledby": "confirm-title" },
      h("form", { method: "dialog", onsubmit: (event) => event.submitter.value === "yes" && this.edit("delete") },
        h("h2", { id: "confirm-title" }, `Delete ${kind} ${name}?`),
        h("p", {}, "What the operator has made for it is deleted, too."),
        h("label", { for: "confirm" }, `Type ${name} to confirm`), typed,
        h("div", { class: "buttons" }, h("button", { value: "no", class: "plain" }, "Keep it"), yes)));
    dialog.addEventListener("close", () => dialog.remove());
    this.main.append(dialog);
    dialog.showModal();
  }

  async edit(action, replicas = 0) {
    const { path, options } = post("/api/edit", { id: this.id, uid: this.uid, action, replicas });
    try {
      await fetchJson(path, options);
    } catch (error) {
      this.complain(error.message);
    }
  }

  drawQueue(queue) {
    if (!queue) return null;
    const waiting = [...this.yard.rows.values()].filter((row) => row.queue).sort((a, b) => a.queue - b.queue);
    return [
      h("h2", {}, "GPU queue"),
      h("p", {}, `Place ${queue.queuePosition} of ${waiting.length}. It waits for ${queue.waitingFor || "GPUs"}.`),
      queue.schedulingMessage && h("p", { class: "quiet" }, queue.schedulingMessage),
      h("ol", { class: "queue" }, waiting.slice(0, 20).map((row) => h("li", { class: row.id === this.id ? "self" : "" }, row.id === this.id ? fullName(row) : h("a", { href: hrefOf(row.id) }, fullName(row))))),
    ].filter(Boolean);
  }

  drawLinks({ uses, users }) {
    if (!uses.length && !users.length) return null;
    const list = (title, rows) => rows.length ? [h("h3", {}, title), h("ul", { class: "plain-list" }, rows.map((row) => h("li", {}, h("a", { href: hrefOf(row.id) }, shortId(row.id)), " ", badge(row))))] : [];
    return [h("h2", {}, "Links"), ...list("Uses", uses), ...list("Used by", users)];
  }

  drawPods(pods) {
    if (!pods.length) return null;
    const longest = Math.max(...pods.map((pod) => total(pod.start)));
    return [
      h("h2", {}, "Pods"),
      h("ul", { class: "pods" }, pods.map((pod) => h("li", {},
        h("div", { class: "pod-line" }, h("span", { class: `badge ${pod.isReady ? "ready" : pod.needsHelp ? "attention" : "working"}` }, h("span", { class: "dot", "aria-hidden": "true" }), pod.isReady ? "Ready" : pod.phase), h("b", {}, pod.name), pod.node && h("span", { class: "quiet" }, `on ${pod.node}`), h("span", { class: "quiet" }, `${duration(total(pod.start))}${isOver(pod.start) ? (pod.isReady ? " to ready" : "") : " so far"}`)),
        pod.message && h("p", { class: "error" }, pod.message),
        bar(pod.start, longest),
        h("div", { class: "buttons small" }, pod.containers.map((container) => h("button", { type: "button", class: "plain", onclick: () => this.log.open(pod.name, container) }, `Log of ${container.name}`, h("span", { class: "quiet" }, ` ${container.state}${container.restarts ? `, restarted ${container.restarts} times` : ""}`))))))),
      legend(),
    ];
  }
}

function shortId(id) {
  const [kind, namespace, name] = id.split("/");
  return `${kind} ${namespace === "default" ? "" : `${namespace}/`}${name}`;
}

function drawProgress(progress) {
  if (!progress) return null;
  const facts = [];
  if (progress.total) facts.push(`${bytes(progress.done ?? 0)} of ${bytes(progress.total)}`);
  if (progress.perSecond) facts.push(`${bytes(progress.perSecond)}/s`);
  if (progress.secondsLeft !== undefined && progress.secondsLeft !== null) facts.push(`${duration(progress.secondsLeft)} left`);
  const meter = progress.total ? h("progress", { max: progress.total, "aria-label": "Download", value: progress.done ?? 0 }) : null;
  return [h("h2", {}, "Download"), meter, h("p", {}, facts.length ? facts.join(" · ") : progress.text)].filter(Boolean);
}

function isWell(condition) {
  if (NEUTRAL.has(condition.type)) return "neutral";
  if (condition.status === "Unknown") return "unknown";
  return (condition.status === "True") !== NEGATIVE.has(condition.type) ? "well" : "ill";
}

function drawConditions({ conditions, history }) {
  if (!conditions.length) return null;
  const begin = Math.min(...history.map((turn) => Date.parse(turn.at)));
  const hasTurned = conditions.some((condition) => history.filter((turn) => turn.type === condition.type).length > 1);
  return [
    h("h2", {}, "Conditions"),
    h("ul", { class: "conditions" }, conditions.map((condition) => h("li", {},
      h("div", { class: "pod-line" }, h("span", { class: `truth ${isWell(condition)}` }, condition.status), h("b", {}, condition.type), h("span", {}, condition.reason), condition.lastTransitionTime && h("span", { class: "quiet" }, held(condition.lastTransitionTime))),
      condition.message && h("p", { class: "quiet" }, condition.message),
      strip(history.filter((turn) => turn.type === condition.type), begin)))),
    hasTurned && h("p", { class: "quiet small" }, `The strips begin ${ago(new Date(begin).toISOString())}. What changed before the page was started is known only by its last time.`),
  ].filter(Boolean);
}

// One condition over time: a segment for each state that was seen.
function strip(turns, begin) {
  if (turns.length < 2) return null;
  const end = Date.now();
  const words = turns.map((turn) => `${turn.status} ${turn.reason} ${ago(turn.at)}`).join(", ");
  const box = h("div", { class: "strip", role: "img", "aria-label": words });
  turns.forEach((turn, index) => {
    const from = Date.parse(turn.at);
    const until = index + 1 < turns.length ? Date.parse(turns[index + 1].at) : end;
    if (!index && from > begin) box.append(segment("absent", "not there yet", (from - begin) / (end - begin)));
    box.append(segment(isWell(turn), `${turn.status}, ${turn.reason}: ${duration((until - from) / 1000)}`, (until - from) / (end - begin)));
  });
  return box;
}

function segment(kind, title, share) {
  const part = h("i", { class: kind, title });
  part.style.flexGrow = String(Math.max(0.01, share));
  return part;
}

function drawChildren(children) {
  if (!children.length) return null;
  return [h("h2", {}, "Made for it"), h("ul", { class: "plain-list" }, children.map((child) => h("li", {}, h("span", {}, `${child.kind} `, h("b", {}, child.name)), h("span", { class: child.isWell ? "quiet" : "error" }, ` ${child.summary}`))))];
}

function drawUnread(problems) {
  return problems.length ? [h("h2", {}, "What could not be read"), ...problems.map((line) => h("p", { class: "quiet" }, line))] : null;
}

function drawEvents(events) {
  if (!events.length) return null;
  return [
    h("h2", {}, "Events"),
    h("ul", { class: "events" }, events.map((event) => h("li", { class: event.isWarning ? "warning" : "" }, h("div", { class: "pod-line" }, h("b", {}, event.reason), h("span", { class: "quiet" }, event.about), event.count > 1 && h("span", { class: "quiet" }, `${event.count} times`), h("span", { class: "quiet" }, time(event.at))), h("p", {}, event.note)))),
  ];
}

function drawManifest(text) {
  return h("details", {}, h("summary", {}, h("h2", {}, "Manifest")), copyable(text, "Manifest"));
}

