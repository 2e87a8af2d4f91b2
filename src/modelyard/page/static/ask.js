// A chat with one object: the answer as it comes, its figures, and the command that asks the same.

import { fetchJson, h, lines, post } from "./dom.js";
import { copyable, fullName, hrefOf, shellQuoted } from "./format.js";

const QUESTION = "Which model are you?";
// Pixels from the end of the conversation within which it scrolls along.
const END = 40;

export class AskView {
  constructor(yard, main, id) {
    this.yard = yard;
    this.main = main;
    this.id = id;
    this.title = "Ask";
    this.messages = [];
  }

  draw() {
    this.targets = h("select", { id: "target", onchange: () => (location.hash = hrefOf(this.targets.value, "ask")) });
    this.models = h("select", { id: "model", onchange: () => this.showCommand() });
    this.modelLabel = h("label", { for: "model", hidden: true }, "Model");
    this.models.hidden = true;
    this.talk = h("div", { class: "talk", role: "log", "aria-label": "Conversation", "aria-live": "polite", tabindex: "0" });
    this.input = h("textarea", { id: "question", rows: "2", placeholder: QUESTION, oninput: () => this.showCommand(), onkeydown: (event) => this.key(event) });
    this.send = h("button", { type: "submit" }, "Ask");
    this.stop = h("button", { type: "button", class: "plain", hidden: true, onclick: () => this.asking?.abort() }, "Stop");
    this.shell = h("h2", { hidden: true }, "From a shell");
    this.command = h("div");
    this.note = h("p", { class: "error", hidden: true, role: "alert" });
    this.main.append(
      h("h1", {}, "Ask a model"),
      h("div", { class: "ask" },
        h("div", { class: "choose" }, h("label", { for: "target" }, "Object"), this.targets, this.modelLabel, this.models),
        this.note,
        this.talk,
        h("form", { onsubmit: (event) => this.ask(event) }, h("label", { class: "hidden", for: "question" }, "Question"), this.input, h("div", { class: "buttons" }, this.send, this.stop)),
        this.shell,
        this.command));
    this.changed();
  }

  close() {
    this.asking?.abort();
  }

  changed() {
    const rows = [...this.yard.rows.values()].filter((row) => row.answers || row.id === this.id).sort((a, b) => a.kind.localeCompare(b.kind) || fullName(a).localeCompare(fullName(b)));
    const shown = rows.map((row) => row.id + row.state).join();
    if (shown !== this.shown) {
      this.shown = shown;
      this.targets.replaceChildren(...rows.map((row) => h("option", { value: row.id }, `${row.kind} ${fullName(row)}${row.answers ? "" : " (not ready)"}`)));
    }
    this.targets.disabled = rows.length === 0;
    const isEmpty = !rows.length && this.yard.synced;
    this.send.disabled = this.input.disabled = isEmpty;
    if (isEmpty) this.complain("Nothing answers questions yet. The overview shows what keeps it.");
    this.id ||= rows[0]?.id ?? "";
    this.targets.value = this.id;
    if (this.id && this.described !== this.id && this.yard.rows.get(this.id)?.answers) this.describe();
  }

  async describe() {
    this.described = this.id;
    try {
      this.info = await fetchJson(`/api/ask?id=${encodeURIComponent(this.id)}`);
      this.complain(this.info.problem);
      this.models.replaceChildren(...this.info.models.map((model) => h("option", { value: model }, model)));
      this.models.hidden = this.modelLabel.hidden = this.info.models.length < 2;
      this.showCommand();
    } catch (error) {
      this.complain(error.message);
    }
  }

  complain(words) {
    this.note.hidden = !words;
    this.note.textContent = words ?? "";
  }

  get model() {
    return this.models.value || this.info?.models[0] || "";
  }

  showCommand() {
    this.shell.hidden = !this.info;
    if (!this.info) return;
    const body = { model: this.model, messages: [{ role: "user", content: this.input.value.trim() || QUESTION }], stream: true };
    const key = this.info.setKey ? ' -H "Authorization: Bearer $API_KEY"' : "";
    const curl = `curl -sN ${this.info.url}/chat/completions -H 'Content-Type: application/json'${key} -d ${shellQuoted(JSON.stringify(body))}`;
    const before = [this.info.forward && `${this.info.forward} &`, this.info.setKey].filter(Boolean);
    this.command.replaceChildren(copyable([...before, curl].join("\n"), "Command"));
  }

  key(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.ask(event);
    }
  }

  async ask(event) {
    event.preventDefault();
    if (this.asking || !this.id) return;
    const question = this.input.value.trim() || QUESTION;
    this.input.value = "";
    this.messages.push({ role: "user", content: question });
    this.talk.append(h("p", { class: "said user" }, question));
    const answer = { thought: h("span", { class: "thought", hidden: true }), text: h("span"), figures: h("p", { class: "figures" }) };
    this.talk.append(h("div", { class: "said model going" }, answer.thought, answer.text), answer.figures);
    this.talk.scrollTop = this.talk.scrollHeight;
    this.asking = new AbortController();
    this.send.disabled = true;
    this.stop.hidden = false;
    try {
      await this.listen(answer);
    } catch (error) {
      if (error.name !== "AbortError") answer.figures.append(h("span", { class: "error" }, error.message));
      else answer.figures.append("stopped");
    }
    answer.text.parentElement.classList.remove("going");
    // A question without an answer is no part of the conversation: many servers refuse an empty message.
    if (answer.text.textContent) this.messages.push({ role: "assistant", content: answer.text.textContent });
    else this.messages.pop();
    this.asking = null;
    this.send.disabled = false;
    this.stop.hidden = true;
    this.input.focus();
  }

  async listen(answer) {
    const { path, options } = post("/api/ask", { id: this.id, model: this.model, messages: this.messages }, this.asking.signal);
    const response = await fetch(path, options);
    if (!response.ok) throw new Error((await response.json()).error);
    for await (const line of lines(response)) {
      const piece = JSON.parse(line);
      const isAtEnd = this.talk.scrollTop + this.talk.clientHeight > this.talk.scrollHeight - END;
      if (piece.track) answer.track = piece.track;
      if (piece.thought) {
        answer.thought.hidden = false;
        answer.thought.append(piece.thought);
      }
      if (piece.text) answer.text.append(piece.text);
      if (piece.isLast) answer.figures.append(...figures(piece, answer.track));
      // Who has scrolled up reads, and is not taken away from it.
      if (isAtEnd) this.talk.scrollTop = this.talk.scrollHeight;
    }
  }
}

function figures(piece, track) {
  if (piece.error) return [h("span", { class: "error" }, piece.error)];
  const parts = [`first token after ${piece.secondsToFirst.toFixed(2)} s`];
  if (piece.tokensPerSecond) parts.push(`${piece.tokensPerSecond.toFixed(1)} tokens/s`);
  parts.push(`${piece.tokens} tokens`);
  if (piece.model) parts.push(`model ${piece.model}`);
  if (track) parts.push(`answered by the ${track}`);
  return parts.map((part) => h("span", {}, part));
}
