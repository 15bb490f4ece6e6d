import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../src/app/gateway.ts'
import type { Json } from '../../../src/base/json.ts'
import { parseConfig } from '../../../src/config.ts'
import { listTools } from '../../../src/extensions/tools/list.ts'
import { checkAll } from '../../../src/extensions/tools/provider-check.ts'
import { FETCH_ENGINES } from '../../../src/extensions/tools/web-fetch/registry.ts'
import { ENGINES } from '../../../src/extensions/tools/web-search/registry.ts'
import { answerAsFetchPeer, FETCH_PEERS } from '../../support/fetch-peers.ts'
import { testGateway } from '../../support/gateway.ts'
import { answerAsPeer, PEER_KEY, SEARCH_PEERS } from '../../support/search-peers.ts'
import {
  json,
  refusedPort,
  type Script,
  startUpstream,
  type Upstream,
} from '../../support/upstream.ts'

let upstream: Upstream
let gateway: Gateway
beforeAll(async () => {
  upstream = await startUpstream()
  gateway = await testGateway()
})
afterAll(() => Promise.all([upstream.close(), gateway.close()]))

const configure = (config: Json): Gateway => ({
  ...gateway,
  config: parseConfig(JSON.stringify(config), {}),
})

const withEngine = (name: string, settings: Json = {}) =>
  configure({
    web_search: {
      engines: { [name]: { api_key: PEER_KEY, base_url: upstream.url, ...settings } },
    },
  })

describe.each(ENGINES.map(engine => [engine.name, engine] as const))(
  'the check of %s',
  (name, { needsKey }) => {
    const peer = SEARCH_PEERS[name]
    const check = async (settings: Json = {}) => {
      const { data } = await checkAll(withEngine(name, settings), [`web_search/${name}`], 5_000)
      expect(JSON.stringify(data)).not.toContain(PEER_KEY)
      return data
    }

    test('accepts a right key, without a search', async () => {
      const searches: unknown[] = []
      upstream.answer(hit => answerAsPeer(peer, hit, [], searches as never[]))
      expect(await check()).toEqual([
        {
          ...{ provider: `web_search/${name}`, ok: true, error: null },
          ...{ status: expect.any(Number), milliseconds: expect.any(Number) },
        },
      ])
      expect(searches).toEqual([])
    })

    if (needsKey)
      test('finds a wrong key', async () => {
        upstream.answer(hit => answerAsPeer(peer, hit, []))
        expect(await check({ api_key: 'wrong' })).toMatchObject([
          { ok: false, status: 401, error: 'the credential is refused' },
        ])
      })

    test.each<[string, Script, Json]>([
      ['500', json({}, { status: 500 }), { ok: false, status: 500, error: 'answers with 500' }],
      [
        'what it does not serve',
        json({}, { status: 404 }),
        { ok: false, error: 'answers with 404' },
      ],
      ['400 without a look at the key', json({}, { status: 400 }), { ok: null, status: 400 }],
    ])('tells %s', async (_, script, expected) => {
      upstream.answer(() => script)
      expect(await check()).toMatchObject([expected])
    })

    test('tells a server that is not there', async () => {
      const base_url = `http://127.0.0.1:${await refusedPort()}`
      expect(await check({ base_url })).toMatchObject([
        { ok: false, status: null, error: expect.stringContaining('the connection failed: ') },
      ])
    })
  },
)

describe.each(FETCH_ENGINES.map(engine => [engine.name, engine] as const))(
  'the check of %s that reads pages',
  name => {
    const check = async (api_key = PEER_KEY) => {
      const pages: string[] = []
      upstream.answer(hit => answerAsFetchPeer(FETCH_PEERS[name], hit, {}, pages))
      const world = configure({
        web_fetch: { engines: { [name]: { api_key, base_url: upstream.url } } },
      })
      const { data } = await checkAll(world, [`web_fetch/${name}`], 5_000)
      expect(pages).toEqual([])
      expect(await checkAll(world, [], 5_000)).toMatchObject({ data: [{ ok: data[0]?.ok }] })
      return data
    }

    test('accepts a right key, without a page, and finds a wrong one', async () => {
      expect(await check()).toMatchObject([{ provider: `web_fetch/${name}`, ok: true }])
      expect(await check('wrong')).toMatchObject([
        { ok: false, error: 'the credential is refused' },
      ])
    })
  },
)

