// The percentiles of all hosts over the last minutes. What is not complete is hatched.

import { duration, logTicks } from "../view/format.ts";
import type { Interval } from "./api.ts";

const [LEFT, TOP, BOTTOM, HEIGHT] = [52, 8, 20, 190];

function svg(tag: string, attributes: Record<string, string | number>, text = ""): SVGElement {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.textContent = text;
  return element;
}

/** Draws so many steps of this width, nanoseconds, up to the last one. */
export function chart(intervals: Interval[], widthNs: number, steps: number, columns: number): SVGElement {
  const picture = svg("svg", { role: "img", viewBox: `0 0 ${columns} ${HEIGHT}` });
  const last = intervals.at(-1);
  if (!last) return picture;
  const right = columns - 8;
  const step = (right - LEFT) / steps;
  const x = (one: Interval): number => right - (Math.round((last.time_ns - one.time_ns) / widthNs) + 1) * step;
  const values = intervals.flatMap((one) => [one.groups[0]?.p50_ns, one.groups[0]?.p99_ns]).filter((value): value is number => (value ?? 0) > 0);
  const [low, high] = [Math.min(1e6, ...values) / 1.2, Math.max(1e5, ...values) * 1.2];
  const y = (value: number): number => TOP + (HEIGHT - TOP - BOTTOM) * (1 - Math.log(Math.max(value, low) / low) / Math.log(high / low));
  const pattern = svg("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
  pattern.append(svg("line", { class: "hatch", x1: 0, y1: 0, x2: 0, y2: 6 }));
  const definitions = svg("defs", {});
  definitions.append(pattern);
  picture.append(definitions);
  const all = logTicks(low, high);
  const ticks = all.length > 6 ? all.filter((tick) => /^1e/.test(tick.toExponential())) : all;
  for (const tick of ticks) {
    picture.append(svg("line", { class: "grid", x1: LEFT, x2: right, y1: y(tick), y2: y(tick) }), svg("text", { x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, duration(tick)));
  }
  const area = (one: Interval, more: Record<string, string>): SVGElement => svg("rect", { x: x(one), y: TOP, width: Math.max(step, 1.5), height: HEIGHT - TOP - BOTTOM, ...more });
  for (const one of intervals) {
    if (!one.is_closed) picture.append(area(one, { class: "open" }));
    else if (one.missing.length > 0) picture.append(area(one, { class: "lacks", fill: "url(#hatch)" }));
    if ((one.waiting?.[0]?.oldest_ns ?? 0) > 1e9) picture.append(svg("rect", { class: "waits", x: x(one), y: HEIGHT - BOTTOM, width: Math.max(step, 1.5), height: 4 }));
  }
  for (const name of ["p50", "p99"] as const) {
    let path = "";
    let before = Number.NaN;
    for (const one of intervals) {
      const value = one.groups[0]?.[`${name}_ns`];
      if (value === undefined) continue;
      const joins = Math.round((one.time_ns - before) / widthNs) === 1;
      path += `${joins ? "L" : "M"}${x(one).toFixed(1)} ${y(value).toFixed(1)}h${step.toFixed(1)}`;
      before = one.time_ns;
    }
    picture.append(svg("path", { class: name, d: path }));
  }
  for (const share of columns < 500 ? [0, 1] : [0, 0.5, 1]) {
    const date = new Date((last.time_ns - (1 - share) * (steps - 1) * widthNs) / 1e6);
    const anchor = ["start", "middle", "end"][share * 2] as string;
    picture.append(svg("text", { x: LEFT + share * (right - LEFT), y: HEIGHT - 5, "text-anchor": anchor }, date.toLocaleTimeString([], { hour12: false })));
  }
  return picture;
}
