// Shows what the connection has read, section by section.

import { Chart } from "./chart.js";
import { byId, clock, duration, el, keyed, measured, octets, say, si, table, whole } from "./dom.js";

const NAMES = { rx: "received", tx: "sent", linux: "to Linux", drop: "dropped" };
const FRESH = 5; // seconds for which a disagreement with Linux is normal

const sum = (counts) => Object.values(counts).reduce((a, b) => a + b, 0);
const many = (count, one, more = `${one}s`) => `${whole(count)} ${count === 1 ? one : more}`;

export function show(state) {
  const { now } = state;
  say(byId("host"), now.host);
  say(byId("about"), `${now.version}, up for ${duration(now.uptime)}`);
  document.title = `${si(now.rate.received)} packets/s · Bora ${now.host}`;
  attention(now);
  tiles(now);
  ports(state);
  went(now, state.reasons);
  agreement(now.sync);
  guard(now.guard);
  fib(now.fib);
  tables(now);
  devices(now);
  events(now.events);
}

/// What an operator should look at first: [severity, text].
function troubles(now) {
  const found = now.sync.stuck.map((name) => ["act", `${name} is stuck: Linux forwards. Read Bora's log.`]);
  for (const port of now.ports.filter((port) => port.state !== "up")) found.push(["act", `${port.name} is ${port.state}.`]);
  for (const port of now.ports.filter((port) => port.path === "kernel")) found.push(["warn", `${port.name} is left to Linux: ${port.why}`]);
  if (!now.sync.in_sync && now.sync.since > FRESH) found.push(["act", `Bora has not agreed with Linux for ${duration(now.sync.since)}.`]);
  now.fib.missing.forEach((count, place) => {
    if (count) found.push(["act", `${many(count, "prefix", "prefixes")} of ${place ? "IPv6" : "IPv4"} found no room: raise fib.memory.`]);
  });
  if (now.guard.lines.length) found.push(["warn", `The guard holds traffic back: ${now.guard.lines.length === 1 ? now.guard.lines[0] : `${now.guard.lines.length} reasons, see below.`}`]);
  if (now.confirm_seconds !== null) found.push(["warn", `A changed configuration waits for \`bora confirm\`: it is taken back in ${duration(now.confirm_seconds)}.`]);
  if (now.sync.stuck_times) found.push(["warn", `Threads were stuck ${many(now.sync.stuck_times, "time")} since the start; Linux forwarded meanwhile. Read Bora's log.`]);
  const drops = sum(now.rate.dropped);
  if (drops) found.push(["warn", `${si(drops)} packets/s are dropped: ${Object.keys(now.rate.dropped).join(", ")}.`]);
  return found;
}

function dropsInWords(now) {
  const drops = sum(now.total.dropped);
  return drops ? `nothing is dropped now (${whole(drops)} since the start)` : "nothing was dropped since the start";
}

function attention(now) {
  const found = troubles(now);
  const box = byId("attention");
  box.className = found.some(([how]) => how === "act") ? "act" : found.length ? "warn" : "";
  const texts = found.length ? found.map(([, text]) => text) : [`Nothing needs attention: all links are up, Bora agrees with Linux, ${dropsInWords(now)}.`];
  const list = box.firstChild ?? box.appendChild(el("ul"));
  keyed(list, texts, (text) => text, (text) => el("li", { text }), () => {});
}

function tiles(now) {
  const total = (rate) => now.ports.reduce((all, port) => all + port.rates[rate], 0);
  const all = [
    ["rx", "Received", now.rate.received, measured(total("rx_bps"), "bit/s")],
    ["tx", "Sent", now.rate.sent, measured(total("tx_bps"), "bit/s")],
    ["linux", "Left to Linux", sum(now.rate.passed), `${whole(sum(now.total.passed))} since the start`],
    ["drop", "Dropped", sum(now.rate.dropped), `${whole(sum(now.total.dropped))} since the start`],
  ];
  keyed(byId("tiles"), all, ([kind]) => kind,
    ([kind, name]) => el("div", { class: `tile of-${kind}` }, el("span", { text: name }), el("p", {}, el("b"), el("span", { text: " packets/s" })), el("span", { class: "muted" })),
    (tile, [, , rate, below]) => {
      say(tile.children[1].firstChild, si(rate));
      say(tile.children[2], below);
    });
}

// Ports.

function newPort() {
  const numbers = Object.entries(NAMES).flatMap(([kind, name]) => [el("dt", { class: `of-${kind}`, text: name }), el("dd", {}, el("span"), el("small"))]);
  const card = el("article", { class: "card" },
    el("div", { class: "port-head" }, el("h3", { class: "name" }), el("span", { class: "pill" }), el("span", { class: "tag" }), el("span", { class: "muted" })),
    el("dl", { class: "numbers" }, ...numbers));
  card.chart = new Chart(["rx", "tx", "linux", "drop"]);
  card.append(card.chart.svg, el("div"));
  return card;
}

