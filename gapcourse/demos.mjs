// The live spectrum of a random Markov matrix: drawn, decomposed and plotted in the reader's browser.
// gapcourse/demos.py hands this file to anywidget, which calls `render`; no kernel is needed.

// ---------------------------------------------------------------- random numbers
/** Uniform numbers in (0, 1) from a 32-bit seed (mulberry32). */
function uniforms(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (((t ^ (t >>> 14)) >>> 0) + 0.5) / 2 ** 32;
  };
}

const normal = (u) => Math.sqrt(-2 * Math.log(u())) * Math.cos(2 * Math.PI * u());

/** Gamma variable of a given shape and scale 1 (Marsaglia and Tsang, 2000). */
function gamma(u, shape) {
  if (shape < 1) return gamma(u, shape + 1) * u() ** (1 / shape);
  const d = shape - 1 / 3;
  for (;;) {
    const z = normal(u);
    const v = (1 + z / Math.sqrt(9 * d)) ** 3;
    if (v > 0 && Math.log(u()) < z * z / 2 + d - d * v + d * Math.log(v)) return d * v;
  }
}

/** Samplers of a raw entry with standard deviation / mean = sigma. Rows are normalised later. */
const ENTRIES = {
  lognormal(u, sigma) {
    const spread = Math.sqrt(Math.log1p(sigma * sigma));
    return () => Math.exp(spread * normal(u));
  },
  gamma: (u, sigma) => () => gamma(u, 1 / (sigma * sigma)),
  exponential: (u) => () => -Math.log(u()),
  uniform: (u, sigma) => () => 1 + Math.sqrt(3) * sigma * (2 * u() - 1),
  bernoulli: (u, sigma) => () => (u() < 1 / (1 + sigma * sigma) ? 1 : 0),
  pareto(u, sigma) {
    const alpha = 1 + Math.sqrt(1 + 1 / (sigma * sigma));
    return () => u() ** (-1 / alpha);
  },
};

/** A size x size Markov matrix in row-major order: i.i.d. entries, each row divided by its sum. */
export function randomMarkov(size, sigma, entries, seed) {
  const matrix = new Float64Array(size * size);
  const draw = ENTRIES[entries](uniforms(Math.imul(seed, 0x9e3779b1)), sigma);
  for (let i = 0; i < size; i++) {
    const row = matrix.subarray(i * size, (i + 1) * size);
    let sum = 0;
    while (sum === 0) { // an empty row (sparse entries) is drawn again
      for (let j = 0; j < size; j++) sum += row[j] = draw();
    }
    for (let j = 0; j < size; j++) row[j] /= sum;
  }
  return matrix;
}

// ---------------------------------------------------------------- singular values
/**
 * Bidiagonal form of a square matrix by Householder reflections (Golub and Kahan, 1965).
 * Returns (d_1, e_1, d_2, ..., e_{n-1}, d_n) up to signs, d on the diagonal and e above it.
 */
function bidiagonal(matrix, n) {
  const a = Float64Array.from(matrix);
  const band = new Float64Array(2 * n - 1);
  const v = new Float64Array(n);
  const w = new Float64Array(n);
  for (let k = 0; k < n; k++) {
    // From the left: rows k.. are reflected so that column k vanishes below the diagonal.
    let norm = 0;
    for (let i = k; i < n; i++) norm = Math.hypot(norm, v[i] = a[i * n + k]);
    if ((band[2 * k] = norm) > 0) {
      const scale = 1 / (norm * (norm + Math.abs(v[k])));
      v[k] += v[k] > 0 ? norm : -norm;
      w.fill(0);
      for (let i = k; i < n; i++) {
        for (let j = k + 1, p = i * n + j; j < n; j++, p++) w[j] += v[i] * a[p];
      }
      for (let i = k; i < n; i++) {
        const s = scale * v[i];
        for (let j = k + 1, p = i * n + j; j < n; j++, p++) a[p] -= s * w[j];
      }
    }
    // From the right: columns k+1.. are reflected so that row k vanishes right of e_k.
    norm = 0;
    for (let j = k + 1; j < n; j++) norm = Math.hypot(norm, v[j] = a[k * n + j]);
    if (k < n - 1 && (band[2 * k + 1] = norm) > 0) {
      const scale = 1 / (norm * (norm + Math.abs(v[k + 1])));
      v[k + 1] += v[k + 1] > 0 ? norm : -norm;
      for (let i = k + 1; i < n; i++) {
        let s = 0;
        for (let j = k + 1, p = i * n + j; j < n; j++, p++) s += a[p] * v[j];
        s *= scale;
        for (let j = k + 1, p = i * n + j; j < n; j++, p++) a[p] -= s * v[j];
      }
    }
  }
  return band;
}

