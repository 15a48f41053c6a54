// Colours of cells: the maps of matplotlib (CC0), cut where they would not stand out from the plot, as crates/view-report does.

import type { Weight } from "../state/state.ts";

const VIRIDIS = [0x440154, 0x482878, 0x3e4989, 0x31688e, 0x26828e, 0x1f9e89, 0x35b779, 0x6ece58, 0xb5de2b, 0xfde725];
const INFERNO = [0x000004, 0x1b0c41, 0x4a0c6b, 0x781c6d, 0xa52c60, 0xcf4446, 0xed6925, 0xfb9b06, 0xf7d13d, 0xfcffa4];
const CIVIDIS = [0x00204d, 0x00336f, 0x39486b, 0x575c6d, 0x707173, 0x8a8779, 0xa69d75, 0xc4b56c, 0xe4cf5b, 0xffea46];
/** From fewer than the other to more: ColorBrewer's RdBu, white in the middle. */
const DIFFERENCE = [0x053061, 0x2166ac, 0x4393c3, 0x92c5de, 0xd1e5f0, 0xf7f7f7, 0xfddbc7, 0xf4a582, 0xd6604d, 0xb2182b, 0x67001f];

/** Of each weight, its map and the part that is visible on light and on dark. */
const OF_WEIGHT: Record<Weight, { map: number[]; light: [number, number]; dark: [number, number] }> = {
  events: { map: VIRIDIS, light: [0.56, 0], dark: [0.36, 1] },
  difference: { map: VIRIDIS, light: [0.56, 0], dark: [0.36, 1] },
  share: { map: VIRIDIS, light: [0.56, 0], dark: [0.36, 1] },
  time: { map: INFERNO, light: [0.65, 0.06], dark: [0.5, 1] },
  bytes: { map: CIVIDIS, light: [0.59, 0], dark: [0.4, 1] },
};

export const STEPS = 256;

type Rgb = [number, number, number];

function blend(map: number[], place: number): Rgb {
  const at = Math.min(Math.max(place, 0), 1) * (map.length - 1);
  const [low, high] = [map[Math.floor(at)] as number, map[Math.min(Math.floor(at) + 1, map.length - 1)] as number];
  const part = at - Math.floor(at);
  const mix = (shift: number): number => Math.round(((low >> shift) & 255) * (1 - part) + ((high >> shift) & 255) * part);
  return [mix(16), mix(8), mix(0)];
}

const ramps = new Map<string, Rgb[]>();
const pixelsOf = new WeakMap<Rgb[], Uint32Array<ArrayBuffer>>();

/** Colours from few to many. */
export function ramp(weight: Weight, isDark: boolean): Rgb[] {
  const key = `${weight} ${isDark}`;
  let colors = ramps.get(key);
  if (!colors) {
    const { map, light, dark } = OF_WEIGHT[weight];
    const [from, to] = isDark ? dark : light;
    colors = Array.from({ length: STEPS }, (_, step) => blend(map, from + ((to - from) * step) / (STEPS - 1)));
    ramps.set(key, colors);
  }
  return colors;
}

/** The colours of a ramp as pixels. */
export function pixels(colors: Rgb[]): Uint32Array<ArrayBuffer> {
  let found = pixelsOf.get(colors);
  if (!found) {
    found = Uint32Array.from(colors, pixel);
    pixelsOf.set(colors, found);
  }
  return found;
}

/** Colours of differences, from -1 to 1. */
export const DIFFERENCES: Rgb[] = Array.from({ length: STEPS }, (_, step) => differenceColor((2 * step) / (STEPS - 1) - 1));

/** The colour of a difference, from -1 to 1. */
export function differenceColor(value: number): Rgb {
  return blend(DIFFERENCE, (value + 1) / 2);
}

/** A colour as a pixel of ImageData: little-endian red, green, blue, opaque. */
export function pixel([red, green, blue]: Rgb): number {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

export function css([red, green, blue]: Rgb): string {
  return `rgb(${red} ${green} ${blue})`;
}
