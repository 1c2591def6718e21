// The head of the page: how the campaign stands, what was spent, the verdict, and what is still missing.
import { count, edge, element, figure, many, money, nothing } from "./words.js";

const $ = (id) => document.getElementById(id);
const PHASES = { observing: "nobody is paid yet", incentivizing: "missing pulls are paid for", decided: "the verdict stands", over: "the horizon is reached" };
const MODES = { free: "everybody at their own pace", rounds: "everybody acts once a round" };
const ABSENT = { banned: "banned: must pull unpaid, or be unbanned", parked: "parked, because offers lapsed: must pull again", left: "has left: must pull again",
  active: "silent" };

export function header({ status: it, verdict, awaited, overview }, scope) {
  const admin = scope === "admin";
  $("title").textContent = it.name;
  document.title = `${it.name} · freepull`;
  $("status").textContent = it.status + (it.why ? `: ${it.why}` : "");
  $("status").dataset.status = it.status;
  $("phase").textContent = (it.phase ?? "not started") + (it.rehearsal ? ", a rehearsal" : "");
  $("phase-means").textContent = it.status === "stopped" ? "" : PHASES[it.phase] ?? "";
  $("progress").textContent = it.horizon ? `step ${count(it.step)} of ${count(it.horizon)}` : `step ${count(it.step)}`;
  bar("progress-bar", it.horizon ? it.step / it.horizon : null);
  const more = [it.banned && `${count(it.banned)} banned`, it.absent && `${count(it.absent)} absent`, it.late_joiners && `${count(it.late_joiners)} joined late`];
  if (!nothing(it.comparisons)) more.push(`${many(it.comparisons, "comparison")} opened`);
  $("observations").textContent = [`${many(it.observations, "observation")} of ${it.acted < it.agents ? `${count(it.acted)} of ` : ""}${many(it.agents, "agent")}`, `${it.mode} mode (${MODES[it.mode]})`, ...more.filter(Boolean)].join(", ");
  $("spent").textContent = money(it.spent);
  bar("budget-bar", it.budget?.minor ? it.spent.minor / it.budget.minor : null);
  $("budget").textContent = `${it.budget ? `of ${money(it.budget)}` : "no limit"}, ${money(it.reserved)} reserved, ${many(it.paid, "bonus", "bonuses")} paid`;
  $("price").textContent = it.pricing ? `Every offer has its own amount, by ${it.pricing}; a bonus of 1 costs ${money(it.price)}.` : `A bonus costs ${money(it.price)}.`;
  $("held").hidden = !it.held;
  $("held").textContent = it.held ? `${it.held[0].toUpperCase()}${it.held.slice(1)}.` : "";
  $("verdict").textContent = it.decided ? it.leader : it.leader !== null ? `${it.leader} leads` : it.phase === null ? "not started" : "no pulls yet";
  $("standing").textContent = it.certified ? "certified" : it.decided ? "decided, not certified" : "undecided";
  $("standing").dataset.standing = it.certified ? "certified" : it.decided ? "decided" : "undecided";
  const alarms = it.checks.filter((check) => check.alarmed);
  $("alarm").hidden = !alarms.length;
  $("alarm").textContent = alarms.length ? `Alarm: ${alarms.map((check) => `${check.name}: ${check.why}`).join("; ")}.` : "";
  $("missing").textContent = missing(it, verdict, admin);
  $("awaited").textContent = [waiting(awaited), it.remedy && `${it.remedy[0].toUpperCase()}${it.remedy.slice(1)}`].filter(Boolean).join(" ");
  $("admin").hidden = !admin && scope !== "operator";
  $("pause").hidden = it.status !== "running";
  $("resume").hidden = it.status !== "paused" || overview.stuck.some(({ helps }) => helps === "resume"); // then it is there
  $("set-budget").hidden = it.status === "stopped" || !admin || overview.stuck.some(({ helps }) => helps === "budget");
  $("stop").hidden = it.status === "stopped" || !admin;
}

// Whom it waits for, and why.
function waiting(awaited) {
  const groups = {};
  for (const { name, state } of awaited) (groups[ABSENT[state]] ??= []).push(name);
  const parts = Object.entries(groups).map(([why, names]) => `${names.join(", ")} (${why})`);
  return parts.length ? `Waiting for ${parts.join("; ")}.` : "";
}

function missing(it, verdict, admin) {
  if (it.decided) return it.status === "stopped" ? "Nothing: it is decided." : `Nothing: it is decided, and ${admin ? "you can stop it" : "can be stopped"}.`;
  if (it.status === "stopped") return "It was stopped before it was decided.";
  if (it.phase === null) return `${many(it.agents, "agent has", "agents have")} enrolled; it has not started.`;
  if (it.phase === "over") return "It was not decided up to the horizon.";
  if (verdict?.rests_on.delta === null) return "This rule only watches: no arm goes, and nothing is ever decided.";
  const rest = it.arms.filter((arm) => arm.active);
  if (rest.length === 1) return "Nothing: it is decided when the step ends.";
  const go = `${many(rest.length - 1, "more arm")} must go`, near = verdict?.rests_on.rule.includes("up to ε") ? ", or one be best up to ε" : "";
  if (it.threshold === null) return `${go}${near}.`;
  const next = rest.filter((arm) => arm.name !== it.leader).sort((a, b) => (b.bound ?? 0) - (a.bound ?? 0))[0];
  const within = nothing(it.within) ? "" : ` That ${it.leader} is at most ε = ${figure(it.epsilon)} worse than the others has evidence ${figure(it.within)}.`;
  return `${go}${near}, each at evidence ${edge(it.threshold, verdict)}.${it.leader === null ? "" : ` Next is ${next.name}, at ${figure(next.bound)}.`}${within}`;
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
  const risk = ` The probability that such a trial ends with a wrong certified verdict is at most ${figure(100 * delta)} %.`, said = why.includes("not certified");
  const none = said ? "" : " This rule is not proven here, so its verdict is not certified.";
  const claim = said || delta === null || !rule.includes("(proven)") ? none : decided && !certified ? "" : risk;
  $("verdict-why").textContent = `${why.charAt(0).toUpperCase()}${why.slice(1).replace(/\.$/, "")}.${claim}`;
  const rows = [["Rule", rule], ["Target", target], ["Agents who leave", leavers], ...assumptions.map((it) => ["Assumes", it])];
  const all = element("dl", null, "rests");
  for (const [name, text] of rows) all.append(element("dt", name), element("dd", text));
  $("rests").replaceChildren(all);
}
