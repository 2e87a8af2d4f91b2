// The log of one container, which goes on while more is written.

import { h, lines } from "./dom.js";

const MOST = 2000;

export class LogPanel {
  constructor(namespace) {
    this.namespace = namespace;
    this.output = h("pre", { class: "log", tabindex: "0", role: "log", "aria-label": "Log" });
    this.title = h("span");
    this.follow = h("input", { type: "checkbox", id: "follow" });
    this.follow.checked = true;
    this.element = h("section", { class: "panel", "aria-label": "Log", hidden: true },
      h("div", { class: "log-head" }, h("h2", {}, "Log ", this.title), h("label", { for: "follow" }, this.follow, " Scroll with it"), h("button", { type: "button", class: "plain", onclick: () => this.hide() }, "Close")),
      this.output);
    this.waiting = [];
    // As the stream of changes, a log takes a connection only while the page is in sight.
    this.turned = () => (document.hidden ? this.close() : this.pod && !this.ended && this.again(this.restarts));
    document.addEventListener("visibilitychange", this.turned);
  }

  // Open the log that tells most by itself: of the first pod that is not ready, and of its server once it has started.
  offer(pods) {
    if (document.hidden || this.hidden || !pods.length || this.resume(pods) || (this.pod && !this.offered)) return;
    const pod = pods.find((each) => !each.isReady) ?? pods[0];
    const started = pod.containers.filter((container) => !container.state.startsWith("waiting") || container.restarts);
    const chosen = started.find((container) => !container.isInit) ?? started.at(-1);
    if (!chosen || (this.pod === pod.name && this.container === chosen.name)) return;
    // A log that goes on is not taken away from the reader.
    if (this.pod && !this.ended) return;
    this.open(pod.name, chosen);
    this.offered = true;
  }

  // Go on with the log of a container that was started again.
  resume(pods) {
    const container = pods.find((pod) => pod.name === this.pod)?.containers.find((each) => each.name === this.container);
    if (!container || !this.ended || container.restarts === this.restarts) return false;
    this.again(container.restarts);
    return true;
  }

  again(restarts) {
    const { offered } = this;
    this.open(this.pod, { name: this.container, restarts });
    this.offered = offered;
  }

  hide() {
    this.hidden = true;
    this.close();
    this.element.hidden = true;
    this.pod = "";
  }

  close() {
    this.reading?.abort();
  }

  leave() {
    document.removeEventListener("visibilitychange", this.turned);
    this.close();
  }

  async open(pod, { name: container, restarts }) {
    this.close();
    const reading = (this.reading = new AbortController());
    [this.pod, this.container, this.restarts] = [pod, container, restarts];
    [this.hidden, this.ended, this.offered] = [false, false, false];
    this.title.textContent = `of ${container} in ${pod}${restarts ? `, start ${restarts + 1}` : ""}`;
    this.waiting.length = 0;
    this.output.replaceChildren();
    this.element.hidden = false;
    const query = new URLSearchParams({ namespace: this.namespace, pod, container });
    try {
      const answer = await fetch(`/api/log?${query}`, { signal: reading.signal });
      if (!answer.ok) throw new Error((await answer.json()).error);
      for await (const line of lines(answer)) this.add(line);
      this.ended = true;
      this.add("The log has ended.", "quiet");
    } catch (error) {
      if (error.name === "AbortError") return;
      this.ended = true;
      this.add(error.message, "error");
    }
  }

  add(text, kind = "") {
    this.waiting.push(h("span", { class: kind }, `${text}\n`));
    if (this.waiting.length > 1) return;
    requestAnimationFrame(() => {
      this.output.append(...this.waiting.splice(0));
      while (this.output.childElementCount > MOST) this.output.firstElementChild.remove();
      if (this.follow.checked) this.output.scrollTop = this.output.scrollHeight;
    });
  }
}
