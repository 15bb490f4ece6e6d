import { afterAll, afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Type } from '@sinclair/typebox'
import type { Gateway } from '../../src/app/gateway.ts'
import { reconfigure, rejectConfig, reloadModels } from '../../src/app/reconfigure.ts'
import { Cancellation } from '../../src/base/cancellation.ts'
import { GatewayError } from '../../src/base/errors.ts'
import { LiveSet } from '../../src/base/live-set.ts'
import { Config, parseConfig } from '../../src/config.ts'
import { startRun } from '../../src/engine/infer.ts'
import { findExclusion } from '../../src/engine/plan/constraints.ts'
import { recall } from '../../src/extensions/plugins/file-parser/parsing.ts'
import type { ServerTool } from '../../src/extensions/server-tool.ts'
import { findOcrObstacle } from '../../src/extensions/tools/ocr-service.ts'
import { TOOLS } from '../../src/extensions/tools/registry.ts'
import { webFetch } from '../../src/extensions/tools/web-fetch.ts'
import { getPolicy } from '../../src/limits/effective.ts'
import { isReachable } from '../../src/network/containers/network.ts'
import { checkUntrustedUrl } from '../../src/network/untrusted-url.ts'
import { testAlert } from '../../src/observability/alerts/test-alert.ts'
import { createAlert } from '../../src/observability/alerts.ts'
import { queryAnalytics } from '../../src/observability/analytics.ts'
import { getSessionCost } from '../../src/observability/datasets/session-cost.ts'
import { getBenchmarks, getRankingsDaily } from '../../src/observability/datasets.ts'
import { openMetrics } from '../../src/observability/metrics.ts'
import { evictRows } from '../../src/observability/retention.ts'
import { getGenerationContent } from '../../src/observability/transcripts.ts'
import { type Actor, authenticate, getOperator } from '../../src/resources/actor.ts'
import { createByokKey, updateByokKey } from '../../src/resources/byok.ts'
import { storeFile } from '../../src/resources/files.ts'
import { createKey } from '../../src/resources/keys.ts'
import { createBuiltInReader } from '../../src/resources/models/built-in.ts'
import { listModels } from '../../src/resources/models.ts'
import { createPreset } from '../../src/resources/presets.ts'
import { checkResponseQuota } from '../../src/resources/responses.ts'
import { isDisabledTool } from '../../src/resources/workspaces/disabled-tools.ts'
import { updateWorkspace } from '../../src/resources/workspaces.ts'
import { createApp } from '../../src/server/app.ts'
import { bindConnection, findConnection } from '../../src/server/connections.ts'
import { enterByVersion } from '../../src/server/doors.ts'
import { withIdempotency } from '../../src/server/idempotency.ts'
import { answerPreflight } from '../../src/server/listen.ts'
import { buildBatch } from '../suites/store/batches.ts'
import { buildAuditEntry } from '../support/audit.ts'
import { buildLine, createBatchTools } from '../support/batches.ts'
import { buildTextCall } from '../support/call.ts'
import { createTestKeys, TestClock, testGateway } from '../support/gateway.ts'
import { buildGeneration, buildRecordEntry } from '../support/generation.ts'
import { makeStoredResponse } from '../support/operations.ts'
import { FakeSandbox } from '../support/sandboxes/fake.ts'
import { createSigner } from '../support/signer.ts'
import { type MailServer, startMailServer } from '../support/smtp.ts'
import {
  hasFetchObstacle,
  hasMcpObstacle,
  hasSearchObstacle,
  isTooLate,
  priceFetch,
  readMcpTimeout,
  readPage,
  search,
  useMcp,
} from '../support/tool-settings.ts'
import {
  chunkedEnd,
  completion,
  delta,
  done,
  finish,
  json,
  type Script,
  sseHead,
  startUpstream,
  status,
  stream,
  type Upstream,
  usage,
  usageChunk,
} from '../support/upstream.ts'
import { buildLostVideo } from '../support/video-job.ts'

/** Follows a job of a minute ago that its provider does not know, for one question. */
async function followLostVideo({ ids, clock, store, videos }: Gateway): Promise<string> {
  const begun = new Date(clock.now().getTime() - 60_000)
  const job = buildLostVideo(`job-${ids.secret().slice(-32)}`, ids.generation(begun), begun)
  await store.videos.insert(job)
  await videos.start()
  await videos.rest()
  await videos.stop()
  return (await store.videos.find(job.id))?.status ?? ''
}

let first: Upstream
let mailbox: MailServer
let second: Upstream

beforeEach(async () => {
  ;[first, second, mailbox] = await Promise.all([
    startUpstream(),
    startUpstream(),
    startMailServer(),
  ])
  first.answer(() => completion('first'))
  second.answer(() => completion('second'))
})
afterEach(() => Promise.all([first.close(), second.close(), mailbox.close()]))

const provider = (base_url: string, more: object = {}) => ({
  protocol: 'openai-chat',
  base_url,
  api_key: 'sk-own',
  ...more,
})
const model = (id: string, ...providers: string[]) => ({
  id,
  context_length: 8_000_000,
  endpoints: providers.map((provider, i) => ({
    provider,
    model: 'up',
    usd_per_million_tokens: { prompt: 1, completion: 4 - i },
  })),
})

/** Two providers, and a model that both serve. The second one is cheaper. */
const base = () => ({
  providers: { one: provider(first.url), two: provider(second.url) },
  models: [
    model('acme/small', 'one', 'two'),
    model('acme/single', 'one'),
    model('acme/free:free', 'one'),
  ],
  routing: { choice: 'listed', failures: 0 },
  server: { trusted_proxies: ['127.0.0.1'] },
})

type Json = Record<string, unknown>
const parsed = (config: Json): Config => parseConfig(JSON.stringify(config), {})

/** Merges a config into another, one section at a time. */
function over(config: Json, change: Json): Json {
  const merged = { ...config }
  for (const [name, value] of Object.entries(change))
    merged[name] = isMap(value) ? { ...(merged[name] as Json), ...value } : value
  return merged
}
const isMap = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/**
 * Runs a batch of two lines. Returns whether it was made, how it is then, and how many of its lines
 * ran at once.
 */
async function runBatch(gateway: Gateway, isBusy = false) {
  const created = await createKey(gateway, getOperator(gateway), { name: 'batch' })
  const actor = authenticate(gateway, `Bearer ${created.key}`)
  const { create, read, run, runner } = createBatchTools(gateway, actor)
  let most = 0
  const stop = gateway.events.on('step.planned', () => {
    most = Math.max(most, gateway.traffic.calls.size)
  })
  const made = await create([buildLine('a'), buildLine('b')]).catch(() => null)
  if (isBusy) {
    await runner.start()
    await runner.rest()
    await runner.stop()
  } else await run()
  stop()
  return { made: made !== null, status: made && (await read(made.id)).status, most }
}

/** Reads a dataset two times, and returns the last status. */
/** A key of a workspace that has made no calls. */
const STRANGER: Actor = { kind: 'inference', user_id: 'u', workspace_id: 'w', key_hash: 'k' }

async function readTwice({ gateway }: House): Promise<number> {
  const actor = { ...getOperator(gateway), kind: 'inference' as const, key_hash: 'k' }
  const read = () => getBenchmarks(gateway, actor, {})
  try {
    await read()
    await read()
    return 200
  } catch (thrown) {
    return (thrown as { status: number }).status
  }
}

const CI = {
  issuer: 'https://ci.example',
  audiences: ['https://gateway.example'],
  claims: { repository: ['acme/app'] },
}

const refuseWorkload = async (gateway: Gateway): Promise<unknown> => {
  const form = new URLSearchParams({
    grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
    subject_token: 'none',
    subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
    federation_policy_id: 'ci',
  })
  const headers = { 'content-type': 'application/x-www-form-urlencoded' }
  const init = { method: 'POST', headers, body: form.toString() }
  const url = 'http://localhost/api/v1/oauth/token'
  const answer = await createApp(gateway).handle(new Request(url, init))
  return (await answer.json()).error_description
}

interface House {
  gateway: Gateway
  sandbox: FakeSandbox
  clock: TestClock
  /** A key with a limit of 50 cents. */
  limited: string
  keys: { inference: string; management: string }
  /** Calls `acme/single`, or the model of the body. */
  ask(
    body?: object,
    more?: { key?: string; headers?: Record<string, string>; signal?: AbortSignal },
  ): Promise<Response>
  get(path: string): Promise<Json>
}

async function house(change: Json = {}): Promise<House> {
  const clock = new TestClock()
  const sandbox = new FakeSandbox()
  const gateway = await testGateway({
    clock,
    sandboxes: [sandbox],
    random: () => 0.5,
    config: over(base(), change),
    tools: [...TOOLS, hanging],
  })
  const keys = await createTestKeys(gateway)
  const limited = (await createKey(gateway, getOperator(gateway), { name: 'limited', limit: 0.5 }))
    .key
  const app = createApp(gateway, () => '127.0.0.1')
  return {
    gateway,
    sandbox,
    clock,
    limited,
    keys,
    ask(body = {}, { key = keys.inference, headers = {}, signal } = {}) {
      const json = { model: 'acme/single', messages: [{ role: 'user', content: 'Hi' }], ...body }
      const all = { 'content-type': 'application/json', authorization: `Bearer ${key}`, ...headers }
      const init = {
        method: 'POST',
        headers: all,
        body: JSON.stringify(json),
        ...(signal ? { signal } : {}),
      }
      return app.handle(new Request('http://localhost/api/v1/chat/completions', init))
    },
    async get(path) {
      return (
        await app.handle(
          new Request(`http://localhost${path}`, {
            headers: { authorization: `Bearer ${keys.inference}` },
          }),
        )
      ).json()
    },
  }
}

const statusOf = async (answer: Promise<Response>): Promise<number> => {
  const response = await answer
  await response.text()
  return response.status
}
const textOf = async (answer: Promise<Response>) => {
  const { choices } = (await (await answer).json()) as {
    choices: { message: { content: string } }[]
  }
  return choices[0]?.message.content
}

