// The content of an incident page: decoding it, states at a moment, search, links to a moment.
// brokertwin/page/incident.py describes the document.

/**
 * @typedef {Object} Lane
 * @property {string} kind
 * @property {string} name
 * @property {boolean} isOwn
 * @property {number} count
 * @property {number} errors
 * @property {number[]} density
 * @property {[number, number, Object<string, any>][]} samples
 * @property {[number, number, string, string, number][]} spans
 * @property {string[]} curves
 * @property {[number, number, string, string][]} marks
 *
 * @typedef {Object} Finding
 * @property {number} number
 * @property {string} severity
 * @property {string} kind
 * @property {string} subject
 * @property {string} what
 * @property {number} count
 * @property {number} from
 * @property {number} to
 * @property {string[]} clients
 * @property {string | null} error
 * @property {string} rule
 * @property {string} source
 * @property {string} do
 * @property {{at: number, t: number, said: string, place: string}[]} evidence
 * @property {number} evidenceLeftOut
 * @property {string} certainty
 * @property {{kind: string, subject: string, error: string | null, count: number, from: number, to: number, clients: string[]}[]} consequences
 *
 * @typedef {Object} Page
 * @property {string} title
 * @property {string[]} files
 * @property {number} t0
 * @property {number} span
 * @property {{clients: string[], apis: string[], files: string[], errors: Object<string, string>, unnamed: string[]}} names
 * @property {Object<string, number[]>} exchanges
 * @property {Object<string, {request: any, response: any}>} bodies
 * @property {Lane[]} lanes
 * @property {Finding[]} findings
 * @property {{bodies: number, lanes: number}} left
 */

export const DENSITY = 600;

/** Decode the gzip and base64 text in which the page carries its document. */
export async function decode(text) {
  const bytes = Uint8Array.from(atob(text.trim()), each => each.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

/** The last element at or before a time in a list sorted by its first column; -1 if none. */
export function lastAt(rows, time) {
  let low = 0, high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rows[middle][0] <= time) low = middle + 1; else high = middle;
  }
  return low - 1;
}

/**
 * The state of a lane at a time, and the fields that its last change set.
 * @param {Lane} lane
 * @param {number} time
 */
export function stateAt(lane, time) {
  const last = lastAt(lane.samples, time);
  const state = new Map();
  for (let n = 0; n <= last; n++)
    for (const [name, value] of Object.entries(lane.samples[n][2]))
      if (value === null) state.delete(name); else state.set(name, value);
  const sample = last < 0 ? null : lane.samples[last];
  return { state, sample, changed: new Set(sample ? Object.keys(sample[2]) : []) };
}

/**
 * Times of a lane's marks and changes, sorted; the stops of the arrow keys.
 * @param {Lane} lane
 */
export function stops(lane) {
  const times = [...lane.marks.map(each => each[0]), ...lane.samples.map(each => each[0])];
  return [...new Set(times)].sort((one, other) => one - other);
}

/** UTC time of day with milliseconds, or with the date. */
export function clock(page, time, hasDate = false) {
  const text = new Date(page.t0 + time).toISOString();
  return hasDate ? text.replace("T", " ").replace("Z", " UTC") : text.slice(11, 23);
}

/** A number of ms in words: `40 ms`, `1.2 s`, `3 min 5 s`. */
export function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/**
 * An exchange in one object; null for -1.
 * @param {Page} page
 * @param {number} index
 */
export function exchangeOf(page, index) {
  if (index < 0 || index >= page.exchanges.time.length) return null;
  const at = name => page.exchanges[name][index];
  const file = page.names.files[at("file")];
  return {
    index, time: at("time"), took: at("took"), client: page.names.clients[at("client")],
    api: page.names.apis[at("api")], version: at("version"), broker: at("broker"),
    error: at("error") ? `${at("error")} ${page.names.errors[at("error")] ?? ""}`.trim() : "",
    place: at("line") >= 0 ? `${file}:${at("line")}` : file, body: page.bodies[index] ?? null,
  };
}

