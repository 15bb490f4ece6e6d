import { afterAll, beforeAll, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { runGateway, type Server, startServer } from '../support/server.ts'

/**
 * The longest time until a change must affect calls, in milliseconds. The test prints the time it
 * takes.
 */
const BOUND = 45_000
const STREAMS = 4
/** Milliseconds between two words of a stream. */
const TICK = 20
const DOLLAR = { prompt: 1, completion: 1 }

let server: Server
beforeAll(async () => {
  server = await startServer({
    config: {
      limits: { credits: true },
      models: [
        {
          id: 'acme/small',
          endpoints: [{ provider: 'sandbox', model: 'echo', usd_per_million_tokens: DOLLAR }],
        },
      ],
    },
  })
})
afterAll(() => server[Symbol.asyncDispose]())

/** A stream of the server that ticks, with the times of its ticks. */
interface Ticking {
  ticks: number[]
  status: number
  stop(): void
}

async function ticking(): Promise<Ticking> {
  const leaving = new AbortController()
  const content = Array.from({ length: 5_000 }, (_, i) => `w${i}`).join(' ')
  const json = {
    model: 'sandbox/echo',
    stream: true,
    sandbox: { delay_ms: TICK },
    messages: [{ role: 'user', content }],
  }
  const response = await server.fetch('/chat/completions', { json, signal: leaving.signal })
  const stream: Ticking = { ticks: [], status: response.status, stop: () => leaving.abort() }
  void listen(response, stream.ticks).catch(() => undefined)
  return stream
}

async function listen(response: Response, ticks: number[]): Promise<void> {
  for await (const _ of response.body ?? []) ticks.push(performance.now())
}

const largestGap = ({ ticks }: Ticking): number =>
  Math.max(...ticks.slice(1).map((tick, i) => tick - (ticks[i] ?? tick)))

/** A call whose status shows what the terminal has changed. */
type Probe = () => Promise<number>

const statusOf = async (answer: Promise<Response>): Promise<number> => {
  const response = await answer
  await response.text()
  return response.status
}
const chat =
  (key: string, body: object = {}): Probe =>
  () =>
    statusOf(
      server.fetch('/chat/completions', {
        key,
        json: { model: 'acme/small', messages: [{ role: 'user', content: 'Hi' }], ...body },
      }),
    )
const get =
  (path: string, key: string): Probe =>
  () =>
    statusOf(server.fetch(path, { key }))

test('commands of all nouns beside a server affect the next calls and stop no stream', async () => {
  const streams = await Promise.all(Array.from({ length: STREAMS }, ticking))
  const delays: number[] = []
  const commands: string[] = []

  /** Runs a command, during which every stream must continue. */
  async function run(args: string[], stdin?: string): Promise<string> {
    const before = streams.map(({ ticks }) => ticks.length)
    const { code, stdout, stderr } = await runGateway(
      [...args, '--data', server.data],
      stdin === undefined ? {} : { stdin },
    )
    commands.push(args.slice(0, 2).join(' '))
    expect([args, code, stderr]).toEqual([args, 0, ''])
    expect(streams.filter(({ ticks }, i) => ticks.length === before[i])).toEqual([])
    return stdout
  }
  const json = async (...args: string[]) => JSON.parse(await run([...args, '--json']))

  /** Calls until the status is the expected one, and records how long that took. */
  async function until(status: number, probe: Probe): Promise<void> {
    const began = performance.now()
    for (let found = await probe(); found !== status; found = await probe()) {
      if (performance.now() - began > BOUND)
        throw new Error(`After ${commands.at(-1)} still ${found} and not ${status}`)
      await Bun.sleep(5)
    }
    delays.push(performance.now() - began)
  }

  const { key, data } = await json('keys', 'create', '--name', 'late')
  await until(402, chat(key))
  await run(['credits', 'add', '--amount', '25'])
  await until(200, chat(key))
  await run(['keys', 'update', data.hash, '--disable'])
  await until(401, chat(key))
  await run(['keys', 'update', data.hash, '--enable', '--limit', '0'])
  await until(402, chat(key))
  await run(['keys', 'update', data.hash, '--limit', 'none'])
  await until(200, chat(key))

  const guardrail = (
    await json('guardrails', 'create', '--name', 'rules', '--ignore-models', 'acme/small')
  ).data.id
  await run(['guardrails', 'assign', guardrail, '--keys', data.hash])
  await until(404, chat(key))
  await run([
    'guardrails',
    'update',
    guardrail,
    '--ignore-models',
    'none',
    '--filters',
    'email=block',
  ])
  const mail = { messages: [{ role: 'user', content: 'Write to ada@acme.example' }] }
  await until(403, chat(key, mail))
  await until(200, chat(key))
  expect((await json('guardrails', 'get', guardrail)).data.content_filter_builtins).toMatchObject([
    { slug: 'email', action: 'block' },
  ])
  await run(['guardrails', 'unassign', guardrail, '--keys', data.hash])
  await until(200, chat(key, mail))
  await run(['guardrails', 'update', 'default', '--regions', 'europe'])
  await until(403, chat(key))
  await run(['guardrails', 'delete', 'default', '--yes'])
  await until(200, chat(key))

  await run([
    'workspaces',
    'create',
    '--name',
    'Team',
    '--slug',
    'team',
    '--text-model',
    'acme/small',
  ])
  const theirs = (await json('keys', 'create', '--name', 'theirs', '--workspace', 'team')).key
  await until(200, chat(theirs, { model: undefined }))
  await run(['budgets', 'set', 'daily', '--limit', '0.000000001', '--workspace', 'team'])
  await until(402, chat(theirs))
  await run(['budgets', 'delete', 'daily', '--workspace', 'team', '--yes'])
  await until(200, chat(theirs))

  const body = join(server.data, 'body.json')
  writeFileSync(
    body,
    JSON.stringify({ temperature: 0, messages: [{ role: 'system', content: 'Be brief' }] }),
  )
  await run(['presets', 'create', 'brief', '--body', body])
  await until(200, chat(key, { preset: 'brief' }))
  await run(['presets', 'update', 'brief', '--status', 'disabled'])
  await until(404, chat(key, { preset: 'brief' }))

  const token = await json('scim', 'token', 'create', '--name', 'okta')
  await until(200, get('/scim/v2/Users', token.token))
  await run(['scim', 'token', 'revoke', token.data.id, '--yes'])
  await until(401, get('/scim/v2/Users', token.token))

  const byok = (await json('byok', 'create', '--provider', 'sandbox', '--key-env', 'PATH')).data.id
  await until(200, get(`/byok/${byok}`, server.management_key))
  await run(['byok', 'delete', byok, '--yes'])
  await until(404, get(`/byok/${byok}`, server.management_key))

  const member = (await json('members', 'create', '--email', 'ada@acme.example')).data.id
  await run(['members', 'add', member, '--workspace', 'team'])
  await run(['members', 'deactivate', member, '--yes'])
  await run(['keys', 'delete', data.hash, '--yes'])
  await until(401, chat(key))
  await run(['workspaces', 'update', 'team', '--text-model', 'none'])
  for (const looks of [
    ['doctor'],
    ['audit', 'list'],
    ['generations', 'list', '--all'],
    ['credits', 'show'],
  ])
    await run(looks)

  for (const stream of streams)
    expect([stream.status, stream.ticks.length > 0]).toEqual([200, true])
  const told = (numbers: number[]) => `${Math.round(Math.max(...numbers))} ms at most`
  const [bound, gap] = [told(delays), told(streams.map(largestGap))]
  process.stdout.write(
    `${commands.length} commands; until a change applies: ${bound}; ` +
      `between two events of a stream: ${gap}\n`,
  )
  for (const stream of streams) stream.stop()
}, 120_000)
