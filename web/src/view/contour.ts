// Time x percentile x latency: as bands of colour, and as the grid that the surface is made of.

import { lines, quantileOf, stepOf, STEPS } from "../series/percentiles.ts";
import { duration, logTicks, percentile } from "./format.ts";
import { drawLack, paneArea } from "./lines.ts";
import { css, pixel, ramp, STEPS as COLORS } from "./palette.ts";
import { drawPixels, fit, timeAxis, within, write, xOf, type Ink } from "./paint.ts";
import type { Scene } from "./scene.ts";

/** Latencies by percentile (from p50 up) and bin of time; 0 where nothing completed. */
export interface Surface {
  edges: number[];
  levels: number;
  values: Float64Array;
  low: number;
  high: number;
}

export const LEVELS = 48;
/** Latencies in so many bands. */
const BANDS = 14;

/** Percentiles of every bin in view. */
export function surface(scene: Scene, most: number): Surface {
  const bins = scene.columnEdges.length - 1;
  const each = Math.max(1, Math.ceil(bins / most));
  const edges = scene.columnEdges.filter((_, at) => at % each === 0 || at === bins);
  const asked = Array.from({ length: LEVELS }, (_, level) => quantileOf((level * STEPS) / (LEVELS - 1)));
  const found = lines(scene.cube, scene.prefix, scene.isFiltered, edges, asked);
  const values = new Float64Array(LEVELS * (edges.length - 1));
  let [low, high] = [Infinity, 1];
  found.values.forEach((of, bin) => {
    of?.forEach((value, level) => {
      values[level * (edges.length - 1) + bin] = value;
      low = Math.min(low, Math.max(value, 1));
      high = Math.max(high, value);
    });
  });
  return { edges, levels: LEVELS, values, low: Number.isFinite(low) ? low : 1, high };
}

export function drawContour(element: HTMLCanvasElement, scene: Scene, ink: Ink): Surface | null {
  const canvas = fit(element);
  if (!canvas) return null;
  const { context } = canvas;
  const area = paneArea(canvas.width, canvas.height);
  context.fillStyle = ink.plot;
  context.fillRect(area.left, area.top, area.width, area.height);
  const found = surface(scene, Math.floor(area.width / 4));
  const bins = found.edges.length - 1;
  const colors = ramp("events", ink.isDark);
  const [low, high] = [Math.log(found.low), Math.log(Math.max(found.high, found.low * 1.01))];
  const y = (level: number): number => area.top + area.height - (level / found.levels) * area.height;
  const bands = Array.from({ length: BANDS }, (_, band) => colors[Math.round((band * (COLORS - 1)) / (BANDS - 1))] as (typeof colors)[number]);
  const painted = bands.map(pixel);
  const band = (value: number): number => painted[Math.min(BANDS - 1, Math.floor((BANDS * (Math.log(value) - low)) / (high - low)))] as number;
  const pixels = new Uint32Array(found.values.length);
  for (let level = 0; level < found.levels; level++) {
    for (let bin = 0; bin < bins; bin++) {
      const value = found.values[level * bins + bin] as number;
      if (value > 0) pixels[(found.levels - 1 - level) * bins + bin] = band(value);
    }
  }
  const x = (edge: number): number => xOf(scene, area, found.edges[edge] as number);
  // All bins are of the same width but the last, and the first at the start of the trace.
  within(context, area, () => {
    const even = bins > 2 ? x(2) - x(1) : 0;
    const left = bins > 2 ? x(1) - even : x(0);
    drawPixels(context, pixels, bins, { left, top: area.top, width: bins > 2 ? even * bins : x(bins) - left, height: area.height });
  });
  timeAxis(context, scene, area, ink);
  for (const quantile of [0.5, 0.9, 0.99, 0.999, 0.9999]) {
    write(context, percentile(quantile), area.left - 7, Math.min(Math.max(y((stepOf(quantile) / STEPS) * found.levels), area.top + 6), area.top + area.height - 6), ink.text, "right");
  }
  const line = y((stepOf(scene.state.quantile) / STEPS) * found.levels);
  context.fillStyle = ink.bg;
  context.fillRect(area.left, line - 2, area.width, 4);
  context.fillStyle = ink.a;
  context.fillRect(area.left, line - 1, area.width, 2);
  drawLack(context, scene, area, ink);
  drawScale(context, found, { left: area.left + area.width + 10, top: area.top + 4, height: area.height - 8 }, bands.map(css), ink);
  return found;
}

function drawScale(context: CanvasRenderingContext2D, found: Surface, at: { left: number; top: number; height: number }, colors: string[], ink: Ink): void {
  const [low, high] = [Math.log(found.low), Math.log(Math.max(found.high, found.low * 1.01))];
  for (let band = 0; band < BANDS; band++) {
    context.fillStyle = colors[band] as string;
    context.fillRect(at.left, at.top + at.height * (1 - (band + 1) / BANDS), 8, at.height / BANDS + 0.4);
  }
  let last = Infinity;
  for (const tick of logTicks(found.low, found.high)) {
    const y = at.top + at.height * (1 - (Math.log(tick) - low) / (high - low));
    if (last - y < 14) continue;
    last = y;
    write(context, duration(tick), at.left + 13, y, ink.text);
  }
}
