import { type Static, type TSchema, Type } from '@sinclair/typebox'
import type { Gateway } from '../../app/gateway.ts'
import { requireValid } from '../../base/body.ts'
import { hashSecret } from '../../base/credential.ts'
import { denied, GatewayError, invalid, notFound } from '../../base/errors.ts'
import { MAX_USD } from '../../base/money.ts'
import { getConsoleUrl } from '../../config.ts'
import { listOwnWorkspaces } from '../../resources/actor.ts'
import { AuthCodeExchange, ConsentQuery, NewAuthCode } from '../../resources/auth-codes/schema.ts'
import {
  checkConsentQuery,
  createAuthCode,
  createConsentedCode,
  exchangeAuthCode,
} from '../../resources/auth-codes.ts'
import type { Member } from '../../resources/members/store.ts'
import { defineOperation } from '../../resources/operation.ts'
import { beginSignIn, finishSignIn, takeLogout } from '../../resources/sign-ins/oidc.ts'
import { findLinkMember, findSessionMember, signIn, signOut } from '../../resources/sign-ins.ts'
import { renderOAuthError } from '../../resources/workloads/refusal.ts'
import { allowAnyone } from '../access.ts'
import { readForm, readQuery } from '../body.ts'
import type { FindRequestPeer } from '../calls.ts'
import {
  renderCode,
  renderConsent,
  renderLink,
  renderProblem,
  renderSignedIn,
  renderSignedOut,
} from '../consent.ts'
import { isAtConsole, readCookie, refuseOtherSites, renderConsoleCookie } from '../console.ts'
import { createErrorResponse, isBug } from '../errors.ts'
import { readPath, readRequestId, readSearchParams } from '../headers.ts'
import { describeOperation, type Operation } from '../operation.ts'
import { defineResource } from '../resource.ts'
import { Routes } from '../routes.ts'
import { countVisit } from '../visits.ts'

/** Creates the route by which a key makes a code for an app. */
export const createAuthCodeRoutes = defineResource({ tag: 'OAuth', access: 'key' }, [
  defineOperation(
    'POST /auth/keys/code',
    'createAuthKeysCode',
    'Make a code that an app exchanges for a key',
    createAuthCode,
    { body: NewAuthCode, refusals: [403, 409] },
  ),
])

const createExchangeRoutes = defineResource({ tag: 'OAuth', access: 'open' }, [
  defineOperation(
    'POST /auth/keys',
    'exchangeAuthCodeForAPIKey',
    'Exchange a code for a key',
    (gateway, _, body) => exchangeAuthCode(gateway, body),
    { body: AuthCodeExchange, refusals: [403, 429] },
  ),
])

/** Creates the route by which an app exchanges a code for a key. */
export const createAuthKeyRoutes = (gateway: Gateway, findPeer: FindRequestPeer) =>
  createExchangeRoutes(gateway).before(({ request }) => countVisit(gateway, request, findPeer))

/** The form of the link: the token is a secret, and so never in an address that forms lead to. */
const LinkForm = Type.Object({ token: Type.String({ minLength: 1, maxLength: 200 }) })

/** The form of consent. */
const ConsentForm = Type.Object({
  ...ConsentQuery.properties,
  proof: Type.String({ minLength: 1, maxLength: 200 }),
  workspace_id: Type.String({ maxLength: 100 }),
  limit: Type.Optional(Type.String({ maxLength: 20 })),
  decision: Type.Union([Type.Literal('allow'), Type.Literal('deny')]),
})

const FORM = 'application/x-www-form-urlencoded'

const describePage = (details: Omit<Operation, 'tag' | 'open' | 'isPage'>) =>
  describeOperation({ tag: 'OAuth', open: true, isPage: true, ...details })

