// One chart an entry: its title, and how to make it from what the stream sent; where nothing is made, there is no box.
import { count, edge, figure, major, many, money, nothing } from "./words.js";

const COLOURS = ["#2f7ed8", "#e6842a", "#2e9e6b", "#c94f7c", "#8a6fd1", "#a0792c", "#2aa5b8", "#d1495b", "#7d9a2d", "#5a6f8f"];
const GREY = "#98a2ae", PAID = "#e6842a", BAR = "#d1495b";
const SMALLEST = 0.05, EACH = 40;
const NOT_STARTED = "The campaign has not started.", NO_PULLS = "Nobody has pulled an arm yet.", NO_HISTORY = "There is no history yet.";

// Plotly reads a little HTML in labels, so names lose what would be a tag.
const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const short = (text) => plain(text.length > 18 ? `${text.slice(0, 17)}…` : text);
const colour = (arm, k) => arm.active ? COLOURS[k % COLOURS.length] : GREY;
const label = (all) => all.map(({ name }) => short(name)).map((name, k, names) => names.indexOf(name) === k ? name : `${name} #${k}`);
const list = (arms, show) => arms.map((arm, k) => `${arm.name}: ${show(arm, k)}`).join("; ");
const level = (at) => ({ type: "line", xref: "paper", x0: 0, x1: 1, y0: at, y1: at, line: { dash: "dash", width: 2, color: BAR } });
const pulled = (status) => status.arms.some((arm) => arm.pulls > 0);
const wait = (status) => ({ words: status.phase === null ? NOT_STARTED : NO_PULLS });
const bars = (arms, y, more = {}) => ({ type: "bar", x: label(arms), y, marker: { color: arms.map(colour) }, ...more });
const ends = ({ scale }) => scale && scale !== "yes/no" ? scale.split(" ")[0].split("..").map(Number) : [0, 1];
const X = { title: { text: "observations", standoff: 6 } };
const POWERS = { type: "log", dtick: 1, tickformat: "~g" };
const past = (history) => history.length > 1 && history.at(-1).observations > 0;
const faint = (hex) => `rgba(${[1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)).join(",")},.14)`;

function means({ status }) {
  if (!pulled(status)) return wait(status);
  return { words: `${list(status.arms, (arm) => figure(arm.mean) + (arm.active ? "" : " (out)"))}.`, note: `${status.scale ? `on the scale ${status.scale}, ` : ""}of every agent's own mean, over those who pulled it; grey arms are out${nothing(status.comparisons) ? "" : "; the leader is named by means in comparisons"}`,
    traces: [bars(status.arms, status.arms.map((arm) => arm.mean), { text: status.arms.map((arm) => nothing(arm.mean) ? "" : figure(Number(arm.mean.toFixed(3)))), textposition: "inside", insidetextanchor: "end" })],
    y: { range: ends(status) } };
}

function stops({ status, verdict }) {
  const { arms, threshold } = status;
  if (!pulled(status)) return wait(status);
  if (threshold === null) {
    if (arms.every((arm) => nothing(arm.bound))) return { words: "This rule has no bound that stops the trial yet." };
    return { words: `Mean ± bound: ${list(arms, (arm) => `${figure(arm.mean)} ± ${figure(arm.bound)}`)}. An arm goes when its upper end is below another's lower end.`,
      note: "mean ± confidence bound; out when below all of another",
      traces: arms.map((arm, k) => ({ type: "scatter", mode: "markers", x: [label(arms)[k]], y: [arm.mean], marker: { size: 10, color: colour(arm, k) },
        error_y: { type: "data", array: [arm.bound ?? 0], thickness: 2.5, width: 8, color: colour(arm, k) } })) };
  }
  const top = Math.max(threshold, ...arms.map((arm) => arm.bound ?? 1));
  return { words: `Evidence against ${list(arms, (arm) => figure(arm.bound))}. An arm goes at ${edge(threshold, verdict)}.${nothing(status.within) ? "" : ` That ${status.leader} is best up to ε = ${figure(status.epsilon)} has evidence ${figure(status.within)}, and decides there too.`}`, note: `evidence against it; out at ${edge(threshold, verdict)} (dashed)${nothing(status.within) ? "" : `; that ${status.leader} is best up to ε = ${figure(status.epsilon)}: ${figure(status.within)}`}`,
    shapes: [level(threshold)], y: { ...POWERS, range: [Math.log10(SMALLEST), Math.log10(top) + 0.25] },
    traces: [bars(arms, arms.map((arm) => Math.max(arm.bound ?? 0, SMALLEST) - SMALLEST), { base: SMALLEST })] };
}

