import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/base/errors.ts'
import { assignMembers } from '../../src/limits/assignments.ts'
import { createGuardrail } from '../../src/limits/guardrails.ts'
import { getDefaultGuardrailId } from '../../src/resources/default-guardrail.ts'
import { deactivateMember } from '../../src/resources/members.ts'
import { addWorkspaceMembers } from '../../src/resources/workspace-members.ts'
import { createApp } from '../../src/server/app.ts'
import { type DescribedRoute, listDescribedRoutes } from '../../src/server/openapi.ts'
import {
  createForeignResources,
  NAMED_FIELDS,
  toUnknownName,
  toUnknownRequest,
} from '../support/access/foreign.ts'
import {
  type Credential,
  GUARDED,
  getExpectedStatus,
  isAboutFiles,
  isOrganizations,
  LIVE,
  type Live,
  namesResource,
  openWorld,
  REQUESTS,
  type World,
} from '../support/access.ts'
import { testGateway } from '../support/gateway.ts'
import { makeMember, type OperationRequest } from '../support/operations.ts'
import { LONG } from '../support/random.ts'
import { completion, startUpstream, type Upstream } from '../support/upstream.ts'

const routes = listDescribedRoutes(createApp(await testGateway()))
const named = routes.map(route => [route.operation.id, route] as const)

let upstream: Upstream
/** The world of requests for which nothing has to be made before. */
let common: World

beforeAll(async () => {
  upstream = await startUpstream()
  upstream.plan(completion('Hello'))
  common = await openWorld(upstream.url)
})

afterAll(async () => {
  await common[Symbol.asyncDispose]()
  await upstream.close()
})

/** The effects of a request: everything that is stored, and how often the provider was called. */
const trace = (world: World) => ({ kept: world.readStored(), hits: upstream.hits.length })

const requestOf = async (id: string, world: World, actor: keyof World['actors'] = 'operator') => {
  const asked: OperationRequest = (await REQUESTS[id]?.(world.gateway, world.actors[actor])) ?? {}
  return asked
}

const routeOf = (id: string): DescribedRoute => {
  const route = routes.find(({ operation }) => operation.id === id)
  if (!route) throw new Error(`No operation is called ${id}`)
  return route
}

test('every operation has a valid request here, and no request is of another', () => {
  expect(Object.keys(REQUESTS).sort()).toEqual(routes.map(({ operation }) => operation.id).sort())
})

test('X-01 every path has the guard of its kind', () => {
  const wanted = ({ path }: DescribedRoute) =>
    GUARDED.find(([paths]) => paths.test(path))?.[1] ?? null
  const isListed = ({ path }: DescribedRoute) => GUARDED.some(([paths]) => paths.test(path))
  expect(routes.filter(route => !isListed(route)).map(({ path }) => path)).toEqual([])
  expect(routes.map(route => [route.operation.id, route.credential ?? null])).toEqual(
    routes.map(route => [route.operation.id, wanted(route)]),
  )
})

test('every status of a refusal is documented for its operation', () => {
  for (const route of routes)
    for (const who of [...LIVE, null])
      expect([route.operation.id, route.operation.statuses]).toEqual([
        route.operation.id,
        expect.arrayContaining([getExpectedStatus(route, who)]),
      ])
})

