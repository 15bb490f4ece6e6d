import { Type } from '@sinclair/typebox'
import type { Gateway } from '../../app/gateway.ts'
import { unauthenticated } from '../../base/errors.ts'
import { open } from '../../base/schema-builders.ts'
import {
  converse,
  converseStream,
  invoke,
  invokeStream,
} from '../../translation/dialects/bedrock.ts'
import type { Dialect } from '../../translation/dialects/dialect.ts'
import type { FindRequestPeer } from '../calls.ts'
import type { Routes } from '../routes.ts'
import { createDoorRoute } from './inference.ts'

const Query = Type.Object({}, open)

/**
 * Creates the routes of Bedrock’s clients: `/model/{model}/…`. They send the key as a bearer token;
 * a signature of AWS proves nothing here.
 */
export const createBedrockRoutes = (gateway: Gateway, findPeer: FindRequestPeer): Routes[] =>
  [converse, converseStream, invoke, invokeStream].map(dialect =>
    createDoorRoute(gateway, findPeer, {
      dialect: dialect as unknown as Dialect,
      path: dialect.path,
      params: { model: 'The model; in a path as clients write it, its slash may be plain' },
      query: Query,
      refuse: refuseSignature,
      read: ({ model }) => ({ model, stream: dialect.streaming !== undefined }),
    }),
  )

function refuseSignature({ request: { headers } }: { request: Request }): void {
  if (headers.get('authorization')?.startsWith('AWS4-'))
    throw unauthenticated(
      'Signatures of AWS are not accepted: send the key as a bearer token (AWS_BEARER_TOKEN_BEDROCK)',
    )
}