function differences({ status }) {
  const known = status.differences, names = label(status.arms), at = (name) => status.arms.findIndex((arm) => arm.name === name);
  if (!known.length) return null; // only some rules say so, and not from the beginning
  const tick = ({ arm, than }) => [names[at(arm)], `above ${names[at(than)]}`];
  const wraps = known.some((it) => tick(it).join(" ").length > 18), tint = (it) => status.arms[at(it.than)].active ? COLOURS[0] : GREY;
  return { words: `${known.map((it) => `${it.arm} above ${it.than}: from ${figure(it.low)} to ${figure(it.high)}, over the first ${many(it.comparisons, "comparison")}, of ${many(it.people, "agent")}`).join("; ")}.`,
    note: `at least and at most, on average${status.scale ? `, on the scale ${status.scale}` : ""}${status.decided ? ", as it was at the decision" : ""}; grey is out`, x: { zeroline: true, zerolinewidth: 2 }, y: { type: "category", range: [known.length - 0.5, -0.5], dtick: 1 }, height: Math.max(240, (wraps ? 40 : 28) * known.length + 80),
    traces: known.map((it) => ({ type: "scatter", mode: "lines+markers", y: Array(2).fill(tick(it).join(wraps ? "<br>" : " ")), x: [it.low, it.high],
      line: { width: 4, color: tint(it) }, marker: { size: 9, symbol: "line-ns-open", color: tint(it) } })) };
}

function evidence({ history, verdict, status: { arms, threshold } }) {
  if (!past(history)) return { words: NO_HISTORY };
  const last = history.at(-1), more = { showlegend: arms.length <= 6 };
  const names = label(arms), line = (arm, k, y, style = {}) => ({ type: "scatter", mode: "lines", name: names[k], x: history.map((it) => it.observations), y,
    line: { color: COLOURS[k % COLOURS.length], width: 2, dash: arm.active ? "solid" : "dot" }, ...style });
  if (threshold === null) {
    const end = (k, sign) => history.map((it) => nothing(it.bounds[k]) || nothing(it.means[k]) ? null : it.means[k] + sign * it.bounds[k]);
    const hidden = { showlegend: false, hoverinfo: "skip", line: { width: 0 } };
    const band = (arm, k) => [line(arm, k, end(k, 1), hidden), line(arm, k, end(k, -1), { ...hidden, fill: "tonexty", fillcolor: faint(COLOURS[k % COLOURS.length]) }),
      line(arm, k, history.map((it) => nothing(it.bounds[k]) ? null : it.means[k]))];
    return { traces: arms.flatMap(band), x: X, more, note: "mean ± confidence bound",
      words: `Mean ± bound: ${list(arms, (_, k) => `now ${figure(last.means[k])} ± ${figure(last.bounds[k])}`)}.` };
  }
  const traces = arms.map((arm, k) => line(arm, k, history.map((it) => nothing(it.bounds[k]) ? null : Math.max(it.bounds[k], SMALLEST))));
  return { traces, x: X, y: POWERS, shapes: [level(threshold)], more, note: `out at ${edge(threshold, verdict)} (dashed); dotted arms are out`,
    words: `${list(arms, (_, k) => `from ${figure(history[0].bounds[k])} to ${figure(last.bounds[k])}`)}.` };
}

function active({ history, status: { arms } }) {
  if (!past(history)) return { words: NO_HISTORY };
  const y = history.map((it) => it.active.filter(Boolean).length);
  return { words: `${y.at(-1)} of ${arms.length} arms ${y.at(-1) === 1 ? "is" : "are"} still in.`, note: `${y.at(-1)} of ${arms.length} now`, x: X,
    y: { range: [0, arms.length + 0.3], dtick: Math.max(1, Math.ceil(arms.length / 6)) },
    traces: [{ type: "scatter", mode: "lines", line: { shape: "hv", color: COLOURS[0], width: 2 }, fill: "tozeroy", fillcolor: "rgba(47,126,216,.12)", x: history.map((it) => it.observations), y }] };
}

function spend({ history, status }) {
  if (!past(history)) return { words: NO_HISTORY };
  const { currency } = status.spent, amount = (minor) => major(minor, currency);
  const last = history.at(-1), paying = history.filter((it) => it.spent > 0), half = paying[Math.floor(paying.length / 2)];
  const traces = [{ type: "scatter", mode: "lines", name: "spent", line: { color: COLOURS[0], width: 2 }, x: history.map((it) => it.observations), y: history.map((it) => amount(it.spent)) }];
  let words = `${money(status.spent)} was spent in ${many(status.observations, "observation")}.`, why = "";
  const runs = status.status === "running";
  if (runs && status.phase === "observing") why = "no forecast while it only observes";
  if (runs && status.phase === "incentivizing" && status.horizon && half?.observations < last.observations) {
    const rate = (last.spent - half.spent) / Math.max(1, last.observations - half.observations);
    const end = status.horizon * status.agents, then = last.spent + rate * Math.max(0, end - last.observations);
    const most = Math.round(status.budget ? Math.min(then, status.budget.minor) : then);
    traces.push({ type: "scatter", mode: "lines", name: "if it goes on like this", line: { dash: "dot", color: PAID, width: 2 }, x: [last.observations, end], y: [amount(last.spent), amount(most)] });
    words += ` If it goes on like this, it is ${money({ minor: most, currency })} at the horizon.`;
  }
  if (why) words += ` There is ${why}.`;
  const near = status.budget && status.budget.minor <= 4 * Math.max(last.spent, 1);
  return { traces, words, x: X, y: { rangemode: "tozero" }, shapes: near ? [level(amount(status.budget.minor))] : [],
    more: { showlegend: traces.length > 1 }, note: [`in ${currency}`, near && "the dashed line is the budget", why].filter(Boolean).join("; ") };
}

