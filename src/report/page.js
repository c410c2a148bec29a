// Builds the page: text, plots and tables of the data that the program wrote into it.

const data = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("page");

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

// Every plot and legend with its place, so that all are drawn again when the colours change.
const drawn = [];
async function draw({ place, list, plot, legend = plot.legend }) {
  const c = colors();
  if (legend) list.replaceChildren(...legend(c).map(([name, color]) => {
    const mark = make("i");
    mark.style.background = color;
    return make("li", {}, mark, name);
  }));
  const options = { renderer: "svg", actions: false, config: config(c), tooltip: { theme: dark.matches ? "dark" : "light" } };
  if (plot) await vegaEmbed(place, plot(c), options);
}
function figure(plot, caption) {
  const entry = { place: make("div", { className: "plot" }), list: make("ul", { className: "legend" }), plot };
  drawn.push(entry);
  return [make("figure", {}, entry.list, entry.place, ...(caption ? [make("figcaption", { textContent: caption })] : [])), entry];
}
function legendList(legend) {
  const list = make("ul", { className: "legend" });
  drawn.push({ list, legend });
  return list;
}

function section(title, text, ...content) {
  page.append(make("h2", { textContent: title }));
  if (text) page.append(make("p", { className: "soft", textContent: text }));
  page.append(...content);
}

async function copy(text, button) {
  const before = button.textContent;
  let copied = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // a page of a file may have no clipboard
    const area = make("textarea", { value: text });
    document.body.append(area);
    area.select();
    copied = document.execCommand("copy");
    area.remove();
  }
  button.textContent = copied ? "copied" : "not copied";
  setTimeout(() => { button.textContent = before; }, 1200);
}

// columns: [title, field, kind of cell: text, number, percent, code or command]
function table(columns, rows) {
  const isNumber = (kind) => kind === "number" || kind === "percent";
  const body = make("tbody");
  const fill = (sorted) => body.replaceChildren(...sorted.map((row) => make("tr", {}, ...columns.map(([, field, kind]) => {
    const value = row[field];
    if (kind === "number") return make("td", { className: "number", textContent: number(value, 5) });
    if (kind === "percent") return make("td", { className: "number", textContent: percent(value) });
    if (kind === "code") return make("td", {}, make("code", { textContent: value }));
    if (kind === "command" && value) {
      const button = make("button", { type: "button", textContent: "copy", title: "copy the command" });
      button.addEventListener("click", () => copy(value, button));
      return make("td", {}, button, " ", make("code", { textContent: value }));
    }
    return make("td", { textContent: value || "-" });
  }))));
  const heads = columns.map(([title, field, kind]) => {
    const button = make("button", { type: "button", textContent: title });
    const head = make("th", { className: isNumber(kind) ? "number" : "" }, button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const compare = (a, b) =>
        (isNumber(kind) ? (a[field] ?? -1) - (b[field] ?? -1) : String(a[field]).localeCompare(String(b[field])));
      fill([...rows].sort((a, b) => (up ? compare(a, b) : compare(b, a))));
    });
    return head;
  });
  fill(rows);
  const all = make("button", { type: "button", textContent: "copy table" });
  const lines = [columns.map(([title]) => title), ...rows.map((row) => columns.map(([, field]) => row[field] ?? ""))];
  all.addEventListener("click", () => copy(lines.map((line) => line.join("\t")).join("\n"), all));
  return [make("div", { className: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body)), all];
}

function showChoices() {
  const subject = data.choosers[data.subject];
  const part = data.problems.length < data.evaluated
    ? ` The plots show ${data.problems.length} of ${data.evaluated} problems; figures in text and tables count all.`
    : "";
  section("Efficiency", "Efficiency is the speed of a choice over the speed of the fastest kernel measured on the same problem. " +
    "A choice that the library refuses is skipped; one that failed counts as 0 %." + part,
    figure(distribution(data), "One line per way to choose. A point (x, y): on x % of the problems, the choice reaches y % or more.")[0],
    ...table([["choice by", "name", "text"], ["problems", "problems", "number"], ["mean", "mean", "percent"], ["median", "p50", "percent"],
              ["tenth percentile", "p10", "percent"], ["worst", "min", "percent"]],
             data.scores.map((s) => ({ ...s, name: data.choosers[s.who] }))));
  if (data.slices.length > 0) {
    const grid = make("div", { className: "grid" });
    for (const group of data.slices)
      grid.append(make("div", {}, make("h3", { textContent: group.by }), figure(slice(data, group), "")[0]));
    section("Efficiency by kind of problem", "Bars: mean efficiency. Mark: tenth percentile; nine of ten problems are better.",
      legendList(seriesLegend(data)), grid);
  }
  const roof = data.roof;
  section("Roofline", "",
    figure(roofline(data), `Speed of the choices of ${subject}. Dashed: what the device allows, from ` +
      `${roof.tflops_known ? "its peak of arithmetic" : "the highest measured speed"} and ` +
      `${roof.gb_s_known ? "its bandwidth of memory" : "the highest measured bandwidth"}. ` +
      "Operands in caches can exceed the limit of memory.")[0]);
  maps(subject);
  if (data.calibration.length > 0) {
    const grid = make("div", { className: "grid" },
      figure(calibration(data), "Speeds of the model's first configs. On the dashed line, the prediction is exact.")[0]);
    if (data.confidence.length > 0)
      grid.append(figure(confidence(data), "Claimed: the model's probability that its choice is within 3 % of the fastest. " +
        "A larger point stands for more problems.")[0]);
    section("Calibration", "", grid);
  }
  section("Worst problems", `Where the choices of ${subject} lose most. The command repeats the case.`,
    ...table([["efficiency", "efficiency", "percent"], ["problem", "problem", "code"], ["chosen, us", "pick_us", "number"],
              ["fastest, us", "best_us", "number"], ["command", "command", "command"], ["chosen config", "pick", "code"],
              ["fastest config", "best", "code"]], data.worst));
}

