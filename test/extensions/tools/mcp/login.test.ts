import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../../../src/app/gateway.ts'
import { Cancellation } from '../../../../src/base/cancellation.ts'
import type { Json } from '../../../../src/base/json.ts'
import { beginLogin, listMcpLogins, logOut } from '../../../../src/extensions/tools/mcp/login.ts'
import { readLogin } from '../../../../src/extensions/tools/mcp/logins.ts'
import { readMcpOptions } from '../../../../src/extensions/tools/mcp/options.ts'
import { listSecrets, resolveServer } from '../../../../src/extensions/tools/mcp/server.ts'
import { runSession } from '../../../../src/extensions/tools/mcp/session.ts'
import { runLimited, toFailedResult } from '../../../../src/extensions/tools/use-limit.ts'
import { getOperator } from '../../../../src/resources/actor.ts'
import {
  startAuthorizationServer,
  type TestAuthorization,
} from '../../../support/authorization-server.ts'
import { TestClock, testGateway } from '../../../support/gateway.ts'
import { startMcpServer, type TestMcpServer, textResult } from '../../../support/mcp-server.ts'

const REDIRECT = 'http://127.0.0.1:5/callback'
const AGAIN = 'The MCP server own needs a person who logs in: gateway mcp login own'

let mcp: TestMcpServer
let server: TestAuthorization
let gateway: Gateway
let clock: TestClock

async function open(oauth: Json = {}): Promise<void> {
  clock = new TestClock()
  gateway = await testGateway({
    clock,
    config: {
      security: { allow_private_urls: [server.host] },
      mcp_servers: {
        own: { url: server.url, oauth: { grant: 'authorization_code', ...oauth } },
        open: { url: server.url },
      },
    },
  })
}
beforeEach(async () => {
  mcp = startMcpServer({
    tools: [{ name: 'who', run: (_, headers) => textResult(headers.get('authorization') ?? '') }],
  })
  server = startAuthorizationServer(mcp.url)
  await open()
})
afterEach(async () => {
  await gateway.close()
  await server.stop()
  await mcp.close()
})

const begin = (label = 'own') => beginLogin(gateway, getOperator(gateway), label, REDIRECT)

async function logIn(): Promise<void> {
  const begun = await begin()
  await begun.finish(server.consent(begun.url).searchParams)
}

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

const getState = async () => (await listMcpLogins(gateway)).data[0]

describe('a person', () => {
  test('logs in once, and every call uses that', async () => {
    expect(await use()).toBe(AGAIN)
    const { url } = await begin()
    const asked = Object.fromEntries(new URL(url).searchParams)
    expect(asked).toMatchObject({
      ...{ response_type: 'code', client_id: 'client-1', redirect_uri: REDIRECT },
      ...{ scope: 'read', resource: server.url, code_challenge_method: 'S256' },
    })
    await logIn()
    expect(await Promise.all([use(), use()])).toEqual(['Bearer access-1', 'Bearer access-1'])
    expect(await getState()).toMatchObject({ state: 'logged in', issuer: server.issuer })
    const { entries: data } = await gateway.store.audit.listPage({ action: 'mcp.login' }, 0, 9)
    expect(data).toHaveLength(1)
    expect(JSON.stringify(data)).not.toContain('access-1')
  })

  test('is known by what the config says, and not registered', async () => {
    await gateway.close()
    await open({ client_id: 'mine', client_secret: 'secret-of-mine', scope: 'write' })
    const { url } = await begin()
    expect(Object.fromEntries(new URL(url).searchParams)).toMatchObject({
      ...{ client_id: 'mine', scope: 'write' },
    })
    expect(server.asked).toEqual([])
  })

  test('logs out: the tokens are given back and forgotten', async () => {
    await logIn()
    expect(await logOut(gateway, getOperator(gateway), 'own')).toMatchObject({
      data: { state: 'not logged in', revoked: true },
    })
    expect(server.asked.at(-1)).toBe('revoke refresh-1')
    expect(await use()).toBe(AGAIN)
    expect(logOut(gateway, getOperator(gateway), 'own')).rejects.toThrow('Nobody is logged in')
  })

  test.each([
    ['another state', { state: 'x' }, 'state'],
    ['another issuer', { iss: 'https://evil.example' }, 'iss'],
    ['a refusal', { error: 'access_denied' }, 'was refused: access_denied'],
    ['words as a refusal', { error: 'Call +1 555 0100' }, 'was refused'],
    ['no code', { code: '' }, 'no code'],
    ['a code that is none', { code: 'x' }, 'refused: invalid_grant'],
  ])('that comes back with %s is not logged in', async (_, change, message) => {
    const begun = await begin()
    const answer = server.consent(begun.url).searchParams
    for (const [name, value] of Object.entries(change)) answer.set(name, value)
    const thrown = await begun.finish(answer).catch(error => error)
    expect(thrown.message).toContain(message)
    expect(thrown.message).not.toContain('555')
    expect(thrown.message).not.toContain('secret words')
    expect(await getState()).toMatchObject({ state: 'not logged in' })
  })

  test('is not asked where nobody logs in', async () => {
    expect(begin('open')).rejects.toThrow('mcp_servers.open.oauth.grant')
    expect(begin('nobody')).rejects.toThrow('There is no MCP server nobody')
  })
})

