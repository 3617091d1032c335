// The live demos: a random matrix is drawn, decomposed and plotted in the reader's browser.
// gapcourse/demos.py hands this file to anywidget, which calls `render`; no kernel is needed.
//
//   1. random numbers         5. drawing: axes, histogram, ranks, distances, layers
//   2. random matrices        6. the scenes: what each demo measures, draws and says
//   3. linear algebra         7. the widget: controls, keys, screen readers, redraws
//   4. limiting laws
//
// Matrices are Float64Arrays in row-major order.

// ---------------------------------------------------------------- 1. random numbers
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

/** The source of random numbers of a demo's seed. */
const source = (seed) => uniforms(Math.imul(seed, 0x9e3779b1));

// ---------------------------------------------------------------- 2. random matrices
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

/** Independent normal numbers of mean 0. */
const gaussian = (u, length, std = 1) => new Float64Array(length).map(() => std * normal(u));

/** A size x size Markov matrix: i.i.d. entries, each row divided by its sum. */
export const randomMarkov = (size, sigma, entries, seed) => markovFrom(source(seed), size, sigma, entries);

function markovFrom(u, size, sigma, entries) {
  const matrix = new Float64Array(size * size);
  const draw = ENTRIES[entries](u, sigma);
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

/** Samplers of noise: mean 0, variance 1. */
const NOISE = {
  gaussian: (u) => () => normal(u),
  signs: (u) => () => (u() < 0.5 ? -1 : 1),
  sparse: (u) => () => { // nine entries of ten are 0
    const t = u();
    return t < 0.05 ? -Math.sqrt(10) : t < 0.1 ? Math.sqrt(10) : 0;
  },
  heavy: (u) => () => { // P(|x| > t) ~ t^-3: the fourth moment is infinite
    const t = 2 * u() - 1;
    return Math.sign(t) * Math.abs(t) ** (-1 / 3) / Math.sqrt(3);
  },
};

/** A rows x columns matrix of noise with entries of variance 1/columns, or a product of such. */
export function noiseMatrix(rows, columns, entries, factors, seed) {
  const draw = NOISE[entries](source(seed));
  const factor = () => Float64Array.from({ length: rows * columns }, () => draw() / Math.sqrt(columns));
  let matrix = factor();
  for (let k = 1; k < factors; k++) matrix = product(matrix, factor(), columns, columns, columns);
  return matrix;
}

/** Maps of a logit z, and for its standard deviation s: a0, a2 (of degree 0, 2), the parts c1, c2. */
const MAPS = {
  softmax: { // the row's sum is divided out below; so a0 = 1
    f: Math.exp,
    parts: (s) => ({ a0: 1, a2: s * s / 2, c1: s, c2: Math.sqrt(Math.expm1(s * s) - s * s) }),
  },
  linear: { f: (z) => z, parts: (s) => ({ a0: 0, a2: 0, c1: s, c2: 0 }) },
  relu: {
    f: (z) => Math.max(z, 0),
    parts: (s) => ({
      a0: s / Math.sqrt(2 * Math.PI), a2: s / Math.sqrt(8 * Math.PI),
      c1: s / 2, c2: s * Math.sqrt(1 / 4 - 1 / (2 * Math.PI)),
    }),
  },
  sigmoid: {
    f: (z) => 1 / (1 + Math.exp(-z)),
    parts(s) {
      const a1 = gaussianMean((z) => z * MAPS.sigmoid.f(s * z));
      const rest = gaussianMean((z) => (MAPS.sigmoid.f(s * z) - 1 / 2 - a1 * z) ** 2);
      return { a0: 1 / 2, a2: 0, c1: a1, c2: Math.sqrt(rest) }; // odd, but for a0
    },
  },
};

/** Mean of g(Z) for a normal Z and smooth g: sums on a fine grid converge very fast. */
function gaussianMean(g) {
  const step = 1 / 32;
  let sum = 0;
  for (let z = -12; z <= 12; z += step) sum += g(z) * Math.exp(-z * z / 2);
  return sum * step / Math.sqrt(2 * Math.PI);
}

/** Parts of the map of attention: mean a0, a2 of degree 2, linear part c1, the rest c2. */
export const parts = (kind, logitStd) => MAPS[kind].parts(logitStd);

/** A T x T attention matrix of Gaussian queries and keys: f(logits), over T or the row's sum. */
export const attentionMatrix = (tokens, headDim, logitStd, kind, seed) =>
  attentionFrom(source(seed), tokens, headDim, logitStd, kind);

const attentionFrom = (u, tokens, headDim, logitStd, kind) =>
  attentionOf(gaussian(u, tokens * headDim), gaussian(u, tokens * headDim), tokens, headDim, logitStd, kind);

function attentionOf(queries, keys, tokens, headDim, logitStd, kind) {
  const matrix = new Float64Array(tokens * tokens);
  const scale = logitStd / Math.sqrt(headDim);
  const { f } = MAPS[kind];
  for (let i = 0; i < tokens; i++) {
    let sum = 0;
    for (let j = 0; j < tokens; j++) {
      let logit = 0;
      for (let k = 0, p = i * headDim, q = j * headDim; k < headDim; k++) logit += queries[p++] * keys[q++];
      sum += matrix[i * tokens + j] = f(scale * logit);
    }
    const total = kind === "softmax" ? sum : tokens;
    for (let j = 0; j < tokens; j++) matrix[i * tokens + j] /= total;
  }
  return matrix;
}

/** The square matrix with each row's mean removed, and each column's too if asked. */
export function centre(matrix, size, columnsToo) {
  const a = Float64Array.from(matrix);
  const remove = (start, step) => {
    let mean = 0;
    for (let k = 0; k < size; k++) mean += a[start + k * step] / size;
    for (let k = 0; k < size; k++) a[start + k * step] -= mean;
  };
  for (let i = 0; i < size; i++) remove(i * size, 1);
  for (let j = 0; j < size && columnsToo; j++) remove(j, size);
  return a;
}

/** Whether token i sees token j. */
const MASKS = { none: () => true, causal: (i, j) => j <= i, window: (i, j) => Math.abs(i - j) < 5 };

/** The visible part of attention, each row divided by its sum; if asked, less the mean over what the row sees. */
export function masked(matrix, size, mask, removed) {
  const a = new Float64Array(size * size);
  for (let i = 0; i < size; i++) {
    let [sum, seen] = [0, 0];
    for (let j = 0; j < size; j++) if (MASKS[mask](i, j)) { sum += matrix[i * size + j]; seen++; }
    for (let j = 0; j < size; j++) {
      if (MASKS[mask](i, j)) a[i * size + j] = matrix[i * size + j] / sum - (removed ? 1 / seen : 0);
    }
  }
  return a;
}

// ---------------------------------------------------------------- 3. linear algebra
/**
 * The product of a rows x inner and an inner x columns matrix. Four rows of the right one at a time
 * are added up, from a block of them that stays in the processor's cache.
 */
export function product(left, right, rows, inner, columns) {
  const result = new Float64Array(rows * columns);
  for (let block = 0; block < inner; block += 32) {
    const end = Math.min(block + 32, inner);
    for (let i = 0; i < rows; i++) {
      const row = result.subarray(i * columns, (i + 1) * columns);
      let k = block;
      for (; k + 3 < end; k += 4) {
        const p = i * inner + k;
        const [s0, s1, s2, s3] = [left[p], left[p + 1], left[p + 2], left[p + 3]];
        const q0 = k * columns;
        const q1 = q0 + columns;
        const q2 = q1 + columns;
        const q3 = q2 + columns;
        for (let j = 0; j < columns; j++) {
          row[j] += s0 * right[q0 + j] + s1 * right[q1 + j] + s2 * right[q2 + j] + s3 * right[q3 + j];
        }
      }
      for (; k < end; k++) {
        const s = left[i * inner + k];
        for (let j = 0, q = k * columns; j < columns; j++) row[j] += s * right[q++];
      }
    }
  }
  return result;
}

/** Inner product of two vectors. */
function dot(x, y) {
  let sum = 0;
  for (let i = 0; i < x.length; i++) sum += x[i] * y[i];
  return sum;
}

const norm = (x) => Math.sqrt(dot(x, x)); // the Frobenius norm of a matrix

/** The matrix of inner products of the rows of a matrix. */
function gram(matrix, rows, columns) {
  const result = new Float64Array(rows * rows);
  const row = (i) => matrix.subarray(i * columns, (i + 1) * columns);
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j <= i; j++) result[i * rows + j] = result[j * rows + i] = dot(row(i), row(j));
  }
  return result;
}

/** The row vector times the square matrix. */
function rowTimes(row, matrix) {
  const size = row.length;
  const result = new Float64Array(size);
  for (let i = 0; i < size; i++) {
    for (let j = 0, p = i * size; j < size; j++) result[j] += row[i] * matrix[p++];
  }
  return result;
}

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

/** Singular values, largest first, of a square matrix. */
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

/** Singular values, largest first, of a matrix that need not be square: of its shorter side's length. */
export function rectangularValues(matrix, rows, columns) {
  const size = Math.max(rows, columns);
  const square = new Float64Array(size * size); // rows or columns of zeros make it square
  for (let i = 0; i < rows; i++) square.set(matrix.subarray(i * columns, (i + 1) * columns), i * size);
  return singularValues(square, size).slice(0, Math.min(rows, columns));
}

/** Largest singular value of a square matrix whose second one is well below it, by power iteration. */
export function largestValue(matrix, size) {
  let left = new Float64Array(size).fill(1 / Math.sqrt(size));
  let value = 0;
  for (let step = 0; step < 200; step++) {
    const right = rowTimes(left, matrix);
    const before = value;
    value = Math.hypot(...right);
    for (let i = 0; i < size; i++) {
      left[i] = 0;
      for (let j = 0, p = i * size; j < size; j++) left[i] += matrix[p++] * right[j];
    }
    const norm = Math.hypot(...left);
    left = left.map((x) => x / norm);
    if (Math.abs(value - before) < 1e-12 * value) break;
  }
  return value;
}

/**
 * Tokens X (rows x columns) as S: its first row is sqrt(T) times the mean token, the others are the
 * tokens less the mean token. These vanish under e', e = 1/sqrt(T): so X'X = S'S, and S has the
 * singular values of X (and a zero). Collapsed tokens keep all their digits: their differences are
 * never added to what they share.
 */
export function split(tokens, rows, columns) {
  const s = new Float64Array((rows + 1) * columns);
  s.set(tokens, columns);
  share(s, rows, columns);
  return s;
}

/** Move the mean of the rows 1, ..., T of a split S to its row 0. */
function share(s, rows, columns) {
  const mean = new Float64Array(columns);
  for (let i = 1; i <= rows; i++) for (let j = 0; j < columns; j++) mean[j] += s[i * columns + j] / rows;
  for (let i = 1; i <= rows; i++) for (let j = 0; j < columns; j++) s[i * columns + j] -= mean[j];
  for (let j = 0; j < columns; j++) s[j] += Math.sqrt(rows) * mean[j];
}

/** A X W, split, for a Markov matrix A (none: the identity) and split tokens X; W may be missing. */
export function mixed(matrix, s, weights, rows, columns) {
  const moved = weights ? product(s, weights, rows + 1, columns, columns) : Float64Array.from(s);
  if (matrix) moved.set(product(matrix, moved.subarray(columns), rows, rows, columns), columns);
  share(moved, rows, columns); // A leaves what all tokens share as it is
  return moved;
}

/**
 * sr(X X') - 1 = sum over k >= 2 of s_k^4 / s_1^4 for split tokens S, to full relative accuracy.
 * Near collapse row 0 is nearly all of S: with m its direction and Y the other rows, the top right
 * vector is m + v, where v, orthogonal to m, solves
 *     s_1^2 v = P Y'Y (m + v),   s_1^2 = |row 0|^2 + m'Y'Y (m + v),   P = I - mm',
 * a power iteration that never stores v beside the far larger m. The rest S - S (m + v)(m + v)'/n,
 * n = 1 + |v|^2, has the other singular values. In row 0 it is |row 0| (m |v|^2 - v)/n, written out
 * so that nothing cancels; then sum s_k^4 = |R R'|_F^2 adds up squares. Far from collapse the
 * eigenvalues of S S' are accurate enough.
 */
export function collapseResidual(s, rows, columns) {
  const row = (a, i) => a.subarray(i * columns, (i + 1) * columns);
  const length = norm(row(s, 0));
  const rest = norm(s.subarray(columns));
  if (!(rest < 0.1 * length)) {
    const values = singularValues(gram(s, rows + 1, columns), rows + 1);
    return values.slice(1).reduceRight((sum, x) => sum + (x / values[0]) ** 2, 0);
  }
  const mean = row(s, 0).map((x) => x / length);
  let small = new Float64Array(columns); // v
  let top = length * length; // s_1^2
  for (let step = 0, change = 1; step < 60 && change > 1e-15; step++) {
    const pull = new Float64Array(columns); // Y'Y (m + v)
    for (let i = 1; i <= rows; i++) {
      const y = row(s, i);
      const along = dot(y, mean) + dot(y, small);
      for (let j = 0; j < columns; j++) pull[j] += along * y[j];
    }
    const shared = dot(pull, mean);
    top = length * length + shared;
    const next = pull.map((x, j) => (x - shared * mean[j]) / top);
    change = norm(next.map((x, j) => x - small[j])) / (norm(next) || 1);
    small = next;
  }
  const square = dot(small, small);
  const others = new Float64Array(s.length);
  for (let j = 0; j < columns; j++) others[j] = length * (mean[j] * square - small[j]) / (1 + square);
  for (let i = 1; i <= rows; i++) {
    const y = row(s, i);
    const along = (dot(y, mean) + dot(y, small)) / (1 + square);
    for (let j = 0; j < columns; j++) others[i * columns + j] = y[j] - along * (mean[j] + small[j]);
  }
  return (norm(gram(others, rows + 1, columns)) / top) ** 2;
}