function maps(subject) {
  const pairs = [["m", "n"], ["m", "k"], ["n", "k"]];
  const select = make("select", { ariaLabel: "sizes" }, ...pairs.map(([x, y], i) =>
    make("option", { value: i, textContent: `${x.toUpperCase()} and ${y.toUpperCase()}` })));
  const made = [];
  const grid = make("div", { className: "grid" });
  if (data.kind_name) {
    const [element, entry] = figure(kinds(data, pairs[0]), `Most frequent ${data.kind_name} ` +
      (data.subject === "model" ? "among the choices." : "among the fastest kernels."));
    made.push([entry, kinds]);
    grid.append(element);
  }
  const [element, entry] = figure(losses(data, pairs[0]), `Loss: 100 % minus the efficiency of ${subject}.`);
  made.push([entry, losses]);
  grid.append(element);
  select.addEventListener("change", () => {
    for (const [one, plot] of made) {
      one.plot = plot(data, pairs[select.value]);
      draw(one);
    }
  });
  section("By size", "", make("p", {}, "Sizes ", select), make("p", { className: "soft",
    textContent: "The result has M rows and N columns, each element a sum of K products; a convolution counts as such a product. " +
      "A cell holds the problems from its size to below the next label; k stands for 1,024." }), grid);
}

const whole = (count) => count.toLocaleString("en-US");

function progress(label, done, all) {
  const bar = make("span");
  bar.style.width = `${(100 * done) / Math.max(all, 1)}%`;
  return make("p", {}, `${label}: ${whole(done)} of ${whole(all)}`, make("div", { className: "bar" }, bar));
}

function showSweep(sweep) {
  section("Progress", "", progress("Problems measured completely", sweep.problems_done, sweep.problems),
    progress("Pairs of a problem and a config", sweep.rows, sweep.pairs),
    ...table([["result", "status", "text"], ["rows of the first pass", "rows", "number"]], sweep.statuses));
  if (sweep.failures.length > 0) {
    section("Failures by reason", "The command repeats the first case of a reason.",
      ...table([["rows", "rows", "number"], ["reason", "reason", "text"], ["command", "command", "command"]], sweep.failures));
  }
  const grid = make("div", { className: "grid" });
  const add = (values, plot, caption) => {
    if (values.length > 0) grid.append(figure(plot(sweep), caption)[0]);
  };
  add(sweep.rate, rate, "Rate: rows per second of time in timed kernels. It falls where problems are large or kernels slow.");
  add(sweep.noise, noise, "Noise: median absolute deviation of a config's samples, where it has three or more. " +
    `${whole(sweep.noisy_contenders)} of ${whole(sweep.contender_rows)} rows of the second pass stayed noisier than asked.`);
  add(sweep.clocks, clocks, "Clock of the device at the end of a batch. A falling line means that the device throttles.");
  if (grid.childElementCount > 0) section("Rate, noise and clocks", "", grid);
}

page.append(make("h1", { textContent: data.title }),
  ...data.summary.map((text) => make("p", { textContent: text.replace(/ %/g, "\u00a0%") })),
  make("dl", {}, ...data.facts.flatMap(([name, value]) => [make("dt", { textContent: name }), make("dd", { textContent: value })])));
if (data.sweep) showSweep(data.sweep);
if (data.scores) showChoices();

const drawAll = async () => {
  for (const entry of drawn) await draw(entry);
  document.documentElement.dataset.drawn = drawn.length;
};
dark.addEventListener("change", drawAll);
await drawAll();
