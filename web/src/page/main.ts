import { decode } from "../capture-file/decode.ts";
import { App } from "./app.ts";
import { by, el } from "./dom.ts";
import { listen } from "./input.ts";
import { live } from "./live.ts";
import "./style.css";

async function start(): Promise<void> {
  const script = by("data");
  const text = script.textContent ?? "";
  // Once decoded, the text would only fill memory.
  script.remove();
  if (text.trim() === "") return live();
  const app = new App(await decode(text));
  listen(app);
  // For whoever looks at the page with the tools of a browser, and for its tests.
  Object.assign(globalThis, { latscope: app });
  document.documentElement.dataset.ready = "";
  performance.mark("ready");
}

start().catch((error: unknown) => {
  const words = error instanceof Error ? error.message : String(error);
  document.body.replaceChildren(el("p", { class: "fault" }, `This report cannot be shown: ${words}.`));
  document.documentElement.dataset.failed = "";
});
