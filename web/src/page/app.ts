// Data, state and pictures together: every change of the state draws what it changes, once per frame.

import type { Data, Exemplar, Spot, Value } from "../capture-file/decode.ts";
import { commandOf } from "../filter/command.ts";
import { valueKey, type Cells, type Prefix } from "../series/cube.ts";
import { explain, type Explanation } from "../series/explain.ts";
import { cellsOfSpot, spotText } from "../series/spots.ts";
import { quantileOf, stepOf, type Lines } from "../series/percentiles.ts";
import { fromHash, toHash } from "../state/hash.ts";
import { reduce, type Action, type State } from "../state/state.ts";
import { drawContour, surface, type Surface } from "../view/contour.ts";
import { clock, duration, events, full, percentile } from "../view/format.ts";
import { Flames } from "../view/flames.ts";
import { drawMap, type MapPicture } from "../view/heatmap.ts";
import { drawDistribution, drawGroups, drawPercentiles, tableRows, type Group } from "../view/lines.ts";
import { drawPanel, label, type PanelContent } from "../view/panel.ts";
import { boxOf, forgetBoxes, inks, type Area, type Ink } from "../view/paint.ts";
import { asked, boxOfCells, cellsOf, columnsInView, overlap, rowsInView, Scenes, weigh, type Scene } from "../view/scene.ts";
import { drawStrips, strips, type Strip } from "../view/strips.ts";
import { SurfaceView } from "../view/surface.ts";
import { mapArea } from "../view/heatmap.ts";
import { drawAbout, drawChrome, drawCrumbs } from "./chrome.ts";
import { by, el } from "./dom.ts";
import { drawOverlay, type Hover } from "./overlay.ts";

/** Groups shown before the others are one. */
const GROUPS = 12;
/** A change of the address in between waits so long, milliseconds. */
const ADDRESS_MS = 120;
/** A gesture without a move for so long is over, milliseconds. */
const REST_MS = 500;
/** The panel follows a gesture this late, milliseconds. */
const PANEL_MS = 120;
/** Browsers remember some 50 steps of a page; the others are ours. */
const REMEMBERED = 40;
/** A page in the frame of a notebook has no address of its own: its steps are ours alone. */
const HAS_ADDRESS = location.protocol !== "about:";

const DARK = matchMedia("(prefers-color-scheme: dark)");
const PRINT = matchMedia("print");

export class App {
  scenes: Scenes;
  state: State;
  scene!: Scene;
  ink: Ink = inks();
  picture: MapPicture | null = null;
  stripValues: Strip[] = [];
  found: Lines | null = null;
  contour: Surface | null = null;
  /** What the surface shows. */
  relief: Surface | null = null;
  groupAreas: Area[] = [];
  groups: Group[] = [];
  hover: Hover | null = null;
  /** A box while it is drawn. */
  drawing: { cells: Cells; second: boolean } | null = null;
  /** Where the keyboard's cursor is: bin and line of the map. */
  cursor: [number, number] | null = null;
  marked: Exemplar | null = null;
  explanation: Explanation | null = null;
  private highlight: { attribute: number; number: number } | null = null;
  flames = new Flames();
  private surfaceView = new SurfaceView();
  private waits = false;
  private parts = { map: true, panel: true };
  /** Addresses of all steps, and which of them is shown. */
  private steps: string[] = [];
  private at = 0;
  /** The last step that the browser was given. */
  private pushed = 0;
  private timer = 0;
  private rest = 0;
  private gesture = false;
  private panelKey = "";
  private panelTimer = 0;
  private chromeKey = "";
  private groupKey = "";

