// The data of a report: base64 of a raw deflate stream of a JSON head and streams of numbers (crates/view-report/src/html/encode.rs).

import { FINE, Grid } from "../histogram/grid.ts";

/** A value of an attribute: text, number, a range with both its ends, none, or one of many others. */
export type Value = string | number | [number, number] | null | { others: true };

export interface Attribute {
  name: string;
  kind: "text" | "number" | "bytes" | "duration" | "trace";
  values: Value[];
}

export interface Head {
  version: number;
  program: string;
  title: string;
  host: string | null;
  sources: string[];
  source: string;
  filter: string | null;
  clock: { name: string; to_unix_ns: string | null; approximate: boolean };
  trace_start_ns: string;
  offset_ns: number;
  first_column: number;
  width_ns: number;
  columns: number;
  rows_per_octave: number;
  combinations: number;
  exemplars: number;
  attributes: Attribute[];
  left_out: string[];
  notes: { text: string; lost: boolean }[];
  /** Requests that have not completed: the longest by name, of the others a start, how many, and when they were last known to wait. */
  unfinished: { count: number; longest: { what: string; start: number; age: number }[]; others: [number, number, number][]; groups?: Waiters[] };
  losses: [number, number, number][];
  /** What is unusual, the most important first. */
  spots?: Spot[];
  /** The traces and when each started, nanoseconds after the first. */
  traces?: { name: string; start: number }[];
  streams: Record<string, number>;
}

/** Unfinished requests that are alike, and the age and the stack of the oldest. */
export interface Waiters {
  who: string[];
  count: number;
  oldest: number;
  stack: string | null;
}

/** A box of time and latency, nanoseconds, whose events are unusual. */
export interface Spot {
  kind: string;
  period: number | null;
  time: [number, number];
  latency: [number, number];
  /** Values that its events have. */
  values: Record<string, string>;
  events: number;
  waiting: number;
  median: number;
  /** What its events have in common, as a filter. */
  common: string | null;
}

export interface Exemplar {
  start: number;
  latency: number;
  size: number | null;
  offset: number | null;
  pid: number | null;
  combination: number;
}

/** Counts in compressed rows: the entries of a column lie between two starts. */
export interface Entries {
  starts: Uint32Array;
  /** Row of latency, or bucket. */
  rows: Uint16Array;
  combinations: Uint32Array;
  counts: Float64Array;
}

export interface Data {
  head: Head;
  /** By attribute, the number of the value of each combination. */
  values: Uint32Array[];
  cube: Entries;
  totals: Entries;
  /** Of each non-empty column and row, in the order of the cube: exact sums. */
  sums: { rows: Uint16Array; starts: Uint32Array; latency: Float64Array; bytes: Float64Array };
  inFlight: Float64Array;
  exemplars: Exemplar[];
  events: number;
}

class Reader {
  constructor(private bytes: Uint8Array, private at: number, readonly end: number) {
    if (end > bytes.length) throw new Error("the data end too early");
  }

  next(): number {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      if (this.at >= this.end) throw new Error("a stream ends too early");
      const byte = this.bytes[this.at++] as number;
      if (byte < 128) return value + byte * scale;
      value += (byte & 127) * scale;
    }
  }

  signed(): number {
    // The sign is the lowest bit, which a large number loses.
    const isNegative = ((this.bytes[this.at] ?? 0) & 1) === 1;
    const value = this.next();
    return isNegative ? -(value + 1) / 2 : value / 2;
  }

  optional(): number | null {
    const value = this.next();
    return value === 0 ? null : value - 1;
  }
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  const native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }).fromBase64;
  if (native) return native(base64);
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
}

/** Most bytes that are unpacked: a damaged file must not take all memory. */
const MOST_BYTES = 400e6;

async function inflated(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  if (typeof DecompressionStream === "undefined") {
    throw new Error("this browser is too old: it needs DecompressionStream (Firefox 113, Safari 16.4, Chromium 103)");
  }
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const reader = stream.getReader();
  const parts: Uint8Array[] = [];
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    length += value.length;
    if (length > MOST_BYTES) throw new Error("the data are larger than 400 MB; make a report of a shorter time");
  }
  const all = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** Reads the data of a report. */
export async function decode(base64: string): Promise<Data> {
  return unpack(await inflated(bytesOf(base64.trim())));
}