/** One layer on square tokens X: A X W, or X + weight A X W with a skip connection; tokens normed after or in front. */
export function block(tokens, matrix, weights, size, { weight = 0, pre = false, post = false }) {
  const entering = pre ? normed(tokens, size) : tokens;
  const next = product(matrix, product(entering, weights, size, size, size), size, size, size);
  for (let i = 0; i < next.length && weight; i++) next[i] = tokens[i] + weight * next[i];
  return post ? normed(next, size) : next;
}

/** Square tokens, each divided by its root mean square; a token of zeros stays. */
function normed(tokens, size) {
  const result = Float64Array.from(tokens);
  for (let i = 0; i < size; i++) {
    const token = result.subarray(i * size, (i + 1) * size);
    const scale = Math.sqrt(size) / (norm(token) || 1);
    for (let j = 0; j < size; j++) token[j] *= scale;
  }
  return result;
}

/**
 * Norms of gradients, |dX_L/dW_l|_F = |A_L ... A_l X_{l-1}|_F |W_{l+1} ... W_L|_F, for isometric X_0:
 * of the first layer's weights for depths 1, 2, ..., and of the last layer's at the last depth. `stacks`
 * names lists of attention matrices; `weights` are shared. X_0 = (I 0): a rotation of W_1 makes any other.
 */
export function gradientNorms(stacks, weights, tokens, dim) {
  const depths = weights.length;
  let outputs = null; // W_2 ... W_L
  let inputs = null; // X_0 W_1 ... W_{L-1}
  const gains = [Math.sqrt(dim)];
  for (let l = 1; l < depths; l++) {
    outputs = outputs ? product(outputs, weights[l], dim, dim, dim) : weights[l];
    inputs = inputs ? product(inputs, weights[l - 1], tokens, dim, dim) : weights[0].slice(0, tokens * dim);
    gains.push(norm(outputs));
  }
  return Object.fromEntries(Object.entries(stacks).map(([name, matrices]) => {
    let mixing = null; // A_L ... A_1
    const first = matrices.map((matrix, l) => {
      mixing = mixing ? product(matrix, mixing, tokens, tokens, tokens) : matrix;
      return norm(mixing) * gains[l];
    });
    const arriving = inputs ? product(mixing, inputs, tokens, tokens, dim) : mixing;
    return [name, { first, last: norm(arriving) * Math.sqrt(dim) }];
  }));
}

/**
 * 1 less the mean cosine between two different tokens (rows), but for those of zeros: how far their unit
 * vectors scatter about their mean. So nothing cancels when all are nearly equal.
 */
export function tokenSpread(tokens, rows, columns) {
  const units = new Float64Array(rows * columns);
  let count = 0;
  for (let i = 0; i < rows; i++) {
    const token = tokens.subarray(i * columns, (i + 1) * columns);
    const length = norm(token);
    if (length > 0) units.set(token.map((t) => t / length), columns * count++);
  }
  const apart = split(units.subarray(0, columns * count), count, columns).subarray(columns);
  return dot(apart, apart) / (count - 1);
}

export const tokenCosine = (tokens, rows, columns) => 1 - tokenSpread(tokens, rows, columns);

/** The transpose of a square matrix. */
function transposed(a, size) {
  const result = new Float64Array(a.length);
  for (let i = 0, p = 0; i < size; i++) for (let j = 0; j < size; j++) result[j * size + i] = a[p++];
  return result;
}

/** A Haar orthogonal matrix: normal rows, each made orthogonal to those above it. */
function orthogonal(u, size) {
  const q = gaussian(u, size * size);
  const row = (i) => q.subarray(i * size, (i + 1) * size);
  for (let i = 0; i < size; i++) {
    for (let k = 0; k < 2 * i; k++) { // twice: then rounding errors are gone too
      const along = dot(row(i), row(k % i));
      for (let j = 0; j < size; j++) row(i)[j] -= along * row(k % i)[j];
    }
    const length = norm(row(i));
    for (let j = 0; j < size; j++) row(i)[j] /= length;
  }
  return q;
}

/**
 * Losses before the first, second, ... of some steps of Adam and after the last, and the last outputs,
 * of a stack of square matrices with fixed attention. Its outputs are Z P with Z = A_L ... A_1 X_0 and
 * P = W_1 ... W_L. The derivative of the mean squared error in P is 2 Z'(Z P - Y)/size^2, and that in
 * W_l this times what stands beside W_l in P.
 */
export function trained(z, targets, first, size, rate, steps) {
  const weights = first.map((w) => Float64Array.from(w));
  const moments = first.map((w) => [new Float64Array(w.length), new Float64Array(w.length)]);
  const times = (x, y) => product(x, y, size, size, size);
  const losses = [];
  for (let step = 1; ; step++) {
    const before = []; // W_1 ... W_l
    weights.forEach((w, l) => before.push(l ? times(before[l - 1], w) : w));
    const outputs = times(z, before.at(-1));
    const error = outputs.map((x, i) => x - targets[i]);
    losses.push(dot(error, error) / error.length);
    if (step > steps) return { losses, outputs };
    let back = times(transposed(z, size), error.map((x) => 2 * x / error.length));
    for (let l = weights.length - 1; l >= 0; l--) {
      const w = weights[l];
      const gradient = l ? times(transposed(before[l - 1], size), back) : back;
      if (l) back = times(back, transposed(w, size));
      const [m, v] = moments[l];
      for (let i = 0; i < w.length; i++) {
        m[i] += 0.1 * (gradient[i] - m[i]);
        v[i] += 0.001 * (gradient[i] ** 2 - v[i]);
        w[i] -= rate * (m[i] / (1 - 0.9 ** step)) / (Math.sqrt(v[i] / (1 - 0.999 ** step)) + 1e-8);
      }
    }
  }
}

/** The stationary law pi = pi A of a Markov matrix, from the uniform row by steps of (I + A)/2. */
export function stationaryLaw(matrix, size) {
  let pi = new Float64Array(size).fill(1 / size);
  for (let step = 0, change = 1; step < 3000 && change > 1e-15; step++) {
    const next = rowTimes(pi, matrix).map((x, i) => (x + pi[i]) / 2);
    change = next.reduce((sum, x, i) => sum + Math.abs(x - pi[i]), 0);
    pi = next;
  }
  return pi;
}

/**
 * Total variation distance to pi of a walk that starts in one state and steps by M = l I + (1-l) A,
 * after 0, 1, 2, ... steps: at least `least`, then until it is below `target`, at most `most`.
 * As pi M = pi, the difference from pi is itself multiplied by M: so tiny distances stay exact. Its
 * sum is 0, and is kept so: a rounding error in it would never die out.
 */
export function walkDistances(matrix, pi, start, laziness, least, target, most) {
  let difference = pi.map((x, i) => (i === start) - x);
  const distances = [];
  for (let k = 0; k <= most; k++) {
    distances.push(difference.reduce((sum, x) => sum + Math.abs(x), 0) / 2);
    if (k >= least && distances[k] <= target) break;
    const moved = rowTimes(difference, matrix);
    for (let i = 0; i < moved.length; i++) moved[i] = laziness * difference[i] + (1 - laziness) * moved[i];
    const excess = moved.reduce((sum, x) => sum + x);
    difference = moved.map((x, i) => x - excess * pi[i]);
  }
  return distances;
}

// ---------------------------------------------------------------- 4. limiting laws
// A law of singular values: the edge of its support, its atom (share of zeros), and a curve, an
// array of [x, density]. A gap in the support is a point with density NaN.

const grid = (n, map) => Array.from({ length: n + 1 }, (_, i) => map(i / n));

/** Quarter circle on [0, 2 sigma]. */
export function quarterCircle(sigma) {
  const curve = ARC.map((p) => [p.value * sigma, p.density / sigma]);
  return { edge: 2 * sigma, atom: 0, curve };
}

/** Points of the quarter circle, by angle: (value / sigma, its density * sigma, fraction above it). */
const ARC = grid(90, (i) => i * Math.PI / 2).map((t) => ({
  value: 2 * Math.sin(t),
  density: 2 * Math.cos(t) / Math.PI,
  above: 1 - (2 / Math.PI) * (t + Math.sin(t) * Math.cos(t)),
}));

/** Marchenko-Pastur law: entries of variance 1/columns, ratio = rows/columns. */
export function marchenkoPastur(ratio) {
  const [low, edge] = [Math.abs(1 - Math.sqrt(ratio)), 1 + Math.sqrt(ratio)];
  const curve = grid(300, (t) => {
    const lift = Math.max((1 - Math.cos(Math.PI * t)) / 2, 1e-12); // close together at both ends
    const x = low + (edge - low) * lift;
    const under = (edge - x) * (edge + x) * (x - low) * (x + low);
    return [x, Math.sqrt(Math.max(under, 0)) / (Math.PI * ratio * x)];
  });
  return { low, edge, atom: Math.max(0, 1 - 1 / ratio), curve };
}

/** Fuss-Catalan law of a product of n square matrices, by the angle of Biane: x^2 and its density. */
export function fussCatalan(n) {
  const curve = grid(400, (t) => {
    const angle = Math.PI / (n + 1) * Math.min(Math.max(t, 1e-9), 1 - 1e-9);
    const [one, low, high] = [1, n, n + 1].map((k) => Math.sin(k * angle));
    const x = Math.sqrt(high ** (n + 1) / (one * low ** n));
    return [x, 2 * x * one ** 2 * low ** (n - 1) / (Math.PI * high ** n)];
  });
  return { low: 0, edge: Math.sqrt((n + 1) ** (n + 1) / n ** n), atom: 0, curve: curve.reverse() };
}

/** The values of a law with given shares of it above them, in ascending order; its curve is integrated from the edge down. */
export function quantiles({ atom, curve }, shares) {
  const found = shares.map(() => 0);
  for (let i = curve.length - 1, above = 0, k = 0; i > 0; i--) {
    const [[low, under], [high, over]] = [curve[i - 1], curve[i]];
    const share = (high - low) * (under + over) / 2 || 0; // a gap has none
    for (; k < shares.length && above + share >= shares[k] && shares[k] < 1 - atom; k++) found[k] = high - (high - low) * (shares[k] - above) / share;
    above += share;
  }
  return found;
}

/** The value with half of the law below it. */
export const median = (law) => quantiles(law, [1 / 2])[0];

/**
 * Bulk law of attention, linear part c1 and noise c2, ratio c = T/d_k: its Cauchy transform G solves
 *     x = 1/G + c2^2 G + c1^2 G / (1 - r G^2),   r = c c1^2.
 * With G = sqrt(v) exp(-i w) its imaginary part gives cos 2w for each v, and its real part then x:
 * only the ends of the bands are searched for. Where |cos 2w| <= 1 the point belongs to the law,
 * with density (2/pi) sqrt(v) sin w. As v grows, x falls; where cos 2w > 1 the support has a gap.
 * (Derived in gapcourse/_bulk.py.)
 */
export function attentionBulk(c1, c2, ratio) {
  const [a, n, r] = [c1 * c1, c2 * c2, ratio * c1 * c1];
  const double = (v) => (1 + (r * v) ** 2 - a * v * (1 + r * v) / (1 - n * v)) / (2 * r * v); // cos 2w
  const sum = a + n - r;
  const root = Math.hypot(sum, 2 * Math.sqrt(n * r));
  const zero = sum > 0 ? 2 / (sum + root) : (root - sum) / (2 * n * r); // v at cos 2w = -1, x = 0
  const last = Math.min(zero || Infinity, 1e9 / a); // without noise there may be none
  const at = (u) => last / (1 + Math.exp(-u)); // v from 0 to last, close together at both ends
  const inside = (u) => Math.abs(double(at(u))) <= 1;
  const first = Math.log(0.1 / Math.max(a + n, r) / last);
  const ends = []; // of the bands, in u
  grid(2000, (t) => first + (30 - first) * t).reduce((low, high) => {
    if (inside(low) !== inside(high)) ends.push(crossing(inside, low, high));
    return high;
  });
  if (ends.length % 2) ends.push(30);
  const curve = [];
  for (let i = 0; i < ends.length; i += 2) {
    for (const u of grid(400, (t) => ends[i] + (ends[i + 1] - ends[i]) * Math.sin(t * Math.PI / 2) ** 2)) {
      const v = at(u);
      const cosine = Math.min(1, Math.max(-1, double(v)));
      const spread = (1 - r * v) ** 2 + 2 * r * v * (1 - cosine); // |1 - r G^2|^2
      const real = 1 / v + n + a * (1 - r * v) / spread;
      curve.unshift([Math.sqrt(v * (1 + cosine) / 2) * real, Math.sqrt(2 * v * (1 - cosine)) / Math.PI]);
    }
    if (i + 2 < ends.length) curve.unshift([curve[0][0], NaN]);
  }
  const open = curve.findIndex((p) => Number.isNaN(p[1]));
  const gap = open > 0 ? [curve[open - 1][0], curve[open + 1][0]] : c2 === 0 && ratio > 1 ? [0, curve[0][0]] : null;
  return { edge: curve.at(-1)[0], gap, atom: c2 === 0 ? Math.max(0, 1 - 1 / ratio) : 0, curve };
}

