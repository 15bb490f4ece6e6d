import { Type } from '@sinclair/typebox'
import { type AnyElysia, Elysia } from 'elysia'
import type { Gateway } from '../../app/gateway.ts'
import { closeSchema } from '../../base/schema-builders.ts'
import type { ActivityListener } from '../../extensions/activity/listener.ts'
import { MOST_PAST } from '../../extensions/activity/past.ts'
import { requireManagementKey } from '../access.ts'
import { readQuery } from '../body.ts'
import { findConnection } from '../connections.ts'
import { createEventStreamResponse } from '../event-stream.ts'
import { describeOperation } from '../operation.ts'

/** The query of `GET /activity/stream`. */
const ActivityQuery = Type.Object({
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 1_000_000,
      description: 'The stream ends after so many entries',
    }),
  ),
  past: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: MOST_PAST,
      description:
        'Tell of those of the last so many calls of the gateway that the key may see, first',
    }),
  ),
})

/** Creates the route of the feed of what happens. */
export const createActivityRoutes = (gateway: Gateway): AnyElysia =>
  new Elysia().use(requireManagementKey(gateway, true)).get(
    '/activity/stream',
    ({ actor, request }) => {
      const { limit = Number.POSITIVE_INFINITY, past } = readQuery(
        request,
        closeSchema(ActivityQuery),
      )
      if (request.method === 'HEAD') return new Response(null, { headers: HEADERS })
      const { service_name, timeouts } = gateway.config
      const events = streamEntries(gateway.activity.listen(actor, past), limit)
      const interval = timeouts.keep_alive_seconds * 1000
      const keepAlive = { render: () => `: ${service_name.toUpperCase()} PROCESSING\n\n`, interval }
      return createEventStreamResponse(events, keepAlive, {}, findConnection(request))
    },
    describeOperation({
      id: 'streamActivity',
      tag: 'Activity',
      summary: 'Stream what happens, as it happens',
      query: ActivityQuery,
      statuses: [200, 400, 401, 403, 429, 500],
      produces: ['text/event-stream'],
    }),
  )

const HEADERS = { 'content-type': 'text/event-stream; charset=utf-8' }

/** Renders entries as server-sent events. It ends its listener when its reader leaves. */
function streamEntries(listener: ActivityListener, limit: number): AsyncIterator<string> {
  let left = limit
  const end = async () => {
    await listener.return()
    return { done: true, value: undefined } as const
  }
  return {
    async next() {
      if (left <= 0) return end()
      const { done, value } = await listener.next()
      if (done) return end()
      const entries = value.slice(0, left)
      left -= entries.length
      return { done: false, value: entries.map(json => `data: ${json}\n\n`).join('') }
    },
    return: end,
  }
}
