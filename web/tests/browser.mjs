// The page in a real browser, against what the program says of the same trace. Arguments: the program, a folder with trace.csv
// (and its report.html) and hostile.html. Prints a line for each assertion; the status is that of the worst.
import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { chromium } from "playwright-core";

const [program, folder] = process.argv.slice(2);
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const trace = `${folder}/trace.csv`;
const run = (...words) => execFileSync(program, words, { encoding: "utf8", maxBuffer: 2 ** 28, stdio: ["ignore", "pipe", "ignore"] });

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

// Every event, from the program itself: end, latency and attributes.
const events = run("events", "-r", trace, "--json", "--columns", "time_ns,latency_ns,device,kind,comm,size")
  .trim()
  .split("\n")
  .map((line) => JSON.parse(line))
  .map((event) => ({ ...event, end: event.time_ns + event.latency_ns, latency: event.latency_ns }));
const inBox = (start, { time, latency }) => events.filter((event) => event.end >= start + time[0] && event.end < start + time[1] && event.latency >= latency[0] && event.latency < latency[1]);

const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
const messages = [];
const requests = [];
async function open(file, hash = "", options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  const page = await context.newPage();
  page.on("console", (message) => messages.push(message.text()));
  page.on("pageerror", (error) => messages.push(String(error)));
  page.on("request", (request) => requests.push(request.url()));
  await page.goto(`file://${folder}/${file}${hash}`);
  await page.locator("html[data-ready]").waitFor({ state: "attached", timeout: 20_000 });
  return page;
}
const settled = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
const hash = (page) => page.evaluate(() => location.hash);
const state = (page) => page.evaluate(() => JSON.stringify(latscope.state));
/** The window's coordinates of a place on the map, as shares of it from the lower left. */
const at = (page, x, y) =>
  page.evaluate(([x, y]) => {
    const { area } = latscope.picture;
    const box = document.getElementById("cells").getBoundingClientRect();
    return [box.left + area.left + x * area.width, box.top + area.top + (1 - y) * area.height];
  }, [x, y]);
async function drag(page, from, to, key = null) {
  if (key) await page.keyboard.down(key);
  await page.mouse.move(...(await at(page, ...from)));
  await page.mouse.down();
  await page.mouse.move(...(await at(page, ...to)), { steps: 5 });
  await page.mouse.up();
  if (key) await page.keyboard.up(key);
  await settled(page);
}
const page = await open("report.html");
const head = await page.evaluate(() => latscope.data.head);
const start = Number(head.trace_start_ns);

