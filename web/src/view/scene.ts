// What is drawn for a state: the part in view, its bins, and their weights. Derived once for each change of what it is made of.

import type { Data } from "../capture-file/decode.ts";
import { Cube, type Cells, type Prefix } from "../series/cube.ts";
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
  /** Columns of one bin. */
  perBin: number;
  cells: Float64Array;
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
      this.prefix = this.passes.includes(0) ? this.cube.prefix(this.passes) : this.all;
      this.filterKey = key;
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
    const least = state.weight === "events" ? 1 : state.weight === "share" ? 0.0001 : most / 10_000;
    return { cube, state, passes, prefix, isFiltered: prefix !== this.all, x, y, columnEdges, rowEdges, perBin, cells, most: Math.max(most, least), least };
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

/** The weight of each cell, row by row. */
export function weigh(prefix: Prefix, columns: number[], rows: number[], weight: Weight): Float64Array {
  const width = columns.length - 1;
  const cells = new Float64Array(width * Math.max(rows.length - 1, 0));
  const sums = weight === "time" ? prefix.latency : weight === "bytes" ? prefix.bytes : prefix.counts;
  for (let line = 0; line + 1 < rows.length; line++) {
    const last = Math.min(rows[line + 1] as number, prefix.firstRow + prefix.rows);
    for (let row = Math.max(rows[line] as number, prefix.firstRow); row < last; row++) {
      const base = prefix.at(row, 0);
      let before = sums[base + (columns[0] as number)] as number;
      for (let bin = 0; bin < width; bin++) {
        const after = sums[base + (columns[bin + 1] as number)] as number;
        cells[line * width + bin] = (cells[line * width + bin] as number) + after - before;
        before = after;
      }
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

/** The whole columns and rows of a box; as it was drawn, these are its edges. */
export function cellsOf(cube: Cube, box: Box): Cells {
  const clamp = (value: number, low: number, high: number): number => Math.min(Math.max(Math.round(value), low), high);
  const rows = box.latency.map((ns) => clamp(cube.grid.place(ns), 0, cube.grid.index(2 ** 52))) as [number, number];
  const columns = box.time.map((ns) => clamp(cube.column(ns), 0, cube.columns)) as [number, number];
  return { columns, rows };
}

/** The box of whole cells. */
export function boxOf(cube: Cube, cells: Cells): Box {
  return {
    time: [cube.time(cells.columns[0]), cube.time(cells.columns[1])],
    latency: [cube.grid.lower(cells.rows[0]), cube.grid.lower(cells.rows[1])],
  };
}
