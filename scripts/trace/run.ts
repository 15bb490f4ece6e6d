import { resolve } from 'node:path'
import { plugin } from 'bun'
import { type FirstKeys, pickKey, sendCall, type TracedCall } from './call.ts'
import { createTraceConfig, startProvider, type TraceProvider } from './provider.ts'
import type { Trace } from './report.ts'
import { type Entry, type Planning, Tracer } from './tracer.ts'

/** In milliseconds. The time that timers and returned connections get after a call. */
const AFTERGLOW = 50

const ROOT = resolve(import.meta.dir, '../..')

/** A gateway that runs, with its keys and its provider. */
interface Running {
  url: string
  keys: FirstKeys
  provider: TraceProvider
  /** Waits until nothing of a call is left. */
  settle(): Promise<void>
  stop(): Promise<void>
}

/**
 * Makes each call at a gateway of its own, first once, so that everything exists that is created on
 * first use, and then so many times that are traced. Returns the trace with the fewest entries of
 * each: a timer may fall into one. To be called before anything of the program is loaded.
 */
export async function traceCalls(
  calls: TracedCall[],
  planning: Planning,
  times = 3,
): Promise<Trace[]> {
  const tracer = new Tracer(ROOT, planning)
  plugin(tracer.plugin)
  const running = await startTracedGateway()
  try {
    const traces: Trace[] = []
    for (const call of calls) traces.push(await traceCall(call, running, tracer, times))
    tracer.requirePlanning()
    return traces
  } finally {
    await running.stop()
  }
}

async function traceCall(
  call: TracedCall,
  { url, keys, provider, settle }: Running,
  tracer: Tracer,
  times: number,
): Promise<Trace> {
  const make = () => sendCall({ url, key: pickKey(call, keys), provider }, call)
  provider.chunks = call.chunks
  await make()
  await settle()
  const traces: Entry[][] = []
  for (let i = 0; i < times; i++)
    traces.push(
      await tracer.record(async () => {
        await make()
        await tracer.mute(settle)
      }),
    )
  const [entries = []] = traces.toSorted((a, b) => a.length - b.length)
  return { name: call.name, plans: call.plans, entries }
}

// Only this function knows how the gateway is started. Its modules are loaded after the plugin is
// installed.
async function startTracedGateway(): Promise<Running> {
  const provider = startProvider()
  const { parseConfig } = await import('../../src/config.ts')
  const { openGateway } = await import('../../src/app/gateway.ts')
  const { createFirstKeys } = await import('../../src/resources/workspaces.ts')
  const { listen } = await import('../../src/server/listen.ts')
  const config = parseConfig(JSON.stringify(createTraceConfig(provider.url)), {})
  const gateway = await openGateway({ config })
  const keys = await createFirstKeys(gateway)
  if (!keys) throw new Error('The gateway is not new: it has keys')
  const server = listen(gateway, '127.0.0.1', 0)
  return {
    url: server.url,
    keys,
    provider,
    settle: () => gateway.recorder.flush().then(() => Bun.sleep(AFTERGLOW)),
    async stop() {
      await server.stop(0)
      await gateway.close()
      await provider.stop()
    },
  }
}
