// The panel: what is different in a spot, or what is in view.

import type { Data, Exemplar, Spot, Value, Waiters } from "../capture-file/decode.ts";
import { button, copy, el } from "../page/dom.ts";
import type { Explanation, Finding } from "../series/explain.ts";
import { valueKey } from "../series/cube.ts";
import { distinct, innermost } from "../series/stacks.ts";
import type { State } from "../state/state.ts";
import type { Flames } from "./flames.ts";
import { count, duration, events, percent, plain, size } from "./format.ts";

/** Values shown of an attribute, unless more are asked for, and then. */
const SHOWN = 4;
const MOST_SHOWN = 300;
/** Attributes of which more are shown. */
const opened = new Set<string>();

export interface PanelContent {
  title: string;
  ranges: string;
  explanation: Explanation;
  /** Events that pass, wherever they are. */
  events: number;
  /** Latencies of the spot, and of all. */
  waiting: [number, number];
  /** Whether latencies of a part of a cell were shared out by count. */
  isAbout: boolean;
  /** What is explained and against what, in words; null where nothing is. */
  sides: [string, string] | null;
  notes: string[];
  command: string | null;
  exemplars: Exemplar[];
  /** The call stacks; null where the trace has none. */
  flames: Flames | null;
  /** What the program found by itself, where nothing is selected. */
  spots: { spot: Spot; text: string }[];
}

export interface PanelActions {
  toggle(kind: "keep" | "exclude", name: string, value: Value): void;
  hover(attribute: number, number: number | null): void;
  take(spot: Spot): void;
  mark(exemplar: Exemplar): void;
  json(): string;
}

/** Labels of the stacks of a trace, so that no two are alike. */
const stackLabels = new WeakMap<Data, Map<string, string>>();

function stackLabel(data: Data, values: Value[], stack: string): string {
  let labels = stackLabels.get(data);
  if (!labels) stackLabels.set(data, (labels = distinct(values.filter((value) => typeof value === "string"))));
  return labels.get(stack) ?? innermost(stack);
}

/** A value as people read it. */
export function label(data: Data, attribute: number, value: Value): string {
  const { kind, name, values = [] } = data.head.attributes[attribute] ?? {};
  if (value === null) return "(none)";
  if (typeof value === "string") return value === "" ? "(empty)" : plain(name === "stack" ? stackLabel(data, values, value) : value);
  if (typeof value === "number") return String(value);
  if (!Array.isArray(value)) return "(others)";
  const [from, to] = value;
  const text = kind === "bytes" ? size : kind === "duration" ? duration : count;
  return from === to ? text(from) : `${text(from)}–${kind === "bytes" ? size(to + 1) : text(to)}`;
}