/**
 * Where a part of rank one and size theta has its singular value in the bulk law of attention:
 * at x(1/theta), if x falls there (Benaych-Georges and Nadakuditi, 2012); null if it is absorbed.
 */
export function spike(c1, c2, ratio, theta) {
  const [a, n, r, g] = [c1 * c1, c2 * c2, ratio * c1 * c1, 1 / theta];
  const rest = 1 - r * g * g;
  const slope = -1 / (g * g) + n + a * (1 + r * g * g) / (rest * rest);
  const x = 1 / g + n * g + a * g / rest;
  return theta > 0 && slope < 0 && x > 0 ? x : null;
}

/** Edge of softmax attention's bulk for Gaussian tokens, gamma = T/d (predictions.gaussian_token_edge). */
export function gaussianTokenEdge(gamma, ratio, logitStd) {
  const { c1, c2 } = parts("softmax", logitStd);
  const at = (log) => {
    const z = Math.exp(log);
    const w = Math.sqrt(z / (1 + ratio * z)) / ((1 + gamma * z) * c1);
    return (1 + z + (c2 * w) ** 2) / w;
  };
  let [low, high] = [-40, 40]; // a minimum between them
  for (let i = 0; i < 120; i++) {
    const third = (high - low) / 3;
    if (at(low + third) < at(high - third)) high -= third;
    else low += third;
  }
  return at(low);
}

/** Where a condition changes between low and high, by bisection; on the side where it holds. */
function crossing(condition, low, high) {
  let [yes, no] = condition(low) ? [low, high] : [high, low];
  for (let i = 0; i < 60; i++) {
    const middle = (yes + no) / 2;
    if (condition(middle)) yes = middle;
    else no = middle;
  }
  return yes;
}

/** Total variation distance to the stationary law after k >= 2 steps, to leading order in T. */
export const walkPrediction = (tokens, sigma, k) =>
  sigma ** k * tokens ** ((1 - k) / 2) / Math.sqrt(2 * Math.PI);

/**
 * The same for a lazy walk and large T, exponential entries: no click in k steps has probability
 * `none`, a single one `one`, and more clicks leave next to nothing (derived in chapter 01).
 */
export function lazyPrediction(laziness, k) {
  const none = laziness ** k;
  const one = k * laziness ** (k - 1) * (1 - laziness);
  return none + one * Math.exp(-1 - none / one);
}

/** sr - 1 after layer l of random Markov attention, at finite T and d (predictions.width_collapse). */
export function widthCollapse(tokens, dim, layer, sigma) {
  const more = (layer + 1) * Math.log1p(2 / tokens) + layer * Math.log1p(2 / dim);
  const less = (layer + 1) * Math.log1p(-1 / tokens) + layer * Math.log1p(-1 / dim);
  const scale = Math.exp(4 * layer * Math.log(sigma / Math.sqrt(tokens)) + more);
  return scale * tokens ** 2 / 3 * -Math.expm1(less - more);
}

/**
 * The same for fresh softmax attention, to leading order: variances of the squared singular values
 * over their squared means add up over free factors, gamma for each W, 1 + k4/k2^2 for each A.
 */
export function attentionWidthCollapse(tokens, dim, headDim, logitStd, layer = 1) {
  const k2 = Math.expm1(logitStd ** 2);
  const k4 = tokens / headDim * logitStd ** 4;
  return (1 + layer * (1 + tokens / dim + k4 / k2 ** 2)) * k2 ** (2 * layer) * tokens ** (1 - 2 * layer);
}

/**
 * Limit of sr/T after layer l: without the mean of random Markov attention
 * (predictions.mean_removed_stable_rank), or of the identity, where tokens do not mix. It is
 * (1 + l (m + gamma))/x^2, x = min over z of (1+z)^(1 + l m) (1 + gamma z)^l/z, m = 1 or 0.
 */
export function spreadStableRank(layer, gamma, mixes = true) {
  const m = mixes ? 1 : 0;
  const b = layer * m + (layer - 1) * gamma;
  const z = 2 / (b + Math.sqrt(b * b + 4 * (1 + m) * layer * gamma));
  const logEdge = (layer * m + 1) * Math.log1p(z) + layer * Math.log1p(gamma * z) - Math.log(z);
  return (1 + layer * (m + gamma)) * Math.exp(-2 * logEdge);
}

/**
 * Expected squares from layer to layer: p of all tokens, D of what they do not share. Attention
 * keeps r D of D; plain, it keeps what is shared too. A skip connection adds, as E W = 0.
 */
function* energies(tokens, sigma, removed, skip, branch) {
  const v = sigma ** 2 / (tokens + sigma ** 2);
  let [p, D] = [tokens, tokens - 1];
  for (;;) {
    yield [p, D];
    const shared = removed ? 0 : p - D;
    p = (skip ? p : 0) + branch * (shared + v * D);
    D *= (skip ? 1 : 0) + branch * (1 - 1 / tokens) * v;
  }
}

/** The first layers + 1 terms of a sequence. */
const terms = (sequence, layers) => Array.from({ length: layers + 1 }, () => sequence.next().value);

/** 1 - cosine of two tokens at layers 0, ..., L of random Markov attention; branch: a^2 of X + a A X W. */
export const spreadPrediction = (tokens, layers, sigma, removed, skip, branch) =>
  terms(energies(tokens, sigma, removed, skip, branch), layers)
    .map(([p, D]) => tokens * D / ((tokens - 1) * p));

/** Root of the expected square of dX_L/dW_l (predictions.gradient_norm), for depths 0, ..., L. */
export const gradientPrediction = (tokens, dim, layers, sigma, removed) =>
  terms(energies(tokens, sigma, removed, false, 1), layers)
    .map(([p], depth) => Math.sqrt(p) * dim ** (depth / 2));

/** The first k from 2 on where a prediction of the distance is at most 0.01. */
function firstNear(predicted) {
  let k = 2;
  while (predicted(k) > 0.01) k++;
  return k;
}

// ---------------------------------------------------------------- 5. drawing
const LIGHT = { bulk: "#0072b2", law: "#111111", spike: "#c04a00" }; // on a light ground
const DARK = { bulk: "#56b4e9", law: "#f2f2f2", spike: "#ff9d4d" }; // on a dark ground
const digits = (x, n = 3) => x.toFixed(n).replace(/^-(?=[0.]+$)/, "").replace("-", "−");
const minus = (t) => String(t).replace("-", "−");
const percent = (share) => `${digits(100 * share, 1)} %`;
const powerOfTen = (k) => `10${String(k).replace("-", "⁻").replace(/\d/g, (d) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[d])}`;
const small = (x) => {
  if (!(x > 0 && x < 0.001)) return digits(x, 4);
  const [factor, power] = x.toExponential(1).split("e");
  return `${factor} × ${powerOfTen(power)}`;
};

/** Three digits of a number of any size. */
const rounded = (x) => {
  const [factor, power] = x.toExponential(2).split("e").map(Number);
  return power < -3 || power > 3 ? `${factor.toFixed(2)} × ${powerOfTen(power)}` : digits(x, Math.max(0, 2 - power));
};
const orDash = (x, words) => (x === null ? "–" : words(x));
const inTheory = (x, words) => (x === null || x === undefined ? "" : `, theory ${words(x)}`);

/** Context of a canvas sized for the screen's pixels, with the data-to-pixel maps of a plot. */
function plot(canvas, [x0, x1], [y0, y1], ink, { left = 40, top = 14 } = {}) {
  const { width, height } = canvas.getBoundingClientRect();
  const ratio = globalThis.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  const pen = canvas.getContext("2d");
  const box = { left, right: width - 12, top, bottom: height - 40 };
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

function disc(pen, x, y, radius) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.fill();
}

/** Draw within the box of a plot, and a little beyond it but for the top. */
function clipped({ pen, box }, draw) {
  pen.save();
  pen.beginPath();
  pen.rect(box.left - 3, box.top, box.right - box.left + 6, box.bottom - box.top + 3);
  pen.clip();
  draw();
  pen.restore();
}

/** About `count` round numbers from 0 to `high`. */
function ticks(high, count) {
  const rough = high / count;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * [1, 2, 5, 10].find((m) => m * unit >= rough);
  return Array.from({ length: Math.floor(high / step + 1e-9) + 1 }, (_, i) => +(i * step).toPrecision(6));
}

function axes({ pen, box, x, y }, xs, ys, xLabel, yText = String, xText = minus) {
  line(pen, [[box.left, box.top], [box.left, box.bottom]]);
  for (const t of xs) {
    line(pen, [[x(t), box.bottom], [x(t), box.bottom + 4]]);
    text(pen, xText(t), x(t), box.bottom + 17);
  }
  for (const t of ys) {
    line(pen, [[box.left - 4, y(t)], [box.left, y(t)]]);
    text(pen, yText(t), box.left - 7, y(t) + 4, "right");
  }
  text(pen, xLabel, (box.left + box.right) / 2, box.bottom + 34);
}

/** A law's curve, broken at the gaps of its support. */
function curve({ pen, x, y }, points) {
  let open = false;
  pen.beginPath();
  for (const [value, density] of points) {
    if (Number.isNaN(density)) {
      open = false;
    } else {
      pen[open ? "lineTo" : "moveTo"](x(value), Math.max(y(density), -999));
      open = true;
    }
  }
  pen.stroke();
}

/**
 * Histogram of `values` (largest first), each of weight 1/total, with the curve of a law; also, if
 * given, another law dashed, an outlier beyond a break of the axis, the share of zeros, and a
 * stroke under the axis for each value (rug).
 */
function drawHistogram(canvas, { values, total, law, other, outlier, zeros = 0, rug, xLabel }, colours) {
  const right = Math.max(values[0] ?? 0, law.edge, other?.edge ?? 0) * 1.05;
  const bins = Math.round(Math.min(30, Math.max(8, 1.6 * Math.sqrt(total))) * right / law.edge);
  const width = right / Math.min(bins, 60);
  const heights = new Float64Array(Math.min(bins, 60));
  for (const s of values) heights[Math.min(heights.length - 1, Math.floor(s / width))] += 1 / (total * width);
  const highest = Math.max(...heights);
  const peak = Math.max(...[law, other].flatMap((l) => l?.curve ?? []).map((p) => p[1] || 0));
  const tall = Math.max(Math.min(peak, 1.5 * highest || 1), highest) * (zeros ? 1.3 : 1.12);
  const frame = plot(canvas, [0, right * (outlier ? 1.34 : 1)], [0, tall], colours.ink, { top: 28 });
  const { pen, box, x, y } = frame;
  axes(frame, ticks(right, 4), ticks(tall, 4), xLabel);
  text(pen, "density", 2, 12, "left");

  pen.fillStyle = colours.bulk;
  pen.globalAlpha = 0.6;
  heights.forEach((h, i) => {
    const up = h > 0 ? Math.max(2, y(0) - y(h)) : 0; // a single value can be seen
    pen.fillRect(x(i * width) + 0.5, y(0) - up, x(width) - x(0) - 1, up);
  });
  pen.globalAlpha = 1;
  if (rug) for (const s of values) pen.fillRect(x(s) - 0.5, box.bottom + 1, 1, 5);
  clipped(frame, () => {
    pen.lineWidth = 2.5;
    pen.strokeStyle = colours.law;
    curve(frame, law.curve);
    pen.setLineDash([6, 4]);
    pen.lineWidth = 1.8;
    if (other) curve(frame, other.curve);
  });

  pen.lineWidth = 1;
  pen.strokeStyle = colours.ink;
  if (outlier) { // the axis is broken before it
    const cut = x(right * 1.1);
    line(pen, [[box.left, box.bottom], [cut - 3, box.bottom]]);
    line(pen, [[cut + 3, box.bottom], [box.right, box.bottom]]);
    for (const shift of [-3, 3]) line(pen, [[cut + shift - 3, box.bottom + 6], [cut + shift + 3, box.bottom - 6]]);

    pen.strokeStyle = pen.fillStyle = colours.spike;
    pen.lineWidth = 3;
    const at = (cut + box.right) / 2 + 4;
    line(pen, [[at, box.bottom], [at, box.top + 44]]);
    disc(pen, at, box.top + 44, 5);
    text(pen, "√T s₁", at, box.top + 14);
    text(pen, digits(outlier, 1), at, box.top + 31);
  } else {
    line(pen, [[box.left, box.bottom], [box.right, box.bottom]]);
    pen.fillStyle = colours.spike; // values that the bars are too low to show
    for (const s of values) if (s > law.edge) disc(pen, x(s), box.bottom - 4, 3);
  }
  if (zeros) {
    pen.strokeStyle = pen.fillStyle = colours.spike;
    pen.lineWidth = 4;
    line(pen, [[box.left, box.bottom], [box.left, box.top + 24]]);
    disc(pen, box.left, box.top + 24, 5);
    text(pen, `${percent(zeros)} are 0`, box.left + 10, box.top + 29, "left");
  }
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
    disc(pen, x(k), y(all[k - 1]), k === 1 ? 5 : radius);
  }
  text(pen, `s₁ = ${digits(all[0])}`, x(1) + 11, y(all[0]) + 4, "left");
  pen.lineWidth = 1.2;
  pen.strokeStyle = colours.law;
  line(pen, ARC.map((p) => [x(1.5 + p.above * (tokens - 1)), y(p.value * sigma / Math.sqrt(tokens))]));

  canvas.setAttribute("aria-label",
    `The ${tokens} singular values of the matrix in order: the first is ${digits(all[0])}, the second is ` +
    `${digits(all[1])}, the last is ${digits(all[tokens - 1])}; theory puts the second at ${digits(edge)}.`);
}

