// Pointer, wheel, touch and keys to actions.

import type { Cells } from "../series/cube.ts";
import { stepOf, STEPS } from "../series/percentiles.ts";
import { boxOf } from "../view/paint.ts";
import { allRows, boxOfCells, cellsOf } from "../view/scene.ts";
import type { App } from "./app.ts";
import { nextClock, nextTheme, nextWeight, showHelp } from "./chrome.ts";
import { by, copy } from "./dom.ts";
import { exportView } from "./export.ts";
import { cursorOf, gripAt, moved, type Grip } from "./edges.ts";
import { openLine } from "./line.ts";
import { cellsAt, cellText, mapInPlots } from "./overlay.ts";

/** A press without a move of so many pixels is a click. */
const CLICK_PX = 4;

interface Point {
  column: number;
  row: number;
  x: number;
  y: number;
  part: "map" | "strips" | "lower" | "distribution" | "gutter" | "time axis" | "latency axis";
  /** In the coordinates of the pictures. */
  inside: [number, number];
}

/** What lies at a place of the window. */
function pointAt(app: App, event: { clientX: number; clientY: number }): Point | null {
  const area = mapInPlots(app);
  if (!area) return null;
  const box = by("plots").getBoundingClientRect();
  const [x, y] = [event.clientX - box.left + by("plots").scrollLeft, event.clientY - box.top + by("plots").scrollTop];
  const { scene } = app;
  const column = scene.x[0] + ((x - area.left) / area.width) * (scene.x[1] - scene.x[0]);
  const row = scene.y[0] + ((area.top + area.height - y) / area.height) * (scene.y[1] - scene.y[0]);
  const isBeside = x < area.left || x > area.left + area.width;
  const isOnMap = y >= area.top && y <= area.top + area.height;
  const map = boxOf(by("map"));
  const isBelow = y > area.top + area.height && y < map.top + map.height;
  const outside = isBeside ? "gutter" : isBelow ? "time axis" : y < area.top ? "strips" : "lower";
  const part = !isOnMap ? outside : x > area.left + area.width ? "distribution" : x < area.left ? "latency axis" : "map";
  return { column, row, x: event.clientX, y: event.clientY, part, inside: [x, y] };
}

/** Whole cells of the map between two points; over all latencies where they are on the strips or lines. */
function cellsBetween(app: App, from: Point, to: Point): Cells {
  const { scene } = app;
  const within = (value: number, [low, high]: [number, number]): number => Math.min(Math.max(value, low), high);
  const snap = (edges: number[], one: number, other: number): [number, number] => {
    const [low, high] = [Math.min(one, other), Math.max(one, other)];
    const first = edges.filter((edge) => edge <= low).at(-1) ?? (edges[0] as number);
    const last = edges.find((edge) => edge >= high && edge > first) ?? (edges.at(-1) as number);
    return [first, last];
  };
  const columns = snap(scene.columnEdges, within(from.column, scene.x), within(to.column, scene.x));
  if (from.part !== "map") return { columns, rows: allRows(scene.cube) };
  return { columns, rows: snap(scene.rowEdges, within(from.row, scene.y), within(to.row, scene.y)) };
}

/** Shows other columns and rows; a view that is all there is has no range. */
function show(app: App, x: [number, number], y: [number, number], isPassing: boolean): void {
  const { cube } = app.scene;
  const clamp = ([from, to]: [number, number], [low, high]: [number, number], least: number): [number, number] => {
    const width = Math.min(Math.max(to - from, least), high - low);
    const start = Math.min(Math.max(from, low), high - width);
    return [start, start + width];
  };
  const [columns, rows] = [clamp(x, [0, cube.columns], Math.min(4, cube.columns)), clamp(y, allRows(cube), 4)];
  const all = allRows(cube);
  const isAllX = columns[0] <= 0 && columns[1] >= cube.columns;
  const isAllY = rows[0] <= all[0] && rows[1] >= all[1];
  app.set(
    {
      x: isAllX ? null : (columns.map((column) => Math.round(cube.time(column))) as [number, number]),
      y: isAllY ? null : (rows.map((row) => Math.round(cube.grid.value(row))) as [number, number]),
    },
    isPassing,
  );
}

