// The heat map with its axes, percentile lines, distribution at the right and legend.

import { MOST } from "../series/difference.ts";
import { count, duration, plain, size } from "./format.ts";
import { DIFFERENCES, differenceColor, pixel, pixels, ramp, STEPS } from "./palette.ts";
import { drawPixels, fit, gutters, latencyAxis, stroke, timeAxis, widthOf, within, write, xOf, yOf, type Area, type Ink } from "./paint.ts";
import { percentileLines, type Scene } from "./scene.ts";

export interface MapPicture {
  area: Area;
  legend: Area;
}

/** Where the map lies on its canvas. */
export function mapArea(width: number, height: number): Area {
  const [left, right] = gutters(width);
  return { left, top: 2, width: Math.max(10, width - left - right), height: Math.max(10, height - 44) };
}

/** The colour of a weight, of STEPS; -1 where there is nothing. */
export function step(scene: Scene, value: number): number {
  if (value <= 0) return -1;
  const [least, most] = [Math.log(scene.least), Math.log(scene.most)];
  if (most <= least) return STEPS - 1;
  const place = (Math.log(value) - least) / (most - least);
  return Math.round(Math.min(Math.max(place, 0), 1) * (STEPS - 1));
}

/** A weight in words, per second where that is what it is. */
export function weightText(scene: Scene, value: number): string {
  const seconds = (scene.perBin * scene.cube.data.head.width_ns) / 1e9;
  switch (scene.state.weight) {
    case "difference":
    case "events": return `${count(Number((value / seconds).toPrecision(3)))}/s`;
    case "time": return `${duration(value / seconds)}/s`;
    case "bytes": return `${size(value / seconds)}/s`;
    case "share": return `${Number((value * 100).toPrecision(2))} %`;
  }
}

const LEGENDS = { events: "events per second and cell", difference: "", time: "waiting per second and cell", bytes: "bytes per second and cell", share: "share of the column" };

export function drawMap(element: HTMLCanvasElement, scene: Scene, ink: Ink, spot: Float64Array | null, faded: Float64Array | null): MapPicture | null {
  const canvas = fit(element);
  if (!canvas) return null;
  const { context } = canvas;
  const area = mapArea(canvas.width, canvas.height);
  context.fillStyle = ink.plot;
  context.fillRect(area.left, area.top, area.width, area.height);
  const colors = ramp(scene.state.weight, ink.isDark);
  drawCells(context, scene, area, scene.ratios ? difference(scene.ratios) : shaded(scene, pixels(colors)), faded);
  if (scene.ratios) hatch(context, scene, area, scene.ratios, ink);
  context.strokeStyle = ink.line;
  context.lineWidth = 1;
  context.strokeRect(area.left - 0.5, area.top - 0.5, area.width + 1, area.height + 1);
  latencyAxis(context, scene, area, ink);
  timeAxis(context, scene, area, ink);
  if (scene.state.lines) drawLines(context, scene, area, ink);
  drawWaiting(context, scene, area, ink);
  drawDistribution(context, scene, area, canvas.width, ink, spot);
  const legend = drawLegend(context, scene, area, canvas.height, pixels(scene.pair ? DIFFERENCES : colors), ink);
  return { area, legend };
}

/** Cells as pixels, from the top: where bins would be were they all of the same width, of which the first and the last may be cut. */
function drawCells(context: CanvasRenderingContext2D, scene: Scene, area: Area, colorOf: (cell: number) => number, faded: Float64Array | null): void {
  const [bins, lines] = [scene.columnEdges.length - 1, scene.rowEdges.length - 1];
  const painted = new Uint32Array(scene.cells.length);
  for (let line = 0, cell = 0; line < lines; line++) {
    for (let at = (lines - 1 - line) * bins, end = at + bins; at < end; at++, cell++) {
      let color = colorOf(cell);
      if (color !== 0 && faded && !((faded[cell] as number) > 0)) color = ((color & 0xffffff) | (89 << 24)) >>> 0;
      painted[at] = color;
    }
  }
  const [left, right] = spread(scene.columnEdges, scene.perBin).map((column) => xOf(scene, area, column)) as [number, number];
  const [bottom, top] = spread(scene.rowEdges, scene.perRow).map((row) => yOf(scene, area, row)) as [number, number];
  within(context, area, () => drawPixels(context, painted, bins, { left, top, width: right - left, height: bottom - top }));
}

