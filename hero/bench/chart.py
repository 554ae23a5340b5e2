"""Line charts as SVG, readable on light and on dark pages."""

import math

WIDTH, HEIGHT = 460, 300  # size of a panel
LEFT, RIGHT, TOP, BOTTOM = 62, 16, 46, 74
COLOURS = ("s1", "s2", "s3", "s4", "s5", "s6")
STYLE = """<style>
text { fill: #222; font: 12px sans-serif } .title { font-size: 14px; font-weight: bold }
.page { fill: #fff } .grid { stroke: #ddd } .axis { stroke: #666; fill: none }
.line { fill: none; stroke-width: 2 } .dashed { stroke-dasharray: 6 4 }
.s1 { stroke: #0072b2 } .s2 { stroke: #d55e00 } .s3 { stroke: #009e73 } .s4 { stroke: #b8860b } .s5 { stroke: #a0509c }
.s6 { stroke: #666 }
circle { fill: #fff; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
text { fill: #ddd } .page { fill: #15181c } .grid { stroke: #33383e } .axis { stroke: #999 } circle { fill: #15181c }
.s1 { stroke: #56b4e9 } .s2 { stroke: #f08040 } .s3 { stroke: #2fc69a } .s4 { stroke: #e6c229 } .s5 { stroke: #d98bd5 }
.s6 { stroke: #aaa } }
</style>"""


def escape(text):
    return text.replace("&", "&amp;").replace("<", "&lt;")


def number(value):
    return f"{value:.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"


def ticks(low, high):
    """Four to nine round numbers."""
    step = 10 ** math.floor(math.log10((high - low) or 1))
    for divisor in (1, 2, 5, 10):
        if (high - low) / (step / divisor) >= 4:
            step /= divisor
            break
    return [k * step for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


class Panel:
    """One chart. `series`: (name, [(x, y)...]), with "dashed" for a line without marks, or "cross" for marks without line."""

    def __init__(self, title, x_label, y_label, series, log_y=False, x_ticks=None):
        self.title, self.x_label, self.y_label, self.log_y = title, x_label, y_label, log_y
        self.series = [(*s, "")[:3] for s in series]
        xs = [x for _, points, _ in self.series for x, _ in points]
        ys = [y for _, points, _ in self.series for _, y in points]
        self.x_ticks = x_ticks or ticks(min(xs), max(xs))
        self.x_range = min(xs + self.x_ticks), max(xs + self.x_ticks)
        if log_y:
            low, high = math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys)))
            self.y_ticks = [10.0**k for k in range(low, max(high, low + 1) + 1)]
        else:
            self.y_ticks = ticks(0, max(ys) * 1.08)
        self.y_range = self.y_ticks[0], max(self.y_ticks[-1], max(ys))

    def x(self, value):
        low, high = self.x_range
        return LEFT + (value - low) / ((high - low) or 1) * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        low, high = self.y_range
        if self.log_y:
            low, high, value = math.log10(low), math.log10(high), math.log10(value)
        return HEIGHT - BOTTOM - (value - low) / ((high - low) or 1) * (HEIGHT - TOP - BOTTOM)

    def svg(self):
        out = [f'<text class="title" x="{LEFT}" y="20">{escape(self.title)}</text>',
               f'<text x="{LEFT}" y="38">{escape(self.y_label)}</text>']
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
        for value in self.y_ticks:
            y = self.y(value)
            out.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{right}"/>')
            out.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{number(value)}</text>')
        for value in self.x_ticks:
            out.append(f'<path class="axis" d="M{self.x(value):.1f} {bottom}v4"/>')
            out.append(f'<text x="{self.x(value):.1f}" y="{bottom + 18}" text-anchor="middle">{number(value)}</text>')
        out.append(f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{right}"/>')
        out.append(f'<text x="{right}" y="{bottom + 34}" text-anchor="end">{escape(self.x_label)}</text>')
        for k, (name, points, kind) in enumerate(self.series):
            colour, places = COLOURS[k % len(COLOURS)], [(self.x(x), self.y(y)) for x, y in points]
            x, y = LEFT + k % 2 * 195, HEIGHT - 26 + k // 2 * 16  # place in the legend
            out.append(f'<text x="{x + 23}" y="{y}">{escape(name)}</text>')
            if kind == "cross":
                places.append((x + 9, y - 4))
                out += [f'<path class="line {colour}" d="M{px - 5:.1f} {py - 5:.1f}l10 10m0 -10l-10 10"/>' for px, py in places]
                continue
            path = "L".join(f"{px:.1f} {py:.1f}" for px, py in places)
            out.append(f'<path class="line {kind} {colour}" d="M{path}M{x} {y - 4}h18"/>')
            if not kind:
                out += [f'<circle class="{colour}" cx="{px:.1f}" cy="{py:.1f}" r="2.5"/>' for px, py in places]
        return out

    def height(self):
        return HEIGHT + max(0, (len(self.series) - 1) // 2 - 1) * 16


def page(panels, columns=2):
    """The panels of one file, in rows."""
    rows = [panels[k : k + columns] for k in range(0, len(panels), columns)]
    heights = [max(panel.height() for panel in row) for row in rows]
    width, height = WIDTH * min(columns, len(panels)), sum(heights)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">', STYLE,
           f'<rect class="page" width="{width}" height="{height}"/>']
    y = 0
    for row, tall in zip(rows, heights):
        for k, panel in enumerate(row):
            out += [f'<g transform="translate({k * WIDTH} {y})">', *panel.svg(), "</g>"]
        y += tall
    return "\n".join(out) + "\n</svg>\n"
