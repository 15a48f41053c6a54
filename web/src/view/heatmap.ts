// The heat map with its axes, percentile lines, distribution at the right and legend.

import { lines } from "../series/percentiles.ts";
import { count, duration, size } from "./format.ts";
import { css, pixel, ramp, STEPS } from "./palette.ts";
import { fit, FONT, gutters, latencyAxis, stroke, timeAxis, write, xOf, yOf, type Area, type Ink } from "./paint.ts";
import type { Scene } from "./scene.ts";

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
    case "events": return `${count(Number((value / seconds).toPrecision(3)))}/s`;
    case "time": return `${duration(value / seconds)}/s`;
    case "bytes": return `${size(value / seconds)}/s`;
    case "share": return `${Number((value * 100).toPrecision(2))} %`;
  }
}

const LEGENDS = { events: "events per second and cell", time: "waiting per second and cell", bytes: "bytes per second and cell", share: "share of the column" };

export function drawMap(element: HTMLCanvasElement, scene: Scene, ink: Ink, spot: Float64Array | null, faded: Float64Array | null): MapPicture | null {
  const canvas = fit(element);
  if (!canvas) return null;
  const { context } = canvas;
  const area = mapArea(canvas.width, canvas.height);
  context.fillStyle = ink.plot;
  context.fillRect(area.left, area.top, area.width, area.height);
  const colors = ramp(scene.state.weight, ink.isDark);
  drawCells(context, scene, area, canvas.scale, colors.map(pixel), faded);
  context.strokeStyle = ink.line;
  context.lineWidth = 1;
  context.strokeRect(area.left - 0.5, area.top - 0.5, area.width + 1, area.height + 1);
  latencyAxis(context, scene, area, ink);
  timeAxis(context, scene, area, ink);
  if (scene.state.lines) drawLines(context, scene, area, ink);
  drawWaiting(context, scene, area, ink);
  drawDistribution(context, scene, area, canvas.width, ink, spot);
  const legend = drawLegend(context, scene, area, canvas.height, colors.map(css), ink);
  return { area, legend };
}

/** Cells as pixels: every edge is rounded once, so that neighbours meet. */
function drawCells(context: CanvasRenderingContext2D, scene: Scene, area: Area, scale: number, colors: number[], faded: Float64Array | null): void {
  const [width, height] = [Math.round(area.width * scale), Math.round(area.height * scale)];
  const image = context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const inside = { left: 0, top: 0, width, height };
  const bins = scene.columnEdges.length - 1;
  const xs = scene.columnEdges.map((edge) => Math.min(Math.max(Math.round(xOf(scene, inside, edge)), 0), width));
  const line = new Uint32Array(width);
  for (let row = 0; row + 1 < scene.rowEdges.length; row++) {
    const top = Math.min(Math.max(Math.round(yOf(scene, inside, scene.rowEdges[row + 1] as number)), 0), height);
    const bottom = Math.min(Math.max(Math.round(yOf(scene, inside, scene.rowEdges[row] as number)), 0), height);
    if (bottom <= top) continue;
    line.fill(0);
    let isEmpty = true;
    for (let bin = 0; bin < bins; bin++) {
      const at = step(scene, scene.cells[row * bins + bin] as number);
      if (at < 0) continue;
      isEmpty = false;
      let color = colors[at] as number;
      if (faded && !((faded[row * bins + bin] as number) > 0)) color = ((color & 0xffffff) | (89 << 24)) >>> 0;
      line.fill(color, xs[bin], xs[bin + 1]);
    }
    if (isEmpty) continue;
    for (let y = top; y < bottom; y++) pixels.set(line, y * width);
  }
  const picture = new OffscreenCanvas(width, height);
  picture.getContext("2d")?.putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(picture, area.left, area.top, area.width, area.height);
}

