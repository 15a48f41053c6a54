// The lower pane: percentiles over time, the distribution of what is in view, and groups.

import type { Value } from "../capture-file/decode.ts";
import { lines, type Lines } from "../series/percentiles.ts";
import type { Prefix } from "../series/cube.ts";
import type { Limit } from "../state/state.ts";
import { count, duration, logTicks, percent, percentile, plain } from "./format.ts";
import { step } from "./heatmap.ts";
import { pixels as pixelsOf, ramp } from "./palette.ts";
import { drawPixels, fit, gutters, stroke, timeAxis, widthOf, write, xOf, type Area, type Ink } from "./paint.ts";
import { asked, everyNth, percentileLines, weigh, type Scene } from "./scene.ts";

export function paneArea(width: number, height: number): Area {
  const [left, right] = gutters(width);
  return { left, top: 4, width: Math.max(10, width - left - right), height: Math.max(10, height - 26) };
}

/** Percentiles are of what completed: says what they lack. */
export function drawLack(context: CanvasRenderingContext2D, scene: Scene, area: Area, ink: Ink): void {
  const waiting = scene.cube.data.head.unfinished.count;
  if (waiting === 0) return;
  const text = `without the ${waiting === 1 ? "request" : `${count(waiting)} requests`} that still ${waiting === 1 ? "waits" : "wait"}`;
  const left = area.left + area.width - 6 - widthOf(context, text);
  context.fillStyle = ink.bg;
  context.fillRect(left - 3, area.top + 2, area.left + area.width - left, 16);
  write(context, text, left, area.top + 10, ink.a);
}

/** A latency on the axis of the pane: logarithmic between what is shown. */
export function logAxis(values: number[], area: Area): (ns: number) => number {
  const low = Math.log(Math.max(1, Math.min(...values)) * 0.8);
  const high = Math.log(Math.max(...values, 2) * 1.25);
  return (ns) => area.top + area.height - ((Math.log(Math.max(ns, 1)) - low) / (high - low)) * area.height;
}

export function drawAxis(context: CanvasRenderingContext2D, area: Area, y: (ns: number) => number, values: number[], ink: Ink): void {
  let last = Infinity;
  for (const tick of logTicks(Math.max(1, Math.min(...values)) * 0.8, Math.max(...values, 2) * 1.25)) {
    const at = y(tick);
    if (last - at < 17 || at < area.top + 4) continue;
    last = at;
    context.fillStyle = ink.line;
    context.fillRect(area.left, Math.round(at), area.width, 1);
    write(context, duration(tick), area.left - 7, at, ink.text, "right");
  }
}

