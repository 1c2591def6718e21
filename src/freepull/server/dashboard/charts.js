// Draws the charts: a frame for each, what plotly draws, and a sentence that says the same in words.
import { MAKERS } from "./makers.js";
import { element } from "./words.js";

const STYLE = { displayModeBar: false, responsive: true };

export function build(holder) {
  for (const plot of holder.querySelectorAll(".plot")) if (plot.data) Plotly.purge(plot);
  holder.replaceChildren();
  for (const [name, { title }] of Object.entries(MAKERS)) {
    const box = element("figure", null, "chart"), caption = element("h3", title), note = element("p", "", "note");
    const plot = element("div", null, "plot"), more = element("details"), words = element("p");
    caption.id = `chart-${name}-title`;
    note.id = `chart-${name}-note`;
    plot.id = `chart-${name}`;
    plot.setAttribute("role", "img");
    plot.setAttribute("aria-labelledby", `${caption.id} chart-${name}-text`);
    words.id = `chart-${name}-text`;
    more.append(element("summary", "In words"), words);
    box.append(caption, note, plot, more);
    holder.append(box);
  }
}

export function draw(data) {
  for (const [name, { make }] of Object.entries(MAKERS)) {
    try {
      show(name, make(data));
    } catch (error) { // one chart never stops the others
      show(name, { words: `This chart could not be drawn: ${error.message}.` });
    }
  }
}

function show(name, made) {
  const holder = document.getElementById(`chart-${name}`);
  holder.parentElement.hidden = !made;
  if (!made) return;
  document.getElementById(`chart-${name}-text`).textContent = made.words;
  document.getElementById(`chart-${name}-note`).textContent = made.note ?? "";
  holder.style.height = made.height ? `${made.height}px` : "";
  if (!made.traces) {
    if (holder.data) Plotly.purge(holder);
    holder.replaceChildren(element("p", made.words, "empty"));
    return;
  }
  if (holder.firstChild?.className === "empty") holder.replaceChildren();
  Plotly.react(holder, made.traces, layout(made), STYLE);
}

function layout({ x = {}, y = {}, shapes = [], more = {} }) {
  const style = getComputedStyle(document.documentElement), read = (name) => style.getPropertyValue(name).trim();
  const axis = { gridcolor: read("--grid"), zerolinecolor: read("--line"), linecolor: read("--line"), automargin: true, fixedrange: true };
  const font = { color: read("--soft"), size: 12, family: "system-ui, sans-serif" };
  return { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font, margin: { l: 44, r: 12, t: 10, b: 32 },
    xaxis: { ...axis, ...x }, yaxis: { ...axis, ...y }, shapes, bargap: 0.35, dragmode: false,
    legend: { orientation: "h", traceorder: "normal", x: 0, y: 1.02, yanchor: "bottom", font: { ...font, color: read("--ink") } },
    hovermode: "closest", hoverlabel: { font: { family: "system-ui, sans-serif" } }, showlegend: false, ...more };
}
