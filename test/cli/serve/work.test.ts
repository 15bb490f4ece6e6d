import { afterAll, afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Gateway, type GatewayParts, openGateway } from '../../../src/app/gateway.ts'
import { listNodes } from '../../../src/app/nodes.ts'
import type { Serving } from '../../../src/cli/commands/serve/serving.ts'
import { Work } from '../../../src/cli/commands/serve/work.ts'
import type { ConfigWatch } from '../../../src/cli/config-file/watch.ts'
import { parseConfig } from '../../../src/config.ts'
import { cancelBatch, getBatch } from '../../../src/extensions/batches.ts'
import { cancelVideo } from '../../../src/extensions/videos.ts'
import { toIncomingResponse } from '../../../src/network/egress.ts'
import { AlertWatch } from '../../../src/observability/alerts/watch.ts'
import { createAlert } from '../../../src/observability/alerts.ts'
import { readHealth } from '../../../src/observability/destinations/failures.ts'
import {
  createDestination,
  deleteDestination,
  pauseDestination,
  resumeDestination,
} from '../../../src/observability/destinations.ts'
import { authenticate, getOperator } from '../../../src/resources/actor.ts'
import type { BlobStore } from '../../../src/resources/files/blobs.ts'
import { updateWorkspace } from '../../../src/resources/workspaces.ts'
import { createMemoryBlobs } from '../../../src/store/blobs/memory.ts'
import type { Worker } from '../../../src/store/postgres/jobs.ts'
import { createApi } from '../../support/api.ts'
import { buildLine, createBatchTools, openBatchHouse } from '../../support/batches.ts'
import { listIds, openBroadcastHouse } from '../../support/broadcast.ts'
import { waitUntil } from '../../support/chat.ts'
import { createTestKeys, TestClock, testGateway } from '../../support/gateway.ts'
import { decodeOutgoing } from '../../support/outgoing.ts'
import { hasPostgres, startPostgres } from '../../support/postgres.ts'
import { SHARED_WORKERS } from '../../support/workers.ts'

const SECRET = 'a secret of tests that is long enough'
const PROVIDER = 'http://127.0.0.1:1/v1'
const HOOK = 'http://127.0.0.2:1/hook'

const CONFIG = {
  security: { allow_private_urls: ['127.0.0.2:1'] },
  providers: { local: { protocol: 'openai-chat', base_url: PROVIDER, api_key: 'mock' } },
  models: [
    {
      id: 'acme/small',
      endpoints: [
        { provider: 'local', model: 'up', usd_per_million_tokens: { prompt: 1, completion: 1 } },
      ],
    },
    {
      id: 'acme/film',
      output_modalities: ['video'],
      endpoints: [
        {
          ...{ provider: 'local', model: 'film-1' },
          usd_per_million_tokens: { prompt: 0, completion: 0, per_second: 0.01 },
        },
      ],
    },
  ],
}

/** A server of the database in this process, without its doors. */
interface Node {
  gateway: Gateway
  work: Work
  /** What it asks outside: the method and the path, and the body. */
  asked: { what: string; body: string }[]
  api: ReturnType<typeof createApi>
}