  constructor(public data: Data) {
    this.scenes = new Scenes(data);
    const { state, isNewer } = fromHash(location.hash);
    this.state = this.known(state);
    if (isNewer) by("status").textContent = "This address is of a later version; what is known of it is shown.";
    this.at = (history.state as { at?: number } | null)?.at ?? 0;
    this.steps[this.at] = toHash(this.state);
    this.replaceAddress();
    addEventListener("popstate", () => this.fromAddress());
    addEventListener("hashchange", () => this.fromAddress());
    DARK.addEventListener("change", () => this.draw());
    const print = (): void => {
      forgetBoxes();
      this.parts = { map: true, panel: true };
      this.drawNow();
    };
    for (const event of ["beforeprint", "afterprint"]) addEventListener(event, print);
    PRINT.addEventListener("change", print);
    const resized = new ResizeObserver(() => {
      forgetBoxes();
      this.draw();
    });
    for (const id of ["plots", "strips", "map", "pane"]) resized.observe(by(id));
    by("gl").addEventListener("webglcontextlost", () => this.draw());
    drawChrome(this);
    this.drawNow();
  }

  /** Shows newer data. What is chosen stays. */
  renew(data: Data): void {
    this.data = data;
    this.scenes = new Scenes(data);
    this.panelKey = this.groupKey = "";
    drawAbout(this);
    this.draw();
  }

  /** Does something that can be undone; what passes by is one gesture until it rests. */
  act(action: Action, isPassing = false): void {
    const next = this.known(reduce(this.state, action));
    if (toHash(next) === toHash(this.state)) return;
    this.show(next);
    clearTimeout(this.rest);
    if (this.gesture && isPassing) {
      this.steps[this.at] = toHash(next);
      this.timer ||= window.setTimeout(() => this.replaceAddress(), ADDRESS_MS);
    } else {
      this.replaceLate();
      this.steps.length = ++this.at;
      this.steps.push(toHash(next));
      this.pushed = this.at;
      if (HAS_ADDRESS) history.pushState({ at: this.at }, "", toHash(next));
    }
    this.gesture = isPassing;
    if (isPassing) this.rest = window.setTimeout(() => (this.gesture = false), REST_MS);
  }

  private show(state: State): void {
    this.state = state;
    // What the next gesture starts from, even before it is drawn.
    this.scene = { ...this.scene, state, x: columnsInView(this.scene.cube, state), y: rowsInView(this.scene.cube, state) };
    this.draw();
  }

  set(change: Partial<State>, isPassing = false): void {
    this.act({ do: "set", change }, isPassing);
  }

  undo(): void {
    this.go(-1);
  }

  redo(): void {
    this.go(1);
  }

  /** Back and forward in the list that Back and Forward of the browser have too, as far as it remembers. */
  private go(step: 1 | -1): void {
    const [to, known] = [this.at + step, this.steps[this.at + step]];
    if (to < 0 || (to >= this.steps.length && this.steps.length > 1)) return;
    this.replaceLate();
    const remembered = this.pushed - REMEMBERED;
    if (HAS_ADDRESS && (known === undefined || Math.min(to, this.at) >= remembered)) {
      history.go(step);
      return;
    }
    if (known === undefined) return;
    this.at = to;
    if (HAS_ADDRESS) history.replaceState({ at: to }, "", known);
    this.show(this.known(fromHash(known).state));
  }

  /** The last of a gesture is in the address before anything else is. */
  private replaceLate(): void {
    if (!this.timer) return;
    clearTimeout(this.timer);
    this.timer = 0;
  }

  private replaceAddress(): void {
    this.timer = 0;
    if (HAS_ADDRESS) history.replaceState({ at: this.at }, "", toHash(this.state));
  }

  private fromAddress(): void {
    this.replaceLate();
    this.gesture = false;
    this.at = (history.state as { at?: number } | null)?.at ?? this.at;
    this.marked = null;
    const state = this.known(fromHash(location.hash).state);
    this.steps[this.at] = toHash(state);
    this.show(state);
  }

  /** A state without what this trace does not have. */
  private known(state: State): State {
    const names = new Set(this.data.head.attributes.map(({ name }) => name));
    const tab = state.tab === "groups" && names.size === 0 ? "lines" : state.tab;
    const isSeveral = this.data.head.attributes.some(({ kind, values }) => kind === "trace" && values.length > 1);
    const weight = state.weight === "difference" && !isSeveral ? "events" : state.weight;
    return { ...state, weight, by: names.has(state.by) ? state.by : "", tab };
  }

