// The site's page: drop a log to see it over time, or step through a scene over the real rules.

import { element, show } from "./incident.js";

const LOG_BYTES_MAX = 200_000_000;
const root = /** @type {HTMLElement} */ (document.getElementById("root"));
let worker = null, calls = new Map(), number = 0;
/** @type {{scenes: any[], scene: any, steps: any[], results: any[], at: number, apis: string[], tables: Object<string, any[]>}} */
const state = { scenes: [], scene: null, steps: [], results: [], at: 0, apis: [], tables: {} };

/** Call a function of brokertwin.page.browser in the worker. */
function call(name, ...given) {
  if (!worker) {
    worker = new Worker("./worker.js", { type: "module" });
    worker.addEventListener("message", ({ data }) => {
      if (data.progress) { say(data.progress); return; }
      calls.get(data.id)?.(data.result);
      calls.delete(data.id);
    });
    worker.addEventListener("error", event => {
      for (const done of calls.values()) done({ error: event.message || "The worker could not start." });
      calls = new Map();
    });
  }
  return new Promise(done => {
    number += 1;
    calls.set(number, done);
    worker.postMessage({ id: number, name, given });
  });
}

const status = element("p", { class: "dim", role: "status", "aria-live": "polite" });
function say(words) { status.textContent = words ? `${words} …` : ""; }

function home() {
  const input = element("input", { type: "file", multiple: true, "aria-label": "Logs", onchange: () => read([...input.files]) });
  const drop = element("section", { class: "moment drop" },
    element("h2", {}, "Look at a log"),
    element("p", {}, "Drop Kafka request logs here, or choose them, or a scene of brokertwin explore --scene. They are read in this browser; nothing leaves your machine."), input,
    element("button", { onclick: cancel }, "Cancel"));
  drop.addEventListener("dragover", event => event.preventDefault());
  drop.addEventListener("drop", event => { event.preventDefault(); read([...event.dataTransfer.files]); });
  root.replaceChildren(
    element("header", {}, element("h1", {}, "brokertwin in the browser"),
      element("p", { class: "dim" }, "The rules of an Apache Kafka broker, as a Python state machine, in this page.")),
    element("main", { class: "start" }, drop, status,
      element("section", {}, element("h2", {}, "Playground"),
        element("ul", { class: "findings" }, ...state.scenes.map(scene => element("li", {},
          element("button", { class: "finding", onclick: () => open(scene) },
            element("span", { class: "kind" }, scene.title), " ", element("span", { class: "dim" }, scene.document), element("br"), scene.about)))))));
}

function cancel() {
  worker?.terminate();
  worker = null;
  calls = new Map();
  say("");
}

async function read(files) {
  const bytes = files.reduce((sum, file) => sum + file.size, 0);
  if (!files.length) return;
  if (files.length === 1 && files[0].name.endsWith(".json") && await openText(await files[0].text())) return;
  if (bytes > LOG_BYTES_MAX) {
    say("");
    status.textContent = `These files have ${(bytes / 1e6).toFixed(0)} MB; this page reads up to ${LOG_BYTES_MAX / 1e6} MB. Use the command brokertwin page.`;
    return;
  }
  const result = await call("incident", ...files);
  say("");
  if (result.error) {
    status.textContent = `${result.error} ${result.hint ?? ""}`;
    return;
  }
  const place = element("div");
  root.replaceChildren(element("div", { class: "tools" }, element("button", { onclick: home }, "Back to the start")), place);
  show(place, result);
}

/** Open the text of a scene, as explore --scene writes it; false if it is none. */
async function openText(text) {
  try {
    const scene = JSON.parse(text);
    if (!Array.isArray(scene.steps)) return false;
    await open({ name: "", ...scene });
    return true;
  } catch { return false; }
}

/** Open a scene from its beginning. */
async function open(scene) {
  Object.assign(state, { scene, steps: scene.steps.filter(step => !step.hidden), results: [], at: 0 });
  const found = await call("start", JSON.stringify(scene));
  say("");
  if (found.error) { status.textContent = found.error; return; }
  Object.assign(state, { apis: found.apis, tables: found.tables });
  location.hash = `#scene=${encodeURIComponent(scene.name)}`;
  draw();
}

async function forward(step = state.steps[state.at], lost = false) {
  if (!step) return;
  const sent = lost ? { ...step, lost: true } : step;
  const result = await call("do", JSON.stringify(sent));
  if (result.error) { draw(result.error); return; }
  if (step !== state.steps[state.at]) state.steps.splice(state.at, 0, step);
  state.steps[state.at] = sent;
  state.results[state.at] = result;
  state.at += 1;
  state.tables = result.tables;
  draw();
}

/** One step back: the scene is played again from its beginning. */
async function back() {
  if (!state.at) return;
  const until = state.at - 1;
  const found = await call("start", JSON.stringify(state.scene));
  Object.assign(state, { at: 0, tables: found.tables, results: [] });
  for (const step of state.steps.slice(0, until)) {
    const result = await call("do", JSON.stringify(step));
    state.results[state.at] = result;
    state.tables = result.tables;
    state.at += 1;
  }
  draw();
}

