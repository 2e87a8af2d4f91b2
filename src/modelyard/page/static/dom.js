// Builds elements. Text always becomes text nodes: nothing that a server says can become markup.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "disabled" || name === "hidden" || name === "open") element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

// Text with what stands in backticks as code. Still text nodes only.
export function marked(text) {
  const parts = text.split("`");
  return parts.length % 2 ? parts.map((part, index) => (index % 2 ? h("code", {}, part) : part)) : text;
}

// A part of a view that is drawn again only when what it shows has changed, so that focus and selection stay.
export class Section {
  constructor(element, draw) {
    this.element = element;
    this.draw = draw;
    this.shown = undefined;
  }

  show(data) {
    const text = JSON.stringify(data);
    if (text === this.shown) return;
    this.shown = text;
    const drawn = this.draw(data);
    this.element.hidden = drawn === null;
    this.element.replaceChildren(...(drawn === null ? [] : [drawn].flat()));
  }
}

export async function fetchJson(path, options = {}) {
  const answer = await fetch(path, { credentials: "same-origin", ...options });
  const body = await answer.json();
  if (!answer.ok || body.error) throw new Error(body.error || answer.statusText);
  return body;
}

export function post(path, body, signal) {
  return { path, options: { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal } };
}

// The lines of an answer that goes on.
export async function* lines(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    yield* parts;
  }
  if (rest) yield rest;
}
