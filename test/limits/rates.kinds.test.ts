import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import type { Json } from '../../src/base/json.ts'
import type { Kind } from '../../src/language/work.ts'
import { assignKeys } from '../../src/limits/assignments.ts'
import { getPolicy } from '../../src/limits/effective.ts'
import type { NewGuardrail } from '../../src/limits/guardrails/schema.ts'
import { createGuardrail, updateGuardrail } from '../../src/limits/guardrails.ts'
import type { DescribedRate } from '../../src/limits/rates.ts'
import { getOperator, recognize } from '../../src/resources/actor.ts'
import { createKey } from '../../src/resources/keys.ts'
import { createApp } from '../../src/server/app.ts'
import { TestClock, testGateway } from '../support/gateway.ts'
import { WORK } from '../support/kinds-of-work.ts'
import { startMcpServer, type TestMcpServer, textResult } from '../support/mcp-server.ts'
import {
  json,
  type Script,
  startUpstream,
  status,
  stream,
  type Upstream,
} from '../support/upstream.ts'

/*
 * What guardrails limit holds at every door alike: 32 calls at once get exactly as many requests,
 * places and tokens as there are, and each gives back what it has taken once, however it ends.
 */

const AT_ONCE = 32

/** A call at one door, and what a provider answers to it. */
interface Door {
  path: string
  body: object
  answer: Script
}

const messages = [{ role: 'user', content: 'Hi' }]
const model = 'acme/text'
const { answer } = WORK.text
const names = Object.keys(WORK) as Kind[]

/** The doors to models. */
const CALLS: Record<string, Door> = {
  ...Object.fromEntries(
    names.map(name => {
      const { path, body, ...work } = WORK[name]
      return [name, { path, body: { model: `acme/${name}`, ...body }, answer: work.answer }]
    }),
  ),
  completions: { answer, path: '/completions', body: { model, prompt: 'Hi', max_tokens: 9 } },
  messages: { answer, path: '/messages', body: { model, messages, max_tokens: 9 } },
  responses: { answer, path: '/responses', body: { model, input: 'Hi', max_output_tokens: 99 } },
}

/** The same with answers that are streamed. */
const STREAMED = Object.fromEntries(
  ['text', 'completions', 'messages', 'responses'].map(name => {
    const { path, body } = CALLS[name] as Door
    return [`${name}, streamed`, { path, body: { ...body, stream: true }, answer: stream(['Hi']) }]
  }),
)

/** What takes a request and a place, and no tokens. */
const OTHERS: Record<string, Door> = {
  moderations: {
    path: '/moderations',
    body: { input: 'Hi' },
    answer: json({ results: [{ flagged: false, categories: {} }] }),
  },
  'tools of MCP': {
    path: '/mcp/own',
    body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'add', arguments: {} } },
    answer: '',
  },
}

/** What is done at once: nobody can look at it while it has its place. */
const COUNTS = {
  'counts of tokens': { path: '/messages/count_tokens', body: { model, messages }, answer: '' },
}

const TO_MODELS = Object.entries({ ...CALLS, ...STREAMED })

let upstream: Upstream
let mcp: TestMcpServer
let gateway: Gateway
let app: ReturnType<typeof createApp>
/** What the provider and the server of tools wait for, and who is told that they were asked. */
let gate: Promise<void>
let onAsked: () => void

beforeAll(async () => {
  upstream = await startUpstream()
  const run = async () => {
    onAsked()
    await gate
    return textResult('5')
  }
  mcp = startMcpServer({ tools: [{ name: 'add', run }] })
  const { origin } = new URL(upstream.url)
  const provider = (name: string) => ({
    ...{ protocol: 'openai-chat', base_url: `${origin}/${name}/v1`, api_key: 'mock' },
  })
  const providers = ['good', 'bad', 'left', 'late']
  gateway = await testGateway({
    clock: new TestClock(),
    config: {
      routing: { choice: 'listed', failures: 0 },
      providers: Object.fromEntries(providers.map(name => [name, provider(name)])),
      plugins: { moderation: { provider: 'good', model: 'judge' } },
      mcp_servers: { own: { url: mcp.url } },
      models: names.map(name => ({
        id: `acme/${name}`,
        output_modalities: [WORK[name].output],
        endpoints: providers.map(slug => ({
          ...{ provider: slug, model: 'm', usd_per_million_tokens: WORK[name].prices },
        })),
      })),
    },
  })
  app = createApp(gateway)
})

beforeEach(() => {
  upstream.hits.length = 0
  mcp.requests.length = 0
  gate = Promise.resolve()
  onAsked = () => undefined
})

afterAll(async () => {
  await gateway.close()
  await Promise.all([upstream.close(), mcp.close()])
})

/** Creates a key that a guardrail of its own holds. */
async function createHeldKey(rates: Partial<NewGuardrail>) {
  const operator = getOperator(gateway)
  const { key, data } = await createKey(gateway, operator, { name: 'held' })
  const { id } = (await createGuardrail(gateway, operator, { name: 'held', ...rates })).data
  await assignKeys(gateway, operator, id, { key_hashes: [data.hash] })
  return {
    key,
    change: (other: Partial<NewGuardrail>) => updateGuardrail(gateway, operator, id, other),
    describe(): DescribedRate {
      const actor = recognize(gateway, `Bearer ${key}`)
      const rates = (actor && getPolicy(gateway, actor).rates) ?? []
      return gateway.traffic.counters.rates.describe(rates)[0] as DescribedRate
    },
  }
}

