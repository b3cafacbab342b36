// Numbers, sizes, ages and times as people read them.

export function count(n) {
  if (n === null || n === undefined || Number.isNaN(n)) return "–";
  const size = Math.abs(n);
  if (size >= 1e9) return trim(n / 1e9) + " bn";
  if (size >= 1e6) return trim(n / 1e6) + " m";
  if (size >= 1e4) return trim(n / 1e3) + " k";
  return size >= 100 || Number.isInteger(n) ? Math.round(n).toLocaleString("en") : trim(n);
}

export function bytes(n) {
  if (n === null || n === undefined) return "–";
  for (const [unit, size] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) if (n >= size) return `${trim(n / size)} ${unit}`;
  return `${Math.round(n)} B`;
}

export function seconds(s) {
  if (s === null || s === undefined || Number.isNaN(s)) return "–";
  if (s < 1) return `${trim(s * 1000)} ms`;
  return s < 120 ? `${trim(s)} s` : age(s * 1e6, "time");
}

/** An age of microseconds, or of rows. */
export function age(value, axis) {
  if (axis !== "time") return `${count(value)} rows`;
  const units = [["d", 864e8], ["h", 36e8], ["min", 6e7], ["s", 1e6], ["ms", 1e3]];
  const [unit, us] = units.find(([, size]) => value >= size && value % size === 0) ?? units.find(([, size]) => value >= size) ?? ["µs", 1];
  return value ? `${trim(value / us)} ${unit}` : "0";
}

export function share(part) {
  return part === null || part === undefined || !Number.isFinite(part) ? "–" : `${trim(100 * part)}%`;
}

/** An ISO time without what all of them have in common. */
export function moment(iso) {
  if (!iso) return "no rows yet";
  return iso.replace("T", " ").replace(/(\.\d{1,3})\d*/, "$1").replace(/\+00:00$|Z$/, "");
}

export function clock(t) {
  return new Date(t * 1000).toLocaleTimeString("en-GB");
}

export function several(n, one, many) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

export function trim(n) {
  const size = Math.abs(n);
  return String(Number(n.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2)));
}

export function shorten(text, length) {
  return text.length <= length ? text : text.slice(0, Math.max(1, length - 1)) + "…";
}
