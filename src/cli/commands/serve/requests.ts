import { explainGeneration } from '../../../core/dialects/past-request.ts'
import { GatewayError } from '../../../core/errors.ts'
import type { Gateway } from '../../../core/gateway.ts'
import { getOperator } from '../../../core/identity/actor.ts'
import { restEndpoint, wakeEndpoint } from '../../../core/inference/health/by-hand.ts'
import type { Lines } from '../../status-socket.ts'

/** What a reader of the socket may ask for. Who may read the data directory is the operator. */
const REQUESTS: Record<string, (gateway: Gateway, request: Record<string, unknown>) => Lines> = {
  watch: (gateway, { past }) => gateway.activity.listen(getOperator(gateway), Number(past) || 0),
  explain: (gateway, { id }) =>
    answerOnce(() => explainGeneration(gateway, getOperator(gateway), String(id))),
  rest: (gateway, { endpoint, seconds }) =>
    answerOnce(() =>
      restEndpoint(gateway, getOperator(gateway), String(endpoint), Number(seconds)),
    ),
  wake: (gateway, { endpoint }) =>
    answerOnce(() => wakeEndpoint(gateway, getOperator(gateway), String(endpoint))),
}

/** Answers a request of the socket; undefined for one that there is none of. */
export const answerRequest = (
  gateway: Gateway,
  request: Record<string, unknown>,
  beginHandover: (request: Record<string, unknown>) => Promise<object>,
): Lines | undefined =>
  request.do === 'takeover'
    ? answerOnce(() => beginHandover(request))
    : answerKnown(gateway, request)

const answerKnown = (gateway: Gateway, request: Record<string, unknown>): Lines | undefined =>
  typeof request.do === 'string' && Object.hasOwn(REQUESTS, request.do)
    ? REQUESTS[request.do]?.(gateway, request)
    : undefined

async function* answerOnce(run: () => Promise<object>): AsyncGenerator<string[]> {
  try {
    yield [JSON.stringify(await run())]
  } catch (thrown) {
    const { type, message } = GatewayError.from(thrown)
    yield [JSON.stringify({ error: { type, message } })]
  }
}
