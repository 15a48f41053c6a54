// The live page in a real browser. Arguments: the program, and whether to print more. The events come through a pipe, so the
// script knows what the page has to show. Prints a line for each assertion; the status is that of the worst.
import { spawn } from "node:child_process";
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

/** A server that reads a pipe, its address, and a function that writes events. */
async function serve(...words) {
  const child = spawn(program, ["serve", "-r", "-", "--format", "csv", ...words], { stdio: ["pipe", "ignore", "pipe"] });
  child.stdin.on("error", () => {});
  child.stdin.write("time_ns,latency_ns,device\n");
  const address = await new Promise((done, failed) => {
    let text = "";
    child.stderr.on("data", (more) => {
      text += more;
      const found = /http:\S+/.exec(text);
      if (found) done(found[0]);
    });
    child.on("exit", () => failed(new Error(`the server ended: ${text}`)));
  });
  let next = 1_700_000_000_000_000_000n;
  const write = (events, device) => {
    for (let at = 0; at < events; at++) child.stdin.write(`${(next += 20_000_000n)},${50_000 + at * 1000},${device}\n`);
  };
  return { child, address, write };
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
  await page.evaluate(() => latscope.set({ a: { time: [0, 1e9], latency: [1000, 1e9] } }));
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
  const first = await serve("--listen", "127.0.0.1:0", "--no-token");
  const again = await browser.newContext();
  first.write(40, "sda");
  const tab = await open(again, first.address);
  await until("40 events", async () => (await events(tab)) === 40);
  first.child.kill("SIGKILL");
  await until("the loss", async () => (await link(tab)).startsWith("not connected for"));
  const second = await serve("--listen", new URL(first.address).host, "--no-token");
  second.write(7, "sdb");
  await until("7 events", async () => (await events(tab)) === 7);
  second.child.kill("SIGINT");
  await until("the end", async () => (await link(tab)) === "the server has ended");
});
await browser.close();
process.exit(failures > 0 ? 1 : 0);
