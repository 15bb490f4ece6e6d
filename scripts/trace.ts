import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { plugin } from 'bun'
import { createTracedCall, pickKey, sendCall, type TraceOptions } from './trace/call.ts'
import { createTraceConfig, startProvider } from './trace/provider.ts'
import { createReport, renderReport } from './trace/report.ts'
import { type Planning, Tracer } from './trace/tracer.ts'

/**
 * The file and the functions that make a plan. They must be changed here when they are moved or
 * renamed.
 */
const PLANNING: Planning = {
  file: 'src/core/inference/plan.ts',
  functions: ['planStep'],
}

const USAGE = `bun run scripts/trace.ts [--stream] [--messages] [--keys] [--json]

Counts the source files that one call runs through.
`

/** In milliseconds. The time that timers and returned connections get after a call. */
const AFTERGLOW = 50

const ROOT = resolve(import.meta.dir, '..')

await main()

async function main(): Promise<void> {
  const options = readOptions()
  if (!options) return
  try {
    const report = createReport(await trace(options), PLANNING)
    process.stdout.write(
      options.json ? `${JSON.stringify(report, null, 2)}\n` : renderReport(report),
    )
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n`)
    // At once: what was started before the failure would keep the process alive.
    process.exit(1)
  }
}

function readOptions(): (TraceOptions & { json: boolean }) | undefined {
  const flag = { type: 'boolean', default: false } as const
  try {
    const flags = { stream: flag, messages: flag, keys: flag, json: flag }
    const { values } = parseArgs({ options: flags })
    if (values.keys && (values.stream || values.messages)) throw new Error('--keys stands alone')
    return values
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n${USAGE}`)
    process.exitCode = 2
    return undefined
  }
}

/**
 * Makes one call twice and traces the second, when everything that is created on first use exists.
 */
async function trace(options: TraceOptions) {
  const tracer = new Tracer(ROOT, PLANNING)
  plugin(tracer.plugin)
  const tracedCall = createTracedCall(options)
  const running = await start()
  const call = () => sendCall(running.url, pickKey(tracedCall, running.keys), tracedCall)
  try {
    await call()
    await running.settle()
    tracer.requirePlanning()
    const entries = await tracer.record(async () => {
      await call()
      await tracer.mute(running.settle)
    })
    return { name: tracedCall.name, plans: tracedCall.plans, entries }
  } finally {
    await running.stop()
  }
}

// Only this function knows how the gateway is started. Its modules are loaded after the plugin is
// installed.
async function start() {
  const provider = startProvider()
  const { parseConfig } = await import('../src/core/config.ts')
  const { openGateway } = await import('../src/core/gateway.ts')
  const { createFirstKeys } = await import('../src/core/identity/workspaces.ts')
  const { listen } = await import('../src/server/listen.ts')
  const config = parseConfig(JSON.stringify(createTraceConfig(provider.url)), {})
  const gateway = await openGateway({ config })
  const keys = await createFirstKeys(gateway)
  if (!keys) throw new Error('The gateway is not new: it has keys')
  const server = listen(gateway, '127.0.0.1', 0)
  return {
    url: server.url,
    keys,
    settle: () => gateway.recorder.flush().then(() => Bun.sleep(AFTERGLOW)),
    async stop() {
      await server.stop(0)
      await gateway.close()
      await provider.stop()
    },
  }
}
