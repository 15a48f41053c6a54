// The call stacks of a spot, or of what is in view: boxes from the root down, which zoom and are searched.

import type { Data } from "../capture-file/decode.ts";
import { button, el } from "../page/dom.ts";
import type { Weights } from "../series/cube.ts";
import { except, interval, stacks, type Kind, type Node, type Stacks } from "../series/stacks.ts";
import { count, duration, events, percent, plain } from "./format.ts";
import { label } from "./panel.ts";

const NS = "http://www.w3.org/2000/svg";
const ROW = 17;
/** A letter is about so wide. */
const LETTER = 6.9;
/** Narrower boxes are not drawn, and no more than this. */
const NARROWEST = 0.7;
const MOST = 4000;
/** What was captured, by when the stack was taken. */
const SOURCES: Record<string, string> = { sampled: "sampled waits", switch: "timed waits", timer: "running on a CPU", completion: "requests, at completion", waiting: "requests that wait", issue: "requests, at issue" };
/** The colours of crates/view-report/src/flamegraph/colour.rs. */
const COLORS: Record<Kind, string> = { user: "#f4b860", inlined: "#f7dfa3", kernel: "#dd94ae", jit: "#93cb8d", python: "#8bbaea", field: "#c9ced6", others: "#e2e2e2" };

export class Flames {
  readonly element: HTMLElement;
  private readonly picture = el("div", { class: "flames" });
  private readonly found = el("span", { class: "muted", role: "status" });
  private readonly fields = el("div", { class: "choices" });
  private readonly sources = el("div", { class: "choices", role: "group", "aria-label": "Sources" });
  private readonly words = el("p", { class: "muted" });
  private readonly search = el("input", { type: "search", placeholder: "Search functions", "aria-label": "Search functions" });
  private readonly unit = el("select", { "aria-label": "Width of the boxes" }, el("option", { value: "time" }, "by time waited"), el("option", { value: "events" }, "by events"));
  private readonly large = el("dialog", { class: "large", "aria-label": "Call stacks" });
  private by: string[] = [];
  /** The values of `stack_source` that are left out. */
  private readonly off = new Set<string>();
  /** The keys from the root to the box that is zoomed to. */
  private zoom: string[] = [];
  private data: Data | null = null;
  private weights: Weights | null = null;
  private drawn: Stacks | null = null;

  constructor() {
    const body = el(
      "div",
      {},
      el("div", { class: "buttons" }, this.unit, this.search),
      this.sources,
      el("details", {}, el("summary", {}, "Split by"), this.fields),
      this.found,
      this.picture,
      this.words,
    );
    const enlarge = button("Enlarge", "Show the stacks in the whole window", () => {
      const isOpen = this.large.open;
      (isOpen ? this.element : this.large).append(body);
      if (isOpen) this.large.close();
      else {
        document.body.append(this.large);
        this.large.showModal();
      }
      this.draw();
    });
    this.large.addEventListener("close", () => {
      this.element.append(body);
      this.draw();
    });
    this.large.append(button("Close", "Close (Esc)", () => this.large.close()));
    this.element = el("section", { id: "stacks", "aria-label": "Call stacks" }, el("h3", {}, "Call stacks", enlarge), body);
    this.unit.addEventListener("change", () => this.draw());
    this.search.addEventListener("input", () => this.draw());
    // The page has keys of its own.
    this.element.addEventListener("keydown", (event) => event.target === this.search && event.stopPropagation());
    this.large.addEventListener("keydown", (event) => event.stopPropagation());
  }

  /** Shows the stacks of combinations with these weights. */
  show(data: Data, weights: Weights): void {
    if (data !== this.data) this.offer(data);
    [this.data, this.weights] = [data, weights];
    this.draw();
  }

  /** Whether someone types here. */
  get isTyping(): boolean {
    return document.activeElement === this.search;
  }

  focus(): void {
    this.search.focus({ preventScroll: true });
  }

  /** The attributes with several values. */
  private offer(data: Data): void {
    const names = data.head.attributes.filter(({ name, values }) => name !== "stack" && values.length > 1).map(({ name }) => name);
    this.by = this.by.filter((name) => names.includes(name));
    const choice = (name: string, text: string, isOn: boolean, turn: (isOn: boolean) => void): HTMLElement => {
      const box = el("input", { type: "checkbox", value: name });
      box.checked = isOn;
      box.addEventListener("change", () => {
        turn(box.checked);
        this.zoom = [];
        this.draw();
      });
      return el("label", {}, box, text);
    };
    const split = (name: string) => (isOn: boolean) => void (this.by = isOn ? [...this.by, name] : this.by.filter((known) => known !== name));
    this.fields.replaceChildren(...names.map((name) => choice(name, name, this.by.includes(name), split(name))));
    const found = data.head.attributes.find(({ name }) => name === "stack_source")?.values.filter((value) => typeof value === "string") ?? [];
    const source = (value: string): HTMLElement =>
      choice(value, SOURCES[value] ?? value, !this.off.has(value), (isOn) => void (isOn ? this.off.delete(value) : this.off.add(value)));
    this.sources.replaceChildren(...(found.length > 1 ? found.map(source) : []));
  }

