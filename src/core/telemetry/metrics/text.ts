import type { HistogramPoint, Labels, MetricReading } from './instruments.ts'

/** Renders metrics in the text format of Prometheus (exposition format 0.0.4). */
export const renderMetrics = (readings: MetricReading[]): string =>
  readings.map(renderMetric).join('')

function renderMetric(reading: MetricReading): string {
  const { name, help, type } = reading
  const lines =
    reading.type === 'histogram'
      ? reading.points.map(point => renderHistogram(name, reading.bounds, point))
      : reading.points.map(({ labels, value }) => renderLine(name, renderLabels(labels), value))
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join('')}`
}

function renderHistogram(
  name: string,
  bounds: readonly number[],
  { labels, counts, sum }: HistogramPoint,
): string {
  const own = renderLabels(labels)
  const before = own === '' ? '' : `${own},`
  let below = 0
  const buckets = counts.map((count, i) => {
    below += count
    return renderLine(`${name}_bucket`, `${before}le="${bounds[i] ?? '+Inf'}"`, below)
  })
  return [
    ...buckets,
    renderLine(`${name}_sum`, own, sum),
    renderLine(`${name}_count`, own, below),
  ].join('')
}

const renderLabels = (labels: Labels): string =>
  Object.entries(labels)
    .map(([name, value]) => `${name}="${escapeLabel(value)}"`)
    .join(',')

// A config may give its providers any name.
const escapeLabel = (label: string) =>
  label.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')

const renderLine = (name: string, labels: string, value: number) =>
  `${name}${labels && `{${labels}}`} ${value}\n`