describe.each(named)('%s', (id, route) => {
  const isGood = (who: Live) => getExpectedStatus(route, who) < 400 || !route.credential
  const changes = route.credential !== undefined && route.method !== 'get'

  test('X-01 refuses the wrong callers without any effect', async () => {
    const { world, asked } = await askCrowded(id, 'operator', 'refused')
    const before = trace(world)
    const answers: Record<string, number> = {}
    for (const [name, credential] of Object.entries(world.dead))
      answers[name] = (await world.ask(route, credential, asked)).status
    expect(answers).toEqual(
      Object.fromEntries(
        Object.keys(world.dead).map(name => [name, getExpectedStatus(route, null)]),
      ),
    )
    for (const who of LIVE.filter(who => !isGood(who)))
      expect([who, (await world.ask(route, world.live[who], asked)).status]).toEqual([
        who,
        getExpectedStatus(route, who),
      ])
    expect(trace(world)).toEqual(before)
  })

  test('answers the right callers', async () => {
    const good = LIVE.filter(isGood)
    const answer = async (world: World, request: OperationRequest, some: Live[]) => {
      for (const who of some)
        expect([who, (await world.ask(route, world.live[who], request)).status]).toEqual([
          who,
          getExpectedStatus(route, who),
        ])
    }
    if (!changes) {
      const { world, asked } = await askToRead(id)
      // What its request made is recorded a moment later.
      await world.gateway.recorder.flush()
      const before = world.readStored()
      await answer(world, asked, good)
      return expect(world.readStored()).toEqual(before)
    }
    // A slug and a user's name are taken once.
    if (['createWorkspace', 'replaceScimUserResource'].includes(id))
      for (const who of good) {
        await using world = await openWorld(upstream.url)
        await answer(world, await requestOf(id, world), [who])
      }
    else
      for (const who of good) {
        // Each has a request of its own, about what is made for it.
        const own = await askCrowded(id, 'operator', 'changed')
        await answer(own.world, own.asked, [who])
      }
  })
})

/** Sums are written when they are read: with no calls before, there are none. */
const askToRead = async (id: string) =>
  REQUESTS[id]?.length === 0
    ? { world: common, asked: await requestOf(id, common) }
    : askCrowded(id, 'operator', 'read')

/** What the server alone decides, with values that no request makes true. */
const PLANTED = {
  ...{ id: 'planted', hash: 'planted', label: 'planted', kind: 'planted', is_management: true },
  ...{ created_at: 'planted', updated_at: 'planted', creator_user_id: 'planted', version: 987_654 },
  ...{ usage: 987_654, usage_daily: 987_654, byok_usage: 987_654, limit_remaining: 987_654 },
}

test('X-03 what the server alone decides is refused or ignored in every body, and never kept', async () => {
  const tried: string[] = []
  const writing = routes.filter(
    ({ credential, method }) =>
      credential === 'management' && ['post', 'patch', 'put'].includes(method),
  )
  for (const route of writing.filter((_, i) => LONG || i % 3 === 0)) {
    await using world = await openWorld(upstream.url)
    const { body, ...asked } = await requestOf(route.operation.id, world)
    if (body === undefined || body instanceof FormData || Array.isArray(body)) continue
    const request = { ...asked, body: { ...PLANTED, ...body } }
    const { status, body: text } = await world.ask(route, world.live['management key'], request)
    const kept = JSON.stringify(Object.values(world.readStored()), (_, value) =>
      typeof value === 'bigint' ? String(value) : value,
    )
    const found = ['planted', '987654'].filter(one => `${text}${kept}`.includes(one))
    tried.push(route.operation.id)
    expect([route.operation.id, status < 500, found]).toEqual([route.operation.id, true, []])
  }
  expect(tried.length).toBeGreaterThan(LONG ? 20 : 5)
})

/** Routes about a workspace’s things, by whose they are, with those who call from another one. */
const foreign = routes
  // Servers are of every workspace.
  .filter(route => namesResource(route) && route.operation.tag !== 'MCP')
  .flatMap(route =>
    [...Map.groupBy(askersOf(route), ([, whose]) => whose)].map(
      ([whose, askers]) => [route.operation.id, whose, askers.map(([who]) => who), route] as const,
    ),
  )

function askersOf(route: DescribedRoute): [who: Live, whose: keyof World['actors']][] {
  const { credential, method } = route
  if (credential === 'management')
    return (['operator', 'third'] as const).map(whose => ['neighbour’s management key', whose])
  if (!isAboutFiles(route) && (credential !== 'key' || method !== 'get')) return []
  const strangers = ['stranger’s inference key', 'neighbour’s management key'] as const
  const ofDefault = ['inference key', 'management key'] as const
  return [
    ...strangers.map(who => [who, 'operator'] as [Live, 'operator']),
    ...[...strangers, ...ofDefault].map(who => [who, 'third'] as [Live, 'third']),
  ]
}

