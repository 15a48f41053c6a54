// The edges of a box, to move and to resize it.

import type { Cells } from "../series/cube.ts";
import { xOf, yOf } from "../view/paint.ts";
import { cellsOf } from "../view/scene.ts";
import type { App } from "./app.ts";
import { mapInPlots } from "./overlay.ts";

/** Half of the width of a handle, in CSS pixels, and the size of the letter of a box, which moves it. */
const HANDLE_PX = 5;
const LETTER_PX = 15;

/** Which sides of a box are taken: its start and end in time, its lower and upper latency. All of them move it. */
export interface Grip {
  second: boolean;
  cells: Cells;
  sides: [boolean, boolean, boolean, boolean];
}

/** What of a box lies at a place of the pictures. */
export function gripAt(app: App, x: number, y: number): Grip | null {
  const area = mapInPlots(app);
  if (!area) return null;
  for (const second of [true, false]) {
    const box = second ? app.state.b : app.state.a;
    if (!box) continue;
    const cells = cellsOf(app.scene.cube, box);
    const [left, right] = cells.columns.map((column) => xOf(app.scene, area, column)) as [number, number];
    const [bottom, top] = cells.rows.map((row) => yOf(app.scene, area, row)) as [number, number];
    if (x < left - HANDLE_PX || x > right + HANDLE_PX || y < top - HANDLE_PX || y > bottom + HANDLE_PX) continue;
    if (x >= left + HANDLE_PX && x <= left + LETTER_PX && y >= top + HANDLE_PX && y <= top + LETTER_PX) return { second, cells, sides: [true, true, true, true] };
    const near = (one: number, other: number): boolean => Math.abs(one - other) <= HANDLE_PX;
    const sides: Grip["sides"] = [near(x, left), near(x, right), near(y, bottom), near(y, top)];
    // Of a box that is only a cell, not both sides at once.
    if (sides[0] && sides[1]) sides[0] = false;
    if (sides[2] && sides[3]) sides[2] = false;
    if (sides.some(Boolean)) return { second, cells, sides };
  }
  return null;
}

/** The cursor that shows what a grip does. */
export function cursorOf(grip: Grip | null): string {
  if (!grip) return "";
  const [from, to, low, high] = grip.sides;
  if (from && to) return "move";
  if (!low && !high) return "ew-resize";
  if (!from && !to) return "ns-resize";
  return (from && high) || (to && low) ? "nwse-resize" : "nesw-resize";
}

/** The cells of a box whose taken sides moved by so many columns and rows, to whole bins of the map. */
export function moved(app: App, grip: Grip, columns: number, rows: number): Cells {
  const { scene } = app;
  const [from, to, low, high] = grip.sides;
  const isWhole = from && to;
  const nearest = (edges: number[], at: number): number => edges.reduce((best, edge) => (Math.abs(edge - at) < Math.abs(best - at) ? edge : best));
  const range = ([start, end]: [number, number], by: number, edges: number[], isStart: boolean, isEnd: boolean): [number, number] => {
    if (isWhole) {
      const shift = nearest(edges, start + by) - nearest(edges, start);
      return [start + shift, end + shift];
    }
    const [one, other] = [isStart ? nearest(edges, start + by) : start, isEnd ? nearest(edges, end + by) : end];
    return one < other ? [one, other] : [start, end];
  };
  return { columns: range(grip.cells.columns, columns, scene.columnEdges, from, to), rows: range(grip.cells.rows, rows, scene.rowEdges, low, high) };
}
