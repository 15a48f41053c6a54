// What is shown, as files.

import { lines } from "../series/percentiles.ts";
import { asked } from "../view/scene.ts";
import type { App } from "./app.ts";
import { save } from "./dom.ts";

/** The column of a quantile, as `percentiles --csv` calls it. */
function column(quantile: number): string {
  return `p${String(Number((quantile * 100).toPrecision(6))).replace(".", "_")}_ns`;
}

/** Start and width of the bin of a column, on the clock of the trace, which is beyond 2^53. At the edges a bin is whole here, too. */
function bin(app: App, column: number): string {
  const { head } = app.data;
  const number = head.first_column + column;
  const { perBin } = app.scene;
  return `${BigInt(number - (number % perBin)) * BigInt(head.width_ns)},${perBin * head.width_ns}`;
}

/** Percentiles of the bins in view: columns of `percentiles -i ... --count-by completion --csv`. */
export function percentilesCsv(app: App): string {
  const { scene } = app;
  const all = [...asked(scene)].sort();
  const found = lines(scene.cube, scene.prefix, scene.isFiltered, scene.columnEdges, all);
  const rows = found.values.flatMap((values, at) => {
    if (!values) return [];
    return [[bin(app, found.edges[at] as number), found.events[at], ...values].join(",")];
  });
  return `${["time_ns,width_ns,count", ...all.map(column)].join(",")}\n${rows.join("\n")}\n`;
}

/** The cells in view that are not empty. */
export function cellsCsv(app: App): string {
  const { scene } = app;
  const bins = scene.columnEdges.length - 1;
  const rows: string[] = [];
  for (let at = 0; at < bins; at++) {
    for (let line = 0; line + 1 < scene.rowEdges.length; line++) {
      const columns: [number, number] = [scene.columnEdges[at] as number, scene.columnEdges[at + 1] as number];
      const [low, high] = [scene.rowEdges[line] as number, scene.rowEdges[line + 1] as number];
      const cells = { columns, rows: [low, high] as [number, number] };
      const events = scene.prefix.sum(scene.prefix.counts, cells);
      if (events === 0) continue;
      const sums = [scene.prefix.latency, scene.prefix.bytes].map((sums) => Math.round(scene.prefix.sum(sums, cells)));
      rows.push([bin(app, columns[0]), scene.cube.grid.lower(low), scene.cube.grid.lower(high), events, ...sums].join(","));
    }
  }
  // Sums of a choice of values are shared out by count.
  const sums = ["sum_ns", "sum_bytes"].map((name) => (scene.isFiltered ? `estimated_${name}` : name));
  return `time_ns,width_ns,latency_from_ns,latency_below_ns,count,${sums.join()}\n${rows.join("\n")}\n`;
}

/** The rows of a CSV as JSON, an object per line: all of them are numbers, some beyond 2^53. */
export function jsonLines(csv: string): string {
  const [head, ...rows] = csv.trimEnd().split("\n").map((row) => row.split(","));
  return rows.map((row) => `{${row.map((value, at) => `"${head?.[at]}":${value}`).join(",")}}\n`).join("");
}

/** Saves what is in view. */
export function exportView(app: App, what: "percentiles" | "cells", format: "csv" | "json"): void {
  const csv = what === "cells" ? cellsCsv(app) : percentilesCsv(app);
  if (format === "csv") save(`${what}.csv`, "text/csv", csv);
  else save(`${what}.json`, "application/x-ndjson", jsonLines(csv));
}
