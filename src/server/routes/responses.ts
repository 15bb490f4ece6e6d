import type { Gateway } from '../../app/gateway.ts'
import type { Actor } from '../../resources/actor.ts'
import { InputItemsQuery, ResponseQuery } from '../../resources/responses/schema.ts'
import {
  cancelResponse,
  deleteResponse,
  getResponse,
  listInputItems,
} from '../../resources/responses.ts'
import { RESPONSES_ERROR_FORMAT } from '../../translation/dialects/responses/error.ts'
import { requireKey } from '../access.ts'
import { readQuery } from '../body.ts'
import { streamStored } from '../calls/stored.ts'
import type { FindRequestPeer } from '../calls.ts'
import { describeOperation, type Operation } from '../operation.ts'
import { Routes } from '../routes.ts'
import { refuseRegion } from './files.ts'

/** What a route gets of a request. */
interface ResponseContext {
  actor: Actor
  request: Request
  id: string
}

/** Creates the routes of stored responses, with the answers of OpenAI's. A dialect makes them. */
export function createResponseRoutes(gateway: Gateway, findPeer: FindRequestPeer): Routes {
  const serve =
    (answer: (context: ResponseContext) => unknown) =>
    ({ actor, request, params }: { actor: Actor; request: Request; params: object }) => {
      refuseRegion(gateway, request, findPeer, 'Stored responses')
      return answer({ actor, request, id: (params as { response_id: string }).response_id })
    }
  return new Routes(requireKey(gateway))
    .get(
      '/responses/:response_id',
      serve(({ actor, request, id }) => {
        const { stream, starting_after: after } = readQuery(request, ResponseQuery)
        if (stream !== 'true' || request.method === 'HEAD') return getResponse(gateway, actor, id)
        return streamStored(gateway, { actor, request }, { id, after })
      }),
      describe({
        id: 'getResponse',
        summary: 'Get a stored response, or its events',
        query: ResponseQuery,
      }),
    )
    .get(
      '/responses/:response_id/input_items',
      serve(({ actor, request, id }) =>
        listInputItems(gateway, actor, id, readQuery(request, InputItemsQuery)),
      ),
      describe({
        id: 'listResponseInputItems',
        summary: 'List what was asked for a stored response',
        query: InputItemsQuery,
      }),
    )
    .post(
      '/responses/:response_id/cancel',
      serve(({ actor, id }) => cancelResponse(gateway, actor, id)),
      describe({ id: 'cancelResponse', summary: 'Cancel a response in the background' }),
    )
    .delete(
      '/responses/:response_id',
      serve(({ actor, id }) => deleteResponse(gateway, actor, id)),
      describe({ id: 'deleteResponse', summary: 'Delete a stored response' }),
    )
}

const describe = (details: Pick<Operation, 'id' | 'summary' | 'query'>) =>
  describeOperation({
    tag: 'Responses',
    params: { response_id: 'The response’s id' },
    statuses: [200, 400, 401, 403, 404, 500],
    refusal: RESPONSES_ERROR_FORMAT,
    ...details,
  })