  /** Draws in the next frame; only what lies over the pictures, if nothing else changed. */
  draw(parts: { map: boolean; panel: boolean } = { map: true, panel: true }): void {
    this.parts = { map: this.parts.map || parts.map, panel: this.parts.panel || parts.panel };
    if (this.waits) return;
    this.waits = true;
    requestAnimationFrame(() => {
      this.waits = false;
      this.drawNow();
    });
  }

  drawNow(): void {
    const { map, panel } = this.parts;
    this.parts = { map: false, panel: false };
    if (map) this.drawPictures();
    // To write on a canvas brings the style of the page up to date, so what changes the page comes last.
    drawOverlay(this);
    if (panel) this.drawText();
  }

  private drawPictures(): void {
    if (by("plots").className !== this.state.tab) {
      by("plots").className = this.state.tab;
      forgetBoxes();
    }
    const dark = this.state.theme === "dark" || (this.state.theme === "system" && DARK.matches);
    const theme = dark && !PRINT.matches ? "dark" : "light";
    if (document.documentElement.dataset.theme !== theme) {
      document.documentElement.dataset.theme = theme;
      this.ink = inks();
    }
    const cells = by<HTMLCanvasElement>("cells");
    const box = boxOf(cells);
    const area = mapArea(box.width, box.height);
    this.scene = this.scenes.scene(this.state, area.width, area.height);
    const { scene, ink } = this;
    this.stripValues = strips(scene);
    drawStrips(by<HTMLCanvasElement>("strips"), scene, this.stripValues, ink);
    this.picture = drawMap(cells, scene, ink, this.spotRows(), this.faded());
    this.drawLower();
  }

  /** Events of the spot by row. */
  private spotRows(): Float64Array | null {
    if (!this.state.a) return null;
    const cells = cellsOf(this.scene.cube, this.state.a);
    const rows = new Float64Array(this.scene.cube.lastRow + 1);
    for (let row = Math.max(0, cells.rows[0]); row < Math.min(cells.rows[1], rows.length); row++) {
      rows[row] = this.scene.prefix.sum(this.scene.prefix.counts, { columns: cells.columns, rows: [row, row + 1] });
    }
    return rows;
  }

  /** Of the value under the pointer, the cells that have it. */
  private faded(): Float64Array | null {
    if (!this.highlight) return null;
    const values = this.data.values[this.highlight.attribute] as Uint32Array;
    const passes = this.scene.passes.map((passes, combination) => (passes && values[combination] === this.highlight?.number ? 1 : 0));
    return weigh(this.scene.cube.prefix(passes), this.scene.columnEdges, this.scene.rowEdges, "events");
  }

  private drawLower(): void {
    const { scene, ink, state } = this;
    const lower = by<HTMLCanvasElement>("lower");
    const [gl, labels] = [by<HTMLCanvasElement>("gl"), by<HTMLCanvasElement>("labels")];
    const isSurface = state.tab === "surface" && !PRINT.matches;
    gl.hidden = labels.hidden = !isSurface;
    this.found = null;
    this.contour = this.relief = null;
    this.groupAreas = [];
    if (isSurface) {
      const found = surface(scene, 160);
      this.relief = found;
      if (this.surfaceView.draw(gl, labels, scene, found, ink)) {
        lower.hidden = true;
        return;
      }
      gl.hidden = labels.hidden = true;
      this.relief = null;
      by("status").textContent = "This browser has no WebGL2: the contour map shows the same.";
    }
    lower.hidden = false;
    if (state.tab === "lines") this.found = drawPercentiles(lower, scene, state.by ? this.groupsOf() : [], ink);
    else if (state.tab === "distribution") drawDistribution(lower, scene, ink);
    else if (state.tab === "groups") this.groupAreas = drawGroups(lower, scene, this.groupsOf(), ink);
    else this.contour = drawContour(lower, scene, ink);
  }

