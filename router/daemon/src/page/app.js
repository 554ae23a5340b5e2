// The connection: reads the stream of live data, keeps the last ten minutes, and has them shown.

import { byId, clock, say } from "./dom.js";
import { show } from "./view.js";

const SECONDS = 600;
const SILENCE = 5000; // ms without an event after which the connection counts as lost
const AGAIN = 2000; // ms until the next attempt
const RATES = ["rx_pps", "tx_pps", "drop_pps", "linux_pps", "rx_bps", "tx_bps"];

/// Everything that is shown.
const state = { now: null, time: 0, history: new Map(), reasons: new Map(), unit: "pps" };
let source = null;
let heard = Date.now();
let lostSince = null;

function onHistory(history) {
  state.time = history.time;
  state.history = new Map(history.ports.map((port) => [port.name, port]));
}

/// Seconds that were missed get the numbers of this one, as the server does it.
function onNow(now) {
  const seconds = Math.min(SECONDS, Math.round((now.time - state.time) / 1000));
  for (const port of now.ports) {
    const known = state.history.get(port.name) ?? Object.fromEntries(RATES.map((rate) => [rate, []]));
    state.history.set(port.name, known);
    for (const rate of RATES) {
      for (let second = 0; second < seconds; second++) known[rate].push(port.rates[rate]);
      known[rate].splice(0, known[rate].length - SECONDS);
    }
  }
  state.time = Math.max(state.time, now.time);
  state.now = now;
  render();
}

function render() {
  if (state.now && !document.hidden) show(state);
}

function heardFrom() {
  heard = Date.now();
  lostSince = null;
  byId("lost").hidden = true;
  document.body.classList.remove("stale");
  say(byId("state"), "live");
  byId("state").className = "pill good";
}

function lost(why) {
  lostSince ??= Date.now();
  say(byId("state"), "no connection");
  byId("state").className = "pill bad";
  const old = state.now ? " What you see is old." : "";
  say(byId("lost"), `No connection to Bora since ${clock(lostSince)}.${old} ${why || "Trying again."}`);
  byId("lost").hidden = false;
  document.body.classList.add("stale");
}

/// What the server says instead of a stream, if it says something.
async function refusal() {
  const stop = new AbortController();
  try {
    const answer = await fetch("/v1/live", { signal: stop.signal });
    return answer.ok ? "" : (await answer.text()).slice(0, 300);
  } catch {
    return "";
  } finally {
    stop.abort();
  }
}

async function readReasons() {
  const answer = await fetch("/v1/reasons");
  if (!answer.ok) return;
  state.reasons = new Map((await answer.json()).map((reason) => [reason.name, reason]));
  render();
}

function connect() {
  source?.close();
  source = new EventSource("/v1/live");
  heard = Date.now();
  const on = (name, what) => source.addEventListener(name, (event) => { heardFrom(); what(JSON.parse(event.data)); });
  on("history", onHistory);
  on("now", onNow);
  source.onopen = () => { if (!state.reasons.size) readReasons().catch(() => {}); };
  source.onerror = () => lost();
}

async function watch() {
  const isClosed = source.readyState === EventSource.CLOSED;
  if (isClosed || Date.now() - heard > SILENCE) {
    lost(isClosed ? await refusal() : "");
    connect();
  }
  setTimeout(watch, AGAIN);
}

byId("unit").addEventListener("change", (event) => { state.unit = event.target.value; render(); });
document.addEventListener("visibilitychange", render);
window.addEventListener("resize", render);
connect();
setTimeout(watch, AGAIN);
