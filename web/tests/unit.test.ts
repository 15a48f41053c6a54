// The arithmetic that the page shares with the program, against vectors that tests/report.rs writes; and the state.
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { boxTerms, commandOf, quoted, term, terms } from "../src/filter/command.ts";
import { FINE, Grid } from "../src/histogram/grid.ts";
import { divergence } from "../src/series/explain.ts";
import { quantileOf, quantiles, stepOf, STEPS } from "../src/series/percentiles.ts";
import { fromHash, toHash } from "../src/state/hash.ts";
import { INITIAL, reduce, type State } from "../src/state/state.ts";
import { duration, exactDuration, full, percent, plain, size, timeStep } from "../src/view/format.ts";
import { camera, project } from "../src/view/surface.ts";
import type { Attribute, Head } from "../src/capture-file/decode.ts";

interface Vectors {
  grids: { power: number; values: [number, number, number][] }[];
  quantiles: { buckets: [number, number][]; asked: number[]; found: number[] }[];
  durations: [number, string, string][];
  sizes: [number, string][];
  counts: [number, string][];
  divergences: [number[], number[], number][];
}
const vectors = JSON.parse(readFileSync(new URL("vectors.json", import.meta.url), "utf8")) as Vectors;

describe("vectors", () => {
  test("grids", () => {
    for (const { power, values } of vectors.grids) {
      const grid = new Grid(power);
      for (const [value, index, lower] of values) expect([grid.index(value), grid.lower(index)]).toEqual([index, lower]);
    }
  });
  test("quantiles", () => {
    for (const { buckets, asked, found } of vectors.quantiles) {
      const counts = new Float64Array(4000);
      for (const [bucket, count] of buckets) counts[bucket] = count;
      // The program knows the smallest and the largest value, and stays between them.
      const ours = quantiles(FINE, counts, 0, asked) ?? [];
      found.forEach((value, at) => expect(Math.abs((ours[at] as number) - value)).toBeLessThanOrEqual(value / 64));
    }
  });
  test("durations, sizes and counts", () => {
    for (const [ns, text, exact] of vectors.durations) expect([duration(ns), exactDuration(ns)]).toEqual([text, exact]);
    for (const [bytes, text] of vectors.sizes) expect(size(bytes)).toBe(text);
    for (const [value, text] of vectors.counts) expect(full(value)).toBe(text);
  });
  test("divergences", () => {
    for (const [spot, rest, bits] of vectors.divergences) expect(divergence(spot, rest)).toBeCloseTo(bits, 9);
  });
});

describe("the address", () => {
  const states: State[] = [];
  for (let number = 0; number < 40; number++) {
    states.push({
      ...INITIAL,
      x: number % 2 ? [number * 1e6, number * 1e9 + 1] : null,
      y: number % 3 ? [number + 1, number * 1e6 + 7] : null,
      weight: (["events", "time", "bytes", "share"] as const)[number % 4] as State["weight"],
      a: number % 5 ? { time: [-5, number + 1], latency: [0, number + 1] } : null,
      quantile: quantileOf((number * 5) % STEPS),
      is: number % 7 ? { comm: ["a&b=c", "%E0", `\u202e${number}`, "(none)"], device: ["sda"] } : {},
      not: number % 4 ? { path: ["/tmp/x y+z#", ""] } : {},
      unknown: number % 6 ? [["later", "kept"]] : [],
      lock: number % 8 ? number : null,
    });
  }
  test("gives 40 states again", () => {
    for (const state of states) expect(fromHash(toHash(state)).state).toEqual(state);
  });
  test("never throws", () => {
    for (const hash of ["", "#", "#v", "#v=2", "#x=1~2~3", "#%E0%A4%A=1", "#w=%E0%A4%A&q=50", "#is.=x", "#=&&=", "#is.__proto__=a", "#cam=1e999~3"]) expect(fromHash(hash).state.weight).toBe("events");
    expect(fromHash("#v=2").isNewer).toBe(true);
    expect(fromHash("#q=12").state.quantile).toBe(0.5);
  });
});

