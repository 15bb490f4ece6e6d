import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { isObject, type Json } from '../../src/base/json.ts'
import { createLimitedKey, fetchKeyState, readMetric, waitUntil } from '../support/chat.ts'
import { createSeededIntegers, LONG, SEED } from '../support/random.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { completion, json, type Script, startUpstream, type Upstream } from '../support/upstream.ts'

/*
 * Issue: "every limit can be bypassed with a negative count". Every field that providers read as a
 * count, in every place of a body, gets every kind of wrong number, forty times at once on a small
 * limit. Either the call is refused before it is sent, or the limit holds.
 */

const LIMIT = 0.01
const AT_ONCE = 40

let upstream: Upstream
let server: LocalServer

beforeAll(async () => {
  upstream = await startUpstream()
  upstream.answer(({ path, json }) => answerHonestly(path, json as Json))
  const endpoint = (provider: string) => ({
    provider,
    model: 'm',
    max_completion_tokens: 4_096,
    usd_per_million_tokens: { prompt: 1, completion: 1, web_search: 0.001 },
  })
  const base = { base_url: upstream.url, api_key: 'mock' }
  server = await startLocalServer({
    providers: {
      compatible: { ...base, protocol: 'openai-chat' },
      claude: { ...base, protocol: 'anthropic-messages' },
    },
    models: [
      { id: 'acme/compatible', context_length: 100_000, endpoints: [endpoint('compatible')] },
      { id: 'acme/claude', context_length: 100_000, endpoints: [endpoint('claude')] },
    ],
  })
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

/** A provider that does as it is asked, reads counts leniently, and charges for all of it. */
function answerHonestly(path: string, body: Json): Script {
  const bound = largest(body, /^(max_(completion_|new_|output_)?tokens|n_predict|num_predict)$/)
  const budget = largest(body, /^(budget_tokens|thinking_budget|reasoning_budget)$/)
  const answers = largest(body, /^(n|best_of|num_return_sequences|candidate_?count)$/i) ?? 1
  const tokens = ((bound ?? 4_096) + (budget ?? 0)) * answers
  if (!path.endsWith('/messages'))
    return completion('Hi', { usage: { prompt_tokens: 5, completion_tokens: tokens } })
  const searches = JSON.stringify(body).includes('web_search')
    ? (largest(body, /^max_uses$/) ?? 10)
    : 0
  return json({
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [{ type: 'text', text: 'Hi' }],
    stop_reason: 'end_turn',
    usage: {
      input_tokens: 5,
      output_tokens: tokens,
      server_tool_use: { web_search_requests: searches },
    },
  })
}

/** The largest positive number under such a name, anywhere in a body. */
function largest(body: unknown, name: RegExp): number | undefined {
  const found = listNumbers(body, name).filter(number => number > 0 && number < 1e7)
  return found.length > 0 ? Math.max(...found) : undefined
}

const listNumbers = (value: unknown, name: RegExp): number[] =>
  Array.isArray(value)
    ? value.flatMap(member => listNumbers(member, name))
    : isObject(value)
      ? Object.entries(value).flatMap(([key, member]) =>
          name.test(key) ? Math.ceil(Number(member)) : listNumbers(member, name),
        )
      : []

const VALUES = [
  -1,
  0,
  0.5,
  3,
  9_000.5,
  1e300,
  '1',
  '-1000000000',
  'NaN',
  2 ** 53,
  [3],
  {},
  true,
  null,
]

const DOORS = [
  ['/chat/completions', 'acme/compatible'],
  ['/chat/completions', 'acme/claude'],
  ['/messages', 'acme/compatible'],
  ['/messages', 'acme/claude'],
] as const

type Put = (value: unknown) => Json
const inside =
  (container: string, name: string): Put =>
  value => ({ [container]: { [name]: value } })
const searching = (value: unknown) => ({ name: 'web_search', max_uses: value })

/** Where a count can stand. */
const FIELDS: Record<string, Put> = {
  ...Object.fromEntries(
    [
      ...['n', 'best_of', 'num_generations', 'num_return_sequences', 'candidate_count'],
      ...['max_completion_tokens', 'max_output_tokens', 'max_new_tokens', 'max_tokens_to_sample'],
      ...['n_predict', 'num_predict', 'thinking_budget', 'reasoning_budget', 'max_tool_calls'],
      ...['top_k', 'top_logprobs', 'seed', 'max_tokens'],
    ].map(name => [name, (value: unknown) => ({ [name]: value })]),
  ),
  'reasoning.max_tokens': inside('reasoning', 'max_tokens'),
  'thinking.budget_tokens': value => ({ thinking: { type: 'enabled', budget_tokens: value } }),
  'generationConfig.candidateCount': inside('generationConfig', 'candidateCount'),
  'generationConfig.maxOutputTokens': inside('generationConfig', 'maxOutputTokens'),
  'extra_body.n': inside('extra_body', 'n'),
  'options.num_predict': inside('options', 'num_predict'),
  'web_search_options.max_uses': inside('web_search_options', 'max_uses'),
  'tools.max_uses': value => ({ tools: [{ type: 'web_search_20250305', ...searching(value) }] }),
  'tools.web_search.max_uses': value => ({ tools: [{ type: 'web_search', ...searching(value) }] }),
  'plugins.web.max_uses': value => ({ plugins: [{ id: 'web', max_uses: value }] }),
}

const cases = DOORS.flatMap(([path, model]) =>
  Object.entries(FIELDS).flatMap(([field, put]) =>
    VALUES.map(value => ({ path, model, field, value, body: put(value) })),
  ),
)

/** Two fields at once, of which one may hide what the other does. */
const random = createSeededIntegers(SEED)
const pick = <One>(list: readonly One[]): One => list[random(list.length)] as One
const pairs = Array.from({ length: 10_000 - cases.length }, () => {
  const [first, second] = [pick(cases), pick(cases)]
  const { path, model } = first
  const body = mergeBodies(first.body, second.body)
  const field = `${first.field} beside ${second.field} of ${JSON.stringify(second.value)}`
  return { path, model, field, value: first.value, body }
})

/** Puts the lists of two bodies together, so that each of the fields is still there. */
function mergeBodies(first: Json, second: Json): Json {
  const merged = { ...second, ...first }
  for (const [name, value] of Object.entries(second))
    if (Array.isArray(value) && Array.isArray(first[name]))
      merged[name] = [...value, ...first[name]]
    else if (isObject(value) && isObject(first[name])) merged[name] = { ...value, ...first[name] }
  return merged
}

/** Draws some of the cases, others for another seed; all of them in the long run. */
function draw<Case>(all: Case[], count: number): Case[] {
  if (LONG) return all
  return all
    .map((one, i) => ({ one, order: Bun.hash(`${SEED} ${i}`) }))
    .sort((a, b) => (a.order < b.order ? -1 : 1))
    .slice(0, count)
    .map(({ one }) => one)
}

test('a search without a number of its own is sent with the number that its hold assumes', async () => {
  const key = await createLimitedKey(server, 1)
  const tools = [{ type: 'web_search_20250305', name: 'web_search' }]
  const messages = [{ role: 'user', content: 'Hi' }]
  const json = { model: 'acme/claude', max_tokens: 100, messages, tools }
  expect((await server.fetch('/messages', { key, json })).status).toBe(200)
  expect(upstream.hits.at(-1)?.json).toMatchObject({ tools: [{ max_uses: 10 }] })
})

describe(`no count of a request spends more than a limit (seed ${SEED})`, () => {
  test.each(
    [...draw(cases, 75), ...draw(pairs, 25)].map(
      one => [one.path, one.model, one.field, JSON.stringify(one.value), one] as const,
    ),
  )(
    '%s with %s: %s of %s',
    async (_path, _model, _field, _value, { path, model, body }) => {
      const key = await createLimitedKey(server, LIMIT)
      const sent = upstream.hits.length
      const request = {
        model,
        messages: [{ role: 'user', content: 'Hi' }],
        max_tokens: 2_000,
        ...body,
      }
      const ask = async () => {
        const response = await server.fetch(path, { key, json: request })
        await response.text()
        return response.status
      }
      const statuses = await Promise.all(Array.from({ length: AT_ONCE }, ask))
      await waitUntil(async () => (await readMetric(server, 'gateway_running_calls')) === 0)
      expect(statuses.filter(status => status >= 500)).toEqual([])
      expect((await fetchKeyState(server, key)).usage).toBeLessThanOrEqual(LIMIT)
      if (statuses.includes(400)) expect(upstream.hits.length).toBe(sent)
    },
    60_000,
  )
})
