// What lies over the pictures: crosshair, boxes, the cell under the pointer, and its tooltip.

import type { Cells } from "../series/cube.ts";
import { label } from "../view/panel.ts";
import { count, duration, percent, percentile } from "../view/format.ts";
import { fit, moment, stroke, write, xOf, yOf, type Area } from "../view/paint.ts";
import { cellsOf } from "../view/scene.ts";
import type { App } from "./app.ts";
import { by, el } from "./dom.ts";

/** Where the pointer is: over which picture, at which column and row. */
export interface Hover {
  part: "map" | "strips" | "lower" | "distribution" | "legend";
  column: number;
  row: number | null;
  x: number;
  y: number;
}

/** The map's area in the coordinates of all pictures. */
export function mapInPlots(app: App): Area | null {
  if (!app.picture) return null;
  const { area } = app.picture;
  return { ...area, left: area.left + by("map").offsetLeft, top: area.top + by("map").offsetTop };
}

/** Bin and line of the map at a column and a row; null beside it. */
export function cellAt(app: App, column: number, row: number): [number, number] | null {
  const at = (edges: number[], value: number): number => edges.findIndex((edge, number) => value >= edge && value < (edges[number + 1] ?? -Infinity));
  const [bin, line] = [at(app.scene.columnEdges, column), at(app.scene.rowEdges, row)];
  return bin < 0 || line < 0 ? null : [bin, line];
}

/** Columns and rows of a cell of the map. */
export function cellsAt(app: App, [bin, line]: [number, number]): Cells {
  const { columnEdges, rowEdges } = app.scene;
  return { columns: [columnEdges[bin] as number, columnEdges[bin + 1] as number], rows: [rowEdges[line] as number, rowEdges[line + 1] as number] };
}

export function drawOverlay(app: App): void {
  const canvas = fit(by<HTMLCanvasElement>("overlay"));
  const area = mapInPlots(app);
  if (!canvas || !area) return;
  const { context } = canvas;
  const { scene, state, ink, hover } = app;
  const boxes: [Cells | null, "a" | "b", string][] = [
    [state.a && cellsOf(scene.cube, state.a), "a", "A"],
    [state.b && cellsOf(scene.cube, state.b), "b", "B"],
  ];
  if (app.drawing) boxes[app.drawing.second ? 1 : 0] = [app.drawing.cells, app.drawing.second ? "b" : "a", app.drawing.second ? "B" : "A"];
  for (const [cells, color, letter] of boxes) if (cells) drawBox(context, app, area, cells, ink[color], letter);
  if (hover && hover.column >= scene.x[0] && hover.column <= scene.x[1]) {
    const x = Math.round(xOf(scene, area, hover.column)) + 0.5;
    const line = new Path2D();
    line.moveTo(x, 0);
    const pane = by("pane");
    line.lineTo(x, ["lines", "contour"].includes(app.state.tab) ? pane.offsetTop + pane.clientHeight - 22 : area.top + area.height);
    if (hover.row !== null && (hover.part === "map" || hover.part === "distribution")) {
      const y = Math.round(yOf(scene, area, hover.row)) + 0.5;
      line.moveTo(area.left, y);
      line.lineTo(area.left + area.width + 100, y);
    }
    context.globalAlpha = 0.75;
    stroke(context, line, ink.muted, 1, null);
    context.globalAlpha = 1;
  }
  const cell = app.cursor ?? (hover?.part === "map" && hover.row !== null ? cellAt(app, hover.column, hover.row) : null);
  if (cell) outline(context, app, area, cellsAt(app, cell), ink.text);
  if (app.marked) {
    const { start, latency } = app.marked;
    const [x, y] = [xOf(scene, area, scene.cube.column(start + latency)), yOf(scene, area, scene.cube.grid.place(latency))];
    const ring = new Path2D();
    ring.arc(x, y, 9, 0, 7);
    stroke(context, ring, ink.a, 2.5, ink.bg);
  }
  drawTip(app, cell);
}

function drawBox(context: CanvasRenderingContext2D, app: App, area: Area, cells: Cells, color: string, letter: string): void {
  const clampX = (x: number): number => Math.min(Math.max(x, area.left), area.left + area.width);
  const clampY = (y: number): number => Math.min(Math.max(y, area.top), area.top + area.height);
  const [left, right] = cells.columns.map((column) => clampX(xOf(app.scene, area, column))) as [number, number];
  const [bottom, top] = cells.rows.map((row) => clampY(yOf(app.scene, area, row))) as [number, number];
  if (right - left < 1 || bottom - top < 1) return;
  context.globalAlpha = 0.13;
  context.fillStyle = color;
  context.fillRect(left, top, right - left, bottom - top);
  context.fillRect(left, 0, right - left, by("strips").clientHeight);
  context.globalAlpha = 1;
  const frame = new Path2D();
  frame.rect(left, top, right - left, bottom - top);
  context.setLineDash(letter === "B" ? [6, 4] : []);
  stroke(context, frame, color, 1.8, letter === "B" ? null : app.ink.bg);
  context.setLineDash([]);
  context.fillStyle = color;
  context.fillRect(left, top, 15, 15);
  write(context, letter, left + 7.5, top + 8, app.ink.bg, "center", true);
}