/** The colour of a cell by its weight. */
function shaded(scene: Scene, colors: Uint32Array): (cell: number) => number {
  const [least, most] = [Math.log(scene.least), Math.log(scene.most)];
  const scale = most > least ? (STEPS - 1) / (most - least) : 0;
  return (cell) => {
    const value = scene.cells[cell] as number;
    if (value <= 0) return 0;
    return colors[scale === 0 ? STEPS - 1 : Math.round(Math.min(Math.max((Math.log(value) - least) * scale, 0), STEPS - 1))] as number;
  };
}

/** The colour of a cell by which of two traces has more. */
function difference(ratios: Float64Array): (cell: number) => number {
  return (cell) => {
    const ratio = ratios[cell] as number;
    return Number.isFinite(ratio) ? pixel(differenceColor(ratio / MOST)) : 0;
  };
}

/** Hatches the cells with too few events to be compared. */
function hatch(context: CanvasRenderingContext2D, scene: Scene, area: Area, ratios: Float64Array, ink: Ink): void {
  const bins = scene.columnEdges.length - 1;
  const cells = new Path2D();
  ratios.forEach((ratio, cell) => {
    if (ratio !== Infinity) return;
    const [bin, line] = [cell % bins, Math.floor(cell / bins)];
    const [left, right] = [xOf(scene, area, scene.columnEdges[bin] as number), xOf(scene, area, scene.columnEdges[bin + 1] as number)];
    const [bottom, top] = [yOf(scene, area, scene.rowEdges[line] as number), yOf(scene, area, scene.rowEdges[line + 1] as number)];
    cells.rect(left, top, right - left, bottom - top);
  });
  const tile = new OffscreenCanvas(4, 4);
  const lines = tile.getContext("2d");
  if (!lines) return;
  lines.fillStyle = ink.rest;
  for (let at = 0; at < 4; at++) lines.fillRect(at, 3 - at, 1, 1);
  within(context, area, () => {
    context.fillStyle = context.createPattern(tile, "repeat") ?? ink.rest;
    context.fill(cells);
  });
}

/** Where bins of the same width would start and end. */
function spread(edges: number[], step: number): [number, number] {
  const [first, second] = [edges[0] as number, edges[1] as number];
  if (edges.length <= 2) return [first, second];
  return [second - step, second + (edges.length - 2) * step];
}

/** Percentiles over the map: of bins with enough events for them. */
function drawLines(context: CanvasRenderingContext2D, scene: Scene, area: Area, ink: Ink): void {
  const { edges, events, values, asked } = percentileLines(scene, area.width);
  within(context, area, () => {
    for (const [quantile, color] of [[0.5, ink.accent], [0.99, ink.green]] as const) {
      const number = asked.indexOf(quantile);
      const path = new Path2D();
      let isOn = false;
      values.forEach((of, bin) => {
        const isKnown = of && (quantile < 0.9 || (events[bin] as number) >= 100);
        if (!isKnown) {
          isOn = false;
          return;
        }
        const y = yOf(scene, area, scene.cube.grid.place(of[number] as number));
        const [from, to] = [xOf(scene, area, edges[bin] as number), xOf(scene, area, edges[bin + 1] as number)];
        if (isOn) path.lineTo(from, y);
        else path.moveTo(from, y);
        path.lineTo(to, y);
        isOn = true;
      });
      stroke(context, path, color, 1.5, ink.bg);
    }
  });
}

/** What waits at the end of the trace, or now: marks at the right edge as high as their age; what is older than the map is at its top. */
function drawWaiting(context: CanvasRenderingContext2D, scene: Scene, area: Area, ink: Ink): void {
  const { head } = scene.cube.data;
  const [oldest] = head.unfinished.longest;
  if (!oldest || scene.x[1] < scene.cube.columns) return;
  const right = area.left + area.width;
  const height = (age: number): number => Math.min(Math.max(yOf(scene, area, scene.cube.grid.place(age)), area.top + 6), area.top + area.height - 6);
  for (const { age } of head.unfinished.longest) write(context, "»", right - 2, height(age), ink.a, "right");
}

