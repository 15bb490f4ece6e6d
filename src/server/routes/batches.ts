import type { Gateway } from '../../app/gateway.ts'
import { requireValid } from '../../base/body.ts'
import { BatchQuery, BatchScope, NewBatch } from '../../extensions/batches/schema.ts'
import {
  cancelBatch,
  createBatch,
  deleteBatch,
  getBatch,
  listBatches,
} from '../../extensions/batches.ts'
import type { Actor } from '../../resources/actor.ts'
import { requireKeyInEitherHeader } from '../access.ts'
import { readBody, readQuery } from '../body.ts'
import type { FindRequestPeer } from '../calls.ts'
import { readSearchParams } from '../headers.ts'
import { describeOperation, type Operation } from '../operation.ts'
import { Routes } from '../routes.ts'
import { refuseRegion } from './files.ts'

/** What a route gets of a request. */
interface BatchContext {
  actor: Actor
  request: Request
  params: { id: string }
}

/** Creates the routes of batches (wire reference B.6), with the answers of OpenAI's. */
export function createBatchRoutes(gateway: Gateway, findPeer: FindRequestPeer): Routes {
  const serve =
    (answer: (context: BatchContext) => unknown) =>
    ({ actor, request, params }: { actor: Actor; request: Request; params: object }) => {
      refuseRegion(gateway, request, findPeer, 'Batches')
      return answer({ actor, request, params: params as BatchContext['params'] })
    }
  const serveOne = (act: typeof getBatch | typeof cancelBatch | typeof deleteBatch) =>
    serve(({ actor, request, params }) =>
      act(gateway, actor, params.id, readQuery(request, BatchScope)),
    )
  return new Routes(requireKeyInEitherHeader(gateway))
    .post(
      '/batches',
      serve(async ({ actor, request }) => {
        const made = await createBatch(gateway, actor, await readBody(request, NewBatch))
        return Response.json(made, { status: 202 })
      }),
      describe({
        id: 'createBatch',
        summary: 'Make a batch',
        body: NewBatch,
        statuses: [202, 400, 401, 403, 404, 408, 413, 415, 429, 500, 503],
      }),
    )
    .get(
      '/batches',
      serve(({ actor, request }) => listBatches(gateway, actor, readListQuery(request))),
      describe({
        id: 'listBatches',
        summary: 'List batches',
        query: BatchQuery,
        statuses: [200, 400, 401, 403, 500],
      }),
    )
    .get(
      '/batches/:id',
      serveOne(getBatch),
      describe({ id: 'getBatch', summary: 'Get a batch', ...ONE }),
    )
    .post(
      '/batches/:id/cancel',
      serveOne(cancelBatch),
      describe({ id: 'cancelBatch', summary: 'Cancel a batch', ...CHANGED }),
    )
    .delete(
      '/batches/:id',
      serveOne(deleteBatch),
      describe({ id: 'deleteBatch', summary: 'Delete a batch', ...CHANGED }),
    )
}

/** Reads the query of a list, where a status may stand more than once. */
function readListQuery(request: Request): BatchQuery {
  const status = readSearchParams(request).getAll('status')
  const query = readQuery(request, BatchQuery)
  return status.length > 1 ? requireValid(BatchQuery, { ...query, status }) : query
}

const STATUSES = [200, 400, 401, 403, 404, 500]
const SHARED = { params: { id: 'The batch’s id' }, query: BatchScope }
const ONE = { ...SHARED, statuses: STATUSES }
const CHANGED = { ...SHARED, statuses: [...STATUSES, 409] }

const describe = (details: Omit<Operation, 'tag' | 'eitherHeader'>) =>
  describeOperation({ tag: 'Batches', eitherHeader: true, ...details })