export function drawPercentiles(element: HTMLCanvasElement, scene: Scene, groups: Group[], ink: Ink): Lines | null {
  const canvas = fit(element);
  if (!canvas) return null;
  const { context } = canvas;
  const area = paneArea(canvas.width, canvas.height);
  context.fillStyle = ink.plot;
  context.fillRect(area.left, area.top, area.width, area.height);
  const all = asked(scene);
  const found = percentileLines(scene, area.width);
  const ofGroups = groups.map((group) => lines(scene.cube, group.prefix, true, groupEdges(scene, group, found.edges), [scene.state.quantile]));
  const shown = groups.length > 0 ? [all.length - 1] : all.map((_, number) => number);
  const { limit } = scene.state;
  const judged = limit && lines(scene.cube, scene.prefix, scene.isFiltered, found.edges, [limit.quantile]);
  const values = [...(limit && found.values.some(Boolean) ? [limit.value] : []), ...found.values.flatMap((of) => shown.flatMap((number) => of?.[number] ?? [])), ...ofGroups.flatMap((group) => group.values.flatMap((of) => of ?? []))];
  if (values.length === 0) {
    write(context, "nothing here", area.left + area.width / 2, area.top + area.height / 2, ink.muted, "center");
    return found;
  }
  const y = logAxis(values, area);
  drawAxis(context, area, y, values, ink);
  timeAxis(context, scene, area, ink);
  if (limit && judged) drawLimit(context, scene, area, y, limit, judged, ink);
  const labels: { y: number; text: string; color: string; bold: boolean }[] = [];
  const draw = (of: Lines, number: number, quantile: number, text: string, color: string, isBold: boolean): void => {
    const path = new Path2D();
    let isOn = false;
    let last = 0;
    of.values.forEach((values, bin) => {
      // With less than one event beyond there is no such percentile.
      if (!values || (of.events[bin] as number) * (1 - quantile) < 1) {
        isOn = false;
        return;
      }
      last = y(values[number] as number);
      const [from, to] = [xOf(scene, area, of.edges[bin] as number), xOf(scene, area, of.edges[bin + 1] as number)];
      if (isOn) path.lineTo(Math.max(from, area.left), last);
      else path.moveTo(Math.max(from, area.left), last);
      path.lineTo(Math.min(to, area.left + area.width), last);
      isOn = true;
    });
    if (last === 0) return;
    stroke(context, path, color, isBold ? 2.2 : 1.3, isBold ? ink.bg : null);
    labels.push({ y: last, text, color, bold: isBold });
  };
  const usual: Record<number, string> = { 0.5: ink.accent, 0.9: ink.muted, 0.99: ink.green, 0.999: ink.amber };
  const colors = [ink.accent, ink.green, ink.amber, ink.b, ink.muted, ink.text];
  ofGroups.forEach((group, at) => draw(group, 0, scene.state.quantile, plain(groups[at]?.label ?? "").slice(0, 18), colors[at % colors.length] as string, false));
  for (const number of shown) {
    const [quantile, isSlider] = [all[number] as number, number === all.length - 1];
    draw(found, number, quantile, percentile(quantile), isSlider ? ink.a : (usual[quantile] ?? ink.text), isSlider);
  }
  labels.sort((one, other) => one.y - other.y);
  labels.forEach((label, at) => {
    const before = labels[at - 1];
    if (before) label.y = Math.max(label.y, before.y + 14);
    write(context, label.text, area.left + area.width + 7, label.y, label.color, "left", label.bold);
  });
  drawLack(context, scene, area, ink);
  return found;
}

/** A limit: its line, what is above it tinted, and for how long. */
function drawLimit(context: CanvasRenderingContext2D, scene: Scene, area: Area, y: (ns: number) => number, limit: Limit, of: Lines, ink: Ink): void {
  const { over, all } = timeOver(scene, of, limit);
  const clamp = (x: number): number => Math.min(Math.max(x, area.left), area.left + area.width);
  context.fillStyle = ink.a;
  context.globalAlpha = 0.25;
  of.values.forEach((values, bin) => {
    const value = values?.[0] ?? 0;
    if (!isJudged(of, bin, limit) || value < limit.value) return;
    const [from, to] = [clamp(xOf(scene, area, of.edges[bin] as number)), clamp(xOf(scene, area, of.edges[bin + 1] as number))];
    context.fillRect(from, y(value), to - from, y(limit.value) - y(value));
  });
  context.globalAlpha = 1;
  const line = new Path2D();
  line.moveTo(area.left, y(limit.value));
  line.lineTo(area.left + area.width, y(limit.value));
  context.setLineDash([6, 4]);
  stroke(context, line, ink.a, 1.3, ink.bg);
  context.setLineDash([]);
  const text = `${percentile(limit.quantile)} is ${duration(limit.value)} or more for ${duration(over)} of ${duration(all)}${all > 0 ? ` (${percent(over / all)})` : ""}`;
  context.fillStyle = ink.bg;
  context.fillRect(area.left + 4, area.top + 3, widthOf(context, text) + 10, 17);
  write(context, text, area.left + 9, area.top + 12, ink.a);
}

/** Whether a bin has an event beyond the percentile. */
function isJudged(of: Lines, bin: number, limit: Limit): boolean {
  return (of.events[bin] as number) * (1 - limit.quantile) >= 1 - 1e-9;
}

