import type { Gateway } from '../../app/gateway.ts'
import { requireValid } from '../../base/body.ts'
import { exchangeToken, listSigningKeys } from '../../limits/workloads.ts'
import { defineOperation } from '../../resources/operation.ts'
import { renderOAuthError } from '../../resources/workloads/refusal.ts'
import { TokenExchange } from '../../resources/workloads/schema.ts'
import { allowAnyone } from '../access.ts'
import { readForm } from '../body.ts'
import type { FindRequestPeer } from '../calls.ts'
import { describeOperation, type Refusal } from '../operation.ts'
import { defineResource } from '../resource.ts'
import { Routes } from '../routes.ts'
import { countVisit } from '../visits.ts'

/** Creates the route with the keys that access tokens are signed with. */
export const createJwksRoutes = defineResource({ tag: 'OAuth', access: 'open' }, [
  defineOperation('GET /oauth/jwks', 'listOauthJwks', 'List the keys of access tokens', gateway =>
    listSigningKeys(gateway),
  ),
])

/** Refusals of RFC 6749, 5.2. */
const OAUTH_REFUSAL: Refusal = {
  name: 'OAuthError',
  schema: {
    type: 'object',
    required: ['error', 'error_description'],
    properties: { error: { type: 'string' }, error_description: { type: 'string' } },
  },
  renderError: renderOAuthError,
}

/** Creates the route by which workloads get tokens. */
export function createTokenRoutes(gateway: Gateway, findPeer: FindRequestPeer) {
  return new Routes(allowAnyone()).post(
    '/oauth/token',
    async ({ request }) => {
      await countVisit(gateway, request, findPeer)
      const form = requireValid(TokenExchange, omitEmpty(await readForm(request)))
      const answer = await exchangeToken(gateway, form)
      return Response.json(answer, { headers: { 'cache-control': 'no-store' } })
    },
    describeOperation({
      id: 'createOauthToken',
      tag: 'OAuth',
      summary: 'Exchange the token of a workload for a short-lived one',
      open: true,
      body: TokenExchange,
      accepts: 'application/x-www-form-urlencoded',
      refusal: OAUTH_REFUSAL,
      statuses: [200, 400, 413, 429, 500, 503],
    }),
  )
}

// RFC 6749, 3.2: what is sent without a value is treated as if it were left out.
const omitEmpty = (form: Record<string, string>): Record<string, string> =>
  Object.fromEntries(Object.entries(form).filter(([, value]) => value !== ''))
