import { afterAll, beforeAll, expect, test } from 'bun:test'
import type { Json } from '../../src/base/json.ts'
import { createApp } from '../../src/server/app.ts'
import { type DescribedRoute, listDescribedRoutes } from '../../src/server/openapi.ts'
import { createLimitedKey, fetchKeyState, readMetric, waitUntil } from '../support/chat.ts'
import { testGateway } from '../support/gateway.ts'
import { listNumberFields, mergeBodies } from '../support/numbers.ts'
import { createSeededIntegers, LONG, SEED } from '../support/random.ts'
import { INPUT_AUDIO } from '../support/recording.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import {
  completion,
  type Hit,
  head,
  json,
  type Script,
  startUpstream,
  type Upstream,
} from '../support/upstream.ts'

/*
 * Every field that takes a number, of the schema of every door at which a key spends, uploads or
 * runs something, gets every kind of wrong number, and two fields at once do; several calls at a
 * time on a small limit. Either the call is refused before it is sent, or the limit holds. The
 * provider does as it is asked, reads counts leniently, and charges for all of it.
 */

const CASES = LONG ? Number(process.env.CASES ?? 10_000) : 60
const LIMIT = 0.01
const AT_ONCE = 6

const VALUES = [
  ...[-1, 0, 0.5, 3, 9_000.5, 1e300, 2 ** 53, -(2 ** 53), '1', '-1', '-1000000000', 'NaN', '1e9'],
  ...[[3], [-1], {}, true, null],
]

const messages = [{ role: 'user', content: 'Hi' }]
const TEXT = ['acme/compatible', 'acme/claude']
/** The doors, and a call at each that costs a part of the limit. */
const DOORS: Record<string, { models: string[]; base: Json }> = {
  sendChatCompletionRequest: { models: TEXT, base: { messages, max_tokens: 2_000 } },
  sendCompletionRequest: { models: TEXT, base: { prompt: 'Hi', max_tokens: 2_000 } },
  createMessages: { models: TEXT, base: { messages, max_tokens: 2_000 } },
  createResponses: { models: TEXT, base: { input: 'Hi', max_output_tokens: 2_000 } },
  createEmbeddings: { models: ['acme/embed'], base: { input: 'Hi' } },
  createRerank: { models: ['acme/rank'], base: { query: 'Hi', documents: ['Hi', 'Ho'] } },
  createImages: { models: ['acme/draw'], base: { prompt: 'Hi' } },
  createAudioSpeech: { models: ['acme/speak'], base: { input: 'Hello' } },
  createAudioTranscriptions: { models: ['acme/listen'], base: { input_audio: INPUT_AUDIO } },
}
/** What is stored or run beside: nothing of it costs, and nothing of it may fail. */
const BESIDE = /files|containers/

let upstream: Upstream
let server: LocalServer
/** How many times as much a provider charges as it was asked for. */
let greed = 1

