// The page of a hub: the last minutes by its events, all else asked again every few seconds.

import "./style.css";
import { by, el } from "../page/dom.ts";
import { count, duration, plain } from "../view/format.ts";
import { ask, type Alert, type Budget, type Family, type Host, type Interval, type Status } from "./api.ts";
import { chart } from "./chart.ts";
import { alertList, budgetTable, differentWords, hostTable, state } from "./tables.ts";

/** So many steps are shown, of which five minutes are made, or more where intervals are long. */
const STEPS = 300;
const NAMES_SHOWN = 5;
const [SOON, LATER, AGAIN] = [5000, 10_000, 2000];

let status: Status | null = null;
/** `undefined` until it was answered. */
let family: Family | null | undefined;
let hosts: Host[] = [];
let [alerts, budgets]: [Alert[], Budget[]] = [[], []];
const intervals = new Map<number, Interval>();
/** How far the clock of the hub is ahead of the one here, nanoseconds. */
let aheadNs = 0;
let lostSince: number | null = null;
let waits: { count: number; oldest_ns: number } | undefined;

const nowNs = (): number => Date.now() * 1e6 + aheadNs;
const number = (time_ns: number): number => Math.round(time_ns / (status?.width_ns || 1e9));
const shown = (): Interval[] => [...intervals.entries()].sort(([one], [other]) => one - other).map(([, interval]) => interval);

function take(one: Interval): void {
  const known = intervals.get(number(one.time_ns));
  if (known && known.revision > one.revision) return;
  const waiting = one.waiting ?? known?.waiting;
  intervals.set(number(one.time_ns), waiting ? { ...one, waiting } : one);
  const oldest = Math.max(...intervals.keys()) - STEPS;
  for (const key of intervals.keys()) if (key <= oldest) intervals.delete(key);
}

function figure(value: string, words: string, isBad = false): HTMLElement {
  return el("div", isBad ? { class: "bad" } : {}, el("b", {}, value), words);
}

