import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { findSchemaIssue } from '../../src/base/schema.ts'
import { Explanation } from '../../src/extensions/explain.ts'
import { fetchGeneration } from '../support/chat.ts'
import { runCommand } from '../support/commands.ts'
import {
  KEYS,
  type KeyName,
  NAMES,
  type Name,
  SAMPLES,
  type Sample,
} from '../support/explain/samples.ts'
import { LONG } from '../support/random.ts'
import { type Server, startLocalServer, startServer } from '../support/server.ts'
import {
  completion,
  type Hit,
  json,
  type Script,
  startUpstream,
  status,
  stream,
  type Upstream,
  usage,
} from '../support/upstream.ts'

/** What no explanation may contain: credentials, and what filters find. */
const SECRETS = ['operators-secret', 'callers-secret', 'ada@acme.example']

const FACTS: Record<Name, object> = {
  first: {
    usd_per_million_tokens: { prompt: 3, completion: 6 },
    supported_parameters: ['temperature', 'max_tokens'],
  },
  second: {
    usd_per_million_tokens: { prompt: 2, completion: 4 },
    data_policy: { training: false, retention_days: 0 },
  },
  third: { usd_per_million_tokens: { prompt: 1, completion: 2 }, quantization: 'fp8' },
}
const endpoint = (provider: Name) => ({ provider, model: 'up', ...FACTS[provider] })
const model = (id: string, ...names: Name[]) => ({
  id,
  context_length: 200_000,
  endpoints: names.map(endpoint),
})

let upstreams: Record<Name, Upstream>
let server: Server
let keys: Record<KeyName, { key: string; hash: string }>

beforeAll(async () => {
  const [first, second, third] = await Promise.all([
    startUpstream(),
    startUpstream(),
    startUpstream(),
  ])
  upstreams = { first, second, third }
  server = await startServer({ config: config() })
  keys = await preparedKeys()
  const preset = { model: 'acme/small', max_tokens: 20, provider: { order: ['second'] } }
  await made(
    server.fetch('/presets/careful/chat/completions', { key: keys.plain.key, json: preset }),
  )
  await manage('/byok', {
    provider: 'second',
    key: 'callers-secret',
    allowed_models: ['acme/owned'],
  })
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await Promise.all(NAMES.map(name => upstreams[name].close()))
})

beforeEach(() => down())

function config() {
  const provider = (name: Name) => ({
    protocol: 'openai-chat',
    base_url: upstreams[name].url,
    api_key: 'operators-secret',
  })
  const [first, ...others] = NAMES
  return {
    providers: Object.fromEntries(NAMES.map(name => [name, provider(name)])),
    models: [
      model('acme/small', first, ...others),
      model('acme/other', 'third'),
      model('acme/rare', 'first'),
      model('acme/owned', 'first', 'second'),
      { ...model('acme/vectors', 'first', 'third'), output_modalities: ['embeddings'] },
    ],
    routing: { choice: 'listed', failures: 0 },
    limits: { strict: true },
  }
}

const LIMITS: Partial<Record<KeyName, number>> = { poor: 0.000_000_1, scarce: 0.01 }
const RULES: Partial<Record<KeyName, object>> = {
  zdr: { enforce_zdr: true },
  filtered: { content_filter_builtins: [{ slug: 'email', action: 'block' }] },
  redacted: { content_filter_builtins: [{ slug: 'email', action: 'redact' }] },
  european: { allowed_data_regions: ['europe'] },
}

async function preparedKeys(): Promise<typeof keys> {
  const all = await Promise.all(KEYS.map(async name => [name, await preparedKey(name)] as const))
  return Object.fromEntries(all) as typeof keys
}

async function preparedKey(name: KeyName) {
  const limit = LIMITS[name]
  const { key, data } = await manage<{ key: string; data: { hash: string } }>('/keys', {
    name,
    ...(limit ? { limit } : {}),
  })
  if (RULES[name]) {
    const guardrail = await manage<{ data: { id: string } }>('/guardrails', {
      name,
      ...RULES[name],
    })
    await manage(`/guardrails/${guardrail.data.id}/assignments/keys`, { key_hashes: [data.hash] })
  }
  return { key, hash: data.hash }
}

const manage = <T>(path: string, body: object) =>
  made<T>(server.fetch(path, { key: server.management_key, json: body }))

async function made<T>(answer: Promise<Response>): Promise<T> {
  const response = await answer
  if (!response.ok) throw new Error(await response.text())
  return (await response.json()) as T
}

function down(...names: Name[]): void {
  for (const name of NAMES) {
    upstreams[name].hits.length = 0
    upstreams[name].answer(names.includes(name) ? () => status(503) : answered)
  }
}

function answered({ path, json: body }: Hit): Script {
  if (path.endsWith('/embeddings'))
    return json({ data: [{ index: 0, embedding: [0.5] }], usage: usage(1, 0) })
  return (body as { stream?: boolean }).stream ? stream(['Hel', 'lo']) : completion('Hello')
}

