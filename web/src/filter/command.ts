// What is chosen as the words of a command: filters of crates/filter, quoted for a POSIX shell.

import type { Attribute, Head, Value } from "../capture-file/decode.ts";
import { valueKey, type Filter } from "../series/cube.ts";
import type { Box } from "../state/state.ts";
import { exactDuration } from "../view/format.ts";

const KEYWORDS = new Set(["and", "or", "not", "in", "exists", "contains", "glob", "true", "false", "between"]);
/** Longer lists are no command that anybody reads. */
const LONGEST_LIST = 40;

/** A text of the filter language. */
function text(value: string): string {
  if (/^[A-Za-z_][A-Za-z0-9_.-]*$/.test(value) && !KEYWORDS.has(value.toLowerCase())) return value;
  const escaped = value.replace(/[\\"]/g, "\\$&").replace(/[\x01-\x1f\x7f]/g, (symbol) => `\\x${symbol.charCodeAt(0).toString(16).padStart(2, "0")}`);
  return `"${escaped}"`;
}

/** A value of an attribute as a term; null where no filter says it. */
export function term(attribute: Attribute, value: Value): string | null {
  const name = attribute.name;
  if (value === null) return attribute.kind === "trace" ? null : `not ${name} exists`;
  if (typeof value === "string") return `${name} = ${text(value)}`;
  if (typeof value === "number") return `${name} = ${value}`;
  if (Array.isArray(value)) return value[0] === value[1] ? `${name} = ${value[0]}` : `(${name} >= ${value[0]} and ${name} <= ${value[1]})`;
  return null;
}

/** What a filter keeps, as terms; null where no filter of the program says it. */
export function terms(head: Head, filter: Filter): string[] | null {
  const all: string[] = [];
  for (const kind of ["is", "not"] as const) {
    for (const name of Object.keys(filter[kind]).sort()) {
      const attribute = head.attributes.find((known) => known.name === name);
      const keys = filter[kind][name] ?? [];
      if (!attribute || keys.length === 0) continue;
      const found = keys.map((key) => attribute.values.find((value) => valueKey(value) === key));
      const listed = found.filter((value) => value !== undefined).map((value) => term(attribute, value));
      if (listed.length === 0 || listed.length > LONGEST_LIST || listed.includes(null)) return null;
      const any = listed.length > 1 ? `(${listed.join(" or ")})` : (listed[0] as string);
      all.push(kind === "is" ? any : `not ${any.startsWith("not ") ? `(${any})` : any}`);
    }
  }
  return all;
}

/** A box as terms. Boxes are half open; what is beyond the trace needs no bound. */
export function boxTerms(box: Box, end: number): string[] {
  const all: string[] = [];
  if (box.time[0] > 0) all.push(`evt.reltime >= ${exactDuration(box.time[0])}`);
  if (box.time[1] < end) all.push(`evt.reltime < ${exactDuration(box.time[1])}`);
  if (box.latency[0] > 0) all.push(`lat >= ${exactDuration(box.latency[0])}`);
  all.push(`lat < ${exactDuration(box.latency[1])}`);
  return all;
}

/** A word as a shell takes it. */
export function quoted(word: string): string {
  return /^[A-Za-z0-9\-_./:,+@%]+$/.test(word) ? word : `'${word.replace(/'/g, "'\\''")}'`;
}

/** A command of the program on the same events. */
export function command(head: Head, verb: string, words: string[], filter: string): string {
  return ["latscope", verb, ...(head.source ? [head.source] : []), ...words, ...(filter ? [quoted(filter)] : [])].join(" ");
}

/** The command that says what the page says: of a box its explanation, else a summary; null where no filter says it. */
export function commandOf(head: Head, chosen: Filter & { a: Box | null; b: Box | null }, end: number): string | null {
  const kept = terms(head, chosen);
  if (!kept) return null;
  const within = [...(head.filter ? [`(${head.filter})`] : []), ...kept].join(" and ");
  if (!chosen.a) return command(head, "summary", [], within);
  const restricts = within ? ["--filter", quoted(within)] : [];
  const against = chosen.b ? ["--against", quoted(boxTerms(chosen.b, end).join(" and "))] : [];
  return command(head, "explain", [...restricts, ...against], boxTerms(chosen.a, end).join(" and "));
}

/** A box and what is kept as one filter, for any view; null where no filter says it. */
export function filterOf(head: Head, chosen: Filter & { a: Box | null }, end: number): string | null {
  const kept = terms(head, chosen);
  if (!kept) return null;
  return [...(head.filter ? [`(${head.filter})`] : []), ...(chosen.a ? boxTerms(chosen.a, end) : []), ...kept].join(" and ");
}
