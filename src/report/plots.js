// The plots of a report, as Vega-Lite specifications of its data. page.js draws them, with legends of its own: those of the library
// do not wrap.

const dark = matchMedia("(prefers-color-scheme: dark)");
const colors = () => dark.matches
  ? { text: "#e4e9f0", soft: "#9daabb", line: "#333d4a", paper: "#12171e",
      series: { model: "#6db1ff", first: "#f0a45d", fixed: "#7fd08f", analytic: "#c79bf2" },
      kinds: ["#6db1ff", "#f0a45d", "#7fd08f", "#c79bf2", "#f2879b", "#e2cf6b", "#68d0cf", "#9daabb"],
      loss: ["#1f3044", "#b98a3d", "#ff6b57"] }
  : { text: "#1c2430", soft: "#5b6675", line: "#d9dee5", paper: "#ffffff",
      series: { model: "#0b62c4", first: "#c2570c", fixed: "#1f8a3b", analytic: "#7a3fc2" },
      kinds: ["#0b62c4", "#e08a2e", "#1f8a3b", "#7a3fc2", "#c8304f", "#a58a00", "#118a8a", "#5b6675"],
      loss: ["#e8f0f7", "#f2c46d", "#c4261d"] };

const config = (c) => ({
  background: "transparent", font: "system-ui, sans-serif",
  view: { stroke: c.line },
  axis: { labelColor: c.soft, titleColor: c.text, gridColor: c.line, domainColor: c.soft, tickColor: c.soft,
          titleFontWeight: "normal", labelFontSize: 11, titleFontSize: 12, labelOverlap: "greedy", labelSeparation: 4 },
  legend: { labelColor: c.text, titleColor: c.text, orient: "top", titleFontWeight: "normal" },
});

const number = (value, digits = 3) =>
  value == null ? "-" : Number(value.toPrecision(digits)).toLocaleString("en-US", { maximumSignificantDigits: digits });
const percent = (value) => (value == null ? "-" : value.toFixed(1) + " %");

// Speeds are shown in the unit that gives numbers from 1 on.
const speedUnit = (values) => (Math.max(...values.filter((v) => v != null), 0) < 1 ? ["GFLOPS", 1000] : ["TFLOPS", 1]);

const base = (height) => ({ width: "container", height, autosize: { type: "fit", contains: "padding" } });
const tip = (...fields) => fields.map(([field, title]) => ({ field, title, type: "nominal" }));

// Labels of a logarithmic axis: powers of ten; over less than two of them also 2 and 5 times these.
function logAxis(low, high) {
  const values = [];
  const steps = Math.log10(high / low) < 2 ? [1, 2, 5] : [1];
  for (let power = Math.floor(Math.log10(low)); 10 ** power <= high; ++power)
    values.push(...steps.map((step) => Number(`${step}e${power}`)).filter((v) => v >= low && v <= high));
  return { format: ",~g", values, labelOverlap: "greedy", labelSeparation: 8 };
}

const withLegend = (plot, legend) => Object.assign(plot, { legend });

const words = (data) => Object.keys(data.choosers).filter((word) => data.scores.some((s) => s.who === word));
const seriesLegend = (data) => (c) => words(data).map((word) => [data.choosers[word], c.series[word]]);
// Lines may cover each other: their dashes differ.
const dashes = { model: [1, 0], first: [1, 0], fixed: [7, 4], analytic: [2, 3] };
const seriesDash = (data) => ({ field: "name", type: "nominal", legend: null,
  scale: { domain: words(data).map((word) => data.choosers[word]), range: words(data).map((word) => dashes[word]) } });
const seriesColor = (data, c) => ({ field: "name", type: "nominal", legend: null,
  scale: { domain: words(data).map((word) => data.choosers[word]), range: words(data).map((word) => c.series[word]) } });

