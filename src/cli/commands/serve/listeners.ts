import type { listenForMetrics as listenForScrapes } from '../../../server/listen/metrics.ts'
import type { listen as listenForCalls } from '../../../server/listen.ts'
import type { Log } from '../../log.ts'
import { explainListen, readMetricsPlace } from './place.ts'
import type { Serving } from './serving.ts'

/** Where a server is reached, and how it stops listening. */
export interface Listeners {
  url: string
  metrics_url: string | null
  ports: number[]
  /** How many requests are being answered. */
  readonly busy: number
  closeIdle(): void
  turnAway(): void
  /** Stops taking connections, and waits so many milliseconds for running answers. */
  stop(drain: number): Promise<void>
}

/** How the server listens: this command is told, as it knows no server. */
interface Listening {
  listen: typeof listenForCalls
  listenForMetrics: typeof listenForScrapes
}

/** Opens the sockets of the API and of the metrics. */
export async function openListeners(
  serving: Serving,
  { listen, listenForMetrics }: Listening,
): Promise<Listeners> {
  const { gateway, log, place, given, taken, worker } = serving
  await taken?.serve()
  const metricsPlace = readMetricsPlace(gateway)
  const metrics = explainListen(metricsPlace, () =>
    listenForMetrics(gateway, taken?.findSocket(metricsPlace.port), worker),
  )
  const server = explainListen(place, () => listen(gateway, place.host, place.port, given, worker))
  if (metrics) log('info', 'metrics.listening', { url: metrics.url })
  await warnOfFewDescriptors(log)
  return {
    url: server.url,
    metrics_url: metrics?.url ?? null,
    ports: [server.port, ...(metrics ? [metrics.port] : [])],
    get busy() {
      return server.busy
    },
    closeIdle: () => server.closeIdle(),
    turnAway: () => server.turnAway(),
    async stop(drain) {
      await server.stop(drain)
      await metrics?.stop()
    },
  }
}

/** Fewer file descriptors are few: each running call takes two. */
const FEW_DESCRIPTORS = 1_024

// Bun has raised the soft limit to the hard one by now.
async function warnOfFewDescriptors(log: Log): Promise<void> {
  const { readDescriptorLimit } = await import('../../../base/machine.ts')
  const limit = readDescriptorLimit()
  if (limit >= FEW_DESCRIPTORS) return
  log('warn', 'descriptors.few', {
    limit,
    consequence: `more than ${Math.floor(limit / 2)} calls at once are refused (ulimit -Hn)`,
  })
}

/** Says that it will take no more calls, and takes them for the time that who sends them needs to hear so. */
export async function giveNotice(
  { gateway, options: { notice }, log }: Serving,
  { turnAway }: Listeners,
): Promise<void> {
  if (notice === 0) return
  log('info', 'notice', { seconds: notice })
  gateway.traffic.calls.announceDrain()
  turnAway()
  await Bun.sleep(notice * 1000)
}

/** Stops taking connections, and lets running answers continue for the time of the drain. */
export async function drain(
  { gateway, options, log }: Serving,
  { stop }: Listeners,
): Promise<void> {
  log('info', 'draining', { running: gateway.traffic.calls.size })
  await stop(options.drain * 1000)
}