const FLOOR = -12; // powers of ten that the distances are drawn down to
const STEPS = 15;

/** Ticks of a log scale from 10^low to 1, as powers of ten: [power, words]. */
function logTicks(low) {
  if (low < -2) {
    const step = Math.ceil(-low / 4);
    return grid(Math.floor(-low / step), (t) => -Math.round(t * Math.floor(-low / step)) * step)
      .map((k) => [k, k ? powerOfTen(k) : "1"]);
  }
  const marks = low < -1 ? [1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01] : [1, 0.7, 0.5, 0.3, 0.2, 0.1];
  return marks.map((t) => [Math.log10(t), String(t)]).filter(([k]) => k >= low);
}

/** Distances to the stationary law on a log scale, with the prediction (a slope only, if lazy). */
function drawDistances(canvas, { tokens, laziness, distances, decay, prediction }, colours) {
  const least = Math.log10(Math.min(...distances.map((walk) => walk[STEPS])));
  const low = laziness > 0 ? Math.max(FLOOR, least - 0.1 - 0.03 * Math.abs(least)) : FLOOR;
  const frame = plot(canvas, [-0.3, STEPS + 0.3], [low, -low / 30], colours.ink, { left: 46 });
  const { pen, box, x, y } = frame;
  const marks = new Map(logTicks(low));
  axes(frame, [0, 3, 6, 9, 12, 15], [...marks.keys()], "steps k", (k) => marks.get(k));
  line(pen, [[box.left, box.bottom], [box.right, box.bottom]]);
  if (low < -2) {
    pen.setLineDash([2, 4]);
    line(pen, [[box.left, y(-2)], [box.right, y(-2)]]);
    pen.setLineDash([]);
    text(pen, "0.01", box.right, y(-2) - 5, "right");
  }

  const at = (k, distance) => [x(k), y(Math.log10(Math.max(distance, 1e-300)))];
  clipped(frame, () => {
    pen.strokeStyle = colours.law;
    pen.lineWidth = 2.5;
    pen.setLineDash(laziness > 0 ? [6, 4] : []);
    line(pen, prediction.map(([k, distance]) => at(k, distance)));
    pen.setLineDash([]);
    pen.strokeStyle = pen.fillStyle = colours.bulk;
    pen.lineWidth = 1;
    distances.forEach((walk, start) => {
      const points = walk.slice(0, STEPS + 1).map((distance, k) => at(k, distance));
      line(pen, points);
      for (const [px, py] of points) MARKS[start](pen, px, py);
    });
  });

  const ends = distances.map((walk) => small(walk[STEPS])).join(", ");
  canvas.setAttribute("aria-label",
    `Distance to the stationary law against the number of steps, on a logarithmic scale, for walks on ${tokens} ` +
    `states from ${distances.length} starts: after ${STEPS} steps ${ends}. ` +
    `After 6 steps the mean of ${decay.starts} starts is ${small(decay.six)}. ` +
    `Near the end each step multiplies the distance by ${digits(decay.measured)}; in the long run, in theory, by ` +
    `${digits(decay.theory)}, the slope of the ${laziness > 0 ? "dashed line" : "line"}.`);
}

/**
 * Series of marks against the layer, and the lines of their theories; without any, a thin line joins
 * the marks. Each has {points: [[layer, y], ...], colour, mark, dashed, faint}, with y null where there is
 * none; `ys` are ticks [y, words]. If `every` is above 1, that many steps lie between two ticks or marks,
 * and lines join all points.
 */
function drawLayers(canvas, { from, layers, every = 1, range, ys, series, theories, xLabel, xText }, colours) {
  const frame = plot(canvas, [from - 0.3, layers + 0.3], range, colours.ink, { left: 46 });
  const { pen, box, x, y } = frame;
  const marks = new Map(ys);
  const xs = Array.from({ length: Math.floor((layers - from) / every) + 1 }, (_, i) => from + i * every);
  axes(frame, xs, [...marks.keys()], xLabel, (k) => marks.get(k), xText);
  line(pen, [[box.left, box.bottom], [box.right, box.bottom]]);
  const places = (points) => points.filter((p) => p[1] !== null).map(([l, value]) => [x(l), y(value)]);
  clipped(frame, () => {
    pen.lineWidth = 2.5;
    pen.strokeStyle = colours.law;
    for (const { points, dashed } of theories) {
      pen.setLineDash(dashed ? [6, 4] : []);
      const [[px, py] = [], ...more] = places(points);
      line(pen, more.length ? places(points) : [[px - 12, py], [px + 12, py]]); // a single one: a dash
    }
    pen.setLineDash([]);
    for (const { points, mark = 0, colour = "bulk", faint } of series) {
      pen.globalAlpha = faint ? 0.35 : 1;
      pen.strokeStyle = pen.fillStyle = colours[colour];
      pen.lineWidth = 1;
      if (!theories.length || every > 1) line(pen, places(points));
      pen.lineWidth = 2;
      for (const [px, py] of places(points.filter((p) => every === 1 || p[0] % every === 0))) MARKS[mark](pen, px, py);
    }
  });
}

/** Range and ticks of a log scale of whole decades that holds all values above 0. */
function decades(values) {
  const logs = values.filter((v) => v > 0).map(Math.log10);
  const low = Math.floor(Math.min(...logs) - 0.05);
  const high = Math.max(Math.ceil(Math.max(...logs) + 0.05), low + 1);
  const step = Math.ceil((high - low) / 6);
  const ys = Array.from({ length: Math.floor((high - low) / step) + 1 }, (_, i) => low + i * step)
    .map((k) => [k, k ? powerOfTen(k) : "1"]);
  return { range: [low, high], ys };
}

/** Points of a log plot from values at layers from, from + 1, ... */
const logPoints = (values, from) => values.map((v, i) => [from + i, v > 0 ? Math.log10(v) : null]);

/** Ticks of a log scale of ranks, from 1 to T. */
const rankTicks = (tokens) => [1, 2, 5, 10, 20, 50, 100].filter((r) => r <= tokens).map((r) => [Math.log10(r), String(r)]);

/** Marks of the walks: disc, square, triangle. */
const MARKS = [
  (pen, x, y, r = 3.5) => disc(pen, x, y, r),
  (pen, x, y, r = 3.5) => pen.strokeRect(x - r, y - r, 2 * r, 2 * r),
  (pen, x, y) => line(pen, [[x - 4.5, y + 3.5], [x + 4.5, y + 3.5], [x, y - 4.5], [x - 4.5, y + 3.5]]),
];

/** Outputs of a trained stack against the entries of its input, with the step that they should follow. */
function drawOutputs(canvas, { removed, entries, outputs, outside }, colours) {
  const frame = plot(canvas, [-0.8, 0.8], [-0.75, 1.75], colours.ink);
  const { pen, box, x, y } = frame;
  axes(frame, [-0.5, 0, 0.5], [-0.5, 0, 0.5, 1, 1.5], "entry of the input", minus);
  line(pen, [[box.left, box.bottom], [box.right, box.bottom]]);
  clipped(frame, () => {
    pen.strokeStyle = pen.fillStyle = colours[removed ? "spike" : "bulk"];
    pen.globalAlpha = 0.6;
    outputs.forEach((output, i) => MARKS[removed ? 1 : 0](pen, x(entries[i]), y(output), 2));
    pen.globalAlpha = 1;
    pen.strokeStyle = colours.law;
    pen.lineWidth = 2.5;
    for (const [from, to, target] of [[-0.8, 0, 0], [0, 0.8, 1]]) line(pen, [[x(from), y(target)], [x(to), y(target)]]);
  });
  pen.fillStyle = colours.ink;
  const words = `${outside} of ${outputs.length} outputs lie beyond`;
  if (outside) text(pen, words, box.right, 11, "right");
  const mean = (sign) => {
    const some = outputs.filter((_, i) => (entries[i] > 0) === sign);
    return rounded(some.reduce((sum, t) => sum + t, 0) / some.length);
  };
  canvas.setAttribute("aria-label",
    `Outputs of the trained stack, ${named(removed)}, against the entries of its input: their mean is ${mean(true)} where the ` +
    `target is 1, and ${mean(false)} where it is 0. ${words} the plot.`);
}

/** Singular values of each head in order, with their means by rank and the quantiles of a law. */
function drawHeads(canvas, { tokens, each, mean, law, expected, edge }, colours) {
  const tall = Math.max(law.edge, expected, ...each.map((values) => values[0])) * 1.06;
  const frame = plot(canvas, [0.2 - 0.02 * tokens, tokens + 0.5], [0, tall], colours.ink);
  const { pen, box, x, y } = frame;
  axes(frame, [1, ...ticks(tokens, 6).slice(1)], ticks(tall, 4), `rank k (T = ${tokens})`);
  line(pen, [[box.left, box.bottom], [box.right, box.bottom]]);
  const ranked = (values) => [...values].map((s, k) => [x(k + 1), y(s)]);
  pen.strokeStyle = pen.fillStyle = colours.bulk;
  pen.globalAlpha = 0.5;
  for (const values of each) line(pen, ranked(values));
  pen.globalAlpha = 1;
  for (const point of ranked(mean)) disc(pen, ...point, 2.5);
  pen.strokeStyle = colours.law;
  pen.lineWidth = 2;
  line(pen, ranked(quantiles(law, mean.map((_, k) => (k + 1 / 2) / tokens))));
  pen.strokeStyle = colours.spike;
  MARKS[1](pen, x(1), y(expected));
  const tops = each.map((values) => values[0]);
  canvas.setAttribute("aria-label",
    `The ${tokens} singular values of each of ${HEADS} mean-removed attention matrices in order, times the root of T: the first ` +
    `is ${digits(mean[0])} in the mean over heads${inTheory(expected, digits)}, and goes from ${digits(Math.min(...tops))} to ` +
    `${digits(Math.max(...tops))}; the second is ${digits(mean[1])}${inTheory(edge, digits)}, the last ${digits(mean.at(-1))}. ` +
    `The bulk law of isometric tokens ends at ${digits(law.edge)}.`);
}

// ---------------------------------------------------------------- 6. the scenes
// A scene has `limits(settings, controls)`, bounds that some settings put on others;
// `measure(settings)`, the numbers; `table(numbers)`, rows of [label, {name: text, ...}];
// `spoken(numbers)`; and panels, each with a title, `draw(canvas, numbers, colours)` and perhaps
// `legend(numbers)`, a list of [name of a key, words].

const within = ({ entries }, controls) => ({ sigma: controls.entries.options.find((o) => o.name === entries) });
const scaled = (values, size) => values.map((s) => s * Math.sqrt(size));

const spectrum = {
  limits: within,
  columns: ["this matrix", "theory"],
  measure({ tokens, sigma, entries, seed }) {
    return { tokens, sigma, ...markovSpectra(randomMarkov(tokens, sigma, entries, seed), tokens) };
  },
  table({ tokens, sigma, all: [s1, s2] }) {
    const p1 = Math.sqrt(1 + sigma * sigma / tokens);
    const p2 = 2 * sigma / Math.sqrt(tokens);
    return [
      ["s₁", { s1: digits(s1, 4), p1: digits(p1, 4) }],
      ["s₂", { s2: digits(s2, 4), p2: digits(p2, 4) }],
      ["gap s₁ − s₂", { gap: digits(s1 - s2, 4), pgap: digits(p1 - p2, 4) }],
    ];
  },
  spoken: ({ tokens, sigma, all: [s1, s2] }) =>
    `T ${tokens}, sigma ${digits(sigma, 2)}: s1 is ${digits(s1)}, s2 is ${digits(s2)}, ` +
    `theory ${digits(2 * sigma / Math.sqrt(tokens))}; the gap is ${digits(s1 - s2)}.`,
  panels: {
    histogram: {
      title: "Singular values of √T A<sub>⊥</sub>, the quarter circle, and √T s₁(A)",
      draw(canvas, { tokens, sigma, all, bulk }, colours) {
        const values = scaled(bulk, tokens);
        const outlier = all[0] * Math.sqrt(tokens);
        const law = quarterCircle(sigma);
        drawHistogram(canvas, { values, total: tokens, law, outlier, xLabel: "√T × singular value" }, colours);
        const beyond = values.filter((s) => s > law.edge).length;
        canvas.setAttribute("aria-label",
          `Histogram of the ${tokens} singular values of the mean-removed matrix times the root of T: they fill 0 to ` +
          `${digits(values[0], 2)}; the quarter circle of theory ends at ${digits(law.edge, 2)}, and ${beyond} ` +
          `${beyond === 1 ? "value lies" : "values lie"} beyond it. Far to the right, beyond a break of the axis, stands ` +
          `the largest value of the whole matrix at ${digits(outlier, 2)}.`);
      },
    },
    ranks: { title: "Singular values of A in order, and what the law predicts", draw: drawRanks },
  },
};

