import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../../src/app/gateway.ts'
import { infer } from '../../../../src/engine/infer.ts'
import { explain } from '../../../../src/extensions/explain.ts'
import { assignKeys } from '../../../../src/limits/assignments.ts'
import { createGuardrail } from '../../../../src/limits/guardrails.ts'
import { buildKeyActor, getOperator } from '../../../../src/resources/actor.ts'
import { createKey } from '../../../../src/resources/keys.ts'
import { buildTextCall } from '../../../support/call.ts'
import { askDoor, DOORS, type Door, type DoorCall } from '../../../support/doors.ts'
import { createTestKeys, testGateway } from '../../../support/gateway.ts'
import {
  answerAsPeer,
  PEER_KEY,
  type PeerSearch,
  SEARCH_PEERS,
} from '../../../support/search-peers.ts'
import {
  body,
  completion,
  json,
  startUpstream,
  stream,
  type Upstream,
} from '../../../support/upstream.ts'

let model: Upstream
let exa: Upstream
let searxng: Upstream
let gateway: Gateway
let key: { inference: string; hash: string }

const USD = 0.005
const buildModel = (name: string, more: object = {}) => ({
  id: `acme/${name}`,
  context_length: 100_000,
  endpoints: [
    {
      provider: 'local',
      model: name,
      usd_per_million_tokens: { prompt: 1, completion: 2 },
      ...more,
    },
  ],
})

beforeAll(async () => {
  ;[model, exa, searxng] = await Promise.all([startUpstream(), startUpstream(), startUpstream()])
  const provider = { protocol: 'openai-chat', base_url: model.url, api_key: 'mock' }
  gateway = await testGateway({
    config: {
      security: { allow_private_urls: [exa, searxng].map(({ url }) => new URL(url).host) },
      providers: { local: provider, seeker: { ...provider, quirks: { web_search: true } } },
      models: [buildModel('words'), buildModel('seeker', { provider: 'seeker' })],
      web_search: {
        engines: {
          exa: { base_url: exa.url, api_key: PEER_KEY, usd_per_search: USD },
          searxng: { base_url: searxng.url },
        },
      },
      web_fetch: { robots: false },
    },
  })
  key = await createTestKeys(gateway)
})
afterAll(async () => {
  await gateway.close()
  await Promise.all([model.close(), exa.close(), searxng.close()])
})

const PAGES = [
  { url: 'https://news.example/cellar', title: 'Cellar', text: 'The cellar holds 37 barrels.' },
  { url: 'https://other.example/attic', title: 'Attic', text: 'The attic holds 2 chairs.' },
]
const ANSWER = 'As https://news.example/cellar says, 37.'
let searches: PeerSearch[] = []
beforeEach(() => {
  searches = []
  for (const peer of [model, exa, searxng]) peer.hits.length = 0
  exa.answer(hit => answerAsPeer(SEARCH_PEERS.exa, hit, PAGES, searches))
  searxng.answer(hit => answerAsPeer(SEARCH_PEERS.searxng, hit, PAGES, searches))
  model.answer(hit =>
    (hit.json as { stream?: boolean }).stream ? stream([ANSWER]) : completion(ANSWER),
  )
})

const CASES = DOORS.flatMap(door => [
  { door, stream: false },
  { door, stream: true },
])
type Case = { door: Door; stream: boolean }
const ask = ({ door, stream }: Case, call: Partial<DoorCall>, secret = key.inference) =>
  askDoor(gateway, secret, door, {
    ...{ model: 'acme/words', stream, text: 'How many barrels?' },
    ...call,
  })
const WEB = [{ id: 'web' }]
const sentText = () => model.hits.map(({ body }) => body).join('\n')
const sentMessages = () =>
  (model.hits[0]?.json as { messages: { role: string; content: unknown }[] } | undefined)?.messages
const countSearches = () => exa.hits.length + searxng.hits.length
const getKey = () => {
  const found = gateway.memory.keys.get(key.hash)
  if (!found) throw new Error('no key')
  return found
}
const getSpent = () => gateway.ledger.getSpent(`key ${key.hash}`, null, false)

