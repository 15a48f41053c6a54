// The arithmetic that the page shares with the program, against vectors that tests/report.rs writes; and the state.
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { boxTerms, commandOf, quoted, term, terms } from "../src/filter/command.ts";
import { FINE, Grid } from "../src/histogram/grid.ts";
import { lineOf, readLine } from "../src/filter/line.ts";
import { Cube, type Cells } from "../src/series/cube.ts";
import { ratio } from "../src/series/difference.ts";
import { chance, divergence, explain, g2 } from "../src/series/explain.ts";
import { distinct, innermost } from "../src/series/stacks.ts";
import { quantileOf, quantiles, stepOf, STEPS } from "../src/series/percentiles.ts";
import { fromHash, toHash } from "../src/state/hash.ts";
import { INITIAL, reduce, type Box, type State } from "../src/state/state.ts";
import { duration, exactDuration, full, percent, plain, size, timeStep } from "../src/view/format.ts";
import { timeAxis, type Ink } from "../src/view/paint.ts";
import { cellsOf, overlap, type Scene } from "../src/view/scene.ts";
import { camera, project } from "../src/view/surface.ts";
import type { Attribute, Data, Head } from "../src/capture-file/decode.ts";

interface Vectors {
  stacks: [string, string | null][];
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
  test("a grid goes up to 2^64", () => {
    for (const grid of [FINE, new Grid(3)]) {
      const last = grid.buckets - 1;
      expect([grid.upper(last), grid.index(grid.lower(last)), grid.index(2 ** 64), grid.place(2 ** 64)]).toEqual([2 ** 64, last, grid.buckets, grid.buckets]);
      expect(grid.index(2e18)).toBe(grid.index(2 ** 60) + Math.floor((2e18 / 2 ** 60 - 1) * 2 ** grid.power));
    }
    expect(exactDuration(2e18)).toBe("2000000000s");
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
  test("the function of a stack that a reader looks for", () => {
    for (const [stack, name] of vectors.stacks) expect([stack, innermost(stack)]).toEqual([stack, name]);
  });
  test("stacks of one function are told apart by who called it, and by what it called", () => {
    const stacks = ["main;a;f;read", "main;b;f;read", "main;c;b;f;read", "main;g", "main;g;x_[k];y_[k]", "main;g;x_[k];z_[k]"];
    expect([...distinct(stacks)]).toEqual([
      ["main;a;f;read", "f < a"],
      ["main;b;f;read", "f < b < main"],
      ["main;c;b;f;read", "f < b < c"],
      ["main;g", "g"],
      ["main;g;x_[k];y_[k]", "g > x > y"],
      ["main;g;x_[k];z_[k]", "g > x > z"],
    ]);
    expect(distinct(["", "a", "a"])).toEqual(new Map([["", "(empty)"], ["a", "a"]]));
  });
  test("divergences", () => {
    for (const [spot, rest, bits] of vectors.divergences) expect(divergence(spot, rest)).toBeCloseTo(bits, 9);
  });
});

describe("the filter line", () => {
  const head = {
    attributes: [
      { name: "device", kind: "text", values: ["sda", "sdb", "a b", "and"] },
      { name: "size", kind: "bytes", values: [[4096, 8191], [8192, 16_383], [512, 512]] },
      { name: "cpu", kind: "number", values: [0, 1, 2, 3, null] },
    ],
  } as unknown as Head;
  test("sets what is kept, excluded and in view", () => {
    expect(readLine(head, 'device in (sda, "a b") and cpu != 3')).toEqual({ is: { device: ["sda", "a b"] }, not: { cpu: ["3"] }, x: null, y: null, limit: null });
    expect(readLine(head, "size >= 4KiB and lat > 10ms and lat < 1s and time >= 5s and p99.9 < 20ms")).toEqual({ is: { size: ["4096..8191", "8192..16383"] }, not: {}, x: [5e9, 2 ** 52], y: [1e7, 1e9], limit: { quantile: 0.999, value: 2e7 } });
    expect(readLine(head, "cpu > 0 and cpu <= 2").is).toEqual({ cpu: ["1", "2"] });
    expect(readLine(head, "")).toEqual({ is: {}, not: {}, x: null, y: null, limit: null });
  });
  test("names what it cannot do", () => {
    const cases: [string, RegExp][] = [
      ["disk = sda", /cannot filter by disk/], ["device = sdc", /No event has device = sdc/], ["size > 5KiB", /stored in ranges/], ["device contains sd", /cannot follow device/],
      ["device = sda or device = sdb", /or is not understood/], ["device in (sda", /not closed/], ["lat > 1s and lat < 1ms", /range is empty/], ["device > sda", /no order/],
      ["device = sda and", /missing after and/], ['device = "sda', /cannot be read/], ["device = sda and device = sdb", /No value of device/], ["p99 > 1ms", /A limit is/],
    ];
    for (const [text, message] of cases) expect(() => readLine(head, text), text).toThrow(message);
  });
  test("gives a state again", () => {
    for (const text of ['device = "a b" and size = 4096..8191 and cpu != (none)', 'device in (sda, "and")', "p99 < 20000000ns"]) {
      const line = readLine(head, text.replace("(none)", '"(none)"'));
      expect(readLine(head, lineOf(line))).toEqual(line);
    }
  });
});

describe("an explanation", () => {
  const data = (values: number[][]): Data => {
    const attributes = (values[0] ?? []).map((_, attribute) => ({ name: "abc"[attribute], kind: "text", values: [...new Set(values.map((of) => of[attribute]))].map(String) }));
    return { head: { attributes }, values: attributes.map((_, attribute) => Uint32Array.from(values, (of) => of[attribute] as number)) } as unknown as Data;
  };
  test("finds nothing in what chance makes", () => {
    let state = 9;
    const random = (below: number): number => ((state = (state * 48_271) % 2_147_483_647) / 2_147_483_647) * below;
    const cube = data(Array.from({ length: 12 }, (_, at) => [at % 4, Math.floor(at / 4), at % 3]));
    let wrong = 0;
    for (let round = 0; round < 200; round++) {
      const side = (): Float64Array => {
        const counts = new Float64Array(12);
        for (let event = 0; event < 400; event++) counts[Math.floor(random(12))]!++;
        return counts;
      };
      const { findings, slight } = explain(cube, side(), side());
      if (findings.length + slight.length > 0) wrong++;
    }
    expect(wrong).toBeLessThanOrEqual(4);
  });
  test("names the device, and not its regions", () => {
    const cube = data([[0, 0], [0, 1], [1, 2], [1, 3]]);
    const { findings } = explain(cube, Float64Array.of(5, 8, 190, 210), Float64Array.of(2000, 2100, 180, 190));
    expect(findings.map(({ name, follows }) => [name, follows])).toEqual([["a", ["b"]]]);
    const apart = explain(cube, Float64Array.of(400, 1, 210, 190), Float64Array.of(200, 200, 200, 200));
    expect(apart.findings[0]?.name).toBe("b");
  });
  test("compares stacks only among events that have one", () => {
    // Combinations: a device; wait class and stack, which slow events have because they are slow.
    const attributes = [
      { name: "device", values: ["loop0", "loop1"] },
      { name: "wait_class", values: ["direct read", null] },
      { name: "stack", values: ["scan", "lookup", null] },
    ];
    const combinations = [[0, 0, 0], [1, 0, 1], [0, 1, 2], [1, 1, 2]];
    const numbers = attributes.map((_, at) => Uint32Array.from(combinations, (of) => of[at] as number));
    const cube = { head: { attributes: attributes.map((one) => ({ ...one, kind: "text" })) }, values: numbers } as unknown as Data;
    const { findings, without } = explain(cube, Float64Array.of(280, 1, 1, 0), Float64Array.of(2, 80, 60, 900));
    expect(findings.map(({ name }) => name)).toEqual(["stack", "device"]);
    expect(findings[0]?.values.map(({ value }) => value)).toEqual(["scan", "lookup"]);
    expect(without).toEqual(["wait_class"]);
    // Nothing of the rest has a stack: then stacks say nothing.
    expect(explain(cube, Float64Array.of(280, 1, 1, 0), Float64Array.of(0, 0, 60, 900)).without).toContain("stack");
    // In view as a whole, events without one are listed, too.
    expect(explain(cube, Float64Array.of(280, 1, 1, 0), new Float64Array(4)).findings.find(({ name }) => name === "stack")?.values.length).toBe(3);
  });
  test("asks for what dealing the events at random asks for", () => {
    let seed = 11;
    const below = (most: number): number => ((seed = (seed * 48_271) % 2_147_483_647) % most);
    for (const [kinds, events, part] of [[3, 600, 0.3], [12, 2000, 0.1], [40, 1500, 0.5], [40, 3000, 0.05]] as const) {
      // Three attributes whose values are not equally frequent.
      const rows = Array.from({ length: events }, () => [0, 0, 0].map(() => Math.min(below(kinds), below(kinds))));
      const spots = Math.round(part * events);
      const best = Array.from({ length: 300 }, () => {
        for (let at = 0; at < spots; at++) {
          const other = at + below(events - at);
          [rows[at], rows[other]] = [rows[other] as number[], rows[at] as number[]];
        }
        let most = 0;
        for (let attribute = 0; attribute < 3; attribute++) {
          const [inSpot, inRest] = [new Float64Array(kinds), new Float64Array(kinds)];
          rows.forEach((row, at) => (at < spots ? inSpot : inRest)[row[attribute] as number]++);
          inSpot.forEach((count, value) => {
            const isMore = count >= 0.05 * spots && count / spots > (inRest[value] as number) / (events - spots);
            if (isMore) most = Math.max(most, g2(count, spots, inRest[value] as number, events - spots));
          });
        }
        return most;
      });
      best.sort((one, other) => one - other);
      const level = chance(3 * Math.min(kinds, 20));
      // As in explain, one in a hundred deals may reach the level, and no level is below 15.
      expect(best.filter((most) => most > level).length).toBeLessThanOrEqual(6);
      expect(level).toBeLessThan(1.6 * Math.max(best[297] as number, 15));
    }
  });
  test("is stricter with more values", () => {
    // The quantiles of the square of a normal number are 15.14 and 19.51.
    expect(chance(1)).toBe(15);
    expect(Math.abs(chance(100) - 15.14)).toBeLessThan(0.3);
    expect(Math.abs(chance(1000) - 19.51)).toBeLessThan(0.3);
  });
});

test("of two traces, the ratio of shares", () => {
  const pair = { totals: [1000, 500] } as unknown as Parameters<typeof ratio>[0];
  expect([[10, 20], [40, 20], [1, 400], [4, 4], [0, 0]].map((both) => ratio(pair, both as [number, number]))).toEqual([2, 0, 4, Infinity, NaN]);
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
      limit: number % 3 ? { quantile: 0.99, value: number * 1e6 } : null,
    });
  }
  test("gives 40 states again", () => {
    for (const state of states) expect(fromHash(toHash(state)).state).toEqual(state);
  });
  test("never throws", () => {
    for (const hash of ["", "#", "#v", "#v=2", "#x=1~2~3", "#%E0%A4%A=1", "#w=%E0%A4%A&q=50", "#is.=x", "#=&&=", "#is.__proto__=a", "#cam=1e999~3"]) expect(fromHash(hash).state.weight).toBe("events");
    expect(fromHash("#v=2").isNewer).toBe(true);
    expect(fromHash("#q=12").state.quantile).toBe(0.5);
    // The token of a live page is no part of it.
    expect(fromHash("#k=1f0c&w=time").state.unknown).toEqual([]);
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
  test("of one of several traces", () => {
    expect([term(attribute("trace", "trace"), "/a b/one.csv"), term(attribute("trace", "trace"), null)]).toEqual(['trace = "/a b/one.csv"', null]);
  });
  test("of a state", () => {
    const head = { source: "-r perf.data", filter: "kind = read", attributes: [{ name: "device", kind: "text", values: ["sda", "sdb"] }] } as unknown as Head;
    const chosen = { is: { device: ["sda", "sdb"] }, not: {}, a: { time: [0, 1e9], latency: [0, 1000] } as State["a"], b: null };
    expect(terms(head, chosen)).toEqual(["(device = sda or device = sdb)"]);
    expect(commandOf(head, chosen, 2e9)).toBe("latscope explain -r perf.data --filter '(kind = read) and (device = sda or device = sdb)' 'evt.reltime < 1s and lat < 1us'");
    expect(commandOf(head, { ...chosen, a: null }, 2e9)).toBe("latscope summary -r perf.data '(kind = read) and (device = sda or device = sdb)'");
  });
});

