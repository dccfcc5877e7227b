// Drawing lanes on canvases. Shapes and hatching differ as well as colours.

import { DENSITY, counted, lastAt } from "./model.js";

const STRIP = 13;
/** The height of a lane: its marks have a strip of their own above it, so that they cover nothing. */
export function heightOf(lane) {
  const own = { client: 24, partition: 42 }[lane.kind] ?? 22;
  return own + (lane.marks.length ? STRIP : 0);
}

export const GLYPHS = { error: "■", warning: "▲", info: "●" };

/** The colours of the theme, read once for each drawing. */
export function shades() {
  const style = getComputedStyle(document.documentElement);
  const names = ["text", "dim", "edge", "back", "calm", "busy", "bad", "gone", "error", "warning", "info", "bar", "curve"];
  return Object.fromEntries(names.map(name => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** Prepare a canvas for the pixels of this screen; returns its context and size. */
export function prepared(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.round(height * ratio);
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  return context;
}

/** Draw a lane in the range of a view. */
export function drawLane(canvas, lane, view, shade) {
  const width = canvas.clientWidth, height = heightOf(lane), top = lane.marks.length ? STRIP : 0;
  if (!width) return;
  const context = prepared(canvas, width, height);
  const x = time => (time - view.from) / (view.to - view.from) * width;
  if (lane.kind === "client") drawDensity(context, lane, view, width, height, shade);
  else if (!lane.spans.length) drawCounts(context, lane, view, width, top + height, shade);
  const band = lane.curves.length ? 18 : height - top - 4;
  drawSpans(context, lane, view, x, top + 2, band, shade);
  if (lane.curves.length) drawCurves(context, lane, view, x, top + band + 4, height - top - band - 6, shade);
  drawMarks(context, lane, view, x, shade);
  drawMoment(context, view, x, height, shade);
}

function drawDensity(context, lane, view, width, height, shade) {
  const buckets = Math.max(1, Math.floor(width / 2));
  const client = view.page.names.clients.indexOf(lane.name);
  const { all, errors } = counted(view.page, client, view.from, view.to, buckets);
  const most = Math.max(1, ...all), tallest = height - (lane.marks.length ? STRIP : 0) - 8;
  for (let n = 0; n < buckets; n++) {
    if (!all[n]) continue;
    const tall = Math.max(2, Math.sqrt(all[n] / most) * tallest);
    context.fillStyle = shade.bar;
    context.fillRect(n * 2, height - 4 - tall, 1.6, tall);
    if (errors[n]) {
      context.fillStyle = shade.error;
      context.fillRect(n * 2, height - 3, 2, 3);
    }
  }
}

function drawCounts(context, lane, view, width, height, shade) {
  context.fillStyle = shade.bar;
  const slot = view.page.span / DENSITY;
  for (let n = 0; n < lane.density.length; n += 2) {
    const time = lane.density[n] * slot;
    if (time + slot < view.from || time > view.to) continue;
    const from = (time - view.from) / (view.to - view.from) * width;
    const wide = Math.max(1.5, slot / (view.to - view.from) * width - 0.5);
    context.fillRect(from, height / 2 - 3, wide, 6);
  }
}

function drawSpans(context, lane, view, x, top, height, shade) {
  let lastEnd = -10;
  for (const [from, to, label, tone] of lane.spans) {
    if (to < view.from || from > view.to) continue;
    const left = Math.max(-2, x(from)), right = Math.min(x(view.to) + 2, Math.max(x(to), left + 1.5));
    if (right - lastEnd < 1) continue;
    lastEnd = right;
    context.fillStyle = tone === "gone" ? shade.back : shade[tone];
    context.globalAlpha = tone === "gone" ? 1 : 0.3;
    context.fillRect(left, top, right - left, height);
    context.globalAlpha = 1;
    if (tone === "busy" || tone === "bad") hatch(context, left, top, right - left, height, tone, shade);
    context.strokeStyle = shade[tone];
    context.setLineDash(tone === "gone" ? [3, 3] : []);
    context.strokeRect(left + 0.5, top + 0.5, Math.max(1, right - left - 1), height - 1);
    context.setLineDash([]);
    context.fillStyle = shade.text;
    const text = fitting(context, label, right - Math.max(left, 0) - 8);
    context.fillText(text, Math.max(left, 0) + 4, top + height / 2 + 0.5);
  }
}

/** A label, or as many of its parts as there is room for. */
function fitting(context, label, room) {
  const parts = label.split(", ");
  while (parts.length && context.measureText(parts.join(", ")).width > room) parts.pop();
  return parts.join(", ");
}

function hatch(context, left, top, width, height, tone, shade) {
  context.save();
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  context.strokeStyle = shade[tone];
  context.globalAlpha = 0.5;
  context.beginPath();
  for (let at = left - height; at < left + width; at += 7) {
    context.moveTo(at, top + height);
    context.lineTo(at + height, top);
    if (tone === "bad") {
      context.moveTo(at, top);
      context.lineTo(at + height, top + height);
    }
  }
  context.stroke();
  context.restore();
}

function drawCurves(context, lane, view, x, top, height, shade) {
  const curves = lane.curves.map(name => lane.samples
    .filter(each => typeof each[2][name] === "number").map(each => [each[0], each[2][name]]));
  const shown = curves.map(points => {
    const first = Math.max(0, lastAt(points, view.from));
    return points.slice(first, lastAt(points, view.to) + 1);
  });
  const values = shown.flat().map(point => point[1]);
  const least = Math.min(...values), most = Math.max(...values);
  const y = value => top + height - (value - least) / Math.max(1, most - least) * height;
  shown.forEach((points, number) => {
    if (!points.length) return;
    context.strokeStyle = number ? shade.warning : shade.curve;
    context.lineWidth = number ? 1 : 2;
    context.setLineDash(number ? [4, 2] : []);
    context.beginPath();
    points.forEach(([time, value], n) => {
      if (n) context.lineTo(x(time), y(points[n - 1][1]));
      context.lineTo(x(time), y(value));
    });
    context.lineTo(x(view.to), y(points[points.length - 1][1]));
    context.stroke();
  });
  context.setLineDash([]);
  context.lineWidth = 1;
}

function drawMarks(context, lane, view, x, shade) {
  const seen = new Set();
  for (const [time, , tone] of lane.marks) {
    if (time < view.from || time > view.to) continue;
    const at = Math.round(x(time) / 4) * 4;
    if (seen.has(`${at} ${tone}`)) continue;
    seen.add(`${at} ${tone}`);
    drawGlyph(context, tone, x(time), STRIP / 2, shade);
  }
}

function drawGlyph(context, tone, at, middle, shade) {
  context.fillStyle = shade[tone];
  context.strokeStyle = shade.back;
  context.beginPath();
  if (tone === "error") context.rect(at - 5, middle - 5, 10, 10);
  else if (tone === "warning") {
    context.moveTo(at, middle - 6);
    context.lineTo(at + 6, middle + 5);
    context.lineTo(at - 6, middle + 5);
    context.closePath();
  } else context.arc(at, middle, 4.5, 0, 2 * Math.PI);
  context.fill();
  context.stroke();
}

export function drawMoment(context, view, x, height, shade) {
  if (view.moment === null || view.moment < view.from || view.moment > view.to) return;
  context.fillStyle = shade.text;
  context.fillRect(x(view.moment) - 0.75, 0, 1.5, height);
}

/** Draw the time axis: a line for each round unit of time that fits. */
export function drawAxis(canvas, view, shade, clock) {
  const width = canvas.clientWidth, height = 22;
  if (!width) return;
  const context = prepared(canvas, width, height);
  const span = view.to - view.from;
  const units = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 3e4, 6e4, 12e4, 3e5, 6e5, 18e5, 36e5, 72e5, 216e5, 864e5];
  const unit = units.find(each => span / each * 90 < width) ?? 864e5;
  const first = Math.ceil((view.page.t0 + view.from) / unit) * unit - view.page.t0;
  context.fillStyle = shade.dim;
  context.strokeStyle = shade.edge;
  for (let time = first; time <= view.to; time += unit) {
    const at = (time - view.from) / span * width;
    context.beginPath();
    context.moveTo(at, 0);
    context.lineTo(at, 6);
    context.stroke();
    context.fillText(unit < 1000 ? clock(time) : clock(time).slice(0, 8), at + 3, 12);
  }
}

/** Draw the whole recording with the shown range. */
export function drawOverview(canvas, view, shade) {
  const width = canvas.clientWidth, height = 34;
  if (!width) return;
  const context = prepared(canvas, width, height);
  const { page } = view;
  const counts = new Uint32Array(Math.max(1, Math.floor(width / 2)));
  for (const time of page.exchanges.time)
    counts[Math.min(counts.length - 1, Math.max(0, Math.floor(time / page.span * counts.length)))] += 1;
  const most = counts.reduce((one, other) => Math.max(one, other), 1);
  context.fillStyle = shade.bar;
  counts.forEach((count, n) => {
    const tall = Math.sqrt(count / most) * (height - 12);
    context.fillRect(n * 2, height - tall, 1.6, tall);
  });
  const x = time => time / page.span * width;
  for (const tone of ["info", "warning", "error"])
    for (const finding of page.findings)
      if (finding.severity === tone) drawGlyph(context, tone, x(finding.from), 7, shade);
  context.fillStyle = shade.text;
  context.globalAlpha = 0.12;
  context.fillRect(0, 0, x(view.from), height);
  context.fillRect(x(view.to), 0, width - x(view.to), height);
  context.globalAlpha = 1;
  drawMoment(context, { ...view, from: 0, to: page.span }, x, height, shade);
}