/** Resolves once the process has had nothing to do for a while, however busy its machine is. */
async function waitForCalm(): Promise<void> {
  for (let calm = 0; calm < 10; ) {
    const asleep = performance.now()
    await Bun.sleep(50)
    calm = performance.now() - asleep < 70 ? calm + 1 : 0
  }
}

/** The result of a call, which is aborted if it keeps waiting. */
async function unlessWaiting<Outcome>(
  call: (signal: AbortSignal) => Promise<Outcome>,
): Promise<Outcome | 'waits'> {
  const leaving = new AbortController()
  const outcome = call(leaving.signal).catch(() => 'waits' as const)
  const waits = waitForCalm().then(() => 'waits' as const)
  const first = await Promise.race([outcome, waits])
  leaving.abort()
  await outcome
  return first
}

const never: Script = { wait: 'never' }

/** The text of an answer that should be JSON and is not quite. */
const healedText = ({ ask }: House, plugins?: object[]) => {
  first.answer(() => completion('{"a": 1,}'))
  return textOf(ask({ response_format: { type: 'json_object' }, ...(plugins ? { plugins } : {}) }))
}

/** Assigns a guardrail with these fields to the inference key. */
async function guard({ gateway }: House, rules: Json): Promise<void> {
  const app = createApp(gateway)
  const { key } = await createKey(gateway, getOperator(gateway), { name: 'm' }, 'management')
  const headers = { 'content-type': 'application/json', authorization: `Bearer ${key}` }
  const post = async (path: string, body: object) =>
    (
      await app.handle(
        new Request(`http://localhost/api/v1${path}`, {
          method: 'POST',
          headers,
          body: JSON.stringify(body),
        }),
      )
    ).json()
  const { data } = (await post('/guardrails', { name: 'here', ...rules })) as {
    data: { id: string }
  }
  const key_hashes = [...gateway.memory.keys.values()]
    .filter(({ name }) => name === 'inference')
    .map(({ hash }) => hash)
  await post(`/guardrails/${data.id}/assignments/keys`, { key_hashes })
}

const byHost = (house: House, host: string) => statusOf(house.ask({}, { headers: { host } }))

/** Lets a long healthy endpoint fail, and returns its cooldown in milliseconds. */
async function rest({ gateway, clock, ask }: House): Promise<number> {
  const [endpoint] = gateway.catalog.models.get('acme/single')?.endpoints ?? []
  if (!endpoint) throw new Error('It is not there')
  await statusOf(ask())
  clock.pass(1_000_000)
  first.answer(() => status(500))
  await statusOf(ask())
  first.answer(() => completion('first'))
  const until = gateway.traffic.health.getCooldownEnd(endpoint)
  clock.pass(1_000_000)
  return until === 0 ? 0 : until - (clock.ticks() - 1_000_000)
}

/** Makes a hedge possible for the first endpoint, which then stays silent. */
function measure({ gateway, clock }: House): void {
  const [endpoint] = gateway.catalog.models.get('acme/small')?.endpoints ?? []
  for (let i = 0; i < 20 && endpoint; i++)
    gateway.traffic.health.recordAnswer(endpoint, clock.ticks() - 20, true)
  first.answer(() => never)
  second.answer(() => stream(['quick']))
}

/** Creates a preset or its next version, and returns the status. */
async function createTestPreset(
  { gateway }: House,
  slug: string,
  system_prompt: string | null = null,
): Promise<number> {
  try {
    await createPreset(gateway, getOperator(gateway), slug, { system_prompt, config: {} })
    return 200
  } catch (thrown) {
    return GatewayError.from(thrown).status
  }
}

async function uploadTestFile({ gateway }: House): Promise<number> {
  async function* content() {
    yield Buffer.from('Hello')
  }
  try {
    await storeFile(gateway, getOperator(gateway), { filename: 'a.txt' }, content())
    return 200
  } catch (thrown) {
    return GatewayError.from(thrown).status
  }
}

/** Returns the status of a call that asks for its response to be stored. */
const storeResponse = ({ gateway, keys }: House): Promise<number> =>
  statusOf(
    createApp(gateway).handle(
      new Request('http://localhost/api/v1/responses', {
        method: 'POST',
        headers: { 'content-type': 'application/json', authorization: `Bearer ${keys.inference}` },
        body: JSON.stringify({ model: 'acme/single', input: 'Hi', store: true }),
      }),
    ),
  )

const TWO_DAYS = 2 * 86_400_000

/** Switches the keeping of content on, and makes a call. */
async function keepContent({ gateway, ask }: House): Promise<void> {
  await updateWorkspace(gateway, getOperator(gateway), 'default', {
    is_observability_io_logging_enabled: true,
  })
  await statusOf(ask())
}

/** Returns what was asked in the last call, or that it is not kept. */
async function readContent(gateway: Gateway): Promise<unknown> {
  const [last] = await gateway.store.generations.list({}, 1)
  try {
    const content = await getGenerationContent(gateway, getOperator(gateway), last?.id ?? '')
    const { input } = content.data
    return 'messages' in input ? (input.messages[0] as { content: string }).content : input.prompt
  } catch {
    return 'none'
  }
}

/** Records three messages of so many bytes for a destination, and counts those that wait. */
async function countWaitingOfThree({ gateway }: House, bytes = 10): Promise<number> {
  const { deliveries, recorder, store } = gateway
  await deliveries.start()
  for (let i = 0; i < 3; i++)
    await recorder.record({
      ...buildRecordEntry(Bun.randomUUIDv7()),
      outbox: [{ topic: 'trace', payload: 'x'.repeat(bytes), receivers: ['d'] }],
    })
  await deliveries.rest()
  await deliveries.stop()
  return (await store.deliveries.drop('d', 10)).count
}

/** Makes a call, and counts what waits for the operator's collector. */
async function countWaitingForOperator({ gateway, ask }: House): Promise<number> {
  await statusOf(ask())
  return (await gateway.store.deliveries.drop('telemetry.otlp', 10)).count
}

/** Leaves a call in the middle of its stream, and returns how its usage is known. */
async function leaveCall({ gateway, ask }: House): Promise<string | undefined> {
  const gate = Bun.randomUUIDv7()
  const rest: Script = [finish(), usageChunk(usage(700, 30)), done(), chunkedEnd()]
  first.answer(() => [sseHead(), delta('Hel'), { wait: gate }, rest])
  const leaving = new AbortController()
  const response = await ask({ stream: true }, { signal: leaving.signal })
  const reader = response.body?.getReader()
  await reader?.read()
  leaving.abort()
  // It ends when the call is settled.
  const left = reader?.cancel()
  await first.reached(gate)
  first.open(gate)
  await left
  const id = response.headers.get('x-generation-id') ?? ''
  return (await gateway.store.generations.byId(id))?.usageSource
}

/** A tool that ends when it must. */
const hanging: ServerTool = {
  name: 'hanging',
  schema: Type.Object({}),
  readOptions: () => ({}),
  findObstacle: () => null,
  listFunctions: () => [{ name: 'hanging', description: '', parameters: { type: 'object' } }],
  run: () => new Promise(() => undefined),
}

const CALLING = { index: 0, logprobs: null, finish_reason: 'tool_calls' }

/** Lets a model call a tool of the gateway, and returns what it gets. */
async function useTool({ ask }: House, name: string, input: object): Promise<string | undefined> {
  const tool_calls = [
    { id: 'a', type: 'function', function: { name, arguments: JSON.stringify(input) } },
  ]
  let result: string | undefined
  first.answer(({ json }) => {
    const { messages } = json as { messages: { role: string; content: string }[] }
    result = messages.find(({ role }) => role === 'tool')?.content
    return result === undefined
      ? completion('', { choices: [{ ...CALLING, message: { role: 'assistant', tool_calls } }] })
      : completion('Done.')
  })
  await statusOf(ask({ tools: [{ type: `gateway:${name}` }] }))
  return result
}

const askFusion = ({ ask }: House, more: object) =>
  statusOf(ask({ plugins: [{ id: 'fusion', ...more }] }))

interface Row {
  setting: string
  before?: Json
  after: () => Json
  prepare?: (house: House) => Promise<void>
  seen: (house: House) => Promise<unknown>
  was: unknown
  is: unknown
}

const SIGNER = createSigner()
const SIGNED = join(mkdtempSync(join(tmpdir(), 'gateway-signed-')), 'catalog.signed')
writeFileSync(
  SIGNED,
  SIGNER.sign(JSON.stringify({ generated: '2100-01-01', aliases: {}, models: [] })),
)
afterAll(() => rmSync(dirname(SIGNED), { recursive: true }))

const row = (
  setting: string,
  after: Json | (() => Json),
  more: Omit<Row, 'setting' | 'after'>,
): Row => ({
  setting,
  after: typeof after === 'function' ? after : () => after,
  ...more,
})

const answers = (script: Script) => async () => {
  first.answer(() => script)
}

const PREFLIGHT = new Request('http://localhost/api/v1/key', {
  method: 'OPTIONS',
  headers: { origin: 'https://app.example', 'access-control-request-method': 'GET' },
})

const SEARXNG = { searxng: { base_url: 'https://searxng.example' } }
const MCP_SERVERS = { own: { url: 'https://mcp.example' } }

const MIB = 1024 * 1024
const SANDBOX = {
  sandbox: {
    ...{ kind: 'just-bash', home_mib: 1, memory_mib: 64, processes: 4, cpus: 1, running: 1 },
    timeout_seconds: 1,
  },
}

/** Lets a model run a command in a container, and returns the status. */
async function runCommand(house: House, command: string, session_id = 'one'): Promise<number> {
  const tool_calls = [
    {
      id: 'a',
      type: 'function',
      function: { name: 'bash', arguments: JSON.stringify({ command }) },
    },
  ]
  first.answer(({ json }) => {
    const { messages } = json as { messages: { role: string; content: string }[] }
    const result = messages.find(({ role }) => role === 'tool')?.content
    heardResult = result
    return result === undefined
      ? completion('', { choices: [{ ...CALLING, message: { role: 'assistant', tool_calls } }] })
      : completion('Done.')
  })
  const tools = [{ type: 'gateway:bash', parameters: { engine: 'openrouter' } }]
  return statusOf(house.ask({ tools, session_id }))
}
let heardResult: string | undefined

