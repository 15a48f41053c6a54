// One cube of two: what a live page has, and what has come since. Counts add up, so nothing depends on how turns were cut.

import type { Attribute, Data, Entries, Value } from "../capture-file/decode.ts";

/** Most slow events that are kept. */
const EXEMPLARS = 2000;

/** The data of both. The head is that of the newer ones, but for columns and attributes. Columns must be equally wide. */
export function merged(known: Data, more: Data): Data {
  if (known.head.columns === 0) return more;
  if (more.head.columns === 0) return { ...known, head: { ...more.head, ...shape(known) } };
  if (known.head.width_ns !== more.head.width_ns) throw new Error("columns of different widths cannot be merged");
  const { attributes, values, moved, combinations } = mergedCombinations(known, more);
  const first = Math.min(known.head.first_column, more.head.first_column);
  const end = Math.max(known.head.first_column + known.head.columns, more.head.first_column + more.head.columns);
  const places: Places = { columns: end - first, known: known.head.first_column - first, more: more.head.first_column - first };
  const later = Number(BigInt(known.head.trace_start_ns) - BigInt(more.head.trace_start_ns));
  const own = known.exemplars.map((exemplar) => ({ ...exemplar, start: exemplar.start + later }));
  const others = more.exemplars.map((exemplar) => ({ ...exemplar, combination: moved[exemplar.combination] as number }));
  const exemplars = [...own, ...others].sort((one, other) => other.latency - one.latency).slice(0, EXEMPLARS);
  const offset = first === more.head.first_column ? more.head.offset_ns : known.head.offset_ns + later;
  const head = {
    ...more.head, first_column: first, columns: places.columns, offset_ns: offset, attributes, combinations, exemplars: exemplars.length,
  };
  return {
    head,
    values,
    cube: mergedEntries(known.cube, more.cube, places, moved),
    totals: mergedEntries(known.totals, more.totals, places, null),
    sums: mergedSums(known.sums, more.sums, places),
    inFlight: mergedInFlight(known.inFlight, more.inFlight, places),
    exemplars,
    events: known.events + more.events,
  };
}

/** What in a head describes the streams. */
function shape({ head }: Data) {
  const { first_column, columns, offset_ns, width_ns, trace_start_ns, attributes, combinations, exemplars } = head;
  return { first_column, columns, offset_ns, width_ns, trace_start_ns, attributes, combinations, exemplars };
}

/** How many columns there are, and where the columns of each begin among them. */
interface Places {
  columns: number;
  known: number;
  more: number;
}

/** The attributes of both with the values of both; combinations of the newer data get the numbers in `moved`. */
function mergedCombinations(known: Data, more: Data) {
  const names = [...known.head.attributes, ...more.head.attributes.filter(({ name }) => !find(known, name))];
  const columns = names.map((attribute) => {
    const listed: Value[] = [...(find(known, attribute.name)?.values ?? [])];
    const numbers = new Map(listed.map((value, at) => [JSON.stringify(value), at]));
    const number = (value: Value): number => {
      const key = JSON.stringify(value);
      const at = numbers.get(key) ?? listed.push(value) - 1;
      numbers.set(key, at);
      return at;
    };
    const of = (data: Data): number[] => {
      const at = data.head.attributes.findIndex(({ name }) => name === attribute.name);
      if (at < 0) return new Array(data.head.combinations).fill(number(null)) as number[];
      const renumbered = (data.head.attributes[at] as Attribute).values.map(number);
      return Array.from(data.values[at] as Uint32Array, (value) => renumbered[value] as number);
    };
    return { attribute: { ...attribute, values: listed }, known: of(known), more: of(more) };
  });
  const key = (side: "known" | "more", at: number): string => columns.map((column) => column[side][at]).join(",");
  const numbers = new Map<string, number>();
  for (let at = 0; at < known.head.combinations; at++) numbers.set(key("known", at), at);
  let combinations = known.head.combinations;
  const moved = new Uint32Array(more.head.combinations);
  const added: number[] = [];
  for (let at = 0; at < moved.length; at++) {
    const name = key("more", at);
    const number = numbers.get(name) ?? combinations++;
    if (!numbers.has(name)) added.push(at);
    numbers.set(name, number);
    moved[at] = number;
  }
  const values = columns.map((column) => Uint32Array.from([...column.known, ...added.map((at) => column.more[at] as number)]));
  return { attributes: columns.map(({ attribute }) => attribute), values, moved, combinations };
}

function find(data: Data, name: string): Attribute | undefined {
  return data.head.attributes.find((attribute) => attribute.name === name);
}

/** Counts by row and combination of both, column by column, in the order of the file. */
function mergedEntries(known: Entries, more: Entries, places: Places, moved: Uint32Array | null): Entries {
  const starts = new Uint32Array(places.columns + 1);
  const rows: number[] = [];
  const combinations: number[] = [];
  const counts: number[] = [];
  const cells = new Map<number, number>();
  const add = (entries: Entries, column: number, renumber: Uint32Array | null): void => {
    if (column < 0 || column + 1 >= entries.starts.length) return;
    for (let entry = entries.starts[column] as number; entry < (entries.starts[column + 1] as number); entry++) {
      const own = moved ? (entries.combinations[entry] as number) : 0;
      const cell = (entries.rows[entry] as number) * 2 ** 32 + (renumber ? (renumber[own] as number) : own);
      cells.set(cell, (cells.get(cell) ?? 0) + (entries.counts[entry] as number));
    }
  };
  for (let column = 0; column < places.columns; column++) {
    cells.clear();
    add(known, column - places.known, null);
    add(more, column - places.more, moved);
    for (const cell of [...cells.keys()].sort((one, other) => one - other)) {
      rows.push(Math.floor(cell / 2 ** 32));
      if (moved) combinations.push(cell % 2 ** 32);
      counts.push(cells.get(cell) as number);
    }
    starts[column + 1] = rows.length;
  }
  return { starts, rows: Uint16Array.from(rows), combinations: Uint32Array.from(combinations), counts: Float64Array.from(counts) };
}

function mergedSums(known: Data["sums"], more: Data["sums"], places: Places): Data["sums"] {
  const starts = new Uint32Array(places.columns + 1);
  const rows: number[] = [];
  const latency: number[] = [];
  const bytes: number[] = [];
  const cells = new Map<number, [number, number]>();
  const add = (sums: Data["sums"], column: number): void => {
    if (column < 0 || column + 1 >= sums.starts.length) return;
    for (let entry = sums.starts[column] as number; entry < (sums.starts[column + 1] as number); entry++) {
      const [time, size] = cells.get(sums.rows[entry] as number) ?? [0, 0];
      cells.set(sums.rows[entry] as number, [time + (sums.latency[entry] as number), size + (sums.bytes[entry] as number)]);
    }
  };
  for (let column = 0; column < places.columns; column++) {
    cells.clear();
    add(known, column - places.known);
    add(more, column - places.more);
    for (const row of [...cells.keys()].sort((one, other) => one - other)) {
      const [time, size] = cells.get(row) as [number, number];
      rows.push(row);
      latency.push(time);
      bytes.push(size);
    }
    starts[column + 1] = rows.length;
  }
  return { rows: Uint16Array.from(rows), starts, latency: Float64Array.from(latency), bytes: Float64Array.from(bytes) };
}

function mergedInFlight(known: Float64Array, more: Float64Array, places: Places): Float64Array {
  const all = new Float64Array(places.columns);
  known.forEach((ns, at) => (all[at + places.known] = ns));
  more.forEach((ns, at) => (all[at + places.more] = (all[at + places.more] as number) + ns));
  return all;
}