/** What the default workspace’s management key gets of a call of another workspace. */
const RECORDS: Record<string, number> = { getGeneration: 200, listGenerationContent: 403 }

/** Worlds that many requests share, each about what one actor has: until a name is taken there. */
const crowded: Record<string, World> = {}
afterAll(() => Promise.all(Object.values(crowded).map(world => world[Symbol.asyncDispose]())))

async function askCrowded(
  id: string,
  whose: keyof World['actors'] = 'operator',
  crowd: string = whose,
) {
  const ask = async (world: World) => {
    crowded[crowd] = world
    return { world, asked: await requestOf(id, world, whose) }
  }
  try {
    return await ask(crowded[crowd] ?? (await openWorld(upstream.url)))
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error
    await crowded[crowd]?.[Symbol.asyncDispose]()
    return ask(await openWorld(upstream.url))
  }
}

describe('X-01 X-02 another workspace’s things get, byte by byte, the answer for missing ones:', () => {
  test.each(foreign)('%s, of the %s, by a %s', async (id, whose, askers, route) => {
    const { world, asked } = await askCrowded(id, whose)
    const before = trace(world)
    for (const who of askers) {
      const answer = await world.ask(route, world.live[who], asked)
      // Who sums the calls of all workspaces sees their records, and not what was said in them.
      if (who === 'management key' && RECORDS[id] !== undefined) {
        expect([who, answer.status]).toEqual([who, RECORDS[id]])
        continue
      }
      expect([who, answer.status]).toEqual([who, isOrganizations(route) ? 403 : 404])
      const missing = await world.ask(route, world.live[who], toUnknownRequest(asked))
      expect([who, answer]).toEqual([who, missing])
    }
    expect(trace(world)).toEqual(before)
  })

  const bySlug = routes
    .filter(({ path }) => path.startsWith('/api/v1/workspaces/:id'))
    .map(route => [route.operation.id, route] as const)

  test.each(bySlug)('%s, by the slug', async (id, route) => {
    const { world, asked } = await askCrowded(id)
    const before = trace(world)
    for (const slug of ['default', 'third', 'team']) {
      const named = { ...asked, params: { ...asked.params, id: slug } }
      const answer = await world.ask(route, world.live['neighbour’s management key'], named)
      expect(answer.status).toBe(404)
      expect(answer).toEqual(
        await world.ask(route, world.live['neighbour’s management key'], toUnknownRequest(named)),
      )
    }
    expect(trace(world)).toEqual(before)
  })

  test.each(NAMED_FIELDS)(
    '%s, with the %s in its body or its query',
    async (id, thing, say, status) => {
      await using world = await openWorld(upstream.url)
      const route = routeOf(id)
      const who =
        route.credential === 'management'
          ? 'neighbour’s management key'
          : 'stranger’s inference key'
      const asked = await requestOf(id, world, 'neighbour')
      const theirs = (await createForeignResources(world))[thing]
      const before = trace(world)
      const answer = await world.ask(route, world.live[who], { ...asked, ...say(theirs) })
      expect([answer.status, answer.body]).toEqual([status, expect.not.stringContaining(theirs)])
      expect(answer).toEqual(
        await world.ask(route, world.live[who], { ...asked, ...say(toUnknownName(theirs)) }),
      )
      expect(trace(world)).toEqual(before)
    },
  )

  test('the default guardrail of a workspace, which its first change creates', async () => {
    await using world = await openWorld(upstream.url)
    const id = getDefaultGuardrailId(world.actors.third.workspace_id)
    const before = trace(world)
    for (const one of [
      'getGuardrail',
      'updateGuardrail',
      'deleteGuardrail',
      'listGuardrailKeyAssignments',
    ]) {
      const asked = {
        params: { id },
        ...(one === 'updateGuardrail' ? { body: { enforce_zdr: true } } : {}),
      }
      const answer = await world.ask(routeOf(one), world.live['neighbour’s management key'], asked)
      expect([one, answer.status]).toEqual([one, 404])
      expect(answer).toEqual(
        await world.ask(
          routeOf(one),
          world.live['neighbour’s management key'],
          toUnknownRequest(asked),
        ),
      )
    }
    expect(trace(world)).toEqual(before)
  })

  test('members of any workspace can be added by id, and no workspace loses one', async () => {
    await using world = await openWorld(upstream.url)
    const { gateway, actors, live } = world
    const { member } = await createForeignResources(world)
    await addWorkspaceMembers(gateway, actors.third, 'third', { user_ids: [member] })
    const asked = { params: { id: 'next' }, body: { user_ids: [member] } }
    const before = trace(world)
    const removed = await world.ask(
      routeOf('bulkRemoveWorkspaceMembers'),
      live['neighbour’s management key'],
      asked,
    )
    expect([removed.status, removed.body]).toEqual([200, '{"removed_count":0}'])
    expect(trace(world)).toEqual(before)
    const added = await world.ask(
      routeOf('bulkAddWorkspaceMembers'),
      live['neighbour’s management key'],
      asked,
    )
    expect(JSON.parse(added.body)).toMatchObject({
      added_count: 1,
      data: [{ user_id: member, workspace_id: actors.neighbour.workspace_id }],
    })
    expect(added.body).not.toContain('eve@')
  })

  test('a key is created only for current members of the workspace', async () => {
    await using world = await openWorld(upstream.url)
    const { gateway, actors, live } = world
    const [{ member }, left] = [await createForeignResources(world), (await makeMember(gateway)).id]
    await deactivateMember(gateway, actors.operator, left)
    const make = (creator_user_id: string | null) =>
      world.ask(routeOf('createKeys'), live['neighbour’s management key'], {
        body: { name: 'ci', creator_user_id },
      })
    const refused = await make('nobody')
    expect(refused.status).toBe(400)
    for (const other of [member, left, gateway.memory.owner.user_id])
      expect(await make(other)).toEqual(refused)
    await addWorkspaceMembers(gateway, actors.neighbour, 'next', { user_ids: [member] })
    for (const one of [member, actors.neighbour.user_id, null])
      expect((await make(one)).status).toBe(201)
  })

  test('does not show the guardrail that a member had in the other workspace', async () => {
    await using world = await openWorld(upstream.url)
    const { gateway, actors, live } = world
    const [{ member, guardrail }, own] = [
      await createForeignResources(world),
      (await createGuardrail(gateway, actors.neighbour, { name: 'Own' })).data.id,
    ]
    const before = await world.ask(routeOf('listAudit'), live['neighbour’s management key'])
    for (const id of [guardrail, own])
      await assignMembers(gateway, actors.operator, id, { member_user_ids: [member] })
    expect(await world.ask(routeOf('listAudit'), live['neighbour’s management key'])).toEqual(
      before,
    )
    expect((await world.ask(routeOf('listAudit'), live['management key'])).body).toContain(
      `"before":{"${member}":"${guardrail}"}`,
    )
  })

  test('lists and counts are the same as before it was created', async () => {
    await using world = await openWorld(upstream.url)
    const lists = routes.filter(
      route => route.method === 'get' && route.credential && !namesResource(route),
    )
    const read = async () => {
      const answers: Record<string, unknown> = {}
      for (const who of ['stranger’s inference key', 'neighbour’s management key'] as const)
        for (const route of lists)
          answers[`${route.path}, ${who}`] = await world.ask(route, world.live[who])
      return answers
    }
    const before = await read()
    await createForeignResources(world)
    expect(await read()).toEqual(before)
  })
})

