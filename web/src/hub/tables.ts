// Sentences and tables of the page.

import { el } from "../page/dom.ts";
import { count, duration, percent, plain, size } from "../view/format.ts";
import type { Alert, Budget, Family, Host, Peer } from "./api.ts";

/** More hosts are not listed. */
const HOSTS_SHOWN = 200;
/** Whose share of what is slow is so many times its share of all events is worth a word. */
const TIMES = 2;

export function state(host: Host): "missing" | "ended" | "lost" | "in" {
  if (host.has_ended) return "ended";
  if (host.is_missing) return "missing";
  return host.is_connected ? "in" : "lost";
}

/** Units of windows, seconds. */
const UNITS: Record<string, number> = { s: 1, min: 60, m: 60, h: 3600, d: 86_400 };
const WORDS = { in: "in", missing: "missing", ended: "ended", lost: "not connected" };

function table(titles: string[], rows: { state?: string; cells: string[] }[]): HTMLTableElement {
  const head = el("tr", {}, ...titles.map((title) => el("th", { scope: "col" }, title)));
  const body = rows.map((row) => el("tr", row.state ? { "data-state": row.state } : {}, ...row.cells.map((cell) => el("td", {}, cell))));
  return el("table", {}, el("thead", {}, head), el("tbody", {}, ...body));
}

/** Hosts that need attention first, then those with the largest share of what is slow. */
export function hostTable(hosts: Host[], family: Family | null, nowNs: number): Node[] {
  const peers = new Map(family?.hosts.map((peer) => [peer.name, peer]));
  const order = { missing: 0, lost: 1, in: 2, ended: 3 };
  const slow = (host: Host): number => peers.get(host.name)?.slow_share ?? -1;
  const sorted = [...hosts].sort((one, other) => order[state(one)] - order[state(other)] || slow(other) - slow(one) || (one.name < other.name ? -1 : 1));
  const rows = sorted.slice(0, HOSTS_SHOWN).map((host) => {
    const peer = peers.get(host.name);
    const offset = host.clock_offset_ns === null ? "-" : `${duration(host.clock_offset_ns)} ± ${duration(host.clock_error_ns ?? 0)}`;
    const queue = host.queue_bytes === null ? "-" : `${size(host.queue_bytes)}${host.queue_limit_bytes ? ` (${percent(host.queue_bytes / host.queue_limit_bytes)})` : ""}`;
    const days = host.certificate_end_ns === null ? "-" : `${Math.floor((host.certificate_end_ns - nowNs) / 86_400e9)} d`;
    const since = host.last_interval_ns === null ? "-" : duration(Math.max(0, Math.round((nowNs - host.last_interval_ns) / 1e8) * 1e8));
    const cells = [
      plain(host.name), WORDS[state(host)], since, host.lag_ns === null ? "-" : duration(host.lag_ns),
      offset + (host.is_clock_synchronised || host.clock_offset_ns === null ? "" : ", not synchronised"), queue, days, ...figures(peer),
    ];
    return { state: state(host), cells };
  });
  const titles = ["host", "state", "last interval", "lag", "clock", "queue", "certificate", "events", "share", "slow", "p99", "score"];
  const more = sorted.length - rows.length;
  return [table(titles, rows), ...(more > 0 ? [el("p", { class: "muted" }, `and ${more} more hosts`)] : [])];
}

function figures(peer: Peer | undefined): string[] {
  if (!peer) return ["-", "-", "-", "-", "-"];
  const score = peer.score === null ? "-" : `${peer.score.toFixed(1)}${peer.is_marked ? "!" : ""}`;
  return [count(peer.count), percent(peer.share), percent(peer.slow_share), peer.p99_ns === null ? "-" : duration(peer.p99_ns), score];
}

/** The host that is not like the others, or that there is none. */
export function differentWords(family: Family | null): string {
  if (!family || family.hosts.length === 0) return "No events in the last minute.";
  const first = family.hosts[0] as Peer;
  if (family.hosts.length === 1) return `Only ${plain(first.name)} had events in the last minute.`;
  const from = `events from ${duration(family.threshold_ns)} on`;
  const spread = family.spread_p99 === null ? "" : ` The p99 of the hosts differs by a factor of ${family.spread_p99.toFixed(1)}, the p50 by ${(family.spread_p50 ?? 1).toFixed(1)}.`;
  const other = family.hosts.find((peer) => peer.is_marked);
  const odd = first.slow_share >= TIMES * first.share || first.is_marked ? first : other;
  if (!odd) return `No host stands out. ${plain(first.name)} had ${percent(first.slow_share)} of the ${from}, and ${percent(first.share)} of all.${spread}`;
  const score = odd.score === null ? "" : ` Its p99 is ${odd.score.toFixed(1)} robust standard deviations from the median.`;
  return `${plain(odd.name)} had ${percent(odd.slow_share)} of the ${from} in the last minute, but ${percent(odd.share)} of all.${score}${spread}`;
}

export function alertList(alerts: Alert[]): Node[] {
  const sorted = [...alerts].sort((one, other) => (one.state < other.state ? -1 : 1));
  return sorted.map((alert) => {
    const words = alert.annotations["summary"] ?? Object.entries(alert.labels).map(([name, value]) => `${name}=${value}`).join(" ");
    const since = new Date(alert.start_ns / 1e6).toLocaleTimeString([], { hour12: false });
    return el("div", { class: "alert", "data-state": alert.state }, el("b", {}, `${alert.state}: `), plain(words, 500), el("span", { class: "muted" }, ` since ${since}`));
  });
}

export function budgetTable(budgets: Budget[]): Node[] {
  if (budgets.length === 0) return [];
  const length = (name: string): number => Number.parseFloat(name) * (UNITS[name.replace(/^[\d.]+/, "")] ?? 1);
  const windows = [...new Set(budgets.flatMap((budget) => Object.keys(budget.burn)))].sort((one, other) => length(one) - length(other));
  const rows = budgets.map((budget) => ({
    state: budget.left < 0 ? "lost" : "in",
    cells: [
      plain([budget.name, ...Object.entries(budget.labels).map(([name, value]) => `${name}=${value}`)].join(" ")), count(budget.bad), count(budget.good + budget.bad), budget.left < 0 ? "used up" : percent(budget.left),
      budget.days_left === null ? "-" : `${budget.days_left.toFixed(1)} d`, ...windows.map((name) => budget.burn[name]?.toFixed(1) ?? "-"),
    ],
  }));
  const titles = ["objective", "bad events", "events", "budget left", "lasts", ...windows.map((name) => `burn ${name}`)];
  return [el("h2", {}, "Error budgets"), el("div", { class: "scroll" }, table(titles, rows))];
}