await check("1 opens from a file without a message", () => equal(messages, []));
await check("2 no request leaves", () => equal(requests.filter((url) => !url.startsWith("file:") && !url.startsWith("data:")), []));
await check("3 the hover says what the program counts, in 20 cells", async () => {
  const cells = await page.evaluate(() => {
    const { scene } = latscope;
    const bins = scene.columnEdges.length - 1;
    const full = [...scene.cells.keys()].filter((cell) => scene.cells[cell] > 0);
    return Array.from({ length: 20 }, (_, number) => {
      const cell = full[Math.floor((number * 7919) % full.length)];
      const [bin, line] = [cell % bins, Math.floor(cell / bins)];
      const middle = (edges, at, range) => ((edges[at] + edges[at + 1]) / 2 - range[0]) / (range[1] - range[0]);
      const time = [scene.columnEdges[bin], scene.columnEdges[bin + 1]].map((column) => scene.cube.time(column));
      const latency = [scene.rowEdges[line], scene.rowEdges[line + 1]].map((row) => scene.cube.grid.lower(row));
      return { x: middle(scene.columnEdges, bin, scene.x), y: middle(scene.rowEdges, line, scene.y), time, latency };
    });
  });
  for (const cell of cells) {
    await page.mouse.move(...(await at(page, cell.x, cell.y)));
    await settled(page);
    const title = await page.locator("#tip b").textContent();
    equal(Number(title.replace(/\D/g, "")), inBox(start, cell).length, JSON.stringify(cell));
  }
});
await check("4 all cells together are all events", async () => {
  const sum = await page.evaluate(() => latscope.scene.cells.reduce((all, one) => all + one, 0));
  equal([sum, await page.evaluate(() => latscope.data.events)], [events.length, events.length]);
});
await check("5 the slowest event is not of the background", async () => {
  const slowest = events.reduce((one, other) => (one.latency > other.latency ? one : other));
  const differs = await page.evaluate(([time, latency]) => {
    const { scene, picture } = latscope;
    const canvas = document.getElementById("cells");
    const [column, row] = [scene.cube.column(time), scene.cube.grid.place(latency)];
    const x = picture.area.left + ((column - scene.x[0]) / (scene.x[1] - scene.x[0])) * picture.area.width;
    const y = picture.area.top + picture.area.height * (1 - (row - scene.y[0]) / (scene.y[1] - scene.y[0]));
    const pixel = (px, py) => [...canvas.getContext("2d").getImageData(px, py, 1, 1).data].join();
    return pixel(x, y) !== pixel(picture.area.left + 1, picture.area.top + 1);
  }, [slowest.end - start, slowest.latency]);
  holds(differs, "its pixel is that of the background");
});
await check("6 the wheel keeps what is under the pointer", async () => {
  const column = () => page.evaluate(() => latscope.hover.column);
  const place = await at(page, 0.3, 0.5);
  await page.mouse.click(...place);
  await page.mouse.move(...place);
  await settled(page);
  const before = await column();
  for (let turn = 0; turn < 4; turn++) {
    await page.mouse.wheel(0, -200);
    await settled(page);
  }
  await page.mouse.move(place[0] + 0.01, place[1]);
  await settled(page);
  const pixel = await page.evaluate(() => (latscope.scene.x[1] - latscope.scene.x[0]) / latscope.picture.area.width);
  holds((await page.evaluate(() => latscope.scene.x[1] - latscope.scene.x[0])) < head.columns / 2, "it did not zoom");
  holds(Math.abs((await column()) - before) <= 1.5 * pixel, `${await column()} is not ${before}`);
});
await check("7 zoomed in, a cell is at least 3 pixels and its count exact", async () => {
  for (let turn = 0; turn < 6; turn++) await page.keyboard.press("+");
  await settled(page);
  const cells = await page.evaluate(() => {
    const { scene, picture } = latscope;
    const width = (picture.area.width * (scene.columnEdges[2] - scene.columnEdges[1])) / (scene.x[1] - scene.x[0]);
    const bins = scene.columnEdges.length - 1;
    return { width, cells: [...scene.cells.keys()].slice(0, 400).map((cell) => ({ count: scene.cells[cell], time: [scene.columnEdges[cell % bins], scene.columnEdges[(cell % bins) + 1]].map((column) => scene.cube.time(column)), latency: [scene.rowEdges[Math.floor(cell / bins)], scene.rowEdges[Math.floor(cell / bins) + 1]].map((row) => scene.cube.grid.lower(row)) })) };
  });
  holds(cells.width >= 3, `${cells.width} pixels`);
  for (const cell of cells.cells) equal(cell.count, inBox(start, cell).length);
});
await check("8 panning stops at both ends", async () => {
  for (const press of ["0", "+", "+"]) await page.keyboard.press(press);
  for (let turn = 0; turn < 8; turn++) await page.keyboard.press("a");
  await settled(page);
  equal(await page.evaluate(() => Math.round(latscope.scene.x[0])), 0);
  for (let turn = 0; turn < 16; turn++) await page.keyboard.press("d");
  await settled(page);
  equal(await page.evaluate(() => Math.round(latscope.scene.x[1])), head.columns);
  await page.keyboard.press("0");
  await settled(page);
});
let boxed = "";
await check("9 a box snaps to whole cells", async () => {
  await drag(page, [0.305, 0.74], [0.71, 0.985]);
  const [a, edges] = await page.evaluate(() => [latscope.state.a, [latscope.scene.columnEdges.map((edge) => latscope.scene.cube.time(edge)), latscope.scene.rowEdges.map((edge) => latscope.scene.cube.grid.lower(edge))]]);
  holds(a.time.every((time) => edges[0].includes(time)) && a.latency.every((latency) => edges[1].includes(latency)), JSON.stringify(a));
  boxed = await hash(page);
});
await check("10 the panel counts and orders as the events do", async () => {
  const [box, panel] = await page.evaluate(() => [latscope.state.a, JSON.parse(latscope.json())]);
  const spot = inBox(start, box);
  const rest = events.filter((event) => !spot.includes(event));
  equal([panel.spot, panel.rest], [spot.length, rest.length]);
  holds(spot.length > 50, `${spot.length} events`);
  const command = await page.locator("#command").textContent();
  const words = `${command.replace(/^latscope/, `'${program}'`)} --json --columns device,kind,comm`;
  const explained = JSON.parse(execFileSync("/bin/sh", ["-c", words], { encoding: "utf8", maxBuffer: 2 ** 28, cwd: folder, stdio: ["ignore", "pipe", "ignore"] }));
  equal([explained.selection.events, explained.baseline.events], [panel.spot, panel.rest], command);
  const columns = panel.columns.flatMap((column) => [column.name, ...column.same]).filter((name) => ["device", "kind", "comm"].includes(name));
  holds(columns.length > 0, "nothing is different");
  for (const column of panel.columns.filter(({ name }) => ["device", "kind", "comm"].includes(name))) {
    const theirs = explained.attributes.find(({ field }) => field === column.name);
    holds(Math.abs(theirs.divergence - column.divergence) < 1e-6, `${column.name}: ${column.divergence} is not ${theirs.divergence}`);
    for (const value of column.values) {
      const of = (list) => list.filter((event) => event[column.name] === value.value).length;
      equal([value.spot, value.rest], [of(spot), of(rest)], `${column.name} ${value.value}`);
      const said = theirs.values.find(({ condition }) => condition.value === value.value);
      if (said) equal([said.selection_events, said.baseline_events], [value.spot, value.rest], value.value);
    }
  }
  const same = (names) => names.filter((name) => panel.columns.some((column) => column.name === name));
  equal(same(panel.columns.map(({ name }) => name)).filter((name) => ["device", "kind", "comm"].includes(name)), same(explained.attributes.map(({ field }) => field)));
  const order = panel.columns.map(({ divergence }) => divergence);
  equal(order, [...order].sort((one, other) => other - one));
});
await check("11 a box of one cell", async () => {
  const other = await open("report.html");
  await other.locator("#map").focus();
  await other.keyboard.press("ArrowRight");
  await other.keyboard.press("v");
  await other.keyboard.press("Enter");
  await settled(other);
  const [box, panel] = await other.evaluate(() => [latscope.state.a, JSON.parse(latscope.json())]);
  const inside = inBox(start, box).length;
  equal(Math.min(panel.spot, panel.rest), Math.min(inside, events.length - inside));
  await other.context().close();
});
await check("12 a box over nothing says so", async () => {
  const other = await open("report.html", "#v=1&A=0~200000000~200000000000~400000000000");
  holds((await other.locator("#panel").textContent()).includes("Nothing here"), "it does not");
  await other.context().close();
});
await check("13 keep, exclude and take both back is the first state", async () => {
  const before = await state(page);
  const rows = page.locator("#panel .row");
  await rows.nth(0).click();
  await settled(page);
  holds((await hash(page)).includes("is."), "nothing is kept");
  await page.locator("#panel .exclude").nth(1).click();
  await settled(page);
  holds((await hash(page)).includes("not."), "nothing is excluded");
  for (const kind of ["=", "≠"]) {
    await page.locator(`#crumbs button[aria-label^="Remove"][aria-label*="${kind}"]`).click();
    await settled(page);
  }
  equal(await state(page), before);
});
await check("14 two values of one attribute are or, of two attributes and", async () => {
  const count = async (parts) => {
    const other = await open("report.html", `#v=1&${parts}`);
    const counted = await other.locator("#counted").textContent();
    await other.context().close();
    return Number(counted.split(" of ")[0].replace(/,/g, ""));
  };
  const of = (test) => events.filter(test).length;
  equal(await count("is.device=sda&is.device=loop0"), of(({ device }) => device === "sda" || device === "loop0"));
  equal(await count("is.device=sda&is.kind=read"), of(({ device, kind }) => device === "sda" && kind === "read"));
  equal(await count("is.device=sda&not.kind=read"), of(({ device, kind }) => device === "sda" && kind !== "read"));
});
await check("15 Alt+drag compares, and the spots change sides", async () => {
  await drag(page, [0.75, 0.05], [0.95, 0.4], "Alt");
  holds((await page.locator("#panel h2").textContent()).includes("against spot B"), await page.locator("#panel h2").textContent());
  const one = await page.evaluate(() => [latscope.state, JSON.parse(latscope.json())]);
  const swapped = await open("report.html", `#v=1&A=${[...one[0].b.time, ...one[0].b.latency].join("~")}&B=${[...one[0].a.time, ...one[0].a.latency].join("~")}`);
  const other = await swapped.evaluate(() => JSON.parse(latscope.json()));
  equal([other.spot, other.rest], [one[1].rest, one[1].spot]);
  // Which attributes are folded into one depends on the side, how far they differ does not.
  const differs = (columns) => Object.fromEntries(columns.map(({ name, divergence }) => [name, divergence.toFixed(9)]));
  const [ours, theirs] = [differs(one[1].columns), differs(other.columns)];
  for (const name of Object.keys(ours).filter((name) => name in theirs)) equal(ours[name], theirs[name], name);
  await swapped.context().close();
});
await check("16 Esc clears B, then A, then the zoom", async () => {
  await page.keyboard.press("+");
  const shape = () => page.evaluate(() => [latscope.state.b !== null, latscope.state.a !== null, latscope.state.x !== null]);
  await page.locator("#map").focus();
  const found = [await shape()];
  for (let turn = 0; turn < 3; turn++) {
    await page.keyboard.press("Escape");
    found.push(await shape());
  }
  equal(found, [[true, true, true], [false, true, true], [false, false, true], [false, false, false]]);
});
await check("17 undo of 100 steps, then redo", async () => {
  const other = await open("report.html");
  const states = [await hash(other)];
  for (let step = 0; step < 100; step++) {
    await other.keyboard.press("k");
    await settled(other);
    states.push(await hash(other));
  }
  for (let step = 99; step >= 0; step -= 1) {
    await other.keyboard.press("u");
    await other.waitForURL((url) => url.hash === states[step]);
  }
  for (let step = 1; step <= 10; step++) {
    await other.keyboard.press("U");
    await other.waitForURL((url) => url.hash === states[step]);
  }
  await settled(other);
  equal(await hash(other), states[10]);
  await other.context().close();
});
await check("18 Back is undo, also after a reload", async () => {
  const other = await open("report.html");
  const first = await hash(other);
  await other.keyboard.press("k");
  await other.keyboard.press("p");
  await settled(other);
  await other.reload();
  await other.locator("html[data-ready]").waitFor({ state: "attached" });
  await other.goBack();
  await other.goBack();
  await settled(other);
  equal([await hash(other), await other.evaluate(() => latscope.state.weight)], [first, "events"]);
  await other.context().close();
});
await check("19 an address gives its state again", async () => {
  const addresses = [boxed, "#v=1&w=time&q=99.7&tab=lines&th=dark", "#v=1&x=100000000~2000000000&y=50000~9000000&is.device=loop0&not.kind=read&tab=groups&by=comm", "#v=1&A=0~1000000000~1000000~2000000&B=0~1000000000~3000000~4000000&later=kept"];
  for (const address of addresses) {
    const other = await open("report.html", address);
    equal(await hash(other), address);
    await other.context().close();
  }
});
await check("20 malformed, huge and future addresses do no harm", async () => {
  for (const address of ["#v=1&x=%E0%A4%A&w=time", `#v=1&is.device=${"x".repeat(50_000)}`, "#v=99&w=time&what=ever", "#&&&=&x=1~&A=1~2~3&q=1e999&cam=~", "#v=1&is.__proto__=x&x=-9e15~9e15&y=0~1e300"]) {
    const other = await open("report.html", address);
    holds((await other.locator("#counted").textContent()).includes("events"), address.slice(0, 60));
    await other.context().close();
  }
});
await check("21 the command counts what the panel counts", async () => {
  for (const address of [boxed, `${boxed}&is.device=loop0`, "#v=1&not.kind=read&is.comm=a+b%22c&is.comm=fio", "#v=1&is.size=4096..8191"]) {
    const other = await open("report.html", address);
    const command = await other.locator("#command").textContent();
    const panel = await other.evaluate(() => JSON.parse(latscope.json()));
    const passed = await other.evaluate(() => (latscope.state.a ? null : Number(latscope.counted().split(" of ")[0].replace(/,/g, ""))));
    const out = execFileSync("/bin/sh", ["-c", command.replace(/^latscope/, `'${program}'`) + " --json"], { encoding: "utf8", maxBuffer: 2 ** 28, cwd: folder, stdio: ["ignore", "pipe", "ignore"] });
    const json = JSON.parse(out);
    equal(countOf(json), passed ?? panel.spot, command);
    await other.context().close();
  }
});
/** How many events a summary or an explanation is of. */
function countOf(json) {
  if (json.selection) return json.selection.events;
  const rows = json.groups ?? json.rows ?? json;
  const total = json.total ?? rows.find?.((row) => row.total) ?? null;
  return total ? total.count : rows.reduce((sum, row) => sum + row.count, 0);
}
await check("22 the slider's line has the program's percentiles", async () => {
  const other = await open("report.html", "#v=1&tab=lines&q=99.5");
  const { csv, width } = await other.evaluate(() => {
    const { found, scene } = latscope;
    const last = (values) => (values ? values[values.length - 1] : null);
    return { width: (found.edges[2] - found.edges[1]) * latscope.data.head.width_ns, csv: found.values.map((values, bin) => [scene.cube.time(found.edges[bin]), last(values)]) };
  });
  const rows = table(run("percentiles", "-r", trace, "-i", `${width}ns`, "--count-by", "completion", "--completed-only", "--p", "50,99.5", "--csv"));
  const theirs = new Map(rows.map((row) => [Number(row.time_ns), Number(row.p99_5_ns)]));
  let compared = 0;
  for (const [time, value] of csv) {
    const expected = theirs.get(start + time);
    if (value === null || expected === undefined) continue;
    compared++;
    holds(Math.abs(value - expected) <= expected / 60 + 1, `${time}: ${value} is not ${expected}`);
  }
  holds(compared > 5, `${compared} intervals`);
  await other.context().close();
});
function table(csv) {
  const [names, ...rows] = csv.trim().split("\n").map((line) => line.split(","));
  return rows.map((row) => Object.fromEntries(names.map((name, at) => [name, row[at]])));
}
await check("23 the exported CSV is the program's", async () => {
  const other = await open("report.html", "#v=1&q=99.9");
  const [download] = await Promise.all([other.waitForEvent("download"), other.locator("#export").click()]);
  const ours = table(readFileSync(await download.path(), "utf8"));
  const theirs = table(run("percentiles", "-r", trace, "-i", `${ours[1].width_ns}ns`, "--count-by", "completion", "--completed-only", "--p", "50,90,99,99.9", "--csv")).filter(({ count }) => count !== "0");
  equal(ours.length, theirs.length);
  ours.forEach((row, at) => {
    for (const name of ["time_ns", "width_ns", "count"]) equal(row[name], theirs[at][name], `${name} ${at}`);
    for (const name of ["p50_ns", "p90_ns", "p99_ns", "p99_9_ns"]) {
      const [one, other] = [Number(row[name]), Number(theirs[at][name])];
      holds(Math.abs(one - other) <= other / 60 + 1, `${name} ${at}: ${one} is not ${other}`);
    }
  });
  await other.context().close();
});
await check("24 light, dark and the system's theme, and their contrast", async () => {
  for (const [address, scheme, isDark] of [["#v=1&th=light", "dark", false], ["#v=1&th=dark", "light", true], ["", "dark", true], ["", "light", false]]) {
    const other = await open("report.html", address, { colorScheme: scheme });
    const tokens = await other.evaluate(() => Object.fromEntries(["bg", "plot", "text", "muted", "accent", "a", "b", "green", "amber", "edge"].map((name) => [name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim()])));
    const light = (hex) => {
      const full = hex.length === 4 ? [...hex.slice(1)].map((digit) => digit + digit).join("") : hex.slice(1);
      const [r, g, b] = [0, 2, 4].map((from) => parseInt(full.slice(from, from + 2), 16) / 255).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const contrast = (one, two) => (Math.max(light(one), light(two)) + 0.05) / (Math.min(light(one), light(two)) + 0.05);
    equal(light(tokens.bg) < 0.5, isDark, address);
    for (const name of ["text", "muted", "accent", "a", "b", "amber"]) holds(contrast(tokens[name], tokens.bg) >= 4.5, `${name} ${contrast(tokens[name], tokens.bg)}`);
    for (const name of ["green", "edge"]) holds(contrast(tokens[name], tokens.plot) >= 3, `${name} ${contrast(tokens[name], tokens.plot)}`);
    await other.context().close();
  }
});
await check("25 by keyboard alone: zoom, box, keep, undo", async () => {
  const other = await open("report.html");
  await other.locator("#map").focus();
  for (const press of ["ArrowLeft", "PageUp", "PageUp", "PageUp", "PageUp", "PageUp", "PageUp", "PageUp", "+", "v", "Shift+ArrowRight", "PageDown", "Enter"]) await other.keyboard.press(press);
  await settled(other);
  holds((await hash(other)).includes("A="), "there is no box");
  await other.locator("#panel .row").first().focus();
  await other.keyboard.press("Enter");
  await settled(other);
  const kept = await hash(other);
  holds(kept.includes("is."), "nothing is kept");
  await other.keyboard.press("u");
  await other.waitForURL((url) => url.hash !== kept);
  holds(!(await hash(other)).includes("is."), "it is not undone");
  await other.context().close();
});
await check("26 everything that is operated has a name, and there is a table", async () => {
  const nameless = await page.evaluate(() => [...document.querySelectorAll("button, input, select, [role=application], canvas")].filter((element) => !element.hidden && element.closest("[aria-hidden]") === null && element.getClientRects().length > 0 && !(element.getAttribute("aria-label") ?? element.title ?? "") && !element.textContent && !document.querySelector(`label[for="${element.id}"]`)).map((element) => element.outerHTML.slice(0, 80)));
  equal(nameless.filter((html) => !html.includes('id="cells"')), []);
  await page.keyboard.press("T");
  await settled(page);
  const rows = await page.locator("#table tbody tr").count();
  holds(rows >= 5 && rows <= 25, `${rows} rows`);
});
await check("27 at 390 pixels nothing scrolls sideways", async () => {
  for (const [width, height] of [[390, 844], [1024, 768]]) {
    const other = await open("report.html", boxed, { viewport: { width, height } });
    const wide = await other.evaluate(() => document.documentElement.scrollWidth);
    holds(wide <= width, `${wide} of ${width}`);
    holds((await other.evaluate(() => latscope.picture.area.height)) > 150, "the map is too low");
    await other.context().close();
  }
});
await check("28 printed, there are crumbs and table instead of controls", async () => {
  const other = await open("report.html", boxed);
  await other.emulateMedia({ media: "print" });
  await settled(other);
  const shown = (selector) => other.locator(selector).first().isVisible();
  equal([await shown("#crumbs .crumb"), await shown("#table tbody tr"), await shown("#buttons"), await shown("#weights"), await shown("#command")], [true, true, false, false, true]);
  const pages = (await other.pdf({ preferCSSPageSize: true, printBackground: true })).toString("latin1").match(/\/Type\s*\/Page[^s]/g);
  holds(pages.length >= 2, `${pages.length} pages`);
  await other.context().close();
});
/** Writes a trace and its page into the folder. */
function pageOf(name, csv, ...words) {
  writeFileSync(`${folder}/${name}.csv`, csv);
  return spawnSync(program, ["report", "-r", `${folder}/${name}.csv`, "-o", `${folder}/${name}.html`, ...words], { encoding: "utf8" }).stderr;
}
/** What the command in the panel counts: events of the selection and of the baseline. */
async function commanded(page) {
  const words = `${(await page.locator("#command").textContent()).replace(/^latscope/, `'${program}'`)} --json`;
  const { selection, baseline } = JSON.parse(execFileSync("/bin/sh", ["-c", words], { encoding: "utf8", maxBuffer: 2 ** 28, cwd: folder, stdio: ["ignore", "pipe", "ignore"] }));
  return [selection.events, baseline.events];
}
const counts = (page) => page.evaluate(() => JSON.parse(latscope.json())).then(({ spot, rest }) => [spot, rest]);
const end = head.columns * head.width_ns;
await check("51 of a box with more than half, all of the panel is of what is outside", async () => {
  const other = await open("report.html", `#v=1&A=0~${end}~0~1048576`);
  const keys = await other.locator("#panel .key").allTextContents();
  equal(keys, ["outside of A", "spot A"]);
  const slowest = events.reduce((most, { latency }) => Math.max(most, latency), 0);
  equal(await other.locator(".exemplars tbody tr td:nth-child(2)").first().textContent(), `${Math.round(slowest / 1e6)}ms`);
  equal(await commanded(other), await counts(other));
  await other.context().close();
});
await check("52 what is in both boxes counts for A only", async () => {
  const box = (time, latency) => ({ time, latency });
  const [a, b] = [box([3e9, 6e9], [2 ** 16, 2 ** 26]), box([4e9, 8e9], [2 ** 14, 2 ** 20])];
  const text = ({ time, latency }) => [...time, ...latency].join("~");
  const other = await open("report.html", `#v=1&A=${text(a)}&B=${text(b)}`);
  const snapped = await other.evaluate(() => latscope.whole());
  const spot = inBox(start, snapped.a);
  const rest = inBox(start, snapped.b).filter((event) => !spot.includes(event));
  equal(await counts(other), [spot.length, rest.length]);
  equal(await commanded(other), [spot.length, rest.length]);
  holds((await other.locator("#panel").textContent()).includes("counts for A only"), "it is not said");
  // All shares of the figures are of the whole trace.
  holds((await other.locator(".figures").textContent()).includes(`events, ${((100 * spot.length) / events.length).toFixed(1)} %`), await other.locator(".figures").textContent());
  await other.context().close();
});
await check("53 a box that somebody typed is of whole cells, as is its command", async () => {
  const other = await open("report.html", "#v=1&A=3333333333~5777777777.5~70123456~101234567");
  const [spot] = await counts(other);
  holds(spot > 10, `${spot} events`);
  equal((await commanded(other))[0], spot);
  await other.context().close();
});
await check("54 of 3000 values 254 are kept, and a list has no more than some hundred rows", async () => {
  const rows = Array.from({ length: 3000 }, (_, at) => `${1e9 + at * 1e6},${1000 + at},/data/${at}`);
  pageOf("unique", `time_ns,latency_ns,path\n${rows.join("\n")}\n`);
  const other = await open("unique.html");
  const paths = await other.evaluate(() => latscope.data.head.attributes.find(({ name }) => name === "path").values);
  equal([paths.length, paths.filter((path) => typeof path === "string").sort()[0]], [255, "/data/2746"]);
  await other.locator("#panel .more").first().click();
  holds((await other.locator("#panel .row").count()) <= 400, "too many rows");
  const many = Array.from({ length: 5000 }, (_, at) => `f${at}`);
  await other.evaluate((many) => {
    const { data } = latscope;
    const attribute = data.head.attributes.findIndex(({ name }) => name === "path");
    data.head.attributes[attribute].values = many;
    data.head.combinations = many.length;
    data.values = data.values.map(() => Uint32Array.from(many, (_, at) => at));
    data.cube.combinations = data.cube.combinations.map((_, at) => at);
    data.exemplars = [];
    latscope.renew(data);
  }, many);
  await settled(other);
  equal(await other.locator("#panel h3[data-attribute=path] + div .row").count(), 300);
  holds((await other.locator("#panel").textContent()).includes("2,700 more are not listed"), "what is left out is not said");
  await other.context().close();
});
await check("55 one of several traces is a command, too", async () => {
  const rows = (latency) => `time_ns,latency_ns,device\n${Array.from({ length: 100 }, (_, at) => `${1e9 + at * 1e7},${latency + at},sda`).join("\n")}\n`;
  for (const [name, latency] of [["one", 1000], ["other", 50_000]]) writeFileSync(`${folder}/${name}.csv`, rows(latency));
  execFileSync(program, ["report", "-r", "one.csv", "-r", "other.csv", "-o", "both.html"], { cwd: folder, stdio: "ignore" });
  for (const [kind, counted] of [["is", 100], ["not", 100]]) {
    const other = await open("both.html", `#v=1&${kind}.trace=other.csv`);
    const words = await other.locator("#command").textContent();
    const summary = JSON.parse(execFileSync("/bin/sh", ["-c", `${words.replace(/^latscope/, `'${program}'`)} --json`], { encoding: "utf8", cwd: folder, stdio: ["ignore", "pipe", "ignore"] }));
    equal([summary.total.count, summary.total.max_ns > 40_000], [counted, kind === "is"], words);
    await other.context().close();
  }
});
await check("56 sums of a choice are named estimates in the file", async () => {
  for (const [address, names] of [["", ["sum_ns", "sum_bytes"]], ["#v=1&is.device=sda", ["estimated_sum_ns", "estimated_sum_bytes"]]]) {
    const other = await open("report.html", address);
    const [download] = await Promise.all([other.waitForEvent("download"), other.locator("#export").click({ modifiers: ["Alt"] })]);
    const [titles] = readFileSync(await download.path(), "utf8").split("\n");
    equal(titles.split(",").slice(5), names);
    await other.context().close();
  }
});
await check("57 an event of 63 years is counted, summed and boxed exactly", async () => {
  const rows = Array.from({ length: 999 }, (_, at) => `${1e9 + at * 1e6},${1000 + at},sda`);
  pageOf("long", `time_ns,latency_ns,device\n1000000000,2000000000000000000,sda\n${rows.join("\n")}\n`);
  const other = await open("long.html");
  const [download] = await Promise.all([other.waitForEvent("download"), other.locator("#export").click()]);
  const lines = readFileSync(await download.path(), "utf8").trim().split("\n").slice(1).map((line) => line.split(","));
  equal(lines.reduce((all, line) => all + Number(line[2]), 0), 1000);
  const [cells] = await Promise.all([other.waitForEvent("download"), other.locator("#export").click({ modifiers: ["Alt"] })]);
  const last = readFileSync(await cells.path(), "utf8").trim().split("\n").at(-1).split(",");
  equal([last[4], last[5]], ["1", "2000000000000000000"]);
  const row = await other.evaluate(() => latscope.scene.cube.grid.index(2e18));
  const bounds = await other.evaluate((row) => [latscope.scene.cube.grid.lower(row), latscope.scene.cube.grid.upper(row)], row);
  const boxed = await open("long.html", `#v=1&A=0~${await other.evaluate(() => latscope.end)}~${bounds.join("~")}`);
  equal([await counts(boxed), await commanded(boxed)], [[1, 999], [1, 999]]);
  for (const page of [other, boxed]) await page.context().close();
});
await check("58 v draws a box without focus on the map", async () => {
  const other = await open("report.html");
  for (const press of ["v", "ArrowRight", "PageUp", "Enter"]) await other.keyboard.press(press);
  await settled(other);
  holds((await hash(other)).includes("A="), "there is no box");
  await other.context().close();
});
await check("59 at 320 pixels, what a box adds is on the screen", async () => {
  for (const width of [360, 320]) {
    const other = await open("report.html", boxed, { viewport: { width, height: 640 } });
    const off = await other.evaluate((width) => [...document.querySelectorAll("header *, #crumbs *")].filter((element) => element.getClientRects().length > 0 && element.getBoundingClientRect().right > width).map((element) => element.outerHTML.slice(0, 80)), width);
    equal(off, [], width);
    holds((await other.evaluate(() => document.documentElement.scrollWidth)) <= width, "the page scrolls sideways");
    holds((await other.locator("#title").boundingBox()).width > 100, "the title is cut");
    await other.context().close();
  }
});
await check("60 what was lost is never cut, and one event is no events", async () => {
  const printed = pageOf("single", "time_ns,latency_ns\n1000000000,5000\n");
  holds(printed.includes("1 event in 1 column of"), printed);
  const other = await open("single.html");
  const about = await other.evaluate(() => {
    const { data } = latscope;
    data.head.notes = [{ text: `${"records were lost, ".repeat(30)}the last`, lost: true }];
    latscope.renew(data);
    return [document.getElementById("notes").textContent.includes("lost, the last"), document.getElementById("counted").textContent, document.getElementById("about").textContent];
  });
  equal(about.slice(0, 2), [true, "1 of 1 event"]);
  holds(about[2].startsWith("1 event, "), about[2]);
  await other.context().close();
});
await check("61 what a page cannot keep is printed", async () => {
  const csv = readFileSync(trace, "utf8");
  holds(pageOf("narrow", csv, "-i", "1us").includes("-i 1us: Columns are "), "the width is not printed");
  holds(pageOf("small", csv, "--budget", "1").includes("--budget 1B: The data need "), "the budget is not printed");
  equal(pageOf("wide", csv, "-i", "100ms", "--budget", "8MiB").includes("-i 100ms:"), false);
});
await check("29 hostile names are text, and no script but the page's runs", async () => {
  const before = messages.length;
  const other = await open("hostile.html");
  holds((await other.locator("#panel").textContent()).includes("</script><img src=x onerror=alert(1)>"), "the name is not shown");
  equal(await other.locator("img").count(), 0);
  await settled(other);
  equal(messages.slice(before), []);
  await other.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "window.injected = 1";
    document.body.append(script);
    const image = document.createElement("img");
    image.src = "http://127.0.0.1:9/x.png";
    document.body.append(image);
  });
  await other.waitForTimeout(200);
  equal(await other.evaluate(() => window.injected ?? null), null);
  holds(messages.length > before, "no violation was reported");
  await other.context().close();
});
await check("30 hovering leaves nothing behind", async () => {
  const other = await open("report.html");
  const cdp = await other.context().newCDPSession(other);
  const heap = async () => {
    await cdp.send("HeapProfiler.collectGarbage");
    return (await cdp.send("Runtime.getHeapUsage")).usedSize;
  };
  const hover = (turns) =>
    other.evaluate(async (turns) => {
      const box = document.getElementById("cells").getBoundingClientRect();
      for (let turn = 0; turn < turns; turn++) {
        const [clientX, clientY] = [box.left + 80 + ((turn * 37) % (box.width - 240)), box.top + 20 + ((turn * 13) % (box.height - 80))];
        document.getElementById("plots").dispatchEvent(new PointerEvent("pointermove", { clientX, clientY, bubbles: true }));
        latscope.drawNow();
      }
    }, turns);
  await hover(100);
  const before = await heap();
  await hover(500);
  const grown = (await heap()) - before;
  holds(grown < 1e6, `${grown} bytes`);
  await other.context().close();
});
await check("31 without WebGL2 the surface is a contour map", async () => {
  const before = messages.length;
  const other = await open("report.html", "#v=1&tab=surface");
  await settled(other);
  const shown = await other.evaluate(() => [document.getElementById("lower").hidden, latscope.contour !== null, document.getElementById("gl").hidden]);
  holds(JSON.stringify(shown) === "[false,true,true]" || JSON.stringify(shown) === "[true,false,false]", JSON.stringify(shown));
  messages.length = before;
  await other.context().close();
});
await check("31 where WebGL2 is refused or lost, the contour map is there", async () => {
  const drawn = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"] });
  const show = async (script) => {
    const other = await (await drawn.newContext({ viewport: { width: 1000, height: 800 } })).newPage();
    if (script) await other.addInitScript(script);
    await other.goto(`file://${folder}/report.html#v=1&tab=surface`);
    await other.locator("html[data-ready]").waitFor({ state: "attached", timeout: 20_000 });
    await settled(other);
    return other;
  };
  const hidden = (other) => other.evaluate(() => [document.getElementById("gl").hidden, document.getElementById("lower").hidden]);
  const refused = await show(() => {
    const before = HTMLCanvasElement.prototype.getContext;
    HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
      return kind === "webgl2" ? null : before.call(this, kind, ...rest);
    };
  });
  equal(await hidden(refused), [true, false], "refused");
  const page = await show(null);
  if ((await hidden(page))[0]) console.log("note: this browser has no WebGL2 at all, so it cannot be lost");
  else {
    const box = await page.locator("#gl").boundingBox();
    let title = "";
    for (let step = 1; step < 40 && !title.startsWith("p"); step++) {
      await page.mouse.move(box.x + (box.width * step) / 40, box.y + box.height * 0.6);
      await settled(page);
      title = (await page.locator("#tip").isVisible()) ? await page.locator("#tip b").textContent() : "";
    }
    holds(/^p[\d.]+: /.test(title), `the pointer shows ${title}`);
    await page.evaluate(() => document.getElementById("gl").getContext("webgl2").getExtension("WEBGL_lose_context").loseContext());
    await page.waitForFunction(() => true).catch(() => {});
    await page.waitForTimeout(200);
    await settled(page);
    equal(await hidden(page), [true, false], "lost");
  }
  await drawn.close();
});
await check("54 in the frame of a notebook, which has no address, it shows and undoes", async () => {
  const before = messages.length;
  const other = await (await browser.newContext({ viewport: { width: 1100, height: 800 } })).newPage();
  other.on("pageerror", (error) => messages.push(String(error)));
  await other.setContent('<iframe sandbox="allow-scripts" style="width:1000px;height:720px"></iframe>');
  await other.evaluate((text) => (document.querySelector("iframe").srcdoc = text), readFileSync(`${folder}/report.html`, "utf8"));
  const frame = other.frameLocator("iframe");
  await frame.locator("html[data-ready]").waitFor({ state: "attached", timeout: 20_000 });
  const inside = other.frames()[1];
  const first = await state(inside);
  await frame.locator("#weights").getByText("waiting").click();
  const second = await state(inside);
  holds(first !== second, "nothing was chosen");
  await frame.locator("#buttons").getByText("undo").click();
  equal(await state(inside), first);
  equal(messages.slice(before), []);
  await other.context().close();
});
await check("34 light and dark look as before", async () => {
  const fonts = (() => {
    try {
      return execFileSync("fc-match", ["system-ui"], { encoding: "utf8" });
    } catch {
      return "no fc-match";
    }
  })();
  if (!fonts.includes("DejaVu")) return console.log(`note: pictures are not compared, the font here is ${fonts.trim()}`);
  const blank = await (await browser.newContext()).newPage();
  for (const theme of ["light", "dark"]) {
    const other = await open("report.html", `#v=1&th=${theme}&A=3000000000~7200000000~60000000~140000000`, { viewport: { width: 800, height: 640 } });
    const found = await other.locator("#plots").screenshot();
    const stored = new URL(`${theme}.png`, import.meta.url);
    if (process.env.LATSCOPE_BLESS) writeFileSync(stored, found);
    const share = await blank.evaluate(async (urls) => {
      const [one, other] = await Promise.all(
        urls.map(async (url) => {
          const bitmap = await createImageBitmap(await (await fetch(url)).blob());
          const context = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d");
          context.drawImage(bitmap, 0, 0);
          return context.getImageData(0, 0, bitmap.width, bitmap.height).data;
        }),
      );
      if (one.length !== other.length) return 1;
      let different = 0;
      for (let at = 0; at < one.length; at += 4) if ([0, 1, 2].some((part) => Math.abs(one[at + part] - other[at + part]) > 24)) different++;
      return (4 * different) / one.length;
    }, [found, readFileSync(stored)].map((png) => `data:image/png;base64,${png.toString("base64")}`));
    if (share > 0.001) writeFileSync(`${folder}/${theme}.png`, found);
    holds(share <= 0.001, `${(100 * share).toFixed(2)} % of the pixels of ${theme} differ; LATSCOPE_BLESS=1 stores them`);
    await other.context().close();
  }
});
await check("35 the panel finds a difference where explain finds one", async () => {
  const boxes = ["3000000000~7200000000~60000000~140000000", "0~3000000000~0~200000000", "1000000000~2000000000~0~100000", "7200000000~9900000000~100000~1000000", "500000000~600000000~0~200000000", "0~10000000000~40000~60000"];
  for (const box of boxes) {
    const other = await open("report.html", `#v=1&A=${box}`);
    const panel = await other.evaluate(() => JSON.parse(latscope.json()));
    const command = await other.locator("#command").textContent();
    const words = `${command.replace(/^latscope/, `'${program}'`)} --json --columns device,kind,comm`;
    const explained = JSON.parse(execFileSync("/bin/sh", ["-c", words], { encoding: "utf8", maxBuffer: 2 ** 28, cwd: folder, stdio: ["ignore", "pipe", "ignore"] }));
    const differ = explained.attributes.filter(({ field, differs }) => differs && ["device", "kind", "comm"].includes(field)).map(({ field }) => field).sort();
    const ours = ["device", "kind", "comm"].filter((name) => !panel.no_difference.includes(name)).sort();
    equal(ours, differ, box);
    await other.context().close();
  }
});
await check("36 n shows the spots that the program found", async () => {
  const other = await open("report.html");
  const spots = await other.evaluate(() => latscope.data.head.spots);
  const found = JSON.parse(run("explain", "-r", trace, "--json"));
  equal(spots.map(({ kind, events }) => [kind, events]), found.spots.map((spot) => [spot.kind, spot.explanation.selection.events]));
  holds(spots.length > 0, "none");
  equal(await other.locator(".spots button").count(), spots.length);
  await other.keyboard.press("n");
  await settled(other);
  const [box, panel] = await other.evaluate(() => [latscope.state.a, JSON.parse(latscope.json())]);
  equal(panel.spot, inBox(start, box).length);
  holds(panel.spot >= spots[0].events, `${panel.spot} of ${spots[0].events}`);
  await other.locator("#map").focus();
  await other.keyboard.press("Escape");
  await settled(other);
  await other.locator(".spots button").first().click();
  await settled(other);
  equal(await other.evaluate(() => latscope.state.a), box);
  await other.context().close();
});
await check("37 the filter line keeps what it says, and names what it cannot do", async () => {
  const other = await open("report.html");
  const type = async (text) => {
    await other.locator("#map").focus();
    await other.keyboard.press("/");
    await other.locator("#line input").fill(text);
    await other.keyboard.press("Enter");
    await settled(other);
  };
  await type("device = loop0 and kind != read and lat > 1ms");
  const counted = Number((await other.locator("#counted").textContent()).split(" of ")[0].replace(/,/g, ""));
  equal(counted, events.filter(({ device, kind }) => device === "loop0" && kind !== "read").length);
  holds((await hash(other)).includes("y=1000000~"), await hash(other));
  await type("disk = sda");
  holds((await other.locator("#line [role=alert]").textContent()).includes("cannot filter by disk"), "no message");
  await other.keyboard.press("Escape");
  equal(await other.locator("#line").isVisible(), false);
  await other.context().close();
});
await check("38 a limit tints the time above it", async () => {
  const other = await open("report.html", "#v=1&tab=lines&limit=0.99~10000000");
  const { width, ours } = await other.evaluate(() => {
    const { found, scene } = latscope;
    const at = found.asked.indexOf(0.99);
    const bin = (found.edges[2] - found.edges[1]) * scene.cube.data.head.width_ns;
    return { width: bin, ours: found.values.flatMap((values, at_) => (values && found.events[at_] >= 100 && values[at] >= 1e7 ? [start_(at_)] : [])) };
    function start_(bin) {
      return scene.cube.time(found.edges[bin]);
    }
  });
  const theirs = table(run("percentiles", "-r", trace, "-i", `${width}ns`, "--count-by", "completion", "--completed-only", "--p", "99", "--csv")).filter((row) => Number(row.count) >= 100 && Number(row.p99_ns) >= 1e7);
  equal(ours.filter((time) => time >= 0).length, theirs.filter((row) => Number(row.time_ns) >= start).length);
  holds((await other.locator("#crumbs").textContent()).includes("p99 < 10ms"), "no crumb");
  await other.context().close();
});
await check("39 the edge of a box resizes it, its letter moves it, axes pan and reset", async () => {
  const other = await open("report.html", "#v=1&A=3000000000~6000000000~50000000~120000000");
  const box = () => other.evaluate(() => latscope.state.a);
  const corners = () =>
    other.evaluate(() => {
      const { scene, state, picture } = latscope;
      const canvas = document.getElementById("cells").getBoundingClientRect();
      const x = (time) => canvas.left + picture.area.left + ((scene.cube.column(time) - scene.x[0]) / (scene.x[1] - scene.x[0])) * picture.area.width;
      const y = (ns) => canvas.top + picture.area.top + picture.area.height * (1 - (scene.cube.grid.place(ns) - scene.y[0]) / (scene.y[1] - scene.y[0]));
      return { left: x(state.a.time[0]), right: x(state.a.time[1]), bottom: y(state.a.latency[0]), top: y(state.a.latency[1]) };
    });
  const pull = async (from, to) => {
    await other.mouse.move(...from);
    await other.mouse.down();
    await other.mouse.move(...to, { steps: 4 });
    await other.mouse.up();
    await settled(other);
  };
  const first = await box();
  let at_ = await corners();
  await pull([at_.right, (at_.top + at_.bottom) / 2], [at_.right + 80, (at_.top + at_.bottom) / 2]);
  const wider = await box();
  holds(Math.abs(wider.time[0] - first.time[0]) < 2e6 && wider.latency[0] < 6e7 && wider.latency[1] > 1.1e8, JSON.stringify(wider));
  holds(wider.time[1] > first.time[1], "it is not wider");
  at_ = await corners();
  await pull([at_.left + 10, at_.top + 10], [at_.left - 60, at_.top + 10]);
  const moved = await box();
  holds(Math.abs(moved.time[1] - moved.time[0] - (wider.time[1] - wider.time[0])) < 1, JSON.stringify(moved));
  holds(moved.time[0] < wider.time[0], "it is not moved");
  const [x, y] = await at(other, 0.5, 0.5);
  const axis = await other.evaluate(() => document.getElementById("cells").getBoundingClientRect().left + 30);
  await other.mouse.move(axis, y);
  await other.mouse.wheel(0, -400);
  await other.waitForTimeout(200);
  await other.mouse.wheel(0, -400);
  await settled(other);
  equal(await other.evaluate(() => [latscope.state.x === null, latscope.state.y === null]), [true, false]);
  await other.mouse.dblclick(axis, y);
  await settled(other);
  equal(await other.evaluate(() => latscope.state.y), null);
  await other.mouse.dblclick(x, y);
  await settled(other);
  holds(await other.evaluate(() => latscope.state.x !== null), "a double click on the map does not zoom");
  await other.context().close();
});
await check("40 the difference of two traces is that of their shares", async () => {
  const other = await open("two.html", "#v=1&w=difference");
  const cells = await other.evaluate(() => {
    const { scene } = latscope;
    const bins = scene.columnEdges.length - 1;
    return [...scene.ratios.keys()].filter((cell) => !Number.isNaN(scene.ratios[cell])).map((cell) => {
      const [bin, line] = [cell % bins, Math.floor(cell / bins)];
      const ratio = scene.ratios[cell];
      return { ratio: Number.isFinite(ratio) ? ratio : "few", time: [scene.columnEdges[bin], scene.columnEdges[bin + 1]].map((column) => scene.cube.time(column)), latency: [scene.rowEdges[line], scene.rowEdges[line + 1]].map((row) => scene.cube.grid.lower(row)) };
    });
  });
  const read = (name) => run("events", "-r", `${folder}/${name}`, "--json", "--columns", "time_ns,latency_ns").trim().split("\n").map((line) => JSON.parse(line)).map(({ time_ns, latency_ns }) => ({ end: BigInt(Math.round(time_ns / 1000)) * 1000n, latency: latency_ns, exact: time_ns }));
  const [one, two] = ["trace.csv", "second.csv"].map(read);
  holds(cells.length > 100, `${cells.length} cells`);
  // By latency alone: the sums over time do not depend on how the starts are rounded to columns.
  const rows = new Map();
  for (const { ratio, latency } of cells) rows.set(latency.join(), [...(rows.get(latency.join()) ?? []), ratio]);
  const share = (events, [low, high]) => events.filter(({ latency }) => latency >= low && latency < high).length / events.length;
  let compared = 0;
  for (const [key, found] of rows) {
    const range = key.split(",").map(Number);
    const numbers = found.filter((ratio) => ratio !== "few");
    const [first, second] = [share(one, range), share(two, range)];
    if (numbers.length < 10 || Math.abs(Math.log2(second / first)) < 1) continue;
    compared++;
    equal(Math.sign(numbers.reduce((sum, ratio) => sum + ratio, 0)), Math.sign(Math.log2(second / first)), key);
  }
  holds(compared >= 2, `${compared} rows`);
  await other.context().close();
});
await check("41 the exported JSON is the program's", async () => {
  const other = await open("report.html", "#v=1&q=99.9");
  const [download] = await Promise.all([other.waitForEvent("download"), other.locator("#export-json").click()]);
  const lines = readFileSync(await download.path(), "utf8").trim().split("\n");
  const first = JSON.parse(lines[1]);
  const theirs = run("percentiles", "-r", trace, "-i", `${first.width_ns}ns`, "--count-by", "completion", "--completed-only", "--p", "50,90,99,99.9", "--json").trim().split("\n").filter((line) => !line.includes('"count":0'));
  equal(lines.length, theirs.length);
  const whole = (line, name) => new RegExp(`"${name}":(\\d+)`).exec(line)?.[1];
  lines.forEach((line, at) => {
    for (const name of ["time_ns", "width_ns", "count"]) equal(whole(line, name), whole(theirs[at], name), `${name} ${at}`);
  });
  await other.context().close();
});
await check("52 a spot shows its call stacks, as the program has them", async () => {
  const other = await open("stacks.html");
  await drag(other, [0.2, 0.1], [0.9, 0.75]);
  const words = await other.locator("#command").textContent();
  const filter = /'([^']*)'\s*$/.exec(words.trim())[1];
  const theirs = JSON.parse(run("stacks", "-r", `${folder}/stacks.csv`, "--json", filter));
  const shown = (by = 0) => other.evaluate((by) => {
    const found = [];
    const walk = (node, keys, depth) => {
      const below = [...node.children.values()].reduce((sum, child) => sum + child.events, 0);
      if (node.events > below && depth > by) found.push([keys.slice(by).join(";"), node.events - below]);
      node.children.forEach((child, key) => walk(child, [...keys, key], depth + 1));
    };
    walk(latscope.flames.sums.root, [], 0);
    return found.sort();
  }, by);
  equal(await shown(), theirs.stacks.map(({ stack, events }) => [stack, events]).sort());
  holds(theirs.stacks.length > 3, "several stacks");
  // Times are of whole cells: within an eighth of an octave.
  const time = await other.evaluate(() => latscope.flames.sums.root.time);
  holds(Math.abs(time / theirs.time_ns - 1) < 0.05, `${time} ${theirs.time_ns}`);
  const box = (name) => other.locator("#stacks g").filter({ has: other.locator("title", { hasText: new RegExp(`^${name}`) }) }).first();
  const width = async (name) => (await box(name).locator("rect").boundingBox()).width;
  const before = await width("archive_scan");
  await box("archive_scan").click();
  holds((await width("archive_scan")) > 2 * before, "zoomed");
  await box("all").click();
  holds(Math.abs((await width("archive_scan")) - before) < 1, "and back");
  await other.locator("#stacks input[type=search]").fill("archive_scan");
  const part = theirs.stacks.filter(({ stack }) => stack.includes("archive_scan")).reduce((sum, { time_ns }) => sum + time_ns, 0) / theirs.time_ns;
  const words2 = await other.locator("#stacks [role=status]").textContent();
  holds(Math.abs(parseFloat(words2) / 100 - part) < 0.02, `${words2} ${part}`);
  await other.locator("#stacks summary").click();
  await other.locator("#stacks input[value=comm]").check();
  const names = await other.evaluate(() => [...latscope.flames.sums.root.children.keys()]);
  holds(names.every((name) => name.startsWith("comm=")) && names.length > 1, names.join());
  await other.locator("#stacks input[value=comm]").uncheck();
  await other.locator("#stacks input[value=switch]").uncheck();
  const sampled = JSON.parse(run("stacks", "-r", `${folder}/stacks.csv`, "--json", `(${filter}) and stack_source = sampled`));
  equal(await shown(), sampled.stacks.map(({ stack, events }) => [stack, events]).sort());
  holds(sampled.stacks.length > 0 && sampled.time_ns < theirs.time_ns, `${sampled.time_ns} of ${theirs.time_ns} ns were sampled`);
  await other.locator("#stacks h3 button").click();
  holds((await other.locator("dialog.large .flames svg").boundingBox()).width > 1000, "large");
  await other.keyboard.press("Escape");
  // The dialog hands the picture back when it has closed.
  await other.locator("#stacks .flames svg").waitFor();
  equal(await other.locator("#stacks .flames svg").count(), 1);
  await other.context().close();
});
await check("53 hostile names of functions are text", async () => {
  const before = messages.length;
  const other = await open("hostile_stacks.html");
  equal(await other.evaluate(() => document.querySelectorAll("img, #stacks script").length), 0);
  holds((await other.locator("#stacks g").count()) > 3, "boxes");
  holds((await other.locator("#stacks title").allTextContents()).some((text) => text.includes("</text>")), "the name");
  equal(messages.length, before);
  await other.context().close();
});
await browser.close();
process.exit(failures > 0 ? 1 : 0);