// Efficiency of each chooser, best problem first. A line needs no more than 250 points.
function distribution(data) {
  const values = [];
  for (const who of Object.keys(data.choosers)) {
    const sorted = data.problems.filter((p) => p[who] != null).sort((a, b) => b[who] - a[who]);
    const count = Math.min(sorted.length, 250);
    for (let i = 0; i < count; ++i) {
      const at = count < 2 ? 0 : Math.round((i * (sorted.length - 1)) / (count - 1));
      const p = sorted[at];
      const point = { name: data.choosers[who], share: (100 * (at + 1)) / sorted.length, efficiency: p[who], text: percent(p[who]),
                      problem: p.problem, config: who === data.subject ? p.pick : "fastest: " + p.best };
      if (i === 0) values.push({ ...point, share: 0 });
      values.push(point);
    }
  }
  return withLegend((c) => ({
    ...base(320), data: { values },
    encoding: {
      x: { field: "share", type: "quantitative", title: "share of the problems, best first (%)", scale: { domain: [0, 100], nice: false } },
      y: { field: "efficiency", type: "quantitative", title: "efficiency (% of the fastest kernel)", scale: { domain: [0, 100] } },
      color: seriesColor(data, c),
      tooltip: tip(["name", "choice by"], ["text", "efficiency"], ["problem", "problem"], ["config", "config"]),
    },
    layer: [
      { mark: { type: "line", strokeWidth: 2.5 }, encoding: { strokeDash: seriesDash(data) } },
      { mark: { type: "point", opacity: 0, filled: true, size: 80 } },
    ],
  }), seriesLegend(data));
}

// Mean efficiency of each chooser in the classes of one grouping.
function slice(data, group) {
  const values = group.values.flatMap((v) => v.scores.map((s) => ({
    value: v.value, name: data.choosers[s.who], mean: s.mean, p10: s.p10, text: percent(s.mean), low: percent(s.p10),
    problems: s.problems })));
  const bars = new Set(values.map((v) => v.name)).size;
  const order = [...new Set(group.values.map((v) => v.value))];
  return (c) => ({
    ...base(group.values.length * (bars * 9 + 12) + 50), data: { values },
    encoding: {
      y: { field: "value", type: "nominal", title: null, sort: order, axis: { labelLimit: 130, labelFontSize: 12 } },
      yOffset: { field: "name", sort: Object.values(data.choosers) },
      color: seriesColor(data, c),
      tooltip: tip(["value", group.by], ["name", "choice by"], ["text", "mean efficiency"], ["low", "tenth percentile"],
                   ["problems", "problems"]),
    },
    layer: [
      { mark: { type: "bar" },
        encoding: { x: { field: "mean", type: "quantitative", title: "mean efficiency (%)", scale: { domain: [0, 100] } } } },
      { mark: { type: "tick", color: c.text, thickness: 2 },
        encoding: { x: { field: "p10", type: "quantitative" }, color: { value: c.text } } },
    ],
  });
}

// Speeds over arithmetic intensity, below the limits of the device.
function roofline(data) {
  const points = data.problems.filter((p) => p.best_tflops > 0 && p.intensity > 0);
  const [unit, factor] = speedUnit([data.roof.tflops, ...points.map((p) => p.best_tflops)]);
  const values = points.flatMap((p) => [["measured", p.pick_tflops], ["predicted", p.predicted_tflops]]
    .filter(([, speed]) => speed > 0)
    .map(([series, speed]) => ({ series, x: p.intensity, y: speed * factor, problem: p.problem, config: p.pick,
      text: `${number(speed * factor)} ${unit}, ${series}`, fastest: `${number(p.best_tflops * factor)} ${unit}` })));
  const xs = points.map((p) => p.intensity), top = data.roof.tflops, slope = data.roof.gb_s / 1000;
  const low = Math.min(...xs) / 1.2, high = Math.max(...xs) * 1.2, ridge = top / slope;
  const roof = [...new Set([low, ...(ridge > low && ridge < high ? [ridge] : []), high])]
    .map((x) => ({ x, y: Math.min(top, slope * x) * factor,
      text: `${number(top * factor)} ${unit}, ${number(data.roof.gb_s)} GB/s` }));
  const series = [...new Set(values.map((v) => v.series))];
  const speeds = [...values, ...roof].map((v) => v.y), bottom = Math.min(...speeds) / 1.5, ceiling = Math.max(...speeds) * 1.5;
  const seriesColors = (c) => [c.series.model, c.series.first];
  return withLegend((c) => ({
    ...base(380),
    layer: [
      { data: { values: roof }, mark: { type: "line", color: c.soft, strokeWidth: 2, strokeDash: [6, 3] },
        encoding: { x: { field: "x", type: "quantitative" }, y: { field: "y", type: "quantitative" }, tooltip: tip(["text", "limits"]) } },
      { data: { values }, mark: { type: "point", size: 22, filled: true, opacity: 0.55 },
        encoding: {
          x: { field: "x", type: "quantitative", title: "arithmetic intensity (operations per byte)",
               scale: { type: "log", domain: [low, high], nice: false }, axis: logAxis(low, high) },
          y: { field: "y", type: "quantitative", title: `speed (${unit})`,
               scale: { type: "log", domain: [bottom, ceiling], nice: false }, axis: logAxis(bottom, ceiling) },
          color: { field: "series", type: "nominal", legend: null, scale: { domain: series, range: seriesColors(c) } },
          shape: { field: "series", type: "nominal", legend: null, scale: { domain: series, range: ["circle", "triangle-up"] } },
          tooltip: tip(["problem", "problem"], ["config", "config"], ["text", "speed"], ["fastest", "fastest kernel"]) } },
    ],
  }), (c) => series.map((name, i) => [name, seriesColors(c)[i]]));
}