const walk = {
  limits: within,
  columns: ["this walk", "theory"],
  measure({ tokens, sigma, entries, laziness, seed }) {
    const matrix = randomMarkov(tokens, sigma, entries, seed);
    const pi = stationaryLaw(matrix, tokens);
    const distances = [0, 1, 2].map((start) => walkDistances(matrix, pi, start, laziness, STEPS, 0.01, 500));
    const starts = Math.min(30, tokens); // so many that their mean tells 0.017 from 0.015
    const six = grid(starts - 1, (t) => walkDistances(matrix, pi, Math.round(t * (starts - 1)), laziness, 6, 1, 6)[6]);
    const theory = laziness + (1 - laziness) * sigma / Math.sqrt(tokens); // |lambda_2|
    const mean = (k) => distances.reduce((sum, d) => sum + Math.log(Math.max(d[k], 1e-300)), 0) / distances.length;
    const decay = {
      measured: Math.exp((mean(STEPS) - mean(STEPS - 2)) / 2),
      theory,
      starts,
      six: six.reduce((sum, d) => sum + d) / starts,
      expected: laziness > 0 ? null : walkPrediction(tokens, sigma, 6),
    };
    const reached = Math.max(...distances.map((d) => (d.at(-1) > 0.01 ? Infinity : d.findIndex((x) => x <= 0.01))));
    const predicted = (k) => (laziness > 0
      ? Math.exp(mean(STEPS)) * theory ** (k - STEPS) // only the slope is theory
      : walkPrediction(tokens, sigma, k));
    const prediction = Array.from({ length: STEPS - 1 }, (_, i) => [i + 2, predicted(i + 2)]);
    let expected = null; // the entries' law matters for a lazy walk
    if (laziness === 0) expected = firstNear(predicted);
    else if (entries === "exponential") expected = firstNear((k) => lazyPrediction(laziness, k));
    return { tokens, sigma, laziness, pi, distances, decay, reached, expected, prediction };
  },
  table({ laziness, decay, reached, expected }) {
    const how = laziness > 0 && expected ? " (theory: large T, at most one click)" : "";
    return [
      ["mean distance after 6 steps", {
        six: small(decay.six), psix: decay.expected === null ? "–" : small(decay.expected),
      }],
      [`factor per step at ${STEPS} (long run: |&#8288;λ₂|)`, {
        decay: digits(decay.measured, 4), lambda: digits(decay.theory, 4),
      }],
      [`steps to 0.01${how}`, {
        steps: reached < Infinity ? String(reached) : "over 500", psteps: String(expected ?? "–"),
      }],
    ];
  },
  spoken: ({ tokens, sigma, laziness, decay, reached, expected }) =>
    `T ${tokens}, sigma ${digits(sigma, 2)}, laziness ${digits(laziness, 2)}: the distance after 6 steps, the mean of ` +
    `${decay.starts} starts, is ${small(decay.six)}${decay.expected === null ? "" : `, theory ${small(decay.expected)}`}; at step ${STEPS} each ` +
    `step multiplies it by ${digits(decay.measured)}, in the long run, in theory, by ${digits(decay.theory)}; ` +
    `distance 0.01 is reached after ${reached < Infinity ? reached : "more than 500"} steps` +
    `${expected === null ? "" : `, theory ${expected}`}.`,
  panels: {
    walk: {
      title: "Distance to the stationary law after k steps",
      legend: ({ laziness }) => [
        ["starts", "three starts"],
        laziness > 0 ? ["dashed", "long-run slope, |λ₂|"] : ["line", "theory"],
      ],
      draw: drawDistances,
    },
  },
};

const noiseLaw = (factors) => (factors > 1 ? `Fuss-Catalan law of order ${factors}` : "Marchenko-Pastur law");

/** The entry of a legend for the values beyond the edge of a law, where there are any. */
const beyondEdge = (values, law) => (values[0] > law.edge ? [["disc", "beyond the law's edge"]] : []);

const noise = {
  limits: ({ columns, factors }) => (factors > 1 ? {
    rows: { low: columns, high: columns, reason: "The factors of a product are square here: rows = columns." },
  } : {}),
  columns: ["this matrix", "theory"],
  measure({ rows, columns, entries, factors, seed }) {
    const all = rectangularValues(noiseMatrix(rows, columns, entries, factors, seed), rows, columns);
    const values = all.filter((s) => s > 1e-12 * all[0]);
    const law = factors > 1 ? fussCatalan(factors) : marchenkoPastur(rows / columns);
    const at = (rank) => values[rank] ?? 0; // from 0, the largest; after the values above 0 come zeros
    const middle = (at(Math.ceil(rows / 2) - 1) + at(Math.floor(rows / 2))) / 2;
    return { rows, columns, factors, values, law, zeros: 1 - values.length / rows, middle, half: median(law) };
  },
  table({ values, law, zeros, middle, half }) {
    return [
      ["largest value", { top: digits(values[0] ?? 0, 4), edge: digits(law.edge, 4) }],
      ["median", { middle: digits(middle), half: digits(half) }],
      ["smallest above 0", { bottom: small(values.at(-1) ?? 0), low: small(law.low) }],
      ["share of zeros", { zeros: percent(zeros), atom: percent(law.atom) }],
    ];
  },
  spoken: ({ rows, columns, factors, values, law, zeros, middle, half }) =>
    `${rows} rows, ${columns} columns, ${factors} ${factors > 1 ? "factors" : "factor"}: the largest value is ` +
    `${digits(values[0] ?? 0)}, theory ${digits(law.edge)}; the median is ${digits(middle)}, ` +
    `theory ${digits(half)}; the share of zeros is ${percent(zeros)}.`,
  panels: {
    noise: {
      title: "Singular values of the noise, one for each row",
      legend: ({ factors, values, law }) => [["line", noiseLaw(factors)], ...beyondEdge(values, law)],
      draw(canvas, { rows, factors, values, law, zeros, middle, half }, colours) {
        drawHistogram(canvas, { values, total: rows, law, zeros, xLabel: "singular value" }, colours);
        const beyond = values.filter((s) => s > law.edge).length;
        canvas.setAttribute("aria-label",
          `Histogram of ${values.length} singular values above 0, of ${rows}: from ${small(values.at(-1) ?? 0)} to ` +
          `${digits(values[0] ?? 0, 3)}; the ${noiseLaw(factors)} goes from ${digits(law.low, 3)} to ` +
          `${digits(law.edge, 3)}, and ${beyond} ${beyond === 1 ? "value lies" : "values lie"} beyond it. The median is ` +
          `${digits(middle)}, in theory ${digits(half)}. The share of zeros is ${percent(zeros)}, in theory ${percent(law.atom)}.`);
      },
    },
  },
};

/** Where theory puts the largest value below the outer band: a stray in the gap, or the inner band's top. */
const strayOr = ([top, bottom], stray) => (stray > top && stray < bottom ? stray : top);

const innerWords = (inner) => (inner && inner.home !== null
  ? ` The largest value below the outer band is ${digits(inner.below)}, in theory ${digits(inner.home)}.`
  : "");

const attention = {
  limits: () => ({}),
  columns: ["this matrix", "bulk law", "quarter circle"],
  measure({ tokens, head_dim, logit_std, kind, centred, seed }) {
    const matrix = attentionMatrix(tokens, head_dim, logit_std, kind, seed);
    const all = scaled(singularValues(centre(matrix, tokens, centred), tokens), tokens);
    const values = all.filter((s) => s > 1e-12 * all[0]);
    const { a2, c1, c2 } = parts(kind, logit_std);
    const variance = c1 * c1 + c2 * c2;
    const ratio = tokens / head_dim;
    const law = attentionBulk(c1, c2, ratio);
    const inner = head_dim < tokens && { // the largest value below the outer band, which holds d_k
      below: all[head_dim],
      home: law.gap && strayOr(law.gap, centred ? null : spike(c1, c2, ratio, Math.abs(a2) * Math.sqrt(2 * ratio))),
    };
    const first = kind === "softmax" && {
      s1: largestValue(matrix, tokens),
      p1: Math.sqrt(1 + variance / tokens + logit_std ** 4 / (2 * head_dim)),
      q1: Math.sqrt(1 + variance / tokens),
    };
    const zeros = law.atom > 0 ? 1 - values.length / tokens : 0;
    return { tokens, head_dim, kind, values, law, other: quarterCircle(Math.sqrt(variance)), zeros, inner, first };
  },
  table({ values: [t1, t2], law, other, inner, first }) {
    const [edge, circle] = [digits(law.edge, 4), digits(other.edge, 4)];
    const rows = [
      ["√T&nbsp;s₁(A<sub>⊥</sub>)", { t1: digits(t1, 4), edge, circle }],
      ["√T&nbsp;s₂(A<sub>⊥</sub>)", { t2: digits(t2, 4), edge2: edge, circle2: circle }],
    ];
    if (inner) {
      const home = inner.home === null ? "–" : digits(inner.home, 4);
      rows.push([law.gap ? "largest below the outer band" : "value of rank d<sub>k</sub> + 1", { below: digits(inner.below, 4), home, none: "–" }]);
    }
    if (first) {
      const { s1, p1, q1 } = first;
      rows.push(["s₁(A)", { s1: digits(s1, 4), p1: digits(p1, 4), q1: digits(q1, 4) }]);
    }
    return rows;
  },
  spoken: ({ tokens, head_dim, kind, values, law, other, inner }) =>
    `${kind}, T ${tokens}, head dimension ${head_dim}: the largest value is ${digits(values[0])}, ` +
    `the edge of the bulk law ${digits(law.edge)}, that of the quarter circle ${digits(other.edge)}.` + innerWords(inner),
  panels: {
    attention: {
      title: "Singular values of √T A<sub>⊥</sub>",
      legend: ({ values, law }) => [
        ["line", "bulk law"], ["dashed", "quarter circle of the same variance"], ["stroke", "each single value"],
        ...beyondEdge(values, law),
      ],
      draw(canvas, { tokens, values, law, other, zeros, inner }, colours) {
        drawHistogram(canvas, { values, total: tokens, law, other, zeros, rug: true, xLabel: "√T × singular value" }, colours);
        const beyond = values.filter((s) => s > law.edge).length;
        canvas.setAttribute("aria-label",
          `Histogram of the ${tokens} singular values of the mean-removed attention matrix times the root of T: the ` +
          `largest is ${digits(values[0], 2)}; the bulk law ends at ${digits(law.edge, 2)}` +
          (law.gap ? ` and has a gap from ${law.gap.map((x) => digits(x, 2)).join(" to ")}` : "") +
          `, the quarter circle at ${digits(other.edge, 2)}; ${beyond} ${beyond === 1 ? "value lies" : "values lie"} ` +
          `beyond the bulk law.` + innerWords(inner) + (zeros ? ` The share of zeros is ${percent(zeros)}.` : ""));
      },
    },
  },
};

const stack = ({ tokens, dim, layers }) => `layer l (T = ${tokens}, d = ${dim}, L = ${layers})`;
const possible = (residual, tokens) => (residual <= tokens - 1 ? residual : null); // no rank is above T
const isDrawn = (theory) => theory.some((x) => x !== null);
const layerLegend = (theory, isLimit) =>
  [["point", "this stack"], ...(isDrawn(theory) ? [["line", isLimit ? "theory for large T" : "theory"]] : [])];
const subscript = (l) => `<sub>${l}</sub>`;

/** The next split tokens of a stack; its first W stands for X_0 W_1, Gaussian too as X_0 is isometric. */
const onward = (attention, s, weights, tokens, dim) => (s
  ? mixed(attention, s, weights, tokens, dim)
  : mixed(attention, split(weights, tokens, dim), null, tokens, dim));

/** Stable rank after a layer without the mean of attention, in the limit; it does not go below 2. */
function spreadRank(tokens, layer, gamma) {
  const limit = tokens * spreadStableRank(layer, gamma);
  return limit < 2 ? null : limit;
}

/** Stable rank after a layer of plain attention; none is above T. */
function collapsedRank(tokens, dim, layer, sigma) {
  const residual = possible(widthCollapse(tokens, dim, layer, sigma), tokens);
  return residual === null ? null : 1 + residual;
}

