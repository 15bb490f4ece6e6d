import { runChecks } from '../../src/app/doctor.ts'
import type { Gateway } from '../../src/app/gateway.ts'
import { getCredits } from '../../src/limits/credits.ts'
import { getActivity } from '../../src/observability/activity.ts'
import { DIMENSIONS } from '../../src/observability/analytics/dimensions.ts'
import { queryAnalytics } from '../../src/observability/analytics.ts'
import { createDestination } from '../../src/observability/destinations.ts'
import type { Generation } from '../../src/observability/generations/store.ts'
import { openMetrics } from '../../src/observability/metrics.ts'
import { reprice } from '../../src/observability/repricing.ts'
import { evictRows } from '../../src/observability/retention.ts'
import { recomputeRollups } from '../../src/observability/rollups.ts'
import { summarizeUsage, USAGE_GROUPS } from '../../src/observability/usage.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createByokKey } from '../../src/resources/byok.ts'
import { createKey } from '../../src/resources/keys.ts'
import { createWorkspace, updateWorkspace } from '../../src/resources/workspaces.ts'
import { createApp } from '../../src/server/app.ts'
import { openBroadcastHouse, watchDeliveries } from './broadcast.ts'
import { runCommand } from './commands.ts'
import { SAMPLES } from './destination-samples.ts'
import { TestClock } from './gateway.ts'
import { decodeOutgoing } from './outgoing.ts'
import { createSeededIntegers } from './random.ts'
import { createPlayedProvider, PATHS, type Plan, SECONDS } from './recount/provider.ts'

const DAY = 86_400_000
const DAYS = 42
const START = Date.parse('2026-01-01T00:00:00.000Z')

/** USD per million tokens, or per unit, as the config has them and the ledger here counts them. */
const PRICES = {
  'acme/small': { prompt: 1, completion: 2, cache_read: 0.25 },
  'acme/large': { prompt: 2.5, completion: 10, reasoning: 12, request: 0.0001 },
  'acme/unpriced': null,
  'acme/embed': { prompt: 0.02, completion: 0 },
  'acme/draw': { prompt: 0, completion: 0, per_image: 0.04 },
  'acme/rank': { prompt: 0.05, completion: 0 },
  'acme/speak': { prompt: 0, completion: 0, per_character: 0.001 },
  'acme/hear': { prompt: 0, completion: 0, per_input_second: 0.003 },
} as const
type ModelName = keyof typeof PRICES
const CHATS: ModelName[] = ['acme/small', 'acme/large', 'acme/unpriced']

const OUTPUTS: Partial<Record<ModelName, string>> = {
  'acme/embed': 'embeddings',
  'acme/draw': 'image',
  'acme/rank': 'rerank',
  'acme/speak': 'speech',
  'acme/hear': 'transcription',
}

/** A call, or a correction, as the ledger of this recount has it: money in nano-dollars. */
interface Entry {
  id: string
  calls: 0 | 1
  at: number
  key: string
  workspace: string
  model: string
  app: string
  session: string
  byok: boolean
  /** What its provider takes. */
  cost: bigint
  tokens: [prompt: number, completion: number]
  end: 'ok' | 'failed' | 'cancelled'
}

/** Prices what a provider has counted: 10⁻¹⁸ USD, summed, and rounded once. */
function price(model: ModelName, plan: Plan, units: number): bigint | null {
  const rates: Record<string, number> | null = PRICES[model]
  if (!rates) return null
  const perToken = (name: string, otherwise: string) =>
    BigInt(Math.round((rates[name] ?? rates[otherwise] ?? 0) * 1e12))
  const perUnit = (name: string) => BigInt(Math.round((rates[name] ?? 0) * 1e9)) * 1_000_000_000n
  const attos =
    BigInt(plan.prompt - plan.cached) * perToken('prompt', 'prompt') +
    BigInt(plan.cached) * perToken('cache_read', 'prompt') +
    BigInt(plan.completion - plan.reasoning) * perToken('completion', 'completion') +
    BigInt(plan.reasoning) * perToken('reasoning', 'completion') +
    BigInt(units) *
      (perUnit('per_image') + perUnit('per_character') + perUnit('per_input_second')) +
    perUnit('request')
  return (attos + 500_000_000n) / 1_000_000_000n
}