/**
 * Singular values, largest first, of the bidiagonal matrix with the given band.
 * They and their negatives are the eigenvalues of the symmetric tridiagonal matrix with zero
 * diagonal and `band` beside it; a Sturm sequence counts those below x, and bisection finds each.
 */
function bandValues(band) {
  const n = (band.length + 1) / 2;
  const squares = band.map((x) => x * x);
  const top = 2 * Math.max(...band) || 1;
  const below = (x) => {
    let negative = 1;
    for (let i = 0, q = -x; i < squares.length; i++) {
      q = -x - squares[i] / (q || Number.EPSILON * top);
      if (q < 0) negative++;
    }
    return negative - n;
  };
  const values = new Float64Array(n);
  const search = (low, high, first, last) => { // values first..last-1 (ascending) lie in [low, high]
    if (first >= last) return;
    const middle = (low + high) / 2;
    if (high - low < 1e-15 * top || middle === low || middle === high) {
      values.fill(middle, n - last, n - first);
      return;
    }
    const split = Math.min(Math.max(below(middle), first), last);
    search(low, middle, first, split);
    search(middle, high, split, last);
  };
  search(0, top, 0, n);
  return values;
}

/** Singular values, largest first, of a square matrix in row-major order. */
export function singularValues(matrix, size) {
  return bandValues(bidiagonal(matrix, size));
}

/**
 * Singular values of a Markov matrix A and of A_perp = A - 11'/T, from one bidiagonal form.
 * A reflection moves e = 1/sqrt(T) to the first axis. As A e = e, the first column then has norm 1;
 * in A_perp it is zero and all the rest is the same: so d_1 = 1 in the one band and 0 in the other.
 */
export function markovSpectra(matrix, size) {
  const a = Float64Array.from(matrix);
  const mean = 1 / Math.sqrt(size);
  for (let i = 0; i < size && size > 1; i++) { // row a_i -> a_i - (a_i . u) u / (1 - mean), u = e - e_1
    const row = a.subarray(i * size, (i + 1) * size);
    const s = (mean * row.reduce((x, y) => x + y) - row[0]) / (1 - mean);
    for (let j = 0; j < size; j++) row[j] -= s * mean;
    row[0] += s;
  }
  const band = bidiagonal(a, size);
  const all = bandValues(band);
  band[0] = 0;
  return { all, bulk: bandValues(band) };
}

