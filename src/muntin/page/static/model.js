// What the picture shows: the plans in force, with what the job has measured where it runs.

/** Joins with their two states; `status` may be missing, then all figures are predicted. */
export function joinsOf(plans, status, rates = {}) {
  const measured = new Map((status?.joins ?? []).map((join) => [`${join.pipeline}/${join.join}`, join]));
  return plans.flatMap((plan) => plan.joins.map((join) => {
    const id = `${plan.pipeline ?? 0}/${join.join}`;
    return oneJoin(id, join, measured.get(id), rates[id], status?.state !== "ended" ? measured.has(id) : true);
  }));
}

function oneJoin(id, join, live, rate, isLive) {
  return {
    id,
    name: `join ${join.join}`,
    on: join.on.map((key) => `${key.left} = ${key.right}`).join(" and ") || "any pair",
    algorithm: join.algorithm,
    ordering: live?.ordering?.in_force ?? join.order.ordering,
    decision: live?.ordering?.decision ?? null,
    waits: live?.waits_for ?? null,
    heldPairs: live?.held_pairs ?? 0,
    bytes: live?.bytes ?? join.predicted.bytes,
    predicted: join.predicted,
    rate: rate ?? null,
    isLive,
    sides: join.state.map((state, side) => oneSide(join, state, side, live)),
    queries: join.queries.map((query) => ({ ...query, streams: query.streams })),
  };
}

function oneSide(join, state, side, live) {
  const rate = join.traffic.rates[side];
  const rows = live?.slices?.[side] ?? [];
  const total = rows.reduce((sum, piece) => sum + piece.rows, 0);
  return {
    stream: state.stream,
    axis: state.axis,
    reach: state.reach,
    rate: rate.rows_per_second,
    rateKnown: rate.known,
    frontier: live?.frontiers?.[side] ?? null,
    held: live?.held_rows?.[side] ?? 0,
    idle: live?.idle?.[side] ?? false,
    fullest: live?.fullest_keys?.[side] ?? null,
    slices: state.slices.map((slice, n) => {
      const found = rows.find((piece) => piece.lo === slice.from && piece.hi === slice.to);
      const part = found && total ? found.rows / total : slice.predicted.rows / Math.max(1, join.predicted.rows);
      return {
        from: slice.from,
        to: slice.to,
        number: n,
        count: 1,
        readers: slice.readers,
        merged: slice.merged,
        selection: slice.selection,
        predicted: slice.predicted.rows,
        rows: found ? found.rows : slice.predicted.rows,
        measured: Boolean(found),
        bytes: found && live ? Math.round(live.bytes * ownShare(live, side) * part) : slice.predicted.bytes,
        probes: probesOf(join, side, slice.predicted),
        compared: slice.predicted.comparisons_per_second,
      };
    }),
  };
}

/** The part of a join's rows that is of one side: its bytes are known for both together. */
function ownShare(live, side) {
  const of = (n) => live.slices[n].reduce((sum, piece) => sum + piece.rows, 0);
  return of(side) / Math.max(1, of(0) + of(1));
}

/** Rows of the other stream that look into a slice per second of event time, by the selections that have been measured:
 *  each looks at those of its rows that have its key. */
function probesOf(join, side, predicted) {
  const all = join.traffic.rates[1 - side].rows_per_second;
  const seen = predicted.rows * (join.traffic.match ?? 1);
  return seen > 0 ? Math.min(all, predicted.comparisons_per_second / seen) : all;
}

/** Neighbours that would be too narrow to see become one. */
export function grouped(slices, width, least) {
  const found = [];
  for (const slice of slices) {
    const last = found[found.length - 1];
    if (last && width(last.from, last.to) < least) {
      const readers = [...new Set([...last.readers, ...slice.readers])];
      const selection = last.selection && slice.selection ? [...new Set([...last.selection, ...slice.selection])] : null;
      found[found.length - 1] = {
        ...last, to: slice.to, readers, selection, count: last.count + 1, merged: last.merged || slice.merged,
        rows: last.rows + slice.rows, predicted: last.predicted + slice.predicted, bytes: last.bytes + slice.bytes,
        compared: last.compared + slice.compared,
      };
    } else found.push({ ...slice });
  }
  return found;
}

/** Queries with the same windows hang from the same slices: where there are many they are drawn as one. */
export function hanging(queries, most) {
  if (queries.length <= most) return queries.map((query) => ({ names: [query.name], query }));
  const groups = new Map();
  for (const query of queries) {
    const key = JSON.stringify(query.window);
    if (!groups.has(key)) groups.set(key, { names: [], query });
    groups.get(key).names.push(query.name);
  }
  const sorted = [...groups.values()].sort((a, b) => reachOf(a.query) - reachOf(b.query));
  const each = Math.ceil(sorted.length / most);
  const rows = [];
  for (let n = 0; n < sorted.length; n += each) {
    const part = sorted.slice(n, n + each);
    rows.push({ names: part.flatMap((group) => group.names), query: part[part.length - 1].query, least: part[0].query });
  }
  return rows;
}

function reachOf(query) {
  return Math.max(query.window[0].to, query.window[1].to);
}