/** Returns the limits of a container that is opened now. */
async function readLimits(house: House) {
  await runCommand(house, 'write a x', `session-${house.sandbox.boxes.length}`)
  return house.sandbox.boxes.at(-1)?.limits
}

const MAIL = {
  get mail() {
    const sender = { user: 'me', password: 'one', from: 'a@acme.example' }
    return { host: '127.0.0.1', port: mailbox.port, security: 'none', ...sender }
  },
}

/** Sends a mail, and lists what the server was told of its sender; null if none has come. */
async function sendMail({ gateway }: House): Promise<string[] | null> {
  const operator = getOperator(gateway)
  const to = { type: 'mail' as const, addresses: ['ada@example.com'] }
  const { data: alert } = await createAlert(gateway, operator, {
    name: 'low',
    cause: 'credits_low',
    to,
  })
  const { data: test } = await testAlert(gateway, operator, alert.id)
  if (!test.passed) return null
  const said = (word: string) => mailbox.lines.findLast(line => line.startsWith(word)) ?? ''
  const login = Buffer.from(said('AUTH PLAIN ').slice('AUTH PLAIN '.length), 'base64')
  return [...login.toString().split('\0').slice(1), said('MAIL FROM').slice('MAIL FROM:'.length)]
}

const SENDER = ['me', 'one', '<a@acme.example>']

const mailRow = (change: Json, is: string[] | null) =>
  row(
    `mail.${Object.keys(change)[0]}`,
    { mail: change },
    { before: MAIL, seen: sendMail, was: SENDER, is },
  )

