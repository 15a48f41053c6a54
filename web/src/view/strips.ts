// Events per second and requests in flight over the map, on its axis.

import type { Head } from "../capture-file/decode.ts";
import { count, short } from "./format.ts";
import { fit, gutters, stroke, write, xOf, type Area, type Ink } from "./paint.ts";
import type { Scene } from "./scene.ts";

export interface Strip {
  title: string;
  /** By bin. */
  values: number[];
}

/** What the strips show, by bin of the map. */
export function strips(scene: Scene): Strip[] {
  const { cube, prefix, columnEdges } = scene;
  const width = cube.data.head.width_ns;
  const [events, flight]: [number[], number[]] = [[], []];
  for (let bin = 0; bin + 1 < columnEdges.length; bin++) {
    const columns: [number, number] = [columnEdges[bin] as number, columnEdges[bin + 1] as number];
    const ns = (columns[1] - columns[0]) * width;
    const cells = { columns, rows: [0, Infinity] as [number, number] };
    events.push((prefix.sum(prefix.counts, cells) * 1e9) / ns);
    let flying = 0;
    // Of some attributes only completed waiting is known, and counts where it ended.
    if (scene.isFiltered) flying = prefix.sum(prefix.latency, cells);
    else {
      for (let column = columns[0]; column < columns[1]; column++) flying += cube.data.inFlight[column] as number;
      flying += waitingTime(cube.data.head.unfinished, cube.time(columns[0]), cube.time(columns[1]));
    }
    flight.push(flying / ns);
  }
  return [{ title: "events", values: events }, { title: "in flight", values: flight }];
}

/** For how long requests that have not completed were in flight between two moments, all together. */
function waitingTime({ longest, others }: Head["unfinished"], from: number, to: number): number {
  let ns = 0;
  for (const { start, age } of longest) ns += Math.max(0, Math.min(start + age, to) - Math.max(start, from));
  for (const [start, count, end] of others) ns += count * Math.max(0, Math.min(end, to) - Math.max(start, from));
  return ns;
}

export function drawStrips(element: HTMLCanvasElement, scene: Scene, all: Strip[], ink: Ink): void {
  const canvas = fit(element);
  if (!canvas) return;
  const { context, width } = canvas;
  const [left, right] = gutters(width);
  const gap = 6;
  const height = (canvas.height - gap) / all.length - gap / 2;
  all.forEach((strip, number) => {
    const area: Area = { left, top: 1 + number * (height + gap), width: Math.max(10, width - left - right), height };
    drawStrip(context, scene, strip, area, ink);
    drawLosses(context, scene, area, ink);
    const most = Math.max(...strip.values, 0);
    const text = strip.title === "events" ? `${short(most)}/s` : count(Number(most.toPrecision(3)));
    write(context, text, left - 7, area.top + 9, ink.text, "right");
    write(context, strip.title, left - 7, area.top + 22, ink.muted, "right");
  });
}

function drawStrip(context: CanvasRenderingContext2D, scene: Scene, strip: Strip, area: Area, ink: Ink): void {
  context.fillStyle = ink.plot;
  context.fillRect(area.left, area.top, area.width, area.height);
  const most = Math.max(...strip.values, 1e-9);
  const [top, bottom] = [new Path2D(), area.top + area.height];
  const fill = new Path2D();
  const clamp = (x: number): number => Math.min(Math.max(x, area.left), area.left + area.width);
  fill.moveTo(area.left, bottom);
  strip.values.forEach((value, bin) => {
    const [from, to] = [clamp(xOf(scene, area, scene.columnEdges[bin] as number)), clamp(xOf(scene, area, scene.columnEdges[bin + 1] as number))];
    const y = bottom - (value / most) * (area.height - 2);
    if (bin === 0) top.moveTo(from, y);
    top.lineTo(from, y);
    top.lineTo(to, y);
    fill.lineTo(from, y);
    fill.lineTo(to, y);
  });
  fill.lineTo(area.left + area.width, bottom);
  context.globalAlpha = 0.28;
  context.fillStyle = ink.accent;
  context.fill(fill);
  context.globalAlpha = 1;
  stroke(context, top, ink.accent, 1, null);
}

/** Hatches the time in which records were lost. */
function drawLosses(context: CanvasRenderingContext2D, scene: Scene, area: Area, ink: Ink): void {
  context.save();
  context.beginPath();
  for (const [from, to] of scene.cube.data.head.losses) {
    const [start, end] = [xOf(scene, area, scene.cube.column(from)), xOf(scene, area, scene.cube.column(to))];
    context.rect(Math.max(start, area.left), area.top, Math.min(Math.max(end - start, 2), area.width), area.height);
  }
  context.clip();
  context.strokeStyle = ink.a;
  context.lineWidth = 1;
  context.beginPath();
  for (let x = area.left - area.height; scene.cube.data.head.losses.length > 0 && x < area.left + area.width; x += 6) {
    context.moveTo(x, area.top + area.height);
    context.lineTo(x + area.height, area.top);
  }
  context.stroke();
  context.restore();
}
