// The filter line: typed, checked, and taken with Enter.

import { lineOf, readLine } from "../filter/line.ts";
import type { App } from "./app.ts";
import { by, el } from "./dom.ts";

/** Opens the line with what is kept and excluded; it closes with Enter or Esc. */
export function openLine(app: App): void {
  const box = by("line");
  const input = el("input", { value: lineOf(app.state), "aria-label": "Filter", spellcheck: "false", placeholder: "device = sda and kind != write and lat > 10ms and p99 < 20ms" });
  const message = el("span", { role: "alert" });
  const close = (): void => {
    box.hidden = true;
    box.replaceChildren();
    by("map").focus({ preventScroll: true });
  };
  const take = (): void => {
    try {
      const { is, not, x, y, limit } = readLine(app.data.head, input.value);
      const { state } = app;
      app.set({ is, not, limit, x: x ?? state.x, y: y ?? state.y, tab: limit && !state.limit ? "lines" : state.tab });
      close();
    } catch (error) {
      message.textContent = error instanceof Error ? error.message : String(error);
    }
  };
  input.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Enter") take();
    if (event.key === "Escape") close();
  });
  input.addEventListener("input", () => (message.textContent = ""));
  box.replaceChildren(input, message);
  box.hidden = false;
  input.focus();
  input.select();
}