const ROWS: Row[] = [
  mailRow({ host: '127.0.0.2' }, null),
  mailRow({ port: 1 }, null),
  mailRow({ security: 'starttls' }, null),
  mailRow({ user: 'you' }, ['you', 'one', '<a@acme.example>']),
  mailRow({ password: 'two' }, ['me', 'two', '<a@acme.example>']),
  mailRow({ from: 'b@acme.example' }, ['me', 'one', '<b@acme.example>']),
  row(
    'service_name',
    { service_name: 'acme' },
    {
      seen: async ({ get }) => ((await get('/openapi.json')).info as Json).title,
      was: 'gateway',
      is: 'acme',
    },
  ),
  row(
    'server.metrics_key',
    { server: { metrics_key: true } },
    {
      seen: ({ gateway }) =>
        statusOf(createApp(gateway).handle(new Request('http://localhost/metrics'))),
      was: 200,
      is: 401,
    },
  ),
  row(
    'server.cors',
    { server: { cors: ['https://app.example'] } },
    {
      seen: async ({ gateway }) => answerPreflight(gateway, PREFLIGHT)?.status ?? 405,
      was: 405,
      is: 204,
    },
  ),
  row(
    'server.console',
    { server: { console: false } },
    {
      seen: ({ gateway }) =>
        statusOf(createApp(gateway).handle(new Request('http://localhost/console'))),
      was: 200,
      is: 404,
    },
  ),
  row(
    'server.list_all_models',
    { server: { list_all_models: true } },
    {
      seen: async ({ gateway }) =>
        listModels(gateway, {}).data.some(({ id }) => id === 'openai/gpt-4o-mini'),
      was: false,
      is: true,
    },
  ),
  row(
    'catalog.public_keys',
    { catalog: { public_keys: [SIGNER.key] } },
    {
      seen: async ({ gateway }) => {
        const keys = gateway.config.catalog.public_keys
        const read = createBuiltInReader({ file: SIGNED, keys })
        return read().isInstalled && reloadModels(gateway, read).generated
      },
      was: false,
      is: '2100-01-01',
    },
  ),
  row(
    'unknown_models',
    { unknown_models: 'refuse' },
    {
      before: { providers: { openai: { api_key: 'mock' } } },
      seen: async ({ gateway }) => gateway.catalog.models.has('openai/gpt-99'),
      was: true,
      is: false,
    },
  ),
  row(
    'server.trusted_proxies',
    { server: { trusted_proxies: ['10.0.0.0/8', '127.0.0.1'] } },
    {
      before: {
        server: { trusted_proxies: ['10.0.0.0/8'] },
        regions: { europe: ['eu.example.com'] },
      },
      prepare: house => guard(house, { allowed_data_regions: ['europe'] }),
      seen: house => byHost(house, 'eu.example.com'),
      was: 403,
      is: 200,
    },
  ),
  row(
    'regions.europe',
    { regions: { europe: ['eu.example.com'] } },
    {
      prepare: house => guard(house, { allowed_data_regions: ['europe'] }),
      seen: house => byHost(house, 'eu.example.com'),
      was: 403,
      is: 200,
    },
  ),
  row(
    'regions.us',
    { regions: { us: [] } },
    {
      before: { regions: { us: ['us.example.com'] } },
      prepare: house => guard(house, { allowed_data_regions: ['us'] }),
      seen: house => byHost(house, 'us.example.com'),
      was: 200,
      is: 403,
    },
  ),
  row(
    'default_model',
    { default_model: 'acme/free:free' },
    {
      seen: async ({ ask }) => ((await (await ask({ model: undefined })).json()) as Json).model,
      was: 'sandbox/echo',
      is: 'acme/free:free',
    },
  ),
  row('providers.one', () => ({ providers: { one: provider(second.url) } }), {
    seen: ({ ask }) => textOf(ask()),
    was: 'first',
    is: 'second',
  }),
  row(
    'models',
    { models: [model('acme/single', 'two'), model('acme/new', 'one')] },
    {
      seen: async ({ ask }) => [
        await textOf(ask()),
        await statusOf(ask({ model: 'acme/new' })),
        await statusOf(ask({ model: 'acme/small' })),
      ],
      was: ['first', 400, 200],
      is: ['second', 200, 400],
    },
  ),
  row(
    'routing.choice',
    { routing: { choice: 'weighted' } },
    {
      seen: ({ ask }) => textOf(ask({ model: 'acme/small' })),
      was: 'first',
      is: 'second',
    },
  ),
  row(
    'routing.failures',
    { routing: { failures: 0 } },
    { before: { routing: { failures: 1 } }, seen: rest, was: 5_000, is: 0 },
  ),
  row(
    'routing.hedge',
    { routing: { hedge: true } },
    {
      prepare: async house => measure(house),
      seen: ({ ask }) =>
        unlessWaiting(async signal =>
          (await (await ask({ model: 'acme/small', stream: true }, { signal })).text()).includes(
            'quick',
          ),
        ),
      was: 'waits',
      is: true,
    },
  ),
  row(
    'routing.pause_seconds',
    { routing: { failures: 1, pause_seconds: 7 } },
    {
      before: { routing: { failures: 1 } },
      seen: rest,
      was: 5_000,
      is: 7_000,
    },
  ),
  row(
    'plugins.defaults',
    { plugins: { defaults: [{ id: 'response-healing' }] } },
    { seen: healedText, was: '{"a": 1,}', is: '{"a": 1}' },
  ),
  row(
    'plugins.prevent_overrides',
    { plugins: { prevent_overrides: ['response-healing'] } },
    {
      before: { plugins: { defaults: [{ id: 'response-healing' }] } },
      seen: house => healedText(house, [{ id: 'response-healing', enabled: false }]),
      was: '{"a": 1,}',
      is: '{"a": 1}',
    },
  ),
  row(
    'plugins.workspaces',
    { plugins: { workspaces: { default: { defaults: [{ id: 'response-healing' }] } } } },
    { seen: healedText, was: '{"a": 1,}', is: '{"a": 1}' },
  ),
  row(
    'plugins.coding_scores',
    { plugins: { coding_scores: { 'acme/single': 1 } } },
    {
      seen: ({ ask }) => statusOf(ask({ model: 'gateway/pareto-code' })),
      was: 404,
      is: 200,
    },
  ),
  row(
    'plugins.moderation',
    { plugins: { moderation: { provider: 'one', model: 'judge' } } },
    {
      seen: async ({ ask }) => {
        first.answer(() => json({ results: [{ flagged: true, categories: {} }] }))
        return statusOf(ask({ plugins: [{ id: 'moderation' }] }))
      },
      was: 400,
      is: 403,
    },
  ),
  row(
    'web_search.enabled',
    { web_search: { enabled: false } },
    { seen: async ({ gateway }) => hasSearchObstacle(gateway), was: false, is: true },
  ),
  row(
    'web_search.engines',
    { web_search: { engines: SEARXNG } },
    {
      seen: async ({ gateway }) => hasSearchObstacle(gateway, { engine: 'searxng' }),
      was: true,
      is: false,
    },
  ),
  row(
    'web_search.max_uses',
    { web_search: { max_uses: 1 } },
    {
      seen: async ({ gateway }) => (await search(gateway)).text.startsWith('No more searches'),
      was: false,
      is: true,
    },
  ),
  row(
    'web_search.timeout_seconds',
    { web_search: { engines: SEARXNG, timeout_seconds: 0.01 } },
    {
      before: { web_search: { engines: SEARXNG } },
      seen: ({ gateway }) => unlessWaiting(async signal => (await search(gateway, signal)).isError),
      was: 'waits',
      is: true,
    },
  ),
  row(
    'web_fetch.enabled',
    { web_fetch: { enabled: false } },
    { seen: async ({ gateway }) => hasFetchObstacle(gateway), was: false, is: true },
  ),
  row(
    'plugins.read_documents_mib',
    { plugins: { read_documents_mib: 0 } },
    {
      seen: async ({ gateway }) => {
        const call = buildTextCall({})
        const run = startRun(gateway, getOperator(gateway), 'text', call)
        recall(gateway, run, 'text', 'a').remember({ type: 'pdf', text: 'A', isCut: false })
        return recall(gateway, run, 'text', 'a').known !== null
      },
      was: true,
      is: false,
    },
  ),
  row(
    'plugins.mistral_ocr',
    { plugins: { mistral_ocr: { api_key: 'k' } } },
    { seen: async ({ gateway }) => findOcrObstacle(gateway.config) === null, was: false, is: true },
  ),
  row(
    'web_fetch.engines',
    { web_fetch: { engines: { exa: { api_key: 'k' } } } },
    { seen: async ({ gateway }) => hasFetchObstacle(gateway, 'exa'), was: true, is: false },
  ),
  row(
    'web_fetch.robots',
    { web_fetch: { robots: false } },
    { seen: async ({ gateway }) => (await readPage(gateway)).isError, was: true, is: false },
  ),
  row(
    'web_fetch.max_uses',
    { web_fetch: { max_uses: 1 } },
    {
      seen: async ({ gateway }) =>
        (await readPage(gateway, { uses: 1 })).text.startsWith('No more pages'),
      was: false,
      is: true,
    },
  ),
  row(
    'web_fetch.data_policy',
    { web_fetch: { data_policy: { retention_days: 0 } } },
    {
      seen: async ({ gateway }) => {
        const site = webFetch.findService?.(gateway, { engine: 'auto' } as never)
        const call = buildTextCall({ routing: { zdr: true } })
        const policy = getPolicy(gateway, getOperator(gateway))
        return site && String(findExclusion(gateway, { call, policy }, site))
      },
      was: 'data_policy:zdr',
      is: 'undefined',
    },
  ),
  row(
    'web_fetch.max_mib',
    { web_fetch: { robots: false, max_content_tokens: 1_000_000, max_mib: 1 } },
    {
      before: { web_fetch: { robots: false, max_content_tokens: 1_000_000 } },
      seen: async ({ gateway }) => String((await readPage(gateway)).item?.content).length,
      was: 1.5 * 1024 * 1024,
      is: 1024 * 1024,
    },
  ),
  row(
    'web_fetch.max_content_tokens',
    { web_fetch: { robots: false, max_content_tokens: 10 } },
    {
      before: { web_fetch: { robots: false } },
      seen: async ({ gateway }) => String((await readPage(gateway)).item?.content).length,
      was: 100_000,
      is: 40,
    },
  ),
  row(
    'web_fetch.timeout_seconds',
    { web_fetch: { robots: false, timeout_seconds: 0.01 } },
    {
      before: { web_fetch: { robots: false } },
      seen: ({ gateway }) =>
        unlessWaiting(
          async signal => (await readPage(gateway, { isSilent: true }, signal)).isError,
        ),
      was: 'waits',
      is: true,
    },
  ),
  row(
    'web_fetch.usd_per_fetch',
    { web_fetch: { usd_per_fetch: 0.001 } },
    { seen: async ({ gateway }) => priceFetch(gateway), was: 0n, is: 1_000_000n },
  ),
  row(
    'mcp.enabled',
    { mcp: { enabled: false } },
    {
      before: { mcp_servers: MCP_SERVERS },
      seen: async ({ gateway }) => hasMcpObstacle(gateway),
      was: false,
      is: true,
    },
  ),
  row(
    'mcp.server_urls',
    { mcp: { server_urls: false } },
    {
      seen: async ({ gateway }) =>
        hasMcpObstacle(gateway, { server_label: 'a', server_url: 'https://a.example/' }),
      was: false,
      is: true,
    },
  ),
  row(
    'mcp.max_uses',
    { mcp: { max_uses: 1 } },
    {
      before: { mcp_servers: MCP_SERVERS },
      seen: async ({ gateway }) => (await useMcp(gateway)).result.text.startsWith('No more calls'),
      was: false,
      is: true,
    },
  ),
  row(
    'mcp.max_tools',
    { mcp: { max_tools: 2 } },
    {
      before: { mcp_servers: MCP_SERVERS },
      seen: async ({ gateway }) => (await useMcp(gateway)).tools,
      was: 3,
      is: 2,
    },
  ),
  row(
    'mcp.max_result_kib',
    { mcp: { max_result_kib: 1 } },
    {
      before: { mcp_servers: MCP_SERVERS },
      seen: async ({ gateway }) => (await useMcp(gateway)).result.text.length > 2_000,
      was: true,
      is: false,
    },
  ),
  row(
    'mcp.max_answer_mib',
    { mcp: { max_answer_mib: 1 } },
    {
      before: { mcp_servers: MCP_SERVERS },
      seen: async ({ gateway }) => (await useMcp(gateway)).result.isError,
      was: false,
      is: true,
    },
  ),
  row(
    'mcp.list_seconds',
    { mcp: { list_seconds: 0 } },
    {
      before: { mcp_servers: MCP_SERVERS },
      seen: async ({ gateway }) => (await useMcp(gateway)).listings,
      was: 1,
      is: 2,
    },
  ),
  row(
    'mcp.timeout_seconds',
    { mcp: { timeout_seconds: 7 } },
    {
      before: { mcp_servers: MCP_SERVERS },
      seen: async ({ gateway }) => readMcpTimeout(gateway),
      was: 60_000,
      is: 7_000,
    },
  ),
  row(
    'mcp.approval_seconds',
    { mcp: { approval_seconds: 0.001 } },
    {
      before: { mcp_servers: { own: { ...MCP_SERVERS.own, require_approval: 'always' } } },
      seen: async ({ gateway }) => isTooLate(gateway),
      was: false,
      is: true,
    },
  ),
  row(
    'mcp_servers.own',
    { mcp_servers: MCP_SERVERS },
    { seen: async ({ gateway }) => hasMcpObstacle(gateway), was: true, is: false },
  ),
  row(
    'security.allow_private_urls',
    { security: { allow_private_urls: ['127.0.0.1'] } },
    {
      seen: ({ gateway }) =>
        checkUntrustedUrl(gateway, 'http://127.0.0.1/x').then(
          ({ address }) => address,
          () => 'refused',
        ),
      was: 'refused',
      is: '127.0.0.1',
    },
  ),
  row(
    'security.allow_url_ports',
    { security: { allow_url_ports: [8080] } },
    {
      seen: ({ gateway }) =>
        checkUntrustedUrl(gateway, 'http://1.1.1.1:8080/x').then(
          ({ address }) => address,
          () => 'refused',
        ),
      was: 'refused',
      is: '1.1.1.1',
    },
  ),
  row(
    'files.quota_mib',
    { files: { quota_mib: 0 } },
    {
      seen: uploadTestFile,
      was: 200,
      is: 403,
    },
  ),
  row(
    'files.quota_files',
    { files: { quota_files: 0 } },
    {
      seen: uploadTestFile,
      was: 200,
      is: 403,
    },
  ),
  row(
    'doors.gemini',
    { doors: { gemini: { query_key: true } } },
    {
      seen: async ({ gateway }) => {
        const request = new Request('http://localhost/v1/models/a:countTokens?key=k')
        return [enterByVersion(gateway, request), request.headers.get('authorization')]
      },
      was: [true, null],
      is: [true, 'Bearer k'],
    },
  ),
  row(
    'responses.store',
    { responses: { store: true } },
    { seen: storeResponse, was: 400, is: 200 },
  ),
  row(
    'responses.quota_mib',
    { responses: { quota_mib: 0 } },
    {
      seen: async ({ gateway }) =>
        checkResponseQuota(gateway, getOperator(gateway)).then(
          () => 200,
          thrown => GatewayError.from(thrown).status,
        ),
      was: 200,
      is: 403,
    },
  ),
  row(
    'responses.retention_days',
    { responses: { retention_days: 1 } },
    {
      prepare: async ({ gateway, clock }) => {
        await makeStoredResponse(gateway, getOperator(gateway))
        clock.pass(TWO_DAYS)
      },
      seen: async ({ gateway }) => (await evictRows(gateway)).map(({ kind }) => kind),
      was: [],
      is: ['responses'],
    },
  ),
  row(
    'limits.management_per_minute',
    { limits: { management_per_minute: 1 } },
    {
      seen: async ({ gateway: { traffic } }) =>
        [1, 2].map(() => {
          try {
            traffic.counters.countManagement({ key_hash: 'a' })
            return 200
          } catch (thrown) {
            return GatewayError.from(thrown).status
          }
        }),
      was: [200, 200],
      is: [429, 429],
    },
  ),
  row(
    'files.requests_per_minute',
    { files: { requests_per_minute: 1 } },
    {
      seen: async ({ gateway: { traffic } }) =>
        [1, 2].map(() => {
          try {
            traffic.counters.countFileRequest({ key_hash: 'a' })
            return 200
          } catch (thrown) {
            return GatewayError.from(thrown).status
          }
        }),
      was: [200, 200],
      is: [200, 429],
    },
  ),
  row(
    'batches.enabled',
    { batches: { enabled: false } },
    { seen: async ({ gateway }) => (await runBatch(gateway)).made, was: true, is: false },
  ),
  row(
    'batches.max_requests',
    { batches: { max_requests: 1 } },
    {
      seen: async ({ gateway }) => (await runBatch(gateway)).status,
      was: 'completed',
      is: 'failed',
    },
  ),
  row(
    'batches.concurrency',
    { batches: { concurrency: 1 } },
    { seen: async ({ gateway }) => (await runBatch(gateway)).most, was: 2, is: 1 },
  ),
  row(
    'batches.pause_at',
    { batches: { pause_at: 1 } },
    {
      seen: async ({ gateway }) => {
        const remove = gateway.traffic.calls.add({
          cancellation: new Cancellation(),
          progress: null,
        })
        const { status } = await runBatch(gateway, true)
        remove()
        return status
      },
      was: 'completed',
      is: 'validating',
    },
  ),
  row(
    'idempotency.max_mib',
    { idempotency: { max_mib: 0 } },
    {
      seen: async ({ gateway, keys }) => {
        const handle = withIdempotency(gateway, createApp(gateway).handle)
        const headers = {
          authorization: `Bearer ${keys.inference}`,
          'content-type': 'application/json',
          'idempotency-key': 'mine',
        }
        const body = JSON.stringify({ model: 'acme/single', messages: [] })
        const url = 'http://localhost/api/v1/chat/completions'
        const answer = await handle(new Request(url, { method: 'POST', headers, body }))
        return (await answer.text()).includes('answers are not kept here')
      },
      was: false,
      is: true,
    },
  ),
  row(
    'response_cache.max_mib',
    { response_cache: { max_mib: 0 } },
    {
      seen: ({ ask }) => statusOf(ask({}, { headers: { 'x-gateway-cache': 'true' } })),
      was: 200,
      is: 400,
    },
  ),
  row(
    'oauth.enabled',
    { oauth: { enabled: false } },
    {
      seen: async ({ gateway }) =>
        statusOf(createApp(gateway).handle(new Request('http://localhost/auth?key_label=x'))),
      was: 400,
      is: 403,
    },
  ),
  row(
    'oauth.requests_per_minute',
    { oauth: { requests_per_minute: 1 } },
    {
      seen: async ({ gateway }) => {
        const app = createApp(gateway, () => '203.0.113.7')
        const look = () => statusOf(app.handle(new Request('http://localhost/auth')))
        return [await look(), await look()].at(-1)
      },
      was: 200,
      is: 429,
    },
  ),
  row(
    'oauth.sign_in',
    { oauth: { sign_in: { issuer: CI.issuer, client_id: 'gateway', client_secret: 'secret' } } },
    {
      seen: async ({ gateway }) => {
        const answer = await createApp(gateway).handle(new Request('http://localhost/auth'))
        return (await answer.text()).includes('/auth/start')
      },
      was: false,
      is: true,
    },
  ),
  row(
    'oauth.issuers',
    { oauth: { issuers: { ci: CI } } },
    {
      seen: ({ gateway }) => refuseWorkload(gateway),
      was: 'federation_policy_id: no such policy',
      is: 'subject_token: it is not a signed JWT',
    },
  ),
  row(
    'retention.content_days',
    { retention: { content_days: 1 } },
    {
      prepare: async house => {
        await keepContent(house)
        house.clock.pass(TWO_DAYS)
      },
      seen: ({ gateway }) => readContent(gateway),
      was: 'Hi',
      is: 'none',
    },
  ),
  row(
    'retention.content_mib',
    { retention: { content_mib: 0 } },
    {
      seen: async house => {
        await keepContent(house)
        return readContent(house.gateway)
      },
      was: 'Hi',
      is: 'none',
    },
  ),
  row(
    'retention.generations_days',
    { retention: { generations_days: 1 } },
    {
      // The last call stays.
      prepare: async ({ ask, clock }) => {
        for (let i = 0; i < 2; i++) await statusOf(ask())
        clock.pass(TWO_DAYS)
      },
      seen: async ({ gateway }) => (await evictRows(gateway)).map(({ kind }) => kind),
      was: [],
      is: ['generations'],
    },
  ),
  row(
    'retention.refusals_days',
    { retention: { refusals_days: 1 } },
    {
      prepare: async ({ gateway, ask, clock }) => {
        await statusOf(ask({ model: 'acme/none' }))
        await gateway.refusals.flush()
        clock.pass(TWO_DAYS)
      },
      seen: async ({ gateway }) => (await evictRows(gateway)).map(({ kind }) => kind),
      was: [],
      is: ['refusals'],
    },
  ),
  row(
    'retention.batches_days',
    { retention: { batches_days: 1 } },
    {
      prepare: async ({ gateway, clock }) => {
        const ended_at = clock.now().toISOString()
        const { workspace_id } = getOperator(gateway)
        const batch = buildBatch(1, { workspace_id, ended_at })
        await gateway.store.batches.insert(batch, buildAuditEntry())
        clock.pass(TWO_DAYS)
      },
      seen: async ({ gateway }) => (await evictRows(gateway)).map(({ kind }) => kind),
      was: [],
      is: ['batches'],
    },
  ),
  row(
    'telemetry.queue_rows',
    { telemetry: { queue_rows: 1 } },
    { seen: countWaitingOfThree, was: 3, is: 1 },
  ),
  row(
    'telemetry.queue_mib',
    { telemetry: { queue_mib: 1 } },
    { seen: house => countWaitingOfThree(house, 600_000), was: 3, is: 1 },
  ),
  row(
    'telemetry.otlp',
    { telemetry: { otlp: { endpoint: 'http://127.0.0.1:9' } } },
    { seen: countWaitingForOperator, was: 0, is: 1 },
  ),
  row(
    'telemetry.propagate_traces',
    { telemetry: { propagate_traces: true } },
    {
      seen: async ({ ask }) => {
        await statusOf(ask())
        return typeof first.hits.at(-1)?.headers.traceparent
      },
      was: 'undefined',
      is: 'string',
    },
  ),
  row(
    'limits.presets',
    { limits: { presets: 1 } },
    {
      prepare: house => createTestPreset(house, 'first').then(() => undefined),
      seen: house => createTestPreset(house, 'second'),
      was: 200,
      is: 403,
    },
  ),
  row(
    'limits.presets_mib',
    { limits: { presets_mib: 1 } },
    {
      prepare: async house => {
        for (let i = 0; i < 4; i++) await createTestPreset(house, 'large', 'x'.repeat(250 * 1024))
      },
      seen: house => createTestPreset(house, 'large', 'x'.repeat(250 * 1024)),
      was: 200,
      is: 403,
    },
  ),
  row(
    'limits.answer_mib',
    { limits: { answer_mib: 1 } },
    {
      prepare: async () => first.answer(() => completion('x'.repeat(2 * 1024 * 1024))),
      seen: ({ ask }) => statusOf(ask()),
      was: 200,
      is: 502,
    },
  ),
  row(
    'limits.reader_bytes_per_second',
    { limits: { reader_bytes_per_second: 10 } },
    {
      seen: async ({ gateway, keys }) =>
        onConnection(gateway, keys.inference, '{}').connection?.paceLimits?.bytes,
      was: 60 * 1024,
      is: 600,
    },
  ),
  row(
    'limits.read_on_kib',
    { limits: { read_on_kib: 0 } },
    {
      before: { models: [model('acme/single', 'charging')] },
      seen: leaveCall,
      was: 'exact',
      is: 'estimated',
    },
  ),
  row(
    'timeouts.read_on_seconds',
    { timeouts: { read_on_seconds: 0 } },
    {
      before: { models: [model('acme/single', 'charging')] },
      seen: leaveCall,
      was: 'exact',
      is: 'estimated',
    },
  ),
  row(
    'sandbox.kind',
    { sandbox: { kind: 'just-bash' } },
    { seen: house => runCommand(house, 'write a x'), was: 400, is: 200 },
  ),
  row(
    'sandbox.home_mib',
    { sandbox: { home_mib: 2 } },
    {
      before: SANDBOX,
      seen: readLimits,
      was: { homeBytes: 1 * MIB, memoryBytes: 64 * MIB, processes: 4, cpus: 1 },
      is: { homeBytes: 2 * MIB, memoryBytes: 64 * MIB, processes: 4, cpus: 1 },
    },
  ),
  row(
    'sandbox.memory_mib',
    { sandbox: { memory_mib: 65 } },
    {
      before: SANDBOX,
      seen: readLimits,
      was: { homeBytes: 1 * MIB, memoryBytes: 64 * MIB, processes: 4, cpus: 1 },
      is: { homeBytes: 1 * MIB, memoryBytes: 65 * MIB, processes: 4, cpus: 1 },
    },
  ),
  row(
    'sandbox.allowed_hosts',
    { sandbox: { allowed_hosts: ['b.example'] } },
    {
      before: SANDBOX,
      seen: async ({ gateway }) => isReachable(gateway.config, ['*'], 'a.example'),
      was: true,
      is: false,
    },
  ),
  row(
    'sandbox.processes',
    { sandbox: { processes: 5 } },
    {
      before: SANDBOX,
      seen: readLimits,
      was: { homeBytes: 1 * MIB, memoryBytes: 64 * MIB, processes: 4, cpus: 1 },
      is: { homeBytes: 1 * MIB, memoryBytes: 64 * MIB, processes: 5, cpus: 1 },
    },
  ),
  row(
    'sandbox.quota_mib',
    { sandbox: { quota_mib: 0 } },
    {
      before: SANDBOX,
      seen: async house => {
        await runCommand(house, 'write a x')
        return heardResult?.includes('sandbox.quota_mib')
      },
      was: false,
      is: true,
    },
  ),
  row(
    'sandbox.quota_files',
    { sandbox: { quota_files: 0 } },
    {
      before: SANDBOX,
      seen: async house => {
        await runCommand(house, 'write a x')
        return heardResult?.includes('sandbox.quota_files')
      },
      was: false,
      is: true,
    },
  ),
  row(
    'sandbox.timeout_seconds',
    { sandbox: { timeout_seconds: 2 } },
    {
      before: SANDBOX,
      seen: async house => {
        await runCommand(house, 'write a x')
        return house.sandbox.boxes.at(-1)?.commands.at(-1)?.timeoutMs
      },
      was: 1_000,
      is: 2_000,
    },
  ),
  row(
    'sandbox.running',
    { sandbox: { running: 2 } },
    {
      before: SANDBOX,
      seen: async house => {
        for (const session_id of ['one', 'two']) await runCommand(house, 'write a x', session_id)
        return house.sandbox.open_boxes.length
      },
      was: 1,
      is: 2,
    },
  ),
  row(
    'sandbox.cpus',
    { sandbox: { cpus: 0.5 } },
    {
      before: SANDBOX,
      seen: readLimits,
      was: { homeBytes: 1 * MIB, memoryBytes: 64 * MIB, processes: 4, cpus: 1 },
      is: { homeBytes: 1 * MIB, memoryBytes: 64 * MIB, processes: 4, cpus: 0.5 },
    },
  ),
  row(
    'sandbox.ready',
    { sandbox: { ready: 1 } },
    {
      before: { sandbox: { ...SANDBOX.sandbox, ready: 3 } },
      seen: async ({ gateway: { warm }, gateway }) => {
        if (warm.pool.size === 0) warm.pool.fill(gateway)
        await warm.pool.settle()
        return warm.pool.size
      },
      was: 3,
      is: 1,
    },
  ),
  row(
    'sandbox.idle_seconds',
    { sandbox: { idle_seconds: 0.01 } },
    {
      before: SANDBOX,
      seen: async house => {
        await runCommand(house, 'write a x')
        const box = house.sandbox.boxes.at(-1)
        return unlessWaiting(signal =>
          Promise.race([
            box?.closed.promise.then(() => 'ends'),
            new Promise<string>((_, reject) =>
              signal.addEventListener('abort', () => reject(signal.reason)),
            ),
          ]),
        )
      },
      was: 'waits',
      is: 'ends',
    },
  ),
  row(
    'server_tools.disabled_tools',
    { server_tools: { disabled_tools: { default: ['files'] } } },
    {
      seen: async ({ gateway }) => {
        const [workspace] = gateway.memory.workspaces.values()
        return isDisabledTool(gateway, workspace?.id ?? '', ['files'])
      },
      was: false,
      is: true,
    },
  ),
  row(
    'server_tools.timeout_seconds',
    { server_tools: { timeout_seconds: 0.02 } },
    {
      before: { server_tools: { timeout_seconds: 0.01 } },
      seen: house => useTool(house, 'hanging', {}),
      was: 'The tool took longer than 0.01 s.',
      is: 'The tool took longer than 0.02 s.',
    },
  ),
  row(
    'server_tools.max_result_characters',
    { server_tools: { max_result_characters: 100 } },
    {
      seen: async house =>
        (await useTool(house, 'search_models', { query: 'acme' }))?.includes('was cut off'),
      was: false,
      is: true,
    },
  ),
  row(
    'server_tools.fusion',
    {
      server_tools: {
        fusion: {
          analysis_models: ['acme/single'],
          model: 'acme/single',
          presets: { 'general-fast': { analysis_models: ['acme/single'], model: 'acme/none' } },
        },
      },
    },
    {
      seen: async house => [
        await askFusion(house, {}),
        await askFusion(house, { preset: 'general-fast', model: 'acme/single' }),
        await askFusion(house, { preset: 'general-fast' }),
        await statusOf(house.ask({ model: 'gateway/fusion' })),
      ],
      was: [400, 400, 400, 400],
      is: [200, 200, 400, 200],
    },
  ),
  row(
    'server_tools.image_generation',
    { server_tools: { image_generation: { model: 'acme/single' } } },
    {
      seen: async ({ ask }) => {
        const answer = await ask({ tools: [{ type: 'gateway:image_generation' }] })
        return ((await answer.json()) as { error: { message: string } }).error.message
      },
      was: expect.stringContaining('openai/gpt-5-image'),
      is: expect.stringContaining('acme/single does not draw'),
    },
  ),
  row(
    'storage.refusals',
    { storage: { refusals: 1 } },
    {
      seen: async ({ gateway, ask }) => {
        for (let i = 0; i < 2; i++) await statusOf(ask({ model: 'acme/none' }))
        await gateway.refusals.flush()
        return (await gateway.store.refusals.list(10)).length
      },
      was: 2,
      is: 1,
    },
  ),
  row(
    'timeouts.video_seconds',
    { timeouts: { video_seconds: 1 } },
    { seen: ({ gateway }) => followLostVideo(gateway), was: 'pending', is: 'expired' },
  ),
  row(
    'timeouts.query_seconds',
    { timeouts: { query_seconds: 0.5 } },
    {
      seen: async ({ gateway, clock }) => {
        const { rollups } = gateway.store
        let pause = 1_000
        const sum: typeof rollups.sum = query => {
          clock.pass(pause)
          pause = 0
          return rollups.sum(query)
        }
        const slow = { ...gateway, store: { ...gateway.store, rollups: { ...rollups, sum } } }
        const query = { metrics: ['request_count'] }
        return queryAnalytics(slow, getOperator(gateway), query).then(
          () => 200,
          ({ status }) => status,
        )
      },
      was: 200,
      is: 408,
    },
  ),
  row(
    'datasets.minimum_sessions',
    { datasets: { minimum_sessions: 1 } },
    {
      seen: async ({ gateway }) => {
        const settled_at = '2026-02-25T00:00:00.000Z'
        const generation = buildGeneration({ id: gateway.ids.uuid(), settled_at })
        await gateway.store.generations.record([{ generation, charge: null }])
        return (await getSessionCost(gateway, getOperator(gateway), {})).data.length
      },
      was: 0,
      is: 1,
    },
  ),
  row(
    'datasets.minimum_workspaces',
    { datasets: { minimum_workspaces: 1 } },
    {
      seen: async ({ gateway }) => {
        const settled_at = '2026-02-25T00:00:00.000Z'
        const generation = buildGeneration({ id: gateway.ids.uuid(), settled_at })
        await gateway.store.generations.record([{ generation, charge: null }])
        const query = { start_date: '2026-02-25', end_date: '2026-02-25' }
        return (await getRankingsDaily(gateway, STRANGER, query)).data.length
      },
      was: 0,
      is: 1,
    },
  ),
  row(
    'datasets.enabled',
    { datasets: { enabled: false } },
    {
      seen: ({ gateway }) =>
        getRankingsDaily(gateway, STRANGER, {}).then(
          () => 200,
          ({ status }) => status,
        ),
      was: 200,
      is: 404,
    },
  ),
  row(
    'datasets.requests_per_minute',
    { datasets: { requests_per_minute: 1 } },
    { seen: house => readTwice(house), was: 200, is: 429 },
  ),
  row(
    'datasets.requests_per_day',
    { datasets: { requests_per_day: 1 } },
    { seen: house => readTwice(house), was: 200, is: 429 },
  ),
  row(
    'limits.strict',
    { limits: { strict: true } },
    {
      before: { limits: { strict: false } },
      seen: ({ ask, limited }) => statusOf(ask({ max_tokens: 1_000_000 }, { key: limited })),
      was: 402,
      is: 200,
    },
  ),
  row(
    'limits.wait_seconds',
    { limits: { wait_seconds: 30 } },
    {
      before: { limits: { wait_seconds: 0 } },
      seen: async ({ gateway: { ledger, memory }, ask, limited }) => {
        const hash = new Bun.CryptoHasher('sha256').update(limited).digest('hex')
        const bound = {
          account: `key ${hash}`,
          period: null,
          limit: 500_000_000n,
          byok: false,
        } as const
        const own = ledger.getRemaining(bound)
        const { creator_user_id: user_id = '', workspace_id = '' } = memory.keys.get(hash) ?? {}
        const amounts = { own, byok: null }
        const payer = { key_hash: hash, user_id: user_id ?? '', workspace_id }
        const hold = ledger.reserve(payer, { maximum: amounts, minimum: amounts }, [])
        const waits = Promise.withResolvers<void>()
        const { queue } = ledger
        ledger.queue = account => {
          waits.resolve()
          return queue(account)
        }
        const status = statusOf(ask({}, { key: limited }))
        await Promise.race([status, waits.promise])
        ledger.release(hold)
        ledger.queue = queue
        return status
      },
      was: 402,
      is: 200,
    },
  ),
  row(
    'limits.max_tokens',
    { limits: { max_tokens: 100, strict: false } },
    {
      before: { limits: { max_tokens: 1_000_000, strict: false } },
      seen: ({ ask, limited }) => statusOf(ask({}, { key: limited })),
      was: 402,
      is: 200,
    },
  ),
  row(
    'limits.credits',
    { limits: { credits: true } },
    { seen: ({ ask }) => statusOf(ask()), was: 200, is: 402 },
  ),
  row(
    'limits.memory',
    { limits: { memory: 16 } },
    {
      before: { limits: { memory: 1_000 } },
      seen: async ({ gateway }) => gateway.traffic.admission.memory.limit,
      was: 1_000 * 1024 * 1024,
      is: 16 * 1024 * 1024,
    },
  ),
  row(
    'limits.in_flight',
    { limits: { in_flight: 1 } },
    {
      before: { limits: { in_flight: 100 } },
      // One is in flight meanwhile.
      seen: ({ gateway }) => {
        const { admission } = gateway.traffic
        const pass = admission.admit('another', 0)
        const overload = admission.findOverload('a key')
        pass.end()
        return Promise.resolve(overload)
      },
      was: null,
      is: 'in_flight',
    },
  ),
  row(
    'limits.requests_per_minute',
    { limits: { requests_per_minute: 2 } },
    {
      before: { limits: { requests_per_minute: 100 } },
      // The calls of this minute stay counted.
      seen: async ({ ask }) => [await statusOf(ask()), await statusOf(ask())],
      was: [200, 200],
      is: [429, 429],
    },
  ),
  row(
    'limits.concurrent_requests',
    { limits: { concurrent_requests: 1 } },
    {
      seen: async ({ ask }) => (await Promise.all([statusOf(ask()), statusOf(ask())])).sort(),
      was: [200, 200],
      is: [200, 429],
    },
  ),
  row(
    'limits.tree',
    { limits: { tree: { calls: 1 } } },
    {
      // A tool would need another turn after this one.
      seen: async ({ ask }) => {
        await ask({ tools: [{ type: 'gateway:datetime' }] })
        const asked = first.hits.at(-1)?.json as { tool_choice?: string } | undefined
        return asked?.tool_choice ?? null
      },
      was: null,
      is: 'none',
    },
  ),
  row(
    'limits.free_models',
    { limits: { free_models: { requests_per_day: 1 } } },
    {
      // One call is recorded when the limit is set.
      seen: ({ ask }) => statusOf(ask({ model: 'acme/free:free' })),
      was: 200,
      is: 429,
    },
  ),
  row(
    'timeouts.connect_seconds',
    { timeouts: { connect_seconds: 0.05 } },
    {
      // Accepts the connection, and never answers in TLS.
      before: { models: [model('acme/single', 'silent')] },
      prepare: answers(never),
      seen: ({ ask }) => unlessWaiting(signal => statusOf(ask({}, { signal }))),
      was: 'waits',
      is: 502,
    },
  ),
  row(
    'timeouts.first_byte_seconds',
    { timeouts: { first_byte_seconds: 0.05 } },
    {
      prepare: answers(never),
      seen: ({ ask }) => unlessWaiting(signal => statusOf(ask({}, { signal }))),
      was: 'waits',
      is: 524,
    },
  ),
  row(
    'timeouts.first_byte_stream_seconds',
    { timeouts: { first_byte_stream_seconds: 0.05 } },
    {
      prepare: answers(never),
      seen: ({ ask }) => unlessWaiting(signal => statusOf(ask({ stream: true }, { signal }))),
      was: 'waits',
      is: 524,
    },
  ),
  row(
    'timeouts.idle_seconds',
    { timeouts: { idle_seconds: 0.05 } },
    {
      prepare: answers([sseHead(), delta('Hel'), never]),
      seen: ({ ask }) =>
        unlessWaiting(async signal =>
          (await (await ask({ stream: true }, { signal })).text()).includes('"code":524'),
        ),
      was: 'waits',
      is: true,
    },
  ),
  row(
    'timeouts.total_seconds',
    { timeouts: { total_seconds: 0.05 } },
    {
      prepare: answers(never),
      seen: ({ ask }) => unlessWaiting(signal => statusOf(ask({}, { signal }))),
      was: 'waits',
      is: 524,
    },
  ),
  row(
    'timeouts.keep_alive_seconds',
    { timeouts: { keep_alive_seconds: 0.05 } },
    {
      prepare: answers(never),
      seen: ({ ask }) =>
        unlessWaiting(async signal => {
          const { body } = await ask({ stream: true }, { signal })
          return new TextDecoder().decode((await body?.getReader().read())?.value)
        }),
      was: 'waits',
      is: ': OPENROUTER PROCESSING\n\n',
    },
  ),
  row(
    'timeouts.body_seconds',
    { timeouts: { body_seconds: 0.05 } },
    {
      seen: ({ gateway, keys }) =>
        unlessWaiting(async signal => {
          const body = new ReadableStream({
            start: controller =>
              signal.addEventListener('abort', () => controller.error(new Error('left'))),
          })
          const { answer } = onConnection(gateway, keys.inference, body)
          return (await answer).status
        }),
      was: 'waits',
      is: 408,
    },
  ),
  row(
    'timeouts.reader_seconds',
    { timeouts: { reader_seconds: 20 } },
    {
      prepare: answers(stream()),
      seen: async ({ gateway, keys }) => {
        const json = {
          model: 'acme/small',
          messages: [{ role: 'user', content: 'Hi' }],
          stream: true,
        }
        const call = onConnection(gateway, keys.inference, JSON.stringify(json))
        const response = await call.answer
        const limits = [...call.limits]
        await response.text()
        return limits.at(-1)
      },
      was: 64,
      is: 24,
    },
  ),
]