async function ask(
  { path, body }: Door,
  key: string,
  more: object = {},
  signal?: AbortSignal,
): Promise<number> {
  const response = await app.handle(
    new Request(`http://localhost${path.startsWith('/mcp') ? '' : '/api/v1'}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
      body: JSON.stringify({ ...body, ...more }),
      ...(signal ? { signal } : {}),
    }),
  )
  const answer = await response.text()
  // At MCP an error is an answer.
  const { error } = path.startsWith('/mcp') ? (JSON.parse(answer) as Json) : {}
  return error ? ((error as Json).data as { status: number }).status : response.status
}

/**
 * Makes calls at once, and lets none of them be answered before each is with its provider or refused.
 * Returns how many were sent, what was seen then, and the statuses of all.
 */
async function crowd<T>(door: Door, key: string, look: () => T, count = AT_ONCE) {
  const opened = Promise.withResolvers<void>()
  const known = Promise.withResolvers<void>()
  let sent = 0
  let refused = 0
  const note = () => {
    if (sent + refused === count) known.resolve()
  }
  gate = opened.promise
  onAsked = () => {
    sent += 1
    note()
  }
  upstream.answer(({ path }) => {
    // The job of a video is nobody's request.
    if (/videos\/./.test(path)) return door.answer
    onAsked()
    return [{ wait: `${key}-${look.name}` }, door.answer]
  })
  const calls = Array.from({ length: count }, async () => {
    const code = await ask(door, key)
    if (code !== 429) return code
    refused += 1
    note()
    return code
  })
  await known.promise
  const seen = look()
  opened.resolve()
  upstream.open(`${key}-${look.name}`)
  return { sent, seen, statuses: await Promise.all(calls) }
}

const countGood = (statuses: number[]) => statuses.filter(code => code < 300).length
const countRefused = (statuses: number[]) => statuses.filter(code => code === 429).length

describe('a minute has as many requests as there are', () => {
  test.each(Object.entries({ ...CALLS, ...STREAMED, ...OTHERS, ...COUNTS }))(
    '%s',
    async (_, door) => {
      const { key, describe } = await createHeldKey({ requests_per_minute: 20 })
      upstream.answer(() => door.answer)
      const statuses = await Promise.all(Array.from({ length: AT_ONCE }, () => ask(door, key)))
      expect([countGood(statuses), countRefused(statuses)]).toEqual([20, AT_ONCE - 20])
      expect(describe().requests_per_minute).toMatchObject({ used: 20, remaining: 0 })
    },
  )
})

describe('as many calls run at once as there are places', () => {
  test.each(Object.entries({ ...CALLS, ...STREAMED, ...OTHERS }))('%s', async (_, door) => {
    const { key, describe } = await createHeldKey({ concurrent_requests: 7 })
    const { sent, seen, statuses } = await crowd(door, key, () => describe().concurrent_requests)
    expect([sent, seen?.used, countGood(statuses), countRefused(statuses)]).toEqual([
      7,
      7,
      7,
      AT_ONCE - 7,
    ])
    expect(describe().concurrent_requests?.used).toBe(0)
  })
})

describe('as many tokens are set aside as there are, and those of answers count', () => {
  test.each(TO_MODELS)('%s', async (_, door) => {
    const { key, change, describe } = await createHeldKey({ tokens_per_minute: 1_000_000 })
    const used = () => describe().tokens_per_minute?.used ?? 0
    const { seen: each } = await crowd(door, key, used, 1)
    const taken = used()
    await change({ tokens_per_minute: taken + 6 * each - 1 })
    const { sent, seen } = await crowd(door, key, () => used())
    expect([each > 0, sent, seen]).toEqual([true, 5, taken + 5 * each])
    expect(used()).toBe(6 * taken)
  })
})

describe('what was taken is given back once, however a call ends', () => {
  test.each(TO_MODELS)('%s', async (name, door) => {
    const limits = {
      requests_per_minute: 900,
      concurrent_requests: AT_ONCE,
      tokens_per_minute: 1e9,
    }
    const { key, describe } = await createHeldKey(limits)
    let recorded = 0
    const unlisten = gateway.events.on('generation.finished', one => {
      recorded += one.native_tokens_prompt + one.native_tokens_completion
    })
    const clients: AbortController[] = []
    upstream.answer(({ path }) => {
      if (path.startsWith('/bad')) return status(503)
      if (path.startsWith('/good')) return door.answer
      if (path.startsWith('/left')) clients.pop()?.abort()
      return { wait: 'never' }
    })
    const askOf = (only: string[], more: object = {}, signal?: AbortSignal) =>
      ask(door, key, { provider: { only, order: only, ...more } }, signal)
    const leave = () => {
      const client = new AbortController()
      clients.push(client)
      return askOf(['left'], {}, client.signal).catch(() => null)
    }
    const ways: (() => Promise<number | null>)[] = [
      () => askOf(['good']),
      () => askOf(['bad', 'good']),
      () => askOf(['bad']),
      () => askOf(['nobody']),
      () => ask(door, key, { model: 'acme/none' }),
      // A job that may have begun goes on.
      ...(name === 'video' ? [] : [leave]),
      ...(name in STREAMED ? [() => askOf(['late', 'good'], { hedge: { after_ms: 1 } })] : []),
    ]
    const statuses = await Promise.all(
      Array.from({ length: AT_ONCE }, (_, i) => ways[i % ways.length]?.()),
    )
    unlisten()
    const { requests_per_minute, concurrent_requests, tokens_per_minute } = describe()
    const refused = statuses.filter(code => code === 400 || code === 404).length
    expect(refused).toBeGreaterThan(2 * Math.floor(AT_ONCE / ways.length) - 1)
    expect([requests_per_minute?.used, concurrent_requests?.used]).toEqual([AT_ONCE - refused, 0])
    expect(tokens_per_minute?.used).toBe(recorded)
  })
})
