// The page: log in, choose a campaign, follow it. The stream sends all that is shown; nothing is computed twice.
import * as charts from "./charts.js";
import { ground, header } from "./header.js";
import { ask, watch } from "./stream.js";
import * as tables from "./tables.js";
import { element } from "./words.js";

const $ = (id) => document.getElementById(id);
const STATES = { on: "live", off: "not connected, trying again", stale: "no news for a while, trying again", refused: "not connected", elsewhere: "at another process" };
let token = sessionStorage.getItem("token"), scope = "", now = null; // the campaign that is followed

const hash = (name) => `#${encodeURIComponent(name)}`;
const path = (name) => `/campaigns/${encodeURIComponent(name)}`;

async function enter(given) {
  const [mine, rows] = await Promise.all([ask(given, "/token"), ask(given, "/campaigns")]);
  token = given;
  if (token) sessionStorage.setItem("token", token);
  scope = mine.scope;
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
  now?.leave();
  const it = now = { name, data: null, leave: null };
  $("campaign").value = name;
  history.replaceState(null, "", hash(name));
  $("view").hidden = true; // nothing of another campaign may stay
  delete document.body.dataset.drawn;
  say(null);
  charts.build($("charts"));
  tables.build($("tables"));
  it.leave = watch(token, path(name), {
    state: (state, error) => {
      if (state !== "off") say(error ?? null);
      show(error?.status === 421 ? "elsewhere" : state);
    },
    event: (kind, screen) => { if (it === now && kind === "screen") draw(it.data = screen); },
  });
}

function show(state) {
  $("live").dataset.state = state;
  $("live").textContent = STATES[state];
  $("view").classList.toggle("stale", state !== "on");
  for (const id of ["pause", "resume", "stop", "stop-sure"]) $(id).disabled = state !== "on";
}

// An error in a sentence; if another process has the campaign, the way there. The token is not sent along.
function say(error) {
  $("message").hidden = !error;
  $("message").replaceChildren(error?.message ?? "");
  if (!/^https?:\/\//.test(error?.owner ?? "")) return;
  const link = element("a", error.owner);
  link.href = `${error.owner}/${hash(now.name)}`;
  $("message").replaceChildren("Another process has this campaign. Look at it at ", link, ", and log in there with your token.");
}

function draw(data) {
  header(data, scope);
  ground(data.verdict);
  $("view").hidden = false; // charts need the width
  charts.draw(data);
  tables.fill("arms", data.status.arms, data.status);
  tables.fill("differences", data.status.differences, data.status);
  tables.fill("checks", data.status.checks);
  tables.fill("offers", data.offers);
  tables.fill("ledger", data.ledger.toReversed());
  tables.fill("bans", data.bans.toReversed());
  tables.fill("audit", tables.auditLines(data.audit));
  document.body.dataset.drawn = String(data.status.events);
}

async function act(what, body) {
  const key = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
  const headers = { "idempotency-key": key, ...(body ? { "content-type": "application/json" } : {}) };
  try {
    await ask(token, `${path(now.name)}/${what}`, { method: "POST", headers, body: body && JSON.stringify(body) });
    say(null); // what it changed comes with the stream
  } catch (error) {
    say(error);
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
$("logout").addEventListener("click", async () => {
  now?.leave();
  if (!token) await fetch("/logout", { method: "POST" }).catch(() => null);
  sessionStorage.clear();
  location.replace("/");
  location.reload();
});
$("provider-link").addEventListener("click", () => sessionStorage.setItem("hash", location.hash));
$("campaign").addEventListener("change", () => follow($("campaign").value));
$("pause").addEventListener("click", () => act("pause"));
$("resume").addEventListener("click", () => act("resume"));
$("stop").addEventListener("click", () => { $("stop-dialog").returnValue = ""; $("stop-dialog").showModal(); });
$("stop-dialog").addEventListener("close", () => { if ($("stop-dialog").returnValue === "stop") act("stop", { why: $("why").value }); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => now?.data && charts.draw(now.data));
setInterval(() => now?.data?.offers.length && tables.fill("offers", now.data.offers), 1000);

const provider = "login" in document.documentElement.dataset;
$("provider").hidden = !provider;
if (!location.hash && sessionStorage.getItem("hash")) history.replaceState(null, "", sessionStorage.getItem("hash"));
sessionStorage.removeItem("hash");
if (token || provider) {
  enter(token ?? "").catch((error) => {
    if (!token && error.status === 401) return; // nobody has logged in yet
    if (error.status === 401) sessionStorage.clear();
    $("login-error").textContent = error.message;
  });
}
