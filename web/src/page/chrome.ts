// The parts of the page around the pictures: header, crumbs, notes, help.

import { filterOf } from "../filter/command.ts";
import { duration, events, percentile, plain } from "../view/format.ts";
import { label } from "../view/panel.ts";
import { valueKey } from "../series/cube.ts";
import type { State, Tab, Theme, Weight } from "../state/state.ts";
import { cellsOf } from "../view/scene.ts";
import type { App } from "./app.ts";
import { button, by, copy, el } from "./dom.ts";
import { openLine } from "./line.ts";
import { exportView } from "./export.ts";

const WEIGHTS: [Weight, string, string][] = [
  ["events", "events", "How many events there are"],
  ["time", "waiting", "Where the time went: sum of the latencies"],
  ["bytes", "bytes", "Where the data went"],
  ["share", "share", "Share of the events of each column"],
  ["difference", "difference", "Which of two traces has a larger share of its events there"],
];

/** What cells may be coloured by: the difference needs two traces. */
function weights({ data }: App): typeof WEIGHTS {
  const isSeveral = data.head.attributes.some(({ kind, values }) => kind === "trace" && values.length > 1);
  return isSeveral ? WEIGHTS : WEIGHTS.slice(0, -1);
}
const TABS: [Tab, string][] = [["lines", "lines"], ["contour", "contour"], ["surface", "surface"], ["groups", "groups"], ["distribution", "distribution"]];
const THEMES: Theme[] = ["system", "light", "dark"];

export const KEYS: [string, string][] = [
  ["drag", "box A: what is different in this spot"],
  ["Alt+drag, b then drag", "box B: compare A with B"],
  ["Shift+drag", "pan"],
  ["wheel", "zoom in time at the pointer (after a click on the map, or with Ctrl)"],
  ["Shift+wheel, Alt+wheel", "zoom in latency; in both"],
  ["double click", "zoom to the box, or in on the cell"],
  ["arrows, Home, End", "move the cursor by a cell; with Shift by ten"],
  ["v, then arrows, Enter", "draw box A with the keyboard; b for B"],
  ["+ - 0, w s a d", "zoom in, out, all; zoom and pan"],
  ["f", "zoom to the box"],
  ["/", "filter: device = sda and lat > 10ms; p99 < 20ms draws a limit"],
  ["n, N", "next and previous spot that was found"],
  ["drag an edge of a box, or its letter", "resize it, move it"],
  ["drag or wheel on an axis", "pan or zoom this axis; double click shows all of it"],
  ["Esc", "clear box B, then A, then the zoom"],
  ["u, Shift+u", "undo, redo (also Back and Forward)"],
  ["k", "weight of the cells"],
  ["[ ]", "percentile of the slider"],
  ["p", "percentile lines on the map"],
  ["L", "lock the colours"],
  ["t, z, T", "theme; elapsed time, local time, UTC; table"],
  ["c, e", "copy the command; export"],
  ["Space", "pause and go on, on a live page"],
  ["click, Alt+click on a value", "keep only these events; exclude them"],
];

function choice(element: HTMLElement, entries: [string, string, string][], chosen: string, pick: (key: string) => void): void {
  const buttons = entries.map(([key, text, title]) => {
    const isChosen = key === chosen;
    return button(text, title, () => pick(key), { role: "radio", "aria-checked": String(isChosen), "data-key": key });
  });
  // Focus stays where it was.
  const focused = element.contains(document.activeElement) ? (document.activeElement as HTMLElement).dataset.key : null;
  element.replaceChildren(...buttons);
  if (focused) element.querySelector<HTMLElement>(`[data-key="${focused}"]`)?.focus();
}

export function nextTheme(state: State): Theme {
  return THEMES[(THEMES.indexOf(state.theme) + 1) % THEMES.length] as Theme;
}

/** Elapsed, local and UTC in turn, where the wall clock is known. */
export function nextClock(app: App): Partial<State> {
  const { wall, utc } = app.state;
  if (app.data.head.clock.to_unix_ns === null) return {};
  return !wall ? { wall: true, utc: false } : !utc ? { utc: true } : { wall: false, utc: false };
}

export function nextWeight(app: App): Weight {
  const all = weights(app);
  const at = all.findIndex(([key]) => key === app.state.weight);
  return (all[(at + 1) % all.length] as (typeof WEIGHTS)[number])[0];
}

export function drawChrome(app: App): void {
  const { head } = app.data;
  const { state } = app;
  choice(by("weights"), weights(app), state.weight, (key) => app.set({ weight: key as Weight, lock: null }));
  choice(by("tabs"), TABS.map(([key, text]) => [key, text, text]), state.tab, (key) => app.set({ tab: key as Tab }));
  const clockText = !state.wall ? "elapsed" : state.utc ? "UTC" : "local";
  const buttons = by("buttons");
  const focused = buttons.contains(document.activeElement) ? (document.activeElement as HTMLElement).id : null;
  buttons.replaceChildren(
    button("undo", "Undo (u)", () => app.undo(), { id: "undo" }),
    ...(head.clock.to_unix_ns === null ? [] : [button(clockText, "Elapsed time, local time or UTC (z)", () => app.set(nextClock(app)), { id: "clock" })]),
    button("table", "Show the view as a table (T)", () => app.set({ table: !state.table }), { id: "as-table", "aria-pressed": String(state.table) }),
    button("filter", "Type a filter (/)", () => openLine(app), { id: "filter" }),
    button("CSV", "Export percentiles (e); with Alt the cells", (event) => exportView(app, event.altKey ? "cells" : "percentiles", "csv"), { id: "export" }),
    button("JSON", "Export percentiles as JSON lines; with Alt the cells", (event) => exportView(app, event.altKey ? "cells" : "percentiles", "json"), { id: "export-json" }),
    button(state.theme, "System, light or dark (t)", () => app.set({ theme: nextTheme(state) }), { id: "theme" }),
    button("?", "Keys", () => showHelp(), { id: "keys", "aria-label": "Keys" }),
  );
  if (focused) by(focused)?.focus();
  const select = by<HTMLSelectElement>("by");
  select.hidden = state.tab !== "groups" && state.tab !== "lines";
  drawAbout(app);
}