/** A call on a connection whose limits are noted, in seconds. */
function onConnection(gateway: Gateway, key: string, body: BodyInit) {
  const limits: number[] = []
  const request = new Request('http://localhost/api/v1/chat/completions', {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body,
  })
  const descriptors = { isScarce: false, admitCall: () => true, startCall: () => undefined }
  const { traffic } = gateway
  bindConnection({ gateway, traffic, descriptors, busy: new LiveSet() }, request, {
    timeout: (_, seconds) => limits.push(seconds),
  })
  return { limits, connection: findConnection(request), answer: createApp(gateway).handle(request) }
}

const BUCKET = { bucket: 'files', access_key_id: 'id', secret_access_key: 'secret' }

const AT_START = [
  'server.host',
  'server.port',
  'server.idle_seconds',
  'server.metrics_address',
  'server.site_url',
  'server.console_host',
  'storage.durability',
  'storage.files',
  'storage.postgres',
  'storage.s3',
  'storage.valkey',
]

/** Decides what is read, with the file: see test/server/environment.test.ts. */
const WITH_THE_FILE = ['providers_from_environment']

describe('a changed setting applies to the next call:', () => {
  test.each(ROWS.map(one => [one.setting, one] as const))(
    '%s',
    async (setting, { before = {}, after, prepare, seen, was, is }) => {
      const special = {
        providers: {
          silent: provider(first.url.replace('http:', 'https:')),
          charging: provider(first.url, { on_abort: 'drain' }),
        },
      }
      const all = over(over(base(), special), before)
      const one = await house(over(special, before))
      await prepare?.(one)
      expect(await seen(one)).toEqual(was)
      expect(await reconfigure(one.gateway, parsed(over(all, after())))).toEqual({
        changed: [setting],
        needsRestart: [],
      })
      expect(await seen(one)).toEqual(is)
    },
  )

  test('every setting is in that table, or is only read at the start', () => {
    const names = Object.entries(Config.properties).flatMap(([section, schema]) =>
      'properties' in schema
        ? Object.keys(schema.properties as object).map(name => `${section}.${name}`)
        : [section],
    )
    const shown = ROWS.map(({ setting }) => setting.replace(/^(providers|mcp_servers)\..*/, '$1'))
    expect([...shown, ...AT_START, ...WITH_THE_FILE].sort()).toEqual(names.sort())
  })
})

