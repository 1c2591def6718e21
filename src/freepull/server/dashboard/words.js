// Numbers, money, times and names as people read them, and elements that hold text only.
const DIGITS = { BIF: 0, CLP: 0, DJF: 0, GNF: 0, ISK: 0, JPY: 0, KMF: 0, KRW: 0, PYG: 0, RWF: 0, UGX: 0, UYI: 0, VND: 0, VUV: 0,
  XAF: 0, XOF: 0, XPF: 0, BHD: 3, IQD: 3, JOD: 3, KWD: 3, LYD: 3, OMR: 3, TND: 3, CLF: 4, UYW: 4 };

// Every name reaches the page through here or textContent, never as HTML.
export function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined && text !== null) made.textContent = String(text);
  if (className) made.className = className;
  return made;
}

export const nothing = (value) => value === null || value === undefined;
export const major = (minor, currency) => minor / 10 ** (DIGITS[currency] ?? 2);
export const money = (it) => nothing(it) ? "–" : `${major(it.minor, it.currency).toFixed(DIGITS[it.currency] ?? 2)} ${it.currency}`;
export const count = (value) => nothing(value) ? "–" : Number(value).toLocaleString("en");
export const many = (value, one, more = `${one}s`) => `${count(value)} ${value === 1 ? one : more}`;
export const time = (text) => text ? text.slice(0, 19).replace("T", " ") : "–";

export function figure(value) {
  if (nothing(value)) return "–";
  if (Math.abs(value) >= 1e6) return value.toExponential(1).replace("e+", "·10^");
  return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(4)));
}

// Where an arm goes, and what that number is.
export const edge = (threshold, verdict) => `${figure(threshold)}${Math.abs(threshold * (verdict?.rests_on.delta ?? 0) - 1) < 1e-6 ? " = 1/δ" : ""}`;

export function left(text, now) {
  let seconds = Math.max(0, Math.round((Date.parse(text) - now) / 1000));
  const parts = [];
  for (const [size, name] of [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]]) {
    if (seconds >= size) parts.push(`${Math.floor(seconds / size)} ${name}`);
    seconds %= size;
  }
  return parts.slice(0, 2).join(" ") || "now";
}

// A detail of the audit as text: plain pairs, whatever is nested stays JSON.
export function detail(it) {
  const text = (value) => value !== null && typeof value === "object" ? JSON.stringify(value) : String(value);
  return Object.entries(it).filter(([, value]) => value !== null && value !== "").map(([name, value]) => `${name}: ${text(value)}`).join(", ");
}