test('the check of the service that reads PDFs asks for its models', async () => {
  const check = async (api_key: string) => {
    const world = configure({ plugins: { mistral_ocr: { api_key, base_url: upstream.url } } })
    return (await checkAll(world, ['file-parser/mistral-ocr'], 5_000)).data
  }
  upstream.answer(({ method, path, headers }) =>
    method === 'GET' && path.endsWith('/v1/models') && headers.authorization === 'Bearer k'
      ? json({ object: 'list', data: [] })
      : json({}, { status: 401 }),
  )
  expect(await check('k')).toMatchObject([{ provider: 'file-parser/mistral-ocr', ok: true }])
  expect(await check('wrong')).toMatchObject([{ ok: false, error: 'the credential is refused' }])
})

test('a silent engine fails after its time', async () => {
  upstream.answer(() => ({ wait: 'never' }))
  const { data } = await checkAll(withEngine('exa'), [], 50)
  expect(data).toMatchObject([
    { provider: 'web_search/exa', ok: false, error: 'no answer within 0.05 seconds' },
  ])
})

test('engines are named with their tool, and unknown ones are not found', async () => {
  const check = (name: string, engine = 'exa') =>
    checkAll(withEngine(engine), [name], 1_000).catch(({ status, message }) => [status, message])
  expect(await check('web_search/google')).toEqual([404, '"google" is not a search engine'])
  expect(await check('web_search/tavily')).toEqual([
    400,
    'web_search/tavily cannot be checked: it is not configured (web_search.engines.tavily)',
  ])
  expect(await check('web_fetch/google')).toEqual([
    404,
    '"google" is not a service that reads pages',
  ])
  expect(await check('web_fetch/exa')).toMatchObject([400, expect.stringContaining('configured')])
  for (const name of ['toString/exa', 'web_search'])
    expect(await check(name)).toMatchObject([404, expect.stringContaining('provider')])
  expect(await check('exa')).toMatchObject([404, expect.stringContaining('"exa"')])
})

test('the list of tools says what works and why the rest does not', async () => {
  const world = configure({
    web_search: { engines: { exa: {}, searxng: { base_url: upstream.url } } },
    web_fetch: { enabled: false, engines: { exa: { api_key: 'k' }, parallel: {} } },
    mcp_servers: {
      docs: { url: 'https://docs.example/mcp' },
      off: { url: 'https://off.example/mcp', enabled: false },
    },
  })
  const { data } = await listTools(world)
  const of = (name: string) => data.find(({ tool }) => tool === name)
  expect(of('web_search')).toEqual({ tool: 'web_search', works: true, reason: null })
  expect(of('web_search/searxng')).toMatchObject({ works: true, reason: null })
  expect(of('web_search/exa')).toEqual({
    tool: 'web_search/exa',
    works: false,
    reason: 'it has no key (web_search.engines.exa.api_key)',
  })
  expect(of('web_fetch')).toMatchObject({
    works: false,
    reason: 'web_fetch is switched off (web_fetch.enabled)',
  })
  expect(of('web_fetch/exa')).toMatchObject({ works: true, reason: null })
  expect(of('web_fetch/parallel')).toMatchObject({
    works: false,
    reason: 'it has no key (web_fetch.engines.parallel.api_key)',
  })
  expect(of('mcp/docs')).toMatchObject({ works: true })
  expect(of('mcp/off')).toMatchObject({
    works: false,
    reason: 'is switched off (mcp_servers.off.enabled)',
  })
  const named = new Set(data.map(({ tool }) => tool.split('/')[0]))
  expect([...named]).toEqual(gateway.tools.map(({ name }) => name))
})