describe("the state", () => {
  test("keeping twice is nothing, excluding is another list", () => {
    const kept = reduce(INITIAL, { do: "keep", name: "device", key: "sda" });
    expect(kept.is).toEqual({ device: ["sda"] });
    expect(reduce(kept, { do: "keep", name: "device", key: "sda" })).toEqual(INITIAL);
    expect(reduce(kept, { do: "exclude", name: "kind", key: "read" }).not).toEqual({ kind: ["read"] });
    expect(INITIAL.is).toEqual({});
  });
  test("the slider goes both ways", () => {
    for (let step = 0; step <= STEPS; step++) expect(Math.round(stepOf(quantileOf(step)))).toBe(step);
    expect([quantileOf(0), quantileOf(STEPS)]).toEqual([0.5, 0.9999]);
  });
});

describe("commands", () => {
  const attribute = (name: string, kind: Attribute["kind"]): Attribute => ({ name, kind, values: [] });
  test("values as terms", () => {
    const found = ["loop0", "it's", 'a "b"', "and", "254:0", ""].map((value) => term(attribute("device", "text"), value));
    expect(found).toEqual(["device = loop0", `device = "it's"`, 'device = "a \\"b\\""', 'device = "and"', 'device = "254:0"', 'device = ""']);
    expect(term(attribute("size", "bytes"), [4096, 8191])).toBe("(size >= 4096 and size <= 8191)");
    expect(term(attribute("cpu", "number"), 3)).toBe("cpu = 3");
    expect([term(attribute("comm", "text"), null), term(attribute("comm", "text"), { others: true })]).toEqual(["not comm exists", null]);
  });
  test("boxes and shells", () => {
    expect(boxTerms({ time: [15e9, 107e9], latency: [58_720_256, 150_994_944] }, 2e12)).toEqual(["evt.reltime >= 15s", "evt.reltime < 107s", "lat >= 58.720256ms", "lat < 150.994944ms"]);
    expect(quoted("lat > 1ms and comm = \"it's\"")).toBe(`'lat > 1ms and comm = "it'\\''s"'`);
  });
  test("of a state", () => {
    const head = { source: "-r perf.data", filter: "kind = read", attributes: [{ name: "device", kind: "text", values: ["sda", "sdb"] }] } as unknown as Head;
    const chosen = { is: { device: ["sda", "sdb"] }, not: {}, a: { time: [0, 1e9], latency: [0, 1000] } as State["a"], b: null };
    expect(terms(head, chosen)).toEqual(["(device = sda or device = sdb)"]);
    expect(commandOf(head, chosen, 2e9)).toBe("latscope explain -r perf.data --filter '(kind = read) and (device = sda or device = sdb)' 'evt.reltime < 1s and lat < 1us'");
    expect(commandOf(head, { ...chosen, a: null }, 2e9)).toBe("latscope summary -r perf.data '(kind = read) and (device = sda or device = sdb)'");
  });
});

describe("words", () => {
  test("shares", () => expect([0, 0.00001, 0.0005, 0.123].map(percent)).toEqual(["0 %", "<0.01 %", "0.05 %", "12.3 %"]));
  test("nothing hides or turns a text", () => expect(plain("a\u202eb\u0007")).toBe("a\\u{202e}b\\u{7}"));
  test("steps of time are round", () => expect([8e9, 120e9, 7e12, 3e15].map((span) => timeStep(span, 8))).toEqual([1e9, 20e9, 900e9, 432_000e9]));
});

test("the surface: slow is up, later is right, rare is behind, from the front", () => {
  const at = (turn: number, height: number, point: [number, number, number]): [number, number] => project(camera(turn, height, 2), point);
  const [origin, later, slow, rare] = [at(-17, 31, [0, 0, 0]), at(-17, 31, [1, 0, 0]), at(-17, 31, [0, 0, 1]), at(-17, 31, [0, 1, 0])];
  expect(later[0]).toBeGreaterThan(origin[0]);
  expect(slow[1]).toBeGreaterThan(origin[1]);
  expect(rare[1]).toBeGreaterThan(origin[1]);
  expect(Math.abs(slow[0] - origin[0])).toBeLessThan(1e-9);
});
