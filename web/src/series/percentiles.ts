// Percentiles over time.

import { FINE, type Grid } from "../histogram/grid.ts";
import type { Cube, Prefix } from "./cube.ts";

/** Counts of rows of several buckets each, to find a bucket sooner; `starts` is the first bucket of each. */
interface Rows {
  counts: Float64Array;
  starts: Uint32Array;
}

/** The values at some quantiles: the bucket up to which there are so many values, interpolated as crates/histogram does it. */
export function quantiles(grid: Grid, counts: Float64Array, first: number, asked: readonly number[], rows: Rows | null = null): number[] | null {
  let total = 0;
  for (const count of rows?.counts ?? counts) total += count;
  if (total === 0) return null;
  const order = asked.map((_, at) => at).sort((one, other) => (asked[one] as number) - (asked[other] as number));
  const found = new Array<number>(asked.length).fill(0);
  let [at, before] = [0, 0];
  let [row, beforeRow] = [0, 0];
  for (const number of order) {
    const below = (asked[number] as number) * total;
    const rank = Math.min(Math.max(Math.ceil(below), 1), total);
    if (rows && beforeRow + (rows.counts[row] as number) < rank) {
      while (row + 1 < rows.counts.length && beforeRow + (rows.counts[row] as number) < rank) beforeRow += rows.counts[row++] as number;
      [at, before] = [(rows.starts[row] as number) - first, beforeRow];
    }
    while (at + 1 < counts.length && before + (counts[at] as number) < rank) before += counts[at++] as number;
    const count = counts[at] as number;
    const lower = grid.lower(first + at);
    const width = grid.upper(first + at) - 1 - lower;
    found[number] = lower + Math.round((width * Math.min(Math.max(below - before, 0), count)) / Math.max(count, 1));
  }
  return found;
}

export interface Lines {
  asked: readonly number[];
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
  const [first, last] = [cube.buckets[0] as number, cube.buckets[cube.buckets.length - 1] as number];
  const buckets = new Float64Array(last - first);
  const rows = { counts: new Float64Array(prefix.rows), starts: cube.buckets };
  for (let bin = 0; bin + 1 < edges.length; bin++) {
    const [from, to] = [edges[bin] as number, edges[bin + 1] as number];
    let count = 0;
    const [start, end] = [from * prefix.rows, to * prefix.rows];
    for (let row = 0; row < prefix.rows; row++) count += rows.counts[row] = (prefix.counts[end + row] as number) - (prefix.counts[start + row] as number);
    events.push(count);
    if (isFiltered) {
      values.push(quantiles(cube.grid, rows.counts, prefix.firstRow, asked));
      continue;
    }
    buckets.fill(0);
    cube.addBuckets(from, to, buckets);
    values.push(quantiles(FINE, buckets, first, asked, rows));
  }
  return { asked, edges, events, values };
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