export function drawPanel(element: HTMLElement, data: Data, state: State, content: PanelContent, actions: PanelActions): void {
  const { explanation, sides } = content;
  const children: (Node | null)[] = [el("h2", {}, content.title), el("p", { class: "muted" }, content.ranges)];
  const about = content.isAbout ? "~" : "";
  const figure = (value: string, note: string): HTMLElement => el("div", {}, el("b", {}, value), note);
  children.push(
    el(
      "div",
      { class: "figures" },
      figure(count(explanation.spot), sides ? `events, ${percent(content.events > 0 ? explanation.spot / content.events : 0)}` : explanation.spot === 1 ? "event" : "events"),
      figure(about + duration(content.waiting[0]), !sides && content.waiting[0] === content.waiting[1] ? "waiting" : `waiting, ${percent(content.waiting[1] > 0 ? content.waiting[0] / content.waiting[1] : 0)}`),
      figure(explanation.spot > 0 ? about + duration(content.waiting[0] / explanation.spot) : "–", "mean"),
    ),
  );
  if (explanation.spot === 0) children.push(el("p", {}, "Nothing here: no event lies in this box."));
  for (const note of content.notes) children.push(el("p", {}, note));
  if (sides && explanation.spot > 0) {
    const key = (color: string, text: string): HTMLElement => {
      const element = el("span", { class: "key" }, el("span", {}, text));
      element.style.color = `var(--${color})`;
      return element;
    };
    children.push(el("p", {}, key("a", sides[0]), key("rest", sides[1])));
    if (explanation.findings.length === 0) children.push(el("p", {}, "No difference found: the attributes of these events are those of the others."));
    const both = explanation.both;
    if (both) {
      const words = both.values.map(([name, value]) => `${name} = ${label(data, data.head.attributes.findIndex((known) => known.name === name), value)}`);
      children.push(el("p", { class: "both" }, `${words.join(" and ")}: ${percent(both.spot / explanation.spot)} of ${sides[0]}, ${percent(both.rest / Math.max(1, explanation.rest))} of ${sides[1]}`));
    }
  }
  if (content.spots.length > 0) {
    const button = ({ spot, text }: PanelContent["spots"][number]): HTMLElement => {
      const title = `${count(spot.events)} events from ${duration(spot.latency[0])} up${spot.common === null ? "" : `, mostly ${plain(spot.common)}`}`;
      const element = el("button", { type: "button", title }, plain(text));
      element.addEventListener("click", () => actions.take(spot));
      return element;
    };
    children.push(el("h3", {}, "Found in this trace", el("span", {}, "n, N")), el("div", { class: "spots" }, ...content.spots.map(button)));
  }
  if (!sides) children.push(...drawWaiters(data));
  if (content.flames) children.push(content.flames.element);
  for (const finding of explanation.findings) children.push(...drawFinding(data, state, content, finding, actions));
  if (explanation.slight.length > 0) children.push(el("p", { class: "muted" }, `Differs by less than 1 of 100: ${explanation.slight.join(", ")}`));
  if (explanation.without.length > 0 && explanation.spot > 0) children.push(el("p", { class: "muted" }, `No difference: ${explanation.without.join(", ")}`));
  if (data.head.left_out.length > 0) children.push(el("p", { class: "muted" }, `Not in this file: ${data.head.left_out.join(", ")} (--budget makes room)`));
  children.push(...drawCommand(content, actions), ...drawExemplars(data, content, actions));
  const isTyping = content.flames?.isTyping ?? false;
  const focused = element.contains(document.activeElement) ? (document.activeElement as HTMLElement).title : "";
  element.replaceChildren(...children.filter((child) => child !== null));
  // On a live page the panel is drawn each second.
  if (isTyping) content.flames?.focus();
  if (focused) [...element.querySelectorAll<HTMLElement>("button")].find(({ title }) => title === focused)?.focus({ preventScroll: true });
}

/** Who had not ended, in the whole trace: none of these is an event of the map. */
function drawWaiters(data: Data): Node[] {
  const { count: all, groups = [] } = data.head.unfinished;
  if (groups.length === 0) return [];
  const row = ({ who, count: number, oldest, stack }: Waiters): HTMLElement => {
    const where = stack === null ? "" : innermost(stack);
    return el("tr", { title: stack === null ? "" : plain(stack, Infinity) }, ...[count(number), `≥ ${duration(oldest)}`, plain([...who, where].filter(Boolean).join(" · "))].map((text) => el("td", {}, text)));
  };
  const left = all - groups.reduce((sum, group) => sum + group.count, 0);
  return [
    el("h3", {}, "Still waiting", el("span", {}, `${count(all)} at the end, of the whole trace`)),
    el("table", { class: "exemplars waiters" }, el("tbody", {}, ...groups.map(row))),
    ...(left > 0 ? [el("p", { class: "muted" }, `and ${count(left)} more`)] : []),
  ];
}