/** Zooms by a factor about a point. */
function zoom(app: App, at: { column: number; row: number }, time: number, latency: number, isPassing: boolean): void {
  const about = ([from, to]: [number, number], middle: number, factor: number): [number, number] => [middle - (middle - from) * factor, middle + (to - middle) * factor];
  show(app, about(app.scene.x, at.column, time), about(app.scene.y, at.row, latency), isPassing);
}

export function listen(app: App): void {
  listenPointer(app);
  listenWheel(app);
  listenControls(app);
  document.addEventListener("keydown", (event) => key(app, event));
}

function listenPointer(app: App): void {
  const plots = by("plots");
  let press: { from: Point; x: [number, number]; y: [number, number]; mode: "box" | "pan" | "camera"; second: boolean; camera: [number, number]; grip: Grip | null } | null = null;
  const touches = new Map<number, PointerEvent>();
  let pinch: { distance: [number, number]; x: [number, number]; y: [number, number]; at: Point } | null = null;
  let held = 0;

  const finish = (): void => {
    press = null;
    app.drawing = null;
    clearTimeout(held);
  };
  plots.addEventListener("pointerdown", (event) => {
    const from = pointAt(app, event);
    const target = event.target as HTMLElement;
    if (!from || target.closest("#bar, #table") || from.part === "gutter" || event.button === 2) return;
    if (event.pointerType === "touch") touches.set(event.pointerId, event);
    if (touches.size === 2) {
      finish();
      const [one, other] = [...touches.values()] as [PointerEvent, PointerEvent];
      const middle = { clientX: (one.clientX + other.clientX) / 2, clientY: (one.clientY + other.clientY) / 2 };
      pinch = { distance: spread(one, other), x: app.scene.x, y: app.scene.y, at: pointAt(app, middle) ?? from };
      return;
    }
    const isCamera = target.id === "gl";
    const isTouch = event.pointerType === "touch";
    const isAxis = from.part.endsWith("axis");
    const mode = isCamera ? "camera" : event.shiftKey || event.button === 1 || isTouch || isAxis ? "pan" : "box";
    const grip = mode === "box" && from.part === "map" && !event.altKey ? gripAt(app, ...from.inside) : null;
    press = { from, x: app.scene.x, y: app.scene.y, mode, second: grip ? grip.second : event.altKey || secondNext, camera: app.state.camera, grip };
    secondNext = false;
    // A finger that rests draws a box.
    if (isTouch && !isCamera) held = window.setTimeout(() => press && (press.mode = "box"), 300);
    plots.setPointerCapture(event.pointerId);
    if (target.closest("#map")) by("map").focus({ preventScroll: true });
    app.cursor = null;
  });
  plots.addEventListener("pointermove", (event) => {
    const to = pointAt(app, event);
    if (!to) return;
    if (touches.has(event.pointerId)) touches.set(event.pointerId, event);
    if (pinch && touches.size === 2) {
      const [one, other] = [...touches.values()] as [PointerEvent, PointerEvent];
      const now = spread(one, other);
      const about = ([from, end]: [number, number], middle: number, factor: number): [number, number] => [middle - (middle - from) * factor, middle + (end - middle) * factor];
      show(app, about(pinch.x, pinch.at.column, pinch.distance[0] / now[0]), about(pinch.y, pinch.at.row, pinch.distance[1] / now[1]), true);
      return;
    }
    if (press) {
      const far = Math.hypot(to.x - press.from.x, to.y - press.from.y);
      if (far > CLICK_PX) clearTimeout(held);
      if (press.mode === "camera") {
        const turn = press.camera[0] + ((to.x - press.from.x) * 0.008 * 180) / Math.PI;
        const height = press.camera[1] + ((to.y - press.from.y) * 0.008 * 180) / Math.PI;
        app.set({ camera: [Math.round(turn) % 360, Math.round(Math.min(Math.max(height, 3), 80))] }, true);
        return;
      }
      if (press.mode === "pan" && far > CLICK_PX) {
        const area = mapInPlots(app);
        if (!area) return;
        const by_ = press.from.part === "latency axis" ? 0 : ((press.from.x - to.x) / area.width) * (press.x[1] - press.x[0]);
        const up = press.from.part === "map" || press.from.part === "latency axis" ? ((to.y - press.from.y) / area.height) * (press.y[1] - press.y[0]) : 0;
        show(app, [press.x[0] + by_, press.x[1] + by_], [press.y[0] + up, press.y[1] + up], true);
        return;
      }
      if (press.mode === "box" && far > CLICK_PX) {
        const cells = press.grip ? moved(app, press.grip, to.column - press.from.column, to.row - press.from.row) : cellsBetween(app, press.from, to);
        app.drawing = { cells, second: press.second && app.state.a !== null };
      }
    }
    const grip = press?.grip ?? (to.part === "map" && event.pointerType !== "touch" ? gripAt(app, ...to.inside) : null);
    by("map").style.cursor = to.part === "latency axis" ? "ns-resize" : to.part === "time axis" ? "ew-resize" : cursorOf(grip);
    setHover(app, to);
  });
  plots.addEventListener("pointerup", (event) => {
    touches.delete(event.pointerId);
    pinch = null;
    const done = app.drawing;
    finish();
    if (done) takeBox(app, done.cells, done.second);
    app.draw({ map: false, panel: false });
  });
  plots.addEventListener("pointercancel", (event) => {
    touches.delete(event.pointerId);
    pinch = null;
    finish();
  });
  plots.addEventListener("pointerleave", () => {
    if (press) return;
    app.hover = null;
    app.draw({ map: false, panel: false });
  });
  // Not on the map: what captures the pointer gets the event.
  plots.addEventListener("dblclick", (event) => {
    const at = pointAt(app, event);
    if (!at || !(at.part === "map" || at.part.endsWith("axis"))) return;
    const box = app.state.a;
    if (at.part === "latency axis") app.set({ y: null });
    else if (at.part === "time axis") app.set({ x: null });
    else if (box) show(app, cellsOf(app.scene.cube, box).columns, cellsOf(app.scene.cube, box).rows, false);
    else zoom(app, at, 0.1, 0.5, false);
  });
  plots.addEventListener("click", (event) => {
    if ((event.target as HTMLElement).id !== "lower" || app.state.tab !== "groups") return;
    const box = by("lower").getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const at = app.groupAreas.findIndex((area) => x >= area.left && x <= area.left + area.width && y >= area.top - 14 && y <= area.top + area.height);
    const group = app.groups[at];
    if (group && !(group.value !== null && typeof group.value === "object" && "others" in group.value)) app.keep(group.value);
  });
}

