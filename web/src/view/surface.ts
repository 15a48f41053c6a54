// The surface of time x percentile x latency, in WebGL2. It shows shapes; every fact in it is in the contour map too.

import { stepOf, STEPS } from "../series/percentiles.ts";
import type { Surface } from "./contour.ts";
import { duration, logTicks, percentile } from "./format.ts";
import { fit, moment, write, type Ink } from "./paint.ts";
import { ramp, STEPS as COLORS } from "./palette.ts";
import type { Scene } from "./scene.ts";

type Matrix = number[];

/** How a point of the box (time -1 to 1, percentile -1 to 1, latency 0 to 1) comes to the screen: turned, lifted, in perspective. */
export function camera(turn: number, height: number, aspect: number): Matrix {
  const [a, e] = [(turn * Math.PI) / 180, (height * Math.PI) / 180];
  const [ca, sa, ce, se] = [Math.cos(a), Math.sin(a), Math.cos(e), Math.sin(e)];
  // How far the viewer is away, and how much lower the floor of the box lies than the middle.
  const [distance, down] = [5.2, 0.34];
  // Time is twice as long as the percentiles are deep. Right, up and away from the viewer.
  const right = [2 * ca, -sa, 0];
  const up = [2 * sa * se, ca * se, 1.2 * ce];
  const away = [2 * sa * ce, ca * ce, -1.2 * se];
  // As large as fits, upright or broad.
  const high = Math.min(3, 2 * aspect);
  const wide = high / aspect;
  const scaled = (row: number[], scale: number, shift: number): number[] => [...row.map((value) => value * scale), shift * scale];
  const w = [...away, distance];
  // Depth from 2 to 9 becomes -1 to 1.
  const z = w.map((value, at) => (11 / 7) * value - (at === 3 ? 36 / 7 : 0));
  return [...scaled(right, wide, 0), ...scaled(up, high, -down), ...z, ...w];
}

/** A point of the box on a screen of -1 to 1. */
export function project(matrix: Matrix, [x, y, z]: [number, number, number]): [number, number] {
  const row = (at: number): number =>
    (matrix[at] as number) * x + (matrix[at + 1] as number) * y + (matrix[at + 2] as number) * z + (matrix[at + 3] as number);
  return [row(0) / row(12), row(4) / row(12)];
}

/** Height of a latency in the box, 0 to 1. */
function heightOf(found: Surface, value: number): number {
  const [low, high] = [Math.log(found.low), Math.log(Math.max(found.high, found.low * 1.01))];
  return (Math.log(Math.max(value, found.low)) - low) / (high - low);
}

/** A vertex counts as hit up to so many pixels away. */
const NEAR_PX = 8;

/** Bin and level of the vertex that is seen at a place, the nearest to the viewer of those around it. */
export function pick(found: Surface, [turn, height]: [number, number], width: number, high: number, x: number, y: number): [number, number] | null {
  const matrix = camera(turn, height, width / Math.max(1, high));
  const bins = found.edges.length - 1;
  let hit: [number, number] | null = null;
  let nearest = Infinity;
  for (let level = 0; level < found.levels; level++) {
    for (let bin = 0; bin < bins; bin++) {
      const point: [number, number, number] = [(2 * bin) / Math.max(1, bins - 1) - 1, (2 * level) / (found.levels - 1) - 1, heightOf(found, found.values[level * bins + bin] as number)];
      const [px, py] = project(matrix, point);
      if (Math.hypot(((px + 1) / 2) * width - x, ((1 - py) / 2) * high - y) > NEAR_PX) continue;
      const depth = (matrix[12] as number) * point[0] + (matrix[13] as number) * point[1] + (matrix[14] as number) * point[2];
      if (depth < nearest) [hit, nearest] = [[bin, level], depth];
    }
  }
  return hit;
}

const VERTEX = `#version 300 es
uniform vec4 rows[4];
in vec3 place;
out vec3 point;
void main() {
  point = place;
  vec4 p = vec4(place, 1.0);
  gl_Position = vec4(dot(rows[0], p), dot(rows[1], p), dot(rows[2], p), dot(rows[3], p));
}`;

const FRAGMENT = `#version 300 es
precision highp float;
uniform sampler2D colors;
uniform float slider;
uniform float thirds;
uniform vec3 mark;
in vec3 point;
out vec4 color;
void main() {
  vec3 normal = normalize(cross(dFdx(point), dFdy(point)));
  float light = 0.78 + 0.22 * abs(normal.z);
  color = vec4(texture(colors, vec2(point.z, 0.5)).rgb * light, 1.0);
  float step = point.z * thirds;
  float edge = abs(fract(step + 0.5) - 0.5) / max(fwidth(step), 1e-5);
  color.rgb = mix(color.rgb * 0.45, color.rgb, smoothstep(0.4, 1.2, edge));
  color.rgb = mix(mark, color.rgb, smoothstep(0.012, 0.02, abs(point.y - slider)));
}`;

export class SurfaceView {
  private gl: WebGL2RenderingContext | null = null;
  private program: WebGLProgram | null = null;
  private element: HTMLCanvasElement | null = null;

