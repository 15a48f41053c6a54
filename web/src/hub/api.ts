// What the hub answers; times and durations are nanoseconds.

export interface Group {
  count: number;
  p50_ns?: number;
  p99_ns?: number;
}

export interface Interval {
  time_ns: number;
  is_closed: boolean;
  revision: number;
  hosts: number;
  missing: string[];
  lost: number;
  groups: Group[];
  waiting?: { count: number; oldest_ns: number }[];
}

export interface Status {
  version: string;
  time_ns: number;
  width_ns: number;
  hosts: number;
  missing: string[];
  connected: number;
  records: number;
  refused: Record<string, number>;
}

export interface Host {
  name: string;
  is_connected: boolean;
  has_ended: boolean;
  is_missing: boolean;
  last_interval_ns: number | null;
  lag_ns: number | null;
  clock_offset_ns: number | null;
  clock_error_ns: number | null;
  is_clock_synchronised: boolean;
  queue_bytes: number | null;
  queue_limit_bytes: number | null;
  certificate_end_ns: number | null;
}

export interface Alert {
  state: string;
  labels: Record<string, string>;
  annotations: Record<string, string>;
  start_ns: number;
}

export interface Peer {
  name: string;
  count: number;
  share: number;
  slow_share: number;
  p99_ns: number | null;
  score: number | null;
  is_marked: boolean;
}

export interface Family {
  threshold_ns: number;
  spread_p50: number | null;
  spread_p99: number | null;
  hosts: Peer[];
}

export interface Budget {
  name: string;
  labels: Record<string, string>;
  good: number;
  bad: number;
  left: number;
  burn: Record<string, number>;
  days_left: number | null;
}

/** An answer of the hub, or `null` if it has none. */
export async function ask<T>(path: string): Promise<T | null> {
  try {
    const answer = await fetch(path, { cache: "no-store" });
    return answer.ok ? ((await answer.json()) as T) : null;
  } catch {
    return null;
  }
}