/** What is in view by latency, on a logarithmic scale; the spot in its own colour. */
function drawDistribution(context: CanvasRenderingContext2D, scene: Scene, area: Area, width: number, ink: Ink, spot: Float64Array | null): void {
  const left = area.left + area.width + 8;
  const room = width - left - 6;
  const columns: [number, number] = [Math.floor(scene.x[0]), Math.ceil(scene.x[1])];
  const counts: number[] = [];
  for (let row = 0; row + 1 < scene.rowEdges.length; row++) {
    counts.push(scene.prefix.sum(scene.prefix.counts, { columns, rows: [scene.rowEdges[row] as number, scene.rowEdges[row + 1] as number] }));
  }
  const most = Math.max(...counts, 2);
  const long = (events: number): number => (events > 0 ? 2 + ((room - 2) * Math.log(events)) / Math.log(most) : 0);
  counts.forEach((events, row) => {
    const top = Math.max(yOf(scene, area, scene.rowEdges[row + 1] as number), area.top);
    const bottom = Math.min(yOf(scene, area, scene.rowEdges[row] as number), area.top + area.height);
    if (events === 0 || bottom <= top) return;
    context.fillStyle = ink.rest;
    context.fillRect(left, top, long(events), Math.max(1, bottom - top - 0.5));
    let inSpot = 0;
    for (let at = scene.rowEdges[row] as number; spot && at < (scene.rowEdges[row + 1] as number); at++) inSpot += spot[at] ?? 0;
    context.fillStyle = ink.a;
    if (inSpot > 0) context.fillRect(left, top, long(inSpot), Math.max(1, bottom - top - 0.5));
  });
  if (room > 60) write(context, "in view, log", left, area.top + area.height + 30, ink.muted);
}

function drawLegend(context: CanvasRenderingContext2D, scene: Scene, area: Area, height: number, colors: Uint32Array<ArrayBuffer>, ink: Ink): Area {
  const wide = Math.min(150, area.width / 3);
  const y = height - 11;
  const rows = area.width > 420 ? ` × ${rowsText(scene)}` : "";
  const cell = `cell ${duration(scene.perBin * scene.cube.data.head.width_ns)}${rows}`;
  write(context, cell, area.left, y, ink.muted);
  // In words it stands below the map, where it covers nothing.
  const { longest, count: waiting } = scene.cube.data.head.unfinished;
  if (longest[0] && area.width > 420) write(context, `» ${count(waiting)} waiting, the longest ${duration(longest[0].age)}`, area.left + widthOf(context, cell) + 14, y, ink.a);
  const high = scene.pair ? `16x in ${nameOf(scene.pair.names[1])}` : weightText(scene, scene.most);
  const right = area.left + area.width - widthOf(context, high) - 4;
  const bar = { left: right - wide, top: y - 4, width: wide, height: 8 };
  drawPixels(context, colors, STEPS, bar);
  write(context, high, right + 4, y, ink.muted);
  const low = weightText(scene, scene.least);
  const title = scene.pair ? `share of events: 16x in ${nameOf(scene.pair.names[0])}` : area.width > (longest[0] ? 800 : 640) ? `${LEGENDS[scene.state.weight]}${scene.state.lock === null ? "" : ", locked"}: ${low}` : low;
  write(context, title, bar.left - 4, y, ink.muted, "right");
  return bar;
}

/** The file of a trace, without its folder. */
function nameOf(trace: string): string {
  return plain(trace.replace(/^.*\//, "")).slice(0, 24);
}

function rowsText(scene: Scene): string {
  const rows = (scene.rowEdges[1] ?? 1) - (scene.rowEdges[0] ?? 0);
  const full = scene.rowEdges.length > 2 ? (scene.rowEdges[2] as number) - (scene.rowEdges[1] as number) : rows;
  const octave = scene.cube.data.head.rows_per_octave / full;
  return octave >= 1 ? `1/${octave} octave` : `${1 / octave} octaves`;
}