describe('a server that has stood still, and does not know yet that another has the jobs,', () => {
  /** Has the gateway stand as one of several. Returns what gives the jobs to it, or away. */
  const standBeside = (gateway: Gateway) => {
    const jobs = { isHeld: true }
    gateway.jobs = jobs as unknown as Gateway['jobs']
    return (isHeld: boolean) => Object.assign(jobs, { isHeld })
  }

  test('tells no destination', async () => {
    const house = await openBroadcastHouse()
    const { deliveries } = house.gateway
    const setHeld = standBeside(house.gateway)
    await house.addWebhook()
    await deliveries.start()
    setHeld(false)
    await house.call(2)
    await deliveries.rest()
    expect(house.receiver.requests).toEqual([])
    setHeld(true)
    await house.call()
    await waitUntil(() => house.readAllIds().length === 3)
    await deliveries.stop()
    await house.close()
  })

  test('begins no line of a batch', async () => {
    const { gateway, create, read, runner } = await openBatchHouse()
    const setHeld = standBeside(gateway)
    const { id } = await create([buildLine('a'), buildLine('b')])
    setHeld(false)
    await runner.start()
    await runner.rest()
    expect((await read(id)).status).toBe('validating')
    setHeld(true)
    await runner.rest()
    expect(await read(id)).toMatchObject({ status: 'completed', completed: 2 })
    await runner.stop()
    await gateway.close()
  })

  test('begins no line that it was about to', async () => {
    const { gateway, create, read, runner } = await openBatchHouse()
    const setHeld = standBeside(gateway)
    const { id } = await create([buildLine('a')])
    const { list } = gateway.store.generations
    // It looks whether the line was paid as its last step before.
    gateway.store.generations.list = async (...query) => {
      setHeld(false)
      return list(...query)
    }
    await runner.start()
    await runner.rest()
    expect(await read(id)).toMatchObject({ status: 'in_progress', completed: 0 })
    gateway.store.generations.list = list
    setHeld(true)
    await runner.rest()
    expect(await read(id)).toMatchObject({ status: 'completed', completed: 1 })
    await runner.stop()
    await gateway.close()
  })
})

test('what is logged of batches and of the disk is logged once, however often the work has begun', async () => {
  const gateway = await testGateway()
  const logged: string[] = []
  const log = (_: string, event: string) => void logged.push(event)
  const serving = { gateway, log, succession: null } as unknown as Serving
  const work = new Work(serving, { look: async () => undefined } as unknown as ConfigWatch)
  for (let i = 0; i < 2; i++) {
    await work.start()
    await work.pause()
  }
  await work.start()
  gateway.events.publish('batch.ended', {
    ...{ id: 'b', status: 'completed', completed: 1, failed: 0 },
  } as never)
  gateway.events.publish('write-log.held', { bytes: 1, isHeld: true })
  await work.stopBatches()
  await work.stop()
  await gateway.close()
  expect(logged).toEqual(['batch.ended', 'write-log.held'])
})

test('alerts that could not be watched as the first was made are with the next change', async () => {
  const gateway = await testGateway({ config: CONFIG })
  const serving = { gateway, log: () => undefined, succession: null } as unknown as Serving
  const work = new Work(serving, { look: async () => undefined } as unknown as ConfigWatch)
  await work.start()
  const { alerts } = gateway.store
  const { listWaiting } = alerts
  let isAway = true
  let asked = 0
  alerts.listWaiting = async () => {
    asked += 1
    if (isAway) throw new Error('The store does not answer')
    return listWaiting()
  }
  const to = { type: 'webhook' as const, url: HOOK, secret: 'whsec_MDEyMzQ1Njc4OWFiY2RlZg==' }
  const make = (name: string) =>
    createAlert(gateway, getOperator(gateway), { name, cause: 'provider_empty', to })
  await make('first')
  await waitUntil(() => asked === 1)
  isAway = false
  await make('second')
  await waitUntil(() => asked === 2)
  await work.stopBatches()
  await work.stop()
  await gateway.close()
})

test('what has begun of jobs that cannot all begin is ended with them', async () => {
  let open = 0
  const openRenderer = () => {
    open += 1
    const close = () => {
      open -= 1
    }
    return { render: () => Promise.reject(new Error('no')), close }
  }
  const gateway = await testGateway({ openRenderer: openRenderer as never })
  let worker: Worker | undefined
  const jobs = {
    ...{ isHeld: true, node: 'a', retire: () => undefined, release: async () => worker?.end() },
    async seek(sought: Worker) {
      worker = sought
    },
  }
  gateway.jobs = jobs as unknown as Gateway['jobs']
  const serving = { gateway, log: () => undefined, succession: null } as unknown as Serving
  const work = new Work(serving, { look: async () => undefined } as unknown as ConfigWatch)
  await work.start()
  const { deliveries, videos } = gateway.store
  const fail = async () => {
    throw new Error('The store does not answer')
  }
  const { count } = deliveries
  const { listUntold } = videos
  for (const spoil of [
    () => Object.assign(deliveries, { count: fail }),
    () => Object.assign(videos, { listUntold: fail }),
  ]) {
    spoil()
    await expect(worker?.begin()).rejects.toThrow('does not answer')
    await worker?.end()
    expect(open).toBe(0)
    Object.assign(deliveries, { count })
    Object.assign(videos, { listUntold })
  }
  await worker?.begin()
  expect(open).toBe(1)
  await work.stopBatches()
  await work.stop()
  await gateway.close()
  expect(open).toBe(0)
})

