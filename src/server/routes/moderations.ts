import type { Gateway } from '../../app/gateway.ts'
import { ModerationRequest, moderate } from '../../extensions/moderations.ts'
import { requireKey } from '../access.ts'
import { readBody } from '../body.ts'
import { describeOperation } from '../operation.ts'
import { Routes } from '../routes.ts'

/** Creates the route that judges texts, with the answers of OpenAI's. */
export const createModerationRoutes = (gateway: Gateway) =>
  new Routes(requireKey(gateway)).post(
    '/moderations',
    async ({ actor, request }) =>
      moderate(gateway, actor, await readBody(request, ModerationRequest)),
    describeOperation({
      id: 'createModeration',
      tag: 'Moderations',
      summary: 'Judge texts',
      body: ModerationRequest,
      statuses: [200, 400, 401, 403, 408, 413, 415, 429, 500, 502, 503],
    }),
  )