const collapse = {
  limits(settings, controls) {
    const { sigma } = within(settings, controls);
    if (settings.entries !== "identity") return { sigma };
    return { sigma: { ...sigma, low: settings.sigma, high: settings.sigma } }; // it waits
  },
  columns: ["this stack", "theory"],
  measure({ tokens, gamma, sigma, entries, layers, seed }) {
    const u = source(seed);
    const dim = Math.round(tokens / gamma);
    const logitStd = Math.sqrt(Math.log1p(sigma ** 2)); // softmax: its entries then have this sigma
    const matrix = () => {
      if (entries === "identity") return null;
      return entries === "softmax" ? attentionFrom(u, tokens, dim, logitStd, "softmax") : markovFrom(u, tokens, sigma, entries);
    };
    const theory = (layer) => {
      if (entries === "identity") {
        const rank = tokens * spreadStableRank(layer, tokens / dim, false);
        return rank < 2 ? null : rank - 1;
      }
      return possible(entries === "softmax"
        ? attentionWidthCollapse(tokens, dim, dim, logitStd, layer)
        : widthCollapse(tokens, dim, layer, sigma), tokens);
    };
    const residuals = [];
    const predicted = [];
    let s = null;
    for (let layer = 1; layer <= layers; layer++) {
      const attention = matrix();
      const weights = gaussian(u, (s ? dim : tokens) * dim, 1 / Math.sqrt(dim));
      s = onward(attention, s, weights, tokens, dim);
      residuals.push(collapseResidual(s, tokens, dim));
      predicted.push(theory(layer));
    }
    return { tokens, dim, sigma, entries, layers, residuals, predicted };
  },
  table: ({ residuals, predicted }) => residuals.map((x, i) => [`sr(Σ${subscript(i + 1)}) − 1`, {
    [`r${i + 1}`]: rounded(x), [`p${i + 1}`]: orDash(predicted[i], rounded),
  }]),
  spoken: ({ tokens, dim, sigma, entries, layers, residuals, predicted }) =>
    `${entries}, T ${tokens}, d ${dim}, ${entries === "identity" ? "" : `sigma ${digits(sigma, 2)}, `}${layers} ` +
    `${layers === 1 ? "layer" : "layers"}: the stable rank less 1 is ${rounded(residuals[0])} after layer 1` +
    `${inTheory(predicted[0], rounded)}` +
    (layers === 1 ? "." : `; ${rounded(residuals.at(-1))} after layer ${layers}${inTheory(predicted.at(-1), rounded)}.`),
  panels: {
    collapse: {
      title: "Stable rank less 1, sr(Σ<sub>l</sub>) − 1, after each layer (log scale)",
      legend: ({ entries, predicted }) => layerLegend(predicted, entries === "identity"),
      draw(canvas, { tokens, dim, layers, residuals, predicted }, colours) {
        drawLayers(canvas, {
          from: 1, layers, xLabel: stack({ tokens, dim, layers }), ...decades([...residuals, ...predicted]),
          series: [{ points: logPoints(residuals, 1) }],
          theories: isDrawn(predicted) ? [{ points: logPoints(predicted, 1) }] : [],
        }, colours);
        const each = residuals.map((x, i) => `layer ${i + 1}: ${rounded(x)}${inTheory(predicted[i], rounded)}`);
        canvas.setAttribute("aria-label",
          `Stable rank of the token covariance less 1 against the layer, on a logarithmic scale, for ${tokens} tokens in ` +
          `dimension ${dim}. ${each.join("; ")}.`);
      },
    },
  },
};

const ROUNDING = 1e-28; // 1 - cosine of tokens that differ by little more than rounding errors

/** How tokens in depth show their 1 - cosine: itself, in decades down to rounding errors, or as the cosine. */
const SPREAD = {
  name: "1 − cosine", title: "1 − mean cosine between two tokens (log scale)", said: "1 minus the cosine of two tokens is",
  value: (t) => (t > ROUNDING ? t : 0),
  words: (t) => (t > 0 ? rounded(t) : `below ${powerOfTen(-28)}`),
  scale(values, theory) {
    const logs = [...values, ...theory].filter((t) => t > 0).map(Math.log10);
    const low = 1.04 * Math.min(-0.5, ...logs) - 0.1;
    return { range: [low, Math.max(...logs) - low / 30], ys: logTicks(low) };
  },
  points: (values) => logPoints(values, 0),
};
const COSINE = {
  name: "cosine", title: "Mean cosine between two tokens", said: "the cosine of two tokens is",
  value: (t) => 1 - t,
  words: (c, n = 4) => digits(c, n),
  scale(values) {
    const low = Math.min(-0.1, ...values.map((c) => c - 0.05));
    return { range: [low, 1.05], ys: [-1, -0.5, 0, 0.25, 0.5, 0.75, 1].filter((c) => c >= low).map((c) => [c, minus(c)]) };
  },
  points: (values) => values.map((c, l) => [l, c]),
};

const inDepth = (shown) => ({
  limits: () => ({}),
  columns: ["this stack", "theory"],
  measure({ tokens, layers, sigma = 1, attention = "markov", mask = "none", skip, norm: place, mean_removal: removed, seed }) {
    const u = source(seed);
    const branch = skip === "1/sqrt(depth)" ? 1 / layers : 1; // the square of the branch's weight
    const skips = skip !== "none";
    const scale = Math.sqrt(tokens); // X_0 = sqrt(T) I: tokens of mean square 1
    let x = Float64Array.from({ length: tokens ** 2 }, (_, i) => (i % (tokens + 1) === 0 ? scale : 0));
    const projected = () => product(normed(x, tokens), gaussian(u, tokens ** 2, 1 / scale), tokens, tokens, tokens);
    const matrix = {
      markov: () => markovFrom(u, tokens, sigma, "gamma"),
      softmax: () => attentionFrom(u, tokens, tokens, 1, "softmax"),
      dependent: () => attentionOf(projected(), projected(), tokens, tokens, 1, "softmax"),
    }[attention];
    const apart = [];
    const ranks = [];
    for (let layer = 0; ; layer++) {
      apart.push(tokenSpread(x, tokens, tokens));
      ranks.push(1 + collapseResidual(split(x, tokens, tokens), tokens, tokens));
      if (layer === layers) break;
      const mixing = masked(matrix(), tokens, mask, removed);
      x = block(x, mixing, gaussian(u, tokens ** 2, 1 / scale), tokens, {
        weight: skips ? Math.sqrt(branch) : 0, pre: place === "pre", post: place === "post",
      });
    }
    const known = attention === "markov" && mask === "none" && place === "none";
    const expected = known ? spreadPrediction(tokens, layers, sigma, removed, skips, branch) : null;
    const rank = ranks.map((_, layer) => {
      if (skips || !known) return null;
      if (layer === 0) return tokens;
      return removed ? spreadRank(tokens, layer, 1) : collapsedRank(tokens, tokens, layer, sigma);
    });
    return { tokens, layers, sigma, attention, mask, skip, place, removed, apart, ranks, expected, rank };
  },
  table({ layers, apart, ranks, expected, rank }) {
    const rows = [];
    const words = (t) => shown.words(shown.value(t));
    for (const l of new Set([1, layers])) {
      const which = l === 1 ? ["c1", "pc1"] : ["c", "pc"];
      rows.push([`${shown.name} at layer ${l}`, {
        [which[0]]: words(apart[l]), [which[1]]: expected ? words(expected[l]) : "–",
      }]);
    }
    for (const l of new Set([1, layers])) {
      const which = l === 1 ? ["r1", "pr1"] : ["r", "pr"];
      rows.push([`stable rank at layer ${l}`, {
        [which[0]]: digits(ranks[l], 3), [which[1]]: orDash(rank[l], (x) => digits(x, 3)),
      }]);
    }
    return rows;
  },
  spoken(numbers) {
    const { layers, apart, ranks, expected, rank } = numbers;
    const words = (t) => shown.words(shown.value(t));
    return `${described(numbers)}: after layer ${layers} ${shown.said} ${words(apart[layers])}` +
      `${inTheory(expected?.[layers], words)}, and the stable rank ${digits(ranks[layers])}` +
      `${inTheory(rank[layers], digits)}.`;
  },
  panels: {
    cosine: {
      title: shown.title,
      legend: ({ expected }) => layerLegend(expected ?? []),
      draw(canvas, numbers, colours) {
        const { tokens, layers, expected } = numbers;
        const values = numbers.apart.map(shown.value);
        const theory = (expected ?? []).map(shown.value);
        drawLayers(canvas, {
          from: 0, layers, ...shown.scale(values, theory), xLabel: stack({ tokens, dim: tokens, layers }),
          series: [{ points: shown.points(values) }], theories: expected ? [{ points: shown.points(theory) }] : [],
        }, colours);
        canvas.setAttribute("aria-label", `${shown.title} against the layer: ${described(numbers)}. ` +
          heard(values, theory, layers, (t) => shown.words(t, 3)));
      },
    },
    rank: {
      title: "Stable rank of Σ<sub>l</sub> (log scale)",
      legend: ({ rank, removed }) => layerLegend(rank.slice(1), removed),
      draw(canvas, numbers, colours) {
        const { tokens, layers, ranks, rank } = numbers;
        drawLayers(canvas, {
          from: 0, layers, range: [-0.03, Math.log10(tokens) + 0.05], ys: rankTicks(tokens), xLabel: stack({ tokens, dim: tokens, layers }),
          series: [{ points: logPoints(ranks, 0) }], theories: isDrawn(rank.slice(1)) ? [{ points: logPoints(rank, 0) }] : [],
        }, colours);
        canvas.setAttribute("aria-label", `Stable rank of the token covariance against the layer, on a logarithmic scale: ` +
          `${described(numbers)}. ${heard(ranks, rank, layers)}`);
      },
    },
  },
});

const depth = inDepth(SPREAD);
const blocks = inDepth(COSINE); // with more kinds of blocks; those with masks or norms stay far from collapse

/** What stack a demo of depth or of blocks shows, in words. */
const described = ({ tokens, layers, sigma, attention, mask, skip, place, removed }) =>
  `T ${tokens}, ${layers} ${layers === 1 ? "layer" : "layers"}, ` +
  `${attention === "markov" ? `sigma ${digits(sigma, 2)}` : ATTENTIONS[attention]}, ${mask === "none" ? "" : `mask ${mask}, `}` +
  `skip connection ${skip === "1/sqrt(depth)" ? "1 over root L" : skip}, norm ${place}, ` +
  `mean of attention ${removed ? "removed" : "kept"}`;

const ATTENTIONS = { softmax: "softmax of fresh queries and keys", dependent: "softmax of the tokens" };

/** Values at some layers, in words. */
const heard = (values, theory, layers, words = digits) => [...new Set([0, 1, 2, layers])].filter((l) => l <= layers)
  .map((l) => `Layer ${l}: ${words(values[l])}${inTheory(theory?.[l], words)}.`).join(" ");

