/**
 * Has each coding agent finish a task of three tool steps over each protocol of providers: `bun run
 * agents`. Each is installed from npm into a temporary directory and gets the lines that `gateway
 * agent` prints; a scripted model answers. Prints a table, and writes the requests that the agents
 * sent as fixtures; once all agents were tried, the table is written into docs/agents.md. Ends with 1 if an agent fails; one that does not
 * install is named. It is no part of the tests, as it needs npm; they send the requests again.
 */
import { mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { AGENTS, type Agent } from '../src/cli/commands/agent.ts'
import { startFakeProviders } from '../test/support/fake-provider-server.ts'
import { SOURCE, startServer } from '../test/support/server.ts'
import { type RecordedRequest, Recorder } from './agents/recorder.ts'
import {
  type InstalledAgent,
  installAgent,
  MCP_COMMAND,
  renderGatewayMcp,
  renderOwnMcp,
  startClosedProxy,
} from './agents/run.ts'
import { createModel, MCP } from './agents/task.ts'

const USAGE = `bun run scripts/agents.ts [--latest] [--only codex,claude]

Has coding agents from npm finish a task over each protocol of providers. --latest installs the
newest version of each in place of the one that is known to work, and writes nothing.
`

const FIXTURES = resolve(import.meta.dir, '../test/fixtures/agents')
const PROTOCOLS = ['openai-chat', 'anthropic-messages', 'gemini']
const KNOWN = 'gpt-6-luna'

interface Options {
  latest: boolean
  names: string[]
}

/** The models that the agents ask, by what the table calls their provider. */
const MODELS = {
  ...Object.fromEntries(PROTOCOLS.map(protocol => [protocol, `acme/${protocol}`])),
  openai: `openai/${KNOWN}`,
}

const PAGE = Bun.file(resolve(import.meta.dir, '../docs/agents.md'))
const TABLE = /(<!-- tried: bun run agents -->\n)[\s\S]*?(<!-- \/tried -->)/

const options = readOptions()
if (!options) process.exit(2)
const rows: string[] = []
let model = createModel(false)
const providers = startFakeProviders(
  Object.fromEntries(['m', KNOWN].map(name => [name, request => ({ answer: model(request) })])),
)
const server = await startServer({ program: SOURCE, config: createConfig() })
const recorder = new Recorder(server.url)
const proxy = await startClosedProxy(recorder.url)
try {
  await tryAgents(options)
} finally {
  proxy.stop()
  await recorder.stop()
  await server[Symbol.asyncDispose]()
  await providers.close()
}

async function tryAgents({ names, latest }: Options): Promise<void> {
  printRow('Agent', 'Version', 'Over', 'Result', 'Left out')
  printRow(...Array<string>(5).fill('---'))
  for (const name of names) {
    const agent = AGENTS[name as keyof typeof AGENTS]
    const installed = await installAgent(agent, latest)
    if (typeof installed === 'string') {
      printRow(agent.title, '-', '-', `skipped: ${installed}`, '')
      continue
    }
    try {
      await tryAgent(name, agent, installed, latest)
    } finally {
      installed.remove()
    }
  }
  if (!latest && names.length === Object.keys(AGENTS).length) await writeTable()
}

async function writeTable(): Promise<void> {
  const page = await PAGE.text()
  const table = rows.join('\n')
  await Bun.write(
    PAGE,
    page.replace(TABLE, (_, begin, end) => `${begin}\n${table}\n\n${end}`),
  )
}

/** Runs an agent over each provider, and keeps what it sent over the first. */
async function tryAgent(
  name: string,
  agent: Agent,
  installed: InstalledAgent,
  isLatest: boolean,
): Promise<void> {
  const mcp = findMcp(name)
  const kept: RecordedRequest[] = []
  for (const [provider, slug] of Object.entries(MODELS)) {
    model = createModel(mcp !== null)
    recorder.forget()
    const target = { url: recorder.url, model: slug }
    const failure = await installed.finishTask(target, {
      ...{ key: server.inference_key, proxy: proxy.url, mcp: mcp?.flags ?? '' },
    })
    const result = failure ?? `done${mcp ? `, with ${mcp.title}` : ''}`
    if (failure !== undefined) process.exitCode = 1
    const ignored = [...recorder.ignored].map(left => `\`${left}\``).join(', ')
    const failed = [...recorder.failures].map(text => `, ${text}`).join('')
    printRow(agent.title, installed.version, provider, result + failed, ignored)
    // Some ask OpenAI's own models otherwise than those that they do not know.
    if (provider === PROTOCOLS[0] || provider === 'openai') kept.push(...recorder.pickRequests())
  }
  if (!isLatest && kept.length > 0) await writeFixture(name, installed.version, kept)
}

/** Returns which MCP server an agent is given, and how; null for most. */
function findMcp(name: string): { title: string; flags: string } | null {
  if (name === 'codex') return { title: 'an MCP server', flags: renderOwnMcp() }
  if (name !== 'claude') return null
  const flags = renderGatewayMcp(server.url, server.inference_key)
  return { title: 'an MCP server of the gateway', flags }
}

async function writeFixture(
  name: string,
  version: string,
  requests: RecordedRequest[],
): Promise<void> {
  mkdirSync(FIXTURES, { recursive: true })
  for (const file of readdirSync(FIXTURES))
    if (file.replace(/-\d.*$/, '') === name) rmSync(join(FIXTURES, file))
  const lines = new Map(requests.map(request => [describe(request), JSON.stringify(request)]))
  const path = join(FIXTURES, `${name}-${version}.data.json`)
  await Bun.write(path, `[\n${[...lines.values()].join(',\n')}\n]\n`)
}

/** Two requests are the same to a test if they have the same fields and as many items. */
function describe({ path, body }: RecordedRequest): string {
  const items = [body.input, body.messages, body.contents].flat()
  return JSON.stringify([path, Object.keys(body), items.length])
}

function createConfig(): Record<string, unknown> {
  const at = (protocol: string) => ({ protocol, base_url: providers.getBaseUrl(protocol) })
  return {
    providers: {
      ...Object.fromEntries(PROTOCOLS.map(name => [name, { ...at(name), api_key: 'k' }])),
      openai: { api_key: 'k', protocols: ['openai-chat', 'openai-responses'].map(at) },
    },
    mcp_servers: { [MCP.server]: { command: MCP_COMMAND } },
    models: PROTOCOLS.map(provider => ({
      id: `acme/${provider}`,
      context_length: 200_000,
      endpoints: [{ provider, model: 'm' }],
    })),
  }
}

function readOptions(): Options | undefined {
  try {
    const { values } = parseArgs({
      options: { latest: { type: 'boolean', default: false }, only: { type: 'string' } },
    })
    const names = values.only?.split(',') ?? Object.keys(AGENTS)
    const unknown = names.find(name => !Object.hasOwn(AGENTS, name))
    if (unknown !== undefined) throw new Error(`${unknown}: expected ${Object.keys(AGENTS)}`)
    return { latest: values.latest, names }
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n${USAGE}`)
    return undefined
  }
}

function printRow(...cells: string[]): void {
  const row = `| ${cells.join(' | ')} |`
  rows.push(row)
  process.stdout.write(`${row}\n`)
}
