// The controls of the sizing, the result table, and the page address, which stores the state.
(() => {
  const section = document.getElementById("sizing");
  if (!section || !section.querySelector(".sliders")) return;
  const { size, rate, count, money, range, bounded, percent, command, colorOf } = sizing;
  const types = figures.data.sizing;
  const element = (name, more, ...children) => {
    const made = Object.assign(document.createElement(name), more);
    made.append(...children);
    return made;
  };

  // The demand, by default and from an address: #rate=10000&objective=p99:20000000,errors:0.001&cpu=0.65&spare=1
  const own = types.map((of) => of.bounds).find((bounds) => bounds.length > 0) || null;
  const highest = Math.max(1, ...types.flatMap((of) => of.points.map((point) => point.asked_per_s)));
  const first = () => ({
    rate: 4 * highest, objective: own ? null : [{ name: "p99", limit: 2e7 }], cpu: null, spare: 0, price: null, per: "instance",
    growth: null, extrapolate: false,
  });
  let demand = first();
  const number = (text, least, most) => {
    const value = text === null || text === "" ? NaN : Number(text);
    return value >= least && value <= most ? value : null;
  };
  const fromAddress = () => {
    const asked = new URLSearchParams(location.hash.slice(1));
    if (!asked.has("rate")) return false;
    const bounds = (asked.get("objective") || "").split(",").map((text) => text.split(":"))
      .map(([name, limit]) => ({ name, limit: number(limit, 0, Infinity) })).filter((bound) => bound.limit !== null);
    const start = first();
    demand = {
      rate: number(asked.get("rate"), 1e-9, 1e15) || start.rate,
      objective: bounds.length > 0 ? bounds : start.objective,
      cpu: number(asked.get("cpu"), 1e-9, 1),
      spare: Math.floor(number(asked.get("spare"), 0, 1e6) || 0),
      price: number(asked.get("price"), 1e-12, 1e15),
      per: asked.get("per") === "core" ? "core" : "instance",
      growth: number(asked.get("growth"), 0, 1e6),
      extrapolate: asked.get("extrapolate") === "1",
    };
    return true;
  };
  const toAddress = () => {
    const said = [`rate=${demand.rate}`];
    if (demand.objective) said.push(`objective=${demand.objective.map((bound) => `${bound.name}:${bound.limit}`).join(",")}`);
    ["cpu", "price", "growth"].filter((key) => demand[key] !== null).forEach((key) => said.push(`${key}=${demand[key]}`));
    if (demand.spare > 0) said.push(`spare=${demand.spare}`);
    if (demand.per !== "instance") said.push(`per=${demand.per}`);
    if (demand.extrapolate) said.push("extrapolate=1");
    return `#${said.join("&")}`;
  };

  // The controls change this latency bound and keep the others.
  const isLatency = (bound) => bound.name !== "errors";
  const bounds = () => demand.objective || own || [];
  const latency = () => bounds().find(isLatency) || { name: "p99", limit: 2e7 };
  const setLatency = (change) => {
    const moved = { ...latency(), ...change };
    const others = bounds().filter((bound) => bound !== bounds().find(isLatency) && bound.name !== moved.name);
    demand.objective = [moved, ...others];
  };

  // A slider and a field for the same number; `scale` converts the unit of the field. At the position `none` the option
  // is off.
  const rounded = (value, digits) => Number(value.toPrecision(digits));
  const log = (low, high) => ({
    to: (value) => (1000 * Math.log(value / low)) / Math.log(high / low),
    from: (place) => rounded(low * (high / low) ** (place / 1000), 2),
  });
  const linear = (low, high, step) => ({
    to: (value) => (1000 * (value - low)) / (high - low),
    from: (place) => rounded(Math.round((low + (place / 1000) * (high - low)) / step) * step, 12),
  });
  const sliders = [
    { label: "Rate, requests/s", ...log(10, 1e6), of: () => demand.rate, set: (value) => { demand.rate = value || demand.rate; } },
    { label: "Latency at most, ms", ...log(0.1, 1e4), of: () => latency().limit / 1e6, set: (value) => value && setLatency({ limit: rounded(value * 1e6, 15) }) },
    { label: "CPU at most, % of the limit", ...linear(5, 100, 1), none: 1000, of: () => demand.cpu && rounded(demand.cpu * 100, 12), set: (value) => { demand.cpu = value && value <= 100 ? rounded(value / 100, 12) : null; } },
    { label: "Spare instances", ...linear(0, 20, 1), of: () => demand.spare, set: (value) => { demand.spare = Math.floor(value || 0); } },
    { label: "Price per hour", ...log(0.001, 100), none: 0, of: () => demand.price, set: (value) => { demand.price = value || null; } },
    { label: "Growth, % per year", ...linear(0, 200, 1), none: 0, of: () => demand.growth !== null && rounded(demand.growth * 100, 12), set: (value) => { demand.growth = value === null ? null : rounded(value / 100, 12); } },
  ];
  const drawn = sliders.map((slider) => {
    const place = element("input", { type: "range", min: 0, max: 1000, step: 1 });
    const field = element("input", { type: "number", min: 0, step: "any", placeholder: slider.none === undefined ? "" : "none" });
    place.setAttribute("aria-label", slider.label);
    field.setAttribute("aria-label", `${slider.label}, as a number`);
    place.addEventListener("input", () => {
      const at = Number(place.value);
      slider.set(at === slider.none ? null : slider.from(at));
      moved(place);
    });
    field.addEventListener("input", () => { slider.set(field.value === "" || Number(field.value) < 0 ? null : Number(field.value)); moved(field); });
    return { slider, place, field, box: element("label", {}, element("span", { textContent: slider.label }), place, field) };
  });
  const select = (entries, of, set) => {
    const made = element("select", {}, ...entries.map(([value, textContent]) => element("option", { value, textContent })));
    made.addEventListener("change", () => { set(made.value); moved(made); });
    return { made, show: () => { made.value = of(); } };
  };
  const names = types.flatMap((of) => of.points).slice(0, 1).flatMap((point) => point.latency_ns.map(([name]) => name));
  const quantile = select(names.map((name) => [name, bounded({ name, limit: 0 }).split(" ")[0]]), () => latency().name, (name) => setLatency({ name }));
  const per = select([["instance", "instance"], ["core", "core of its limit"]], () => demand.per, (value) => { demand.per = value; });
  const extrapolate = element("input", { type: "checkbox" });
  extrapolate.addEventListener("change", () => { demand.extrapolate = extrapolate.checked; moved(extrapolate); });

  // The result.
  const HEADLINE_REPEATS = 3;
  const cell = (name, text, under, isHeadline) => element(name, {}, element("span", { className: isHeadline ? "headline" : "figure", textContent: text }),
    ...(under ? [element("small", { textContent: under })] : []));
  const span = (of, format) => [format(of.value), range(format(of.value), format(of.low), format(of.high))];
  const spread = (of) => [count(of.value), `${count(of.low)} .. ${count(of.high)}`];
  const BASES = { measured: "measured", "at-least": "measured, at least", searched: "searched", extrapolated: "extrapolated" };
  const shared = (offers) => offers.every((offer) => JSON.stringify(offer.bounds) === JSON.stringify(offers[0].bounds));
  const asked = (offers) => [
    rate(demand.rate),
    ...(shared(offers) ? offers[0].bounds.map(bounded) : ["each gateway with its own objective"]),
    ...(demand.cpu === null ? [] : [`CPU at most ${percent(demand.cpu)} of the limit`]),
    ...(demand.spare > 0 ? [`${demand.spare} spare ${demand.spare === 1 ? "instance" : "instances"}`] : []),
    ...(demand.growth === null ? [] : [`growth ${percent(demand.growth)} per year`]),
  ].join(", ");
  // Parts in backticks are code.
  const prose = (text) => text.split(/(`[^`]+`)/).map((part) => (part.startsWith("`") && part.length > 1 ? element("code", { textContent: part.slice(1, -1) }) : part));
  const sentences = (offer, offers) => {
    const setting = offer.setting ? ` (${offer.setting})` : "";
    const kept = shared(offers) ? "" : `, ${offer.bounds.map(bounded).join(", ")}`;
    const said = offer.outcome === "sized" ? offer.notes : [`${offer.words}: ${offer.remedy}`];
    return said.map((text) => `${offer.gateway}${setting}${kept}: ${text}.`);
  };
  // Instance types differ by limits or other axes, by load, or by both.
  const paths = types.flatMap((of) => Object.keys(of.axes));
  const axesTitle = paths.every((path) => path.startsWith("limits.")) ? "Limits" : "Axes";
  const settingTitle = [...(paths.length > 0 ? [axesTitle] : []), ...(types.some((of) => of.load) ? ["load"] : [])].join(" and ").replace(/^load/, "Load");
  const table = (offers) => {
    const hasSetting = offers.some((offer) => offer.setting);
    const [hasGrowth, hasPrice] = [demand.growth !== null, demand.price !== null];
    const columns = ["Gateway", ...(hasSetting ? [settingTitle] : []), "Rate per instance", "CPU % of limit", "Instances",
      ...(hasGrowth ? ["In 12 months", "In 24 months"] : []), ...(hasPrice ? ["Cost per month", "Cost per million"] : []), "Basis"];
    const row = (offer) => {
      const name = element("th", { scope: "row" }, element("i", { className: `swatch c-${colorOf.get(offer.gateway) || "grey"}` }), offer.gateway);
      const setting = hasSetting ? [cell("td", offer.setting)] : [];
      if (offer.outcome !== "sized") {
        const empty = columns.slice(2 + setting.length).map(() => Object.assign(cell("td", "–"), { className: "n" }));
        return element("tr", {}, name, ...setting, ...empty, element("td", {}, element("span", { className: "chip bad", textContent: "no answer" })));
      }
      // A minimum rate per instance gives a maximum number of instances.
      const isCeiling = offer.basis === "at-least";
      const carries = isCeiling ? [`≥ ${rate(offer.rate_per_s.low)}`, ""] : span(offer.rate_per_s, rate);
      const needed = isCeiling ? [`≤ ${count(offer.instances.high)}`, ""] : spread(offer.instances);
      const texts = [carries, [offer.cpu_share === null ? "n/a" : percent(offer.cpu_share)], needed,
        ...offer.later.map((later) => spread(later.instances)),
        ...(hasPrice ? offer.cost ? [span(offer.cost.per_month, money), span(offer.cost.per_million, money)] : [["n/a"], ["n/a"]] : [])];
      const basis = offer.basis === "extrapolated" ? element("td", {}, element("span", { className: "chip bad", textContent: BASES[offer.basis] }))
        : cell("td", BASES[offer.basis]);
      return element("tr", {}, name, ...setting, ...texts.map(([text, under]) =>
        Object.assign(cell("td", text, under, under && offer.repeats >= HEADLINE_REPEATS), { className: "n" })), basis);
    };
    const isNumber = (at) => at > (hasSetting ? 1 : 0) && at < columns.length - 1;
    const head = columns.map((textContent, at) => element("th", { scope: "col", textContent, className: isNumber(at) ? "n" : "" }));
    return element("table", { className: "glance" }, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...offers.map(row)));
  };
  const answer = section.querySelector(".answer");
  const show = (source) => {
    drawn.forEach(({ slider, place, field }) => {
      const value = slider.of();
      const isNone = value === null || value === false;
      if (field !== source) field.value = isNone ? "" : value;
      if (place !== source) place.value = isNone ? slider.none : slider.to(value);
    });
    [quantile, per].forEach((control) => control.show());
    extrapolate.checked = demand.extrapolate;
    extrapolate.disabled = demand.cpu === null;
    const offers = size(demand);
    section.querySelector(".command").textContent = command(section.dataset.run, demand, shared(offers) ? offers[0].bounds : []);
    answer.replaceChildren(element("p", { className: "asked", textContent: asked(offers) }),
      element("div", { className: "scroll" }, table(offers)),
      element("ul", {}, ...offers.flatMap((offer) => sentences(offer, offers)).map((text) => element("li", {}, ...prose(text)))));
  };
  // Every change updates the address.
  const moved = (source) => {
    show(source);
    try { history.replaceState(null, "", toAddress()); } catch { /* local files may not support history */ }
  };

  const box = (text, control) => element("label", {}, element("span", { textContent: text }), control);
  const boxes = drawn.map((control) => control.box);
  boxes.splice(1, 0, box("Objective", quantile.made));
  boxes.splice(6, 0, box("Price per", per.made));
  boxes.push(box("Extrapolate by CPU time per request", extrapolate));
  section.querySelector(".sliders").append(...boxes);
  section.querySelector(".sliders").hidden = false;
  window.addEventListener("hashchange", () => { if (fromAddress()) show(null); });
  const isShared = fromAddress();
  show(null);
  if (isShared) section.scrollIntoView();
})();
