// Percentiles over time.

import { FINE, type Grid } from "../histogram/grid.ts";
import type { Cube, Prefix } from "./cube.ts";

/** The values at some quantiles: the bucket up to which there are so many values, interpolated as crates/histogram does it. */
export function quantiles(grid: Grid, counts: ArrayLike<number>, first: number, asked: readonly number[]): number[] | null {
  let total = 0;
  for (let at = 0; at < counts.length; at++) total += counts[at] as number;
  if (total === 0) return null;
  const order = asked.map((_, at) => at).sort((one, other) => (asked[one] as number) - (asked[other] as number));
  const found = new Array<number>(asked.length).fill(0);
  let before = 0;
  let next = 0;
  let last = 0;
  for (let at = 0; at < counts.length && next < order.length; at++) {
    const count = counts[at] as number;
    if (count === 0) continue;
    last = first + at;
    while (next < order.length) {
      const quantile = asked[order[next] as number] as number;
      const rank = Math.min(Math.max(Math.ceil(quantile * total), 1), total);
      if (rank > before + count) break;
      const lower = grid.lower(last);
      const width = grid.upper(last) - 1 - lower;
      const below = Math.min(Math.max(quantile * total - before, 0), count);
      found[order[next] as number] = lower + Math.round((width * below) / count);
      next++;
    }
    before += count;
  }
  for (; next < order.length; next++) found[order[next] as number] = grid.upper(last) - 1;
  return found;
}

export interface Lines {
  /** Columns between which a bin lies: one more than there are bins. */
  edges: number[];
  /** Events of each bin. */
  events: number[];
  /** By bin, then by quantile; null where nothing completed. */
  values: (number[] | null)[];
}

/** Percentiles of bins of so many columns. Exact to 1/64 without a filter, to 1/8 with one. */
export function lines(cube: Cube, prefix: Prefix, isFiltered: boolean, edges: number[], asked: readonly number[]): Lines {
  const values: (number[] | null)[] = [];
  const events: number[] = [];
  const fine = new Float64Array(FINE.index(2 ** 52));
  const rows = new Float64Array(prefix.rows);
  const firstBucket = FINE.index(cube.grid.lower(cube.firstRow));
  const lastBucket = FINE.index(cube.grid.upper(cube.lastRow)) + 1;
  for (let bin = 0; bin + 1 < edges.length; bin++) {
    const [from, to] = [edges[bin] as number, edges[bin + 1] as number];
    let count = 0;
    for (let row = 0; row < prefix.rows; row++) {
      const base = prefix.at(prefix.firstRow + row, 0);
      count += rows[row] = (prefix.counts[base + to] as number) - (prefix.counts[base + from] as number);
    }
    events.push(count);
    if (isFiltered) {
      values.push(quantiles(cube.grid, rows, prefix.firstRow, asked));
      continue;
    }
    const used = fine.subarray(firstBucket, lastBucket);
    used.fill(0);
    cube.buckets(from, to, fine);
    values.push(quantiles(FINE, used, firstBucket, asked));
  }
  return { edges, events, values };
}

/** From the slider's step to a quantile: even steps of -log10(1 - q), from p50 to p99.99. */
export const STEPS = 100;
const FIRST = -Math.log10(0.5);
const LAST = 4;
const SNAPS = [0.5, 0.9, 0.95, 0.99, 0.999, 0.9999];

export function quantileOf(step: number): number {
  const place = FIRST + ((LAST - FIRST) * step) / STEPS;
  const snap = SNAPS.find((quantile) => Math.abs(-Math.log10(1 - quantile) - place) < (LAST - FIRST) / STEPS / 2);
  return snap ?? Number((1 - 10 ** -place).toPrecision(5));
}

export function stepOf(quantile: number): number {
  const place = -Math.log10(1 - Math.min(Math.max(quantile, 0.5), 0.9999));
  return ((place - FIRST) / (LAST - FIRST)) * STEPS;
}
