// Two traces of one page against each other: where which of them has a larger share of its events.

import type { Cells, Cube, Prefix } from "./cube.ts";

/** Fewer events in both are no difference. */
const FEWEST = 5;
/** The logarithm of the ratio of shares is cut there. */
export const MOST = 4;

/** Two traces, the second on the time of the first. */
export interface Pair {
  names: [string, string];
  prefixes: [Prefix, Prefix];
  totals: [number, number];
  /** Columns that the second one starts later. */
  shift: number;
}

/** The first two traces of a page, with what passes; null where there is one only. */
export function pairOf(cube: Cube, passes: Uint8Array): Pair | null {
  const { head, values } = cube.data;
  const attribute = head.attributes.findIndex(({ kind }) => kind === "trace");
  const numbers = values[attribute];
  const names = head.attributes[attribute]?.values ?? [];
  if (!numbers || names.length < 2) return null;
  const prefixes = [0, 1].map((number) => cube.prefix(passes.map((passes, combination) => (numbers[combination] === number ? passes : 0)))) as Pair["prefixes"];
  const totals = prefixes.map((prefix) => prefix.sum(prefix.counts, { columns: [0, cube.columns], rows: [0, Infinity] })) as Pair["totals"];
  const start = (number: number): number => head.traces?.find(({ name }) => name === names[number])?.start ?? 0;
  return { names: [String(names[0]), String(names[1])], prefixes, totals, shift: Math.round((start(1) - start(0)) / head.width_ns) };
}

/** Events of both traces in the same cells, each counted from its own start. */
export function bothOf(pair: Pair, columns: number, cells: Cells): [number, number] {
  const [one, other] = pair.prefixes;
  const later = cells.columns.map((column) => Math.min(Math.max(column + pair.shift, 0), columns)) as [number, number];
  return [one.sum(one.counts, cells), other.sum(other.counts, { columns: later, rows: cells.rows })];
}

/** The logarithm to base 2 of the second share over the first, at most MOST; Infinity where there are too few, NaN where nothing is. */
export function ratio(pair: Pair, [one, other]: [number, number]): number {
  if (one + other === 0) return NaN;
  if (one < FEWEST && other < FEWEST) return Infinity;
  const shares = [one / Math.max(pair.totals[0], 1), other / Math.max(pair.totals[1], 1)] as [number, number];
  return Math.min(Math.max(Math.log2(shares[1] / shares[0]), -MOST), MOST);
}

/** The ratios of all cells, row by row. */
export function ratios(pair: Pair, columns: number, columnEdges: number[], rowEdges: number[]): Float64Array {
  const bins = columnEdges.length - 1;
  const found = new Float64Array(bins * (rowEdges.length - 1));
  for (let cell = 0; cell < found.length; cell++) {
    const [bin, line] = [cell % bins, Math.floor(cell / bins)];
    const cells: Cells = { columns: [columnEdges[bin] as number, columnEdges[bin + 1] as number], rows: [rowEdges[line] as number, rowEdges[line + 1] as number] };
    found[cell] = ratio(pair, bothOf(pair, columns, cells));
  }
  return found;
}