const hits = () => NAMES.map(name => upstreams[name].hits.length)

const PATHS = { chat: '/chat/completions', messages: '/messages', embeddings: '/embeddings' }
const pathOf = ({ dialect = 'chat' }: Sample) => PATHS[dialect]
const keyOf = ({ key = 'plain' }: Sample) => keys[key]

/** The API's explanation of a sample, which reaches no provider. */
async function explained(sample: Sample): Promise<Explanation> {
  const body = { ...sample.body, debug: { dry_run: true, key: keyOf(sample).hash } }
  const told = await made<Explanation>(
    server.fetch(pathOf(sample), { key: server.management_key, json: body }),
  )
  expect(hits()).toEqual([0, 0, 0])
  expect(findSchemaIssue(Explanation, told)).toBeUndefined()
  for (const secret of SECRETS) expect(JSON.stringify(told)).not.toContain(secret)
  return told
}

/** The terminal's explanation of it. */
async function explainedAtTerminal(sample: Sample): Promise<Explanation> {
  const args = [
    'explain',
    '-',
    '--json',
    '--data',
    server.data,
    '--key',
    keyOf(sample).hash,
    '--dialect',
    sample.dialect ?? 'chat',
  ]
  const { stdout, stderr, code } = await runCommand(args, {
    cwd: server.data,
    stdin: JSON.stringify(sample.body),
  })
  expect([code, stderr]).toEqual([0, ''])
  return JSON.parse(stdout)
}

// Only the server knows how fast they are.
const unmeasured = (told: Explanation) => ({
  ...told,
  endpoints: told.endpoints.map(one => ({ ...one, latency: null, throughput: null })),
})

async function send(sample: Sample) {
  const response = await server.fetch(pathOf(sample), { key: keyOf(sample).key, json: sample.body })
  return {
    status: response.status,
    id: response.headers.get('x-generation-id') ?? '',
    text: await response.text(),
  }
}

/** The endpoint that answers among those explained, while some are down. */
function expectedTries({ endpoints }: Explanation, ill: Name[]): string[] {
  const names = endpoints.map(({ provider }) => provider)
  const well = names.findIndex(name => !ill.includes(name as Name))
  return names.slice(0, well === -1 ? names.length : well + 1)
}

describe('an explanation matches what the call does:', () => {
  beforeAll(async () => {
    for (const name of [...NAMES, ...NAMES])
      await send({ body: { ...SAMPLES['nothing special']?.body, provider: { only: [name] } } })
  })

  test('for ten samples or more', () => {
    expect(Object.keys(SAMPLES).length).toBeGreaterThan(10)
  })

  test.each(Object.entries(SAMPLES))('%s', async (_, sample) => {
    down(...(sample.down ?? []))
    const told = await explained(sample)
    if (!sample.isMeasured)
      expect(unmeasured(await explainedAtTerminal(sample))).toEqual(unmeasured(told))
    const sent = await send(sample)
    if (sample.refused) return expectRefused(sample.refused, told, sent)
    expect(told.error).toBeNull()
    const generation = await fetchGeneration(server, sent.id, keyOf(sample).key)
    const tried = generation.provider_responses.map(one => one.provider_name as string)
    // What the call before it has measured may arrive in between.
    down(...(sample.down ?? []))
    const known = sample.isMeasured ? [told, await explained(sample)] : [told]
    expect(known.map(one => expectedTries(one, sample.down ?? []))).toContainEqual(tried)
    const serving = told.endpoints.find(one => one.provider === generation.provider_name)
    if (sample.answers) expect(serving?.provider).toBe(sample.answers)
    expect(sent.status).toBe(serving ? 200 : 502)
    for (const { provider } of told.dropped) expect(tried).not.toContain(provider)
    if (!serving) return
    expect([serving.model, serving.is_byok]).toEqual([
      generation.model,
      tried.length === 1 && sample.body.model === 'acme/owned',
    ])
    expect(serving.max_cost ?? 0).toBeGreaterThanOrEqual(generation.total_cost)
    expect(serving.estimated_cost?.usd ?? 0).toBeGreaterThanOrEqual(generation.total_cost)
    expect(told.set_aside?.credits ?? told.set_aside?.byok ?? 0).toBeGreaterThanOrEqual(
      serving.is_byok ? 0 : generation.total_cost,
    )
  })
})

function expectRefused(
  code: number,
  told: Explanation,
  sent: { status: number; text: string },
): void {
  const { error } = JSON.parse(sent.text) as { error: { metadata: { request_id?: string } } }
  delete error.metadata.request_id
  expect(told.error).toEqual(error as never)
  expect([told.error?.code, sent.status]).toEqual([code, code])
  expect(hits()).toEqual([0, 0, 0])
}