/** What some entries come to, in the words of the answers. */
const sum = (entries: Entry[]) => ({
  calls: entries.reduce((all, one) => all + one.calls, 0),
  cost: entries.reduce((all, one) => all + (one.byok ? 0n : one.cost), 0n),
  byok: entries.reduce((all, one) => all + (one.byok ? one.cost : 0n), 0n),
  prompt: entries.reduce((all, one) => all + one.tokens[0], 0),
  completion: entries.reduce((all, one) => all + one.tokens[1], 0),
  failed: entries.filter(({ end }) => end === 'failed').length,
  cancelled: entries.filter(({ end }) => end === 'cancelled').length,
})

type Sum = ReturnType<typeof sum>

const toNanos = (usd: unknown): bigint => BigInt(Math.round(Number(usd) * 1e9))

/** Adds numbers that an answer has in several rows. */
class Told extends Map<string, Sum> {
  add(name: string, row: Record<string, unknown>, names: Record<keyof Sum, string>): void {
    const before = this.get(name) ?? sum([])
    const count = (key: keyof Sum) => Number(row[names[key]] ?? 0)
    this.set(name, {
      calls: before.calls + count('calls'),
      cost: before.cost + toNanos(row[names.cost]),
      byok: before.byok + toNanos(row[names.byok]),
      prompt: before.prompt + count('prompt'),
      completion: before.completion + count('completion'),
      failed: before.failed + count('failed'),
      cancelled: before.cancelled + count('cancelled'),
    })
  }
}

