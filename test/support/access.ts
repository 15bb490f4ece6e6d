import type { Database } from 'bun:sqlite'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import type { Gateway } from '../../src/app/gateway.ts'
import { type Actor, authenticate, getOperator } from '../../src/resources/actor.ts'
import type { NewKey } from '../../src/resources/keys/schema.ts'
import type { Key } from '../../src/resources/keys/store.ts'
import { createKey, deleteKey, updateKey } from '../../src/resources/keys.ts'
import { addMember, deactivateMember } from '../../src/resources/members.ts'
import { createScimToken, revokeScimToken } from '../../src/resources/scim/tokens.ts'
import { beginKeySession, beginSession, signOut } from '../../src/resources/sign-ins.ts'
import { createWorkspace } from '../../src/resources/workspaces.ts'
import { createApp } from '../../src/server/app.ts'
import type { DescribedRoute } from '../../src/server/openapi.ts'
import { dialects } from '../../src/translation/dialects/registry.ts'
import { compaction } from '../../src/translation/dialects/responses.ts'
import { awaitRecords, openDatabaseNow } from './database.ts'
import { createCountedIds, TestClock, testGateway } from './gateway.ts'
import { CALLS } from './operations/calls.ts'
import { PROVISIONING } from './operations/provisioning.ts'
import { READINGS } from './operations/readings.ts'
import { EXAMPLES, type OperationRequest, type RequestBuilder } from './operations.ts'
import { buildLocalConfig } from './server.ts'

/** A valid request of every operation, by operation id. */
export const REQUESTS: Record<string, RequestBuilder> = {
  ...READINGS,
  ...CALLS,
  ...PROVISIONING,
  ...EXAMPLES,
}

/** How a request presents a key. */
export interface Credential {
  headers?: [name: string, value: string][]
  query?: string
}

/** The valid credentials. A stranger's and a neighbour's belong to another workspace. */
export const LIVE = [
  ...[
    'inference key',
    'stranger’s inference key',
    'management key',
    'neighbour’s management key',
    'SCIM token',
  ],
  ...['inference key in x-api-key', 'management key in x-api-key'],
  ...['manager’s session', 'member’s session'],
] as const
export type Live = (typeof LIVE)[number]
type Keyed = Exclude<Live, `${string}session`>

const bearer = (secret: string): Credential => ({
  headers: [['authorization', `Bearer ${secret}`]],
})
/** A session of the console, as its page shows it. */
const cookie = (secret: string, mark = 'x-gateway-console'): Credential => ({
  headers: [
    ['cookie', `gateway_console=${secret}`],
    [mark, '1'],
  ],
})
const apiKeyHeader = (secret: string): Credential => ({ headers: [['x-api-key', secret]] })

/** What ends answers that would go on for ever, by their path. */
const ENDLESS: Record<string, string> = { '/api/v1/activity/stream': 'limit=1' }

/** A gateway with its own data directory, three workspaces and every kind of credential. */
export class World {
  readonly gateway: Gateway
  readonly live: Record<Live, Credential>
  readonly dead: Record<string, Credential>
  /** The managers of the default workspace (and so of all), of another, and of a third. */
  readonly actors: { operator: Actor; neighbour: Actor; third: Actor }
  readonly #app: ReturnType<typeof createApp>
  readonly #data: string
  /** A connection that reads beside the server, once something is read. */
  #database: Database | undefined
  /** What all tables held when the database was last changed. */
  #tables: { version: number; rows: Record<string, unknown[][]> } | undefined

  constructor(data: string, gateway: Gateway, made: WorldParts) {
    this.#data = data
    this.#app = createApp(gateway)
    this.gateway = gateway
    this.live = made.live
    this.dead = made.dead
    this.actors = made.actors
  }

