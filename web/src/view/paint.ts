// What all canvases share: sizes, inks, text, axes.

import { clock, duration, elapsed, logTicks, timeStep } from "./format.ts";
import type { Scene } from "./scene.ts";

const NAMES = ["bg", "plot", "text", "muted", "line", "edge", "accent", "green", "amber", "a", "b", "rest"] as const;
export type Ink = Record<(typeof NAMES)[number], string> & { isDark: boolean };

/** The colours of the page, which the style sheet decides. */
export function inks(): Ink {
  const style = getComputedStyle(document.documentElement);
  const all = Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()])) as unknown as Ink;
  all.isDark = style.getPropertyValue("--dark").trim() === "1";
  return all;
}

export interface Area {
  left: number;
  top: number;
  width: number;
  height: number;
}

export interface Canvas {
  element: HTMLCanvasElement;
  context: CanvasRenderingContext2D;
  width: number;
  height: number;
  /** Device pixels to a CSS pixel. */
  scale: number;
}

/** Where elements lie in what contains them. To ask the browser makes it lay out the page, so it is asked once for each layout. */
const boxes = new Map<HTMLElement, Area>();

/** Where an element lies. */
export function boxOf(element: HTMLElement): Area {
  let box = boxes.get(element);
  if (!box) {
    box = { left: element.offsetLeft, top: element.offsetTop, width: element.clientWidth, height: element.clientHeight };
    boxes.set(element, box);
  }
  return box;
}

/** The layout changed. */
export function forgetBoxes(): void {
  boxes.clear();
}

/** Makes a canvas as large as its box, sharp on every screen, and clears it. */
export function fit(element: HTMLCanvasElement): Canvas | null {
  const { width, height } = boxOf(element);
  const context = element.getContext("2d");
  if (!context || width < 1 || height < 1) return null;
  const scale = window.devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * scale), Math.round(height * scale)];
  if (element.width !== wide || element.height !== high) {
    // This forgets the font, too.
    [element.width, element.height] = [wide, high];
    fonts.delete(context);
  }
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return { element, context, width, height, scale };
}

let small: OffscreenCanvas | null = null;

/** Draws pixels, the first row on top, as large as an area: each pixel of the screen is of the cell that its middle lies in. */
export function drawPixels(context: CanvasRenderingContext2D, pixels: Uint32Array<ArrayBuffer>, width: number, area: Area): void {
  const height = pixels.length / Math.max(width, 1);
  if (height === 0) return;
  small ??= new OffscreenCanvas(width, height);
  if (small.width < width) small.width = width;
  if (small.height < height) small.height = height;
  small.getContext("2d")?.putImageData(new ImageData(new Uint8ClampedArray(pixels.buffer), width, height), 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, 0, 0, width, height, area.left, area.top, area.width, area.height);
}

/** Limits what is drawn to an area. */
export function within(context: CanvasRenderingContext2D, area: Area, draw: () => void): void {
  const font = fonts.get(context);
  context.save();
  context.beginPath();
  context.rect(area.left, area.top, area.width, area.height);
  context.clip();
  draw();
  context.restore();
  if (font) fonts.set(context, font);
  else fonts.delete(context);
}

/** The room for axes at the sides; on phones there is less. */
export function gutters(width: number): [number, number] {
  return width < 640 ? [54, 58] : [72, 128];
}

const FONT = '11px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

const BOLD = `600 ${FONT}`;

/** The font that each canvas has: to set one brings the style of the whole page up to date, which takes longer than to draw. */
const fonts = new WeakMap<CanvasRenderingContext2D, string>();

function setFont(context: CanvasRenderingContext2D, font: string): void {
  if (fonts.get(context) === font) return;
  context.font = font;
  context.textBaseline = "middle";
  fonts.set(context, font);
}

export function write(context: CanvasRenderingContext2D, text: string, x: number, y: number, color: string, align: CanvasTextAlign = "left", bold = false): void {
  setFont(context, bold ? BOLD : FONT);
  context.fillStyle = color;
  context.textAlign = align;
  context.fillText(text, x, y);
}

/** How wide a label is, CSS pixels. */
export function widthOf(context: CanvasRenderingContext2D, text: string): number {
  setFont(context, FONT);
  return context.measureText(text).width;
}

/** A line with a halo of the background, so that it stands out from any cell. */
export function stroke(context: CanvasRenderingContext2D, path: Path2D, color: string, width: number, halo: string | null): void {
  context.lineJoin = "round";
  if (halo) {
    context.strokeStyle = halo;
    context.lineWidth = width + 1.9;
    context.stroke(path);
  }
  context.strokeStyle = color;
  context.lineWidth = width;
  context.stroke(path);
}

/** Where a column, with its fraction, lies in an area. */
export function xOf(scene: Scene, area: Area, column: number): number {
  return area.left + ((column - scene.x[0]) / (scene.x[1] - scene.x[0])) * area.width;
}

/** Where a row, with its fraction, lies in an area: the slow ones on top. */
export function yOf(scene: Scene, area: Area, row: number): number {
  return area.top + area.height - ((row - scene.y[0]) / (scene.y[1] - scene.y[0])) * area.height;
}

/** Ticks of latency at the left. */
export function latencyAxis(context: CanvasRenderingContext2D, scene: Scene, area: Area, ink: Ink): void {
  const { grid } = scene.cube;
  let last = Infinity;
  for (const tick of logTicks(grid.value(scene.y[0]), grid.value(scene.y[1]))) {
    const y = yOf(scene, area, grid.place(tick));
    if (last - y < 17 || y < area.top + 4) continue;
    last = y;
    context.fillStyle = ink.edge;
    context.fillRect(area.left - 4, Math.round(y), 4, 1);
    write(context, duration(tick), area.left - 7, y, ink.text, "right");
  }
}

/** The moment of a column as it is shown. */
export function moment(scene: Scene, time: number, step: number): string {
  const { head } = scene.cube.data;
  const toUnix = head.clock.to_unix_ns;
  if (!scene.state.wall || toUnix === null) return elapsed(time, step);
  return clock(BigInt(head.trace_start_ns) + BigInt(toUnix) + BigInt(Math.round(time)), step, scene.state.utc);
}

/** No axis has room for more ticks. */
const MOST_TICKS = 100;

/** Ticks of time below. */
export function timeAxis(context: CanvasRenderingContext2D, scene: Scene, area: Area, ink: Ink): void {
  const [from, to] = [scene.cube.time(scene.x[0]), scene.cube.time(scene.x[1])];
  const step = timeStep(to - from, area.width / (area.width < 500 ? 70 : 110));
  // Ticks are counted: far from zero, adding a short step changes nothing.
  for (let number = 0; number < MOST_TICKS; number++) {
    const tick = (Math.ceil(from / step) + number) * step;
    if (!(tick <= to)) return;
    const x = xOf(scene, area, scene.cube.column(tick));
    context.fillStyle = ink.edge;
    context.fillRect(Math.round(x), area.top + area.height, 1, 4);
    write(context, moment(scene, tick, step), x, area.top + area.height + 12, ink.text, "center");
  }
}
