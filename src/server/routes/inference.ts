import type { Gateway } from '../../app/gateway.ts'
import { countTokens } from '../../extensions/count-tokens.ts'
import { Explanation } from '../../extensions/explain.ts'
import type { Dialect, DialectBody, Streaming } from '../../translation/dialects/dialect.ts'
import { messages } from '../../translation/dialects/messages.ts'
import { dialects } from '../../translation/dialects/registry.ts'
import { compaction, responses } from '../../translation/dialects/responses.ts'
import { requireKey, requireKeyInEitherHeader, requireKeyOrSession } from '../access.ts'
import { readBody, readQuery } from '../body.ts'
import { openStored } from '../calls/stored.ts'
import { type FindRequestPeer, readContext, respond } from '../calls.ts'
import { readRequestId } from '../headers.ts'
import { findGenerationId } from '../idempotency.ts'
import { describeOperation, type Operation } from '../operation.ts'
import { Routes } from '../routes.ts'

/** Creates the routes of every dialect in the registry, and those beside them. */
export const createInferenceRoutes = (gateway: Gateway, findPeer: FindRequestPeer): Routes[] => [
  ...[...dialects, compaction].map(dialect => createRoute(gateway, dialect, findPeer)),
  createCountRoute(gateway, findPeer, COUNTED_MESSAGES),
  createCountRoute(gateway, findPeer, COUNTED_RESPONSES),
]

/**
 * Creates the route of a door: a path that names the model, or more of what other clients say in
 * their bodies. Throws 400 for a query that means nothing.
 */
export function createDoorRoute(
  gateway: Gateway,
  findPeer: FindRequestPeer,
  { dialect, path, read, query, choose, refuse, ...described }: DoorRoute,
) {
  const description = describeOperation({ ...describeDialect(dialect), ...described, query })
  const routes = new Routes(requireKey(gateway)).post(
    path,
    ({ actor, request, params: given }) => {
      const generation = findGenerationId(request)
      const asked = readQuery(request, query) as object
      const chosen = choose?.(asked) ?? dialect
      const fields = read(given as Record<string, string>)
      return respond({ gateway, dialect: chosen, actor, request, findPeer, generation, fields })
    },
    description,
  )
  return refuse ? routes.before(refuse) : routes
}

/** A path of a door. */
export interface DoorRoute
  extends Required<Pick<Operation, 'params' | 'query'>>,
    Pick<Operation, 'keyHeader'> {
  dialect: Dialect
  path: string
  /** Reads the fields of the body that the path has. */
  read(params: Record<string, string>): object
  /** Chooses how the call is answered by its query; as `dialect` says, if it is absent. */
  choose?(query: object): Dialect
  /** Throws for credentials that are none here, before a key is looked for. */
  refuse?(context: { request: Request }): void
}

function createRoute(gateway: Gateway, dialect: Dialect, findPeer: FindRequestPeer) {
  const description = describeOperation(describeDialect(dialect))
  return (
    // Sessions make no calls, but have them explained, as management keys do.
    new Routes(
      dialect.acceptsApiKeyHeader
        ? requireKeyInEitherHeader(gateway)
        : requireKeyOrSession(gateway),
    ).post(
      dialect.path,
      ({ actor, request }) => {
        const generation = findGenerationId(request)
        return respond({ gateway, dialect, actor, request, findPeer, generation })
      },
      description,
    )
  )
}

/** How the tokens of a conversation are counted in one dialect. */
interface Counting {
  dialect: Dialect<'text'>
  path: string
  operation: Dialect['operation']
  /** What stands beside the count. */
  beside: Record<string, string>
}

const COUNTED_MESSAGES: Counting = {
  dialect: messages as Dialect<'text'>,
  path: `${messages.path}/count_tokens`,
  operation: {
    id: 'countMessageTokens',
    tag: 'Messages',
    summary: 'Count the tokens of a conversation in Anthropic’s format',
  },
  beside: {},
}

const COUNTED_RESPONSES: Counting = {
  dialect: responses as Dialect<'text'>,
  path: `${responses.path}/input_tokens`,
  operation: {
    id: 'countResponseTokens',
    tag: 'Responses',
    summary: 'Count the tokens of a conversation of items',
  },
  beside: { object: 'response.input_tokens' },
}

/** Creates the route that counts the tokens of a conversation, without making the call. */
function createCountRoute(
  gateway: Gateway,
  findPeer: FindRequestPeer,
  { dialect, path, operation, beside }: Counting,
) {
  const { acceptsApiKeyHeader, errorFormat } = dialect
  return new Routes(
    acceptsApiKeyHeader ? requireKeyInEitherHeader(gateway) : requireKey(gateway),
  ).post(
    path,
    async ({ actor, request }) => {
      const requestId = readRequestId(request, gateway.ids.uuid())
      const context = readContext({ gateway, dialect, findPeer, request }, '', requestId)
      const read = (await readBody(request, dialect.body)) as DialectBody
      const stored =
        dialect.storing && gateway.config.responses.store
          ? await openStored({ gateway, actor, request }, read, 'read')
          : null
      const call = dialect.toCall(gateway, actor, stored?.body ?? read, {
        ...context,
        isStateful: stored !== null,
      })
      const input_tokens = await countTokens(gateway, actor, call)
      const headers = { 'x-request-id': requestId }
      return Response.json({ ...beside, input_tokens }, { headers })
    },
    describeOperation({
      ...operation,
      body: dialect.body,
      statuses: [200, 400, 401, 403, 404, 408, 413, 415, 429, 500],
      ...(acceptsApiKeyHeader ? { eitherHeader: true } : {}),
      ...(errorFormat ? { refusal: errorFormat } : {}),
    }),
  )
}

const STATUSES = [200, 400, 401, 402, 403, 404, 408, 413, 415, 422, 429, 500, 502, 503, 524, 529]

/** Requests routing metadata (wire reference A.10). `headers.ts` has its other names. */
const METADATA_HEADER = { 'X-Gateway-Metadata': ['disabled', 'enabled'] }

const describeDialect = ({ operation, body, errorFormat, ...dialect }: Dialect): Operation => ({
  ...operation,
  body,
  // A dry run is answered with 200, whatever the dialect.
  statuses: dialect.status ? [dialect.status, ...STATUSES] : STATUSES,
  other: {
    name: 'Explanation',
    schema: Explanation,
    when: 'with `debug.dry_run`, by management keys',
  },
  ...(dialect.showsRouting ? { headers: METADATA_HEADER } : {}),
  ...(dialect.streaming ? { produces: [readStreamType(dialect.streaming)] } : {}),
  ...(dialect.produces ? { produces: dialect.produces } : {}),
  ...(dialect.acceptsApiKeyHeader ? { eitherHeader: true } : {}),
  ...(errorFormat ? { refusal: errorFormat } : {}),
})

const readStreamType = ({ media_type = 'text/event-stream' }: Streaming): string =>
  media_type.replace(/;.*/, '')