/** Creates the pages on which members sign in and give apps keys. */
export function createConsentRoutes(gateway: Gateway, findPeer: FindRequestPeer) {
  const show =
    (render: (gateway: Gateway, request: Request) => Promise<Response>) =>
    ({ request }: { request: Request }) =>
      showPage(async () => {
        await countVisit(gateway, request, findPeer)
        return isAtConsole(gateway, request)
          ? render(gateway, request)
          : leadToConsole(gateway, request)
      })
  return new Routes(allowAnyone())
    .get(
      '/auth',
      show(showConsent),
      describePage({
        id: 'showConsent',
        summary: 'See which app asks for a key',
        query: ConsentQuery,
        statuses: [200, 400, 403, 429],
      }),
    )
    .post(
      '/auth',
      show(decideConsent),
      describePage({
        id: 'decideConsent',
        summary: 'Give an app a key, or refuse',
        body: ConsentForm,
        accepts: FORM,
        statuses: [200, 303, 400, 403, 409, 429],
      }),
    )
    .get(
      '/auth/sign-in',
      show(showLink),
      describePage({
        id: 'showSignIn',
        summary: 'See whom a link signs in',
        query: LinkForm,
        statuses: [200, 400, 403, 429],
      }),
    )
    .post(
      '/auth/sign-in',
      show(useLink),
      describePage({
        id: 'useSignIn',
        summary: 'Sign in with a link, once',
        body: LinkForm,
        accepts: FORM,
        statuses: [200, 400, 403, 429],
      }),
    )
    .get(
      '/auth/start',
      show(startSignIn),
      describePage({
        id: 'startSignIn',
        summary: 'Go to the service that signs members in',
        query: ConsentQuery,
        statuses: [303, 400, 403, 429, 503],
      }),
    )
    .get(
      '/auth/callback',
      show(endSignIn),
      describePage({
        id: 'endSignIn',
        summary: 'Come back from the service that signs members in',
        query: SignInQuery,
        statuses: [303, 400, 403, 429, 503],
      }),
    )
    .post(
      '/auth/sign-out',
      show(endSession),
      describePage({ id: 'signOut', summary: 'Sign out', statuses: [200, 403, 429] }),
    )
    .post(
      '/auth/backchannel-logout',
      ({ request }) =>
        answerProvider(gateway, request, async () => {
          await countVisit(gateway, request, findPeer)
          const { logout_token } = await readFormOf(request, LogoutForm)
          await takeLogout(gateway, logout_token)
        }),
      describePage({
        id: 'takeLogout',
        summary: 'End the sessions that their provider says are over',
        body: LogoutForm,
        accepts: FORM,
        statuses: [200, 400, 413, 429],
      }),
    )
}

/** What a provider sends when a user of its own signs out. */
const LogoutForm = Type.Object({ logout_token: Type.String({ minLength: 1, maxLength: 16_384 }) })

/** Answers as OpenID Connect Back-Channel Logout 1.0, 2.8, says: what fails is 400. */
async function answerProvider(
  gateway: Gateway,
  request: Request,
  end: () => Promise<void>,
): Promise<Response> {
  const headers = { 'cache-control': 'no-store' }
  try {
    await end()
    return new Response(null, { headers })
  } catch (thrown) {
    if (isBug(thrown)) throw thrown
    const error = GatewayError.from(thrown)
    const isBounded = error.status === 413 || error.status === 429
    const id = readRequestId(request, gateway.ids.uuid())
    const refused = isBounded ? error : error.with({ status: 400 })
    return createErrorResponse(refused, id, headers, { renderError: () => renderOAuthError(error) })
  }
}

// A browser keeps what it gets here for one host: all pages of sign-in are at that of the console.
function leadToConsole(gateway: Gateway, request: Request): Response {
  if (request.method === 'POST') throw notFound('Not found')
  return buildRedirect(`${getConsoleUrl(gateway)}${readPath(request)}${readSearch(request)}`, [])
}

const canStart = ({ config }: Gateway): boolean => config.oauth.sign_in !== undefined

/** What a provider adds to the address of its answer; others may stand beside it. */
const SignInQuery = Type.Object({
  code: Type.Optional(Type.String({ minLength: 1, maxLength: 4_096 })),
  state: Type.Optional(Type.String({ maxLength: 200 })),
  iss: Type.Optional(Type.String({ maxLength: 2_048 })),
  error: Type.Optional(Type.String({ maxLength: 200 })),
})