test('settings that are only read at the start are named and unchanged', async () => {
  const { gateway } = await house()
  const { server, storage } = gateway.config
  // Postgres decides by itself what full durability is.
  const postgres = { url: 'postgres://db.example/gateway' }
  const valkey = { url: 'redis://cache.example' }
  const others = AT_START.filter(name => !/postgres|valkey/.test(name))
  const wanted = over(base(), {
    server: {
      host: '0.0.0.0',
      port: 1,
      metrics_address: '127.0.0.1:9464',
      site_url: 'https://example.com',
      console_host: 'console.example.com',
      idle_seconds: 9,
    },
    storage: { durability: 'full', files: 's3', s3: BUCKET },
    service_name: 'acme',
  })
  expect(await reconfigure(gateway, parsed(wanted))).toEqual({
    changed: ['service_name'],
    needsRestart: others,
  })
  expect(gateway.config).toMatchObject({ service_name: 'acme', server, storage })
  expect((await reconfigure(gateway, parsed(wanted))).needsRestart).toEqual(others)
  const moved = over(base(), { service_name: 'acme', storage: { postgres, valkey } })
  expect((await reconfigure(gateway, parsed(moved))).needsRestart).toEqual([
    ...['storage.postgres', 'storage.valkey'],
  ])
  expect(gateway.config.storage).toEqual(storage)
})

