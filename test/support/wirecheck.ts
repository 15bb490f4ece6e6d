import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Subprocess } from 'bun'
import { SHARED } from './shared.ts'

const CHECKER = join(SHARED, 'tools/wirecheck.js')
const SPEC = join(SHARED, 'contract/openapi.json')

/** Whether the checker and the public schema are on this machine. `GATEWAY_SHARED` says where, when not beside the repository. */
export const hasWirecheck = existsSync(CHECKER) && existsSync(SPEC)

/** What the checker has seen: how often each operation answered with each status (`'getKey 200'`), and every answer that does not fit. */
export interface WireReport {
  seen: Record<string, number>
  violations: { op: string; status: number; what: string; sample?: string }[]
}

/** A proxy that holds every answer of a gateway against the public schema. */
export class Wirecheck {
  readonly url: string
  readonly #process: Subprocess

  constructor(url: string, process: Subprocess) {
    this.url = url
    this.#process = process
  }

  /** What was seen since the start. */
  async report(): Promise<WireReport> {
    const response = await fetch(`${this.url}/__wirecheck`)
    return (await response.json()) as WireReport
  }

  /** Stops it. */
  async close(): Promise<void> {
    this.#process.kill()
    await this.#process.exited
  }
}

/** Starts the checker in front of the gateway at `target`. Throws with what it printed when it does not come up. */
export async function startWirecheck(target: string): Promise<Wirecheck> {
  const port = await freePort()
  const directory = mkdtempSync(join(tmpdir(), 'gateway-wirecheck-'))
  const command = [
    process.execPath,
    CHECKER,
    '--target',
    target,
    '--port',
    String(port),
    '--spec',
    await adapted(directory),
  ]
  const child = Bun.spawn(command, { stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' })
  const said = new Response(child.stderr).text()
  for await (const bytes of child.stdout) {
    if (!new TextDecoder().decode(bytes).includes('wirecheck:')) continue
    rmSync(directory, { recursive: true })
    return new Wirecheck(`http://127.0.0.1:${port}`, child)
  }
  throw new Error(`wirecheck did not start: ${await said}`)
}

// The checker holds the data of each event against the schema, and not its name, which the schema of Anthropic's events asks
// for beside the data.
async function adapted(directory: string): Promise<string> {
  const spec = await Bun.file(SPEC).json()
  spec.components.schemas.MessagesStreamingResponse.required = ['data']
  const path = join(directory, 'openapi.json')
  await Bun.write(path, JSON.stringify(spec))
  return path
}

// The checker wants a port by number, so one is asked of the kernel first.
function freePort(): Promise<number> {
  const { promise, resolve: give, reject } = Promise.withResolvers<number>()
  const server = createServer()
  server.on('error', reject)
  server.listen(0, '127.0.0.1', () => {
    const address = server.address()
    const port = typeof address === 'object' && address ? address.port : 0
    server.close(() => give(port))
  })
  return promise
}
