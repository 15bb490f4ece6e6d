import type { Gateway } from '../../app/gateway.ts'
import {
  cancelMessageBatch,
  createMessageBatch,
  deleteMessageBatch,
  getMessageBatch,
  listMessageBatches,
  MessageBatchQuery,
  NewMessageBatch,
  readMessageResults,
} from '../../extensions/message-batches.ts'
import type { Actor } from '../../resources/actor.ts'
import { MESSAGES_ERROR_FORMAT } from '../../translation/dialects/messages/error.ts'
import { RawBody } from '../../translation/dialects/raw-body.ts'
import { requireKeyInEitherHeader } from '../access.ts'
import { readBody, readQuery } from '../body.ts'
import { createRawResponse } from '../byte-stream.ts'
import type { FindRequestPeer } from '../calls.ts'
import { findConnection } from '../connections.ts'
import { describeOperation, type Operation } from '../operation.ts'
import { Routes } from '../routes.ts'
import { refuseRegion } from './files.ts'

/** What a route gets of a request. */
interface BatchContext {
  actor: Actor
  request: Request
  params: { id: string }
}

/** Creates the routes of batches of messages, with the answers of Anthropic's. */
export function createMessageBatchRoutes(gateway: Gateway, findPeer: FindRequestPeer): Routes {
  const serve =
    (answer: (context: BatchContext) => unknown) =>
    ({ actor, request, params }: { actor: Actor; request: Request; params: object }) => {
      refuseRegion(gateway, request, findPeer, 'Batches')
      return answer({ actor, request, params: params as BatchContext['params'] })
    }
  const serveOne = (act: typeof getMessageBatch | typeof deleteMessageBatch) =>
    serve(({ actor, params }) => act(gateway, actor, params.id))
  return new Routes(requireKeyInEitherHeader(gateway))
    .post(
      '/messages/batches',
      serve(async ({ actor, request }) =>
        createMessageBatch(gateway, actor, await readBody(request, NewMessageBatch)),
      ),
      describe({
        id: 'createMessageBatch',
        summary: 'Make a batch of messages',
        body: NewMessageBatch,
        statuses: [200, 400, 401, 403, 404, 408, 413, 415, 429, 500, 503],
      }),
    )
    .get(
      '/messages/batches',
      serve(({ actor, request }) =>
        listMessageBatches(gateway, actor, readQuery(request, MessageBatchQuery)),
      ),
      describe({
        id: 'listMessageBatches',
        summary: 'List batches of messages',
        query: MessageBatchQuery,
        statuses: [200, 400, 401, 403, 500],
      }),
    )
    .get(
      '/messages/batches/:id',
      serveOne(getMessageBatch),
      describe({ id: 'getMessageBatch', summary: 'Get a batch of messages', ...ONE }),
    )
    .get(
      '/messages/batches/:id/results',
      serve(async ({ actor, request, params }) => {
        const results = await readMessageResults(gateway, actor, params.id)
        return createRawResponse(
          new RawBody('application/x-jsonl', results),
          {},
          findConnection(request),
        )
      }),
      describe({
        id: 'getMessageBatchResults',
        summary: 'Read the results of a batch of messages',
        ...ONE,
        produces: ['application/x-jsonl'],
        statuses: [...ONE.statuses, 409],
      }),
    )
    .post(
      '/messages/batches/:id/cancel',
      serveOne(cancelMessageBatch),
      describe({
        id: 'cancelMessageBatch',
        summary: 'Cancel a batch of messages',
        ...ONE,
        statuses: [...ONE.statuses, 409],
      }),
    )
    .delete(
      '/messages/batches/:id',
      serveOne(deleteMessageBatch),
      describe({
        id: 'deleteMessageBatch',
        summary: 'Delete a batch of messages',
        ...ONE,
        statuses: [...ONE.statuses, 409],
      }),
    )
}

const ONE = { params: { id: 'The batch’s id' }, statuses: [200, 400, 401, 403, 404, 500] }

const describe = (details: Omit<Operation, 'tag' | 'eitherHeader' | 'refusal'>) =>
  describeOperation({
    tag: 'Batches',
    eitherHeader: true,
    refusal: MESSAGES_ERROR_FORMAT,
    ...details,
  })
