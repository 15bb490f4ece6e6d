import type { Labels, MetricReading } from '../metrics.ts'

/**
 * Joins what several servers of one port have counted, by their numbers. Each series has the label
 * `worker`: a sum would seem to begin anew, and be counted again, whenever one of them does.
 */
export function joinReadings(read: ReadonlyMap<number, MetricReading[]>): MetricReading[] {
  const joined = new Map<string, MetricReading>()
  for (const [worker, readings] of read)
    for (const reading of readings) {
      const labelled = labelReading(reading, { worker: String(worker) })
      const points = [...(joined.get(reading.name)?.points ?? []), ...labelled.points]
      joined.set(reading.name, { ...labelled, points } as MetricReading)
    }
  return [...joined.values()]
}

const labelReading = (reading: MetricReading, label: Labels): MetricReading =>
  ({
    ...reading,
    points: reading.points.map(point => ({ ...point, labels: { ...point.labels, ...label } })),
  }) as MetricReading