const gradients = {
  limits: () => ({}),
  columns: ["this stack", "theory"],
  measure({ tokens, gamma, layers, sigma, seed }, before) {
    const u = source(seed);
    const dim = Math.round(tokens / gamma);
    const stacks = { plain: [], removed: [] };
    const weights = [];
    for (let layer = 1; layer <= layers; layer++) {
      const matrix = markovFrom(u, tokens, sigma, "gamma");
      stacks.plain.push(matrix);
      stacks.removed.push(centre(matrix, tokens, false));
      weights.push(gaussian(u, dim * dim));
    }
    const { plain, removed } = gradientNorms(stacks, weights, tokens, dim);
    const predicted = {
      plain: gradientPrediction(tokens, dim, layers, sigma, false).slice(1),
      removed: gradientPrediction(tokens, dim, layers, sigma, true).slice(1),
    };
    const ratios = [[plain, predicted.plain], [removed, predicted.removed]]
      .map(([{ first, last }, theory]) => [first.at(-1) / theory.at(-1), last / theory.at(-1)]);
    const settings = [tokens, dim, layers, sigma].join();
    const draws = new Map(before?.settings === settings ? before.draws : []).set(seed, ratios); // other settings start again
    return { tokens, dim, layers, sigma, plain, removed, predicted, settings, seed, draws };
  },
  table({ layers, plain, removed, predicted }) {
    const rows = [];
    const add = (words, [first, theory, last], norms, expected) => {
      const same = rounded(expected);
      rows.push([`${words}, first layer`, { [first]: rounded(norms.first.at(-1)), [theory]: same }]);
      if (layers > 1) rows.push([`${words}, last layer`, { [last]: rounded(norms.last), [`${theory}l`]: same }]);
    };
    const [kept, gone] = [predicted.plain.at(-1), predicted.removed.at(-1)];
    add("plain", ["p", "pp", "pl"], plain, kept);
    add("mean removed", ["m", "pm", "ml"], removed, gone);
    rows.push(["plain ÷ mean removed, first layer", {
      ratio: rounded(plain.first.at(-1) / removed.first.at(-1)), pratio: rounded(kept / gone),
    }]);
    return rows;
  },
  spoken: ({ tokens, dim, layers, sigma, plain, removed, predicted }) =>
    `T ${tokens}, d ${dim}, sigma ${digits(sigma, 2)}, ${layers} ${layers === 1 ? "layer" : "layers"}: the gradient in the ` +
    `first layer's weights has norm ${rounded(plain.first.at(-1))}${inTheory(predicted.plain.at(-1), rounded)}; with the ` +
    `mean removed ${rounded(removed.first.at(-1))}${inTheory(predicted.removed.at(-1), rounded)}.`,
  panels: {
    gradients: {
      title: "Norm of the gradient in W<sub>1</sub>, ‖∂X<sub>L</sub>/∂W<sub>1</sub>‖<sub>F</sub> (log scale)",
      legend: () => [
        ["point", "plain"], ["line", "plain, theory"], ["square", "mean removed"], ["dashed", "mean removed, theory"],
      ],
      draw(canvas, { tokens, dim, layers, plain, removed, predicted }, colours) {
        drawLayers(canvas, {
          from: 1, layers, xLabel: `depth L (T = ${tokens}, d = ${dim})`,
          ...decades([plain.first, removed.first, predicted.plain, predicted.removed].flat()),
          series: [
            { points: logPoints(plain.first, 1) }, { points: logPoints(removed.first, 1), mark: 1, colour: "spike" },
          ],
          theories: [{ points: logPoints(predicted.plain, 1) }, { points: logPoints(predicted.removed, 1), dashed: true }],
        }, colours);
        const each = [...new Set([1, layers])].map((l) =>
          `at depth ${l} plain ${rounded(plain.first[l - 1])}${inTheory(predicted.plain[l - 1], rounded)}, ` +
          `mean removed ${rounded(removed.first[l - 1])}${inTheory(predicted.removed[l - 1], rounded)}`);
        canvas.setAttribute("aria-label",
          `Norm of the gradient in the first layer's weights against the depth, on a logarithmic scale, for ${tokens} tokens ` +
          `in dimension ${dim}: ${each.join("; ")}.`);
      },
    },
    draws: {
      title: "Norms at depth L over theory, all draws so far (log scale)",
      legend: () => [["point", "plain"], ["square", "mean removed"], ["line", "theory"], ["dashed", "a factor of 1.5"]],
      draw(canvas, { tokens, dim, layers, seed, draws }, colours) {
        const all = [...draws];
        const logs = all.flatMap(([, ratios]) => ratios.flat().map(Math.log10));
        const [low, high] = [Math.min(-0.9, ...logs) - 0.1, Math.max(0.5, ...logs) + 0.1];
        const count = `${all.length} ${all.length === 1 ? "draw" : "draws"}`;
        const marks = (mark, faint) => ({
          mark, faint, colour: mark ? "spike" : "bulk",
          points: all.filter(([draw]) => (draw !== seed) === faint)
            .flatMap(([, ratios]) => ratios[mark].map((t, i) => [i + (mark ? 1.1 : 0.9), Math.log10(t)])),
        });
        const level = (t, dashed) => ({ points: [[0.7, Math.log10(t)], [2.3, Math.log10(t)]], dashed });
        drawLayers(canvas, {
          from: 1, layers: 2, range: [low, high], xLabel: `${count} (T = ${tokens}, d = ${dim}, L = ${layers})`,
          xText: (t) => (t === 1 ? "first layer" : "last layer"),
          ys: [...(low < -2 ? [] : [5, 2].map((t) => [Math.log10(t), String(t)])), ...logTicks(low)].filter(([k]) => k < high),
          series: [marks(0, true), marks(1, true), marks(0, false), marks(1, false)],
          theories: [level(1), level(1.5, true), level(1 / 1.5, true)],
        }, colours);
        const ends = (kind, layer) => [Math.min, Math.max]
          .map((end) => rounded(end(...all.map(([, ratios]) => ratios[kind][layer])))).join(" to ");
        canvas.setAttribute("aria-label",
          `Norms of the gradient over theory at depth ${layers}, on a logarithmic scale, for ${tokens} tokens in dimension ` +
          `${dim}, over ${count}: ` +
          [0, 1].map((kind) => `${named(kind)} ${ends(kind, 0)} in the first layer, ${ends(kind, 1)} in the last`).join("; ") + ".");
      },
    },
  },
};

const removal = {
  limits: within,
  columns: ["plain", "mean removed", "over T", "theory"],
  measure({ tokens, gamma, sigma, entries, layers, seed }) {
    const u = source(seed);
    const dim = Math.round(tokens / gamma);
    const ranks = { plain: [], removed: [] };
    const predicted = { plain: [], removed: [] };
    let s = null;
    let x = null;
    for (let layer = 1; layer <= layers; layer++) {
      const matrix = markovFrom(u, tokens, sigma, entries);
      const weights = gaussian(u, (s ? dim : tokens) * dim, 1 / Math.sqrt(dim));
      s = onward(matrix, s, weights, tokens, dim);
      x = product(centre(matrix, tokens, false), x ? product(x, weights, tokens, dim, dim) : weights, tokens, tokens, dim);
      ranks.plain.push(1 + collapseResidual(s, tokens, dim));
      ranks.removed.push(1 + collapseResidual(split(x, tokens, dim), tokens, dim));
      predicted.plain.push(collapsedRank(tokens, dim, layer, sigma));
      predicted.removed.push(spreadRank(tokens, layer, tokens / dim));
    }
    return { tokens, dim, sigma, layers, ranks, predicted };
  },
  table: ({ tokens, ranks, predicted }) => ranks.plain.map((x, i) => [`Σ${subscript(i + 1)}`, {
    [`p${i + 1}`]: rounded(x), [`m${i + 1}`]: rounded(ranks.removed[i]),
    [`o${i + 1}`]: digits(ranks.removed[i] / tokens, 4), [`t${i + 1}`]: orDash(predicted.removed[i], (r) => digits(r / tokens, 4)),
  }]),
  spoken: ({ tokens, dim, sigma, layers, ranks, predicted }) =>
    `T ${tokens}, d ${dim}, sigma ${digits(sigma, 2)}, ${layers} ${layers === 1 ? "layer" : "layers"}: the stable rank after ` +
    [...new Set([1, layers])].map((l) => `layer ${l} is ${rounded(ranks.plain[l - 1])}${inTheory(predicted.plain[l - 1], rounded)}, ` +
      `with the mean removed ${rounded(ranks.removed[l - 1])}${inTheory(predicted.removed[l - 1], rounded)}`).join("; after ") + ".",
  panels: {
    removal: {
      title: "Stable rank of Σ<sub>l</sub> after each layer (log scale)",
      legend: ({ predicted }) => [
        ["point", "plain"], ...(isDrawn(predicted.plain) ? [["line", "plain, theory"]] : []),
        ["square", "mean removed"], ...(isDrawn(predicted.removed) ? [["dashed", "mean removed, theory for large T"]] : []),
      ],
      draw(canvas, { tokens, dim, layers, ranks, predicted }, colours) {
        const theory = (values, dashed) => (isDrawn(values) ? [{ points: logPoints(values, 1), dashed }] : []);
        drawLayers(canvas, {
          from: 1, layers, range: [-0.03, Math.log10(tokens) + 0.05], ys: rankTicks(tokens), xLabel: stack({ tokens, dim, layers }),
          series: [{ points: logPoints(ranks.plain, 1) }, { points: logPoints(ranks.removed, 1), mark: 1, colour: "spike" }],
          theories: [...theory(predicted.plain, false), ...theory(predicted.removed, true)],
        }, colours);
        const each = ranks.plain.map((x, i) => `layer ${i + 1}: plain ${rounded(x)}${inTheory(predicted.plain[i], rounded)}, ` +
          `mean removed ${rounded(ranks.removed[i])}${inTheory(predicted.removed[i], rounded)}`);
        canvas.setAttribute("aria-label",
          `Stable rank of the token covariance against the layer, on a logarithmic scale, for ${tokens} tokens in dimension ` +
          `${dim}. ${each.join("; ")}.`);
      },
    },
  },
};

const TRAINING = { size: 24, steps: 150 };
const named = (removed) => (removed ? "mean removed" : "plain");

const training = {
  limits: () => ({}),
  columns: ["plain", "mean removed"],
  measure({ depth: layers, learning_rate: rate, mean_removal: removed, seed }) {
    const { size, steps } = TRAINING;
    const u = source(seed);
    const entries = orthogonal(u, size);
    const targets = entries.map((t) => (t > 0 ? 1 : 0));
    const weights = [];
    const mixed = [entries, entries]; // A_l ... A_1 X_0, plain and with the mean removed
    for (let layer = 1; layer <= layers; layer++) {
      const matrix = markovFrom(u, size, 1, "exponential");
      [matrix, centre(matrix, size, false)].forEach((a, i) => { mixed[i] = product(a, mixed[i], size, size, size); });
      weights.push(gaussian(u, size * size));
    }
    const runs = mixed.map((z) => trained(z, targets, weights, size, rate, steps));
    const predicted = [false, true].map((gone) => 1 / 2 + (gradientPrediction(size, size, layers, 1, gone).at(-1) / size) ** 2);
    const { outputs } = runs[removed ? 1 : 0];
    const outside = outputs.filter((y) => !(y > -0.75 && y < 1.75)).length;
    return { layers, rate, removed, losses: runs.map((run) => run.losses), predicted, entries, outputs, outside };
  },
  table: ({ losses: [plain, gone], predicted }) => [
    ["loss before training", { p0: rounded(plain[0]), m0: rounded(gone[0]) }],
    ["its mean in theory", { t0: rounded(predicted[0]), t1: rounded(predicted[1]) }],
    [`loss after ${TRAINING.steps} steps`, { p: rounded(plain.at(-1)), m: rounded(gone.at(-1)) }],
  ],
  spoken: ({ layers, rate, losses: [plain, gone] }) =>
    `${layers} ${layers === 1 ? "layer" : "layers"}, learning rate ${rate}: the loss goes from ${rounded(plain[0])} to ` +
    `${rounded(plain.at(-1))} in ${TRAINING.steps} steps; with the mean removed from ${rounded(gone[0])} to ${rounded(gone.at(-1))}.`,
  panels: {
    losses: {
      title: "Loss before each step (log scale)",
      legend: () => [
        ["point", "plain"], ["square", "mean removed"], ["line", "theory at the start"], ["dashed", "all outputs 1/2"],
      ],
      draw(canvas, { layers, losses, predicted }, colours) {
        const level = (t, to) => [[0, Math.log10(t)], [to, Math.log10(t)]];
        drawLayers(canvas, {
          from: 0, layers: TRAINING.steps, every: 25, xLabel: `step (T = d = ${TRAINING.size}, L = ${layers})`,
          ...decades([...losses.flat(), ...predicted]),
          series: losses.map((all, i) => ({ points: logPoints(all, 0), mark: i, colour: i ? "spike" : "bulk" })),
          theories: [...predicted.map((t) => ({ points: level(t, 10) })), { points: level(1 / 4, TRAINING.steps), dashed: true }],
        }, colours);
        const each = losses.map((all, i) => `${named(i)}: ${[0, 50, 100, TRAINING.steps].map((k) => `${rounded(all[k])} at step ${k}`).join(", ")}` +
          `, before training${inTheory(predicted[i], rounded).replace(",", " in")}`);
        canvas.setAttribute("aria-label", `Loss against the step, on a logarithmic scale. ${each.join("; ")}.`);
      },
    },
    outputs: {
      title: "Outputs after training, against the entries of the input",
      legend: ({ removed }) => [[removed ? "square" : "point", named(removed)], ["line", "target"]],
      draw: drawOutputs,
    },
  },
};

const HEADS = 12;
const average = (values) => values.reduce((sum, t) => sum + t) / values.length;

const heads = {
  limits: () => ({}),
  columns: [`mean of ${HEADS} heads`, "theory"],
  measure({ tokens, head_dim, logit_std, similarity, gamma, seed }) {
    const u = source(seed);
    const dim = Math.round(tokens / gamma);
    const shared = gaussian(u, dim, Math.sqrt(similarity / dim));
    const x = gaussian(u, tokens * dim, Math.sqrt((1 - similarity) / dim)).map((t, i) => t + shared[i % dim]);
    const projected = () => product(x, gaussian(u, dim * head_dim), tokens, dim, head_dim);
    const each = Array.from({ length: HEADS }, () => {
      const matrix = attentionOf(projected(), projected(), tokens, head_dim, logit_std, "softmax");
      return scaled(singularValues(centre(matrix, tokens, false), tokens), tokens);
    });
    const mean = [...each[0].keys()].map((k) => average(each.map((some) => some[k])));
    const { c1, c2 } = parts("softmax", logit_std);
    const law = attentionBulk(c1, c2, tokens / head_dim);
    const edge = gaussianTokenEdge(tokens / dim, tokens / head_dim, logit_std * (1 - similarity));
    const own = parts("softmax", logit_std * (1 - similarity));
    const written = Math.sqrt(tokens * Math.expm1(logit_std ** 2 * similarity * (1 - similarity)));
    const stray = written > 0 ? spike(own.c1, own.c2, tokens / head_dim, written) : null;
    return {
      tokens, head_dim, dim, each, mean, law, cosine: tokenCosine(x, tokens, dim), similarity, edge, expected: Math.max(edge, stray ?? 0),
    };
  },
  table: ({ mean: [top, second], edge, expected, cosine, similarity }) => [
    ["√T&nbsp;s₁(A<sub>⊥</sub>)", { top: digits(top), ptop: digits(expected) }],
    ["√T&nbsp;s₂(A<sub>⊥</sub>)", { second: digits(second), edge: digits(edge) }],
    ["cosine of two tokens", { cosine: digits(cosine), kappa: digits(similarity) }],
  ],
  spoken: ({ tokens, dim, head_dim, mean: [top, second], edge, expected, law, cosine }) =>
    `T ${tokens}, d ${dim}, head dimension ${head_dim}, cosine of two tokens ${digits(cosine)}: the largest value is ` +
    `${digits(top)} in the mean of ${HEADS} heads${inTheory(expected, digits)}, the second ${digits(second)}${inTheory(edge, digits)}; ` +
    `the law of isometric tokens ends at ${digits(law.edge)}.`,
  panels: {
    heads: {
      title: `Singular values of √T A<sub>⊥</sub> in order, ${HEADS} heads of one layer`,
      legend: () => [
        ["thin", "one head"], ["point", "mean of the heads"], ["line", "bulk law of isometric tokens"], ["square", "first, theory"],
      ],
      draw: drawHeads,
    },
  },
};

