/** What is measured: counters, gauges and histograms, apart from how they are told. */

export type Labels = Readonly<Record<string, string>>

/** What a metric is called and means. */
interface MetricName {
  /** The name in Prometheus, with its unit. */
  name: string
  help: string
  /** The name and the unit (UCUM) in OpenTelemetry, where its conventions have the metric. */
  convention?: { name: string; unit: string }
}

/** A metric at one moment. */
export type MetricReading = MetricName &
  (
    | { type: 'counter' | 'gauge'; points: { labels: Labels; value: number }[] }
    | { type: 'histogram'; bounds: readonly number[]; points: HistogramPoint[] }
  )

export interface HistogramPoint {
  labels: Labels
  /** How many values each bucket has: one more than there are bounds. */
  counts: readonly number[]
  sum: number
}

/** A sum to which is added. */
export interface Sum {
  value: number
}

interface Series<T> {
  labels: Labels
  value: T
}

/** Finds the series of labels, and opens it at first use. */
class SeriesByLabels<T> {
  readonly #create: () => T
  readonly #known = new Map<string, Series<T>>()

  constructor(create: () => T) {
    this.#create = create
  }

  open(labels: Labels): T {
    const key = Object.values(labels).join('\0')
    const known = this.#known.get(key)
    if (known) return known.value
    const value = this.#create()
    this.#known.set(key, { labels, value })
    return value
  }

  list(): Series<T>[] {
    return [...this.#known.values()]
  }
}

const NO_LABELS: Labels = {}

/**
 * Only grows. All of its series have the same names of labels. It is told in units of so many parts,
 * and counts these: a sum of whole numbers does not drift, as one of fractions does.
 */
export class Counter {
  readonly #name: MetricName
  readonly #parts: number
  readonly #series = new SeriesByLabels<Sum>(() => ({ value: 0 }))

  constructor(name: MetricName, parts = 1) {
    this.#name = name
    this.#parts = parts
  }

  add(amount: number, labels: Labels = NO_LABELS): void {
    this.open(labels).value += amount
  }

  /** Returns the sum of these labels, to be added to. */
  open(labels: Labels = NO_LABELS): Sum {
    return this.#series.open(labels)
  }

  read(): MetricReading {
    const points = this.#series
      .list()
      .map(({ labels, value: { value } }) => ({ labels, value: value / this.#parts }))
    return { ...this.#name, type: 'counter', points }
  }
}

/** The values of one series of a histogram. */
export class Distribution {
  readonly #bounds: readonly number[]
  readonly counts: number[]
  sum = 0

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.counts = new Array<number>(bounds.length + 1).fill(0)
  }

  observe(value: number): void {
    let at = 0
    while (at < this.#bounds.length && value > (this.#bounds[at] ?? 0)) at++
    this.counts[at] = (this.counts[at] ?? 0) + 1
    this.sum += value
  }
}

/** Counts values by the buckets that they fall into. */
export class Histogram {
  readonly #name: MetricName
  readonly #bounds: readonly number[]
  readonly #series: SeriesByLabels<Distribution>

  constructor(name: MetricName, bounds: readonly number[]) {
    this.#name = name
    this.#bounds = bounds
    this.#series = new SeriesByLabels(() => new Distribution(bounds))
  }

  /** Returns the distribution of these labels, to be added to. */
  open(labels: Labels = NO_LABELS): Distribution {
    return this.#series.open(labels)
  }

  read(): MetricReading {
    const points = this.#series
      .list()
      .map(({ labels, value: { counts, sum } }) => ({ labels, counts: [...counts], sum }))
    return { ...this.#name, type: 'histogram', bounds: this.#bounds, points }
  }
}

/** Returns a metric of one value. */
export const readValue = (
  name: string,
  help: string,
  value: number,
  { type = 'gauge', labels = NO_LABELS }: { type?: 'counter' | 'gauge'; labels?: Labels } = {},
): MetricReading => ({ name, help, type, points: [{ labels, value }] })
