// What the program found unusual in the trace, as boxes of whole cells.

import type { Spot } from "../capture-file/decode.ts";
import { duration, percent } from "../view/format.ts";
import type { Cells, Cube } from "./cube.ts";

/** The cells that hold a spot. */
export function cellsOfSpot(cube: Cube, spot: Spot): Cells {
  const clamp = (value: number, low: number, high: number): number => Math.min(Math.max(value, low), high);
  const from = clamp(Math.floor(cube.column(spot.time[0])), 0, cube.columns - 1);
  const low = clamp(Math.floor(cube.grid.place(spot.latency[0])), 0, cube.lastRow - 1);
  return {
    columns: [from, clamp(Math.ceil(cube.column(spot.time[1])), from + 1, cube.columns)],
    rows: [low, clamp(Math.ceil(cube.grid.place(spot.latency[1])), low + 1, cube.lastRow + 1)],
  };
}

/** What a spot is, in a line. */
export function spotText(spot: Spot, waiting: number): string {
  const kind = spot.period === null ? spot.kind : `every ${duration(spot.period)}`;
  const values = Object.values(spot.values);
  const where = values.length > 0 ? `${values.join(" ")}, ` : "";
  return `${kind}: ${where}median ${duration(spot.median)}, ${percent(waiting > 0 ? spot.waiting / waiting : 0)} of all waiting`;
}
