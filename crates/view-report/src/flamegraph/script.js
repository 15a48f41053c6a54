(() => {
  "use strict";
  const svg = document.currentScript.closest("svg");
  const flames = svg.querySelector(".flames");
  const [controls, status] = [svg.querySelector(".controls"), svg.querySelector(".status")];
  const [left, width] = [Number(flames.dataset.x), Number(flames.dataset.width)];
  const isIcicle = flames.classList.contains("icicle");
  const LETTER = 6.6;
  const boxes = [...flames.children].map((g, at) => {
    const rect = g.querySelector("rect");
    const lines = g.querySelector("title").textContent.split("\n");
    const [x, w] = [(Number(rect.getAttribute("x")) - left) / width, Number(rect.getAttribute("width")) / width];
    return { g, rect, text: g.querySelector("text"), name: lines[0], lines, parent: Number(g.dataset.p), at, x, w, end: at + 1 };
  });
  // All that is above a box comes right after it.
  for (let at = boxes.length - 1; at > 0; at--) {
    const parent = boxes[boxes[at].parent];
    parent.end = Math.max(parent.end, boxes[at].end);
  }
  const state = { zoom: 0, focus: 0, pattern: "", typing: false };

  const percent = (share) => (share > 0 && share < 0.0001 ? "< 0.01" : (100 * share).toFixed(share < 0.01 ? 2 : 1)) + " %";
  function place(box, x, w) {
    box.g.removeAttribute("display");
    box.rect.setAttribute("x", (left + x * width).toFixed(3));
    box.rect.setAttribute("width", Math.max(w * width, 0.1).toFixed(3));
    const room = Math.floor((w * width - 6) / LETTER);
    if (room < 3) {
      box.text?.setAttribute("display", "none");
      return;
    }
    if (!box.text) {
      box.text = document.createElementNS("http://www.w3.org/2000/svg", "text");
      box.text.setAttribute("fill", "#16181c");
      box.text.setAttribute("y", Number(box.rect.getAttribute("y")) + 12);
      box.g.append(box.text);
    }
    const letters = [...box.name];
    box.text.removeAttribute("display");
    box.text.setAttribute("x", (left + x * width + 3).toFixed(3));
    box.text.textContent = letters.length > room ? letters.slice(0, room - 1).join("") + "…" : box.name;
  }
  function isBelow(box, other) {
    return box.at <= other.at && other.at < box.end;
  }
  function draw() {
    const zoom = boxes[state.zoom];
    for (const box of boxes) {
      if (isBelow(zoom, box)) place(box, (box.x - zoom.x) / zoom.w, box.w / zoom.w);
      else if (isBelow(box, zoom)) place(box, 0, 1);
      else box.g.setAttribute("display", "none");
      box.g.setAttribute("opacity", isBelow(box, zoom) && box !== zoom ? "0.55" : "1");
    }
    mark();
  }
  /** The frames that match, and the share of all that runs through any of them. */
  function found() {
    if (!state.pattern) return { is: () => false, share: 0, count: 0 };
    let test;
    try {
      const pattern = new RegExp(state.pattern, "i");
      test = (name) => pattern.test(name);
    } catch {
      test = (name) => name.toLowerCase().includes(state.pattern.toLowerCase());
    }
    const hits = boxes.map((box) => test(box.name));
    let [share, until, count] = [0, 0, 0];
    for (const box of boxes) {
      if (!hits[box.at]) continue;
      count++;
      if (box.at < until) continue;
      share += box.w;
      until = box.end;
    }
    return { is: (box) => hits[box.at], share, count };
  }
  function mark() {
    const hits = found();
    for (const box of boxes) {
      const isHit = hits.is(box);
      box.g.classList.toggle("hit", isHit);
      box.rect.style.fill = isHit ? "#c85fe0" : "";
      box.rect.style.stroke = box.at === state.focus ? "#1b6fd1" : "";
      box.rect.style.strokeWidth = box.at === state.focus ? "2" : "";
    }
    const pattern = state.typing || state.pattern ? `search: ${state.pattern}${state.typing ? "▏" : ""}` : "";
    const share = state.pattern ? `  ${percent(hits.share)} of ${flames.dataset.unit} in ${hits.count} frames` : "";
    say(pattern ? pattern + share : "");
  }
  function say(text) {
    const room = Math.floor((width - 120) / LETTER);
    status.textContent = text.length > room ? text.slice(0, room - 1) + "…" : text;
  }
  function zoomTo(at) {
    state.zoom = state.focus = at;
    draw();
  }
  function reset() {
    Object.assign(state, { zoom: 0, focus: 0, pattern: "", typing: false });
    draw();
  }
  function search() {
    Object.assign(state, { typing: true, pattern: "" });
    mark();
  }
  /** The next box in this direction that is shown. */
  function step(key) {
    const here = boxes[state.focus];
    const shown = (box) => box && box.g.getAttribute("display") !== "none";
    const peers = boxes.filter((box) => box.at > 0 && box.parent === here.parent && shown(box));
    const at = peers.indexOf(here);
    const up = isIcicle ? "ArrowDown" : "ArrowUp";
    const down = isIcicle ? "ArrowUp" : "ArrowDown";
    const to =
      key === up ? boxes.find((box) => box.at > 0 && box.parent === here.at && shown(box))
      : key === down ? boxes[here.parent]
      : peers[at + (key === "ArrowRight" ? 1 : -1)];
    if (!to || here.at === 0 && key !== up) return;
    state.focus = to.at;
    mark();
    if (!state.pattern) say(to.lines.slice(0, 2).join("  "));
  }
  addEventListener("keydown", (event) => {
    const { key } = event;
    if (event.altKey || event.metaKey || (event.ctrlKey && key !== "f")) return;
    if (state.typing && !event.ctrlKey) {
      if (key === "Enter") state.typing = false;
      else if (key === "Escape") Object.assign(state, { typing: false, pattern: "" });
      else if (key === "Backspace") state.pattern = [...state.pattern].slice(0, -1).join("");
      else if ([...key].length === 1) state.pattern += key;
      else return;
      mark();
    } else if (key === "/" || key === "f") search();
    else if (key.startsWith("Arrow")) step(key);
    else if (key === "Enter") zoomTo(state.focus);
    else if (key === "Escape") reset();
    else return;
    event.preventDefault();
  });
  for (const box of boxes) {
    box.g.style.cursor = "pointer";
    box.g.addEventListener("click", () => zoomTo(box.at));
    box.g.addEventListener("mouseenter", () => state.typing || state.pattern || say(box.lines.slice(0, 2).join("  ")));
    box.g.addEventListener("mouseleave", () => state.typing || state.pattern || say(""));
  }
  svg.querySelector(".reset").addEventListener("click", reset);
  svg.querySelector(".search").addEventListener("click", search);
  svg.setAttribute("role", "group");
  controls.removeAttribute("display");
})();
