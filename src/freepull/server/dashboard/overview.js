// All campaigns in short, and of one of them what is known, how sure, and why it does not go on.
import { count, element, figure, many, money, nothing, time } from "./words.js";

const HELPS = { resume: ["Resume", ["admin", "operator"]], budget: ["Raise the budget …", ["admin"]], unban: ["Unban", ["admin", "operator"]], stop: ["Stop …", ["admin"]] };
const percent = (share) => `${figure(Number((100 * share).toPrecision(2)))} %`;
const signed = (value) => `${value < 0 ? "−" : "+"}${figure(Math.abs(Number(value.toFixed(3))))}`;

// How sure it is: at which risk of error it would be decided now.
export function sure({ risk, agreed, decided, certified, phase }) {
  if (decided) return certified ? `Certified: such a trial ends with a wrong certified verdict with probability ${percent(agreed)} at most.` : "Decided, not certified.";
  if (nothing(risk) || nothing(phase)) return "";
  return risk >= 0.995 ? `Nothing is sure yet. It is decided as soon as the risk of error is ${percent(agreed)} at most.` : `If it were decided now, the risk of error would be ${percent(risk)}; ${percent(agreed)} was agreed.`;
}

const leads = (it) => nothing(it.phase) ? "not started" : it.leader === null ? "no pulls yet" : it.decided ? `Verdict: ${it.leader}` : `${it.leader} leads`;
const interval = ({ low, high, unit }) => `${signed(low)} to ${signed(high)}${unit ? ` ${unit}` : ""}`;
const DAY = 86400000;
const day = (text, now = Date.now()) => Math.abs(Date.parse(text) - now) < 2 * DAY ? `${time(text).slice(0, 16)} UTC` : text.slice(0, 10);

export function draw(holder, short, rows) {
  const stuck = rows.filter((it) => it.stuck.length).length, done = rows.filter((it) => it.decided).length;
  short.textContent = [many(rows.length, "campaign"), done && `${count(done)} decided`, stuck ? `${count(stuck)} stuck` : "none is stuck"].filter(Boolean).join(", ");
  holder.replaceChildren(...rows.map(card));
}

function card(it) {
  const box = element("article", null, "card campaign"), head = element("h2"), link = element("a", it.name), line = element("p", null, "line");
  link.href = it.here || !/^https?:\/\//.test(it.owner) ? `#${encodeURIComponent(it.name)}` : `${it.owner}/#${encodeURIComponent(it.name)}`;
  head.append(link);
  box.append(head, line);
  if (!it.here) {
    line.append(it.owner ? `At another process, ${it.owner}.` : "Nobody has it at the moment.");
    return box;
  }
  box.dataset.decided = it.certified ? "certified" : it.decided ? "decided" : "";
  const status = element("span", it.status, "badge"), standing = element("span", it.certified ? "certified" : it.decided ? "decided, not certified" : it.phase, "badge");
  status.dataset.status = it.status;
  standing.dataset.standing = it.certified ? "certified" : it.decided ? "decided" : "undecided";
  line.append(status, ...(nothing(it.phase) ? [] : [standing]), ...(it.rehearsal ? [element("span", "a rehearsal", "badge quiet")] : []));
  box.append(element("p", leads(it), "lead"));
  for (const text of [sure(it), it.ahead && `${it.ahead.arm} is ${interval(it.ahead)} better than ${it.ahead.than}, the closest${it.scale && !it.ahead.unit ? `, on the scale ${it.scale}` : ""}.`]) if (text) box.append(element("p", text, "small"));
  if (it.outlook) box.append(element("p", short(it.outlook), "small"));
  const step = it.horizon ? `step ${count(it.step)} of ${count(it.horizon)}` : `step ${count(it.step)}`;
  box.append(element("p", `${money(it.spent)} spent${it.budget ? ` of ${money(it.budget)}` : ""}${it.unsettled ? `, ${many(it.unsettled, "payment")} not settled` : ""}; ${step}, ${many(it.agents, "agent")}`, "small"));
  for (const { words } of it.stuck) box.append(element("p", words, "stuck small"));
  for (const name of it.alarms) box.append(element("p", `Alarm: ${name}. Nothing is certified.`, "stuck small"));
  box.append(element("p", `Last event ${time(it.at)} UTC`, "hint"));
  return box;
}

const simulated = ({ chance, runs }) => `In ${chance === 1 ? "all" : chance === 0 ? "none" : percent(chance)} of ${many(runs, "simulated course")} there is a verdict in time`;
const passed = ({ when }) => when.length && Date.parse(when[1]) < Date.now();

