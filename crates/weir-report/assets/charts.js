"use strict";
// The charts of the page are SVG and complete without this script. It adds: the value at the pointer or keyboard focus,
// legends that toggle their series, tables as CSV files, a choice of load and repeat over time, and the theme.

// The sizing scripts also use the page's data and the number formats of the tables.
const figures = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const colorOf = new Map(data.gateways.map((gateway) => [gateway.name, gateway.color]));
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
  const share = (value) => {
    const percent = value * 100;
    if (percent >= 99.95 && percent < 100) return `${percent.toFixed(3)} %`;
    return percent === 0 ? "0 %" : Math.abs(percent) < 0.1 ? `${percent.toFixed(4)} %` : `${digits(percent)} %`;
  };
  return { data, colorOf, digits, time, share };
})();

// Heat maps encode their shares: see `Packed` in heat.rs.
const heats = (() => {
  const { time, share } = figures;
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const digit = new Map([...alphabet].map((letter, index) => [letter, index]));
  const of = (svg) => {
    const map = svg.querySelector("g.heat");
    return map && {
      map, perDecade: Number(map.dataset.perDecade), first: Number(map.dataset.first), rows: Number(map.dataset.rows),
      edges: map.dataset.edges.split(" ").map(Number), columns: map.dataset.columns.split(" "),
    };
  };
  const shares = (heat, column) => {
    const text = heat.columns[column];
    const of = new Array(heat.rows).fill(0);
    for (let at = 1, row = digit.get(text[0]); at < text.length; at += 2, row += 1) {
      const level = digit.get(text[at]) * 64 + digit.get(text[at + 1]);
      if (level > 0) of[row] = 10 ** (((level - 1) / 4094) * 6 - 6);
    }
    return of;
  };
  const edge = (heat, row) => 10 ** ((heat.first + row) / heat.perDecade);
  // Within the map, a second is one unit wide and a row one unit high. The middle of a row is an integer.
  const moved = (x, y, matrix) => new DOMPoint(x, y).matrixTransform(matrix);
  const field = (heat, column, row) => {
    const at = moved((heat.edges[column] + heat.edges[column + 1]) / 2, row, heat.map.getScreenCTM());
    return {
      x: at.x, y: at.y, column, row,
      text: `${heat.edges[column]} to ${heat.edges[column + 1]} s\n${time(edge(heat, row))} to ${time(edge(heat, row + 1))}: ${share(shares(heat, column)[row])}`,
    };
  };
  // `at` returns the field at a position of the window, `fullest` the field of a column with the largest share.
  const at = (heat, x, y) => {
    const place = moved(x, y, heat.map.getScreenCTM().inverse());
    const column = heat.edges.findLastIndex((start) => start <= place.x);
    const row = Math.round(place.y);
    return column >= 0 && column < heat.columns.length && row >= 0 && row < heat.rows ? field(heat, column, row) : null;
  };
  const fullest = (heat, column) => {
    const of = shares(heat, column);
    return field(heat, column, of.indexOf(Math.max(...of)));
  };
  const rows = (figure) => [
    ["gateway", "from, s", "to, s", "latency low, ns", "latency high, ns", "share"],
    ...[...figure.querySelectorAll(".panel")].flatMap((panel) => {
      const heat = of(panel);
      return heat.columns.flatMap((_, column) => shares(heat, column)
        .map((value, row) => [panel.querySelector("h4").textContent, heat.edges[column], heat.edges[column + 1],
          Math.round(edge(heat, row)), Math.round(edge(heat, row + 1)), Number(value.toPrecision(3))])
        .filter((cells) => cells[5] > 0));
    }),
  ];
  return { of, at, fullest, rows };
})();