export const SCENES = {
  spectrum, walk, noise, attention, collapse, depth, gradients, removal, training, blocks, heads,
};

// ---------------------------------------------------------------- 7. the widget
const STYLE = `
.gap-demo { font: inherit; line-height: 1.4; color: inherit; max-width: 60rem; overflow-wrap: anywhere; }
.gap-demo *, .gap-demo *::before { box-sizing: border-box; }
.gap-demo form { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(15rem, 100%), 1fr)); gap: .4rem 1.4rem; align-items: end; margin: 0 0 .4rem; }
.gap-demo label { display: block; font-size: .95em; margin: 0 0 .15rem; }
.gap-demo output { font-variant-numeric: tabular-nums; font-weight: 600; }
.gap-demo input, .gap-demo select, .gap-demo button { font: inherit; color: inherit; width: 100%; min-height: 2.2rem; margin: 0; accent-color: var(--gap-bulk); }
.gap-demo select, .gap-demo button { background: transparent; border: 1px solid currentColor; border-radius: .3rem; padding: .25rem .6rem; }
.gap-demo option { color: #111; background: #fff; }
.gap-demo .gap-box { display: flex; align-items: center; gap: .5rem; min-height: 2.2rem; } .gap-demo .gap-box input { width: 1.2rem; min-height: 1.2rem; } .gap-demo .gap-box label { margin: 0; }
.gap-demo button { cursor: pointer; }
.gap-demo button:hover { background: color-mix(in srgb, currentColor 12%, transparent); }
.gap-demo :focus-visible { outline: 3px solid var(--gap-spike); outline-offset: 2px; }
.gap-demo .gap-note { min-height: 1.4em; margin: 0 0 .4rem; font-size: .9em; }
.gap-demo .gap-panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(19rem, 100%), 1fr)); gap: .8rem 1.4rem; }
.gap-demo .gap-panels > div { min-width: 0; }
.gap-demo .gap-title { font-size: .95em; margin: 0; }
.gap-demo .gap-legend { display: flex; flex-wrap: wrap; gap: 0 1.1rem; font-size: .85em; margin: .1rem 0 .2rem; } .gap-demo .gap-legend:empty { display: none; }
.gap-demo .gap-legend svg { display: inline-block; height: 12px; vertical-align: -1px; margin: 0 .4em 0 0; fill: none; stroke: currentColor; }
.gap-demo canvas { display: block; width: 100%; height: 15rem; }
.gap-demo table { border-collapse: collapse; margin: .6rem 0 0; font-size: .95em; font-variant-numeric: tabular-nums; width: auto; color: inherit; background: none; border: 0; }
.gap-demo th, .gap-demo td { text-align: right; padding: .15rem .9rem .15rem 0; border: 0; background: none; color: inherit; font-weight: 400; }
.gap-demo table { overflow-wrap: normal; } .gap-demo td { white-space: nowrap; }
@media (max-width: 24rem) { .gap-demo th, .gap-demo td { padding-right: .6rem; } }
.gap-demo th[scope=row] { text-align: left; } .gap-demo td:nth-child(2) { font-weight: 600; }
.gap-demo tr { background: none; border: 0; } .gap-demo thead tr { border-bottom: 1px solid currentColor; }
.gap-demo .gap-spoken { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
`;

/** One control of the form: a slider, a list of options, or a box to tick. */
function control(id, spec) {
  const { name, label, low, high, step, options } = spec;
  const words = escaped(label);
  const named = `id="${id}-${name}" name="${name}"`;
  if (options) {
    const list = options.map((o) => `<option value="${o.name}">${escaped(o.label)}</option>`);
    return `<div><label for="${id}-${name}">${words}</label><select ${named}>${list.join("")}</select></div>`;
  }
  if (step) {
    const range = [place(spec, low), place(spec, high), Math.round(step / unit(step))];
    return `<div><label for="${id}-${name}">${words} = <output data-out="${name}"></output></label>
      <input type="range" ${named} min="${range[0]}" max="${range[1]}" step="${range[2]}"></div>`;
  }
  return `<div class="gap-box"><input type="checkbox" ${named}><label for="${id}-${name}">${words}</label></div>`;
}

/** Pictures of the marks in a plot, for its legend: width and strokes. */
const LEGEND = {
  line: [22, `<path d="M0 6h22" stroke-width="2.5"/>`],
  dashed: [22, `<path d="M0 6h6m4 0h6m4 0h2" stroke-width="2"/>`],
  thin: [22, `<path d="M0 6h22" style="stroke: var(--gap-bulk)" stroke-width="1"/>`],
  stroke: [4, `<path d="M2 2v8" style="stroke: var(--gap-bulk)" stroke-width="2"/>`],
  disc: [10, `<circle cx="5" cy="6" r="3.5" style="fill: var(--gap-spike); stroke: none"/>`],
  point: [10, `<circle cx="5" cy="6" r="3.5" style="fill: var(--gap-bulk); stroke: none"/>`],
  square: [10, `<path d="M1.5 2.5h7v7h-7z" style="stroke: var(--gap-spike)" stroke-width="2"/>`],
  starts: [44, `<g style="stroke: var(--gap-bulk)"><circle cx="5" cy="6" r="3.5" style="fill: var(--gap-bulk)"/>` +
    `<path d="M18 2.5h7v7h-7zM33.5 9.5h9l-4.5-8z"/></g>`],
};

const legend = (entries) => entries.map(([key, words]) => {
  const [width, marks] = LEGEND[key];
  return `<span><svg width="${width}" height="12" viewBox="0 0 ${width} 12" aria-hidden="true">${marks}</svg>${words}</span>`;
}).join("");

const escaped = (words) => words.replace(/[&<"]/g, (c) => `&#${c.charCodeAt(0)};`);
const unit = (step) => (step < 1 ? step : 1); // a slider of fractions counts its steps
const place = ({ step, log }, value) => Math.round((log ? Math.log10(value) : value) / unit(step)); // steps of log10, if asked
const setting = ({ step, log }, place) => (log ? +(10 ** (place * step)).toPrecision(3) : +(place * unit(step)).toFixed(2));

function template(id, { columns, panels }, controls) {
  return `<style>${STYLE}</style>
  <form aria-label="Controls of the matrix">
    ${controls.map((spec) => control(id, spec)).join("\n    ")}
    <div><button type="button" name="draw">New draw</button></div>
  </form>
  <p class="gap-note" id="${id}-note" role="status"></p>
  <div class="gap-panels">
    ${Object.entries(panels).map(([name, { title }]) =>
      `<div data-panel="${name}"><p class="gap-title">${title}</p><p class="gap-legend"></p><canvas role="img"></canvas></div>`).join("\n    ")}
  </div>
  <table><thead><tr><th scope="col"></th>${columns.map((c) => `<th scope="col">${c}</th>`).join("")}</tr></thead>
    <tbody></tbody></table>
  <p class="gap-spoken" aria-live="polite" data-out="spoken"></p>`;
}

let count = 0;

function render({ model, el }) {
  const scene = SCENES[model.get("scene")];
  const list = model.get("controls"); // of {name, label}, with {low, high, step} or {options} or neither
  const controls = Object.fromEntries(list.map((spec) => [spec.name, spec]));
  const names = [...Object.keys(controls), "seed", "view"];
  const root = document.createElement("div");
  root.className = "gap-demo";
  root.innerHTML = template(`gap-${++count}-${Math.random().toString(36).slice(2, 8)}`, scene, list);
  el.append(root);
  for (const part of root.querySelectorAll("input, select, button")) {
    part.dataset.lmSuppressShortcuts = "true"; // JupyterLab leaves the keys to the control
  }
  const input = (name) => root.querySelector(`[name=${name}]`);
  const write = (place, words) => { // only what changes, as screen readers speak it
    if (place.textContent !== words) place.textContent = words;
  };

  let state = {}; // what is drawn
  let wished = {}; // what the reader or the kernel asked for, kept while another setting forbids it
  let ours = false; // our own change, not the kernel's
  let numbers = null;
  let stale = true; // the numbers are of other settings
  let frame = 0;

  const current = () => Object.fromEntries(names.map((name) => [name, model.get(name)]));

  /** Show what is wished on the controls, held at the nearest values allowed; ask for a new picture. */
  function read() {
    const limits = scene.limits(wished, controls);
    state = { ...wished };
    for (const [name, { low, high }] of Object.entries(limits)) {
      state[name] = Math.min(high, Math.max(low, wished[name]));
    }
    for (const spec of list) {
      const { name, step, options, log } = spec;
      const value = state[name];
      if (step) {
        const words = log ? String(value) : step < 1 ? digits(value, 2) : String(value);
        input(name).value = place(spec, value);
        input(name).setAttribute("aria-valuetext", words);
        write(root.querySelector(`[data-out=${name}]`), words);
      } else {
        input(name)[options ? "value" : "checked"] = value;
      }
      input(name).disabled = name in limits && limits[name].low === limits[name].high;
    }
    for (const panel of root.querySelectorAll("[data-panel]")) {
      panel.hidden = state.view !== "both" && state.view !== panel.dataset.panel;
    }
    const note = root.querySelector(".gap-note");
    const held = Object.keys(limits).filter((name) => input(name).disabled || wished[name] !== state[name]);
    for (const name of Object.keys(limits)) input(name).setAttribute("aria-describedby", note.id);
    write(note, held.map((name) => limits[name].reason).join(" "));
    stale = true;
    schedule();
  }

  /** Set traits to what the reader wishes and may have. */
  function set(changes) {
    Object.assign(wished, changes);
    read();
    ours = true;
    for (const name of names) if (state[name] !== model.get(name)) model.set(name, state[name]);
    ours = false;
  }

  function draw() {
    frame = 0;
    const ink = getComputedStyle(root).color;
    const [r, g, b] = ink.match(/[\d.]+/g).map(Number);
    const colours = { ink, ...(0.3 * r + 0.6 * g + 0.1 * b > 127 ? DARK : LIGHT) };
    root.style.setProperty("--gap-bulk", colours.bulk);
    root.style.setProperty("--gap-spike", colours.spike);
    if (stale) report(numbers = scene.measure(state, numbers));
    stale = false;
    for (const panel of root.querySelectorAll("[data-panel]:not([hidden])")) {
      scene.panels[panel.dataset.panel].draw(panel.querySelector("canvas"), numbers, colours);
    }
  }

  function report() {
    const cells = (row) => Object.entries(row).map(([name, words]) => `<td data-out="${name}">${words}</td>`);
    root.querySelector("tbody").innerHTML = scene.table(numbers)
      .map(([label, row]) => `<tr><th scope="row">${label}</th>${cells(row).join("")}</tr>`).join("");
    for (const panel of root.querySelectorAll("[data-panel]")) {
      panel.querySelector(".gap-legend").innerHTML = legend(scene.panels[panel.dataset.panel].legend?.(numbers) ?? []);
    }
    write(root.querySelector("[data-out=spoken]"), scene.spoken(numbers));
  }

  function schedule() {
    frame ||= requestAnimationFrame(draw);
  }

  const save = () => model.save_changes();
  const stop = new AbortController();
  const listen = (target, type, action) => target.addEventListener(type, action, { signal: stop.signal });
  for (const spec of list) {
    const { name, step, options } = spec;
    if (step) {
      listen(input(name), "input", (e) => set({ [name]: setting(spec, e.target.valueAsNumber) }));
      listen(input(name), "change", save); // once a drag has ended
    } else {
      listen(input(name), "change", (e) => { set({ [name]: options ? e.target.value : e.target.checked }); save(); });
    }
  }
  listen(input("draw"), "click", () => { set({ seed: (state.seed + 1) % 2 ** 31 }); save(); });
  listen(root.querySelector("form"), "submit", (e) => e.preventDefault());

  const follow = () => { if (!ours) { wished = current(); read(); } };
  for (const name of names) model.on(`change:${name}`, follow);
  const resized = new ResizeObserver(schedule);
  resized.observe(root);
  const themed = new MutationObserver(schedule);
  for (const node of [document.documentElement, document.body]) themed.observe(node, { attributes: true });
  listen(matchMedia("(prefers-color-scheme: dark)"), "change", schedule);
  follow();

  return () => {
    cancelAnimationFrame(frame);
    stop.abort();
    resized.disconnect();
    themed.disconnect();
    for (const name of names) model.off(`change:${name}`, follow);
  };
}

export default { render };