let secondNext = false;

function spread(one: PointerEvent, other: PointerEvent): [number, number] {
  return [Math.max(Math.abs(one.clientX - other.clientX), 20), Math.max(Math.abs(one.clientY - other.clientY), 20)];
}

function setHover(app: App, at: Point): void {
  const isOver = at.part !== "gutter" && !at.part.endsWith("axis");
  app.hover = isOver ? { part: at.part as "map", column: at.column, row: at.part === "map" || at.part === "distribution" ? at.row : null, x: at.x, y: at.y } : null;
  app.draw({ map: false, panel: false });
}

function takeBox(app: App, cells: Cells, second: boolean): void {
  const box = boxOfCells(app.scene.cube, cells);
  app.set(second ? { b: box } : { a: box });
  if (matchMedia("(max-width: 720px)").matches) by("panel").scrollIntoView();
}

function listenWheel(app: App): void {
  let [sum, rested] = [0, 0];
  let last: WheelEvent | null = null;
  let since = 0;
  by("map").addEventListener("pointerenter", () => (rested = performance.now()));
  by("plots").addEventListener(
    "wheel",
    (event) => {
      if (!(event.target as HTMLElement).closest("#map, #strips, #lower")) return;
      // The page scrolls on unless the map is meant.
      const isMeant = event.ctrlKey || document.activeElement === by("map") || performance.now() - rested > 150;
      if (!isMeant) return;
      event.preventDefault();
      const lines = event.deltaMode === 1 ? 16 : 1;
      sum += (Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : event.deltaY) * lines;
      last = event;
      since ||= requestAnimationFrame(() => {
        since = 0;
        const at = last && pointAt(app, last);
        if (!last || !at) return;
        const factor = Math.exp(0.0016 * Math.min(Math.max(sum, -1500), 1500));
        const isSideways = Math.abs(last.deltaX) > Math.abs(last.deltaY) && !last.shiftKey;
        if (isSideways) {
          const by_ = (sum / 1000) * (app.scene.x[1] - app.scene.x[0]);
          show(app, [app.scene.x[0] + by_, app.scene.x[1] + by_], app.scene.y, true);
        } else if (last.shiftKey || at.part === "latency axis") zoom(app, at, 1, factor, true);
        else zoom(app, at, factor, last.altKey || last.ctrlKey ? factor : 1, true);
        sum = 0;
      });
    },
    { passive: false },
  );
}