describe('a token', () => {
  test('is refreshed a minute before its end, once for all who wait', async () => {
    await logIn()
    clock.pass(539_000)
    expect(await use()).toBe('Bearer access-1')
    clock.pass(1_000)
    expect(await Promise.all([use(), use(), use()])).toEqual(
      Array<string>(3).fill('Bearer access-2') as never,
    )
    expect(server.asked.filter(one => one === 'token refresh_token')).toHaveLength(1)
    expect((await readLogin(gateway, 'own'))?.login.refresh_token).toBe('refresh-2')
    expect(listSecrets(findServer())).toEqual(expect.arrayContaining(['access-2', 'refresh-2']))
  })

  test('is refreshed where its server refuses it', async () => {
    await logIn()
    await use()
    server.refuseTokens()
    expect(await use()).toBe('Bearer access-2')
  })

  test('that nobody refreshes needs a person again', async () => {
    await logIn()
    server.refuseRefreshes()
    clock.pass(600_000)
    expect(await use()).toBe(AGAIN)
    expect(await getState()).toMatchObject({ state: 'log in again' })
    await logIn()
    expect(await use()).toBe('Bearer access-2')
  })

  test('is not lost to an authorization server that is down', async () => {
    await logIn()
    clock.pass(600_000)
    server.lies.answer = () => new Response('secret words', { status: 503 })
    expect(await use()).toBe(
      'The authorization server of the MCP server own gave no answer that can be used',
    )
    server.lies = {}
    expect(await use()).toBe('Bearer access-2')
  })

  test('that another process has refreshed meanwhile is used', async () => {
    await logIn()
    clock.pass(600_000)
    server.lies.answer = async () => {
      server.lies = {}
      await logIn()
      server.refuseRefreshes()
      return undefined
    }
    expect(await use()).toBe('Bearer access-2')
  })

  test('is sent to the server that it was given for, and to no other', async () => {
    await logIn()
    const settings = gateway.config.mcp_servers.own
    if (settings) settings.url = mcp.url
    expect(await use()).toBe(AGAIN)
  })
})

describe('an authorization server', () => {
  test.each<[string, TestAuthorization['lies'], string]>([
    ['without PKCE', { metadata: { code_challenge_methods_supported: ['plain'] } }, 'PKCE'],
    [
      'that does not say PKCE',
      { metadata: { code_challenge_methods_supported: undefined } },
      'PKCE',
    ],
    ['that is another', { metadata: { issuer: 'https://evil.example' } }, 'another one'],
    ['at http', { metadata: { token_endpoint: 'http://login.example/token' } }, 'https'],
    ['that registers nobody', { metadata: { registration_endpoint: undefined } }, 'client_id'],
    [
      'in the private network',
      { resource: { authorization_servers: ['http://10.0.0.1'] } },
      'public',
    ],
    ['of another resource', { resource: { resource: 'https://other.example/' } }, 'own'],
    ['that redirects', { answer: () => Response.redirect('http://10.0.0.1/') }, 'tokens are'],
    ['that sends megabytes', { answer: () => new Response('x'.repeat(2 ** 20)) }, 'own'],
    ['that is a page', { answer: () => new Response('<p>secret words') }, 'own'],
  ])('%s gets nobody’s login', async (_, lies, message) => {
    server.lies = lies
    const thrown = await begin().catch(error => error)
    expect(thrown.message).toContain(message)
    expect(thrown.message).not.toContain('secret words')
    expect(mcp.requests).toEqual([])
  })

  test.each([
    ['a header', { access_token: 'a\r\nx: 1', token_type: 'Bearer' }, 'gave no token'],
    ['another type', { access_token: 'a', token_type: 'mac' }, 'another type'],
    ['nothing', {}, 'no answer that can be used'],
  ])('that gives %s as a token logs nobody in', async (_, tokens, message) => {
    const begun = await begin()
    server.lies.answer = ({ pathname }) =>
      pathname === '/token' ? Response.json(tokens) : undefined
    expect(begun.finish(server.consent(begun.url).searchParams)).rejects.toThrow(message)
  })
})
