// What lies over the pictures: crosshair, boxes, the cell under the pointer, and its tooltip.

import type { Cells } from "../series/cube.ts";
import { label } from "../view/panel.ts";
import { quantileOf, STEPS } from "../series/percentiles.ts";
import { count, duration, percent, percentile } from "../view/format.ts";
import { paneArea } from "../view/lines.ts";
import { boxOf, fit, moment, stroke, write, xOf, yOf, type Area } from "../view/paint.ts";
import { bothOf, ratio } from "../series/difference.ts";
import { cellsOfSpot } from "../series/spots.ts";
import type { Surface } from "../view/contour.ts";
import { cellsOf, type Scene } from "../view/scene.ts";
import { pick } from "../view/surface.ts";
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
  const map = boxOf(by("map"));
  return { ...area, left: area.left + map.left, top: area.top + map.top };
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
  if (!state.a && !app.drawing) for (const spot of app.data.head.spots ?? []) outlineSpot(context, app, area, cellsOfSpot(scene.cube, spot));
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
    const pane = boxOf(by("pane"));
    line.lineTo(x, ["lines", "contour"].includes(app.state.tab) ? pane.top + pane.height - 22 : area.top + area.height);
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
  context.fillRect(left, 0, right - left, boxOf(by("strips")).height);
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

/** A light outline of what was found. */
function outlineSpot(context: CanvasRenderingContext2D, app: App, area: Area, { columns, rows }: Cells): void {
  const [left, right] = columns.map((column) => Math.min(Math.max(xOf(app.scene, area, column), area.left), area.left + area.width)) as [number, number];
  const [bottom, top] = rows.map((row) => Math.min(Math.max(yOf(app.scene, area, row), area.top), area.top + area.height)) as [number, number];
  if (right - left < 1 || bottom - top < 1) return;
  const frame = new Path2D();
  frame.rect(Math.round(left) + 0.5, Math.round(top) + 0.5, Math.round(right - left) - 1, Math.round(bottom - top) - 1);
  context.setLineDash([3, 3]);
  stroke(context, frame, app.ink.a, 1, null);
  context.setLineDash([]);
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
  if (scene.pair) {
    const both = bothOf(scene.pair, cube.columns, cells);
    const times = ratio(scene.pair, both);
    const word = times === Infinity ? "too few to compare" : `${times < 0 ? "-" : "+"}, ${Number((2 ** Math.abs(times)).toPrecision(2))} times ${times < 0 ? "less" : "more"} in the second`;
    rows.push(["traces", `${count(both[0])} and ${count(both[1])}, since their starts: ${word}`]);
  }
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
  else if (hover.part === "lower" && app.contour && app.state.tab === "contour") text = contourText(app, hover);
  else if (hover.part === "lower" && app.relief) text = reliefText(app, hover);
  else if (hover.part === "strips" || (hover.part === "lower" && ["lines", "contour"].includes(app.state.tab))) text = columnText(app, hover.column);
  tip.hidden = text === null;
  if (!text) return;
  const shown = JSON.stringify(text);
  if (tip.dataset.shown !== shown) {
    tip.dataset.shown = shown;
    tip.replaceChildren(el("b", {}, text.title), ...text.rows.map(([name, value]) => el("div", {}, el("span", {}, name), el("span", {}, value))));
  }
  // On the side where there is more room; to measure the tip would make the browser lay out the page.
  const { innerWidth, innerHeight } = window;
  const isNarrow = innerWidth <= 720;
  const place = (side: "left" | "right" | "top" | "bottom", px: number | null): void => void (tip.style[side] = px === null ? "auto" : `${px}px`);
  const [isRight, isBelow] = [hover.x < innerWidth / 2, hover.y < innerHeight / 2];
  place("left", isNarrow ? 4 : isRight ? hover.x + 16 : null);
  place("right", isNarrow ? 4 : isRight ? null : innerWidth - hover.x + 16);
  place("top", isBelow ? hover.y + (isNarrow ? 40 : 16) : null);
  place("bottom", isBelow ? null : innerHeight - hover.y + (isNarrow ? 40 : 16));
}

/** The latency at a moment and a percentile of the contour map. */
function contourText(app: App, hover: Hover): { title: string; rows: [string, string][] } | null {
  const { contour, scene } = app;
  const lower = by("lower").getBoundingClientRect();
  const area = paneArea(lower.width, lower.height);
  const level = Math.floor(((area.top + area.height - (hover.y - lower.top)) / area.height) * (contour?.levels ?? 0));
  const bin = contour?.edges.findIndex((edge, at) => hover.column >= edge && hover.column < (contour.edges[at + 1] ?? -Infinity)) ?? -1;
  if (!contour || bin < 0 || level < 0 || level >= contour.levels) return null;
  return levelText(scene, contour, bin, level);
}

/** The latency of a percentile in a bin. */
function levelText(scene: Scene, of: Surface, bin: number, level: number): { title: string; rows: [string, string][] } {
  const value = of.values[level * (of.edges.length - 1) + bin] as number;
  const [from, to] = [of.edges[bin], of.edges[bin + 1]].map((edge) => scene.cube.time(edge as number)) as [number, number];
  const quantile = percentile(Number(quantileOf((level * STEPS) / (of.levels - 1)).toPrecision(5)));
  return { title: value > 0 ? `${quantile}: ${duration(value)}` : "nothing here", rows: [["time", `${moment(scene, from, (to - from) / 10)} – ${moment(scene, to, (to - from) / 10)}`]] };
}

/** The latency at the point of the surface under the pointer. */
function reliefText(app: App, hover: Hover): { title: string; rows: [string, string][] } | null {
  const { relief } = app;
  const pane = by("gl").getBoundingClientRect();
  const at = relief && pick(relief, app.state.camera, pane.width, pane.height, hover.x - pane.left, hover.y - pane.top);
  return relief && at ? levelText(app.scene, relief, ...at) : null;
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