function drawFinding(data: Data, state: State, content: PanelContent, finding: Finding, actions: PanelActions): Node[] {
  const { explanation, sides } = content;
  const heading = el("h3", {}, finding.name, !sides ? null : el("span", {}, `difference ${Math.round(finding.divergence * 100)} of 100`));
  heading.dataset.attribute = finding.name;
  const list = el("div", { role: "list" });
  const rows = (from: number, to: number): Node[] =>
    finding.values.slice(from, to).map((one) => {
      const text = label(data, finding.attribute, one.value);
      const [spot, rest] = [explanation.spot > 0 ? one.spot / explanation.spot : 0, explanation.rest > 0 ? one.rest / explanation.rest : 0];
      const bar = (kind: string, share: number): HTMLElement => {
        const element = el("i", { class: kind });
        element.style.width = `${Math.max(share * 100, 0)}%`;
        return element;
      };
      const bars = !sides ? [bar("all", spot)] : [bar("spot", spot), bar("rest", rest)];
      const key = valueKey(one.value);
      const isKept = state.is[finding.name]?.includes(key) ?? false;
      const isOut = state.not[finding.name]?.includes(key) ?? false;
      const row = el(
        "button",
        { class: "row", type: "button", "aria-pressed": String(isKept), title: `${text}: ${sides ? `${count(one.spot)} and ${count(one.rest)} events` : events(one.spot)}. Click keeps only these, Alt+click excludes them.` },
        el("span", {}, text),
        el("span", { class: "bars" }, ...bars),
        el("span", {}, percent(spot)),
        el("span", { class: "baseline" }, sides ? percent(rest) : count(one.spot)),
      );
      row.dataset.value = key;
      row.addEventListener("click", (event) => actions.toggle(event.altKey ? "exclude" : "keep", finding.name, one.value));
      row.addEventListener("pointerenter", () => actions.hover(finding.attribute, one.number));
      row.addEventListener("pointerleave", () => actions.hover(finding.attribute, null));
      const exclude = button("≠", `Exclude ${text}`, () => actions.toggle("exclude", finding.name, one.value), { class: "exclude", "aria-pressed": String(isOut), "aria-label": `Exclude ${text}` });
      return el("div", { class: "value", role: "listitem" }, row, exclude);
    });
  const all = finding.values.length;
  const shown = opened.has(finding.name) ? MOST_SHOWN : SHOWN;
  list.append(...rows(0, shown));
  const rest = el("p", { class: "muted" }, `${count(all - MOST_SHOWN)} more are not listed`);
  if (all > SHOWN && shown === SHOWN) {
    const show = button(`${count(all - SHOWN)} more`, "Show more values", () => {
      opened.add(finding.name);
      show.replaceWith(...rows(SHOWN, MOST_SHOWN), ...(all > MOST_SHOWN ? [rest] : []));
    }, { class: "more" });
    list.append(show);
  } else if (all > shown) list.append(rest);
  const same = finding.same.length > 0 ? [el("p", { class: "muted" }, `The same events: ${finding.same.join(", ")}`)] : [];
  if (finding.follows.length > 0) same.push(el("p", { class: "muted" }, `Differs with it: ${finding.follows.join(", ")}`));
  return [heading, list, ...same];
}

function drawCommand(content: PanelContent, actions: PanelActions): Node[] {
  const heading = el("h3", {}, "The same on the command line");
  if (content.command === null) return [heading, el("p", { class: "muted" }, "No filter of the program says this (it has values without a name).")];
  const pre = el("pre", { id: "command", tabindex: "0" }, content.command);
  const text = content.command;
  return [
    heading,
    pre,
    el("div", { class: "buttons" }, button("Copy command", "Copy (c)", () => copy(text, pre)), button("Copy JSON", "Copy the explanation as JSON", () => copy(actions.json(), null))),
  ];
}

/** Slowest events shown. */
const EXEMPLARS = 12;

function drawExemplars(data: Data, content: PanelContent, actions: PanelActions): Node[] {
  if (content.exemplars.length === 0) return [];
  const who = (exemplar: Exemplar): string => {
    const names = data.head.attributes.map(({ name, values }, attribute) => {
      const value = values[(data.values[attribute] as Uint32Array)[exemplar.combination] as number] as Value;
      return value === null || ["size", "cpu", "name"].includes(name) ? "" : label(data, attribute, value);
    });
    return [...names, exemplar.pid === null ? "" : String(exemplar.pid)].filter((text) => text !== "").join(" ");
  };
  const rows = content.exemplars.slice(0, EXEMPLARS).map((exemplar) => {
    const cells = [duration(exemplar.start), duration(exemplar.latency), exemplar.size === null ? "" : size(exemplar.size), exemplar.offset === null ? "" : size(exemplar.offset), who(exemplar)];
    const row = el("tr", { tabindex: "0", title: "Show where it is" }, ...cells.map((text) => el("td", {}, text)));
    row.addEventListener("click", () => actions.mark(exemplar));
    row.addEventListener("keydown", (event) => void (event.key === "Enter" && actions.mark(exemplar)));
    return row;
  });
  const head = el("thead", {}, el("tr", {}, ...["start", "latency", "size", "offset", "who"].map((text) => el("th", { scope: "col" }, text))));
  return [el("h3", {}, "Slowest kept events"), el("table", { class: "exemplars" }, head, el("tbody", {}, ...rows))];
}