describe('an actor who manages one workspace', () => {
  /**
   * What they may not do in their own: its members belong to the organization, with the guardrail that
   * one has, and they have a key in it themselves.
   */
  const NOT_HIS: Record<string, number> = {
    bulkAssignMembersToGuardrail: 403,
    bulkUnassignMembersFromGuardrail: 403,
    updateGuardrail: 403,
    deleteGuardrail: 403,
    deleteWorkspace: 400,
  }
  const his = named.filter(
    ([, route]) =>
      route.credential === 'management' && !isOrganizations(route) && namesResource(route),
  )

  /** Asks about what is this actor's. What changes a workspace has a world of its own. */
  async function askAbout(
    [id, route]: (typeof his)[number],
    whose: keyof World['actors'],
    who: Live,
  ) {
    if (!route.path.startsWith('/api/v1/workspaces/')) {
      const { world, asked } = await askCrowded(id, whose)
      return (await world.ask(route, world.live[who], asked)).status
    }
    await using world = await openWorld(upstream.url)
    return (await world.ask(route, world.live[who], await requestOf(id, world, whose))).status
  }

  test.each(his)('%s, of their own', async (id, route) => {
    const status = await askAbout([id, route], 'neighbour', 'neighbour’s management key')
    expect(status).toBe(NOT_HIS[id] ?? getExpectedStatus(route, 'management key'))
  })

  test.each(his)('%s, by an actor who manages all', async (id, route) => {
    const status = await askAbout([id, route], 'third', 'management key')
    expect(status).toBe(getExpectedStatus(route, 'management key'))
  })
})

