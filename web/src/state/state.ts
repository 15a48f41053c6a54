// All that can be chosen, as plain data, and how it changes.

import type { Filter } from "../series/cube.ts";

export type Weight = "events" | "time" | "bytes" | "share" | "difference";
export type Tab = "lines" | "contour" | "surface" | "groups" | "distribution";
export type Theme = "system" | "light" | "dark";

/** A box: from and up to (without) these moments since the start and latencies, nanoseconds. */
export interface Box {
  time: [number, number];
  latency: [number, number];
}

/** A percentile that should stay below a latency, nanoseconds. */
export interface Limit {
  quantile: number;
  value: number;
}

export interface State extends Filter {
  /** What is in view; null: all. */
  x: [number, number] | null;
  y: [number, number] | null;
  weight: Weight;
  a: Box | null;
  b: Box | null;
  quantile: number;
  limit: Limit | null;
  tab: Tab;
  by: string;
  lines: boolean;
  wall: boolean;
  utc: boolean;
  theme: Theme;
  table: boolean;
  /** Highest value of the colours, if they are locked. */
  lock: number | null;
  /** Of the surface: turn and height, degrees. */
  camera: [number, number];
  /** What this version does not know and keeps. */
  unknown: [string, string][];
}

export const INITIAL: State = {
  x: null, y: null, weight: "events", a: null, b: null, quantile: 0.999, limit: null, tab: "contour", by: "", lines: true, wall: false, utc: false,
  theme: "system", table: false, lock: null, camera: [-17, 31], is: {}, not: {}, unknown: [],
};

export type Action =
  | { do: "set"; change: Partial<State> }
  | { do: "keep" | "exclude"; name: string; key: string }
  | { do: "drop"; kind: "is" | "not"; name: string }
  | { do: "escape" }
  | { do: "whole" };

/** The state after an action; never changes the one before. */
export function reduce(state: State, action: Action): State {
  switch (action.do) {
    case "set":
      return { ...state, ...action.change };
    case "keep":
      return toggle(state, "is", action.name, action.key);
    case "exclude":
      return toggle(state, "not", action.name, action.key);
    case "drop": {
      const { [action.name]: _, ...rest } = state[action.kind];
      return { ...state, [action.kind]: rest };
    }
    case "escape":
      if (state.b) return { ...state, b: null };
      if (state.a) return { ...state, a: null };
      return { ...state, x: null, y: null };
    case "whole":
      return { ...state, x: null, y: null, a: null, b: null, is: {}, not: {}, limit: null };
  }
}

function toggle(state: State, kind: "is" | "not", name: string, key: string): State {
  const listed = state[kind][name] ?? [];
  const keys = listed.includes(key) ? listed.filter((known) => known !== key) : [...listed, key];
  const { [name]: _, ...rest } = state[kind];
  return { ...state, [kind]: keys.length > 0 ? { ...rest, [name]: keys } : rest };
}
