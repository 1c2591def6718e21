// The page: log in, choose a campaign, follow it. Figures come from the API alone; nothing is computed twice.
import * as charts from "./charts.js";
import { ground, header } from "./header.js";
import { ask, watch } from "./stream.js";
import * as tables from "./tables.js";
import { element } from "./words.js";

const $ = (id) => document.getElementById(id);
const SLOW = 3000, STALE = 20000, ROWS = 200;
const EMPTY = { audit: [], history: [], pulls: { quantiles: [], names: [], pulls: [], agents: 0 }, margins: null };
let token = sessionStorage.getItem("token"), chosen = null, leave = null, data = null, admin = false;
let looked = 0, looking = false, failed = false, heard = 0;

const hash = (name) => `#${encodeURIComponent(name)}`;
const path = () => `/campaigns/${encodeURIComponent(chosen)}`;

async function enter(given) {
  const [mine, rows] = await Promise.all([ask(given, "/token"), ask(given, "/campaigns")]);
  token = given;
  sessionStorage.setItem("token", token);
  admin = mine.scope === "admin";
  $("login").hidden = true;
  for (const id of ["live", "logout", "choose"]) $(id).hidden = false;
  $("campaign").replaceChildren(...rows.map((row) => {
    const option = element("option", row.name);
    option.value = row.name;
    return option;
  }));
  if (!rows.length) {
    $("choose").hidden = $("live").hidden = true;
    $("none").hidden = false;
    return;
  }
  follow((rows.find((row) => hash(row.name) === location.hash) ?? rows[0]).name);
}

function follow(name) {
  leave?.();
  chosen = name;
  data = null;
  looked = 0;
  $("campaign").value = name;
  history.replaceState(null, "", hash(name));
  $("view").hidden = true; // nothing of another campaign may stay
  delete document.body.dataset.drawn;
  ground(null);
  charts.build($("charts"));
  tables.build($("tables"));
  leave = watch(token, path(), {
    state: (state, error) => {
      if (state === "on") say(null);
      if (state === "refused") say(error.message);
      show(state === "on" ? "on" : "off");
    },
    event: (kind, told) => { heard = Date.now(); if (kind === "status") update(told); else looked = 0; },
  });
}

function show(state) {
  $("live").dataset.state = state;
  $("live").textContent = { on: "live", off: "not connected, trying again", stale: "no news for a while" }[state];
  $("view").classList.toggle("stale", state !== "on");
}

function say(text) {
  $("message").hidden = text === null;
  $("message").textContent = text ?? "";
}

async function update(status) {
  if (status.name !== chosen) return;
  data = { ...(data ?? EMPTY), status };
  header(status, admin);
  tables.fill("arms", status.arms);
  $("view").hidden = false;
  if (!looking && Date.now() - looked > SLOW) await look(status.name);
}

// What is more to fetch than a status is fetched every few seconds at most.
async function look(name) {
  looking = true;
  try {
    const { events } = data.status;
    const wants = ["/history", "/pulls", "/margins", "/verdict", `/offers?open_only=true&limit=${ROWS}`, `/ledger?last=${ROWS}`, `/bans?last=${ROWS}`, `/audit?last=${ROWS}`];
    const found = await Promise.all(wants.map((it) => ask(token, path() + it).catch((error) => {
      if (error.status === 409) return null; // there is no verdict before the start
      throw error;
    })));
    if (name !== chosen) return;
    const [past, pulls, margins, verdict, offers, ledger, bans, audit] = found;
    data = { ...data, history: past, pulls, margins, offers, audit };
    ground(verdict);
    charts.draw(data);
    tables.fill("offers", offers);
    tables.fill("ledger", ledger.reverse());
    tables.fill("bans", bans.reverse());
    tables.fill("audit", tables.auditLines(audit, data.status.arms));
    looked = Date.now();
    document.body.dataset.drawn = String(events);
    if (failed) say(null);
    failed = false;
  } catch (error) {
    if (name !== chosen) return;
    failed = true;
    looked = Date.now();
    say(error.message);
  } finally {
    looking = false;
  }
}

async function act(what, body) {
  const key = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
  const headers = { "idempotency-key": key, ...(body ? { "content-type": "application/json" } : {}) };
  try {
    update(await ask(token, `${path()}/${what}`, { method: "POST", headers, body: body && JSON.stringify(body) }));
  } catch (error) {
    say(error.message);
  }
}

$("login-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  $("login-error").textContent = "";
  try {
    await enter($("token").value.trim());
    $("token").value = "";
    $("main").focus();
  } catch (error) {
    $("login-error").textContent = error.message;
  }
});
$("logout").addEventListener("click", () => { sessionStorage.clear(); leave?.(); location.replace("/"); location.reload(); });
$("campaign").addEventListener("change", () => follow($("campaign").value));
$("pause").addEventListener("click", () => act("pause"));
$("resume").addEventListener("click", () => act("resume"));
$("stop").addEventListener("click", () => { $("stop-dialog").returnValue = ""; $("stop-dialog").showModal(); });
$("stop-dialog").addEventListener("close", () => { if ($("stop-dialog").returnValue === "stop") act("stop", { why: $("why").value }); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => data && charts.draw(data));
setInterval(() => {
  if (data?.offers) tables.fill("offers", data.offers);
  if ($("live").dataset.state === "on" && Date.now() - heard > STALE && data?.status.status === "running") show("stale");
  if (data && !looking && Date.now() - looked > SLOW && document.body.dataset.drawn !== String(data.status.events)) look(chosen);
}, 1000);

if (token) enter(token).catch(() => sessionStorage.clear());
