// Tables of a campaign.
import { count, detail, element, figure, left, many, money, nothing, time } from "./words.js";

const LONG = 90;
const OWN = ["step ended", "parked"]; // what a campaign does by itself
const on = (title) => ({ scale }) => scale ? `${title} (${scale})` : title;
const TABLES = {
  arms: { title: "Arms", empty: "There is no arm.", out: (r) => !r.active, columns: [
    ["Arm", (r) => r.name, "name"], ["Standing", (r) => r.active ? "in" : r.withdrawn ? "withdrawn" : "out"], [on("Mean per agent"), (r) => figure(r.mean), "number"],
    [on("Mean in comparisons"), (r) => figure(r.compared), "number", ({ comparisons }) => !nothing(comparisons)],
    [({ phase, threshold }) => phase === null ? "Evidence or bound" : threshold === null ? "Bound (±)" : `Evidence (out at ${figure(threshold)})`, (r) => figure(r.bound), "number"], ["Pulls", (r) => count(r.pulls), "number"],
    ["Free", (r) => count(r.pulls - r.paid), "number"], ["Paid", (r) => count(r.paid), "number"]] },
  differences: { title: (status) => `How much better one arm is than another${status.scale ? `, on the scale ${status.scale}` : ""}${status.decided ? ", as it was at the decision" : ""}`, columns: [
    ["Arm", (r) => r.arm, "name"], ["than", (r) => r.than, "name"], ["At least", (r) => figure(r.low), "number"], ["At most", (r) => figure(r.high), "number"], ["Seen", (r) => figure(r.seen), "number"],
    ["Over the first comparisons", (r) => count(r.comparisons), "number"], ["Of agents", (r) => count(r.people), "number"]] },
  checks: { title: "Checks", empty: "No assumption is checked here.", columns: [
    ["Check", (r) => r.name, "name"], ["Standing", (r) => r.alarmed ? "alarm" : r.e_value === null ? "counted" : r.counted === 0 ? "nothing yet" : "no alarm"], ["Evidence", (r) => r.e_value === null ? "–" : figure(r.e_value), "number"],
    ["Alarm at", (r) => r.e_value === null ? "–" : figure(1 / r.level), "number"], ["Missing", (r) => `${figure(100 * r.missing)} %`, "number"], ["In words", (r) => r.why, "detail"]] },
  offers: { title: "Open offers", empty: "No offer is open.", columns: [
    ["Offer", (r) => r.offer, "number"], ["Agent", (r) => r.agent, "name"], ["Arm", (r) => r.arm, "name"], ["Bonus", (r) => money(r.bonus), "number"],
    ["Time left", (r) => left(r.expires, Date.now()), "number"], ["Standing", (r) => r.recalled ? "taken back" : "open"]] },
  ledger: { title: "Ledger", empty: "Nothing was paid yet.", columns: [
    ["Entry", (r) => r.entry, "number"], ["At (UTC)", (r) => time(r.at), "when"], ["Agent", (r) => r.agent, "name"],
    ["Arm", (r) => r.arm, "name"], ["Amount", (r) => money(r.amount), "number"], ["Payout", (r) => r.settlement]] },
  bans: { title: "Bans", empty: "Nobody was banned.", columns: [
    ["Agent", (r) => r.agent, "name"], ["At (UTC)", (r) => time(r.at), "when"], ["Reason", (r) => `refused offer ${r.offer} in step ${r.step}`, "detail"],
    ["Until", (r) => r.lifted ? `lifted ${time(r.lifted)}` : r.until === null ? "for ever" : `step ${r.until}`]] },
  audit: { title: "Audit", empty: "Nothing happened yet.", columns: [
    ["At (UTC)", (r) => time(r.at), "when"], ["Who", (r) => r.who || (OWN.includes(r.action) || r.detail.why === "its time was over" ? "the campaign" : "not said"), "when"], ["What", (r) => r.action], ["Detail", (r) => r.words ?? detail(r.detail), "detail"]] },
};

export function build(holder) {
  holder.replaceChildren();
  for (const [name, { title }] of Object.entries(TABLES)) {
    const section = element("section", null, `table ${name}`), head = element("h3", typeof title === "function" ? "" : title), scroll = element("div", null, "scroll");
    head.id = `table-${name}-title`;
    scroll.id = `table-${name}`;
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-labelledby", head.id);
    section.append(head, scroll);
    holder.append(section);
  }
}

// What may be done about a row stands in its last cell.
export function fill(name, rows, status, action) {
  const { title: called, empty, out } = TABLES[name], columns = TABLES[name].columns.filter(([, , , when]) => !when || when(status));
  const holder = document.getElementById(`table-${name}`);
  if (typeof called === "function") document.getElementById(`table-${name}-title`).textContent = called(status);
  holder.parentElement.hidden = !rows.length && !empty;
  if (!rows.length) { holder.replaceChildren(element("p", empty, "empty")); return; }
  const table = element("table"), top = element("thead"), head = element("tr"), body = element("tbody");
  for (const [title, , kind] of columns) {
    const cell = element("th", typeof title === "function" ? title(status) : title, kind);
    cell.scope = "col";
    head.append(cell);
  }
  for (const row of rows) {
    const line = element("tr", null, out?.(row) ? "out" : "");
    for (const [i, [, show, kind]] of columns.entries()) {
      const cell = cellOf(show(row), kind);
      cell.dataset.label = head.children[i].textContent; // phones show a row as lines
      line.append(cell);
    }
    const button = action?.(row);
    if (button) line.lastChild.append(" ", button);
    body.append(line);
  }
  top.append(head);
  table.append(top, body);
  holder.replaceChildren(table);
}

function cellOf(text, kind) {
  if (String(text).length <= LONG) return element("td", text, kind);
  const cell = element("td", null, kind), more = element("details");
  more.append(element("summary", `${text.slice(0, LONG - 20)}…`), element("p", text));
  cell.append(more);
  return cell;
}

// What the end of a step brought, in words.
function ended({ step, eliminated = [], returned = [], bans = [], alarms = [], decided }) {
  const parts = [`step ${step}`, eliminated.length && `out: ${eliminated.join(", ")}`, returned.length && `in again: ${returned.join(", ")}`,
    bans.length && `banned: ${bans.map(({ agent, offer }) => `${agent} (offer ${offer})`).join(", ")}`,
    alarms.length && `alarm: ${alarms.join(", ")}`,
    decided && `decided: ${decided.arm}, ${decided.certified ? "certified" : "not certified"}`];
  return parts.filter(Boolean).join("; ");
}

// What gateways tell, batch after batch, is one line; the newest come first.
export function auditLines(entries) {
  const lines = [];
  for (const entry of entries.toReversed()) {
    const last = lines.at(-1), told = entry.action === "noted" ? entry.detail.told : undefined;
    if (told !== undefined && last?.told !== undefined && last.who === entry.who) {
      last.told += told;
      last.batches += 1;
      last.words = `${many(last.told, "pull")} in ${many(last.batches, "batch", "batches")}`;
    } else if (["step_ended", "step_closed"].includes(entry.action)) lines.push({ ...entry, action: "step ended", words: ended(entry.detail) });
    else if (entry.action === "budget") lines.push({ ...entry, words: entry.detail.budget ?? "none: no limit" });
    else lines.push({ ...entry, told, batches: 1, ...(told === undefined ? {} : { action: "told", words: many(told, "pull") }) });
  }
  return lines;
}