function listenControls(app: App): void {
  const slider = by<HTMLInputElement>("slider");
  slider.addEventListener("input", () => app.slide(Number(slider.value), true));
  const typed = by<HTMLInputElement>("typed");
  typed.addEventListener("change", () => {
    const percent = Number.parseFloat(typed.value.replace(/^p/, ""));
    if (Number.isFinite(percent)) app.set({ quantile: Math.min(Math.max(percent / 100, 0.5), 0.9999) });
    app.draw();
  });
  by<HTMLSelectElement>("by").addEventListener("change", (event) => app.set({ by: (event.target as HTMLSelectElement).value }));
}

/** The letters that zoom and pan, and what the keyboard's cursor does. */
function key(app: App, event: KeyboardEvent): void {
  const target = event.target as HTMLElement;
  if (event.key.toLowerCase() === "z" && (event.ctrlKey || event.metaKey) && !/^(INPUT|SELECT)$/.test(target.tagName)) {
    event.preventDefault();
    if (event.shiftKey) app.redo();
    else app.undo();
    return;
  }
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) || event.ctrlKey || event.metaKey || event.altKey || by<HTMLDialogElement>("help").open) return;
  const { scene, state } = app;
  const middle = { column: (scene.x[0] + scene.x[1]) / 2, row: (scene.y[0] + scene.y[1]) / 2 };
  const pan = (share: number): void => show(app, scene.x.map((at) => at + share * (scene.x[1] - scene.x[0])) as [number, number], scene.y, false);
  const at = app.cursor ? cellMiddle(app, app.cursor) : middle;
  const actions: Record<string, () => void> = {
    "+": () => zoom(app, at, 0.5, 1, false),
    "=": () => zoom(app, at, 0.5, 1, false),
    w: () => zoom(app, at, 0.5, 1, false),
    "-": () => zoom(app, at, 2, 1, false),
    s: () => zoom(app, at, 2, 1, false),
    a: () => pan(-0.25),
    d: () => pan(0.25),
    "0": () => app.set({ x: null, y: null }),
    n: () => app.nextSpot(1),
    N: () => app.nextSpot(-1),
    "/": () => openLine(app),
    f: () => state.a && show(app, cellsOf(scene.cube, state.a).columns, cellsOf(scene.cube, state.a).rows, false),
    Escape: () => escape(app),
    u: () => app.undo(),
    U: () => app.redo(),
    k: () => app.set({ weight: nextWeight(app), lock: null }),
    p: () => app.set({ lines: !state.lines }),
    "[": () => app.slide(Math.max(0, Math.round(stepOf(state.quantile)) - 1), true),
    "]": () => app.slide(Math.min(STEPS, Math.round(stepOf(state.quantile)) + 1), true),
    L: () => app.set({ lock: state.lock === null ? scene.most : null }),
    t: () => app.set({ theme: nextTheme(state) }),
    T: () => app.set({ table: !state.table }),
    z: () => app.set(nextClock(app)),
    c: () => copy(document.getElementById("command")?.textContent ?? "", document.getElementById("command")),
    e: () => exportView(app, "percentiles", "csv"),
    "1": () => app.set({ tab: "lines" }),
    "2": () => app.set({ tab: "contour" }),
    "3": () => app.set({ tab: "surface" }),
    b: () => startBox(app, true),
    v: () => startBox(app, false),
    Enter: () => endBox(app),
    "?": () => showHelp(),
  };
  const steps: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1], PageUp: [0, 10], PageDown: [0, -10], Home: [-1e9, 0], End: [1e9, 0] };
  const step = steps[event.key];
  if (step && document.activeElement === by("map")) {
    event.preventDefault();
    move(app, step, event.shiftKey ? 10 : 1);
  } else if (actions[event.key] && !(event.key === "Enter" && document.activeElement !== by("map"))) {
    event.preventDefault();
    actions[event.key]?.();
  }
}

