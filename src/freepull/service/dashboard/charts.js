// One function a chart; each returns what plotly draws and a sentence that says the same in words.
import { count, element, figure, money } from "./tables.js";

const COLOURS = ["#1f77b4", "#e1812c", "#3a923a", "#c03d3e", "#9372b2", "#845b53", "#d684bd", "#7f7f7f", "#a9aa35", "#2eabb8"];
const GREY = "#9aa4af";
const CHARTS = { means: "Global mean per arm", stops: "What stops the trial, now", evidence: "What stops the trial, over time",
  active: "Arms still in", spend: "Cumulative bonus", pulls: "Free and paid pulls", agents: "Pulls per agent", offers: "Offers", heat: "Who pulls what" };
const STYLE = { displayModeBar: false, responsive: true };
const colour = (arm, k) => arm.active ? COLOURS[k % COLOURS.length] : GREY;
// Plotly reads a little HTML in labels, so names lose what would be a tag.
const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const short = (text) => plain(text.length > 24 ? `${text.slice(0, 23)}…` : text);

export function build(holder) {
  for (const [name, title] of Object.entries(CHARTS)) {
    const box = element("figure", null, "chart");
    box.style.margin = "0";
    const caption = element("h3", title);
    caption.id = `chart-${name}-title`;
    const plot = element("div", null, "plot");
    plot.id = `chart-${name}`;
    plot.setAttribute("role", "img");
    plot.setAttribute("aria-labelledby", `${caption.id} chart-${name}-text`);
    const more = element("details"), words = element("p");
    words.id = `chart-${name}-text`;
    more.append(element("summary", "In words"), words);
    box.append(caption, plot, more);
    holder.append(box);
  }
}

export function draw(data) {
  for (const name of Object.keys(CHARTS)) {
    const holder = document.getElementById(`chart-${name}`);
    const made = MAKERS[name](data);
    document.getElementById(`chart-${name}-text`).textContent = made.words;
    if (!made.traces) {
      Plotly.purge(holder);
      holder.replaceChildren(element("p", made.words, "empty"));
      continue;
    }
    if (holder.firstChild?.className === "empty") holder.replaceChildren();
    Plotly.react(holder, made.traces, layout(made), STYLE);
  }
}

function layout({ x = {}, y = {}, shapes = [], more = {} }) {
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--ink").trim(), line = style.getPropertyValue("--line").trim();
  const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true };
  return { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink, size: 12, family: "system-ui, sans-serif" },
    margin: { l: 48, r: 10, t: 8, b: 36 }, xaxis: { ...axis, ...x }, yaxis: { ...axis, ...y }, shapes,
    legend: { orientation: "h", y: 1.15 }, hovermode: "closest", ...more };
}

const level = (at) => ({ type: "line", xref: "paper", x0: 0, x1: 1, y0: at, y1: at, line: { dash: "dash", width: 2, color: "#c03d3e" } });
const nothing = (words) => ({ words });
const names = (arms) => arms.map((arm) => short(arm.name));
const AXIS = { title: { text: "observations" } };