// ---------------------------------------------------------------- the demo
const STYLE = `
.gap-demo { font: inherit; line-height: 1.4; color: inherit; max-width: 60rem; overflow-wrap: anywhere; }
.gap-demo *, .gap-demo *::before { box-sizing: border-box; }
.gap-demo form { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(15rem, 100%), 1fr)); gap: .4rem 1.4rem; align-items: end; margin: 0 0 .4rem; }
.gap-demo label { display: block; font-size: .95em; margin: 0 0 .15rem; }
.gap-demo output { font-variant-numeric: tabular-nums; font-weight: 600; }
.gap-demo input, .gap-demo select, .gap-demo button { font: inherit; color: inherit; width: 100%; min-height: 2.2rem; margin: 0; accent-color: var(--gap-bulk); }
.gap-demo select, .gap-demo button { background: transparent; border: 1px solid currentColor; border-radius: .3rem; padding: .25rem .6rem; }
.gap-demo option { color: #111; background: #fff; }
.gap-demo button { cursor: pointer; }
.gap-demo button:hover { background: color-mix(in srgb, currentColor 12%, transparent); }
.gap-demo :focus-visible { outline: 3px solid var(--gap-spike); outline-offset: 2px; }
.gap-demo .gap-note { min-height: 1.4em; margin: 0 0 .4rem; font-size: .9em; }
.gap-demo .gap-panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(19rem, 100%), 1fr)); gap: .8rem 1.4rem; }
.gap-demo .gap-panels > div { min-width: 0; }
.gap-demo .gap-title { font-size: .95em; margin: 0; }
.gap-demo canvas { display: block; width: 100%; height: 15rem; }
.gap-demo table { border-collapse: collapse; margin: .6rem 0 0; font-size: .95em; font-variant-numeric: tabular-nums; width: auto; color: inherit; background: none; border: 0; }
.gap-demo th, .gap-demo td { text-align: right; padding: .15rem .9rem .15rem 0; border: 0; background: none; color: inherit; font-weight: 400; }
.gap-demo th[scope=row] { text-align: left; } .gap-demo td:nth-child(2) { font-weight: 600; }
.gap-demo tr { background: none; border: 0; } .gap-demo thead tr { border-bottom: 1px solid currentColor; }
.gap-demo .gap-spoken { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
`;

const TRAITS = ["tokens", "sigma", "entries", "seed", "view"];
const STEP = 0.05; // of the sigma slider, which counts steps
const LIGHT = { bulk: "#0072b2", law: "#111111", spike: "#c04a00" }; // on a light ground
const DARK = { bulk: "#56b4e9", law: "#f2f2f2", spike: "#ff9d4d" }; // on a dark ground
const digits = (x, n = 3) => x.toFixed(n).replace("-", "−");

function template(id) {
  return `<style>${STYLE}</style>
  <form aria-label="Controls of the matrix">
    <div><label for="${id}-tokens">Tokens T = <output data-out="tokens"></output></label>
      <input type="range" id="${id}-tokens" name="tokens" min="10" max="300" step="10"></div>
    <div><label for="${id}-sigma">Spread of the entries, σ = <output data-out="sigma"></output></label>
      <input type="range" id="${id}-sigma" name="sigma" min="2" max="40" step="1" aria-describedby="${id}-note"></div>
    <div><label for="${id}-entries">Entries</label>
      <select id="${id}-entries" name="entries"></select></div>
    <div><button type="button" name="draw">New draw</button></div>
  </form>
  <p class="gap-note" id="${id}-note" role="status"></p>
  <div class="gap-panels">
    <div data-panel="histogram"><p class="gap-title">Singular values of √T A<sub>⊥</sub>, the quarter circle, and √T s₁(A)</p>
      <canvas role="img"></canvas></div>
    <div data-panel="ranks"><p class="gap-title">Singular values of A in order, and what the law predicts</p>
      <canvas role="img"></canvas></div>
  </div>
  <table><thead><tr><th scope="col"></th><th scope="col">this matrix</th><th scope="col">theory</th></tr></thead>
    <tbody><tr><th scope="row">s₁</th><td data-out="s1"></td><td data-out="p1"></td></tr>
      <tr><th scope="row">s₂</th><td data-out="s2"></td><td data-out="p2"></td></tr>
      <tr><th scope="row">gap s₁ − s₂</th><td data-out="gap"></td><td data-out="pgap"></td></tr></tbody></table>
  <p class="gap-spoken" aria-live="polite" data-out="spoken"></p>`;
}

/** Context of a canvas sized for the screen's pixels, with the data-to-pixel maps of a plot. */
function plot(canvas, [x0, x1], [y0, y1], ink) {
  const { width, height } = canvas.getBoundingClientRect();
  const ratio = globalThis.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  const pen = canvas.getContext("2d");
  const box = { left: 40, right: width - 12, top: 14, bottom: height - 40 };
  pen.scale(ratio, ratio);
  pen.font = `13px ${getComputedStyle(canvas).fontFamily}`;
  pen.strokeStyle = pen.fillStyle = ink;
  pen.lineWidth = 1;
  const x = (t) => box.left + (box.right - box.left) * (t - x0) / (x1 - x0);
  const y = (t) => box.bottom - (box.bottom - box.top) * (t - y0) / (y1 - y0);
  return { pen, box, x, y };
}

