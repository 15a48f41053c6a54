// Call stacks of some events, merged from the root, as `latscope flamegraph` merges them.

import type { Data, Value } from "../capture-file/decode.ts";
import type { Weights } from "./cube.ts";

export type Kind = "user" | "kernel" | "jit" | "inlined" | "python" | "field" | "others";

export interface Sum {
  events: number;
  /** Latencies, nanoseconds. */
  time: number;
}

export interface Node extends Sum {
  name: string;
  kind: Kind;
  children: Map<string, Node>;
}

export interface Stacks {
  root: Node;
  /** What has no stack, and is in no node. */
  without: Sum;
  /** As many events of equal weight would give shares of events and of time as exact as these. */
  samples: Sum;
}

const SUFFIXES: [string, Kind][] = [["_[k]", "kernel"], ["_[j]", "jit"], ["_[i]", "inlined"]];
/** Deeper frames are not drawn. */
const DEPTH = 512;

/** The name and kind of a frame as the text of a stack has it. */
export function frame(text: string): { name: string; kind: Kind } {
  for (const [suffix, kind] of SUFFIXES) if (text.endsWith(suffix)) return { name: text.slice(0, -suffix.length), kind };
  return { name: text, kind: text.startsWith("py::") ? "python" : "user" };
}

const CALLS = "p?readv?|p?writev?|preadv2|pwritev2|preadv64v2|pwritev64v2|preadv?64|pwritev?64|open(at)?(64)?|f(data)?sync|sync(fs|_file_range)?|close|syscall|ioctl|poll|epoll_wait|io_getevents|io_submit|(clock_)?nanosleep|fallocate|copy_file_range";
/** What only leads from the program into the kernel, or has no name, as the program has it. */
const PLUMBING = new RegExp(`^(\\[|--$|0x|libc\\.so|libpthread|(__libc_|__GI___|__GI_|___|__)?(libc_)?((internal_)?syscall_cancel|(${CALLS})(_nocancel)?(@.*)?$))`);

/** The place of the innermost function of the program in these frames, -1 if there are none. */
function placeOf(frames: { name: string; kind: Kind }[]): number {
  const last = (test: (frame: { name: string; kind: Kind }) => boolean) => frames.map(test).lastIndexOf(true);
  const own = last(({ name, kind }) => kind !== "kernel" && !PLUMBING.test(name));
  return own >= 0 ? own : Math.max(last(({ kind }) => kind !== "kernel"), Math.min(0, frames.length - 1));
}

const framesOf = (stack: string) => stack.split(";").filter((text) => text !== "").map(frame);

/** The innermost function of a stack that is the program's; for labels. */
export function innermost(stack: string): string {
  const frames = framesOf(stack);
  return frames[placeOf(frames)]?.name ?? "(empty)";
}

/**
 * A label for each of these stacks: the innermost function, and where several have the same, what tells them apart: who called it
 * (`<`), and what it called (`>`), as far as they differ.
 */
export function distinct(stacks: string[]): Map<string, string> {
  const labels = new Map<string, string>();
  const split = (group: [string, string[]][], depth: number) => {
    const next = new Map<string, [string, string[]][]>();
    for (const one of group) {
      const step = one[1][depth] ?? "";
      next.set(step, [...(next.get(step) ?? []), one]);
    }
    for (const [step, members] of next) {
      for (const [stack] of next.size > 1 || depth === 0 ? members : []) labels.set(stack, (labels.get(stack) ?? "") + step);
      if (members.length > 1 && depth < DEPTH) split(members, depth + 1);
    }
  };
  const path = (stack: string): [string, string[]] => {
    const frames = framesOf(stack);
    const at = placeOf(frames);
    const named = (sign: string) => ({ name }: { name: string }) => ` ${sign} ${name}`;
    const callers = frames.slice(0, Math.max(at, 0)).reverse().map(named("<"));
    return [stack, [frames[at]?.name ?? "(empty)", ...callers, ...frames.slice(at + 1).map(named(">"))]];
  };
  split([...new Set(stacks)].map(path), 0);
  return labels;
}

/** The stacks of combinations with these weights; `by` are attributes between the root and the code. */
export function stacks(data: Data, weights: Weights, by: string[], label: (attribute: number, value: Value) => string): Stacks {
  const names = data.head.attributes.map(({ name }) => name);
  const stack = names.indexOf("stack");
  const values = data.head.attributes[stack]?.values ?? [];
  const fields = by.map((name) => names.indexOf(name)).filter((attribute) => attribute >= 0);
  const root: Node = { name: "all", kind: "field", events: 0, time: 0, children: new Map() };
  const without: Sum = { events: 0, time: 0 };
  let squares = 0;
  const split = new Map<number, string[]>();
  for (let combination = 0; combination < weights.events.length; combination++) {
    const [events, time] = [weights.events[combination] as number, weights.time[combination] as number];
    if (events === 0) continue;
    const number = (data.values[stack] as Uint32Array)[combination] as number;
    const value = values[number] as Value;
    if (value === null) {
      without.events += events;
      without.time += time;
      continue;
    }
    squares += weights.squares[combination] as number;
    let node = root;
    const step = (key: string, name: string, kind: Kind): void => {
      node.events += events;
      node.time += time;
      let child = node.children.get(key);
      if (!child) node.children.set(key, (child = { name, kind, events: 0, time: 0, children: new Map() }));
      node = child;
    };
    for (const attribute of fields) {
      const found = data.head.attributes[attribute]?.values[(data.values[attribute] as Uint32Array)[combination] as number] as Value;
      const text = `${names[attribute]}=${label(attribute, found)}`;
      step(text, text, "field");
    }
    if (typeof value === "string") {
      let frames = split.get(number);
      if (!frames) split.set(number, (frames = value.split(";").filter((text) => text !== "").slice(0, DEPTH)));
      for (const text of frames) {
        const { name, kind } = frame(text);
        step(text, name, kind);
      }
    } else step("\0", "(other stacks)", "others");
    node.events += events;
    node.time += time;
  }
  return { root, without, samples: { events: root.events, time: squares > 0 ? root.time ** 2 / squares : 0 } };
}

/** The weights without the events that have one of these values of an attribute. */
export function except(data: Data, weights: Weights, name: string, values: ReadonlySet<Value>): Weights {
  const attribute = data.head.attributes.findIndex((one) => one.name === name);
  if (attribute < 0 || values.size === 0) return weights;
  const isOut = (data.head.attributes[attribute]?.values ?? []).map((value) => values.has(value));
  const numbers = data.values[attribute] as Uint32Array;
  const kept = (sums: Float64Array): Float64Array => sums.map((sum, combination) => (isOut[numbers[combination] as number] ? 0 : sum));
  return { events: kept(weights.events), time: kept(weights.time), squares: kept(weights.squares) };
}

/** The 95 % interval of a share that so many samples gave (Wilson's). */
export function interval(share: number, samples: number): [number, number] {
  if (samples <= 0) return [0, 1];
  const z = 1.959963984540054;
  const centre = (share + (z * z) / (2 * samples)) / (1 + (z * z) / samples);
  const half = (z / (1 + (z * z) / samples)) * Math.sqrt((share * (1 - share)) / samples + (z * z) / (4 * samples * samples));
  return [Math.min(Math.max(centre - half, 0), share), Math.max(Math.min(centre + half, 1), share)];
}