function readSearch(request: Request): string {
  const query = readSearchParams(request).toString()
  return query === '' ? '' : `?${query}`
}

async function startSignIn(gateway: Gateway, request: Request): Promise<Response> {
  const { location, cookie } = await beginSignIn(gateway, readSearch(request))
  return buildRedirect(location, [renderCookie(gateway, JOURNEY, cookie, JOURNEY_SECONDS)])
}

async function endSignIn(gateway: Gateway, request: Request): Promise<Response> {
  const query = readQuery(request, SignInQuery)
  const { session, search } = await finishSignIn(gateway, query, readCookie(request, JOURNEY))
  const goesToConsole = search === '' && gateway.config.server.console
  return buildRedirect(goesToConsole ? '/console' : `/auth${search}`, [
    renderCookie(gateway, COOKIE, session, SESSION_SECONDS),
    renderConsoleCookie(gateway, session),
    renderCookie(gateway, JOURNEY, '', 0),
  ])
}

async function endSession(gateway: Gateway, request: Request): Promise<Response> {
  refuseOtherSites(gateway, request)
  const session = readSession(request)
  if (session !== undefined) await signOut(gateway, session)
  const response = renderSignedOut(canStart(gateway) ? '' : null)
  response.headers.append('set-cookie', renderCookie(gateway, COOKIE, '', 0))
  response.headers.append('set-cookie', renderConsoleCookie(gateway, null))
  return response
}