describe.each(CASES)('$door, streamed: $stream', at => {
  test('an engine searches once for the last words of the user, before the model', async () => {
    const before = getSpent()
    const { status, text, pipeline, raw } = await ask(at, { plugins: WEB })
    expect([status, text]).toEqual([200, ANSWER])
    expect(searches).toMatchObject([{ query: 'How many barrels?', count: 5 }])
    const sent = sentMessages()
    expect(sent).toHaveLength(1)
    const words = JSON.stringify(sent)
    expect(words).toMatch(/A web search was conducted on \d{4}-\d\d-\d\d\./)
    expect(words).toContain('The cellar holds 37 barrels.')
    expect(words).toContain('untrusted_content')
    expect(words.indexOf('How many barrels?')).toBeLessThan(words.indexOf('A web search'))
    expect(pipeline).toMatchObject([
      {
        type: 'plugin',
        name: 'web',
        summary: 'engine=exa, results=2, searched',
        data: { engine: 'exa', results: 2, searched: true },
      },
    ])
    for (const { url, title } of PAGES)
      expect([raw.includes(url), raw.includes(title)]).toEqual([true, true])
    expect(raw).toMatch(/"web_search_requests":1\b/)
    expect(getSpent() - before).toBeGreaterThanOrEqual(5_000_000n)
  })

  test('the options are the engine’s', async () => {
    const { status, pipeline } = await ask(at, {
      plugins: [
        {
          ...{ id: 'web', engine: 'exa', max_results: 1, max_uses: 1, mode: 'fast' },
          ...{ include_domains: ['other.example'], search_prompt: 'Weigh what follows.' },
          user_location: { type: 'approximate', country: 'ch' },
        },
      ],
    })
    expect(status).toBe(200)
    expect(searches).toMatchObject([
      { count: 1, mode: 'fast', allowed: ['other.example'], country: 'CH' },
    ])
    expect(sentText()).toContain('Weigh what follows.')
    expect(sentText()).not.toContain('A web search was conducted')
    expect(sentText()).toContain('2 chairs')
    expect(sentText()).not.toContain('37 barrels')
    expect(pipeline).toMatchObject([{ data: { engine: 'exa', results: 1 } }])
  })

  test('another engine by its name', async () => {
    await ask(at, { plugins: [{ id: 'web', engine: 'searxng' }] })
    expect([exa.hits.length, searxng.hits.length]).toEqual([0, 1])
    expect(sentText()).toContain('37 barrels')
  })

  test('a provider that searches itself does, unless an engine is named or needed', async () => {
    const answers = [
      [{ id: 'web' }, 0],
      [{ id: 'web', engine: 'native' }, 0],
      [{ id: 'web', engine: 'exa' }, 1],
      [{ id: 'web', max_results: 2 }, 1],
    ] as const
    for (const [plugin, count] of answers) {
      for (const peer of [model, exa]) peer.hits.length = 0
      await ask(at, { model: 'acme/seeker', plugins: [plugin] })
      expect(exa.hits.length).toBe(count)
      expect(sentText().includes('web_search_options')).toBe(count === 0)
    }
  })

  test('native needs a provider that searches', async () => {
    const { status } = await ask(at, { plugins: [{ id: 'web', engine: 'native' }] })
    expect([status, countSearches(), model.hits.length]).toEqual([404, 0, 0])
  })

  test(':online is the plugin', async () => {
    const { status } = await ask(at, { model: 'acme/words:online' })
    expect([status, exa.hits.length]).toEqual([200, 1])
    await ask(at, { model: 'acme/seeker:online' })
    expect(exa.hits.length).toBe(1)
    const off = [{ id: 'web', enabled: false }]
    await ask(at, { model: 'acme/words:online', plugins: off })
    expect(exa.hits.length).toBe(1)
  })

  test('a search that fails is told to the model and in the pipeline', async () => {
    const before = getSpent()
    exa.answer(() => json({}, { status: 500 }))
    const { status, pipeline } = await ask(at, { plugins: WEB })
    expect(status).toBe(200)
    expect(sentText()).toMatch(/A web search was attempted on [-\d]+ and failed/)
    expect(pipeline).toMatchObject([{ summary: 'engine=exa, results=0, failed' }])
    expect(getSpent() - before).toBeLessThan(5_000_000n)
  })

  test('a call that no model can serve searches nothing', async () => {
    const { status } = await ask(at, { plugins: WEB, more: { provider: { only: ['seeker'] } } })
    expect([status, countSearches()]).toEqual([404, 0])
  })

  test('an engine that rules exclude is asked nothing: 403', async () => {
    const { status, text } = await ask(at, {
      plugins: WEB,
      more: { provider: { ignore: ['exa'] } },
    })
    expect([status, countSearches(), model.hits.length]).toEqual([403, 0, 0])
    expect(text).toContain('its provider exa is excluded by allowed_providers')
    expect(gateway.ledger.getHeld(`key ${key.hash}`, false)).toBe(0n)
  })

  test('a limit that cannot pay the search is a 402 before it', async () => {
    const made = await createKey(gateway, getOperator(gateway), { name: 'poor', limit: 0.004 })
    const { status, text } = await ask(at, { plugins: WEB }, made.key)
    expect([status, countSearches(), model.hits.length]).toEqual([402, 0, 0])
    expect(text).toContain('limit')
    expect(gateway.ledger.getSpent(`key ${made.data.hash}`, null, false)).toBe(0n)
  })

  test('a limit that could pay the search but no turn beside it is a 402 before it', async () => {
    const made = await createKey(gateway, getOperator(gateway), { name: 'poorer', limit: USD })
    const { status } = await ask(at, { plugins: WEB }, made.key)
    expect([status, countSearches(), model.hits.length]).toEqual([402, 0, 0])
    const account = `key ${made.data.hash}` as const
    expect(gateway.ledger.getSpent(account, null, false)).toBe(0n)
    expect(gateway.ledger.getHeld(account, false)).toBe(0n)
  })

  test('web-fetch offers the tool that reads pages', async () => {
    exa.answer(() => body('text/html', '<title>Page</title><h1>Deep in the cellar</h1>'))
    const input = JSON.stringify({ url: new URL('/page', exa.url).href })
    model.plan(callTool('web_fetch', input, at.stream), answerWith(at.stream))
    const { status, text } = await ask(at, {
      plugins: [{ id: 'web-fetch', max_uses: 1 }],
      more: { max_tool_calls: 3 },
    })
    expect([status, text]).toEqual([200, ANSWER])
    expect(model.hits).toHaveLength(2)
    expect(model.hits[0]?.body).toContain('"web_fetch"')
    expect(model.hits[0]?.body).not.toContain('max_tool_calls')
    expect(model.hits[1]?.body).toContain('Deep in the cellar')
  })

  test('web-fetch keeps to its domains', async () => {
    const input = JSON.stringify({ url: new URL('/page', exa.url).href })
    model.plan(callTool('web_fetch', input, at.stream), answerWith(at.stream))
    await ask(at, { plugins: [{ id: 'web-fetch', allowed_domains: ['news.example'] }] })
    expect(exa.hits).toEqual([])
    expect(model.hits[1]?.body).toContain('not among those that may be read')
  })
})