function text(pen, words, x, y, align = "center") {
  pen.textAlign = align;
  pen.fillText(words, x, y);
}

function line(pen, points) {
  pen.beginPath();
  for (const [x, y] of points) pen.lineTo(x, y);
  pen.stroke();
}

/** About `count` round numbers from 0 to `high`. */
function ticks(high, count) {
  const rough = high / count;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * [1, 2, 5, 10].find((m) => m * unit >= rough);
  return Array.from({ length: Math.floor(high / step + 1e-9) + 1 }, (_, i) => +(i * step).toPrecision(6));
}

function axes({ pen, box, x, y }, xs, ys, xLabel) {
  line(pen, [[box.left, box.top], [box.left, box.bottom]]);
  for (const t of xs) {
    line(pen, [[x(t), box.bottom], [x(t), box.bottom + 4]]);
    text(pen, String(t), x(t), box.bottom + 17);
  }
  for (const t of ys) {
    line(pen, [[box.left - 4, y(t)], [box.left, y(t)]]);
    text(pen, String(t), box.left - 7, y(t) + 4, "right");
  }
  text(pen, xLabel, (box.left + box.right) / 2, box.bottom + 34);
}

/** Points of the quarter circle, by angle: (value / sigma, its density * sigma, fraction above it). */
const ARC = Array.from({ length: 91 }, (_, i) => i * Math.PI / 180).map((t) => ({
  value: 2 * Math.sin(t),
  density: 2 * Math.cos(t) / Math.PI,
  above: 1 - (2 / Math.PI) * (t + Math.sin(t) * Math.cos(t)),
}));

/** Histogram of sqrt(T) s_k(A_perp) with the quarter circle; the outlier beyond a break of the axis. */
function drawHistogram(canvas, { tokens, sigma, all, bulk }, colours) {
  const scaled = bulk.map((s) => s * Math.sqrt(tokens));
  const outlier = all[0] * Math.sqrt(tokens);
  const edge = 2 * sigma;
  const right = Math.max(scaled[0], edge) * 1.05;
  const bins = Math.round(Math.min(30, Math.max(8, 1.6 * Math.sqrt(tokens))) * right / edge);
  const width = right / Math.min(bins, 60);
  const heights = new Float64Array(Math.min(bins, 60));
  for (const s of scaled) heights[Math.min(heights.length - 1, Math.floor(s / width))] += 1 / (tokens * width);
  const tall = Math.max(2 / (Math.PI * sigma), ...heights) * 1.12;
  const frame = plot(canvas, [0, right * 1.34], [0, tall], colours.ink);
  const { pen, box, x, y } = frame;
  axes(frame, ticks(right, 4), ticks(tall, 4), "√T × singular value");
  text(pen, "density", box.left + 6, box.top + 6, "left");

  pen.fillStyle = colours.bulk;
  pen.globalAlpha = 0.6;
  heights.forEach((h, i) => pen.fillRect(x(i * width) + 0.5, y(h), x(width) - x(0) - 1, y(0) - y(h)));
  pen.globalAlpha = 1;
  pen.lineWidth = 2.5;
  pen.strokeStyle = colours.law;
  line(pen, ARC.map((p) => [x(p.value * sigma), y(p.density / sigma)]));

  pen.lineWidth = 1; // the axis, broken before the outlier
  pen.strokeStyle = colours.ink;
  const cut = x(right * 1.1);
  line(pen, [[box.left, box.bottom], [cut - 3, box.bottom]]);
  line(pen, [[cut + 3, box.bottom], [box.right, box.bottom]]);
  for (const shift of [-3, 3]) line(pen, [[cut + shift - 3, box.bottom + 6], [cut + shift + 3, box.bottom - 6]]);

  pen.strokeStyle = pen.fillStyle = colours.spike;
  pen.lineWidth = 3;
  const at = (cut + box.right) / 2 + 4;
  line(pen, [[at, box.bottom], [at, box.top + 44]]);
  pen.beginPath();
  pen.arc(at, box.top + 44, 5, 0, 2 * Math.PI);
  pen.fill();
  text(pen, "√T s₁", at, box.top + 14);
  text(pen, digits(outlier, 1), at, box.top + 31);

  const beyond = scaled.filter((s) => s > edge).length;
  canvas.setAttribute("aria-label",
    `Histogram of the ${tokens} singular values of the mean-removed matrix times the root of T: they fill 0 to ` +
    `${digits(scaled[0], 2)}; the quarter circle of theory ends at ${digits(edge, 2)}, and ${beyond} ` +
    `${beyond === 1 ? "value lies" : "values lie"} beyond it. Far to the right, beyond a break of the axis, stands ` +
    `the largest value of the whole matrix at ${digits(outlier, 2)}.`);
}

