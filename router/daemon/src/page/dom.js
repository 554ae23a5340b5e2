// Elements and numbers. Text only ever becomes text: names and addresses are others'.

/// An element; `attributes` may have `class`, `text`, and any attribute.
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") made.textContent = value;
    else if (value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

export const byId = (id) => document.getElementById(id);

/// Sets a text only where it is another: so that a selection stays.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/// One child for each item, in their order; those that stay are kept, and `update` fills them.
export function keyed(parent, items, keyOf, create, update) {
  const known = parent.keyed ??= new Map();
  const wanted = new Set(items.map(keyOf));
  for (const [key, child] of known) {
    if (!wanted.has(key)) { child.remove(); known.delete(key); }
  }
  items.forEach((item, place) => {
    const key = keyOf(item);
    if (!known.has(key)) known.set(key, create(item));
    const child = known.get(key);
    if (parent.children[place] !== child) parent.insertBefore(child, parent.children[place] ?? null);
    update(child, item);
  });
}

/// A table's contents; `columns` are [head, cell of a row, whether it is a number]. A cell is a text or an element.
export function table(element, columns, rows, none) {
  const head = el("tr", {}, ...columns.map(([name, , number]) => el("th", { scope: "col", class: number ? "number" : "", text: name })));
  const row = (of) => el("tr", {}, ...columns.map(([, cell, number]) => {
    const content = cell(of);
    const made = el("td", { class: number ? "number" : "" });
    made.append(content);
    return made;
  }));
  const empty = el("tr", {}, el("td", { colspan: columns.length, class: "muted", text: none }));
  element.replaceChildren(
    el("thead", rows.length ? {} : { class: "hidden" }, head),
    el("tbody", {}, ...(rows.length ? rows.map(row) : [empty])),
  );
}

/// `1.23 M`.
export function si(number) {
  const steps = [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"]];
  const [size, sign] = steps.find(([size]) => number >= size * 0.9995) ?? [1, ""];
  const value = number / size;
  if (size === 1) return String(Math.round(value));
  return value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0) + sign;
}

/// The same with a unit behind it: `1.23 Mbit/s`, `0 bit/s`.
export function measured(number, unit) {
  const text = si(number);
  return text.includes(" ") ? text + unit : `${text} ${unit}`;
}

export const octets = (number) => measured(number, "B");
export const whole = (number) => number.toLocaleString("en").replaceAll(",", "\u202f");

/// `3 d 4 h`, `5 min 6 s`.
export function duration(seconds) {
  const parts = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = parts.findIndex(([, size]) => seconds >= size);
  if (first < 0) return "0 s";
  let left = seconds;
  const said = parts.slice(first, first + 2).map(([name, size]) => {
    const count = Math.floor(left / size);
    left -= count * size;
    return [count, name];
  });
  return said.filter(([count], place) => count || !place).map((part) => part.join(" ")).join(" ");
}

export const clock = (time) => new Date(time).toLocaleTimeString("en-GB");