if (await hasPostgres()) {
  const postgres = await startPostgres()
  const root = mkdtempSync(join(tmpdir(), 'gateway-work-'))
  afterAll(async () => {
    await postgres[Symbol.asyncDispose]()
    rmSync(root, { recursive: true, force: true })
  })

  let nodes: Node[]
  /** Where the files of all are. */
  let blobs: BlobStore
  /** How the provider answers to a question about a video, and to a chat. */
  let poll: () => object
  let chat: (body: string) => Promise<Response> | Response
  let keys: Awaited<ReturnType<typeof createTestKeys>>
  beforeEach(async () => {
    nodes = []
    blobs = createMemoryBlobs()
    poll = () => ({ id: 'v', status: 'in_progress' })
    chat = () => Response.json(ANSWER)
    await postgres.empty()
  })
  afterEach(async () => {
    for (const node of nodes.splice(0)) await close(node)
  })

  const close = async ({ work, gateway }: Node) => {
    await work.stopBatches()
    await work.stop()
    await gateway.close()
  }

  /** Opens a server. Its work has not begun. */
  async function open(parts: Partial<GatewayParts> = {}): Promise<Node> {
    const asked: Node['asked'] = []
    const config = parseConfig(JSON.stringify(CONFIG), {})
    const gateway = await openGateway({
      ...SHARED_WORKERS,
      ...{ data: mkdtempSync(join(root, 'data-')), access: 'server', secret: SECRET, blobs },
      deliveryPace: { linger: 0, firstPause: 0, longestPause: 0 },
      pollPace: { firstPause: 20, longestPause: 20, longestRetry: 20 },
      egress: async ({ url, method, body }) => {
        const sent = body === undefined ? '' : decodeOutgoing(body as string)
        asked.push({ what: `${method ?? 'POST'} ${new URL(url).pathname}`, body: sent })
        if (url.startsWith(HOOK)) return toIncomingResponse(new Response())
        if (url.endsWith('/chat/completions')) return toIncomingResponse(await chat(sent))
        const isNew = method !== 'GET'
        return toIncomingResponse(Response.json(isNew ? { id: 'v', status: 'queued' } : poll()))
      },
      ...parts,
      config: {
        ...config,
        storage: { ...config.storage, postgres: { url: postgres.url, connections: 4 } },
      },
    })
    if (nodes.length === 0) keys = await createTestKeys(gateway)
    const serving = { gateway, log: () => undefined, succession: null } as unknown as Serving
    const watch = { look: async () => undefined } as unknown as ConfigWatch
    const api = createApi(gateway, keys.inference)
    const node = { gateway, asked, api, work: new Work(serving, watch) }
    nodes.push(node)
    return node
  }

  /** Opens two servers that work: the first has the jobs. */
  async function openTwo(): Promise<[Node, Node]> {
    const a = await open()
    const b = await open()
    await a.work.start()
    await b.work.start()
    expect([a, b].map(hasJobs)).toEqual([true, false])
    return [a, b]
  }

  const until = (isSo: () => boolean | Promise<boolean>) => waitUntil(isSo, 15)
  const hasJobs = ({ gateway }: Node) => gateway.jobs?.isHeld
  const readJobs = async ({ gateway }: Node) =>
    (await listNodes(gateway)).data.map(({ id, has_jobs }) => ({ id, has_jobs }))
  const countAsked = ({ asked }: Node, what: string) =>
    asked.filter(one => one.what === what).length
  const call = async ({ api }: Node, content = 'Hello') => {
    const messages = [{ role: 'user', content }]
    const { status, json } = await api('POST', '/chat/completions', {
      body: { model: 'acme/small', messages },
    })
    expect(status).toBe(200)
    return json.id as string
  }

  describe('the jobs of several servers', () => {
    test('are with one of them, and at once with another when it leaves', async () => {
      const [a, b] = await openTwo()
      expect((await readJobs(b)).filter(({ has_jobs }) => has_jobs)).toHaveLength(1)
      await a.work.stop()
      await until(() => hasJobs(b) === true)
      expect(hasJobs(a)).toBe(false)
    })

    test('are left by one whose place another has taken', async () => {
      const [a, b] = await openTwo()
      // As the database sees it when the second has claimed them in the silence of the first.
      await postgres.run(
        'update gateway.jobs set (node, incarnation) = (select id, incarnation from gateway.nodes ' +
          'where incarnation <> jobs.incarnation)',
      )
      await until(() => hasJobs(b) === true && hasJobs(a) === false)
    })

    test('are left by its own clock by one that the database has not heard for ten seconds', async () => {
      const clock = new TestClock()
      const a = await open({ clock })
      await a.work.start()
      await postgres.stop()
      clock.pass(10_000)
      expect(hasJobs(a)).toBe(true)
      clock.pass(1)
      expect(hasJobs(a)).toBe(false)
      await postgres.start()
    })

    test('begin anew where a server has stood still that nobody has followed, or has not begun them', async () => {
      const clock = new TestClock()
      const { gateway } = await open({ clock })
      const done: string[] = []
      const begin = async () => {
        if (done.push('begin') === 3) throw new Error('The store does not answer')
      }
      const note = (what: string) => async () => void done.push(what)
      await gateway.jobs?.seek({ begin, look: async () => undefined, end: note('end') })
      clock.pass(10_001)
      await until(() => done.length === 5)
      expect(done).toEqual(['begin', 'end', 'begin', 'end', 'begin'])
    })
  })

  test('a video that another server has begun is followed, and its money stays set aside until it ends', async () => {
    const [a, b] = await openTwo()
    const { status, json } = await b.api('POST', '/videos', {
      body: { model: 'acme/film', prompt: 'A cat' },
    })
    expect(status).toBe(202)
    expect(b.gateway.videos.listHolds()).toHaveLength(1)
    await until(() => a.gateway.videos.size === 1 && countAsked(a, 'GET /v1/videos/v') > 0)
    expect(b.gateway.videos.listHolds()).toHaveLength(1)
    expect(a.gateway.videos.listHolds()).toHaveLength(1)
    poll = () => ({ id: 'v', status: 'completed', seconds: '4' })
    await until(async () => (await b.api('GET', `/videos/${json.id}`)).json.status === 'completed')
    expect(countAsked(b, 'GET /v1/videos/v')).toBe(0)
    await until(() => b.gateway.videos.listHolds().length === 0)
    expect(await postgres.run('select count(*)::int as rows from gateway.ledger')).toEqual([
      { rows: 1 },
    ])
  })

  test('a video that is cancelled elsewhere is ended, and one whose server has left goes on', async () => {
    const [a, b] = await openTwo()
    const body = { model: 'acme/film', prompt: 'A cat' }
    const first = await a.api('POST', '/videos', { body })
    await cancelVideo(b.gateway, getOperator(b.gateway), first.json.id)
    await until(
      async () => (await b.api('GET', `/videos/${first.json.id}`)).json.status === 'cancelled',
    )
    const second = await a.api('POST', '/videos', { body })
    await close(nodes.shift() as Node)
    poll = () => ({ id: 'v', status: 'completed', seconds: '4' })
    await until(
      async () => (await b.api('GET', `/videos/${second.json.id}`)).json.status === 'completed',
    )
  })

  test('a batch that another server was asked for is run, each line once', async () => {
    const [a, b] = await openTwo()
    const actor = authenticate(b.gateway, `Bearer ${keys.inference}`)
    const tools = createBatchTools(b.gateway, actor)
    const names = ['one', 'two', 'three']
    const { id } = await tools.create(names.map(name => buildLine(name, { model: 'acme/small' })))
    await until(async () => (await tools.read(id)).status === 'completed')
    expect(await getBatch(b.gateway, actor, id)).toMatchObject({
      request_counts: { total: 3, completed: 3, failed: 0 },
    })
    expect([a, b].map(node => countAsked(node, 'POST /v1/chat/completions'))).toEqual([3, 0])
  })

  test('a batch that is cancelled elsewhere begins no line any more', async () => {
    const [a, b] = await openTwo()
    const actor = authenticate(b.gateway, `Bearer ${keys.inference}`)
    const tools = createBatchTools(b.gateway, actor)
    const asked = Promise.withResolvers<void>()
    const answer = Promise.withResolvers<Response>()
    chat = () => {
      asked.resolve()
      return answer.promise
    }
    const lines = Array.from({ length: 20 }, (_, i) => buildLine(`${i}`, { model: 'acme/small' }))
    const { id } = await tools.create(lines)
    await asked.promise
    await cancelBatch(b.gateway, actor, id)
    answer.resolve(Response.json(ANSWER))
    chat = () => Response.json(ANSWER)
    await until(async () => (await tools.read(id)).status === 'cancelled')
    expect(countAsked(a, 'POST /v1/chat/completions')).toBeLessThan(20)
  })

  describe('deliveries:', () => {
    const addWebhook = async ({ gateway }: Node) => {
      const operator = getOperator(gateway)
      await updateWorkspace(gateway, operator, gateway.memory.owner.workspace_id, {
        is_observability_broadcast_enabled: true,
      })
      const hook = { type: 'webhook' as const, name: 'hook', config: { url: HOOK } }
      return (await createDestination(gateway, operator, hook)).data.id
    }
    const listTold = ({ asked }: Node) =>
      asked.filter(({ what }) => what === 'POST /hook').flatMap(({ body }) => listIds(body))

    test('calls of another server are told in their order, and it counts them', async () => {
      const [a, b] = await openTwo()
      const id = await addWebhook(b)
      await a.gateway.catchUp()
      const ids: string[] = []
      for (const node of [b, a, b, a, b]) ids.push(await call(node))
      await until(() => listTold(a).length >= ids.length)
      expect(listTold(a)).toEqual(ids)
      expect(listTold(b)).toEqual([])
      await until(async () => (await readHealth(b.gateway)).get(id)?.delivered === ids.length)
      await until(() => a.gateway.deliveries.list()[0]?.waiting === 0)
    })

    test('go on after a silence of the database, though a line of a batch runs for long', async () => {
      const clock = new TestClock()
      const a = await open({ clock })
      await a.work.start()
      await addWebhook(a)
      const asked = Promise.withResolvers<void>()
      const answer = Promise.withResolvers<Response>()
      chat = () => {
        asked.resolve()
        return answer.promise
      }
      const actor = authenticate(a.gateway, `Bearer ${keys.inference}`)
      const tools = createBatchTools(a.gateway, actor)
      const lines = ['one', 'two'].map(name => buildLine(name, { model: 'acme/small' }))
      const { id } = await tools.create(lines)
      await asked.promise
      // So long that it had to leave its jobs, which nobody else has taken.
      clock.pass(10_001)
      chat = () => Response.json(ANSWER)
      await until(() => hasJobs(a) === true)
      const told = await call(a)
      await until(() => listTold(a).includes(told))
      expect((await tools.read(id)).status).toBe('in_progress')
      answer.resolve(Response.json(ANSWER))
      await until(async () => (await tools.read(id)).status === 'completed')
      expect(countAsked(a, 'POST /v1/chat/completions')).toBe(3)
    })

    test('a destination that is paused elsewhere is told nothing, and what waits goes with it', async () => {
      const [a, b] = await openTwo()
      const id = await addWebhook(b)
      await pauseDestination(b.gateway, getOperator(b.gateway), id)
      await a.gateway.catchUp()
      await call(b)
      await until(() => a.gateway.deliveries.list()[0]?.waiting === 1)
      await resumeDestination(b.gateway, getOperator(b.gateway), id)
      await until(() => listTold(a).length === 1)
      await deleteDestination(b.gateway, getOperator(b.gateway), id)
      await until(() => a.gateway.deliveries.list().length === 0)
    })
  })

  test('sums of calls of all servers are the same at each', async () => {
    const [a, b] = await openTwo()
    for (const node of [a, b, b]) await call(node)
    for (const { gateway } of [b, a]) {
      const { json } = await createApi(gateway, keys.management)('POST', '/analytics/query', {
        body: { metrics: ['request_count'] },
      })
      expect(json.data.data).toEqual([{ request_count: 3 }])
    }
  })

  test('an alert is about the calls of all servers', async () => {
    const [a, b] = await openTwo()
    chat = () => new Response('{"error":{"message":"no"}}', { status: 400 })
    const to = { type: 'webhook' as const, url: HOOK, secret: 'whsec_MDEyMzQ1Njc4OWFiY2RlZg==' }
    const operator = getOperator(b.gateway)
    await createAlert(b.gateway, operator, {
      ...{ name: 'mine', cause: 'error_rate', to, thresholds: [0.5], window: 'hourly' },
    })
    await until(() => a.gateway.memory.alerts.size === 1)
    const watch = new AlertWatch(a.gateway)
    expect(await watch.tick()).toBe(false)
    const body = { model: 'acme/small', messages: [{ role: 'user', content: 'Hello' }] }
    for (let i = 0; i < 10; i++) await b.api('POST', '/chat/completions', { body })
    expect(await watch.tick()).toBe(true)
    await watch.stop()
  })

  test('an alert is about what providers say to any server', async () => {
    const [a, b] = await openTwo()
    chat = () => new Response('{"error":{"message":"no"}}', { status: 402 })
    const to = { type: 'webhook' as const, url: HOOK, secret: 'whsec_MDEyMzQ1Njc4OWFiY2RlZg==' }
    const alert = { name: 'mine', cause: 'provider_empty' as const, to }
    await createAlert(b.gateway, getOperator(b.gateway), alert)
    await until(() => a.gateway.memory.alerts.size === 1)
    const watch = new AlertWatch(a.gateway)
    expect(await watch.tick()).toBe(false)
    const body = { model: 'acme/small', messages: [{ role: 'user', content: 'Hello' }] }
    await b.api('POST', '/chat/completions', { body })
    await until(() => watch.tick())
    await watch.stop()
    expect(await postgres.run('select name from gateway.sightings')).toEqual([
      { name: 'empty local' },
    ])
  })

  test('what another server sees is told once, also where it is written after a look', async () => {
    const [{ gateway }] = await openTwo()
    const look = () => gateway.jobs?.listSightings()
    const see = (name: string) =>
      postgres.run(`insert into gateway.sightings values ('${name}', clock_timestamp())
        on conflict (name) do update set seen_at = excluded.seen_at`)
    await see('empty before')
    expect(await look()).toEqual([])
    await postgres.run('begin')
    await see('empty late')
    expect(await look()).toEqual([])
    await postgres.run('commit')
    expect(await look()).toEqual(['empty late'])
    expect(await look()).toEqual([])
    for (const name of ['answers late', 'empty late']) await see(name)
    expect(await look()).toEqual(['answers late', 'empty late'])
    expect(await look()).toEqual([])
  })
} else
  describe('work over Postgres', () => {
    test.skip('Postgres is not installed, and cannot be', () => undefined)
  })

const ANSWER = {
  id: 'x',
  choices: [{ message: { role: 'assistant', content: 'Yes' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 5, completion_tokens: 5 },
}
