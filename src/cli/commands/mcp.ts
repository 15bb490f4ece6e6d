import { Option } from 'commander'
import type { Gateway } from '../../app/gateway.ts'
import { GatewayError, invalid } from '../../base/errors.ts'
import type { BegunLogin, McpLoginState } from '../../extensions/tools/mcp/login.ts'
import type { Actor } from '../../resources/actor.ts'
import { CUT, type Fields, type Flags } from '../fields.ts'
import { defineNoun, defineVerbs } from '../noun.ts'
import { parseNumber } from '../options.ts'
import { print, printNote } from '../output.ts'

/** The options of a login. */
interface LoginFlags extends Flags {
  port?: number
  paste?: boolean
}

type LoginCore = typeof import('../../extensions/tools/mcp/login.ts')

const verb = defineVerbs(() => import('../../extensions/tools/mcp/login.ts'), {
  args: { label: 'its name in mcp_servers' },
  needs: { secrets: true },
})

const LOGIN: Fields = {
  options: [
    new Option('--port <n>', 'the port on 127.0.0.1 to come back to (any free one)').argParser(
      parseNumber,
    ),
    new Option('--paste', 'the browser is on another machine: paste where it comes back to'),
  ],
}

/** `gateway mcp`: the logins of the gateway at MCP servers that want a person. */
export const createMcpCommand = () =>
  defineNoun('mcp', 'logins of the gateway at MCP servers', [
    verb(
      'list',
      'list the MCP servers of the config, and whether somebody is logged in there',
      [CUT],
      core => core.listMcpLogins,
    ).printAs({
      SERVER: ({ label }) => label,
      STATE: ({ state }) => state,
      'TOKEN ENDS': ({ expires_at }) => expires_at,
      ISSUER: ({ issuer }) => issuer,
      SCOPE: ({ scope }) => scope,
    }),
    verb(
      'login <label>',
      'log in at an MCP server by a browser: its calls use what you may',
      [LOGIN],
      (core, flags: LoginFlags) => (gateway, actor, label) =>
        logIn(core, { gateway, actor, label, flags }),
    ).printAs(({ data }) => printLogin(data)),
    verb(
      'logout <label>',
      'give the tokens of an MCP server back, and forget them',
      [],
      core => core.logOut,
    ).printAs(({ data: { label, revoked } }) =>
      print(
        revoked
          ? `Logged out at ${label}: its tokens are given back`
          : `Logged out at ${label}: its tokens are forgotten, and may be valid until their end`,
      ),
    ),
  ])

function printLogin({ label, expires_at, scope }: McpLoginState): void {
  print(`Logged in at ${label}${scope === null ? '' : ` for ${scope}`}`)
  if (expires_at !== null) print(`The first token ends at ${expires_at}`)
}

interface Login {
  gateway: Gateway
  actor: Actor
  label: string
  flags: LoginFlags
}

/** In milliseconds: how long a person may take. */
const PATIENCE = 10 * 60_000

async function logIn(core: LoginCore, { gateway, actor, label, flags }: Login) {
  const { port = 0, paste } = flags
  if (!Number.isInteger(port) || port < 0 || port > 65_535)
    throw invalid('--port: expected a port from 1 to 65535')
  if (paste) {
    const begun = await core.beginLogin(gateway, actor, label, buildRedirect(port || PASTED_PORT))
    showUrl(begun)
    return { data: await begun.finish(await readPasted()) }
  }
  const back = listenForAnswer(port)
  try {
    const begun = await core.beginLogin(gateway, actor, label, buildRedirect(back.port))
    showUrl(begun)
    return { data: await back.answer(begun) }
  } finally {
    await back.stop()
  }
}

/** What the browser shows as its address once it has come back, where nobody listens. */
const PASTED_PORT = 33_418

const buildRedirect = (port: number) => `http://127.0.0.1:${port}/callback`

function showUrl({ url }: BegunLogin): void {
  printNote('Open this in a browser, and say yes there:')
  printNote(url)
}

async function readPasted(): Promise<URLSearchParams> {
  printNote('Then paste the address that the browser comes back to:')
  for await (const line of console) {
    const url = URL.parse(line.trim())
    if (!url) throw invalid('expected the whole address, as http://127.0.0.1:…')
    return url.searchParams
  }
  throw invalid('expected the address on standard input, found nothing')
}

/** Listens for the browser of a person who comes back. The first answer that fits ends the login. */
function listenForAnswer(port: number) {
  const ended = Promise.withResolvers<McpLoginState>()
  ended.promise.catch(() => undefined)
  const begun = Promise.withResolvers<BegunLogin>()
  const server = openServer(port, async request => {
    const { pathname, searchParams } = new URL(request.url)
    if (request.method !== 'GET' || pathname !== '/callback')
      return new Response('Not found\n', { status: 404 })
    try {
      ended.resolve(await (await begun.promise).finish(searchParams))
      return buildPage(200, 'You are logged in. You can close this page.')
    } catch (thrown) {
      const error = GatewayError.from(thrown)
      // What anybody on this machine can send does not end the login of a person.
      if (error.type !== 'conflict') ended.reject(error)
      return buildPage(400, 'The login has failed: the terminal says why.')
    }
  })
  const late = setTimeout(
    () => ended.reject(new GatewayError('timeout', 'Nobody has logged in within 10 minutes')),
    PATIENCE,
  )
  return {
    port: server.port ?? 0,
    answer(login: BegunLogin): Promise<McpLoginState> {
      begun.resolve(login)
      return ended.promise
    },
    async stop(): Promise<void> {
      clearTimeout(late)
      await server.stop()
    },
  }
}

function openServer(port: number, fetch: (request: Request) => Promise<Response>) {
  try {
    return Bun.serve({ hostname: '127.0.0.1', port, fetch })
  } catch {
    throw invalid(`--port: ${port} is in use`)
  }
}

const buildPage = (status: number, text: string): Response =>
  new Response(`<!doctype html><meta charset="utf-8"><title>gateway</title><p>${text}</p>\n`, {
    status,
    headers: {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': "default-src 'none'",
      connection: 'close',
    },
  })
