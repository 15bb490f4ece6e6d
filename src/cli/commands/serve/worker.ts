import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  type Labels,
  type MetricReading,
  type Metrics,
  renderMetrics,
  type ToldMetrics,
} from '../../../observability/metrics.ts'
import type { SharedPort } from '../../../server/paths.ts'
import { listWorkers, locateWorker } from '../../data-directory.ts'
import { openLineWriter } from '../../log.ts'
import { openConversation } from '../../status-socket.ts'

/** In milliseconds: how long another worker may take to say what it has counted. */
const PATIENCE = 2_000

/** In milliseconds: how often a worker tells its parent that it goes on. */
const BEAT = 1_000

/** The file that says of a worker's directory that nothing is left in it to settle. */
export const SETTLED = 'settled'

/** One of several servers that listen on one port. Each tells what all have counted. */
export class Worker implements SharedPort {
  readonly #home: string
  readonly #number: number
  #metrics: Metrics | null = null
  /** What its gateway is opened with: a directory of its own, and the secret of all. */
  readonly parts: { data: string; home: string; worker: number }
  /** Whether it only settles what an earlier one of this number has left, as there are fewer now. */
  readonly settles: boolean

  constructor(home: string, number: number, count: number) {
    this.#home = home
    this.#number = number
    this.parts = { data: locateWorker(home, number), home, worker: number }
    this.settles = number > count
    rmSync(join(this.parts.data, SETTLED), { force: true })
  }

  /** Resolves when the process that has started this one has it stop, or is gone. */
  async waitForParent(): Promise<void> {
    for await (const _ of Bun.stdin.stream());
  }

  /** Tells the process that has started this one, until the end, that its event loop goes on. */
  tellParent(): void {
    const write = openLineWriter(Bun.stdout.writer(), () => undefined)
    setInterval(() => write('\n', 'info'), BEAT).unref()
  }

  /** Ends, and notes that nothing is left here: no later start has to look. */
  async noteSettled(end: () => Promise<void>): Promise<void> {
    await end()
    writeFileSync(join(this.parts.data, SETTLED), '')
  }

  shareMetrics(metrics: Metrics): ToldMetrics {
    this.#metrics = metrics
    return {
      contentType: metrics.contentType,
      renderText: async () => renderMetrics(joinReadings(await this.#readAll())),
    }
  }

  /** Returns what this one has counted. */
  readMetrics = (): MetricReading[] => this.#metrics?.read() ?? []

  // One that does not answer is left out, as one that does not run is.
  async #readAll(): Promise<Map<number, MetricReading[]>> {
    const all = await Promise.all(
      listWorkers(this.#home).map(async worker => {
        const readings = worker === this.#number ? this.readMetrics() : await this.#ask(worker)
        return [worker, readings] as const
      }),
    )
    return new Map(all)
  }

  async #ask(worker: number): Promise<MetricReading[]> {
    const asked = askMetrics(locateWorker(this.#home, worker))
    return Promise.race([asked, Bun.sleep(PATIENCE).then(() => [])])
  }
}

async function askMetrics(data: string): Promise<MetricReading[]> {
  const conversation = await openConversation(data, { do: 'metrics' })
  const { value: [line] = [] } = (await conversation?.batches.next()) ?? {}
  conversation?.close()
  const readings: unknown = line && JSON.parse(line)
  return Array.isArray(readings) ? readings : []
}

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