describe('a management key', () => {
  const calls = named.filter(([, { operation }]) => operation.statuses.includes(402))

  test.each(calls)('cannot infer: %s, whole or streamed, with any model', async (id, route) => {
    const world = common
    const { body, ...place } = await requestOf(id, world)
    const before = trace(world)
    for (const more of [
      {},
      { model: 'sandbox/echo' },
      { model: 'acme/unknown' },
      // Kinds of calls that do not have these fields refuse them from every key.
      ...(route.operation.body?.properties?.stream ? [{ stream: true }] : []),
      ...(route.operation.body?.properties?.models ? [{ models: ['acme/small'] }] : []),
    ])
      for (const who of ['management key', 'neighbour’s management key'] as const)
        expect(
          (await world.ask(route, world.live[who], { ...place, body: { ...body, ...more } }))
            .status,
        ).toBe(403)
    expect(trace(world)).toEqual(before)
  })

  test.each(calls)('alone may request a dry run: %s', async (id, route) => {
    const {
      world,
      asked: { body, ...place },
    } = await askCrowded(id)
    const asked = { ...place, body: { ...body, debug: { dry_run: true } } }
    const before = trace(world)
    for (const credential of Object.values(world.dead))
      expect((await world.ask(route, credential, asked)).status).toBe(401)
    for (const who of LIVE) {
      // A key that may not call may do a dry run, and the other way round.
      const status = { 200: 403, 202: 403, 403: 200 }[getExpectedStatus(route, who)] ?? 401
      const isMember = who === 'member’s session'
      expect([who, (await world.ask(route, world.live[who], asked)).status]).toEqual([
        ...[who, isMember ? getExpectedStatus(route, who) : status],
      ])
    }
    expect(trace(world)).toEqual(before)
  })

  test('some calls were made', () => {
    expect(calls.map(([id]) => id)).toContain('sendChatCompletionRequest')
  })
})

