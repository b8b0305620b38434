// The number of instances: the same computation and messages as `weir size` (weir-analysis, module `sizing`). The page
// address stores the state of the controls. An end-to-end test compares both results.
const sizing = (() => {
  const { data, digits, time, share: percent, colorOf } = figures;
  const HOURS_PER_MONTH = 730;
  const MONTHS_AHEAD = [12, 24];
  const ROUNDING = 1e-12;
  const MEASURE_AGAIN = "measure again; `weir report RUN` shows why the value is invalid";
  // The result of comparing a value with a limit, from best to worst.
  const [MET, BORDERLINE, UNKNOWN, MISSED] = [0, 1, 2, 3];

  // Formats.
  const rate = (perS) => `${digits(perS)}/s`;
  const count = (value) => Math.round(value).toLocaleString("en-US");
  const plural = (number, noun) => (number === 1 ? `1 ${noun}` : `${count(number)} ${noun}${noun.endsWith("h") ? "es" : "s"}`);
  const TITLES = { p999: "p99.9", p9999: "p99.99", mean: "the mean", max: "the maximum" };
  const title = (name) => TITLES[name] || name;
  const money = (amount) => {
    const places = amount > 0 && amount < 1 ? Math.min(2 - Math.floor(Math.log10(amount)), 12) : 2;
    const scale = 10 ** places;
    const units = Math.round(amount * scale);
    return `${count(Math.floor(units / scale))}.${String(units % scale).padStart(places, "0")}`;
  };
  const range = (mean, low, high) => {
    const split = (text) => {
      const end = text.length - text.match(/\D*$/)[0].length;
      return [text.slice(0, end), text.slice(end)];
    };
    const [[, unit], [lowNumber, lowUnit], [highNumber, highUnit]] = [mean, low, high].map(split);
    return unit === lowUnit && unit === highUnit ? `${lowNumber} .. ${highNumber}` : `${low} .. ${high}`;
  };
  const withInterval = (shown, format) =>
    `${format(shown.mean)} [${range(format(shown.mean), format(shown.low), format(shown.high))}]`;
  const bounded = (bound) => (bound.name === "errors" ? `errors at most ${percent(bound.limit)}`
    : `${(TITLES[bound.name] || bound.name).replace("the maximum", "max").replace("the mean", "mean")} at most ${time(bound.limit)}`);

  // The equivalent command, in units that it accepts. `kept`: the objective if all offers share it, else empty.
  const plainShare = (value) => `${Number((value * 100).toPrecision(12))}%`;
  const plainTime = (ns) => {
    const [unit, scale] = [["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1]].find(([, scale]) => ns > 0 && ns % scale === 0) || ["ns", 1];
    return `${Math.round(ns / scale)}${unit}`;
  };
  const PLAIN = { p999: "p99.9", p9999: "p99.99" };
  const plainBound = ({ name, limit }) => `${PLAIN[name] || name}<${name === "errors" ? plainShare(limit) : plainTime(limit)}`;
  const command = (run, demand, kept) => [
    `weir size ${run} --rate ${demand.rate}/s`,
    ...(kept.length > 0 ? [`--objective '${kept.map(plainBound).join(",")}'`] : []),
    ...(demand.cpu === null ? [] : [`--max-cpu ${plainShare(demand.cpu)}`]),
    ...(demand.spare > 0 ? [`--spare ${demand.spare}`] : []),
    ...(demand.price === null ? [] : [`--price ${demand.price}${demand.per === "core" ? "/core" : ""}/h`]),
    ...(demand.growth === null ? [] : [`--growth ${plainShare(demand.growth)}/y`]),
    ...(demand.extrapolate && demand.cpu !== null ? ["--extrapolate"] : []),
  ].join(" ");

  // Compares a load point with the demand.
  const against = (name, shown, limit, format) => {
    if (shown.kind === "failed") return { standing: MISSED, words: `${name} is not met: ${shown.why}` };
    if (shown.kind === "invalid") return { standing: UNKNOWN, words: `no valid value for ${name}: ${shown.why}` };
    if (shown.high <= limit) return { standing: MET, words: "" };
    const is = `${name} is ${withInterval(shown, format)}`;
    return shown.low > limit ? { standing: MISSED, words: `${is}, above the limit of ${format(limit)}` }
      : { standing: BORDERLINE, words: `${is}, borderline: the limit of ${format(limit)} lies within its interval` };
  };
  const worse = (first, second) => (second.standing > first.standing ? second : first);
  const checkBound = (point, bound) => {
    if (bound.name === "errors") return against("the error share", point.errors, bound.limit, percent);
    const found = point.latency_ns.find(([name]) => name === bound.name);
    return against(title(bound.name), found ? found[1] : { kind: "invalid", why: "not measured" }, bound.limit, time);
  };
  const objective = (point, bounds) => bounds.map((bound) => checkBound(point, bound))
    .reduce(worse, against("the rate", point.carried_per_s, Infinity, rate));
  const cpu = (point, most) => (most === null ? { standing: MET, words: "" } : against("CPU", point.cpu_share, most, percent));

  // The rate per instance.
  const judge = (points, bounds, most) => {
    const checks = points.map((point) => [objective(point, bounds), cpu(point, most)]);
    const worst = ([kept, used]) => Math.max(kept.standing, used.standing);
    const missed = checks.findIndex((both) => worst(both) === MISSED);
    const below = checks.slice(0, missed < 0 ? checks.length : missed);
    return { points, checks, best: below.findLastIndex((both) => worst(both) === MET) };
  };
  const shareAt = (point) => (point.cpu_share.kind === "interval" ? point.cpu_share.mean : null);
  const atShare = (point, of) => {
    const whole = point.whole_limit_per_s;
    return whole.kind === "interval" ? { value: whole.mean * of, low: whole.low * of, high: whole.high * of } : null;
  };
  const refused = ({ points, checks }, most) => {
    if (points.length === 0) {
      return {
        outcome: "refused", why: "nothing-measured", words: "the run has no open load at a constant rate",
        remedy: "add open loads at several rates, like `steady: { model: open, rate: 2500/s }`; a closed load has no fixed rate",
      };
    }
    const [point, [kept, used]] = [points[0], checks[0]];
    const asked = point.asked_per_s;
    const check = worse(kept, used);
    const answer = (why, remedy) => ({ outcome: "refused", why, words: `at ${rate(asked)}, the lowest measured rate, ${check.words}`, remedy });
    if (kept.standing === MISSED) return answer("never-met", `measure lower rates, for example ${rate(asked / 2)}`);
    if (check.standing === MISSED) {
      const at = atShare(point, most);
      return answer("cpu-above", `measure lower rates, for example ${rate(at ? at.low : asked / 2)}, or extrapolate by CPU time per request (--extrapolate)`);
    }
    if (check.standing === BORDERLINE) {
      return answer("borderline",
        `add repeats to narrow the interval (\`weir run --resume RUN --repeats N\`), or measure below ${rate(asked)}`);
    }
    return answer("unknown", MEASURE_AGAIN);
  };
  const measured = (judged, most) => {
    if (judged.best < 0) return refused(judged, most);
    const point = judged.points[judged.best];
    const { mean, low, high } = point.carried_per_s;
    const found = { outcome: "sized", rate_per_s: { value: mean, low, high }, repeats: point.valid_repeats, cpu_share: shareAt(point) };
    // If a rate above the best one is undecided, it gets a note, and the rate per instance does not change.
    const worst = (place) => worse(...judged.checks[place]);
    const at = (place) => `at ${rate(judged.points[place].asked_per_s)}, ${worst(place).words}`;
    const notes = [];
    let place = judged.best + 1;
    for (; place < judged.points.length && worst(place).standing === UNKNOWN; place += 1) notes.push(`undecided: ${at(place)}`);
    if (place === judged.points.length) {
      const highest = notes.length > 0 ? "the highest rate with valid results" : "the highest rate measured";
      notes.push(`objective met at ${rate(point.asked_per_s)}, ${highest}: an instance may carry more. \`weir run capacity\` searches for the maximum`);
      return { ...found, basis: "at-least", notes };
    }
    const [kept, used] = judged.checks[place];
    const between = kept.standing === MET && most !== null ? atShare(point, most) : null;
    let measure = "";
    if (kept.standing === MET && used.standing === BORDERLINE) measure = "; more repeats narrow the interval";
    else if (between && point.asked_per_s < between.value && between.value < judged.points[place].asked_per_s) {
      measure = `; measure at about ${rate(between.value)} to narrow the gap`;
    }
    notes.push(`next rate not used: ${at(place)}${measure}`);
    return { ...found, basis: "measured", notes };
  };
  const extrapolated = (judged, most, known) => {
    const { points, checks, best } = judged;
    const belowAll = checks.length > 0 && checks[0][0].standing === MET && [MISSED, BORDERLINE].includes(checks[0][1].standing);
    if (best < 0 && !belowAll) return known;
    const base = Math.max(best, 0);
    const point = points[base];
    const [perInstance, used] = [atShare(point, most), shareAt(point)];
    if (!perInstance || used === null || (best >= 0 && perInstance.value <= point.asked_per_s)) return known;
    const against = points.findIndex((other, place) =>
      place > base && checks[place][0].standing !== MET && other.asked_per_s <= perInstance.value);
    if (against >= 0) {
      const note = `not extrapolated: it is not certain that the objective is met at ${rate(points[against].asked_per_s)}`;
      return known.outcome === "sized" ? { ...known, notes: [...known.notes, note] } : known;
    }
    return {
      outcome: "sized", rate_per_s: perInstance, repeats: point.valid_repeats, basis: "extrapolated", cpu_share: most,
      notes: [`extrapolated from ${rate(point.asked_per_s)}, which used ${percent(used)} of the CPU limit. This assumes the same CPU time `
        + `per request at ${percent(most)}, and nothing shows that the objective is met there. `
        + `Measure at ${rate(perInstance.value)} to check`],
    };
  };

  // Results of capacity searches.
  const keptOf = (searched, name) => searched.bounds.find((kept) => kept.name === name);
  const covers = (searched, bounds) => bounds.every(({ name, limit }) => keptOf(searched, name) && keptOf(searched, name).limit <= limit);
  const isFor = (searched, bounds) => searched.bounds.length === bounds.length
    && bounds.every(({ name, limit }) => keptOf(searched, name) && keptOf(searched, name).limit === limit);
  const bySearch = ({ per_s: { mean, low, high }, valid_repeats: repeats }, basis, note) =>
    ({ outcome: "sized", rate_per_s: { value: mean, low, high }, repeats, basis, cpu_share: null, notes: [note] });
  const searchedFor = (of, bounds, most, measure) => {
    const found = most === null ? of.searched.filter(({ per_s: shown }) => shown.kind === "interval") : [];
    const exact = found.find((searched) => isFor(searched, bounds));
    if (exact) return bySearch(exact, "searched", `from a search for ${exact.words}: ${plural(exact.trials, "trial")} in ${plural(exact.searches, "search")}`);
    const known = measure();
    if (known.outcome === "sized") return known;
    const [widest] = found.filter((searched) => covers(searched, bounds)).sort((a, b) => b.per_s.mean - a.per_s.mean);
    if (widest) return bySearch(widest, "at-least", `an instance may carry more: the search had a stricter objective, ${widest.words}`);
    if (of.searched.length === 0 || of.points.length > 0) return known;
    const refusal = (why, words, remedy) => ({ outcome: "refused", why, words, remedy });
    if (most !== null) {
      return refusal("nothing-measured", "the run has only a capacity search, which does not measure CPU",
        "remove --max-cpu, or add open loads at several rates");
    }
    const nothing = of.searched.find((searched) => covers(searched, bounds));
    return nothing ? refusal("unknown", `the search for ${nothing.words} has no valid result: ${nothing.per_s.why}`, MEASURE_AGAIN)
      : refusal("nothing-measured", `the run has only a search for another objective, ${of.searched[0].words}`,
        "use the objective of the search, run a search for this objective, or add open loads at several rates");
  };

  // Instances and costs.
  const instances = (target, perInstance, spare) => {
    const of = (perS) => Math.max(Math.ceil((target / perS) * (1 - ROUNDING)), 1) + spare;
    return { value: of(perInstance.value), low: of(perInstance.high), high: of(perInstance.low) };
  };
  const counted = (of, found, demand) => {
    if (found.outcome !== "sized") return found;
    const notes = [...found.notes];
    const now = instances(demand.rate, found.rate_per_s, demand.spare);
    if (demand.rate < found.rate_per_s.value) {
      notes.push(`one instance suffices: the target is ${percent(demand.rate / found.rate_per_s.value)} of its rate`);
    }
    const perHour = demand.price === null ? null : demand.per === "instance" ? demand.price : of.cores && demand.price * of.cores;
    if (demand.price !== null && perHour === null) notes.push("no cost: the price is per core, and the instance has no CPU limit");
    const later = demand.growth === null ? [] : MONTHS_AHEAD.map((months) => {
      const then = Array(months / 12).fill(1 + demand.growth).reduce((rates, grown) => rates * grown, 1) * demand.rate;
      return { months, rate_per_s: then, instances: instances(then, found.rate_per_s, demand.spare) };
    });
    const each = (span, change) => ({ value: change(span.value), low: change(span.low), high: change(span.high) });
    const perMonth = perHour === null ? null : each(now, (number) => number * perHour * HOURS_PER_MONTH);
    const millions = (demand.rate * 3600 * HOURS_PER_MONTH) / 1e6;
    const cost = perMonth && { per_month: perMonth, per_million: each(perMonth, (amount) => amount / millions) };
    return { ...found, instances: now, later, cost, notes };
  };
  const answer = (of, demand) => {
    const bounds = demand.objective || of.bounds;
    const judged = judge(of.points, bounds, demand.cpu);
    const found = searchedFor(of, bounds, demand.cpu, () => {
      const known = measured(judged, demand.cpu);
      return demand.extrapolate && demand.cpu !== null ? extrapolated(judged, demand.cpu, known) : known;
    });
    return { gateway: of.gateway, setting: of.setting, bounds, ...counted(of, found, demand) };
  };
  const rank = (offer) => (offer.outcome !== "sized" ? Infinity : offer.cost ? offer.cost.per_month.value : offer.instances.value);
  // Offers without a size rank as Infinity. Their difference is NaN; `|| 0` keeps their order.
  const size = (demand) => data.sizing.map((of) => answer(of, demand)).sort((a, b) => rank(a) - rank(b) || 0);

  return { size, rate, count, money, range, bounded, percent, command, colorOf };
})();