/** Runs a recount and returns what differs, surface by surface. */
export async function recount(count: number, seed: number, data: string): Promise<string[]> {
  const draw = createSeededIntegers(seed)
  const pick = <Value>(values: readonly Value[]): Value => values[draw(values.length)] as Value
  const clock = new TestClock(new Date(START).toISOString())
  const provider = createPlayedProvider()
  const told: string[] = []
  const house = await openBroadcastHouse({
    ...{ data, clock, resolve: async () => ['93.184.215.14'] },
    egress: provider.createSend(body => told.push(decodeOutgoing(body))),
    config: {
      routing: { choice: 'listed', failures: 0 },
      providers: { local: { protocol: 'openai-chat', base_url: PATHS.base, api_key: 'mock' } },
      models: (Object.keys(PRICES) as ModelName[]).map(id => ({
        ...{ id, context_length: 1_000_000 },
        ...(OUTPUTS[id] ? { output_modalities: [OUTPUTS[id]] } : {}),
        endpoints: [
          {
            ...{ provider: 'local', model: 'up' },
            ...(PRICES[id] ? { usd_per_million_tokens: PRICES[id] } : {}),
          },
        ],
      })),
    },
  })
  const { gateway, operator, workspace_id: home } = house
  const metrics = openMetrics(gateway)
  const other = (await createWorkspace(gateway, operator, { name: 'Other', slug: 'other' })).data.id
  await updateWorkspace(gateway, operator, other, { is_observability_broadcast_enabled: true })
  await createByokKey(gateway, operator, {
    ...{ provider: 'local', key: 'sk-theirs-12345678', workspace_id: other },
  })
  for (const workspace_id of [home, other])
    await createDestination(gateway, operator, {
      ...{ type: 's3', name: 's3', config: SAMPLES.s3.least, workspace_id },
    })
  const keys = await Promise.all(
    [home, home, other].map(async (workspace_id, i) => {
      const { key, data: made } = await createKey(gateway, operator, {
        ...{ name: `key-${i}`, workspace_id },
      })
      return { key, hash: made.hash, workspace_id, name: `key-${i}` }
    }),
  )
  const app = createApp(gateway)
  const entries: Entry[] = []

  for (let i = 0; i < count; i++) {
    const left = START + DAYS * DAY - clock.now().getTime()
    clock.pass(draw(Math.floor((2 * left) / (count - i + 1)) + 1))
    const key = pick(keys)
    const kind = pick(['chat', 'chat', 'stream', 'stream', 'messages', 'responses', ...MEDIA])
    const model = MODELS[kind] ?? pick(CHATS)
    const end = kind === 'stream' ? pick(ENDS) : pick(['ok', 'ok', 'ok', 'failed'] as const)
    const prompt = 1 + draw(5_000)
    const completion = kind === 'embed' || kind === 'rank' ? 0 : 1 + draw(900)
    const hasTokens = !['draw', 'speak', 'hear'].includes(kind)
    const isChat = MODELS[kind] === undefined
    const plan: Plan = {
      prompt: hasTokens ? prompt : 0,
      completion: hasTokens ? completion : 0,
      cached: isChat ? draw(prompt) : 0,
      reasoning: isChat ? draw(completion) : 0,
      end,
    }
    const place = pick(APPS)
    const session = pick(['', 's-1', 's-2'])
    const speech = 'x'.repeat(1 + draw(50))
    const units = { speak: speech.length, draw: 1, hear: SECONDS }[kind] ?? 0
    const finished = waitForRecord(gateway)
    const response = await app.handle(
      new Request(`http://localhost/api/v1${PATHS[kind]}`, {
        method: 'POST',
        headers: {
          ...{ authorization: `Bearer ${key.key}`, 'content-type': 'application/json' },
          ...(place ? { 'http-referer': place.url, 'x-title': place.name } : {}),
          ...(session ? { 'x-session-id': session } : {}),
        },
        body: JSON.stringify(provider.buildBody(kind, model, plan, speech)),
      }),
    )
    if (end === 'cancelled') await leave(response, provider.goOn)
    else await response.arrayBuffer()
    const record = await finished
    const isPaid = end !== 'failed'
    const counted = readCounted(plan, record)
    const cost = isPaid ? (price(model, counted, units) ?? 0n) : 0n
    entries.push({
      ...{ id: record.id, calls: 1, at: Date.parse(record.settled_at), key: key.hash },
      ...{ workspace: key.workspace_id, model, app: place?.name ?? 'Unknown', end, cost },
      session: session || 'none',
      byok: key.workspace_id === other,
      tokens: isPaid ? [counted.prompt, counted.completion] : [0, 0],
    })
  }
  clock.pass(START + (DAYS + 1) * DAY - clock.now().getTime())

  const found: string[] = []
  const check = createComparison(found)
  await checkDestinations(gateway, told, entries, found)
  checkMetrics(metrics.renderText(), entries, found)
  const names = {
    key: new Map(keys.map(({ hash, name }) => [hash, name])),
    workspace: new Map([
      [home, 'Default'],
      [other, 'Other'],
    ]),
  }
  const checkAll = async (when: string) => {
    await checkSums(gateway, entries, names, (what, ...rest) => check(`${when}: ${what}`, ...rest))
    checkKeys(gateway, entries, `${when}: keys`, found)
    const checks = await runChecks(gateway, gateway.secrets.mac)
    found.push(...checks.flatMap(({ problems }) => problems.map(one => `${when}: doctor: ${one}`)))
  }
  await checkAll('as recorded')
  const correction = await repriceSmall(gateway, entries)
  if (correction !== '') found.push(correction)
  await checkAll('after repricing')
  await recomputeRollups(gateway)
  await checkAll('after recompute')
  await checkCommands(data, entries, check)
  gateway.config = {
    ...gateway.config,
    retention: { ...gateway.config.retention, generations_days: 30 },
  }
  await evictRows(gateway)
  await checkAll('after retention')
  await house.close()
  return found
}

const MEDIA = ['embed', 'draw', 'rank', 'speak', 'hear'] as const
const MODELS: Partial<Record<string, ModelName>> = {
  embed: 'acme/embed',
  draw: 'acme/draw',
  rank: 'acme/rank',
  speak: 'acme/speak',
  hear: 'acme/hear',
}

