// Cold starts as bars: one segment for each stage of a pod.

import { h } from "./dom.js";
import { duration } from "./format.js";

export const STAGES = ["waiting for a node", "pulling images, mounting volumes", "fetching weights", "loading", "becoming ready"];

export function total(start) {
  return start.spans.reduce((sum, span) => sum + span.seconds, 0);
}

export function isOver(start) {
  return start.spans.every((span) => span.isOver);
}

export function bar(start, longest) {
  const words = start.spans.map((span) => `${span.stage} ${duration(span.seconds)}${span.isOver ? "" : " so far"}`).join(", ");
  const box = h("div", { class: "starts-bar", role: "img", "aria-label": words || "started at once" });
  for (const span of start.spans) {
    const part = h("i", { class: `stage-${STAGES.indexOf(span.stage)}${span.isOver ? "" : " going"}`, title: `${span.stage}: ${duration(span.seconds)}` });
    part.style.width = `${Math.max(0.5, (100 * span.seconds) / Math.max(longest, 1))}%`;
    box.append(part);
  }
  return box;
}

export function legend() {
  return h("ul", { class: "legend" }, STAGES.map((stage, index) => h("li", {}, h("i", { class: `stage-${index}`, "aria-hidden": "true" }), stage)));
}