/** Singular values of A in order, with the quantiles of the quarter circle and the predicted edge. */
function drawRanks(canvas, { tokens, sigma, all }, colours) {
  const edge = 2 * sigma / Math.sqrt(tokens);
  const tall = Math.max(all[0], edge) * 1.12;
  const frame = plot(canvas, [0.2 - 0.03 * tokens, tokens + 0.5], [0, tall], colours.ink);
  const { pen, box, x, y } = frame;
  axes(frame, [1, ...ticks(tokens, 4).slice(1)], ticks(tall, 4), "rank k");
  line(pen, [[box.left, box.bottom], [box.right, box.bottom]]);

  pen.setLineDash([6, 4]);
  line(pen, [[box.left, y(edge)], [box.right, y(edge)]]);
  pen.setLineDash([]);
  text(pen, `2σ/√T = ${digits(edge)}`, box.right, y(edge) - 6, "right");

  pen.fillStyle = colours.bulk;
  const radius = tokens > 80 ? 2.5 : 3.5;
  for (let k = tokens; k > 0; k--) {
    if (k === 1) pen.fillStyle = colours.spike;
    pen.beginPath();
    pen.arc(x(k), y(all[k - 1]), k === 1 ? 5 : radius, 0, 2 * Math.PI);
    pen.fill();
  }
  text(pen, `s₁ = ${digits(all[0])}`, x(1) + 11, y(all[0]) + 4, "left");
  pen.lineWidth = 1.2;
  pen.strokeStyle = colours.law;
  line(pen, ARC.map((p) => [x(1.5 + p.above * (tokens - 1)), y(p.value * sigma / Math.sqrt(tokens))]));

  canvas.setAttribute("aria-label",
    `The ${tokens} singular values of the matrix in order: the first is ${digits(all[0])}, the second is ` +
    `${digits(all[1])}, the last is ${digits(all[tokens - 1])}; theory puts the second at ${digits(edge)}.`);
}

let count = 0;

