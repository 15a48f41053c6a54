// The live page in a real browser. Arguments: the program, and whether to print more. The events come through a pipe, so the
// script knows what the page has to show. Prints a line for each assertion; the status is that of the worst.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const [program] = process.argv.slice(2);
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";

let failures = 0;
async function check(name, test) {
  try {
    await test();
    console.log(`ok ${name}`);
  } catch (error) {
    failures++;
    console.log(`FAILED ${name}: ${error.stack ?? error}`);
  }
}
function equal(found, expected) {
  const [one, other] = [JSON.stringify(found), JSON.stringify(expected)];
  if (one !== other) throw new Error(`${one} is not ${other}`);
}

function holds(condition, what) {
  if (!condition) throw new Error(what);
}

/** A server that reads a pipe, its address, and a function that writes events. */
async function serve(...words) {
  const server = await started(["-r", "-", "--format", "csv", ...words]);
  server.child.stdin.write("time_ns,latency_ns,device\n");
  let next = 1_700_000_000_000_000_000n;
  const write = (events, device) => {
    for (let at = 0; at < events; at++) server.child.stdin.write(`${(next += 20_000_000n)},${50_000 + at * 1000},${device}\n`);
  };
  return { ...server, write };
}

/** A server, and its address. */
async function started(words) {
  const child = spawn(program, ["serve", ...words], { stdio: ["pipe", "ignore", "pipe"] });
  child.stdin.on("error", () => {});
  const address = await new Promise((done, failed) => {
    let text = "";
    child.stderr.on("data", (more) => {
      text += more;
      const found = /http:\S+/.exec(text);
      if (found) done(found[0]);
    });
    child.on("exit", () => failed(new Error(`the server ended: ${text}`)));
  });
  return { child, address };
}

/** Ends a server, and waits until its port is free. */
function end({ child }, signal = "SIGKILL") {
  const over = new Promise((done) => child.once("exit", done));
  child.kill(signal);
  return over;
}

const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
const messages = [];
const streams = [];
const follow = (context) =>
  context.on("page", (page) => {
    page.on("console", (message) => messages.push(message.text()));
    page.on("pageerror", (error) => messages.push(String(error)));
    page.on("request", (request) => request.url().endsWith("/stream") && streams.push(page));
  });