const MAKERS = {
  means({ status: { arms, threshold } }) {
    if (arms[0].mean === null) return nothing("The campaign has not started.");
    const words = arms.map((arm) => `${arm.name}: ${figure(arm.mean)}${arm.active ? "" : " (out)"}`).join("; ") + ".";
    const error = threshold === null ? { type: "data", array: arms.map((arm) => arm.bound ?? 0) } : undefined;
    return { words, traces: [{ type: "bar", x: names(arms), y: arms.map((arm) => arm.mean), error_y: error, marker: { color: arms.map(colour) } }], y: { range: [0, 1] } };
  },
  stops({ status: { arms, threshold } }) {
    if (arms[0].mean === null) return nothing("The campaign has not started.");
    if (threshold === null) {
      const finite = arms.filter((arm) => arm.bound !== null);
      if (!finite.length) return nothing("This rule has no bound that could stop the trial yet.");
      const words = `Mean ± bound: ${arms.map((arm) => `${arm.name} ${figure(arm.mean)} ± ${figure(arm.bound)}`).join("; ")}. An arm goes when its upper end is below another's lower end.`;
      return { words, traces: [{ type: "scatter", mode: "markers", x: names(arms), y: arms.map((arm) => arm.mean),
        error_y: { type: "data", array: arms.map((arm) => arm.bound ?? 0) }, marker: { size: 10, color: arms.map(colour) } }] };
    }
    const words = `Evidence against ${arms.map((arm) => `${arm.name}: ${figure(arm.bound)}`).join("; ")}. An arm goes at ${figure(threshold)}.`;
    const top = Math.max(threshold, ...arms.map((arm) => arm.bound ?? 1));
    return { words, shapes: [level(threshold)], y: { type: "log", range: [-1.2, Math.log10(top) + 0.2] },
      traces: [{ type: "bar", x: names(arms), y: arms.map((arm) => Math.max(arm.bound ?? 0, 0.05)), base: 0.05, marker: { color: arms.map(colour) } }] };
  },
  evidence({ history, status: { arms, threshold } }) {
    if (history.length < 2) return nothing("There is no history yet.");
    const traces = arms.map((arm, k) => ({ type: "scatter", mode: "lines", name: short(arm.name), line: { color: colour(arm, k) },
      x: history.map((it) => it.observations), y: history.map((it) => it.bounds[k] === null ? null : Math.max(it.bounds[k], 0.05)) }));
    const first = history[0], last = history.at(-1);
    const words = arms.map((arm, k) => `${arm.name}: from ${figure(first.bounds[k])} to ${figure(last.bounds[k])}`).join("; ") + ".";
    return { traces, words, x: AXIS, y: threshold === null ? {} : { type: "log" }, shapes: threshold === null ? [] : [level(threshold)] };
  },
  active({ history, status: { arms } }) {
    if (history.length < 2) return nothing("There is no history yet.");
    const y = history.map((it) => it.active.filter(Boolean).length);
    return { words: `${y.at(-1)} of ${arms.length} arms are still in.`, x: AXIS, y: { rangemode: "tozero", dtick: Math.max(1, Math.ceil(arms.length / 6)) },
      traces: [{ type: "scatter", mode: "lines", line: { shape: "hv", color: COLOURS[0] }, x: history.map((it) => it.observations), y }] };
  },
  spend({ history, status }) {
    if (history.length < 2) return nothing("There is no history yet.");
    const unit = Number(money({ minor: 1, currency: status.spent.currency }).split(" ")[0]);
    const traces = [{ type: "scatter", mode: "lines", name: "spent", line: { color: COLOURS[0] }, x: history.map((it) => it.observations), y: history.map((it) => it.spent * unit) }];
    const last = history.at(-1), half = history[Math.floor(history.length / 2)];
    const rate = (last.spent - half.spent) / Math.max(1, last.observations - half.observations);
    let words = `${money(status.spent)} was spent in ${count(status.observations)} observations.`;
    if (status.horizon && !status.decided && status.status === "running") {
      const end = status.horizon * status.agents, then = last.spent + rate * Math.max(0, end - last.observations);
      const most = status.budget ? Math.min(then, status.budget.minor) : then;
      traces.push({ type: "scatter", mode: "lines", name: "if it goes on like this", line: { dash: "dot", color: COLOURS[1] }, x: [last.observations, end], y: [last.spent * unit, most * unit] });
      words += ` If it goes on like this, it is ${money({ minor: Math.round(most), currency: status.spent.currency })} at the horizon.`;
    }
    return { traces, words, x: AXIS, y: { rangemode: "tozero", title: { text: status.spent.currency } }, shapes: status.budget ? [level(status.budget.minor * unit)] : [] };
  },
  pulls({ status: { arms } }) {
    if (!arms.some((arm) => arm.pulls)) return nothing("Nobody has pulled an arm yet.");
    const bar = (name, y, color) => ({ type: "bar", name, x: names(arms), y, marker: { color } });
    return { words: arms.map((arm) => `${arm.name}: ${count(arm.pulls - arm.paid)} free, ${count(arm.paid)} paid`).join("; ") + ".", more: { barmode: "stack" },
      traces: [bar("free", arms.map((arm) => arm.pulls - arm.paid), COLOURS[0]), bar("paid", arms.map((arm) => arm.paid), COLOURS[1])] };
  },
  agents({ pulls, status: { arms } }) {
    if (!pulls.quantiles.length) return nothing("Nobody has pulled an arm yet.");
    const all = ["all arms", ...arms.map((arm) => arm.name)];
    const [least, , q1, median, q3, , most] = [0, 1, 2, 3, 4, 5, 6].map((i) => pulls.quantiles.map((row) => row[i]));
    return { words: all.map((name, i) => `${name}: from ${figure(least[i])} to ${figure(most[i])}, median ${figure(median[i])}`).join("; ") + `, over ${pulls.sampled ? "a sample of" : "all"} agents.`,
      traces: [{ type: "box", x: all.map(short), lowerfence: least, q1, median, q3, upperfence: most, marker: { color: COLOURS[0] } }], y: { rangemode: "tozero" } };
  },
  offers({ status: it }) {
    if (!it.offered) return nothing("No offer was made yet.");
    const parts = [["made", it.offered], ["paid", it.paid], ["refused", it.refused], ["expired", it.expired], ["cancelled", it.cancelled], ["open", it.open_offers]];
    return { words: parts.map(([name, n]) => `${count(n)} ${name}`).join(", ") + ".", y: { autorange: "reversed" },
      traces: [{ type: "bar", orientation: "h", y: parts.map(([name]) => name), x: parts.map(([, n]) => n), text: parts.map(([, n]) => count(n)),
        marker: { color: [COLOURS[0], COLOURS[2], COLOURS[3], COLOURS[1], GREY, COLOURS[4]] } }] };
  },
  heat({ pulls, status: { arms } }) {
    if (!pulls.names.length) return nothing("Nobody has pulled an arm yet.");
    const words = `Pulls of ${count(pulls.names.length)} ${pulls.names.length < pulls.agents ? `of ${count(pulls.agents)} agents (a sample)` : "agents"} by arm; the most by one agent is ${count(Math.max(...pulls.pulls.flat()))}.`;
    return { words, y: { showticklabels: pulls.names.length <= 20, type: "category" }, traces: [{ type: "heatmap", x: names(arms), y: pulls.names.map((name, i) => `${i} ${short(name)}`), z: pulls.pulls, colorscale: "Viridis", colorbar: { thickness: 10 } }] };
  },
};
