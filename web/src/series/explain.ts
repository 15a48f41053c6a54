// What is different in a spot: the attributes by the divergence of their values in the spot and in the rest.

import type { Data, Value } from "../capture-file/decode.ts";

export interface Difference {
  value: Value;
  number: number;
  spot: number;
  rest: number;
}

export interface Finding {
  attribute: number;
  name: string;
  /** Jensen-Shannon divergence in bits, less what chance makes of so few events. */
  divergence: number;
  /** Values, the most telling first. */
  values: Difference[];
  /** Attributes whose first value is that of the same events. */
  same: string[];
}

export interface Explanation {
  spot: number;
  rest: number;
  findings: Finding[];
  /** Attributes that show no difference. */
  without: string[];
  /** Two values that together tell more than either. */
  both: { values: [string, Value][]; spot: number; rest: number } | null;
}

/** Less is taken for chance. */
const LEAST = 0.01;
/** Less of the spot is no explanation. */
const SUPPORT = 0.05;
/** So much of the events of two values have to be the same ones. */
const SAME = 0.98;

/** Divergence of two distributions in bits, corrected for its bias (k - 1)(1/n1 + 1/n0) / (8 ln 2). */
export function divergence(spot: ArrayLike<number>, rest: ArrayLike<number>): number {
  let [spots, rests] = [0, 0];
  for (let at = 0; at < spot.length; at++) {
    spots += spot[at] as number;
    rests += rest[at] as number;
  }
  if (spots === 0 || rests === 0) return 0;
  let [bits, kinds] = [0, 0];
  for (let at = 0; at < spot.length; at++) {
    const [p, q] = [(spot[at] as number) / spots, (rest[at] as number) / rests];
    const mean = (p + q) / 2;
    if (mean > 0) kinds++;
    if (p > 0) bits += (p * Math.log2(p / mean)) / 2;
    if (q > 0) bits += (q * Math.log2(q / mean)) / 2;
  }
  return Math.max(0, bits - ((kinds - 1) * (1 / spots + 1 / rests)) / (8 * Math.LN2));
}

/** Log-likelihood ratio of a value: how surprising its share of the spot is. */
export function g2(inSpot: number, spots: number, inRest: number, rests: number): number {
  const all = spots + rests;
  const having = inSpot + inRest;
  const term = (observed: number, expected: number): number => (observed > 0 ? observed * Math.log(observed / expected) : 0);
  return (
    2 *
    (term(inSpot, (having * spots) / all) +
      term(inRest, (having * rests) / all) +
      term(spots - inSpot, ((all - having) * spots) / all) +
      term(rests - inRest, ((all - having) * rests) / all))
  );
}

/** Explains a spot by its events of each combination, and those of the rest. */
export function explain(data: Data, spot: Float64Array, rest: Float64Array): Explanation {
  const sum = (counts: Float64Array): number => counts.reduce((all, count) => all + count, 0);
  const [spots, rests] = [sum(spot), sum(rest)];
  const findings: Finding[] = [];
  const without: string[] = [];
  data.head.attributes.forEach(({ name, values }, attribute) => {
    const [inSpot, inRest] = [new Float64Array(values.length), new Float64Array(values.length)];
    const numbers = data.values[attribute] as Uint32Array;
    for (let combination = 0; combination < spot.length; combination++) {
      const number = numbers[combination] as number;
      inSpot[number] = (inSpot[number] as number) + (spot[combination] as number);
      inRest[number] = (inRest[number] as number) + (rest[combination] as number);
    }
    const differences = values.map((value, number) => ({
      value,
      number,
      spot: inSpot[number] as number,
      rest: inRest[number] as number,
    }));
    const bits = divergence(inSpot, inRest);
    const telling = (one: Difference): number => {
      const more = one.spot / spots - (rests > 0 ? one.rest / rests : 0);
      return more > 0 && one.spot >= SUPPORT * spots ? 1 + g2(one.spot, spots, one.rest, rests) : Math.abs(more);
    };
    const sorted = differences.filter((one) => one.spot + one.rest > 0);
    sorted.sort((one, other) => (rests > 0 ? telling(other) - telling(one) : 0) || other.spot - one.spot || one.number - other.number);
    if (rests > 0 && (bits < LEAST || sorted.length < 2)) without.push(name);
    else findings.push({ attribute, name, divergence: bits, values: sorted, same: [] });
  });
  if (rests > 0) findings.sort((one, other) => other.divergence - one.divergence || one.attribute - other.attribute);
  const folded = rests > 0 ? fold(data, findings, spot, rest) : findings;
  return { spot: spots, rest: rests, findings: folded, without, both: rests > 0 ? both(data, folded, spot, rest, spots, rests) : null };
}

/** Attributes whose most telling value selects the same events are one explanation. */
function fold(data: Data, findings: Finding[], spot: Float64Array, rest: Float64Array): Finding[] {
  const kept: Finding[] = [];
  for (const finding of findings) {
    const like = kept.find((known) => overlap(data, known, finding, spot, rest) >= SAME);
    if (like) like.same.push(finding.name);
    else kept.push(finding);
  }
  return kept;
}

function overlap(data: Data, one: Finding, other: Finding, spot: Float64Array, rest: Float64Array): number {
  const [ones, others] = [data.values[one.attribute] as Uint32Array, data.values[other.attribute] as Uint32Array];
  let [both, either] = [0, 0];
  for (let combination = 0; combination < spot.length; combination++) {
    const count = (spot[combination] as number) + (rest[combination] as number);
    const isOne = ones[combination] === one.values[0]?.number;
    const isOther = others[combination] === other.values[0]?.number;
    if (isOne && isOther) both += count;
    if (isOne || isOther) either += count;
  }
  return either === 0 ? 0 : both / either;
}

/** The first values of the two best findings together, where they say more than one of them. */
function both(data: Data, findings: Finding[], spot: Float64Array, rest: Float64Array, spots: number, rests: number): Explanation["both"] {
  const [one, other] = findings;
  const [first, second] = [one?.values[0], other?.values[0]];
  if (!one || !other || !first || !second) return null;
  let [inSpot, inRest] = [0, 0];
  for (let combination = 0; combination < spot.length; combination++) {
    const is = (finding: Finding, value: Difference): boolean => (data.values[finding.attribute] as Uint32Array)[combination] === value.number;
    if (is(one, first) && is(other, second)) {
      inSpot += spot[combination] as number;
      inRest += rest[combination] as number;
    }
  }
  const best = Math.max(g2(first.spot, spots, first.rest, rests), g2(second.spot, spots, second.rest, rests));
  if (inSpot < SUPPORT * spots || g2(inSpot, spots, inRest, rests) <= best) return null;
  return { values: [[one.name, first.value], [other.name, second.value]], spot: inSpot, rest: inRest };
}
