// What is drawn for a state: the part in view, its bins, and their weights. Derived once for each change of what it is made of.

import type { Data } from "../capture-file/decode.ts";
import { Cube, type Cells, type Prefix } from "../series/cube.ts";
import { pairOf, ratios, type Pair } from "../series/difference.ts";
import { lines, type Lines } from "../series/percentiles.ts";
import type { Box, State, Weight } from "../state/state.ts";

/** No cell is narrower or lower than this, in CSS pixels. */
export const LEAST_PX = 3;
const ROUND_NS = [1, 2, 5].flatMap((step) => Array.from({ length: 15 }, (_, power) => step * 10 ** power)).concat([60e9, 120e9, 300e9, 600e9, 1800e9, 3600e9]).sort((a, b) => a - b);

export interface Scene {
  cube: Cube;
  state: State;
  passes: Uint8Array;
  prefix: Prefix;
  /** Whether something is kept or excluded. */
  isFiltered: boolean;
  /** Columns and rows in view, with fractions. */
  x: [number, number];
  y: [number, number];
  columnEdges: number[];
  rowEdges: number[];
  /** Columns of one bin, and rows of one line. */
  perBin: number;
  perRow: number;
  cells: Float64Array;
  /** Of the difference of two traces: the pair, and the logarithm of the ratio of each cell. */
  pair: Pair | null;
  ratios: Float64Array | null;
  most: number;
  least: number;
}

/** Holds what a state is drawn from. */
export class Scenes {
  readonly cube: Cube;
  private filterKey = "";
  private passes: Uint8Array;
  private prefix: Prefix;
  readonly all: Prefix;
  private pair: Pair | null = null;

  constructor(data: Data) {
    this.cube = new Cube(data);
    this.passes = this.cube.passes({ is: {}, not: {} });
    this.prefix = this.all = this.cube.prefix(this.passes);
    this.filterKey = JSON.stringify([{}, {}]);
  }

  scene(state: State, width: number, height: number): Scene {
    const key = JSON.stringify([state.is, state.not]);
    if (key !== this.filterKey) {
      this.passes = this.cube.passes(state);
      const spent = this.prefix === this.all ? null : this.prefix;
      this.prefix = this.passes.includes(0) ? this.cube.prefix(this.passes, spent) : this.all;
      this.filterKey = key;
      this.pair = null;
    }
    const { cube, passes, prefix } = this;
    const [x, y] = [columnsInView(cube, state), rowsInView(cube, state)];
    const perBin = columnsPerBin(cube, x, width);
    const columnEdges = edges(x, perBin, cube.columns, -(cube.data.head.first_column % perBin));
    let perRow = 1;
    while ((height / (y[1] - y[0])) * perRow < LEAST_PX) perRow *= 2;
    const rowEdges = edges(y, perRow, cube.lastRow, 0);
    const cells = weigh(prefix, columnEdges, rowEdges, state.weight);
    let most = 0;
    for (const value of cells) if (value > most) most = value;
    if (state.lock !== null && state.lock > 0) most = state.lock;
    const isCounted = state.weight === "events" || state.weight === "difference";
    if (state.weight === "difference") this.pair ??= pairOf(cube, passes);
    const pair = state.weight === "difference" ? this.pair : null;
    const least = isCounted ? 1 : state.weight === "share" ? 0.0001 : most / 10_000;
    return { cube, state, passes, prefix, isFiltered: prefix !== this.all, x, y, columnEdges, rowEdges, perBin, perRow, cells, pair, ratios: pair && ratios(pair, cube.columns, columnEdges, rowEdges), most: Math.max(most, least), least };
  }
}

export function columnsInView(cube: Cube, state: State): [number, number] {
  if (!state.x) return [0, cube.columns];
  const from = Math.min(Math.max(cube.column(state.x[0]), 0), cube.columns - 1);
  return [from, Math.min(Math.max(cube.column(state.x[1]), from + Math.min(1, cube.columns)), cube.columns)];
}

/** All rows: those that have events and one above and below. */
export function allRows(cube: Cube): [number, number] {
  return [Math.max(0, cube.firstRow - 1), cube.lastRow + 1];
}

export function rowsInView(cube: Cube, state: State): [number, number] {
  const all = allRows(cube);
  if (!state.y) return all;
  const from = Math.min(Math.max(cube.grid.place(state.y[0]), all[0]), all[1] - 2);
  return [from, Math.min(Math.max(cube.grid.place(state.y[1]), from + 2), all[1])];
}

/** The shortest round number of columns that is wide enough to be seen. */
export function columnsPerBin(cube: Cube, x: [number, number], width: number): number {
  const least = (LEAST_PX * (x[1] - x[0])) / Math.max(width, 1);
  const step = cube.data.head.width_ns;
  const round = ROUND_NS.find((ns) => ns % step === 0 && ns / step >= least);
  return round ? round / step : Math.max(1, Math.ceil(least));
}