  /**
   * Calls a route. Equal requests get equal bytes: the request id is fixed, and call ids are
   * replaced.
   */
  async ask(
    { method, path }: Pick<DescribedRoute, 'method' | 'path'>,
    credential: Credential,
    { params = {}, query = ENDLESS[path], body }: OperationRequest = {},
  ) {
    const at = path.replace(/:(\w+)/g, (_, name: string) =>
      encodeURIComponent(params[name] ?? 'unknown'),
    )
    const isForm = body instanceof FormData
    const headers = new Headers({ 'x-request-id': 'asked' })
    if (!isForm) headers.set('content-type', 'application/json')
    for (const [name, value] of credential.headers ?? []) headers.append(name, value)
    const asked = [query, credential.query].filter(Boolean).join('&')
    const init = {
      method: method.toUpperCase(),
      headers,
      ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
    }
    const response = await this.#app.handle(
      new Request(`http://localhost${at}${asked && `?${asked}`}`, init),
    )
    const { 'x-generation-id': call, ...rest } = Object.fromEntries(response.headers)
    const text = await response.text()
    return {
      status: response.status,
      headers: Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== call)),
      body: call === undefined ? text : text.replaceAll(call, 'this call'),
    }
  }

  /**
   * Reads everything in the data directory: all tables with the audit trail, and the other files.
   * Tables are read anew once something has been committed to them.
   */
  readStored(): Record<string, unknown> {
    awaitRecords(this.#data)
    const beside = readdirSync(this.#data, { recursive: true, withFileTypes: true })
      .filter(entry => entry.isFile() && !entry.name.startsWith('gateway.db'))
      .map(entry => relative(this.#data, join(entry.parentPath, entry.name)))
    return {
      ...this.#readTables(),
      ...Object.fromEntries(
        beside.map(name => [name, readFileSync(join(this.#data, name), 'latin1')]),
      ),
    }
  }

  #readTables(): Record<string, unknown[][]> {
    this.#database ??= openDatabaseNow(this.#data, { readonly: true })
    const [[version]] = this.#database.query('pragma data_version').values() as [[number]]
    if (this.#tables?.version !== version)
      this.#tables = { version, rows: readTables(this.#database) }
    return this.#tables.rows
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#database?.close()
    await this.gateway.close()
    rmSync(this.#data, { recursive: true, force: true })
  }
}

/** That a request was refused is put on record a moment later, beside another one's effects. */
const OF_REFUSALS = "('refusals', 'sqlite_sequence')"

function readTables(db: Database): Record<string, unknown[][]> {
  const tables = db
    .query(`select name from sqlite_schema where type = 'table' and name not in ${OF_REFUSALS}`)
    .all() as { name: string }[]
  return Object.fromEntries(
    tables.map(({ name }) => [name, db.query(`select * from "${name}"`).values()]),
  )
}

type WorldParts = Pick<World, 'live' | 'dead' | 'actors'>

/** Opens a world whose models are at `upstream`. The caller disposes of it (`await using`). */
export async function openWorld(upstream: string): Promise<World> {
  const { path, credentials } = await prepared
  const data = mkdtempSync(join(tmpdir(), 'gateway-access-'))
  cpSync(path, data, { recursive: true, filter: one => !one.endsWith('.sock') })
  const clock = new TestClock()
  clock.pass(PREPARATION)
  const config = buildLocalConfig(upstream, {
    responses: { store: true },
    mcp_servers: { files: { url: upstream } },
  })
  const gateway = await testGateway({ data, clock, ids: createCountedIds(USED_IDS), config })
  return new World(data, gateway, { ...credentials, actors: findActors(gateway, credentials) })
}

/** How many milliseconds of the clock and how many ids the preparation may use. */
const PREPARATION = 1
const USED_IDS = 1_000

/** The credentials, and the id of the third workspace, in which they have no key. */
type Credentials = Omit<WorldParts, 'actors'> & { third: string }

/** The data directory of every world before its test: made once, and copied. */
const prepared = prepareData()

async function prepareData(): Promise<{ path: string; credentials: Credentials }> {
  const path = mkdtempSync(join(tmpdir(), 'gateway-access-'))
  process.once('exit', () => rmSync(path, { recursive: true, force: true }))
  const clock = new TestClock()
  const gateway = await testGateway({ data: path, clock })
  const credentials = await createCredentials(gateway, clock)
  await gateway.close()
  return { path, credentials }
}

function findActors(gateway: Gateway, { live, third }: Credentials): WorldParts['actors'] {
  const [, header = ''] = live['neighbour’s management key'].headers?.[0] ?? []
  const neighbour = authenticate(gateway, header)
  return {
    operator: getOperator(gateway),
    neighbour,
    third: { ...neighbour, workspace_id: third },
  }
}

async function createCredentials(gateway: Gateway, clock: TestClock): Promise<Credentials> {
  const owner = getOperator(gateway)
  const make = async (kind: Key['kind'], more: Partial<NewKey> = {}) =>
    createKey(gateway, owner, { name: kind, ...more }, kind)
  const workspace = async (slug: string) =>
    (await createWorkspace(gateway, owner, { name: slug, slug })).data.id
  const next = await workspace('next')
  const third = await workspace('third')
  const { id: creator_user_id } = await addMember(gateway, owner, {
    email: 'neighbour@acme.example',
  })
  const theirs = { workspace_id: next, creator_user_id }
  const inference = await make('inference')
  const management = await make('management')
  const manager = await make('management', theirs)
  const managing = authenticate(gateway, `Bearer ${management.key}`)
  const live: World['live'] = {
    'inference key': bearer(inference.key),
    'stranger’s inference key': bearer((await make('inference', theirs)).key),
    'management key': bearer(management.key),
    'neighbour’s management key': bearer(manager.key),
    'SCIM token': bearer((await createScimToken(gateway, owner, { name: 'live' })).token),
    'inference key in x-api-key': apiKeyHeader(inference.key),
    'management key in x-api-key': apiKeyHeader(management.key),
    'manager’s session': cookie(await beginKeySession(gateway, managing, management.key)),
    'member’s session': cookie(await beginSession(gateway, creator_user_id)),
  }
  const dead = {
    ...buildBadCredentials(management.key),
    ...(await createDeadCredentials(gateway, clock, make)),
    'a session of which no page of its own tells': cookie(
      await beginKeySession(gateway, managing, management.key),
      'x-other',
    ),
  }
  return { live, dead, third }
}

/** Builds the ways to present a valid key that must not be accepted. */
const buildBadCredentials = (key: string): Record<string, Credential> => ({
  nothing: {},
  'an empty header': { headers: [['authorization', '']] },
  garbage: bearer('gw-v1-garbage'),
  'the key alone': { headers: [['authorization', key]] },
  'the key as Basic': { headers: [['authorization', `Basic ${btoa(`key:${key}`)}`]] },
  'the key’s hash': bearer(new Bun.CryptoHasher('sha256').update(key).digest('hex')),
  'the key twice': { headers: [...(bearer(key).headers ?? []), ...(bearer(key).headers ?? [])] },
  'another header before the key’s': {
    headers: [['authorization', 'Bearer x'], ...(bearer(key).headers ?? [])],
  },
  'another header after the key’s': {
    headers: [...(bearer(key).headers ?? []), ['authorization', 'Bearer x']],
  },
  'another header beside x-api-key': {
    headers: [['authorization', 'Bearer x'], ...(apiKeyHeader(key).headers ?? [])],
  },
  'the key in the query': { query: `api_key=${key}&key=${key}&access_token=${key}` },
  'the key in a cookie': { headers: [['cookie', `authorization=Bearer ${key}; api_key=${key}`]] },
})

type Make = (kind: Key['kind'], more?: Partial<NewKey>) => ReturnType<typeof createKey>

/** Creates credentials that are no longer valid. */
async function createDeadCredentials(
  gateway: Gateway,
  clock: TestClock,
  make: Make,
): Promise<Record<string, Credential>> {
  const owner = getOperator(gateway)
  const leaver = await addMember(gateway, owner, { email: 'leaver@acme.example' })
  const keys: Record<string, Credential> = {}
  for (const kind of ['management', 'inference'] as const) {
    const disabled = await make(kind)
    await updateKey(gateway, owner, disabled.data.hash, { disabled: true })
    const deleted = await make(kind)
    await deleteKey(gateway, owner, deleted.data.hash)
    const expired = await make(kind, {
      expires_at: new Date(clock.now().getTime() + 1).toISOString(),
    })
    const left = await make(kind, { creator_user_id: leaver.id })
    for (const [how, { key }] of Object.entries({ disabled, deleted, expired, left }))
      keys[`${how}, ${kind}`] = bearer(key)
  }
  clock.pass(PREPARATION)
  await deactivateMember(gateway, owner, leaver.id)
  const revoked = await createScimToken(gateway, owner, { name: 'revoked' })
  await revokeScimToken(gateway, owner, revoked.data.id)
  const ended = await beginSession(gateway, owner.user_id)
  await signOut(gateway, ended)
  return {
    ...keys,
    'revoked SCIM token': bearer(revoked.token),
    'a session that has ended': cookie(ended),
  }
}

/** The guard of each path: the first row that matches. Every path must match a row. */
export const GUARDED: [paths: RegExp, opens: DescribedRoute['credential']][] = [
  [
    /^\/(credits|favicon\.ico|healthz?|ready|metrics|docs(\/:part)?|openapi\.(json|yaml))?$/,
    undefined,
  ],
  [/^\/(openai\/deployments|v1beta\/models|model|mcp)(\/|$)/, 'key'],
  [/^\/api\/v1\/(auth\/keys|oauth\/(token|jwks))$/, undefined],
  [/^\/api\/v1\/auth\/keys\/code$/, 'key'],
  [/^\/api\/v1\/models\/user$/, 'key'],
  [
    /^\/api\/v1\/(models|model|embeddings\/models|images\/models|videos\/models|endpoints\/zdr|providers|credits\/coinbase)(\/|$)/,
    undefined,
  ],
  [/^\/api\/v1\/(chat\/completions|completions|embeddings|responses)(\/|$)/, 'key'],
  [/^\/api\/v1\/generation\/feedback$/, 'management'],
  [/^\/api\/v1\/(generation|key|moderations|presets|rerank|images|videos|audio)(\/|$)/, 'key'],
  [
    /^\/api\/v1\/(messages(\/count_tokens)?$|(files|containers|batches|messages\/batches)(\/|$))/,
    'key-in-either-header',
  ],
  [/^\/api\/v1\/(datasets|classifications|benchmarks)(\/|$)/, 'key'],
  [/^\/api\/v1\/(activity|analytics)(\/|$)/, 'management'],
  [/^\/api\/v1\/scim\/v2\//, 'scim'],
  [/^\/api\/v1\/(alerts|observability\/destinations)(\/|$)/, 'management'],
  [
    /^\/api\/v1\/(audit|byok|credits|guardrails|keys|organization|scim|workspaces)(\/|$)/,
    'management',
  ],
]

type Rule = (route: DescribedRoute) => number

const good: Rule = ({ operation }) => operation.statuses[0] ?? 0
const unknown: Rule = () => 401
const denied: Rule = () => 403
/** Management keys may read what calls use, but neither call nor save presets. */
const reading: Rule = route => (route.method === 'get' ? good(route) : 403)
/** What the path or the query names is in another workspace, so it is not found. */
const own: Rule = route => (namesResource(route) ? 404 : good(route))
/** As `own`. In other requests than reads the path names what is to be created. */
const ownIfRead: Rule = route => (route.method === 'get' ? own(route) : good(route))
const ownReading: Rule = route => (route.method === 'get' ? own(route) : 403)
/** Only managers of all workspaces may access what belongs to the organization. */
const ownOfWorkspace: Rule = route => (isOrganizations(route) ? 403 : own(route))

/**
 * The status of a valid request about the default workspace, by the route's guard and the
 * credential.
 */
export const RULES: Record<NonNullable<DescribedRoute['credential']>, Record<Keyed, Rule>> = {
  key: {
    'inference key': good,
    'stranger’s inference key': ownIfRead,
    'management key': reading,
    'neighbour’s management key': ownReading,
    'SCIM token': unknown,
    'inference key in x-api-key': unknown,
    'management key in x-api-key': unknown,
  },
  'key-in-either-header': {
    'inference key': good,
    'stranger’s inference key': ownIfRead,
    'management key': reading,
    'neighbour’s management key': ownReading,
    'SCIM token': unknown,
    'inference key in x-api-key': good,
    'management key in x-api-key': reading,
  },
  management: {
    'inference key': denied,
    'stranger’s inference key': denied,
    'management key': good,
    'neighbour’s management key': ownOfWorkspace,
    'SCIM token': unknown,
    'inference key in x-api-key': unknown,
    'management key in x-api-key': unknown,
  },
  scim: {
    'inference key': denied,
    'stranger’s inference key': denied,
    'management key': denied,
    'neighbour’s management key': denied,
    'SCIM token': good,
    'inference key in x-api-key': unknown,
    'management key in x-api-key': unknown,
  },
}

/** Returns the status of a valid request with this credential; null is an invalid credential. */
export function getExpectedStatus(route: DescribedRoute, who: Live | null): number {
  // A code works once, so that the requests here have none.
  if (route.operation.id === 'exchangeAuthCodeForAPIKey') return 403
  // No issuer is configured, so that there is no policy by which to get a token.
  if (route.operation.id === 'createOauthToken') return 400
  if (!route.credential) return good(route)
  if (who === null) return 401
  if (who === 'manager’s session')
    return takesSessions(route) ? getExpectedStatus(route, 'management key') : 401
  if (who === 'member’s session') return getStatusOfMember(route)
  // There is nothing to judge with.
  if (route.operation.id === 'createModeration' && /^(stranger’s )?inference key$/.test(who))
    return 400
  if (route.operation.id === 'createMessageBatch')
    return who.includes('management key') ? 403 : good(route) && RULES[route.credential][who](route)
  if (route.operation.id === 'createBatch') {
    if (who.includes('management key')) return 403
    // The file of its body is in another workspace.
    if (who === 'stranger’s inference key') return 404
  }
  // It has no session that could be listened to, or ended. Servers are of every workspace.
  if (route.operation.tag === 'MCP' && who.endsWith('inference key'))
    return route.method === 'post' ? 200 : 400
  if (route.operation.tag === 'MCP' && who.endsWith('management key')) return 403
  if (isStoredResponse(route)) return RESPONSE_RULES[who](route)
  return (isAboutFiles(route) ? FILE_RULES : RULES[route.credential])[who](route)
}

/** Where calls are made that those who manage can have explained. */
const EXPLAINED = new Set(
  [...dialects, compaction].flatMap(({ path, acceptsApiKeyHeader }) =>
    acceptsApiKeyHeader ? [] : `/api/v1${path}`,
  ),
)

/** Tells whether a route may be asked in a session of the console, as with a management key. */
const takesSessions = ({ path, method, credential }: DescribedRoute): boolean =>
  credential === 'management' ||
  /^\/api\/v1\/(files|datasets|classifications|benchmarks|generation|key|auth\/keys\/code)(\/|$)/.test(
    path,
  ) ||
  (method === 'get' && path.startsWith('/api/v1/presets')) ||
  (method === 'post' && EXPLAINED.has(path))

/** A member has what is their own, of which there is nothing yet. */
function getStatusOfMember(route: DescribedRoute): number {
  if (!takesSessions(route)) return 401
  const isOwn = /^\/api\/v1\/(keys|generation|analytics|activity\/stream)(\/(?!feedback)|$)/
  return isOwn.test(route.path) ? own(route) : 403
}

/** Tells whether a route is about files, containers or batches, which belong to every key of a workspace. */
export const isAboutFiles = ({ path }: Pick<DescribedRoute, 'path'>): boolean =>
  /^\/api\/v1\/(files|containers|batches|messages\/batches)(\/|$)/.test(path)

const FILE_RULES: Record<Keyed, Rule> = {
  'inference key': good,
  'stranger’s inference key': own,
  'management key': good,
  'neighbour’s management key': own,
  'SCIM token': unknown,
  'inference key in x-api-key': good,
  'management key in x-api-key': good,
}

/** Tells whether a route is about a stored response: its key and its managers share it. */
const isStoredResponse = ({ path }: DescribedRoute): boolean =>
  path.startsWith('/api/v1/responses/:')

const RESPONSE_RULES: Record<Keyed, Rule> = {
  ...FILE_RULES,
  'inference key in x-api-key': unknown,
  'management key in x-api-key': unknown,
}

/** Tells whether a route's path or query names a resource that a user has created. */
export const namesResource = ({ path, operation: { query } }: DescribedRoute): boolean =>
  (path.includes(':') && !path.startsWith('/v1beta/models/')) ||
  path === '/api/v1/generation/feedback' ||
  ((query?.required as string[] | undefined) ?? []).includes('id')

/** Tells whether a route is about the organization rather than a workspace. */
export const isOrganizations = ({
  method,
  path,
}: Pick<DescribedRoute, 'method' | 'path'>): boolean =>
  /^\/api\/v1\/(organization|scim|credits)\b/.test(path) ||
  (method === 'post' && path === '/api/v1/workspaces')