/** Whether every word of a search is in a text. */
export function matches(text, search) {
  const lower = text.toLowerCase();
  return search.toLowerCase().split(/\s+/).filter(Boolean).every(word => lower.includes(word));
}

/**
 * The text of a finding that a search looks at.
 * @param {Finding} finding
 */
export function textOf(finding) {
  const { severity, kind, subject, what, error, clients, consequences } = finding;
  const lines = finding.evidence.map(row => `${row.place} ${row.said}`);
  return [severity, kind, subject, what, error, ...clients, ...consequences.map(each => each.subject), ...lines].join(" ");
}

/**
 * The text of a lane that a search looks at: its name, and the members, sessions, … of its states.
 * @param {Page} page
 * @param {Lane} lane
 */
export function textOfLane(page, lane) {
  const fields = lane.samples.flatMap(each => Object.keys(each[2]));
  return [lane.kind, nameOf(page, lane), ...new Set(fields)].join(" ");
}

/**
 * The name of a lane; a topic whose name no response shows is named by its id, and a broker that
 * is a client of the controller as a broker.
 * @param {Page} page
 * @param {Lane} lane
 */
export function nameOf(page, lane) {
  if (lane.kind === "partition" && page.names.unnamed.includes(lane.name.replace(/-\d+$/, ""))) return `topic id ${lane.name}`;
  if (lane.isOwn && /^\d+$/.test(lane.name)) return `broker ${lane.name}`;
  return lane.name || `${lane.kind} without a name`;
}

/**
 * The lane of the subject of a finding; null if it has none.
 * @param {Page} page
 * @param {string} subject
 */
export function laneOf(page, subject) {
  const kinds = { producer: ["transaction", "producer"] }[subject.split(" ")[0]] ?? [subject.split(" ")[0]];
  const name = subject.slice(subject.indexOf(" ") + 1);
  return page.lanes.find(lane => kinds.includes(lane.kind) && (lane.name === name || lane.name === subject)) ?? null;
}

/** A long name without its middle, as names often differ at their ends. */
export function short(name, most = 20) {
  return name.length <= most ? name : `${name.slice(0, most - 12)}…${name.slice(-11)}`;
}

/**
 * Counts of a client's exchanges in `buckets` equal spans of a range; errors apart.
 * @param {Page} page
 */
export function counted(page, client, from, to, buckets) {
  const all = new Uint32Array(buckets), errors = new Uint32Array(buckets);
  const { time, client: clients, error } = page.exchanges;
  const scale = buckets / Math.max(1, to - from);
  for (let n = 0; n < time.length; n++) {
    if (clients[n] !== client || time[n] < from || time[n] >= to) continue;
    const bucket = Math.min(buckets - 1, Math.floor((time[n] - from) * scale));
    all[bucket] += 1;
    if (error[n]) errors[bucket] += 1;
  }
  return { all, errors };
}

/** The view as the fragment of a link, and back. */
export function linkOf(view) {
  const parts = new URLSearchParams();
  if (view.lane) parts.set("lane", `${view.lane.kind}:${view.lane.name}`);
  if (view.moment !== null) parts.set("t", String(Math.round(view.moment)));
  if (view.from > 0 || view.to < view.page.span) {
    parts.set("from", String(Math.round(view.from)));
    parts.set("to", String(Math.round(view.to)));
  }
  return `#${parts}`;
}

/**
 * @param {Page} page
 * @param {string} fragment
 */
export function viewOf(page, fragment) {
  const parts = new URLSearchParams(fragment.replace(/^#/, ""));
  const number = (name, otherwise) => {
    const value = Number(parts.get(name));
    return parts.has(name) && Number.isFinite(value) ? value : otherwise;
  };
  const named = parts.get("lane") ?? "";
  const lane = page.lanes.find(each => `${each.kind}:${each.name}` === named) ?? null;
  const from = Math.max(0, number("from", 0));
  const to = Math.min(page.span, Math.max(from + 1, number("to", page.span)));
  return { page, lane, moment: number("t", null), from, to };
}
