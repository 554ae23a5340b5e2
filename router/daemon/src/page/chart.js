// Line charts of the last ten minutes, one number a second, as SVG.

import { si } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
const SPANS = [60, 120, 300, 600]; // seconds that a chart may show
const [LEFT, TOP, BOTTOM, HEIGHT] = [46, 8, 18, 132];

function make(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

/// The next number of 1, 2, 2.5, 5, 10, … that is not below.
function ceiling(value) {
  const size = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
  return [1, 2, 2.5, 5, 10].map((step) => step * size).find((step) => step >= value);
}

const ago = (seconds) => seconds < 60 ? `−${seconds} s` : `−${seconds / 60} min`;

export class Chart {
  /// `lines`: classes of the lines, the first is also filled.
  constructor(lines) {
    this.svg = make("svg", { class: "chart", role: "img", height: HEIGHT });
    this.lines = lines;
    this.svg.addEventListener("pointermove", (event) => this.point(event.offsetX));
    this.svg.addEventListener("pointerleave", () => this.point(null));
    this.at = null;
  }

  /// `series`: {class: numbers, the newest last}; `unit`: such as `packets/s`; `names`: {class: name}.
  draw(series, unit, names) {
    Object.assign(this, { series, unit, names });
    this.width = this.svg.clientWidth || 400;
    const top = Math.max(0, ...this.lines.map((line) => series[line].reduce((a, b) => Math.max(a, b), 0)));
    this.most = Math.max(10, ceiling(top));
    const length = Math.max(...this.lines.map((line) => series[line].length));
    this.span = SPANS.find((span) => span >= length) ?? SPANS.at(-1);
    const last = (line) => si(series[line].at(-1) ?? 0);
    const spoken = this.lines.map((line) => `${names[line]} ${last(line)}`).join(", ");
    this.svg.setAttribute("aria-label", `${spoken} ${unit} now; at most ${si(top)} in ten minutes`);
    this.svg.replaceChildren(...this.grid(), ...this.lines.map((line, place) => this.line(line, place === 0)), ...this.cursor());
  }

  x(secondsAgo) { return this.width - secondsAgo * (this.width - LEFT) / (this.span - 1); }
  y(value) { return HEIGHT - BOTTOM - value / this.most * (HEIGHT - TOP - BOTTOM); }

  text(x, y, anchor, content) {
    const made = make("text", { x, y, "text-anchor": anchor });
    made.textContent = content;
    return made;
  }

  grid() {
    const marks = [];
    for (const value of [0, this.most / 2, this.most]) {
      const y = this.y(value);
      marks.push(make("line", { class: "grid", x1: LEFT, x2: this.width, y1: y, y2: y }), this.text(LEFT - 6, y + 4, "end", si(value)));
    }
    const below = HEIGHT - 4;
    marks.push(this.text(LEFT, below, "start", ago(this.span)), this.text(this.x(this.span / 2), below, "middle", ago(this.span / 2)), this.text(this.width, below, "end", "now"));
    return marks;
  }

  line(name, filled) {
    const values = this.series[name];
    const points = values.map((value, place) => `${this.x(values.length - 1 - place).toFixed(1)} ${this.y(value).toFixed(1)}`);
    let path = points.length ? `M${points.join("L")}` : "";
    if (filled && points.length) path += `V${this.y(0)}H${this.x(values.length - 1)}Z`;
    return make("path", { class: name, d: path });
  }

  /// Where the pointer is, or null.
  point(x) {
    this.at = x;
    if (this.series) this.draw(this.series, this.unit, this.names);
  }

  cursor() {
    if (this.at === null || this.at < LEFT) return [];
    const seconds = Math.round((this.width - this.at) * (this.span - 1) / (this.width - LEFT));
    const value = (line) => this.series[line].at(-1 - seconds);
    if (seconds < 0 || this.lines.every((line) => value(line) === undefined)) return [];
    const said = this.lines.map((line) => `${this.names[line]} ${si(value(line) ?? 0)}`).join("  ");
    const x = this.x(seconds);
    const line = make("line", { class: "cursor", x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM });
    return [line, this.text(this.width, TOP + 3, "end", `${seconds} s ago: ${said}`)];
  }
}
