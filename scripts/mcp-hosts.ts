import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { SOURCE, startServer } from '../test/support/server.ts'

/*
 * `bun run mcp-hosts`: has MCP hosts from npm, unmodified, use a third party's MCP server through the
 * gateway, at both of its addresses. Ends with 1 where one fails. Claude Code is tried by
 * `bun run agents`.
 */

const PACKAGES = {
  'mcp-remote': '0.15.1',
  // The newest that Node 20 runs.
  '@modelcontextprotocol/inspector': '0.16.8',
  '@modelcontextprotocol/server-everything': '2026.8.31',
}
const EVERYTHING = 'node_modules/@modelcontextprotocol/server-everything/dist/index.js'
const PRICE = 0.002

const directory = mkdtempSync(join(tmpdir(), 'gateway-mcp-'))
try {
  await Bun.write(join(directory, 'package.json'), '{ "private": true }')
  const names = Object.entries(PACKAGES).map(([name, version]) => `${name}@${version}`)
  await run(['npm', 'install', '--ignore-scripts', '--no-audit', '--no-fund', ...names])
  const command = ['node', join(directory, EVERYTHING), 'stdio']
  const mcp_servers = { every: { command, usd_per_call: PRICE } }
  await using server = await startServer({ program: SOURCE, config: { mcp_servers } })
  for (const [path, prefix] of [
    ['mcp', 'every__'],
    ['mcp/every', ''],
  ] as const) {
    const target = { url: `${server.url}/${path}`, key: server.inference_key, prefix }
    await tryRemote(target)
    await tryInspector(target)
  }
  const { usage } = (await (await server.fetch('/key')).json()).data
  check('the charges', Math.abs(usage - 4 * PRICE) < 1e-9, `${usage} USD`)
} finally {
  rmSync(directory, { recursive: true, force: true })
}

interface Target {
  url: string
  key: string
  /** What the names of tools begin with. */
  prefix: string
}

/** Has mcp-remote list and use what there is, as hosts that only start programs do. */
async function tryRemote({ url, key, prefix }: Target): Promise<void> {
  const client = new Client({ name: 'host', version: '1' })
  const header = ['--header', `Authorization: Bearer ${key}`]
  const args = ['mcp-remote', url, ...header, '--allow-http']
  await client.connect(
    new StdioClientTransport({ command: 'npx', args, cwd: directory, stderr: 'ignore' }),
  )
  const { tools } = await client.listTools()
  const { prompts } = await client.listPrompts()
  const { resources } = await client.listResources()
  const result = await client.callTool({
    name: `${prefix}get-sum`,
    arguments: { a: 2, b: 3 },
  })
  await client.close()
  const isRead = tools.length > 0 && prompts.length > 0 && resources.length > 0
  check(`mcp-remote at ${url}`, isRead && JSON.stringify(result).includes('is 5'), 'no sum')
}

/** Has the inspector's command line do the same. */
async function tryInspector({ url, key, prefix }: Target): Promise<void> {
  const inspect = (...method: string[]) =>
    run([
      ...['npx', 'mcp-inspector', '--cli', url, '--transport', 'http'],
      ...['--header', `authorization: Bearer ${key}`, '--method', ...method],
    ])
  const lists = await Promise.all(
    ['tools/list', 'prompts/list', 'resources/list'].map(name => inspect(name)),
  )
  const name = ['--tool-name', `${prefix}echo`, '--tool-arg', 'message=hello']
  const result = await inspect('tools/call', ...name)
  const isRead = lists.every(text => text.includes('"name"'))
  check(`the inspector at ${url}`, isRead && result.includes('Echo: hello'), result)
}

/** Runs a program in the directory, and returns what it prints. */
async function run(command: string[]): Promise<string> {
  const child = Bun.spawn(command, { cwd: directory, stdout: 'pipe', stderr: 'inherit' })
  return new Response(child.stdout).text()
}

function check(what: string, isGood: boolean, otherwise: string): void {
  process.stdout.write(`${what}: ${isGood ? 'done' : otherwise}\n`)
  if (!isGood) process.exitCode = 1
}