describe('it shows', () => {
  test('why endpoints are excluded, and by which field of which guardrail', async () => {
    const { dropped, policy } = await explained({
      body: { ...SAMPLES['a highest price']?.body },
      key: 'zdr',
    })
    const [guardrail] = policy.guardrails
    expect(guardrail).toMatchObject({ name: 'zdr', scope: 'key' })
    expect(dropped).toEqual([
      expect.objectContaining({ provider: 'first', excluded_by: 'max_price', guardrail: null }),
      expect.objectContaining({ provider: 'second', excluded_by: 'max_price', guardrail: null }),
      expect.objectContaining({
        provider: 'third',
        excluded_by: 'data_policy:zdr',
        guardrail: { id: guardrail?.id as string, field: 'enforce_zdr_other' },
      }),
    ])
  })

  test('which endpoints are skipped without fallbacks', async () => {
    const { endpoints, dropped } = await explained({
      body: { ...SAMPLES['the first and no other']?.body },
    })
    expect(endpoints.map(one => one.provider)).toEqual(['first'])
    expect(dropped.map(one => [one.provider, one.excluded_by])).toEqual([
      ['second', 'allow_fallbacks'],
      ['third', 'allow_fallbacks'],
    ])
  })

  test('what filters found without the text, also where they block', async () => {
    for (const key of ['filtered', 'redacted'] as const) {
      const { policy } = await explained({
        body: { ...SAMPLES['a text that is blocked']?.body },
        key,
      })
      const action = key === 'filtered' ? 'block' : 'redact'
      expect(policy.filters).toEqual([
        expect.objectContaining({ filter: 'email', action, looks_at: ['prompt'], found: 1 }),
      ])
    }
  })

  test('the preset, and which parameters the endpoints would not get', async () => {
    const told = await explained({ body: { ...SAMPLES['a preset']?.body, seed: 7 } })
    expect(told.preset).toMatchObject({ slug: 'careful', version: 1 })
    expect(told.endpoints.map(one => [one.provider, one.ignored_parameters])).toEqual([
      ['second', []],
      ['first', ['seed']],
      ['third', []],
    ])
    expect(told.endpoints.map(one => one.estimated_cost?.completion_tokens)).toEqual([20, 20, 20])
  })

  test('how much each limit pays for', async () => {
    const scarce = await explained({
      ...SAMPLES['a limit that pays for a shorter answer'],
    } as Sample)
    expect(scarce.policy.limits).toEqual([
      expect.objectContaining({
        account: `key ${keys.scarce.hash}`,
        limit_usd: 0.01,
        pays: 'less',
      }),
    ])
    expect(scarce.endpoints[0]?.estimated_cost?.bounded_by).toBe('limit')
    expect(2 * (scarce.set_aside?.credits ?? 0)).toBe(
      scarce.policy.limits[0]?.remaining_usd as number,
    )
    const poor = await explained({ ...SAMPLES['a limit that is reached'] } as Sample)
    expect(poor.policy.limits.map(one => one.pays)).toEqual(['no'])
    expect([poor.endpoints.length, poor.set_aside]).toEqual([3, null])
  })
})

describe('endpoints in weighted order', () => {
  // Weights by the price, not its square, would be eight sigmas away.
  const TIMES = LONG ? 2_000 : 300
  const PRICES = { cheap: 1, middle: 2, dear: 4 }

  test(`come first as often as predicted, in ${TIMES} calls over prices of 1:2:4`, async () => {
    await using upstream = await startUpstream()
    upstream.answer(() => completion('Hello', {}, { headers: { connection: 'keep-alive' } }))
    const providers = Object.keys(PRICES).map(name => [
      name,
      {
        protocol: 'openai-chat',
        base_url: upstream.url.replace('/v1', `/${name}`),
        api_key: 'mock',
      },
    ])
    const endpoints = Object.entries(PRICES).map(([provider, usd]) => ({
      provider,
      model: 'm',
      usd_per_million_tokens: { prompt: usd, completion: usd },
    }))
    await using drawing = await startLocalServer({
      providers: Object.fromEntries(providers),
      models: [{ id: 'acme/small', endpoints }],
    })
    const body = SAMPLES['nothing special']?.body ?? {}
    const told = await made<Explanation>(
      drawing.fetch('/chat/completions', {
        key: drawing.management_key,
        json: { ...body, debug: { dry_run: true } },
      }),
    )
    let left = TIMES
    const ask = async () => {
      while (left-- > 0)
        expect((await drawing.fetch('/chat/completions', { json: body })).status).toBe(200)
    }
    await Promise.all(Array.from({ length: 12 }, ask))
    expect(upstream.hits).toHaveLength(TIMES)
    expect(
      told.endpoints.reduce((sum, { probability }) => sum + (probability ?? 0), 0),
    ).toBeCloseTo(1)
    for (const { provider, probability } of told.endpoints) {
      const asked = upstream.hits.filter(({ path }) => path.startsWith(`/${provider}/`)).length
      const sigma = Math.sqrt(TIMES * (probability ?? 0) * (1 - (probability ?? 0)))
      expect([provider, Math.abs(asked - TIMES * (probability ?? 0)) < 5 * sigma]).toEqual([
        provider,
        true,
      ])
    }
  })
})