function fillPort(card, port, state) {
  const [head, numbers, , notices] = card.children;
  const [name, pill, tag, why] = head.children;
  say(name, port.name);
  say(pill, port.state);
  pill.className = `pill ${port.state === "up" ? "good" : "bad"}`;
  say(tag, port.path === "kernel" ? "Linux" : port.path);
  say(why, [port.why, ...port.addresses].join(", "));
  const { rates } = port;
  const values = [
    [rates.rx_pps, measured(rates.rx_bps, "bit/s")], [rates.tx_pps, measured(rates.tx_bps, "bit/s")],
    [rates.linux_pps, `${si(sum(port.passed))} in all`], [rates.drop_pps, `${si(sum(port.dropped))} in all`],
  ];
  [...numbers.querySelectorAll("dd")].forEach((cell, place) => {
    say(cell.children[0], `${si(values[place][0])}/s`);
    say(cell.children[1], values[place][1]);
  });
  keyed(notices, port.notices, (text) => text, (text) => el("p", { class: "notice", text }), () => {});
  drawPort(card.chart, state.history.get(port.name), state.unit);
}

function drawPort(chart, known, unit) {
  const inBits = unit === "bps";
  chart.lines = inBits ? ["rx", "tx"] : ["rx", "tx", "linux", "drop"];
  const series = { rx: known[`rx_${unit}`], tx: known[`tx_${unit}`], linux: known.linux_pps, drop: known.drop_pps };
  chart.draw(series, inBits ? "bits/s" : "packets/s", NAMES);
}

function ports(state) {
  keyed(byId("ports"), state.now.ports, (port) => port.name, newPort, (card, port) => fillPort(card, port, state));
}

// Where every packet went.

function went(now, reasons) {
  const idle = now.rate.received === 0;
  const from = idle ? now.total : now.rate;
  const parts = [
    ["tx", "sent", from.sent], ["linux", "left to Linux", sum(from.passed)],
    ["drop", "dropped", sum(from.dropped)],
  ];
  const all = parts.reduce((total, [, , count]) => total + count, 0);
  const share = (count) => all ? `${(100 * count / all).toFixed(count === all || count === 0 ? 0 : 2)} %` : "–";
  say(byId("went"), `${idle ? "Since the start" : "In the last second"}: received ${whole(from.received)}. Since the start: ` +
    `${whole(now.total.received)} received = ${whole(now.total.sent)} sent + ${whole(sum(now.total.passed))} to Linux + ` +
    `${whole(sum(now.total.dropped))} dropped + ${whole(now.total.held)} held.`);
  const bar = byId("bar");
  bar.setAttribute("aria-label", parts.map(([, name, count]) => `${name} ${share(count)}`).join(", "));
  keyed(bar, parts.filter(([, , count]) => count), ([kind]) => kind,
    ([kind]) => el("i", { class: `of-${kind}` }), (part, [, , count]) => { part.style.flexGrow = count; });
  const lines = parts.map(([kind, name, count]) => [kind, `${name} ${si(count)} (${share(count)})`]);
  if (now.total.flows) lines.push(["held", `of these sent by flows of Linux's flowtables ${si(from.flows)}`]);
  keyed(byId("legend"), lines, ([kind]) => kind, ([kind]) => el("li", { class: `of-${kind}` }), (item, [, text]) => say(item, text));
  reasonList(byId("dropped"), "drop", now.rate.dropped, now.total.dropped, reasons, "Nothing was dropped since the start.");
  reasonList(byId("passed"), "linux", now.rate.passed, now.total.passed, reasons, "Nothing was left to Linux since the start.");
}

function reasonList(list, kind, rates, totals, reasons, none) {
  const most = Math.max(1, ...Object.values(totals));
  const rows = Object.entries(totals).map(([name, total]) => ({ name, total, rate: rates[name] ?? 0 }));
  rows.sort((a, b) => b.rate - a.rate || b.total - a.total);
  const make = () => el("div", { class: `reason of-${kind}` },
    el("div", { class: "reason-head" }, el("span", { class: "name" }), el("b"), el("span", { class: "muted" })),
    el("div", { class: "share", "aria-hidden": "true" }, el("i")), el("p", { class: "muted" }), el("p", { class: "cure" }));
  keyed(list, rows.length ? rows : [{ name: "" }], (row) => row.name,
    (row) => row.name ? make() : el("p", { class: "muted", text: none }),
    (item, row) => { if (row.name) fillReason(item, row, most, reasons.get(row.name)); });
}

function fillReason(item, row, most, known) {
  const [head, share, meaning, cure] = item.children;
  say(head.children[0], row.name);
  say(head.children[1], row.rate ? `${si(row.rate)}/s` : "");
  say(head.children[2], whole(row.total));
  share.firstChild.style.width = `${100 * row.total / most}%`;
  say(meaning, known?.meaning ?? "");
  say(cure, known ? `What to do: ${known.cure}` : "");
}

