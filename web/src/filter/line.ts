// The filter line of the page: the part of the program's filter language that counts in the cube can answer.

import type { Attribute, Head, Value } from "../capture-file/decode.ts";
import { valueKey } from "../series/cube.ts";
import type { Limit, State } from "../state/state.ts";

/** What a line sets; a range of time or latency is what is in view. */
export type Line = Pick<State, "is" | "not" | "x" | "y" | "limit">;

const TIME = new Set(["time", "evt.reltime"]);
const LATENCY = new Set(["lat", "latency", "latency_ns", "evt.latency"]);
const KNOWN = "The page knows =, !=, <, <=, >, >=, in (…), and; `latscope report` takes every filter.";
const UNITS: Record<string, number> = {
  ns: 1, us: 1e3, ms: 1e6, s: 1e9, min: 60e9, h: 3600e9, d: 86_400e9,
  b: 1, k: 1024, kib: 1024, m: 1024 ** 2, mib: 1024 ** 2, g: 1024 ** 3, gib: 1024 ** 3, kb: 1e3, mb: 1e6, gb: 1e9,
};

/** A number with its unit. */
function quantity(text: string): number | null {
  const parts = /^(-?\d+(?:\.\d+)?)([a-z]*)$/i.exec(text);
  const unit = parts?.[2] ? UNITS[parts[2].toLowerCase()] : 1;
  return parts && unit !== undefined ? Number(parts[1]) * unit : null;
}

/** Words, quoted texts (with a leading quote), operators. */
function tokens(line: string): string[] {
  const all: string[] = [];
  const token = /\s*(?:"((?:[^"\\]|\\.)*)"|(<=|>=|!=|==|[<>=(),])|([^\s"<>=!(),]+))/y;
  for (let at = 0; line.slice(at).trim() !== ""; at = token.lastIndex) {
    token.lastIndex = at;
    const found = token.exec(line);
    if (!found) throw new Error(`This cannot be read: ${line.slice(at).trim()}`);
    all.push(found[1] === undefined ? (found[2] ?? (found[3] as string)) : `"${found[1].replace(/\\(.)/g, "$1")}`);
  }
  return all;
}

const plainWord = (token: string): string => (token.startsWith('"') ? token.slice(1) : token);

/** Whether a value fulfils a comparison with a number; an error where only a part of its range does. */
function compares(name: string, value: Value, operator: string, number: number): boolean {
  const range = typeof value === "number" ? [value, value] : Array.isArray(value) ? value : null;
  if (!range) return false;
  const test = (at: number): boolean =>
    operator === "<" ? at < number : operator === "<=" ? at <= number : operator === ">" ? at > number : operator === ">=" ? at >= number : at === number;
  const [low, high] = range as [number, number];
  const isBetween = operator === "=" && number >= low && number <= high && low !== high;
  if (isBetween || test(low) !== test(high)) throw new Error(`${name} is stored in ranges, and ${number} lies within one: ${low} to ${high}.`);
  return test(low);
}

/** The values of an attribute that fulfil a comparison, by their keys. */
function matching(attribute: Attribute, operator: string, token: string): string[] {
  const word = plainWord(token);
  const keys = attribute.values.map(valueKey);
  if (operator === "=" && keys.includes(word)) return [word];
  const number = attribute.kind === "text" ? null : quantity(word);
  if (number === null && operator !== "=") throw new Error(`${attribute.name} has no order: use = or in (…).`);
  const found = number === null ? [] : attribute.values.filter((value) => compares(attribute.name, value, operator, number)).map(valueKey);
  if (found.length === 0) throw new Error(`No event has ${attribute.name} ${operator} ${word}. Values: ${keys.slice(0, 6).join(", ")}${keys.length > 6 ? ", …" : ""}`);
  return found;
}