test('models that are reloaded while a config is applied stay', async () => {
  const { gateway } = await house()
  const read = createBuiltInReader({ file: SIGNED, keys: [SIGNER.key] })
  const applied = reconfigure(gateway, parsed(over(base(), { unknown_models: 'refuse' })))
  expect(reloadModels(gateway, read).generated).toBe('2100-01-01')
  await applied
  expect(gateway.config.unknown_models).toBe('refuse')
  expect(gateway.catalog.getBuiltIn().generated).toBe('2100-01-01')
  expect(gateway.catalog.models.has('openai/gpt-4o')).toBe(false)
  const damaged = createBuiltInReader({ file: SIGNED, keys: [] })
  expect(() => reloadModels(gateway, damaged)).toThrow('catalog.public_keys')
  expect(gateway.catalog.getBuiltIn().generated).toBe('2100-01-01')
})

describe('a config whose catalogue cannot be opened', () => {
  const BAD: [what: string, change: () => Json][] = [
    ['an unknown provider', () => ({ providers: { nobody: { api_key: 'sk-new' } } })],
    ['a provider without its credential', () => ({ providers: { openai: {} } })],
    [
      'an unknown protocol',
      () => ({ providers: { one: provider(first.url, { protocol: 'latin' }) } }),
    ],
    ['a model with an unknown provider', () => ({ models: [model('acme/single', 'three')] })],
    [
      'two models with one name',
      () => ({ models: [model('acme/single', 'one'), model('acme/single', 'two')] }),
    ],
    ['an unknown default model', () => ({ default_model: 'acme/gone' })],
  ]
  // The refused config has all of these, so that a partial change would show.
  const MORE = {
    service_name: 'other',
    limits: { requests_per_minute: 1 },
    routing: { failures: 1 },
  }

  test.each(BAD)('%s, changes nothing', async (_, change) => {
    const { gateway, ask, get } = await house()
    const fields = () => [
      gateway.config,
      gateway.catalog,
      gateway.memory.byok,
      gateway.instance.configStatus,
    ]
    const shown = async () =>
      JSON.stringify(
        await Promise.all(['/api/v1/models', '/api/v1/providers', '/openapi.json'].map(get)),
      )
    await textOf(ask())
    const before = {
      fields: fields(),
      policies: [...gateway.memory.policies.values()],
      shown: await shown(),
    }
    expect(before.policies).toHaveLength(1)
    const refused = reconfigure(gateway, parsed(over(over(base(), MORE), change())))
    expect(await refused.catch(thrown => (thrown as GatewayError).type)).toBe('invalid_request')
    for (const [i, field] of fields().entries()) expect(field === before.fields[i]).toBe(true)
    expect([...gateway.memory.policies.values()]).toEqual(before.policies)
    expect(await shown()).toBe(before.shown)
    expect([await textOf(ask()), await textOf(ask())]).toEqual(['first', 'first'])
  })
})