/** Multiples of a step, from the offset, that cover a range; inside of 0 and the end. */
export function edges(range: [number, number], step: number, end: number, offset: number): number[] {
  const all: number[] = [];
  const first = Math.floor((range[0] - offset) / step);
  for (let at = first; ; at++) {
    const edge = Math.min(Math.max(offset + at * step, 0), end);
    if (edge !== all[all.length - 1]) all.push(edge);
    if (edge >= range[1] || edge >= end) return all;
  }
}

/** Every n-th of the edges, and the last. */
export function everyNth(edges: number[], step: number): number[] {
  return edges.filter((_, at) => at % step === 0 || at === edges.length - 1);
}

/** Bins of percentiles are at least so wide, in CSS pixels. */
const BIN_PX = 8;

/** Quantiles of the lines, the slider's last: p50 and p99 are always among them. */
export function asked(scene: Scene): number[] {
  const usual = [0.5, 0.9, 0.99, 0.999].filter((quantile) => Math.abs(quantile - scene.state.quantile) > 1e-9);
  return [...usual, scene.state.quantile];
}

const linesOf = new WeakMap<Scene, Lines>();

/** The percentiles of the view that are drawn as lines. */
export function percentileLines(scene: Scene, width: number): Lines {
  let found = linesOf.get(scene);
  if (!found) {
    const edges = everyNth(scene.columnEdges, Math.max(1, Math.ceil((BIN_PX * (scene.columnEdges.length - 1)) / width)));
    found = lines(scene.cube, scene.prefix, scene.isFiltered, edges, asked(scene));
    linesOf.set(scene, found);
  }
  return found;
}

/** The weight of each cell, row by row. */
export function weigh(prefix: Prefix, columns: number[], rows: number[], weight: Weight): Float64Array {
  const width = columns.length - 1;
  const cells = new Float64Array(width * Math.max(rows.length - 1, 0));
  const sums = weight === "time" ? prefix.latency : weight === "bytes" ? prefix.bytes : prefix.counts;
  const ranges = rows.slice(1).map((end, line) => [Math.max(rows[line] as number, prefix.firstRow), Math.min(end, prefix.firstRow + prefix.rows)] as const);
  for (let bin = 0; bin < width; bin++) {
    const before = (columns[bin] as number) * prefix.rows - prefix.firstRow;
    const after = (columns[bin + 1] as number) * prefix.rows - prefix.firstRow;
    for (let line = 0; line < ranges.length; line++) {
      const [first, last] = ranges[line] as readonly [number, number];
      let sum = 0;
      for (let row = first; row < last; row++) sum += (sums[after + row] as number) - (sums[before + row] as number);
      cells[line * width + bin] = sum;
    }
  }
  if (weight === "share") {
    for (let bin = 0; bin < width; bin++) {
      const all = prefix.sum(prefix.counts, { columns: [columns[bin] as number, columns[bin + 1] as number], rows: [0, Infinity] });
      for (let at = bin; at < cells.length && all > 0; at += width) cells[at] = (cells[at] as number) / all;
    }
  }
  return cells;
}

/** The whole columns and rows that a box touches; as it was drawn, these are its edges. */
export function cellsOf(cube: Cube, box: Box): Cells {
  // An edge is a quotient of floating point.
  const whole = ([from, to]: [number, number], most: number): [number, number] => {
    const clamp = (value: number): number => Math.min(Math.max(value, 0), most);
    return [clamp(Math.floor(from + 1e-6)), clamp(Math.ceil(to - 1e-6))];
  };
  const rows = whole([cube.grid.place(box.latency[0]), cube.grid.place(box.latency[1])], cube.grid.buckets);
  return { columns: whole([cube.column(box.time[0]), cube.column(box.time[1])], cube.columns), rows };
}

/** What two parts of the picture share; null where that is nothing. */
export function overlap(one: Cells, other: Cells): Cells | null {
  const shared = (a: [number, number], b: [number, number]): [number, number] => [Math.max(a[0], b[0]), Math.min(a[1], b[1])];
  const [columns, rows] = [shared(one.columns, other.columns), shared(one.rows, other.rows)];
  return columns[0] < columns[1] && rows[0] < rows[1] ? { columns, rows } : null;
}

/** The box of whole cells. */
export function boxOfCells(cube: Cube, cells: Cells): Box {
  return {
    time: [cube.time(cells.columns[0]), cube.time(cells.columns[1])],
    latency: [cube.grid.lower(cells.rows[0]), cube.grid.lower(cells.rows[1])],
  };
}