  /** The attribute of the groups. */
  get by(): string {
    return this.state.by || (this.data.head.attributes[0]?.name ?? "");
  }

  /** Groups of the view by the chosen attribute, the heaviest first. */
  private groupsOf(): Group[] {
    const { state, scene, data } = this;
    const attribute = scene.cube.attribute(this.by);
    const key = JSON.stringify([this.by, state.is, state.not]);
    if (attribute < 0 || key === this.groupKey) return this.groups;
    this.groupKey = key;
    const numbers = data.values[attribute] as Uint32Array;
    const counts = scene.cube.allCombinations(scene.passes);
    const values = data.head.attributes[attribute]?.values ?? [];
    const events = new Float64Array(values.length);
    counts.forEach((value, combination) => {
      const number = numbers[combination] as number;
      events[number] = (events[number] as number) + value;
    });
    const order = values.map((_, number) => number).filter((number) => (events[number] as number) > 0);
    order.sort((one, other) => (events[other] as number) - (events[one] as number));
    const prefix = (of: (number: number) => boolean): Prefix => scene.cube.prefix(scene.passes.map((passes, combination) => (passes && of(numbers[combination] as number) ? 1 : 0)));
    const shown = order.slice(0, order.length > GROUPS ? GROUPS - 1 : GROUPS);
    const rest = order.slice(shown.length);
    this.groups = shown.map((number) => ({ value: values[number] as Value, label: label(data, attribute, values[number] as Value), events: events[number] as number, prefix: prefix((at) => at === number) }));
    if (rest.length > 0) {
      const others = new Set(rest);
      const sum = rest.reduce((all, number) => all + (events[number] as number), 0);
      this.groups.push({ value: { others: true }, label: `others (${rest.length})`, events: sum, prefix: prefix((at) => others.has(at)) });
    }
    return this.groups;
  }

  private drawText(): void {
    const { state } = this;
    const isClockKnown = this.data.head.clock.to_unix_ns !== null;
    const chrome = [state.weight, state.tab, state.theme, state.wall, state.utc, state.table, state.by, isClockKnown].join();
    if (chrome !== this.chromeKey) drawChrome(this);
    this.chromeKey = chrome;
    drawCrumbs(this);
    by<HTMLInputElement>("slider").value = String(stepOf(this.state.quantile));
    by<HTMLInputElement>("typed").value = percentile(this.state.quantile);
    this.drawTable();
    const key = JSON.stringify([this.state.is, this.state.not, this.state.a, this.state.b, this.state.a ? null : [this.state.x, this.state.y], this.state.wall, this.state.utc]);
    if (key === this.panelKey) return;
    clearTimeout(this.panelTimer);
    // While something moves, its explanation waits until it rests.
    if (this.gesture) {
      this.panelTimer = window.setTimeout(() => this.drawExplanation(key), PANEL_MS);
      return;
    }
    this.drawExplanation(key);
  }

  private drawExplanation(key: string): void {
    this.panelKey = key;
    const content = this.content();
    this.explanation = content.explanation;
    drawPanel(by("panel"), this.data, this.state, content, {
      toggle: (kind, name, value) => this.act({ do: kind, name, key: valueKey(value) }),
      hover: (attribute, number) => {
        this.highlight = number === null ? null : { attribute, number };
        this.draw({ map: true, panel: false });
      },
      take: (spot) => this.take(spot),
      mark: (exemplar) => {
        this.marked = exemplar;
        this.draw({ map: false, panel: false });
      },
      json: () => this.json(),
    });
  }

  /** The state with boxes of whole cells, which is what is counted; those of an address may lie anywhere. */
  whole(): State {
    const { cube } = this.scene;
    const snapped = (box: State["a"]): State["a"] => box && boxOfCells(cube, cellsOf(cube, box));
    return { ...this.state, a: snapped(this.state.a), b: snapped(this.state.b) };
  }

