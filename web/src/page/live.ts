// A page whose data come from its server: it is drawn anew with each message, unless it is paused.

import type { Data } from "../capture-file/decode.ts";
import { follow, type Link } from "../capture-file/live.ts";
import { App } from "./app.ts";
import { by } from "./dom.ts";
import { listen } from "./input.ts";

export function live(): void {
  const button = by<HTMLButtonElement>("link");
  let app: App | null = null;
  let link: Link = { state: "connecting" };
  /** Since when nothing new is drawn, and what would be. */
  let paused: { since: number; data: Data | null } | null = null;

  const draw = (data: Data): void => {
    if (app) return app.renew(data);
    app = new App(data);
    listen(app);
    Object.assign(globalThis, { latscope: app });
    document.documentElement.dataset.ready = "";
  };
  const show = (): void => {
    button.hidden = false;
    button.dataset.state = link.state;
    button.textContent = words(link, paused?.since ?? null);
    button.title = paused ? "Go on (Space)" : "Pause (Space)";
    button.setAttribute("aria-pressed", String(paused !== null));
  };
  const toggle = (): void => {
    const late = paused?.data;
    paused = paused ? null : { since: Date.now(), data: null };
    if (late) draw(late);
    show();
  };
  button.addEventListener("click", toggle);
  document.addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    if (event.key !== " " || event.ctrlKey || event.metaKey || target.closest("input, select, button, dialog")) return;
    event.preventDefault();
    toggle();
  });
  setInterval(show, 1000);
  show();
  follow(
    (data) => {
      if (paused) paused.data = data;
      else draw(data);
    },
    (now) => {
      link = now;
      show();
    },
  );
}

function words(link: Link, pausedSince: number | null): string {
  const seconds = (since: number): string => `${Math.max(0, Math.round((Date.now() - since) / 1000))} s`;
  if (link.state === "refused") return link.why;
  if (link.state === "lost") return `not connected for ${seconds(link.since)}`;
  if (link.state === "ended") return "the server has ended";
  if (pausedSince !== null) return `paused, +${seconds(pausedSince)}`;
  return link.state === "live" ? "live" : "connecting";
}
