// Tables. Every name is put on the page as text, never as HTML.
export function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined && text !== null) made.textContent = String(text);
  if (className) made.className = className;
  return made;
}

export function money(amount) {
  if (amount === null || amount === undefined) return "–";
  const digits = new Intl.NumberFormat("en", { style: "currency", currency: amount.currency }).resolvedOptions().maximumFractionDigits;
  return `${(amount.minor / 10 ** digits).toFixed(digits)} ${amount.currency}`;
}

export const count = (value) => value === null || value === undefined ? "–" : Number(value).toLocaleString("en");
export const figure = (value) => value === null || value === undefined ? "–"
  : Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(4)));
export const time = (text) => text ? text.slice(0, 19).replace("T", " ") : "–";

export function left(text, now) {
  const seconds = Math.max(0, Math.round((Date.parse(text) - now) / 1000));
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]].map(([size, name], i, all) =>
    [Math.floor((i ? seconds % all[i - 1][0] : seconds) / size), name]);
  return parts.filter(([n]) => n).slice(0, 2).map(([n, name]) => `${n} ${name}`).join(" ") || "now";
}

const TABLES = {
  arms: { title: "Arms", columns: [["Arm", (r) => r.name], ["Standing", (r) => r.active ? "in" : "out"], ["Mean", (r) => figure(r.mean), "number"],
    ["What stops it", (r) => figure(r.bound), "number"], ["Pulls", (r) => count(r.pulls), "number"], ["Paid", (r) => count(r.paid), "number"]], out: (r) => !r.active },
  offers: { title: "Open offers", empty: "No offer is open.", columns: [["Offer", (r) => r.offer, "number"], ["Agent", (r) => r.agent], ["Arm", (r) => r.arm],
    ["Time left", (r) => left(r.expires, Date.now()), "number"], ["Standing", (r) => r.recalled ? "taken back" : "open"]] },
  ledger: { title: "Ledger", empty: "Nothing was paid yet.", columns: [["Entry", (r) => r.entry, "number"], ["At (UTC)", (r) => time(r.at), "when"], ["Agent", (r) => r.agent],
    ["Arm", (r) => r.arm], ["Amount", (r) => money(r.amount), "number"]] },
  bans: { title: "Bans", empty: "Nobody is banned.", columns: [["Agent", (r) => r.agent], ["Reason", (r) => `refused offer ${r.offer} in step ${r.step}`],
    ["Until", (r) => r.lifted ? `lifted ${time(r.lifted)}` : r.until === null ? "for ever" : `step ${r.until}`]] },
  audit: { title: "Audit", empty: "Nothing happened yet.", columns: [["At (UTC)", (r) => time(r.at), "when"], ["Who", (r) => r.who || "the campaign"], ["What", (r) => r.action],
    ["Detail", (r) => Object.keys(r.detail).length ? JSON.stringify(r.detail) : ""]] },
};

export function build(holder) {
  for (const [name, { title }] of Object.entries(TABLES)) {
    const section = element("section", null, "table");
    const head = element("h3", title);
    head.id = `table-${name}-title`;
    const scroll = element("div", null, "scroll");
    scroll.id = `table-${name}`;
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-labelledby", head.id);
    section.append(head, scroll);
    holder.append(section);
  }
}

export function fill(name, rows) {
  const { columns, empty, out } = TABLES[name];
  const holder = document.getElementById(`table-${name}`);
  if (!rows.length) { holder.replaceChildren(element("p", empty, "empty")); return; }
  const table = element("table"), head = element("tr"), body = element("tbody");
  for (const [title, , kind] of columns) {
    const cell = element("th", title, kind);
    cell.scope = "col";
    head.append(cell);
  }
  for (const row of rows) {
    const line = element("tr", null, out?.(row) ? "out" : "");
    for (const [, show, kind] of columns) line.append(element("td", show(row), kind));
    body.append(line);
  }
  const top = element("thead");
  top.append(head);
  table.append(top, body);
  holder.replaceChildren(table);
}
