import { Type } from '@sinclair/typebox'
import type { Gateway } from '../../app/gateway.ts'
import { requireValid } from '../../base/body.ts'
import { denied, notFound, unauthenticated } from '../../base/errors.ts'
import { isLoopback } from '../../base/machine.ts'
import { closed } from '../../base/schema-builders.ts'
import { VERSION } from '../../base/version.ts'
import { identify, listOwnWorkspaces } from '../../resources/actor.ts'
import {
  beginKeySession,
  endSession,
  findSession,
  listSessions,
  type Session,
  signOut,
} from '../../resources/sign-ins.ts'
import { allowAnyone } from '../access.ts'
import { readBody } from '../body.ts'
import type { FindRequestPeer } from '../calls.ts'
import {
  hasConsole,
  readConsoleSession,
  refuseOtherSites,
  renderConsoleCookie,
  renderConsolePage,
  renderConsolePart,
} from '../console.ts'
import { describeOperation, type Operation } from '../operation.ts'
import { Routes } from '../routes.ts'
import { countVisit } from '../visits.ts'

/** The body of `POST /console/session`. */
const KeySignIn = Type.Object({ key: Type.String({ minLength: 1, maxLength: 300 }) }, closed)

const describePage = (details: Omit<Operation, 'tag' | 'open' | 'isPage'>) =>
  describeOperation({ tag: 'Console', open: true, isPage: true, ...details })

/**
 * Creates the routes of the console: its page, and the sessions in which its page asks the API
 * without a key. Each answers 404 where the config has no console, or at another host than its own.
 */
export function createConsoleRoutes(gateway: Gateway, findPeer: FindRequestPeer) {
  const requireConsole = (request: Request) => {
    if (!hasConsole(gateway, request)) throw notFound('Not found')
  }
  const requireSession = async (request: Request): Promise<Session> => {
    requireConsole(request)
    await countVisit(gateway, request, findPeer)
    const session = await findConsoleSession(gateway, request)
    if (!session) throw unauthenticated('Sign in first')
    return session
  }
  return new Routes(allowAnyone())
    .get(
      '/console',
      ({ request }) => {
        requireConsole(request)
        return renderConsolePage()
      },
      describePage({ id: 'console', summary: 'Open the console', statuses: [200, 404] }),
    )
    .get(
      '/console/:part',
      async ({ params, request }) => {
        requireConsole(request)
        const part = await renderConsolePart(params.part, request)
        if (!part) throw notFound('Not found')
        return part
      },
      describePage({
        id: 'consolePart',
        summary: 'Get what the console runs',
        params: { part: 'The name of the file' },
        statuses: [200, 404],
      }),
    )
    .get(
      '/console/session',
      async ({ request }) => {
        requireConsole(request)
        await countVisit(gateway, request, findPeer)
        return Response.json(
          { data: await describeSession(gateway, await findConsoleSession(gateway, request)) },
          { headers: { 'cache-control': 'no-store' } },
        )
      },
      describePage({
        id: 'getConsoleSession',
        summary: 'See who is signed in',
        statuses: [200, 404, 429],
      }),
    )
    .post(
      '/console/session',
      async ({ request }) => {
        requireConsole(request)
        await countVisit(gateway, request, findPeer)
        refuseOtherSites(gateway, request)
        refusePlain(gateway, request)
        const { key } = requireValid(KeySignIn, await readBody(request, KeySignIn))
        const plaintext = key.trim()
        const actor = await identify(gateway, `Bearer ${plaintext}`)
        if (actor.kind !== 'management' || actor.isToken)
          throw denied('Sign in with a management key: this one is for inference')
        const secret = await beginKeySession(gateway, actor, plaintext)
        return createSessionAnswer(gateway, secret)
      },
      describePage({
        id: 'beginConsoleSession',
        summary: 'Sign in with a management key',
        body: KeySignIn,
        statuses: [200, 400, 401, 403, 404, 429],
      }),
    )
    .delete(
      '/console/session',
      async ({ request }) => {
        await requireSession(request)
        await signOut(gateway, readConsoleSession(gateway, request) ?? '')
        return createSessionAnswer(gateway, null)
      },
      describePage({
        id: 'endConsoleSession',
        summary: 'Sign out',
        statuses: [200, 401, 404, 429],
      }),
    )
    .get(
      '/console/sessions',
      async ({ request }) => listSessions(gateway, await requireSession(request)),
      describePage({
        id: 'listConsoleSessions',
        summary: 'List one’s own sessions',
        statuses: [200, 401, 404, 429],
      }),
    )
    .delete(
      '/console/sessions/:id',
      async ({ params, request }) => endSession(gateway, await requireSession(request), params.id),
      describePage({
        id: 'deleteConsoleSession',
        summary: 'End one of one’s own sessions',
        params: { id: 'The session’s id' },
        statuses: [200, 401, 404, 429],
      }),
    )
}

function createSessionAnswer(gateway: Gateway, secret: string | null): Response {
  return Response.json(
    { data: { signed_in: secret !== null } },
    {
      headers: {
        'cache-control': 'no-store',
        'set-cookie': renderConsoleCookie(gateway, secret),
      },
    },
  )
}

/** What the page needs to know before it asks for anything else. */
async function describeSession(gateway: Gateway, session: Session | undefined) {
  const { actor, member, signIn } = session ?? {}
  const workspaces = member ? await listOwnWorkspaces(gateway, member) : []
  return {
    service_name: gateway.config.service_name,
    version: VERSION,
    /** Whether another service signs members in, at `/auth/start`. */
    has_sign_in: gateway.config.oauth.enabled && gateway.config.oauth.sign_in !== undefined,
    default_model: gateway.config.default_model,
    session: actor
      ? {
          role: actor.kind === 'management' ? ('manager' as const) : ('member' as const),
          user_id: actor.user_id,
          name: member?.email ?? nameKey(gateway, actor.key_hash),
          /** Where a member may have keys. */
          workspaces: workspaces.map(({ id, name }) => ({ id, name })),
          expires_at: signIn?.expires_at,
        }
      : null,
  }
}

const nameKey = ({ memory }: Gateway, hash: string | null): string =>
  memory.keys.get(hash ?? '')?.name ?? 'management key'

/** Throws 403 where a key would cross a network in plain text. */
function refusePlain({ instance }: Gateway, request: Request): void {
  if (instance.siteUrl.startsWith('https:')) return
  const host = URL.parse(`http://${request.headers.get('host')}`)?.hostname ?? ''
  if (!isLoopback(host))
    throw denied('Sign in over https: set server.site_url to this gateway’s https address')
}

/** Finds the session of the console that a request belongs to; undefined without one. */
async function findConsoleSession(
  gateway: Gateway,
  request: Request,
): Promise<Session | undefined> {
  const secret = readConsoleSession(gateway, request)
  return secret === undefined ? undefined : findSession(gateway, secret)
}
