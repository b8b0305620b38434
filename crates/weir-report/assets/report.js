// The charts of load points and of time, the theme, and when what is drawn.
(() => {
  const {
    data, root, colorOf, orderOf, css, color, isDirect, time, formats, short, plain, linearAxis, logTicks, draw, legend, gatewayEntry, offer,
  } = figures;
  const symbols = ["circle", "diamond", "square", "triangle-up", "triangle-down", "star", "hexagon", "cross"];
  const pointOf = (element) => data.points.find((known) => known.id === element.dataset.point);

  // Bars from zero with the interval as whisker; what does not count is hollow.
  const drawBars = (element) => {
    const name = element.dataset.figure;
    const known = pointOf(element).rows.filter((row) => row[name].mean !== null || row[name].beyond_timeout);
    if (known.length === 0) {
      element.textContent = "Not measured.";
      return;
    }
    const rows = known.slice().reverse();
    const value = (row) => row[name].mean || 0;
    const high = (row) => (row[name].high === null ? value(row) : row[name].high);
    // Where there is no interval nothing is drawn: a whisker of length zero would be a tick.
    const whisker = (row, length) => (row[name].low === null ? NaN : length);
    const greatest = Math.max(...rows.map(high));
    const words = (row) => (row[name].beyond_timeout ? "> timeout" : formats[name](row[name].mean));
    const bar = {
      type: "bar", orientation: "h", y: rows.map((row) => row.gateway), x: rows.map(value), width: 0.56, hoverinfo: "none",
      marker: {
        color: rows.map((row) => (row[name].counts ? color(row.gateway) : "rgba(0,0,0,0)")),
        line: { color: rows.map((row) => color(row.gateway)), width: rows.map((row) => (row[name].counts ? 0 : 1.2)) },
      },
      error_x: {
        type: "data", symmetric: false, color: css("ink"), thickness: 1.3, width: 4,
        array: rows.map((row) => whisker(row, high(row) - value(row))),
        arrayminus: rows.map((row) => whisker(row, value(row) - row[name].low)),
      },
    };
    const label = {
      type: "scatter", mode: "text", y: bar.y, x: rows.map(high), textposition: "middle right", cliponaxis: false,
      text: rows.map((row) => `  ${words(row)}`), hoverinfo: "text",
      textfont: { color: rows.map((row) => (row[name].counts ? css("ink") : css("faint"))), size: 12 },
      hovertext: rows.map((row) => {
        const interval = row[name].low === null ? "" : `<br>${formats[name](row[name].low)} .. ${formats[name](row[name].high)}`;
        return `<b>${row.gateway}</b> ${words(row)}${interval}${row[name].counts ? "" : "<br>excluded"}`;
      }),
    };
    draw(element, [bar, label], {
      height: 34 * rows.length + 48, margin: { l: 66, r: 8, t: 4, b: 26 }, bargap: 0.3, hovermode: "closest",
      xaxis: linearAxis(name, greatest, 3, 1.42),
      yaxis: { fixedrange: true, tickfont: { size: 12.5 }, ticks: "", showgrid: false, automargin: true, ticksuffix: "  " },
    });
  };

  // As high as the figures beside it, where there are some.
  const besides = (element) => {
    const figure = element.closest("figure");
    const others = [...figure.parentElement.children].filter((other) => other !== figure);
    if (others.length === 0 || others[0].offsetTop !== figure.offsetTop) return 340;
    const last = others[others.length - 1];
    return Math.max(340, last.offsetTop + last.offsetHeight - figure.offsetTop - (element.offsetTop - figure.offsetTop) - 12);
  };

  // Latency over the logarithm of the share above the quantile: tails are as wide as the middle.
  const drawCurve = (element) => {
    watch.now(element.closest(".charts").querySelectorAll(".chart.bars"));
    const rows = pointOf(element).rows.filter((row) => row.curve.length > 0);
    const place = (quantile) => -Math.log10(1 - quantile);
    const traces = rows.map((row) => ({
      type: "scatter", mode: "lines",
      x: row.curve.map(([quantile]) => place(quantile)), y: row.curve.map(([, ns]) => ns),
      line: {
        color: color(row.gateway), width: row.curve_counts ? 2.2 : 1.3,
        dash: !row.curve_counts ? "dot" : isDirect(row.gateway) ? "dash" : "solid",
      },
      opacity: row.curve_counts ? 1 : 0.75,
      text: row.curve.map(([quantile, ns]) => `p${+(quantile * 100).toFixed(4)} ${time(ns)}`),
      hovertemplate: `<b>${row.gateway}</b> %{text}<extra></extra>`,
    }));
    // The scale is that of the curves that count; what lies beyond it is named, not drawn over them.
    const counting = rows.filter((row) => row.curve_counts);
    const all = (counting.length > 0 ? counting : rows).flatMap((row) => row.curve.map(([, ns]) => ns));
    const beyond = (row) => !row.curve_counts && row.curve.every(([, ns]) => ns > Math.max(...all));
    const remark = (row) => (row.curve_counts ? "" : beyond(row) ? "excluded, and beyond the scale" : "excluded");
    legend(element, rows.map((row) => gatewayEntry(row.gateway, remark(row))));
    const [low, high] = [Math.log10(Math.min(...all)), Math.log10(Math.max(...all))];
    const ticks = logTicks(low, high);
    const quantiles = [[0.5, "p50"], [0.9, "p90"], [0.99, "p99"], [0.999, "p99.9"], [0.9999, "p99.99"], [0.99999, "p99.999"]];
    draw(element, traces, {
      height: besides(element), margin: { l: 58, r: 22, t: 8, b: 28 }, hovermode: "closest",
      xaxis: { ...plain(), tickvals: quantiles.map(([quantile]) => place(quantile)), ticktext: quantiles.map(([, label]) => label), tickangle: 0 },
      yaxis: {
        ...plain(), type: "log", tickvals: ticks, ticktext: ticks.map((tick) => short(time(tick))),
        range: [low - 0.06 * (high - low + 0.1), high + 0.06 * (high - low + 0.1)],
      },
    });
  };

  // One repeat of one load, all gateways together.
  const pointSelect = document.getElementById("time-point");
  const repeatSelect = document.getElementById("time-repeat");
  const chosenLines = () => data.timelines
    .filter((line) => line.point === pointSelect.value && String(line.repeat) === repeatSelect.value)
    .sort((a, b) => orderOf.get(a.gateway) - orderOf.get(b.gateway));
  const clockOf = (name) => (name.startsWith("data_") ? "sampled_t_s" : "t_s");
  const drawTime = (element) => {
    const name = element.dataset.series;
    const clock = clockOf(name);
    const chosen = chosenLines().filter((line) => line[name].some((value) => value !== null));
    const traces = chosen.map((line) => ({
      type: "scatter", mode: "lines+markers",
      x: line[clock], y: line[name], connectgaps: false,
      line: { color: color(line.gateway), width: line.counts ? 1.8 : 1.2, dash: isDirect(line.gateway) ? "dash" : line.counts ? "solid" : "dot" },
      marker: { size: line.t_s.length > 90 ? 0.1 : 4.5, symbol: symbols[orderOf.get(line.gateway) % symbols.length], color: color(line.gateway) },
      text: line[name].map((value) => (value === null ? "" : formats[name](value))),
      hovertemplate: `<b>${figures.said(line.gateway)}</b> %{text} at %{x:.0f} s<extra></extra>`,
    }));
    const greatest = Math.max(0, ...chosen.flatMap((line) => line[name].filter((value) => value !== null)));
    const warmup = Math.max(0, ...chosen.map((line) => line.sustained_from_s || 0));
    const end = Math.max(0, ...chosen.map((line) => line.end_s)) || 1;
    legend(element, chosen.map((line) => gatewayEntry(line.gateway, line.counts ? "" : "excluded")));
    const changes = chosen.flatMap((line) => line.changes_t_s.map((at) => ({
      type: "line", xref: "x", yref: "paper", x0: at, x1: at, y0: 0, y1: 1, layer: "below",
      line: { color: color(line.gateway), width: 1, dash: "dot" },
    })));
    const shade = warmup > 0 ? [{ type: "rect", xref: "x", yref: "paper", x0: 0, x1: warmup, y0: 0, y1: 1, fillcolor: css("plain-bg"), line: { width: 0 }, layer: "below" }] : [];
    draw(element, traces, {
      height: 240, margin: { l: 64, r: 10, t: 8, b: 26 }, hovermode: "closest",
      shapes: [...shade, ...changes],
      xaxis: { ...plain(), showgrid: false, ticksuffix: " s", range: [-0.015 * end, end] },
      yaxis: linearAxis(name, greatest, 4, 1.08),
    });
  };

  const repeatsOf = (id) => [...new Set(data.timelines.filter((line) => line.point === id).map((line) => line.repeat))].sort((a, b) => a - b);
  const option = (value, text) => Object.assign(document.createElement("option"), { value, textContent: text });
  const fillRepeats = () => {
    const before = repeatSelect.value;
    const repeats = repeatsOf(pointSelect.value);
    repeatSelect.replaceChildren(...repeats.map((repeat) => option(String(repeat), String(repeat + 1))));
    if (repeats.some((repeat) => String(repeat) === before)) repeatSelect.value = before;
  };

  // A heat map for each gateway of the chosen load and repeat.
  const heats = document.getElementById("heats");
  const fillHeats = () => {
    const lines = chosenLines().filter((line) => line.heat.rows > 0);
    watch.forget(heats.querySelectorAll(".chart"));
    heats.replaceChildren(...lines.map((line) => {
      const panel = Object.assign(document.createElement("div"), { className: "panel" });
      const title = Object.assign(document.createElement("h4"), { textContent: line.gateway });
      const chart = Object.assign(document.createElement("div"), { className: "chart heat" });
      chart.dataset.gateway = line.gateway;
      panel.append(title, chart);
      return panel;
    }));
    heats.querySelectorAll(".chart").forEach(watch.add);
  };
  const drawHeat = (element) => {
    const lines = chosenLines();
    plots.drawHeat(element, lines.find((line) => line.gateway === element.dataset.gateway), lines);
  };

  // A chart is drawn when it comes near the window: a page of hundreds opens as fast as one of few.
  const kinds = [["bars", drawBars], ["curve", drawCurve], ["time", drawTime], ["panel-chart", plots.drawPanel], ["heat", drawHeat]];
  const watch = (() => {
    const drawn = new Set();
    const once = (element) => {
      drawn.add(element);
      kinds.find(([kind]) => element.classList.contains(kind))[1](element);
    };
    const now = (elements) => [...elements].filter((element) => !drawn.has(element)).forEach((element) => {
      near.unobserve(element);
      once(element);
    });
    const near = new IntersectionObserver(
      (entries) => now(entries.filter((entry) => entry.isIntersecting).map((entry) => entry.target)), { rootMargin: "400px" });
    return {
      add: (element) => near.observe(element),
      forget: (elements) => elements.forEach((element) => { near.unobserve(element); drawn.delete(element); }),
      again: (kind) => [...drawn].filter((element) => !kind || element.classList.contains(kind)).forEach(once),
      now,
      all: () => now(document.querySelectorAll(".chart")),
    };
  })();

  // What each figure draws, as rows of a file.
  const barRows = (element) => {
    const name = element.dataset.figure;
    return [["gateway", name, "low", "high", "counts"], ...pointOf(element).rows.map((row) => [
      row.gateway, row[name].beyond_timeout ? "> timeout" : row[name].mean, row[name].low, row[name].high, row[name].counts])];
  };
  const curveRows = (element) => [["gateway", "quantile", "latency_ns", "counts"], ...pointOf(element).rows.flatMap((row) =>
    row.curve.map(([quantile, ns]) => [row.gateway, quantile, ns, row.curve_counts]))];
  const timeRows = (element) => {
    const name = element.dataset.series;
    return [["gateway", "repeat", "t_s", name, "counts"], ...chosenLines().flatMap((line) =>
      line[name].map((value, place) => [line.gateway, line.repeat + 1, line[clockOf(name)][place], value, line.counts]))];
  };
  const offerAll = () => {
    document.querySelectorAll(".chart.bars").forEach((element) =>
      offer(element.closest("figure"), `${element.dataset.point}-${element.dataset.figure}`, () => barRows(element)));
    document.querySelectorAll(".chart.curve").forEach((element) =>
      offer(element.closest("figure"), `${element.dataset.point}-latency-by-quantile`, () => curveRows(element)));
    document.querySelectorAll(".chart.time").forEach((element) => offer(element.closest("figure"),
      () => `${pointSelect.value}-${element.dataset.series}-repeat-${Number(repeatSelect.value) + 1}`, () => timeRows(element)));
    if (heats) {
      offer(heats.closest("figure"), () => `${pointSelect.value}-heat-repeat-${Number(repeatSelect.value) + 1}`, () => plots.heatRows(chosenLines()));
    }
  };
  // Pictures are of the load that is chosen.
  const linkPictures = () => document.querySelectorAll("a[data-picture]").forEach((link) => {
    const path = data.points.find((point) => point.id === pointSelect.value).pictures[link.dataset.picture];
    link.hidden = !path;
    if (path) link.href = path;
  });

  const asked = new URLSearchParams(location.search).get("theme");
  const stored = (() => { try { return localStorage.getItem("weir-theme"); } catch { return null; } })();
  const button = document.getElementById("theme");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const now = () => root.dataset.theme || (dark.matches ? "dark" : "light");
  const name = () => { button.textContent = now() === "dark" ? "Light" : "Dark"; };
  if (["light", "dark"].includes(asked || stored)) root.dataset.theme = asked || stored;
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = now() === "dark" ? "light" : "dark";
    try { localStorage.setItem("weir-theme", root.dataset.theme); } catch { /* a file may have no storage */ }
    name();
    watch.again();
  });
  dark.addEventListener("change", () => { name(); watch.again(); });
  // On paper nothing can be unfolded.
  const folded = () => document.querySelectorAll("details.rows, .verdict details");
  let opened = [];
  window.addEventListener("beforeprint", () => {
    watch.all();
    opened = [...folded()].filter((fold) => !fold.open);
    opened.forEach((fold) => { fold.open = true; });
  });
  window.addEventListener("afterprint", () => opened.forEach((fold) => { fold.open = false; }));
  name();

  plots.prepare();
  offerAll();
  if (pointSelect) {
    const choose = () => {
      fillHeats();
      linkPictures();
      // Pictures that the page came with are of the first choice.
      document.querySelectorAll(".chart.time > svg.plot").forEach((picture) => picture.remove());
      watch.again("time");
    };
    pointSelect.replaceChildren(...data.points.map((point) => option(point.id, point.title)));
    pointSelect.addEventListener("change", () => { fillRepeats(); choose(); });
    repeatSelect.addEventListener("change", choose);
    fillRepeats();
    linkPictures();
    document.querySelector(".controls").hidden = false;
  }
  document.querySelectorAll(".chart").forEach(watch.add);
})();