test("sums in memory that was used before are those in new memory", () => {
  const [columns, combinations] = [9, 4];
  const cells = Array.from({ length: columns }, (_, column) => [2, 3 + (column % 3)]);
  const entries = cells.map((rows) => rows.flatMap((row) => [0, 1, 2, 3].filter((at) => (row + at) % 2 === 0).map((at) => [row, at, row * 7 + at + 1] as const)));
  const starts = (lengths: number[]): Uint32Array => Uint32Array.from([0, ...lengths].map((_, at) => lengths.slice(0, at).reduce((sum, length) => sum + length, 0)));
  const flat = entries.flat();
  const rows = Uint16Array.from(cells.flat());
  const data = {
    head: { columns, combinations, rows_per_octave: 8, attributes: [] },
    values: [],
    cube: { starts: starts(entries.map(({ length }) => length)), rows: Uint16Array.from(flat, ([row]) => row), combinations: Uint32Array.from(flat, ([, at]) => at), counts: Float64Array.from(flat, ([, , count]) => count) },
    sums: { rows, starts: starts(cells.map(({ length }) => length)), latency: Float64Array.from(rows, (row) => row * 1000), bytes: Float64Array.from(rows, (row) => row * 8) },
  } as unknown as Data;
  const cube = new Cube(data);
  const filters = [[1, 0, 1, 0], [0, 1, 1, 1], [0, 0, 0, 0], [1, 1, 1, 0]].map((passes) => Uint8Array.from(passes));
  let spent = cube.prefix(filters[0] as Uint8Array);
  expect([spent.latency.length, spent.bytes.length]).toEqual([spent.counts.length, spent.counts.length]);
  for (const passes of filters) {
    const used = cube.prefix(passes, spent);
    const fresh = cube.prefix(passes);
    expect([used.counts, used.latency, used.bytes]).toEqual([fresh.counts, fresh.latency, fresh.bytes]);
    const counted = flat.reduce((sum, [, at, count]) => sum + count * (passes[at] as number), 0);
    expect(used.sum(used.counts, cube.whole)).toBe(counted);
    spent = used;
  }
});

