import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createApp } from '../../src/server/app.ts'
import { describedRoutes } from '../../src/server/openapi.ts'
import { expected, LIVE, type Live, openWorld, REQUESTS, type World } from '../support/access.ts'
import { testGateway } from '../support/gateway.ts'
import type { Asked } from '../support/operations.ts'
import { completion, startUpstream, type Upstream } from '../support/upstream.ts'

const routes = describedRoutes(createApp(await testGateway()))
const named = routes.map(route => [route.operation.id, route] as const)

let upstream: Upstream

beforeAll(async () => {
  upstream = await startUpstream()
  upstream.plan(completion('Hello'))
})

afterAll(() => upstream.close())

/** What a request leaves behind: everything that is kept, and how often the provider was asked. */
const trace = (world: World) => ({ kept: world.kept(), hits: upstream.hits.length })

const requestOf = async (id: string, world: World, actor: keyof World['actors'] = 'operator') => {
  const asked: Asked = (await REQUESTS[id]?.(world.gateway, world.actors[actor])) ?? {}
  return asked
}

test('every operation has a good request here, and no request is of another', () => {
  expect(Object.keys(REQUESTS).sort()).toEqual(routes.map(({ operation }) => operation.id).sort())
})

describe.each(named)('%s', (id, route) => {
  const isGood = (who: Live) => expected(route, who) < 400 || !route.opens
  const changes = route.opens !== undefined && route.method !== 'get'

  test('refuses whom it must, and nothing comes of it', async () => {
    await using world = await openWorld(upstream.url)
    const asked = await requestOf(id, world)
    const before = trace(world)
    const answers: Record<string, number> = {}
    for (const [name, credential] of Object.entries(world.dead)) answers[name] = (await world.ask(route, credential, asked)).status
    expect(answers).toEqual(Object.fromEntries(Object.keys(world.dead).map(name => [name, expected(route, null)])))
    for (const who of LIVE.filter(who => !isGood(who)))
      expect([who, (await world.ask(route, world.live[who], asked)).status]).toEqual([who, expected(route, who)])
    expect(trace(world)).toEqual(before)
  })

  test('answers whom it must', async () => {
    for (const who of LIVE.filter(isGood)) {
      await using world = await openWorld(upstream.url)
      const asked = await requestOf(id, world)
      const before = changes ? undefined : trace(world).kept
      const { status, body } = await world.ask(route, world.live[who], asked)
      expect([who, status, status < 500 || body]).toEqual([who, expected(route, who), true])
      if (before) expect(trace(world).kept).toEqual(before)
    }
  })
})