function draw(problem = "") {
  const { scene, steps, at } = state;
  const lose = element("input", { type: "checkbox", id: "lose" });
  const next = steps[at];
  root.replaceChildren(
    element("header", { class: "top" }, element("h1", {}, scene.title), element("p", { class: "dim" }, `${scene.document}. ${scene.about}`),
      element("div", { class: "tools" },
        element("button", { onclick: home }, "All scenes"), element("button", { onclick: back, disabled: at === 0 }, "← Back"),
        element("button", { id: "next", onclick: () => forward(next, lose.checked), disabled: !next }, "Next →"),
        element("button", { onclick: () => open(scene) }, "Start again"),
        next?.api ? element("label", {}, lose, " lose the response of the next step") : null,
        element("span", { class: "dim" }, `step ${at} of ${steps.length}`))),
    element("main", { class: "columns scene" },
      element("section", {}, element("ol", { class: "findings" }, ...steps.slice(0, at).map(taken), next ? coming(next) : null),
        problem ? element("p", { class: "error" }, `■ ${problem}`) : null, another()),
      element("section", {}, element("h2", {}, "State"), ...tables())));
  root.querySelector("li.shown")?.scrollIntoView({ block: "nearest" });
}

function taken(step, n) {
  const result = state.results[n];
  const who = step.api ? `${step.client ?? "client"} → broker ${step.broker ?? state.scene.brokers[0]}: ${step.api} v${step.version}` : "";
  const pretty = value => JSON.stringify(value, null, 1);
  return element("li", { class: n === state.at - 1 ? "shown" : "" }, element("div", { class: "finding" },
    element("p", {}, element("span", { class: "dim" }, `${n + 1}  +${(result.time / 1000).toFixed(1)} s  ${who}`), element("br"), step.say ?? ""),
    result.errors.length ? element("p", { class: "error" }, `■ ${result.errors.join(", ")}`) : null,
    result.lost ? element("p", { class: "warning" }, "▲ The response is lost on its way.") : null,
    result.waits ? element("p", { class: "info" }, "● The response waits.") : null,
    step.rule ? element("p", { class: "dim" }, `Rule: ${step.rule} [${step.source ?? ""}]`) : null,
    ...result.changes.slice(0, 12).map(change => element("p", {}, element("b", {}, `${change.table} ${Object.values(change.row).join(" ")} `), change.change === "changed"
      ? Object.entries(change.fields).map(([name, [before, after]]) => `${name} ${words(before)} → ${words(after)}`).join(", ") : change.change)),
    ...(step.api ? [element("details", {}, element("summary", {}, "Request"), element("pre", {}, pretty(result.request)))] : []),
    ...result.responses.map(each => element("details", {}, element("summary", {}, each.waited ? `Response to the earlier ${each.to}` : "Response"), element("pre", {}, pretty(each.response))))));
}

function words(value) { return value === null || value === undefined ? "–" : typeof value === "object" ? JSON.stringify(value) : String(value); }

function coming(step) {
  return element("li", { class: "coming" }, element("div", { class: "finding dim" }, `Next: ${step.say ?? step.api}`));
}

/** A form for a request of the reader's own. */
function another() {
  const last = state.steps.slice(0, state.at).reverse().find(step => step.api) ?? { api: "METADATA", version: 12, request: { topics: null } };
  const api = element("select", { "aria-label": "API" }, ...state.apis.map(name => element("option", { selected: name === last.api }, name)));
  const version = element("input", { type: "number", min: 0, value: last.version, "aria-label": "Version" });
  const client = element("input", { value: last.client ?? "client", "aria-label": "Client id" });
  const body = element("textarea", { rows: 8, "aria-label": "Request as JSON" });
  body.value = JSON.stringify(last.request ?? {}, null, 1);
  const send = () => {
    try {
      forward({ say: "A request of your own.", client: client.value, api: api.value, version: Number(version.value), request: JSON.parse(body.value) });
    } catch (error) { draw(`The request is not JSON: ${error.message}`); }
  };
  return element("details", { class: "own" }, element("summary", {}, "Send another request"),
    element("div", { class: "tools" }, client, api, version), body, element("button", { onclick: send }, "Send"));
}

function tables() {
  const changes = state.results[state.at - 1]?.changes ?? [];
  const isNew = (table, row, column) => changes.some(change => change.table === table && column in change.fields
    && Object.entries(change.row).every(([name, value]) => words(row[name]) === words(value)));
  return Object.entries(state.tables).filter(([, rows]) => rows.length).map(([name, rows]) => {
    const columns = Object.keys(rows[0]).filter(each => each !== "cell");
    return element("div", { class: "lines" }, element("h2", {}, name), element("table", {},
      element("thead", {}, element("tr", {}, ...columns.map(each => element("th", {}, each)))),
      element("tbody", {}, ...rows.slice(0, 40).map(row => element("tr", {}, ...columns.map(each =>
        element("td", { class: isNew(name, row, each) ? "news" : "" }, words(row[each]))))))));
  });
}

addEventListener("keydown", event => {
  if (!state.scene || event.target instanceof Element && /INPUT|TEXTAREA|SELECT/.test(event.target.tagName)) return;
  if (event.key === "ArrowRight") forward();
  if (event.key === "ArrowLeft") back();
});

async function main() {
  root.replaceChildren(status);
  const found = await call("scenes");
  say("");
  if (found.error) { root.textContent = `This page cannot start: ${found.error}`; return; }
  state.scenes = found.scenes;
  const named = new URLSearchParams(location.hash.slice(1)).get("scene");
  const scene = state.scenes.find(each => each.name === named);
  if (scene) open(scene); else home();
}
main();