const ENDS = ['ok', 'ok', 'failed', 'cancelled'] as const
const APPS = [
  null,
  { name: 'Alpha', url: 'https://alpha.example' },
  { name: 'Beta', url: 'https://beta.example' },
]

/**
 * Returns what is to be priced. Where no provider has counted, as of calls whose client left and of
 * pictures and sounds, that is the gateway's estimate.
 */
const readCounted = (plan: Plan, record: Generation): Plan =>
  plan.end === 'cancelled' || plan.prompt === 0
    ? {
        ...{ prompt: record.native_tokens_prompt, completion: record.native_tokens_completion },
        ...{ cached: 0, reasoning: 0, end: plan.end },
      }
    : plan

/** Waits for the next call that is on record. */
const waitForRecord = (gateway: Gateway): Promise<Generation> =>
  new Promise(resolve => {
    const remove = gateway.events.on('generation.finished', generation => {
      remove()
      resolve(generation)
    })
  })

/** Reads the first words of a stream and leaves; its provider goes on then. */
async function leave(response: Response, goOn: () => void): Promise<void> {
  const reader = response.body?.getReader()
  let text = ''
  while (reader && !text.includes('data: {')) {
    const { done, value } = await reader.read()
    if (done) break
    text += Buffer.from(value).toString()
  }
  await reader?.cancel()
  goOn()
}

type Check = (what: string, told: Told, expected: Map<string, Sum>, isPart?: boolean) => void

/** Compares sums by name. What an answer does not have is left out of both where it is a part. */
const createComparison =
  (found: string[]): Check =>
  (what, told, expected, isPart = false) => {
    const show = (one: Sum) => JSON.stringify(isPart ? pickPart(one) : one, renderBig)
    const isEmpty = (one: Sum) => show(one) === show(sum([]))
    for (const name of new Set([...told.keys(), ...expected.keys()])) {
      const [is, should] = [told.get(name) ?? sum([]), expected.get(name) ?? sum([])]
      if (show(is) !== show(should) && !(isEmpty(is) && isEmpty(should)))
        found.push(`${what}: ${name} is ${show(is)}, not ${show(should)}`)
    }
  }

const pickPart = ({ calls, cost, byok, prompt, completion }: Sum) => ({
  ...{ calls, cost, byok, prompt, completion },
})

const renderBig = (_: string, value: unknown) => (typeof value === 'bigint' ? String(value) : value)

const groupBy = (entries: Entry[], read: (entry: Entry) => string): Map<string, Sum> =>
  new Map([...Map.groupBy(entries, read)].map(([name, group]) => [name, sum(group)]))

interface Names {
  key: Map<string, string>
  workspace: Map<string, string>
}

const renderDay = ({ at }: Entry): string => new Date(at).toISOString().slice(0, 10)

const METRICS: Record<keyof Sum, string> = {
  ...{ calls: 'request_count', cost: 'credits_usage', byok: 'byok_usage' },
  ...{ prompt: 'tokens_prompt', completion: 'tokens_completion' },
  ...{ failed: 'error_count', cancelled: 'cancelled_count' },
}

const USAGE: Record<keyof Sum, string> = {
  ...{ calls: 'calls', cost: 'cost', byok: 'byok_cost', prompt: 'input_tokens' },
  ...{ completion: 'output_tokens', failed: '', cancelled: '' },
}