const answerWith = (isStream: boolean) => (isStream ? stream([ANSWER]) : completion(ANSWER))

const callTool = (name: string, input: string, isStream: boolean) => {
  const tool_calls = [
    { index: 0, id: 'call_1', type: 'function', function: { name, arguments: input } },
  ]
  const message = { role: 'assistant', content: null, tool_calls }
  const choices = [{ index: 0, message, finish_reason: 'tool_calls' }]
  if (!isStream) return completion('', { choices })
  const chunk = (delta: object, finish_reason: string | null) =>
    `data: ${JSON.stringify({ id: 'x', choices: [{ index: 0, delta, finish_reason }] })}\n\n`
  return body(
    'text/event-stream',
    `${chunk({ role: 'assistant', tool_calls }, null)}${chunk({}, 'tool_calls')}data: [DONE]\n\n`,
  )
}

describe('what holds for a search by an engine', () => {
  const at = { door: 'chat' as const, stream: false }

  test('the sources are annotations, at the place where the answer names them', async () => {
    const { raw } = await ask(at, { plugins: WEB })
    const { choices, usage } = JSON.parse(raw)
    expect(choices[0].message.annotations).toEqual([
      {
        type: 'url_citation',
        url_citation: {
          url: PAGES[0]?.url,
          title: 'Cellar',
          content: PAGES[0]?.text,
          start_index: 3,
          end_index: 3 + (PAGES[0]?.url.length ?? 0),
        },
      },
      {
        type: 'url_citation',
        url_citation: {
          url: PAGES[1]?.url,
          title: 'Attic',
          content: PAGES[1]?.text,
          ...{ start_index: 0, end_index: 0 },
        },
      },
    ])
    expect(usage.server_tool_use_details).toMatchObject({ web_search_requests: 1 })
  })

  test('each answer of several has them', async () => {
    model.answer(() =>
      completion('', {
        choices: [0, 1].map(index => ({
          ...{ index, finish_reason: 'stop' },
          message: { role: 'assistant', content: ANSWER },
        })),
      }),
    )
    const { raw } = await ask(at, { plugins: WEB, more: { n: 2 } })
    const { choices } = JSON.parse(raw)
    expect(
      choices.map(
        (choice: { message: { annotations?: [] } }) => choice.message.annotations?.length,
      ),
    ).toEqual([2, 2])
  })

  test('a record shows the search before the turn, with its price', async () => {
    const { raw } = await ask(at, { plugins: WEB })
    const { id, usage } = JSON.parse(raw)
    const generation = await gateway.store.generations.byId(id)
    expect(generation?.steps).toMatchObject([
      { type: 'tool', name: 'web', function: 'web_search', cost: 5_000_000n, is_error: false },
      { type: 'model', name: 'acme/words' },
    ])
    expect(usage.cost).toBeGreaterThan(USD)
  })

  test('web_search_options search with an engine where no provider can, with its own words', async () => {
    const web_search_options = {
      search_context_size: 'low',
      user_location: { type: 'approximate', approximate: { country: 'CH', city: 'Bern' } },
    }
    const { status } = await ask(at, { more: { web_search_options } })
    expect(status).toBe(200)
    expect(searches).toMatchObject([{ country: 'CH', characters: 800 }])
    expect(sentText()).not.toContain('web_search_options')
    exa.hits.length = 0
    await ask(at, { model: 'acme/seeker', more: { web_search_options } })
    expect(exa.hits).toEqual([])
    // The official clients send what the public service reads there.
    const wishes = { engine: 'exa', max_results: 1, search_prompt: 'Weigh it.' }
    for (const name of ['acme/words', 'acme/seeker']) {
      exa.hits.length = 0
      model.hits.length = 0
      await ask(at, { model: name, more: { web_search_options: wishes } })
      expect([exa.hits.length, searches.at(-1)?.count]).toEqual([1, 1])
      expect(sentText()).toContain('Weigh it.')
      expect(sentText()).not.toContain('web_search_options')
    }
    exa.hits.length = 0
    const wrong = await ask(at, { more: { web_search_options: { depth: 1 } } })
    expect([wrong.status, wrong.text]).toEqual([400, expect.stringContaining('web_search_options')])
    const huge = await ask(at, { more: { web_search_options: { search_context_size: 'huge' } } })
    expect(huge.status).toBe(400)
    expect(exa.hits).toEqual([])
  })

  test('a model that calls tools beside it names each source once', async () => {
    model.plan(callTool('web_search', JSON.stringify({ query: 'attic' }), false), answerWith(false))
    const { raw } = await ask(at, {
      plugins: [{ id: 'web', engine: 'exa' }],
      more: { tools: [{ type: 'gateway:web_search', parameters: { engine: 'searxng' } }] },
    })
    const { choices, usage } = JSON.parse(raw)
    const cited = choices[0].message.annotations.map(
      ({ url_citation }: { url_citation: { url: string } }) => url_citation.url,
    )
    expect(cited.toSorted()).toEqual(PAGES.map(({ url }) => url))
    expect(usage.server_tool_use_details).toMatchObject({ web_search_requests: 2 })
  })

  test('a call without words searches nothing', async () => {
    const { status, pipeline } = await ask(at, { text: ' \u200b ', plugins: WEB })
    expect([status, countSearches()]).toEqual([200, 0])
    expect(pipeline).toMatchObject([{ data: { searched: false } }])
  })

  test('a dry run searches nothing', async () => {
    const call = buildTextCall({ models: ['acme/words'], plugins: { web: {} } })
    const { stages, error } = await explain(
      gateway,
      getOperator(gateway),
      { key: key.hash },
      'text',
      () => call,
    )
    expect(error).toBeNull()
    expect(stages).toMatchObject([{ name: 'web', data: { engine: 'exa', searched: false } }])
    expect(countSearches()).toBe(0)
  })

  test('a workspace that has disabled the tools refuses their plugins', async () => {
    const { memory } = gateway
    const workspace = memory.workspaces.get([...memory.workspaces.values()][0]?.id ?? '')
    if (!workspace) throw new Error('no workspace')
    memory.workspaces.set({
      ...workspace,
      disabled_server_tools: ['openrouter:web_search', 'openrouter:web_fetch'],
    })
    try {
      for (const plugin of [{ id: 'web' }, { id: 'web-fetch' }]) {
        const { status, text } = await ask(at, { plugins: [plugin] })
        expect([status, text]).toEqual([403, expect.stringContaining('has disabled the tool')])
      }
      expect(countSearches()).toBe(0)
    } finally {
      memory.workspaces.set(workspace)
    }
  })

  test('content filters read the query before an engine and the results before a model', async () => {
    const made = await createKey(gateway, getOperator(gateway), { name: 'filtered' })
    const guardrail = await createGuardrail(gateway, getOperator(gateway), {
      name: 'words',
      content_filters: [
        { pattern: 'secret', action: 'redact', label: '[hidden]' },
        { pattern: 'chairs', action: 'redact', label: '[seats]' },
        { pattern: 'poison', action: 'block' },
      ],
    })
    await assignKeys(gateway, getOperator(gateway), guardrail.data.id, {
      key_hashes: [made.data.hash],
    })
    const { status } = await ask(at, { text: 'My secret?', plugins: WEB }, made.key)
    expect([status, searches[0]?.query]).toEqual([200, 'My [hidden]?'])
    expect(sentText()).toContain('2 [seats]')
    expect(sentText()).not.toContain('chairs')
    model.hits.length = 0
    exa.answer(hit =>
      answerAsPeer(SEARCH_PEERS.exa, hit, [{ ...PAGES[0], text: 'poison' } as never]),
    )
    const blocked = await ask(at, { plugins: WEB }, made.key)
    expect([blocked.status, model.hits.length]).toEqual([403, 0])
    const before = exa.hits.length
    const asked = await ask(at, { text: 'poison', plugins: WEB }, made.key)
    expect([asked.status, exa.hits.length]).toEqual([403, before])
  })

  test('a client that leaves while an engine searches ends it, at the price of the search', async () => {
    const before = getSpent()
    const asked = Promise.withResolvers<void>()
    exa.answer(() => {
      asked.resolve()
      return { wait: 'never' }
    })
    const leaving = new AbortController()
    const call = buildTextCall({ models: ['acme/words'], plugins: { web: {} } })
    const actor = buildKeyActor(gateway, getKey())
    const answer = infer(gateway, actor, 'text', call, leaving.signal)
    await asked.promise
    leaving.abort()
    const thrown = await answer.then(
      () => null,
      error => error,
    )
    expect([thrown?.status, model.hits.length]).toEqual([499, 0])
    expect(gateway.ledger.getHeld(`key ${key.hash}`, false)).toBe(0n)
    expect(getSpent() - before).toBe(5_000_000n)
    exa.open('never')
  })

  test('a search is charged also if its turn fails, and its record says so', async () => {
    const before = getSpent()
    model.answer(() => json({ error: { message: 'Down' } }, { status: 500 }))
    const { status } = await ask(at, { plugins: WEB })
    expect(status).toBeGreaterThanOrEqual(500)
    expect(getSpent() - before).toBe(5_000_000n)
  })
})
