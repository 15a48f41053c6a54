// Numbers as people read them; the same words as crates/event/src/units.rs.

function threeDigits(value: number): string {
  const decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  const text = value.toFixed(decimals);
  return decimals === 0 ? text : text.replace(/\.?0+$/, "");
}

/** Nanoseconds with three digits: `94.2ms`. */
export function duration(ns: number): string {
  if (ns < 0) return `-${duration(-ns)}`;
  const steps: [number, number, string][] = [
    [999.5, 1, "ns"], [999_500, 1e3, "us"], [999.5e6, 1e6, "ms"], [119.5e9, 1e9, "s"], [7200e9, 60e9, "min"], [172_800e9, 3600e9, "h"],
  ];
  const [, scale, unit] = steps.find(([below]) => ns < below) ?? [0, 86_400e9, "d"];
  return scale === 1 ? `${Math.round(ns)}ns` : threeDigits(ns / scale) + unit;
}

/** Nanoseconds without loss: `1.234567ms`. */
export function exactDuration(ns: number): string {
  const [scale, unit, decimals] = ns < 1e3 ? [1n, "ns", 0] : ns < 1e6 ? [1000n, "us", 3] : ns < 1e9 ? [1_000_000n, "ms", 6] : [1_000_000_000n, "s", 9];
  // Floating point would lose digits of what is longer than 104 days.
  const exact = BigInt(Math.round(ns));
  const [whole, rest] = [exact / scale, exact % scale];
  return rest === 0n ? `${whole}${unit}` : `${whole}.${String(rest).padStart(decimals, "0").replace(/0+$/, "")}${unit}`;
}

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/** Bytes with three digits: `4KiB`. */
export function size(bytes: number): string {
  let power = 0;
  for (; bytes >= 1023.5 && power < 6; power++) bytes /= 1024;
  return threeDigits(bytes) + BINARY[power];
}

/** A number without a unit: in full below 100,000, else with three digits. */
export function count(value: number): string {
  if (value < 100_000) return value % 1 === 0 ? full(value) : threeDigits(value);
  return short(value);
}

/** Three digits and a letter: `1.37M`. */
export function short(value: number): string {
  const steps: [number, number, string][] = [[999.5, 1, ""], [999.5e3, 1e3, "k"], [999.5e6, 1e6, "M"]];
  const [, scale, unit] = steps.find(([below]) => value < below) ?? [0, 1e9, "G"];
  return threeDigits(value / scale) + unit;
}

/** With its thousands apart: `1,372,577`. */
export function full(value: number): string {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** So many events. */
export function events(number: number): string {
  return `${full(number)} ${number === 1 ? "event" : "events"}`;
}

/** A share: one decimal, two below 0.1 %, `0 %` only where it is nothing. */
export function percent(share: number): string {
  const value = share * 100;
  if (value === 0) return "0 %";
  if (value < 0.01) return "<0.01 %";
  return `${value < 0.1 ? value.toFixed(2) : value.toFixed(1)} %`;
}

/** A quantile as its percentile: `p99.9`. */
export function percentile(quantile: number): string {
  return quantile >= 1 ? "max" : `p${Number((quantile * 100).toPrecision(6))}`;
}

/** Longest text on the canvas, and of a line in the panel. */
const LONGEST = 200;

/** Text of a trace, for people: what would hide or turn it is shown as its number. */
export function plain(text: string, longest = LONGEST): string {
  const cut = text.length > longest ? `${text.slice(0, longest)}…` : text;
  return cut.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (symbol) => `\\u{${symbol.charCodeAt(0).toString(16)}}`);
}

/** Round values between two, on a logarithmic axis: 1, 2 and 5 of each decade. */
export function logTicks(from: number, to: number): number[] {
  const ticks: number[] = [];
  for (let power = Math.floor(Math.log10(Math.max(from, 1))); 10 ** power <= to; power++) {
    for (const step of [1, 2, 5]) {
      const tick = step * 10 ** power;
      if (tick >= from && tick <= to) ticks.push(tick);
    }
  }
  return ticks;
}

const SECONDS = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400];

/** The round step of time of which no more than so many lie in a span, nanoseconds. */
export function timeStep(span: number, most: number): number {
  const least = span / Math.max(1, most);
  for (let power = 0; power < 11; power++) {
    for (const step of [1, 2, 5]) {
      if (step * 10 ** power >= least && step * 10 ** power < 60e9) return step * 10 ** power;
    }
  }
  const long = SECONDS.find((seconds) => seconds * 1e9 >= least);
  return long ? long * 1e9 : Math.ceil(least / 86_400e9) * 86_400e9;
}

/** A moment since the start, with the digits that its step needs: `43.25s`, `2:05`. */
export function elapsed(ns: number, step: number): string {
  if (ns < 0) return `-${elapsed(-ns, step)}`;
  if (step >= 1e9 && ns >= 120e9) {
    const seconds = Math.round(ns / 1e9);
    const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
    const two = (value: number): string => String(value).padStart(2, "0");
    return hours > 0 ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`;
  }
  const decimals = Math.min(9, Math.max(0, Math.ceil(9 - Math.log10(step) - 1e-9)));
  return `${(ns / 1e9).toFixed(decimals)}s`;
}

/** A moment of the wall clock. */
export function clock(unixNs: bigint, step: number, utc: boolean): string {
  const date = new Date(Number(unixNs / 1_000_000n));
  const two = (value: number): string => String(value).padStart(2, "0");
  const parts = utc ? [date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds()] : [date.getHours(), date.getMinutes(), date.getSeconds()];
  const decimals = Math.min(9, Math.max(0, Math.ceil(9 - Math.log10(step) - 1e-9)));
  const fraction = String(((unixNs % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n).padStart(9, "0").slice(0, decimals);
  return parts.map(two).join(":") + (decimals > 0 ? `.${fraction}` : "");
}