/** What changes with the data: title, counts, groups to choose from, and notes. */
export function drawAbout(app: App): void {
  const { head } = app.data;
  const { state } = app;
  by("title").textContent = plain(head.title);
  const span = head.columns * head.width_ns;
  by("about").textContent = [head.host && plain(head.host), `${events(app.data.events)}, ${duration(span)}`, head.filter && `filter: ${plain(head.filter)}`].filter(Boolean).join(" · ");
  const select = by<HTMLSelectElement>("by");
  const names = ["", ...head.attributes.map(({ name }) => name)];
  // An open list closes when its options are replaced.
  if (names.join() !== [...select.options].map(({ value }) => value).join()) {
    select.replaceChildren(...names.map((name) => el("option", { value: name }, name === "" ? "all together" : `by ${name}`)));
  }
  select.value = state.tab === "groups" ? app.by : state.by;
  drawNotes(app);
}

function drawNotes(app: App): void {
  const { head } = app.data;
  const notes = by("notes");
  // What was lost is never cut.
  const all = head.notes.map(({ text, lost }) => el("span", { class: lost ? "lost" : "" }, plain(text, Infinity)));
  const [oldest] = head.unfinished.longest;
  // A report says it in its notes.
  if (oldest && !by("link").hidden) all.unshift(el("span", { class: "lost" }, `waiting for ${duration(oldest.age)} so far: ${plain(oldest.what)}`));
  const source = `${head.program}: ${head.sources.map(plain).join(", ")}`;
  const stored = `finest stored: ${duration(head.width_ns)}`;
  notes.replaceChildren(...all, el("span", {}, source), el("span", {}, stored), ...(head.clock.approximate ? [el("span", {}, "wall clock estimated")] : []));
}

export function showHelp(): void {
  const dialog = by<HTMLDialogElement>("help");
  const list = el("dl", {}, ...KEYS.flatMap(([key, text]) => [el("dt", {}, key), el("dd", {}, text)]));
  dialog.replaceChildren(el("h2", {}, "Keys and gestures"), list, button("Close", "Close (Esc)", () => dialog.close()));
  dialog.showModal();
}

export function drawCrumbs(app: App): void {
  const { state, data } = app;
  const crumb = (text: string, title: string, click: () => void, drop: (() => void) | null): HTMLElement =>
    el("span", { class: "crumb" }, button(text, title, click), drop ? button("×", `Remove: ${text}`, drop, { "aria-label": `Remove: ${text}` }) : null);
  const crumbs: HTMLElement[] = [crumb("whole trace", "Show all", () => app.act({ do: "whole" }), null)];
  if (state.x || state.y) {
    const text = app.ranges(app.inView());
    const shown = crumb(text, "Edit the range of time", () => shown.replaceWith(editor(app)), () => app.set({ x: null, y: null }));
    crumbs.push(shown);
  }
  for (const [letter, box] of [["A", state.a], ["B", state.b]] as const) {
    if (!box) continue;
    const change = letter === "A" ? { a: null, b: null } : { b: null };
    crumbs.push(crumb(`${letter}: ${app.ranges(cellsOf(app.scene.cube, box))}`, "Zoom to the box", () => app.set({ x: box.time, y: box.latency }), () => app.set(change)));
  }
  if (state.limit) {
    crumbs.push(crumb(`${percentile(state.limit.quantile)} < ${duration(state.limit.value)}`, "Edit", () => openLine(app), () => app.set({ limit: null })));
  }
  for (const kind of ["is", "not"] as const) {
    for (const [name, keys] of Object.entries(state[kind])) {
      const attribute = data.head.attributes.findIndex((known) => known.name === name);
      const values = keys.map((key) => {
        const value = data.head.attributes[attribute]?.values.find((known) => valueKey(known) === key);
        return value === undefined ? plain(key) : label(data, attribute, value);
      });
      const text = `${plain(name)} ${kind === "is" ? "=" : "≠"} ${values.join(" or ")}`;
      crumbs.push(crumb(text, "Remove", () => app.act({ do: "drop", kind, name }), () => app.act({ do: "drop", kind, name })));
    }
  }
  const filter = filterOf(data.head, app.whole(), app.end);
  const counted = el("span", { id: "counted" }, app.counted());
  crumbs.push(counted);
  if (filter !== null && filter !== "") crumbs.push(button("copy filter", filter, () => copy(filter, null)));
  by("crumbs").replaceChildren(...crumbs);
}

/** A range of time, to be typed in seconds. */
function editor(app: App): HTMLElement {
  const { cube } = app.scene;
  const view = app.inView().columns.map((column) => cube.time(column) / 1e9);
  const input = el("input", { value: `${view[0]}s – ${view[1]}s`, "aria-label": "Range of time in seconds" });
  const apply = (): void => {
    const [from, to] = input.value.split(/[–~]|\s-\s/).map((text) => Number.parseFloat(text) * 1e9);
    if (Number.isFinite(from) && Number.isFinite(to) && (from as number) < (to as number)) app.set({ x: [from as number, to as number] });
    drawCrumbs(app);
  };
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") apply();
    if (event.key === "Escape") drawCrumbs(app);
    event.stopPropagation();
  });
  input.addEventListener("blur", () => drawCrumbs(app));
  requestAnimationFrame(() => input.select());
  return el("span", { class: "crumb" }, input);
}