  /** Draws, or says that this browser cannot. */
  draw(element: HTMLCanvasElement, labels: HTMLCanvasElement, scene: Scene, found: Surface, ink: Ink): boolean {
    const gl = this.context(element);
    if (!gl || !this.program || gl.isContextLost()) return false;
    const scale = window.devicePixelRatio || 1;
    element.width = Math.round(element.clientWidth * scale);
    element.height = Math.round(element.clientHeight * scale);
    gl.viewport(0, 0, element.width, element.height);
    const [red, green, blue] = rgb(ink.bg);
    gl.clearColor(red, green, blue, 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    const matrix = camera(...scene.state.camera, element.width / Math.max(1, element.height));
    const bins = this.upload(gl, found);
    gl.uniform4fv(gl.getUniformLocation(this.program, "rows"), matrix);
    gl.uniform1f(gl.getUniformLocation(this.program, "slider"), (2 * stepOf(scene.state.quantile)) / STEPS - 1);
    gl.uniform1f(gl.getUniformLocation(this.program, "thirds"), 3 * Math.log10(Math.max(found.high / found.low, 1.01)));
    gl.uniform3fv(gl.getUniformLocation(this.program, "mark"), rgb(ink.a));
    this.texture(gl, ink);
    gl.enable(gl.DEPTH_TEST);
    gl.drawElements(gl.TRIANGLES, bins, gl.UNSIGNED_SHORT, 0);
    drawLabels(labels, scene, found, matrix, ink);
    return true;
  }

  private context(element: HTMLCanvasElement): WebGL2RenderingContext | null {
    if (this.element === element) return this.gl;
    this.element = element;
    // Only when somebody wants to see it: the first context takes a second on a machine without a GPU.
    this.gl = element.getContext("webgl2", { antialias: true });
    this.program = this.gl && compile(this.gl);
    return this.gl;
  }

  private upload(gl: WebGL2RenderingContext, found: Surface): number {
    const bins = found.edges.length - 1;
    const places = new Float32Array(bins * found.levels * 3);
    for (let level = 0; level < found.levels; level++) {
      for (let bin = 0; bin < bins; bin++) {
        const value = found.values[level * bins + bin] as number;
        places.set([(2 * bin) / Math.max(1, bins - 1) - 1, (2 * level) / (found.levels - 1) - 1, heightOf(found, value)], (level * bins + bin) * 3);
      }
    }
    const triangles: number[] = [];
    for (let level = 0; level + 1 < found.levels; level++) {
      for (let bin = 0; bin + 1 < bins; bin++) {
        const at = level * bins + bin;
        triangles.push(at, at + 1, at + bins, at + 1, at + bins + 1, at + bins);
      }
    }
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ARRAY_BUFFER, places, gl.STREAM_DRAW);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, Uint16Array.from(triangles), gl.STREAM_DRAW);
    gl.enableVertexAttribArray(0);
    gl.vertexAttribPointer(0, 3, gl.FLOAT, false, 0, 0);
    return triangles.length;
  }

  private texture(gl: WebGL2RenderingContext, ink: Ink): void {
    const colors = Uint8Array.from(ramp("events", ink.isDark).flat());
    gl.bindTexture(gl.TEXTURE_2D, gl.createTexture());
    gl.pixelStorei(gl.UNPACK_ALIGNMENT, 1);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGB, COLORS, 1, 0, gl.RGB, gl.UNSIGNED_BYTE, colors);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.LINEAR);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE);
  }
}

function compile(gl: WebGL2RenderingContext): WebGLProgram | null {
  const program = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]] as const) {
    const shader = gl.createShader(kind);
    if (!program || !shader) return null;
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.bindAttribLocation(program, 0, "place");
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) return null;
  gl.useProgram(program);
  return program;
}

/** A colour of the style sheet, `#rrggbb` or `#rgb`, as parts of 1. */
function rgb(color: string): [number, number, number] {
  const digits = color.length === 4 ? color.replace(/[^#]/g, "$&$&") : color;
  const value = Number.parseInt(digits.slice(1), 16) || 0;
  return [((value >> 16) & 255) / 255, ((value >> 8) & 255) / 255, (value & 255) / 255];
}

/** Ticks along the edges of the box, on a canvas over it. */
function drawLabels(element: HTMLCanvasElement, scene: Scene, found: Surface, matrix: Matrix, ink: Ink): void {
  const canvas = fit(element);
  if (!canvas) return;
  const { context, width, height } = canvas;
  const placed: [number, number][] = [];
  const label = (text: string, point: [number, number, number], align: CanvasTextAlign): void => {
    const [x, y] = project(matrix, point);
    const at: [number, number] = [((x + 1) / 2) * width, ((1 - y) / 2) * height];
    if (placed.some(([px, py]) => Math.abs(px - at[0]) < 46 && Math.abs(py - at[1]) < 14)) return;
    placed.push(at);
    context.lineWidth = 3;
    context.strokeStyle = ink.bg;
    write(context, text, at[0], at[1], ink.text, align);
  };
  const [from, to] = [scene.cube.time(found.edges[0] as number), scene.cube.time(found.edges[found.edges.length - 1] as number)];
  for (let part = 0; part <= 4; part++) label(moment(scene, Math.max(0, from + ((to - from) * part) / 4), (to - from) / 40), [part / 2 - 1, -1.12, 0], "center");
  for (const quantile of [0.5, 0.9, 0.99, 0.999, 0.9999]) label(percentile(quantile), [1.1, (2 * stepOf(quantile)) / STEPS - 1, 0], "left");
  for (const tick of logTicks(found.low, found.high)) {
    if (!/^1/.test(String(tick))) continue;
    label(duration(tick), [-1.04, -1, Math.log(tick / found.low) / Math.log(Math.max(found.high / found.low, 1.01))], "right");
  }
}
