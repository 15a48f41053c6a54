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
  /** Finer attributes that differ hardly more than this one, which follows from them: regions of a device. */
  follows: string[];
}

export interface Explanation {
  spot: number;
  rest: number;
  findings: Finding[];
  /** Attributes that show no difference. */
  without: string[];
  /** Attributes that differ beyond chance, but hardly. */
  slight: string[];
  /** Two values that together tell more than either. */
  both: { values: [string, Value][]; spot: number; rest: number } | null;
}

/** Less is no difference that is worth a place of its own, bits. */
const LEAST = 0.01;
/** No G² below this is a difference, as in `explain`: a chance of one in ten thousand for a single test. */
const LEAST_G2 = 15;
/** A finer attribute differs more than what follows from it by at least this, in bits and as a part. */
const FINER = [0.05, 0.25] as const;
/** Less of the spot is no explanation. */
const SUPPORT = 0.05;
/** What is known of events with a stack only, which may have been taken because they were slow. */
const OF_STACKS = new Set(["stack", "frame", "stack_quality", "stack_source", "wait_class"]);
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

/**
 * The G² that the best of so many values reaches by chance in one of a hundred cases. `explain` deals the events to the sides at random
 * to find it; here it is the bound for independent values, which is no lower.
 */
export function chance(values: number): number {
  const tail = 0.01 / Math.max(values, 1);
  let level = LEAST_G2;
  // The upper tail of a square of a normal number is about sqrt(2 / (pi x)) exp(-x / 2).
  for (let round = 0; round < 20; round++) level = -2 * Math.log(tail * Math.sqrt((Math.PI * level) / 2));
  return Math.max(level, LEAST_G2);
}

/** Explains a spot by its events of each combination, and those of the rest. */
export function explain(data: Data, spot: Float64Array, rest: Float64Array): Explanation {
  const sum = (counts: Float64Array): number => counts.reduce((all, count) => all + count, 0);
  const [allOfSpot, allOfRest] = [sum(spot), sum(rest)];
  const findings: Finding[] = [];
  const [without, slight]: [string[], string[]] = [[], []];
  const level = chance(data.head.attributes.reduce((sum, { values }) => sum + Math.min(values.length, 1 / SUPPORT), 0));
  data.head.attributes.forEach(({ name, values }, attribute) => {
    const withoutStack = allOfRest > 0 && OF_STACKS.has(name) ? values.indexOf(null) : -1;
    const [inSpot, inRest] = [new Float64Array(values.length), new Float64Array(values.length)];
    const numbers = data.values[attribute] as Uint32Array;
    for (let combination = 0; combination < spot.length; combination++) {
      const number = numbers[combination] as number;
      if (number === withoutStack) continue;
      inSpot[number] = (inSpot[number] as number) + (spot[combination] as number);
      inRest[number] = (inRest[number] as number) + (rest[combination] as number);
    }
    const [spots, rests] = withoutStack < 0 ? [allOfSpot, allOfRest] : [sum(inSpot), sum(inRest)];
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
    const best = sorted.reduce((most, one) => (one.spot >= SUPPORT * spots ? Math.max(most, g2(one.spot, spots, one.rest, rests)) : most), 0);
    const isAlike = best <= level || sorted.length < 2;
    if (allOfRest > 0 && (rests === 0 || spots === 0 || isAlike)) without.push(name);
    else if (rests > 0 && bits < LEAST) slight.push(name);
    else findings.push({ attribute, name, divergence: bits, values: sorted, same: [], follows: [] });
  });
  if (allOfRest > 0) findings.sort((one, other) => other.divergence - one.divergence || one.attribute - other.attribute);
  const folded = allOfRest > 0 ? coarser(data, fold(data, findings, spot, rest), spot, rest) : findings;
  const pair = allOfRest > 0 ? both(data, folded, spot, rest, allOfSpot, allOfRest) : null;
  return { spot: allOfSpot, rest: allOfRest, findings: folded, without, slight, both: pair };
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

/** An attribute that another one determines differs at most as much; where it differs nearly as much, it is the explanation. */
function coarser(data: Data, findings: Finding[], spot: Float64Array, rest: Float64Array): Finding[] {
  const kept = [...findings];
  for (const fine of findings) {
    const enough = (coarse: Finding): boolean => fine.divergence - coarse.divergence < Math.max(FINER[0], FINER[1] * coarse.divergence);
    const coarse = kept.find((other) => other !== fine && enough(other) && determines(data, fine, other, spot, rest));
    if (!coarse) continue;
    coarse.follows.push(fine.name, ...fine.same, ...fine.follows);
    kept.splice(kept.indexOf(fine), 1);
  }
  return kept;
}

/** Whether each value of one attribute occurs with one value of the other only, and some value of that with several. */
function determines(data: Data, fine: Finding, coarse: Finding, spot: Float64Array, rest: Float64Array): boolean {
  const [fines, coarses] = [data.values[fine.attribute] as Uint32Array, data.values[coarse.attribute] as Uint32Array];
  const known = new Map<number, number>();
  for (let combination = 0; combination < spot.length; combination++) {
    if ((spot[combination] as number) + (rest[combination] as number) === 0) continue;
    const [one, other] = [fines[combination] as number, coarses[combination] as number];
    if ((known.get(one) ?? other) !== other) return false;
    known.set(one, other);
  }
  return known.size > new Set(known.values()).size;
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
