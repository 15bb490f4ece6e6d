import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { buildProgram, START_ORDER } from '../build.ts'
import { initGateway } from '../src/cli/bench/contenders.ts'
import { readUrl } from './house/heap.ts'
import { createTracedCall, sendCall, type TraceOptions } from './trace/call.ts'
import { createTraceConfig, startProvider } from './trace/provider.ts'

/*
 * `bun run start-order`: writes down which functions a server has run by its first calls, so that
 * the next build lays their bytecode together. Run before a release: what has changed since is read
 * from elsewhere in the program, and nothing else differs.
 */

const ROOT = resolve(import.meta.dir, '..')

/** The first calls of a server. */
const CALLS: TraceOptions[] = [{}, { stream: true }, { messages: true, stream: true }]

async function writeOrder(): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'gateway-order-'))
  try {
    const program = join(directory, 'gateway')
    await buildProgram(program, { bytecodeOrder: null })
    const order = await recordStart(program, directory)
    await Bun.write(join(ROOT, START_ORDER), `${order.join('\n')}\n`)
    process.stdout.write(`${START_ORDER}: ${order.length} lines\n`)
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

/** Runs a server until it has answered its first calls, and lists what it has run. */
export async function recordStart(program: string, directory: string): Promise<string[]> {
  const provider = startProvider()
  const config = JSON.stringify(createTraceConfig(provider.url))
  const home = await initGateway(config, join(directory, 'home'), [program])
  const paths = ['--data', home.data, '--config', join(home.data, 'gateway.yaml')]
  const record = join(directory, 'recorded')
  const server = Bun.spawn([program, 'serve', '--port', '0', '--log', 'json', ...paths], {
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'ignore',
    env: { ...process.env, BUN_BYTECODE_ORDER_OUT: record },
  })
  const url = await readUrl(server.stdout)
  for (const options of CALLS)
    await sendCall({ url, key: home.key, provider }, createTracedCall(options))
  server.kill()
  await server.exited
  await provider.stop()
  return sortOrder(readFileSync(record, 'utf8'))
}

/** Keeps the functions and modules, sorted: without their strings it serves as well. */
function sortOrder(recorded: string): string[] {
  const [version, ...lines] = recorded.trimEnd().split('\n')
  return [version ?? '', ...lines.filter(line => /^[FMN] /.test(line)).toSorted()]
}

if (import.meta.main) {
  await writeOrder()
  process.exit()
}
