import { Elysia } from 'elysia'
import type { Gateway } from '../../core/gateway.ts'
import { GenerationQuery, getGeneration } from '../../core/telemetry/generations.ts'
import { anyKey } from '../access.ts'
import { readQuery } from '../body.ts'
import { operation } from '../operation.ts'

/** The record of a finished call. */
export const generation = (gateway: Gateway) =>
  new Elysia({ prefix: '/generation' }).use(anyKey(gateway)).get(
    '/',
    ({ actor, request }) => getGeneration(gateway, actor, readQuery(request.url, GenerationQuery).id),
    operation({
      id: 'getGeneration',
      tag: 'Generations',
      summary: 'Get the usage, cost and attempts of a finished call',
      query: GenerationQuery,
      statuses: [200, 400, 401, 404, 500],
    }),
  )
