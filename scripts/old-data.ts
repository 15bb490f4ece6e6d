import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { listHeldCalls } from '../src/store/hold-journal.ts'
import { openDatabase } from '../test/support/database.ts'
import { buildLocalConfig, readAddress } from '../test/support/server.ts'
import {
  completion,
  delta,
  done,
  finish,
  sseHead,
  startUpstream,
  usage,
} from '../test/support/upstream.ts'

/*
 * `bun scripts/old-data.ts BINARY FILE` makes the data directory of an earlier release, with that
 * release's own binary, and packs it into a file (.tar.gz): keys, rules, calls that are on record,
 * and one in whose middle the server was killed. The tests open it from then on.
 */
const [binary, target] = process.argv.slice(2)
if (!binary || !target) throw new Error('Usage: bun scripts/old-data.ts BINARY FILE')
const program = resolve(binary)
const data = mkdtempSync(join(tmpdir(), 'gateway-old-'))
const upstream = await startUpstream()

/** What is packed: what a killed server leaves. */
const NAMES = /^(gateway\.db(-wal)?|log\.\d+|ledger\.head|secret\.key)$/

/** How many calls are on record, half of them streams. */
const CALLS = 12

try {
  writeFileSync(join(data, 'gateway.yaml'), JSON.stringify(buildLocalConfig(upstream.url)))
  const { management_key: management } = run('init')
  const { key } = run('keys', 'create', '--name', 'app', '--limit', '5', '--limit-reset', 'daily')
  run('credits', 'add', '--amount', '100', '--note', 'opening')
  const server = Bun.spawn([program, 'serve', '--port', '0', '--data', data, '--log', 'json'], {
    stdout: 'pipe',
    stderr: 'pipe',
    stdin: 'ignore',
  })
  const url = await readAddress(server, new Response(server.stderr).text())
  await makeRules(url, management)
  for (let call = 0; call < CALLS; call++) await makeCall(url, key, call % 2 === 1)
  upstream.plan([sseHead(), delta('word '.repeat(8)), { wait: 'never' }])
  void ask(url, key, true).then(
    response => response.text().catch(() => undefined),
    () => undefined,
  )
  while (!findSpentCall()) await Bun.sleep(50)
  server.kill('SIGKILL')
  await server.exited
  await pack(key)
} finally {
  await upstream.close()
  rmSync(data, { recursive: true, force: true })
}
process.exit(0)

function run(...args: string[]) {
  const { stdout, stderr, success } = Bun.spawnSync([program, ...args, '--json', '--data', data])
  if (!success) throw new Error(stderr.toString())
  return JSON.parse(stdout.toString())
}

async function makeRules(url: string, key: string): Promise<void> {
  const post = async (path: string, body: object, method = 'POST') => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const response = await fetch(`${url}/api/v1${path}`, {
      method,
      headers,
      body: JSON.stringify(body),
    })
    if (!response.ok) throw new Error(`${path}: ${await response.text()}`)
    return (await response.json()).data
  }
  const workspace = await post('/workspaces', { name: 'Second', slug: 'second' })
  await post('/guardrails', { name: 'Cheap', limit_usd: 3, reset_interval: 'daily' })
  await post(`/workspaces/${workspace.id}/budgets/daily`, { limit_usd: 9 }, 'PUT')
}

function ask(url: string, key: string, stream: boolean): Promise<Response> {
  return fetch(`${url}/api/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      ...{ model: 'acme/small', stream, max_tokens: 50 },
      messages: [{ role: 'user', content: 'Hi' }],
    }),
  })
}

async function makeCall(url: string, key: string, stream: boolean): Promise<void> {
  upstream.plan(
    stream
      ? [sseHead(), delta('Hello'), finish('stop', usage(10, 5)), done()]
      : [completion('Hello')],
  )
  const response = await ask(url, key, stream)
  const text = await response.text()
  if (!response.ok) throw new Error(text)
}

/** The running call, once a checkpoint has written what was delivered. */
function findSpentCall(): boolean {
  return listHeldCalls(data).some(({ spent }) => spent > 0n)
}

async function pack(key: string): Promise<void> {
  const db = openDatabase(data, { readwrite: true })
  const { user_version } = db.query('pragma user_version').get() as { user_version: number }
  db.close()
  const names = readdirSync(data).filter(
    name => NAMES.test(name) && statSync(join(data, name)).size > 0,
  )
  const content = Object.fromEntries(names.map(name => [name, readFileSync(join(data, name))]))
  const files = { ...content, 'app-key': key }
  await Bun.write(resolve(target ?? ''), await new Bun.Archive(files, { compress: 'gzip' }).bytes())
  process.stdout.write(`schema ${user_version}: ${names.join(', ')}\n`)
}
