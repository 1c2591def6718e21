// The page: log in, choose a campaign, follow it. The stream sends all that is shown; nothing is computed twice.
import * as charts from "./charts.js";
import { ground, header } from "./header.js";
import { banner, draw as drawAll, known, outlook } from "./overview.js";
import { ask, watch } from "./stream.js";
import * as tables from "./tables.js";
import { element } from "./words.js";

const $ = (id) => document.getElementById(id);
const STATES = { on: "live", off: "not connected, trying again", stale: "no news for a while, trying again", refused: "not connected", elsewhere: "at another process" };
const ALL = "", APART = 3000;
let token = sessionStorage.getItem("token"), scope = "", now = null; // the campaign that is followed, or all of them

const hash = (name) => `#${encodeURIComponent(name)}`;
const path = (name) => `/campaigns/${encodeURIComponent(name)}`;

async function enter(given) {
  const [mine, rows] = await Promise.all([ask(given, "/token"), ask(given, "/campaigns")]);
  token = given;
  if (token) sessionStorage.setItem("token", token);
  scope = mine.scope;
  $("login").hidden = true;
  for (const id of ["live", "logout", "choose"]) $(id).hidden = false;
  $("campaign").replaceChildren(...[{ name: ALL }, ...rows].map(({ name }) => {
    const option = element("option", name || "All campaigns");
    option.value = name;
    return option;
  }));
  if (!rows.length) {
    $("choose").hidden = $("live").hidden = true;
    $("none").hidden = false;
    return;
  }
  const named = rows.find((row) => hash(row.name) === location.hash) ?? (rows.length === 1 ? rows[0] : null);
  if (named) follow(named.name);
  else all();
}

function leave(name) {
  now?.leave();
  $("campaign").value = name;
  if (location.hash !== (name && hash(name))) history.replaceState(null, "", name ? hash(name) : location.pathname);
  $("view").hidden = $("overview").hidden = true; // nothing of another campaign may stay
  $("loading").hidden = false;
  delete document.body.dataset.drawn;
  say(null);
}

// All campaigns: asked for anew every few seconds, as long as they are looked at.
function all() {
  leave(ALL);
  let timer = null, ended = false;
  const look = async () => {
    try {
      const rows = await ask(token, "/overview");
      if (ended) return;
      drawAll($("campaigns"), $("overview-short"), rows);
      $("overview").hidden = false;
      $("loading").hidden = true;
      say(null);
      show("on");
      document.title = "freepull";
      document.body.dataset.drawn = "all";
    } catch (error) {
      if (ended) return;
      say(error);
      show(error.status ? "refused" : "off");
      if (error.status === 401) return;
    }
    timer = setTimeout(look, APART);
  };
  now = { name: ALL, data: null, leave: () => { ended = true; clearTimeout(timer); } };
  look();
}

function follow(name) {
  leave(name);
  const it = now = { name, data: null, leave: null };
  charts.build($("charts"));
  tables.build($("tables"));
  it.leave = watch(token, path(name), {
    state: (state, error) => {
      if (state !== "off") say(error ?? null);
      if (error) $("loading").hidden = true;
      show(error?.status === 421 ? "elsewhere" : state);
    },
    event: (kind, screen) => { if (it === now && kind === "screen") draw(it.data = screen); },
  });
}

function show(state) {
  $("live").dataset.state = state;
  $("live").textContent = STATES[state];
  $("view").classList.toggle("stale", state !== "on");
  for (const id of ["pause", "resume", "set-budget", "budget-sure", "stop", "stop-sure"]) $(id).disabled = state !== "on";
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
  known(data);
  outlook(data);
  banner(data.overview.stuck, scope, help);
  $("loading").hidden = true;
  $("view").hidden = false; // charts need the width
  charts.draw(data);
  tables.fill("arms", data.status.arms, data.status);
  tables.fill("differences", data.status.differences, data.status);
  tables.fill("checks", data.status.checks);
  tables.fill("offers", data.offers);
  tables.fill("ledger", data.ledger.toReversed());
  tables.fill("bans", data.bans.toReversed(), data.status, ["admin", "operator"].includes(scope) ? unban : null);
  tables.fill("audit", tables.auditLines(data.audit));
  document.body.dataset.drawn = String(data.status.events);
}

// A button that ends a ban, while it lasts.
function unban({ agent, lifted, until }) {
  if (lifted || (until !== null && until <= now.data.status.step) || now.data.status.status === "stopped") return null;
  const button = element("button", "Unban");
  button.type = "button";
  button.setAttribute("aria-label", `Unban ${agent}`);
  button.addEventListener("click", () => help({ helps: "unban", agents: [agent] }));
  return button;
}

// What the button beside a reason does.
async function help({ helps, agents }) {
  if (helps === "budget") {
    $("new-budget").value = "";
    $("budget-dialog").returnValue = "";
    $("budget-dialog").showModal();
  } else if (helps === "stop") $("stop").click();
  else if (helps === "unban") for (const name of agents) await act(`agents/${encodeURIComponent(name)}/unban`);
  else await act(helps);
}

async function act(what, body, method = "POST") {
  const key = crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
  const headers = { "idempotency-key": key, ...(body ? { "content-type": "application/json" } : {}) };
  try {
    await ask(token, `${path(now.name)}/${what}`, { method, headers, body: body && JSON.stringify(body) });
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
const go = (name) => name === ALL ? all() : follow(name);
$("campaign").addEventListener("change", () => go($("campaign").value));
addEventListener("hashchange", () => {
  if (!now) return;
  const name = [...$("campaign").options].map((it) => it.value).find((it) => it && hash(it) === location.hash) ?? ALL;
  if (name !== now.name) go(name);
});
$("budget-dialog").addEventListener("close", () => { if ($("budget-dialog").returnValue === "set") act("budget", { budget: $("new-budget").value }, "PATCH"); });
$("pause").addEventListener("click", () => act("pause"));
$("resume").addEventListener("click", () => act("resume"));
$("set-budget").addEventListener("click", () => help({ helps: "budget" }));
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
