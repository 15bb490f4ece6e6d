import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startMcpServer, type TestMcpServer, textResult } from '../support/mcp-server.ts'
import { answerAsPeer, SEARCH_PEERS } from '../support/search-peers.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { body, completion, startUpstream, type Upstream } from '../support/upstream.ts'

/*
 * A server as it is installed uses the libraries that are loaded on first use: a page with its
 * robots.txt, a search and an MCP server in one call.
 */

const SECRET = 'token-that-nobody-should-see-1357924680'

let model: Upstream
let web: Upstream
let mcp: TestMcpServer
let server: LocalServer
beforeAll(async () => {
  ;[model, web] = await Promise.all([startUpstream(), startUpstream()])
  mcp = startMcpServer({
    tools: [
      {
        name: 'multiply',
        run: ({ a, b }, headers) =>
          textResult(`${Number(a) * Number(b)} for ${headers.get('authorization')}`),
      },
    ],
  })
  const page = { url: 'https://example.com/found', title: 'Found', text: 'All is well' }
  web.answer(hit => {
    if (hit.path.startsWith('/v1/search')) return answerAsPeer(SEARCH_PEERS.searxng, hit, [page])
    if (hit.path === '/robots.txt') return body('text/plain', 'User-agent: *\nDisallow: /private\n')
    return body('text/html', '<title>Page</title><h1>Hello</h1>')
  })
  server = await startLocalServer({
    providers: { acme: { protocol: 'openai-chat', base_url: model.url, api_key: 'mock' } },
    models: [
      {
        id: 'acme/small',
        context_length: 100_000,
        endpoints: [{ provider: 'acme', model: 'm' }],
      },
    ],
    web_search: { engines: { searxng: { base_url: web.url } } },
    mcp_servers: { own: { url: mcp.url, authorization: SECRET, require_approval: 'never' } },
    security: { allow_private_urls: [new URL(web.url).host] },
  })
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await Promise.all([model.close(), web.close(), mcp.close()])
})

const TOOLS = [
  { type: 'gateway:web_fetch' },
  { type: 'web_search' },
  { type: 'gateway:mcp', parameters: { server_label: 'own' } },
]

/** Has the model use tools, and returns the answer and what the model was told of each. */
async function useTools(uses: [name: string, input: object][], more: object = {}) {
  const calls = uses.map(([name, input], i) => ({
    id: `call_${i}`,
    type: 'function',
    function: { name, arguments: JSON.stringify(input) },
  }))
  model.plan(
    completion('', {
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: null, tool_calls: calls },
          finish_reason: 'tool_calls',
        },
      ],
    }),
    completion('Done'),
  )
  const response = await server.fetch('/chat/completions', {
    json: {
      model: 'acme/small',
      messages: [{ role: 'user', content: 'Go' }],
      tools: TOOLS,
      ...more,
    },
  })
  const answer = await response.json()
  const sent = model.hits.at(-1)?.json as { messages: { role: string; content: string }[] }
  const results = sent?.messages.filter(({ role }) => role === 'tool').map(one => one.content)
  return { status: response.status, answer, results }
}

test('a page, a page that robots may not read, a search and an MCP tool in one turn', async () => {
  const { origin } = new URL(web.url)
  const { status, answer, results } = await useTools([
    ['web_fetch', { url: `${origin}/page` }],
    ['web_fetch', { url: `${origin}/private` }],
    ['web_search', { query: 'good news' }],
    ['own__multiply', { a: 6, b: 7 }],
  ])
  expect([status, answer.choices[0].message.content]).toEqual([200, 'Done'])
  expect(results).toEqual([
    expect.stringContaining('Page\n\n# Hello'),
    'The site’s robots.txt does not allow this page',
    expect.stringContaining('https://example.com/found'),
    expect.stringContaining('42 for [secret]'),
  ])
  expect(JSON.stringify(answer)).not.toContain(SECRET)
  expect(mcp.requests.at(-1)?.headers.get('authorization')).toBe(`Bearer ${SECRET}`)
})

test('rules keep the words of a call from sites, engines and MCP servers as from endpoints', async () => {
  web.hits.length = 0
  mcp.requests.length = 0
  const { origin } = new URL(web.url)
  const uses: [string, object][] = [
    ['web_fetch', { url: `${origin}/page?q=words` }],
    ['web_search', { query: 'words' }],
  ]
  for (const provider of [{ only: ['acme'] }, { ignore: ['web', 'searxng'] }]) {
    const { status, results } = await useTools(uses, { provider, tools: TOOLS.slice(0, 2) })
    expect([status, results]).toEqual([
      200,
      [
        'web_fetch may not be sent this call: its provider web is excluded by allowed_providers',
        'the search engine searxng may not be sent this call: its provider searxng is excluded ' +
          'by allowed_providers',
      ],
    ])
  }
  const listed = await useTools(uses, { provider: { only: ['acme', 'Web', 'searxng', 'mcp'] } })
  expect(listed.results?.[1]).toContain('https://example.com/found')
  const hits = web.hits.length
  mcp.requests.length = 0
  const refused = await useTools([], { provider: { ignore: ['mcp'] } })
  expect([refused.status, refused.answer.error.message]).toEqual([
    403,
    'the MCP server own may not be sent this call: its provider mcp is excluded by ' +
      'allowed_providers',
  ])
  expect([web.hits.length - hits, mcp.requests.length]).toEqual([0, 0])
})
