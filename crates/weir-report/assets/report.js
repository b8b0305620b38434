"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const colorOf = new Map(data.gateways.map((gateway) => [gateway.name, gateway.color]));
  const orderOf = new Map(data.gateways.map((gateway, index) => [gateway.name, index]));
  const symbols = ["circle", "diamond", "square", "triangle-up", "triangle-down", "star", "hexagon", "cross"];
  const css = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
  const color = (gateway) => css(colorOf.get(gateway) || "grey");
  const isDirect = (gateway) => colorOf.get(gateway) === "grey";

  // Numbers as the tables print them.
  const digits = (value) => {
    const size = Math.abs(value);
    if (size >= 99.95) return Math.round(value).toLocaleString("en-US");
    return value.toFixed(size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3);
  };
  const time = (ns) => {
    const size = Math.abs(ns);
    if (size < 999.5) return `${Math.round(ns)} ns`;
    if (size < 999500) return `${digits(ns / 1e3)} µs`;
    if (size < 999500000) return `${digits(ns / 1e6)} ms`;
    return `${digits(ns / 1e9)} s`;
  };
  const bytes = (value) => (value < 2 ** 20 ? `${digits(value / 1024)} KiB`
    : value < 2 ** 30 ? `${digits(value / 2 ** 20)} MiB` : `${digits(value / 2 ** 30)} GiB`);
  const formats = {
    throughput_per_s: (value) => `${digits(value)}/s`,
    rate_per_s: (value) => `${digits(value)}/s`,
    cpu_us_per_request: (value) => time(value * 1e3),
    memory_bytes_peak: bytes,
    data_memory_bytes: bytes,
    data_cores: digits,
    p50_ns: time,
    p99_ns: time,
  };

  // A plain axis has ticks at 1, 2 or 5 times a power of ten (of two for sizes), labelled in the unit that fits.
  const niceTicks = (greatest, unit, wanted) => {
    const raw = greatest / unit / wanted;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].find((factor) => factor * power >= raw * 0.75) * power * unit;
    const ticks = [];
    for (let tick = 0; tick <= greatest * 1.0001; tick += step) ticks.push(tick);
    return ticks;
  };
  const short = (text) => text.replace(/\.0+(?=\D|$)/, "").replace(/(\.\d*?)0+(?=\D|$)/, "$1");
  const unitOf = (name, greatest) => {
    if (!name.includes("bytes")) return 1;
    return greatest < 2 ** 20 ? 1024 : greatest < 2 ** 30 ? 2 ** 20 : 2 ** 30;
  };
  const linearAxis = (name, greatest, wanted, room) => {
    const ticks = niceTicks(greatest || 1, unitOf(name, greatest), wanted);
    const label = (tick) => (tick === 0 ? "0" : short(formats[name](tick)).replace("/s", ""));
    return {
      range: [0, (greatest || 1) * room], tickvals: ticks, ticktext: ticks.map(label),
      showgrid: true, gridcolor: css("line"), zeroline: false, fixedrange: true, tickfont: { color: css("soft"), size: 11 },
    };
  };
  const layout = (extra) => ({
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: false, showlegend: false,
    font: { family: getComputedStyle(document.body).fontFamily, color: css("ink"), size: 12 },
    hoverlabel: { bgcolor: css("panel"), bordercolor: css("line"), font: { color: css("ink"), size: 12 } },
    ...extra,
  });
  const config = { displayModeBar: false, responsive: true };
  const draw = (element, traces, extra) => Plotly.react(element, traces, layout(extra), config);

  // The legend of lines: names in the order of the tables, beside the colour that each has everywhere.
  const legend = (element, entries) => {
    const list = element.parentElement.querySelector(".legend") || document.createElement("ul");
    list.className = "legend";
    list.replaceChildren(...entries.map(({ gateway, remark }) => {
      const item = document.createElement("li");
      const swatch = Object.assign(document.createElement("i"), { className: `swatch c-${colorOf.get(gateway) || "grey"}` });
      item.append(swatch, remark ? `${gateway}: ${remark}` : gateway);
      item.classList.toggle("off", Boolean(remark));
      return item;
    }));
    element.before(list);
  };

  // Bars from zero with the interval as whisker; what does not count is hollow.
  const drawBars = (element) => {
    const name = element.dataset.figure;
    const point = data.points.find((known) => known.id === element.dataset.point);
    const known = point.rows.filter((row) => row[name].mean !== null || row[name].beyond_timeout);
    if (known.length === 0) {
      element.textContent = "Not measured.";
      return;
    }
    const rows = known.slice().reverse();
    const value = (row) => row[name].mean || 0;
    const high = (row) => (row[name].high === null ? value(row) : row[name].high);
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
        array: rows.map((row) => high(row) - value(row)),
        arrayminus: rows.map((row) => (row[name].low === null ? 0 : value(row) - row[name].low)),
      },
    };
    const label = {
      type: "scatter", mode: "text", y: bar.y, x: rows.map(high), textposition: "middle right", cliponaxis: false,
      text: rows.map((row) => `  ${words(row)}`), hoverinfo: "text",
      textfont: { color: rows.map((row) => (row[name].counts ? css("ink") : css("faint"))), size: 12 },
      hovertext: rows.map((row) => {
        const interval = row[name].low === null ? "" : `<br>${formats[name](row[name].low)} .. ${formats[name](row[name].high)}`;
        return `<b>${row.gateway}</b> ${words(row)}${interval}${row[name].counts ? "" : "<br>does not count"}`;
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
    const point = data.points.find((known) => known.id === element.dataset.point);
    const rows = point.rows.filter((row) => row.curve.length > 0);
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
    const remark = (row) => (row.curve_counts ? "" : beyond(row) ? "does not count, and is beyond the scale" : "does not count");
    legend(element, rows.map((row) => ({ gateway: row.gateway, remark: remark(row) })));
    const [low, high] = [Math.log10(Math.min(...all)), Math.log10(Math.max(...all))];
    const factors = high - low < 2.2 ? [1, 2, 5] : high - low < 4 ? [1, 3] : [1];
    const ticks = [];
    for (let power = Math.floor(low); power <= Math.ceil(high); power += 1) {
      factors.forEach((factor) => ticks.push(factor * 10 ** power));
    }
    const quantiles = [[0.5, "p50"], [0.9, "p90"], [0.99, "p99"], [0.999, "p99.9"], [0.9999, "p99.99"], [0.99999, "p99.999"]];
    draw(element, traces, {
      height: besides(element), margin: { l: 58, r: 22, t: 8, b: 28 }, hovermode: "closest",
      xaxis: {
        tickvals: quantiles.map(([quantile]) => place(quantile)), ticktext: quantiles.map(([, label]) => label), tickangle: 0, fixedrange: true,
        gridcolor: css("line"), zeroline: false, tickfont: { color: css("soft"), size: 11 },
      },
      yaxis: {
        type: "log", tickvals: ticks, ticktext: ticks.map((tick) => short(time(tick))), fixedrange: true,
        gridcolor: css("line"), zeroline: false, tickfont: { color: css("soft"), size: 11 },
        range: [low - 0.06 * (high - low + 0.1), high + 0.06 * (high - low + 0.1)],
      },
    });
  };

  // One repeat of one load, all gateways together.
  const pointSelect = document.getElementById("time-point");
  const repeatSelect = document.getElementById("time-repeat");
  const drawTime = (element) => {
    const name = element.dataset.series;
    const clock = name.startsWith("data_") ? "sampled_t_s" : "t_s";
    const chosen = data.timelines.filter(
      (line) => line.point === pointSelect.value && String(line.repeat) === repeatSelect.value && line[name].some((value) => value !== null));
    chosen.sort((a, b) => orderOf.get(a.gateway) - orderOf.get(b.gateway));
    const traces = chosen.map((line) => ({
      type: "scatter", mode: "lines+markers",
      x: line[clock], y: line[name], connectgaps: false,
      line: { color: color(line.gateway), width: line.counts ? 1.8 : 1.2, dash: isDirect(line.gateway) ? "dash" : line.counts ? "solid" : "dot" },
      marker: { size: line.t_s.length > 90 ? 0.1 : 4.5, symbol: symbols[orderOf.get(line.gateway) % symbols.length], color: color(line.gateway) },
      text: line[name].map((value) => (value === null ? "" : formats[name](value))),
      hovertemplate: `<b>${line.gateway}</b> %{text} at %{x:.0f} s<extra></extra>`,
    }));
    const greatest = Math.max(0, ...chosen.flatMap((line) => line[name].filter((value) => value !== null)));
    const warmup = Math.max(0, ...chosen.map((line) => line.sustained_from_s || 0));
    legend(element, chosen.map((line) => ({ gateway: line.gateway, remark: line.counts ? "" : "does not count" })));
    draw(element, traces, {
      height: 240, margin: { l: 64, r: 10, t: 8, b: 26 }, hovermode: "closest",
      shapes: warmup > 0 ? [{ type: "rect", xref: "x", yref: "paper", x0: 0, x1: warmup, y0: 0, y1: 1, fillcolor: css("plain-bg"), line: { width: 0 }, layer: "below" }] : [],
      xaxis: { fixedrange: true, gridcolor: css("line"), showgrid: false, zeroline: false, ticksuffix: " s", tickfont: { color: css("soft"), size: 11 } },
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
  const drawTimes = () => document.querySelectorAll(".chart.time").forEach(drawTime);
  const drawAll = () => {
    document.querySelectorAll(".chart.bars").forEach(drawBars);
    document.querySelectorAll(".chart.curve").forEach(drawCurve);
    if (pointSelect) drawTimes();
  };

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
    drawAll();
  });
  dark.addEventListener("change", () => { name(); drawAll(); });
  name();

  if (pointSelect) {
    pointSelect.replaceChildren(...data.points.map((point) => option(point.id, point.title)));
    pointSelect.addEventListener("change", () => { fillRepeats(); drawTimes(); });
    repeatSelect.addEventListener("change", drawTimes);
    fillRepeats();
    document.querySelector(".controls").hidden = false;
  }
  drawAll();
})();