let stretching: { from: [number, number]; second: boolean } | null = null;

function startBox(app: App, second: boolean): void {
  // Without a cursor the next drag draws it.
  if (second) secondNext = true;
  if (!app.cursor && second) return;
  if (!app.cursor) {
    by("map").focus({ preventScroll: true });
    move(app, [0, 0], 1);
  }
  if (!app.cursor) return;
  stretching = { from: app.cursor, second: second && app.state.a !== null };
  stretch(app);
}

function stretch(app: App): void {
  if (!stretching || !app.cursor) return;
  const [one, other] = [cellsAt(app, stretching.from), cellsAt(app, app.cursor)];
  const join = (a: [number, number], b: [number, number]): [number, number] => [Math.min(a[0], b[0]), Math.max(a[1], b[1])];
  app.drawing = { cells: { columns: join(one.columns, other.columns), rows: join(one.rows, other.rows) }, second: stretching.second };
  app.draw({ map: false, panel: false });
}

function endBox(app: App): void {
  const { drawing } = app;
  stretching = null;
  secondNext = false;
  app.drawing = null;
  if (drawing) takeBox(app, drawing.cells, drawing.second);
}

function escape(app: App): void {
  if (app.drawing || stretching) {
    stretching = null;
    app.drawing = null;
    app.draw({ map: false, panel: false });
  } else app.act({ do: "escape" });
}

function move(app: App, [across, up]: [number, number], times: number): void {
  const { scene } = app;
  const [bins, rows] = [scene.columnEdges.length - 1, scene.rowEdges.length - 1];
  const from = app.cursor ?? [Math.floor(bins / 2), Math.floor(rows / 2)];
  const within = (value: number, most: number): number => Math.min(Math.max(value, 0), most - 1);
  app.cursor = [within(from[0] + across * times, bins), within(from[1] + up * times, rows)];
  app.hover = null;
  const { title, rows: texts } = cellText(app, app.cursor);
  by("status").textContent = [title, ...texts.map(([name, value]) => `${name} ${value}`)].join(", ");
  stretch(app);
  app.draw({ map: false, panel: false });
}

function cellMiddle(app: App, cell: [number, number]): { column: number; row: number } {
  const { columns, rows } = cellsAt(app, cell);
  return { column: (columns[0] + columns[1]) / 2, row: (rows[0] + rows[1]) / 2 };
}
