// Rates and quantiles from the counters of a node, as its /metrics spells them.

const COUNTED = /^docstore_http_request_seconds_bucket\{method="([A-Z]+)",le="([^"]+)"\} (\d+)/gm;
const READS = new Set(["GET", "HEAD"]);
const NEITHER = new Set(["OPTIONS"]);
const P99 = 0.99;

// {reads, writes}, each {count, buckets: upper limit in seconds -> requests up to it}.
export function requestsIn(metrics) {
  const found = { reads: { count: 0, buckets: {} }, writes: { count: 0, buckets: {} } };
  for (const [, method, limit, count] of metrics.matchAll(COUNTED)) {
    if (NEITHER.has(method)) continue;
    const kind = READS.has(method) ? found.reads : found.writes;
    const seconds = limit === "+Inf" ? Infinity : Number(limit);
    kind.buckets[seconds] = (kind.buckets[seconds] ?? 0) + Number(count);
    if (seconds === Infinity) kind.count += Number(count);
  }
  return found;
}

// null without an earlier value, and after a restart, which begins a counter at 0.
export function perSecond(now, before, seconds) {
  if (typeof before !== "number" || seconds <= 0 || now < before) return null;
  return (now - before) / seconds;
}

// The 99th percentile of the requests between two samples in milliseconds, interpolated within
// its bucket; null without requests.
export function p99(now, before) {
  const total = now.count - (before?.count ?? now.count);
  if (total <= 0) return null;
  const wanted = total * P99;
  let [from, below] = [0, 0];
  for (const limit of Object.keys(now.buckets).map(Number).sort((one, other) => one - other)) {
    const upTo = now.buckets[limit] - (before.buckets[limit] ?? 0);
    if (upTo >= wanted) {
      const part = limit === Infinity ? 0 : (limit - from) * ((wanted - below) / (upTo - below));
      return (from + part) * 1_000;
    }
    [from, below] = [limit, upTo];
  }
  return null;
}
