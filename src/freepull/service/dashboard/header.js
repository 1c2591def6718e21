// The head of the page: how the campaign stands, what was spent, the verdict, and what is still missing.
import { count, element, figure, many, money } from "./words.js";

const $ = (id) => document.getElementById(id);

export function header(it, admin) {
  $("title").textContent = it.name;
  document.title = `${it.name} · freepull`;
  $("status").textContent = it.status + (it.why ? `: ${it.why}` : "");
  $("status").dataset.status = it.status;
  $("phase").textContent = it.phase ?? "not started";
  $("progress").textContent = it.horizon ? `step ${count(it.step)} of ${count(it.horizon)}` : `step ${count(it.step)}`;
  bar("progress-bar", it.horizon ? it.step / it.horizon : null);
  const more = [it.banned && `${count(it.banned)} banned`, it.absent && `${count(it.absent)} absent`, it.late_joiners && `${count(it.late_joiners)} joined late`];
  $("observations").textContent = [`${many(it.observations, "observation")} of ${many(it.agents, "agent")}`, `${it.mode} mode`, ...more.filter(Boolean)].join(", ");
  $("spent").textContent = money(it.spent);
  bar("budget-bar", it.budget?.minor ? it.spent.minor / it.budget.minor : null);
  $("budget").textContent = `${it.budget ? `of ${money(it.budget)}` : "no limit"}, ${money(it.reserved)} reserved, ${many(it.paid, "bonus", "bonuses")} paid`;
  $("verdict").textContent = it.decided ? it.leader : it.observations ? `${it.leader} leads` : "no pulls yet";
  $("standing").textContent = it.certified ? "certified" : it.decided ? "decided, not certified" : "undecided";
  $("standing").dataset.standing = it.certified ? "certified" : it.decided ? "decided" : "undecided";
  $("missing").textContent = missing(it);
  $("awaited").textContent = it.awaited.length ? `Waiting for ${it.awaited.join(", ")}.` : "";
  $("admin").hidden = !admin;
  $("pause").hidden = it.status !== "running";
  $("resume").hidden = it.status !== "paused";
  $("stop").hidden = it.status === "stopped";
}

function missing(it) {
  if (it.decided) return "Nothing: it is decided.";
  if (it.status === "stopped") return "It was stopped before it was decided.";
  if (it.phase === null) return `${many(it.agents, "agent has", "agents have")} enrolled; it has not started.`;
  const rivals = it.arms.filter((arm) => arm.active && arm.name !== it.leader);
  if (it.threshold === null) return `${many(rivals.length, "more arm")} must go.`;
  const next = rivals.sort((a, b) => (b.bound ?? 0) - (a.bound ?? 0))[0];
  return next ? `${many(rivals.length, "more arm")} must go, at evidence ${figure(it.threshold)}. Next is ${next.name}, at ${figure(next.bound)}.` : "–";
}

function bar(id, share) {
  $(id).hidden = share === null;
  if (share !== null) $(id).value = Math.min(1, share);
}

export function ground(verdict) {
  if (!verdict) {
    $("verdict-why").textContent = "";
    $("rests").textContent = "There is no verdict before the start.";
    return;
  }
  const { why, decided, certified, rests_on: { rule, delta, target, leavers, assumptions } } = verdict;
  const proven = delta !== null && rule.includes("(proven)"), at = `Confidence ${figure(100 * (1 - delta))} %`;
  const sure = !proven ? " This rule is not proven here, so its verdict is not certified." : certified ? ` ${at}.` : decided ? "" : ` ${at} once it is certified.`;
  $("verdict-why").textContent = `${why.charAt(0).toUpperCase()}${why.slice(1).replace(/\.$/, "")}.${sure}`;
  const rows = [["Rule", rule], ["Target", target], ["Agents who leave", leavers], ...assumptions.map((it) => ["Assumes", it])];
  const all = element("dl", null, "rests");
  for (const [name, text] of rows) all.append(element("dt", name), element("dd", text));
  $("rests").replaceChildren(all);
}
