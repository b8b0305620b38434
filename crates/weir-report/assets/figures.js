"use strict";
// What every chart of the page shares: its data, numbers in words, scales, legends, and the data as a file.
const figures = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const colorOf = new Map(data.gateways.map((gateway) => [gateway.name, gateway.color]));
  const orderOf = new Map(data.gateways.map((gateway, index) => [gateway.name, index]));
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
  const share = (value) => {
    const percent = value * 100;
    if (percent >= 99.95 && percent < 100) return `${percent.toFixed(3)} %`;
    return percent === 0 ? "0 %" : Math.abs(percent) < 0.1 ? `${percent.toFixed(4)} %` : `${digits(percent)} %`;
  };
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
  const plain = () => ({ gridcolor: css("line"), zeroline: false, fixedrange: true, tickfont: { color: css("soft"), size: 11 } });
  const linearAxis = (name, greatest, wanted, room) => {
    const ticks = niceTicks(greatest || 1, unitOf(name, greatest), wanted);
    const label = (tick) => (tick === 0 ? "0" : short(formats[name](tick)).replace("/s", ""));
    return { ...plain(), range: [0, (greatest || 1) * room], tickvals: ticks, ticktext: ticks.map(label), showgrid: true };
  };
  const logTicks = (low, high) => {
    const factors = high - low < 2.2 ? [1, 2, 5] : high - low < 4 ? [1, 3] : [1];
    const ticks = [];
    for (let power = Math.floor(low); power <= Math.ceil(high); power += 1) {
      factors.forEach((factor) => ticks.push(factor * 10 ** power));
    }
    return ticks;
  };
  const layout = (extra) => ({
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: false, showlegend: false,
    font: { family: getComputedStyle(document.body).fontFamily, color: css("ink"), size: 12 },
    hoverlabel: { bgcolor: css("panel"), bordercolor: css("line"), font: { color: css("ink"), size: 12 }, align: "left" },
    ...extra,
  });
  const config = { displayModeBar: false, responsive: true };
  // The library stays packed until a chart is drawn: reading a page does not wait for the second that it takes.
  const unpacked = async () => {
    const packed = Uint8Array.from(atob(document.getElementById("library").textContent), (letter) => letter.charCodeAt(0));
    const text = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(text).text();
    document.head.append(script);
    return window.Plotly;
  };
  let library;
  const draw = async (element, traces, extra) => {
    library ??= unpacked();
    const plotly = await library;
    // The picture that stood in its place goes as the chart comes.
    element.querySelector(":scope > svg.plot")?.remove();
    return plotly.react(element, traces, layout(extra), config);
  };

  // Text out of the data for a hover, in which the library reads a few tags.
  const said = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const wrapped = (text) => said(text).replace(/; /g, "<br>");

  // The legend of lines: names in the order of the tables, beside the colour that each has everywhere.
  const legend = (element, entries) => {
    const list = element.parentElement.querySelector(".legend") || document.createElement("ul");
    list.className = "legend";
    list.replaceChildren(...entries.map(({ name, color: colored, dashed, remark }) => {
      const item = document.createElement("li");
      item.append(Object.assign(document.createElement("i"), { className: `swatch c-${colored || "grey"}${dashed ? " dashed" : ""}` }));
      item.append(remark ? `${name}: ${remark}` : name);
      item.classList.toggle("off", Boolean(remark));
      return item;
    }));
    element.before(list);
  };
  const gatewayEntry = (gateway, remark) => ({ name: gateway, color: colorOf.get(gateway), remark });

  // The rows that a figure draws, as a file; the first row names the columns.
  const quoted = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  };
  const csv = (rows) => rows.map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
  const save = (name, rows) => {
    const url = URL.createObjectURL(new Blob([csv(rows)], { type: "text/csv" }));
    const link = Object.assign(document.createElement("a"), { href: url, download: `${name}.csv` });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  };
  const offer = (figure, name, rows) => {
    const button = figure.querySelector("button.data");
    button.hidden = false;
    button.onclick = () => save(typeof name === "function" ? name() : name, rows());
  };

  return {
    data, root, colorOf, orderOf, css, color, isDirect, digits, time, share, formats, short, plain, linearAxis, logTicks, draw,
    said, wrapped, legend, gatewayEntry, offer,
  };
})();