// Linux and the table.

function agreement(sync) {
  const pair = ([v4, v6]) => `${whole(v4)} IPv4, ${whole(v6)} IPv6`;
  const rows = [
    ["State", `${sync.in_sync ? "in agreement" : "not in agreement"} for ${duration(sync.since)}`],
    ["Routes in Linux", pair(sync.routes)],
    ["Neighbours", whole(sync.neighbours)],
    ["Events of Linux", `${whole(sync.events_per_second)} in the last second`],
    ["Full comparisons", whole(sync.reconciliations)],
    ["Entries mended", whole(sync.mended)],
    ["Event queue overflows", whole(sync.overflows)],
    ...Object.entries(sync.left).map(([why, count]) => [`${many(count, "route")} left to Linux`, why]),
  ];
  const list = byId("sync");
  list.replaceChildren(...rows.flatMap(([name, value]) => [el("dt", { text: name }), el("dd", { text: value })]));
  list.children[1].className = sync.in_sync ? "good" : "bad";
}

function guard({ lines, flows }) {
  const all = [...lines, ...flows.map((line) => `Flows: ${line}`)];
  const none = "Nothing holds traffic back: no firewall rule, IPsec policy or tc filter of Linux concerns it.";
  keyed(byId("guard"), all.length ? all : [none], (text) => text, (text) => el("li", { text }), () => {});
}

function fib(fib) {
  const row = (name, of, v4, v6) => ({ name, v4: of(v4), v6: of(v6) });
  const rows = [
    row("Prefixes", whole, ...fib.prefixes),
    row("Without room", whole, ...fib.missing),
    row("Memory of nodes", octets, ...fib.node_bytes),
    row("Limit", octets, ...fib.max_bytes),
    row("Changes in the last second", whole, ...fib.updates_per_second),
  ];
  table(byId("fib"), [["", (row) => row.name], ["IPv4", (row) => row.v4, true], ["IPv6", (row) => row.v6, true]], rows, "");
  byId("fib").append(el("caption", { class: "muted", text: `${octets(fib.table_bytes)} in use, ${many(fib.next_hops, "next hop")}` }));
}

// Tables.

function busy(worker) {
  const percent = `${(100 * worker.busy).toFixed(0)} %`;
  return el("span", {}, el("meter", { value: worker.busy, "aria-label": `busy ${percent}` }), ` ${percent}`);
}

function tables(now) {
  table(byId("workers"), [
    ["Worker", (one) => String(one.index)], ["CPU", (one) => one.core === null ? "any" : String(one.core)],
    ["Busy", busy], ["Packets/s", (one) => si(one.pps), true], ["Sleeps/s", (one) => si(one.sleeps), true],
    ["Held", (one) => si(one.held), true], ["No frame", (one) => si(one.pool_exhausted), true], ["Mode", (one) => one.mode],
  ], now.workers, "No workers: every port takes the express path.");
  table(byId("queues"), [
    ["Port", (one) => one.port], ["Class", (one) => String(one.class)], ["Waiting", (one) => si(one.held), true],
    ["Sent/s", (one) => si(one.sent_pps), true], ["Dropped/s", (one) => si(one.drop_pps), true],
  ], now.queues, "No queues: they are the engine's.");
  flows(now);
}

function devices({ devices, rules }) {
  table(byId("devices"), [
    ["Device", (one) => one.name], ["Kind", (one) => one.kind || "–"], ["Addresses", (one) => one.addresses.join(", ")],
    ["By", (one) => one.left === null ? "Bora" : `Linux: ${one.left}`],
  ], devices, "No VLAN devices, bonds, bridges or tunnels on the ports.");
  table(byId("rules"), [
    ["Rule", (one) => `${one.number} ${one.name}`], ["Packets", (one) => whole(one.packets), true], ["What", (one) => one.rule],
  ], rules, "No rules are configured.");
}

function flows({ flows, flows_one_in: oneIn }) {
  table(byId("flows"), [
    ["Bits/s", (one) => si(one.bps), true], ["From", (one) => one.source], ["To", (one) => one.destination],
    ["What", (one) => one.what], ["In", (one) => one.input], ["Out", (one) => one.output],
    ["Packets/s", (one) => si(one.pps), true],
  ], flows, oneIn ? "No flow in the last seconds." : "No packets are sampled now.");
  if (oneIn > 1) byId("flows").append(el("caption", { class: "muted", text: `Estimated from 1 in ${whole(oneIn)} packets.` }));
}

function events(all) {
  const key = (event) => `${event.time} ${event.kind} ${event.text}`;
  keyed(byId("events"), [...all].reverse(), key, (event) => el("li", { class: event.severity },
    el("time", { datetime: new Date(event.time).toISOString(), text: clock(event.time) }),
    el("span", { class: "kind", text: event.kind }), event.text), () => {});
}