const powerLabel = (power) => (power < 10 ? String(2 ** power) : power < 20 ? 2 ** (power - 10) + "k" : 2 ** (power - 20) + "M");

// The problems by powers of two of two sizes.
function cells(data, xName, yName) {
  const found = new Map();
  for (const p of data.problems) {
    const x = Math.floor(Math.log2(Math.max(p[xName], 1))), y = Math.floor(Math.log2(Math.max(p[yName], 1)));
    const key = `${x},${y}`;
    if (!found.has(key)) found.set(key, { x, y, members: [] });
    found.get(key).members.push(p);
  }
  return [...found.values()];
}

function heat(data, axes, values, color, tooltip) {
  const [xName, yName] = axes;
  const labels = (name) => [...new Set(values.map((v) => v[name]))].sort((a, b) => a - b).map(powerLabel);
  const shown = values.map((v) => ({ ...v, xLabel: powerLabel(v.x), yLabel: powerLabel(v.y) }));
  return (c) => ({
    ...base(340), data: { values: shown }, mark: { type: "rect", stroke: c.paper },
    encoding: {
      x: { field: "xLabel", type: "ordinal", title: `${xName.toUpperCase()}, from`, sort: labels("x"),
           axis: { labelAngle: 0, labelOverlap: "greedy", labelSeparation: 3 } },
      y: { field: "yLabel", type: "ordinal", title: `${yName.toUpperCase()}, from`, sort: labels("y").reverse(),
           axis: { labelOverlap: "greedy" } },
      color: color(c), tooltip,
    },
  });
}

// The kind of kernel that is chosen most often for problems of similar sizes.
function kinds(data, axes) {
  const all = cells(data, ...axes).map(({ x, y, members }) => {
    const counts = {};
    for (const p of members) counts[p.kind] = (counts[p.kind] ?? 0) + 1;
    const order = Object.entries(counts).sort((a, b) => b[1] - a[1]);
    return { x, y, kind: order[0][0], counts: order.map(([kind, n]) => `${kind}: ${n}`).join(", "),
             example: members[0].problem, config: data.subject === "model" ? members[0].pick : members[0].best };
  });
  const total = {};
  for (const p of data.problems) total[p.kind] = (total[p.kind] ?? 0) + 1;
  const frequent = Object.entries(total).sort((a, b) => b[1] - a[1]).map(([kind]) => kind).slice(0, 7);
  const values = all.map((v) => ({ ...v, shown: frequent.includes(v.kind) ? v.kind : "other" }));
  const domain = [...frequent, "other"].filter((kind) => values.some((v) => v.shown === kind));
  return withLegend(heat(data, axes, values,
    (c) => ({ field: "shown", type: "nominal", legend: null, scale: { domain, range: c.kinds } }),
    tip(["counts", "problems by kind"], ["example", "problem"], ["config", "config"])),
    (c) => domain.map((kind, i) => [kind, c.kinds[i]]));
}

// The mean loss of the choices on problems of similar sizes.
function losses(data, axes) {
  const values = cells(data, ...axes).map(({ x, y, members }) => {
    const worst = members.reduce((a, b) => (a[data.subject] < b[data.subject] ? a : b));
    const loss = 100 - members.reduce((sum, p) => sum + p[data.subject], 0) / members.length;
    return { x, y, loss, text: percent(loss), count: members.length, worst: worst.problem, config: worst.pick };
  });
  const most = Math.max(1, ...values.map((v) => v.loss));
  return heat(data, axes, values,
    (c) => ({ field: "loss", type: "quantitative", title: "mean loss (%)", scale: { range: c.loss, interpolate: "lab", domain: [0, most] },
              legend: { gradientLength: 180, format: ",.2~f", tickCount: 4 } }),
    tip(["text", "mean loss"], ["count", "problems"], ["worst", "worst problem"], ["config", "its config"]));
}

