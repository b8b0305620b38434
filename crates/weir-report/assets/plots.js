// Charts over the axes, and heat maps: the first come with their scales, the second with theirs to be unpacked.
const plots = (() => {
  const { data, css, time, share, short, plain, logTicks, draw, said, wrapped, legend, offer } = figures;
  const plotOf = (element) => data.plots.find((plot) => plot.id === element.dataset.plot);

  const axis = (scale) => ({
    ...plain(),
    type: scale.log ? "log" : "linear",
    range: scale.log ? [Math.log10(scale.low), Math.log10(scale.high)] : [scale.low, scale.high],
    tickvals: scale.ticks.map((tick) => tick.at), ticktext: scale.ticks.map((tick) => said(tick.label)),
  });

  // Figures with their intervals, joined where they count; what does not is a ring, what is beyond the scale points out of it.
  const traces = (plot, line) => {
    const beyond = (spot) => spot.y === null || spot.y > plot.y.high;
    const top = plot.y.log ? 10 ** (Math.log10(plot.y.high) - 0.02 * Math.log10(plot.y.high / plot.y.low)) : plot.y.high * 0.98;
    const shade = css(line.color);
    // Over a gap in time, or between marks, leads no line.
    const isOpen = plot.marks === "lines" || !line.marked;
    const counting = isOpen ? line.spots : line.spots.filter((spot) => spot.counts && spot.y !== null);
    const clipped = (value) => Math.max(plot.y.low, Math.min(plot.y.high, value));
    const lead = {
      type: "scatter", mode: "lines", x: counting.map((spot) => spot.x), y: counting.map((spot) => spot.y), hoverinfo: "skip",
      line: { color: shade, width: line.dashed ? 1.3 : 1.8, dash: line.dashed ? "dash" : "solid" },
    };
    // No whisker where there is no interval: one of length zero would be a tick.
    const within = (spot, end) => (spot.interval && !beyond(spot) ? Math.abs(clipped(spot.interval[end]) - spot.y) : NaN);
    const dots = {
      type: "scatter", mode: "markers", x: line.spots.map((spot) => spot.x), y: line.spots.map((spot) => (beyond(spot) ? top : spot.y)),
      marker: {
        size: 8, color: shade, line: { width: 1.4, color: shade },
        symbol: line.spots.map((spot) => (beyond(spot) ? "triangle-up-open" : spot.counts ? "circle" : "circle-open")),
      },
      error_y: {
        type: "data", symmetric: false, color: shade, thickness: 1.1, width: 3,
        array: line.spots.map((spot) => within(spot, 1)), arrayminus: line.spots.map((spot) => within(spot, 0)),
      },
      text: line.spots.map((spot) => wrapped(spot.words)), hovertemplate: "%{text}<extra></extra>",
    };
    return isOpen ? [lead] : [lead, dots];
  };

  const drawPanel = (element) => {
    const plot = plotOf(element);
    draw(element, plot.panels[Number(element.dataset.panel)].lines.flatMap((line) => traces(plot, line)), {
      height: plot.panels.length > 1 ? 230 : 290, margin: { l: 66, r: 12, t: 6, b: 44 }, hovermode: "closest",
      xaxis: { ...axis(plot.x), title: { text: said(plot.x.title), font: { size: 11, color: css("soft") }, standoff: 6 }, showgrid: false, tickangle: 0 },
      yaxis: axis(plot.y),
    });
  };

  const rowsOf = (plot) => [
    ["panel", "name", plot.x.title, `${plot.y.title} (${plot.y.unit})`, "low", "high", "counts", "words"],
    ...plot.panels.flatMap((panel) => panel.lines.flatMap((line) => line.spots.map((spot) => [
      panel.title, line.name, spot.x, spot.y, ...(spot.interval || [null, null]), spot.counts, spot.words,
    ]))),
  ];

  // Names above all panels, and the data below them as a file.
  const prepare = () => document.querySelectorAll("figure.plot").forEach((figure) => {
    const plot = data.plots.find((known) => known.id === figure.id);
    const lines = plot.panels.flatMap((panel) => panel.lines);
    legend(figure.querySelector(".panels"), lines.filter((line, index) => lines.findIndex((other) => other.name === line.name) === index));
    offer(figure, plot.id, () => rowsOf(plot));
  });

  // The short form of a heat map: see `Packed` in heat.rs.
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const value = new Map([...alphabet].map((digit, index) => [digit, index]));
  const unpacked = (heat, column) => {
    const shares = new Array(heat.rows).fill(0);
    for (let at = 1, row = value.get(column[0]); at < column.length; at += 2, row += 1) {
      const level = value.get(column[at]) * 64 + value.get(column[at + 1]);
      if (level > 0) shares[row] = 10 ** (((level - 1) / 4094) * 6 - 6);
    }
    return shares;
  };
  const edge = (heat, row) => 10 ** ((heat.first + row) / heat.per_decade);
  const starts = (line) => [...line.t_s, line.end_s];

  // All gateways of a load share the scales, and each has a map of its own.
  const drawHeat = (element, line, lines) => {
    const columns = line.heat.columns.map((column) => unpacked(line.heat, column));
    const rows = [...Array(line.heat.rows).keys()];
    const exponents = [...rows, rows.length].map((row) => Math.log10(edge(line.heat, row)));
    const full = lines.filter((other) => other.heat.rows > 0).map((other) => other.heat);
    const low = Math.min(...full.map((heat) => Math.log10(edge(heat, 0))));
    const high = Math.max(...full.map((heat) => Math.log10(edge(heat, heat.rows))));
    const marks = logTicks(low, high).filter((tick) => Math.log10(tick) >= low && Math.log10(tick) <= high);
    const at = starts(line);
    const z = rows.map((row) => columns.map((shares) => (shares[row] > 0 ? Math.max(-4, Math.log10(shares[row])) : null)));
    const text = rows.map((row) => columns.map((shares, column) =>
      `${short(at[column].toFixed(2))} .. ${short(at[column + 1].toFixed(2))} s<br>${time(edge(line.heat, row))} .. ${time(edge(line.heat, row + 1))}: ${share(shares[row])}`));
    draw(element, [{
      type: "heatmap", x: at, y: exponents, z, text, hoverinfo: "text", hoverongaps: false, zmin: -4, zmax: 0, xgap: 0.4, ygap: 0.4,
      colorscale: [[0, css("heat-low")], [0.5, css("heat-middle")], [1, css("heat-high")]],
      showscale: false,
    }], {
      height: 230, margin: { l: 58, r: 14, t: 6, b: 26 }, hovermode: "closest",
      shapes: line.sustained_from_s > 0 ? [{
        type: "line", x0: line.sustained_from_s, x1: line.sustained_from_s, yref: "paper", y0: 0, y1: 1,
        line: { color: css("soft"), width: 1, dash: "dash" },
      }] : [],
      xaxis: { ...plain(), showgrid: false, ticksuffix: " s", range: [0, Math.max(...lines.map((other) => other.end_s))] },
      yaxis: { ...plain(), range: [low, high], tickvals: marks.map((tick) => Math.log10(tick)), ticktext: marks.map((tick) => short(time(tick))) },
    });
  };
  const heatRows = (lines) => [
    ["gateway", "repeat", "from_s", "to_s", "latency_low_ns", "latency_high_ns", "share"],
    ...lines.flatMap((line) => line.heat.columns.flatMap((column, place) => unpacked(line.heat, column)
      .map((of, row) => [line.gateway, line.repeat + 1, starts(line)[place], starts(line)[place + 1],
        Math.round(edge(line.heat, row)), Math.round(edge(line.heat, row + 1)), Number(of.toPrecision(3))])
      .filter((cells) => cells[6] > 0))),
  ];

  return { prepare, drawPanel, drawHeat, heatRows };
})();
