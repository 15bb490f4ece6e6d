import type { Gateway, GatewayParts } from '../../src/app/gateway.ts'
import type { EventMap } from '../../src/base/events.ts'
import type { DeliveryEnd } from '../../src/observability/destinations/deliveries/queue.ts'
import type { DeliveryCounts } from '../../src/observability/destinations/deliveries/store.ts'
import type { NewDestination } from '../../src/observability/destinations/schema.ts'
import { createDestination } from '../../src/observability/destinations.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { updateWorkspace } from '../../src/resources/workspaces.ts'
import { createApi } from './api.ts'
import { createTestKeys, testGateway } from './gateway.ts'
import { type Receiver, startReceiver } from './receiver.ts'

/** A gateway whose workspace tells a receiver of its calls, without pauses. */
export async function openBroadcastHouse({
  config = {},
  ...parts
}: Partial<Omit<GatewayParts, 'config'>> & { config?: Record<string, unknown> } = {}) {
  const receiver = await startReceiver()
  const gateway = await testGateway({
    deliveryPace: { linger: 0, firstPause: 0, longestPause: 0 },
    ...parts,
    config: { security: { allow_private_urls: [receiver.host] }, ...config },
  })
  const operator = getOperator(gateway)
  const workspace_id = gateway.memory.owner.workspace_id
  await updateWorkspace(gateway, operator, workspace_id, {
    is_observability_broadcast_enabled: true,
  })
  const keys = await createTestKeys(gateway)
  const api = createApi(gateway, keys.inference)
  const house = {
    ...{ gateway, receiver, operator, workspace_id, keys, api },
    /** Adds a webhook that the receiver answers for. */
    addWebhook: async (more: Partial<NewDestination> = {}) =>
      (
        await createDestination(gateway, operator, {
          type: 'webhook',
          name: 'hook',
          config: { url: `${receiver.url}/traces` },
          ...more,
        })
      ).data,
    /** Makes calls one after the other, and returns their ids. */
    async call(count = 1, body: object = {}, key = keys.inference): Promise<string[]> {
      const ids: string[] = []
      for (let i = 0; i < count; i++) {
        const { json } = await api('POST', '/chat/completions', {
          body: {
            model: 'sandbox/echo',
            messages: [{ role: 'user', content: `Call ${i}` }],
            ...body,
          },
          key,
        })
        ids.push(json.id)
      }
      return ids
    },
    /** Lists the ids of the calls that a request has told. */
    readIds: (index: number): string[] => listIds(receiver.requests[index]?.body ?? ''),
    /** Lists the ids of all calls that were told. */
    readAllIds: (): string[] => receiver.requests.flatMap(({ body }) => listIds(body)),
    countAll: async (): Promise<Omit<DeliveryCounts, 'destination_id'>> => {
      const [first] = await gateway.store.deliveries.count()
      const { destination_id: _, ...counts } = first ?? { destination_id: '' }
      return counts as Omit<DeliveryCounts, 'destination_id'>
    },
    close: async () => {
      await gateway.close()
      await receiver.close()
    },
  }
  return house
}

export type BroadcastHouse = Awaited<ReturnType<typeof openBroadcastHouse>>

/** Lists the ids of the calls in an OTLP body, each once. */
export function listIds(body: string): string[] {
  const { resourceSpans } = JSON.parse(body) as OtlpBody
  const ids = resourceSpans.map(({ resource }) => readAttributes(resource)['openrouter.trace.id'])
  return [...new Set(ids as string[])]
}

interface OtlpBody {
  resourceSpans: { resource: Attributed; scopeSpans: { spans: OtlpSpan[] }[] }[]
}
interface Attributed {
  attributes: { key: string; value: Record<string, unknown> }[]
}
export interface OtlpSpan extends Attributed {
  traceId: string
  spanId: string
  parentSpanId?: string
  name: string
  status: { code: number; message?: string }
}

/** Lists the spans of an OTLP body. */
export const listSpans = (body: string): OtlpSpan[] =>
  (JSON.parse(body) as OtlpBody).resourceSpans.flatMap(({ scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) => spans),
  )

/** Reads attributes by their keys. */
export const readAttributes = ({ attributes }: Attributed): Record<string, unknown> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]))

/** Waits for an event that matches. */
export const waitForEvent = <Name extends keyof EventMap>(
  { events }: Gateway,
  name: Name,
  matches: (event: EventMap[Name]) => boolean = () => true,
): Promise<EventMap[Name]> =>
  new Promise(resolve => {
    const remove = events.on(name, event => {
      if (!matches(event)) return
      remove()
      resolve(event)
    })
  })

/** Collects how requests to destinations end, and waits for so many of them. */
export function watchDeliveries(gateway: Gateway) {
  const ends: DeliveryEnd[] = []
  const waiting: { isReached: () => boolean; resolve: () => void }[] = []
  gateway.events.on('delivery.ended', end => {
    ends.push(end)
    for (const one of waiting) if (one.isReached()) one.resolve()
  })
  const waitUntil = (isReached: () => boolean): Promise<void> =>
    new Promise(resolve => {
      if (isReached()) resolve()
      else waiting.push({ isReached, resolve })
    })
  return {
    ends,
    waitFor: (count: number) => waitUntil(() => ends.length >= count),
    /** Waits until so many calls were delivered. */
    waitForCalls: (count: number) =>
      waitUntil(
        () =>
          ends.reduce((sum, end) => sum + (end.verdict === 'delivered' ? end.count : 0), 0) >=
          count,
      ),
  }
}

export type { Receiver }
