// The page of a hub in a real browser. Arguments: its address. Who runs it does what stands behind `do: `, and sends 200 events a
// second of each of six hosts, of which the third is slow. Prints a line for each assertion; the status is that of the worst.
import { chromium } from "playwright-core";

const [address] = process.argv.slice(2);
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
async function until(what, found, test) {
  let last;
  for (let round = 0; round < 400; round++) {
    last = await found();
    if (test(last)) return last;
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error(`never: ${what}; at last: ${JSON.stringify(last)}`);
}

const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
const messages = [];
const foreign = [];
async function open(settings) {
  const page = await (await browser.newContext(settings)).newPage();
  page.on("console", (message) => messages.push(message.text()));
  page.on("pageerror", (error) => messages.push(String(error)));
  page.on("request", (request) => request.url().startsWith(address) || request.url().startsWith("data:") || foreign.push(request.url()));
  await page.goto(address);
  await page.locator("html[data-ready]").waitFor({ state: "attached", timeout: 20_000 });
  return page;
}

const page = await open({ viewport: { width: 1280, height: 900 }, colorScheme: "light" });
const text = (id) => page.locator(`#${id}`).innerText();
await check("all hosts are in, with the rate that they send", async () => {
  await until("all hosts", () => text("figures"), (words) => /6 of 6\s*hosts/.test(words) && words.includes("1,200/s"));
  equal(await page.locator("#link").textContent(), "live");
});
await check("the slow host is named with its share", async () => {
  await until("n3", () => text("different"), (words) => /^n3 had 100\.0 % of the events from .*ms on in the last minute, but 1[67]\.\d % of all\. Its p99 is \d+/.test(words));
  const first = page.locator("#hosts tbody tr").first().locator("td");
  equal(await first.nth(0).textContent(), "n3");
  equal((await first.nth(9).textContent()), "100.0 %");
  equal((await first.nth(11).textContent()).endsWith("!"), true);
  equal(await page.locator("#hosts tbody tr").count(), 6);
});
await check("what waits, the alert and the budget are there", async () => {
  await until("the oldest", () => text("figures"), (words) => /2\.5s\s*oldest of 6 waiting/.test(words));
  await until("the alert", () => text("alerts"), (words) => words.includes("firing: waits"));
  await until("the budget", () => text("budgets"), (words) => words.includes("db"));
});
await check("the chart has both lines, and moves on", async () => {
  const path = () => page.locator("#chart .p99").getAttribute("d");
  const before = await path();
  equal((await page.locator("#chart .p50").getAttribute("d")).split("M").length > 1, true);
  await until("another picture", path, (now) => now !== before);
});
await check("who is gone is named and hatched", async () => {
  console.log("do: end n5");
  await until("n5", () => text("figures"), (words) => /5 of 6\s*hosts; missing: n5/.test(words));
  await until("the hatch", () => page.locator("#chart .lacks").count(), (count) => count > 0);
  await until("the row", () => page.locator("#hosts tbody tr").first().innerText(), (words) => words.startsWith("n5\tmissing"));
});
await check("it fits 320 pixels, in the dark, too", async () => {
  const narrow = await open({ viewport: { width: 320, height: 640 }, colorScheme: "dark" });
  await until("the hosts", () => narrow.locator("#hosts tbody tr").count(), (count) => count === 6);
  equal(await narrow.evaluate(() => document.documentElement.scrollWidth), 320);
  equal(await narrow.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(15, 19, 24)");
  equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)");
  if (process.env.PICTURES) {
    await narrow.screenshot({ path: `${process.env.PICTURES}/narrow.png`, fullPage: true });
    await page.screenshot({ path: `${process.env.PICTURES}/wide.png`, fullPage: true });
  }
  await narrow.context().close();
});
await check("nothing foreign is loaded, and nothing may be", async () => {
  equal(foreign, []);
  const policy = await page.locator("meta[http-equiv]").getAttribute("content");
  equal(policy.startsWith("default-src 'none'; connect-src 'self'; img-src data:; style-src 'sha256-"), true);
  const headers = (await page.request.get(address)).headers();
  equal([headers["content-security-policy"], headers["x-content-type-options"]], ["frame-ancestors 'none'", "nosniff"]);
});
await check("no error was reported until here", async () => equal(messages, []));
await check("a hub that was killed and started again is followed again", async () => {
  console.log("do: kill the hub");
  await until("the loss", () => text("link"), (words) => words.startsWith("not connected for"));
  console.log("do: start the hub");
  await until("the return", () => text("link"), (words) => words === "live");
  await until("all hosts", () => text("figures"), (words) => /6 of 6\s*hosts/.test(words) && words.includes("1,200/s"));
});
await browser.close();
process.exitCode = failures;