beforeAll(async () => {
  upstream = await startUpstream()
  upstream.answer(answerHonestly)
  const base = { base_url: upstream.url, api_key: 'mock' }
  const endpoint = (provider: string, prices: Json = {}) => ({
    provider,
    model: 'm',
    max_completion_tokens: 4_096,
    usd_per_million_tokens: { prompt: 1, completion: 1, web_search: 0.001, ...prices },
  })
  const model = (id: string, output: string, prices: Json) => ({
    id,
    output_modalities: [output],
    endpoints: [endpoint('compatible', { prompt: 0, completion: 0, ...prices })],
  })
  server = await startLocalServer({
    providers: {
      compatible: { ...base, protocol: 'openai-chat' },
      claude: { ...base, protocol: 'anthropic-messages' },
    },
    models: [
      { id: 'acme/compatible', context_length: 100_000, endpoints: [endpoint('compatible')] },
      { id: 'acme/claude', context_length: 100_000, endpoints: [endpoint('claude')] },
      model('acme/embed', 'embeddings', { prompt: 1_000 }),
      model('acme/rank', 'rerank', { prompt: 1_000 }),
      model('acme/draw', 'image', { per_image: 0.004 }),
      model('acme/speak', 'speech', { per_character: 0.0008 }),
      model('acme/listen', 'transcription', { per_input_second: 0.03 }),
    ],
  })
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='

function answerHonestly({ path, json: body }: Hit): Script {
  const asked = body as Json | undefined
  const answers = greed * (findLargest(asked, /^(n|best_of|num_return_sequences)$/) ?? 1)
  if (path.endsWith('/embeddings')) return embed(asked ?? {})
  if (path.endsWith('/rerank'))
    return json({ results: [{ index: 0, relevance_score: 1 }], usage: { total_tokens: 2 * greed } })
  if (path.includes('/images'))
    return json({ created: 1, data: Array.from({ length: answers }, () => ({ b64_json: PNG })) })
  if (path.endsWith('/speech'))
    return [
      head(200, { 'content-type': 'audio/pcm', 'content-length': '4800' }),
      Buffer.alloc(4800),
    ]
  if (path.endsWith('/transcriptions')) return json({ text: 'Hi', duration: 0.1 * greed })
  const bound = findLargest(asked, /^(max_(completion_|new_|output_)?tokens|n_predict)$/) ?? 4_096
  const budget = findLargest(asked, /^(budget_tokens|thinking_budget|reasoning_budget)$/) ?? 0
  const tokens = (bound + budget) * answers
  if (!path.endsWith('/messages'))
    return completion('Hi', { usage: { prompt_tokens: 5, completion_tokens: tokens } })
  const usage = { input_tokens: 5, output_tokens: tokens }
  const content = [{ type: 'text', text: 'Hi' }]
  const answer = { id: 'msg_1', type: 'message', role: 'assistant', model: 'm' }
  return json({ ...answer, content, stop_reason: 'end_turn', usage })
}

function embed({ input, dimensions }: Json): Script {
  const count = Array.isArray(input) ? input.length : 1
  const length = Math.min(10, Math.max(1, Number(dimensions) || 3))
  const data = Array.from({ length: count }, (_, index) => ({
    object: 'embedding',
    index,
    embedding: new Array(Math.ceil(length)).fill(0.1),
  }))
  return json({ object: 'list', data, usage: { prompt_tokens: greed, total_tokens: greed } })
}

/** Finds the largest positive number under such a name, anywhere in a body. */
function findLargest(value: unknown, name: RegExp): number | undefined {
  const found: number[] = []
  JSON.stringify(value ?? null, (key, member) => {
    const number = Math.ceil(Number(member))
    if (name.test(key) && number > 0 && number < 1e7) found.push(number)
    return member
  })
  return found.length > 0 ? Math.max(...found) : undefined
}

interface Case {
  name: string
  path: string
  method: string
  model?: string
  body?: Json
  query?: string
}

const routes = listDescribedRoutes(createApp(await testGateway()))
const singles = routes.flatMap(listCases)

function listCases(route: DescribedRoute): Case[] {
  const { id, body, query } = route.operation
  const path = route.path.replace(/^\/api\/v1/, '').replace(/:\w+/g, 'x')
  const door = DOORS[id]
  const method = route.method.toUpperCase()
  if (!door && !BESIDE.test(path)) return []
  const ofBody = body
    ? listNumberFields(body).flatMap(({ name, build }) =>
        VALUES.flatMap(value =>
          (door?.models ?? [undefined]).map(model => ({
            name: `${id} ${model} ${name} of ${JSON.stringify(value)}`,
            ...{ path, method, body: build(value) },
            ...(model ? { model } : {}),
          })),
        ),
      )
    : []
  const ofQuery = query
    ? listNumberFields(query).flatMap(({ name }) =>
        VALUES.map(value => ({
          name: `${id} ?${name}=${value}`,
          ...{ path, method, query: `${new URLSearchParams({ [name]: String(value) })}` },
          ...(door ? { body: {} } : {}),
        })),
      )
    : []
  return [...ofBody, ...ofQuery]
}

/** Draws cases: some of one field, and the others of two at once. */
function drawCases(count: number): Case[] {
  const random = createSeededIntegers(SEED)
  const order = singles.map(one => ({ one, luck: random(1e9) })).sort((a, b) => a.luck - b.luck)
  const alone = order.slice(0, Math.ceil(count * 0.7)).map(({ one }) => one)
  const withBody = singles.filter(({ body }) => body !== undefined)
  while (alone.length < count) {
    const first = withBody[random(withBody.length)] as Case
    const others = withBody.filter(
      ({ path, model }) => path === first.path && model === first.model,
    )
    const second = others[random(others.length)] as Case
    const body = mergeBodies(first.body ?? {}, second.body ?? {})
    alone.push({ ...first, name: `${first.name} beside ${second.name}`, body })
  }
  return alone
}

/** Makes the calls of a case on a key of its own, and says what slips past its limit. */
async function findHarm({ name, path, method, model, body, query }: Case): Promise<string[]> {
  const key = await createLimitedKey(server, LIMIT)
  const sent = upstream.hits.length
  const door = Object.values(DOORS).find(({ models }) => model && models.includes(model))
  const base = Object.entries(DOORS).find(([id]) => name.startsWith(`${id} `))?.[1].base ?? {}
  const json = body ? { ...base, ...body, ...(door ? { model } : {}) } : undefined
  const ask = async () => {
    const options = { key, method, ...(json ? { json } : {}) }
    const response = await server.fetch(query ? `${path}?${query}` : path, options)
    await response.arrayBuffer()
    return response.status
  }
  const statuses = await Promise.all(Array.from({ length: AT_ONCE }, ask))
  await waitUntil(async () => (await readMetric(server, 'gateway_running_calls')) === 0)
  const { usage } = await fetchKeyState(server, key)
  return [
    ...(statuses.some(status => status >= 500) ? [`${name}: ${statuses}`] : []),
    ...(usage > LIMIT ? [`${name}: ${usage} spent`] : []),
    ...(statuses.includes(400) && upstream.hits.length > sent ? [`${name}: sent`] : []),
  ]
}

test('the cases are of every door, its tools and its plugins', () => {
  for (const id of Object.keys(DOORS))
    expect(singles.filter(({ name }) => name.startsWith(`${id} `)).length).toBeGreaterThan(17)
  expect(singles.filter(({ path }) => BESIDE.test(path)).length).toBeGreaterThan(17)
})

test(`no number spends more than a limit (${CASES} of ${singles.length} and pairs, seed ${SEED})`, async () => {
  const found: string[] = []
  for (const one of drawCases(CASES)) {
    found.push(...(await findHarm(one)))
    upstream.hits.length = 0
  }
  expect(found).toEqual([])
}, 7_200_000)

test('a planted bug is found: a provider is asked for more than was held', async () => {
  greed = 6
  const one = singles.filter(({ name }) => /sendChat.* acme.compatible seed of 3$/.test(name))
  const found = (await Promise.all(one.map(findHarm))).flat()
  greed = 1
  expect(found).not.toEqual([])
})