describe("boxes", () => {
  const cube = { grid: new Grid(3), columns: 10, column: (time: number) => (time - 100) / 30 } as unknown as Cube;
  test("touch whole cells", () => {
    const drawn = { time: [130, 190], latency: [1024, 2048] } as Box;
    expect(cellsOf(cube, drawn)).toEqual({ columns: [1, 3], rows: [cube.grid.index(1024), cube.grid.index(2048)] });
    const typed = { time: [135, 185.5], latency: [1025, 1926] } as Box;
    expect(cellsOf(cube, typed)).toEqual(cellsOf(cube, drawn));
    expect(cellsOf(cube, { time: [-500, 1e6], latency: [0, 2 ** 64] }).columns).toEqual([0, 10]);
  });
  test("that overlap", () => {
    const cells = (columns: [number, number], rows: [number, number]): Cells => ({ columns, rows });
    expect(overlap(cells([0, 4], [0, 9]), cells([3, 6], [2, 5]))).toEqual(cells([3, 4], [2, 5]));
    expect(overlap(cells([0, 4], [0, 9]), cells([4, 6], [2, 5]))).toBeNull();
  });
});

test("an axis of time ends, even far from zero and without columns", () => {
  const written: string[] = [];
  const context = { fillRect: () => {}, fillText: (text: string) => void written.push(text) } as unknown as CanvasRenderingContext2D;
  const scene = (from: number, to: number): Scene => ({ x: [from, to], state: INITIAL, cube: { time: (column: number) => column, column: (time: number) => time, data: { head: { clock: { to_unix_ns: null } } } } }) as unknown as Scene;
  const area = { left: 0, top: 0, width: 900, height: 100 };
  for (const [from, to] of [[-1.795e18, -1.795e18], [-1.795e18, -1.795e18 + 512], [1e18, 1e18 + 1024]] as const) timeAxis(context, scene(from, to), area, {} as Ink);
  expect(written.length).toBeLessThan(301);
  written.length = 0;
  timeAxis(context, scene(0, 8e9), area, {} as Ink);
  expect(written).toEqual(Array.from({ length: 9 }, (_, second) => `${second}s`));
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