function names(all: string[]): string {
  const more = all.length - NAMES_SHOWN;
  return all.slice(0, NAMES_SHOWN).map((name) => plain(name)).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

function draw(): void {
  const all = shown();
  const closed = all.filter((one) => one.is_closed);
  const last = closed.at(-1);
  const group = last?.groups[0];
  const missing = last?.missing ?? [];
  const present = last?.hosts ?? 0;
  const lost = all.reduce((sum, one) => sum + one.lost, 0);
  const there = hosts.filter((host) => state(host) !== "ended");
  const [lag, offset] = (["lag_ns", "clock_offset_ns"] as const).map((name) => Math.max(0, ...there.map((host) => Math.abs(host[name] ?? 0)))) as [number, number];
  const width = status?.width_ns || 1e9;
  by("figures").replaceChildren(
    figure(`${present} of ${present + missing.length}`, missing.length > 0 ? `hosts; missing: ${names(missing)}` : "hosts", missing.length > 0),
    figure(group?.p99_ns === undefined ? "-" : duration(group.p99_ns), group?.p50_ns === undefined ? "p99" : `p99; p50 ${duration(group.p50_ns)}`),
    figure(group ? `${count(Math.round(group.count / (width / 1e9)))}/s` : "-", "events"),
    figure(waits ? duration(waits.oldest_ns) : "-", waits ? `oldest of ${count(waits.count)} waiting` : "nothing waits", (waits?.oldest_ns ?? 0) > 5e9),
    figure(count(lost), `events lost in ${duration(STEPS * width)}`, lost > 0),
    figure(duration(lag), "longest lag of a host"),
    figure(duration(offset), "largest clock offset", offset > width / 10),
  );
  const open = all.filter((one) => !one.is_closed).length;
  const lacks = closed.filter((one) => one.missing.length > 0).length;
  const amended = closed.filter((one) => one.revision > 0).length;
  by("chart").replaceChildren(chart(all, width, STEPS, by("chart").clientWidth || 600));
  by("legend").replaceChildren(
    el("i", { class: "p99key" }), "p99", el("i", { class: "p50key" }), "p50",
    `; ${lacks} of ${closed.length} intervals lack a host (hatched), ${amended} amended, ${open} not closed yet (grey)`,
  );
  by("alerts").replaceChildren(...alertList(alerts));
  by("different").textContent = hosts.length === 0 ? "No agent has connected yet." : family === undefined ? "" : differentWords(family);
  by("hosts").replaceChildren(...hostTable(hosts, family ?? null, nowNs()));
  by("budgets").replaceChildren(...budgetTable(budgets));
  const refused = Object.values(status?.refused ?? {}).reduce((sum, one) => sum + one, 0);
  by("notes").textContent = status ? `latscope ${status.version}, ${count(status.records)} records${refused > 0 ? `, ${count(refused)} refused` : ""}. Share, slow, p99 and score are those of the last minute; slow: above the p99 of all hosts.` : "";
  by("about").textContent = status ? `every ${duration(width)}, ${status.connected} ${status.connected === 1 ? "agent" : "agents"} connected` : "";
  const link = by("link");
  link.dataset["state"] = lostSince === null ? "live" : "lost";
  link.textContent = lostSince === null ? "live" : `not connected for ${Math.round((Date.now() - lostSince) / 1000)} s`;
  document.documentElement.dataset["ready"] = "";
}

/** Draws soon, once for all that comes at a time. */
let due = false;
function redraw(): void {
  if (due) return;
  due = true;
  setTimeout(() => {
    due = false;
    draw();
  }, 100);
}

/** Returns whether the hub answers. */
async function refresh(): Promise<boolean> {
  const [now, list, firing] = await Promise.all([ask<Status>("api/v1/status"), ask<{ hosts: Host[] }>("api/v1/hosts"), ask<{ alerts: Alert[] }>("api/v1/alerts")]);
  if (now) {
    [status, aheadNs] = [now, now.time_ns - Date.now() * 1e6];
  }
  hosts = list?.hosts ?? hosts;
  alerts = firing?.alerts ?? alerts;
  redraw();
  return now !== null;
}

async function refreshLater(): Promise<void> {
  const [peers, slos] = await Promise.all([ask<{ families: Family[] }>("api/v1/different"), ask<{ slos: Budget[] }>("api/v1/slo")]);
  family = peers ? (peers.families[0] ?? null) : family;
  budgets = slos?.slos ?? budgets;
  redraw();
}

/** Goes on when the hub does: it may be started again, or have too many readers for now. */
async function follow(): Promise<void> {
  const answers = await refresh();
  const width = status?.width_ns ?? 0;
  const past = width > 0 ? await ask<{ intervals: Interval[] }>(`api/v1/series?by=&from=${Math.round(nowNs() - STEPS * width)}`) : null;
  if (!past) {
    // Without an agent there is nothing to follow.
    lostSince = answers ? null : (lostSince ?? Date.now());
    setTimeout(() => void follow(), AGAIN);
    return;
  }
  past.intervals.forEach(take);
  void refreshLater();
  const source = new EventSource("api/v1/live?by=");
  source.addEventListener("open", () => {
    lostSince = null;
    redraw();
  });
  for (const name of ["interval", "close", "amend"]) {
    source.addEventListener(name, (event) => {
      const one = JSON.parse((event as MessageEvent<string>).data) as Interval;
      if (one.waiting) waits = one.waiting[0];
      take(one);
      redraw();
    });
  }
  for (const name of ["alert", "hosts"]) source.addEventListener(name, () => void refresh());
  source.addEventListener("error", () => {
    lostSince ??= Date.now();
    source.close();
    redraw();
    setTimeout(() => void follow(), AGAIN);
  });
}

setInterval(() => !document.hidden && void refresh(), SOON);
setInterval(() => !document.hidden && void refreshLater(), LATER);
setInterval(() => lostSince !== null && redraw(), 1000);
addEventListener("resize", redraw);
void follow();