/** For how long the percentile of a limit is not below it, and how long there are enough events to judge, nanoseconds. */
export function timeOver(scene: Scene, of: Lines, limit: Limit): { over: number; all: number } {
  let [over, all] = [0, 0];
  of.values.forEach((values, bin) => {
    if (!values || !isJudged(of, bin, limit)) return;
    const width = scene.cube.time(of.edges[bin + 1] as number) - scene.cube.time(of.edges[bin] as number);
    all += width;
    if ((values[0] as number) >= limit.value) over += width;
  });
  return { over, all };
}

/** Bins that are wide enough for the slider's percentile of a group: with a few events beyond it, on average. */
function groupEdges(scene: Scene, group: Group, edges: number[]): number[] {
  const columns: [number, number] = [edges[0] as number, edges[edges.length - 1] as number];
  const events = group.prefix.sum(group.prefix.counts, { columns, rows: [0, Infinity] });
  const bins = Math.max(1, Math.floor((events * (1 - scene.state.quantile)) / 3));
  return everyNth(edges, Math.max(1, Math.ceil((edges.length - 1) / bins)));
}

/** Histogram and cumulative share of what is in view. */
export function drawDistribution(element: HTMLCanvasElement, scene: Scene, ink: Ink): void {
  const canvas = fit(element);
  if (!canvas) return;
  const { context } = canvas;
  const area = paneArea(canvas.width, canvas.height);
  context.fillStyle = ink.plot;
  context.fillRect(area.left, area.top, area.width, area.height);
  const columns: [number, number] = [Math.floor(scene.x[0]), Math.ceil(scene.x[1])];
  const [first, last] = [Math.floor(scene.y[0]), Math.ceil(scene.y[1])];
  const counts: number[] = [];
  for (let row = first; row < last; row++) counts.push(scene.prefix.sum(scene.prefix.counts, { columns, rows: [row, row + 1] }));
  const all = scene.prefix.sum(scene.prefix.counts, { columns, rows: [0, Infinity] });
  const most = Math.max(...counts, 1);
  const x = (row: number): number => area.left + ((row - scene.y[0]) / (scene.y[1] - scene.y[0])) * area.width;
  const { grid } = scene.cube;
  context.fillStyle = ink.rest;
  counts.forEach((events, at) => {
    const height = (area.height * Math.log1p(events)) / Math.log1p(most);
    context.fillRect(x(first + at), area.top + area.height - height, Math.max(1, x(first + at + 1) - x(first + at) - 0.5), height);
  });
  const path = new Path2D();
  let below = scene.prefix.sum(scene.prefix.counts, { columns, rows: [0, first] });
  path.moveTo(x(first), area.top + area.height * (1 - (all > 0 ? below / all : 0)));
  counts.forEach((events, at) => {
    below += events;
    path.lineTo(x(first + at + 1), area.top + area.height * (1 - (all > 0 ? below / all : 0)));
  });
  stroke(context, path, ink.accent, 1.8, ink.bg);
  let right = -Infinity;
  for (const tick of logTicks(grid.value(scene.y[0]), grid.value(scene.y[1]))) {
    const at = x(grid.place(tick));
    if (at - right < 52) continue;
    right = at;
    write(context, duration(tick), at, area.top + area.height + 12, ink.text, "center");
  }
  for (const share of [0, 0.5, 1]) write(context, `${share * 100} %`, area.left + area.width + 7, area.top + area.height * (1 - share), ink.accent);
  write(context, count(most), area.left - 7, area.top + 6, ink.text, "right");
  write(context, "log", area.left - 7, area.top + 20, ink.muted, "right");
}

export interface Group {
  value: Value;
  label: string;
  events: number;
  prefix: Prefix;
}

