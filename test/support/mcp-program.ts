import { createInterface } from 'node:readline'

/*
 * An MCP server over stdio that does what no server should. It is run as a program, so it imports
 * nothing of ours, and speaks the protocol by hand: it starts at once.
 */

const say = (message: object) => process.stdout.write(`${JSON.stringify(message)}\n`)
const answer = (id: unknown, result: object) => say({ jsonrpc: '2.0', id, result })
const text = (value: unknown) => ({ content: [{ type: 'text', text: String(value) }] })

/** Answers of the client to what it was asked, by the id of the tool's use that asks. */
const asking = new Map<unknown, unknown>()

const TOOLS: Record<string, (id: unknown) => unknown> = {
  pid: id => answer(id, text(process.pid)),
  environment: id => answer(id, text(JSON.stringify(process.env))),
  directory: id => answer(id, text(process.cwd())),
  /** Starts a program of its own, which outlives it. */
  fork: id =>
    answer(id, text(Bun.spawn(['sleep', '600'], { stdio: ['ignore', 'ignore', 'ignore'] }).pid)),
  crash() {
    process.stderr.write(`broken: ${process.env.API_TOKEN}\n`)
    process.exit(3)
  },
  /** Answers nothing, but what else it is asked. */
  ponder: () => undefined,
  hang: () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0),
  /** A line of more than anybody should read. */
  flood: () => process.stdout.write('x'.repeat(8 * 1024 * 1024)),
  noise(id) {
    process.stdout.write('Starting …\n{"half":\n[]\n\n')
    answer('never asked', {})
    answer(id, text('after noise'))
  },
  ask(id) {
    asking.set(`ask ${id}`, id)
    say({
      ...{ jsonrpc: '2.0', id: `ask ${id}`, method: 'elicitation/create' },
      params: { message: 'Your password?', requestedSchema: { type: 'object', properties: {} } },
    })
  },
}

interface Message {
  id?: unknown
  method?: string
  params?: { name?: string; protocolVersion?: string }
  error?: unknown
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params, error } = JSON.parse(line) as Message
  if (method === 'initialize')
    answer(id, {
      protocolVersion: params?.protocolVersion,
      capabilities: { tools: {} },
      serverInfo: { name: 'program', version: '1' },
    })
  else if (method === 'ping') answer(id, {})
  else if (method === 'tools/list')
    answer(id, {
      tools: Object.keys(TOOLS).map(name => ({ name, inputSchema: { type: 'object' } })),
    })
  else if (method === 'tools/call') TOOLS[params?.name ?? '']?.(id)
  else if (asking.has(id)) answer(asking.get(id), text(`was told ${JSON.stringify(error)}`))
}