/** Reads a line. Throws an error with a sentence for whoever typed it. */
export function readLine(head: Head, text: string): Line {
  const line: Line = { is: {}, not: {}, x: null, y: null, limit: null };
  const all = tokens(text);
  let at = 0;
  const next = (): string => all[at++] ?? "";
  const restrict = (range: [number, number] | null, operator: string, value: number): [number, number] => {
    const [low, high] = range ?? [0, 2 ** 52];
    return operator.startsWith("<") ? [low, Math.min(high, value)] : [Math.max(low, value), high];
  };
  const term = (): void => {
    const name = plainWord(next());
    const operator = next().replace("==", "=");
    const isLatency = LATENCY.has(name);
    const percentile = /^p(\d+(?:\.\d+)?)$/.exec(name);
    if (isLatency || TIME.has(name) || percentile) {
      const value = quantity(plainWord(next()));
      if (!/^[<>]=?$/.test(operator) || value === null) throw new Error(`After ${name} there is < or > and a time, as in ${name} < 10ms.`);
      if (percentile) line.limit = limitOf(Number((Number(percentile[1]) / 100).toPrecision(8)), value, operator);
      else if (isLatency) line.y = restrict(line.y, operator, value);
      else line.x = restrict(line.x, operator, value);
      return;
    }
    const attribute = head.attributes.find((known) => known.name === name);
    if (!attribute) throw new Error(`This page cannot filter by ${name || "nothing"}. It has ${head.attributes.map((known) => known.name).join(", ")}, lat, time and p99.`);
    const isNot = operator === "!=";
    if (operator === "in") {
      const keys: string[] = [];
      if (next() !== "(") throw new Error(`After in there are values in parentheses: ${name} in (a, b).`);
      do keys.push(...matching(attribute, "=", next()));
      while (next() === ",");
      if (all[at - 1] !== ")") throw new Error("A parenthesis is not closed.");
      keep(name, keys);
    } else if (/^(!?=|[<>]=?)$/.test(operator)) {
      const keys = matching(attribute, isNot ? "=" : operator, next());
      if (isNot) line.not[name] = [...(line.not[name] ?? []), ...keys];
      else keep(name, keys);
    } else throw new Error(`${operator || "The end"} cannot follow ${name} here. ${KNOWN}`);
  };
  const keep = (name: string, keys: string[]): void => {
    const known = line.is[name];
    line.is[name] = known ? known.filter((key) => keys.includes(key)) : keys;
    if (line.is[name].length === 0) throw new Error(`No value of ${name} fulfils all of this.`);
  };
  while (at < all.length) {
    term();
    const word = next();
    if (word !== "" && word !== "and") throw new Error(`${word} is not understood. ${KNOWN}`);
    if (word === "and" && at === all.length) throw new Error("Something is missing after and.");
  }
  for (const range of [line.x, line.y]) if (range && range[0] >= range[1]) throw new Error("This range is empty.");
  return line;
}

/** A limit that percentiles should not exceed. */
function limitOf(quantile: number, value: number, operator: string): Limit {
  if (!operator.startsWith("<") || quantile < 0.01 || quantile >= 1 || value <= 0) throw new Error("A limit is a percentile below a time, as in p99 < 10ms.");
  return { quantile, value };
}

const word = (key: string): string => (/^[^\s"<>=!(),]+$/.test(key) && key !== "and" && key !== "in" ? key : `"${key.replace(/[\\"]/g, "\\$&")}"`);

/** What is kept and excluded as a line; ranges in view are not repeated. */
export function lineOf(state: Pick<State, "is" | "not" | "limit">): string {
  const kept = Object.entries(state.is).map(([name, keys]) => (keys.length === 1 ? `${name} = ${word(keys[0] as string)}` : `${name} in (${keys.map(word).join(", ")})`));
  const excluded = Object.entries(state.not).flatMap(([name, keys]) => keys.map((key) => `${name} != ${word(key)}`));
  const limit = state.limit ? [`p${Number((state.limit.quantile * 100).toPrecision(6))} < ${state.limit.value}ns`] : [];
  return [...kept, ...excluded, ...limit].join(" and ");
}
