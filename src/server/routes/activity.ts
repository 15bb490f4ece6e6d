import { Type } from '@sinclair/typebox'
import type { Gateway } from '../../app/gateway.ts'
import { closeSchema } from '../../base/schema-builders.ts'
import type { ActivityListener } from '../../extensions/activity/listener.ts'
import { MOST_PAST } from '../../extensions/activity.ts'
import type { Actor } from '../../resources/actor.ts'
import { identifyActor, requireManagementKey } from '../access.ts'
import { readQuery } from '../body.ts'
import { findConnection } from '../connections.ts'
import { createEventStreamResponse } from '../event-stream.ts'
import { describeOperation } from '../operation.ts'
import { Routes } from '../routes.ts'

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
export const createActivityRoutes = (gateway: Gateway): Routes =>
  new Routes(requireManagementKey(gateway, true)).get(
    '/activity/stream',
    ({ actor, request }) => {
      const { limit = Number.POSITIVE_INFINITY, past } = readQuery(
        request,
        closeSchema(ActivityQuery),
      )
      if (request.method === 'HEAD') return new Response(null, { headers: HEADERS })
      const { service_name, timeouts } = gateway.config
      const listener = gateway.activity.listen(actor, past)
      const mayRead = watchRights(gateway, request, actor)
      const events = streamEntries(listener, limit, mayRead)
      // Where nothing happens nothing else would end it.
      const render = () => {
        void mayRead().then(may => (may ? undefined : listener.return()))
        return `: ${service_name.toUpperCase()} PROCESSING\n\n`
      }
      const keepAlive = { render, interval: timeouts.keep_alive_seconds * 1000 }
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

/** In milliseconds: how long somebody may go on reading who may not ask any more. */
const RECHECK = 1_000

/** Creates what tells whether an actor may still ask: their key or session holds, as it did. */
function watchRights(gateway: Gateway, request: Request, actor: Actor): () => Promise<boolean> {
  let checkedAt = gateway.clock.ticks()
  let holds = true
  return async () => {
    const now = gateway.clock.ticks()
    if (!holds || now - checkedAt < RECHECK) return holds
    checkedAt = now
    const { kind, workspace_id } = await identifyActor(gateway, request).catch(() => NOBODY)
    holds = kind === actor.kind && workspace_id === actor.workspace_id
    return holds
  }
}

const NOBODY = { kind: null, workspace_id: null }

/**
 * Renders entries as server-sent events. It ends its listener when its reader leaves, or may not
 * read any more.
 */
function streamEntries(
  listener: ActivityListener,
  limit: number,
  mayRead: () => Promise<boolean>,
): AsyncIterator<string> {
  let left = limit
  const end = async () => {
    await listener.return()
    return { done: true, value: undefined } as const
  }
  return {
    async next() {
      if (left <= 0) return end()
      const { done, value } = await listener.next()
      if (done || !(await mayRead())) return end()
      const entries = value.slice(0, left)
      left -= entries.length
      return { done: false, value: entries.map(json => `data: ${json}\n\n`).join('') }
    },
    return: end,
  }
}