describe('the alarm', () => {
  const told = ({ gateway }: House) => [
    gateway.instance.configStatus,
    openMetrics(gateway)
      .renderText()
      .split('\n')
      .filter(line => line.startsWith('gateway_config_')),
  ]
  const AT = Date.parse('2026-03-04T05:06:07.000Z')

  test('is on from a rejected config to the next accepted one', async () => {
    const one = await house()
    const events: string[] = []
    one.gateway.events.on('config.rejected', ({ error }) => events.push(error.message))
    one.gateway.events.on('config.applied', ({ changed }) => events.push(changed.join()))
    expect(await one.get('/health')).toEqual({ status: 'ok' })
    one.clock.pass(1_000)
    rejectConfig(one.gateway, new GatewayError('invalid_request', 'no'))
    const rejected = [
      'gateway_config_rejected 1',
      `gateway_config_applied_timestamp_seconds ${AT / 1000}`,
    ]
    expect(told(one)).toEqual([{ applied: new Date(AT), rejected: true }, rejected])
    expect(await one.get('/health')).toEqual({ status: 'ok', config: 'rejected' })
    expect(await one.get('/ready')).toEqual({ status: 'ready' })
    expect(await textOf(one.ask())).toBe('first')
    await reconfigure(one.gateway, one.gateway.config)
    const applied = [
      'gateway_config_rejected 0',
      `gateway_config_applied_timestamp_seconds ${AT / 1000 + 1}`,
    ]
    expect(told(one)).toEqual([{ applied: new Date(AT + 1_000), rejected: false }, applied])
    expect(await one.get('/health')).toEqual({ status: 'ok' })
    expect(events).toEqual(['no', ''])
  })
})

describe('a new config keeps', () => {
  test('the endpoint of a running call', async () => {
    const { gateway, ask } = await house()
    first.answer(() => [{ wait: 'go' }, completion('first')])
    const running = textOf(ask())
    await first.hit()
    await reconfigure(gateway, parsed({}))
    first.open('go')
    expect(await running).toBe('first')
    expect(await statusOf(ask())).toBe(400)
  })

  test('the age of models that are only in the config', async () => {
    const { gateway, clock } = await house()
    const created = () => gateway.catalog.models.get('acme/single')?.created
    const before = created()
    clock.pass(60_000)
    await reconfigure(gateway, parsed(over(base(), { models: [model('acme/single', 'two')] })))
    expect(created()).toBe(before)
  })

  test('an unchanged provider, with its access tokens', async () => {
    const { gateway } = await house()
    const [one, two] = ['one', 'two'].map(slug => gateway.catalog.providers.get(slug))
    await reconfigure(gateway, parsed(over(base(), { providers: { two: provider(first.url) } })))
    expect(gateway.catalog.providers.get('one') === one).toBe(true)
    expect(gateway.catalog.providers.get('two') === two).toBe(false)
    expect(gateway.catalog.models.get('acme/single')?.endpoints[0]?.provider === one).toBe(true)
  })

  test('the sandbox, which needs no config', async () => {
    const { gateway } = await house()
    const sandbox = gateway.catalog.providers.get('sandbox')
    await reconfigure(gateway, parsed(over(base(), { service_name: 'acme' })))
    expect(gateway.catalog.providers.get('sandbox') === sandbox).toBe(true)
  })

  test('the health of an endpoint, unless its provider has changed', async () => {
    const { gateway, ask, clock, get } = await house({ routing: { failures: 1 } })
    clock.pass(60_000)
    const statuses = async () => {
      const { data } = (await get('/api/v1/models/acme/small/endpoints')) as {
        data: { endpoints: { status: number }[] }
      }
      return data.endpoints.map(one => one.status)
    }
    for (const upstream of [first, second]) upstream.answer(() => status(500))
    await statusOf(ask({ model: 'acme/small' }))
    await statusOf(ask({ model: 'acme/small' }))
    expect(await statuses()).toEqual([-1, -1])
    const change = { models: base().models.toReversed(), routing: { failures: 1 } }
    await reconfigure(gateway, parsed(over(base(), change)))
    expect(await statuses()).toEqual([-1, -1])
    await reconfigure(
      gateway,
      parsed(
        over(base(), {
          ...change,
          providers: { two: provider(second.url, { api_key: 'sk-mended' }) },
        }),
      ),
    )
    expect(await statuses()).toEqual([-1, 0])
  })

  test('the health of an endpoint with a caller’s key, unless its provider changed', async () => {
    const { gateway, ask, clock } = await house({ routing: { failures: 1 } })
    clock.pass(60_000)
    await createByokKey(gateway, getOperator(gateway), { provider: 'one', key: 'sk-theirs' })
    /** The number of requests with each key, for one call. */
    const asked = async () => {
      first.hits.length = 0
      await statusOf(ask())
      return first.hits.map(({ headers }) => headers.authorization)
    }
    first.answer(({ headers }) =>
      headers.authorization === 'Bearer sk-theirs' ? status(500) : completion('first'),
    )
    expect(await asked()).toEqual(['Bearer sk-theirs', 'Bearer sk-own'])
    expect(await asked()).toEqual(['Bearer sk-own'])
    const change = { routing: { failures: 1 } }
    await reconfigure(
      gateway,
      parsed(over(base(), { ...change, providers: { two: provider(first.url) } })),
    )
    expect(await asked()).toEqual(['Bearer sk-own'])
    await reconfigure(
      gateway,
      parsed(over(base(), { ...change, providers: { one: provider(first.url, { name: 'One' }) } })),
    )
    expect(await asked()).toEqual(['Bearer sk-theirs', 'Bearer sk-own'])
  })

  test('the new credential of a caller’s key', async () => {
    const { gateway, ask, clock } = await house({ routing: { failures: 1 } })
    clock.pass(60_000)
    const { data } = await createByokKey(gateway, getOperator(gateway), {
      provider: 'one',
      key: 'sk-bad',
    })
    first.answer(({ headers }) =>
      headers.authorization === 'Bearer sk-bad' ? status(500) : completion('first'),
    )
    await statusOf(ask())
    await updateByokKey(gateway, getOperator(gateway), data.id, { key: 'sk-mended' })
    await reconfigure(
      gateway,
      parsed(over(base(), { routing: { failures: 1 }, providers: { two: provider(first.url) } })),
    )
    await statusOf(ask())
    expect(first.hits.at(-1)?.headers.authorization).toBe('Bearer sk-mended')
  })

  test('the sticky endpoint of a session', async () => {
    const cached = { prompt: 1, completion: 4, cache_read: 0.1 }
    const models = base().models.map(one => ({
      ...one,
      endpoints: one.endpoints.map(endpoint => ({ ...endpoint, usd_per_million_tokens: cached })),
    }))
    const { gateway, ask } = await house({ models })
    const named = () => textOf(ask({ model: 'acme/small', session_id: 's' }))
    first.answer(() => status(500))
    expect(await named()).toBe('second')
    first.answer(() => completion('first'))
    expect(await named()).toBe('second')
    await reconfigure(
      gateway,
      parsed(over(base(), { models, service_name: 'acme', default_model: 'acme/small' })),
    )
    expect(await named()).toBe('second')
    await reconfigure(
      gateway,
      parsed(
        over(base(), { models, providers: { two: provider(second.url, { api_key: 'sk-new' }) } }),
      ),
    )
    expect(await named()).toBe('first')
  })

  test('the count of running calls of a key whose limit is removed and set again', async () => {
    const limits = { limits: { concurrent_requests: 1 } }
    const { gateway, ask } = await house(limits)
    first.answer(() => [{ wait: 'go' }, completion('first')])
    const running = statusOf(ask())
    await first.hit()
    await reconfigure(gateway, parsed(base()))
    await reconfigure(gateway, parsed(over(base(), limits)))
    expect(await statusOf(ask())).toBe(429)
    first.open('go')
    expect(await running).toBe(200)
    expect(await statusOf(ask())).toBe(200)
  })
})

describe('a reference to something that was removed', () => {
  test('a caller’s provider key is sent to the new address of its provider', async () => {
    const { gateway, ask } = await house()
    await createByokKey(gateway, getOperator(gateway), { provider: 'one', key: 'sk-theirs' })
    const keyOf = (upstream: Upstream) => upstream.hits.at(-1)?.headers.authorization
    expect([await textOf(ask()), keyOf(first)]).toEqual(['first', 'Bearer sk-theirs'])
    await reconfigure(gateway, parsed(over(base(), { providers: { one: provider(second.url) } })))
    expect([await textOf(ask()), keyOf(second)]).toEqual(['second', 'Bearer sk-theirs'])
    await reconfigure(
      gateway,
      parsed({ providers: { two: provider(first.url) }, models: [model('acme/single', 'two')] }),
    )
    expect([await textOf(ask()), keyOf(first)]).toEqual(['first', 'Bearer sk-own'])
    await reconfigure(gateway, parsed(base()))
    expect([await textOf(ask()), keyOf(first)]).toEqual(['first', 'Bearer sk-theirs'])
  })

  test('a preset with an unknown model is refused, and a guardrail ignores it', async () => {
    const one = await house()
    const { gateway, ask } = one
    await guard(one, { allowed_models: ['acme/single', 'acme/small'] })
    const { key: other } = await createKey(gateway, getOperator(gateway), { name: 'free' })
    const preset = { model: 'acme/small', messages: [{ role: 'user', content: 'Hi' }] }
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${other}` }
    const url = 'http://localhost/api/v1/presets/mine/chat/completions'
    const init = { method: 'POST', headers, body: JSON.stringify(preset) }
    expect(await statusOf(createApp(gateway).handle(new Request(url, init)))).toBe(200)
    const asked = () =>
      Promise.all([
        statusOf(ask({ model: '@preset/mine' })),
        statusOf(ask()),
        statusOf(ask({ model: 'acme/free:free' })),
      ])
    expect(await asked()).toEqual([200, 200, 404])
    await reconfigure(
      gateway,
      parsed(over(base(), { models: base().models.filter(({ id }) => id !== 'acme/small') })),
    )
    expect(await asked()).toEqual([400, 200, 404])
    await reconfigure(gateway, parsed(base()))
    expect(await asked()).toEqual([200, 200, 404])
  })

  test('a guardrail applies to what its names refer to now', async () => {
    const one = await house()
    await guard(one, { ignored_providers: ['one'] })
    expect(await statusOf(one.ask())).toBe(404)
    const variant = {
      providers: { 'one/eu': provider(second.url) },
      models: [model('acme/single', 'one/eu', 'two')],
    }
    await reconfigure(one.gateway, parsed(over(base(), variant)))
    expect(await statusOf(one.ask({ provider: { only: ['one/eu'] } }))).toBe(404)
    expect(await statusOf(one.ask())).toBe(200)
  })
})