/** Reads the inflated data. */
export function unpack(bytes: Uint8Array): Data {
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length))) as Head;
  if (head.version !== 1) throw new Error(`this page reads version 1 of the data, not ${head.version}`);
  const readers: Record<string, Reader> = {};
  let at = 4 + length;
  // The order of the streams is that of the file; JSON keeps their names sorted.
  for (const name of STREAMS) {
    const end = at + (head.streams[name] ?? 0);
    readers[name] = new Reader(bytes, at, end);
    at = end;
  }
  const stream = (name: (typeof STREAMS)[number]): Reader => readers[name] as Reader;

  const values = head.attributes.map(() => {
    const numbers = new Uint32Array(head.combinations);
    for (let combination = 0; combination < head.combinations; combination++) numbers[combination] = stream("combinations").next();
    return numbers;
  });
  const cube = entries(head.columns, stream("cube_lengths"), stream("cube_rows"), stream("cube_counts"), stream("cube_combinations"));
  const totals = entries(head.columns, stream("total_lengths"), stream("total_buckets"), stream("total_counts"), null);
  const sums = readSums(head, cube, totals, stream("sums"), stream("bytes"));
  const inFlight = new Float64Array(head.columns);
  for (let column = 0; column < head.columns; column++) inFlight[column] = stream("in_flight").next();
  const exemplars: Exemplar[] = [];
  const kept = stream("exemplars");
  for (let number = 0; number < head.exemplars; number++) {
    exemplars.push({
      start: kept.signed() + head.offset_ns,
      latency: kept.next(),
      size: kept.optional(),
      offset: kept.optional(),
      pid: kept.optional(),
      combination: kept.next(),
    });
  }
  return { head, values, cube, totals, sums, inFlight, exemplars, events: stream("events").next() };
}

const STREAMS = [
  "combinations", "cube_lengths", "cube_rows", "cube_combinations", "cube_counts", "total_lengths", "total_buckets",
  "total_counts", "sums", "bytes", "in_flight", "exemplars", "events",
] as const;

function entries(columns: number, lengths: Reader, rows: Reader, counts: Reader, combinations: Reader | null): Entries {
  const starts = new Uint32Array(columns + 1);
  for (let column = 0; column < columns; column++) starts[column + 1] = (starts[column] as number) + lengths.next();
  const length = starts[columns] as number;
  const read: Entries = {
    starts,
    rows: new Uint16Array(length),
    combinations: new Uint32Array(combinations ? length : 0),
    counts: new Float64Array(length),
  };
  let entry = 0;
  for (let column = 0; column < columns; column++) {
    let row = 0;
    let next = 0;
    for (; entry < (starts[column + 1] as number); entry++) {
      const delta = rows.next();
      if (delta > 0) next = 0;
      row += delta;
      read.rows[entry] = row;
      read.counts[entry] = counts.next() + 1;
      if (combinations) {
        const combination = next + combinations.next();
        read.combinations[entry] = combination;
        next = combination + 1;
      }
    }
  }
  return read;
}

function readSums(head: Head, cube: Entries, totals: Entries, latency: Reader, bytes: Reader): Data["sums"] {
  const grid = new Grid(Math.log2(head.rows_per_octave));
  const middleOf = Float64Array.from({ length: FINE.buckets }, (_, bucket) => FINE.middle(bucket));
  const rowOf = Uint16Array.from({ length: FINE.buckets }, (_, bucket) => grid.index(FINE.lower(bucket)));
  const starts = new Uint32Array(head.columns + 1);
  const { length } = cube.rows;
  const read = { rows: new Uint16Array(length), starts, latency: new Float64Array(length), bytes: new Float64Array(length) };
  const middles = new Float64Array(grid.buckets);
  let cell = 0;
  for (let column = 0; column < head.columns; column++) {
    for (let entry = totals.starts[column] as number; entry < (totals.starts[column + 1] as number); entry++) {
      const bucket = totals.rows[entry] as number;
      const row = rowOf[bucket] as number;
      middles[row] = (middles[row] as number) + (middleOf[bucket] as number) * (totals.counts[entry] as number);
    }
    let last = -1;
    for (let entry = cube.starts[column] as number; entry < (cube.starts[column + 1] as number); entry++) {
      const row = cube.rows[entry] as number;
      if (row === last) continue;
      last = row;
      read.rows[cell] = row;
      read.latency[cell] = (middles[row] as number) + latency.signed();
      read.bytes[cell++] = bytes.next();
      middles[row] = 0;
    }
    starts[column + 1] = cell;
  }
  return { rows: read.rows.slice(0, cell), starts, latency: read.latency.slice(0, cell), bytes: read.bytes.slice(0, cell) };
}