// Predicted over measured speeds, around the diagonal.
function calibration(data) {
  const [unit, factor] = speedUnit(data.calibration.map((p) => p.measured_tflops));
  const values = data.calibration.map((p) => ({ ...p, x: p.measured_tflops * factor, y: p.predicted_tflops * factor,
    measured: `${number(p.measured_tflops * factor)} ${unit}`, predicted: `${number(p.predicted_tflops * factor)} ${unit}` }));
  const both = values.flatMap((v) => [v.x, v.y]);
  const domain = [Math.min(...both) / 1.2, Math.max(...both) * 1.2];
  const scale = { type: "log", domain, nice: false }, axis = logAxis(...domain);
  return (c) => ({
    ...base(360),
    layer: [
      { data: { values: domain.map((v) => ({ x: v, y: v })) }, mark: { type: "line", color: c.soft, strokeDash: [6, 3] },
        encoding: { x: { field: "x", type: "quantitative" }, y: { field: "y", type: "quantitative" } } },
      { data: { values }, mark: { type: "point", filled: true, size: 18, opacity: 0.45, color: c.series.model },
        encoding: {
          x: { field: "x", type: "quantitative", title: `measured speed (${unit})`, scale, axis },
          y: { field: "y", type: "quantitative", title: `predicted speed (${unit})`, scale, axis },
          tooltip: tip(["problem", "problem"], ["config", "config"], ["measured", "measured"], ["predicted", "predicted"]) } },
    ],
  });
}

// How often choices of a claimed confidence were right.
function confidence(data) {
  const values = data.confidence.map((b) => ({ ...b, text: percent(b.claimed), seen: percent(b.observed) }));
  return (c) => ({
    ...base(360),
    layer: [
      { data: { values: [{ x: 0, y: 0 }, { x: 100, y: 100 }] }, mark: { type: "line", color: c.soft, strokeDash: [6, 3] },
        encoding: { x: { field: "x", type: "quantitative" }, y: { field: "y", type: "quantitative" } } },
      { data: { values }, mark: { type: "point", filled: true, color: c.series.model },
        encoding: {
          x: { field: "claimed", type: "quantitative", title: "claimed probability (%)", scale: { domain: [0, 100] } },
          y: { field: "observed", type: "quantitative", title: "share that was right (%)", scale: { domain: [0, 100] } },
          size: { field: "problems", type: "quantitative", legend: null, scale: { range: [40, 500] } },
          tooltip: tip(["text", "claimed"], ["seen", "right"], ["problems", "problems"]) } },
    ],
  });
}

// Rows of a sweep by their noise.
function noise(sweep) {
  const passes = { 1: "first pass, every config", 2: "second pass, the fastest configs" };
  const names = Object.keys(passes).filter((pass) => sweep.noise.some((v) => v.pass === Number(pass)))
    .map((pass) => passes[pass]);
  const values = sweep.noise.map((v) => ({ ...v, name: passes[v.pass] }));
  const order = [...new Set([...values].sort((a, b) => a.place - b.place).map((v) => v.label))];
  const range = (c) => [c.series.model, c.series.first];
  return withLegend((c) => ({
    ...base(260), data: { values }, mark: { type: "bar" },
    encoding: {
      x: { field: "label", type: "nominal", sort: order, title: "spread of the samples, up to (% of the time)", axis: { labelAngle: 0 } },
      xOffset: { field: "name", sort: names },
      y: { field: "rows", type: "quantitative", title: "rows", axis: { format: ",~r", tickMinStep: 1 } },
      color: { field: "name", type: "nominal", legend: null, scale: { domain: names, range: range(c) } },
      tooltip: tip(["rows", "rows"], ["problem", "noisiest problem"], ["config", "its config"]),
    },
  }), (c) => names.map((name, i) => [name, range(c)[i]]));
}

// A line over the course of a sweep.
function course(values, [x, xTitle], [y, yTitle], tooltip, zero) {
  return (c) => ({
    ...base(220), data: { values },
    encoding: {
      x: { field: x, type: "quantitative", title: xTitle, scale: { nice: false, zero: false }, axis: { format: ",~r", tickMinStep: 1 } },
      y: { field: y, type: "quantitative", title: yTitle, scale: { zero }, axis: { format: ",~r" } }, tooltip,
    },
    layer: [
      { mark: { type: "line", color: c.series.model } },
      { mark: { type: "point", opacity: 0.6, filled: true, size: 18, color: c.series.model } },
    ],
  });
}
const rate = (sweep) => course(sweep.rate, ["rows", "rows measured so far"], ["per_second", "rows per second of kernel time"],
  tip(["per_second", "rows per second"], ["rows", "rows so far"], ["problem", "longest problem"], ["config", "its config"]), true);
const clocks = (sweep) => course(sweep.clocks, ["batch", "batch of measurements"], ["mhz", "clock (MHz)"],
  tip(["mhz", "MHz"], ["batch", "batch"]), false);