// The value under the pointer, or at the mark that the arrow keys selected.
(() => {
  const FARTHEST = 24;
  const tip = Object.assign(document.createElement("div"), { className: "tip", hidden: true });
  tip.setAttribute("role", "status");
  document.body.append(tip);
  let marked = null;
  const hide = () => {
    tip.hidden = true;
    marked?.classList.remove("on");
    marked = null;
  };
  const show = (text, x, y, mark) => {
    if (mark !== marked) hide();
    mark?.classList.add("on");
    marked = mark;
    if (tip.textContent !== text) tip.textContent = text;
    tip.hidden = false;
    const [right, bottom] = [innerWidth - tip.offsetWidth - 8, innerHeight - tip.offsetHeight - 8];
    tip.style.left = `${Math.max(8, x + 14 > right ? Math.min(right, x - tip.offsetWidth - 14) : x + 14)}px`;
    tip.style.top = `${Math.max(8, Math.min(y + 14, bottom))}px`;
  };
  // A chart column without a title shows its table row as tooltip. Table heads end with the unit.
  const { digits, time } = figures;
  const bytes = (mib) => (mib < 1 ? `${digits(mib * 1024)} KiB` : mib < 1024 ? `${digits(mib)} MiB` : `${digits(mib / 1024)} GiB`);
  const units = { "1/s": (value) => `${digits(value)}/s`, "µs": (value) => time(value * 1e3), MiB: bytes, cores: digits, s: (value) => `${value} s` };
  const fill = (svg) => svg.querySelectorAll(".hover:not([data-tip])").forEach((column, place) => {
    const [heads, ...rows] = svg.closest("figure").querySelectorAll(".numbers tr");
    const said = [...rows[place].cells].map(({ textContent: text }, at) => {
      const [, name, unit] = heads.cells[at].textContent.match(/^(.*?)(?:, ([^,]*))?$/);
      const value = text && units[unit] ? units[unit](Number(text)) : text;
      return at === 0 ? value : text && `${name}: ${value}`;
    });
    column.dataset.tip = said.filter((text) => text).join("\n");
  });
  // Titles move to data attributes, so that the browser shows no second tooltip.
  const marksOf = (svg) => {
    svg.querySelectorAll("title").forEach((title) => {
      title.parentNode.dataset.tip = title.textContent;
      title.remove();
    });
    if (svg.closest("#choice")) fill(svg);
    return [...svg.querySelectorAll("[data-tip]")].filter((mark) => !mark.closest(".off"));
  };
  // The text of a mark lists all series. This removes the lines of hidden series.
  const words = (mark) => {
    const off = [...mark.closest("figure").querySelectorAll(".legend [aria-pressed=false]")].map((button) => `${button.textContent}: `);
    const [head, ...lines] = mark.dataset.tip.split("\n");
    return [head.replaceAll("; ", "\n"), ...lines.filter((line) => !off.some((name) => line.startsWith(name)))].join("\n");
  };
  const distance = (box, x, y) =>
    Math.hypot(Math.max(box.left - x, 0, x - box.right), Math.max(box.top - y, 0, y - box.bottom));
  const nearest = (marks, x, y) => marks
    .map((mark) => ({ mark, far: distance(mark.getBoundingClientRect(), x, y) }))
    .reduce((best, one) => (one.far < best.far ? one : best), { mark: null, far: FARTHEST }).mark;
  document.addEventListener("pointermove", (event) => {
    const svg = event.target.closest?.("svg.plot");
    if (!svg) {
      if (!document.activeElement?.matches("svg.plot:focus-visible")) hide();
      return;
    }
    const marks = marksOf(svg);
    const heat = heats.of(svg);
    const field = heat && heats.at(heat, event.clientX, event.clientY);
    const mark = heat ? null : nearest(marks, event.clientX, event.clientY);
    if (field) show(field.text, event.clientX, event.clientY, null);
    else if (mark) show(words(mark), event.clientX, event.clientY, mark);
    else hide();
  });
  document.documentElement.addEventListener("pointerleave", hide);
  // Keyboard focus can scroll the page: the value then moves with its mark. Other scrolling hides the value.
  document.addEventListener("scroll", () => {
    const focused = document.activeElement;
    if (!tip.hidden && focused?.matches("svg.plot:focus-visible")) step(focused, 0);
    else hide();
  }, { passive: true });

  const places = new WeakMap();
  const step = (svg, by) => {
    const heat = heats.of(svg);
    const marks = heat ? heat.columns : marksOf(svg);
    if (marks.length === 0) return;
    const place = Math.max(0, Math.min(marks.length - 1, (places.get(svg) ?? 0) + by));
    places.set(svg, place);
    if (heat) {
      const field = heats.fullest(heat, place);
      show(field.text, field.x, field.y, null);
    } else {
      const box = marks[place].getBoundingClientRect();
      show(words(marks[place]), box.right, box.top + box.height / 2, marks[place]);
    }
  };
  document.addEventListener("focusin", (event) => event.target.matches("svg.plot:focus-visible") && step(event.target, 0));
  document.addEventListener("focusout", (event) => event.target.matches("svg.plot") && hide());
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
    if (!by || !event.target.matches?.("svg.plot")) return;
    event.preventDefault();
    step(event.target, by);
  });
})();