function buildRedirect(location: string, cookies: string[]): Response {
  const response = new Response(null, {
    status: 303,
    headers: { location, 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' },
  })
  for (const cookie of cookies) response.headers.append('set-cookie', cookie)
  return response
}

/** Shows what fails as a page. */
async function showPage(render: () => Promise<Response>): Promise<Response> {
  try {
    return await render()
  } catch (thrown) {
    const { message, status } = GatewayError.from(thrown)
    return renderProblem(message, status)
  }
}

async function showConsent(gateway: Gateway, request: Request): Promise<Response> {
  const member = await findSessionMember(gateway, readSession(request))
  const names = [...readSearchParams(request)].map(([name]) => name)
  if (names.length > 0) {
    refuseUnknown(names)
    checkConsentQuery(gateway, readQuery(request, ConsentQuery))
  }
  if (!member) return renderSignedOut(canStart(gateway) ? readSearch(request) : null)
  if (names.length === 0) return renderSignedIn(member, gateway.config.server.console)
  const query = readQuery(request, ConsentQuery)
  const workspaces = await listOwnWorkspaces(gateway, member)
  if (workspaces.length === 0) throw denied('You are in no workspace')
  const proof = createProof(gateway, request, query, getExpiry(gateway))
  return renderConsent({ query, member, workspaces, proof })
}

// A parameter without effect would look as if it had one.
function refuseUnknown(names: string[]): void {
  const unknown = names.find(name => !Object.hasOwn(ConsentQuery.properties, name))
  if (unknown !== undefined) throw invalid(`${unknown}: expected no such parameter`)
  if (new Set(names).size < names.length) throw invalid('Expected each parameter once')
}

async function decideConsent(gateway: Gateway, request: Request): Promise<Response> {
  refuseOtherSites(gateway, request)
  const form = await readFormOf(request, ConsentForm)
  const member = await findSessionMember(gateway, readSession(request))
  if (!member) return renderSignedOut(canStart(gateway) ? '' : null)
  const { proof, workspace_id, limit, decision, ...query } = form
  checkConsentQuery(gateway, query)
  requireProof(gateway, request, query, proof)
  if (decision === 'deny') return answerApp(query.callback_url, { error: 'access_denied' })
  const code = await giveCode(gateway, member, { query, workspace_id, limit })
  return query.callback_url === undefined
    ? renderCode(code)
    : answerApp(query.callback_url, { code })
}

interface Consented {
  query: Static<typeof ConsentQuery>
  workspace_id: string
  limit: string | undefined
}

async function giveCode(
  gateway: Gateway,
  member: Member,
  { query, workspace_id, limit }: Consented,
): Promise<string> {
  const workspaces = await listOwnWorkspaces(gateway, member)
  if (!workspaces.some(({ id }) => id === workspace_id))
    throw denied('You are not in this workspace')
  const actor = { kind: 'member' as const, user_id: member.id, workspace_id, key_hash: null }
  const { data } = await createConsentedCode(gateway, actor, query, parseLimit(limit))
  return data.id
}

function parseLimit(text = ''): number | null {
  if (text.trim() === '') return null
  const limit = /^\s*\d{1,9}(\.\d{1,9})?\s*$/.test(text) ? Number(text) : Number.NaN
  if (!(limit <= MAX_USD)) throw invalid('limit: expected an amount in USD, such as 12.50')
  return limit
}

/** Leads back to the app. The address was checked when the form was shown, and when it came back. */
function answerApp(callback_url: string | undefined, answer: Record<string, string>): Response {
  if (callback_url === undefined) return renderProblem('You have refused.', 200)
  const url = new URL(callback_url)
  for (const [name, value] of Object.entries(answer)) url.searchParams.append(name, value)
  const headers = {
    location: url.href,
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
  }
  return new Response(null, { status: 303, headers })
}

async function showLink(gateway: Gateway, request: Request): Promise<Response> {
  const { token } = readQuery(request, LinkForm)
  const member = await findLinkMember(gateway, token)
  if (!member) throw denied('This link was used already, or is too old')
  return renderLink(token, member)
}

async function useLink(gateway: Gateway, request: Request): Promise<Response> {
  refuseOtherSites(gateway, request)
  const { token } = await readFormOf(request, LinkForm)
  const session = await signIn(gateway, token)
  const member = await findSessionMember(gateway, session)
  if (!member) throw denied('This member was deactivated')
  const response = renderSignedIn(member, gateway.config.server.console)
  response.headers.append('set-cookie', renderCookie(gateway, COOKIE, session, SESSION_SECONDS))
  response.headers.append('set-cookie', renderConsoleCookie(gateway, session))
  return response
}

async function readFormOf<T extends TSchema>(request: Request, schema: T): Promise<Static<T>> {
  return requireValid(schema, await readForm(request))
}

const COOKIE = 'gateway_session'
const SESSION_SECONDS = 43_200
/** What is known of a sign-in while its user is at the other service. */
const JOURNEY = 'gateway_sign_in'
const JOURNEY_SECONDS = 600

// Lax: an app's page leads here by a link. What changes something needs a proof besides.
const renderCookie = (
  { instance }: Gateway,
  name: string,
  value: string,
  seconds: number,
): string =>
  [
    `${name}=${value}; Path=/auth; Max-Age=${seconds}; HttpOnly; SameSite=Lax`,
    ...(instance.siteUrl.startsWith('https:') ? ['Secure'] : []),
  ].join('; ')

const readSession = (request: Request): string | undefined => readCookie(request, COOKIE)

/** In milliseconds: how long a page of consent may wait for its answer. */
const FORM_LIFETIME = 600_000

const getExpiry = ({ clock }: Gateway): number => clock.now().getTime() + FORM_LIFETIME

/** Creates what proves that this session was shown the form, for exactly this query. */
function createProof(gateway: Gateway, request: Request, query: ConsentQuery, expiry: number) {
  const { callback_url, code_challenge, code_challenge_method, key_label } = query
  const asked = [callback_url, code_challenge, code_challenge_method, key_label]
  const session = hashSecret(readSession(request) ?? '')
  const text = JSON.stringify(['consent', session, expiry, ...asked.map(one => one ?? null)])
  return `${expiry}.${gateway.secrets.mac(text)}`
}

function requireProof(gateway: Gateway, request: Request, query: ConsentQuery, proof: string) {
  const expiry = Number(proof.slice(0, proof.indexOf('.')))
  const expected = createProof(gateway, request, query, expiry)
  if (!(expiry > gateway.clock.now().getTime()) || hashSecret(proof) !== hashSecret(expected))
    throw denied('This page is too old: go back to the app and begin again')
}