/** Checks activity, analytics by each dimension, and usage by each grouping. */
async function checkSums(gateway: Gateway, entries: Entry[], names: Names, check: Check) {
  const operator = getOperator(gateway)
  const complete = (await gateway.store.rollups.findComplete()) * 3_600_000
  for (const { name, sum: isSummed } of DIMENSIONS.values()) {
    const told = new Told()
    for (const day of [0, 21]) {
      const [start, end] = [START + day * DAY, START + (day + 21 + day / 21) * DAY]
      const { data } = await queryAnalytics(gateway, operator, {
        ...{ metrics: Object.values(METRICS), dimensions: [name], limit: 10_000 },
        time_range: { start: new Date(start).toISOString(), end: new Date(end).toISOString() },
      })
      for (const row of data.data) told.add(String(row[name]), row, METRICS)
    }
    const isKept = ({ at }: Entry) => isSummed !== null || at >= complete
    const kept = entries.filter(isKept)
    const read = READERS[name]
    if (read)
      check(
        `analytics by ${name}`,
        told,
        groupBy(kept, entry => read(entry, names)),
      )
    else check(`analytics by ${name}`, addAll(told), new Map([['all', sum(kept)]]))
  }
  for (const group of USAGE_GROUPS) {
    const { data } = await summarizeUsage(gateway, { by: [group] })
    const told = new Told()
    for (const row of data) told.add(String(row[group] ?? ''), { ...row }, USAGE)
    const read = USAGE_READERS[group]
    if (read) check(`usage by ${group}`, told, groupBy(entries, read), true)
    else check(`usage by ${group}`, addAll(told), new Map([['all', sum(entries)]]), true)
  }
  const today = gateway.clock.now().getTime()
  const recent = entries.filter(({ at }) => at >= Math.floor(today / DAY) * DAY - 30 * DAY)
  const told = new Told()
  for (const row of (await getActivity(gateway, operator, {})).data)
    told.add(`${row.date} ${row.model}`, row, {
      ...{ calls: 'requests', cost: 'usage', byok: 'byok_usage_inference' },
      ...{ prompt: 'prompt_tokens', completion: 'completion_tokens', failed: '', cancelled: '' },
    })
  check(
    'activity',
    told,
    groupBy(recent, one => `${renderDay(one)} ${one.model}`),
    true,
  )
}

/** Adds up groups whose names the recount does not know. */
function addAll(told: Told): Told {
  const all = new Told()
  const zero = sum([])
  for (const one of told.values())
    for (const name of Object.keys(zero) as (keyof Sum)[])
      Object.assign(zero, { [name]: (zero[name] as never) + (one[name] as never) })
  return all.set('all', zero) as Told
}

const READERS: Record<string, (entry: Entry, names: Names) => string> = {
  model: ({ model }) => model,
  api_key_id: ({ key }, names) => names.key.get(key) ?? '',
  workspace: ({ workspace }, names) => names.workspace.get(workspace) ?? '',
  app: ({ app }) => app,
  generation_id: ({ id }) => id,
  session_id: ({ session }) => session,
  error_type: ({ end }) =>
    end === 'failed' ? 'provider_unavailable' : end === 'cancelled' ? 'cancelled' : '',
}

const USAGE_READERS: Partial<Record<string, (entry: Entry) => string>> = {
  day: renderDay,
  month: entry => `${renderDay(entry).slice(0, 7)}-01`,
  hour: ({ at }) => `${new Date(at).toISOString().slice(0, 13)}:00:00Z`,
  model: ({ model }) => model,
  key: ({ key }) => key,
  workspace: ({ workspace }) => workspace,
}

/** Checks what keys, workspaces and the balance say. */
function checkKeys(gateway: Gateway, entries: Entry[], what: string, found: string[]): void {
  const expect = (name: string, is: bigint, should: bigint) => {
    if (is !== should) found.push(`${what}: ${name} is ${is}, not ${should}`)
  }
  const today = Math.floor(gateway.clock.now().getTime() / DAY)
  for (const [hash, own] of Map.groupBy(entries, ({ key }) => key)) {
    const all = sum(own)
    expect(`${hash} own`, gateway.ledger.getSpent(`key ${hash}`, null, false), all.cost)
    expect(`${hash} byok`, gateway.ledger.getSpent(`key ${hash}`, null, true), all.byok)
    const daily = sum(own.filter(({ at }) => Math.floor(at / DAY) === today))
    expect(`${hash} daily`, gateway.ledger.getSpent(`key ${hash}`, 'daily', false), daily.cost)
    const month = new Date(today * DAY).toISOString().slice(0, 7)
    const monthly = sum(own.filter(one => renderDay(one).startsWith(month)))
    expect(
      `${hash} monthly`,
      gateway.ledger.getSpent(`key ${hash}`, 'monthly', false),
      monthly.cost,
    )
  }
  for (const [id, own] of Map.groupBy(entries, ({ workspace }) => workspace))
    expect(
      `workspace ${id}`,
      gateway.ledger.getSpent(`workspace ${id}`, null, false),
      sum(own).cost,
    )
  const { data } = getCredits(gateway, getOperator(gateway))
  expect('credits', toNanos(data.total_usage), sum(entries).cost)
}