const seldom = ({ chance }) => chance < 0.25 ? "unlikely" : "less likely than not";
const between = (first, last) => first === last ? first : `${first} to ${last}`;

// A forecast in one sentence; where most courses have no verdict, a date would promise too much.
function short(said) {
  if (!said.when.length || said.chance < 0.5) return `A verdict in time is ${seldom(said)}: it came in ${said.chance === 0 ? "none" : percent(said.chance)} of ${many(said.runs, "simulated course")}.`;
  if (passed(said)) return `A verdict was expected about ${day(said.when[1])}; it takes longer.`;
  return `Verdict expected about ${day(said.when[1])}, for ${money(said.spend[1])} in all${said.chance < 0.995 ? `, in ${percent(said.chance)} of the simulated courses` : ""}.`;
}

// When a verdict is expected, and for how much: a forecast that the service makes now and then.
export function outlook({ overview: it, status }) {
  const holder = document.getElementById("outlook"), said = it.outlook, [about, range, hope] = ["expected", "expected-range", "expected-chance"].map((id) => document.getElementById(id));
  holder.hidden = it.decided || it.status === "stopped" || it.phase === "over";
  range.textContent = hope.textContent = "";
  about.classList.toggle("text", !said);
  if (!said) {
    about.textContent = nothing(it.phase) ? "Not known yet: it has not started." : nothing(status.comparisons) ? "There is no forecast under this rule." : status.rehearsal ? "There is no forecast of a rehearsal." : "Not known yet.";
    range.textContent = nothing(it.phase) || nothing(status.comparisons) || status.rehearsal ? "" : "It is forecast from what was seen, from 200 pulls on, about every ten minutes, sooner where much has changed.";
    return;
  }
  const some = said.when.length > 0, costs = between(money(said.spend[0]), money(said.spend[2])), within = it.budget ? " and within the budget" : "";
  about.textContent = !some ? "No verdict is in sight." : said.chance < 0.5 ? `A verdict in time${within} is ${seldom(said)}: ${percent(said.chance)}.` : passed(said) ? `It takes longer than expected: ${day(said.when[1])} is over.` : `about ${day(said.when[1])}, for ${money(said.spend[1])} in all`;
  about.classList.toggle("text", !about.textContent.startsWith("about"));
  range.textContent = some ? `Nine in ten of ${said.chance < 0.5 ? "those few" : "the simulated"} verdicts come between ${day(said.when[0])} and ${day(said.when[2])}, at the recent pace; ${costs} in all will have been spent. Real ones came late rather than early where we tried it, 28 of 35 within their range: plan with the late date.` : `${costs} would be spent in all.`;
  hope.textContent = `${simulated(said)}${within}. A forecast of ${time(said.made).slice(0, 16)} UTC, and no promise.`;
}

// What is known of one campaign: how sure, and how much better the leader is than every other arm.
export function known({ overview: it, status }) {
  const box = document.getElementById("known"), better = document.getElementById("better");
  box.classList.toggle("decided", it.decided);
  box.classList.toggle("certified", it.certified);
  document.getElementById("sure").textContent = it.decided ? "" : sure(it); // the verdict says it then
  const rows = status.differences.filter((row) => row.arm === it.leader);
  better.replaceChildren();
  if (!rows.length) return;
  const list = element("div", null, "better"), most = Math.max(1e-9, ...rows.flatMap(({ low, high }) => [Math.abs(low), Math.abs(high)]));
  if (status.scale) list.append(element("span", `On the scale ${status.scale}:`, "whole"));
  for (const row of rows) {
    const range = element("div", null, "range"), bar = element("span"), at = (value) => 50 + 50 * value / most;
    bar.style.left = `${at(row.low)}%`;
    bar.style.width = `${at(row.high) - at(row.low)}%`;
    range.setAttribute("role", "img");
    range.setAttribute("aria-label", `from ${interval(row)}`);
    range.append(bar);
    list.append(element("span", `better than ${row.than}`), range, element("span", `${interval(row)}${nothing(row.seen) ? "" : `, ${signed(row.seen)} as seen`}`));
  }
  better.append(list);
}

// Why it does not go on, and the button that helps whoever may press it.
export function banner(stuck, scope, help) {
  const holder = document.getElementById("stuck");
  holder.hidden = !stuck.length;
  holder.replaceChildren(...stuck.map((it) => {
    const line = element("p", it.words), [label, who] = HELPS[it.helps] ?? ["", []];
    if (who.includes(scope)) {
      const button = element("button", label);
      button.type = "button";
      button.dataset.helps = it.helps;
      button.addEventListener("click", () => help(it));
      line.append(button);
    }
    return line;
  }));
}
