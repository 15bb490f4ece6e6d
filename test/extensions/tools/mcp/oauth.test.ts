import { afterEach, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../../src/app/gateway.ts'
import { Cancellation } from '../../../../src/base/cancellation.ts'
import type { Json } from '../../../../src/base/json.ts'
import { parseConfig } from '../../../../src/config.ts'
import { readMcpOptions } from '../../../../src/extensions/tools/mcp/options.ts'
import { listSecrets, resolveServer } from '../../../../src/extensions/tools/mcp/server.ts'
import { runSession } from '../../../../src/extensions/tools/mcp/session.ts'
import { runLimited, toFailedResult } from '../../../../src/extensions/tools/use-limit.ts'
import { TestClock, testGateway } from '../../../support/gateway.ts'
import { startMcpServer, type TestMcpServer, textResult } from '../../../support/mcp-server.ts'

const SECRET = 'secret-of-the-client-0123456789'

/** An authorization server, which gives a token each time: token-1, token-2, … */
let tokens: { url: string; asked: { body: string; headers: Headers }[]; stop(): unknown }
let give: (n: number) => Response | Promise<Response>
let server: TestMcpServer
/** The tokens that the MCP server refuses. */
let refused: Set<string>
let gateway: Gateway
let clock: TestClock

async function open(oauth: Json = {}): Promise<void> {
  refused = new Set()
  give = n => Response.json({ access_token: `token-${n}`, token_type: 'bearer', expires_in: 600 })
  const asked: { body: string; headers: Headers }[] = []
  const http = Bun.serve({
    ...{ port: 0, hostname: '127.0.0.1' },
    async fetch(request) {
      asked.push({ body: await request.text(), headers: request.headers })
      return give(asked.length)
    },
  })
  tokens = { url: `http://127.0.0.1:${http.port}/token`, asked, stop: () => http.stop(true) }
  server = startMcpServer({
    tools: [{ name: 'who', run: (_, headers) => textResult(headers.get('authorization') ?? '') }],
    refuses: headers => refused.has(headers.get('authorization') ?? ''),
  })
  clock = new TestClock()
  const settings = { token_url: tokens.url, client_id: 'me', client_secret: SECRET, ...oauth }
  const mcp_servers = { own: { url: server.url, oauth: settings } }
  gateway = await testGateway({ clock, config: { mcp_servers } })
}
afterEach(async () => {
  await gateway.close()
  await server.close()
  await tokens.stop()
})

const findServer = () => {
  const found = resolveServer(gateway.config, readMcpOptions({ server_label: 'own' }, 'server'))
  if ('obstacle' in found) throw new Error(found.obstacle)
  return found
}

/** Uses the tool that tells by which token. A failure is its words. */
const use = (): Promise<string> => {
  const own = findServer()
  return runLimited(new Cancellation(), own.timeoutMilliseconds, limit =>
    runSession(gateway, own, limit, async session => {
      const { content } = await session.callTool('who', {})
      return content[0]?.type === 'text' ? content[0].text : ''
    }),
  ).catch(thrown => toFailedResult(thrown).text)
}

describe('tokens for an MCP server', () => {
  test('are asked for once, as the client, and used for all', async () => {
    await open({ scope: 'read write', resource: 'https://mcp.example' })
    expect(await Promise.all([use(), use()])).toEqual(['Bearer token-1', 'Bearer token-1'])
    expect(await use()).toBe('Bearer token-1')
    expect(tokens.asked).toHaveLength(1)
    const [{ body, headers } = { body: '', headers: new Headers() }] = tokens.asked
    expect(Object.fromEntries(new URLSearchParams(body))).toEqual({
      grant_type: 'client_credentials',
      scope: 'read write',
      resource: 'https://mcp.example',
    })
    expect(headers.get('authorization')).toBe(`Basic ${btoa(`me:${SECRET}`)}`)
  })

  test('are replaced a minute before their end', async () => {
    await open()
    await use()
    clock.pass(539_000)
    expect(await use()).toBe('Bearer token-1')
    clock.pass(1_000)
    expect(await use()).toBe('Bearer token-2')
  })

  test('are replaced once where the server refuses one', async () => {
    await open()
    await use()
    refused.add('Bearer token-1')
    expect(await use()).toBe('Bearer token-2')
    refused.add('Bearer token-2').add('Bearer token-3')
    expect(await use()).toBe('The MCP server own refuses the credential')
    expect(tokens.asked).toHaveLength(3)
  })

  test('and the secret for them are shown in no result', async () => {
    await open()
    await use()
    expect(listSecrets(findServer())).toEqual(expect.arrayContaining([SECRET, 'token-1']))
  })

  test.each([
    ['a refusal', () => new Response(SECRET, { status: 401 }), 'answered with the status 401'],
    ['a redirect', () => Response.redirect('http://127.0.0.1:9/'), 'answered with the status 302'],
    ['no JSON', () => new Response(`<p>${SECRET}`), 'gave no token'],
    ['no token', () => Response.json({ access_token: 7 }), 'gave no token'],
    ['a header', () => Response.json({ access_token: 'a\r\nx: 1' }), 'gave no token'],
    [
      'another type',
      () => Response.json({ access_token: 'a', token_type: 'mac' }),
      'gave a token of another type',
    ],
    [
      'too much',
      () => Response.json({ access_token: 'a'.repeat(100_000) }),
      'gave no answer that can be read',
    ],
  ])('%s is a failure without its words, and the next use asks again', async (_, answer, why) => {
    await open()
    const good = give
    give = answer
    expect(await use()).toBe(`The authorization server of the MCP server own ${why}`)
    expect(server.requests).toEqual([])
    give = good
    expect(await use()).toBe('Bearer token-2')
  })

  test.each([
    [{ authorization: 'x' }, {}, 'mcp_servers.own.oauth: expected none beside authorization'],
    [{}, { grant: 'x' }, 'mcp_servers.own.oauth.grant: expected'],
    [{}, { grants: 'x' }, 'mcp_servers.own.oauth.grants: expected no such field'],
    [{}, { grant: 'authorization_code' }, 'mcp_servers.own.oauth.token_url: expected none'],
    [
      {},
      { grant: 'authorization_code', token_url: undefined, client_id: undefined },
      'mcp_servers.own.oauth.client_id: expected one beside client_secret',
    ],
    [{}, { token_url: 'token' }, 'mcp_servers.own.oauth.token_url: expected'],
    [{ url: undefined, command: ['x'] }, {}, 'mcp_servers.own.oauth: expected none beside command'],
  ])('are configured as they can be: %j %j', (settings, more, message) => {
    const oauth = { token_url: 'https://a.example', client_id: 'me', client_secret: 's', ...more }
    const own = { url: 'https://b.example', oauth, ...settings }
    expect(() => parseConfig(JSON.stringify({ mcp_servers: { own } }), {})).toThrow(message)
  })
})
