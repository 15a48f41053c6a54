// The state in the address, after the `#`. Defaults are left out; what is not understood is kept or ignored, never an error.

import { INITIAL, type Box, type Limit, type State, type Tab, type Theme, type Weight } from "./state.ts";

const VERSION = 1;
/** Longer addresses are cut: somebody may paste anything. */
const LONGEST = 50_000;
const WEIGHTS: Weight[] = ["events", "time", "bytes", "share", "difference"];
const TABS: Tab[] = ["lines", "contour", "surface", "groups", "distribution"];
const THEMES: Theme[] = ["system", "light", "dark"];

export function toHash(state: State): string {
  const pairs: [string, string][] = [["v", String(VERSION)]];
  const add = (name: string, value: string, initial: string): void => void (value !== initial && pairs.push([name, value]));
  const box = (box: Box | null): string => (box ? [...box.time, ...box.latency].join("~") : "");
  add("x", state.x?.join("~") ?? "", "");
  add("y", state.y?.join("~") ?? "", "");
  add("w", state.weight, INITIAL.weight);
  for (const kind of ["is", "not"] as const) {
    for (const name of Object.keys(state[kind]).sort()) {
      for (const key of state[kind][name] ?? []) pairs.push([`${kind}.${name}`, key]);
    }
  }
  add("A", box(state.a), "");
  add("B", box(state.b), "");
  add("q", String(Number((state.quantile * 100).toPrecision(6))), "99.9");
  add("limit", state.limit ? `${state.limit.quantile}~${state.limit.value}` : "", "");
  add("tab", state.tab, INITIAL.tab);
  add("by", state.by, "");
  add("pl", state.lines ? "1" : "0", "1");
  add("clock", state.wall ? (state.utc ? "utc" : "wall") : "", "");
  add("th", state.theme, INITIAL.theme);
  add("table", state.table ? "1" : "", "");
  add("lock", state.lock === null ? "" : String(state.lock), "");
  add("cam", state.camera.join("~"), INITIAL.camera.join("~"));
  pairs.push(...state.unknown);
  return `#${pairs.map(([name, value]) => `${encode(name)}=${encode(value)}`).join("&")}`;
}

function encode(text: string): string {
  // A surrogate that stands alone has no encoding.
  return encodeURIComponent(text.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "\ufffd")).replace(/%2F/g, "/");
}

/** The text of percent signs, or null where they make none. */
function decode(text: string): string | null {
  try {
    return decodeURIComponent(text.replace(/\+/g, "%2B"));
  } catch {
    return null;
  }
}

/** The state of an address, and whether it is of a later version. */
export function fromHash(hash: string): { state: State; isNewer: boolean } {
  const state: State = { ...INITIAL, is: {}, not: {}, unknown: [] };
  let isNewer = false;
  for (const pair of hash.replace(/^#/, "").slice(0, LONGEST).split("&")) {
    const at = pair.indexOf("=");
    const [name, value] = [decode(pair.slice(0, Math.max(at, 0))), decode(pair.slice(at + 1))];
    if (at < 1 || name === null || value === null) continue;
    if (name === "v") isNewer = Number(value) > VERSION;
    else take(state, name, value);
  }
  return { state, isNewer };
}

function take(state: State, name: string, value: string): void {
  const list = /^(is|not)\.(.+)$/s.exec(name);
  if (list) {
    const [kind, attribute] = [list[1] as "is" | "not", list[2] as string];
    if (attribute === "__proto__") return;
    const keys = Object.hasOwn(state[kind], attribute) ? (state[kind][attribute] as string[]) : [];
    if (!keys.includes(value)) state[kind][attribute] = [...keys, value];
    return;
  }
  switch (name) {
    case "x": state.x = range(value, true); break;
    case "y": state.y = range(value, false); break;
    case "w": state.weight = WEIGHTS.find((known) => known === value) ?? state.weight; break;
    case "A": state.a = box(value); break;
    case "B": state.b = box(value); break;
    case "q": state.quantile = Number(Math.min(Math.max(finite(value, 99.9) / 100, 0.5), 0.9999).toPrecision(8)); break;
    case "limit": state.limit = limit(value); break;
    case "tab": state.tab = TABS.find((known) => known === value) ?? state.tab; break;
    case "by": state.by = value; break;
    case "pl": state.lines = value !== "0"; break;
    case "clock": [state.wall, state.utc] = [value === "wall" || value === "utc", value === "utc"]; break;
    case "th": state.theme = THEMES.find((known) => known === value) ?? state.theme; break;
    case "table": state.table = value === "1"; break;
    case "lock": state.lock = finite(value, 0) > 0 ? finite(value, 0) : null; break;
    case "cam": state.camera = camera(value); break;
    // The token of a live page.
    case "k": break;
    default: state.unknown.push([name, value]);
  }
}

function finite(text: string, otherwise: number): number {
  const value = text.trim() === "" ? NaN : Number(text);
  return Number.isFinite(value) && Math.abs(value) <= 2 ** 64 ? value : otherwise;
}

function numbers(text: string, length: number): number[] | null {
  const values = text.split("~").map((part) => finite(part, NaN));
  return values.length === length && values.every(Number.isFinite) ? values : null;
}

function range(text: string, mayBeNegative: boolean): [number, number] | null {
  const values = numbers(text, 2);
  if (!values) return null;
  const [from, to] = [values[0] as number, values[1] as number];
  return from < to && (mayBeNegative || from >= 0) ? [from, to] : null;
}

function box(text: string): Box | null {
  const values = numbers(text, 4);
  if (!values) return null;
  const [from, to, low, high] = values as [number, number, number, number];
  return from < to && low < high && low >= 0 ? { time: [from, to], latency: [low, high] } : null;
}

function limit(text: string): Limit | null {
  const [quantile, value] = numbers(text, 2) ?? [0, 0];
  return (quantile as number) > 0 && (quantile as number) < 1 && (value as number) > 0 ? { quantile: quantile as number, value: value as number } : null;
}

function camera(text: string): [number, number] {
  const [turn, height] = numbers(text, 2) ?? INITIAL.camera;
  return [((turn as number) % 360), Math.min(Math.max(height as number, 3), 80)];
}
