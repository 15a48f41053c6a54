// Counting in the cube: filters of combinations, prefix sums along time, boxes.

import type { Data, Value } from "../capture-file/decode.ts";
import { FINE, Grid } from "../histogram/grid.ts";

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

/** Of each combination: events, their latencies, and the sum of the squares of these. */
export interface Weights {
  events: Float64Array;
  time: Float64Array;
  squares: Float64Array;
}

/** The text that stands for a value in the address of the page. */
export function valueKey(value: Value): string {
  if (value === null) return "(none)";
  if (typeof value === "string") return /^[(\\]/.test(value) ? `\\${value}` : value;
  if (typeof value === "number") return String(value);
  return Array.isArray(value) ? `${value[0]}..${value[1]}` : "(others)";
}

/** Sums of cells along time: what is between two columns of a row is one subtraction. The rows of a column lie side by side. */
export class Prefix {
  private times: Float64Array | null = null;
  private sizes: Float64Array | null = null;

  constructor(readonly firstRow: number, readonly rows: number, readonly counts: Float64Array, private readonly of: (sums: "latency" | "bytes") => Float64Array) {}

  /** Latencies and sizes are summed when they are first asked for. */
  get latency(): Float64Array {
    return (this.times ??= this.of("latency"));
  }

  get bytes(): Float64Array {
    return (this.sizes ??= this.of("bytes"));
  }

  /** The memory of the sums, of one that is not used any more. */
  memory(): Float64Array[] {
    return [this.counts, this.times, this.sizes].flatMap((sums) => sums ?? []);
  }

  /** What one of the sums is in these cells. */
  sum(of: Float64Array, cells: Cells): number {
    let sum = 0;
    const first = Math.max(cells.rows[0], this.firstRow) - this.firstRow;
    const last = Math.min(cells.rows[1], this.firstRow + this.rows) - this.firstRow;
    const [from, to] = [cells.columns[0] * this.rows, cells.columns[1] * this.rows];
    for (let row = first; row < last; row++) sum += (of[to + row] as number) - (of[from + row] as number);
    return sum;
  }
}

export class Cube {
  readonly grid: Grid;
  readonly columns: number;
  readonly firstRow: number;
  readonly lastRow: number;
  /** The first bucket of the fine grid of each row from the first to the last. */
  readonly buckets: Uint32Array;
  /** The first entry of each cell, and where the last one ends: cells are in the order of the sums. */
  private readonly cells: Uint32Array;
  /** Events of each cell. */
  private readonly events: Float64Array;
  /** Of each attribute, the number of a value by its key. */
  private readonly numbers: Map<string, number>[];

  constructor(readonly data: Data) {
    this.grid = new Grid(Math.log2(data.head.rows_per_octave));
    this.columns = data.head.columns;
    const { rows, starts } = data.sums;
    let first = Infinity;
    let last = 0;
    for (const row of rows) {
      if (row < first) first = row;
      if (row > last) last = row;
    }
    this.firstRow = Number.isFinite(first) ? first : 0;
    this.lastRow = last + 1;
    this.buckets = Uint32Array.from({ length: this.lastRow - this.firstRow + 1 }, (_, row) => FINE.index(this.grid.lower(this.firstRow + row)));
    this.cells = new Uint32Array(rows.length + 1);
    this.events = new Float64Array(rows.length);
    for (let column = 0; column < this.columns; column++) {
      let entry = data.cube.starts[column] as number;
      const end = data.cube.starts[column + 1] as number;
      for (let cell = starts[column] as number; cell < (starts[column + 1] as number); cell++) {
        const row = rows[cell] as number;
        let events = 0;
        for (; entry < end && data.cube.rows[entry] === row; entry++) events += data.cube.counts[entry] as number;
        this.cells[cell + 1] = entry;
        this.events[cell] = events;
      }
    }
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

  /**
   * Sums over time of what passes. Latencies and bytes of a part of a cell are shared out by count. What is `spent` is not used any
   * more: its memory is.
   */
  prefix(passes: Uint8Array, spent: Prefix | null = null): Prefix {
    const memory = spent?.memory() ?? [];
    const passed = passes.includes(0) ? this.passed(passes) : this.events;
    const shared = (sums: "latency" | "bytes"): Float64Array => {
      const values = this.data.sums[sums];
      if (passed === this.events) return this.alongTime(values, memory.pop());
      const shares = new Float64Array(values.length);
      for (let cell = 0; cell < shares.length; cell++) {
        const events = passed[cell] as number;
        if (events > 0) shares[cell] = ((values[cell] as number) * events) / (this.events[cell] as number);
      }
      return this.alongTime(shares, memory.pop());
    };
    return new Prefix(this.firstRow, this.rows, this.alongTime(passed, memory.pop()), shared);
  }

  /** Events of each cell that pass. */
  private passed(passes: Uint8Array): Float64Array {
    const { combinations, counts } = this.data.cube;
    const { cells } = this;
    const passed = new Float64Array(this.events.length);
    for (let cell = 0, entry = 0; cell < passed.length; cell++) {
      let events = 0;
      for (const end = cells[cell + 1] as number; entry < end; entry++) {
        if (passes[combinations[entry] as number] === 1) events += counts[entry] as number;
      }
      passed[cell] = events;
    }
    return passed;
  }

  private get rows(): number {
    return this.lastRow - this.firstRow;
  }

  /** Sums of what each cell has, up to each column; in memory that is there, else in new one. */
  private alongTime(values: Float64Array, memory?: Float64Array): Float64Array {
    const { rows, firstRow } = this;
    const { rows: cells, starts } = this.data.sums;
    const length = (this.columns + 1) * rows;
    const sums = memory?.length === length ? memory : new Float64Array(length);
    sums.fill(0, 0, rows);
    for (let column = 0; column < this.columns; column++) {
      const base = (column + 1) * rows;
      sums.copyWithin(base, base - rows, base);
      for (let cell = starts[column] as number, end = starts[column + 1] as number; cell < end; cell++) {
        const at = base + (cells[cell] as number) - firstRow;
        sums[at] = (sums[at] as number) + (values[cell] as number);
      }
    }
    return sums;
  }

  /** Events of each combination in these cells, of those that pass. */
  combinations(cells: Cells, passes: Uint8Array): Float64Array {
    const found = new Float64Array(this.data.head.combinations);
    const { rows, starts } = this.data.sums;
    const { combinations, counts } = this.data.cube;
    const end = starts[cells.columns[1]] as number;
    for (let cell = starts[cells.columns[0]] as number; cell < end; cell++) {
      const row = rows[cell] as number;
      if (row < cells.rows[0] || row >= cells.rows[1]) continue;
      for (let entry = this.cells[cell] as number; entry < (this.cells[cell + 1] as number); entry++) {
        const combination = combinations[entry] as number;
        found[combination] = (found[combination] as number) + (counts[entry] as number);
      }
    }
    return found.map((count, combination) => count * (passes[combination] as number));
  }

  /** What each combination has in these cells, of those that pass. All events of a cell are taken for equally long. */
  weights(cells: Cells, passes: Uint8Array): Weights {
    const size = this.data.head.combinations;
    const found: Weights = { events: new Float64Array(size), time: new Float64Array(size), squares: new Float64Array(size) };
    const { rows, starts, latency } = this.data.sums;
    const { combinations, counts } = this.data.cube;
    const end = starts[cells.columns[1]] as number;
    for (let cell = starts[cells.columns[0]] as number; cell < end; cell++) {
      const row = rows[cell] as number;
      if (row < cells.rows[0] || row >= cells.rows[1]) continue;
      const mean = (latency[cell] as number) / Math.max(this.events[cell] as number, 1);
      for (let entry = this.cells[cell] as number; entry < (this.cells[cell + 1] as number); entry++) {
        const combination = combinations[entry] as number;
        if (passes[combination] === 0) continue;
        const count = counts[entry] as number;
        found.events[combination] = (found.events[combination] as number) + count;
        found.time[combination] = (found.time[combination] as number) + count * mean;
        found.squares[combination] = (found.squares[combination] as number) + count * mean * mean;
      }
    }
    return found;
  }

  /** Events of each combination, of those that pass. */
  allCombinations(passes: Uint8Array): Float64Array {
    this.totals ??= this.combinations(this.whole, new Uint8Array(passes.length).fill(1));
    return this.totals.map((count, combination) => count * (passes[combination] as number));
  }

  private totals: Float64Array | null = null;

  /** Adds the events between two columns by bucket of the fine grid, from the first bucket of the first row on; without a filter. */
  addBuckets(from: number, to: number, into: Float64Array): void {
    const { starts, rows, counts } = this.data.totals;
    const first = this.buckets[0] as number;
    for (let entry = starts[from] as number; entry < (starts[to] as number); entry++) {
      const bucket = (rows[entry] as number) - first;
      into[bucket] = (into[bucket] as number) + (counts[entry] as number);
    }
  }

  /** All of the picture. */
  get whole(): Cells {
    return { columns: [0, this.columns], rows: [this.firstRow, this.lastRow] };
  }
}
