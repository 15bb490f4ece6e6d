import { afterAll, beforeAll, expect, test } from 'bun:test'
import { startMcpServer, type TestMcpServer, textResult } from '../support/mcp-server.ts'
import { answerAsPeer, SEARCH_PEERS } from '../support/search-peers.ts'
import { type Server, startServer } from '../support/server.ts'
import { body, completion, startUpstream, type Upstream } from '../support/upstream.ts'

/*
 * A server as it is installed uses the libraries that are loaded on first use: a page with its
 * robots.txt, a search and an MCP server in one call.
 */

const SECRET = 'token-that-nobody-should-see-1357924680'

let model: Upstream
let web: Upstream
let mcp: TestMcpServer
let server: Server
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
  server = await startServer({
    config: {
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
    },
  })
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await Promise.all([model.close(), web.close(), mcp.close()])
})

test('a page, a page that robots may not read, a search and an MCP tool in one turn', async () => {
  const { origin } = new URL(web.url)
  const calls = [
    ['web_fetch', { url: `${origin}/page` }],
    ['web_fetch', { url: `${origin}/private` }],
    ['web_search', { query: 'good news' }],
    ['own__multiply', { a: 6, b: 7 }],
  ].map(([name, input], i) => ({
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
      tools: [
        { type: 'gateway:web_fetch' },
        { type: 'web_search' },
        { type: 'gateway:mcp', parameters: { server_label: 'own' } },
      ],
    },
  })
  const answer = await response.json()
  expect([response.status, answer.choices[0].message.content]).toEqual([200, 'Done'])
  const sent = model.hits.at(-1)?.json as { messages: { role: string; content: string }[] }
  const results = sent.messages.filter(({ role }) => role === 'tool').map(one => one.content)
  expect(results).toEqual([
    expect.stringContaining('Page\n\n# Hello'),
    'The site’s robots.txt does not allow this page',
    expect.stringContaining('https://example.com/found'),
    expect.stringContaining('42 for [secret]'),
  ])
  expect(JSON.stringify(answer)).not.toContain(SECRET)
  expect(mcp.requests.at(-1)?.headers.get('authorization')).toBe(`Bearer ${SECRET}`)
})