function outline(context: CanvasRenderingContext2D, app: App, area: Area, cells: Cells, color: string): void {
  const [left, right] = cells.columns.map((column) => xOf(app.scene, area, column)) as [number, number];
  const [bottom, top] = cells.rows.map((row) => yOf(app.scene, area, row)) as [number, number];
  const frame = new Path2D();
  frame.rect(Math.round(left) - 0.5, Math.round(top) - 0.5, Math.round(right - left) + 1, Math.round(bottom - top) + 1);
  stroke(context, frame, color, 1.2, app.ink.bg);
}

/** What a cell says: count, time, latency with both bounds, share, waiting, and what is most frequent in it. */
export function cellText(app: App, cell: [number, number]): { title: string; rows: [string, string][] } {
  const { scene } = app;
  const { cube, prefix } = scene;
  const cells = cellsAt(app, cell);
  const events = prefix.sum(prefix.counts, cells);
  const [from, to] = cells.columns.map((column) => cube.time(column)) as [number, number];
  const step = (to - from) / 10;
  const rows: [string, string][] = [
    ["time", `${moment(scene, from, step)} – ${moment(scene, to, step)}`],
    ["latency", `${duration(cube.grid.lower(cells.rows[0]))} – ${duration(cube.grid.lower(cells.rows[1]))}`],
  ];
  if (events === 0) return { title: "nothing here", rows };
  const column = prefix.sum(prefix.counts, { columns: cells.columns, rows: [0, Infinity] });
  const below = prefix.sum(prefix.counts, { columns: cells.columns, rows: [0, cells.rows[1]] });
  const waiting = prefix.sum(prefix.latency, cells);
  const all = prefix.sum(prefix.latency, { columns: cells.columns, rows: [0, Infinity] });
  rows.push(["share", `${percent(events / column)} of this time, up to ${percentile(Number((below / column).toFixed(5)))}`]);
  rows.push(["waiting", `${scene.isFiltered ? "~" : ""}${duration(waiting)}, ${percent(waiting / all)}`]);
  const counts = cube.combinations(cells, scene.passes);
  const order = [...counts.keys()].filter((at) => (counts[at] as number) > 0).sort((one, other) => (counts[other] as number) - (counts[one] as number));
  for (const combination of order.slice(0, 2)) {
    const names = app.data.head.attributes.map(({ values }, attribute) => label(app.data, attribute, values[(app.data.values[attribute] as Uint32Array)[combination] as number] ?? null));
    rows.push([count(counts[combination] as number), names.filter((name) => name !== "(none)").slice(0, 5).join(" ")]);
  }
  return { title: `${count(events)} ${events === 1 ? "event" : "events"}`, rows };
}

function drawTip(app: App, cell: [number, number] | null): void {
  const tip = by("tip");
  const { hover } = app;
  if (!hover || app.drawing) {
    tip.hidden = true;
    return;
  }
  let text: { title: string; rows: [string, string][] } | null = null;
  if (hover.part === "map" && cell) text = cellText(app, cell);
  else if (hover.part === "strips" || (hover.part === "lower" && ["lines", "contour"].includes(app.state.tab))) text = columnText(app, hover.column);
  tip.hidden = text === null;
  if (!text) return;
  tip.replaceChildren(el("b", {}, text.title), ...text.rows.map(([name, value]) => el("div", {}, el("span", {}, name), el("span", {}, value))));
  const { innerWidth, innerHeight } = window;
  const [wide, high] = [tip.offsetWidth, tip.offsetHeight];
  const isRight = hover.x + 16 + wide < innerWidth;
  tip.style.left = `${Math.max(4, isRight ? hover.x + 16 : hover.x - 16 - wide)}px`;
  tip.style.top = `${Math.max(4, hover.y + 16 + high < innerHeight ? hover.y + 16 : hover.y - 16 - high)}px`;
}

/** What there is at a moment, over all latencies. */
function columnText(app: App, column: number): { title: string; rows: [string, string][] } | null {
  const { scene } = app;
  const bin = scene.columnEdges.findIndex((edge, at) => column >= edge && column < (scene.columnEdges[at + 1] ?? -Infinity));
  if (bin < 0) return null;
  const columns: [number, number] = [scene.columnEdges[bin] as number, scene.columnEdges[bin + 1] as number];
  const [from, to] = columns.map((at) => scene.cube.time(at)) as [number, number];
  const rows: [string, string][] = [["time", `${moment(scene, from, (to - from) / 10)} – ${moment(scene, to, (to - from) / 10)}`]];
  for (const strip of app.stripValues) rows.push([strip.title, strip.title === "events" ? `${count(Number((strip.values[bin] ?? 0).toPrecision(3)))}/s` : count(Number((strip.values[bin] ?? 0).toPrecision(3)))]);
  const events = scene.prefix.sum(scene.prefix.counts, { columns, rows: [0, Infinity] });
  if (app.found) {
    const at = app.found.edges.findIndex((edge, number) => column >= edge && column < (app.found?.edges[number + 1] ?? -Infinity));
    const values = app.found.values[at];
    if (values) rows.push([percentile(app.state.quantile), duration(values[values.length - 1] as number)]);
  }
  return { title: `${count(events)} ${events === 1 ? "event" : "events"}`, rows };
}