  /** Puts box A on a spot that was found, and shows all of it. */
  take(spot: Spot): void {
    const { cube } = this.scene;
    const cells = cellsOfSpot(cube, spot);
    const [x, y] = [columnsInView(cube, this.state), rowsInView(cube, this.state)];
    const is = Object.fromEntries(Object.entries(spot.values).map(([name, value]) => [name, [value]]));
    const isSeen = cells.columns[0] >= x[0] && cells.columns[1] <= x[1] && cells.rows[0] >= y[0] && cells.rows[1] <= y[1];
    this.set({ a: boxOfCells(cube, cells), b: null, is, not: {}, ...(isSeen ? {} : { x: null, y: null }) });
  }

  /** The next or previous of the spots, in a circle. */
  nextSpot(step: 1 | -1): void {
    const spots = this.data.head.spots ?? [];
    const boxes = spots.map((spot) => JSON.stringify(boxOfCells(this.scene.cube, cellsOfSpot(this.scene.cube, spot))));
    const at = boxes.indexOf(JSON.stringify(this.state.a));
    const spot = spots[at < 0 ? (step > 0 ? 0 : spots.length - 1) : (at + step + spots.length) % spots.length];
    if (spot) this.take(spot);
    else by("status").textContent = "Nothing unusual was found in this trace.";
  }

  /** The cells in view. */
  inView(): Cells {
    const { x, y } = this.scene;
    return { columns: [Math.floor(x[0]), Math.ceil(x[1])], rows: [Math.floor(y[0]), Math.ceil(y[1])] };
  }

  /** Where the trace ends, nanoseconds since its start. */
  get end(): number {
    return this.scene.cube.time(this.scene.cube.columns);
  }

  private content(): PanelContent {
    const { scene, state } = this;
    const { cube, prefix, passes } = scene;
    const whole = cube.allCombinations(passes);
    const cells = state.a ? cellsOf(cube, state.a) : this.inView();
    const isAll = cells.columns[1] - cells.columns[0] === cube.columns && cells.rows[0] <= cube.firstRow && cells.rows[1] >= cube.lastRow;
    let spot = isAll ? whole : cube.combinations(cells, passes);
    const minus = (one: Float64Array, other: Float64Array): Float64Array => one.map((value, at) => value - (other[at] as number));
    // What both boxes hold counts for A only, as in `explain --against`.
    const shared = state.a && state.b && overlap(cells, cellsOf(cube, state.b));
    let rest = state.b ? cube.combinations(cellsOf(cube, state.b), passes) : minus(whole, spot);
    if (shared) rest = minus(rest, cube.combinations(shared, passes));
    const notes: string[] = [];
    const total = (counts: Float64Array): number => counts.reduce((sum, value) => sum + value, 0);
    let sides: [string, string] | null = !state.a ? null : ["spot A", state.b ? (shared ? "spot B without A" : "spot B") : "the rest"];
    let title = state.a ? "What is different in spot A" : "What is in view";
    const isOutside = state.a !== null && !state.b && total(spot) > total(rest) && total(rest) > 0;
    if (isOutside) {
      [spot, rest] = [rest, spot];
      sides = ["outside of A", "spot A"];
      title = "What is different outside of spot A";
      notes.push("The box holds more than half of the events, so what is outside of it is explained.");
    }
    const inside = prefix.sum(prefix.latency, cells);
    const allWaiting = prefix.sum(prefix.latency, { columns: [0, cube.columns], rows: [0, Infinity] });
    if (!sides) {
      rest = new Float64Array(rest.length);
      notes.push("Drag a box over a spot to see what is different there. A second box (Alt+drag) compares two spots.");
    }
    if (state.a && state.b) title = "Spot A against spot B";
    if (shared) notes.push("The boxes overlap. What is in both counts for A only.");
    const kept = this.data.exemplars.filter((exemplar) => {
      const column = Math.floor(cube.column(exemplar.start + exemplar.latency));
      const row = cube.grid.index(exemplar.latency);
      const isIn = column >= cells.columns[0] && column < cells.columns[1] && row >= cells.rows[0] && row < cells.rows[1];
      return isIn !== isOutside && passes[exemplar.combination];
    });
    return {
      title,
      ranges: this.ranges(cells),
      explanation: explain(this.data, spot, rest),
      events: total(whole),
      waiting: [isOutside ? allWaiting - inside : inside, allWaiting],
      isAbout: scene.isFiltered,
      sides,
      notes,
      command: commandOf(this.data.head, this.whole(), this.end),
      exemplars: kept,
      flames: this.stacksOf(cells),
      spots: sides === null ? (this.data.head.spots ?? []).map((spot) => ({ spot, text: spotText(spot, this.waitingOfAll()) })) : [],
    };
  }

