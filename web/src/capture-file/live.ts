// The data of a live page: server-sent events. A browser opens six connections to a server at most, so one tab holds the stream
// and passes on what it gets.

import { type Data, decode } from "./decode.ts";
import { merged } from "../series/merge.ts";

/** How a page is connected. */
export type Link = { state: "connecting" | "live" | "ended" } | { state: "lost"; since: number } | { state: "refused"; why: string };

/** What one tab passes to the others, or asks of them. */
type Passed = { more: string; starts: boolean } | { all: Data } | { link: Link } | { ask: true } | { admitted: true };

/** Between two attempts, milliseconds. */
const WAIT = 5000;

/** Follows the server until the page is closed: `take` gets all data so far whenever there is something new. */
export function follow(take: (data: Data) => void, show: (link: Link) => void): void {
  const channel = new BroadcastChannel("latscope");
  const pass = (passed: Passed): void => channel.postMessage(passed);
  let data: Data | null = null;
  let last: Link = { state: "connecting" };
  // Messages are decoded one after the other.
  let work: Promise<void> = Promise.resolve();
  const receive = (text: string, starts: boolean): void => {
    work = work.then(async () => {
      const more = await decode(text);
      // What came to other tabs before this one was there is unknown here.
      if (!starts && data === null) return pass({ ask: true });
      data = starts || data === null ? more : merged(data, more);
      take(data);
    }).catch((error: unknown) => show({ state: "refused", why: String(error) }));
  };
  channel.onmessage = ({ data: passed }: MessageEvent<Passed>) => {
    if ("link" in passed) show(passed.link);
    else if ("more" in passed) receive(passed.more, passed.starts);
    else if ("all" in passed && data === null) take((data = passed.all));
  };
  let wake = (): void => {};
  const admit = (): Promise<string | null> =>
    session().then((answer) => {
      if (answer !== "admitted") return answer;
      // Tabs share the cookie.
      wake();
      pass({ admitted: true });
      return null;
    });
  let admission = admit();
  addEventListener("hashchange", () => (admission = admit()));
  document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && wake());
  // When the tab that holds the stream is closed, the next one gets the lock, and starts anew.
  void navigator.locks.request("latscope", async () => {
    channel.onmessage = ({ data: passed }: MessageEvent<Passed>) => {
      if ("admitted" in passed) wake();
      if (!("ask" in passed)) return;
      pass({ link: last });
      if (data !== null) pass({ all: data });
    };
    const both = (link: Link): void => {
      last = link;
      show(link);
      pass({ link });
    };
    both(last);
    for (;;) {
      const refusal = await admission;
      const end = refusal === null ? await stream((text, starts) => {
        receive(text, starts);
        pass({ more: text, starts });
      }, both, last.state === "ended") : { isLasting: true, why: refusal };
      both(end === "ended" ? { state: "ended" } : { state: "refused", why: end.why });
      // The server of another run has another token: nothing changes until somebody opens its address, or looks at the page.
      const isLasting = end !== "ended" && end.isLasting;
      await new Promise<void>((done) => {
        wake = done;
        if (!isLasting) setTimeout(done, WAIT);
      });
    }
  });
  pass({ ask: true });
}

/** Why there is no stream, and whether that lasts. */
interface Refusal {
  why: string;
  isLasting: boolean;
}

/** Why a stream was refused. */
async function refusalOf(): Promise<Refusal> {
  const { status } = await fetch("/stream", { method: "HEAD" }).catch(() => ({ status: 0 }));
  if (status === 401) return { why: "open the address that latscope serve printed, with the part behind #", isLasting: true };
  return { why: "the server refuses another page", isLasting: false };
}

/** Reads the stream until the server ends or refuses it. The browser itself reconnects, with the last message that it got. */
function stream(receive: (text: string, starts: boolean) => void, show: (link: Link) => void, hasEnded: boolean): Promise<"ended" | Refusal> {
  const source = new EventSource("/stream");
  return new Promise((done) => {
    const end = (how: "ended" | Refusal): void => {
      source.close();
      done(how);
    };
    let since: number | null = null;
    source.onopen = () => {
      since = null;
      hasEnded = false;
      show({ state: "live" });
    };
    source.onerror = () => {
      since ??= Date.now();
      // A server that has ended is not missed, but may come back.
      if (!hasEnded) show({ state: "lost", since });
      if (source.readyState === EventSource.CLOSED) void refusalOf().then(end);
    };
    source.addEventListener("start", ({ data }: MessageEvent<string>) => receive(data, true));
    source.addEventListener("more", ({ data }: MessageEvent<string>) => receive(data, false));
    source.addEventListener("bye", () => end("ended"));
  });
}

/** Exchanges the token of the address for a cookie, and takes it out of the address. Returns why the server refuses it; null where
 * there is no token, or nobody to ask. */
async function session(): Promise<string | null> {
  const pairs = location.hash.slice(1).split("&");
  const token = pairs.find((pair) => pair.startsWith("k="))?.slice(2);
  if (token === undefined) return null;
  try {
    const response = await fetch("/session", { method: "POST", body: token });
    if (!response.ok) return (await response.text()).trim();
  } catch {
    // The server is not there; the stream will show it.
    return null;
  }
  const rest = location.hash.slice(1).split("&").filter((pair) => !pair.startsWith("k=")).join("&");
  history.replaceState(history.state, "", rest === "" ? location.pathname : `#${rest}`);
  return "admitted";
}