/** Checks what Prometheus reads. */
function checkMetrics(text: string, entries: Entry[], found: string[]): void {
  const read = (name: string): number =>
    [...text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (.+)$`, 'gm'))].reduce(
      (all, [, value]) => all + Number(value),
      0,
    )
  const all = sum(entries)
  const expected: [name: string, value: bigint, isMoney: boolean][] = [
    ['gateway_generations_total', BigInt(all.calls), false],
    ['gateway_calls_total', BigInt(all.calls), false],
    ['gateway_cost_usd_total', all.cost, true],
    ['gateway_model_cost_usd_total', all.cost, true],
    ['gateway_tokens_total', BigInt(all.prompt + all.completion), false],
  ]
  for (const [name, value, isMoney] of expected) {
    const is = isMoney ? toNanos(read(name)) : BigInt(read(name))
    if (is !== value) found.push(`metrics: ${name} is ${is}, not ${value}`)
  }
}

/** Compares what a destination was told of each call with its record, and both with the ledger. */
async function checkDestinations(
  gateway: Gateway,
  told: string[],
  entries: Entry[],
  found: string[],
): Promise<void> {
  const { waitForCalls } = watchDeliveries(gateway)
  await gateway.deliveries.start()
  await waitForCalls(entries.length)
  await gateway.deliveries.stop()
  const bodies = new Map(told.map(body => [JSON.parse(body).id as string, JSON.parse(body)]))
  for (const entry of entries) {
    const [body, record] = [bodies.get(entry.id), await gateway.store.generations.byId(entry.id)]
    if (!body || !record) {
      found.push(`destinations: ${entry.id} is missing`)
      continue
    }
    const isPriced = record.total_cost !== null
    const expected = {
      model: record.model,
      kind: API_KINDS[record.api_type] ?? 'text',
      promptTokens: record.native_tokens_prompt,
      completionTokens: record.native_tokens_completion,
      cachedTokens: record.native_tokens_cached,
      reasoningTokens: record.native_tokens_reasoning,
      totalCost: isPriced ? Number(record.total_cost) / 1e9 : null,
      providerName: record.provider_name,
      streamed: record.streamed,
      sessionId: record.session_id,
      firstTokenMs: record.latency,
      errorType: record.error_type,
      cost: String(entry.byok ? 0n : entry.cost),
      partsAddUp: true,
    }
    const parts = toNanos(body.inputCost ?? 0) + toNanos(body.outputCost ?? 0)
    const is = {
      ...Object.fromEntries(Object.keys(expected).map(name => [name, body[name]])),
      errorType: body.error?.type ?? null,
      cost: String(record.total_cost ?? 0n),
      partsAddUp: parts === toNanos(body.totalCost ?? 0),
    }
    for (const [name, value] of Object.entries(expected))
      if (!Bun.deepEquals(is[name as keyof typeof is], value))
        found.push(
          `destinations: ${entry.id} ${name} is ${is[name as keyof typeof is]}, not ${value}`,
        )
  }
}

const API_KINDS: Record<string, string> = {
  embeddings: 'embedding',
  image: 'image',
  rerank: 'rerank',
  tts: 'speech',
  stt: 'transcription',
}

/** What a correction has none of. */
const NO_CALL = {
  id: '',
  calls: 0,
  tokens: [0, 0],
  session: 'none',
  end: 'ok',
} satisfies Partial<Entry>

/** Reprices a model for ten days, and writes the corrections into the ledger of this recount. */
async function repriceSmall(gateway: Gateway, entries: Entry[]): Promise<string> {
  const to = START + 9 * DAY
  const meant = entries.filter(
    one => one.model === 'acme/small' && one.end !== 'failed' && one.at < to + DAY,
  )
  const { was, is } = { was: { prompt: 1, completion: 2, cache_read: 0.25 }, is: { prompt: 3 } }
  const corrections: Entry[] = []
  for (const one of meant) {
    const record = await gateway.store.generations.byId(one.id)
    const cached = BigInt(record?.native_tokens_cached ?? 0)
    const added = (BigInt(one.tokens[0]) - cached) * 2_000n
    const at = Math.floor(one.at / DAY) * DAY + DAY - 1
    corrections.push({ ...one, ...NO_CALL, at, cost: added })
  }
  const { total } = await reprice(gateway, getOperator(gateway), {
    ...{ model: 'acme/small', provider: 'local', from: '2026-01-01', to: '2026-01-10' },
    ...{ was_prompt: was.prompt, was_completion: was.completion, was_cache_read: was.cache_read },
    ...{ prompt: is.prompt, completion: was.completion, cache_read: was.cache_read },
  })
  // The ids of corrections are the gateway's: each stands for several here.
  const made = await gateway.store.generations.list({ model: 'acme/small' }, 10_000)
  const records = made.filter(({ api_type }) => api_type === 'correction')
  for (const one of corrections)
    one.id =
      records.find(
        record =>
          record.key_hash === one.key &&
          Date.parse(record.settled_at) === one.at &&
          (record.title ?? 'Unknown') === one.app,
      )?.id ?? 'missing'
  entries.push(...corrections)
  const expected = corrections.reduce((all, { cost }) => all + cost, 0n)
  return toNanos(total.difference_usd) === expected
    ? ''
    : `repricing: ${total.difference_usd} USD, not ${expected} nano-dollars`
}

/** Checks the files that commands write. */
async function checkCommands(data: string, entries: Entry[], check: Check): Promise<void> {
  const usage = await runCommand(['usage', '--by', 'model', '--csv', '--data', data])
  const told = new Told()
  for (const row of readCsv(usage.stdout)) told.add(row.model ?? '', row, USAGE)
  check(
    'usage --csv',
    told,
    groupBy(entries, ({ model }) => model),
    true,
  )
  const EXPORTED = {
    ...{ cost: 'total_cost', byok: 'byok', calls: 'calls', failed: '', cancelled: '' },
    ...{ prompt: 'native_tokens_prompt', completion: 'native_tokens_completion' },
  }
  for (const format of ['csv', 'ndjson']) {
    const { stdout, stderr } = await runCommand([
      ...['export', 'generations', '--format', format, '--data', data],
    ])
    if (stdout === '') throw new Error(stderr)
    const rows: Record<string, unknown>[] =
      format === 'csv'
        ? readCsv(stdout)
        : stdout
            .trim()
            .split('\n')
            .map(line => JSON.parse(line))
    const exported = new Told()
    for (const row of rows) {
      const isByok = String(row.is_byok) === 'true'
      const calls = String(row.id).startsWith('correction') ? 0 : 1
      const byok = isByok ? row.upstream_inference_cost || 0 : 0
      exported.add(String(row.model), { ...row, calls, byok }, EXPORTED)
    }
    check(
      `export --format ${format}`,
      exported,
      groupBy(entries, ({ model }) => model),
      true,
    )
  }
}

/** Reads a CSV whose cells have no commas inside quotes that matter here. */
function readCsv(text: string): Record<string, string>[] {
  const [heading = [], ...rows] = text
    .trim()
    .split(/\r?\n/)
    .map(line => [...line.matchAll(/("(?:[^"]|"")*"|[^,]*)(?:,|$)/g)].map(([, cell = '']) => cell))
  return rows.map(row => Object.fromEntries(heading.map((name, i) => [name, row[i] ?? ''])))
}