  /** The call stacks of these cells. */
  private stacksOf(cells: Cells): Flames | null {
    if (this.scene.cube.attribute("stack") < 0) return null;
    this.flames.show(this.data, this.scene.cube.weights(cells, this.scene.passes));
    return this.flames;
  }

  private waitingOfAll(): number {
    const { all, cube } = this.scenes;
    return all.sum(all.latency, { columns: [0, cube.columns], rows: [0, Infinity] });
  }

  /** Time and latency of cells, in words. */
  ranges(cells: Cells): string {
    const { cube } = this.scene;
    const [from, to] = cells.columns.map((column) => Math.max(cube.time(column), 0)) as [number, number];
    const rows = `${duration(cube.grid.lower(cells.rows[0]))} – ${duration(cube.grid.lower(cells.rows[1]))}`;
    return `${this.moment(from, to - from)} – ${this.moment(to, to - from)}, ${rows}`;
  }

  moment(time: number, span: number): string {
    const { head } = this.data;
    if (!this.state.wall || head.clock.to_unix_ns === null) return duration(time);
    return clock(BigInt(head.trace_start_ns) + BigInt(head.clock.to_unix_ns) + BigInt(Math.round(time)), span / 100, this.state.utc);
  }

  private drawTable(): void {
    const element = by("table");
    if (!this.state.table && !PRINT.matches) {
      element.replaceChildren();
      return;
    }
    const all = [...asked(this.scene)].sort();
    const head = ["time", "events", "waiting", ...all.map(percentile)];
    const rows = tableRows(this.scene, all).map((row) =>
      el("tr", {}, ...[this.moment(Math.max(row.time[0], 0), row.time[1] - row.time[0]), full(row.events), duration(row.waiting), ...row.values.map((value) => (value === null ? "" : duration(value)))].map((text) => el("td", {}, text))),
    );
    const caption = el("caption", {}, "The view as numbers");
    element.replaceChildren(el("table", {}, caption, el("thead", {}, el("tr", {}, ...head.map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, ...rows)));
  }

  /** The explanation as JSON. */
  json(): string {
    const { explanation, data } = this;
    if (!explanation) return "{}";
    const columns = explanation.findings.map((finding) => ({
      name: finding.name,
      divergence: finding.divergence,
      same: finding.same,
      follows: finding.follows,
      values: finding.values.map((one) => ({ value: label(data, finding.attribute, one.value), spot: one.spot, rest: one.rest })),
    }));
    return JSON.stringify({ spot: explanation.spot, rest: explanation.rest, columns, no_difference: explanation.without, slight: explanation.slight }, null, 1);
  }

  /** How many events pass, for the crumbs. */
  counted(): string {
    const passed = this.scene.isFiltered ? this.scene.prefix.sum(this.scene.prefix.counts, { columns: [0, this.scene.cube.columns], rows: [0, Infinity] }) : this.data.events;
    return `${full(passed)} of ${events(this.data.events)}`;
  }

  /** Keeps the events of a group. */
  keep(value: Value): void {
    this.act({ do: "keep", name: this.by, key: valueKey(value) });
  }

  slide(step: number, isPassing: boolean): void {
    this.set({ quantile: quantileOf(step) }, isPassing);
  }}