/** A small map for each group, in the same colours, with the slider's percentile. Returns where each lies. */
export function drawGroups(element: HTMLCanvasElement, scene: Scene, groups: Group[], ink: Ink): Area[] {
  const canvas = fit(element);
  if (!canvas || groups.length === 0) return [];
  const { context } = canvas;
  const whole = paneArea(canvas.width, canvas.height);
  const across = Math.min(groups.length, whole.width > 900 ? 4 : whole.width > 500 ? 3 : 2);
  const rows = Math.ceil(groups.length / across);
  const [width, height] = [(whole.width - (across - 1) * 8) / across, (whole.height + 16 - rows * 18) / rows];
  const colors = pixelsOf(ramp(scene.state.weight, ink.isDark));
  return groups.map((group, number) => {
    const area: Area = {
      left: whole.left + (number % across) * (width + 8),
      top: whole.top + 14 + Math.floor(number / across) * (height + 18),
      width,
      height: Math.max(height, 20),
    };
    write(context, `${plain(group.label).slice(0, 40)}  ${count(group.events)}`, area.left, area.top - 8, ink.text);
    context.fillStyle = ink.plot;
    context.fillRect(area.left, area.top, area.width, area.height);
    const columns = everyNth(scene.columnEdges, Math.max(1, Math.ceil((3 * scene.columnEdges.length) / width)));
    const lines_ = everyNth(scene.rowEdges, Math.max(1, Math.ceil((3 * scene.rowEdges.length) / area.height)));
    const cells = weigh(group.prefix, columns, lines_, scene.state.weight);
    const pixels = new Uint32Array(cells.length);
    const bins = columns.length - 1;
    for (let at = 0; at < cells.length; at++) {
      const color = step(scene, cells[at] as number);
      const line = lines_.length - 2 - Math.floor(at / bins);
      if (color >= 0) pixels[line * bins + (at % bins)] = colors[color] as number;
    }
    drawPixels(context, pixels, bins, area);
    const rate = quantileLine(scene, group.prefix, columns, area);
    stroke(context, rate, ink.a, 1.5, ink.bg);
    return area;
  });
}

function quantileLine(scene: Scene, prefix: Prefix, columns: number[], area: Area): Path2D {
  const path = new Path2D();
  const edges = everyNth(columns, Math.max(1, Math.ceil((8 * (columns.length - 1)) / area.width)));
  const found = lines(scene.cube, prefix, true, edges, [scene.state.quantile]);
  let isOn = false;
  found.values.forEach((values, bin) => {
    if (!values) {
      isOn = false;
      return;
    }
    const place = scene.cube.grid.place(values[0] as number);
    const y = area.top + area.height * (1 - (place - scene.y[0]) / (scene.y[1] - scene.y[0]));
    const x = (edge: number): number => area.left + ((edge - (columns[0] as number)) / ((columns[columns.length - 1] as number) - (columns[0] as number))) * area.width;
    if (isOn) path.lineTo(x(edges[bin] as number), y);
    else path.moveTo(x(edges[bin] as number), y);
    path.lineTo(x(edges[bin + 1] as number), y);
    isOn = true;
  });
  return path;
}

/** Percentiles of a table: at most so many ranges of time. */
const RANGES = 24;

export interface TableRow {
  time: [number, number];
  events: number;
  waiting: number;
  values: (number | null)[];
}

/** The view as rows of numbers, for those who do not see pictures. */
export function tableRows(scene: Scene, all: number[]): TableRow[] {
  const edges = everyNth(scene.columnEdges, Math.max(1, Math.ceil((scene.columnEdges.length - 1) / RANGES)));
  const found = lines(scene.cube, scene.prefix, scene.isFiltered, edges, all);
  return found.values.map((values, bin) => {
    const columns: [number, number] = [edges[bin] as number, edges[bin + 1] as number];
    return {
      time: [scene.cube.time(columns[0]), scene.cube.time(columns[1])],
      events: found.events[bin] as number,
      waiting: scene.prefix.sum(scene.prefix.latency, { columns, rows: [0, Infinity] }),
      values: values ?? all.map(() => null),
    };
  });
}

/** Percentiles of all that is in view, for the caption. */
export function overall(scene: Scene, all: number[]): number[] | null {
  const columns: [number, number] = [Math.floor(scene.x[0]), Math.ceil(scene.x[1])];
  const found = lines(scene.cube, scene.prefix, scene.isFiltered, columns, all);
  return found.values[0] ?? null;
}