/** Percentiles over the map: of bins with enough events for them. */
function drawLines(context: CanvasRenderingContext2D, scene: Scene, area: Area, ink: Ink): void {
  const edges = everyNth(scene.columnEdges, Math.max(1, Math.ceil((8 * (scene.columnEdges.length - 1)) / area.width)));
  const found = lines(scene.cube, scene.prefix, scene.isFiltered, edges, [0.5, 0.99]);
  context.save();
  context.beginPath();
  context.rect(area.left, area.top, area.width, area.height);
  context.clip();
  [ink.accent, ink.green].forEach((color, quantile) => {
    const path = new Path2D();
    let isOn = false;
    found.values.forEach((values, bin) => {
      const isKnown = values && (quantile === 0 || (found.events[bin] as number) >= 100);
      if (!isKnown) {
        isOn = false;
        return;
      }
      const y = yOf(scene, area, scene.cube.grid.place(values[quantile] as number));
      const [from, to] = [xOf(scene, area, edges[bin] as number), xOf(scene, area, edges[bin + 1] as number)];
      if (isOn) path.lineTo(from, y);
      else path.moveTo(from, y);
      path.lineTo(to, y);
      isOn = true;
    });
    stroke(context, path, color, 1.5, ink.bg);
  });
  context.restore();
}

/** What waits at the end of the trace, or now: a mark at the right edge as high as its age; what is older than the map is at its top. */
function drawWaiting(context: CanvasRenderingContext2D, scene: Scene, area: Area, ink: Ink): void {
  const { head } = scene.cube.data;
  const [oldest] = head.unfinished.longest;
  if (!oldest || scene.x[1] < scene.cube.columns) return;
  const right = area.left + area.width;
  const height = (age: number): number => Math.min(Math.max(yOf(scene, area, scene.cube.grid.place(age)), area.top + 6), area.top + area.height - 6);
  for (const { age } of head.unfinished.longest) write(context, "»", right - 2, height(age), ink.a, "right");
  context.font = FONT;
  const text = `${count(head.unfinished.count)} waiting, the longest ${duration(oldest.age)}`;
  const left = right - 14 - context.measureText(text).width;
  context.fillStyle = ink.bg;
  context.fillRect(left - 3, height(oldest.age) - 8, right - 11 - left, 16);
  write(context, text, right - 14, height(oldest.age), ink.a, "right");
}

/** Every n-th of the edges, and the last. */
export function everyNth(edges: number[], step: number): number[] {
  return edges.filter((_, at) => at % step === 0 || at === edges.length - 1);
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
  if (room > 60) write(context, "in view, log", left, area.top + area.height + 12, ink.muted);
}

function drawLegend(context: CanvasRenderingContext2D, scene: Scene, area: Area, height: number, colors: string[], ink: Ink): Area {
  const wide = Math.min(150, area.width / 3);
  const y = height - 11;
  const rows = area.width > 420 ? ` × ${rowsText(scene)}` : "";
  const cell = `cell ${duration(scene.perBin * scene.cube.data.head.width_ns)}${rows}`;
  write(context, cell, area.left, y, ink.muted);
  const high = weightText(scene, scene.most);
  context.font = FONT;
  const right = area.left + area.width - context.measureText(high).width - 4;
  const bar = { left: right - wide, top: y - 4, width: wide, height: 8 };
  for (let x = 0; x < wide; x++) {
    context.fillStyle = colors[Math.floor((x * STEPS) / wide)] as string;
    context.fillRect(bar.left + x, bar.top, 1.5, bar.height);
  }
  write(context, high, right + 4, y, ink.muted);
  const low = weightText(scene, scene.least);
  const title = area.width > 640 ? `${LEGENDS[scene.state.weight]}${scene.state.lock === null ? "" : ", locked"}: ${low}` : low;
  write(context, title, bar.left - 4, y, ink.muted, "right");
  return bar;
}

function rowsText(scene: Scene): string {
  const rows = (scene.rowEdges[1] ?? 1) - (scene.rowEdges[0] ?? 0);
  const full = scene.rowEdges.length > 2 ? (scene.rowEdges[2] as number) - (scene.rowEdges[1] as number) : rows;
  const octave = scene.cube.data.head.rows_per_octave / full;
  return octave >= 1 ? `1/${octave} octave` : `${1 / octave} octaves`;
}