// Legends, CSV files, and the selection of the load and repeat that the charts over time show.
(() => {
  const quoted = (text) => (/[",\n\r]/.test(text) ? `"${String(text).replace(/"/g, '""')}"` : text);
  const rowsOf = (figure) => (figure.querySelector("g.heat") ? heats.rows(figure)
    : [...figure.querySelectorAll(".numbers tr")].map((row) => [...row.cells].map((cell) => cell.textContent)));
  const save = (figure) => {
    const text = rowsOf(figure).map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
    const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    const link = Object.assign(document.createElement("a"), { href: url, download: `${figure.id}.csv` });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  };
  // A legend entry shows and hides its series in all panels of the figure.
  const toggle = (figure, item) => {
    const button = Object.assign(document.createElement("button"), { type: "button" });
    button.setAttribute("aria-pressed", "true");
    button.append(...item.childNodes);
    item.append(button);
    button.addEventListener("click", () => {
      const isOff = button.getAttribute("aria-pressed") === "true";
      button.setAttribute("aria-pressed", String(!isOff));
      figure.querySelectorAll(`g[data-series="${item.dataset.entry}"]`).forEach((series) => series.classList.toggle("off", isOff));
    });
  };
  const prepare = (root) => root.querySelectorAll("figure").forEach((figure) => {
    figure.querySelectorAll("svg.plot").forEach((svg) => { svg.tabIndex = 0; });
    figure.querySelectorAll(".legend li").forEach((item) => toggle(figure, item));
    const button = figure.querySelector("button.data");
    button.hidden = false;
    button.addEventListener("click", () => save(figure));
  });
  prepare(document);

  const chosen = document.getElementById("choice");
  if (!chosen) return;
  const [loads, repeats] = ["time-point", "time-repeat"].map((id) => document.getElementById(id));
  const all = [chosen, ...document.querySelectorAll("template[data-repeat]")].map((of) => (
    { point: of.dataset.point, load: of.dataset.load, repeat: of.dataset.repeat, content: of.content || document.createDocumentFragment() }));
  let current = all[0];
  const option = (value, text) => Object.assign(document.createElement("option"), { value, textContent: text });
  const fillRepeats = () => {
    const here = all.filter((one) => one.point === loads.value).map((one) => one.repeat);
    const before = repeats.value;
    repeats.replaceChildren(...here.map((repeat) => option(repeat, repeat)));
    if (here.includes(before)) repeats.value = before;
  };
  const choose = () => {
    const next = all.find((one) => one.point === loads.value && one.repeat === repeats.value);
    if (next === current) return;
    current.content.append(...chosen.childNodes);
    if (!next.isPrepared && next !== all[0]) prepare(next.content);
    next.isPrepared = true;
    chosen.append(next.content);
    current = next;
  };
  const points = new Map(all.map((one) => [one.point, one.load]));
  loads.replaceChildren(...[...points].map(([point, load]) => option(point, load)));
  loads.addEventListener("change", () => { fillRepeats(); choose(); });
  repeats.addEventListener("change", choose);
  fillRepeats();
  document.querySelector(".controls").hidden = false;
})();

// Switches the theme, and opens folded parts before printing.
(() => {
  const root = document.documentElement;
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
    try { localStorage.setItem("weir-theme", root.dataset.theme); } catch { /* local files may not support storage */ }
    name();
  });
  dark.addEventListener("change", name);
  name();
  // Folded parts cannot be opened on paper.
  const folded = () => document.querySelectorAll("details.rows, .verdict details");
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...folded()].filter((fold) => !fold.open);
    opened.forEach((fold) => { fold.open = true; });
  });
  window.addEventListener("afterprint", () => opened.forEach((fold) => { fold.open = false; }));
})();