function render({ model, el }) {
  const root = document.createElement("div");
  root.className = "gap-demo";
  root.innerHTML = template(`gap-${++count}-${Math.random().toString(36).slice(2, 8)}`);
  el.append(root);
  for (const control of root.querySelectorAll("input, select, button")) {
    control.dataset.lmSuppressShortcuts = "true"; // JupyterLab leaves the keys to the control
  }
  const input = (name) => root.querySelector(`[name=${name}]`);
  const note = (words) => { // written only when it changes, as screen readers speak it
    const place = root.querySelector(".gap-note");
    if (place.textContent !== words) place.textContent = words;
  };
  const out = (name, value) => { root.querySelector(`[data-out=${name}]`).textContent = value; };
  const ensembles = model.get("ensembles"); // name -> {label, low, high, reason}
  for (const [name, { label }] of Object.entries(ensembles)) input("entries").add(new Option(label, name));

  const state = {};
  let wished = model.get("sigma"); // the reader's sigma, kept while an ensemble cannot have it
  let setting = false; // our own change, not the kernel's
  let spectrum = null;
  let frame = 0;

  /** Take the model's values, show them on the controls, and ask for a new picture. */
  function read() {
    for (const name of TRAITS) state[name] = model.get(name);
    input("tokens").value = state.tokens;
    input("sigma").value = Math.round(state.sigma / STEP);
    input("entries").value = state.entries;
    input("sigma").setAttribute("aria-valuetext", digits(state.sigma, 2));
    input("sigma").disabled = ensembles[state.entries].low === ensembles[state.entries].high;
    out("tokens", state.tokens);
    out("sigma", digits(state.sigma, 2));
    for (const panel of root.querySelectorAll("[data-panel]")) {
      panel.hidden = state.view !== "both" && state.view !== panel.dataset.panel;
    }
    spectrum = null;
    schedule();
  }

  /** Set traits, with sigma held within the range of the ensemble and the reason shown. */
  function set(changes) {
    const entries = changes.entries ?? state.entries;
    const { low, high, reason } = ensembles[entries];
    wished = changes.sigma ?? wished;
    const sigma = Math.min(high, Math.max(low, wished));
    note(sigma === wished && low < high ? "" : reason);
    setting = true;
    for (const [name, value] of Object.entries({ ...changes, sigma })) model.set(name, value);
    setting = false;
    read();
  }

  function draw() {
    frame = 0;
    const ink = getComputedStyle(root).color;
    const [r, g, b] = ink.match(/[\d.]+/g).map(Number);
    const colours = { ink, ...(0.3 * r + 0.6 * g + 0.1 * b > 127 ? DARK : LIGHT) };
    root.style.setProperty("--gap-bulk", colours.bulk);
    root.style.setProperty("--gap-spike", colours.spike);
    if (!spectrum) {
      const { tokens, sigma, entries, seed } = state;
      spectrum = { tokens, sigma, ...markovSpectra(randomMarkov(tokens, sigma, entries, seed), tokens) };
      report(spectrum);
    }
    const draws = { histogram: drawHistogram, ranks: drawRanks };
    for (const panel of root.querySelectorAll("[data-panel]:not([hidden])")) {
      draws[panel.dataset.panel](panel.querySelector("canvas"), spectrum, colours);
    }
  }

  function report({ tokens, sigma, all: [s1, s2] }) {
    const p1 = Math.sqrt(1 + sigma * sigma / tokens);
    const p2 = 2 * sigma / Math.sqrt(tokens);
    const shown = { s1, p1, s2, p2, gap: s1 - s2, pgap: p1 - p2 };
    for (const [name, value] of Object.entries(shown)) out(name, digits(value, 4));
    out("spoken", `T ${tokens}, sigma ${digits(sigma, 2)}: s1 is ${digits(s1)}, s2 is ${digits(s2)}, ` +
      `theory ${digits(p2)}; the gap is ${digits(s1 - s2)}.`);
  }

  function schedule() {
    frame ||= requestAnimationFrame(draw);
  }

  const save = () => model.save_changes();
  const stop = new AbortController();
  const listen = (target, type, action) => target.addEventListener(type, action, { signal: stop.signal });
  listen(input("tokens"), "input", (e) => set({ tokens: e.target.valueAsNumber }));
  listen(input("sigma"), "input", (e) => set({ sigma: +(e.target.valueAsNumber * STEP).toFixed(2) }));
  listen(input("entries"), "change", (e) => { set({ entries: e.target.value }); save(); });
  listen(input("draw"), "click", () => { set({ seed: (state.seed + 1) % 2 ** 31 }); save(); });
  for (const name of ["tokens", "sigma"]) listen(input(name), "change", save); // once a drag has ended
  listen(root.querySelector("form"), "submit", (e) => e.preventDefault());

  const follow = () => { if (!setting) { wished = model.get("sigma"); note(""); read(); } };
  for (const name of TRAITS) model.on(`change:${name}`, follow);
  const resized = new ResizeObserver(schedule);
  resized.observe(root);
  const themed = new MutationObserver(schedule);
  for (const node of [document.documentElement, document.body]) themed.observe(node, { attributes: true });
  listen(matchMedia("(prefers-color-scheme: dark)"), "change", schedule);
  read();

  return () => {
    cancelAnimationFrame(frame);
    stop.abort();
    resized.disconnect();
    themed.disconnect();
    for (const name of TRAITS) model.off(`change:${name}`, follow);
  };
}

export default { render };
