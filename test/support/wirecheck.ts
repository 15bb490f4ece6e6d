import { once } from 'node:events'
import { appendFileSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { SHARED } from './shared.ts'

const CHECKER = join(SHARED, 'tools/wirecheck.js')
const SPEC = join(SHARED, 'contract/openapi.json')

/** Whether the checker and the public schema are on this machine: see `SHARED`. */
export const hasWirecheck = existsSync(CHECKER) && existsSync(SPEC)

/** The count of answers by operation and status (`'getKey 200'`), and every invalid answer. */
export interface WireReport {
  seen: Record<string, number>
  violations: { op: string; status: number; what: string; sample?: string }[]
}

/** A proxy that checks every answer of a gateway against the public schema. */
export class Wirecheck {
  readonly url: string
  readonly #checker: Checker

  constructor(checker: Checker) {
    this.url = checker.url
    this.#checker = checker
  }

  /** Fetches the report since the start. */
  async report(): Promise<WireReport> {
    const response = await fetch(`${this.url}/__wirecheck`)
    return (await response.json()) as WireReport
  }

  /** Ends the check. Writes its report to the file that `GATEWAY_WIRE_REPORTS` names. */
  async close(): Promise<void> {
    const path = process.env.GATEWAY_WIRE_REPORTS
    if (path !== undefined) appendFileSync(path, `${JSON.stringify(await this.report())}\n`)
    await fetch(`${this.url}/__wirecheck`, { method: 'DELETE' })
    unused.push(this.#checker)
  }
}

/** The tool in a Worker. It compiles many schemas, so that it is kept for the next gateway. */
interface Checker {
  url: string
  /** Has it ask another gateway from now on. */
  aim(target: string): Promise<void>
}

const unused: Checker[] = []

/** Starts a check of the gateway at `target`. Throws what the checker fails with. */
export async function startWirecheck(target: string): Promise<Wirecheck> {
  const checker = unused.pop() ?? (await startChecker())
  await checker.aim(target)
  return new Wirecheck(checker)
}

const TARGET = 'http://target.invalid'

async function startChecker(): Promise<Checker> {
  const port = await findFreePort()
  const directory = mkdtempSync(join(tmpdir(), 'gateway-wirecheck-'))
  const spec = await adaptSpec(directory)
  const worker = new Worker(new URL('wirecheck/worker.ts', import.meta.url), {
    argv: ['--target', TARGET, '--port', String(port), '--spec', spec],
    env: { ...process.env, CHECKER, TARGET },
  })
  await once(worker, 'message')
  worker.unref()
  rmSync(directory, { recursive: true })
  return {
    url: `http://127.0.0.1:${port}`,
    async aim(target) {
      worker.postMessage(target)
      await once(worker, 'message')
    },
  }
}

// The checker compares only the data of each event with the schema. The schema of Anthropic's
// events also requires the name.
async function adaptSpec(directory: string): Promise<string> {
  const spec = await Bun.file(SPEC).json()
  spec.components.schemas.MessagesStreamingResponse.required = ['data']
  // The specification has 502 for what providers fail at, whatever the operation.
  const { responses } = spec.paths['/messages'].post
  responses['502'] = responses['500']
  allowMcpItems(spec.components.schemas)
  allowServiceItems(spec.components.schemas)
  const path = join(directory, 'openapi.json')
  await Bun.write(path, JSON.stringify(spec))
  return path
}

interface Union {
  oneOf: { $ref: string }[]
  discriminator: { mapping: Record<string, string> }
}

/**
 * Adds the items of the service's own tools to every list of items. The schema of the output has
 * them, and also requires the schema that it extends, which does not: no answer with one would match.
 */
// biome-ignore lint/suspicious/noExplicitAny: the public schema, of any form
function allowServiceItems(schemas: any): void {
  const known: Union = schemas.OutputItems
  const own = Object.entries(known.discriminator.mapping).filter(
    ([type]) => type.includes(':') || type in MCP_ITEMS || type.startsWith('shell_call'),
  )
  const narrow: Union[] = [
    schemas.BaseResponsesResult.properties.output.items,
    schemas.OutputItemAddedEvent.properties.item,
    schemas.OutputItemDoneEvent.properties.item,
  ]
  for (const { oneOf, discriminator } of narrow)
    for (const [type, $ref] of own) {
      oneOf.push({ $ref })
      discriminator.mapping[type] = $ref
    }
}

/** The items of MCP that the public schema has for conversations, and OpenAI's API in answers, too. */
const MCP_ITEMS: Record<string, string> = {
  mcp_list_tools: 'McpListToolsItem',
  mcp_call: 'McpCallItem',
  mcp_approval_request: 'McpApprovalRequestItem',
}

/** The members of OpenAI's events of them, besides those of all events. */
const MCP_EVENTS: Record<string, string[]> = {
  'response.mcp_list_tools.in_progress': [],
  'response.mcp_list_tools.completed': [],
  'response.mcp_call.in_progress': [],
  'response.mcp_call.completed': [],
  'response.mcp_call.failed': [],
  'response.mcp_call_arguments.delta': ['delta'],
  'response.mcp_call_arguments.done': ['arguments'],
}

/** Adds the items of MCP to the output, as the schema has them for the input, and their events. */
// biome-ignore lint/suspicious/noExplicitAny: the public schema, of any form
function allowMcpItems(schemas: any): void {
  const add = (union: Union, type: string, name: string) => {
    const $ref = `#/components/schemas/${name}`
    union.oneOf.push({ $ref })
    union.discriminator.mapping[type] = $ref
  }
  for (const [type, name] of Object.entries(MCP_ITEMS)) add(schemas.OutputItems, type, name)
  for (const [type, members] of Object.entries(MCP_EVENTS)) {
    const name = `Mcp_${type.replaceAll('.', '_')}`
    schemas[name] = buildEventSchema(type, members)
    add(schemas.StreamEvents, type, name)
  }
}

const buildEventSchema = (type: string, members: string[]) => ({
  type: 'object',
  additionalProperties: false,
  required: ['type', 'item_id', 'output_index', 'sequence_number', ...members],
  properties: {
    type: { type: 'string', enum: [type] },
    item_id: { type: 'string' },
    output_index: { type: 'integer' },
    sequence_number: { type: 'integer' },
    ...Object.fromEntries(members.map(name => [name, { type: 'string' }])),
  },
})

// The checker needs a port number, so the kernel is asked for a free one first.
function findFreePort(): Promise<number> {
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
