import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { buildLocalConfig, type Server, startServer } from '../support/server.ts'
import { completion, startUpstream, type Upstream } from '../support/upstream.ts'

let upstream: Upstream
let server: Server

beforeAll(async () => {
  upstream = await startUpstream()
  const { providers, models } = buildLocalConfig(upstream.url)
  const unpriced = { id: 'acme/unpriced', endpoints: [{ provider: 'local', model: 'x' }] }
  server = await startServer({ config: { providers, models: [...models, unpriced] } })
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

interface Listed {
  data: { id: string }[]
  links: { next: string | null }
  total_count: number
}

const get = (path: string, key: string | null = null) => server.fetch(path, { key })
const list = async (path: string, key: string | null = null) =>
  (await (await get(path, key)).json()) as Listed
const ids = async (path: string, key: string | null = null) =>
  (await list(path, key)).data.map(model => model.id)

describe('/models', () => {
  test('is filtered, sorted and paged by its query, with a next link', async () => {
    const first = await list(
      '/models?all=true&q=claude&min_price=0.5&max_price=5.5&sort=pricing-low-to-high&limit=3',
    )
    expect(first.data).toHaveLength(3)
    expect(first.links.next).toStartWith('/api/v1/models?')
    const second = await list(first.links.next?.replace('/api/v1', '') ?? '')
    expect(second.total_count).toBe(first.total_count)
    expect(second.data.map(model => model.id)).not.toContain(first.data[0]?.id)
  })

  test.each([
    ['sort=beauty', 'sort'],
    ['limit=0', 'limit'],
    ['limit=1001', 'limit'],
    ['offset=-1', 'offset'],
    ['max_price=cheap', 'max_price'],
    ['min_price=-1', 'min_price'],
    ['min_tool_success_rate=1.5', 'min_tool_success_rate'],
    ['zdr=maybe', 'zdr'],
    ['region=mars', 'region'],
    ['category=gardening', 'category'],
    ['context=many', 'context'],
    ['all=maybe', 'all'],
    ['sort=top-weekly', 'sort'],
    ['sort=design-arena-elo-high-to-low', 'sort'],
    ['category=programming', 'category'],
    ['min_intelligence_index=1', 'min_intelligence_index'],
  ])('with %s is a 400 with the name of the field', async (query, field) => {
    const response = await get(`/models?${query}`)
    const { error } = (await response.json()) as {
      error: { message: string; metadata: { field: string } }
    }
    expect([response.status, error.metadata.field]).toEqual([400, field])
    expect(error.message).toMatch(new RegExp(`^${field}: .*expected`))
  })

  test('ignores unknown parameters, whatever their name', async () => {
    const all = (await list('/models')).total_count
    for (const name of ['constructor', 'toString', '__proto__', 'hasOwnProperty'])
      expect((await list(`/models?${name}=1`)).total_count).toBe(all)
  })

  test('as RSS is a feed with one item per model and safe characters only', async () => {
    const response = await get('/models?all=true&use_rss=true&q=claude')
    expect(response.headers.get('content-type')).toBe('application/rss+xml; charset=utf-8')
    const xml = await response.text()
    expect(xml).toStartWith('<?xml version="1.0" encoding="UTF-8"?>\n<rss version="2.0">')
    expect(xml.match(/<item>/g)).toHaveLength((await ids('/models?all=true&q=claude')).length)
    expect(xml).toContain('<guid isPermaLink="false">anthropic/claude-haiku-4.5</guid>')
    expect(xml).toContain(
      `<link>${server.url}/api/v1/models/anthropic/claude-haiku-4.5/endpoints</link>`,
    )
    expect(xml).toContain('<pubDate>Wed, 15 Oct 2025 00:00:00 GMT</pubDate>')
  })
})

describe('what is listed', () => {
  const CALLABLE = [
    ...['sandbox/echo', 'acme/small', 'acme/unpriced'],
    ...[
      'gateway/auto',
      'gateway/auto-beta',
      'gateway/free',
      'gateway/switchyard',
      'gateway/bodybuilder',
    ],
  ]

  test('is what can be called here; all=true is the whole catalogue', async () => {
    expect(await ids('/models')).toEqual(CALLABLE)
    expect(await ids('/models')).toEqual(await ids('/models?all=false'))
    expect((await list('/models?all=true')).total_count).toBeGreaterThan(300)
    const count = async (query: string) =>
      ((await (await get(`/models/count${query}`)).json()) as { data: { count: number } }).data
        .count
    expect(await count('')).toBe(CALLABLE.length)
    expect(await count('?all=true')).toBe((await list('/models?all=true')).total_count)
    expect(await ids('/embeddings/models')).toEqual(['sandbox/embed'])
    expect(await ids('/embeddings/models?all=true')).toContain('openai/text-embedding-3-small')
  })
})

describe('/models/user', () => {
  test('lists the presets of the workspace, at the model that they name', async () => {
    const messages = [{ role: 'user', content: 'Hi' }]
    const save = (slug: string, json: object) =>
      server.fetch(`/presets/${slug}/chat/completions`, { json: { messages, ...json } })
    await save('listed', { model: 'acme/small:floor', temperature: 0 })
    await save('elsewhere', { model: 'openai/gpt-4o' })
    const { data } = (await (await get('/models/user', server.inference_key)).json()) as {
      data: { id: string; canonical_slug: string; links: { details: string } }[]
    }
    expect(data.filter(({ id }) => id.startsWith('@'))).toMatchObject([
      {
        id: '@preset/listed',
        name: 'listed',
        canonical_slug: 'acme/small',
        links: { details: '/api/v1/models/acme/small/endpoints' },
      },
    ])
  })

  test('lists what the key can call', async () => {
    expect((await get('/models/user')).status).toBe(401)
    expect(await ids('/models/user?limit=6', server.inference_key)).toEqual([
      ...['sandbox/echo', 'acme/small', 'acme/unpriced'],
      ...['gateway/auto', 'gateway/auto-beta', 'gateway/free'],
    ])
  })
})

describe('one model', () => {
  test('is found with a variant and by an alias, and not by another name', async () => {
    expect((await get('/model/openai/gpt-4o:nitro')).status).toBe(200)
    const { data } = (await (await get('/model/~anthropic/claude-opus-latest')).json()) as {
      data: { alias_target: { slug: string } }
    }
    expect((await get(`/models/${data.alias_target.slug}/endpoints`)).status).toBe(200)
    expect((await get('/model/openai/gpt-none')).status).toBe(404)
    expect((await get('/models/openai/gpt-none/endpoints')).status).toBe(404)
  })

  test('without a configured provider is a 404 for a call, naming its providers', async () => {
    const json = { model: 'openai/gpt-4o', messages: [{ role: 'user', content: 'Hi' }] }
    const response = await server.fetch('/chat/completions', { json })
    const { error } = (await response.json()) as { error: { message: string } }
    expect([response.status, error.message]).toEqual([
      404,
      'No endpoints found for openai/gpt-4o: it is served by openai, azure, openrouter, vercel, and none of them is configured.',
    ])
  })
})

test('an unknown cost is reported in the answer, and once in the log', async () => {
  const json = { model: 'acme/unpriced', messages: [{ role: 'user', content: 'Hi' }] }
  for (const _ of [1, 2]) {
    upstream.plan(completion())
    const { usage } = (await (await server.fetch('/chat/completions', { json })).json()) as {
      usage: { cost?: number | null }
    }
    expect(usage.cost ?? null).toBeNull()
  }
  const { stderr } = await server.stop()
  const said = stderr.split('\n').filter(line => line.includes('price.missing'))
  expect(said.map(line => JSON.parse(line))).toMatchObject([
    {
      event: 'price.missing',
      provider: 'local',
      model: 'acme/unpriced',
      consequence: 'the cost of its calls is unknown and not charged',
    },
  ])
})
