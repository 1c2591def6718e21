// The page: log in, choose a campaign, follow it. Figures come from the API alone; nothing is computed twice.
import * as charts from "./charts.js";
import { ask, watch } from "./stream.js";
import * as tables from "./tables.js";
import { count, element, figure, money } from "./tables.js";

const $ = (id) => document.getElementById(id);
const SLOW = 3000;
const STALE = 20000;
let token = sessionStorage.getItem("token"), chosen = null, leave = null, data = null, admin = false;
let looked = 0, looking = false, heard = 0;

const path = () => `/campaigns/${encodeURIComponent(chosen)}`;

async function enter(given) {
  const rows = await ask(given, "/campaigns");
  token = given;
  sessionStorage.setItem("token", token);
  admin = await ask(token, "/tokens").then(() => true, (error) => error.message.includes("one campaign"));
  $("login").hidden = true;
  $("logout").hidden = false;
  $("choose").hidden = false;
  $("campaign").replaceChildren(...rows.map((row) => {
    const option = element("option", row.name);
    option.value = row.name;
    return option;
  }));
  if (!rows.length) { say("There is no campaign yet: make one with freepull campaign new or POST /v1/campaigns."); return; }
  const wanted = decodeURIComponent(location.hash.slice(1));
  follow(rows.some((row) => row.name === wanted) ? wanted : rows[0].name);
}

function follow(name) {
  leave?.();
  chosen = name;
  data = null;
  $("campaign").value = name;
  history.replaceState(null, "", `#${encodeURIComponent(name)}`);
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
}

function say(text) {
  $("message").hidden = text === null;
  $("message").textContent = text ?? "";
}

async function update(status) {
  if (status.name !== chosen) return;
  data = { ...(data ?? { audit: [], history: [], pulls: { quantiles: [], names: [], pulls: [], agents: 0 } }), status };
  header(status);
  tables.fill("arms", status.arms);
  $("view").hidden = false;
  if (!looking && Date.now() - looked > SLOW) await look(status.name);
}

// What is more to fetch than a status is fetched every other second at most.
async function look(name) {
  looking = true;
  try {
    const base = path(), from = Math.max(0, data.status.paid - 200);
    const wants = ["/history", "/pulls", "/verdict", "/offers?open_only=true&limit=200", `/ledger?after=${from}`, "/bans?limit=200", `/audit?after=${data.audit.at(-1)?.event ?? -1}`];
    const [past, pulls, verdict, offers, ledger, bans, audit] = await Promise.all(wants.map((it) => ask(token, base + it).catch((error) => {
      if (error.status === 409) return null;
      throw error;
    })));
    if (name !== chosen) return;
    data = { ...data, history: past, pulls, offers, audit: [...data.audit, ...audit].slice(-200) };
    if (verdict) ground(verdict);
    charts.draw(data);
    tables.fill("offers", offers);
    tables.fill("ledger", ledger.reverse());
    tables.fill("bans", bans.reverse());
    tables.fill("audit", data.audit.toReversed());
    looked = Date.now();
    document.body.dataset.drawn = String(data.status.events);
  } catch (error) {
    say(error.message);
  } finally {
    looking = false;
  }
}

function header(it) {
  $("title").textContent = it.name;
  document.title = `${it.name} · freepull`;
  $("status").textContent = it.status + (it.why ? `: ${it.why}` : "");
  $("phase").textContent = it.phase ?? "not started";
  $("progress").textContent = it.horizon ? `step ${count(it.step)} of ${count(it.horizon)}` : `step ${count(it.step)}`;
  bar("progress-bar", it.horizon ? it.step / it.horizon : null);
  $("observations").textContent = `${count(it.observations)} observations of ${count(it.agents)} agents, ${it.mode} mode`
    + (it.banned ? `, ${count(it.banned)} banned` : "") + (it.absent ? `, ${count(it.absent)} absent` : "");
  $("spent").textContent = money(it.spent);
  bar("budget-bar", it.budget && it.budget.minor ? it.spent.minor / it.budget.minor : null);
  $("budget").textContent = `${it.budget ? `of ${money(it.budget)}` : "no limit"}, ${money(it.reserved)} reserved`;
  $("verdict").textContent = it.decided ? `${it.leader}, ${it.certified ? "certified" : "decided, not certified"}` : it.leader ? `${it.leader} leads, undecided` : "–";
  const inside = it.arms.filter((arm) => arm.active);
  if (it.decided) $("missing").textContent = "Nothing: it is decided.";
  else if (it.phase === null) $("missing").textContent = "The campaign has not started.";
  else if (it.threshold === null) $("missing").textContent = `${inside.length} arms are still in.`;
  else {
    const next = inside.filter((arm) => arm.name !== it.leader).sort((a, b) => (b.bound ?? 0) - (a.bound ?? 0))[0];
    $("missing").textContent = next ? `${inside.length - 1} more arms must go at evidence ${figure(it.threshold)}; next is ${next.name} with ${figure(next.bound)}.` : "–";
  }
  $("awaited").textContent = it.awaited.length ? `Waiting for ${it.awaited.join(", ")}.` : "";
  $("admin").hidden = !admin;
  $("pause").hidden = it.status !== "running";
  $("resume").hidden = it.status !== "paused";
  $("stop").hidden = it.status === "stopped";
}

function bar(id, share) {
  $(id).hidden = share === null;
  if (share !== null) $(id).value = Math.min(1, share);
}

function ground(verdict) {
  $("verdict-why").textContent = verdict.why + (verdict.rests_on.delta === null ? "" : ` Confidence ${figure(100 * (1 - verdict.rests_on.delta))} % once certified.`);
  const list = element("ul");
  const { rule, target, leavers, assumptions } = verdict.rests_on;
  for (const line of [`Rule: ${rule}`, `Target: ${target}`, `Agents who leave: ${leavers}`, ...assumptions.map((it) => `Assumes: ${it}`)]) list.append(element("li", line));
  $("rests").replaceChildren(list);
}

async function act(what, body) {
  const headers = { "idempotency-key": crypto.randomUUID?.() ?? String(Math.random()), ...(body ? { "content-type": "application/json" } : {}) };
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
$("stop").addEventListener("click", () => $("stop-dialog").showModal());
$("stop-dialog").addEventListener("close", () => { if ($("stop-dialog").returnValue === "stop") act("stop", { why: $("why").value }); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => data && charts.draw(data));
setInterval(() => {
  if (data?.offers) tables.fill("offers", data.offers);
  if ($("live").dataset.state === "on" && Date.now() - heard > STALE && data?.status.status === "running") show("stale");
  if (data && !looking && looked && Date.now() - looked > SLOW && document.body.dataset.drawn !== String(data.status.events)) look(chosen);
}, 1000);

charts.build($("charts"));
tables.build($("tables"));
if (token) enter(token).catch(() => sessionStorage.clear());