function pulls({ status }) {
  const { arms } = status;
  if (!pulled(status)) return wait(status);
  const bar = (name, y, color) => ({ type: "bar", name, x: label(arms), y, marker: { color } });
  const free = arms.map((arm) => arm.pulls - arm.paid), share = 1 - arms.reduce((sum, arm) => sum + arm.paid, 0) / arms.reduce((sum, arm) => sum + arm.pulls, 0);
  return { words: `${list(arms, (arm, k) => `${count(free[k])} free, ${count(arm.paid)} paid`)}.`, more: { barmode: "stack", showlegend: true }, note: `${(100 * share).toFixed(1)} % were free`,
    traces: [bar("free", free, COLOURS[0]), bar("paid", arms.map((arm) => arm.paid), PAID)] };
}

function agents({ pulls: it, status }) {
  if (!it.quantiles.length || !pulled(status)) return wait(status);
  const all = ["all arms", ...status.arms.map((arm) => arm.name)], at = (i) => it.quantiles.map((row) => row[i]);
  const [least, , q1, median, q3, , most] = [0, 1, 2, 3, 4, 5, 6].map(at), whom = it.sampled ? "a sample of agents" : "all agents";
  return { words: `${all.map((name, i) => `${name}: from ${figure(least[i])} to ${figure(most[i])}, median ${figure(median[i])}`).join("; ")}, over ${whom}.`,
    note: `minimum, quartiles and maximum over ${whom}`, y: { rangemode: "tozero" },
    traces: [{ type: "box", x: ["all arms", ...label(status.arms)], lowerfence: least, q1, median, q3, upperfence: most, line: { width: 1.5 }, marker: { color: COLOURS[0] } }] };
}

function offers({ status: it }) {
  if (!it.offered) return { words: "No offer was made yet." };
  const parts = [["made", it.offered, COLOURS[0]], ["paid", it.paid, COLOURS[2]], ["refused", it.refused, BAR], ["expired", it.expired, PAID], ["cancelled", it.cancelled, GREY], ...(it.lapsed ? [["lapsed", it.lapsed, GREY]] : []), ["open", it.open_offers, COLOURS[4]]];
  return { words: `${parts.map(([name, n]) => `${count(n)} ${name}`).join(", ")}.`, note: "what became of every offer", x: { range: [0, 1.18 * it.offered], nticks: 5 }, y: { autorange: "reversed" },
    traces: [{ type: "bar", orientation: "h", y: parts.map(([name]) => name), x: parts.map(([, n]) => n), text: parts.map(([, n]) => count(n)), textposition: "outside", cliponaxis: false, marker: { color: parts.map(([, , it]) => it) } }] };
}

function heat({ pulls: it, status }) {
  if (!it.names.length || !pulled(status)) return wait(status);
  const rows = it.names.length, some = rows < it.agents, most = Math.max(...it.pulls.flat()), all = rows <= EACH;
  return { words: `Pulls of ${count(rows)} ${some ? `of ${count(it.agents)} agents (a sample)` : "agents"} by arm; the most by one agent is ${count(most)}.`,
    note: some ? `${count(rows)} of ${count(it.agents)} agents, a sample` : "a row is an agent", height: all ? Math.max(240, 12 * rows + 60) : 0,
    y: { type: "category", autorange: "reversed", ...(all ? { dtick: 1, tickfont: { size: 10 } } : {}) },
    traces: [{ type: "heatmap", x: label(status.arms), y: label(it.names.map((name) => ({ name }))), z: it.pulls, zmin: 0, zmax: most, colorscale: "Viridis", colorbar: { thickness: 10, outlinewidth: 0, dtick: Math.max(1, Math.ceil(most / 5)) } }] };
}

export const MAKERS = {
  differences: { title: "How much better", make: differences },
  means: { title: "Global mean per arm", make: means }, stops: { title: "What stops the trial, now", make: stops },
  evidence: { title: "What stops the trial, over time", make: evidence }, active: { title: "Arms still in", make: active },
  spend: { title: "Cumulative bonus", make: spend }, pulls: { title: "Free and paid pulls", make: pulls },
  agents: { title: "Pulls per agent", make: agents }, offers: { title: "Offers", make: offers }, heat: { title: "Who pulls what", make: heat },
};