  private draw(): void {
    const { data, weights } = this;
    if (!data || !weights) return;
    const found = stacks(data, except(data, weights, "stack_source", this.off), this.by, (attribute, value) => label(data, attribute, value));
    this.drawn = found;
    const unit = this.unit.value === "events" || found.root.time === 0 ? "events" : "time";
    const pattern = this.pattern();
    let [top, path] = [found.root, [] as Node[]];
    for (const key of this.zoom) {
      const child = top.children.get(key);
      if (!child) break;
      path.push(top);
      top = child;
    }
    this.zoom.length = path.length;
    const width = Math.max(200, this.picture.clientWidth || 340);
    const svg = document.createElementNS(NS, "svg");
    let [depth, boxes, matched] = [0, 0, 0];
    const all = Math.max(found.root[unit], Number.MIN_VALUE);
    const box = (node: Node, keys: string[], x: number, row: number, wide: number, isAbove: boolean): void => {
      boxes++;
      depth = Math.max(depth, row + 1);
      const isMatch = pattern !== null && node.kind !== "others" && pattern.test(node.name);
      const group = document.createElementNS(NS, "g");
      const title = document.createElementNS(NS, "title");
      const share = node[unit] / all;
      const [low, high] = interval(share, found.samples[unit]);
      const time = node.time > 0 ? `, ${duration(node.time)}` : "";
      title.textContent = `${plain(node.name)}\n${percent(share)} (${percent(low)} to ${percent(high)}) · ${events(node.events)}${time}${node.kind === "user" || node.kind === "field" ? "" : `\n${node.kind}`}`;
      const rect = document.createElementNS(NS, "rect");
      const set = (element: Element, values: Record<string, string | number>): void => Object.entries(values).forEach(([name, value]) => element.setAttribute(name, String(value)));
      set(rect, { x: x.toFixed(2), y: row * ROW, width: Math.max(wide - 0.5, 0.3).toFixed(2), height: ROW - 1, rx: 2, fill: isMatch ? "#c34fd8" : COLORS[node.kind], "fill-opacity": isAbove ? 0.5 : 1 });
      group.append(title, rect);
      const letters = Math.floor((wide - 6) / LETTER);
      if (letters >= 3) {
        const text = document.createElementNS(NS, "text");
        set(text, { x: (x + 3).toFixed(2), y: row * ROW + 12 });
        const name = plain(node.name);
        text.textContent = name.length <= letters ? name : `${name.slice(0, letters - 1)}…`;
        group.append(text);
      }
      set(group, { tabindex: 0, role: "button", "data-name": node.name });
      const zoom = (): void => {
        this.zoom = keys;
        this.draw();
        this.picture.querySelector<SVGElement>("g")?.focus({ preventScroll: true });
      };
      group.addEventListener("click", zoom);
      group.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === "Escape") {
          event.stopPropagation();
          event.preventDefault();
          if (event.key === "Escape") keys = [];
          zoom();
        }
      });
      svg.append(group);
    };
    const walk = (node: Node, keys: string[], x: number, row: number, wide: number, isCounted: boolean): void => {
      if (wide < NARROWEST || boxes >= MOST) return;
      box(node, keys, x, row, wide, false);
      let at = x;
      for (const [key, child] of [...node.children].sort(([one], [other]) => (one < other ? -1 : 1))) {
        const part = (wide * child[unit]) / Math.max(node[unit], Number.MIN_VALUE);
        walk(child, [...keys, key], at, row + 1, part, isCounted);
        at += part;
      }
    };
    path.forEach((node, row) => box(node, this.zoom.slice(0, row), 0, row, width, true));
    walk(top, [...this.zoom], 0, path.length, width, false);
    // Each stack that has a match counts once, however narrow it is drawn.
    const count1 = (node: Node): void => {
      if (pattern && node.kind !== "others" && pattern.test(node.name)) matched += node[unit];
      else node.children.forEach(count1);
    };
    if (pattern) count1(found.root);
    svg.setAttribute("viewBox", `0 0 ${width} ${depth * ROW}`);
    svg.setAttribute("width", String(width));
    svg.setAttribute("height", String(depth * ROW));
    this.picture.replaceChildren(found.root.events > 0 ? svg : el("p", {}, "None of these events has a call stack."));
    this.found.textContent = pattern ? `${percent(matched / all)} of ${unit === "time" ? "the time" : "the events"} in matches` : "";
    const others = [...found.root.children.values()].some(({ kind }) => kind === "others") || this.by.length > 0;
    const left = data.head.attributes.find(({ name }) => name === "stack")?.values.some((value) => value !== null && typeof value === "object");
    const notes = [unit === "time" ? "Times are those of whole cells of the map, shared out by events." : ""];
    if (found.without.events > 0) notes.push(`${events(found.without.events)} without a stack are in no box.`);
    const waiting = data.head.unfinished.count;
    if (waiting > 0) notes.push(`${events(waiting)} without an end yet ${waiting === 1 ? "is" : "are"} in no box; latscope stacks counts them with their age.`);
    if (left && others) notes.push("There was no room for all stacks: those with the least time are together in (other stacks).");
    if (boxes >= MOST) notes.push(`Only ${count(MOST)} boxes are drawn; zoom to see more.`);
    this.words.textContent = notes.filter((text) => text !== "").join(" ");
  }

  private pattern(): RegExp | null {
    const text = this.search.value.trim();
    if (text === "") return null;
    try {
      return new RegExp(text, "i");
    } catch {
      return new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i");
    }
  }

  /** Numbers of the whole picture, for whoever looks with the tools of a browser. */
  get sums(): Stacks | null {
    return this.drawn;
  }
}
