import { parseArgs } from 'node:util'
import { createTracedCall, type TraceOptions } from './trace/call.ts'
import { createReport, renderReport } from './trace/report.ts'
import { traceCalls } from './trace/run.ts'
import { PLANNING } from './trace/tracer.ts'

const USAGE = `bun run scripts/trace.ts [--stream] [--messages] [--keys] [--json]

Counts the source files and functions that one call runs through.
`

await main()

async function main(): Promise<void> {
  const options = readOptions()
  if (!options) return
  try {
    const traces = await traceCalls([createTracedCall(options)], PLANNING)
    const [report] = traces.map(trace => createReport(trace, PLANNING))
    if (!report) throw new Error('Nothing was traced')
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
