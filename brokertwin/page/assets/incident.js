// The incident page: findings, lanes over time, and the state of a lane at a moment.

import { clock, decode, duration, exchangeOf, laneOf, lastAt, linkOf, matches, nameOf, short, stateAt, stops, textOf, textOfLane, viewOf } from "./model.js";
import { GLYPHS, drawAxis, drawLane, drawOverview, heightOf, shades } from "./lanes.js";

const KINDS = {
  group: "Groups", transaction: "Transactions", broker: "Brokers", client: "Clients",
  partition: "Partitions", producer: "Producers", session: "Fetch sessions",
};
const LANES_SHOWN = 8;
const LINES_SHOWN = 10;
const KEYS = [
  ["← →", "previous and next change or finding of the lane"], ["↑ ↓", "previous and next lane"],
  ["+ −", "zoom in and out around the moment"], ["0", "the whole recording"],
  ["/", "search"], ["f", "next finding"], ["Esc", "clear the moment or the search"], ["?", "this list"],
];

/** An element with attributes and children; text is never read as HTML. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== false && value !== null) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter(each => each !== null && each !== undefined));
  return made;
}

/**
 * Show the page of a document below a root element.
 * @param {HTMLElement} root
 * @param {import("./model.js").Page} page
 */
export function show(root, page) {
  const view = viewOf(page, location.hash);
  const rows = new Map();
  const expanded = new Set(), texts = new Map();
  let search = "", opened = -1, planned = 0;

  const overview = element("canvas", { "aria-label": "The whole recording; drag to zoom", role: "img" });
  const axis = element("canvas", { "aria-hidden": "true" });
  const list = element("ul", { class: "findings", "aria-label": "Findings" });
  const lanes = element("div", { role: "grid", "aria-label": "Lanes over time" });
  const moment = element("section", { class: "moment", "aria-live": "polite", "aria-label": "The selected moment" });
  const input = element("input", { type: "search", placeholder: "Search findings, clients, groups, partitions", "aria-label": "Search" });
  const help = element("dialog", {}, element("h2", {}, "Keys"),
    ...KEYS.map(([keys, what]) => element("p", {}, element("kbd", {}, keys), ` ${what}`)),
    element("button", { onclick: () => help.close() }, "Close"));
  const range = element("span", { class: "dim" });

  const button = (label, what, act) => element("button", { title: what, "aria-label": what, onclick: act }, label);
  root.replaceChildren(
    element("header", {},
      element("h1", {}, page.title),
      element("div", { class: "dim", title: page.files.join(" ") }, `${page.files.slice(0, 3).join(", ")}${page.files.length > 3 ? ` and ${page.files.length - 3} more` : ""}`),
      element("div", { class: "dim" }, `${clock(page, 0, true)} to ${clock(page, page.span, true)}, `
        + `${page.exchanges.time.length.toLocaleString("en")} exchanges, ${page.findings.length} ${page.findings.length === 1 ? "finding" : "findings"}`
        + (page.left.lanes ? `, ${page.left.lanes} lanes are not on this page` : "")),
      element("div", { class: "tools" }, input,
        button("+", "Zoom in", () => zoom(0.5)), button("−", "Zoom out", () => zoom(2)),
        button("All", "Show the whole recording", () => setRange(0, page.span)),
        button("Keys", "Show the keys", () => help.showModal()))),
    element("main", { class: "columns" },
      element("section", { class: "found" }, element("h2", {}, "Findings"), list),
      element("section", {}, element("div", { class: "time" },
          element("div", { class: "row" }, element("span", { class: "dim" }, "whole recording"), overview),
          element("div", { class: "row" }, range, axis)),
        lanes, element("p", { class: "legend dim" }, ...legend()), moment)), help);

  function legend() {
    return [...Object.entries(GLYPHS).map(([tone, glyph]) => element("span", {}, element("span", { class: tone }, glyph), tone)),
      element("span", {}, "hatched: open or unusual"), element("span", {}, "dashed: gone or empty"),
      element("span", {}, "solid curve: high watermark, dashed: last stable offset")];
  }

  function isFound(lane) {
    if (!texts.has(lane)) texts.set(lane, textOfLane(page, lane));
    return matches(texts.get(lane), search);
  }

  function laneRow(lane) {
    let row = rows.get(lane);
    if (!row) {
      const canvas = element("canvas", { role: "img", "aria-label": `${lane.kind} ${nameOf(page, lane)}: ${lane.count} exchanges, ${lane.marks.length} marks` });
      canvas.style.height = `${heightOf(lane)}px`;
      pointing(canvas, lane);
      const label = element("button", { title: nameOf(page, lane), onclick: () => { select(lane, view.moment ?? (lane.marks[0] ?? lane.samples[0] ?? [0])[0]); } }, short(nameOf(page, lane)),
        element("span", { class: "dim" }, `  ${lane.count.toLocaleString("en")}`));
      row = element("div", { class: "row", role: "row" }, label, canvas);
      rows.set(lane, row);
      watcher.observe(canvas);
    }
    row.setAttribute("aria-selected", String(view.lane === lane));
    return row;
  }

  const visible = new Set();
  const watcher = new IntersectionObserver(entries => {
    for (const entry of entries)
      if (entry.isIntersecting) visible.add(entry.target); else visible.delete(entry.target);
    plan();
  }, { rootMargin: "200px" });
  addEventListener("beforeprint", () => {
    for (const row of rows.values()) if (row.isConnected) visible.add(row.lastChild);
    draw();
  });

  /** @returns {[string, import("./model.js").Lane[], number][]} */
  function shownLanes() {
    /** @type {[string, import("./model.js").Lane[], number][]} */
    const shown = [];
    for (const kind of Object.keys(KINDS)) {
      const all = page.lanes.filter(each => each.kind === kind && isFound(each));
      const some = expanded.has(kind) || search ? all : all.slice(0, LANES_SHOWN);
      if (view.lane?.kind === kind && all.includes(view.lane) && !some.includes(view.lane)) some.push(view.lane);
      shown.push([kind, some, all.length]);
    }
    return shown;
  }

  function showLanes() {
    const parts = [];
    for (const [kind, some, total] of shownLanes()) {
      if (!total) continue;
      parts.push(element("h2", {}, `${KINDS[kind]} `, element("span", { class: "dim" }, String(total))), ...some.map(laneRow));
      if (some.length < total) parts.push(element("button", { onclick: () => { expanded.add(kind); showLanes(); } }, `Show all ${total}`));
    }
    if (!parts.length) parts.push(element("p", { class: "dim" }, "No lane matches the search."));
    lanes.replaceChildren(...parts);
    plan();
  }

  function showFindings() {
    const some = page.findings.filter(each => matches(textOf(each), search));
    list.replaceChildren(...some.map(finding => {
      const isOpen = finding.number === opened;
      const head = element("button", { class: "finding", "aria-expanded": String(isOpen), onclick: () => open(isOpen ? null : finding) },
        element("span", { class: finding.severity }, `${GLYPHS[finding.severity] ?? "●"} ${finding.severity}`), " ",
        element("span", { class: "kind" }, finding.kind), ` ${finding.subject} `,
        element("span", { class: "dim" }, `${finding.count > 1 ? `${finding.count} from` : "at"} ${clock(page, finding.from).slice(0, 8)}`),
        element("br"), finding.what);
      return element("li", { class: isOpen ? "shown" : "" }, head, isOpen ? details(finding) : null);
    }));
    if (!some.length) list.replaceChildren(element("li", {}, element("p", { class: "dim finding" },
      page.findings.length ? "No finding matches the search." : "Nothing was found.")));
  }

  function details(finding) {
    const more = finding.consequences ?? [];
    return element("div", { class: "more" },
      element("p", {}, element("b", {}, "Rule "), `${finding.rule} [${finding.source}]`),
      element("p", {}, element("b", {}, "Do "), finding.do),
      finding.certainty === "unknown" ? element("p", {}, `The recording does not show ${finding.count > 1 ? "each" : "the"} cause.`) : null,
      more.length ? element("p", {}, element("b", {}, "What followed")) : null,
      ...lines(more, each => element("li", {},
        element("button", { onclick: () => follow(each) }, `${clock(page, each.from).slice(0, 8)} ${each.kind} ${each.subject}`),
        element("span", { class: "dim" }, ` ${[each.count > 1 ? each.count : "", each.error ?? "", each.clients.join(", ")].filter(Boolean).join(" ")}`))),
      element("p", {}, element("b", {}, "Lines")),
      ...lines(finding.evidence, row => element("li", {},
        element("button", { onclick: () => goTo(row) }, `${clock(page, row.t)} ${row.place}`),
        row.said ? element("span", { class: "dim" }, ` ${row.said}`) : null)),
      finding.evidenceLeftOut ? element("p", { class: "dim" }, `${finding.evidenceLeftOut} more lines are not on this page.`) : null);
  }

  /** A list whose first items are shown, with a button for the others. */
  function lines(rows, item) {
    const found = element("ol", {}, ...rows.slice(0, LINES_SHOWN).map(item));
    const left = rows.slice(LINES_SHOWN);
    const all = element("button", { onclick: () => { found.append(...left.map(item)); all.remove(); } }, `Show ${left.length} more`);
    return left.length ? [found, all] : [found];
  }

  function open(finding) {
    opened = finding ? finding.number : -1;
    showFindings();
    if (!finding) return;
    const room = Math.max(1000, (finding.to - finding.from) * 0.3);
    setRange(finding.from - room, finding.to + room);
    if (finding.evidence.length) goTo(finding.evidence[0]);
  }

  /** Select the moment of a line of evidence, in the lane that the finding is about. */
  function goTo(row) {
    const finding = page.findings.find(each => each.number === opened);
    const has = page.lanes.filter(lane => lane.marks.some(mark => mark[0] === row.t && mark[1] === row.at));
    const named = finding ? laneOf(page, finding.subject) : null;
    select(named ?? has.find(lane => lane.kind !== "client") ?? has[0] ?? view.lane, row.t, row.at);
  }

  /** Select what followed from an incident, in the lane of its subject. */
  function follow(consequence) {
    select(laneOf(page, consequence.subject) ?? view.lane ?? page.lanes[0], consequence.from);
  }

  function select(lane, time, exchange = null) {
    view.lane = lane;
    view.moment = time === null ? null : Math.min(page.span, Math.max(0, time));
    view.exchange = exchange;
    if (view.moment !== null && (view.moment < view.from || view.moment > view.to)) {
      const half = (view.to - view.from) / 2;
      setRange(view.moment - half, view.moment + half);
    }
    history.replaceState(null, "", linkOf(view));
    showLanes();
    rows.get(lane)?.scrollIntoView({ block: "nearest" });
    showMoment();
  }

  function showMoment() {
    const { lane, moment: time } = view;
    if (!lane || time === null) {
      moment.replaceChildren(element("p", { class: "dim" }, "Select a lane and a moment: click a lane, or a line of a finding."));
      return;
    }
    const marks = lane.marks.filter(each => Math.abs(each[0] - time) < 1);
    const marked = exchangeOf(page, view.exchange ?? (marks[0] ?? [0, -1])[1]);
    const after = marked ? Math.max(time, marked.time + marked.took) : time;
    const { state, sample, changed } = stateAt(lane, after);
    const at = marked ? marked.index : (sample ?? [0, -1])[1];
    const span = lane.spans[lastAt(lane.spans, after)];
    const fields = [...state].sort(([one], [other]) => Number(changed.has(other)) - Number(changed.has(one)));
    const name = nameOf(page, lane);
    const title = name.startsWith(`${lane.kind} `) ? name : `${lane.kind} ${name}`;
    moment.replaceChildren(...[
      element("h2", {}, `${title} ${marked ? "after the response at" : "at"} ${clock(page, after)}`, span && span[1] >= after ? element("span", { class: "dim" }, `  ${span[2]}`) : null),
      marks.length ? element("p", {}, ...marks.map(mark => element("span", { class: mark[2] }, `${GLYPHS[mark[2]]} ${mark[3]} `))) : null,
      element("div", { class: "halves" },
        lane.kind === "client" ? null : element("div", {}, fields.length
          ? element("table", {}, element("tbody", {}, ...fields.slice(0, 300).map(([name, value]) =>
              element("tr", { class: changed.has(name) ? "changed" : "" }, element("td", { class: "dim" }, name), element("td", {}, String(value))))))
          : element("p", { class: "dim" }, "Nothing is recorded about it before this moment."),
          sample ? element("p", { class: "dim" }, `Last change ${clock(page, sample[0])} (›).`) : null),
        element("div", {}, ...exchangeParts(lane.kind === "client" && view.exchange === null ? nearest(lane, time) : at))),
    ].filter(each => each !== null));
  }

  /** The client's last exchange at a moment; its first one before that. */
  function nearest(lane, time) {
    const client = page.names.clients.indexOf(lane.name);
    let best = -1;
    page.exchanges.client.forEach((each, n) => {
      if (each === client && (best < 0 || page.exchanges.time[n] <= time)) best = n;
    });
    return best;
  }

  function exchangeParts(index) {
    const found = exchangeOf(page, index);
    if (!found) return [];
    const pretty = value => JSON.stringify(value, null, 1);
    return [
      element("p", {}, element("b", {}, `${found.api} v${found.version}`), ` client ${found.client}, broker ${found.broker}, `,
        `${clock(page, found.time)}, took ${duration(found.took)}, `, element("span", { class: "dim" }, found.place)),
      found.error ? element("p", { class: "error" }, `${GLYPHS.error} ${found.error}`) : null,
      ...(found.body ? [element("details", { open: true }, element("summary", {}, "Request"), element("pre", {}, pretty(found.body.request))),
        element("details", { open: true }, element("summary", {}, "Response"), element("pre", {}, pretty(found.body.response)))]
        : [element("p", { class: "dim" }, "Request and response are not on this page: see the line in the log.")]),
    ];
  }

  function setRange(from, to) {
    const wide = Math.min(page.span, Math.max(2, to - from));
    view.from = Math.max(0, Math.min(from, page.span - wide));
    view.to = view.from + wide;
    history.replaceState(null, "", linkOf(view));
    plan();
  }

  function zoom(factor, around = view.moment ?? (view.from + view.to) / 2) {
    const middle = Math.min(view.to, Math.max(view.from, around));
    setRange(middle - (middle - view.from) * factor, middle + (view.to - middle) * factor);
  }

  function plan() {
    if (!planned) planned = requestAnimationFrame(draw);
  }

  function draw() {
    planned = 0;
    const shade = shades();
    drawOverview(overview, view, shade);
    drawAxis(axis, view, shade, time => clock(page, time));
    for (const [lane, row] of rows) if (visible.has(row.lastChild) && row.isConnected) drawLane(row.lastChild, lane, view, shade);
    range.textContent = `${duration(view.to - view.from)} from ${clock(page, view.from)}`;
  }

  /** Click selects a moment, dragging zooms, Ctrl and the wheel zoom around the pointer. */
  function pointing(canvas, lane) {
    let began = null;
    const whole = lane === null;
    const timeOf = event => {
      const box = canvas.getBoundingClientRect();
      const part = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      return whole ? part * page.span : view.from + part * (view.to - view.from);
    };
    canvas.addEventListener("pointerdown", event => { began = [event.clientX, timeOf(event)]; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointerup", event => {
      if (!began) return;
      const [at, time] = began, end = timeOf(event);
      began = null;
      if (Math.abs(event.clientX - at) > 6) setRange(Math.min(time, end), Math.max(time, end));
      else if (whole) setRange(time - (view.to - view.from) / 2, time + (view.to - view.from) / 2);
      else select(lane, snapped(lane, time));
    });
    canvas.addEventListener("wheel", event => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.3 : 0.77, timeOf(event));
    }, { passive: false });
  }

  /** The time of a mark within a few pixels of a click, or the time itself. */
  function snapped(lane, time) {
    const near = (view.to - view.from) * 0.008;
    const close = lane.marks.filter(mark => Math.abs(mark[0] - time) < near);
    close.sort((one, other) => Math.abs(one[0] - time) - Math.abs(other[0] - time));
    return close.length ? close[0][0] : time;
  }

  function step(direction) {
    const lane = view.lane ?? page.lanes[0];
    if (!lane) return;
    const now = view.moment ?? (direction > 0 ? -1 : page.span + 1);
    const times = stops(lane);
    const next = direction > 0 ? times.find(each => each > now) : times.filter(each => each < now).pop();
    if (next !== undefined) select(lane, next);
  }

  function moveLane(direction) {
    const shown = shownLanes().flatMap(each => each[1]);
    const at = shown.findIndex(each => each === view.lane);
    const next = shown[Math.min(shown.length - 1, Math.max(0, at + direction))];
    if (next) select(next, view.moment ?? 0);
  }

  function nextFinding() {
    const at = page.findings.findIndex(each => each.number === opened);
    if (page.findings.length) open(page.findings[(at + 1) % page.findings.length]);
  }

  const keys = {
    ArrowRight: () => step(1), ArrowLeft: () => step(-1), ArrowDown: () => moveLane(1), ArrowUp: () => moveLane(-1),
    "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => setRange(0, page.span),
    "/": () => input.focus(), f: nextFinding, "?": () => help.showModal(), Escape: () => select(view.lane, null),
  };
  addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (event.target === input) {
      if (event.key === "Escape") { input.value = search = ""; input.blur(); showLanes(); showFindings(); }
      return;
    }
    const act = keys[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  input.addEventListener("input", () => { search = input.value; showLanes(); showFindings(); });
  addEventListener("hashchange", () => { Object.assign(view, viewOf(page, location.hash), { exchange: null }); showLanes(); showMoment(); });
  new ResizeObserver(plan).observe(root);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", plan);
  pointing(overview, null);
  view.exchange = null;
  showFindings();
  showLanes();
  showMoment();
}

/** Show the document that a self-contained page carries. */
export async function main() {
  const root = /** @type {HTMLElement} */ (document.getElementById("root"));
  try {
    show(root, await decode(document.getElementById("document")?.textContent ?? ""));
  } catch (error) {
    root.textContent = `This page cannot be shown: ${error.message}. It needs a browser of 2023 or later.`;
  }
}
