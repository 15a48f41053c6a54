// Counting in the cube: filters of combinations, prefix sums along time, boxes.

import type { Data, Value } from "../capture-file/decode.ts";
import { Grid } from "../histogram/grid.ts";

/** Which values of which attributes are kept, and which are excluded; values by their key. */
export interface Filter {
  is: Record<string, string[]>;
  not: Record<string, string[]>;
}

/** A part of the picture: columns and rows, from the first up to and without the last. */
export interface Cells {
  columns: [number, number];
  rows: [number, number];
}

/** The text that stands for a value in the address of the page. */
export function valueKey(value: Value): string {
  if (value === null) return "(none)";
  if (typeof value === "string") return /^[(\\]/.test(value) ? `\\${value}` : value;
  if (typeof value === "number") return String(value);
  return Array.isArray(value) ? `${value[0]}..${value[1]}` : "(others)";
}

/** Sums of cells along time: what is between two columns of a row is one subtraction. */
export class Prefix {
  readonly counts: Float64Array;
  readonly latency: Float64Array;
  readonly bytes: Float64Array;
  private readonly stride: number;

  constructor(readonly columns: number, readonly firstRow: number, readonly rows: number) {
    this.stride = columns + 1;
    this.counts = new Float64Array(this.stride * rows);
    this.latency = new Float64Array(this.stride * rows);
    this.bytes = new Float64Array(this.stride * rows);
  }

  /** Where the sum of a row up to a column lies. */
  at(row: number, column: number): number {
    return (row - this.firstRow) * this.stride + column;
  }

  /** What one of the sums is in these cells. */
  sum(of: Float64Array, cells: Cells): number {
    let sum = 0;
    const first = Math.max(cells.rows[0], this.firstRow);
    const last = Math.min(cells.rows[1], this.firstRow + this.rows);
    for (let row = first; row < last; row++) {
      sum += (of[this.at(row, cells.columns[1])] as number) - (of[this.at(row, cells.columns[0])] as number);
    }
    return sum;
  }

  add(): void {
    for (const sums of [this.counts, this.latency, this.bytes]) {
      for (let row = 0; row < this.rows; row++) {
        let running = 0;
        const base = row * this.stride;
        for (let column = 0; column <= this.columns; column++) {
          const here = sums[base + column] as number;
          sums[base + column] = running += here;
        }
      }
    }
  }
}

export class Cube {
  readonly grid: Grid;
  readonly columns: number;
  readonly firstRow: number;
  readonly lastRow: number;
  /** Of each attribute, the number of a value by its key. */
  private readonly numbers: Map<string, number>[];

  constructor(readonly data: Data) {
    this.grid = new Grid(Math.log2(data.head.rows_per_octave));
    this.columns = data.head.columns;
    let first = Infinity;
    let last = 0;
    for (const row of data.cube.rows) {
      if (row < first) first = row;
      if (row > last) last = row;
    }
    this.firstRow = Number.isFinite(first) ? first : 0;
    this.lastRow = last + 1;
    this.numbers = data.head.attributes.map(({ values }) => new Map(values.map((value, number) => [valueKey(value), number])));
  }

  attribute(name: string): number {
    return this.data.head.attributes.findIndex((attribute) => attribute.name === name);
  }

  /** Start of a column, nanoseconds since the trace started. */
  time(column: number): number {
    return this.data.head.offset_ns + column * this.data.head.width_ns;
  }

  /** Where a moment lies among the columns. */
  column(time: number): number {
    return (time - this.data.head.offset_ns) / this.data.head.width_ns;
  }

  /** Which combinations pass a filter. Of two values of one attribute either may be, of two attributes both have to be. */
  passes(filter: Filter): Uint8Array {
    const passes = new Uint8Array(this.data.head.combinations).fill(1);
    const restrict = (names: Record<string, string[]>, keeps: boolean): void => {
      for (const [name, keys] of Object.entries(names)) {
        const attribute = this.attribute(name);
        if (attribute < 0 || keys.length === 0) continue;
        const listed = new Set(keys.map((key) => this.numbers[attribute]?.get(key)));
        const values = this.data.values[attribute] as Uint32Array;
        for (let combination = 0; combination < passes.length; combination++) {
          if (listed.has(values[combination] as number) !== keeps) passes[combination] = 0;
        }
      }
    };
    restrict(filter.is, true);
    restrict(filter.not, false);
    return passes;
  }

  /** Sums over time of what passes. Latencies and bytes of a part of a cell are shared out by count. */
  prefix(passes: Uint8Array): Prefix {
    const prefix = new Prefix(this.columns, this.firstRow, Math.max(1, this.lastRow - this.firstRow));
    const { cube, sums } = this.data;
    for (let column = 0; column < this.columns; column++) {
      let entry = cube.starts[column] as number;
      const end = cube.starts[column + 1] as number;
      for (let cell = sums.starts[column] as number; entry < end; cell++) {
        const row = sums.rows[cell] as number;
        let all = 0;
        let passed = 0;
        for (; entry < end && cube.rows[entry] === row; entry++) {
          const count = cube.counts[entry] as number;
          all += count;
          if (passes[cube.combinations[entry] as number]) passed += count;
        }
        if (passed === 0) continue;
        const at = prefix.at(row, column + 1);
        prefix.counts[at] = passed;
        prefix.latency[at] = ((sums.latency[cell] as number) * passed) / all;
        prefix.bytes[at] = ((sums.bytes[cell] as number) * passed) / all;
      }
    }
    prefix.add();
    return prefix;
  }

  /** Events of each combination in these cells, of those that pass. */
  combinations(cells: Cells, passes: Uint8Array): Float64Array {
    const counts = new Float64Array(this.data.head.combinations);
    const { starts, rows, combinations, counts: entries } = this.data.cube;
    const end = starts[cells.columns[1]] as number;
    for (let entry = starts[cells.columns[0]] as number; entry < end; entry++) {
      const row = rows[entry] as number;
      const combination = combinations[entry] as number;
      if (row >= cells.rows[0] && row < cells.rows[1] && passes[combination]) {
        counts[combination] = (counts[combination] as number) + (entries[entry] as number);
      }
    }
    return counts;
  }

  /** Events by bucket of the fine grid between two columns; without a filter. */
  buckets(from: number, to: number, into: Float64Array): void {
    const { starts, rows, counts } = this.data.totals;
    for (let entry = starts[from] as number; entry < (starts[to] as number); entry++) {
      const bucket = rows[entry] as number;
      into[bucket] = (into[bucket] as number) + (counts[entry] as number);
    }
  }

  /** All of the picture. */
  get whole(): Cells {
    return { columns: [0, this.columns], rows: [this.firstRow, this.lastRow] };
  }
}