describe('a guarded path', () => {
  const guarded = routes.filter(({ credential }) => credential !== undefined)
  const paths = [...new Set(guarded.map(({ path }) => path))]
  const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE']
  // The methods of a path are in the public description.
  test.each(paths)('%s answers other methods only with those it has, to any caller', async path => {
    const world = common
    const own = routes
      .filter(route => isAt(route.path, path))
      .map(({ method }) => method.toUpperCase())
    const before = trace(world)
    for (const method of METHODS.filter(
      method => !own.includes(method) && !(method === 'HEAD' && own.includes('GET')),
    )) {
      const answers = await Promise.all(
        [{}, world.live['management key']].map(who => world.ask({ method, path }, who)),
      )
      expect([method, ...answers.map(({ status }) => status)]).toEqual([method, 405, 405])
      expect(answers[0]).toEqual(answers[1])
      expect(answers[0]?.headers.allow?.split(', ').toSorted()).toEqual(
        [...new Set(own)].toSorted(),
      )
    }
    expect(trace(world)).toEqual(before)
  })

  test.each(
    guarded.filter(({ method }) => method === 'get').map(route => [route.path, route] as const),
  )('%s answers HEAD as GET, without a body', async (_, route) => {
    const world = common
    for (const who of [{}, ...Object.values(world.live)]) {
      const { status, headers } = await world.ask(route, who)
      const head = await world.ask({ ...route, method: 'HEAD' }, who)
      expect([head.status, head.body, head.headers['content-type']]).toEqual([
        status,
        '',
        headers['content-type'],
      ])
    }
  })

  /** Other spellings of a path that could be taken for the same one. */
  const WAYS: [name: string, way: (path: string) => string][] = [
    ['a slash at its end', path => `${path}/`],
    ['two slashes at its end', path => `${path}//`],
    ['two slashes in it', path => path.replace('/v1/', '/v1//')],
    ['two slashes before it', path => `/${path}`],
    [
      'a letter in hexadecimal',
      path => path.replace(/(?<=\/v1\/).*?(?=\/|$)/, part => hexadecimal(part[0]) + part.slice(1)),
    ],
    ['the last letter in hexadecimal', path => path.slice(0, -1) + hexadecimal(path.at(-1))],
    ['a slash in hexadecimal', path => path.replace('/v1/', '/v1%2f')],
    ['the last slash in hexadecimal', path => path.replace(/(?<=.)\/(?=[^/]*$)/, '%2F')],
    ['capitals', path => path.replace(/(?<=\/v1\/)[^:]*/, part => part.toUpperCase())],
    ['a parameter in it', path => path.replace('/v1/', '/v1;x=1/')],
    ['a dot in it', path => path.replace('/v1/', '/v1/./')],
    ['dots in it', path => path.replace('/v1/', '/v1/models/../')],
    ['dots in hexadecimal', path => path.replace('/v1/', '/v1/models/%2e%2e/')],
    ['a backslash', path => path.replace('/v1/', '/v1\\')],
    ['a space at its end', path => `${path}%20`],
    ['a NUL at its end', path => `${path}%00`],
    ['invalid UTF-8 at its end', path => `${path}%ff`],
    ['a broken escape at its end', path => `${path}%zz`],
    ['a suffix', path => `${path}.json`],
  ]

  test.each(WAYS)('with %s stays guarded', async (_, way) => {
    const world = common
    const before = trace(world)
    for (const { path, ...route } of guarded) {
      const [wrong, refused] =
        route.credential === 'management'
          ? (['inference key', 403] as const)
          : (['SCIM token', 401] as const)
      const ask = async (who: Credential) =>
        (await world.ask({ ...route, path: way(path) }, who)).status
      expect([path, [401, 404, 405]]).toEqual([path, expect.arrayContaining([await ask({})])])
      if (route.credential !== 'scim')
        expect([path, [401, refused, 404, 405]]).toEqual([
          path,
          expect.arrayContaining([await ask(world.live[wrong])]),
        ])
    }
    expect(trace(world)).toEqual(before)
  })
})

const hexadecimal = (letter = '') => `%${letter.charCodeAt(0).toString(16)}`

/**
 * Returns whether a route's path is this one, which may be another's pattern: the names of its
 * parameters do not matter.
 */
const isAt = (pattern: string, path: string): boolean => {
  const [wanted, given] = [pattern.split('/'), path.split('/')]
  return (
    wanted.length === given.length &&
    wanted.every((part, i) => part.startsWith(':') || part === given[i])
  )
}
