// Flame graphs in a real browser, against what the program says of the same trace. Arguments: the program, the trace, a folder with
// plain.svg, icicle.svg, difference.svg and hostile.svg. Prints a line for each assertion; the status is that of the worst.
import { execFileSync } from "node:child_process";
import { chromium } from "playwright-core";

const [program, trace, folder] = process.argv.slice(2);
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const told = JSON.parse(execFileSync(program, ["stacks", "-r", trace, "--json"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }));
const share = (word) => told.stacks.filter(({ stack }) => stack.includes(word)).reduce((sum, { share }) => sum + share, 0);

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
function equal(found, expected, what = "") {
  const [one, other] = [JSON.stringify(found), JSON.stringify(expected)];
  if (one !== other) throw new Error(`${what} ${one} is not ${other}`);
}
function holds(condition, what) {
  if (!condition) throw new Error(what);
}

const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
const messages = [];
const requests = [];
async function open(file) {
  const page = await browser.newPage({ viewport: { width: 1300, height: 1000 } });
  page.on("console", (message) => messages.push(message.text()));
  page.on("pageerror", (error) => messages.push(String(error)));
  page.on("dialog", (dialog) => messages.push(dialog.message()));
  page.on("request", (request) => requests.push(request.url()));
  await page.goto(`file://${folder}/${file}`);
  return page;
}
/** What is shown: names, left edges and widths. */
const shown = (page) =>
  page.evaluate(() =>
    [...document.querySelectorAll(".flames > g")]
      .filter((g) => g.getAttribute("display") !== "none")
      .map((g) => {
        const [rect, title] = [g.querySelector("rect"), g.querySelector("title")];
        return { name: title.textContent.split("\n")[0], x: Number(rect.getAttribute("x")), width: Number(rect.getAttribute("width")), hit: g.classList.contains("hit") };
      }),
  );
const status = (page) => page.evaluate(() => document.querySelector(".status").textContent);
const boxOf = (page, name) => page.locator(".flames > g", { has: page.locator("title", { hasText: new RegExp(`^${name}\n`) }) }).first();

const page = await open("plain.svg");
const first = await shown(page);
await check("1 the whole graph is shown, with its controls", async () => {
  equal(first[0], { name: "all", x: 20, width: 1200, hit: false });
  equal(await page.evaluate(() => document.querySelector(".controls").getAttribute("display")), null);
});
await check("2 boxes are as wide as the program says", () => {
  const scan = first.find(({ name }) => name === "archive_scan");
  holds(Math.abs(scan.width / 1200 - share("archive_scan")) < 1e-4, `${scan.width / 1200} ${share("archive_scan")}`);
});
await check("3 a click zooms: the box and its callers are as wide as the picture, nothing else is beside them", async () => {
  await boxOf(page, "archive_scan").locator("rect").click();
  const now = await shown(page);
  const wide = now.filter(({ width }) => width > 1199.9).map(({ name }) => name);
  equal(wide.slice(0, 5), ["all", "start_thread", "worker", "handle_report", "archive_scan"]);
  holds(now.every(({ name }) => name !== "handle_get"), "others are hidden");
  holds(now.every(({ x, width }) => x >= 19.9 && x + width <= 1220.2), "nothing is outside");
});
await check("4 Escape shows all again, as before", async () => {
  await page.keyboard.press("Escape");
  const now = await shown(page);
  equal(now.map(({ name }) => name), first.map(({ name }) => name));
  holds(now.every(({ x, width }, at) => Math.abs(x - first[at].x) < 0.01 && Math.abs(width - first[at].width) < 0.11), "places");
});
await check("5 a search marks frames and gives their share of all, counted once", async () => {
  await page.keyboard.press("/");
  await page.keyboard.type("btree_descend");
  await page.keyboard.press("Enter");
  const hits = (await shown(page)).filter(({ hit }) => hit);
  holds(hits.length > 2 && hits.every(({ name }) => name === "btree_descend"), JSON.stringify(hits));
  const percent = (100 * share("btree_descend")).toFixed(1);
  equal(await status(page), `search: btree_descend  ${percent} % of time in ${hits.length} frames`);
});
await check("6 what is no regular expression is searched as it is", async () => {
  await page.keyboard.press("/");
  await page.keyboard.type("worker(");
  equal(await status(page), "search: worker(▏  0.00 % of time in 0 frames");
  await page.keyboard.press("Backspace");
  holds((await status(page)).startsWith("search: worker▏  "), await status(page));
  await page.keyboard.press("Escape");
  equal(await status(page), "");
});
await check("7 arrows walk along the stacks, Enter zooms", async () => {
  await page.keyboard.press("Escape");
  await page.keyboard.press("ArrowUp");
  const widest = (await status(page)).split("  ")[0];
  equal(widest, first[1].name);
  await page.keyboard.press("ArrowRight");
  const next = (await status(page)).split("  ")[0];
  holds(next !== widest && first.some(({ name }) => name === next), next);
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("Enter");
  holds((await shown(page)).filter(({ width }) => width > 1199.9).length >= 2, "zoomed");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  equal((await shown(page)).length, first.length);
});
await check("8 the buttons do the same by mouse", async () => {
  await page.locator(".search").click();
  await page.keyboard.type("python");
  await page.locator(".reset").click();
  equal(await status(page), "");
});
await check("9 the root of an icicle is above, and arrows follow", async () => {
  const icicle = await open("icicle.svg");
  const tops = await icicle.evaluate(() => [...document.querySelectorAll(".flames > g > rect")].slice(0, 2).map((rect) => Number(rect.getAttribute("y"))));
  holds(tops[0] < tops[1], tops.join());
  await icicle.keyboard.press("ArrowDown");
  holds((await status(icicle)).length > 3, "a box has the focus");
});
await check("10 a difference has both shares in its texts", async () => {
  const difference = await open("difference.svg");
  const tip = await boxOf(difference, "archive_scan").locator("title").textContent();
  holds(/^archive_scan\n[\d.]+ % \(.*\n.*there 0 % \(0 % to .*\+[\d.]+ points/s.test(tip), tip);
});
await check("11 hostile names are text, in the document and after zoom and search", async () => {
  const hostile = await open("hostile.svg");
  const names = (await shown(hostile)).map(({ name }) => name);
  holds(names.some((name) => name.includes("</text><script>alert(1)</script>")), JSON.stringify(names).slice(0, 500));
  equal(await hostile.evaluate(() => document.querySelectorAll("script").length), 1);
  await hostile.keyboard.press("ArrowUp");
  await hostile.keyboard.press("Enter");
  await hostile.keyboard.press("/");
  await hostile.keyboard.type("</text>");
  equal(await hostile.evaluate(() => document.querySelectorAll("script").length), 1);
});
await check("12 no message, no dialog, no request leaves", () => {
  equal(messages, []);
  equal(requests.filter((url) => !url.startsWith("file:")), []);
});
await browser.close();
process.exitCode = failures > 0 ? 1 : 0;