async function open(context, address) {
  const page = await context.newPage();
  await page.goto(address);
  await page.locator("html[data-ready]").waitFor({ state: "attached", timeout: 20_000 });
  return page;
}
const events = (page) => page.evaluate(() => latscope.data.events);
const link = (page) => page.locator("#link").textContent();
/** Waits until a page says so. */
async function until(what, test) {
  for (let round = 0; round < 200; round++) {
    if (await test()) return;
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error(`never: ${what}`);
}

/** An address that a second server can have after the first: no client is given a port from below the ephemeral ones. */
async function lastingAddress() {
  for (let port = 20000 + Math.floor(Math.random() * 10000); ; port++) {
    const probe = createServer();
    const isFree = await new Promise((resolve) => {
      probe.once("error", () => resolve(false)).listen(port, "127.0.0.1", () => probe.close(() => resolve(true)));
    });
    if (isFree) return `127.0.0.1:${port}`;
  }
}

const server = await serve("--listen", "127.0.0.1:0");
const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
follow(context);
server.write(100, "sda");
const page = await open(context, server.address);
await check("events arrive, and the token leaves the address", async () => {
  await until("100 events", async () => (await events(page)) === 100);
  equal((await page.evaluate(() => location.href)).includes("k="), false);
  server.write(50, "sdb");
  await until("150 events", async () => (await events(page)) === 150);
  equal(await page.evaluate(() => latscope.data.head.attributes.find(({ name }) => name === "device").values), ["sda", "sdb"]);
  equal(await link(page), "live");
});
await check("a box stays on its events while others come", async () => {
  await page.evaluate(() => latscope.set({ a: { time: [0, 5e8], latency: [1000, 1e9] } }));
  const figure = () => page.evaluate(() => latscope.explanation.spot);
  const before = await figure();
  server.write(70, "sdb");
  await until("220 events", async () => (await events(page)) === 220);
  equal(await figure(), before);
});
await check("a pause loses nothing", async () => {
  await page.locator("#map").focus();
  await page.keyboard.press("Space");
  server.write(30, "sda");
  await until("the pause", async () => (await link(page)).startsWith("paused, +2 s"));
  equal(await events(page), 220);
  await page.keyboard.press("Space");
  await until("250 events", async () => (await events(page)) === 250);
});
await check("seven tabs follow one stream", async () => {
  const address = server.address.replace(/#.*/, "");
  const tabs = [page];
  for (let tab = 0; tab < 6; tab++) tabs.push(await open(context, address));
  server.write(20, "sda");
  for (const tab of tabs) await until("270 events", async () => (await events(tab)) === 270);
  for (const tab of tabs) equal(await link(tab), "live");
  equal(streams.length, 1);
  await page.close();
  server.write(5, "sda");
  for (const tab of tabs.slice(1)) await until("275 events", async () => (await events(tab)) === 275);
  equal(streams.length, 2);
  for (const tab of tabs.slice(1)) await tab.close();
});
await check("who has no token sees why there is nothing", async () => {
  const stranger = await (await browser.newContext()).newPage();
  await stranger.goto(server.address.replace(/#.*/, ""));
  await until("the reason", async () => (await link(stranger)).includes("open the address that latscope serve printed"));
  await stranger.close();
});
equal(messages.filter((text) => !text.includes("401")), []);
server.child.kill("SIGKILL");

await check("after a restart the page begins anew", async () => {
  const first = await serve("--listen", await lastingAddress(), "--no-token");
  const again = await browser.newContext();
  first.write(40, "sda");
  const tab = await open(again, first.address);
  await until("40 events", async () => (await events(tab)) === 40);
  await end(first);
  await until("the loss", async () => (await link(tab)).startsWith("not connected for"));
  const second = await serve("--listen", new URL(first.address).host, "--no-token");
  second.write(7, "sdb");
  await until("7 events", async () => (await events(tab)) === 7);
  await end(second, "SIGINT");
  await until("the end", async () => (await link(tab)) === "the server has ended");
  const third = await serve("--listen", new URL(first.address).host, "--no-token");
  third.write(9, "sdc");
  await until("9 events", async () => (await events(tab)) === 9);
  equal(await link(tab), "live");
  third.child.kill("SIGKILL");
});
await check("a restarted server with another token is asked once, until its address is opened in any tab", async () => {
  const first = await serve("--listen", await lastingAddress());
  const again = await browser.newContext();
  first.write(40, "sda");
  const tab = await open(again, first.address);
  await until("40 events", async () => (await events(tab)) === 40);
  let asked = 0;
  again.on("response", (response) => (asked += response.status() === 401 ? 1 : 0));
  await end(first);
  await until("the loss", async () => (await link(tab)).startsWith("not connected for"));
  const second = await serve("--listen", new URL(first.address).host);
  await until("the reason", async () => (await link(tab)).includes("open the address that latscope serve printed"));
  const before = asked;
  await new Promise((done) => setTimeout(done, 7000));
  equal(asked, before);
  second.write(7, "sdb");
  const other = await open(again, second.address);
  for (const page of [tab, other]) await until("7 events", async () => (await events(page)) === 7);
  equal([await link(tab), (await other.evaluate(() => location.href)).includes("k=")], ["live", false]);
  // The same by the address of an open tab.
  await end(second);
  const third = await serve("--listen", new URL(first.address).host);
  await until("the reason", async () => (await link(tab)).includes("open the address that latscope serve printed"));
  third.write(5, "sdb");
  await tab.evaluate((hash) => void (location.hash = hash), new URL(third.address).hash);
  await until("5 events", async () => (await events(tab)) === 5);
  equal((await tab.evaluate(() => location.href)).includes("k="), false);
  third.child.kill("SIGKILL");
});
await check("a page shows what hangs although nothing has completed", async () => {
  const folder = mkdtempSync(join(tmpdir(), "latscope-"));
  const file = join(folder, "hung.txt");
  const issued = (second, device, sector) => `fio 2126 [001] ${1_700_000_000 + second}.000000: block:block_rq_issue: ${device} WS 4096 () ${sector} + 8 [fio]`;
  const completed = (second, sector) => `swapper 0 [001] ${1_700_000_000 + second}.000100: block:block_rq_complete: 8,0 WS () ${sector} + 8 [0]`;
  const lines = Array.from({ length: 30 }, (_, at) => [issued(at, "8,0", 64 + 8 * at), completed(at, 64 + 8 * at)]).flat();
  lines.splice(20, 0, issued(10, "8,16", 800));
  writeFileSync(file, `${lines.join("\n")}\n`);
  for (const [filter, counted] of [[[], 30], [["lat > 15s"], 0]]) {
    const server = await started(["-r", file, "--listen", "127.0.0.1:0", "--no-token", ...filter]);
    const tab = await open(await browser.newContext({ viewport: { width: 1440, height: 900 } }), server.address);
    await until("what waits", async () => (await tab.evaluate(() => latscope.data.head.unfinished.count)) === 1);
    await until("the events", async () => (await events(tab)) === counted);
    for (const key of ["1", "2", "3", "T", "T"]) await tab.keyboard.press(key);
    const shown = await tab.evaluate(async () => {
      latscope.set({ tab: "groups" });
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      latscope.set({ tab: "distribution" });
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      const [, flight] = latscope.stripValues;
      return { columns: latscope.data.head.columns, flight: flight.values, footer: document.getElementById("notes").textContent };
    });
    holds(shown.footer.includes("waiting for 19s so far"), shown.footer);
    // It waits from the tenth second on.
    equal(shown.flight.filter((value) => value >= 1).length, 19, JSON.stringify(shown));
    if (counted > 0) holds(shown.flight[5] < 0.5 && shown.flight[15] >= 1, JSON.stringify(shown));
    server.child.kill("SIGKILL");
    await tab.context().close();
  }
  rmSync(folder, { recursive: true });
});
await check("header and footer follow the data", async () => {
  const server = await serve("--listen", "127.0.0.1:0", "--no-token");
  const tab = await open(await browser.newContext({ viewport: { width: 1440, height: 900 } }), server.address);
  for (const counted of [10, 20, 30]) {
    server.write(10, "sda");
    await until("the header", async () => (await tab.locator("#about").textContent()).includes(`${counted} events`));
    holds((await tab.locator("#notes").textContent()).includes("finest stored: 1s"), "there are no notes");
  }
  server.child.kill("SIGKILL");
});
await browser.close();
process.exit(failures > 0 ? 1 : 0);
